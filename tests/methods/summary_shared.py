"""Small problems for the estimators whose records speak once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from flat_settings import built
from knn_shared import blobs

from tacit import InsecureNoise, MomentClassifier, PrototypeClassifier, ResidualRidgeClassifier
from tacit.mechanisms import Contributions, NoisySum

OWN: dict[type, dict[str, Any]] = {
    PrototypeClassifier: {"n_prototypes": 12, "votes": 2},
    MomentClassifier: {},
    ResidualRidgeClassifier: {"n_landmarks": 20},
}
KINDS = list(OWN)
NAMES = ["prototypes", "moments", "ridge"]


def make(kind: type, **changes: Any) -> Any:
    """Return an unfitted estimator of this kind for three clouds of points."""
    settings: dict[str, Any] = {
        "epsilon": 2.0,
        "classes": (0, 1, 2),
        "random_state": 0,
        "noise": InsecureNoise(0),
        **OWN[kind],
    }
    return built(kind, **{**settings, **changes})


def tables_of(model: Any) -> list[np.ndarray]:
    """Everything that a fitted model released."""
    releases = [model.table_] if hasattr(model, "table_") else model.releases_
    return [np.asarray(release.values) for release in releases]


@contextmanager
def watching(look: Callable[[NoisySum, Contributions], Any]) -> Iterator[list[Any]]:
    """Collect what `look` finds in the contributions to each sum that is released in the block."""
    found: list[Any] = []
    original = NoisySum._total

    def watched(mechanism: NoisySum, said: Contributions) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(NoisySum, "_total", original)
            found.append(look(mechanism, said))
        return original(mechanism, said)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NoisySum, "_total", watched)
        yield found


def moves_of(gone: np.ndarray) -> Callable[[NoisySum, Contributions], float]:
    """Return by how much a sum moves if these records are taken away, all else being equal.

    Else includes earlier releases, on which later contributions may depend.
    """

    def look(mechanism: NoisySum, said: Contributions) -> float:
        kept = np.flatnonzero(~gone)
        rest = Contributions(
            len(kept),
            lambda rows: said.left(kept[rows]),
            lambda rows: said.right(kept[rows]),
            None if said.units is None else said.units[kept],
        )
        moved = mechanism._total(said) - mechanism._total(rest)
        return float(np.linalg.norm(moved.astype(float))) * 2.0**-28

    return look


def check_features_are_ones_own(
    fit: Callable[[Any, Any], Any], X: Any, y: Any, *, label: float
) -> None:
    """What 50 records say of their inputs is the same beside a wild record, a tame one, or none.

    `fit` takes rows and labels; `label` is the extra record's.
    """
    found = []
    for extra in ([[1e15, -1e15]], [[0.5, 0.5]], np.empty((0, 2))):
        with watching(lefts_of) as lefts:
            fit(np.vstack([X[:50], extra]), np.append(y[:50], [label] * len(extra)))
        found.append(lefts)
    for one, two, three in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(two, three)


def lefts_of(mechanism: NoisySum, said: Contributions) -> np.ndarray:
    """Return the first forty records' features: their own, whoever else is there."""
    del mechanism
    return np.asarray(said.left(np.arange(40)))


CROWD = 22_500
"""Records of one person: of a vector's share of 1/CROWD, every number above 0.69 is rounded up to a
step of the grid, 2^-14, and added up CROWD times that is 1.37."""


def farthest(outside: np.ndarray) -> np.ndarray:
    """Return a place beside the public input farthest from their mean: its features are long."""
    centred = outside - outside.mean(axis=0)
    return np.asarray(outside[np.linalg.norm(centred, axis=1).argmax()] + 1e-9)


__all__ = [
    "CROWD",
    "KINDS",
    "NAMES",
    "OWN",
    "blobs",
    "check_features_are_ones_own",
    "farthest",
    "make",
    "moves_of",
    "tables_of",
    "watching",
]
