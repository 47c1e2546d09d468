"""What a mechanism is, and what it releases.

A mechanism is frozen data that knows its own cost, so accounting cannot drift from the noise: both
read the same dataclass. To carry answers across the line it needs the noise of an open grant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Integers, at_least, vote_matrix
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.noise import Noise
    from tacit.privacy import RdpCurve

BLOCK = 1 << 18
"""Votes noised at a time: the temporaries stay in the processor's cache."""

NO_ANSWER = -1
"""The label of a query that was not answered."""


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """What became public: labels (-1: no answer) or values, by which mechanism, under which entry.

    `entry` is the hash of the ledger entry that paid for it, None where no ledger was used
    (possible with `InsecureNoise` only; `secure` is then False).
    """

    mechanism: Mechanism
    labels: NDArray[np.int64] | None = None
    values: NDArray[np.float64] | None = None
    entry: str | None = None
    secure: bool = True

    def __post_init__(self) -> None:
        if (self.labels is None) == (self.values is None):
            raise InvalidArgument("Expected exactly one of labels and values in a Release.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        released = self.labels if self.labels is not None else self.values
        array = np.asarray(released, dtype=dtype)
        return array.copy() if copy else array

    def __len__(self) -> int:
        return len(np.asarray(self))


class Mechanism(Protocol):
    """How secret answers become a public release.

    `name` is what the ledger and the command line call it; `noise_level` is "csprng" for an index
    or a bit, "exact" for numbers on a public grid.
    """

    name: ClassVar[str]
    noise_level: ClassVar[str]

    def release(self, answers: Any, noise: Noise) -> Release:
        """Draw noise once and return what may be published."""

    def cost(
        self, orders: ArrayLike, *, n_teachers: int | None = None, n_classes: int | None = None
    ) -> RdpCurve:
        """Worst case over all data, for one query."""

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Cost of each query for this very data: a secret, never to be published as it is."""

    def gaussian_cost(self) -> float | None:
        """mu^2 of one answered query if this is Gaussian noise, None if it is something else."""

    def confidence_delta(self) -> float:
        """Probability, spent from the budget's delta, with which the claimed cost may fail."""

    def accept(
        self, answers: Any, *, queries: int, n_teachers: int | None, n_classes: int | None
    ) -> None:
        """Raise `InvalidArgument` unless the answers are what the plan priced."""


@runtime_checkable
class SelectiveMechanism(Protocol):
    """A mechanism that checks every query and answers only those that pass."""

    @property
    def check(self) -> Mechanism:
        """What every query pays."""

    @property
    def answer(self) -> Mechanism:
        """What a query that passes pays on top."""


@runtime_checkable
class SampledGaussian(Protocol):
    """A mechanism whose every query is one Gaussian release of sensitivity 1 on a Poisson sample.

    The add/remove neighbours are dominated by N(0, s^2) and (1-q) N(0, s^2) + q N(1, s^2), which is
    what a privacy loss distribution composes.
    """

    def sampled_gaussian(self) -> tuple[float, float]:
        """Return noise multiplier s and sampling rate q."""


@runtime_checkable
class ClassMechanism(Protocol):
    """A mechanism whose answers do not tell how many classes there are: the plan must.

    Its `release` takes `n_classes`, which a grant passes on from the plan.
    """

    counts_classes: ClassVar[bool]


_ONE_TEACHER = "each unit's records reached one teacher only, whoever else is in the data"
ASSUMES = dict.fromkeys(
    ("gnmax", "lnmax", "noisy-votes", "threshold-check", "confident-gnmax", "interactive-gnmax"),
    _ONE_TEACHER,
)
_NEIGHBOURS = (
    "the features, their scale and the keys that break ties were fixed without the private "
    "records, so that no unit changes the order in which any query meets the others, and that "
    "nobody learns which records were sampled"
)
ASSUMES |= dict.fromkeys(
    (
        "sampled-max",
        "sampled-votes",
        "screening-check",
        "noisy-screening",
        "sampled-labels",
        "sampled-mean",
        "sampled-median",
    ),
    _NEIGHBOURS,
)
_PUBLIC_FRAME = (
    "the codec, the radius, the weights and the centres of codes were fixed without the private "
    "records, or from earlier releases alone"
)
_SEPARATE = (
    "teachers that did not deliver were missing for reasons that have nothing to do with private "
    "data, no more of them colluded than the plan allows, and only the total of their messages "
    "was seen"
)
ASSUMES |= {
    "gaussian-mean": f"{_ONE_TEACHER}, and that {_PUBLIC_FRAME}",
    "unit-mean": "each teacher knew one unit only, and each unit reached one teacher only, and "
    f"that {_PUBLIC_FRAME}",
    "distributed-gaussian-mean": f"{_ONE_TEACHER}, that {_PUBLIC_FRAME}, and that {_SEPARATE}",
    "noisy-sum": "what each record said was computed from that record alone, and that features, "
    "prototypes, bins and centres were fixed without the private records, or from earlier releases "
    "alone",
    "noisy-second-moment": "each unit brought one vector, centred and scaled without the private "
    "records",
    "sanitise": "the votes and labels whose cost was published are those of the release that the "
    "cost is claimed for",
    "noisy-steps": "what each unit said in a step was computed from that unit and from earlier "
    "releases alone, that inputs were scaled without the private records, and that nobody learns "
    "who was sampled",
}
_CHOICES = (
    "method and hyper-parameters (numbers of teachers and of queries included) were chosen without "
    "the private records, or from earlier releases alone, and that inputs called public hold no "
    "private record"
)
ASSUMES = {name: f"{presumed}, and that {_CHOICES}" for name, presumed in ASSUMES.items()}
"""What must hold outside tacit's sight for a mechanism's price to be right, by its name."""


def assumptions(names: Iterable[str]) -> tuple[str, ...]:
    """Return what the named mechanisms presume, each once.

    >>> for each in assumptions(["gnmax", "lnmax", "gnmax"]):
    ...     print(each.split(", and that ")[0])
    each unit's records reached one teacher only, whoever else is in the data
    """
    return tuple(dict.fromkeys(ASSUMES[name] for name in names if name in ASSUMES))


class VoteMechanism:
    """What mechanisms on vote histograms share: rows, classes and teachers must match the plan."""

    __slots__ = ()

    def confidence_delta(self) -> float:
        """No probability of failure: 0."""
        return 0.0

    def accept(
        self, answers: Any, *, queries: int, n_teachers: int | None, n_classes: int | None
    ) -> None:
        """Raise unless votes have as many rows, classes and teachers as the plan priced."""
        votes = self.votes(answers)
        if votes.shape[0] != queries:
            raise InvalidArgument(
                f"Expected votes for the {queries} queries of the plan, got {votes.shape[0]} rows."
            )
        if n_classes is not None and votes.shape[1] != n_classes:
            raise InvalidArgument(
                f"Expected votes for the {n_classes} classes of the plan, got {votes.shape[1]}."
            )
        if n_teachers is not None and not np.allclose(votes.sum(axis=1), n_teachers, rtol=1e-9):
            raise InvalidArgument(f"Expected every row of votes to sum to n_teachers={n_teachers}.")

    def votes(self, answers: Any) -> NDArray[Any]:
        """Return the answers as votes: integers, or `SoftVotes` where the mechanism allows them."""
        return vote_matrix(answers)


def count_votes(predictions: ArrayLike, n_classes: int) -> Integers:
    """Count predictions `(teachers, queries)` into votes `(queries, classes)`.

    >>> count_votes([[0, 1], [0, 2], [1, 2]], n_classes=3).tolist()
    [[2, 1, 0], [0, 1, 2]]
    """
    n_classes = at_least(2, n_classes=n_classes)
    array = np.asarray(predictions)
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidArgument(
            f"Expected predictions of shape (teachers, queries), got shape {array.shape}."
        )
    if array.dtype.kind not in "iu":
        raise InvalidArgument(
            f"Expected predictions to be integer class indices, got dtype {array.dtype}; "
            "encode labels as 0 .. n_classes - 1."
        )
    if array.min() < 0 or array.max() >= n_classes:
        raise InvalidArgument(
            f"Expected predictions to lie in 0 .. {n_classes - 1} (n_classes={n_classes})."
        )
    votes = np.empty((array.shape[1], n_classes), dtype=np.int64)
    # As many queries at a time as keep indices and counts in the processor's cache.
    step = max(1, min(array.shape[1], BLOCK // (4 * n_classes)))
    bins = np.empty(max(step, BLOCK), dtype=np.intp)
    for start in range(0, array.shape[1], step):
        rows = slice(start, start + step)
        votes[rows] = _count_block(array[:, rows], n_classes, bins)
    return votes


def _count_block(predictions: NDArray[Any], n_classes: int, bins: NDArray[np.intp]) -> Integers:
    """Count a few queries, as many teachers at a time as `bins` holds: one bin a (query, class)."""
    n_teachers, n_queries = predictions.shape
    first_bin = np.arange(n_queries) * n_classes
    counts = np.zeros(n_queries * n_classes, dtype=np.int64)
    step = bins.size // n_queries
    for start in range(0, n_teachers, step):
        part = predictions[start : start + step]
        taken = bins[: part.size].reshape(part.shape)
        # Every prediction is known to be a class, so that the cast is safe, even from uint64.
        np.add(part, first_bin, out=taken, dtype=np.intp, casting="unsafe")
        counts += np.bincount(taken.reshape(-1), minlength=counts.size)
    return counts.reshape(n_queries, n_classes)
