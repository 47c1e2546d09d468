"""One section of a run's configuration for each method; `builders` makes estimators of them.

A new method is one frozen dataclass here, in `SECTIONS`, and one builder in `builders.BUILDERS`;
only segmentation, whose data are scans and not rows, has a run of its own (`mask_runs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tacit._checks import at_least, one_of, positive, refuse, sampling_rate
from tacit.estimators.knn_planning import MECHANISMS as NEIGHBOUR_MECHANISMS

FEATURES = ("none", "digits", "bins")
TEACHERS = ("logistic", "kernel-ridge")
MASK_TEACHERS = ("atlas", "unet")
STUDENTS = ("label-spreading", "logistic", "cnn", "vat")
MECHANISMS = ("noisy-votes", "gnmax", "confident-gnmax")
STRATEGIES = ("medoids", "random")
AUTO = "auto"
"""Whichever student the releases support."""
ITSELF = "itself"
"""A student that is the private solution itself, where that may be published as it is."""


@dataclass(frozen=True, slots=True)
class Section:
    """What all methods' sections say of themselves."""

    method: ClassVar[str]
    executors: ClassVar[bool] = False
    """Whether the method can train elsewhere than in this process."""


@dataclass(frozen=True, slots=True)
class PateConfig(Section):
    """Teachers, queries and student."""

    method: ClassVar[str] = "pate"
    executors: ClassVar[bool] = True
    teachers: int = 100
    queries: int = 100
    strategy: str = "medoids"
    mechanism: str = "noisy-votes"
    rounds: int = 1
    features: str = "none"
    teacher: str = "kernel-ridge"
    student: str = "label-spreading"

    def __post_init__(self) -> None:
        at_least(1, teachers=self.teachers)
        at_least(1, queries=self.queries)
        at_least(1, rounds=self.rounds)
        one_of(*STRATEGIES, strategy=self.strategy)
        one_of(*MECHANISMS, mechanism=self.mechanism)
        one_of(*FEATURES, features=self.features)
        one_of(*TEACHERS, teacher=self.teacher)
        one_of(*STUDENTS, student=self.student)


@dataclass(frozen=True, slots=True)
class KnnConfig(Section):
    """Neighbours, queries and student."""

    method: ClassVar[str] = "knn"
    k: int = 100
    sampling_rate: float = 1.0
    queries: int = 100
    strategy: str = "medoids"
    mechanism: str = "sampled-votes"
    rounds: int = 1
    features: str = "none"
    student: str = "label-spreading"

    def __post_init__(self) -> None:
        at_least(1, k=self.k)
        sampling_rate(sampling_rate=self.sampling_rate)
        at_least(1, queries=self.queries)
        at_least(1, rounds=self.rounds)
        one_of(*STRATEGIES, strategy=self.strategy)
        one_of(*NEIGHBOUR_MECHANISMS, mechanism=self.mechanism)
        one_of(*FEATURES, features=self.features)
        one_of(*STUDENTS, student=self.student)


@dataclass(frozen=True, slots=True)
class PrototypeConfig(Section):
    """Public prototypes, at which each record votes once, and student."""

    method: ClassVar[str] = "prototype"
    prototypes: int = 300
    votes: int = 3
    strategy: str = "medoids"
    features: str = "none"
    student: str = AUTO

    def __post_init__(self) -> None:
        at_least(1, prototypes=self.prototypes)
        if at_least(1, votes=self.votes) > self.prototypes:
            raise refuse("votes", self.votes, "at most the number of prototypes")
        one_of(*STRATEGIES, strategy=self.strategy)
        one_of(*FEATURES, features=self.features)
        one_of(AUTO, *STUDENTS, student=self.student)


@dataclass(frozen=True, slots=True)
class MomentsConfig(Section):
    """One or two noisy moments of public features, for tables."""

    method: ClassVar[str] = "moments"
    rounds: int = 2
    features: str = "none"
    student: str = ITSELF

    def __post_init__(self) -> None:
        if at_least(1, rounds=self.rounds) > 2:
            raise refuse("rounds", self.rounds, "1 or 2")
        one_of(*FEATURES, features=self.features)
        one_of(ITSELF, *STUDENTS, student=self.student)


@dataclass(frozen=True, slots=True)
class RidgeConfig(Section):
    """Rounds of noisy residual moments of kernel features."""

    method: ClassVar[str] = "ridge"
    landmarks: int = 500
    width: float = 0.3
    rounds: int = 2
    clip: float = 0.5
    features: str = "none"
    student: str = ITSELF

    def __post_init__(self) -> None:
        at_least(1, landmarks=self.landmarks)
        at_least(1, rounds=self.rounds)
        positive(width=self.width)
        positive(clip=self.clip)
        one_of(*FEATURES, features=self.features)
        one_of(ITSELF, *STUDENTS, student=self.student)


@dataclass(frozen=True, slots=True)
class SegmentationConfig(Section):
    """Teachers of whole masks, queries and student; [data.options] says what the scans are.

    each_alone: every patient (or scan) is a teacher of its own, and `teachers` the public number by
        which sums are divided. queries 0: all public scans are asked.
    channels, teacher_steps, student_steps, patch: of the U-Nets; a patch where volumes are large.
    simulation: the private scans are declared public, as in a benchmark: the report may then show
        the teachers' mean before noise, and the statement says that it does.
    """

    method: ClassVar[str] = "segmentation"
    executors: ClassVar[bool] = True
    teachers: int = 100
    each_alone: bool = True
    teacher: str = "atlas"
    queries: int = 0
    strategy: str = "medoids"
    rounds: int = 1
    channels: tuple[int, ...] = (8, 16, 32)
    teacher_steps: int = 300
    student_steps: int = 300
    patch: tuple[int, ...] = ()
    simulation: bool = False

    def __post_init__(self) -> None:
        at_least(1, teachers=self.teachers)
        at_least(0, queries=self.queries)
        at_least(1, teacher_steps=self.teacher_steps)
        at_least(1, student_steps=self.student_steps)
        one_of(*STRATEGIES, strategy=self.strategy)
        one_of(*MASK_TEACHERS, teacher=self.teacher)
        if self.rounds not in (1, 2, 4):
            raise refuse("rounds", self.rounds, "1, 2 or 4")
        for key in ("each_alone", "simulation"):
            if not isinstance(getattr(self, key), bool):
                raise refuse(key, getattr(self, key), "true or false")
        for key in ("channels", "patch"):
            if not isinstance(getattr(self, key), list | tuple):
                raise refuse(key, getattr(self, key), "a list of whole numbers")
            sides = tuple(at_least(1, **{key: side}) for side in getattr(self, key))
            object.__setattr__(self, key, sides)


@dataclass(frozen=True, slots=True)
class NetworkSection(Section):
    """A network trained on the private records in noisy steps; public inputs tell its scale.

    records: about how many private records (with groups, people) there are, a public number; 0
        reads it from the data, which the statement then says.
    """

    activations: ClassVar[tuple[str, ...]] = ("tanh", "relu", "softplus")
    hidden: tuple[int, ...] = (300, 100)
    activation: str = "tanh"
    clip: float = 0.1
    optimizer: str = "adam"
    learning_rate: float = 1e-2
    epochs: float = 20.0
    batch_size: int = 512
    records: int = 0
    features: str = "none"

    def __post_init__(self) -> None:
        if not isinstance(self.hidden, list | tuple):
            raise refuse("hidden", self.hidden, "a list of whole numbers")
        widths = tuple(at_least(1, hidden=width) for width in self.hidden)
        object.__setattr__(self, "hidden", widths)
        one_of(*self.activations, activation=self.activation)
        one_of("adam", "sgd", optimizer=self.optimizer)
        for key in ("clip", "learning_rate", "epochs"):
            positive(**{key: getattr(self, key)})
        at_least(1, batch_size=self.batch_size)
        at_least(0, records=self.records)
        one_of(*FEATURES, features=self.features)


@dataclass(frozen=True, slots=True)
class DpsgdConfig(NetworkSection):
    """DP-SGD: the gradient of each record is clipped, as a whole or layer by layer."""

    method: ClassVar[str] = "dpsgd"
    clipping: str = "per-layer"

    def __post_init__(self) -> None:
        NetworkSection.__post_init__(self)
        one_of("per-layer", "flat", clipping=self.clipping)


@dataclass(frozen=True, slots=True)
class MacConfig(NetworkSection):
    """DP-MAC: each record's auxiliary coordinates cut the network into layers."""

    method: ClassVar[str] = "mac"
    activations: ClassVar[tuple[str, ...]] = ("relu", "softplus")
    activation: str = "relu"
    clip: float = 1e-3
    learning_rate: float = 2e-3
    thresholds: str = "small"

    def __post_init__(self) -> None:
        NetworkSection.__post_init__(self)
        one_of("small", "histogram", thresholds=self.thresholds)


SECTIONS: dict[str, type[Section]] = {
    kind.method: kind
    for kind in (
        PateConfig,
        KnnConfig,
        PrototypeConfig,
        MomentsConfig,
        RidgeConfig,
        DpsgdConfig,
        MacConfig,
        SegmentationConfig,
    )
}
"""The methods of a run, by name."""
