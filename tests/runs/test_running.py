"""Configured runs: what a directory holds, what is refused, and how a stopped run continues."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Ledger, Statement
from tacit.errors import InvalidArgument
from tacit.runs import running as runs
from tacit.runs.config import DataConfig, PrivacyConfig, RunConfig
from tacit.students import load_student


def config(**changes: object) -> RunConfig:
    return RunConfig(
        data=DataConfig(source="digits", private=1000, public=200),
        privacy=PrivacyConfig(epsilon=2.0, delta=1e-5),
        settings={
            "n_teachers": 40,
            "queries": 10,
            "features": "digits",
            "teacher": "kernel-ridge",
            **changes,
        },
    )


def test_a_run_leaves_what_may_be_kept_and_nothing_secret(tmp_path):
    result = runs.run_config(config(), tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        "config.toml",
        "releases",
        "run.ledger",
        "run.ledger-head",
        "statement.json",
        "student.tacit",
        "metrics.json",
        "report.html",
        "report.json",
        "MODEL_CARD.md",
    }
    assert RunConfig.read(tmp_path / "run" / "config.toml") == config()
    statement = Statement.from_json((tmp_path / "run" / "statement.json").read_text())
    assert statement == replace(result.statement, head=None)
    seal = Ledger(tmp_path / "run" / "run.ledger").entries()[-1]
    assert (seal.kind, seal.hash, seal.sequence) == ("seal", result.statement.head, 2)
    assert set(seal.about["files"]) == {
        *(names - {"run.ledger", "run.ledger-head", "releases"}),
        "releases/1.npz",
    }
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["accuracy"] == result.accuracy > 0.5
    data = runs.load_dataset("digits")
    held_out = runs.split_rows(config(), len(data.y)).held_out
    student = load_student(tmp_path / "run" / "student.tacit")
    assert (student.predict(data.X[held_out]) == data.y[held_out]).mean() == pytest.approx(
        result.accuracy
    )
    shares = [(data.y[held_out] == label).mean() for label in range(10)]
    assert metrics["most_frequent"] == result.most_frequent == max(shares)
    assert f"most frequent label, reaches {100 * max(shares):.1f} %" in (
        tmp_path / "run" / "report.html"
    ).read_text(encoding="utf-8")


def test_a_finished_run_is_not_repeated(tmp_path):
    runs.run_config(config(), tmp_path / "run")
    with pytest.raises(InvalidArgument, match="never overwrites"):
        runs.run_config(config(), tmp_path / "run")


def test_a_stopped_run_continues_with_its_teachers(tmp_path, monkeypatch):
    class Stopped(Exception):
        pass

    def stop(*arguments, **named):
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr("tacit.methods.pate.count_votes", stop)
        with pytest.raises(Stopped):
            runs.run_config(config(), tmp_path / "run")
    kept = sorted((tmp_path / "run" / "teachers").iterdir())
    assert kept
    assert (tmp_path / "run" / "teachers").stat().st_mode & 0o077 == 0
    with pytest.raises(InvalidArgument, match="this very run"):
        runs.run_config(config(queries=11), tmp_path / "run")
    assert runs.run_config(config(), tmp_path / "run").accuracy > 0.5
    assert not (tmp_path / "run" / "teachers").exists()


def test_an_empty_folder_is_as_good_as_a_new_one(tmp_path):
    """Stopped between the making of the folder and the first file in it."""
    (tmp_path / "run").mkdir()
    runs.enter(tmp_path / "run", "one")
    runs.enter(tmp_path / "run", "one")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["config.toml"]
    with pytest.raises(InvalidArgument, match="this very run"):
        runs.enter(tmp_path / "run", "two")
    assert (tmp_path / "run" / "config.toml").read_text() == "one"


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgument, match="new or empty"):
        runs.enter(tmp_path, "one")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(InvalidArgument, match="there is a file of that name"):
        runs.enter(tmp_path / "notes.txt", "one")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_of_two_runs_in_one_empty_folder_one_enters(tmp_path, monkeypatch):
    """The other comes when the folder still looks empty, and must not replace the first."""
    monkeypatch.setattr(runs, "any", lambda names: False, raising=False)
    runs.enter(tmp_path / "run", "one")
    with pytest.raises(InvalidArgument, match="this very run"):
        runs.enter(tmp_path / "run", "two")
    assert (tmp_path / "run" / "config.toml").read_text() == "one"


def test_a_crash_after_the_release_costs_nothing_more(tmp_path, monkeypatch):
    def crash(*arguments, **named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tacit.methods.pate.label_posterior", crash)
        with pytest.raises(KeyboardInterrupt):
            runs.run_config(config(), tmp_path / "run")
    (paid,) = Ledger(tmp_path / "run" / "run.ledger").entries()
    result = runs.run_config(config(), tmp_path / "run")
    assert [each for each in result.ledger.entries() if each.is_paid] == [paid]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("method = 'magic'", "data"),
        ("nonsense", "TOML"),
        ("[data]\nsource='digits'\nprivate=10\npublic=10", "privacy"),
        (
            "[data]\nsource='digits'\nprivate=10\npublic=10\nextra=1\n"
            "[privacy]\nepsilon=1\ndelta=1e-5",
            "extra",
        ),
        (
            "[data]\nsource='digits'\nprivate=10\npublic=10\n[privacy]\nepsilon=0\ndelta=1e-5",
            "epsilon",
        ),
        (
            "[data]\nsource='digits'\nprivate='x'\npublic=10\n[privacy]\nepsilon=1\ndelta=1e-5",
            "private",
        ),
        (
            "[data]\nsource='digits'\nprivate=10\npublic=10\n[privacy]\nepsilon=1\ndelta=1e-5\n"
            "[pate]\nstudent='parrot'",
            "student",
        ),
        ("[data]\nsource='digits'\n[privacy]\nepsilon=1\ndelta=1e-5", "public_source"),
        (
            "[data]\nsource='digits'\nprivate=9\npublic=9\noptions=3\n"
            "[privacy]\nepsilon=1\ndelta=1e-5",
            "options",
        ),
        (
            "[data]\nsource='digits'\nprivate=9\npublic=9\nheld_out_source='digits'\n"
            "[privacy]\nepsilon=1\ndelta=1e-5",
            "public_source",
        ),
    ],
)
def test_bad_configurations_name_what_is_wrong(tmp_path: Path, text: str, complaint: str):
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(InvalidArgument, match=complaint):
        RunConfig.read(tmp_path / "run.toml")


@given(
    st.recursive(
        st.one_of(st.text(), st.integers(-(2**40), 2**40), st.booleans(), st.floats(-1e9, 1e9)),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
@settings(max_examples=100, deadline=None)
def test_any_option_survives_being_written(value):
    given_options = {"numeric": value, "a key with spaces \x7f": [1.5, "ä\U0001f600\n"]}
    written = RunConfig(
        data=DataConfig("csv:x", public_source="csv:y", options=given_options),
        privacy=PrivacyConfig(1.0, 1e-5),
    )
    assert RunConfig.parse(tomllib.loads(written.to_toml())) == written


def test_held_out_rows_must_be_of_the_same_kind(tmp_path):
    kinds = {"private": [0, 1], "public": [0, 1], "held_out": [0, 1, 2]}
    for place, (name, classes) in enumerate(kinds.items()):
        np.savez(tmp_path / f"{name}.npz", x=np.eye(4) + place, y=[0, 1, 1, 0], classes=classes)
    mixed = RunConfig(
        data=DataConfig(
            f"npz:{tmp_path / 'private.npz'}",
            public_source=f"npz:{tmp_path / 'public.npz'}",
            held_out_source=f"npz:{tmp_path / 'held_out.npz'}",
        ),
        privacy=PrivacyConfig(1.0, 1e-5),
    )
    with pytest.raises(InvalidArgument, match="features and classes of source"):
        runs.run_config(mixed, tmp_path / "run")
    assert not (tmp_path / "run").exists()


class TestPrivateFilesAreNotPublic:
    """A student may hold public inputs as they are; a score on private rows is theirs."""

    @pytest.fixture
    def files(self, tmp_path):
        rng = np.random.default_rng(0)
        for name in ("inside", "outside"):
            X = rng.normal(size=(30, 3))
            np.savez(tmp_path / f"{name}.npz", X=X, y=np.arange(30) % 2)
        (tmp_path / "copy.npz").write_bytes((tmp_path / "inside.npz").read_bytes())
        (tmp_path / "link.npz").symlink_to(tmp_path / "inside.npz")
        return tmp_path

    def rows(self, folder, public, held_out=""):
        data = DataConfig(
            source=f"npz:{folder / 'inside.npz'}",
            public_source=f"npz:{folder / public}",
            held_out_source=f"npz:{folder / held_out}" if held_out else "",
            options={"classes": [0, 1]},
        )
        return runs.load_rows(replace(config(), data=data))

    @pytest.mark.parametrize("same", ["inside.npz", "copy.npz", "link.npz", "../inside.npz"])
    def test_one_file_is_not_two(self, files, same):
        if same.startswith(".."):
            (files / "below").mkdir()
            same = "below/../inside.npz"
        with pytest.raises(InvalidArgument, match=r"public_source=.*another file than source"):
            self.rows(files, same)
        with pytest.raises(InvalidArgument, match=r"held_out_source=.*another file than source"):
            self.rows(files, "outside.npz", same)

    def test_other_files_may_be_public_and_held_out(self, files):
        rows = self.rows(files, "outside.npz", "outside.npz")
        assert len(rows.public) == len(rows.held_out.y) == 30

    def test_a_private_row_among_those_held_out_is_refused(self, files):
        mixed = dict(np.load(files / "inside.npz"))
        mixed["X"][1:] += 1.0
        np.savez(files / "mixed.npz", **mixed)
        with pytest.raises(InvalidArgument, match="equals a held-out one"):
            self.rows(files, "outside.npz", "mixed.npz")


def test_rows_are_split_once_each():
    split = runs.split_rows(config(), 1797)
    rows = np.concatenate([split.private, split.public, split.held_out])
    assert sorted(rows.tolist()) == list(range(1797))
    with pytest.raises(InvalidArgument, match="hold out; there are too few"):
        runs.split_rows(config(), 1200)


def test_kernels_of_unscaled_columns_are_refused(tmp_path):
    """With ages beside incomes, no row has a neighbour: teachers would guess, silently."""
    table = {"target": "sick", "classes": ["no", "yes"], "numeric": ["age", "income"]}
    (tmp_path / "rows.csv").write_text("age,income,sick\n" + "30,40000,no\n50,90000,yes\n" * 20)
    (tmp_path / "more.csv").write_text("age,income\n31,40000\n51,90000\n")
    where = DataConfig(
        source=f"csv:{tmp_path / 'rows.csv'}",
        public_source=f"csv:{tmp_path / 'more.csv'}",
        options=table,
    )
    made = RunConfig(
        data=where,
        privacy=PrivacyConfig(2.0, 1e-5),
        settings={"n_teachers": 4, "teacher": "kernel-ridge"},
    )
    with pytest.raises(InvalidArgument, match="features = 'bins'"):
        runs.run_config(made, tmp_path / "run")
    assert not (tmp_path / "run").exists()
