"""A run that was tampered with is found out, by tacit and by the file that travels with it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tacit import Budget, GNMax, Ledger, Plan, Statement
from tacit.errors import InvalidArgument
from tacit.runs import DataConfig, PrivacyConfig, RunConfig, package_run, run_config, verify_run
from tacit.runs import standalone_verify as standalone


def run_in(folder: Path, epsilon: float, **settings: object) -> Path:
    config = RunConfig(
        data=DataConfig(source="digits", private=300, public=60),
        privacy=PrivacyConfig(epsilon=epsilon, delta=1e-5),
        method="prototype",
        settings={"n_prototypes": 20, **settings},
    )
    run_config(config, folder)
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> dict[str, Path]:
    """Return two runs on the same records: one careful, one that protects nobody."""
    place = tmp_path_factory.mktemp("runs")
    return {
        "careful": run_in(place / "careful", 1.0),
        "careless": run_in(place / "careless", 1e6),
    }


@pytest.fixture
def run(finished, tmp_path) -> Path:
    return shutil.copytree(finished["careful"], tmp_path / "run")


def failed(run: Path) -> dict[str, str]:
    return {check.what: check.says for check in verify_run(run) if not check.holds}


def test_a_finished_run_holds_together(run):
    assert failed(run) == {}
    assert [check.what for check in verify_run(run)][:3] == ["ledger", "seal", "statement"]


def test_a_longer_ledger_is_fine(run):
    ledger = Ledger(run / "run.ledger")
    ledger.publish("0" * 64, purpose="publish a poster")
    assert failed(run) == {}


@pytest.mark.parametrize("name", ["config.toml", "student.tacit", "metrics.json", "report.html"])
def test_a_file_of_another_run_is_found(run, finished, name):
    shutil.copy(finished["careless"] / name, run / name)
    assert "another file than the ledger says" in failed(run)[name]


def test_a_missing_file_is_found(run):
    (run / "report.html").unlink()
    assert "is missing" in failed(run)["report.html"]


def test_a_missing_statement_is_found(run):
    (run / "statement.json").unlink()
    assert "there is none" in failed(run)["statement"]
    assert "is missing" in failed(run)["statement.json"]


@pytest.mark.parametrize(
    ("name", "value"), [("epsilon", 0.01), ("unit", "village"), ("adjacency", "anything")]
)
def test_an_edited_statement_is_found_twice(run, name, value):
    said = json.loads((run / "statement.json").read_text())
    (run / "statement.json").write_text(json.dumps(said | {name: value}))
    assert f"another {name}" in failed(run)["statement"]
    assert "statement.json" in failed(run)


def test_a_statement_of_another_ledger_is_found(run, finished):
    shutil.copy(finished["careless"] / "statement.json", run / "statement.json")
    assert "another epsilon" in failed(run)["statement"]
    assert "statement.json" in failed(run)


def test_a_ledger_of_another_run_is_found(run, finished):
    shutil.copy(finished["careless"] / "run.ledger", run / "run.ledger")
    assert "exchanged" in failed(run)["ledger"]
    shutil.copy(finished["careless"] / "run.ledger-head", run / "run.ledger-head")
    assert {"statement", "student.tacit", "report.html"} <= failed(run).keys()


def test_a_ledger_that_was_cut_short_is_found(run, tmp_path):
    """An older copy, from before the files were published; and one from before the release."""
    (run / "run.ledger").unlink()
    (run / "run.ledger-head").unlink()
    Ledger(run / "run.ledger", budget=Budget(1.0, 1e-5))
    assert "no seal of this run" in failed(run)["statement"]


def test_a_ledger_that_went_on_says_so(run):
    ledger = Ledger(run / "run.ledger", budget=Budget(1.0, 1e-5))
    with ledger.release(Plan(GNMax(1e9), 1), purpose="one more"):
        pass
    assert failed(run) == {}
    assert any("gone on" in check.says for check in verify_run(run))


def test_a_kept_release_that_is_gone_is_found(run):
    (run / "releases" / "1.npz").unlink()
    assert "is missing" in failed(run)["releases/1.npz"]


def test_a_damaged_ledger_is_found(run):
    path = run / "run.ledger"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert set(failed(run)) == {"ledger"}


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="no such folder"):
        verify_run(tmp_path / "nothing")
    with pytest.raises(InvalidArgument, match=r"no run\.ledger"):
        verify_run(tmp_path)


class TestStatementAtAHead:
    def test_is_what_the_ledger_said_then(self, tmp_path):
        ledger = Ledger(tmp_path / "a.ledger", budget=Budget(4, 1e-5))
        said = [ledger.statement()]
        for sigma in (60, 50):
            with ledger.release(Plan(GNMax(sigma), 10), purpose="label", faults=[f"f{sigma}"]):
                pass
            said.append(ledger.statement())
            ledger.publish("a" * 64, purpose="publish")
        assert [ledger.statement(head=each.head) for each in said] == said

    def test_publishing_costs_nothing_and_wants_a_hash(self, tmp_path):
        ledger = Ledger(tmp_path / "a.ledger", plans=[Plan(GNMax(60), 10)], budget=Budget(4, 1e-5))
        entry = ledger.publish("b" * 64, purpose="publish student.tacit")
        assert (entry.kind, entry.cost, ledger.spent()) == ("publication", 0.0, 0.0)
        with ledger.release(Plan(GNMax(60), 10), purpose="the fixed list is still at its start"):
            pass
        for wrong in ("B" * 64, "b" * 63, None):
            with pytest.raises(InvalidArgument, match="sha256"):
                ledger.publish(wrong, purpose="publish")
        assert len(ledger) == 2


class TestPackage:
    @pytest.fixture
    def unpacked(self, run, tmp_path) -> Path:
        package_run(run, tmp_path / "run.zip")
        with zipfile.ZipFile(tmp_path / "run.zip") as archive:
            archive.extractall(tmp_path / "unpacked")
        return tmp_path / "unpacked"

    def seal(self, folder: Path) -> None:
        """Make the manifest anew, as somebody would who hides a change."""
        names = [path.name for path in folder.iterdir() if path.name != "manifest.json"]
        hashes = {name: standalone.sha256((folder / name).read_bytes()) for name in names}
        (folder / "manifest.json").write_text(json.dumps({"files": hashes}))

    def test_verifies_itself_with_nothing_but_python(self, unpacked):
        command = [sys.executable, "-I", "-S", "verify.py"]
        done = subprocess.run(command, cwd=unpacked, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "FAILED" not in done.stdout
        assert "proves epsilon = 1" in done.stdout

    def test_the_same_run_gives_the_same_bytes(self, run, tmp_path):
        for name in ("a.zip", "b.zip"):
            package_run(run, tmp_path / name)
        assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()

    def test_the_card_says_what_a_reader_asks(self, unpacked):
        card = (unpacked / "MODEL_CARD.md").read_text(encoding="utf-8")
        for part in ("One of 10 classes", "How good it is", "epsilon = 1 at delta", "- [ ] "):
            assert part in card

    def test_a_run_that_does_not_hold_together_is_refused(self, run, tmp_path):
        (run / "report.html").write_text("all is well")
        with pytest.raises(InvalidArgument, match=r"report\.html.*Nothing was written"):
            package_run(run, tmp_path / "run.zip")
        assert not (tmp_path / "run.zip").exists()

    @pytest.mark.parametrize("name", ["student.tacit", "statement.json", "report.html"])
    @pytest.mark.parametrize("sealed", [False, True])
    def test_an_exchanged_file_is_found(self, unpacked, finished, capsys, name, sealed):
        shutil.copy(finished["careless"] / name, unpacked / name)
        if sealed:
            self.seal(unpacked)
        assert standalone.main(unpacked) == 1
        assert "FAILED" in capsys.readouterr().out

    def test_a_smaller_epsilon_is_found(self, unpacked, capsys):
        said = json.loads((unpacked / "statement.json").read_text())
        (unpacked / "statement.json").write_text(json.dumps(said | {"epsilon": 0.99}))
        self.seal(unpacked)
        assert standalone.main(unpacked) == 1
        assert "does not prove epsilon = 0.99" in capsys.readouterr().out

    @pytest.mark.parametrize("place", [0, 1, -1])
    def test_an_edited_or_missing_line_of_the_ledger_is_found(self, unpacked, capsys, place):
        lines = (unpacked / "ledger.jsonl").read_text().splitlines(keepends=True)
        kept = lines[:-1] if place == -1 else lines
        if place >= 0:
            kept[place] = kept[place].replace('"library":"', '"library":"9')
        (unpacked / "ledger.jsonl").write_text("".join(kept))
        self.seal(unpacked)
        assert standalone.main(unpacked) == 1
        assert "FAILED" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("file", "old", "new"),
        [
            ("statement.json", '"noise": "exact"', '"noise": "csprng"'),
            ("statement.json", '"kind"', '"epsilon": 0.1, "kind"'),
            ("statement.json", '"epsilon": 1.0', '"epsilon": NaN'),
            ("manifest.json", '"MODEL_CARD.md"', '"../MODEL_CARD.md"'),
        ],
    )
    def test_odd_words_are_found(self, unpacked, capsys, file, old, new):
        text = (unpacked / file).read_text()
        assert old in text
        (unpacked / file).write_text(text.replace(old, new, 1))
        if file != "manifest.json":
            self.seal(unpacked)
        assert standalone.main(unpacked) == 1
        assert "FAILED" in capsys.readouterr().out

    def test_a_student_that_was_noted_after_the_statement_is_found(self, run, finished, tmp_path):
        content = (finished["careless"] / "student.tacit").read_bytes()
        package_run(run, tmp_path / "run.zip")
        with zipfile.ZipFile(tmp_path / "run.zip") as archive:
            archive.extractall(tmp_path / "out")
        ledger = Ledger(run / "run.ledger")
        ledger.publish(standalone.sha256(content), purpose="publish student.tacit")
        (tmp_path / "out" / "ledger.jsonl").write_text(ledger.extract())
        (tmp_path / "out" / "student.tacit").write_bytes(content)
        self.seal(tmp_path / "out")
        assert standalone.main(tmp_path / "out") == 1

    def test_a_stray_file_is_found(self, unpacked, capsys):
        (unpacked / "more.txt").write_text("?")
        assert standalone.main(unpacked) == 1
        assert "does not name more.txt" in capsys.readouterr().out


class TestStandaloneClaims:
    """What verify.py computes is what the ledgers of each accountant say."""

    def outcome(self, ledger: Ledger, folder: Path, claim: float) -> list[str]:
        folder.mkdir(exist_ok=True)
        (folder / "ledger.jsonl").write_text(ledger.extract())
        said = json.loads(ledger.statement().to_json()) | {"epsilon": claim}
        (folder / "statement.json").write_text(json.dumps(said))
        return list(standalone.check_statement(folder))

    @pytest.mark.parametrize("accountant", ["gaussian", "rdp", "fixed"])
    @pytest.mark.parametrize("epsilon", [0.1, 2.0, 80.0])
    def test_the_claim_holds_and_a_smaller_one_does_not(self, tmp_path, accountant, epsilon):
        plan = Plan(GNMax(2000 / epsilon), 10)
        more = {"plans": [plan]} if accountant == "fixed" else {"accountant": accountant}
        path = tmp_path / f"{accountant}.ledger"
        ledger = Ledger(path, budget=Budget(epsilon, 1e-5), **more)
        with ledger.release(plan, purpose="label"):
            pass
        spent = ledger.spent()
        lines = self.outcome(ledger, tmp_path / "out", spent)
        assert any("NOT computed again" in line for line in lines) is (accountant != "gaussian")
        with pytest.raises(ValueError, match="epsilon"):
            self.outcome(ledger, tmp_path / "out", spent * 0.999)

    @pytest.mark.parametrize(
        "change",
        [
            {"reserved_delta": -0.9},
            {"accountant": "anything"},
            {"accountant": "rdp", "order": 1.0},
            {"delta": 2.0},
        ],
    )
    def test_odd_headers_are_refused(self, tmp_path, change):
        ledger = Ledger(tmp_path / "a.ledger", budget=Budget(1, 1e-5))
        header = json.loads(ledger.extract().splitlines()[0]) | change
        (tmp_path / "ledger.jsonl").write_text(json.dumps(header) + "\n")
        with pytest.raises(ValueError, match="header"):
            standalone.read_chain(tmp_path)

    def test_plans_without_questions_or_noise_are_refused(self):
        plan = Plan(GNMax(40), 10).as_dict()
        with pytest.raises(ValueError, match="asks nothing"):
            standalone.mu_squared(plan | {"queries": 0})
        with pytest.raises(ValueError, match="no noise"):
            standalone.mu_squared(plan | {"parameters": {"sigma": float("nan")}})

    def test_a_price_below_the_plans_is_found(self):
        plan = Plan(GNMax(40), 10).as_dict()
        assert standalone.mu_squared(plan) == pytest.approx(Plan(GNMax(40), 10).mu_squared())
        with pytest.raises(ValueError, match="says less"):
            list(standalone.check_prices([{"plan": plan, "cost": 0.001, "sequence": 1}]))

    @pytest.mark.parametrize("x", [-40.0, -9.0, -8.0, -7.9, -1.0, 3.0])
    def test_the_normal_distribution(self, x):
        from scipy.special import log_ndtr

        assert standalone.log_phi(x) == pytest.approx(float(log_ndtr(x)), rel=1e-11)


def test_a_statement_of_every_kind_reads_back(run):
    text = (run / "statement.json").read_text(encoding="utf-8")
    assert Statement.from_json(text).to_json() + "\n" == text
