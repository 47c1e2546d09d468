"""Shares of votes and of codes: exact totals, the price of one noise, refusals that say nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import Budget, InsecureNoise, Ledger, Plan, count_votes
from tacit.errors import GrantError, InvalidArgument
from tacit.mechanisms import (
    GaussianMean,
    NoisyVotes,
    Release,
    SharedCodes,
    SharedVotes,
    SummedSteps,
    UnitMean,
    assumptions,
    open_shares,
)
from tacit.noise import expand, split
from tacit.students import label_posterior

CODES = SharedCodes(sigma=0.5, radius=2.0, n_teachers=6, joint=2)


class Silent(InsecureNoise):
    """No noise at all: totals can be compared exactly."""

    def rounded_gaussian_steps(self, sigma, grid, size):
        return np.zeros(size, dtype=np.int64)


def shared(sites):
    """The two sums of shares of some sites' whole numbers."""
    parts = [split(site) for site in sites]
    seeds = sum((expand(seed, sites[0].shape) for seed, _ in parts), np.uint64(0))
    return np.asarray(seeds), np.asarray(sum((share for _, share in parts), np.uint64(0)))


SILENT = (Silent(0), Silent(1))


def opened(mechanism, sites, noise=SILENT, **public):
    sums = shared(sites)
    first, second = (mechanism.release(*pair) for pair in zip(sums, noise, strict=True))
    return open_shares(first, second, **public)


@given(seed=st.integers(0, 2**32), sites=st.integers(1, 6))
def test_votes_of_any_sites_add_up_exactly(seed, sites):
    rng = np.random.default_rng(seed)
    told = [count_votes(rng.integers(0, 3, (rng.integers(1, 9), 4)), 3) for _ in range(sites)]
    release = opened(SharedVotes(4.0), told)
    assert np.array_equal(release.values, sum(told))


def test_the_largest_totals_decode_exactly():
    """2^24 teachers and noise of 128 deviations of 2^40: far inside int64."""
    edge = np.array([[2**24 + 2**47, -(2**47)]])
    assert np.array_equal(opened(SharedVotes(2.0**40), [edge]).values, edge)
    steps = np.array([[2**24 * 2**30 + 2**45, -(2**24) * 2**30 - 2**45]])
    total = SharedCodes(1.0, 1.0, 1)
    values = opened(total, [steps], teachers=1).values
    assert values == pytest.approx(steps * total.grid, rel=1e-15)


@given(seed=st.integers(0, 2**32), wild=st.sampled_from([1.0, 1e6, 1e300]))
def test_codes_of_sites_are_what_one_house_adds(seed, wild):
    """Clipped and certified at each site, in whole steps; the sum is that of all teachers."""
    rng = np.random.default_rng(seed)
    codes = wild * rng.normal(size=(6, 4, 3))
    codes[0, 0, 0] = math.nan
    about = {"centres": rng.normal(size=3), "weights": [1.0, 2.0, 0.5]}
    steps = [CODES.summed_steps(codes[part], **about) for part in (slice(0, 2), slice(2, 6))]
    whole = GaussianMean(0.5, 2.0, 6, joint=2)
    assert CODES.grid == whole.grid
    values = opened(CODES, steps, teachers=6, **about).values
    assert np.array_equal(values, whole.release(codes, Silent(0), **about).values)
    limit = (CODES.radius / CODES.grid) ** 2
    alone = CODES.summed_steps(codes[:1], **about).astype(object)
    assert all((pair**2).sum() <= limit for pair in alone.reshape(2, -1))


def test_a_trusted_house_takes_sums_of_steps():
    codes = np.random.default_rng(0).normal(size=(3, 4, 3))
    mechanism = GaussianMean(0.5, 2.0, 6, joint=2)
    said = SummedSteps(mechanism.summed_steps(codes), teachers=3)
    values = mechanism.release(said, Silent(0)).values
    exact = mechanism.summed_steps(codes) * (mechanism.grid / 3)
    assert np.array_equal(values, exact)
    noisy = mechanism.release(said, InsecureNoise(0)).values - exact
    assert noisy.std() == pytest.approx(0.5 * 6 / 3, rel=0.6)  # that of all six, over three
    Plan(mechanism, 2, n_teachers=6).accept(said)
    with pytest.raises(InvalidArgument, match="teachers=7"):
        mechanism.release(SummedSteps(said.steps, 7), Silent(0))
    with pytest.raises(InvalidArgument, match="numbers"):
        UnitMean(0.5, 2.0, 6).release(said, Silent(0))


@pytest.mark.parametrize("votes", [1, 3])
def test_the_price_is_that_of_one_full_noise(votes):
    shares, alone = SharedVotes(40, votes), NoisyVotes(40, votes)
    assert Plan(shares, 100).epsilon(1e-5) == Plan(alone, 100).epsilon(1e-5)
    assert shares.opened_cost() == alone.gaussian_cost() / 2
    codes, mean = SharedCodes(0.5, 2.0, 6, 2, votes), GaussianMean(0.5, 2.0, 6, 2, votes)
    assert codes.gaussian_cost() == mean.gaussian_cost()
    assert codes.gaussian_cost() == pytest.approx((2 * 2.0 * votes / (6 * 0.5)) ** 2)


def test_known_prices():
    assert Plan(SharedVotes(40), 100).epsilon(1e-5) == pytest.approx(1.36, abs=0.005)
    to_all = Plan(NoisyVotes(40 * math.sqrt(2)), 100).epsilon(1e-5)
    assert to_all == pytest.approx(0.93, abs=0.005)


def test_the_total_has_both_noises_and_a_student_reads_it_so():
    rows = np.tile([[30, 10]], (20_000, 1))
    release = opened(SharedVotes(8.0), [rows], (InsecureNoise(1), InsecureNoise(2)))
    assert release.mechanism.reading().sigma == 8 * math.sqrt(2)
    assert (release.values - rows).std() == pytest.approx(8 * math.sqrt(2), rel=0.02)
    posterior = label_posterior(release, n_classes=2, n_teachers=40)
    assert posterior[:, 0].mean() > 0.8


def test_one_share_alone_is_another_every_time():
    rows = np.tile([[30, 10]], (50, 1))
    first, second = (shared([rows])[1] for _ in range(2))
    assert not (first == second).any()


def test_statements_say_what_is_presumed():
    (said,) = assumptions([Plan(SharedVotes(40, votes_per_unit=2), 1).as_dict()])
    assert "one of the two aggregators drew its noise" in said
    assert "at most 2 teachers" in said


def test_through_a_ledger(tmp_path):
    plan = Plan(SharedVotes(40), 2, n_classes=3)
    ledger = Ledger(tmp_path / "a.ledger", budget=Budget(2, 1e-5), unit="patient")
    with ledger.release(plan, purpose="a sum") as grant:
        release = grant.release(np.zeros((2, 3), dtype=np.uint64))
    assert release.shares.shape == (2, 3)
    assert release.secure
    assert ledger.entries()[0].noise == "exact"
    for wrong in (np.zeros((3, 3), np.uint64), np.zeros((2, 2), np.uint64), [[0, 0, 0]] * 2):
        with ledger.release(plan, purpose="a sum") as grant, pytest.raises(GrantError):
            grant.release(wrong)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (lambda: SharedVotes(3.9), "sigma"),
        (lambda: SharedVotes(40, 0), "votes_per_unit"),
        (lambda: SharedCodes(1e-9, 1.0, 1), "4 steps"),
        (lambda: SharedCodes(1.0, 1.0, 2, votes_per_unit=3), "votes_per_unit"),
        (lambda: CODES.summed_steps(np.zeros((7, 2, 1))), "at most 6"),
        (lambda: CODES.summed_steps(np.zeros((1, 3, 1))), "joint=2"),
        (lambda: CODES.opened(np.zeros((2, 1), np.int64)), "teachers"),
        (lambda: CODES.opened(np.zeros((2, 1), np.int64), teachers=7), "teachers=7"),
        (lambda: SharedVotes(4).release(np.zeros((2, 2)), Silent(0)), "uint64"),
        (lambda: Plan(SharedVotes(4), 1, n_teachers=3).accept(np.ones((1, 2), np.uint64)), "omit"),
        (lambda: SummedSteps(np.zeros((2, 2)), 1), "int64"),
    ],
)
def test_refusals_name_what_is_wrong(wrong, named):
    with pytest.raises(InvalidArgument, match=named):
        wrong()


def test_only_two_shares_of_one_kind_are_opened():
    one = SharedVotes(4).release(np.zeros((1, 2), np.uint64), Silent(0))
    for other in (
        SharedVotes(5).release(np.zeros((1, 2), np.uint64), Silent(0)),
        SharedVotes(4).release(np.zeros((2, 2), np.uint64), Silent(0)),
        Release(SharedVotes(4), values=np.zeros((1, 2))),
    ):
        with pytest.raises(InvalidArgument):
            open_shares(one, other)
    with pytest.raises(InvalidArgument):
        open_shares(Release(NoisyVotes(4), values=np.zeros((1, 2))), one)
    assert not open_shares(one, one).secure
