"""The mean of codes, released: on the grid, in bounded memory, through a ledger."""

from __future__ import annotations

import numpy as np
import pytest
from priced import for_budget

from tacit.errors import BudgetExceeded, GrantError, InvalidArgument
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import DistributedGaussianMean, GaussianMean, Plan, TeacherCodes
from tacit.noise import InsecureNoise


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

    @pytest.mark.parametrize("shape", [(2, 2), (2, 0, 2), (0, 2, 2), (1, 2, 2, 2)])
    def test_codes_made_one_teacher_at_a_time_have_three_sides(self, shape):
        with pytest.raises(InvalidArgument, match="shape"):
            TeacherCodes(shape, lambda t, rows: np.zeros((2, 2)))

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
        with pytest.raises(InvalidArgument, match=next(iter(public))):
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


class TestLedger:
    @pytest.fixture
    def ledger(self, tmp_path):
        return Ledger(tmp_path / "run.ledger", budget=Budget(8.0, 1e-5), unit="patient")

    @pytest.mark.parametrize("joint", [False, True])
    def test_a_plan_spends_its_budget_once(self, ledger, joint):
        plan = for_budget(GaussianMean, 8, 1e-5, queries=6, radius=1.0, n_teachers=4, joint=joint)
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
        plan = for_budget(GaussianMean, 8, 1e-5, queries=6, radius=1.0, n_teachers=4, joint=joint)
        with (
            pytest.raises(GrantError, match="queries"),
            ledger.release(plan, purpose="masks") as grant,
        ):
            grant.release(np.zeros((4, queries, 3)))

    def test_other_teachers_and_classes_are_refused(self):
        mechanism = GaussianMean(1.0, 1.0, 4)
        with pytest.raises(InvalidArgument, match="n_teachers=4 teachers, got 5"):
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
