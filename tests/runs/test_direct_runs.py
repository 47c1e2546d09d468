"""Configured runs of networks that are trained on the records, with and without public inputs."""

from __future__ import annotations

import pytest

from tacit.audit import audit_run
from tacit.datasets import load_dataset
from tacit.errors import InvalidArgument
from tacit.methods.method import method_named
from tacit.runs.config import RunConfig
from tacit.runs.running import load_rows, run_config
from tacit.students import load_student

pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("method", "own"),
    [
        ("dpsgd", {"hidden": [32], "learning_rate": 5e-3}),
        ("mac", {"hidden": [32], "learning_rate": 2e-2, "epochs": 10, "features": "digits"}),
    ],
)
def test_a_configured_run(method, own, tmp_path):
    config = RunConfig.parse(
        {
            "method": method,
            "data": {"source": "digits", "private": 1200, "public": 300},
            "privacy": {"epsilon": 8.0, "delta": 1e-5},
            method: {"batch_size": 300, "n_records": 1200, **own},
        }
    )
    result = run_config(config, tmp_path / "run")
    assert result.accuracy > 0.6  # chance is a tenth
    assert 7.9 < result.statement.epsilon <= 8.0
    assert not [warning for warning in result.statement.warnings if "was read" in warning]
    assert load_student(tmp_path / "run" / "student.tacit").n_classes_ == 10


def without_public_inputs(**data: object) -> RunConfig:
    network = {"hidden": [32], "batch_size": 300, "n_records": 1200, "features": "digits"}
    return RunConfig.parse(
        {
            "method": "dpsgd",
            "data": {"source": "digits", **data},
            "privacy": {"epsilon": 8.0, "delta": 1e-5},
            "dpsgd": {"epochs": 10, **network},
        }
    )


def test_a_configured_run_without_public_inputs(tmp_path):
    result = run_config(without_public_inputs(private=1200), tmp_path / "run")
    assert result.held_out == len(load_dataset("digits")) - 1200
    assert result.accuracy > 0.6  # chance is a tenth
    assert 7.9 < result.statement.epsilon <= 8.0
    assert RunConfig.read(tmp_path / "run" / "config.toml") == without_public_inputs(private=1200)


def test_all_rows_may_be_private_and_none_held_out():
    rows = load_rows(without_public_inputs())
    assert len(rows.private) == len(load_dataset("digits"))
    assert rows.public is None
    assert rows.held_out is None


def test_a_run_without_public_inputs_is_audited_by_held_out_rows(tmp_path):
    config = without_public_inputs(private=1200)
    found = audit_run(config, tmp_path / "audit", canaries=40, random_state=0)
    assert found.canaries == 40
    assert not found.contradicts
    with pytest.raises(InvalidArgument, match=r"canaries=40 .* held-out rows"):
        audit_run(without_public_inputs(), tmp_path / "refused", canaries=40)
    assert not (tmp_path / "refused").exists()


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"public": 300}, "private"),
        ({"private": 1200, "public": 1}, "public"),
        ({"private": 1200, "held_out_source": "digits"}, "held_out_source"),
        ({"private": ""}, "private"),
    ],
)
def test_mistakes_about_rows_are_named(data, complaint):
    with pytest.raises(InvalidArgument, match=complaint):
        without_public_inputs(**data)


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        ("dpsgd", {"hidden": 30}),
        ("dpsgd", {"clipping": "none"}),
        ("dpsgd", {"n_records": -1}),
        ("mac", {"activation": "sine"}),
        ("mac", {"thresholds": "large"}),
        ("mac", {"epochs": 0.0}),
    ],
)
def test_settings_that_are_refused(method, wrong):
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        method_named(method).read(wrong)
