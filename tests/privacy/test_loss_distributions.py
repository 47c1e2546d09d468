"""Prices of training runs: published settings recomputed, quadrature, and what they depend on.

The expected figures are independent of this code: they were computed with other
tools from the formulas.
"""

from __future__ import annotations

import builtins
import functools
import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as losses
from dp_accounting.pld.pld_pmf import DensePLDPmf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from tacit.errors import InvalidArgument
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import GNMax, LNMax, NoisySteps, NoisySum, Plan, price_of_list
from tacit.privacy import (
    SampledSteps,
    calibrate_steps,
    gaussian_epsilon,
    loss_distributions,
    sampled_steps_epsilon,
    sampled_steps_pld,
    sampled_steps_rdp,
)

DELTA = 1e-5
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
# sigma, rate, steps, PLD, classic RDP (the moments accountant of 2016)
PUBLISHED = {
    "DP-MAC 8": (1.8, 0.1, 500, 6.42, 7.71),
    "DP-MAC 4": (3.1, 0.1, 500, 3.18, 3.94),
    "DP-MAC 2": (4.1, 0.05, 1000, 1.54, 1.99),
    "DP-MAC 1": (7.8, 0.05, 1000, 0.745, 1.007),
    "DP-SGD 8": (2.4, 0.1, 1000, 6.49, 7.74),
    "DP-SGD 4": (4.3, 0.1, 1000, 3.16, 3.91),
    "DP-SGD 2": (5.7, 0.05, 2000, 1.55, 1.99),
    "DP-SGD 1": (11.0, 0.05, 2000, 0.743, 1.003),
    "table 2, 8": (1.3, 0.02, 5000, 5.93, 7.11),
    "table 2, 4": (2.0, 0.02, 5000, 3.21, 3.97),
    "table 2, 2": (3.7, 0.02, 5000, 1.52, 1.96),
    "table 2, 1": (7.0, 0.02, 5000, 0.740, 1.00),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_settings_cost_what_was_computed_apart(name):
    sigma, rate, steps, tight, classic = PUBLISHED[name]
    run = [SampledSteps(sigma, rate, steps)]
    assert sampled_steps_epsilon(run, DELTA).epsilon == pytest.approx(tight, rel=0.01)
    assert sampled_steps_rdp(run).epsilon(DELTA, "classic") == pytest.approx(classic, rel=0.01)


def test_half_the_noise_and_no_amplification_cost_what_errata_19_and_20_say():
    halved = [SampledSteps(s / 2, q, n) for s, q, n, *_ in list(PUBLISHED.values())[4:8]]
    found = [sampled_steps_epsilon([run], DELTA).epsilon for run in halved]
    assert found == pytest.approx([18.1, 7.5, 3.5, 1.6], rel=0.02)
    whole = [gaussian_epsilon(DELTA, math.sqrt(50) / s) for s in (1.8, 3.1, 4.1, 7.8)]
    assert whole == pytest.approx([23.8, 11.8, 8.3, 3.9], rel=0.02)


def test_classifier_with_private_pca_is_composed_jointly():
    """PCA of noise 4/8/16 beside runs on 60,000 records, joint PLD 4.47, 1.10, .310."""
    rows = ((1.0, 1000, 30, 4.0, 4.47), (2.8, 1000, 30, 8.0, 1.10), (4.4, 500, 10, 16.0, 0.310))
    for sigma, batch, epochs, pca, expected in rows:
        run = SampledSteps(sigma, batch / 60_000, epochs * 60_000 // batch)
        price = sampled_steps_epsilon([run], DELTA, mu_squared=pca**-2)
        assert price.epsilon == pytest.approx(expected, rel=0.01)
        assert price.accountant == "pld"


# What the budgets of the published runs need today.
NEEDED = [
    (8, 0.1, 500, 1.546),
    (4, 0.1, 500, 2.573),
    (2, 0.05, 1000, 3.279),
    (1, 0.05, 1000, 5.997),
]


@pytest.mark.parametrize(("epsilon", "rate", "steps", "sigma"), NEEDED)
def test_budgets_need_the_noise_that_was_computed_apart(epsilon, rate, steps, sigma):
    assert Plan(NoisySteps(sigma * 1.003, rate), steps).epsilon(DELTA) <= epsilon
    assert Plan(NoisySteps(sigma * 0.997, rate), steps).epsilon(DELTA) > epsilon


def test_calibration_finds_the_least_noise():
    epsilon, rate, steps, sigma = NEEDED[-1]
    found = calibrate_steps(float(epsilon), DELTA, steps=steps, rate=rate)
    assert found == pytest.approx(sigma, rel=0.002)
    assert Plan(NoisySteps(found, rate), steps).epsilon(DELTA) <= epsilon
    assert Plan(NoisySteps(found * 0.999, rate), steps).epsilon(DELTA) > epsilon


def test_a_histogram_beside_the_run_is_composed_jointly():
    """7.8 alone .745, with a histogram of 6 layers and noise 20 .880, basic addition 1.26."""
    run, histogram = Plan(NoisySteps(7.8, 0.05), 1000), Plan(NoisySum(20 / 6**0.5, 6, 1), 1)
    price = price_of_list([histogram, run], DELTA)
    assert price == price_of_list([run, histogram], DELTA)
    assert price.epsilon == pytest.approx(0.880, rel=0.005)
    assert price.accountant == "pld"
    sigma = calibrate_steps(0.9, DELTA, steps=20, rate=0.05, mu_squared=6 / 400)
    both = price_of_list([histogram, Plan(NoisySteps(sigma, 0.05), 20)], DELTA)
    assert 0.895 < both.epsilon <= 0.9


def exact_delta(epsilon, sigma, rate):
    """Hockey-stick divergence of one step, the worse direction, by the trapezoid rule."""
    x = np.linspace(-12 * sigma, 1 + 12 * sigma, 200_001)
    without = stats.norm.pdf(x, 0, sigma)
    mixed = (1 - rate) * without + rate * stats.norm.pdf(x, 1, sigma)
    gains = (mixed - math.exp(epsilon) * without, without - math.exp(epsilon) * mixed)
    return max(np.maximum(gain, 0.0).sum() for gain in gains) * (x[1] - x[0])


@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.1), (0.7, 0.5), (3.0, 0.3)])
def test_one_step_agrees_with_quadrature(sigma, rate):
    delta = 1e-3
    expected = optimize.brentq(lambda e: exact_delta(e, sigma, rate) - delta, 1e-4, 20)
    found = sampled_steps_epsilon([SampledSteps(sigma, rate, 1)], delta).epsilon
    assert expected * (1 - 1e-4) <= found <= expected * 1.01 + 1e-3


def test_many_gaussian_steps_agree_with_the_exact_curve():
    loss = sampled_steps_pld([SampledSteps(5.0, 1.0, 40)], DELTA, mu_squared=0.4)
    exact = gaussian_epsilon(DELTA, math.sqrt(40 / 25 + 0.4))
    assert exact <= loss.get_epsilon_for_delta(DELTA) <= exact * 1.001


def test_the_price_falls_with_noise_and_rises_with_steps_and_rate():
    def price(sigma, rate, steps):
        return Plan(NoisySteps(sigma, rate), steps).epsilon(DELTA)

    assert price(2.0, 0.1, 100) < price(1.8, 0.1, 100) < price(1.8, 0.1, 120)
    assert price(1.8, 0.1, 120) < price(1.8, 0.12, 120)


def test_a_price_depends_on_nothing_that_may_be_missing(monkeypatch):
    """Where dp-accounting is missing nothing is priced: another price would be a surprise."""
    real = builtins.__import__

    def missing(name, *rest, **kwargs):
        if name.startswith("dp_accounting"):
            raise ImportError
        return real(name, *rest, **kwargs)

    run = [SampledSteps(1.8, 0.1, 500)]
    monkeypatch.setattr(builtins, "__import__", missing)
    loss_distributions._composed.cache_clear()
    with pytest.raises(ImportError):
        sampled_steps_epsilon(run, DELTA)


def test_dp_accounting_is_a_dependency_and_no_extra():
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    assert any(line.startswith("dp-accounting") for line in project["dependencies"])
    extras = project["optional-dependencies"].values()
    assert not any(line.startswith("dp-accounting") for lines in extras for line in lines)


def test_a_tiny_delta_or_a_huge_epsilon_is_left_to_rdp():
    assert sampled_steps_pld([SampledSteps(1.8, 0.1, 500)], 1e-12) is None
    assert sampled_steps_pld([SampledSteps(0.02, 0.5, 500)], DELTA) is None


EXAMINED = [(0.6, 1e-3, 10_000), (4.0, 0.02, 100_000), (1.0, 1e-3, 10**6), (1.0, 1e-4, 10**6)]


@pytest.mark.parametrize("run", EXAMINED)
def test_rounding_of_transforms_is_far_below_its_allowance(run):
    """A probability below 0, or a total below 1, is rounding; all else is on the safe side."""
    loss = sampled_steps_pld([SampledSteps(*run)], DELTA)._loss
    for side in (loss._pmf_remove, loss._pmf_add):
        dense = side.to_dense_pmf()
        below = -dense._probs[dense._probs < 0].sum()
        short = 1 - dense._probs.sum() - dense._infinity_mass
        assert below <= 2.5e-10
        assert max(below, short) <= loss_distributions._FFT_DELTA / 4


@pytest.mark.parametrize("rate", [1.0, 0.3, 1e-3])
@pytest.mark.parametrize("count", [1, 9, 10, 200])
def test_arrays_are_what_the_library_itself_composes(rate, count):
    """The same bits: only how it finds out whether arrays are needed is left out."""
    loss = losses.from_gaussian_mechanism(
        2.0, sampling_prob=rate, value_discretization_interval=0.05
    )
    arrays = loss_distributions._as_arrays(loss, count)
    assert isinstance(arrays._pmf_remove, DensePLDPmf) == (count >= 10)
    ours, theirs = arrays.self_compose(count), loss.self_compose(count)
    for epsilon in (0.0, 0.1, 1.0, 5.0):
        assert ours.get_delta_for_epsilon(epsilon) == theirs.get_delta_for_epsilon(epsilon)


@settings(max_examples=25, deadline=None)
@given(
    sigma=st.floats(0.1, 30.0),
    rate=st.sampled_from([1.0, 0.3, 1e-2, 1e-6]),
    count=st.sampled_from([1, 30, 10**6]),
    delta=st.sampled_from([1e-2, 1e-5, 1e-12]),
    mu_squared=st.sampled_from([0.0, 1e-3, 4.0]),
)
def test_the_orders_that_are_left_out_prove_no_less(sigma, rate, count, delta, mu_squared):
    run = (SampledSteps(sigma, rate, count),)
    every = sampled_steps_rdp(run, mu_squared).epsilon(delta)
    found = loss_distributions._least_by_rdp(run, mu_squared, delta)
    assert found == pytest.approx(every, rel=1e-11, abs=1e-13)


def test_without_a_loss_distribution_calibration_is_certified_by_the_whole_curve():
    sigma = calibrate_steps(1.0, 1e-12, steps=300, rate=0.01)
    price = [
        sampled_steps_epsilon([SampledSteps(each, 0.01, 300)], 1e-12)
        for each in (sigma, sigma / 1.0004)
    ]
    assert price[0].accountant == "rdp"
    assert price[0].epsilon <= 1.0 < price[1].epsilon


@pytest.mark.parametrize("leap", [0.03, 1.0])
def test_where_the_price_leaps_few_are_asked_for(leap):
    """Beyond some noise the loss distribution proves 0, and below it nothing."""
    asked = []

    def exact(sigma):
        asked.append(sigma)
        return 0.0 if sigma >= leap else 400.0

    found = loss_distributions._least_fitting(
        0.1, lambda sigma: 1 / sigma**2, functools.cache(exact), exact
    )
    assert leap <= found <= leap * 1.0002
    assert len(asked) <= 30


def test_a_library_that_keeps_its_arrays_elsewhere_is_left_alone():
    other = object()
    assert loss_distributions._as_arrays(other, 10**6) is other


def test_longer_runs_than_were_examined_are_left_to_rdp():
    longest = loss_distributions._MOST_STEPS
    assert max(steps for *_, steps in EXAMINED) == longest
    half = SampledSteps(8.0, 1e-4, longest // 2)
    assert sampled_steps_pld([half, half], DELTA) is not None
    more = [half, half, SampledSteps(8.0, 1e-4, 1)]
    assert sampled_steps_pld(more, DELTA) is None
    assert sampled_steps_epsilon(more, DELTA).accountant == "rdp"


def test_other_mechanisms_are_not_taken_for_gaussian():
    plans = [Plan(NoisySteps(4.1, 0.05), 100), Plan(LNMax(0.01), 1)]
    assert price_of_list(plans, DELTA).accountant == "rdp"
    full = [Plan(NoisySteps(4.0), 10), Plan(GNMax(20.0), 10)]
    assert price_of_list(full, DELTA).accountant == "gaussian"


def test_a_ledger_for_a_list_uses_the_tightest_price(tmp_path):
    run = Plan(NoisySteps(1.8, 0.1), 500)
    ledger = Ledger(tmp_path / "l", budget=Budget(6.5, DELTA), plans=[run])
    with ledger.release(run, purpose="train"):
        pass
    assert ledger.spent() == pytest.approx(6.42, rel=0.01)
    assert "pld" in ledger.statement().accountant
    assert Ledger(tmp_path / "l").spent() == ledger.spent()


def test_a_histogram_that_leaves_nothing_is_refused():
    with pytest.raises(InvalidArgument, match="leave something"):
        calibrate_steps(1.0, DELTA, steps=10, rate=0.1, mu_squared=1.0)


def test_rdp_never_exceeds_that_of_the_full_sample():
    values = sampled_steps_rdp([SampledSteps(0.5, 0.9, 3)]).values
    full = sampled_steps_rdp([SampledSteps(0.5, 1.0, 3)]).values
    assert (values <= full * (1 + 1e-12)).all()
    assert np.isfinite(values).all()
