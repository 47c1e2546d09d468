"""Principal components of public masks (PCA-PATE 2020, Generalized PATE 2022), or bought ones.

Where it differs from the papers: docs/theory/high-dimensional.md#what-the-papers-say. Components of
private masks are bought: `NoisySecondMoment` releases sum y y^T of clipped masks, eigenvectors and
spectrum are post-processing, and what it cost stands in the ledger
(docs/theory/high-dimensional.md#private-components). A hundred public masks span a hundred
directions; deformed copies, public as their originals are, fill those in which shapes vary locally.
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

    `PCACodec.fit(masks)` keeps every component that the public masks have; decoding shrinks each
    by its Wiener weight. `useful(sigma)` is the papers' L* rule, `ellipsoid(noise)` chooses weights
    by water-filling.

    Parameters
    ----------
    mean : array of shape (*shape)
        The public mean answer.
    spectrum : array of shape (length,)
        Second moments of the coordinates about the mean.
    weights : array of shape (length,)
        Of the norm in which codes are clipped; a coordinate of weight 0 is not released.
    examples : array of shape (n, length), optional
        Codes of the public masks, None where there were none.
    provenance : str
        "public", or "dp" if it was bought from private data.
    statement : str
        The same in a sentence.
    components : array of shape (length, voxels)
        Orthonormal rows, the most important first.
    blur : tuple of float
        Deviations, in voxels along each axis, of the Gaussian over every answer; empty for none.

    Notes
    -----
    Encoder and spectrum are about the same public mean (the 2022 paper's are not).

    References
    ----------
    PCA-PATE 2020, Generalized PATE 2022; `docs/theory/high-dimensional.md#what-to-keep`.

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
        """Fit public masks (n, ...): mean, components, spectrum, and codes of the masks.

        Parameters
        ----------
        masks : array of shape (n, ...)
            Public masks, at least two that differ.
        n_components : int, optional
            How many components at most; by default all that the masks have.
        folds : int
            Components explain the masks that they were fitted on better than any others, so
            spectrum and radius come from held-out masks, so many times; from the same ones if there
            are fewer than two masks a fold, or folds=1.
        blur : float
            Deviation in voxels of a Gaussian over every answer before it is encoded; jagged
            boundaries cost components and say little. `decode` returns blurred answers.
        copies : int
            So many `deformed` copies of each mask help to find the components.
        dimensions : int, optional
            How many of the last axes are spatial, for masks with channels; by default all.
        random_state : int
            Seeds the deformed copies.

        Returns
        -------
        PCACodec
            Public, as the masks are; its weights are 1.
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


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class DPPCACodec(PCACodec):
    """A `PCACodec` whose components come from private masks, through a ledger.

    Made by `DPPCACodec.buy`.

    Parameters
    ----------
    mean, spectrum, weights, examples, provenance, statement, components, blur
        As in `PCACodec`; there are no examples and no blur, and the provenance is "dp".

    Notes
    -----
    There is no private mean: masks are centred with a public one (0.5 everywhere unless given), and
    the spectrum is the second moment about it. The radius for one query is the rms of the codes.

    References
    ----------
    `docs/theory/high-dimensional.md#private-components`

    Examples
    --------
    >>> import tempfile
    >>> from tacit import Budget, Ledger
    >>> masks = np.zeros((50, 2, 2)); masks[:25, 0] = 1
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/run.ledger", budget=Budget(8, 1e-5), unit="patient")
    ...     codec = DPPCACodec.buy(masks, ledger, sigma=2.0, radius=1.0, n_masks=50, n_components=2)
    >>> codec.length, codec.provenance
    (2, 'dp')
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
        """Fit private masks (n, ...), one for each unit, and pay mu^2 = 1/sigma^2 for it.

        Parameters
        ----------
        masks : array of shape (n, ...)
            Private masks, one for each unit of the ledger.
        ledger : Ledger
            Who pays.
        sigma : float
            Noise, in units of what one mask can add to the sum.
        radius : float
            To which |mask - mean| is clipped; public.
        n_masks : int
            How many masks there are, as far as the public knows; it only scales the spectrum.
        n_components : int
            How many components are kept.
        mean : float or array of shape (...), optional
            A public mean mask; 1/2 everywhere by default.
        noise : InsecureNoise, optional
            Seeded noise for tests: not private, and the codec says so.

        Returns
        -------
        DPPCACodec
            Releasable: all that depends on the masks went through the ledger.
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

    The noise alone has roots up to edge = radius^2 sigma sqrt(2 dimension) (semicircle law). A root
    theta > edge/2 of the sum shows as theta + (edge/2)^2/theta, and the noisy eigenvector has the
    squared cosine 1 - (edge/2)^2/theta^2 with the true one (Benaych-Georges and Nadakuditi 2011);
    theta times that cosine is the formula.

    >>> explained(np.array([5.0, 2.0, -1.0]), NoisySecondMoment(1.0, 8)).tolist()
    [3.0, 0.0, 0.0]
    """
    edge = mechanism.radius**2 * mechanism.sigma * math.sqrt(2 * mechanism.dimension)
    return np.sqrt(np.maximum(np.maximum(roots, 0.0) ** 2 - edge**2, 0.0))


def _public_mean(mean: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    """Return the public mean, 1/2 everywhere unless given."""
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
    """Return `copies` deformed versions of every public mask, (copies * n, ...), copy by copy.

    Parameters
    ----------
    masks : array of shape (n, ...)
        Public masks.
    copies : int
        How many of each mask.
    dimensions : int, optional
        How many of the last axes are spatial, all of them unless given; channels move together.
    shift : float
        Deviation in voxels of a translation.
    stretch : float
        Deviation of the entries of a linear map about the middle.
    bend : float
        Deviation in voxels of a smooth random displacement.
    wavelength : float
        Blur of that displacement, in voxels.
    random_state : int
        Seeds all of them.

    Returns
    -------
    array of shape (copies * n, ...)
        Values are interpolated linearly, 0 outside.

    Examples
    --------
    >>> square = np.zeros((1, 8, 8)); square[0, 2:6, 2:6] = 1
    >>> deformed(square, 3).shape
    (3, 8, 8)
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
    """Return where each voxel's value is taken from."""
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

    The code holds `n_components` numbers for each block, and the spectrum knows every one of them,
    so that blocks which are always empty cost nothing after `ellipsoid`. Volumes are padded with
    zeros to whole blocks; the padding is cut off again.

    Parameters
    ----------
    mean : array of shape (*shape)
        The public mean answer.
    spectrum : array of shape (length,)
        Second moments of the coordinates about the mean, block by block.
    weights : array of shape (length,)
        Of the norm in which codes are clipped; a coordinate of weight 0 is not released.
    examples : array of shape (n, length), optional
        Codes of the public masks, None where there were none.
    provenance : str
        "public": there is no way to buy one.
    statement : str
        The same in a sentence.
    components : array of shape (n_components, voxels of a block)
        Orthonormal rows that all blocks share.
    block_shape : tuple of int
        Voxels along each side of a block.

    Examples
    --------
    >>> masks = np.zeros((3, 5, 4)); masks[0, :2] = 1; masks[1, 3:, 1:] = 1
    >>> codec = BlockPCACodec.fit(masks, block_shape=(2, 2), n_components=4)
    >>> codec.n_blocks, codec.length, bool(np.allclose(codec.decode(codec.encode(masks)), masks))
    (6, 24, True)
    """

    components: Floats
    block_shape: tuple[int, ...]

    @classmethod
    def fit(
        cls, masks: ArrayLike, *, block_shape: Sequence[int], n_components: int
    ) -> BlockPCACodec:
        """Fit public masks (n, ...), whose blocks share one basis, one mask at a time.

        Parameters
        ----------
        masks : array of shape (n, ...)
            Public masks.
        block_shape : sequence of int
            Voxels along each side of a block, as many sides as a mask has.
        n_components : int
            How many numbers each block gets, at most.

        Returns
        -------
        BlockPCACodec
            Public, as the masks are; its weights are 1.
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
    """Return how many blocks cover each side.

    >>> _blocks_per_side((240, 240, 155), (24, 24, 16))
    (10, 10, 10)
    """
    return tuple(-(-side // part) for side, part in zip(shape, block, strict=True))


def to_blocks(volume: Floats, block: tuple[int, ...]) -> Floats:
    """Cut a volume, padded with zeros, into rows (blocks, voxels of a block).

    >>> to_blocks(np.arange(6.0).reshape(2, 3), (2, 2)).tolist()
    [[0.0, 1.0, 3.0, 4.0], [2.0, 0.0, 5.0, 0.0]]
    """
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
