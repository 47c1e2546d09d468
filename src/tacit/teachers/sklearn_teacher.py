"""Teachers that are scikit-learn estimators or pipelines, cloned for each shard."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidArgument
from tacit.teachers.tasks import Shard, TeacherFamily


@dataclass(frozen=True, slots=True)
class EstimatorTeachers:
    """A scikit-learn classifier or pipeline as a family of teachers.

    Every `random_state` inside it is replaced by a seed of the teacher's own.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> shard = Shard(np.array([[0.0], [1.0]]), np.array([0, 1]), seed=3)
    >>> teachers = EstimatorTeachers(DecisionTreeClassifier())
    >>> teachers.predict_shards([shard], np.array([[0.1], [0.9]]), n_classes=2).tolist()
    [[0, 1]]
    """

    estimator: Any

    def predict_shards(
        self, shards: Sequence[Shard], X_query: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Fit a clone on each shard and predict the queries."""
        return np.array([self._predict(shard, X_query) for shard in shards])

    def _predict(self, shard: Shard, X_query: NDArray[Any]) -> NDArray[Any]:
        from sklearn.base import clone

        with _seeded(shard.seed):
            fitted = _with_seeds(clone(self.estimator), shard.seed).fit(shard.X, shard.y)
            return np.asarray(fitted.predict(X_query))


def as_family(teacher: Any) -> TeacherFamily:
    """Return a family as it is, a scikit-learn estimator as a family.

    >>> from sklearn.dummy import DummyClassifier
    >>> as_family(DummyClassifier())
    EstimatorTeachers(estimator=DummyClassifier())
    """
    if not isinstance(teacher, type):
        if isinstance(teacher, TeacherFamily):
            return teacher
        if all(hasattr(teacher, name) for name in ("fit", "predict", "get_params")):
            from sklearn.base import clone

            return EstimatorTeachers(clone(teacher))  # without anything that it has learned
    raise InvalidArgument(
        f"Expected teacher={getattr(teacher, '__name__', type(teacher).__name__)} to be a "
        "scikit-learn classifier or pipeline, a TorchTeacher, or a family with predict_shards."
    )


def _with_seeds(estimator: Any, seed: int) -> Any:
    """Seed every `random_state`, also of nested estimators, each in its own way."""
    stream = np.random.default_rng(seed)
    names = [
        name
        for name in sorted(estimator.get_params(deep=True))
        if name == "random_state" or name.endswith("__random_state")
    ]
    return estimator.set_params(**{name: int(stream.integers(2**31)) for name in names})


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the global generators too, for estimators that use them, and put them back."""
    legacy = np.random.mtrand._rand  # the generator behind np.random.seed, shuffle and the like
    before, before_numpy = random.getstate(), legacy.get_state()
    random.seed(seed)
    legacy.seed(seed % 2**32)
    try:
        yield
    finally:
        random.setstate(before)
        legacy.set_state(before_numpy)
