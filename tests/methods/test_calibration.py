"""From a budget to noise: by few orders, and still the noise that all orders would find."""

from __future__ import annotations

import pytest

from tacit import Budget
from tacit.errors import InvalidArgument
from tacit.mechanisms import (
    GNMax,
    NoisyScreening,
    NoisySteps,
    Plan,
    SampledMedian,
    SampledVotes,
    price_of_list,
)
from tacit.methods import calibrate
from tacit.privacy import DEFAULT_ORDERS


def screening(noise, k=20, rate=0.2):
    sample = {"k": k, "sampling_rate": rate}
    mechanism = NoisyScreening(threshold=12, sigma_screen=3 * noise, sigma=noise, **sample)
    return Plan(mechanism, 40, n_classes=3)


def median(noise):
    return Plan(SampledMedian(1 / noise, k=20, sampling_rate=0.3, grid=(0.0, 1.0, 8)), 10)


def votes(noise):
    return Plan(SampledVotes(sigma=noise, k=20, sampling_rate=0.1), 300, n_classes=3)


@pytest.mark.parametrize(
    "plans_with",
    [
        lambda noise: [Plan(GNMax(noise), 1), Plan(NoisySteps(noise, 0.02), 20)],
        lambda noise: [Plan(NoisySteps(2.0, 0.05), 50), Plan(NoisySteps(noise, 0.02), 20)],
    ],
    ids=["a price that the noise changes", "a price that is no Gaussian's"],
)
def test_a_list_of_noisy_steps_counts_what_is_beside_them(plans_with):
    budget = Budget(4.0, 1e-5)
    plans = calibrate(plans_with, budget, listed=True)
    assert 0.9 * budget.epsilon < price_of_list(plans, budget.delta).epsilon <= budget.epsilon


@pytest.mark.parametrize("plan_with", [screening, median, votes])
@pytest.mark.parametrize("budget", [Budget(0.3, 1e-6), Budget(20.0, 1e-3)])
def test_few_orders_find_the_noise_of_all_orders(plan_with, budget):
    found = []

    def noted(noise):
        found.append(noise)
        return [plan_with(noise)]

    (plan,) = calibrate(noted, budget, listed=True)
    assert plan.epsilon(budget.delta) <= budget.epsilon
    less = plan_with(found[-1] * (1 - 4e-5))
    assert price_of_list([less], budget.delta).epsilon > budget.epsilon


@pytest.mark.parametrize("plan_with", [screening, votes])
def test_fewer_orders_never_cost_less(plan_with):
    plans = [plan_with(30.0), Plan(GNMax(50.0), 3)]
    for part in (DEFAULT_ORDERS[::12], DEFAULT_ORDERS[40:60]):
        assert price_of_list(plans, 1e-5, part).epsilon >= price_of_list(plans, 1e-5).epsilon


def test_the_ends_of_the_noise_are_kept():
    budget = Budget(1.0, 1e-5)
    with pytest.raises(InvalidArgument, match="fewer queries"):
        calibrate(lambda noise: [screening(noise)], budget, listed=True, most=2.0)
    (plan,) = calibrate(lambda noise: [screening(noise)], budget, listed=True, least=500.0)
    assert plan.mechanism.sigma == 500.0
