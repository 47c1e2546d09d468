"""What a mean of codes costs: golden noise, bounds and not queries, and what is refused."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from priced import for_budget

from tacit.errors import InvalidArgument
from tacit.mechanisms import GaussianMean, Plan
from tacit.privacy import gaussian_epsilon

# (epsilon, delta), teachers, queries, radius: sigma as computed apart from this code.
GOLDEN = [
    ((8, 1e-3), 8, 80, 1.0, 1.0733),
    ((8, 1e-3), 8, 80, math.sqrt(1024) / 2, 17.17),
    ((8, 1e-3), 8, 50, 1.0, 0.849),
    ((8, 1e-3), 250, 130, 1.0, 0.044),
    ((8, 1e-5), 8, 10, 1.0, 0.475),
    ((8, 1e-5), 50, 50, 1.0, 0.170),
    ((8, 1e-5), 250, 130, 1.0, 0.055),
    ((1, 1e-5), 50, 130, 1.0, 1.701),
    ((1, 1e-5), 1000, 10, 1.0, 0.024),
]


class TestPrice:
    @pytest.mark.parametrize(("budget", "teachers", "queries", "radius", "sigma"), GOLDEN)
    def test_golden_sigmas(self, budget, teachers, queries, radius, sigma):
        plan = for_budget(
            GaussianMean, *budget, queries=queries, radius=radius, n_teachers=teachers
        )
        digits = len(str(sigma).split(".")[1])
        assert round(plan.mechanism.sigma, digits) == sigma
        assert plan.queries == queries
        assert plan.epsilon(budget[1]) == pytest.approx(budget[0], rel=1e-6)
        assert plan.epsilon(budget[1]) <= budget[0]

    def test_box_formula_of_the_2020_paper_is_not_used(self):
        """sqrt(2 K eps) for sqrt(2) K eps has too little noise where K eps < 1."""
        epsilon, delta, teachers, queries, dimension = 0.1, 1e-5, 2, 10, 64
        plan = for_budget(
            GaussianMean,
            epsilon,
            delta,
            queries=queries,
            radius=math.sqrt(dimension) / 2,
            n_teachers=teachers,
        )
        b = math.log(1 / delta)
        roots = math.sqrt(queries * dimension) * (math.sqrt(b + epsilon) + math.sqrt(b))
        box = roots / math.sqrt(2 * teachers * epsilon)
        assert box < 0.75 * plan.mechanism.sigma
        right = roots / (math.sqrt(2) * teachers * epsilon)
        assert plan.mechanism.sigma < right < 2 * plan.mechanism.sigma

    def test_blocks_counted_as_one_query_would_cost_71(self):
        """1,000 blocks with a bound each, sold as one query at epsilon 1."""
        sold = for_budget(GaussianMean, 1, 1e-5, queries=10, radius=1.0, n_teachers=50)
        really = Plan(sold.mechanism, 10 * 1000)
        assert really.epsilon(1e-5) == pytest.approx(71, abs=0.5)
        slices = Plan(sold.mechanism, 10 * 155)
        assert slices.epsilon(1e-5) == pytest.approx(19, abs=0.5)

    def test_cost_adds_over_bounds_and_not_over_queries(self):
        each, together = GaussianMean(0.5, 1.0, 10), GaussianMean(0.5, 1.0, 10, joint=20)
        mu_squared = (2 / (10 * 0.5)) ** 2
        assert Plan(each, 20).mu_squared() == pytest.approx(20 * mu_squared)
        assert Plan(together, 1).mu_squared() == pytest.approx(mu_squared)
        curve = Plan(each, 20).cost([4.0])
        assert curve.values[0] == pytest.approx(4 * 20 * mu_squared / 2)
        assert Plan(each, 20).epsilon(1e-5) == pytest.approx(
            gaussian_epsilon(1e-5, math.sqrt(20 * mu_squared)), rel=1e-9
        )

    def test_secret_cost_is_the_worst_case_of_each_bound(self):
        curve = GaussianMean(0.5, 1.0, 2, joint=3).secret_cost(np.zeros((2, 6, 4)), [2.0, 3.0])
        assert curve.values.shape == (2, 2)
        assert np.array_equal(curve.values[0], GaussianMean(0.5, 1.0, 2).cost([2.0, 3.0]).values)

    def test_rounds_share_the_budget(self):
        numbers = {"queries": 20, "radius": 1.0, "n_teachers": 50}
        rounds = [for_budget(GaussianMean, 8, 1e-5, share=s, **numbers) for s in (0.3, 0.7)]
        whole = for_budget(GaussianMean, 8, 1e-5, **numbers)
        assert sum(plan.mu_squared() for plan in rounds) <= whole.mu_squared() * (1 + 1e-15)
        assert sum(plan.mu_squared() for plan in rounds) == pytest.approx(whole.mu_squared())

    @pytest.mark.parametrize("noise", [0.0, -1.0, np.nan])
    def test_noise_is_some(self, noise):
        with pytest.raises(InvalidArgument):
            GaussianMean.with_noise(noise, queries=20, radius=1.0, n_teachers=50)

    @settings(max_examples=60, deadline=None)
    @given(st.floats(1e-5, 1e5), st.floats(1e-50, 1e50), st.integers(1, 10**6))
    def test_grid_suits_the_sampler_and_the_radius(self, multiplier, radius, teachers):
        mechanism = GaussianMean(multiplier * radius / teachers, radius, teachers)
        assert math.frexp(mechanism.grid)[0] == 0.5
        assert 2**10 <= radius / mechanism.grid <= 2**30
        assert 2**-20 <= mechanism.deviation / mechanism.grid <= 2**40
        assert teachers * radius / mechanism.grid < 2**62

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            *(("sigma", bad) for bad in (0.0, -1.0, np.nan, np.inf, 1e12, 1e-30)),
            *(("radius", bad) for bad in (0.0, -1.0, np.nan, 1e200, 1e-200)),
            *(("n_teachers", bad) for bad in (0, 2.5, 2**30)),
            *(("joint", bad) for bad in (0, -1, 1.5, True)),
        ],
    )
    def test_parameters_out_of_range_are_refused(self, field, value):
        with pytest.raises(InvalidArgument):
            dataclasses.replace(GaussianMean(1.0, 1.0, 5), **{field: value})

    def test_plan_and_mechanism_agree_on_the_teachers(self):
        with pytest.raises(InvalidArgument, match="n_teachers=7"):
            Plan(GaussianMean(1.0, 1.0, 5), 3, n_teachers=7).cost()
