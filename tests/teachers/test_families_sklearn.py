"""Scikit-learn teachers: fitted on their shard alone, seeded, and without side effects."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from teacher_tables import make_table

from tacit.errors import InvalidArgument
from tacit.teachers import KernelRidgeTeachers, Shard
from tacit.teachers.families import EstimatorTeachers, as_family


class Erratic(ClassifierMixin, BaseEstimator):
    """Answers at random, from the generators that belong to the whole process."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.random.randint(0, 3, len(X)) + random.randrange(2) - 0  # noqa: NPY002


def test_a_pipeline_is_fitted_on_each_shard_alone(table):
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    predictions = table.predict(pipeline)
    for number in set(range(table.n_teachers)) - {5, 7}:
        own = table.shards == number
        alone = make_pipeline(StandardScaler(), LogisticRegression())
        expected = alone.fit(table.X[own], table.y[own]).predict(table.X_query)
        assert (predictions[number] == expected).all()


def test_a_fitted_teacher_is_not_changed_and_its_learning_not_used(table):
    fitted = GaussianNB().fit(table.X, table.y)
    family = as_family(fitted)
    assert not hasattr(family.estimator, "theta_")
    before = fitted.theta_.copy()
    assert (table.predict(fitted) == table.predict(GaussianNB())).all()
    assert (fitted.theta_ == before).all()


def test_every_random_state_is_seeded_by_the_teacher():
    shard = Shard(*_noise(), seed=11)
    bagging = BaggingClassifier(DecisionTreeClassifier(splitter="random"), n_estimators=3)
    queries = np.random.default_rng(1).normal(size=(200, 4))
    family = EstimatorTeachers(bagging)
    first, again = (family.predict_shards([shard], queries, n_classes=2) for _ in range(2))
    other = family.predict_shards([Shard(shard.X, shard.y, seed=12)], queries, n_classes=2)
    assert (first == again).all()
    assert (first != other).any()


def _noise():
    generator = np.random.default_rng(0)
    return generator.normal(size=(60, 4)), generator.integers(0, 2, 60)


def test_global_generators_are_seeded_and_put_back():
    shard = Shard(*_noise(), seed=7)
    queries = np.zeros((40, 4))
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    state, numpy_state = random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = EstimatorTeachers(Erratic()).predict_shards([shard], queries, n_classes=4)
    assert random.getstate() == state
    assert (np.random.get_state()[1] == numpy_state).all()  # noqa: NPY002
    random.seed(2)
    np.random.seed(2)  # noqa: NPY002
    again = EstimatorTeachers(Erratic()).predict_shards([shard], queries, n_classes=4)
    assert (first == again).all()


def test_what_is_a_family():
    family = KernelRidgeTeachers()
    assert as_family(family) is family
    for wrong in (GaussianNB, KernelRidgeTeachers, "tree", None, StandardScaler()):
        with pytest.raises(InvalidArgument, match="Expected teacher="):
            as_family(wrong)


def test_predictions_keep_their_class_where_a_shard_lacks_some():
    table = make_table()
    table.y[(table.shards == 3) & (table.y == 1)] = 0
    assert set(table.predict(GaussianNB())[3]) <= {0, 2}
