"""Props. 19 and 21 on small vote spaces in full: how far q can move."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exhaustive import distances, histograms, neighbours, steps_from
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri_exp

from benchmarks import paper_formulas as paper
from tacit.privacy import smooth_sensitivity as reach_module
from tacit.privacy.smooth_sensitivity import Reach, discounted_maximum

SPACES = [(1, 2), (2, 3), (9, 2), (7, 3), (9, 4)]


def all_log_q(votes, sigma):
    return np.array([math.log(paper.query_q(row, sigma)) for row in votes.tolist()])


@pytest.mark.parametrize(("n", "m"), [(4, 3), (5, 2)])
def test_distance_is_half_the_l1_norm(n, m):
    votes = histograms(n, m)
    for start, row in enumerate(distances(votes)):
        assert (steps_from(start, votes) == row).all()


@pytest.mark.parametrize("sigma", [0.7, 2.0, 12.0])
@pytest.mark.parametrize(("n", "m"), SPACES)
class TestProp19:
    def test_least_q_within_distance(self, n, m, sigma):
        votes, log_q = histograms(n, m), all_log_q(histograms(n, m), sigma)
        reach, apart = Reach(votes, sigma), distances(histograms(n, m))
        for d in range(n + 1):
            least = np.where(apart <= d, log_q, np.inf).min(axis=1)
            assert reach.least_log_q(d) == pytest.approx(least, rel=1e-10, abs=1e-12)

    def test_largest_q_within_distance(self, n, m, sigma):
        """Unbounded is said only where another class can overtake."""
        votes, log_q = histograms(n, m), all_log_q(histograms(n, m), sigma)
        reach, apart = Reach(votes, sigma), distances(histograms(n, m))
        top = -np.sort(-votes, axis=1)
        for d in range(n + 1):
            largest = np.where(apart <= d, log_q, -np.inf).max(axis=1)
            overtaken = top[:, 0] - d < top[:, 1] + d
            found = reach.largest_log_q(d)
            assert (np.isinf(found) == overtaken).all()
            kept = ~overtaken
            assert found[kept] == pytest.approx(largest[kept], rel=1e-10, abs=1e-12)

    def test_prop21_a_neighbour_moves_z_by_at_most_one_step(self, n, m, sigma):
        votes = histograms(n, m)
        z = ndtri_exp(all_log_q(votes, sigma) - math.log(m - 1))
        first, second = neighbours(votes)
        moved = np.abs(z[first] - z[second]).max()
        assert moved <= math.sqrt(2) / sigma * (1 + 1e-10)
        if m == 2 and n > 1:
            assert moved == pytest.approx(math.sqrt(2) / sigma)  # and that is attained


def test_classes_without_votes_are_counted_though_not_stored():
    """Rows of a wide matrix give what they give alone and among rows with more classes."""
    wide = np.zeros((2, 60), dtype=np.int64)
    wide[0, [3, 40]] = 7, 2
    wide[1, :9] = 1
    together, alone = Reach(wide, 1.5), Reach(wide[:1], 1.5)
    columns = [reach.blocks[0].others.shape[1] for reach in (alone, together)]
    assert columns[0] < columns[1] < 59
    for d in range(9):
        for name in ("least_log_q", "largest_log_q"):
            one, both = getattr(alone, name)(d), getattr(together, name)(d)
            assert both[0] == pytest.approx(one[0], rel=1e-13)
    unanimous = math.log(59 * math.erfc(9 / 3) / 2)
    assert together.least_log_q(9) == pytest.approx([unanimous, unanimous], rel=1e-12)


@given(
    gains=st.lists(st.floats(0, 10), min_size=1, max_size=40),
    beta=st.floats(0.001, 2),
    shape=st.sampled_from(["any", "flat", "late"]),
)
def test_discounted_maximum_skips_distances_but_never_the_best(gains, beta, shape):
    """Against all distances, for any nondecreasing function of the distance."""
    if shape == "flat":
        gains = [gains[0]] + [0.0] * (len(gains) - 1)
    if shape == "late":
        gains = [0.0] * (len(gains) - 1) + [gains[-1]]
    sums = np.cumsum(gains).tolist()
    visited = []

    def within(distance):
        visited.append(distance)
        return sums[distance]

    found = discounted_maximum(within, sums[-1], len(sums) - 1, beta)
    assert found == max(math.exp(-beta * d) * total for d, total in enumerate(sums))
    assert len(visited) == len(set(visited))


def test_discounted_maximum_visits_few_distances():
    visited = []

    def within(distance):
        visited.append(distance)
        return 1 - math.exp(-distance / 300)

    discounted_maximum(within, 1.0, 5000, 0.02)
    assert len(visited) < 60


def test_blocks_of_histograms_keep_their_order(monkeypatch):
    votes = np.random.default_rng(0).multinomial(50, [0.5, 0.3, 0.1, 0.1], 23)
    whole = Reach(votes, 3.0)
    monkeypatch.setattr(reach_module, "_COUNTS_AT_ONCE", 4 * 5)
    split = Reach(votes, 3.0)
    assert len(whole.blocks) == 1
    assert len(split.blocks) == 5
    for d in (0, 3, 30):
        assert split.least_log_q(d) == pytest.approx(whole.least_log_q(d), rel=1e-14)
        assert split.largest_log_q(d) == pytest.approx(whole.largest_log_q(d), rel=1e-14)
