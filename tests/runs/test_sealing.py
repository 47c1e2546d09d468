"""One head for a run: where it is shown, what moves it, and runs that have none yet."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tampered import consistent, put_ledger

from tacit import Budget, Ledger, Plan
from tacit.errors import InvalidArgument
from tacit.ledger import Statement, sanitised_statement
from tacit.mechanisms import Sanitise, SecretCost
from tacit.runs import (
    DataConfig,
    PrivacyConfig,
    RunConfig,
    package_run,
    publish_also,
    run_config,
    sealing,
    train_student,
    verify_run,
)
from tacit.runs import standalone_verify as standalone

OLD = Path(__file__).with_name("run_0_2.zip")
OLD_HEAD = "4779bc0c4bd9eeb2b3a37cfb4f33369ec74892fbb365ad83e1219fa04bf93896"


def config(**privacy) -> RunConfig:
    return RunConfig(
        data=DataConfig(source="digits", private=300, public=60),
        privacy=PrivacyConfig(**{"epsilon": 2.0, "delta": 1e-5, **privacy}),
        settings={
            **{"n_teachers": 20, "queries": 10, "features": "digits", "teacher": "kernel-ridge"},
            "mechanism": "gnmax",
        },
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sealed") / "run"
    run_config(config(), folder)
    return folder


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def failed(run, head=None):
    return [check.what for check in verify_run(run, head=head) if not check.holds]


def last(run):
    return Ledger(run / "run.ledger").entries()[-1]


def test_one_head_and_no_other_is_shown(run, tmp_path):
    seal = last(run)
    entries = {entry.hash for entry in Ledger(run / "run.ledger").entries()}
    known = {*seal.about["files"].values(), Ledger(run / "run.ledger").origin, *entries}
    package_run(run, tmp_path / "run.zip")
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        assert json.loads(archive.read("manifest.json"))["head"] == seal.hash
    for name in ("report.html", "MODEL_CARD.md"):
        text = (run / name).read_text(encoding="utf-8")
        assert f"with head {seal.hash}" in text
        assert set(re.findall(r"\b[0-9a-f]{64}\b", text)) <= known
        assert not set(re.findall(r"head (?:is\s+)?([0-9a-f]{64})", text)) - {seal.hash}
    assert "head" not in json.loads((run / "statement.json").read_text())


def test_the_report_lists_the_hashes_of_the_other_files(run):
    page = (run / "report.html").read_text(encoding="utf-8")
    for name, sha256 in last(run).about["files"].items():
        assert (f"<td>{name}</td>" in page and sha256 in page) is (name != "report.html")


def test_a_later_publication_has_a_head_of_its_own_and_the_older_one_still_verifies(run):
    old = last(run).hash
    said = publish_also(run, lambda path: path.write_bytes(b"a model"))
    assert said.head == last(run).hash != old
    assert failed(run) == failed(run, old) == failed(run, said.head) == []
    assert "model.onnx" in last(run).about["files"]
    page = (run / "report.html").read_text(encoding="utf-8")
    assert old in page  # among the entries, as a line of the table
    assert f"with head {old}" not in page
    assert f"with head {said.head}" in page


def test_an_archive_of_a_later_publication_takes_the_older_head_too(run, tmp_path, capsys):
    old = last(run).hash
    publish_also(run, lambda path: path.write_bytes(b"a model"))
    package_run(run, tmp_path / "run.zip")
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        archive.extractall(tmp_path / "out")
    assert standalone.main(tmp_path / "out", old) == 0
    assert "report.html was written anew since" in capsys.readouterr().out
    publish_also(run, lambda path: path.write_bytes(b"another model"))
    package_run(run, tmp_path / "run.zip")
    shutil.rmtree(tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        archive.extractall(tmp_path / "out")
    assert standalone.main(tmp_path / "out", old) == 0
    middle = [e.hash for e in Ledger(run / "run.ledger").entries() if e.kind == "seal"][1]
    assert standalone.main(tmp_path / "out", middle) == 1
    assert "model.onnx is another file than the one under" in capsys.readouterr().out
    assert failed(run, middle) == ["head: model.onnx"]


def test_a_further_student_leaves_the_runs_head_alone(run):
    old = last(run).hash
    other = train_student(run, student="logistic")
    assert failed(run, old) == failed(other.folder, other.statement.head) == []
    assert failed(other.folder, old) == ["head"]
    assert last(run).about["run"] == "students/logistic/"


def test_another_run_that_writes_meanwhile_is_waited_for(run, monkeypatch):
    ledger, made, times = Ledger(run / "run.ledger"), sealing.model_card, []

    def meanwhile(*given, **more):
        times.append(given)
        if len(times) < 3:
            ledger.publish("ab" * 32, purpose="publish a poster")
        return made(*given, **more)

    monkeypatch.setattr(sealing, "model_card", meanwhile)
    publish_also(run, lambda path: path.write_bytes(b"a model"))
    assert len(times) == 3
    assert failed(run) == []


def test_what_was_staged_and_not_sealed_is_forgotten(run, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "seal", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            publish_also(run, lambda path: path.write_bytes(b"a model"))
    assert (run / sealing.STAGED).is_dir()
    assert failed(run) == []
    assert not (run / sealing.STAGED).exists()
    assert not (run / "model.onnx").exists()


def test_staged_files_that_nobody_sealed_are_not_taken(run):
    (run / sealing.STAGED).mkdir()
    shutil.copy(run / "statement.json", run / sealing.STAGED)
    (run / sealing.STAGED / "student.tacit").write_bytes(b"another")
    assert failed(run) == []
    assert (run / "student.tacit").read_bytes() != b"another"


def test_a_sanitised_cost_is_noted_published_and_derived(tmp_path):
    place = tmp_path / "all.ledger"
    book = Ledger(place, budget=Budget(20.0, 1e-5), reserved_delta=2e-6, unit="record")
    run = tmp_path / "run"
    run_config(config(ledger=str(place)), run)
    (paid,) = (entry for entry in book.entries() if entry.is_paid)
    order = book.sanitise_order
    made = Sanitise(order=order, beta=0.03, sigma=6.0, sigma_log=0.15, delta_value=1e-6,
                    delta_scale=1e-6, covers=paid.hash)  # fmt: skip
    with book.release(Plan(made, 1), purpose="publish the cost") as grant:
        release = grant.release(SecretCost(1e-6, 1e-7, order, 0.03))
    sanitised_statement(book, [release])
    worst = last_statement(run)
    with pytest.raises(InvalidArgument, match="have to claim more"):
        publish_also(run, lambda path: path.write_bytes(b"a model"))
    said = publish_also(run, kind="sanitised")
    assert (worst.kind, said.kind) == ("worst-case", "sanitised")
    assert said.worst_case_epsilon == book.spent()
    assert failed(run, said.head) == []
    assert replace(said, head=None) == last_statement(run)
    forged = replace(last_statement(run), epsilon=0.01, assumes=())
    forged.write(run / "statement.json")
    assert {"statement", "statement.json"} <= set(failed(run))


def last_statement(run):
    return Statement.from_json((run / "statement.json").read_text(encoding="utf-8"))


def test_a_key_that_does_not_sign_is_refused(run, tmp_path):
    (tmp_path / "key").write_text("no key")
    for key, why in ((tmp_path / "none", "there is no file"), (tmp_path / "key", "says: ")):
        with pytest.raises(InvalidArgument, match=why):
            package_run(run, tmp_path / "run.zip", sign=key)
    assert not (tmp_path / "run.zip").exists()


class TestRunOf02:
    @pytest.fixture
    def old(self, tmp_path):
        with zipfile.ZipFile(OLD) as archive:
            archive.extractall(tmp_path)
        return tmp_path / "run"

    def test_it_verifies_with_and_without_its_head(self, old):
        assert failed(old) == failed(old, OLD_HEAD) == []
        assert last_statement(old).head == OLD_HEAD
        assert failed(old, "0" * 64) == ["head"]
        (old / "student.tacit").write_bytes(b"another")
        assert failed(old) == ["student.tacit"]

    def test_a_model_that_was_exchanged_and_noted_is_found_by_the_head(self, old):
        """Without a seal, a head is about what was noted before it, and about nothing else."""
        ledger, said = Ledger(old / "run.ledger"), json.loads((old / "statement.json").read_text())
        (old / "student.tacit").write_bytes(b"another model")
        for name in ("student.tacit", "statement.json"):
            if name == "statement.json":
                now = ledger.statement()
                text = json.dumps(said | {"head": now.head, "entries": now.entries})
                (old / name).write_text(text)
            ledger.publish(sealing.file_sha256(old / name), purpose=f"publish {name}")
        assert "head: student.tacit" in failed(old, OLD_HEAD)

    @pytest.mark.parametrize(
        "claim", [{"assumes": []}, {"covers": "nothing"}, {"epsilon": 0.01}], ids=str
    )
    def test_a_forged_claim_that_its_ledger_notes_is_found(self, old, claim):
        said = json.loads((old / "statement.json").read_text()) | claim
        ledger = Ledger(old / "run.ledger")
        lines = ledger.extract().splitlines()
        (old / "statement.json").write_text(json.dumps(said))
        known = standalone.file_sha256(old / "statement.json")
        end = len(lines) - 1
        made = consistent(lines, end, lambda line: line["about"].update(sha256=known))
        put_ledger(old / "run.ledger", made)
        assert failed(old) == ["statement"]

    def test_its_archive_verifies_with_the_program_in_it(self, old):
        command = [sys.executable, "-I", "-S", "verify.py"]
        place = old.parent / "package"
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def test_packaging_seals_it_and_the_old_head_still_verifies(self, old, tmp_path, capsys):
        _, head = package_run(old, tmp_path / "run.zip")
        assert failed(old, head) == failed(old, OLD_HEAD) == []
        assert "0.2 wrote this run" in (old / "report.html").read_text(encoding="utf-8")
        with zipfile.ZipFile(tmp_path / "run.zip") as archive:
            archive.extractall(tmp_path / "out")
        assert standalone.main(tmp_path / "out", head) == 0
        assert standalone.main(tmp_path / "out", OLD_HEAD) == 0
        assert "is older" in capsys.readouterr().out
        student = np.frombuffer((old / "student.tacit").read_bytes(), dtype=np.uint8)
        (old / "student.tacit").write_bytes(student[:-1].tobytes())
        assert "student.tacit" in failed(old, OLD_HEAD)

    def test_its_student_is_exported_and_sealed(self, old):
        said = publish_also(old, lambda path: path.write_bytes(b"a model"))
        assert failed(old, said.head) == failed(old, OLD_HEAD) == []
        assert last_statement(old).head is None
