"""Inputs on which a mechanism on votes loses most, for audits of what it claims.

A `Suspicion` is two neighbouring rows of votes, an event that tells them apart, and a delta at
which the claim is to be refuted. Where the noise is Gaussian, the event is about that of the
likelihood-ratio test which is optimal for the claim; `tacit.ledger.audit_mechanism` carries the
experiment out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidArgument
from tacit.mechanisms.base import NO_ANSWER, Mechanism
from tacit.mechanisms.noisy_max import GNMax, LNMax, NoisyVotes
from tacit.mechanisms.plan import Plan
from tacit.mechanisms.selective import ConfidentGNMax, InteractiveGNMax
from tacit.privacy.auditing import Event

AUDIT_DELTAS = (0.1, 0.03, 0.01, 0.003)
"""Where a claimed curve is tried: a few hundred thousand releases see no smaller probability."""
_SURELY = 8.0
"""A check that is so many deviations away passes."""
_FURTHEST = 5.0
"""Events further than that happen to nobody."""

Row = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Two neighbouring rows of votes, what to look for, and the delta of the claim to refute."""

    what: str
    first: Row
    second: Row
    event: Event
    delta: float
    public: dict[str, Any] = field(default_factory=dict)

    def plan(self, mechanism: Mechanism, trials: int) -> Plan:
        """Return the plan of so many releases."""
        return Plan(mechanism, trials, n_teachers=sum(self.first), n_classes=2)

    def claim(self, mechanism: Mechanism) -> float:
        """Return what the mechanism says of one release at this delta."""
        return self.plan(mechanism, 1).epsilon(self.delta)


def suspicions(mechanism: Mechanism) -> list[Suspicion]:
    """Return the experiments that could refute a mechanism's price of one query.

    Neighbours differ in one teacher's vote, on any query. Unit: what a teacher's shard holds.

    >>> [(each.first, each.second) for each in suspicions(GNMax(1.0))][:2]
    [((2, 3), (1, 4)), ((2, 1), (1, 2))]
    """
    kinds: dict[type, Callable[[Any, float], Iterator[Suspicion]]] = {
        GNMax: _of_gnmax,
        LNMax: _of_lnmax,
        NoisyVotes: _of_noisy_votes,
        ConfidentGNMax: _of_selective,
        InteractiveGNMax: _of_selective,
    }
    kind = next((kind for kind in kinds if isinstance(mechanism, kind)), None)
    if kind is None:
        raise InvalidArgument(
            f"Expected a mechanism on votes to audit, got {mechanism.name}; the test suite audits "
            "every mechanism."
        )
    return [each for delta in AUDIT_DELTAS for each in kinds[kind](mechanism, delta)]


def labelled(*wanted: int) -> Event:
    """Return the event that one of these labels comes out.

    >>> labelled(0, 2)(np.array([0.0, 1.0, 2.0])).tolist()
    [True, False, True]
    """
    return lambda outputs: np.isin(outputs, wanted)


def _guess(mechanism: Mechanism, delta: float, n_teachers: int) -> float:
    """Return about what the claim will be: it decides where to look, not what is compared."""
    return Plan(mechanism, 1, n_teachers=n_teachers, n_classes=2).epsilon(delta)


def _cut(mu: float, epsilon: float) -> float:
    """Where N(mu, 1) is e^epsilon times as likely as N(0, 1), in deviations from the latter."""
    return min(mu / 2 + epsilon / mu, _FURTHEST)


def _of_gnmax(mechanism: GNMax, delta: float) -> Iterator[Suspicion]:
    """Yield a first class that is a little behind: that it wins is a test of the difference."""
    yield from _behind("the label", _gap(mechanism.sigma, _guess(mechanism, delta, 3)), 1, delta)


def _gap(sigma: float, epsilon: float) -> int:
    """How far behind a class is whose win, with noise sigma, is the test for epsilon."""
    spread = math.sqrt(2) * sigma
    return max(1, round(_cut(2 / spread, epsilon) * spread))


def _behind(what: str, gap: int, least: int, delta: float, **public: Any) -> Iterator[Suspicion]:
    """Yield rows in which class 0 is `gap` votes behind, and two votes less.

    And those where one vote decides: with far too little noise, nothing happens anywhere else.
    """
    for behind in sorted({gap, 1}, reverse=True):
        second, first = (least, least + behind), (least + 1, least + behind - 1)
        yield Suspicion(what, first, second, labelled(0), delta, public)


def _of_lnmax(mechanism: LNMax, delta: float) -> Iterator[Suspicion]:
    """Yield a first class some scales behind, where the ratio of Laplace tails is all there is."""
    yield from _behind("the label", max(1, round(3 / mechanism.gamma)), 1, delta)


def _of_noisy_votes(mechanism: NoisyVotes, delta: float) -> Iterator[Suspicion]:
    """Yield the difference of two released counts."""
    spread = math.sqrt(2) * mechanism.sigma
    limit = _cut(2 / spread, _guess(mechanism, delta, 3)) * spread - 1

    def ahead(values: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray(values[:, 0] - values[:, 1] >= limit)

    yield Suspicion("the counts", (2, 1), (1, 2), ahead, delta)


def _of_selective(
    mechanism: ConfidentGNMax | InteractiveGNMax, delta: float
) -> Iterator[Suspicion]:
    """Yield the check alone, check and answer in one event, and the answer alone.

    A student that is sure of class 1 disagrees with as many teachers as vote for class 0, and its
    own label says that the check failed.
    """
    student = {"student": (0.0, 1.0)} if isinstance(mechanism, InteractiveGNMax) else {}
    size = max(2, round(mechanism.threshold))
    cut = _cut(1 / mechanism.sigma_check, _guess(mechanism, delta, size))
    votes = max(2, round(mechanism.threshold + cut * mechanism.sigma_check))
    failed = labelled(NO_ANSWER, 1)
    yield Suspicion("the check", (votes - 1, 1), (votes, 0), failed, delta, student)
    yield Suspicion("both", (size, 0), (size - 1, 1), labelled(0), delta, student)
    enough = max(1, math.ceil(mechanism.threshold + _SURELY * mechanism.sigma_check))
    gap = _gap(mechanism.sigma_answer, _guess(mechanism, delta, 2 * enough))
    yield from _behind("the answer", gap, enough, delta, **student)
