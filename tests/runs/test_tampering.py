"""Every way to tamper with a run or its archive, generated from their files, is found and named.

Whoever changes everything (files, the last line of the ledger, the head that is shown) is found by
a head that was kept elsewhere, or by a signature, and by nothing else.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from tampered import (
    changed,
    consistent,
    edits,
    lines_of,
    new_manifest,
    put_ledger,
    replace_seal,
    reseal,
    show,
)
from test_evaluating import OPTIONS, write

from tacit import Ledger
from tacit.export import export_onnx
from tacit.ledger import digest
from tacit.runs import (
    RunConfig,
    evaluate_run,
    package_run,
    publish_also,
    run_config,
    verify_run,
)
from tacit.runs import standalone_verify as standalone
from tacit.runs.sealing import REWRITTEN

UNREADABLE = ("format", "kind", "noise", "budget", "worst_case_epsilon")
RUN_JSON = ("statement.json", "evaluation.json", "metrics.json", "report.json")
PACKAGE_JSON = ("statement.json", "evaluation.json", "metrics.json", "statement.schema.json")


def made(place: Path, seed: int, epsilon: float) -> Path:
    """Make a run with everything that a run may publish."""
    place.mkdir()
    for name, n, more in (("private", 400, 0), ("public", 60, 1), ("apart", 300, 2)):
        write(place / f"{name}.csv", n, 3 * seed + more)
    source = {"source": str(place / "private.csv"), "public_source": str(place / "public.csv")}
    config = RunConfig.parse(
        {
            "method": "moments",
            "data": {**source, "options": OPTIONS},
            "privacy": {"epsilon": epsilon, "delta": 1e-5},
        }
    )
    run = place / "run"
    run_config(config, run)
    evaluate_run(run, str(place / "apart.csv"), epsilon=4.0, n_records=300, disjoint=True)
    publish_also(run, lambda path: export_onnx(run, path))
    return run


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    place = tmp_path_factory.mktemp("honest")
    key = place / "key"
    runs = {"run": made(place / "one", 1, 4.0), "other": made(place / "two", 2, 400.0)}
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (place / "signers").write_text(f"officer@clinic {key.with_suffix('.pub').read_text()}")
    for name, run in runs.items():
        package_run(run, place / f"{name}.zip", sign=key)
        with zipfile.ZipFile(place / f"{name}.zip") as archive:
            archive.extractall(place / f"{name}-package")
    return place


@pytest.fixture
def run(honest, tmp_path):
    return shutil.copytree(honest / "one" / "run", tmp_path / "run")


@pytest.fixture
def other(honest):
    return honest / "two" / "run"


@pytest.fixture
def signed(honest, tmp_path):
    return shutil.copytree(honest / "run-package", tmp_path / "package")


@pytest.fixture
def package(signed):
    """Return an archive that nobody signed: a signature finds every change by itself."""
    (signed / "manifest.json.sig").unlink()
    return signed


def head_of(run):
    return Ledger(run / "run.ledger").head


def found(run, head=None):
    """Return what `tacit verify` says fails, a line each."""
    return [f"{each.what}: {each.says}" for each in verify_run(run, head=head) if not each.holds]


def found_in(package, capsys, head=None, signers=None):
    """Return what verify.py says fails, a line each."""
    capsys.readouterr()
    code = standalone.main(package, head, signers)
    lines = [x for x in capsys.readouterr().out.splitlines() if x.startswith("FAILED")]
    assert bool(lines) == bool(code)
    return lines


def named(lines, *words):
    """Tell whether a line names one of the words."""
    return any(word in line for line in lines for word in words)


def names_in(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def each_restored(folder, name, texts):
    """Put each of these texts into a file for a while."""
    before = (folder / name).read_bytes()
    for what, text in texts:
        (folder / name).write_text(text, encoding="utf-8")
        yield what
    (folder / name).write_bytes(before)


def json_edits(folder, name, deep=9, **how):
    plain = json.loads((folder / name).read_text(encoding="utf-8"))
    return [(what, text_of(made, **how)) for what, made in edits(plain) if what.count(".") < deep]


def text_of(made, end="", **how):
    return json.dumps(made, ensure_ascii=False, **how) + end


class TestRun:
    def test_what_nobody_touched_holds(self, run):
        assert found(run) == found(run, head_of(run)) == []

    @pytest.mark.parametrize("name", RUN_JSON)
    def test_every_field(self, run, name):
        head, tried = head_of(run), 0
        for what in each_restored(run, name, json_edits(run, name, 2)):
            tried += 1
            assert named(found(run, head), name), what
        assert tried >= 12
        assert found(run) == []

    def test_every_file_missing_or_of_another_run(self, run, other):
        head, names = head_of(run), names_in(run)
        assert set(names) == set(names_in(other))
        for name in names:
            before = (run / name).read_bytes()
            shutil.copy(other / name, run / name)
            what = {
                "run.ledger": "exchanged",
                "run.ledger-head": "exchanged",
                "evaluation.payer": "no such entries",
            }.get(name, name)
            assert named(found(run, head), what), name
            if name not in ("run.ledger", "run.ledger-head", "evaluation.payer"):
                (run / name).unlink()
                assert named(found(run, head), name), name
            (run / name).write_bytes(before)
        assert found(run) == []

    def test_a_ledger_of_another_run_with_its_memory(self, run, other):
        head = head_of(run)
        for path in other.glob("run.ledger*"):
            shutil.copy(path, run / path.name)
        assert named(found(run), "student.tacit")
        assert named(found(run, head), "head: is not the one that you gave")

    def test_a_ledger_cut_anywhere(self, run):
        head, lines = head_of(run), lines_of(run / "run.ledger")
        for kept in range(1, len(lines)):
            put_ledger(run / "run.ledger", lines[:kept])
            assert found(run), kept
            assert named(found(run, head), "head: is not the one that you gave"), kept
        put_ledger(run / "run.ledger", lines)
        assert found(run) == []

    def test_every_line_changed_and_the_chain_made_consistent(self, run):
        head, lines = head_of(run), lines_of(run / "run.ledger")
        for place in range(len(lines)):
            field = "purpose" if place else "dataset"
            made = consistent(lines, place, lambda line, f=field: line.update({f: "x"}))
            put_ledger(run / "run.ledger", made)
            assert found(run), place
            assert named(found(run, head), "head: is not the one that you gave"), place

    def test_files_and_last_line_together_only_an_outside_head_shows(self, run, other):
        """All of it is written anew: nothing inside differs from anything else inside."""
        head = head_of(run)
        for name in ("student.tacit", "metrics.json", "model.onnx"):
            shutil.copy(other / name, run / name)
        assert replace_seal(run) != head
        assert found(run) == []
        assert named(found(run, head), "head: is not the one that you gave")

    @pytest.mark.parametrize(
        "name", ["config.toml", "student.tacit", "model.onnx", "metrics.json", "evaluation.json"]
    )
    def test_a_file_that_was_sealed_again_is_not_the_one_that_was_signed(self, run, other, name):
        head = head_of(run)
        shutil.copy(other / name, run / name)
        reseal(run)
        assert named(found(run, head), f"head: {name}: is another file"), name

    def test_a_page_that_was_sealed_again_is_named(self, run):
        """A later publication writes pages anew: the head that was given is not about them."""
        head = head_of(run)
        for name in set(REWRITTEN) - {"statement.json"}:
            (run / name).write_bytes((run / name).read_bytes() + b" ")
        reseal(run)
        assert found(run, head) == []
        said = [each.what for each in verify_run(run, head=head) if "written anew" in each.says]
        assert said == [f"head: {name}" for name in sorted(REWRITTEN)]

    def test_another_honest_run_in_whole(self, run, other):
        assert found(other) == []
        assert named(found(other, head_of(run)), "head: is not the one that you gave")

    def test_a_head_of_nothing(self, run):
        entries = Ledger(run / "run.ledger").entries()
        for head in ("0" * 64, "", entries[0].hash, Ledger(run / "run.ledger").origin):
            assert named(found(run, head), "head: is not the one that you gave"), head

    def test_zeros_for_the_head_are_no_head(self, run):
        show(run, head_of(run), "0" * 64)
        assert named(found(run), "shows zeros where the head should be")


class TestWhatIsDerived:
    """Claims that were noted and sealed by whoever owns the ledger, and do not follow from it."""

    def test_every_field_of_a_statement_but_its_library(self, run):
        edited = json_edits(run, "statement.json", indent=2, end="\n")
        for what in each_restored(run, "statement.json", edited):
            field, _, how = what.rpartition(" ")
            head = replace_seal(run)
            lines = found(run)
            if field == "library" and how == "changed":
                assert lines == []
                continue
            assert named(lines, "statement:"), what
            if how == "changed" and field not in UNREADABLE and "." not in field:
                assert named(lines, f"another {field}"), what
            assert head == head_of(run)

    @pytest.mark.parametrize(
        "claim",
        [
            {"kind": "sanitised", "epsilon": 0.01, "worst_case_epsilon": 4.0, "assumes": []},
            {"adjacency": "replace one village"},
            {"covers": "nothing"},
            {"assumes": []},
            {"accountant": "divination"},
            {"warnings": []},
        ],
        ids=str,
    )
    def test_a_forged_claim(self, run, package, claim, capsys):
        said = json.loads((run / "statement.json").read_text()) | claim
        for folder in (run, package):
            (folder / "statement.json").write_text(json.dumps(said))
        new_manifest(package)
        assert named(found_in(package, capsys), "statement.json")
        assert named(found(run), "statement.json")
        reseal(run)
        assert named(found(run), *(f"another {name}" for name in claim), "no sanitised cost",
                     "noted a sanitised cost")  # fmt: skip

    @pytest.mark.parametrize(
        "field", ["epsilon", "delta", "sigma", "entries", "tables.scores", "figures"]
    )
    def test_an_invented_evaluation(self, run, field):
        told = json.loads((run / "evaluation.json").read_text())
        first, _, second = field.partition(".")
        if second:
            told[first][second][0][0] += 1.0
        elif first == "figures":
            told["figures"]["area under the ROC curve"]["value"] = 0.999
        else:
            told[first] = changed(told[first])
        (run / "evaluation.json").write_text(json.dumps(told))
        replace_seal(run)
        assert named(found(run), "what paid for evaluation.json"), found(run)


class TestPackage:
    def test_what_nobody_touched_holds(self, honest, run, signed, capsys):
        assert found_in(signed, capsys, head_of(run), str(honest / "signers")) == []

    @pytest.mark.parametrize("name", PACKAGE_JSON)
    def test_every_field(self, package, capsys, name):
        deep = 1 if name == "statement.schema.json" else 9  # one hash of the whole is compared
        for what in each_restored(package, name, json_edits(package, name, deep)):
            new_manifest(package)
            assert named(found_in(package, capsys), name), what

    def test_every_field_of_the_manifest(self, honest, signed, capsys):
        signers = str(honest / "signers")
        for what in each_restored(signed, "manifest.json", json_edits(signed, "manifest.json")):
            field = what.split(" ")[0].removeprefix("files.").removesuffix("_more")
            lines = found_in(signed, capsys, None, signers)
            assert named(lines, "FAILED  signature"), what
            lines = [line for line in lines if "signature" not in line]
            assert named(lines, "manifest", "more", field), what

    def test_every_field_of_every_line_of_the_ledger(self, package, capsys):
        lines = (package / "ledger.jsonl").read_text().splitlines()
        texts = []
        for place, line in enumerate(lines):
            for what, made in edits(json.loads(line)):
                if what.count(".") > 1:
                    continue
                text = "\n".join([*lines[:place], json.dumps(made), *lines[place + 1 :], ""])
                texts.append((f"{place} {what}", text))
        for what in each_restored(package, "ledger.jsonl", texts):
            new_manifest(package)
            assert found_in(package, capsys), what

    def test_a_ledger_cut_anywhere_and_a_consistent_one(self, run, package, capsys):
        head = head_of(run)
        lines = (package / "ledger.jsonl").read_text().splitlines()
        texts = [(kept, "\n".join([*lines[:kept], ""])) for kept in range(len(lines))]
        for place in range(len(lines)):
            field = "purpose" if place else "dataset"
            made = consistent(lines, place, lambda line, f=field: line.update({f: "x"}))
            texts.append((f"{place} changed", "\n".join([*made, ""])))
        for what in each_restored(package, "ledger.jsonl", texts):
            new_manifest(package)
            assert found_in(package, capsys), what
            assert named(found_in(package, capsys, head), "head"), what

    def test_every_file_missing_or_of_another_archive(self, honest, package, capsys):
        for name in names_in(package):
            before = (package / name).read_bytes()
            theirs = honest / "other-package" / name
            if theirs.read_bytes() != before:
                shutil.copy(theirs, package / name)
                if name != "manifest.json":
                    new_manifest(package)
                assert named(found_in(package, capsys), name, "ledger", "chain", "manifest"), name
            (package / name).unlink()
            if name != "manifest.json":
                new_manifest(package)
            assert named(found_in(package, capsys), name), name
            (package / name).write_bytes(before)
            new_manifest(package)
        assert found_in(package, capsys) == []

    def test_everything_together_only_a_head_or_a_signature_shows(
        self, honest, package, run, other, capsys
    ):
        head = head_of(run)
        shutil.copy(other / "student.tacit", package / "student.tacit")
        lines = (package / "ledger.jsonl").read_text().splitlines()
        known = {"student.tacit": standalone.file_sha256(package / "student.tacit")}
        made = consistent(lines, len(lines) - 1, lambda line: line["about"]["files"].update(known))
        (package / "ledger.jsonl").write_text("\n".join([*made, ""]))
        show(package, head, digest(made[-1]))
        new_manifest(package, head=digest(made[-1]))
        assert found_in(package, capsys) == []
        assert named(found_in(package, capsys, head), "head: it is not the one given")
        signers = str(honest / "signers")
        assert named(found_in(package, capsys, None, signers), "nobody signed this archive")

    def test_another_program_only_a_signature_shows(self, honest, signed, run, capsys):
        (signed / "verify.py").write_text("print('ok      everything')")
        new_manifest(signed)
        assert named(found_in(signed, capsys, head_of(run)), "signature")
        (signed / "manifest.json.sig").unlink()
        assert found_in(signed, capsys, head_of(run)) == []
        assert found_in(signed, capsys, None, str(honest / "signers"))

    def test_another_honest_archive_in_whole(self, honest, run, capsys):
        theirs = honest / "other-package"
        assert found_in(theirs, capsys) == []
        assert named(found_in(theirs, capsys, head_of(run)), "head: it is not the one given")

    def test_a_signature_by_nobody_who_is_known(self, honest, signed, tmp_path, capsys):
        stranger = tmp_path / "stranger"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", stranger], check=True)
        (tmp_path / "signers").write_text(f"x {stranger.with_suffix('.pub').read_text()}")
        assert found_in(signed, capsys) == []
        assert named(found_in(signed, capsys, None, str(tmp_path / "signers")), "signature")
