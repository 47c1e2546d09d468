"""Teachers whose answers are masks: private scans in shards to soft masks of the public queries.

A teacher's answers follow from its own shard and public things alone (SPEC-highdim-mac A.1): no
grid, scale or statistic is shared. `segment_with_teachers` collects them, as masks or, to keep
memory small, as the short codes that `GaussianMean` will clip. Everything here is SECRET.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Integers, at_least
from tacit._files import PathLike
from tacit._unet import UNetRecipe, channelled, need_monai, segment, targets_of, train_unet
from tacit.errors import InvalidArgument, TeacherFailed
from tacit.teachers.checkpoints import Checkpoints, NoCheckpoints
from tacit.teachers.fingerprints import job_fingerprint, shard_fingerprint
from tacit.teachers.tasks import Job, Shard
from tacit.teachers.threads import on_one_thread
from tacit.teachers.torch_teacher import _one_thread

Encode = Callable[[NDArray[Any]], ArrayLike]


@dataclass(frozen=True, slots=True)
class MaskShard:
    """A teacher's scans (n, [channels,] *spatial), masks (n, *spatial) and seed. Secret."""

    images: NDArray[Any] = field(repr=False)
    masks: NDArray[Any] = field(repr=False)
    seed: int


@runtime_checkable
class MaskTeacher(Protocol):
    """Teachers of masks of one kind; the answers follow from the shard and public things alone."""

    def segment_queries(
        self, shard: MaskShard, queries: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Return soft masks (queries, n_classes, *spatial); the shard has at least one scan."""


@dataclass(frozen=True, slots=True)
class UNetTeacher:
    """A U-Net for each shard (MONAI's), trained from the shard's own seed on one thread.

    >>> from tacit.datasets.phantoms import generated_volumes
    >>> images, masks = generated_volumes(3, (16, 16), seed=1).normalised().arrays()
    >>> teacher = UNetTeacher(UNetRecipe(channels=(4, 8), steps=2))
    >>> answer = teacher.segment_queries(MaskShard(images[:2], masks[:2], 0), images, n_classes=2)
    >>> answer.shape
    (3, 2, 16, 16)
    """

    recipe: UNetRecipe = field(default_factory=UNetRecipe)

    def __post_init__(self) -> None:
        need_monai()

    def segment_queries(
        self, shard: MaskShard, queries: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Train on the shard and segment the queries."""
        dimensions = shard.masks.ndim - 1
        images = channelled(shard.images, dimensions)
        with _one_thread(shard.seed):
            network = train_unet(
                self.recipe, images, targets_of(shard.masks, n_classes), None, shard.seed
            )
            return segment(self.recipe, network, channelled(queries, dimensions))


@dataclass(frozen=True, slots=True)
class CallableTeacher:
    """Any function of (images, masks, queries, n_classes, seed) that returns soft masks.

    It must use its arguments and public things alone: what it shares between shards, the price
    does not cover.
    """

    function: Callable[..., ArrayLike]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidArgument("Expected a function of (images, masks, queries, ...).")

    def segment_queries(
        self, shard: MaskShard, queries: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Call the function on the shard."""
        return np.asarray(
            self.function(shard.images, shard.masks, queries, n_classes=n_classes, seed=shard.seed)
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
    random_state: int = 0,
    names: Sequence[bytes] | None = None,
    checkpoint: PathLike | None = None,
    on_teacher: Callable[[int], None] | None = None,
) -> NDArray[Any]:
    """Return what each teacher says of each query: (teachers, queries, n_classes, *spatial).

    `images` (n, [channels,] *spatial) and `masks` (n, *spatial) are the private scans on one
    public grid, `shards` each scan's teacher (`shard_of` its patient). With `encode`, a public
    function of a teacher's masks (queries, n_classes, *spatial), its codes are kept instead. A
    teacher without scans answers NaN, which `GaussianMean` reads as its public centre.
    A teacher's seed follows from `random_state` and its number, or, with `names`, from its name:
    where each unit is a teacher, its number depends on who else is there, and its seed must not.
    `checkpoint`: a directory (mode 0700) of finished teachers. `on_teacher` is told the number of
    each that has finished. The result is SECRET; unit: what a shard holds the scans of.

    >>> same = lambda images, masks, queries, *, n_classes, seed: (
    ...     np.repeat(np.eye(n_classes)[masks[:1]].transpose(0, 3, 1, 2), len(queries), axis=0))
    >>> masks = np.arange(8).reshape(2, 2, 2) % 2
    >>> answers = segment_with_teachers(same, np.zeros((2, 2, 2)), masks, [0, 1], 3,
    ...                                 np.zeros((5, 2, 2)), n_classes=2)
    >>> answers.shape, bool(np.isnan(answers[2]).all())
    ((3, 5, 2, 2, 2), True)
    """
    run = _checked(images, masks, shards, n_teachers, queries, n_classes, random_state, names)
    family = as_mask_teacher(teacher)
    answers: dict[int, NDArray[Any]] = {}
    job = Job(cast(Any, (family, encode)), run.queries, run.n_classes)
    numbers = [number for number in range(run.n_teachers) if run.has_scans(number)]
    with _checkpoints(checkpoint, job, run, numbers) as kept:
        for number in numbers:
            if number in kept.found:
                answers[number] = kept.found[number]
            else:
                answers[number] = _answer(family, run, number, encode)
                kept.add(number, answers[number])
            if on_teacher is not None:
                on_teacher(number)
    return _collected(answers, run, encode)


@dataclass(frozen=True, slots=True)
class _Run:
    images: NDArray[Any] = field(repr=False)
    masks: NDArray[Any] = field(repr=False)
    shards: Integers = field(repr=False)
    queries: NDArray[Any] = field(repr=False)
    n_teachers: int
    n_classes: int
    random_state: int
    names: Sequence[bytes] | None = field(repr=False)

    def has_scans(self, number: int) -> bool:
        return bool((self.shards == number).any())

    def shard(self, number: int) -> MaskShard:
        rows = np.flatnonzero(self.shards == number)
        own = number if self.names is None else zlib.crc32(self.names[number])
        seed = np.random.SeedSequence([self.random_state, own]).generate_state(1)[0]
        return MaskShard(self.images[rows], self.masks[rows], int(seed))

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.queries), self.n_classes, *self.masks.shape[1:]


def _checked(
    images: ArrayLike,
    masks: ArrayLike,
    shards: ArrayLike,
    n_teachers: int,
    queries: ArrayLike,
    n_classes: int,
    random_state: int,
    names: Sequence[bytes] | None,
) -> _Run:
    """Check shapes and ranges; messages quote no scan, mask or shard."""
    scans, labels = np.asarray(images, dtype=np.float32), np.asarray(masks)
    asked, places = np.asarray(queries, dtype=np.float32), np.asarray(shards)
    classes, count = at_least(2, n_classes=n_classes), at_least(1, n_teachers=n_teachers)
    if (
        labels.ndim not in (3, 4)
        or channelled(scans, labels.ndim - 1).shape[2:] != (labels.shape[1:])
    ):
        raise InvalidArgument("Expected images (n, [channels,] *spatial) and masks (n, *spatial).")
    if len(scans) != len(labels) or places.shape != (len(labels),):
        raise InvalidArgument("Expected one mask and one shard for each private scan.")
    if not len(asked) or asked.shape[1:] != scans.shape[1:]:
        raise InvalidArgument("Expected queries on the private scans' grid, at least one.")
    if not np.isfinite(asked).all():
        raise InvalidArgument("Expected queries to hold finite numbers only; remove NaN and inf.")
    for name, values, limit in (("masks", labels, classes), ("shards", places, count)):
        if values.size and (
            values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= limit
        ):
            raise InvalidArgument(f"Expected {name} to hold integers 0 .. {limit - 1}.")
    seed = at_least(0, random_state=random_state)
    if names is not None and len(names) != count:
        raise InvalidArgument("Expected one name for each teacher.")
    return _Run(scans, labels, places.astype(np.int64), asked, count, classes, seed, names)


def _answer(
    family: MaskTeacher, run: _Run, number: int, encode: Encode | None
) -> NDArray[np.float32]:
    """Let one teacher answer; what goes wrong is told by its type alone."""
    try:
        answer = on_one_thread(
            lambda: family.segment_queries(run.shard(number), run.queries, n_classes=run.n_classes)
        )
        if answer.shape != run.shape:
            raise InvalidArgument
        return np.asarray(answer if encode is None else encode(answer), dtype=np.float32)
    except Exception as error:
        kind = type(error).__name__
    raise TeacherFailed(
        f"Teacher {number} of {run.n_teachers} failed ({kind}). Nothing was released. To see the "
        f"cause, call segment_queries on the scans whose shard is {number}."
    )


def _checkpoints(
    directory: PathLike | None, job: Job, run: _Run, numbers: Sequence[int]
) -> NoCheckpoints:
    if directory is None:
        return NoCheckpoints()
    shared = job_fingerprint(job)
    hashes = {}
    for number in numbers:
        shard = run.shard(number)
        hashes[number] = shard_fingerprint(shared, Shard(shard.images, shard.masks, shard.seed))
    return Checkpoints(directory, hashes)


def _collected(
    answers: dict[int, NDArray[Any]], run: _Run, encode: Encode | None
) -> NDArray[np.float32]:
    if answers:
        shape = next(iter(answers.values())).shape
    else:
        blank = np.zeros(run.shape, dtype=np.float32)
        shape = blank.shape if encode is None else np.asarray(encode(blank)).shape
    result = np.full((run.n_teachers, *shape), np.nan, dtype=np.float32)
    for number, answer in answers.items():
        result[number] = answer
    return result
