"""Audits of `NoisySum`: a million tables with a unit and without; mistakes must be found.

Honest audits use secure noise and fail by bad luck with probability at most 1e-6; mutants use
seeded noise. The event is the likelihood-ratio test for the claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from audits import TRIALS, proved, secure_noise
from mutants import mutated, seeded_noise, weak_noise
from summary_cases import STEPS, spoken

from tacit.mechanisms import NoisySum, Plan
from tacit.summaries import prototype_votes

DELTA = 0.1
VOTES = 3
THREE = NoisySum(1.0, VOTES, 1)


@dataclass(frozen=True)
class SumAudit:
    """Contributions with one unit and without it, and the difference that it makes."""

    with_unit: Any
    without: Any
    direction: Any
    mechanism: NoisySum = THREE

    def claim(self) -> float:
        return Plan(self.mechanism, 1).epsilon(DELTA)

    def finds(self, mechanism: Any = None, noise: Any = None) -> float:
        """Lower bound on epsilon."""
        subject = mechanism or self.mechanism
        draws = noise or (secure_noise(), secure_noise())
        outputs = [
            subject._draw(subject._total(said), source, TRIALS).reshape(TRIALS, -1)
            for said, source in zip((self.with_unit, self.without), draws, strict=True)
        ]
        direction = np.asarray(self.direction, dtype=float).ravel()
        rest = subject._total(self.without).ravel() / STEPS**2 @ direction
        limit = rest + 0.5 + self.claim()  # sigma 1 and a direction of length 1
        return proved(*outputs, (lambda values: values @ direction >= limit,), DELTA)


def _votes(labels: list[int], units: Any = None) -> Any:
    near = np.tile(np.arange(VOTES), (len(labels), 1))
    owners = None if units is None else np.array(units)
    return prototype_votes(near, np.array(labels), n_prototypes=VOTES, n_classes=1, units=owners)


EVERYWHERE = np.full(VOTES, VOTES**-0.5)
AUDITS = {
    "a vote at three prototypes": SumAudit(_votes([0, 0]), _votes([0]), EVERYWHERE),
    "wild vectors": SumAudit(
        spoken([[1e300, 0, 0], [0, 0.5, 0]], [[7.0], [1.0]]),
        spoken([[0, 0.5, 0]], [[1.0]]),
        [1.0, 0.0, 0.0],
    ),
    "a person of four records": SumAudit(
        _votes([0] * 5, ["p", "p", "p", "p", "q"]), _votes([0], ["q"]), EVERYWHERE
    ),
}
EVERY = pytest.mark.parametrize("name", AUDITS)


@EVERY
def test_audit_does_not_refute_the_claim(name):
    assert AUDITS[name].finds() <= AUDITS[name].claim()


@EVERY
def test_audit_is_sharp(name):
    assert AUDITS[name].finds(noise=seeded_noise()) > 0.85 * AUDITS[name].claim()


@EVERY
def test_noise_too_small_by_sqrt_2_is_caught(name):
    assert AUDITS[name].finds(noise=weak_noise()) > AUDITS[name].claim()


class Unbounded(NoisySum):
    """Believes that what records say has norm 1."""

    __slots__ = ()

    def _total(self, said):
        rows = np.arange(said.n_records)
        total = np.asarray(said.left(rows)).T @ np.asarray(said.right(rows))
        return np.rint(total * STEPS**2).astype(np.int64)


class RecordsNotPeople(NoisySum):
    """Bounds each record, and is sold as a bound for a person."""

    __slots__ = ()

    def _total_of_units(self, said):
        return self._sum(said, np.arange(said.n_records))


def test_votes_of_weight_one_each_are_caught():
    """Three votes of weight 1 instead of 1/sqrt 3: the vector is sqrt 3 long, and sold as 1."""
    nobody = spoken(np.empty((0, VOTES)), np.empty((0, 1)))
    audit = SumAudit(spoken([[1.0] * VOTES], [[1.0]]), nobody, EVERYWHERE)
    assert audit.finds(mutated(audit.mechanism, Unbounded), seeded_noise()) > audit.claim()
    assert audit.finds(noise=seeded_noise()) <= audit.claim()  # the real one shortens it


def test_a_person_who_is_not_clipped_is_caught():
    audit = AUDITS["a person of four records"]
    assert audit.finds(mutated(audit.mechanism, RecordsNotPeople), seeded_noise()) > audit.claim()


def test_a_replacement_sold_as_an_addition_is_caught():
    """Replacing a record moves the table by sqrt 2: the statement counts it as a group of two."""
    size = NoisySum(1.0, 1, 2)
    first, second = spoken([[1.0]], [[1.0, 0.0]]), spoken([[1.0]], [[0.0, 1.0]])
    outputs = [
        size._draw(size._total(said), noise, TRIALS).reshape(TRIALS, -1)
        for said, noise in zip((first, second), seeded_noise(), strict=True)
    ]
    claim = Plan(size, 1).epsilon(DELTA)
    event = (lambda values: values @ [1.0, -1.0] >= claim,)
    found = proved(*outputs, event, DELTA)
    assert claim < found <= Plan(NoisySum(2**-0.5, 1, 2), 1).epsilon(DELTA)
