"""Every method of a run: it has a section and a builder, it trains, and what it shows is public."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from tacit import Ledger
from tacit.errors import InvalidArgument
from tacit.estimators import runs
from tacit.estimators.builders import BUILDERS
from tacit.estimators.config import RunConfig
from tacit.estimators.sections import SECTIONS
from tacit.students import load_student

DIGITS = {"source": "digits", "private": 1200, "public": 300}
SPOKEN = {
    "prototype": {"prototypes": 60, "features": "digits"},
    "moments": {"rounds": 2},
    "ridge": {"landmarks": 60, "features": "digits"},
}


def config(method: str, **section: object) -> RunConfig:
    return RunConfig.parse(
        {
            "method": method,
            "data": DIGITS,
            "privacy": {"epsilon": 4.0, "delta": 1e-5},
            method: {**SPOKEN.get(method, {}), **section},
        }
    )


def test_each_method_has_a_section_and_a_builder():
    assert SECTIONS.keys() == BUILDERS.keys() | {"segmentation"}  # whose data are no rows
    assert all(kind.method == name for name, kind in SECTIONS.items())


@pytest.mark.parametrize("method", SECTIONS)
def test_each_section_survives_being_written(method):
    written = RunConfig.parse(
        {"method": method, "data": DIGITS, "privacy": {"epsilon": 1.0, "delta": 1e-5}}
    )
    assert written.section == SECTIONS[method]()
    assert RunConfig.parse(tomllib.loads(written.to_toml())) == written


@pytest.mark.parametrize("method", SPOKEN)
def test_records_that_speak_once_train_a_student(tmp_path, method):
    result = runs.run_config(config(method), tmp_path / "run")
    assert result.accuracy > 0.75  # chance is a tenth
    spent = Ledger(tmp_path / "run" / "run.ledger").statement()
    assert 3.99 < spent.epsilon <= 4.0
    data = runs.load_dataset("digits")
    held_out = runs.split_rows(config(method), len(data.y)).held_out
    student = load_student(tmp_path / "run" / "student.tacit")
    assert (student.predict(data.X[held_out]) == data.y[held_out]).mean() == result.accuracy
    text = (tmp_path / "run" / "report.html").read_text()
    assert ("Public prototypes" in text) == (method == "prototype")


@pytest.mark.parametrize("method", BUILDERS)
@pytest.mark.parametrize("allowed", [True, False])
def test_each_method_is_told_whether_delta_may_be_large(tmp_path, method, allowed):
    privacy = {"epsilon": 1.0, "delta": 1e-5} | ({"allow_large_delta": True} if allowed else {})
    made = RunConfig.parse({"method": method, "data": DIGITS, "privacy": privacy})
    assert f"allow_large_delta = {str(allowed).lower()}" in made.to_toml()
    model = runs.make_classifier(made, runs.load_dataset("digits"), tmp_path)
    assert model.allow_large_delta is allowed


@pytest.mark.parametrize("word", ["yes", 1, "true"])
def test_a_large_delta_is_allowed_by_true_alone(word):
    privacy = {"epsilon": 1.0, "delta": 1e-5, "allow_large_delta": word}
    with pytest.raises(InvalidArgument, match="true or false"):
        RunConfig.parse({"data": DIGITS, "privacy": privacy})


def test_another_student_learns_from_moments(tmp_path):
    result = runs.run_config(config("moments", student="label-spreading"), tmp_path / "run")
    assert result.accuracy > 0.7


def test_pictures_are_of_public_inputs_alone(monkeypatch, tmp_path):
    shown = []

    def gallery(images, captions):
        shown.append(np.asarray(images))
        raise RuntimeError("seen")

    monkeypatch.setattr("tacit.report.gallery_figure", gallery)
    with pytest.raises(RuntimeError, match="seen"):
        runs.run_config(config("prototype"), tmp_path / "run")
    rows = runs.load_rows(config("prototype"))
    public = {row.tobytes() for row in np.asarray(rows.public, dtype=np.float64)}
    pictures = shown[0].reshape(len(shown[0]), -1).astype(np.float64)
    assert len(pictures) == 60
    assert all(row.tobytes() in public for row in pictures)


@pytest.mark.parametrize(
    ("method", "section", "complaint"),
    [
        ("prototype", {"prototypes": 2, "votes": 3}, "votes"),
        ("prototype", {"student": "itself"}, "student"),
        ("moments", {"rounds": 3}, "rounds"),
        ("ridge", {"clip": 0}, "clip"),
        ("ridge", {"queries": 3}, "queries"),
    ],
)
def test_mistakes_in_a_section_are_named(method, section, complaint):
    with pytest.raises(InvalidArgument, match=complaint):
        config(method, **section)


@pytest.mark.parametrize("stray", ["section", "knn"])
def test_sections_of_other_methods_are_refused(stray):
    with pytest.raises(InvalidArgument, match=stray):
        RunConfig.parse(
            {
                "method": "ridge",
                "data": DIGITS,
                "privacy": {"epsilon": 1.0, "delta": 1e-5},
                stray: {},
            }
        )


def test_only_teachers_train_elsewhere():
    with pytest.raises(InvalidArgument, match="executor"):
        RunConfig.parse(
            {
                "method": "ridge",
                "executor": "tcp://nowhere",
                "data": DIGITS,
                "privacy": {"epsilon": 1.0, "delta": 1e-5},
            }
        )
