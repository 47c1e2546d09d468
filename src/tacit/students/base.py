"""What a student is: fitted on public inputs and releases, it predicts, and can be saved.

`Student` is the protocol; `PublicLearner` has checks, public features and saving; `BaseStudent`
adds probabilities. Nothing private enters this package: a fitted student may be published under the
statement of the ledger that paid for its releases.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from tacit._checks import (
    Floats,
    Integers,
    at_least,
    blocks,
    finite_array,
    refuse,
    simplex_rows,
)
from tacit._files import PathLike
from tacit.errors import InvalidArgument
from tacit.students.posterior import answer_weights
from tacit.students.score_map import ScoreMap

_BLOCK = 4096  # inputs predicted at a time


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """A training set: public rows, the queried rows, the posterior of each."""

    inputs: NDArray[Any]
    indices: Integers
    posterior: Floats
    weights: Floats

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Which of the queries have a posterior that is not uniform."""
        return self.weights > 0


def read_lesson(X_public: ArrayLike, indices: ArrayLike, posterior: ArrayLike) -> Lesson:
    """Validate what a student is fitted on; a row may be queried more than once."""
    inputs = flat_rows(X_public=X_public)
    rows = simplex_rows(posterior=posterior)
    numbers = row_numbers(indices, len(inputs))
    if numbers.size != len(rows):
        raise InvalidArgument(
            f"Expected one row of posterior for each of the {numbers.size} indices, "
            f"got {len(rows)}."
        )
    weights = answer_weights(rows)
    if not (weights > 0).any():
        raise InvalidArgument(
            "Expected at least one answered query; with none there is nothing to learn: "
            "lower the threshold or the noise. What was spent on asking stays spent."
        )
    return Lesson(inputs, numbers, rows, weights)


def flat_rows(**named: ArrayLike) -> NDArray[Any]:
    """Return numbers `(rows, features)`, images flattened, dtype kept, without NaN or infinity."""
    ((name, value),) = named.items()
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(f"Expected {name} to be an array of numbers.") from None
    if array.dtype.kind not in "biuf":
        raise InvalidArgument(f"Expected {name} to be numbers, got dtype {array.dtype}.")
    if array.ndim < 2 or 0 in array.shape:
        raise InvalidArgument(
            f"Expected {name} of shape (rows, features), not empty, got shape {array.shape}."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InvalidArgument(f"Expected {name} to hold finite numbers only; remove NaN and inf.")
    return array.reshape(len(array), -1)


def row_numbers(rows: ArrayLike, n_public: int, *, strategy: bool = False) -> Integers:
    """Return row numbers of the public inputs as int64, each in range."""
    name = "strategy" if strategy else "indices"
    numbers = np.asarray(rows)
    if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu":
        choices = "'medoids', 'random' or " if strategy else ""
        raise refuse(name, rows, f"{choices}a list of row numbers")
    if (numbers < 0).any() or (numbers >= n_public).any():
        raise InvalidArgument(f"Expected {name} in 0 .. {n_public - 1}, the public inputs' rows.")
    return numbers.astype(np.int64)


def seed_of(random_state: Any) -> int:
    """Return a seed for training (never for noise): an int, or a fresh one for None."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    seed = at_least(0, random_state=random_state)
    if seed >= 2**32:
        raise refuse("random_state", random_state, "below 2**32")
    return seed


def normalised(scores: Floats) -> Floats:
    """Return non-negative scores as rows that sum to 1; a row of zeros becomes uniform."""
    scores = np.maximum(np.asarray(scores, dtype=np.float64), 0.0)
    sums = scores.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(sums > 0, scores / sums, 1 / scores.shape[1]))


class Student(Protocol):
    """Learns from public inputs and the posteriors of some of them: post-processing."""

    def fit(self, X_public: ArrayLike, indices: ArrayLike, posterior: ArrayLike) -> Self:
        """Learn from rows `indices` of the public inputs, each with its posterior over classes.

        Parameters
        ----------
        X_public : array of shape (inputs, features), all public inputs, queried or not
        indices : array of shape (queries,), the rows of `X_public` of the posteriors
        posterior : array of shape (queries, classes), from `label_posterior`; rows sum to 1

        Returns
        -------
        Student, itself, fitted
        """

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return P(class | input); each row sums to 1.

        Parameters
        ----------
        X : array of shape (inputs, features), in the form of `X_public`

        Returns
        -------
        array of shape (inputs, classes)
        """

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return class indices, or labels where it knows them.

        Parameters
        ----------
        X : array of shape (inputs, features), in the form of `X_public`

        Returns
        -------
        array of shape (inputs,)
        """


class PublicLearner(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """Base of every student: public features, checked inputs, saving.

    Learned: `n_features_in_`, `features_` (the fitted public transformer), and the number of
    outputs under the name in `_count_name`.
    """

    features: Any
    _count_name: ClassVar[str]
    _saved: ClassVar[tuple[str, ...]] = ()  # what is learned and saved, without the last "_"

    def save(self, path: PathLike, *, extra: Mapping[str, Any] | None = None) -> None:
        """Write the fitted student to one file without pickle, replacing it atomically.

        `load_student` reads it back; `extra` is plain public data (class names, a statement).
        """
        from tacit.students.saving import save_student

        check_is_fitted(self, self._count_name)
        save_student(self, path, extra=extra)

    def _fit_features(self, inputs: NDArray[Any]) -> None:
        """Note the public inputs' width, and fit the features on them."""
        self.n_features_in_ = inputs.shape[1]
        self.features_ = None if self.features is None else clone(self.features).fit(inputs)

    def _blocks(self, X: ArrayLike) -> Iterator[NDArray[Any]]:
        """Check the inputs of a prediction, and yield them in blocks."""
        check_is_fitted(self, self._count_name)
        inputs = flat_rows(X=X)
        if inputs.shape[1] != self.n_features_in_:
            raise InvalidArgument(
                f"Expected X with {self.n_features_in_} features, as in X_public, "
                f"got {inputs.shape[1]}."
            )
        yield from (inputs[block] for block in blocks(len(inputs), _BLOCK))

    def _view(self, inputs: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Return the inputs in the public feature space."""
        if self.features_ is not None:
            inputs = flat_rows(features=self.features_.transform(inputs))
        return np.asarray(inputs, dtype=dtype)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was learned, as arrays to save."""
        return {name: np.atleast_1d(getattr(self, f"{name}_")) for name in self._saved}

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore what `_arrays` returned; a subclass refuses what does not fit together."""
        for name in self._saved:
            # In one layout, or the last bits of a product would depend on where it comes from.
            setattr(self, f"{name}_", np.ascontiguousarray(finite_array(**{name: arrays[name]})))


class BaseStudent(PublicLearner):
    """A student of classes; a subclass learns in `_learn` and answers in `_scores`.

    Learned: `n_features_in_`, `n_classes_`, and `features_` (the fitted public transformer).
    `classes_` are the labels with which it was loaded (`load_student`), or None; `score_map_` is a
    `ScoreMap` that calibrates it, or None.
    """

    _count_name: ClassVar[str] = "n_classes_"
    classes_: NDArray[Any] | None = None
    score_map_: ScoreMap | None = None

    def fit(self, X_public: ArrayLike, indices: ArrayLike, posterior: ArrayLike) -> Self:
        """Learn from rows `indices` of the public inputs, each with its posterior over classes.

        Images may keep their shape; a row may be named more than once. A uniform posterior (an
        unanswered query) has no weight, and at least one must not be uniform.
        """
        lesson = read_lesson(X_public, indices, posterior)
        self.n_classes_, self.classes_ = lesson.posterior.shape[1], None
        self.score_map_ = None
        self._fit_features(lesson.inputs)
        self._learn(lesson)
        return self

    def fit_each(
        self, X_public: ArrayLike, lessons: Sequence[tuple[ArrayLike, ArrayLike]]
    ) -> list[Self]:
        """Return one fitted clone for each (indices, posterior) of the same inputs."""
        return [clone(self).fit(X_public, *lesson) for lesson in lessons]

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return P(class | input), (inputs, classes); each row sums to 1."""
        said = np.concatenate([normalised(self._scores(block)) for block in self._blocks(X)])
        return said if self.score_map_ is None else self.score_map_(said)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each input: its label, its index if there is none."""
        places = np.asarray(self.predict_proba(X).argmax(axis=1), dtype=np.int64)
        return places if self.classes_ is None else self.classes_[places]

    def represent(self, X: ArrayLike) -> Floats:
        """Return learned features: its probabilities, or a network's last layer."""
        return self.predict_proba(X)

    @classmethod
    def for_data(cls, data: Any, settings: Mapping[str, Any]) -> Self:
        """Return the student of this name in run.toml; only public facts decide."""
        return cls()

    @abstractmethod
    def _learn(self, lesson: Lesson) -> None:
        """Learn; `n_features_in_`, `n_classes_` and `features_` are already set."""

    @abstractmethod
    def _scores(self, inputs: NDArray[Any]) -> Floats:
        """Return non-negative scores `(inputs, classes)`, to be normalised."""
