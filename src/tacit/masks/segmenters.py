"""`PATESegmenter`: private scans with masks in, a publishable segmentation network out.

Teachers answer public scans with whole masks; a public codec makes short codes of them, of which
`GaussianMean` releases the noisy mean through a ledger; a student learns from the decoded releases.
After `fit` the object holds the student, the releases and the ledger, and nothing private.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from tacit._checks import Floats, Integers, at_least, one_of, refuse
from tacit._progress import training_bar
from tacit.errors import InvalidArgument
from tacit.masks.named_codecs import fit_codec
from tacit.masks.results import organ_dice
from tacit.masks.rounds import EncodeMasks, MaskRounds, cut_masks, foreground, one_hot_masks
from tacit.masks.teachers import AtlasTeacher, segment_with_teachers
from tacit.masks.unet import UNetRecipe, UNetStudent, channelled, make_unet, scan_floats
from tacit.mechanisms import GaussianMean, Release, UnitMean
from tacit.methods import (
    TRAINING,
    Count,
    NoisyTrainingEstimator,
    PrivateEstimator,
    Queries,
    Training,
)
from tacit.noisy_training import PrivateExamples
from tacit.records import count_units, units_of, unquoted
from tacit.students import choose_queries, seed_of, seeded
from tacit.teachers import record_ids, shard_key, shard_of

if TYPE_CHECKING:
    from torch import Tensor


SIMULATION = (
    "this run was declared a simulation: its private scans are said to be public, and its report "
    "may show the teachers' mean before noise, which no cost covers"
)


class Assignment(NamedTuple):
    """Which teacher has which scan, how many teachers there are, and their names. Secret."""

    of_scan: Integers
    n_teachers: int
    names: list[bytes] | None

    def __repr__(self) -> str:
        return "Assignment(secret)"


def _fits(scans: NDArray[Any], truth: NDArray[Any]) -> bool:
    """Tell whether scans, with or without channels in front, have the masks' shapes."""
    plain = scans.shape == truth.shape
    return plain or (
        scans.ndim == truth.ndim + 1
        and scans.shape[1] > 0
        and (len(scans), *scans.shape[2:]) == truth.shape
    )


def _flat(scans: NDArray[Any], dimensions: int) -> NDArray[Any]:
    """Return public scans without channels, as their mean, for what predicts releases from them."""
    return scans if scans.ndim == dimensions + 1 else scans.mean(axis=1)


class StudentMasks:
    """What a fitted student of masks answers, for every estimator that ends in one."""

    student_: Any

    def predict_proba(self, images: ArrayLike, *, window: Sequence[int] | None = None) -> Floats:
        """Return the student's probabilities (n, n_classes, *spatial), of scans of any size.

        `window`: in overlapping windows of this shape, for volumes larger than fit the network.
        """
        check_is_fitted(self, "student_")
        how = {} if window is None else {"window": window}
        return np.asarray(self.student_.predict_proba(images, **how), dtype=np.float64)

    def predict(
        self, images: ArrayLike, *, window: Sequence[int] | None = None
    ) -> NDArray[np.uint8]:
        """Return the student's masks: post-processing of the releases, free of charge."""
        soft = self.predict_proba(images, window=window)
        return np.asarray(soft.argmax(axis=1), dtype=np.uint8)

    def score(self, images: ArrayLike, masks: ArrayLike) -> float:
        """Return the mean Dice of all that is not background, on scans declared public."""
        return float(organ_dice(self.predict(images), masks).mean())


def one_two_or_four(**named: Any) -> int:
    """Return the argument, a number of rounds for which the shares of a budget were chosen."""
    ((name, value),) = named.items()
    if at_least(1, **named) not in (1, 2, 4):
        raise refuse(name, value, "1, 2 or 4")
    return int(value)


@dataclass(eq=False, repr=False)
class PATESegmenter(StudentMasks, PrivateEstimator):
    """Private aggregation of teachers' masks, worst-case priced, in two or three dimensions.

    teacher: `AtlasTeacher()` by default, a `UNetTeacher`, or a function (`CallableTeacher`).
    codec: fitted on public masks; by default a `PCACodec` of `public_masks`; or a word for what is
        fitted on them: "linear" (the same), "blocks", "autoencoder", "naive".
    student: `UNetStudent(n_classes)` by default; it sees public scans and releases only.
    n_teachers: how many teachers; public and fixed.
    each_alone: every person is a teacher of its own, and `n_teachers` the public number by which
        sums are divided (about as many as there are). Half the sensitivity (`UnitMean`).
    n_classes: background included.
    queries: how many public scans are asked, or None for all; or `Queries(..., rounds=...)`: 2 or 4
        rounds ask the same scans again and spend a part of mu^2 on each release, about what the
        earlier ones and the public scans together predict.
    cut: "volume" makes masks of what was released such that an organ has, on average over the
        scans asked, the volume that it has in the codec's public masks (or, for a codec without
        any, in `public_masks`); "half" where the released foreground exceeds 1/2, for scans whose
        organs are of another size.
    executor: "serial", "local", a Dask client or address; checkpoint: a directory (mode 0700) of
        finished teachers, from which a run that was stopped goes on.
    groups in `fit` are the patients: the unit is then a person, otherwise a scan.

    Large volumes: `UNetStudent(patch=...)` and `UNetTeacher(UNetRecipe(patch=...))` are trained on
    patches and predict in windows; `predict(images, window=...)` does so with any U-Net.

    Scans, (n, *spatial) or (n, channels, *spatial), and masks are on one public grid, intensities
    normalised scan by scan (`Volumes.normalised().resampled(shape)`). Codec, radius and n_teachers
    must be public. Source: PCA-PATE 2020 and Generalized PATE 2022 as corrected in
    docs/theory/high-dimensional.md.
    """

    features = None
    _names: list[str] | None = field(init=False, default=None)
    teacher: Any = None
    codec: Any = None
    student: Any = None
    _: KW_ONLY
    n_teachers: Count = 100
    each_alone: bool = False
    n_classes: int = 2
    epsilon: float = 8.0
    queries: int | Queries | None = None
    cut: str = "volume"
    executor: Any = "serial"
    checkpoint: Any = None
    _own: ClassVar = {"queries": Queries(None, "medoids", 1)}

    def fit(
        self,
        images: ArrayLike,
        masks: ArrayLike,
        X_public: ArrayLike | None = None,
        *,
        public_masks: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Let teachers of the private scans segment public ones, and train the student on that.

        Shapes are checked and the plan is priced before a teacher looks at a scan; the ledger is
        charged before noise is drawn.
        """
        one_of("volume", "half", cut=self.cut)
        scans, truth = self._private(images, masks)
        dimensions = truth.ndim - 1
        outside = self._outside(X_public, scans.shape[1:])
        self._keep_apart(scans, outside)
        people = units_of(groups, len(scans))
        self._check_delta(count_units(people, len(scans)))
        known = self._known(public_masks, truth)
        rows = self._choose(outside)
        codec = self._codec(known, dimensions, len(rows))
        student = self._new_student()
        if hasattr(student, "check"):  # a student that cannot be made would cost the whole budget
            student.check(dimensions)
        rounds = MaskRounds(
            codec,
            _flat(outside[rows], dimensions),
            n_teachers=at_least(1, n_teachers=self.n_teachers),
            each_alone=self.each_alone,
            noise=self._gaussian_noise(),
            rounds=self._settings("queries").rounds,
        )
        volume = self._volume(rounds, known)
        ledger = self._open_ledger(by_person=people is not None)
        self._refuse_early(ledger, rounds.plans())
        shards = self._shards(scans, truth, people)
        codes = self._codes(scans, truth, shards, outside[rows], codec)
        for earlier in ("student_", "released_"):  # they would get this fit's statement
            self.__dict__.pop(earlier, None)
        self.codec_, self.ledger_, self.queries_ = codec, ledger, rows
        self.grid_ = truth.shape[1:]
        self.releases_: list[Release] = []
        self._ask(rounds, codes)
        self.released_ = cut_masks(rounds.answers(), self.n_classes, volume)
        self.student_ = student.fit(outside[rows], one_hot_masks(self.released_, self.n_classes))
        return self

    def _ask(self, rounds: MaskRounds, codes: Any) -> None:
        """Release round by round, each about what the earlier ones told."""
        for number, plan, public in rounds:
            count = len(self.queries_)
            purpose = f"segment {count} public scans, round {number} of {rounds.rounds}"
            with self._paid(self.ledger_, plan, purpose) as grant:
                release = grant.release(codes, **public)
            self.releases_.append(release)
            rounds.learn(release)

    def _declared_faults(self) -> tuple[str, ...]:
        """Add a codec that was bought: this ledger need not be the one that paid for it."""
        codec: Any = self.codec
        if getattr(codec, "provenance", "") != "dp":
            return super()._declared_faults()
        bought = f"the codec was {codec.statement}; an entry of another ledger is not counted here"
        return (*super()._declared_faults(), bought)

    def _private(self, images: ArrayLike, masks: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return private scans and masks; messages quote neither."""
        scans, truth = scan_floats(images=images), unquoted(lambda: np.asarray(masks))
        if truth.ndim not in (3, 4) or not len(truth) or not _fits(scans, truth):
            raise InvalidArgument(
                "Expected masks (n, *spatial) in 2D or 3D, and images (n, [channels,] *spatial)."
            )
        if truth.dtype.kind not in "biu" or truth.min() < 0 or truth.max() >= self.n_classes:
            raise InvalidArgument(f"Expected masks to hold classes 0 .. {self.n_classes - 1}.")
        if not np.isfinite(scans).all():
            raise InvalidArgument("Expected images to hold finite numbers only; remove NaN.")
        return scans, truth.astype(np.int64)

    def _outside(self, X_public: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[Any]:
        if X_public is None:
            raise InvalidArgument("Expected X_public=, the public scans that teachers segment.")
        outside = scan_floats(X_public=X_public)
        if outside.shape[1:] != shape or not len(outside) or not np.isfinite(outside).all():
            raise InvalidArgument(f"Expected X_public of finite numbers, shape (n, *{shape}).")
        return outside

    def _known(self, public_masks: ArrayLike | None, truth: NDArray[Any]) -> NDArray[Any] | None:
        """Return the foregrounds of public masks; whoever has no organ at all has the same mask."""
        if public_masks is None:
            return None
        known, shape = np.asarray(public_masks), truth.shape[1:]
        if known.shape[1:] != shape or known.dtype.kind not in "biu":
            raise InvalidArgument(f"Expected public_masks of classes, shape (n, *{shape}).")
        self._keep_apart(truth[truth.any(axis=tuple(range(1, truth.ndim)))], known)
        return foreground(np.eye(self.n_classes)[known], self.n_classes, last=True)

    def _codec(self, known: NDArray[Any] | None, dimensions: int, queries: int) -> Any:
        """Return the codec that was given, or the one of this name, of public masks."""
        if not (self.codec is None or isinstance(self.codec, str)):
            return self.codec
        if known is None:
            raise InvalidArgument(
                "Expected public_masks= to fit a codec on, or codec= a fitted one."
            )
        kind = UnitMean if self.each_alone else GaussianMean
        reach = kind.RADII * math.sqrt(queries) / at_least(1, n_teachers=self.n_teachers)
        return fit_codec(
            self.codec or "linear",
            known,
            dimensions=dimensions,
            sigma=self._gaussian_noise() * reach,
            random_state=self.random_state or 0,
        )

    def _volume(self, rounds: MaskRounds, known: NDArray[Any] | None) -> float | None:
        """Return how many voxels an organ has in public masks; None where 1/2 is the cut."""
        if self.cut == "half":
            return None
        if rounds.public_volume is not None:
            return rounds.public_volume
        if known is None:
            raise InvalidArgument(
                "Expected public_masks= where cut='volume' and the codec knows no public masks; "
                "give them, or say cut='half'."
            )
        return float(known.sum() / len(known))

    def _default_student(self) -> Any:
        return UNetStudent(self.n_classes, random_state=self.random_state or 0)

    def _choose(self, outside: NDArray[Any]) -> Integers:
        """Return the public scans to ask, chosen from public scans alone."""
        asked = self._settings("queries")
        every = len(outside) if isinstance(asked.strategy, str) else None
        flat = outside.reshape(len(outside), -1)
        return choose_queries(
            flat, asked.number or every, strategy=asked.strategy, random_state=self.random_state
        )

    def _shards(
        self, scans: NDArray[Any], masks: NDArray[Any], people: NDArray[np.bytes_] | None
    ) -> Assignment:
        """Return each scan's teacher. Secret where each unit is alone, and so is their number."""
        flat = scans.reshape(len(scans), -1)
        ids = record_ids(np.hstack([flat, masks.reshape(len(masks), -1)]))
        owners = ids if people is None else people
        if not self.each_alone:
            key = shard_key(self.random_state or 0)
            return Assignment(shard_of(owners, self.n_teachers, key), self.n_teachers, None)
        if people is None:  # a scan is its own unit, even where another one equals it
            return Assignment(np.arange(len(scans)), len(scans), list(ids))
        names, places = np.unique(people, return_inverse=True)
        return Assignment(places.astype(np.int64), names.size, list(names))

    def _codes(
        self,
        scans: NDArray[Any],
        masks: NDArray[Any],
        shards: Assignment,
        asked: NDArray[Any],
        codec: Any,
    ) -> NDArray[Any]:
        """Let the teachers answer. Secret: codes leave only through a grant."""
        with training_bar("Asking the teachers", shards.n_teachers) as tick:
            return segment_with_teachers(
                self._teacher(),
                scans,
                masks,
                shards.of_scan,
                shards.n_teachers,
                asked,
                n_classes=self.n_classes,
                encode=EncodeMasks(codec, self.n_classes),
                executor=self.executor,
                random_state=self.random_state or 0,
                names=shards.names,
                checkpoint=self.checkpoint,
                on_teacher=lambda _: tick(),
            )

    def _teacher(self) -> Any:
        return AtlasTeacher() if self.teacher is None else self.teacher

    def save(self, path: str | Path, *, classes: Sequence[str] | None = None) -> None:
        """Write the student, its grid, the statement and maybe the classes' names to one file.

        Nothing in it is private; `tacit segment` and `load_segmenter` read it.
        """
        names = None if classes is None else [str(name) for name in classes]
        if names is not None and len(names) != self.n_classes:
            raise InvalidArgument(f"Expected {self.n_classes} names of classes, got {len(names)}.")
        self._names = names
        super().save(path)

    def _public_facts(self) -> dict[str, Any]:
        named = {} if self._names is None else {"classes": self._names}
        return {"grid": list(self.grid_), "n_classes": self.n_classes, **named}


class SimulatedSegmenter(PATESegmenter):
    """`PATESegmenter` that also keeps `teachers_mean_`: the decoded mean code before noise.

    For scans that are public in truth, as a benchmark's. With private ones it publishes what the
    releases protect.
    """

    teachers_mean_: Floats

    def _codes(self, *given: Any) -> NDArray[Any]:
        codes = super()._codes(*given)
        codec = given[-1]
        answered = codes[np.isfinite(codes).all(axis=(1, 2))].astype(np.float64)
        self.teachers_mean_ = np.asarray(codec.decode(answered.sum(axis=0) / max(1, len(answered))))
        return codes

    def _declared_faults(self) -> tuple[str, ...]:
        return (*super()._declared_faults(), SIMULATION)


_TINY = 1.0  # voxels: the Dice loss of an empty organ has a bounded slope


@dataclass(eq=False, repr=False)
class DPSGDSegmenter(StudentMasks, NoisyTrainingEstimator):
    """Train MONAI's U-Net on private scans and masks by DP-SGD, in two or three dimensions.

    n_classes: background included. channels, residual_units: of the U-Net; fewer parameters, less
        noise. The other parameters are those of `DPSGDClassifier`; `n_records` counts scans, or
        people with `groups=`.

    Unit: one scan, or one person. The loss of a scan is its cross-entropy plus a soft Dice loss.
    After `fit`: `student_` (a `UNetStudent`), `ledger_`, `statement_`.
    """

    features = None
    n_classes: int = 2
    _: KW_ONLY
    channels: tuple[int, ...] = (4, 8, 16)
    residual_units: int = 0
    epsilon: float = 8.0
    # There are no public scans with which private ones could overlap.
    allow_overlap: bool = field(init=False, default=False)
    _own: ClassVar = {
        "training": Training(
            clipping="flat",
            clip=0.01,
            learning_rate=2e-2,
            epochs=30,
            batch_size=64,
            engine="single",
        ).or_else(TRAINING)
    }
    # Other engines would round volumes by their company.
    _fixed: ClassVar = frozenset({"engine"})

    def fit(self, images: ArrayLike, masks: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Train on private scans (n, [channels,] *spatial), normalised one by one, and masks."""
        at_least(2, n_classes=self.n_classes)
        truth = unquoted(lambda: np.asarray(masks))
        classes = truth.dtype.kind in "biu" and truth.ndim in (3, 4) and len(truth) > 0
        if not classes or truth.min() < 0 or truth.max() >= self.n_classes:
            raise InvalidArgument(
                f"Expected masks (n, *spatial) of classes 0 .. {self.n_classes - 1}."
            )
        dimensions = truth.ndim - 1
        scans = channelled(images, dimensions)
        if (len(scans), *scans.shape[2:]) != truth.shape or not np.isfinite(scans).all():
            raise InvalidArgument("Expected finite images, one of its mask's shape for each mask.")
        people = units_of(groups, len(scans))
        n_units = count_units(people, len(scans))
        self._check_delta(n_units)
        student = self._student(dimensions, scans.shape[1])
        recipe = student._recipe()
        sides = [side + -side % recipe.factor for side in truth.shape[1:]]
        network, self.ledger_ = self._train(
            student.network_,
            volume_losses,
            lambda count: _phantoms(count, (scans.shape[1], *sides), self.n_classes),
            lambda: PrivateExamples(
                _grown(scans, sides), _grown(truth[:, None], sides)[:, 0].astype(np.int64), people
            ),
            n_units=n_units,
            by_person=people is not None,
        )
        student.network_ = network.eval()
        self.student_ = student
        return self

    def _student(self, dimensions: int, channels: int) -> UNetStudent:
        """Return the student with its network in its first state."""
        student = UNetStudent(
            self.n_classes, channels=self.channels, residual_units=self.residual_units
        )
        recipe: UNetRecipe = student._recipe()
        student.dimensions_, student.n_channels_ = dimensions, channels
        student.network_ = seeded(
            lambda: make_unet(recipe, dimensions, channels, self.n_classes),
            seed_of(self.random_state),
        )
        return student


def volume_losses(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy plus one minus the soft Dice of each volume by itself."""
    from torch.nn.functional import cross_entropy, one_hot

    axes = tuple(range(2, scores.ndim))
    entropy = cross_entropy(scores, labels, reduction="none").flatten(1).mean(dim=1)
    soft = scores.softmax(dim=1)[:, 1:]
    organs = one_hot(labels, scores.shape[1]).movedim(-1, 1)[:, 1:].to(soft.dtype)
    both = (soft * organs).sum(dim=axes)
    sizes = (soft.square() + organs.square()).sum(dim=axes)
    losses: Tensor = entropy + (1 - (2 * both + _TINY) / (sizes + _TINY)).mean(dim=1)
    return losses


def _grown(arrays: NDArray[Any], sides: list[int]) -> NDArray[Any]:
    """Pad by the border values, up to sides that the network can halve."""
    room = [(0, side - have) for side, have in zip(sides, arrays.shape[2:], strict=True)]
    return np.pad(arrays, [(0, 0), (0, 0), *room], mode="edge")


def _phantoms(count: int, shape: tuple[int, ...], n_classes: int) -> PrivateExamples:
    """Return public random volumes, to try the network out."""
    draw = np.random.default_rng(0)
    labels = draw.integers(n_classes, size=(count, *shape[1:]))
    return PrivateExamples(draw.normal(size=(count, *shape)).astype(np.float32), labels)
