"""Another student from a run's releases: free, beside the run, and checked as a run is."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit import GNMax, Ledger, Plan
from tacit.errors import InvalidArgument
from tacit.ledger import KeptReleases
from tacit.runs import (
    DataConfig,
    PrivacyConfig,
    RunConfig,
    run_config,
    train_student,
    verify_run,
)
from tacit.students import load_student


def config(method: str = "prototype", **settings: object) -> RunConfig:
    return RunConfig(
        data=DataConfig(source="digits", private=400, public=60),
        privacy=PrivacyConfig(epsilon=8.0, delta=1e-5),
        method=method,
        settings=settings,
    )


def paid(run: Path) -> int:
    return sum(entry.is_paid for entry in Ledger(run / "run.ledger").entries())


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("students") / "run"
    run_config(config(n_prototypes=20), folder)
    return folder


def test_it_costs_nothing_and_is_verified_beside_the_run(run):
    result = train_student(run, student="logistic", features="digits")
    assert result.folder == run / "students" / "logistic"
    assert paid(run) == 1
    first, second = (load_student(each / "student.tacit") for each in (run, result.folder))
    assert type(first) is not type(second)
    assert second.predict_proba(np.zeros((2, 64))).shape == (2, 10)
    for folder in (run, result.folder):
        checks = verify_run(folder)
        assert all(check.holds for check in checks), checks
    assert RunConfig.of_finished(result.folder).settings["student"] == "logistic"
    with pytest.raises(InvalidArgument, match="choose another name"):
        train_student(run, student="logistic")


def test_what_is_swapped_is_found(run, tmp_path):
    copy = Path(shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("students")))
    other = train_student(copy, student="nearest", name="one").folder
    shutil.copy(copy / "student.tacit", other / "student.tacit")
    assert [check.what for check in verify_run(other) if not check.holds] == ["student.tacit"]
    (copy / "releases" / "1.npz").write_bytes(b"")
    broken = [check.what for check in verify_run(other) if not check.holds]
    assert "the run that it was learned from" in broken
    with pytest.raises(InvalidArgument, match="holds together"):
        train_student(copy, student="nearest", name="two")
    assert paid(copy) == 1


@pytest.mark.parametrize("name", ["../elsewhere", "a/b", "..", "", "/tmp/a", "a\nb"])
def test_a_name_leads_nowhere_else(run, name):
    entries = len(Ledger(run / "run.ledger"))
    with pytest.raises(InvalidArgument, match="name of one folder"):
        train_student(run, student="logistic", name=name)
    assert len(Ledger(run / "run.ledger")) == entries


def test_a_run_in_a_folder_called_students_is_a_run(tmp_path):
    folder = tmp_path / "run" / "students" / "anna"
    run_config(config(n_prototypes=20), folder)
    assert all(check.holds for check in verify_run(folder)), verify_run(folder)
    other = train_student(folder, student="logistic").folder
    assert all(check.holds for check in verify_run(other)), verify_run(other)


def test_a_release_that_is_not_kept_is_never_paid_for(run, tmp_path):
    ledger, plan = Ledger(run / "run.ledger"), Plan(GNMax(40), 1)
    store = KeptReleases(tmp_path / "none", only=True)
    with pytest.raises(InvalidArgument, match="nothing is paid for here"):
        store.release(ledger, plan, lambda: pytest.fail("worked on private rows"), purpose="x")


def test_a_run_on_a_ledger_for_a_fixed_list_has_further_students(tmp_path):
    """Its noise was chosen for the list: the same plans must come out again."""
    asked = {"mechanism": "noisy-screening", "queries": 20, "rounds": 2}
    much = replace(
        config("knn", student="label-spreading", **asked),
        data=DataConfig(source="digits", private=900, public=100),
        privacy=PrivacyConfig(epsilon=200.0, delta=1e-5),
    )
    run_config(much, tmp_path / "run")
    assert Ledger(tmp_path / "run" / "run.ledger").accountant == "fixed"
    other = train_student(tmp_path / "run", student="logistic").folder
    assert all(check.holds for check in verify_run(other)), verify_run(other)
    assert paid(tmp_path / "run") == 2


def test_a_network_on_the_records_has_no_further_students(tmp_path):
    settings = {"hidden": [], "epochs": 1, "n_records": 400, "batch_size": 100}
    run_config(config("dpsgd", **settings), tmp_path / "run")
    with pytest.raises(InvalidArgument, match="the network itself is what was released"):
        train_student(tmp_path / "run", student="logistic")
