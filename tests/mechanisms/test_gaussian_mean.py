"""The mean of codes: no teacher moves it by more than is paid for, and the price is right."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit.errors import BudgetExceeded, GrantError, InvalidArgument
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import (
    DistributedGaussianMean,
    GaussianMean,
    Plan,
    TeacherCodes,
    UnitMean,
)
from tacit.mechanisms.codes import (
    Frame,
    bounded_steps,
    certify,
    clip_rows,
    public_frame,
    ratio_squared,
    summed_steps,
    teacher_codes,
)
from tacit.noise import InsecureNoise
from tacit.privacy import gaussian_epsilon

WILD = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-3, 3),
    st.sampled_from([1e300, -1e300, 1.7e308, 5e-324, -5e-324, 0.0, -0.0, np.nan, np.inf, -np.inf]),
)
RADII = st.floats(1e-6, 1e6)


def wild(*shape):
    return hnp.arrays(np.float64, shape, elements=WILD)


def exact_square(steps):
    """The sum of squares in unbounded integers."""
    return sum(int(step) ** 2 for step in np.ravel(steps))


class TestBound:
    @settings(max_examples=150, deadline=None)
    @given(wild(4, 5), RADII, st.sampled_from([1, 2, 4]), st.data())
    def test_norm_is_bounded_exactly_whatever_the_code(self, codes, radius, joint, data):
        centres = data.draw(hnp.arrays(np.float64, (4, 5), elements=st.floats(-1e3, 1e3)))
        weights = data.draw(hnp.arrays(np.float64, 5, elements=st.floats(1e-3, 1e3)))
        grid = GaussianMean(1.0, radius, 3).grid
        frame = public_frame(centres, weights, (4, 5))
        steps = bounded_steps(codes, frame, radius, grid, joint)
        assert steps.dtype == np.int64
        for bound in steps.reshape(4 // joint, -1):
            assert exact_square(bound) * Fraction(grid) ** 2 <= Fraction(radius) ** 2

    @settings(max_examples=100, deadline=None)
    @given(wild(3, 6), RADII)
    def test_clip_is_the_projection_on_the_ball(self, vectors, radius):
        clipped = clip_rows(vectors, radius)
        for vector, result in zip(vectors, clipped, strict=True):
            if not np.isfinite(vector).all():
                assert not result.any()
                continue
            norm = math.hypot(*(float(one) for one in vector))
            if math.isinf(norm):
                continue
            expected = vector if norm <= radius else vector * (radius / norm)
            assert np.allclose(result, expected, rtol=2e-9, atol=1e-300)

    def test_a_code_that_overflows_is_still_clipped(self):
        clipped = clip_rows(np.full((1, 4), 1.7e308), 2.0)
        assert np.allclose(clipped, 1.0)

    def test_one_bad_number_makes_the_whole_bound_the_centre(self):
        codes = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])
        frame = public_frame(None, None, (3, 2))
        alone = bounded_steps(codes, frame, 100.0, 2.0**-10, 1)
        assert alone[1].tolist() == [0, 0]
        assert alone[2].tolist() == [5 * 1024, 6 * 1024]
        assert not bounded_steps(codes, frame, 100.0, 2.0**-10, 3).any()

    def test_certificate_catches_a_clip_that_is_wrong(self):
        """Were float64 wrong by a factor of two, the bound would hold all the same."""
        steps = np.array([[300, 400, 0], [3, 4, 0]])
        certify(steps, 250.0, 1.0)
        assert exact_square(steps[0]) <= 250**2
        assert steps[1].tolist() == [3, 4, 0]

    def test_ratio_is_rounded_down(self):
        assert ratio_squared(1.5, 1.0) == 2
        assert ratio_squared(0.1, 1.0) == 0

    @pytest.mark.parametrize("length", [10**3, 10**6])
    def test_certificate_finds_nothing_to_do(self, length):
        """The margin of 1e-9 covers float64 even for a million coordinates."""
        vector = np.random.default_rng(0).normal(size=(1, length))
        mechanism = GaussianMean(1e-3, 1.0, 5)
        steps = np.trunc(clip_rows(vector, 1.0) / mechanism.grid).astype(np.int64)
        before = steps.copy()
        certify(steps, 1.0, mechanism.grid)
        assert np.array_equal(steps, before)
        root = math.sqrt(exact_square(steps)) * mechanism.grid
        assert 1 - 1e-5 < root <= 1


def released_difference(mechanism, first, second, **public):
    """Two releases with the same noise differ as the means before noise do."""
    return (
        mechanism.release(first, InsecureNoise(5), **public).values
        - mechanism.release(second, InsecureNoise(5), **public).values
    )


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
            summed_steps(teacher_codes(some), slice(0, 2), frame, 1.5, mechanism.grid, 2)
            for some in (codes, neighbour)
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


class TestRelease:
    def test_values_lie_on_the_grid(self):
        mechanism = GaussianMean(0.3, 2.0, 4)
        codes = np.random.default_rng(0).normal(size=(4, 3, 5))
        steps = mechanism.release(codes, InsecureNoise(0)).values * 4 / mechanism.grid
        assert np.array_equal(steps, np.rint(steps))

    def test_mean_of_codes_within_the_radius(self):
        mechanism = GaussianMean(1e-6, 100.0, 4)
        codes = np.random.default_rng(0).normal(size=(4, 3, 5))
        values = mechanism.release(codes, InsecureNoise(0)).values
        assert np.allclose(values, codes.mean(axis=0), atol=1e-5)

    def test_noise_has_the_deviation_that_is_priced(self):
        mechanism = GaussianMean(0.3, 1.0, 4)
        weights = np.array([1.0, 0.5])
        values = mechanism.release(
            np.zeros((4, 20000, 2)), InsecureNoise(0), weights=weights
        ).values
        assert np.allclose(values.std(axis=0) * weights, 0.3, rtol=0.02)
        assert abs(np.corrcoef(values.T)[0, 1]) < 0.03

    @pytest.mark.parametrize("joint", [1, 3])
    def test_codes_in_parts_give_the_same_release(self, joint):
        codes = np.random.default_rng(0).normal(size=(4, 6, 5))
        asked = []

        def part(teacher, rows):
            asked.append((teacher, rows))
            return codes[teacher, rows].astype(np.float64)

        mechanism = GaussianMean(0.3, 1.0, 4, joint)
        lazy = mechanism.release(TeacherCodes(codes.shape, part), InsecureNoise(0))
        assert np.array_equal(lazy.values, mechanism.release(codes, InsecureNoise(0)).values)
        assert [teacher for teacher, _ in asked] == [0, 1, 2, 3]

    def test_long_codes_are_summed_one_bound_at_a_time(self):
        """What bounds the memory of nine million voxels: never two volumes of one teacher."""
        sizes = []

        def part(teacher, rows):
            sizes.append(rows.stop - rows.start)
            return np.zeros((rows.stop - rows.start, 2**18))

        GaussianMean(0.3, 1.0, 2).release(TeacherCodes((2, 3, 2**18), part), InsecureNoise(0))
        assert sizes == [1] * 6

    def test_memory_stays_within_a_few_codes(self):
        """Fifty teachers take no more than one: what is held is a fixed number of codes."""
        import tracemalloc

        length, peaks = 2**18, []
        for teachers in (2, 20):
            codes = TeacherCodes((teachers, 1, length), lambda t, rows: np.ones((1, length)))
            mechanism = GaussianMean(0.3, 1.0, teachers)
            tracemalloc.start()
            mechanism.release(codes, InsecureNoise(0))
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert peaks[1] < 1.05 * peaks[0] < 10 * 8 * length

    @pytest.mark.parametrize(
        "codes",
        [
            np.zeros((4, 3)),
            np.zeros((3, 3, 2)),
            np.zeros((4, 3, 0)),
            np.zeros((4, 3, 2), dtype=bool),
            np.zeros((4, 3, 2), dtype=complex),
            np.full((4, 3, 2), "a"),
            [[[1.0, 2.0]], [[1.0]]],
            "codes",
            None,
        ],
    )
    def test_what_is_no_code_is_refused(self, codes):
        with pytest.raises(InvalidArgument):
            GaussianMean(0.3, 1.0, 4).release(codes, InsecureNoise(0))

    @pytest.mark.parametrize("shape", [(3, 3), (2,), (1, 2, 2), (2, 3)])
    def test_a_teacher_with_another_shape_is_refused(self, shape):
        """Broadcasting would let one short answer speak for all queries."""
        codes = TeacherCodes((2, 2, 2), lambda t, rows: np.zeros(shape if t else (2, 2)))
        with pytest.raises(InvalidArgument, match="as declared"):
            GaussianMean(0.3, 1.0, 2).release(codes, InsecureNoise(0))

    @pytest.mark.parametrize(
        "public",
        [
            {"centres": [np.nan, 0.0]},
            {"centres": [[0.0, 0.0]] * 3},
            {"weights": [1.0, -1.0]},
            {"weights": [1.0, np.inf]},
            {"weights": [0.0, 0.0]},
            {"weights": [1.0, 1e-320]},
        ],
    )
    def test_a_frame_that_does_not_fit_is_refused(self, public):
        with pytest.raises(InvalidArgument):
            GaussianMean(0.3, 1.0, 2).release(np.zeros((2, 2, 2)), InsecureNoise(0), **public)

    def test_groups_must_be_whole(self):
        with pytest.raises(InvalidArgument, match="multiple of joint"):
            GaussianMean(0.3, 1.0, 2, 2).release(np.zeros((2, 3, 2)), InsecureNoise(0))

    def test_representations_show_no_codes(self):
        codes = TeacherCodes((2, 1, 1), lambda t, rows: [[7919.0]])
        assert "7919" not in repr(codes) + str(codes)
        with pytest.raises(InvalidArgument) as caught:
            GaussianMean(0.3, 1.0, 3).release(np.full((2, 1, 1), 7919.0), InsecureNoise(0))
        assert "7919" not in str(caught.value)


# (epsilon, delta), teachers, queries, radius: the sigma of SPEC-highdim-mac A.2 and A.11.
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
        plan = GaussianMean.for_budget(*budget, queries=queries, radius=radius, n_teachers=teachers)
        digits = len(str(sigma).split(".")[1])
        assert round(plan.mechanism.sigma, digits) == sigma
        assert plan.queries == queries
        assert plan.epsilon(budget[1]) == pytest.approx(budget[0], rel=1e-6)
        assert plan.epsilon(budget[1]) <= budget[0]

    def test_box_formula_of_the_2020_paper_is_not_used(self):
        """E1: sqrt(2 K eps) for sqrt(2) K eps has too little noise where K eps < 1."""
        epsilon, delta, teachers, queries, dimension = 0.1, 1e-5, 2, 10, 64
        plan = GaussianMean.for_budget(
            epsilon, delta, queries=queries, radius=math.sqrt(dimension) / 2, n_teachers=teachers
        )
        b = math.log(1 / delta)
        roots = math.sqrt(queries * dimension) * (math.sqrt(b + epsilon) + math.sqrt(b))
        box = roots / math.sqrt(2 * teachers * epsilon)
        assert box < 0.75 * plan.mechanism.sigma
        right = roots / (math.sqrt(2) * teachers * epsilon)
        assert plan.mechanism.sigma < right < 2 * plan.mechanism.sigma

    def test_blocks_counted_as_one_query_would_cost_71(self):
        """E6: 1,000 blocks with a bound each, sold as one query at epsilon 1."""
        sold = GaussianMean.for_budget(1, 1e-5, queries=10, radius=1.0, n_teachers=50)
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
        rounds = [GaussianMean.for_budget(8, 1e-5, share=s, **numbers) for s in (0.3, 0.7)]
        whole = GaussianMean.for_budget(8, 1e-5, **numbers)
        assert sum(plan.mu_squared() for plan in rounds) <= whole.mu_squared() * (1 + 1e-15)
        assert sum(plan.mu_squared() for plan in rounds) == pytest.approx(whole.mu_squared())

    @pytest.mark.parametrize("share", [0.0, 1.5, -1.0, np.nan])
    def test_shares_are_parts(self, share):
        with pytest.raises(InvalidArgument):
            GaussianMean.for_budget(8, 1e-5, share=share, queries=20, radius=1.0, n_teachers=50)

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


class TestLedger:
    @pytest.fixture
    def ledger(self, tmp_path):
        return Ledger(tmp_path / "run.ledger", budget=Budget(8.0, 1e-5), unit="patient")

    @pytest.mark.parametrize("joint", [False, True])
    def test_a_plan_spends_its_budget_once(self, ledger, joint):
        plan = GaussianMean.for_budget(8, 1e-5, queries=6, radius=1.0, n_teachers=4, joint=joint)
        codes = np.random.default_rng(0).normal(size=(4, 6, 3))
        with ledger.release(plan, purpose="masks") as grant:
            release = grant.release(codes, centres=np.zeros(3), weights=np.ones(3))
        assert release.values.shape == (6, 3)
        assert (release.secure, release.entry) == (True, ledger.head)
        assert ledger.spent() == pytest.approx(8.0, rel=1e-6)
        assert ledger.spent() <= 8.0
        assert ledger.statement().noise == "exact"
        assert "one teacher only" in ledger.statement().assumes[0]
        with pytest.raises(BudgetExceeded), ledger.release(plan, purpose="again"):
            pass

    @pytest.mark.parametrize("joint", [False, True])
    @pytest.mark.parametrize("queries", [5, 7, 12])
    def test_one_query_more_is_refused(self, ledger, joint, queries):
        plan = GaussianMean.for_budget(8, 1e-5, queries=6, radius=1.0, n_teachers=4, joint=joint)
        with (
            pytest.raises(GrantError, match="queries"),
            ledger.release(plan, purpose="masks") as grant,
        ):
            grant.release(np.zeros((4, queries, 3)))

    def test_other_teachers_and_classes_are_refused(self):
        mechanism = GaussianMean(1.0, 1.0, 4)
        with pytest.raises(InvalidArgument):
            Plan(mechanism, 2).accept(np.zeros((5, 2, 3)))
        with pytest.raises(InvalidArgument, match="n_classes"):
            Plan(mechanism, 2, n_classes=3).accept(np.zeros((4, 2, 3)))

    def test_entry_records_every_parameter(self, ledger):
        plan = Plan(DistributedGaussianMean(1.0, 1.0, 9, 1, 2, joint=3), 1)
        with ledger.release(plan, purpose="masks"):
            pass
        assert ledger.entries()[0].plan["parameters"] == {
            "sigma": 1.0,
            "radius": 1.0,
            "n_teachers": 9,
            "dropouts": 1,
            "colluders": 2,
            "joint": 3,
        }


def test_frame_returns_to_code_space():
    frame = Frame(np.array([[1.0, 2.0]]), np.array([[2.0, 0.0]]))
    assert frame.back(np.array([[4.0, 4.0]])).tolist() == [[3.0, 2.0]]


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
        plan = UnitMean.for_budget(2, 1e-5, queries=9, radius=1.0, n_teachers=7, joint=True)
        assert plan.epsilon(1e-5) == pytest.approx(2, rel=1e-6)
