"""`audit_mechanism`: honest mechanisms are not contradicted, quiet noise is, through a ledger."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from quiet_noise import quieten

from tacit._registry import MECHANISMS as REGISTERED
from tacit._registry import mechanism_class
from tacit.audit import audit_mechanism
from tacit.audit import mechanisms as auditing
from tacit.errors import InvalidArgument
from tacit.mechanisms import (
    ConfidentGNMax,
    DistributedGaussianMean,
    GaussianMean,
    GNMax,
    InteractiveGNMax,
    LNMax,
    NoisyScreening,
    NoisySecondMoment,
    NoisySteps,
    NoisySum,
    NoisyVotes,
    SampledLabels,
    SampledMax,
    SampledMean,
    SampledMedian,
    SampledVotes,
    Sanitise,
    ScoreHistogram,
    ScreeningCheck,
    SharedCodes,
    SharedVotes,
    ThresholdCheck,
    UnitMean,
)
from tacit.mechanisms.audit_cases import AUDIT_DELTAS, AUDIT_ORDERS, UNIT, World, suspicions
from tacit.mechanisms.released_once import MadeUp, repeated
from tacit.noise import InsecureNoise, SecureNoise

VOTES = {
    "gnmax": GNMax(40),
    "gnmax, loud": GNMax(1),
    "lnmax": LNMax(0.05),
    "noisy-votes": NoisyVotes(40),
    "threshold-check": ThresholdCheck(20, 10),
    "confident-gnmax": ConfidentGNMax(200, 150, 40),
    "confident-gnmax, small": ConfidentGNMax(5, 1, 3),
    "interactive-gnmax": InteractiveGNMax(50, 40, 30, 0.9),
}
OTHERS = {
    "sanitise": Sanitise(14, 0.0143, 6, 0.1, 1e-6, 1e-6, covers="an audit"),
    "sampled-max": SampledMax(3, k=1, sampling_rate=0.5),
    "sampled-max, everybody": SampledMax(3, k=5, votes_per_unit=2),
    "sampled-votes": SampledVotes(5, k=10, sampling_rate=0.5),
    "sampled-votes, everybody": SampledVotes(20, k=30),
    "screening-check": ScreeningCheck(0.5, 1, k=3, sampling_rate=0.5),
    "screening-check, in company": ScreeningCheck(20, 10, k=50, sampling_rate=0.5),
    "screening-check, everybody": ScreeningCheck(7, 10, k=10),
    "noisy-screening": NoisyScreening(0.5, 1, 3, k=3, sampling_rate=0.5),
    "noisy-screening, everybody": NoisyScreening(7, 10, 10, k=10),
    "sampled-labels": SampledLabels(2, k=3, sampling_rate=0.5, tau=2),
    "sampled-labels, l1": SampledLabels(2, k=3, tau=1.5, clip="l1"),
    "sampled-mean": SampledMean(0.1, k=50, sampling_rate=0.5, low=0, high=5),
    "unit-mean": UnitMean(0.5, 1.0, 2),
    "gaussian-mean": GaussianMean(1.0, 2.0, 5, joint=2),
    "distributed-gaussian-mean": DistributedGaussianMean(1.0, 1.0, 4, dropouts=1, colluders=1),
    "shared-votes": SharedVotes(40),
    "shared-codes": SharedCodes(1.0, 2.0, 5, joint=2),
    "noisy-sum": NoisySum(3, 2, 3),
    "noisy-second-moment": NoisySecondMoment(3, 2, radius=2.0),
    "score-histogram": ScoreHistogram(3, 2, 3),
    "noisy-steps": NoisySteps(1.8, 0.1),
    "noisy-steps, everybody": NoisySteps(5.0),
}
MEDIANS = {
    "sampled-median": SampledMedian(1.0, k=4, sampling_rate=0.8, grid=(0, 1, 3)),
    "sampled-median, everybody": SampledMedian(2.0, k=2, grid=(0, 1, 2)),
    "sampled-median, alone": SampledMedian(0.5, k=130, sampling_rate=0.9, grid=(0, 1, 2)),
}
MECHANISMS = VOTES | OTHERS | MEDIANS
NOISY = VOTES | OTHERS
TRIALS = 30_000


@pytest.fixture
def quiet(monkeypatch):
    quieten(monkeypatch)


def contradicted(mechanism):
    return any(each.contradicts for each in audit_mechanism(mechanism, trials=TRIALS))


def test_every_mechanism_is_here():
    assert {mechanism.name for mechanism in MECHANISMS.values()} == set(REGISTERED)
    assert all(mechanism_class(name).name == name for name in REGISTERED)


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_honest_mechanisms_are_not_contradicted(mechanism):
    findings = audit_mechanism(mechanism, trials=TRIALS)
    assert {finding.trials for finding in findings} == {TRIALS}
    assert {finding.delta or finding.order for finding in findings} in (
        set(AUDIT_DELTAS), set(AUDIT_ORDERS),
    )  # fmt: skip
    assert not any(finding.contradicts for finding in findings)


@pytest.mark.parametrize("mechanism", NOISY.values(), ids=NOISY)
def test_noise_ten_times_too_small_is_found(mechanism, quiet):
    assert contradicted(mechanism)


@pytest.mark.parametrize("mechanism", MEDIANS.values(), ids=MEDIANS)
def test_a_median_that_listens_too_closely_is_found(mechanism, monkeypatch):
    """It has no noise of its own: its weights are those of a tenfold epsilon."""
    louder = dataclasses.replace(mechanism, epsilon_per_query=10 * mechanism.epsilon_per_query)
    weights = louder.weights()
    monkeypatch.setattr(SampledMedian, "weights", lambda self: weights)
    assert contradicted(mechanism)


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
    assert contradicted(mechanism)


@pytest.mark.parametrize("name", ["sampled-max", "sampled-votes", "noisy-steps", "sampled-median"])
def test_a_sample_of_everybody_is_found(name, monkeypatch):
    """Nothing is sampled, and the price is that of a sample."""
    mechanism = MECHANISMS[name]
    if name == "sampled-median":
        mechanism = dataclasses.replace(mechanism, epsilon_per_query=4.0, sampling_rate=0.2)
    honest = SecureNoise.poisson_mask
    monkeypatch.setattr(
        SecureNoise, "poisson_mask", lambda self, rate, size: honest(self, 1.0, size)
    )
    assert contradicted(mechanism)


@pytest.mark.parametrize(
    "mechanism",
    [GNMax(1), NoisySum(1.0, 2, 2), GaussianMean(1.0, 1.0, 2), NoisySecondMoment(1.0, 2)],
    ids=lambda mechanism: mechanism.name,
)
def test_the_bound_is_near_the_claim_where_the_trials_allow_it(mechanism):
    first = audit_mechanism(mechanism, trials=200_000)[0]
    assert 0.85 * first.claim < first.proved <= first.claim


@pytest.mark.parametrize("mechanism", VOTES.values(), ids=VOTES)
def test_rows_are_neighbours(mechanism):
    for each in suspicions(mechanism):
        moved = [b - a for a, b in zip(each.first, each.second, strict=True)]
        assert sorted(moved) == [-1, 1]
        assert min(*each.first, *each.second) >= 0


def test_worlds_are_neighbours():
    for mechanism in MECHANISMS.values():
        for each in suspicions(mechanism):
            if isinstance(each.first, World):
                assert each.first.unit
                assert dataclasses.replace(each.first, unit=False) == each.second


def test_a_world_draws_the_nearest_of_a_sample():
    """Rate 1/2, two votes a unit, one other, a crowd: of four outcomes each comes as often."""
    world = World(np.array([0, 0, 1]), votes_per_unit=2, others=(1,), crowd=2)
    drawn = world.around(4000).draw(3, 0.5, InsecureNoise(1))
    kinds, counts = np.unique(drawn, axis=0, return_counts=True)
    outcomes = {(UNIT, UNIT, 1), (UNIT, UNIT, 2), (1, 2, 2), (2, 2, 2)}
    assert {tuple(row) for row in kinds.tolist()} == outcomes
    assert counts == pytest.approx(1000, abs=150)


def test_fewer_trials_where_a_release_takes_many_numbers(monkeypatch):
    monkeypatch.setattr(auditing, "_QUICK", 60_000)
    assert {each.trials for each in audit_mechanism(NoisySum(3, 2, 3))} == {5_000}
    with pytest.raises(InvalidArgument, match="a small one"):
        audit_mechanism(NoisySum(3, 20, 30))
    with pytest.raises(InvalidArgument, match="trials=1000000000 to be at most"):
        audit_mechanism(NoisySum(3, 2, 3), trials=10**9)


def test_copies_are_of_made_up_answers_only():
    many = repeated(NoisySum(3, 2, 3))
    with pytest.raises(InvalidArgument, match="made-up"):
        many.accept(np.eye(2), queries=1, n_teachers=None, n_classes=None)
    with pytest.raises(InvalidArgument, match="7 copies"):
        many.accept(MadeUp(None, 6), queries=7, n_teachers=None, n_classes=None)
    with pytest.raises(InvalidArgument, match="gnmax"):
        repeated(GNMax(1))


class Foreign:
    """A mechanism that tacit knows nothing about."""

    name = "foreign"


@pytest.mark.parametrize(
    ("mechanism", "complaint"),
    [
        (Foreign(), "foreign: no inputs are known"),
        (ThresholdCheck(1e30, 1.0), "threshold=1e\\+30"),
        (LNMax(1e-50), "votes"),
        (NoisySum(1.0, 2**17, 100), "rows x columns"),
        (Sanitise(8, 0.1, 1, 1, 0.2, 0.2, covers="an audit"), "delta_value"),
    ],
    ids=lambda case: getattr(case, "name", ""),
)
def test_refuses_what_it_has_no_inputs_for(mechanism, complaint):
    with pytest.raises(InvalidArgument, match=complaint):
        audit_mechanism(mechanism)


def test_refuses_too_few_trials():
    with pytest.raises(InvalidArgument, match="trials"):
        audit_mechanism(GNMax(1), trials=10)
