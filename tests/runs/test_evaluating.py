"""`tacit evaluate` on a finished run: who pays, what is written, what verify finds."""

from __future__ import annotations

import os
import shutil
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tacit import Ledger
from tacit.cli.evaluate import evaluate as command
from tacit.cli.evaluate import show_forecast
from tacit.errors import BudgetExceeded, InvalidArgument
from tacit.ledger import Budget, best_order
from tacit.runs import (
    RunConfig,
    evaluate_run,
    package_run,
    run_config,
    standalone_verify,
    verify_run,
)
from tacit.runs.evaluating import _label

OPTIONS = {"target": "ill", "classes": ["no", "yes"], "numeric": {"a": [-1, 0, 1], "b": [-1, 0, 1]}}


def write(path, n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = X[:, 0] - 1 + rng.logistic(size=n) > 0
    rows = [f"{a:.8f},{b:.8f},{'yes' if t else 'no'}" for (a, b), t in zip(X, y, strict=True)]
    path.write_text("a,b,ill\n" + "\n".join(rows) + "\n")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    place = tmp_path_factory.mktemp("evaluated")
    for name, n, seed in (("private", 2000, 1), ("public", 300, 2), ("apart", 1500, 3)):
        write(place / f"{name}.csv", n, seed)
    config = RunConfig.parse(
        {
            "method": "moments",
            "data": {
                "source": str(place / "private.csv"),
                "public_source": str(place / "public.csv"),
                "options": OPTIONS,
            },
            "privacy": {"epsilon": 1.0, "delta": 1e-5},
        }
    )
    run_config(config, place / "run")
    return place


@pytest.fixture
def run(finished, tmp_path):
    shutil.copytree(finished / "run", tmp_path / "run")
    shutil.copy(finished / "apart.csv", tmp_path)
    return tmp_path / "run", str(tmp_path / "apart.csv")


def people(apart):
    """The ledger of those kept apart stands beside them."""
    return Ledger(f"{apart}.ledger")


def failed(folder):
    return [check.what for check in verify_run(folder) if not check.holds]


def test_a_ledger_of_their_own_pays_and_everything_belongs_together(run, capsys):
    folder, apart = run
    before = Ledger(folder / "run.ledger").spent()
    result = evaluate_run(folder, apart, epsilon=1.0, n_records=1500, share=0.3, disjoint=True)
    assert failed(folder) == []
    assert Ledger(folder / "run.ledger").spent() == before
    assert people(apart).spent() == pytest.approx(1.0, rel=1e-3)
    assert "nobody looked" in str(result.statement)
    page = (folder / "evaluation.html").read_text(encoding="utf-8")
    assert "area under the ROC curve" in page
    assert "<svg" in page
    assert "Not measured" not in page
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "How good it is on private records" in report
    assert "evaluation.html beside this page" in report
    assert "Not measured" not in report
    assert report.count("<svg") > 2
    with zipfile.ZipFile(_packaged(folder)) as archive:
        assert {"evaluation.json", "evaluation.html", "report.html"} <= set(archive.namelist())
        assert "area under the ROC curve" in archive.read("MODEL_CARD.md").decode()
        archive.extractall(folder.parent / "package")
    assert all(standalone_verify.check_files(folder.parent / "package"))
    (folder.parent / "package" / "evaluation.html").write_text("<p>99 %</p>")
    with pytest.raises(ValueError, match=r"evaluation\.html is not"):
        list(standalone_verify.check_files(folder.parent / "package"))
    command(folder, threshold=0.3).print(as_json=False)
    assert "Confusion matrix" in capsys.readouterr().out
    assert "figures" in command(folder).plain
    with pytest.raises(InvalidArgument, match="not evaluated yet"):
        evaluate_run(folder, apart, epsilon=1.0, n_records=1500, disjoint=True)


def test_whichever_run_they_judge_the_same_people_pay_from_one_budget(run):
    folder, apart = run
    second = folder.parent / "second"
    shutil.copytree(folder, second)
    asked = {"epsilon": 1.0, "n_records": 1500, "share": 0.3, "disjoint": True}
    evaluate_run(folder, apart, **asked)
    os.symlink(apart, folder.parent / "also.csv")
    for same in (apart, f"csv:{apart}", str(folder.parent / "also.csv")):
        with pytest.raises(BudgetExceeded, match="hide it"):
            evaluate_run(second, same, **asked)
    assert people(apart).spent() == pytest.approx(1.0, rel=1e-3)
    with pytest.raises(InvalidArgument, match="--disjoint"):
        evaluate_run(second, apart, epsilon=0.1, n_records=1500, ledger=f"{apart}.ledger")


def test_a_larger_budget_for_them_is_made_beforehand(run):
    folder, apart = run
    Ledger(f"{apart}.ledger", budget=Budget(3.0, 1e-5), unit="record", dataset="apart.csv")
    for name in ("second", "third"):
        shutil.copytree(folder, folder.parent / name)
        found = evaluate_run(
            folder.parent / name, apart, epsilon=1.0, n_records=1500, share=0.3, disjoint=True
        )
    assert 1.0 < found.ledger.spent() < 3.0
    assert found.statement.epsilon == found.ledger.spent()


def test_what_was_edited_or_did_not_pay_is_found(run):
    folder, apart = run
    evaluate_run(folder, apart, epsilon=1.0, n_records=1500, share=0.3, disjoint=True)
    for name in ("evaluation.json", "evaluation.html", "evaluation/1.npz"):
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data + b" ")
        assert name in failed(folder)
        (folder / name).write_bytes(data)
    os.unlink(f"{apart}.ledger")
    assert failed(folder) == ["what paid for evaluation.json"]


def _packaged(folder):
    package_run(folder, folder.parent / "run.zip")
    return folder.parent / "run.zip"


def test_the_ledger_that_paid_for_both_has_one_report(finished, tmp_path):
    """And a report that somebody else wrote is not taken over, before anything is spent."""
    folder, apart = tmp_path / "run", str(finished / "apart.csv")
    order = best_order(Budget(1.0, 1e-5), 1e-5)
    Ledger(tmp_path / "all.ledger", budget=Budget(5.0, 1e-5), accountant="rdp", order=order)
    shared = RunConfig.of_finished(finished / "run")
    privacy = replace(shared.privacy, ledger=str(tmp_path / "all.ledger"))
    run_config(replace(shared, privacy=privacy), folder)
    own = (folder / "report.html").read_bytes()
    ledger, asked = Ledger(tmp_path / "all.ledger"), {"epsilon": 1.0, "n_records": 1500}
    before = len(ledger)
    (folder / "report.html").write_bytes(own + b"<p>99 % right</p>")
    with pytest.raises(InvalidArgument, match="Nothing was spent"):
        evaluate_run(folder, apart, **asked)
    assert len(ledger) == before
    (folder / "report.html").write_bytes(own)
    evaluate_run(folder, apart, **asked)
    assert not (folder / "evaluation.html").exists()
    assert "among the releases below" in (folder / "report.html").read_text(encoding="utf-8")
    assert failed(folder) == []


def test_the_runs_own_ledger_refuses_beyond_its_budget(run):
    folder, apart = run
    with pytest.raises(BudgetExceeded, match="--disjoint"):
        evaluate_run(folder, apart, epsilon=0.5, n_records=1500, share=0.3)
    assert not (folder / "evaluation.json").exists()
    assert failed(folder) == []


@pytest.mark.parametrize("dies_in", ["_write", "render_report", "seal_run"])
def test_stopped_after_the_release_it_goes_on_for_nothing(run, monkeypatch, dies_in):
    folder, apart = run
    asked = {"epsilon": 1.0, "n_records": 1500, "share": 0.3, "disjoint": True}
    with monkeypatch.context() as broken:
        broken.setattr(f"tacit.runs.evaluating.{dies_in}", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            evaluate_run(folder, apart, **asked)
    other = folder.parent / "other.csv"
    shutil.copy(apart, other)
    with pytest.raises(InvalidArgument, match="another"):  # what is kept belongs to other records
        evaluate_run(folder, str(other), **asked)
    evaluate_run(folder, apart, **asked)
    assert len([e for e in people(apart).entries() if e.is_paid]) == 1
    assert failed(folder) == []


def test_what_is_missing_is_named(run, tmp_path):
    folder, apart = run
    with pytest.raises(InvalidArgument, match="HOLDOUT"):
        command(folder)
    with pytest.raises(InvalidArgument, match="no such folder"):
        command(tmp_path / "absent")
    with pytest.raises(InvalidArgument, match="--epsilon"):
        command(folder, apart)
    with pytest.raises(InvalidArgument, match="--records"):
        command(folder, apart, epsilon=1.0, records="many")
    with pytest.raises(InvalidArgument, match="finished run"):
        evaluate_run(tmp_path, apart, epsilon=1.0, n_records=10)


def test_a_large_file_is_not_loaded(run, monkeypatch):
    folder, apart = run
    monkeypatch.setattr("tacit.runs.evaluating.load_dataset", None)
    found = evaluate_run(folder, apart, epsilon=1.0, n_records=1500, disjoint=True).found
    assert 0.6 < dict(found.rows())["area under the ROC curve"].value < 0.9
    assert failed(folder) == []


def test_plan_tells_widths_from_declared_numbers(capsys):
    show_forecast(Budget(0.3, 1e-5), 500, 0.03).print(as_json=False)
    assert "not told" in capsys.readouterr().out
    widths = show_forecast(Budget(1.0, 1e-5), 10_000, 0.3).plain["half_widths"]
    assert widths["area under the ROC curve"] == pytest.approx(0.01, abs=0.004)
    with pytest.raises(InvalidArgument, match="--share"):
        show_forecast(Budget(1.0, 1e-5), 500, None)
    about = (("numbers", "R^2", 0.095), ("masks", "mean Dice of class 2", 0.006))
    for of, name, half in about:
        told = show_forecast(Budget(1.0, 1e-5), 5000, None, of=of, classes=3)
        assert told.plain["half_widths"][name] == pytest.approx(half, rel=0.3)
    show_forecast(Budget(0.1, 1e-5), 20, None, of="masks").print(as_json=False)
    assert "not told" in capsys.readouterr().out
    with pytest.raises(InvalidArgument, match="--of labels"):
        show_forecast(Budget(1.0, 1e-5), 500, 0.3, of="masks")


@pytest.mark.parametrize("disjoint", [True, False])
def test_the_records_that_taught_are_not_kept_apart(run, finished, tmp_path, disjoint):
    folder, _ = run
    copy = tmp_path / "copy.csv"
    shutil.copy(finished / "private.csv", copy)
    for source in (str(finished / "private.csv"), f"csv:{copy}"):
        with pytest.raises(InvalidArgument, match="another file than source"):
            evaluate_run(folder, source, epsilon=1.0, n_records=2000, disjoint=disjoint)
    assert not (tmp_path / "copy.csv.ledger").exists()


def test_what_was_refused_may_be_asked_for_with_more(run):
    """A refusal leaves nothing that fixes the budget of the next attempt."""
    folder, apart = run
    with pytest.raises(InvalidArgument, match="Nothing was spent"):
        evaluate_run(folder, apart, epsilon=0.01, n_records=20, disjoint=True)
    found = evaluate_run(folder, apart, epsilon=1.0, n_records=1500, disjoint=True)
    assert len(found.ledger) == 1
    assert failed(folder) == []


def test_a_ledger_that_something_was_begun_with_stays(run, monkeypatch):
    folder, apart = run
    asked = {"n_records": 1500, "disjoint": True}

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "release", killed)
        with pytest.raises(KeyboardInterrupt):
            evaluate_run(folder, apart, epsilon=1.0, **asked)
    with pytest.raises(BudgetExceeded, match="another one for the same people would hide it"):
        evaluate_run(folder, apart, epsilon=2.0, **asked)
    assert len(evaluate_run(folder, apart, epsilon=1.0, **asked).ledger) == 1


def test_an_outcome_is_named_by_its_word():
    """The command line has words only; classes may be whole numbers."""
    student = SimpleNamespace(classes_=np.array([0, 1]))
    assert [_label(student, word) for word in ("1", 1, "yes")] == [1, 1, "yes"]
