"""`audit_mechanism`: honest mechanisms are not contradicted, quiet noise is, through a ledger."""

from __future__ import annotations

import pytest

from tacit.errors import InvalidArgument
from tacit.ledger.auditing import audit_mechanism
from tacit.mechanisms import (
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
    NoisyVotes,
    UnitMean,
)
from tacit.mechanisms.auditing import AUDIT_DELTAS, suspicions
from tacit.noise import SecureNoise

MECHANISMS = {
    "gnmax": GNMax(40),
    "gnmax, loud": GNMax(1),
    "lnmax": LNMax(0.05),
    "noisy-votes": NoisyVotes(40),
    "confident-gnmax": ConfidentGNMax(200, 150, 40),
    "confident-gnmax, small": ConfidentGNMax(5, 1, 3),
    "interactive-gnmax": InteractiveGNMax(50, 40, 30, 0.9),
}
EVERY = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
TRIALS = 30_000


@pytest.fixture
def quiet(monkeypatch):
    """Noise ten times too small, from the very source that releases use."""
    for name in ("gaussian", "laplace", "rounded_gaussian_steps"):
        honest = getattr(SecureNoise, name)
        monkeypatch.setattr(
            SecureNoise,
            name,
            lambda self, scale, *rest, _honest=honest: _honest(self, scale / 10, *rest),
        )


@EVERY
def test_honest_mechanisms_are_not_contradicted(mechanism):
    findings = audit_mechanism(mechanism, trials=TRIALS)
    assert {finding.delta for finding in findings} == set(AUDIT_DELTAS)
    assert not any(finding.contradicts for finding in findings)


@EVERY
def test_noise_ten_times_too_small_is_found(mechanism, quiet):
    assert any(finding.contradicts for finding in audit_mechanism(mechanism, trials=TRIALS))


@pytest.mark.parametrize("part", ["sigma_check", "sigma_answer"])
def test_either_half_of_a_selective_mechanism_is_looked_at(part, monkeypatch):
    """Only one of the two noises is too small."""
    mechanism = ConfidentGNMax(40, 8, 7)
    wrong, honest = getattr(mechanism, part), SecureNoise.gaussian
    monkeypatch.setattr(
        SecureNoise,
        "gaussian",
        lambda self, sigma, size: honest(self, sigma / 10 if sigma == wrong else sigma, size),
    )
    assert any(finding.contradicts for finding in audit_mechanism(mechanism, trials=TRIALS))


def test_the_bound_is_near_the_claim_where_the_trials_allow_it():
    first = audit_mechanism(GNMax(1), trials=200_000)[0]
    assert 0.85 * first.claim < first.proved <= first.claim


def test_rows_are_neighbours():
    for mechanism in MECHANISMS.values():
        for each in suspicions(mechanism):
            moved = [b - a for a, b in zip(each.first, each.second, strict=True)]
            assert sorted(moved) == [-1, 1]
            assert min(*each.first, *each.second) >= 0


def test_refuses_what_it_has_no_inputs_for():
    with pytest.raises(InvalidArgument, match="unit-mean"):
        audit_mechanism(UnitMean(0.5, 1.0, 2))
    with pytest.raises(InvalidArgument, match="trials"):
        audit_mechanism(GNMax(1), trials=10)
