"""Principal components of public masks (PCA-PATE 2020, Generalized PATE 2022), or bought ones.

Differences from the papers: docs/theory/high-dimensional.md#what-the-papers-say. Components of
private masks are bought: `NoisySecondMoment` releases sum y y^T of clipped masks, the rest is
post-processing (docs/theory/high-dimensional.md#private-components).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, at_least, finite_array, non_negative
from tacit.errors import InvalidArgument
from tacit.masks.codecs import LinearCodec, answer_rows, public_masks, shape_of, spatial_sides
from tacit.mechanisms import NoisySecondMoment, Plan, Release

if TYPE_CHECKING:
    from tacit.ledger import Ledger
    from tacit.noise import InsecureNoise


_RANK = 1e-10  # components with a smaller share of the largest singular value are rounding


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class PCACodec(LinearCodec):
    """Coordinates of (answer - public mean) along orthonormal principal components.

    Decoding shrinks each by its Wiener weight; `useful(sigma)` is the papers' L* rule,
    `ellipsoid(noise)` water-filling. Sources: PCA-PATE 2020, Generalized PATE 2022;
    `docs/theory/high-dimensional.md#what-to-keep`.

    Parameters
    ----------
    mean, spectrum, weights, examples, provenance, statement : as in `LinearCodec`
    components : array of shape (length, voxels), orthonormal rows, the most important first
    blur : tuple of float
        Deviations, in voxels along each axis, of the Gaussian over every answer; empty for none.

    Examples
    --------
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
        folds: int = 5,
        blur: float = 0.0,
        copies: int = 0,
        dimensions: int | None = None,
        random_state: int = 0,
    ) -> PCACodec:
        """Fit mean, components and spectrum of public masks.

        Parameters
        ----------
        masks : array of shape (n, ...), public masks, at least two that differ
        n_components : int, optional, the most components; by default all that the masks have
        folds : int
            Spectrum and radius come from masks held out in so many folds; from the same masks if
            there are fewer than two masks a fold, or folds=1.
        blur : float
            Deviation in voxels of a Gaussian over every answer before it is encoded: jagged
            boundaries cost components. `decode` returns blurred answers.
        copies : int, how many `deformed` copies of each mask help to find the components
        dimensions : int, optional
            How many of the last axes are spatial, for masks with channels; by default all.
        random_state : int, seeds the deformed copies

        Returns
        -------
        PCACodec, public, as the masks are; its weights are 1
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
            examples=examples,
        )

    def _prepare(self, answers: Floats) -> Floats:
        return blurred(answers, self.blur)

    def _project(self, offsets: Floats) -> Floats:
        return np.asarray(offsets.reshape(len(offsets), -1) @ self.components.T)

    def _expand(self, codes: Floats) -> Floats:
        return np.asarray((codes @ self.components).reshape(len(codes), *self.shape))


def blurred(answers: Floats, widths: tuple[float, ...]) -> Floats:
    """Return each answer blurred by Gaussians of these widths along its axes, 0 beyond it."""
    if not any(widths):
        return answers
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(answers, (0.0, *widths), mode="constant"))


def held_out(rows: Floats, length: int, folds: int, n_masks: int | None = None) -> Floats:
    """Return coordinates (n, length) of each mask along the components of the other folds.

    Copies, the rows after the first `n_masks`, share their mask's fold; a missing component is 0.
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


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class DPPCACodec(PCACodec):
    """A `PCACodec` whose components come from private masks, through a ledger: `DPPCACodec.buy`.

    Masks are centred with a public mean, never a private one. The radius for one query is the rms
    of the codes. Source: `docs/theory/high-dimensional.md#private-components`.

    Parameters
    ----------
    mean, spectrum, weights, examples, provenance, statement, components, blur
        As in `PCACodec`; there are no examples and no blur, and the provenance is "dp".
    """

    @classmethod
    def buy(
        cls,
        masks: ArrayLike,
        ledger: Ledger,
        *,
        sigma: float,
        radius: float,
        n_masks: int,
        n_components: int,
        mean: ArrayLike | None = None,
        noise: InsecureNoise | None = None,
    ) -> DPPCACodec:
        """Fit private masks, and pay mu^2 = 1/sigma^2 for it.

        Parameters
        ----------
        masks : array of shape (n, ...), private masks, one for each unit of the ledger
        ledger : Ledger, pays
        sigma : float, noise, in units of what one mask can add to the sum
        radius : float, to which |mask - mean| is clipped; public
        n_masks : int, publicly known number of masks; it only scales the spectrum
        n_components : int
        mean : float or array of shape (...), optional
            A public mean mask; 1/2 everywhere by default.
        noise : InsecureNoise, optional
            Seeded noise for tests: not private, and the codec states it.

        Returns
        -------
        DPPCACodec, releasable: all that depends on the masks went through the ledger
        """
        shape = np.shape(masks)[1:]
        centre = _public_mean(mean, shape)
        mechanism = NoisySecondMoment(sigma, centre.size, radius)
        count = at_least(1, n_masks=n_masks)
        kept = min(at_least(1, n_components=n_components), mechanism.dimension)
        with np.errstate(all="ignore"):  # the mechanism makes 0 of what is not finite
            rows = (answer_rows(masks, shape) - centre).reshape(-1, centre.size)
        plan = Plan(mechanism, 1)  # what can be refused was refused: from here on it is paid for
        with ledger.release(plan, purpose="components of a codec", noise=noise) as grant:
            release = grant.release(rows)
        roots, vectors = np.linalg.eigh(np.asarray(release.values))  # from here on all is public
        largest = explained(roots[::-1][:kept], mechanism) / count
        return cls(
            mean=centre,
            components=np.ascontiguousarray(vectors[:, ::-1][:, :kept].T),
            spectrum=largest,
            weights=np.ones(kept),
            provenance="dp",
            statement=_statement(mechanism, release),
        )


def explained(roots: Floats, mechanism: NoisySecondMoment) -> Floats:
    """Return what a noisy eigenvector explains of the sum: sqrt(root^2 - edge^2), 0 below the edge.

    Noise alone has roots up to edge = radius^2 sigma sqrt(2 dimension) (semicircle law); the
    formula is a true root times its eigenvector's cosine (Benaych-Georges and Nadakuditi 2011).
    """
    edge = mechanism.radius**2 * mechanism.sigma * math.sqrt(2 * mechanism.dimension)
    return np.sqrt(np.maximum(np.maximum(roots, 0.0) ** 2 - edge**2, 0.0))


def _public_mean(mean: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    centre = finite_array(mean=0.5 if mean is None else mean)
    try:
        return np.array(np.broadcast_to(centre, shape))
    except ValueError:
        raise InvalidArgument(f"Expected mean to fit {shape}, got {centre.shape}.") from None


def _statement(mechanism: NoisySecondMoment, release: Release) -> str:
    warning = "" if release.secure else " with seeded noise, NOT private"
    return (
        f"bought from private masks by {mechanism!r}, mu^2 = {mechanism.gaussian_cost():.6g}, "
        f"ledger entry {release.entry}{warning}"
    )


def deformed(
    masks: ArrayLike,
    copies: int,
    *,
    dimensions: int | None = None,
    shift: float = 0.5,
    stretch: float = 0.04,
    bend: float = 0.5,
    wavelength: float = 4.0,
    random_state: int = 0,
) -> Floats:
    """Return `copies` deformed versions of every public mask, copy by copy.

    Parameters
    ----------
    masks : array of shape (n, ...), public masks
    copies : int, how many of each mask
    dimensions : int, optional
        How many of the last axes are spatial, all of them unless given; channels move together.
    shift : float, deviation in voxels of a translation
    stretch : float, deviation of the entries of a linear map about the middle
    bend : float, deviation in voxels of a smooth random displacement
    wavelength : float, blur of that displacement, in voxels
    random_state : int

    Returns
    -------
    array of shape (copies * n, ...), values are interpolated linearly, 0 beyond the border
    """
    from scipy.ndimage import map_coordinates

    array = public_masks(masks)
    sides = spatial_sides(array.shape[1:], dimensions)
    sizes = [non_negative(shift=shift), non_negative(stretch=stretch), non_negative(bend=bend)]
    rng = np.random.default_rng(at_least(0, random_state=random_state))
    made = np.empty((at_least(0, copies=copies), *array.shape))
    for copy in made:
        for mask, out in zip(array, copy, strict=True):
            places = _places(sides, sizes, wavelength, rng)
            planes = out.reshape(-1, *sides)
            for plane, target in zip(mask.reshape(-1, *sides), planes, strict=True):
                target[...] = map_coordinates(plane, places, order=1)
    return made.reshape(-1, *array.shape[1:])


def _places(
    sides: tuple[int, ...], sizes: list[float], wavelength: float, rng: np.random.Generator
) -> Floats:
    """Return the coordinates that each voxel's value is taken from."""
    from scipy.ndimage import gaussian_filter

    shift, stretch, bend = sizes
    axes = np.meshgrid(*(np.arange(side) - (side - 1) / 2 for side in sides), indexing="ij")
    offsets = np.stack(axes).reshape(len(sides), -1)
    linear = np.eye(len(sides)) + rng.normal(scale=stretch, size=(len(sides), len(sides)))
    middle = (np.array(sides)[:, None] - 1) / 2
    places = linear @ offsets + middle + rng.normal(scale=shift, size=middle.shape)
    waves = [gaussian_filter(rng.normal(size=sides), wavelength) for _ in sides]
    bent = [bend * (wave / max(float(wave.std()), 1e-12)).ravel() for wave in waves]
    return np.asarray(places + bent).reshape(len(sides), *sides)


# So many blocks, those that vary most, decide the basis; the spectrum uses all of them.
_MOST_BLOCKS = 2000
_FEW = 500


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class BlockPCACodec(LinearCodec):
    """One orthonormal basis for all blocks of (answer - public mean volume); one code a volume.

    The code holds `n_components` numbers for each block, each with its own place in the spectrum:
    blocks that are always empty cost nothing after `ellipsoid`. Volumes are padded with zeros.

    Parameters
    ----------
    mean, spectrum, weights, examples, provenance, statement : as in `LinearCodec`; always public
    components : array of shape (n_components, voxels of a block)
        Orthonormal rows that all blocks share.
    block_shape : tuple of int, voxels along each side of a block
    """

    components: Floats
    block_shape: tuple[int, ...]

    @classmethod
    def fit(
        cls, masks: ArrayLike, *, block_shape: Sequence[int], n_components: int
    ) -> BlockPCACodec:
        """Fit public masks, one at a time.

        Parameters
        ----------
        masks : array of shape (n, ...), public masks
        block_shape : sequence of int
            Voxels along each side of a block, as many sides as a mask has.
        n_components : int, the most numbers for each block

        Returns
        -------
        BlockPCACodec, public, as the masks are; its weights are 1
        """
        array = np.asarray(masks)
        block = shape_of(block_shape)
        if len(block) != array.ndim - 1 or not len(array):
            raise InvalidArgument(
                f"Expected masks (n, ...) with as many sides as block_shape={block}, got shape "
                f"{array.shape}."
            )
        mean = np.zeros(array.shape[1:])
        for mask in array:
            mean += public_masks(mask[None])[0] / len(array)
        basis = _basis(array, mean, block, at_least(1, n_components=n_components))
        examples = np.stack([(to_blocks(mask - mean, block) @ basis.T).ravel() for mask in array])
        return cls(
            mean=mean,
            components=basis,
            block_shape=block,
            spectrum=np.square(examples).mean(axis=0),
            weights=np.ones(examples.shape[1]),
            examples=examples,
        )

    @property
    def n_blocks(self) -> int:
        """How many blocks a volume has."""
        return math.prod(_blocks_per_side(self.shape, self.block_shape))

    def _project(self, offsets: Floats) -> Floats:
        codes = [to_blocks(volume, self.block_shape) @ self.components.T for volume in offsets]
        return np.reshape(codes, (len(offsets), self.length))

    def _expand(self, codes: Floats) -> Floats:
        cut = (code.reshape(self.n_blocks, -1) @ self.components for code in codes)
        volumes = [from_blocks(blocks, self.shape, self.block_shape) for blocks in cut]
        return np.reshape(volumes, (len(codes), *self.shape))


def _basis(masks: NDArray[Any], mean: Floats, block: tuple[int, ...], n_components: int) -> Floats:
    """Return components of the blocks that differ most from the mean, at most `_MOST_BLOCKS`."""
    best, energy = np.empty((0, math.prod(block))), np.empty(0)
    for mask in masks:
        blocks = to_blocks(mask - mean, block)
        best = np.concatenate([best, blocks])
        energy = np.concatenate([energy, np.square(blocks).sum(axis=1)])
        if len(best) > _MOST_BLOCKS:
            chosen = np.sort(np.argsort(-energy, kind="stable")[:_MOST_BLOCKS])
            best, energy = best[chosen], energy[chosen]
    return _leading(best, n_components)


def _leading(rows: Floats, count: int) -> Floats:
    """Return the leading principal components; of long rows through their products, 10x faster."""
    if min(rows.shape) <= _FEW or 2 * count > min(rows.shape):
        return principal(rows, count)[0]
    _, vectors = np.linalg.eigh(rows @ rows.T)
    directions, _ = np.linalg.qr(rows.T @ vectors[:, ::-1][:, :count])
    return np.ascontiguousarray(directions.T)


def _blocks_per_side(shape: tuple[int, ...], block: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many blocks cover each side."""
    return tuple(-(-side // part) for side, part in zip(shape, block, strict=True))


def to_blocks(volume: Floats, block: tuple[int, ...]) -> Floats:
    """Cut a volume, padded with zeros, into rows (blocks, voxels of a block)."""
    counts = _blocks_per_side(volume.shape, block)
    room = [(0, -side % part) for side, part in zip(volume.shape, block, strict=True)]
    padded = np.pad(volume, room)
    split = padded.reshape([side for pair in zip(counts, block, strict=True) for side in pair])
    places = range(0, split.ndim, 2)
    order = [*places, *(place + 1 for place in places)]
    return np.asarray(split.transpose(order).reshape(math.prod(counts), math.prod(block)))


def from_blocks(rows: Floats, shape: tuple[int, ...], block: tuple[int, ...]) -> Floats:
    """Put blocks together again and cut off the padding: the inverse of `to_blocks`."""
    counts = _blocks_per_side(shape, block)
    ndim = len(shape)
    order = [axis for place in range(ndim) for axis in (place, place + ndim)]
    joined = rows.reshape(*counts, *block).transpose(order)
    whole = joined.reshape([count * part for count, part in zip(counts, block, strict=True)])
    return np.asarray(whole[tuple(slice(0, side) for side in shape)])
