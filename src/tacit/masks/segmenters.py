"""`PATESegmenter`: private scans with masks in, a publishable segmentation network out.

Teachers answer public scans with whole masks; a public codec makes short codes of them, of which
`GaussianMean` releases the noisy mean through a ledger; a student learns from the decoded releases.
After `fit` the object holds the student, the releases and the ledger, and nothing private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from tacit._checks import Floats, Integers, at_least, finite_rows, one_of, refuse
from tacit._progress import training_bar
from tacit.errors import InvalidArgument
from tacit.masks.codec_files import codec_identity
from tacit.masks.named_codecs import fit_codec
from tacit.masks.results import organ_dice
from tacit.masks.rounds import EncodeMasks, MaskRounds, cut_masks, foreground, one_hot_masks
from tacit.masks.teachers import AtlasTeacher, segment_with_teachers
from tacit.masks.unet import UNetStudent, channelled, scan_floats, targets_of
from tacit.masks.volumes import are_classes, most_probable
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
from tacit.records import count_units, people_of, read_stack
from tacit.students import choose_queries, seed_of
from tacit.teachers import record_ids, shard_key, shard_of

if TYPE_CHECKING:
    from torch import Tensor


SIMULATION = (
    "this run was declared a simulation: its private scans are said to be public, and its report "
    "may show the teachers' mean before noise, which no cost covers"
)


class StudentMasks:
    """Base of every estimator that learns from private masks and ends in a student of masks."""

    n_classes: int
    student_: Any

    def _private(self, images: ArrayLike, masks: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return private scans, with or without channels, and masks; errors quote neither."""
        at_least(2, n_classes=self.n_classes)
        scans, truth = read_stack(images, name="images"), read_stack(masks, name="masks")
        spatial = (*scans.shape[:1], *scans.shape[1 - truth.ndim :])
        fits = scans.ndim - truth.ndim in (0, 1) and scans.size and spatial == truth.shape
        if truth.ndim not in (3, 4) or not fits:
            raise InvalidArgument(
                "Expected masks (n, *spatial) in 2D or 3D, and images (n, [channels,] *spatial) of "
                "their shape."
            )
        if not are_classes(truth, self.n_classes).all():
            raise InvalidArgument(f"Expected masks to hold classes 0 .. {self.n_classes - 1}.")
        if not finite_rows(scans).all():
            raise InvalidArgument("Expected images to hold finite numbers only; remove NaN.")
        return scans, truth.astype(np.int64 if self.n_classes > 256 else np.uint8)

    def predict_proba(self, images: ArrayLike, *, window: Sequence[int] | None = None) -> Floats:
        """Return probabilities (n, n_classes, *spatial): post-processing, free of charge.

        Scans (n, [channels,] *spatial) are normalised as those of `fit`; `window` is the shape of
        overlapping windows for volumes too large for the network.
        """
        check_is_fitted(self, "student_")
        how = {} if window is None else {"window": window}
        return np.asarray(self.student_.predict_proba(images, **how), dtype=np.float64)

    def predict(
        self, images: ArrayLike, *, window: Sequence[int] | None = None
    ) -> NDArray[np.uint8]:
        """Return the most probable class of each voxel; arguments as of `predict_proba`."""
        return most_probable(self.predict_proba(images, window=window), axis=1)

    def score(self, images: ArrayLike, masks: ArrayLike) -> float:
        """Return the mean Dice of the foreground, on scans declared public.

        On private scans it would be a release that nobody pays for: use `evaluate_masks`.
        """
        return float(organ_dice(self.predict(images), masks).mean())


def _scan_ids(scans: NDArray[Any], masks: NDArray[Any]) -> NDArray[np.bytes_]:
    """Return an id of each scan with its mask, one after another. Secret."""
    pairs = zip(scans, masks, strict=True)
    return np.concatenate(
        [record_ids(np.concatenate([scan, mask], axis=None)[None]) for scan, mask in pairs]
    )


def one_two_or_four(**named: Any) -> int:
    """Return the argument, a number of rounds that has budget shares."""
    ((name, value),) = named.items()
    if at_least(1, **named) not in (1, 2, 4):
        raise refuse(name, value, "1, 2 or 4")
    return int(value)


@dataclass(eq=False, repr=False)
class PATESegmenter(StudentMasks, PrivateEstimator):
    """Private aggregation of teachers' masks, worst-case priced, in two or three dimensions.

    Unit: one scan, or one person with `groups=` in `fit`. Codec, radius and n_teachers must be
    public. Scans and masks are on one public grid, intensities normalised scan by scan
    (`Volumes.normalised().resampled(shape)`). For large volumes, `UNetStudent(patch=...)` and
    `UNetTeacher(UNetRecipe(patch=...))` are trained on patches; `predict(images, window=...)`
    predicts in windows. Sources: PCA-PATE 2020 and Generalized PATE 2022 as corrected in
    `docs/theory/high-dimensional.md`.

    Parameters
    ----------
    teacher : MaskTeacher or callable, optional
        `AtlasTeacher()` by default, a `UNetTeacher`, or a function (`CallableTeacher`).
    codec : Codec or str, optional
        Fitted on public masks; by default a `PCACodec` of the `public_masks` of `fit`; or the name
        of one to fit on them: "linear" (the same), "blocks", "autoencoder", "naive".
    student : estimator, optional
        `UNetStudent(n_classes)` by default; it sees public scans and releases only.
    epsilon : float
        The worst-case budget of the ledger that `fit` makes; with a given ledger it still sets the
        noise.
    delta : float, of that budget; a given ledger has its own
    ledger : Ledger, path or NewLedger, optional, none for one in a temporary directory
    allow_overlap : bool
        Skip the check that refuses private scans equal to public ones; the ledger then records it.
    noise : InsecureNoise, optional, seeded noise for tests: not private, and the ledger records it
    random_state : int, optional, seeds training, queries and shards, never noise
    n_teachers : int, how many teachers; public and fixed
    each_alone : bool
        Every person is a teacher of its own, and `n_teachers` the public number by which sums are
        divided (about as many as there are). Half the sensitivity (`UnitMean`).
    n_classes : int, background included; public
    queries : int or Queries, optional
        How many public scans are queried, None for all; or `Queries(..., rounds=...)`: 2 or 4
        rounds query the same scans again, each with a part of mu^2, about what earlier rounds left
        open.
    cut : str
        "volume" cuts the released masks so that an organ has, on average, its volume in the codec's
        public masks (or in `public_masks`); "half" where the released foreground exceeds 1/2, for
        scans whose organs are of another size.
    executor : str or Dask client
        "serial", "local" (processes), a Dask client or a scheduler's address.
    checkpoint : path, optional
        A directory (mode 0700) of finished teachers, from which a stopped run resumes. Secret.

    Attributes
    ----------
    student_ : estimator, the fitted student, publishable
    released_ : array of shape (queries, *grid) or (queries, n_classes - 1, *grid)
        Foreground masks, 0 or 1, on which the student was trained.
    releases_ : list of Release, one a round, as they left the ledger
    queries_ : array of int, rows of `X_public` that were queried
    codec_ : Codec, the codec that was used
    grid_ : tuple of int, the public grid of scans and masks
    ledger_ : Ledger, the ledger that paid
    statement_ : Statement, the privacy of all that was released so far
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
    _unit: ClassVar[str] = "scan"
    _keeps_mean: ClassVar[bool] = False
    _own: ClassVar[dict[str, Any]] = {"queries": Queries(None, "medoids", 1)}

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

        Shapes are checked and the plan is priced before a teacher reads a scan; the ledger is
        charged before noise is drawn.

        Parameters
        ----------
        images : array of shape (n, *spatial) or (n, channels, *spatial), private scans
        masks : array of int, shape (n, *spatial), their classes, 0 the background; private
        X_public : array of shape (m, *spatial) or (m, channels, *spatial)
            Public scans, on the same grid; needed.
        public_masks : array of int, shape (k, *spatial), optional
            Public masks to fit a codec on; needed where none was given.
        groups : array of shape (n,), optional
            The person of each scan: the unit is then a person, otherwise a scan.

        Returns
        -------
        self : PATESegmenter, fitted; it holds nothing private
        """
        one_of("volume", "half", cut=self.cut)
        scans, truth = self._private(images, masks)
        outside = self._outside(X_public, scans.shape[1:])
        self._keep_apart(scans, outside)
        people = people_of(groups, len(scans))
        self._check_delta(count_units(people, len(scans)))
        known = self._known(public_masks, truth)
        rows = self._choose(outside)
        codec = self._codec(known, truth.ndim - 1, len(rows))
        student = self._new_student()
        if hasattr(student, "check"):  # a student that cannot be made would cost the whole budget
            student.check(truth.ndim - 1)
        asked = outside[rows]
        rounds = MaskRounds(
            codec,
            asked if asked.ndim == truth.ndim else asked.mean(axis=1),  # of the channels
            n_teachers=at_least(1, n_teachers=self.n_teachers),
            each_alone=self.each_alone,
            noise=self._gaussian_noise(),
            rounds=self._settings("queries").rounds,
        )
        volume = self._volume(rounds, known)
        ledger = self._open_ledger(by_person=people is not None)
        plans = rounds.plans()
        kept = self._refuse_early(ledger, plans, asked, codec_identity(codec))
        codes = cache(lambda: self._codes(scans, truth, people, asked, codec))
        # Now: what fails must fail before anything is paid or forgotten.
        if kept < len(plans) or self._keeps_mean:
            codes()
        for earlier in ("student_", "released_"):  # they would get this fit's statement
            self.__dict__.pop(earlier, None)
        self.codec_, self.ledger_, self.queries_ = codec, ledger, rows
        self.grid_ = truth.shape[1:]
        self.releases_: list[Release] = []
        self._ask(rounds, codes)
        self.released_ = cut_masks(rounds.answers(), self.n_classes, volume)
        self.student_ = student.fit(asked, one_hot_masks(self.released_, self.n_classes))
        return self

    def _ask(self, rounds: MaskRounds, codes: Callable[[], Any]) -> None:
        """Release round by round, each about what the earlier ones left open."""
        for number, plan, public in rounds:
            count = len(self.queries_)
            purpose = f"segment {count} public scans, round {number} of {rounds.rounds}"
            release = self._released(self.ledger_, plan, codes, purpose, **public)
            self.releases_.append(release)
            rounds.learn(release)

    def _declared_faults(self) -> tuple[str, ...]:
        """Add a caveat for a codec that was bought: another ledger may have paid for it."""
        codec: Any = self.codec
        if getattr(codec, "provenance", "") != "dp":
            return super()._declared_faults()
        bought = f"the codec was {codec.statement}; an entry of another ledger is not counted here"
        return (*super()._declared_faults(), bought)

    def _outside(self, X_public: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[Any]:
        if X_public is None:
            raise InvalidArgument("Expected X_public=, the public scans that teachers segment.")
        outside = scan_floats(X_public=X_public)
        if outside.shape[1:] != shape or not len(outside) or not np.isfinite(outside).all():
            raise InvalidArgument(f"Expected X_public of finite numbers, shape (n, *{shape}).")
        return outside

    def _known(self, public_masks: ArrayLike | None, truth: NDArray[Any]) -> NDArray[Any] | None:
        """Return the foregrounds of public masks."""
        if public_masks is None:
            return None
        known, shape = np.asarray(public_masks), truth.shape[1:]
        if known.shape[1:] != shape or known.dtype.kind not in "biu":
            raise InvalidArgument(f"Expected public_masks of classes, shape (n, *{shape}).")
        drawn = truth.any(axis=tuple(range(1, truth.ndim)))
        self._keep_apart(truth if drawn.all() else truth[drawn], known)
        return foreground(targets_of(known, self.n_classes), self.n_classes)

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
        """Return the public scans to query, chosen from public scans alone."""
        asked = self._settings("queries")
        every = len(outside) if isinstance(asked.strategy, str) else None
        flat = outside.reshape(len(outside), -1)
        return choose_queries(
            flat, asked.number or every, strategy=asked.strategy, random_state=self.random_state
        )

    def _shards(
        self, scans: NDArray[Any], masks: NDArray[Any], people: NDArray[np.bytes_] | None
    ) -> tuple[Integers, int, list[bytes] | None]:
        """Return each scan's teacher, their number (secret if `each_alone`), and names. Secret."""
        ids = _scan_ids(scans, masks)
        owners = ids if people is None else people
        if not self.each_alone:
            key = shard_key(self.random_state or 0)
            return shard_of(owners, self.n_teachers, key), self.n_teachers, None
        if people is None:  # a scan is its own unit, even where another one equals it
            return np.arange(len(scans)), len(scans), list(ids)
        names, places = np.unique(people, return_inverse=True)
        return places.astype(np.int64), names.size, list(names)

    def _codes(
        self,
        scans: NDArray[Any],
        masks: NDArray[Any],
        people: NDArray[np.bytes_] | None,
        asked: NDArray[Any],
        codec: Any,
    ) -> NDArray[Any]:
        """Let the teachers answer. Secret: codes leave only through a grant."""
        shards, n_teachers, names = self._shards(scans, masks, people)
        with training_bar("Asking the teachers", n_teachers) as tick:
            return segment_with_teachers(
                AtlasTeacher() if self.teacher is None else self.teacher,
                scans,
                masks,
                shards,
                n_teachers,
                asked,
                n_classes=self.n_classes,
                encode=EncodeMasks(codec, self.n_classes),
                executor=self.executor,
                random_state=self.random_state or 0,
                names=names,
                checkpoint=self.checkpoint,
                on_teacher=lambda _: tick(),
            )

    def save(self, path: str | Path, *, classes: Sequence[str] | None = None) -> None:
        """Write student, grid and statement to one file for `tacit segment`; nothing is private.

        Parameters
        ----------
        path : path, of the file; no pickle is in it, `load_segmenter` reads it
        classes : sequence of str, optional, names of the classes, background first; public
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
    """`PATESegmenter` that also has `teachers_mean_`: the decoded mean code before noise.

    Only for scans that are public in truth, as a benchmark's: with private ones it publishes what
    the releases protect.

    Parameters
    ----------
    teacher, codec, student, epsilon, delta, ledger, allow_overlap, noise, random_state
        As in `PATESegmenter`.
    n_teachers, each_alone, n_classes, queries, cut, executor, checkpoint : as in `PATESegmenter`

    Attributes
    ----------
    teachers_mean_ : array of shape (queries, *shape)
        The mean of the teachers' answers, through the codec, without clip and noise. No cost covers
        it; the statement states so.
    """

    teachers_mean_: Floats
    _keeps_mean: ClassVar[bool] = True

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

    Unit: one scan, or one person with `groups=` in `fit`. The loss of a scan is its cross-entropy
    plus a soft Dice loss.

    Parameters
    ----------
    n_classes, epsilon, delta, ledger, noise : as in `PATESegmenter`
    random_state : int, optional, seeds the first weights, never noise or samples
    n_records : int or "from_data"
        Publicly known number of scans (with `groups=`, people), which sets rate and steps;
        "from_data" counts them, which the statement then states. Needed.
    noise_multiplier : float, optional
        Noise in units of what one unit can add to a sum, in place of what epsilon would need.
    training : Training, optional
        By default flat clipping to 0.01, 30 epochs, batches of 64 and the learning rate 0.02. Scans
        are always processed one at a time, for in a batch rounding depends on the other scans.
    channels : tuple of int, of each level of the U-Net; fewer parameters, less noise
    residual_units : int, convolutions of a level's residual unit (0: one plain convolution)

    Attributes
    ----------
    student_ : UNetStudent, the trained network, publishable
    ledger_, statement_ : as in `PATESegmenter`
    """

    features = None
    n_classes: int = 2
    _: KW_ONLY
    channels: tuple[int, ...] = (4, 8, 16)
    residual_units: int = 0
    epsilon: float = 8.0
    # There are no public scans with which private ones could overlap.
    allow_overlap: bool = field(init=False, default=False)
    _own: ClassVar[dict[str, Any]] = {
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
    _unit: ClassVar[str] = "scan"
    _fixed: ClassVar[frozenset[str]] = frozenset({"engine"})

    def fit(self, images: ArrayLike, masks: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Train on private scans, normalised one by one, and masks.

        Parameters
        ----------
        images, masks, groups : as in `PATESegmenter.fit`

        Returns
        -------
        self : DPSGDSegmenter, fitted; it holds nothing private
        """
        scans, truth = self._private(images, masks)
        scans = channelled(scans, truth.ndim - 1)
        people = people_of(groups, len(scans))
        n_units = count_units(people, len(scans))
        self._check_delta(n_units)
        student = self._student(truth.ndim - 1, scans.shape[1])
        sides = student._recipe().grown(truth.shape[1:])
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
        student = UNetStudent(
            self.n_classes, channels=self.channels, residual_units=self.residual_units
        )
        return student.untrained(dimensions, channels, seed_of(self.random_state))


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
    """Return public random volumes, to try the network."""
    draw = np.random.default_rng(0)
    labels = draw.integers(n_classes, size=(count, *shape[1:]))
    return PrivateExamples(draw.normal(size=(count, *shape)).astype(np.float32), labels)
