"""Totals over many queries: never below the exact sum, and close to it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr

from tacit.errors import InvalidArgument
from tacit.privacy import gnmax_log_q, gnmax_rdp, gnmax_rdp_total, totals

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


@pytest.fixture(autouse=True)
def empty_tables(monkeypatch):
    monkeypatch.setattr(totals, "_TABLES", type(totals._TABLES)())


def assert_close_from_above(total, exact):
    assert (total >= exact * (1 - 3e-9)).all()  # exact itself is above the supremum by up to 1e-9
    assert (total <= exact * (1 + 1e-3)).all()


@pytest.mark.parametrize("bound", ["tight", "theorem6"])
def test_few_queries_are_summed_exactly(bound):
    votes = varied_votes(300)
    exact = gnmax_rdp(votes, 60, ORDERS, bound).sum(axis=0)
    assert gnmax_rdp_total(votes, 60, ORDERS, bound) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("sigma", [20, 60, 400])
def test_many_queries_round_up_by_at_most_a_thousandth(sigma):
    votes = varied_votes(4000)
    assert np.unique(gnmax_log_q(votes, sigma)).size > totals.EXACT_BELOW
    exact = gnmax_rdp(votes, sigma, ORDERS).sum(axis=0)
    total = gnmax_rdp_total(votes, sigma, ORDERS)
    assert_close_from_above(total, exact)
    assert len(totals._TABLES) == 1


@pytest.mark.parametrize(("strays", "sigma"), [(30, 150), (60, 120)])
def test_nearly_unanimous_votes_are_not_rounded_coarsely(strays, sigma):
    """Every q far out in the tail, where the table is sparse."""
    votes = unanimous_votes(3000, strays)
    log_q = gnmax_log_q(votes, sigma)
    assert np.unique(log_q).size > totals.EXACT_BELOW
    assert log_q.max() < log_ndtr(totals._FINE_ABOVE)
    exact = gnmax_rdp(votes, sigma, ORDERS).sum(axis=0)
    assert_close_from_above(gnmax_rdp_total(votes, sigma, ORDERS), exact)


def test_a_few_doubtful_queries_among_unanimous_ones():
    """Then the sparse part of the table is good enough, since it hardly counts."""
    votes = np.concatenate([unanimous_votes(3000, 60), varied_votes(100, n_classes=12)])
    exact = gnmax_rdp(votes, 120, ORDERS).sum(axis=0)
    assert_close_from_above(gnmax_rdp_total(votes, 120, ORDERS), exact)


def test_unanimous_queries_are_summed_exactly_where_they_make_up_the_total():
    """A doubtful query of little weight does not excuse coarse rounding of the others."""
    votes = np.concatenate([unanimous_votes(3000, 60), [[1000, 1000] + [0] * 10]])
    costs, weights = gnmax_rdp(votes, 120, [5.0]), np.ones(len(votes))
    weights[-1] = 1e-2 * costs[:-1].sum() / costs[-1, 0]
    total = gnmax_rdp_total(votes, 120, [5.0], weights=weights)
    assert_close_from_above(total, weights @ costs)


def test_each_query_is_rounded_up_by_itself():
    """Not only the sum: a weight on one query shows its own cost."""
    votes = varied_votes(2500, seed=5)
    costs = gnmax_rdp(votes, 60, ORDERS)
    gnmax_rdp_total(votes, 60, ORDERS)
    for chosen in range(0, 2500, 60):
        weights = np.zeros(len(votes))
        weights[chosen] = 1
        assert_close_from_above(gnmax_rdp_total(votes, 60, ORDERS, weights=weights), costs[chosen])


def test_sparse_nodes_round_up_too(monkeypatch):
    """With q itself as the cost: a shallow q just below its node, and deep ones that hardly count.

    Then the shallow part is almost exact, and rounding the deep part down would show.
    """
    monkeypatch.setattr(
        totals, "rdp_from_log_q", lambda log_q, sigma, orders, **_: np.exp(log_q)[:, None]
    )
    node = totals._node_above(np.array([-2.0]))
    shallow = totals._log_q_at(node) - 1e-8
    deep = np.linspace(-60, -30, 2001)
    share = 5e-5 * np.exp(shallow[0]) / np.exp(deep).sum()
    log_q, mass = np.append(deep, shallow), np.append(np.full(deep.size, share), 1.0)
    total, exact = totals._tabulated_total(log_q, mass, 60.0, ORDERS[:1]), mass @ np.exp(log_q)
    assert exact <= total[0] <= exact * (1 + 1e-5)
    assert total[0] - exact > 1e-7 * exact  # and not because everything was summed exactly


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
    assert not totals._TABLES


def test_a_second_call_reads_the_table(monkeypatch):
    votes = varied_votes(2500)
    first = gnmax_rdp_total(votes, 60, ORDERS)

    def refuse(*arguments, **options):
        raise AssertionError("the table was not used")

    monkeypatch.setattr(totals, "rdp_from_log_q", refuse)
    assert (gnmax_rdp_total(votes[::-1], 60, ORDERS) == first).all()
    with pytest.raises(AssertionError):
        gnmax_rdp_total(votes, 61, ORDERS)
    with pytest.raises(AssertionError):
        gnmax_rdp_total(votes, 60, ORDERS + 0.5)


def test_more_votes_extend_the_table():
    votes = varied_votes(2500)
    gnmax_rdp_total(votes, 60, ORDERS)
    (table,) = totals._TABLES.values()
    before = len(table)
    wider = np.concatenate([votes, varied_votes(2500, seed=9)])
    exact = gnmax_rdp(wider, 60, ORDERS).sum(axis=0)
    assert_close_from_above(gnmax_rdp_total(wider, 60, ORDERS), exact)
    (table,) = totals._TABLES.values()
    assert len(table) > before


def test_only_a_few_tables_are_kept():
    votes = varied_votes(2200)
    for sigma in range(60, 60 + totals._TABLES_KEPT + 3):
        gnmax_rdp_total(votes, sigma, [2.0])
    assert len(totals._TABLES) == totals._TABLES_KEPT


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
