"""From shards to predictions: what is voted, what is refused, what is never said."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from teacher_families import CANARY, Complaining, Failing, Noting, digest, seed_of
from teacher_tables import make_table

from tacit.errors import InvalidArgument, TacitError, TeacherFailed
from tacit.teachers import KernelRidgeTeachers, Shard, predict_with_teachers
from tacit.teachers.families import as_family, may_print
from tacit.teachers.tasks import Answer, Task


def test_every_teacher_answers_from_its_own_shard(table, tmp_path):
    predictions = table.predict(Noting(str(tmp_path / "log")), random_state=3)
    assert predictions.shape == (12, 50)
    assert predictions.dtype == np.uint8
    for number in range(12):
        own = table.shards == number
        shard = Shard(
            table.X[own].astype(np.float64), table.y[own], seed_of(number, random_state=3)
        )
        if number == 5:
            expected = np.zeros(50)
        elif number == 7:
            expected = np.full(50, 2)
        else:
            expected = digest(shard, table.X_query.astype(np.float64), 3)
        assert (predictions[number] == expected).all()


@pytest.mark.parametrize("size", [1, 5, 100])
def test_how_many_are_trained_at_a_time_changes_nothing(table, tmp_path, size):
    log = str(tmp_path / "log")
    assert (table.predict(Noting(log, size)) == table.predict(Noting(log))).all()


@pytest.mark.arithmetic
def test_one_record_changes_one_teacher():
    """The whole point: add or remove a record, and one row changes at the most."""
    table = make_table()
    whole = table.predict(GaussianNB())
    for place in range(0, 360, 40):
        kept = np.arange(360) != place
        without = predict_with_teachers(
            GaussianNB(),
            table.X[kept],
            table.y[kept],
            table.shards[kept],
            12,
            table.X_query,
            n_classes=3,
        )
        (changed,) = np.nonzero((without != whole).any(axis=1))
        assert set(changed) <= {table.shards[place]}


@pytest.mark.parametrize(
    ("n_classes", "dtype"),
    [(2, np.uint8), (256, np.uint8), (257, np.uint16), (65_536, np.uint16), (65_537, np.uint32)],
)
def test_the_smallest_type_that_holds_the_classes(n_classes, dtype):
    y = np.array([0, n_classes - 1] * 2)
    predictions = predict_with_teachers(
        GaussianNB(), np.arange(4.0)[:, None], y, [0, 0, 1, 1], 3, [[0.0]], n_classes=n_classes
    )
    assert predictions.dtype == dtype
    assert predictions.max() <= n_classes - 1


def test_more_teachers_than_records_all_vote():
    predictions = predict_with_teachers(
        GaussianNB(), [[0.0], [1.0]], [1, 1], [0, 4], 6, [[0.0], [1.0]], n_classes=2
    )
    assert predictions.tolist() == [[1, 1], [0, 0], [0, 0], [0, 0], [1, 1], [0, 0]]


def test_no_records_at_all_votes_class_0():
    predictions = predict_with_teachers(
        GaussianNB(), np.zeros((0, 2)), [], [], 3, [[0.0, 0.0]], n_classes=2
    )
    assert predictions.tolist() == [[0], [0], [0]]


class Forgetful:
    """An executor that loses every other task."""

    def run(self, job, tasks):
        return [(task, job.answer(task.shards)) for task in list(tasks)[::2]]


def test_teachers_that_an_executor_does_not_answer_for_do_not_vote(table):
    with pytest.raises(TeacherFailed, match="did not answer for every teacher"):
        table.predict(GaussianNB(), executor=Forgetful())


def test_failures_are_types_and_nothing_secret(table, tmp_path, capfd):
    for number in (2, 10):
        table.X[np.flatnonzero(table.shards == number)[0], 0] = CANARY
    family = Failing(str(tmp_path / "log"), teachers_per_task=4)
    with pytest.raises(TeacherFailed) as caught:
        table.predict(family)
    error = caught.value
    assert str(error).startswith("Some teachers failed (Planted);")
    assert isinstance(error, TacitError)
    assert error.__cause__ is None
    assert error.__context__ is None
    out, err = capfd.readouterr()
    assert "4815162" not in str(error) + out + err
    assert family.trained() >= 8  # every other teacher was trained


def test_one_failure_is_told_in_the_words_of_many():
    """How many fail, and which, depends on private records."""
    y = np.arange(100) // 50
    said = set()
    for failing in (slice(3, 4), slice(None)):
        X = np.zeros((100, 1))
        X[failing] = CANARY
        with pytest.raises(TeacherFailed) as caught:
            predict_with_teachers(
                Failing("/dev/null"), X, y, np.arange(100) % 50, 50, [[0]], n_classes=2
            )
        said.add(str(caught.value))
    assert len(said) == 1
    assert not any(character.isdigit() for character in said.pop())


@pytest.mark.parametrize(
    "wrong",
    [
        lambda n: np.full((1, n), 3),
        lambda n: np.full((1, n), -1),
        lambda n: np.zeros((1, n + 1), int),
        lambda n: np.zeros((1, n)),
        lambda n: np.full((1, n), "0"),
        lambda n: None,
    ],
)
def test_predictions_that_are_no_class_indices_fail_the_teacher(table, wrong):
    class Odd:
        def predict_shards(self, shards, X_query, *, n_classes):
            return wrong(len(X_query))

    with pytest.raises(TeacherFailed, match=r"Some .*InvalidArgument"):
        table.predict(Odd())


class Nervous:
    """Warns of this kind, once for each shard whose first record is beyond a limit."""

    def __init__(self, kind, limit):
        self.kind, self.limit = kind, limit

    def predict_shards(self, shards, X_query, *, n_classes):
        for shard in shards:
            if len(shard.X) and shard.X[0, 0] > self.limit:
                warnings.warn(f"saw {shard.X[0]}", self.kind, stacklevel=2)
        return np.zeros((len(shards), len(X_query)), dtype=int)


class Printing(ClassifierMixin, BaseEstimator):
    """An estimator of another package: it prints a record by native code, and says where it is."""

    def __init__(self, home=0):
        self.home = home

    def fit(self, X, y):
        os.write(1, b"a record")
        os.system("echo a record >&2")
        return self

    def predict(self, X):
        return np.full(len(X), int(os.getpid() != self.home))


def test_teachers_that_may_print_by_themselves_are_trained_in_a_worker(table, capfd):
    elsewhere = table.predict(Printing(os.getpid())) == 1
    assert elsewhere.all(axis=1).sum() == 10  # of twelve, one is empty and one has one class
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("teacher", "may"),
    [
        (make_pipeline(StandardScaler(), LogisticRegression()), False),
        (make_pipeline(StandardScaler(), LogisticRegression(verbose=1)), True),
        (BaggingClassifier(GaussianNB()), False),
        (BaggingClassifier(Printing()), True),
        (KernelRidgeTeachers(), False),
        (Failing("log"), True),
    ],
)
def test_which_teachers_may_print_by_themselves(teacher, may):
    assert may_print(as_family(teacher)) is may


def test_warnings_say_nothing(table, capfd):
    """Not even that there was one: warnings are errors here."""
    table.X[0, 0] = CANARY
    for teacher in (Complaining(), Nervous(RuntimeWarning, -np.inf), Nervous(FutureWarning, 1e3)):
        table.predict(teacher)
    assert capfd.readouterr() == ("", "")


def test_secrets_are_not_in_a_repr():
    shard = Shard(np.array([[CANARY]]), np.array([1]), seed=4)
    task = Task((7,), (shard,))
    answer = Answer(np.array([1, 1, 0]))
    assert repr(shard) == "Shard(seed=4)"
    assert repr(task) == "Task(numbers=(7,))"
    assert "array" not in repr(answer)


GOOD = {
    "teacher": GaussianNB(),
    "X": [[CANARY], [1.0]],
    "y": [0, 1],
    "shards": [0, 1],
    "n_teachers": 2,
    "X_query": [[0.0]],
    "n_classes": 2,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"teacher": "svm"}, "teacher=str"),
        ({"X": [CANARY, 1.0]}, "X to be an array"),
        ({"X": [["a"], ["b"]]}, "X to be an array"),
        ({"X_query": [[0.0, 1.0]]}, "X_query of shape"),
        ({"X_query": np.zeros((0, 1))}, "at least one query"),
        ({"y": [0, 2]}, r"y to hold integers 0 \.\. 1"),
        ({"y": [0, -1]}, r"y to hold integers 0 \.\. 1"),
        ({"y": [0.0, 1.0]}, r"y to hold integers 0 \.\. 1"),
        ({"y": [0]}, "y and shards to have one entry"),
        ({"shards": [0, 2]}, r"shards to hold integers 0 \.\. 1"),
        ({"shards": [0]}, "y and shards to have one entry"),
        ({"n_teachers": 0}, "n_teachers=0"),
        ({"n_classes": 1}, "n_classes=1"),
        ({"random_state": -1}, "random_state=-1"),
        ({"executor": "cloud"}, "executor='cloud'"),
    ],
)
def test_refusals_quote_no_record(change, message):
    arguments = {**GOOD, **change}
    positional = ("teacher", "X", "y", "shards", "n_teachers", "X_query")
    first = [arguments.pop(name) for name in positional]
    with pytest.raises(InvalidArgument, match=message) as caught:
        predict_with_teachers(*first, **arguments)
    assert "4815162" not in str(caught.value)
