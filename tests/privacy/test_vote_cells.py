"""The worst of many votes, bounded in cells: never below the worst, and hardly above."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.privacy import sampled_screening_rdp, threshold_rdp_worst, vote_cells
from tacit.privacy.vote_cells import Check, largest_check_rdp

ORDERS = np.array([1.01, 1.5, 2.0, 8.0, 30.5, 120.0, 4096.0])
WITHIN = 1 + 1.01e-3


@given(
    k=st.integers(1, 900),
    share=st.floats(-0.1, 1.1),
    sigma=st.floats(-1.5, 4).map(lambda power: 10.0**power),
    rate=st.sampled_from([1.0, 0.99, 0.5, 0.01, 1e-6]),
    reach=st.sampled_from([1, 3, 70]),
    answer=st.one_of(st.just(0.0), st.floats(-9, 1).map(lambda power: 10.0**power)),
)
@settings(max_examples=80, deadline=None)
def test_a_bound_in_cells_is_never_below_the_worst_of_all_votes(
    k, share, sigma, rate, reach, answer
):
    check = Check(share * k, sigma, 0, k, rate, min(reach, k))
    worst = sampled_screening_rdp(k, share * k, sigma, answer * ORDERS, rate, ORDERS, reach)
    ours = largest_check_rdp(check, ORDERS, answer * ORDERS)
    assert (ours >= worst * (1 - 1e-10)).all()
    assert (ours <= worst * WITHIN + 1e-29).all()


@pytest.mark.parametrize("sigma", [40.0, 3000.0])
def test_wide_ranges_of_teachers_are_bounded_in_cells(sigma, monkeypatch):
    terms = (2400.0, sigma, 500, 4000, ORDERS)
    ours = threshold_rdp_worst(*terms)
    monkeypatch.setattr(vote_cells, "_FEW_VOTES", 10**9)
    worst = threshold_rdp_worst(*terms)
    assert (ours >= worst * (1 - 1e-9)).all()
    assert (ours <= worst * WITHIN).all()
    assert (ours != worst).any()


@pytest.mark.parametrize("displaced", [1, 2**18])
def test_sixteen_million_votes_need_a_look_at_few(displaced, monkeypatch):
    looked, honest = [], vote_cells._bound

    def counted(check, cells, *rest):
        looked.append(cells.place.size)
        return honest(check, cells, *rest)

    monkeypatch.setattr(vote_cells, "_bound", counted)
    sampled_screening_rdp(2**24, 1e7, 1e5, 0 * ORDERS, 0.1, ORDERS, displaced)
    assert sum(looked) < 20_000 * ORDERS.size


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_no_number_is_not_cut_further(monkeypatch):
    """Neither where the bound is none, nor where a value is that was found before."""
    rounds, honest = [], vote_cells._cut

    def counted(cells):
        rounds.append(cells.place.size)
        return honest(cells)

    monkeypatch.setattr(vote_cells, "_cut", counted)
    assert np.isnan(largest_check_rdp(Check(1e160, 5.0, 0, 10**4), ORDERS, 0 * ORDERS)).all()
    assert sum(rounds) == 0
