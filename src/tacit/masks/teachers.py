"""Teachers whose answers are masks: private scans in shards to soft masks of the public queries.

`segment_with_teachers` collects the answers, as masks or, to keep memory small, as the short codes
that `GaussianMean` will clip (docs/theory/high-dimensional.md#the-bound); an executor says where. A
teacher's answers follow from its own shard and public things alone (docs/theory.md#words): no grid,
scale or statistic is shared. Everything is SECRET.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import at_least
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
from tacit.teachers import (
    Answer,
    Run,
    Shard,
    ask_teachers,
    attempt,
    fingerprint,
    on_one_thread,
    one_torch_thread,
    sharded,
)

Encode = Callable[[NDArray[Any]], ArrayLike]
__all__ = [
    "CallableTeacher",
    "MaskTeacher",
    "UNetTeacher",
    "as_mask_teacher",
    "segment_with_teachers",
]


@runtime_checkable
class MaskTeacher(Protocol):
    """Teachers of masks of one kind; the answers follow from the shard and public things alone.

    A shard's `X` are scans (n, [channels,] *spatial), its `y` masks (n, *spatial).
    """

    def segment_queries(
        self, shard: Shard, queries: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Return soft masks (queries, n_classes, *spatial); the shard has at least one scan."""


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
        """Answer, or report what went wrong by its type alone: its text may quote a scan."""
        said, failure = attempt(lambda: self._said(shard))
        return Answer(said, failure)

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

    >>> from tacit.masks.volumes import generated_volumes
    >>> images, masks = generated_volumes(3, (16, 16), seed=1).normalised().arrays()
    >>> teacher = UNetTeacher(UNetRecipe(channels=(4, 8), steps=2))
    >>> answer = teacher.segment_queries(Shard(images[:2], masks[:2], 0), images, n_classes=2)
    >>> answer.shape
    (3, 2, 16, 16)
    """

    recipe: UNetRecipe = field(default_factory=UNetRecipe)

    def __post_init__(self) -> None:
        need_monai()

    def segment_queries(
        self, shard: Shard, queries: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Train on the shard and segment the queries."""
        dimensions = shard.y.ndim - 1
        images = channelled(shard.X, dimensions)
        with one_torch_thread(shard.seed):
            network = train_unet(
                self.recipe, images, targets_of(shard.y, n_classes), None, shard.seed
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
        self, shard: Shard, queries: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Call the function on the shard."""
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
    run, asked = _checked(
        images, masks, shards, n_teachers, queries, n_classes, random_state, names
    )
    job = MaskJob(as_mask_teacher(teacher), asked, n_classes, encode)
    answers: dict[int, NDArray[Any]] = {}

    def take(number: int, answer: NDArray[Any] | None) -> None:
        if answer is not None:
            answers[number] = answer
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
    if answers:
        shape = next(iter(answers.values())).shape
    else:
        blank = np.zeros((len(asked), n_classes, *run.y.shape[1:]), dtype=np.float32)
        shape = blank.shape if encode is None else np.asarray(encode(blank)).shape
    result = np.full((run.n_teachers, *shape), np.nan, dtype=np.float32)
    for number, answer in answers.items():
        result[number] = answer
    return result


def _checked(
    images: ArrayLike,
    masks: ArrayLike,
    shards: ArrayLike,
    n_teachers: int,
    queries: ArrayLike,
    n_classes: int,
    random_state: int,
    names: Sequence[bytes] | None,
) -> tuple[Run, NDArray[np.float32]]:
    """Check shapes and ranges; messages quote no scan, mask or shard."""
    scans, labels = scan_floats(images=images), np.asarray(masks)
    asked = scan_floats(queries=queries)
    if (
        labels.ndim not in (3, 4)
        or channelled(scans, labels.ndim - 1).shape[2:] != (labels.shape[1:])
    ):
        raise InvalidArgument("Expected images (n, [channels,] *spatial) and masks (n, *spatial).")
    if not len(asked) or asked.shape[1:] != scans.shape[1:]:
        raise InvalidArgument("Expected queries on the private scans' grid, at least one.")
    if not np.isfinite(asked).all():
        raise InvalidArgument("Expected queries to hold finite numbers only; remove NaN and inf.")
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
    return run, asked
