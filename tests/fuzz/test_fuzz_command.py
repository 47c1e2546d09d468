"""The command line with arguments and files of any kind: a documented exit code, no traceback."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys

import numpy as np
import pytest
import typer.main
from hypothesis import assume, given
from hypothesis import strategies as st
from mangled import damaged, fuzzed

from tacit.audit import mechanisms as audit_module
from tacit.cli import main
from tacit.cli.app import full_app
from tacit.datasets import demo_votes

DOCUMENTED = {0, 2, 3, 4, 5}
CONFIG = """
[data]
source = "digits"
private = 60
public = 20
[privacy]
epsilon = 4.0
delta = 1e-5
[pate]
n_teachers = 3
queries = 2
"""
SLOW = {"demo", "train", "compare", "segment"}
"""These train: their options are tried with files that are no configurations."""
WAITS = {"cluster"}
"""Options that reach out to other machines."""


def commands():
    """Every command with its options, as Typer knows them."""
    root = typer.main.get_command(full_app())
    found = {}
    for name, command in root.commands.items():
        inner = getattr(command, "commands", None)
        parts = {(name,): command} if inner is None else {(name, k): v for k, v in inner.items()}
        found |= {words: one.params for words, one in parts.items()}
    return found


COMMANDS = commands()
WORDS = st.one_of(
    st.sampled_from(
        ["votes.npz", "votes.csv", "odd.npz", "run.ledger", "labels.csv", "odd.toml", "folder",
         "missing.npz", "new.out", "", ".", "gnmax", "confident-gnmax", "histogram", "predictions",
         "gnmax:sigma=4", "lnmax:gamma=0.1",
         "noisy-sum:sigma=1,rows=2,columns=0",
         "sampled-max:sigma=3,k=2,sampling_rate=0.5", "sanitise:order=nan", "noisy-steps:",
         "gnmax:sigma=1e300", "auto", "rdp", "knn", "digits", "mnist:folder"]
    ),
    st.sampled_from(["0", "1", "2", "10", "-1", "0.5", "1e-5", "40", "nan", "inf", "1e400", "1e-9",
                     "1e-400", "99999999999999999999", "-0.0", "0x10", "true"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
)  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with good and bad files."""
    folder = tmp_path_factory.mktemp("prepared")
    votes = demo_votes(n_queries=10)
    np.savez(folder / "votes.npz", votes=votes)
    np.savetxt(folder / "votes.csv", votes, fmt="%d", delimiter=",")
    (folder / "odd.npz").write_bytes(b"PK\x03\x04 nothing like it")
    (folder / "odd.toml").write_text("[data]\nsource = 5\n")
    (folder / "run.toml").write_text(CONFIG)
    (folder / "folder").mkdir()
    code, _ = in_folder(
        folder,
        ["aggregate", "votes.npz", "--mechanism", "gnmax", "--sigma", "40", "--epsilon", "4",
         "--delta", "1e-5", "--ledger", "run.ledger", "--out", "labels.csv"],
    )  # fmt: skip
    assert code == 0
    return folder


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch):
    monkeypatch.setattr(audit_module, "TRIALS", 200)
    monkeypatch.setenv("COLUMNS", "120")
    return fresh(prepared, tmp_path / "copy")


def fresh(prepared, place):
    shutil.rmtree(place, ignore_errors=True)
    return shutil.copytree(prepared, place)


def in_folder(folder, arguments):
    """Run the command in this process; only SystemExit may leave it."""
    out, err = io.StringIO(), io.StringIO()
    before, argv = os.getcwd(), sys.argv
    os.chdir(folder)
    sys.argv = ["tacit", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
        code = 0
    except SystemExit as stop:
        code = 0 if stop.code is None else stop.code
    finally:
        os.chdir(before)
        sys.argv = argv
    return code, err.getvalue()


def check(folder, arguments):
    code, err = in_folder(folder, arguments)
    assert code in DOCUMENTED, (code, err)
    assert "Traceback" not in err
    if code in (3, 4):
        assert err.count("\n") == 1


@fuzzed
@given(data=st.data())
def test_arguments_of_any_kind(folder, data):
    words = data.draw(st.sampled_from(sorted(set(COMMANDS) - {("demo",)})))
    arguments = list(words)
    for parameter in COMMANDS[words]:
        if parameter.name in WAITS or not data.draw(st.integers(0, 2)):
            continue
        if parameter.param_type_name == "argument":
            arguments.append(data.draw(WORDS))
        elif getattr(parameter, "is_flag", False):
            arguments.append(parameter.opts[0])
        else:
            arguments += [parameter.opts[0], data.draw(WORDS)]
    assume(words[0] not in SLOW or not {"run.toml", "digits"} & set(arguments))
    assume(words[-1] != "officer" or "--password-file" in arguments)  # it would ask for one
    check(folder, arguments)


@fuzzed
@given(arguments=st.lists(WORDS | st.sampled_from(["plan", "ledger", "--json", "--help"])))
def test_words_in_any_order(folder, arguments):
    assume(not SLOW & set(arguments))
    check(folder, arguments)


GOOD = {
    "aggregate": ["aggregate", "FILE", "--mechanism", "gnmax", "--sigma", "40", "--epsilon", "4",
                  "--delta", "1e-5", "--ledger", "new.ledger", "--out", "new.csv"],
    "sanitise": ["sanitise", "FILE", "--labels", "labels.csv", "--ledger", "run.ledger",
                 "--out", "new.json"],
    "analyze": ["analyze", "FILE", "--secret", "--mechanism", "gnmax", "--sigma", "40",
                "--delta", "1e-5"],
}  # fmt: skip


@pytest.mark.parametrize("command", GOOD)
@fuzzed
@given(data=st.data())
def test_damaged_votes(prepared, folder, command, data):
    name = data.draw(st.sampled_from(["votes.npz", "votes.csv"]))
    fresh(prepared, folder)
    (folder / f"bad-{name}").write_bytes(data.draw(damaged((folder / name).read_bytes())))
    extra = ["--format", "histogram"] if name.endswith("csv") else []
    check(folder, [f"bad-{name}" if word == "FILE" else word for word in GOOD[command]] + extra)


@pytest.mark.parametrize("words", [("ledger", "show"), ("ledger", "verify"), ("report",)])
@fuzzed
@given(data=st.data())
def test_damaged_ledgers(prepared, folder, words, data):
    fresh(prepared, folder)
    path = folder / "run.ledger"
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    out = ["--out", "report.html"] if words == ("report",) else []
    check(folder, [*words, "run.ledger", *out])


@fuzzed
@given(data=st.data())
def test_damaged_labels(prepared, folder, data):
    fresh(prepared, folder)
    (folder / "labels.csv").write_bytes(
        data.draw(damaged((folder / "labels.csv").read_bytes(), b"index,label\n0,1\n"))
    )
    check(folder, ["votes.npz" if word == "FILE" else word for word in GOOD["sanitise"]])


@fuzzed
@given(data=st.data())
def test_damaged_configurations(folder, data):
    """A small run: most damage is refused before anything is trained."""
    (folder / "bad.toml").write_bytes(data.draw(damaged(CONFIG.encode())))
    shutil.rmtree(folder / "new", ignore_errors=True)
    command = data.draw(st.sampled_from(["train", "audit"]))
    check(folder, [command, "bad.toml", "--out", "new"])
