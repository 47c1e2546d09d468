"""One ledger for one data set: many runs, one budget, one statement."""

from __future__ import annotations

import json
import runpy
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from tacit import Budget, BudgetExceeded, Ledger, PrototypeClassifier
from tacit.errors import InvalidArgument, ReleaseLost
from tacit.ledger import ONE_RUN, Statement
from tacit.ledger import kept_releases as kept
from tacit.runs import (
    DataConfig,
    PrivacyConfig,
    RunConfig,
    package_run,
    run_config,
    verify_run,
)


@pytest.fixture
def shared(tmp_path) -> Ledger:
    return Ledger(tmp_path / "patients.ledger", budget=Budget(2.0, 1e-5))


def config(ledger: Ledger | None, epsilon: float = 0.9, **settings: object) -> RunConfig:
    return RunConfig(
        data=DataConfig(source="digits", private=300, public=60),
        privacy=PrivacyConfig(epsilon, 1e-5, ledger=ledger.path if ledger else ""),
        method="prototype",
        settings={"n_prototypes": 20, **settings},
    )


def paid(ledger: Ledger) -> int:
    return sum(entry.is_paid for entry in ledger.entries())


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Path:
    """A folder with a ledger and two runs on it."""
    folder = tmp_path_factory.mktemp("two")
    ledger = Ledger(folder / "patients.ledger", budget=Budget(2.0, 1e-5))
    for name in ("one", "two"):
        run_config(config(ledger), folder / name)
    return folder


@pytest.fixture
def copied(two, tmp_path) -> Path:
    """Another copy of it to change; the configurations still name the first ledger."""
    return Path(shutil.copytree(two, tmp_path / "copy"))


def said(folder: Path) -> Statement:
    return Statement.from_json((folder / "statement.json").read_text())


def test_two_runs_spend_one_budget_and_have_one_statement(two, tmp_path):
    shared = Ledger(two / "patients.ledger")
    first, second = said(two / "one"), said(two / "two")
    assert first.epsilon <= 0.9 < second.epsilon <= 2.0
    assert second.epsilon == shared.spent()
    assert (paid(shared), list(two.glob("*/run.ledger"))) == (2, [])
    assert ONE_RUN not in second.warnings
    assert not str(second).startswith("This covers one run")
    for run in ("one", "two"):
        checks = verify_run(two / run)
        assert all(check.holds for check in checks), checks
    with pytest.raises(BudgetExceeded):  # more than 2 in all
        run_config(config(shared, epsilon=1.6), tmp_path / "three")
    assert not (tmp_path / "three").exists()  # nothing is left of a run that was refused
    assert paid(shared) == 2


def test_files_of_another_run_on_the_same_ledger_are_found(copied):
    shutil.copy(copied / "two" / "student.tacit", copied / "one" / "student.tacit")
    checks = verify_run(copied / "one", copied / "patients.ledger")
    assert [check.what for check in checks if not check.holds] == ["student.tacit"]


def test_a_package_of_a_shared_ledger_is_checked_without_tacit(copied, tmp_path, capsys):
    elsewhere = (copied / "patients.ledger").rename(tmp_path / "elsewhere.ledger")
    with pytest.raises(InvalidArgument, match="--ledger"):
        verify_run(copied / "one", copied / "patients.ledger")
    package_run(copied / "one", tmp_path / "one.zip", ledger=elsewhere)
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        archive.extractall(tmp_path / "out")
    verify = runpy.run_path(str(tmp_path / "out" / "verify.py"))["main"]
    assert verify(tmp_path / "out") == 0, capsys.readouterr().out
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    (tmp_path / "out" / "manifest.json").write_text(json.dumps({**manifest, "noted_as": ""}))
    assert verify(tmp_path / "out") == 1


def test_a_run_alone_says_so_first(tmp_path):
    result = run_config(config(None), tmp_path / "run")
    assert str(result.statement).startswith("This covers one run or fit alone")
    assert result.statement.warnings[0] == ONE_RUN
    assert str(result.statement).count("one run or fit alone") == 1


def test_a_grid_search_without_a_ledger_says_so():
    draw = np.random.default_rng(0)
    rows, labels = draw.normal(size=(60, 3)), np.tile([0, 1], 30)
    model = PrototypeClassifier(classes=[0, 1], n_prototypes=5)
    search = GridSearchCV(model, {"epsilon": [1.0]}, cv=2, error_score="raise")
    search.fit(rows, labels, X_public=draw.normal(size=(20, 3)))
    assert search.best_estimator_.statement_.warnings[0] == ONE_RUN


def test_nor_does_a_ledger_that_was_given(shared):
    draw = np.random.default_rng(0)
    model = PrototypeClassifier(classes=[0, 1], n_prototypes=5, ledger=shared)
    model.fit(draw.normal(size=(60, 3)), np.tile([0, 1], 30), draw.normal(size=(20, 3)))
    assert ONE_RUN not in model.statement_.warnings


class TestRefusals:
    def test_a_ledger_that_is_not_there(self, tmp_path):
        asked = config(None)
        asked = replace(asked, privacy=replace(asked.privacy, ledger=str(tmp_path / "no.ledger")))
        with pytest.raises(InvalidArgument, match="tacit ledger create"):
            run_config(asked, tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_another_delta(self, shared, tmp_path):
        asked = config(shared)
        with pytest.raises(InvalidArgument, match=r"delta=1e-06.*the ledger's, 1e-05"):
            run_config(replace(asked, privacy=replace(asked.privacy, delta=1e-6)), tmp_path / "run")

    def test_another_data_set(self, tmp_path):
        named = Ledger(tmp_path / "b.ledger", budget=Budget(2.0, 1e-5), dataset="patients")
        asked = config(named)
        with pytest.raises(InvalidArgument, match="one ledger is for one data set"):
            run_config(replace(asked, data=replace(asked.data, name="others")), tmp_path / "run")

    def test_more_than_the_runs_own_epsilon(self, tmp_path):
        """The noise that was asked for fits into the ledger, but not into the run's epsilon."""
        large = Ledger(tmp_path / "b.ledger", budget=Budget(50.0, 1e-5), accountant="rdp")
        asked = RunConfig(
            data=DataConfig(source="digits", private=500, public=60),
            privacy=PrivacyConfig(0.5, 1e-5, ledger=large.path),
            method="dpsgd",
            settings={"noise_multiplier": 1.0, "n_records": 500, "hidden": [], "epochs": 1},
        )
        with pytest.raises(BudgetExceeded, match=r"its own epsilon=0\.5"):
            run_config(asked, tmp_path / "run")
        assert paid(large) == 0


def test_what_was_lost_is_paid_for_again_within_the_shared_budget(shared, tmp_path, monkeypatch):
    def dying(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(kept, "_keep", dying)
        with pytest.raises(KeyboardInterrupt):
            run_config(config(shared), tmp_path / "run")
    run_config(config(shared, epsilon=0.5), tmp_path / "other")
    with pytest.raises(ReleaseLost, match="--again"):
        run_config(config(shared), tmp_path / "run")
    result = run_config(config(shared), tmp_path / "run", again=True)
    assert paid(shared) == 3
    assert 0.9 < result.statement.epsilon <= 2.0
    assert all(check.holds for check in verify_run(tmp_path / "run"))


def test_a_refused_folder_says_what_happened_there(tmp_path, monkeypatch):
    def dying(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tacit.methods.base.PrivateEstimator.save", dying)
        with pytest.raises(KeyboardInterrupt):
            run_config(config(None), tmp_path / "run")
    with pytest.raises(InvalidArgument, match=r"released at \d\d:\d\d UTC on .*config\.toml again"):
        run_config(config(None, n_prototypes=21), tmp_path / "run")
    run_config(config(None), tmp_path / "run")
    with pytest.raises(InvalidArgument, match="A run has finished there"):
        run_config(config(None), tmp_path / "run")
