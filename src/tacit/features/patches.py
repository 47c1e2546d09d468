"""Public patches: a dictionary of squares of public images, and where an image resembles them.

The dictionary is learned from public images alone, without labels. A row's features depend on that
row alone, bit for bit: squares and filters are whole numbers, small enough that every partial sum
of their products is an integer below 2^24, which float32 holds; all else is one operation for each
number, or a sum of planes in a fixed order, as in `tacit.features.images`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from tacit._checks import Floats, Shape, at_least, non_negative, positive, refuse, shape_pair
from tacit.errors import InvalidArgument
from tacit.features.images import Planes, planes_of
from tacit.features.scales import ScaledHOG
from tacit.features.whitening import PublicKernel, PublicWhitening

FAINT_SQUARE = 0.01
"""Variance, of a brightest pixel of 1, that is added to that of every square."""
SQUARE_STEPS = 512.0
"""A number of a square is rounded to so many steps for one standard deviation."""
_PRODUCT_STEPS = 2.0**23 - 2.0**16
"""What a square times a filter reaches, and a threshold: what rounding adds leaves 2^24 unreached,
as long as patches are no larger than the largest."""
_LARGEST_PATCH = 15
_RIDGE = 0.1
"""Added to the variances of squares before they are evened out."""
_LEARNED_FROM = 40_000  # squares, at most as many images: enough for some hundred atoms
_ROUNDS = 12  # of k-means


@dataclass(eq=False, repr=False)
class PublicPatches(ScaledHOG):
    """Describe each image by `ScaledHOG`, and by the patches of public images that it resembles.

    A square x, of mean m and variance v, becomes q = (x - m)/sqrt(v + 0.01). With S the second
    moment of such squares of public images, the atoms d are directions of length 1 by spherical
    k-means of A q, A = (S + 0.1)^(-1/2), and a square contributes max(0, d A q - threshold) for
    each of them. Sums over regions are divided by their total, and roots are taken. Fitted on
    private images they break every claim. Chosen on the training part of Fashion-MNIST. Source:
    Coates, Lee and Ng (2011); docs/theory/speak-once.md#public-whitening.

    Parameters
    ----------
    image_shape, cells, pixels, mirror
        As in `ScaledHOG`. With `mirror` the dictionary holds every patch and its mirror image.
    patch : int, pixels along each side of a patch, an odd number from 3 to 15
    atoms : int, how many patches the dictionary holds; with `mirror` an even number
    regions : int, regions along each side of the image over which answers are summed
    threshold : float, resemblance up to this counts as none
    weight : float, how long these features are, where each grid of `ScaledHOG` has length 1
    random_state : int, seeds the choice of squares that the dictionary is learned from

    Attributes
    ----------
    filters_ : array of shape (atoms, patch * patch + 1)
        Whole numbers: what a square is multiplied with, and last minus the threshold. Public.
    """

    _learned: ClassVar[tuple[str, ...]] = ("filters_",)

    _: KW_ONLY
    patch: int = 7
    atoms: int = 256
    regions: int = 4
    threshold: float = 0.5
    weight: float = 2.0
    random_state: int = 0

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn the dictionary from public images.

        Parameters
        ----------
        X : array of shape (n, height * width) or (n, height, width), public images
        y : object, ignored

        Returns
        -------
        self
        """
        rows = self._rows(X)
        draw = np.random.default_rng(self.random_state)
        squares = self._drawn_squares(rows, draw)
        both = self._both(squares)
        values, vectors = np.linalg.eigh(both.T @ both / len(both))
        even = (vectors / np.sqrt(np.maximum(values, 0.0) + _RIDGE)) @ vectors.T
        self.filters_ = self._whole(self._dictionary(squares @ even, draw) @ even)
        return self

    def _check(self) -> None:
        super()._check()
        shape = shape_pair(image_shape=self.image_shape)
        if at_least(3, patch=self.patch) % 2 == 0 or self.patch > _LARGEST_PATCH:
            raise refuse("patch", self.patch, f"an odd number from 3 to {_LARGEST_PATCH}")
        if at_least(2, atoms=self.atoms) % 2 and self.mirror:
            raise refuse("atoms", self.atoms, "an even number, where mirror images are looked at")
        if at_least(1, regions=self.regions) > min(shape):
            raise refuse("regions", self.regions, f"at most the sides of {shape}")
        non_negative(threshold=self.threshold)
        positive(weight=self.weight)

    @property
    def _own_atoms(self) -> int:
        """The number of atoms without mirror images."""
        return self.atoms // 2 if self.mirror else self.atoms

    @property
    def _n_features_out(self) -> int:
        return super()._n_features_out + self._own_atoms * self.regions**2

    def _drawn_squares(self, rows: NDArray[Any], draw: np.random.Generator) -> Floats:
        """Return squares of public images at random places, those with some contrast."""
        rows = rows[draw.permutation(len(rows))[:_LEARNED_FROM]]
        if not len(rows):
            raise InvalidArgument("Expected public images to learn patches from.")
        images = self._framed(planes_of(rows, self.image_shape)).transpose(2, 0, 1)
        sides = (self.patch, self.patch)
        places = np.lib.stride_tricks.sliding_window_view(images, sides, axis=(1, 2))
        count = min(_LEARNED_FROM, math.prod(places.shape[:3]))
        at = tuple(draw.integers(size, size=count) for size in places.shape[:3])
        squares: Floats = places[at].reshape(count, -1).astype(np.float64)
        squares -= squares.mean(axis=1, keepdims=True)
        variances = (squares**2).mean(axis=1, keepdims=True)
        squares /= np.sqrt(variances + FAINT_SQUARE)
        squares = squares[variances[:, 0] > FAINT_SQUARE / 10]
        if len(squares) < self.atoms:
            raise InvalidArgument(f"Expected public images with {self.atoms} squares of contrast.")
        return squares

    def _dictionary(self, squares: Floats, draw: np.random.Generator) -> Floats:
        """Return directions of length 1, by spherical k-means.

        With `mirror` the second half mirrors the first: squares nearest to it move their atom
        mirrored.
        """
        rows = squares / np.linalg.norm(squares, axis=1, keepdims=True)
        atoms = rows[draw.permutation(len(rows))[: self._own_atoms]]
        for _ in range(_ROUNDS):
            nearest = (rows @ self._both(atoms).T).argmax(axis=1)
            turned = nearest >= len(atoms)
            alike = np.where(turned[:, None], self._mirrored(rows), rows)
            sums = np.zeros_like(atoms)
            np.add.at(sums, nearest % len(atoms), alike)
            lengths = np.linalg.norm(sums, axis=1, keepdims=True)
            atoms = np.where(lengths > 0, sums / np.where(lengths > 0, lengths, 1.0), atoms)
        return self._both(atoms)

    def _both(self, squares: Floats) -> Floats:
        return np.concatenate([squares, self._mirrored(squares)]) if self.mirror else squares

    def _mirrored(self, squares: Floats) -> Floats:
        sides = (-1, self.patch, self.patch)
        return np.asarray(squares.reshape(sides)[:, :, ::-1].reshape(len(squares), -1))

    def _whole(self, filters: Floats) -> Floats:
        """Round filters to whole steps: |q| <= patch and |filter| bound every partial sum."""
        longest = np.linalg.norm(filters, axis=1).max() * self.patch
        unit = _PRODUCT_STEPS / (longest * SQUARE_STEPS)
        nothing = min(self.threshold / longest, 1.0) * _PRODUCT_STEPS
        steps = np.column_stack([filters * unit, np.full(len(filters), -nothing)])
        return np.asarray(np.rint(steps), dtype=np.float64)

    def learned_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was learned from public images, to be saved with a student.

        Returns
        -------
        dict from str to array, public
        """
        check_is_fitted(self, "filters_")
        return {"filters_": self.filters_}

    def take_up(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Restore from `learned_arrays`.

        Parameters
        ----------
        arrays : mapping

        Returns
        -------
        self
        """
        self.filters_ = np.asarray(arrays["filters_"], dtype=np.float64)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags

    def _transform_planes(self, planes: Planes) -> Planes:
        check_is_fitted(self, "filters_")
        patches = self._resemblances(planes) * np.float32(self.weight)
        return np.concatenate([super()._transform_planes(planes), patches])

    def _framed(self, planes: Planes) -> Planes:
        """Return images with a dark frame, so that every pixel is the middle of a square."""
        reach = self.patch // 2
        return np.pad(planes, ((reach, reach), (reach, reach), (0, 0)))

    def _resemblances(self, planes: Planes) -> Planes:
        """Return how much of each region resembles each atom, of unit length."""
        height, width, n = planes.shape
        framed, filters = self._framed(planes), self.filters_.astype(np.float32)
        mean, scale = square_statistics(framed, self.patch)
        found = np.zeros((self.regions, self.regions, self._own_atoms, n), dtype=np.float32)
        square = np.ones((self.patch**2 + 1, n), dtype=np.float32)  # the last row: for thresholds
        pixels = square[:-1].reshape(self.patch, self.patch, n)
        answers = np.empty((self.atoms, n), dtype=np.float32)
        for y, x in np.ndindex(height, width):
            around = framed[y : y + self.patch, x : x + self.patch]
            np.subtract(around, mean[y, x], out=pixels)
            np.multiply(pixels, scale[y, x], out=pixels)
            np.rint(pixels, out=pixels)
            np.matmul(filters, square, out=answers)
            np.maximum(answers, 0, out=answers)
            row = found[y * self.regions // height]
            row[x * self.regions // width] += answers[: self._own_atoms]
            if self.mirror:  # what the mirror image has at its other end
                row[(width - 1 - x) * self.regions // width] += answers[self._own_atoms :]
        return _rooted(found.reshape(-1, n))


def square_statistics(framed: Planes, patch: int) -> tuple[Planes, Planes]:
    """Return mean and steps for one deviation of each pixel's square, summed in a fixed order."""
    totals = []
    for power in (1, 2):
        sums = framed.astype(np.float64) ** power
        for _ in range(2):
            lines = len(sums) - patch + 1
            shifted = [sums[k : k + lines] for k in range(patch)]
            sums = sum(shifted[1:], start=shifted[0]).swapaxes(0, 1)
        totals.append(sums / patch**2)
    mean, square = totals
    variance = np.maximum(square - mean * mean, 0.0)
    steps = SQUARE_STEPS / np.sqrt(variance + FAINT_SQUARE)
    return mean.astype(np.float32), steps.astype(np.float32)


def _rooted(features: Planes) -> Planes:
    """Divide by the total, which is added in a fixed order, and take roots: length 1."""
    total = np.zeros(features.shape[1], dtype=np.float32)
    for feature in features:
        total += feature
    total[total == 0] = 1
    features /= total
    return np.sqrt(features, out=features)


def image_features(image_shape: Shape = (28, 28), *, strength: float | None = None) -> Any:
    """Make the pipeline for images that are no digits, to be fitted on public images.

    Chosen on the training part of Fashion-MNIST. For written digits `digit_features` is better, and
    where a mirror image is something else, build the pipeline with `mirror=False`.

    Parameters
    ----------
    image_shape : pair of int, (height, width) of the images
    strength : float, optional
        n mu, from a declared number of records; None leaves it to the estimator's `n_records`.

    Returns
    -------
    Pipeline
        `PublicPatches` of an image and its mirror image, whitening to 500 directions, a kernel on
        2,000 public images, and whitening to as many directions as the strength supports.
    """
    from sklearn.pipeline import make_pipeline

    side = min(shape_pair(image_shape=image_shape))
    # As many cells and regions as have a few pixels each, and patches that are no whole images.
    cells, patch = ((8, 4), 7) if side >= 16 else ((max(side // 4, 1),), 5)
    patches = PublicPatches(
        image_shape,
        cells=cells,
        pixels=side // 2,
        mirror=True,
        patch=patch,
        regions=min(4, side),
    )
    return make_pipeline(
        patches,
        PublicWhitening(500, power=0.5),
        PublicKernel(),
        PublicWhitening(strength=strength),
    )
