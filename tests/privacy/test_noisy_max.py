"""GNMax on small vote spaces in full: no bound may ever fall below the exact divergence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exhaustive import histograms, log_outcomes, neighbours, renyi
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr

from benchmarks import paper_formulas as paper
from tacit.errors import InvalidArgument
from tacit.privacy import gnmax_log_q, gnmax_rdp
from tacit.privacy.noisy_max import checked_weights, rdp_from_log_q, union_log_q

ORDERS = np.array([1.5, 2.0, 3.0, 5.0, 8.0, 14.0, 30.0])
SPACES = [(1, 2), (9, 2), (1, 4), (5, 3), (9, 3), (6, 4), (9, 4)]
SIGMAS = [0.7, 1.0, 2.0, 4.0, 12.0]

row_of_votes = st.lists(st.integers(0, 60), min_size=2, max_size=8).filter(any)


@pytest.fixture(scope="module")
def exact():
    """Exact divergences from each histogram to its worst neighbour, computed once per space."""
    known = {}

    def lookup(n, m, sigma):
        if (n, m, sigma) not in known:
            votes = histograms(n, m)
            log_p = log_outcomes(votes, sigma)
            first, second = neighbours(votes)
            worst = np.zeros((len(votes), ORDERS.size))
            np.maximum.at(worst, first, renyi(log_p[first], log_p[second], ORDERS))
            known[n, m, sigma] = votes, log_p, worst
        return known[n, m, sigma]

    return lookup


def log_of_not(log_p, votes):
    """Log-probability that another class than the (first) plurality is answered."""
    others = log_p.copy()
    others[np.arange(len(votes)), votes.argmax(axis=1)] = -np.inf
    return np.logaddexp.reduce(others, axis=1)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize(("n", "m"), SPACES)
class TestExhaustively:
    def test_outcome_probabilities_add_up(self, exact, n, m, sigma):
        """The oracle itself: and a tie of all classes is decided uniformly."""
        votes, log_p, _ = exact(n, m, sigma)
        assert np.exp(log_p).sum(axis=1) == pytest.approx(1, abs=1e-12)
        if n % m == 0:
            tie = log_p[(votes == n // m).all(axis=1)]
            assert np.exp(tie) == pytest.approx(1 / m, rel=1e-12)

    def test_prop7_is_never_below_the_exact_probability(self, exact, n, m, sigma):
        votes, log_p, _ = exact(n, m, sigma)
        log_q, exactly = gnmax_log_q(votes, sigma), log_of_not(log_p, votes)
        assert (log_q >= exactly - 1e-11).all()
        if m == 2:  # nothing is lost by a union of one event
            assert log_q == pytest.approx(exactly, rel=1e-9, abs=1e-10)

    @pytest.mark.parametrize("bound", ["tight", "theorem6"])
    def test_no_bound_falls_below_the_exact_divergence(self, exact, n, m, sigma, bound):
        votes, log_p, worst = exact(n, m, sigma)
        room = 1 - 1e-10
        assert (gnmax_rdp(votes, sigma, ORDERS, bound) >= worst * room - 1e-15).all()
        sharper = np.minimum(log_of_not(log_p, votes) + 1e-12, 0)  # without the union bound
        assert (rdp_from_log_q(sharper, sigma, ORDERS, bound) >= worst * room - 1e-15).all()

    def test_tight_is_never_above_theorem6_nor_the_worst_case(self, exact, n, m, sigma):
        votes, _, _ = exact(n, m, sigma)
        tight, theorem6 = (gnmax_rdp(votes, sigma, ORDERS, b) for b in ("tight", "theorem6"))
        assert (tight <= theorem6 * (1 + 2e-9)).all()
        assert (theorem6 <= ORDERS / sigma**2).all()


def test_exhaustive_check_would_notice_a_slightly_smaller_bound(exact):
    """A bound five percent smaller is caught: the comparison has teeth."""
    votes, _, worst = exact(9, 2, 0.7)
    tight = gnmax_rdp(votes, 0.7, ORDERS)
    assert (tight * 0.95 < worst).any()


def test_golden_log_q():
    votes = [[200, 50] + [0] * 8]
    assert gnmax_log_q(votes, 40)[0] == pytest.approx(-5.179152311259569, rel=1e-14)


@pytest.mark.parametrize(
    ("votes", "sigma", "order", "theorem6", "tight"),
    [
        ([250], 40, 8, 0.00412, 0.00108),
        ([200, 50], 40, 2, 1.0, 0.0536),
        ([200, 50], 40, 14, 0.244, 0.0755),
        ([160, 90], 40, 14, 1.0, 0.554),
        ([2700, 2300], 100, 8, 0.319, 0.0267),
    ],
)
def test_golden_fractions_of_the_worst_case(votes, sigma, order, theorem6, tight):
    row = [votes + [0] * (10 - len(votes))]
    worst = order / sigma**2
    for bound, fraction in (("theorem6", theorem6), ("tight", tight)):
        assert gnmax_rdp(row, sigma, order, bound)[0, 0] / worst == pytest.approx(
            fraction, rel=6e-3
        )


@given(row_of_votes, st.floats(0.3, 50))
def test_log_q_is_the_printed_sum(row, sigma):
    q = paper.query_q(row, sigma)
    expected = min(q, 1 - 1 / len(row))
    if q > 1e-280:
        assert gnmax_log_q([row], sigma)[0] == pytest.approx(math.log(expected), abs=1e-9)


@given(row_of_votes, st.floats(0.3, 50), st.randoms())
def test_the_order_of_classes_does_not_matter(row, sigma, random):
    shuffled = random.sample(row, len(row))
    both = gnmax_log_q([row, shuffled], sigma)
    assert both[0] == pytest.approx(both[1], rel=1e-12)


@given(row_of_votes, st.floats(0.3, 50), st.floats(1, 4))
def test_more_noise_makes_another_answer_likelier(row, sigma, factor):
    assert gnmax_log_q([row], sigma) <= gnmax_log_q([row], sigma * factor) + 1e-12


@given(st.floats(-200, -0.01), st.floats(0.3, 50), st.floats(1, 4), st.floats(1.1, 40))
def test_at_the_same_q_more_noise_or_a_lower_order_never_costs_more(log_q, sigma, factor, order):
    for bound in ("tight", "theorem6"):
        cost, noisier, higher = (
            rdp_from_log_q(log_q, s, a, bound)[0, 0]
            for s, a in ((sigma, order), (sigma * factor, order), (sigma, order * factor))
        )
        assert noisier <= cost * (1 + 1e-8) + 1e-15
        assert cost <= higher * (1 + 1e-8) + 1e-15


@pytest.mark.parametrize("bound", ["tight", "theorem6"])
def test_hopelessly_unanimous_votes_cost_exactly_nothing(bound):
    assert gnmax_log_q([[1000, 0]], 1.5)[0] < -1e5
    assert gnmax_rdp([[1000, 0]], 1.5, [2, 30], bound).tolist() == [[0.0, 0.0]]


def test_deep_tails_keep_their_digits_in_company_of_shallow_ones():
    """Linear sums underflow beyond log q = -700: there logarithms take over, row by row."""
    votes = np.array([[300, 0, 0], [200, 99, 1], [100, 100, 100]])
    expected = math.log(2) + log_ndtr(-300 / math.sqrt(2) / 5)
    assert expected < -800
    assert gnmax_log_q(votes, 5)[0] == pytest.approx(expected, rel=1e-14)
    assert gnmax_log_q(votes, 5)[1] == gnmax_log_q(votes[1:2], 5)[0]


def test_exactly_one_argmax_is_left_out_of_a_tie():
    assert gnmax_log_q([[5, 5]], 3)[0] == pytest.approx(math.log(0.5))
    assert union_log_q(np.array([[5, 5, 0]]), 1e-3)[0] == pytest.approx(math.log(0.5))
    assert union_log_q(np.array([[4, 4, 4, 4]]), 7)[0] == pytest.approx(math.log(1.5))


def test_few_queries_with_wide_gaps_agree_with_the_tabulated_many():
    few = np.array([[900_000, 100_000, 0], [500_000, 400_000, 100_000]])
    expected = [math.log(paper.query_q(row, 1e5)) for row in few.tolist()]
    assert gnmax_log_q(few, 1e5) == pytest.approx(expected, rel=1e-12)
    many = np.tile(few // 100_000, (20, 1))
    assert gnmax_log_q(many, 1)[:2] == pytest.approx(expected, rel=1e-12)


def test_votes_as_unsigned_bytes_do_not_wrap():
    votes = np.array([[250, 0], [3, 247]], dtype=np.uint8)
    assert (gnmax_log_q(votes, 40) == gnmax_log_q(votes.astype(int), 40)).all()


@pytest.mark.parametrize(("n", "m"), [(3, 2), (3, 3)])
def test_soft_votes_are_bounded_too(n, m):
    """A teacher's probability vector is replaced by any other: the same constants hold."""
    random = np.random.default_rng(12)
    teachers = random.dirichlet(np.ones(m), size=(200, n))
    replaced = teachers.copy()
    replaced[:, 0] = np.eye(m)[random.integers(m, size=200)]
    soft, other = teachers.sum(axis=1), replaced.sum(axis=1)
    exactly = renyi(log_outcomes(soft, 1.0), log_outcomes(other, 1.0), ORDERS)
    for bound in ("tight", "theorem6"):
        assert (gnmax_rdp(soft, 1.0, ORDERS, bound) >= exactly * (1 - 1e-10)).all()


class TestBadInput:
    @pytest.mark.parametrize(
        "votes",
        [
            [[3, np.nan]],
            [[3, np.inf]],
            [[3, -1]],
            [[2.5, -0.5]],
            [[1, 2], [3]],
            [[1, 2], [3, 4]],
            [[1.5, 2.5], [3.5, 4.5]],
            [1, 2],
            [[5]],
            [[0.5]],
            [[]],
            np.zeros((0, 3)),
            [["1", "2"]],
            [[True, False]],
            [[1j, 2]],
            [[2**70, 1]],
            None,
        ],
    )
    def test_votes(self, votes):
        for call in (
            lambda: gnmax_log_q(votes, 40),
            lambda: gnmax_rdp(votes, 40, [2]),
        ):
            with pytest.raises(InvalidArgument, match="votes"):
                call()

    def test_the_message_does_not_quote_the_votes(self):
        with pytest.raises(InvalidArgument) as raised:
            gnmax_log_q([[31_337, 2], [5, 6]], 40)
        assert "31" not in str(raised.value)

    @pytest.mark.parametrize(
        ("sigma", "orders", "bound"),
        [
            (0, [2], "tight"),
            (-3, [2], "tight"),
            (np.nan, [2], "tight"),
            ("x", [2], "tight"),
            (40, [1], "tight"),
            (40, [], "tight"),
            (40, [np.nan], "theorem6"),
            (40, [[2]], "tight"),
            (40, [2], "best"),
        ],
    )
    def test_parameters(self, sigma, orders, bound):
        with pytest.raises(InvalidArgument):
            gnmax_rdp([[3, 2]], sigma, orders, bound)

    @pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [1.0, np.nan], [[1.0, 1.0]], "ab"])
    def test_weights(self, weights):
        with pytest.raises(InvalidArgument, match="weights"):
            checked_weights(weights, 2)

    def test_weights_are_one_by_default(self):
        assert checked_weights(None, 3).tolist() == [1.0, 1.0, 1.0]
