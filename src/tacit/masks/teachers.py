"""Teachers whose answers are masks: private scans in shards to soft masks of the public queries.

`segment_with_teachers` collects the answers, as masks or, to keep memory small, as the short codes
that `GaussianMean` will clip (docs/theory/high-dimensional.md#the-bound); an executor says where. A
teacher's answers follow from its own shard and public things alone (docs/theory.md#words): no grid,
scale or statistic is shared. Everything is SECRET.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Integers, at_least
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
from tacit.teachers.checkpoints import Checkpoints, NoCheckpoints
from tacit.teachers.executors import choose_executor
from tacit.teachers.fingerprints import fingerprint, shard_fingerprint
from tacit.teachers.tasks import Answer, Shard, Task, attempt
from tacit.teachers.threads import on_one_thread
from tacit.teachers.torch_teacher import _one_thread
from tacit.teachers.trouble import Trouble

Encode = Callable[[NDArray[Any]], ArrayLike]
__all__ = [
    "CallableTeacher",
    "MaskShard",
    "MaskTeacher",
    "UNetTeacher",
    "as_mask_teacher",
    "segment_with_teachers",
]


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
class MaskJob:
    """What all tasks share: the teachers' config, the public queries, the public encoding."""

    family: MaskTeacher
    queries: NDArray[Any] = field(repr=False)
    n_classes: int
    encode: Encode | None = None

    def answer(self, shards: Sequence[MaskShard]) -> list[Answer]:
        """Let each shard's teacher answer every query, on one thread: the same bits anywhere."""
        return [on_one_thread(partial(self._one, shard)) for shard in shards]

    def _one(self, shard: MaskShard) -> Answer:
        """Answer, or report what went wrong by its type alone: its text may quote a scan."""
        said, failure = attempt(lambda: self._said(shard))
        return Answer(said, failure)

    def _said(self, shard: MaskShard) -> NDArray[np.float32]:
        soft = np.asarray(
            self.family.segment_queries(shard, self.queries, n_classes=self.n_classes)
        )
        if soft.shape != (len(self.queries), self.n_classes, *shard.masks.shape[1:]):
            raise InvalidArgument("Expected soft masks (queries, n_classes, *spatial).")
        return np.asarray(soft if self.encode is None else self.encode(soft), dtype=np.float32)

    def fingerprint(self) -> bytes:
        """Hash what all teachers share."""
        return fingerprint(self.family, self.encode, self.n_classes, self.queries)


def mask_shard_fingerprint(job_hash: bytes, shard: MaskShard) -> str:
    """Hash all that one teacher's answers follow from, in hexadecimal."""
    return shard_fingerprint(job_hash, Shard(shard.images, shard.masks, shard.seed))


@dataclass(frozen=True, slots=True)
class UNetTeacher:
    """A U-Net for each shard (MONAI's), trained from the shard's own seed on one thread.

    >>> from tacit.masks.volumes import generated_volumes
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
    executor: Any = "serial",
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
    `executor`: "serial", "local" (processes of one thread), a dask.distributed Client or its
    address; the answers are the same bit for bit. `checkpoint`: a directory (mode 0700) of finished
    teachers, also of an earlier process. `on_teacher` is told the number of each that has finished.
    The result is SECRET; unit: what a shard holds the scans of.

    >>> same = lambda images, masks, queries, *, n_classes, seed: (
    ...     np.repeat(np.eye(n_classes)[masks[:1]].transpose(0, 3, 1, 2), len(queries), axis=0))
    >>> masks = np.arange(8).reshape(2, 2, 2) % 2
    >>> answers = segment_with_teachers(same, np.zeros((2, 2, 2)), masks, [0, 1], 3,
    ...                                 np.zeros((5, 2, 2)), n_classes=2)
    >>> answers.shape, bool(np.isnan(answers[2]).all())
    ((3, 5, 2, 2, 2), True)
    """
    run = _checked(images, masks, shards, n_teachers, queries, n_classes, random_state, names)
    job = MaskJob(as_mask_teacher(teacher), run.queries, run.n_classes, encode)
    where, trouble = choose_executor(executor), Trouble()
    told = on_teacher or (lambda number: None)
    answers: dict[int, NDArray[Any]] = {}
    with _checkpoints(checkpoint, job, run) as kept:
        for number, found in kept.found.items():
            answers[number] = found
            told(number)
        for task, (one,) in where.run(job, run.tasks(kept.found)):
            number = task.numbers[0]
            trouble.note(one)
            if one.predictions is not None:
                answers[number] = one.predictions
                kept.add(number, one.predictions)
            told(number)
    trouble.report(
        kept=checkpoint is not None,
        look="call segment_queries on the scans of one shard after another",
    )
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

    def with_scans(self) -> list[int]:
        """Return the teachers that have a scan; the others answer nothing."""
        return [int(number) for number in np.unique(self.shards)]

    def tasks(self, done: Container[int]) -> Iterator[Task]:
        """Yield what is left to do; scans are copied only when a task is asked for."""
        for number in self.with_scans():
            if number not in done:
                yield Task((number,), (self.shard(number),))

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
    scans, labels = scan_floats(images=images), np.asarray(masks)
    asked, places = scan_floats(queries=queries), np.asarray(shards)
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


def _checkpoints(directory: PathLike | None, job: MaskJob, run: _Run) -> NoCheckpoints:
    if directory is None:
        return NoCheckpoints()
    shared = job.fingerprint()
    return Checkpoints(
        directory,
        {n: mask_shard_fingerprint(shared, run.shard(n)) for n in run.with_scans()},
    )


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
