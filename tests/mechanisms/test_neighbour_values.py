"""Clipped label counts, clipped means and medians: bounds in exact arithmetic, values by hand."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from knn_reference import Reference, Silent
from scipy.stats import chi2

from tacit.errors import InvalidArgument
from tacit.mechanisms import Plan, SampledLabels, SampledMean, SampledMedian
from tacit.mechanisms.neighbour_values import imbalance, uniform_below
from tacit.noise import InsecureNoise

STEPS = 2**20
TAUS = [0.3, 1.0, 1.7, 2.0, 5.0, 100.0]


class TestLabels:
    @pytest.mark.parametrize("tau", TAUS)
    @pytest.mark.parametrize("clip", ["l1", "l2"])
    def test_weights_are_the_largest_within_the_bound(self, clip, tau):
        weights = SampledLabels(1.0, k=3, tau=tau, clip=clip).weights(30)
        power = 1 if clip == "l1" else 2
        for s in range(1, 31):
            w = int(weights[s])
            assert 0 < w <= STEPS
            assert s * Fraction(w, STEPS) ** power <= Fraction(tau)
            if w < STEPS:
                assert s * Fraction(w + 1, STEPS) ** power > Fraction(tau)

    @pytest.mark.parametrize("tau", TAUS)
    @pytest.mark.parametrize("clip", ["l1", "l2"])
    def test_no_displacement_is_longer_than_priced(self, clip, tau):
        """All pairs of 0/1 vectors: |x|^2 <= tau and |x - y|^2 <= 2 tau, exactly."""
        weights = SampledLabels(1.0, k=3, tau=tau, clip=clip).weights(5)
        vectors = [
            np.array(bits) * int(weights[sum(bits)]) for bits in itertools.product((0, 1), repeat=5)
        ]
        limit = Fraction(tau) * STEPS**2
        for x, y in itertools.product(vectors, repeat=2):
            assert int((x * x).sum()) <= limit
            assert int(((x - y) ** 2).sum()) <= 2 * limit

    def test_the_l2_clip_keeps_more(self):
        one, two = (
            SampledLabels(1.0, k=3, tau=2.0, clip=clip).weights(12) for clip in ("l1", "l2")
        )
        assert (two >= one).all()
        assert two[8] / STEPS == pytest.approx(math.sqrt(2 / 8), abs=1e-6)
        assert one[8] / STEPS == pytest.approx(2 / 8, abs=1e-6)
        assert one[2] == two[2] == STEPS

    def test_sums_by_hand(self):
        targets = [[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0]]
        for clip, big in (("l1", 0.25), ("l2", 0.5)):
            mechanism = SampledLabels(1.0, k=3, tau=1.0, clip=clip)
            values = mechanism.release(Reference(targets, 2), Silent(0)).values
            assert values.tolist() == [[1 + big, big, big, big]] * 2

    def test_values_lie_on_the_grid(self):
        mechanism = SampledLabels(0.7, k=3, tau=1.3)
        values = mechanism.release(Reference([[1, 1, 1]], 40), InsecureNoise(0)).values
        assert (values * STEPS == np.round(values * STEPS)).all()
        assert np.unique(values).size == values.size

    @pytest.mark.parametrize("bad", [[[1, -1]], [[2, 0]], [[0.5, 0.5]], [1, 0], [["1", "0"]]])
    def test_anything_but_0_and_1_is_refused(self, bad):
        with pytest.raises(InvalidArgument, match="0 or 1"):
            Plan(SampledLabels(1.0, k=3), 1).accept(Reference(bad, 1))

    def test_the_number_of_labels_is_the_plans(self):
        with pytest.raises(InvalidArgument, match="3 labels"):
            Plan(SampledLabels(1.0, k=3), 1, n_classes=3).accept(Reference([[1, 0]], 1))


class TestMean:
    @settings(max_examples=60)
    @given(
        numbers=st.lists(st.floats(-1e6, 1e6), max_size=6),
        low=st.floats(-100, 100),
        width=st.floats(0.01, 1000),
        k=st.integers(1, 5),
    )
    def test_by_hand(self, numbers, low, width, k):
        high = low + width
        mechanism = SampledMean(width, k=k, low=low, high=high)
        value = mechanism.release(Reference(np.array(numbers, dtype=float), 1), Silent(0)).values[0]
        middle = (low + high) / 2
        clipped = np.clip(numbers[:k], low, high)
        expected = middle + (clipped - middle).sum() / k
        assert value == pytest.approx(expected, abs=2e-6 * width)

    @settings(max_examples=100)
    @given(numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
    def test_no_record_adds_more_than_its_share(self, numbers):
        """However far out: half the range, in whole steps, and no warning."""
        for number in numbers:
            mechanism = SampledMean(1.0, k=1, low=-0.3, high=0.9)
            value = mechanism.release(Reference([number], 1), Silent(0)).values[0]
            assert -0.3 - 1e-12 <= value <= 0.9 + 1e-12

    def test_missing_neighbours_count_as_the_middle(self):
        mechanism = SampledMean(1.0, k=10, low=0.0, high=8.0)
        assert mechanism.release(Reference([8.0], 1), Silent(0)).values[0] == 4 + 4 / 10
        assert mechanism.release(Reference(np.zeros(0), 1), Silent(0)).values[0] == 4

    def test_noise_has_the_stated_size(self):
        mechanism = SampledMean(0.37, k=20, low=-5.0, high=3.0)
        values = mechanism.release(Reference([1.0], 20_000), InsecureNoise(1)).values
        assert values.std() == pytest.approx(0.37, rel=0.03)
        steps = (values - values[0]) / (4.0 / 20) * STEPS
        assert np.abs(steps - np.round(steps)).max() < 1e-3

    @pytest.mark.parametrize("bad", [[math.nan], [math.inf], [[1.0]], ["1"], [True]])
    def test_anything_but_numbers_is_refused(self, bad):
        with pytest.raises(InvalidArgument, match="finite number"):
            Plan(SampledMean(1.0, k=3), 1).accept(Reference(bad, 1))


class TestMedian:
    @pytest.mark.parametrize("c", [1, 2, 5])
    @pytest.mark.parametrize("epsilon", [2.0**-12, 0.01, 0.5, 3.0, 100.0])
    def test_no_displacement_changes_a_weight_by_more_than_half(self, epsilon, c):
        """w_m <= e^(e0/2) w_m' for |m - m'| <= 2c, with whole numbers and 50 digits."""
        weights = SampledMedian(epsilon, k=60, votes_per_unit=c).weights().tolist()
        assert all(first >= second >= 2**22 for first, second in itertools.pairwise(weights))
        with mp.workdps(50):
            most = mp.exp(mp.mpf(epsilon) / 2)
            for m, weight in enumerate(weights):
                farthest = weights[min(m + 2 * c, 60)]
                assert mp.mpf(weight) <= most * farthest

    def test_weights_are_those_of_the_exponential_mechanism(self):
        """exp(e0 u/2) with u = -m/2."""
        weights = SampledMedian(0.8, k=30).weights()
        assert weights / weights[0] == pytest.approx(np.exp(-0.8 * np.arange(31) / 4), rel=1e-5)

    def test_sums_of_weights_never_overflow(self):
        weights = SampledMedian(0.8, k=30, grid=(0, 1, 4096)).weights()
        assert 4096 * int(weights[0]) <= 2**61

    @settings(max_examples=60)
    @given(
        numbers=st.lists(st.integers(-2, 12).map(lambda n: n / 2), max_size=7),
        k=st.integers(1, 5),
        count=st.integers(2, 9),
    )
    def test_imbalance_by_hand(self, numbers, k, count):
        points = np.linspace(0, 5, count)
        array = np.array(numbers, dtype=float)
        positions = Reference(array, 2).draw(k, 1.0, InsecureNoise(0))
        found = imbalance(array, positions, points)
        by_hand = [
            abs(sum(y < x for y in numbers[:k]) - sum(y > x for y in numbers[:k])) for x in points
        ]
        assert found.tolist() == [by_hand, by_hand]

    def test_uniform_numbers_are_uniform(self):
        limits = np.array([1, 3, 10, 2**61 - 1, 2**61 // 3 * 2])
        drawn = np.array([uniform_below(limits, InsecureNoise(seed)) for seed in range(3000)])
        assert (drawn >= 0).all()
        assert (drawn < limits).all()
        for place, cells in ((1, 3), (2, 10), (3, 8), (4, 8)):
            which = (drawn[:, place].astype(object) * cells) // int(limits[place])
            counts = np.bincount(which.astype(int), minlength=cells)
            statistic = ((counts - 3000 / cells) ** 2).sum() / (3000 / cells)
            assert statistic < chi2.isf(1e-6, cells - 1)

    def test_uniform_numbers_reject_what_would_be_biased(self):
        """62 bits above the largest multiple of the limit are drawn again."""

        class Scripted(InsecureNoise):
            numbers = iter([2**62 - 1, 7])

            def bernoulli(self, probability, size):
                assert (probability, size) == (0.5, (1, 62))
                number = next(self.numbers)
                return np.array([[number >> bit & 1 for bit in range(62)]], dtype=bool)

        assert uniform_below(np.array([5]), Scripted(0)).tolist() == [2]

    def test_points_are_drawn_with_their_probabilities(self):
        mechanism = SampledMedian(3.0, k=5, grid=(0.0, 4.0, 5))
        numbers = [0.0, 1.0, 1.5, 2.0, 9.0]
        values = mechanism.release(Reference(numbers, 40_000), InsecureNoise(3)).values
        balance = [abs(sum(y < x for y in numbers) - sum(y > x for y in numbers)) for x in range(5)]
        weights = np.exp(-3.0 * np.array(balance) / 4)
        expected = 40_000 * weights / weights.sum()
        counts = np.array([(values == x).sum() for x in range(5)])
        assert counts.sum() == 40_000
        assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 4)

    def test_few_neighbours_do_not_push_it_to_an_end(self):
        """A median of those who are there: three of a hundred."""
        mechanism = SampledMedian(60.0, k=100, grid=(0.0, 10.0, 11))
        values = mechanism.release(Reference([4.0, 5.0, 6.0], 50), InsecureNoise(0)).values
        assert (values == 5).mean() > 0.9

    def test_released_values_are_public_points(self):
        mechanism = SampledMedian(0.5, k=3, sampling_rate=0.3, grid=(-1.0, 2.0, 7))
        values = mechanism.release(Reference([0.123, 0.456], 300), InsecureNoise(0)).values
        assert set(values.tolist()) == set(np.linspace(-1, 2, 7).tolist())
