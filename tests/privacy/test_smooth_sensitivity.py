"""Smooth sensitivity by brute force: above the local sensitivity, and smooth, in whole spaces."""

from __future__ import annotations

import itertools
import math
from typing import ClassVar

import numpy as np
import pytest
from exhaustive import local_sensitivity, partitions, smooth_closure, sorted_distances
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import paper_formulas as paper
from tacit.errors import InvalidArgument
from tacit.privacy import (
    gnmax_rdp,
    gnmax_smooth_sensitivity,
    threshold_rdp,
    threshold_smooth_sensitivity,
)
from tacit.privacy.smooth_sensitivity import _LocalSensitivity

ROOM = 1 + 1e-9
#          n, m, sigma, order, beta; the last four break the paper's condition C6
SETTINGS = [
    (9, 2, 2.0, 1.5, 0.2),
    (9, 3, 1.5, 1.2, 0.1),
    (7, 4, 0.7, 1.5, 0.3),
    (2, 3, 1.0, 2.0, 0.1),
    (9, 4, 0.7, 3.0, 0.1),
    (9, 3, 2.0, 8.0, 0.05),
    (9, 2, 1.0, 30.0, 0.4),
    (8, 4, 3.0, 14.0, 0.02),
]
C6_HOLDS = [(9, 2, 2.0, 1.5, 0.2), (9, 3, 2.0, 1.2, 0.1), (30, 3, 6.0, 2.0, 0.05)]
C6_FAILS = [(40, 50), (20, 20.5), (10, 14), (5, 7.5)]  # sigma, order


def matrix_of(space):
    """Histograms up to permutation, and how many votes lie between each two."""
    n, m, *_ = space
    return partitions(n, m), sorted_distances(partitions(n, m))


def smooth_over(rows, space, **options):
    _, _, sigma, order, beta = space
    return np.array(
        [gnmax_smooth_sensitivity(votes, sigma, order, beta, **options) for votes in rows]
    )


def assert_smooth(values, adjacent, beta):
    first, second = np.nonzero(adjacent)
    assert first.size
    assert (values[first] <= values[second] * math.exp(beta) * ROOM).all()


@pytest.mark.parametrize("bound", ["tight", "theorem6"])
@pytest.mark.parametrize("space", SETTINGS, ids=str)
class TestWindow:
    def test_one_query(self, space, bound):
        _, _, sigma, order, beta = space
        votes, apart = matrix_of(space)
        costs = gnmax_rdp(votes, sigma, order, bound)[:, 0]
        local = local_sensitivity(costs, apart == 1)
        smooth = smooth_over(votes[:, None, :], space, bound=bound)
        assert (smooth >= local).all()
        assert_smooth(smooth, apart == 1, beta)
        closure = smooth_closure(local, apart, beta)
        changing = closure > 1e-6 * order / sigma**2
        assert (smooth[changing] <= 3 * closure[changing]).all()  # a bound, yet not an empty one

    def test_two_queries_of_which_a_teacher_changes_both(self, space, bound):
        _, _, sigma, order, beta = space
        votes, apart = matrix_of(space)
        pairs = np.array(list(itertools.combinations_with_replacement(range(len(votes)), 2)))
        costs = gnmax_rdp(votes, sigma, order, bound)[:, 0]
        straight, crossed = (
            np.maximum(
                apart[np.ix_(pairs[:, 0], pairs[:, i])],
                apart[np.ix_(pairs[:, 1], pairs[:, 1 - i])],
            )
            for i in (0, 1)
        )
        adjacent = np.minimum(straight, crossed) == 1
        smooth = smooth_over(votes[pairs], space, bound=bound)
        assert (smooth >= local_sensitivity(costs[pairs].sum(axis=1), adjacent)).all()
        assert_smooth(smooth, adjacent, beta)

    def test_classes_may_be_permuted_and_empty_ones_matter(self, space, bound):
        n, m, sigma, order, beta = space
        votes = partitions(n, m)
        shuffled = np.random.default_rng(7).permuted(votes, axis=1)
        one, other = (
            gnmax_smooth_sensitivity(rows, sigma, order, beta, bound=bound)
            for rows in (votes, shuffled)
        )
        assert one == pytest.approx(other, rel=1e-12)


def test_weights_multiply_each_query():
    votes = np.array([[9, 0, 0], [5, 4, 0], [3, 3, 3]])
    options = {"sigma": 2.0, "order": 3.0, "beta": 0.1}
    once = gnmax_smooth_sensitivity(votes, **options)
    assert gnmax_smooth_sensitivity(votes, weights=[1, 1, 1], **options) == once
    assert gnmax_smooth_sensitivity(votes, weights=[2.5] * 3, **options) == pytest.approx(
        2.5 * once
    )
    one = gnmax_smooth_sensitivity(votes[:1], **options)
    assert gnmax_smooth_sensitivity(votes, weights=[1, 0, 0], **options) == pytest.approx(one)
    assert gnmax_smooth_sensitivity(votes, weights=[0, 0, 0], **options) == 0.0


@pytest.mark.parametrize("bound", ["tight", "theorem6"])
@pytest.mark.parametrize("votes", [[[5, 1, 1, 1, 1, 0, 0, 0, 0, 0]], [[1, 0, 0]], [[0, 0]]])
def test_hardly_anything_where_the_cost_cannot_change(votes, bound):
    """Few teachers, much noise: q is 1 - 1/m for every histogram, or nobody votes."""
    worst = 14 / 40**2
    assert 0 <= gnmax_smooth_sensitivity(votes, 40, 14, 0.03, bound=bound) <= 0.002 * worst


def test_ending_the_walk_early_is_not_smooth():
    """Why d must run to the diameter: a walk cut at d = 2 jumps by more than e^beta."""
    space = (9, 3, 0.7, 1.5, 0.05)
    _, _, sigma, order, beta = space
    votes, apart = matrix_of(space)
    local = local_sensitivity(gnmax_rdp(votes, sigma, order)[:, 0], apart == 1)
    first, second = np.nonzero(apart == 1)

    def steepest(values):
        return (values[first] / values[second]).max() / math.exp(beta)

    cut = np.where(apart <= 2, np.exp(-beta * apart) * local, 0).max(axis=1)
    assert steepest(cut) > 1.5
    assert steepest(smooth_closure(local, apart, beta)) <= ROOM
    assert steepest(smooth_over(votes[:, None, :], space)) <= ROOM


class TestPaperAlgorithm:
    @pytest.mark.parametrize("space", C6_HOLDS, ids=str)
    def test_whole_spaces_where_c6_holds(self, space):
        _, _, sigma, order, beta = space
        votes, apart = matrix_of(space)
        smooth = smooth_over(votes[:, None, :], space, bound="theorem6", algorithm="paper")
        local = local_sensitivity(gnmax_rdp(votes, sigma, order, "theorem6")[:, 0], apart == 1)
        assert local.max() > 0
        assert (smooth >= local * (1 - 1e-9)).all()
        assert_smooth(smooth, apart == 1, beta)
        window = smooth_over(votes[:, None, :], space, bound="theorem6")
        assert (window >= smooth * (1 - 1e-9)).all()

    @pytest.mark.parametrize("space", C6_HOLDS, ids=str)
    def test_equals_the_query_by_query_transcription(self, space):
        n, m, sigma, order, beta = space
        rows = np.random.default_rng(3).multinomial(n, [0.75] + [0.25 / (m - 1)] * (m - 1), 40)
        weights = np.random.default_rng(4).uniform(0, 1, 40)
        for kwargs in ({}, {"weights": weights}):
            mine = gnmax_smooth_sensitivity(
                rows, sigma, order, beta, bound="theorem6", algorithm="paper", **kwargs
            )
            plain = paper.smooth_sensitivity(rows.tolist(), sigma, order, beta, **kwargs)
            assert mine == pytest.approx(plain, rel=1e-9)

    def test_equals_the_transcription_with_many_teachers(self):
        random = np.random.default_rng(5)
        share = random.dirichlet([8.0] + [0.3] * 9, 60)
        rows = np.array([random.multinomial(250, p) for p in share])
        mine = gnmax_smooth_sensitivity(rows, 40, 14, 0.0329, None, "theorem6", "paper")
        assert mine == pytest.approx(paper.smooth_sensitivity(rows.tolist(), 40, 14, 0.0329))

    @pytest.mark.parametrize("order", [1.2, 2.0, 3.0, 6.0])
    @pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0, 4.0])
    @pytest.mark.parametrize(("n", "m"), [(9, 2), (12, 3)])
    def test_is_sound_wherever_it_does_not_refuse(self, n, m, sigma, order):
        votes, apart = matrix_of((n, m))
        try:
            smooth = smooth_over(
                votes[:, None, :],
                (n, m, sigma, order, 0.05),
                bound="theorem6",
                algorithm="paper",
            )
        except InvalidArgument:
            assert order >= 0.8 * sigma
            return
        local = local_sensitivity(gnmax_rdp(votes, sigma, order, "theorem6")[:, 0], apart == 1)
        assert (smooth >= local * (1 - 1e-9)).all()
        assert_smooth(smooth, apart == 1, 0.05)

    def test_without_its_refusal_it_would_be_wrong(self):
        """The plain transcription does not test C6: too low, and not smooth."""
        sigma, order, beta = 2.0, 4.0, 0.05
        votes, apart = matrix_of((20, 3))
        local = local_sensitivity(gnmax_rdp(votes, sigma, order, "theorem6")[:, 0], apart == 1)
        plain = [paper.smooth_sensitivity([row], sigma, order, beta) for row in votes.tolist()]
        first, second = np.nonzero(apart == 1)
        assert (local / plain).max() > 1.2
        assert (np.array(plain)[first] / np.array(plain)[second]).max() > 1.2 * math.exp(beta)
        with pytest.raises(InvalidArgument, match="C6"):
            gnmax_smooth_sensitivity(votes, sigma, order, beta, None, "theorem6", "paper")

    @pytest.mark.parametrize("m", [2, 10])
    @pytest.mark.parametrize(("sigma", "order"), C6_FAILS)
    def test_refuses_where_c6_fails(self, sigma, order, m):
        votes = [[250] + [0] * (m - 1)]
        with pytest.raises(InvalidArgument, match="C6"):
            gnmax_smooth_sensitivity(votes, sigma, order, 0.01, None, "theorem6", "paper")
        assert gnmax_smooth_sensitivity(votes, sigma, order, 0.01, None, "theorem6") > 0

    @pytest.mark.parametrize(
        ("sigma", "order", "m"), [(40, 14, 10), (40, 15.5, 2), (100, 20.5, 150)]
    )
    def test_accepts_the_papers_own_parameters(self, sigma, order, m):
        votes = [[240] + [10] + [0] * (m - 2)]
        assert gnmax_smooth_sensitivity(votes, sigma, order, 0.02, None, "theorem6", "paper") >= 0

    def test_nothing_to_change_gives_zero(self):
        assert gnmax_smooth_sensitivity([[3, 2]], 40, 14, 0.03, None, "theorem6", "paper") == 0.0

    def test_refuses_the_tight_bound(self):
        with pytest.raises(InvalidArgument, match="theorem6"):
            gnmax_smooth_sensitivity([[3, 2]], 40, 14, 0.03, algorithm="paper")

    def test_golden_neighbours_of_q(self):
        """Prop. 21 at votes [200, 50, 0 x 8], sigma = 40."""
        local = _LocalSensitivity(40.0, 14.0, 10, "theorem6")
        log_q = np.array([-5.179152311259569])
        assert local.moved(log_q, 1)[0] == pytest.approx(-5.056181182, abs=1e-9)
        assert local.moved(log_q, -1)[0] == pytest.approx(-5.303293585, abs=1e-9)


class TestThreshold:
    RANGES = ((3, 0, 9, 1.5, 4.0, 0.2), (12, 2, 10, 0.7, 3.0, 0.05), (6, 1, 12, 2.0, 30.0, 0.5))

    @staticmethod
    def changes(threshold, lowest, highest, sigma, order):
        t = np.arange(lowest, highest + 1)
        f = threshold_rdp(t, threshold, sigma, [order], lowest=lowest, highest=highest)[:, 0]
        return t, f, local_sensitivity(f, np.abs(t[:, None] - t) == 1)

    @staticmethod
    def smooth(tops, threshold, lowest, highest, sigma, order, beta, **options):
        return threshold_smooth_sensitivity(
            tops, threshold, sigma, order, beta, lowest, highest, **options
        )

    @pytest.mark.parametrize("case", RANGES, ids=str)
    def test_one_query_is_the_least_smooth_bound(self, case):
        *rest, beta = case
        t, _, local = self.changes(*rest)
        closure = smooth_closure(local, np.abs(t[:, None] - t), beta)
        found = [self.smooth([top], *case) for top in t]
        assert found == pytest.approx(closure, rel=1e-12)

    @pytest.mark.parametrize("case", RANGES, ids=str)
    def test_two_queries(self, case):
        *rest, beta = case
        t, f, _ = self.changes(*rest)
        pairs = np.array(list(itertools.product(range(t.size), repeat=2)))
        apart = np.abs(pairs[:, None, :] - pairs[None, :, :]).max(axis=2)
        smooth = np.array([self.smooth(t[pair], *case) for pair in pairs])
        assert (smooth >= local_sensitivity(f[pairs].sum(axis=1), apart == 1) * (1 - 1e-12)).all()
        assert_smooth(smooth, apart == 1, beta)

    def test_lists_at_exactly_distance_d_are_not_smooth(self):
        """The public code looks at t - d and t + d only; summed over queries it jumps."""
        case = (3, 0, 9, 1.5, 4.0, 0.2)
        *rest, beta = case
        t, _, local = self.changes(*rest)
        pairs = list(itertools.product(range(t.size), repeat=2))

        def exactly(i, d):
            return max((local[j] for j in (i - d, i + d) if 0 <= j < t.size), default=0.0)

        def public_code(pair):
            return max(
                math.exp(-beta * d) * sum(exactly(i, d) for i in pair) for d in range(t.size)
            )

        mutant, ours = (
            np.array([of(pair) for pair in pairs])
            for of in (public_code, lambda pair: self.smooth(t[list(pair)], *case))
        )
        apart = np.abs(np.subtract.outer(pairs, pairs)[:, [0, 1], :, [0, 1]]).max(axis=0)
        first, second = np.nonzero(apart == 1)
        assert (mutant[first] / mutant[second]).max() > 1.05 * math.exp(beta)
        assert (ours[first] / ours[second]).max() <= ROOM * math.exp(beta)
        assert (ours >= mutant * (1 - 1e-12)).all()

    def test_weights_and_repetitions(self):
        case = self.RANGES[0]
        twice = self.smooth([4, 4, 7], *case)
        assert self.smooth([4, 7], *case, weights=[2, 1]) == pytest.approx(twice, rel=1e-14)

    def test_a_statistic_that_cannot_move_has_none(self):
        assert self.smooth([5, 5], 3, 5, 5, 1.0, 2.0, 0.1) == 0.0

    @given(st.integers(0, 40), st.floats(0.001, 1), st.floats(1.01, 3))
    @settings(max_examples=50)
    def test_falls_with_beta(self, top, beta, factor):
        less, more = (self.smooth([top, 5], 25, 0, 40, 6.0, 8.0, b) for b in (beta * factor, beta))
        assert less <= more


class TestBadInput:
    GOOD: ClassVar = {"votes": [[6, 3]], "sigma": 2.0, "order": 3.0, "beta": 0.1}

    @pytest.mark.parametrize(
        "change",
        [
            {"votes": [[6, np.nan]]},
            {"votes": [[6, -1]]},
            {"votes": [[6, 3], [1, 1]]},
            {"votes": [[6, 3], [9]]},
            {"votes": [[5.5, 3.5]]},
            {"votes": [6, 3]},
            {"sigma": 0},
            {"sigma": np.nan},
            {"order": 1},
            {"order": [3, 4]},
            {"beta": 0},
            {"beta": -0.1},
            {"beta": np.inf},
            {"weights": [1, 1]},
            {"weights": [-1]},
            {"bound": "loose"},
            {"algorithm": "fast"},
        ],
    )
    def test_gnmax(self, change):
        with pytest.raises(InvalidArgument):
            gnmax_smooth_sensitivity(**{**self.GOOD, **change})

    @pytest.mark.parametrize(
        "change",
        [
            {"top_votes": [11]},
            {"top_votes": [-1]},
            {"top_votes": [3.5]},
            {"top_votes": [np.nan]},
            {"top_votes": [[3]]},
            {"threshold": np.nan},
            {"sigma": 0},
            {"order": 1.0},
            {"beta": 0},
            {"lowest": 11},
            {"lowest": -1},
            {"lowest": 0.5},
            {"lowest": np.nan},
            {"highest": np.inf},
            {"weights": [1, 2]},
        ],
    )
    def test_threshold(self, change):
        good = {"top_votes": [3], "threshold": 4, "sigma": 2.0, "order": 3.0, "beta": 0.1}
        with pytest.raises(InvalidArgument):
            threshold_smooth_sensitivity(**{**good, "lowest": 0, "highest": 10, **change})
