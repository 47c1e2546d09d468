"""Every method of a run: its table is its signature, it trains, and what it shows is public."""

from __future__ import annotations

import inspect
import tomllib
from dataclasses import dataclass

import numpy as np
import pytest

from tacit import Ledger, PATEClassifier
from tacit._registry import METHODS
from tacit.errors import InvalidArgument
from tacit.methods import Count, method_named
from tacit.methods.settings import table_of
from tacit.runs import running as runs
from tacit.runs.config import RunConfig
from tacit.students import load_student

DIGITS = {"source": "digits", "private": 1200, "public": 300}
SPOKEN = {
    "prototype": {"n_prototypes": 60, "features": "digits"},
    "moments": {"rounds": 2},
    "ridge": {"n_landmarks": 60, "features": "digits"},
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


ROWS = [name for name in METHODS if name != "segmentation"]
"""Methods whose data are rows."""


@pytest.mark.parametrize("name", METHODS)
def test_each_table_is_the_signature(name):
    """Same names, same defaults; only what the run knows by itself, or Python alone, is missing."""
    method = method_named(name)
    assert method.name == name
    kind = method.estimator
    signature = {key: each.default for key, each in inspect.signature(kind).parameters.items()}
    for argument, own in getattr(kind, "_own", {}).items():
        parts = {key: value for key, value in own.get_params().items() if key not in kind._fixed}
        assert signature.pop(argument) in (None, parts.get("number"))
        if "number" in parts:
            parts["queries"] = parts.pop("number")
        assert not signature.keys() & parts.keys()
        signature |= parts
    settings = method.read({})
    assert settings == {key: signature[key] for key in settings}
    of_the_run = {"ledger", "noise", "random_state", "classes", "executor", "checkpoint"}
    budget = {"epsilon", "delta", "allow_overlap"}
    assert signature.keys() - settings.keys() <= of_the_run | budget | {"module"}


def test_parts_that_are_also_arguments_are_refused():
    @dataclass(eq=False, repr=False)
    class Twice(PATEClassifier):
        rounds: Count = 1

    with pytest.raises(TypeError, match="rounds twice"):
        table_of(Twice)


@pytest.mark.parametrize(
    ("method", "old", "new"),
    [
        ("pate", "teachers", "n_teachers"),
        ("segmentation", "teachers", "n_teachers"),
        ("prototype", "prototypes", "n_prototypes"),
        ("ridge", "landmarks", "n_landmarks"),
        ("dpsgd", "records", "n_records"),
    ],
)
def test_keys_of_before_are_named_with_their_successors(method, old, new):
    with pytest.raises(InvalidArgument, match=rf"^Expected {new} in \[{method}\]: {old} was"):
        config(method, **{old: 10})


@pytest.mark.parametrize("method", METHODS)
def test_each_table_survives_being_written(method):
    written = RunConfig.parse(
        {"method": method, "data": DIGITS, "privacy": {"epsilon": 1.0, "delta": 1e-5}}
    )
    assert written.settings == method_named(method).read({})
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
    right = (student.predict(data.X[held_out]) == data.y[held_out]).mean()
    assert right == pytest.approx(result.accuracy)
    text = (tmp_path / "run" / "report.html").read_text()
    assert ("Public prototypes" in text) == (method == "prototype")


@pytest.mark.parametrize("method", ROWS)
@pytest.mark.parametrize("allowed", [True, False])
def test_each_method_is_told_whether_delta_may_be_large(tmp_path, method, allowed):
    privacy = {"epsilon": 1.0, "delta": 1e-5} | ({"allow_large_delta": True} if allowed else {})
    made = RunConfig.parse({"method": method, "data": DIGITS, "privacy": privacy})
    assert f"allow_large_delta = {str(allowed).lower()}" in made.to_toml()
    model = runs.make_classifier(made, runs.load_dataset("digits"), tmp_path)
    assert model.ledger.allow_large_delta is allowed


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
        ("prototype", {"student": "itself"}, "student"),
        ("moments", {"rounds": 3}, "rounds"),
        ("ridge", {"clip": 0}, "clip"),
        ("ridge", {"queries": 3}, "queries"),
    ],
)
def test_mistakes_in_a_table_are_named(method, section, complaint):
    with pytest.raises(InvalidArgument, match=complaint):
        config(method, **section)


@pytest.mark.parametrize("stray", ["settings", "knn"])
def test_tables_of_other_methods_are_refused(stray):
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


FINISHED = {
    "pate": """teachers = 40
queries = 10
strategy = "medoids"
mechanism = "noisy-votes"
rounds = 1
features = "none"
teacher = "kernel-ridge"
student = "label-spreading"
""",
    "prototype": """prototypes = 60
votes = 3
strategy = "medoids"
features = "digits"
student = "auto"
""",
    "ridge": """landmarks = 500
width = 0.3
rounds = 2
clip = 0.5
features = "none"
student = "itself"
""",
    "mac": """hidden = [300, 100]
activation = "relu"
clip = 0.001
optimizer = "adam"
learning_rate = 0.002
epochs = 20.0
batch_size = 512
records = 0
features = "none"
thresholds = "small"
""",
    "segmentation": """teachers = 100
each_alone = true
teacher = "atlas"
queries = 0
strategy = "medoids"
rounds = 1
channels = [8, 16, 32]
teacher_steps = 300
student_steps = 300
patch = []
simulation = false
""",
}
"""Tables as 0.1.0 wrote them into the directories of its runs."""


@pytest.mark.parametrize("method", FINISHED)
def test_finished_runs_of_the_first_version_open(tmp_path, method):
    head = f"""method = "{method}"
executor = "serial"
seed = 0

[data]
source = "digits"
private = 1200
public = 300
public_source = ""
held_out_source = ""
name = ""
options = {{}}

[privacy]
epsilon = 1.0
delta = 1e-05

[{method}]
"""
    (tmp_path / "config.toml").write_text(head + FINISHED[method])
    opened = RunConfig.of_finished(tmp_path)
    assert opened.method == method
    assert RunConfig.parse(tomllib.loads(opened.to_toml())) == opened
    with pytest.raises(InvalidArgument):  # a new run says what it wants in today's words
        RunConfig.read(tmp_path / "config.toml")
