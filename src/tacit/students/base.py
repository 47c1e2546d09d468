"""What a student is: fitted on public inputs and releases, it predicts classes, and can be saved.

`Student` is the protocol that classifiers rely on; `PublicLearner` does what all of tacit's
students share: checks, public features, saving; `BaseStudent` adds probabilities whose rows sum
to 1. Public inputs and releases only: nothing private ever enters this floor, so a fitted student
may be published under the statement of the ledger that paid for its releases.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from tacit._checks import Floats, Integers
from tacit._files import PathLike
from tacit.errors import InvalidArgument
from tacit.students.inputs import Lesson, flat_rows, normalised, read_lesson

_BLOCK = 4096  # inputs predicted at a time


class Student(Protocol):
    """Anything that learns from public inputs and the posteriors of some of them."""

    def fit(self, X_public: ArrayLike, indices: ArrayLike, posterior: ArrayLike) -> Self:
        """Learn from rows `indices` of the public inputs, each with its posterior over classes."""

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return probabilities `(inputs, classes)`; each row sums to 1."""

    def predict(self, X: ArrayLike) -> Integers:
        """Return class indices."""


class PublicLearner(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """What every student shares: public features, checked inputs, saving.

    Learned: `n_features_in_`, `features_` (the fitted public transformer), and, under the name in
    `_width`, how many numbers it says of an input.
    """

    features: Any
    _width: ClassVar[str]

    def save(self, path: PathLike, *, extra: Mapping[str, Any] | None = None) -> None:
        """Write the fitted student to one file without pickle; `load_student` reads it back.

        `extra` is plain public data kept beside it (class names, a statement): `saved_extra`.
        """
        from tacit.students.saving import save_student

        check_is_fitted(self, self._width)
        save_student(self, path, extra=extra)

    def _see(self, inputs: NDArray[Any]) -> None:
        """Note the public inputs' width, and fit the features on them."""
        self.n_features_in_ = inputs.shape[1]
        self.features_ = None if self.features is None else clone(self.features)
        if self.features_ is not None:
            self.features_.fit(inputs)

    def _blocks(self, X: ArrayLike) -> Iterator[NDArray[Any]]:
        """Check the inputs of a prediction, and yield some of them at a time."""
        check_is_fitted(self, self._width)
        inputs = flat_rows(X=X)
        if inputs.shape[1] != self.n_features_in_:
            raise InvalidArgument(
                f"Expected X with {self.n_features_in_} features, as in X_public, "
                f"got {inputs.shape[1]}."
            )
        for start in range(0, len(inputs), _BLOCK):
            yield inputs[start : start + _BLOCK]

    def _view(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return the inputs in the public feature space."""
        if self.features_ is None:
            return inputs
        return flat_rows(features=self.features_.transform(inputs))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was learned, as arrays to save."""
        raise InvalidArgument(f"Expected a student that can be saved, got {type(self).__name__}.")

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `_arrays` returned; refuse arrays that do not fit together."""
        raise InvalidArgument(f"Expected a student that can be loaded, got {type(self).__name__}.")


class BaseStudent(PublicLearner):
    """A student of classes; a subclass learns in `_learn` and answers in `_scores`.

    Learned: `n_features_in_`, `n_classes_`, and `features_` (the fitted public transformer).
    """

    _width: ClassVar[str] = "n_classes_"

    def fit(self, X_public: ArrayLike, indices: ArrayLike, posterior: ArrayLike) -> Self:
        """Learn from rows `indices` of the public inputs, each with its posterior over classes.

        A uniform row of the posterior (an unanswered query) has no weight.
        """
        lesson = read_lesson(X_public, indices, posterior)
        self.n_classes_ = lesson.posterior.shape[1]
        self._see(lesson.inputs)
        self._learn(lesson)
        return self

    def fit_each(
        self, X_public: ArrayLike, lessons: Sequence[tuple[ArrayLike, ArrayLike]]
    ) -> list[Self]:
        """Return one fitted clone for each lesson, (indices, posterior), of the same inputs."""
        return [clone(self).fit(X_public, *lesson) for lesson in lessons]

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return probabilities `(inputs, classes)`; each row sums to 1."""
        return np.concatenate([normalised(self._scores(block)) for block in self._blocks(X)])

    def predict(self, X: ArrayLike) -> Integers:
        """Return class indices: the most probable class of each input."""
        return np.asarray(self.predict_proba(X).argmax(axis=1), dtype=np.int64)

    def represent(self, X: ArrayLike) -> Floats:
        """Return the inputs as the student has learned to see them: a map for a next round.

        Here its probabilities; a network's last hidden layer.
        """
        return self.predict_proba(X)

    @abstractmethod
    def _learn(self, lesson: Lesson) -> None:
        """Learn; `n_features_in_`, `n_classes_` and `features_` are already set."""

    @abstractmethod
    def _scores(self, inputs: NDArray[Any]) -> Floats:
        """Return non-negative scores `(inputs, classes)`, to be normalised."""
