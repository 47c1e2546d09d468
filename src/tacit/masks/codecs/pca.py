"""Principal components of public masks (PCA-PATE 2020, Generalized PATE 2022).

Where it differs from them: docs/theory/high-dimensional.md#what-the-papers-say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, at_least, non_negative
from tacit.errors import InvalidArgument
from tacit.masks.codecs.base import PUBLIC, public_masks, spatial_sides
from tacit.masks.codecs.deforming import deformed
from tacit.masks.codecs.linear import COVERAGE, LinearCodec, radius_of

_RANK = 1e-10
"""Components with a smaller share of the largest singular value are rounding."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class PCACodec(LinearCodec):
    """Coordinates of (answer - public mean) along orthonormal principal components.

    `PCACodec.fit(masks)` keeps every component that the public masks have; decoding shrinks each
    by its Wiener weight. `useful(sigma)` is the papers' L* rule, `ellipsoid(noise)` chooses weights
    by water-filling. Encoder and spectrum are about the same public mean (the 2022 paper's are
    not).

    >>> masks = np.eye(4).reshape(4, 2, 2)
    >>> codec = PCACodec.fit(masks)
    >>> codec.length, bool(np.allclose(codec.decode(codec.encode(masks)), masks))
    (3, True)
    """

    components: Floats
    blur: tuple[float, ...] = ()

    @classmethod
    def fit(
        cls,
        masks: ArrayLike,
        *,
        n_components: int | None = None,
        coverage: float = COVERAGE,
        folds: int = 5,
        blur: float = 0.0,
        copies: int = 0,
        dimensions: int | None = None,
        random_state: int = 0,
    ) -> PCACodec:
        """Fit public masks (n, ...): mean, components, spectrum, and the radius by `coverage`.

        Components explain the masks that they were fitted on better than any others, so spectrum
        and radius come from held-out masks, `folds` times; from the same ones if there are fewer
        than two masks a fold, or folds=1.

        blur: deviation in voxels of a Gaussian over every answer before it is encoded; jagged
            boundaries cost components and say little. `decode` returns blurred answers.
        copies: so many `deformed` copies of each mask help to find the components.
        dimensions: how many of the last axes are spatial, for masks with channels.
        """
        array = public_masks(masks)
        width = non_negative(blur=blur)
        sides = spatial_sides(array.shape[1:], dimensions)
        widths = (0.0,) * (array.ndim - 1 - len(sides)) + (width,) * len(sides)
        more = deformed(array, copies, dimensions=len(sides), random_state=random_state)
        rows = blurred(np.concatenate([array, more]), widths).reshape(-1, array[0].size)
        mean = rows[: len(array)].mean(axis=0)
        components, examples = principal(rows - mean, n_components)
        examples = examples[: len(array)]
        if 2 <= at_least(1, folds=folds) <= len(array) // 2:
            examples = held_out(rows, len(components), folds, n_masks=len(array))
        return cls(
            mean=mean.reshape(array.shape[1:]),
            components=components,
            blur=widths if width else (),
            spectrum=np.square(examples).mean(axis=0),
            weights=np.ones(len(components)),
            radius=radius_of(examples, coverage),
            examples=examples,
            coverage=coverage,
            provenance="public",
            statement=PUBLIC,
        )

    def _prepare(self, answers: Floats) -> Floats:
        return blurred(answers, self.blur)

    def _project(self, offsets: Floats) -> Floats:
        return np.asarray(offsets.reshape(len(offsets), -1) @ self.components.T)

    def _expand(self, codes: Floats) -> Floats:
        return np.asarray((codes @ self.components).reshape(len(codes), *self.shape))


def blurred(answers: Floats, widths: tuple[float, ...]) -> Floats:
    """Return each answer blurred by Gaussians of these widths along its axes, 0 outside.

    >>> blurred(np.eye(3)[None, 1], (0.5,)).round(2).tolist()
    [[0.11, 0.79, 0.11]]
    """
    if not any(widths):
        return answers
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(answers, (0.0, *widths), mode="constant"))


def held_out(rows: Floats, length: int, folds: int, n_masks: int | None = None) -> Floats:
    """Return coordinates (n, length) of each mask along the components of the other folds.

    Copies of a mask, the rows after the first `n_masks`, are in the fold of their mask. A component
    that the other folds do not have counts as 0: nothing is known about it.

    >>> held_out(np.array([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0], [-2.0, 0.0]]), 2, folds=2).shape
    (4, 2)
    """
    total = len(rows) if n_masks is None else n_masks
    coordinates = np.zeros((total, length))
    of_row = np.arange(len(rows)) % total % folds
    for fold in range(folds):
        out = of_row[:total] == fold
        mean = rows[:total][~out].mean(axis=0)
        components, _ = principal(rows[of_row != fold] - mean, length)
        coordinates[out, : len(components)] = (rows[:total][out] - mean) @ components.T
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
