"""Teachers whose answers are masks: private scans in shards to soft masks of the public queries.

`segment_with_teachers` collects the answers as masks, or as the short codes that `GaussianMean`
clips (docs/theory/high-dimensional.md#the-bound). A teacher's answers follow from its own shard and
public things alone (docs/theory.md#words): no grid, scale or statistic is shared. All is SECRET.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import at_least, non_negative, positive, set_checked
from tacit._extras import need, torch
from tacit._files import PathLike
from tacit.errors import InvalidArgument
from tacit.masks.unet import (
    UNetRecipe,
    channelled,
    need_monai,
    scan_floats,
    segment,
    targets_of,
    train_unet,
)
from tacit.masks.volumes import one_hot
from tacit.teachers import (
    Answer,
    Shard,
    ask_teachers,
    attempt,
    fingerprint,
    on_one_thread,
    one_torch_thread,
    sharded,
)

if TYPE_CHECKING:
    from torch import Tensor


Encode = Callable[[NDArray[Any]], ArrayLike]


@runtime_checkable
class MaskTeacher(Protocol):
    """A kind of teacher of masks; the answers follow from the shard and public things alone.

    A shard's `X` are scans (n, [channels,] *spatial), its `y` masks (n, *spatial).
    """

    def segment_queries(
        self, shard: Shard, queries: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Return probabilities of each class; the shard has at least one scan.

        Parameters
        ----------
        shard : Shard, the teacher's own scans, masks and seed; secret
        queries : array of shape (queries, *spatial) or (queries, channels, *spatial), public scans
        n_classes : int, background included; public

        Returns
        -------
        array of shape (queries, n_classes, *spatial), secret
        """


@dataclass(frozen=True, slots=True)
class MaskJob:
    """What all tasks share: the teachers' config, the public queries, the public encoding."""

    family: MaskTeacher
    queries: NDArray[Any] = field(repr=False)
    n_classes: int
    encode: Encode | None = None

    def answer(self, shards: Sequence[Shard]) -> list[Answer]:
        """Let each shard's teacher answer every query, on one thread: the same bits anywhere."""
        return [on_one_thread(partial(self._one, shard)) for shard in shards]

    def _one(self, shard: Shard) -> Answer:
        """Answer, or report an error by its type alone: its text may quote a scan."""
        return Answer(*attempt(lambda: self._said(shard)))

    def _said(self, shard: Shard) -> NDArray[np.float32]:
        soft = np.asarray(
            self.family.segment_queries(shard, self.queries, n_classes=self.n_classes)
        )
        if soft.shape != (len(self.queries), self.n_classes, *shard.y.shape[1:]):
            raise InvalidArgument("Expected soft masks (queries, n_classes, *spatial).")
        return np.asarray(soft if self.encode is None else self.encode(soft), dtype=np.float32)

    def fingerprint(self) -> bytes:
        """Hash what all teachers share."""
        return fingerprint(self.family, self.encode, self.n_classes, self.queries)


@dataclass(frozen=True, slots=True)
class UNetTeacher:
    """A U-Net for each shard (MONAI's), trained from the shard's own seed on one thread.

    Parameters
    ----------
    recipe : UNetRecipe, how each is made and trained; public, the same for all
    """

    recipe: UNetRecipe = field(default_factory=UNetRecipe)

    def __post_init__(self) -> None:
        need_monai()

    def segment_queries(
        self, shard: Shard, queries: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Train on the shard and segment the queries.

        Parameters
        ----------
        shard, queries, n_classes : as in `MaskTeacher.segment_queries`

        Returns
        -------
        array of shape (queries, n_classes, *spatial), secret
        """
        dimensions = shard.y.ndim - 1
        images = channelled(shard.X, dimensions)
        with one_torch_thread(shard.seed):
            network = train_unet(self.recipe, images, targets_of(shard.y, n_classes), shard.seed)
            return segment(self.recipe, network, channelled(queries, dimensions))


@dataclass(frozen=True, slots=True)
class CallableTeacher:
    """Any function of (images, masks, queries, n_classes, seed) that returns soft masks.

    Parameters
    ----------
    function : callable
        Called with a shard's scans and masks, the public queries, `n_classes=` and `seed=`. It must
        use its arguments and public things alone: no price covers what it shares between shards.
    """

    function: Callable[..., ArrayLike]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidArgument("Expected a function of (images, masks, queries, ...).")

    def segment_queries(
        self, shard: Shard, queries: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Call the function on the shard.

        Parameters
        ----------
        shard, queries, n_classes : as in `MaskTeacher.segment_queries`

        Returns
        -------
        array of shape (queries, n_classes, *spatial), secret
        """
        return np.asarray(
            self.function(shard.X, shard.y, queries, n_classes=n_classes, seed=shard.seed)
        )


def as_mask_teacher(teacher: Any) -> MaskTeacher:
    """Return a teacher of masks as it is, a function as a `CallableTeacher`."""
    if not isinstance(teacher, type):
        if isinstance(teacher, MaskTeacher):
            return teacher
        if callable(teacher):
            return CallableTeacher(teacher)
    raise InvalidArgument(
        f"Expected teacher={getattr(teacher, '__name__', type(teacher).__name__)} to be an "
        "AtlasTeacher, a UNetTeacher, a function, or an object with segment_queries."
    )


def segment_with_teachers(
    teacher: Any,
    images: ArrayLike,
    masks: ArrayLike,
    shards: ArrayLike,
    n_teachers: int,
    queries: ArrayLike,
    *,
    n_classes: int,
    encode: Encode | None = None,
    executor: Any = "serial",
    random_state: int = 0,
    names: Sequence[bytes] | None = None,
    checkpoint: PathLike | None = None,
    on_teacher: Callable[[int], None] | None = None,
) -> NDArray[Any]:
    """Return each teacher's masks of the queries. SECRET.

    Parameters
    ----------
    teacher : MaskTeacher or callable
        An `AtlasTeacher`, a `UNetTeacher`, a function, or an object with `segment_queries`.
    images : array of shape (n, *spatial) or (n, channels, *spatial)
        Private scans, on one public grid.
    masks : array of int, shape (n, *spatial), their classes, 0 the background; private
    shards : array of int, shape (n,), each scan's teacher: `shard_of` its patient
    n_teachers : int, how many teachers there are, those without scans included
    queries : array of shape (m, *spatial) or (m, channels, *spatial)
        Public scans, on the same grid.
    n_classes : int, background included; public
    encode : callable, optional
        A public function of a teacher's masks (queries, n_classes, *spatial); its codes are
        returned in place of the masks.
    executor : str or Dask client
        "serial", "local" (processes of one thread), a dask.distributed Client or its address; the
        answers are the same bit for bit.
    random_state : int, a teacher's seed follows from it and from the teacher's number, or name
    names : sequence of bytes, optional
        Of the teachers. Where each unit is a teacher, its number depends on the other units, and
        its seed must not.
    checkpoint : path, optional
        A directory (mode 0700) of finished teachers, also of an earlier process. Secret.
    on_teacher : callable, optional, called with the number of each teacher that has finished

    Returns
    -------
    array of shape (teachers, queries, n_classes, *spatial)
        SECRET; with `encode` its codes in place of the last axes. A teacher without scans answers
        NaN, which `GaussianMean` reads as its public centre. Unit: a shard.
    """
    scans, labels, asked = _checked(images, masks, queries)
    run = sharded(
        scans,
        labels,
        shards,
        n_teachers,
        n_classes=at_least(2, n_classes=n_classes),
        random_state=random_state,
        names=names,
        floats=scan_floats,
        called="masks",
    )
    job = MaskJob(as_mask_teacher(teacher), asked, n_classes, encode)
    blank = np.zeros((len(asked), n_classes, *labels.shape[1:]), dtype=np.float32)
    shape = np.shape(blank if encode is None else encode(blank))
    result = np.full((run.n_teachers, *shape), np.nan, dtype=np.float32)

    def take(number: int, answer: NDArray[Any] | None) -> None:
        if answer is not None:
            result[number] = answer
        if on_teacher is not None:
            on_teacher(number)

    ask_teachers(
        job,
        run,
        run.with_records(),
        take,
        executor=executor,
        checkpoint=checkpoint,
        look="call segment_queries on the scans of one shard after another",
    )
    return result


def _checked(
    images: ArrayLike, masks: ArrayLike, queries: ArrayLike
) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[np.float32]]:
    """Check shapes; messages quote no scan or mask."""
    scans, labels = scan_floats(images=images), np.asarray(masks)
    asked = scan_floats(queries=queries)
    flat = labels.ndim not in (3, 4)
    if flat or channelled(scans, labels.ndim - 1).shape[2:] != labels.shape[1:]:
        raise InvalidArgument("Expected images (n, [channels,] *spatial) and masks (n, *spatial).")
    if not len(asked) or asked.shape[1:] != scans.shape[1:]:
        raise InvalidArgument("Expected queries on the private scans' grid, at least one.")
    if not np.isfinite(asked).all():
        raise InvalidArgument("Expected queries to hold finite numbers only; remove NaN and inf.")
    return scans, labels, asked


_REACH = 2.5  # standard deviations after which a Gaussian is cut off


_FLAT = 0.1  # variance (of a normalised image) below which there is no contrast to speak of


_STILL = 0.03  # squared gradient below which nothing pulls; with less, noise is overshot


_FEWEST = 4  # voxels along a side of the coarse grid


_VOXELS = 2**19  # of queries that are registered at a time: what fits into a cache


@dataclass(frozen=True, slots=True)
class Demons:
    """How images are registered; the defaults were chosen on hippocampus scans.

    iterations: at half resolution, and at full. In voxels: smoothing, the Gaussian on the field at
    each step; contrast, the Gaussian of local means; stride, about twice a voxel's largest move in
    a step.
    """

    iterations: tuple[int, int] = (8, 16)
    smoothing: float = 0.6
    contrast: float = 1.0
    stride: float = 1.5

    def __post_init__(self) -> None:
        for steps in self.iterations:
            at_least(0, iterations=steps)
        set_checked(self, smoothing=positive, contrast=positive, stride=positive)

    def field(self, fixed: Tensor, moving: Tensor) -> Tensor:
        """Return displacements (n, d, *spatial): fixed voxel x is at x + field of `moving`."""
        fixed, moving = self._contrasts(fixed), self._contrasts(moving)
        shape = tuple(fixed.shape[2:])
        coarse = tuple(max(_FEWEST, round(side / 2)) for side in shape)
        still = torch.zeros(len(fixed), len(shape), *coarse)
        small = [_resized(smooth(images, 1.0), coarse) for images in (fixed, moving)]
        few, many = self.iterations
        field = self._level(still, small[0], small[1], few)
        return self._level(_stretched(field, shape), fixed, moving, many)

    def _contrasts(self, images: Tensor) -> Tensor:
        mean = smooth(images, self.contrast)
        variance = smooth(images * images, self.contrast) - mean * mean
        return (images - mean) / (variance.clamp_min(0) + _FLAT).sqrt()

    def _level(self, field: Tensor, fixed: Tensor, moving: Tensor, iterations: int) -> Tensor:
        slopes = gradient(fixed)
        moving = moving.expand(len(fixed), *moving.shape[1:])
        for _ in range(iterations):
            force = self._force(fixed, warp(moving, field), slopes)
            field = smooth(field + force, self.smoothing)
        return field

    def _force(self, fixed: Tensor, moved: Tensor, slopes: Tensor) -> Tensor:
        """Return sum_c d_c g_c / sum_c (|g_c|^2 + d_c^2 / stride^2): d differences, g gradients."""
        difference = fixed - moved
        slope = (gradient(moved) + slopes) / 2  # (n, d, channels, *spatial)
        pull = (difference[:, None] * slope).sum(dim=2)
        size = (slope * slope).sum(dim=(1, 2)) + (difference**2).sum(dim=1) / self.stride**2
        return pull / (size + _STILL)[:, None]


def warp(images: Tensor, field: Tensor) -> Tensor:
    """Return images (n, c, *spatial) as seen at x + field(x), by linear interpolation."""
    sides = [int(side) for side in images.shape[2:]]
    axes = [torch.arange(side, dtype=torch.float32) for side in sides]
    places = torch.stack(torch.meshgrid(*axes, indexing="ij")) + field
    scale = torch.tensor([2 / (side - 1) for side in sides]).view(1, -1, *[1] * len(sides))
    # torch counts from -1 to 1 and names the last axis first
    grid = (places * scale - 1).flip(1).movedim(1, -1)
    seen: Tensor = torch.nn.functional.grid_sample(
        images, grid, mode="bilinear", padding_mode="border", align_corners=True
    )
    return seen


def smooth(values: Tensor, sigma: float) -> Tensor:
    """Return a Gaussian mean over the spatial axes; at the border, over the voxels that exist."""
    taps = _taps(non_negative(sigma=sigma))
    weight = torch.ones(values.shape[2:])
    for axis in range(2, values.ndim):
        values = _along(values, taps, axis)
        weight = _along(weight, taps, axis - 2)
    return cast("Tensor", values / weight)


def gradient(images: Tensor) -> Tensor:
    """Return central differences (n, d, c, *spatial) of images, one-sided at the ends."""
    slopes = torch.gradient(images, dim=tuple(range(2, images.ndim)))
    return cast("Tensor", torch.stack(slopes, dim=1))


def _taps(sigma: float) -> list[float]:
    if sigma == 0:
        return [1.0]
    reach = max(1, math.ceil(_REACH * sigma))
    return [math.exp(-(j**2) / (2 * sigma**2)) for j in range(reach + 1)]


def _along(values: Tensor, taps: list[float], axis: int) -> Tensor:
    side = values.shape[axis]
    total = values * taps[0]
    for shift in range(1, min(len(taps), side)):
        rest = side - shift
        total.narrow(axis, shift, rest).add_(values.narrow(axis, 0, rest), alpha=taps[shift])
        total.narrow(axis, 0, rest).add_(values.narrow(axis, shift, rest), alpha=taps[shift])
    return total


def _resized(values: Tensor, shape: tuple[int, ...]) -> Tensor:
    from torch.nn.functional import interpolate

    mode = "bilinear" if len(shape) == 2 else "trilinear"
    return interpolate(values, size=shape, mode=mode, align_corners=True)


def _stretched(field: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Put a field on a finer grid; a displacement grows with the number of voxels it crosses."""
    growth = [(new - 1) / (old - 1) for old, new in zip(field.shape[2:], shape, strict=True)]
    steps: Tensor = torch.tensor(growth).view(1, -1, *[1] * len(shape))
    return _resized(field, shape) * steps


@dataclass(frozen=True, slots=True)
class AtlasTeacher:
    """Register a private scan to each query and warp its mask with it: soft masks, no training.

    Scans and queries are on one public grid, with intensities normalised
    (`Volumes.normalised().resampled(shape)`). Several scans in a shard answer by their mean.

    Parameters
    ----------
    demons : Demons, the registration's numbers; the defaults were chosen on hippocampus scans
    """

    demons: Demons = field(default_factory=Demons)

    def __post_init__(self) -> None:
        need("torch", "to register images", extra="segmentation")

    def segment_queries(
        self, shard: Shard, queries: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Return the mean of the shard's masks, each registered to the queries.

        Parameters
        ----------
        shard, queries, n_classes
            As in `MaskTeacher.segment_queries`; nothing is random, the seed is not used.

        Returns
        -------
        array of shape (queries, n_classes, *spatial), secret
        """
        dimensions = shard.y.ndim - 1
        if not len(shard.y):
            raise InvalidArgument("Expected at least one scan in a shard.")
        scans, asked = channelled(shard.X, dimensions), channelled(queries, dimensions)
        total = np.zeros((len(asked), n_classes, *asked.shape[2:]), dtype=np.float32)
        with one_torch_thread(seed=0):  # there is nothing random here
            for scan, mask in zip(scans, shard.y, strict=True):
                total += self._answers(scan, mask, asked, n_classes)
        return total / np.float32(len(scans))

    def _answers(
        self, scan: NDArray[Any], mask: NDArray[Any], asked: NDArray[Any], n_classes: int
    ) -> NDArray[Any]:

        moving = torch.from_numpy(np.ascontiguousarray(scan)[None])
        onehot = torch.from_numpy(one_hot(mask, n_classes)[None])
        step = max(1, _VOXELS // math.prod(mask.shape))
        parts = []
        with torch.inference_mode():
            for fixed in torch.split(torch.from_numpy(np.ascontiguousarray(asked)), step):
                found = self.demons.field(fixed, moving)
                parts.append(warp(onehot.expand(len(fixed), *onehot.shape[1:]), found).numpy())
        return np.concatenate(parts)
