"""Principal components of public masks (PCA-PATE 2020, Generalized PATE 2022; spec A.2 to A.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, at_least
from tacit.codecs.base import PUBLIC, public_masks
from tacit.codecs.linear import COVERAGE, LinearCodec, radius_of
from tacit.errors import InvalidArgument

_RANK = 1e-10
"""Components with a smaller share of the largest singular value are rounding."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class PCACodec(LinearCodec):
    """Coordinates of (answer - public mean) along orthonormal principal components.

    `PCACodec.fit(masks)` keeps every component that the public masks have; decoding shrinks each
    by its Wiener weight. `useful(sigma)` is the papers' L* rule, `ellipsoid(noise)` chooses weights
    by water-filling. Encoder and spectrum are about the same public mean (the 2022 paper's are
    not, spec A.5 E5).

    >>> masks = np.eye(4).reshape(4, 2, 2)
    >>> codec = PCACodec.fit(masks)
    >>> codec.length, bool(np.allclose(codec.decode(codec.encode(masks)), masks))
    (3, True)
    """

    components: Floats

    @classmethod
    def fit(
        cls,
        masks: ArrayLike,
        *,
        n_components: int | None = None,
        coverage: float = COVERAGE,
        folds: int = 5,
    ) -> PCACodec:
        """Fit public masks (n, ...): mean, components, spectrum, and the radius by `coverage`.

        Components explain the masks that they were fitted on better than any others, so spectrum
        and radius come from held-out masks, `folds` times; from the same ones if there are fewer
        than two masks a fold, or folds=1.
        """
        array = public_masks(masks)
        mean = array.mean(axis=0)
        rows = array.reshape(len(array), -1)
        components, examples = principal(rows - mean.ravel(), n_components)
        if 2 <= at_least(1, folds=folds) <= len(rows) // 2:
            examples = held_out(rows, len(components), folds)
        return cls(
            mean=mean,
            components=components,
            spectrum=np.square(examples).mean(axis=0),
            weights=np.ones(len(components)),
            radius=radius_of(examples, coverage),
            examples=examples,
            coverage=coverage,
            provenance="public",
            statement=PUBLIC,
        )

    def _project(self, offsets: Floats) -> Floats:
        return np.asarray(offsets.reshape(len(offsets), -1) @ self.components.T)

    def _expand(self, codes: Floats) -> Floats:
        return np.asarray((codes @ self.components).reshape(len(codes), *self.shape))


def held_out(rows: Floats, length: int, folds: int) -> Floats:
    """Return coordinates (n, length) of each row along the components of the other folds.

    A component that the other folds do not have counts as 0: nothing is known about it.

    >>> held_out(np.array([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0], [-2.0, 0.0]]), 2, folds=2).shape
    (4, 2)
    """
    coordinates = np.zeros((len(rows), length))
    for fold in range(folds):
        out = np.arange(len(rows)) % folds == fold
        mean = rows[~out].mean(axis=0)
        components, _ = principal(rows[~out] - mean, length)
        coordinates[out, : len(components)] = (rows[out] - mean) @ components.T
    return coordinates


def principal(rows: Floats, n_components: int | None) -> tuple[Floats, Floats]:
    """Return orthonormal components, largest first, and the coordinates of the rows.

    >>> components, coordinates = principal(np.array([[0.0, 2.0], [0.0, -2.0]]), None)
    >>> np.abs(components).round(9).tolist(), np.abs(coordinates).round(9).tolist()
    ([[0.0, 1.0]], [[2.0], [2.0]])
    """
    left, sizes, right = np.linalg.svd(rows, full_matrices=False)
    rank = int((sizes > _RANK * max(sizes[0], np.finfo(np.float64).tiny)).sum())
    if not rank:
        raise InvalidArgument("Expected public masks that differ from each other.")
    kept = rank if n_components is None else min(rank, at_least(1, n_components=n_components))
    return right[:kept], left[:, :kept] * sizes[:kept]
