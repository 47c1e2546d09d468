"""What students accept: public inputs, rows that were asked about, and what was released on them.

Checks shared by all students. Public inputs and releases only: nothing private ever enters this
floor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, Integers, at_least, refuse
from tacit.errors import InvalidArgument
from tacit.students.posterior import answer_weights, posterior_rows


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """All that a student learns from: public rows, rows asked about, the posterior of each."""

    inputs: NDArray[Any]
    indices: Integers
    posterior: Floats
    weights: Floats

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Which of the asked rows say anything at all."""
        return self.weights > 0


def read_lesson(X_public: ArrayLike, indices: ArrayLike, posterior: ArrayLike) -> Lesson:
    """Validate what a student is fitted on; a row may be asked about more than once."""
    inputs = flat_rows(X_public=X_public)
    rows = posterior_rows(posterior)
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
