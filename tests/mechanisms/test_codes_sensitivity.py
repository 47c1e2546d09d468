"""No unit moves the mean of codes by more than is paid for, whatever the public frame."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from priced import for_budget
from wild_codes import exact_square, released_difference, wild

from tacit.mechanisms import GaussianMean, UnitMean
from tacit.mechanisms.codes import public_frame
from tacit.noise import InsecureNoise


class TestSensitivity:
    @settings(max_examples=80, deadline=None)
    @given(wild(3, 4, 3), wild(4, 3), st.integers(0, 2), st.sampled_from([1, 2, 4]), st.data())
    def test_one_teacher_never_moves_the_mean_by_more(self, codes, other, who, joint, data):
        centres = data.draw(hnp.arrays(np.float64, (4, 3), elements=st.floats(-5, 5)))
        weights = data.draw(hnp.arrays(np.float64, 3, elements=st.floats(0.1, 10)))
        mechanism = GaussianMean(0.1, 1.5, 3, joint)
        neighbour = codes.copy()
        neighbour[who] = other
        frame = {"centres": centres, "weights": weights}
        moved = released_difference(mechanism, codes, neighbour, **frame) * weights
        reach = np.sqrt(np.square(moved.reshape(4 // joint, -1)).sum(axis=1))
        assert (reach <= mechanism.diameter / 3 + 1e-12).all()

    @settings(max_examples=40, deadline=None)
    @given(wild(3, 2, 3), wild(2, 3), st.integers(0, 2))
    def test_in_integers_without_any_tolerance(self, codes, other, who):
        mechanism = GaussianMean(0.1, 1.5, 3, joint=2)
        neighbour = codes.copy()
        neighbour[who] = other
        frame = public_frame(None, None, (2, 3))
        first, second = (
            mechanism._noisy_total(some, frame, InsecureNoise(5)) for some in (codes, neighbour)
        )
        limit = (Fraction(mechanism.diameter) / Fraction(mechanism.grid)) ** 2
        assert exact_square(first - second) <= limit

    def test_the_bound_is_attained(self):
        mechanism = GaussianMean(0.1, 1.5, 3)
        first, second = np.zeros((3, 1, 2)), np.zeros((3, 1, 2))
        first[1, 0, 0], second[1, 0, 0] = 9.0, -9.0
        moved = released_difference(mechanism, first, second)
        assert moved[0, 0] == pytest.approx(mechanism.diameter / 3, rel=1e-6)

    def test_joint_bound_holds_for_all_queries_together(self):
        mechanism = GaussianMean(0.1, 1.5, 3, joint=4)
        first, second = np.zeros((3, 4, 2)), np.zeros((3, 4, 2))
        first[1], second[1] = 9.0, -9.0
        moved = released_difference(mechanism, first, second)
        assert np.linalg.norm(moved) == pytest.approx(1.0, rel=1e-6)
        alone = released_difference(GaussianMean(0.1, 1.5, 3), first, second)
        assert np.linalg.norm(alone) == pytest.approx(2.0, rel=1e-6)

    @pytest.mark.parametrize("where", [0.0, 1e6, -3.5])
    def test_recentring_moves_the_ball(self, where):
        mechanism = GaussianMean(1e-3, 1.0, 2)
        codes = np.full((2, 1, 2), where) + 0.25
        values = mechanism.release(codes, InsecureNoise(0), centres=[where, where]).values
        assert np.allclose(values, where + 0.25, atol=0.01)
        far = mechanism.release(codes + 100, InsecureNoise(0), centres=[where, where]).values
        assert np.allclose(far, where + math.sqrt(0.5), atol=0.01)

    def test_weight_zero_leaves_a_coordinate_out(self):
        mechanism = GaussianMean(1e-3, 1.0, 2)
        codes = np.array([[[0.5, 1e9]], [[0.5, -1e9]]])
        release = mechanism.release(codes, InsecureNoise(0), centres=[0.0, 7.0], weights=[1.0, 0.0])
        assert release.values[0, 1] == 7.0
        assert release.values[0, 0] == pytest.approx(0.5, abs=0.01)


class TestUnitsThatSpeakForThemselves:
    @settings(max_examples=80, deadline=None)
    @given(wild(3, 4, 2), st.integers(0, 2), st.sampled_from([1, 2, 4]))
    def test_one_unit_more_moves_the_mean_by_one_radius(self, codes, gone, joint):
        mechanism = UnitMean(1e-3, 1.0, 5, joint=joint)
        others = np.delete(codes, gone, axis=0)
        moved = released_difference(mechanism, codes, others).reshape(4 // joint, -1)
        assert (np.linalg.norm(moved, axis=1) <= 1.0 / 5 + 1e-12).all()

    def test_the_sum_is_divided_by_a_public_number(self):
        mechanism = UnitMean(1e-9, 1.0, 4)
        one = mechanism.release([[[1.0]]], InsecureNoise(0)).values
        assert one.item() == pytest.approx(0.25, abs=1e-6)

    def test_it_costs_a_quarter_of_a_mean_of_shards(self):
        unit, shard = UnitMean(0.3, 1.0, 7), GaussianMean(0.3, 1.0, 7)
        assert 4 * unit.gaussian_cost() == pytest.approx(shard.gaussian_cost())
        plan = for_budget(UnitMean, 2, 1e-5, queries=9, radius=1.0, n_teachers=7, joint=True)
        assert plan.epsilon(1e-5) == pytest.approx(2, rel=1e-6)


class TestFramesFromEarlierReleases:
    """Centre, weights and radius are chosen after a first release, by anybody, in any way."""

    @settings(max_examples=80, deadline=None)
    @given(wild(3, 4, 3), wild(4, 3), st.integers(0, 2), st.sampled_from([1, 2, 4]), st.data())
    def test_given_what_was_released_one_teacher_moves_the_next_by_its_diameter(
        self, codes, other, who, joint, data
    ):
        """Weights differ from query to query, the radius is the adversary's, all of it public."""
        first = GaussianMean(0.5, 1.0, 3, joint).release(codes, InsecureNoise(1)).values
        centres = first + data.draw(hnp.arrays(np.float64, (4, 3), elements=st.floats(-9, 9)))
        weights = data.draw(hnp.arrays(np.float64, (4, 3), elements=st.floats(0.01, 100)))
        radius = data.draw(st.floats(1e-3, 1e3)) * (1 + float(np.abs(first).max()))
        mechanism = GaussianMean(0.2 * radius, radius, 3, joint)
        neighbour = codes.copy()
        neighbour[who] = other
        frame = public_frame(centres, weights, (4, 3))
        sums = [
            mechanism._noisy_total(some, frame, InsecureNoise(5)) for some in (codes, neighbour)
        ]
        limit = (Fraction(mechanism.diameter) / Fraction(mechanism.grid)) ** 2
        for bound in (sums[0] - sums[1]).reshape(4 // joint, -1):
            assert exact_square(bound) <= limit

    @settings(max_examples=60, deadline=None)
    @given(wild(3, 4, 2), st.integers(0, 2), st.sampled_from([1, 4]), st.data())
    def test_a_unit_that_is_absent_moves_the_next_by_one_radius(self, codes, gone, joint, data):
        centres = data.draw(hnp.arrays(np.float64, (4, 2), elements=st.floats(-9, 9)))
        weights = data.draw(hnp.arrays(np.float64, (4, 2), elements=st.floats(0.01, 100)))
        mechanism = UnitMean(0.5, 1.5, 7, joint)
        frame = public_frame(centres, weights, (4, 2))
        sums = [
            mechanism._noisy_total(some, frame, InsecureNoise(5))
            for some in (codes, np.delete(codes, gone, axis=0))
        ]
        limit = (Fraction(mechanism.diameter) / Fraction(mechanism.grid)) ** 2
        assert mechanism.diameter == 1.5
        for bound in (sums[0] - sums[1]).reshape(4 // joint, -1):
            assert exact_square(bound) <= limit

    def test_a_centre_that_looks_at_the_codes_breaks_the_bound(self):
        """Why it may not: it moves with the teacher, and everybody who is clipped moves along."""
        mechanism = GaussianMean(1e-6, 1.0, 2)
        first = np.array([[[1e300]], [[9.0]]])
        second = np.array([[[-1e300]], [[9.0]]])

        def centred_on_itself(codes):
            centre = np.clip(codes, -1, 1).mean(axis=0)
            return mechanism.release(codes, InsecureNoise(0), centres=centre).values

        moved = np.abs(centred_on_itself(first) - centred_on_itself(second)).item()
        assert moved == pytest.approx(2 * mechanism.diameter / 2, rel=1e-4)
        honest = np.abs(released_difference(mechanism, first, second, centres=[[0.5]])).item()
        assert honest <= mechanism.diameter / 2 + 1e-12

    def test_a_radius_that_looks_at_the_codes_breaks_the_bound(self):
        """The largest norm of all is one teacher's to choose, and it stretches all the others."""
        quiet, loud = np.full((4, 1, 1), 1.0), np.full((4, 1, 1), 1.0)
        quiet[1:] = loud[1:] = 9.0
        quiet[0], loud[0] = 0.1, 5.0

        def clipped_to_the_first(codes):
            radius = float(np.abs(codes[0]).max())
            return GaussianMean(1e-6, radius, 4).release(codes, InsecureNoise(0)).values.item()

        moved = abs(clipped_to_the_first(quiet) - clipped_to_the_first(loud))
        assert moved > 2 * 5.0 / 4 * 1.9
