"""`NoisySteps`: its law, its audit, its mistakes, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from mutants import mutated, seeded_noise, weak_noise
from scipy import stats
from step_audits import STEP_AUDITS

from tacit.errors import GrantError, InvalidArgument, UnlicensedNoise
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import NoisySteps, Plan
from tacit.mechanisms import noisy_steps as module
from tacit.mechanisms.noisy_steps import Counting
from tacit.noise import InsecureNoise, SecureNoise

EVERY = pytest.mark.parametrize("name", STEP_AUDITS)


@EVERY
def test_audit_does_not_refute_the_claim_and_is_sharp(name):
    claim = STEP_AUDITS[name].claim()
    assert 0.8 * claim < STEP_AUDITS[name].finds() <= claim


@EVERY
def test_noise_too_small_by_sqrt_2_is_caught(name):
    assert STEP_AUDITS[name].finds(noise=weak_noise()) > STEP_AUDITS[name].claim()


class SharedNoise(NoisySteps):
    """Draws the noise of two steps once."""

    __slots__ = ()

    def release(self, answers: Any, noise: Any) -> Any:
        held: list[Any] = []

        class Repeating(type(noise)):  # type: ignore[misc]
            def rounded_gaussian_steps(self, sigma, grid, size):
                if not held:
                    held.append(super().rounded_gaussian_steps(sigma, grid, size))
                    return held[0].copy()
                return held.pop()

        return NoisySteps.release(self, answers, Repeating(5))


class SilentWhenEmpty(NoisySteps):
    """Adds no noise where nobody was sampled."""

    __slots__ = ()

    def _noisy_sums(self, training, noise):
        told = super()._noisy_sums(training, SilentWhenEmpty.Heard(noise, training))
        return told

    class Heard:
        """Noise that knows who was sampled in each of the runs."""

        def __init__(self, noise, training):
            self.noise, self.training = noise, training

        def poisson_mask(self, rate, size):
            return np.resize(self.mask, size)

        def rounded_gaussian_steps(self, sigma, grid, size):
            self.mask = self.noise.poisson_mask(0.5, size) & (self.training.n_units > 0)
            return self.noise.rounded_gaussian_steps(sigma, grid, size) * self.mask


class FixedBatches(NoisySteps):
    """Lets every unit take part in the first of two steps, and sells it as a sample."""

    __slots__ = ()

    def _sampled_sums(self, training, noise):
        first = len(training.told) % 2 == 0
        return training.sums(np.arange(training.n_units if first else 0))


def test_one_noise_for_two_steps_is_caught():
    audit = STEP_AUDITS["every second unit"]
    differ = (lambda pairs: pairs[:, 0] != pairs[:, 1],)
    assert audit.finds(mutated(audit.mechanism, SharedNoise), seeded_noise(), differ) > 5
    assert audit.claim() < 5


def test_no_noise_on_empty_samples_is_caught():
    audit = STEP_AUDITS["every second unit"]
    noisy = (lambda pairs: (pairs != 0).any(axis=1),)
    assert audit.finds(mutated(audit.mechanism, SilentWhenEmpty), seeded_noise(), noisy) > 5
    assert audit.finds(noise=seeded_noise(), events=noisy) < 0.1


def test_fixed_batches_are_caught():
    """A unit that is always in the first of two batches is not amplified."""
    audit = STEP_AUDITS["every second unit"]
    first = (lambda pairs: pairs[:, 0] >= 0.5 + audit.claim(),)
    mutant = mutated(audit.mechanism, FixedBatches)
    assert audit.finds(mutant, seeded_noise(), first) > audit.claim()
    assert audit.finds(noise=seeded_noise(), events=first) <= audit.claim()


def test_a_step_has_the_law_that_is_priced():
    """Two units at rate 0.3: a mixture of three Gaussians on the grid, by Kolmogorov's test."""
    mechanism = NoisySteps(0.5, 0.3)
    run = Counting(40_000, steps=1, dimension=20_000)
    told = np.asarray(mechanism.release(run, InsecureNoise(3)))
    weights = stats.binom(2, 0.3).pmf([0, 1, 2])

    def law(x):
        return sum(w * stats.norm(k, mechanism.deviation).cdf(x) for k, w in enumerate(weights))

    assert stats.kstest(told, law).pvalue > 1e-3
    grid = mechanism.grid(20_000)
    assert np.array_equal(np.rint(told / grid) * grid, told)


def test_rounding_of_sums_stays_within_the_room():
    """docs/theory/direct.md: (n (1026 + 2^14) + 64 R) u, twice; sqrt(d) grid for whole steps."""
    units, unit_roundoff = module.MOST_UNITS, 2.0**-53
    depth = module.AT_ONCE + 2 + units / module.AT_ONCE + 64  # as many records as units
    assert 2 * units * depth * unit_roundoff * 1.01 <= module.ROOM / 2
    for dimension in (1, 2, 3, 217_236, module.MOST_NUMBERS):
        grid = NoisySteps(1.0).grid(dimension)
        assert math.sqrt(dimension) * grid <= module.ROOM / 2
        assert math.frexp(grid)[0] == 0.5
    assert NoisySteps(2.0).deviation == 2.0 * (1 + module.ROOM)


def test_a_sample_is_summed_in_blocks():
    sizes = []

    class Sized(Counting):
        def sums(self, sample):
            sizes.append(sample.size)
            return super().sums(sample)

    NoisySteps(1.0, 1.0).release(Sized(2500, steps=1, dimension=4), InsecureNoise(0))
    assert sizes == [1024, 1024, 452]


def test_private_records_are_forgotten_whatever_happens():
    class Failing(Counting):
        def learn(self, noisy_sums):
            raise RuntimeError

    run = Counting(3, steps=2)
    NoisySteps(1.0, 0.5).release(run, InsecureNoise(0))
    assert run.forgotten
    broken = Failing(3, steps=2)
    with pytest.raises(RuntimeError):
        NoisySteps(1.0, 0.5).release(broken, InsecureNoise(0))
    assert broken.forgotten


class Odd(Counting):
    """Returns sums that no bounded units can have made."""

    def __init__(self, said):
        super().__init__(3, steps=1, dimension=1)
        self.said = said

    def sums(self, sample):
        return self.said


@pytest.mark.parametrize(
    "said",
    [np.array([np.nan]), np.array([np.inf]), np.array([3.5]), np.zeros(2), np.zeros(1, np.float32)],
)
def test_impossible_sums_are_refused_without_being_quoted(said, tmp_path):
    ledger = Ledger(tmp_path / "l", budget=Budget(50, 1e-5), accountant="rdp")
    with (
        ledger.release(Plan(NoisySteps(1.0), 1), purpose="test") as grant,
        pytest.raises(GrantError, match="Expected") as caught,
    ):
        grant.release(Odd(said))
    assert "3.5" not in str(caught.value)
    assert len(ledger) == 1


def test_sums_that_are_long_though_no_number_is_large_are_refused():
    run = Odd(np.full(4, 3.0))  # of three units: each number may be 3, all four together may not
    run.dimension = 4
    with pytest.raises(InvalidArgument, match="norm at most 1"):
        NoisySteps(1.0, 1.0).release(run, InsecureNoise(0))


def test_a_sum_is_not_written_to():
    """It may be the engine's own memory: what is handed on is another array, with noise."""
    said = np.ones(1)
    run = Odd(said)
    NoisySteps(1.0, 1.0).release(run, InsecureNoise(0))
    assert said.tolist() == [1.0]
    assert not np.shares_memory(run.told[0], said)


def test_a_run_of_other_length_is_refused():
    plan = Plan(NoisySteps(1.0, 0.5), 3)
    plan.accept(Counting(1, steps=3))
    with pytest.raises(InvalidArgument, match="3 steps of the plan, got 4"):
        plan.accept(Counting(1, steps=4))
    with pytest.raises(InvalidArgument, match="PrivateSteps"):
        plan.accept(np.zeros(3))
    for run in (
        Counting(2**24 + 1),
        Counting(1, dimension=0),
        Counting(1, steps=0),
        Counting(True),
    ):
        with pytest.raises(InvalidArgument):
            plan.accept(run)


def test_a_plan_with_classes_is_refused():
    with pytest.raises(InvalidArgument, match="no classes"):
        Plan(NoisySteps(1.0), 2, n_classes=3).accept(Counting(3, steps=2))


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise_multiplier": 0.0},
        {"noise_multiplier": math.nan},
        {"noise_multiplier": 2000.0},
        {"noise_multiplier": 1e-12},
        {"sampling_rate": 0.0},
        {"sampling_rate": 1.5},
        {"sampling_rate": 1e-30},
    ],
)
def test_unusable_numbers_are_refused(wrong):
    with pytest.raises(InvalidArgument):
        NoisySteps(**{"noise_multiplier": 1.0, **wrong})


def test_secure_noise_needs_a_grant():
    with pytest.raises(UnlicensedNoise):
        NoisySteps(1.0).release(Counting(1, 1, 1), SecureNoise())


@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.1), (0.7, 0.5), (3.0, 1.0)])
def test_one_step_costs_what_the_second_moment_says(sigma, rate):
    """At order 2: E[(1 - q + q e^((2x - 1)/2s^2))^2] = 1 + q^2 (e^(1/s^2) - 1), exactly."""
    second = math.log1p(rate**2 * math.expm1(sigma**-2))
    found = NoisySteps(sigma, rate).cost([2.0]).values[0]
    assert found == pytest.approx(min(second, sigma**-2), rel=1e-9)


def test_only_a_full_sample_is_gaussian():
    assert NoisySteps(2.0).gaussian_cost() == 0.25
    assert NoisySteps(2.0, 0.5).gaussian_cost() is None
    curve = NoisySteps(2.0, 0.5).secret_cost(Counting(1, steps=3), [2.0, 8.0])
    assert curve.values.shape == (3, 2)
