"""Audits of `NoisySum`: a million tables with a unit and without; mistakes must be found.

Honest audits use secure noise and fail by bad luck with probability at most 1e-6; mutants use
seeded noise. The event is the likelihood-ratio test for the claim.
"""

from __future__ import annotations

import numpy as np
import pytest
from audits import TRIALS, proved
from mutants import mutated, seeded_noise, weak_noise
from sum_audits import DELTA, EVERYWHERE, SUM_AUDITS, VOTES, SumAudit
from summary_cases import STEPS, spoken

from tacit.mechanisms import NoisySum, Plan

EVERY = pytest.mark.parametrize("name", SUM_AUDITS)


@EVERY
def test_audit_does_not_refute_the_claim_and_is_sharp(name):
    claim = SUM_AUDITS[name].claim()
    assert 0.85 * claim < SUM_AUDITS[name].finds() <= claim


@EVERY
def test_noise_too_small_by_sqrt_2_is_caught(name):
    assert SUM_AUDITS[name].finds(noise=weak_noise()) > SUM_AUDITS[name].claim()


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

    def _total(self, said):
        return self._sum(said, np.arange(said.n_records))


def test_votes_of_weight_one_each_are_caught():
    """Three votes of weight 1 instead of 1/sqrt 3: the vector is sqrt 3 long, and sold as 1."""
    nobody = spoken(np.empty((0, VOTES)), np.empty((0, 1)))
    audit = SumAudit(spoken([[1.0] * VOTES], [[1.0]]), nobody, EVERYWHERE)
    assert audit.finds(mutated(audit.mechanism, Unbounded), seeded_noise()) > audit.claim()
    assert audit.finds(noise=seeded_noise()) <= audit.claim()  # the real one shortens it


def test_a_person_who_is_not_clipped_is_caught():
    audit = SUM_AUDITS["a person of four records"]
    assert audit.finds(mutated(audit.mechanism, RecordsNotPeople), seeded_noise()) > audit.claim()


def test_gains_that_are_not_scaled_are_caught():
    """Half of four solutions right, about their mean: 1 long, not 1/2 as with sqrt(J)/2 = 1."""
    honest = SUM_AUDITS["which of four solutions does best"]
    nobody = spoken(np.empty((0, 1)), np.empty((0, 4)))
    # About 0 instead of the mean, or without the root: sqrt 2 and 2 long.
    for gains in ([[1.0, 1.0, 0.0, 0.0]], [[1.0, 1.0, -1.0, -1.0]]):
        length = np.linalg.norm(gains)
        audit = SumAudit(spoken([[1.0]], gains), nobody, gains / length, honest.mechanism)
        assert audit.finds(mutated(audit.mechanism, Unbounded), seeded_noise()) > audit.claim()


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
