"""A private row on which foreign code fails, at whatever stage: the ledger is as if it were fine.

"Fails" is raising, warning, NaN, infinity, another shape or no numbers. Features may fail when they
see the row for the first, the second or the third time, so that a release may lie before; so may
what a student makes of it, and a module. Only teachers may refuse, before anything is spent.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from flat_settings import built
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knn_shared import Quiet, blobs
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import FunctionTransformer

from tacit import (
    Checks,
    DPSGDClassifier,
    Ledger,
    MACAutoencoder,
    MACClassifier,
    MomentClassifier,
    MomentRegressor,
    PATEClassifier,
    PrivateKNNClassifier,
    PrivateKNNMultiLabelClassifier,
    PrivateKNNRegressor,
    PrototypeClassifier,
    ResidualRidgeClassifier,
    ResidualRidgeRegressor,
)
from tacit.errors import TeacherFailed, WeakSignal
from tacit.mechanisms import SampledVotes
from tacit.neighbours import Search
from tacit.noise import InsecureNoise
from tacit.students import LabelSpreadingStudent, SupervisedStudent

# Not even a warning may tell; forecasts of such small runs come from public numbers alone, and
# whether anything was learned from releases and public inputs.
pytestmark = pytest.mark.filterwarnings(
    "error", "ignore:(Doubtful|Hopeless|The student says the same|The releases do not show)"
)

X, Y = blobs(48)
X, OUTSIDE = np.abs(X) + 0.1, np.abs(blobs(24, seed=1)[0]) + 0.1
ODD, FAR = (np.vstack([X, [[cell, 0.5]]]) for cell in (-1.0, -1e9))
CLASSES, BOUNDS = {"classes": (0, 1, 2)}, {"low": 0.0, "high": 3.0}
NEAR = {"k": 5, "queries": 4}
STEPS = {"n_records": 48, "batch_size": 24, "epochs": 1, "noise_multiplier": 2.0, "hidden": (3,)}
MAC = {**STEPS, "thresholds": "histogram", "z_steps": 2, "epsilon": 50.0, "learning_rate": 0.01}
RUNS: dict[str, tuple[type, dict[str, Any]]] = {
    "neighbours": (
        PrivateKNNClassifier,
        {
            **CLASSES,
            **NEAR,
            "rounds": 3,
            "mechanism": SampledVotes(30.0, 5),
            "epsilon": 9.0,
            "checks": Checks(allow_hopeless=True),
        },
    ),
    "labels": (PrivateKNNMultiLabelClassifier, {"labels": 3, **NEAR}),
    "numbers": (PrivateKNNRegressor, {**BOUNDS, **NEAR}),
    "prototypes": (
        PrototypeClassifier,
        {**CLASSES, "n_prototypes": 6, "student": LabelSpreadingStudent()},
    ),
    "moments": (MomentClassifier, CLASSES),
    "ridge": (ResidualRidgeClassifier, {**CLASSES, "n_landmarks": 6}),
    "moments of numbers": (MomentRegressor, BOUNDS),
    "ridge of numbers": (ResidualRidgeRegressor, {**BOUNDS, "n_landmarks": 6}),
    "teachers": (
        PATEClassifier,
        {
            **CLASSES,
            "teacher": GaussianNB(),
            "n_teachers": 4,
            "queries": 4,
            "rounds": 2,
            "mechanism": "gnmax",
        },
    ),
    "steps": (DPSGDClassifier, {**CLASSES, **STEPS, "epsilon": 50.0}),
    "coordinates": (MACClassifier, {**CLASSES, **MAC}),
}


def raising(rows: Any) -> Any:
    raise ZeroDivisionError("c4n4ry")


def warning(rows: Any) -> Any:
    warnings.warn("c4n4ry", stacklevel=1)
    return rows


FAILURES: dict[str, Callable[[Any], Any]] = {
    "raises": raising,
    "warns": warning,
    "is NaN": lambda rows: rows * np.nan,
    "is infinite": lambda rows: rows / 0.0,
    "is shorter": lambda rows: rows[:, 1:],
    "is two rows": lambda rows: np.vstack([rows, rows]),
    "is flat": lambda rows: rows[0],
    "is text": lambda rows: rows.astype(str),
    "is nothing": lambda rows: None,
}


def failing(name: str, time: int) -> FunctionTransformer:
    """Return features that fail on the odd row from the given time on that they see it."""
    seen: list[int] = []

    def view(rows: Any) -> Any:
        if (np.asarray(rows)[:, 0] < 0).any():
            seen.append(1)
            if len(seen) >= time:
                return FAILURES[name](rows)
        return rows

    return FunctionTransformer(view)


def entries(run: str, rows: Any, ledger: Any, **changes: Any) -> list[Any]:
    """Return what the ledger says after a run, all but times and hashes."""
    kind, chosen = RUNS[run]
    y = np.append(Y, 1)[: len(rows)]
    labels = np.eye(3, dtype=int)[y] if kind is PrivateKNNMultiLabelClassifier else y
    model = built(
        kind,
        **{**chosen, **changes},
        noise=InsecureNoise(0),
        random_state=0,
        ledger=ledger,
        allow_large_delta=True,
    )
    model.fit(rows, labels, X_public=OUTSIDE)
    return written(ledger)


def written(ledger: Any) -> list[Any]:
    return [(each.purpose, dict(each.plan), each.cost) for each in Ledger(ledger).entries()]


@pytest.mark.parametrize("run", RUNS)
def test_features_that_fail_leave_the_ledger_as_it_is(run, tmp_path):
    expected = entries(run, X, tmp_path / "without", features=FunctionTransformer())
    assert expected
    for name in ("raises", "is infinite", "is two rows"):
        said = entries(run, ODD, tmp_path / name, features=failing(name, 1))
        assert said == expected, name


@pytest.mark.parametrize("time", [1, 2, 3])
def test_features_that_fail_at_any_time_leave_the_ledger_as_it_is(time, tmp_path):
    """Of all estimators only neighbours are looked at through foreign features more than once."""
    run = "neighbours"
    expected = entries(run, X, tmp_path / "without", features=FunctionTransformer())
    assert len(expected) == 3
    for place, name in enumerate(FAILURES):
        said = entries(run, ODD, tmp_path / f"{place}", features=failing(name, time))
        assert said == expected, name


@pytest.mark.parametrize("name", FAILURES)
def test_what_a_student_sees_may_fail_after_the_first_release(name, tmp_path):
    """The student has features of its own, which private rows first meet in the second round."""
    student = LabelSpreadingStudent(features=FunctionTransformer())
    expected = entries("neighbours", X, tmp_path / "without", student=student)
    student = LabelSpreadingStudent(features=failing(name, 1))
    assert entries("neighbours", ODD, tmp_path / "with", student=student) == expected


class Blind(LabelSpreadingStudent):
    """A student that cannot represent one row."""

    failure: Any = None

    def represent(self, X: Any) -> Any:
        seen = super().represent(np.abs(X))
        return FAILURES[self.failure](seen) if (np.asarray(X)[:, 0] < 0).any() else seen


@pytest.mark.parametrize("name", FAILURES)
def test_a_student_may_not_know_what_to_make_of_a_row(name, tmp_path):
    expected = entries("neighbours", X, tmp_path / "without", student=Blind())
    assert len(expected) == 3
    student = type("Blinded", (Blind,), {"failure": name})()
    assert entries("neighbours", ODD, tmp_path / "with", student=student) == expected


def test_logarithms_of_a_negative_number_are_no_reason_to_stop(tmp_path):
    log = {"features": FunctionTransformer(np.log), "rounds": 2}
    expected = entries("neighbours", X, tmp_path / "without", **log)
    assert len(expected) == 2
    assert entries("neighbours", ODD, tmp_path / "with", **log) == expected


def test_who_has_no_place_in_one_round_says_nothing_in_the_next(tmp_path, monkeypatch):
    """Features fail in each round, also in the space that a student of the first one learned."""
    looked = Search.look
    compared: list[int] = []

    def look(search: Search, known: Any, vectors: Any, *rest: Any) -> Any:
        compared.append(len(vectors))
        return looked(search, known, vectors, *rest)

    monkeypatch.setattr(Search, "look", look)
    entries("neighbours", ODD, tmp_path / "a", features=failing("raises", 1))
    assert compared == [len(X)] * 3  # rounds


@pytest.mark.parametrize("run", ["neighbours", "ridge", "moments of numbers", "coordinates"])
def test_everybody_may_fail(run, tmp_path):
    rows = np.tile(ODD[-1:], (49, 1))
    expected = entries(run, X, tmp_path / "without", features=FunctionTransformer())
    assert entries(run, rows, tmp_path / "with", features=failing("raises", 1)) == expected


def test_a_representation_that_is_random_is_refused_by_public_rows(tmp_path):
    """After a release, but whatever the private rows are: the ledgers are the same."""
    draw = np.random.default_rng(0)

    class Random(LabelSpreadingStudent):
        def represent(self, X: Any) -> Any:
            return super().represent(X) + draw.normal(size=(len(X), 3))

    for place, rows in enumerate((X, ODD, X[:1])):
        with pytest.raises(ValueError, match="same numbers every time"):
            entries("neighbours", rows, tmp_path / f"{place}", student=Random())
    assert written(tmp_path / "0") == written(tmp_path / "1") == written(tmp_path / "2")


def modules() -> Iterator[Any]:
    torch = pytest.importorskip("torch")

    class Fragile(torch.nn.Module):
        failure = staticmethod(raising)

        def __init__(self) -> None:
            super().__init__()
            self.last = torch.nn.Linear(2, 3)

        def forward(self, rows: Any) -> Any:
            scores, odd = self.last(rows.abs()), rows[:, :1] < -1e6
            return type(self).failure(scores, odd) if bool(odd.any()) else scores

    kinds: dict[str, Callable[[Any, Any], Any]] = {
        "raises": lambda scores, odd: raising(scores),
        "is NaN": lambda scores, odd: scores.masked_fill(odd, float("nan")),
        "is nothing": lambda scores, odd: None,
    }
    for name, failure in kinds.items():
        yield name, type("Failing", (Fragile,), {"failure": staticmethod(failure)})()


def test_modules_that_fail_on_a_row_leave_the_ledger_as_it_is(tmp_path):
    same = {"hidden": (), "engine": "single"}
    for name, module in modules():
        said = {}
        for rows in (X, FAR):
            ledger = tmp_path / f"{name}{len(rows)}"
            model = built(
                DPSGDClassifier,
                module,
                **{**RUNS["steps"][1], **same},
                noise=InsecureNoise(0),
                random_state=0,
                ledger=ledger,
                allow_large_delta=True,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", WeakSignal)  # that nobody has scaled these columns
                model.fit(rows, np.append(Y, 1)[: len(rows)])
            said[len(rows)] = written(ledger)
        assert said[48] == said[49] != []


@pytest.mark.parametrize("wild", [1e300, -1e300, 1e38, 5e-324, 0.0])
@pytest.mark.parametrize("kind", [MACClassifier, MACAutoencoder])
def test_thresholds_and_steps_of_wild_rows_leave_the_ledger_as_it_is(kind, wild, tmp_path):
    own = CLASSES if kind is MACClassifier else {}
    said = []
    for place, rows in enumerate((X, np.vstack([X, np.full((1, 2), wild)]))):
        model = built(
            kind,
            **own,
            **MAC,
            noise=InsecureNoise(0),
            random_state=0,
            ledger=tmp_path / f"{place}",
            allow_large_delta=True,
        )
        model.fit(rows, np.append(Y, 1)[: len(rows)], X_public=OUTSIDE)
        said.append(written(tmp_path / f"{place}"))
    assert said[0] == said[1]
    assert len(said[0]) == 2


class Picky(GaussianNB):
    """A teacher that fails where the odd row is in its shard."""

    failure: Any = None

    def predict(self, rows: Any) -> Any:
        said = super().predict(rows)
        return FAILURES[self.failure](said[:, None]) if (self.theta_[:, 0] < 0).any() else said


@pytest.mark.parametrize("name", [name for name in FAILURES if name != "warns"])
def test_teachers_that_fail_refuse_before_anything_is_spent(name, tmp_path):
    teacher = type("Failing", (Picky,), {"failure": name})()
    with pytest.raises(TeacherFailed):
        entries("teachers", FAR, tmp_path / "a", teacher=teacher)
    assert written(tmp_path / "a") == []


cells = st.floats(allow_nan=False, allow_infinity=False, width=64)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    row=st.tuples(cells, cells),
    run=st.sampled_from([run for run in RUNS if run != "teachers"]),  # which may fail, and refuse
    view=st.sampled_from([None, np.log, np.sqrt, np.exp, np.square, np.reciprocal]),
    label=st.integers(0, 2),
)
def test_no_finite_row_at_all_decides_the_ledger(row, run, view, label, tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    features = {"features": None if view is None else FunctionTransformer(view)}
    expected = entries(run, X, folder / "without", **features)
    assert entries(run, np.vstack([X, [row]]), folder / "with", **features) == expected


def test_a_row_without_a_place_changes_no_release(tmp_path):
    """Not in the second round, either: with and without it, bit for bit."""
    told = []
    for rows in (X, ODD):
        model = built(
            PrivateKNNClassifier,
            SupervisedStudent(GaussianNB()),
            **CLASSES,
            **NEAR,
            rounds=2,
            features=FunctionTransformer(np.log),
            noise=Quiet(),
            random_state=0,
            allow_large_delta=True,
        )
        model.fit(rows, np.append(Y, 1)[: len(rows)], X_public=OUTSIDE)
        told.append([np.asarray(release.values) for release in model.releases_])
    for one, other in zip(*told, strict=True):
        np.testing.assert_array_equal(one, other)
