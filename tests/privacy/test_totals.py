"""Totals over many queries: never below the exact sum, and close to it."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from tacit.errors import InvalidArgument
from tacit.privacy import gnmax_log_q, gnmax_rdp, gnmax_rdp_total, totals
from tacit.privacy.noisy_max import rdp_from_log_q
from tacit.privacy.tail_bound import rounding, tail_bound_rdp

ORDERS = np.array([1.3, 2.0, 5.0, 14.0, 40.0])


def varied_votes(n_queries, n_teachers=2000, n_classes=8, seed=0):
    """From near ties to near unanimity, almost every row another q."""
    random = np.random.default_rng(seed)
    share = random.dirichlet([3.0] + [0.3] * (n_classes - 1), n_queries)
    return np.array([random.multinomial(n_teachers, p) for p in share])


def unanimous_votes(n_queries, strays, n_teachers=2000, n_classes=12):
    """Almost unanimous: at most `strays` votes go elsewhere."""
    random = np.random.default_rng(strays)
    votes = np.zeros((n_queries, n_classes), dtype=np.int64)
    votes[:, 1:] = random.integers(0, strays, (n_queries, n_classes - 1))
    votes[:, 0] = n_teachers - votes.sum(axis=1)
    return votes


def assert_close_from_above(total, exact):
    assert (total >= exact * (1 - 3e-9)).all()  # exact itself is above the supremum by up to 1e-9
    assert (total <= exact * (1 + 1e-3)).all()


@pytest.mark.parametrize("bound", ["tight", "theorem6"])
def test_few_queries_are_summed_exactly(bound):
    votes = varied_votes(300)
    exact = gnmax_rdp(votes, 60, ORDERS, bound).sum(axis=0)
    assert gnmax_rdp_total(votes, 60, ORDERS, bound) == pytest.approx(exact, rel=1e-12)


@pytest.fixture
def never_exact(monkeypatch):
    """Lines from the first query on, and never a sum of them one by one."""
    monkeypatch.setattr(totals, "EXACT_UP_TO", 0)
    monkeypatch.delattr(totals, "_exact_total")


@pytest.mark.usefixtures("never_exact")
@pytest.mark.parametrize("sigma", [20, 60, 400])
def test_many_queries_are_at_most_a_thousandth_above(sigma):
    votes = varied_votes(4000)
    assert np.unique(gnmax_log_q(votes, sigma)).size > 2000
    exact = gnmax_rdp(votes, sigma, ORDERS).sum(axis=0)
    total = gnmax_rdp_total(votes, sigma, ORDERS)
    assert_close_from_above(total, exact)
    assert (total > exact * (1 + 1e-9)).any()


@pytest.mark.usefixtures("never_exact")
@pytest.mark.parametrize(("strays", "sigma"), [(30, 150), (60, 120)])
def test_nearly_unanimous_votes_are_priced_as_closely(strays, sigma):
    """Every q far out in the tail, where the sum is tiny."""
    votes = unanimous_votes(3000, strays)
    log_q = gnmax_log_q(votes, sigma)
    assert log_q.max() < log_ndtr(-6.5)
    exact = gnmax_rdp(votes, sigma, ORDERS).sum(axis=0)
    assert_close_from_above(gnmax_rdp_total(votes, sigma, ORDERS), exact)


@pytest.mark.usefixtures("never_exact")
def test_nothing_costs_more_than_the_worst_case_near_order_one():
    votes, orders = varied_votes(50), 1 + np.array([1e-15, 1e-12, 1e-9])
    assert (gnmax_rdp_total(votes, 400, orders) <= 50 * orders / 400**2 * (1 + 1e-12)).all()


def test_little_noise_needs_few_nodes():
    """About as many as log q has digits: not so many that the sum never ends."""
    log_q = np.sort(gnmax_log_q([[2001, 0], [1001, 1000]], 1e-12))
    assert log_q[0] < -1e24
    assert totals._first_nodes(log_q, 1.0).size < 5000


@pytest.mark.usefixtures("never_exact")
def test_sums_that_underflow_are_neither_negative_nor_refused():
    """Some costs of these q are subnormal or 0, some are not."""
    log_q = -np.linspace(955, 736, 90)
    orders = np.array([1.0003, 1.07, 1.6, 5.3, 40.0, 2900.0])
    mass = 10 ** np.random.default_rng(3).uniform(-6, 3, log_q.size)
    total = totals._total_below_lines(log_q, mass, 18.3, orders)
    exact = mass @ rdp_from_log_q(log_q, 18.3, orders)
    assert (total >= 0).all()
    assert exact[-1] > 1
    normal = exact > 1e-280
    assert_close_from_above(total[normal], exact[normal])
    assert (total[~normal] < 1e-270).all()


@pytest.mark.usefixtures("never_exact")
@settings(max_examples=30, deadline=None)
@given(
    log_q=st.lists(
        st.one_of(st.floats(-3, -1e-6), st.floats(-60, 0), st.floats(-1e5, 0), st.just(-np.inf)),
        min_size=1,
        max_size=25,
    ),
    spread=st.integers(-12, 6),
    sigma=st.floats(-1.3, 4).map(lambda power: 10**power),
    orders=st.lists(st.floats(-2, 4.2).map(lambda power: 1 + 10**power), min_size=1, max_size=4),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_queries_sigma_and_orders(log_q, spread, sigma, orders, seed):
    """Never below the exact sum, at most a thousandth above: wild q, weights, noise and orders."""
    log_q, orders = np.unique(log_q), np.array(orders)
    mass = 10 ** np.random.default_rng(seed).uniform(min(spread, 0), max(spread, 0), log_q.size)
    exact = mass @ rdp_from_log_q(log_q, sigma, orders)
    total = totals._total_below_lines(log_q, mass, sigma, orders)
    some = log_q > -np.inf
    lost = float(mass[some] @ rounding(log_q[some])) * orders / (orders - 1)
    faint = 1e-280 * mass.sum() / (orders - 1)  # what underflow leaves of the digits
    assert (total >= exact * (1 - 3e-9) - faint).all()
    assert (total <= exact * (1 + 1e-3) + 2 * lost + faint).all()


@pytest.mark.usefixtures("never_exact")
def test_a_lower_node_would_be_noticed(monkeypatch):
    """What the test above is worth: q rounded down to a node is below the exact sum."""
    votes = varied_votes(4000)
    exact = gnmax_rdp(votes, 60, ORDERS).sum(axis=0)
    monkeypatch.setattr(totals.Intervals, "log_t", lambda self, share: self.at_low + 0 * share)
    total = gnmax_rdp_total(votes, 60, ORDERS)
    assert (total < exact * (1 - 1e-5)).all()


def test_a_slope_a_little_too_flat_would_be_noticed():
    """Or too steep from above: slopes are no larger, or smaller, than they must be."""
    orders = np.array([1.3, 5.0, 40.0])
    found = totals.intervals(np.array([-10.2]), np.array([-10.0]), 0.05, orders)
    middle = np.array([[0.5]])
    log_q = np.log((np.exp(-10.2) + np.exp(-10.0)) / 2)
    cost = tail_bound_rdp(log_q, 0.05, orders)[0] * (orders - 1)
    from_low = found._replace(before=0 * found.before)
    from_high = found._replace(after=np.inf + found.after)
    for line in (from_low, from_high):
        assert (line.log_t(middle) >= cost).all()
    assert (from_low._replace(after=0.95 * found.after).log_t(middle) < cost).all()
    assert (from_high._replace(before=1.05 * found.before).log_t(middle) < cost).all()


@pytest.mark.parametrize("mu", [0.01, 0.3, 2.0])
def test_lines_stay_above_the_cost_between_any_two_nodes(mu):
    """However far apart they are; and both lines, not only the lesser."""
    random = np.random.default_rng(7)
    low = -(10 ** random.uniform(-0.5, 2, 40))
    high = np.minimum(low * random.uniform(0.3, 0.99, 40), -0.1)
    low = np.minimum(low, high - 1e-3)
    orders = np.array([1.05, 1.7, 3.0, 20.0, 300.0])
    found = totals.intervals(low, high, mu, orders)
    share = random.uniform(0, 1, 40)
    log_q = np.log(np.exp(low) + share * (np.exp(high) - np.exp(low)))
    cost = tail_bound_rdp(log_q, mu, orders) * (orders - 1)
    for line in (
        found._replace(before=0 * found.before),
        found._replace(after=np.inf + found.after),
    ):
        assert (line.log_t(share[:, None]) >= cost * (1 - 2e-9)).all()


def test_the_slope_falls_when_a_tail_grows():
    """lambda(x_c, x_d), of which the slopes are made: rising in x_c, falling in x_d; R rises."""
    random = np.random.default_rng(8)
    with mp.workdps(40):
        for _ in range(50):
            a, xd = 1 + mp.mpf(10 ** random.uniform(-2, 2)), mp.mpf(random.uniform(0.1, 1))
            xc, more = xd * (1 + mp.mpf(10 ** random.uniform(-3, 1))), 1 + mp.mpf("1e-3")

            def chord(xc, xd, a=a):
                rise = (xc**a - xd**a) / (xc - xd)
                r = ((rise * xd - xd**a) / (a - 1)) ** (1 / a)
                return rise - a * r ** (a - 1), r

            here, r = chord(xc, xd)
            for x in (xc, xd):
                g = x ** (a - 1) - a * r ** (a - 1) + (a - 1) * r**a / x
                assert abs(g - here) < mp.mpf("1e-25") * (1 + abs(here) + x ** (a - 1))
            turn = totals._turn(*(np.array([float(mp.log(x))]) for x in (xc, xd)), float(a))
            assert float(turn[0]) == pytest.approx(float(a * mp.log(r)), rel=1e-9, abs=1e-12)
            wider, narrower = chord(xc * more, xd), chord(xc, xd + (xc - xd) / 1000)
            assert wider[0] > here
            assert narrower[0] < here
            assert min(wider[1], narrower[1]) > r


@pytest.mark.usefixtures("never_exact")
def test_a_few_doubtful_queries_among_unanimous_ones():
    """The sum is that of the few."""
    votes = np.concatenate([unanimous_votes(3000, 60), varied_votes(100, n_classes=12)])
    exact = gnmax_rdp(votes, 120, ORDERS).sum(axis=0)
    assert_close_from_above(gnmax_rdp_total(votes, 120, ORDERS), exact)


@pytest.mark.usefixtures("never_exact")
def test_each_query_is_priced_by_itself():
    """Not only the sum: a weight on one query shows its own cost."""
    votes = varied_votes(2500, seed=5)
    costs = gnmax_rdp(votes, 60, ORDERS)
    for chosen in range(0, 2500, 250):
        weights = np.zeros(len(votes))
        weights[chosen] = 1
        assert_close_from_above(gnmax_rdp_total(votes, 60, ORDERS, weights=weights), costs[chosen])


def test_what_cannot_be_bounded_closely_is_summed_exactly(monkeypatch):
    votes = varied_votes(300)
    exact = gnmax_rdp(votes, 60, ORDERS).sum(axis=0)
    monkeypatch.setattr(totals, "EXACT_UP_TO", 0)
    monkeypatch.setattr(totals, "_MAX_SPLITS", 0)
    assert gnmax_rdp_total(votes, 60, ORDERS) == pytest.approx(exact, rel=1e-12)


@pytest.mark.usefixtures("never_exact")
def test_orders_may_come_in_any_order_and_twice():
    votes, orders = varied_votes(200), np.array([40.0, 1.3, 600.0, 1.3, 5.0])
    total = gnmax_rdp_total(votes, 60, orders)
    assert_close_from_above(total, gnmax_rdp(votes, 60, orders).sum(axis=0))
    assert total[1] == total[3]


@pytest.mark.usefixtures("never_exact")
def test_soft_votes():
    random = np.random.default_rng(6)
    soft = random.dirichlet([4.0, 1.0, 0.5], 300) * 200
    exact = gnmax_rdp(soft, 30, ORDERS).sum(axis=0)
    assert_close_from_above(gnmax_rdp_total(soft, 30, ORDERS), exact)


@pytest.mark.parametrize("bound", ["tight", "theorem6"])
@pytest.mark.parametrize("n_queries", [200, 2600])
def test_weighted_totals_are_weighted_sums(bound, n_queries):
    votes = varied_votes(n_queries, seed=2)
    weights = np.random.default_rng(3).uniform(0, 1, n_queries)
    exact = weights @ gnmax_rdp(votes, 60, ORDERS, bound)
    assert_close_from_above(gnmax_rdp_total(votes, 60, ORDERS, bound, weights=weights), exact)


def test_theorem6_is_exact_for_any_number_of_queries():
    votes = varied_votes(4500, seed=4)
    exact = gnmax_rdp(votes, 60, ORDERS, "theorem6").sum(axis=0)
    assert gnmax_rdp_total(votes, 60, ORDERS, "theorem6") == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        {"votes": [[3, np.nan]]},
        {"votes": [[3, -1]]},
        {"sigma": 0},
        {"orders": [1.0]},
        {"bound": "exact"},
        {"weights": [1.0, 2.0]},
    ],
)
def test_bad_input_is_refused_by_name(change):
    good = {"votes": [[3, 2]], "sigma": 2.0, "orders": [2.0]}
    with pytest.raises(InvalidArgument, match=next(iter(change))):
        gnmax_rdp_total(**{**good, **change})
