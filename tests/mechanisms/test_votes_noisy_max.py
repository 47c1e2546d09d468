"""GNMax, LNMax and NoisyVotes: what they release, and what they say it costs."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InvalidArgument
from tacit.mechanisms import GNMax, LNMax, NoisyVotes, Plan
from tacit.mechanisms import base as module
from tacit.noise import GrantedNoise, InsecureNoise, SecureNoise
from tacit.privacy import gnmax_rdp, lnmax_rdp

ORDERS = [1.5, 2.0, 8.0, 32.0]
LABELLERS = [GNMax(2.0), LNMax(0.5)]


class NoNoise(InsecureNoise):
    """All draws are zero: what remains is the deterministic part."""

    def gaussian(self, sigma, size):
        return np.zeros(size)

    laplace = gaussian

    def rounded_gaussian_steps(self, sigma, grid, size):
        return np.zeros(size, dtype=np.int64)


@st.composite
def votes_of_some_teachers(draw, most=60):
    n_classes, n_queries = draw(st.integers(2, 5)), draw(st.integers(1, 6))
    n_teachers = draw(st.integers(1, most))
    rows = []
    for _ in range(n_queries):
        cuts = sorted(draw(st.integers(0, n_teachers)) for _ in range(n_classes - 1))
        rows.append(np.diff([0, *cuts, n_teachers]).tolist())
    return np.array(rows)


@pytest.mark.parametrize("parameter", [0, -1.0, math.nan, math.inf, "2", None, True, [1.0, 2.0]])
@pytest.mark.parametrize("kind", [GNMax, LNMax, NoisyVotes])
def test_noise_must_be_positive(kind, parameter):
    with pytest.raises(InvalidArgument, match="finite number > 0"):
        kind(parameter)


@pytest.mark.parametrize("mechanism", LABELLERS)
def test_clear_votes_give_their_winners_as_labels(mechanism):
    release = mechanism.release([[40, 0, 0], [0, 0, 40]], InsecureNoise(0))
    assert release.values is None
    assert release.labels.dtype == np.int64
    assert release.labels.tolist() == [0, 2]


@pytest.mark.parametrize("mechanism", LABELLERS)
def test_ties_are_broken_by_the_noise_alone(mechanism):
    votes = np.tile([3, 3, 3], (30_000, 1))
    counts = np.bincount(mechanism.release(votes, InsecureNoise(4)).labels, minlength=3)
    assert np.abs(counts - 10_000).max() < 6 * math.sqrt(30_000 * 2 / 9)


@pytest.mark.parametrize("mechanism", LABELLERS)
def test_an_exact_tie_after_noise_goes_to_the_first(mechanism):
    assert mechanism.release([[1, 4, 4], [3, 3, 3]], NoNoise(0)).labels.tolist() == [1, 0]


@pytest.mark.parametrize("mechanism", [*LABELLERS, NoisyVotes(3.0)])
def test_blocks_cover_every_row_with_its_own_noise(mechanism, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 12)
    votes = np.random.default_rng(0).multinomial(20, [0.5, 0.3, 0.2], size=1001)
    plain = np.asarray(mechanism.release(votes, NoNoise(0)))
    expected = votes if isinstance(mechanism, NoisyVotes) else votes.argmax(axis=1)
    assert np.array_equal(plain, expected)
    noisy = np.asarray(mechanism.release(np.tile([7, 7, 6], (999, 1)), InsecureNoise(0)))
    blocks = noisy[:996].reshape(249, -1)
    assert len(np.unique(blocks, axis=0)) > 40


@pytest.mark.parametrize("mechanism", [*LABELLERS, NoisyVotes(3.0)])
def test_more_classes_than_a_block(mechanism, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 2)
    assert len(mechanism.release([[5, 0, 0], [0, 5, 0]], NoNoise(0))) == 2


def test_gnmax_has_the_law_of_two_gaussians():
    """P(label 0) = Phi(gap/(sqrt(2) sigma))."""
    labels = GNMax(3.0).release(np.tile([12, 9], (200_000, 1)), InsecureNoise(5)).labels
    expected = 0.5 * math.erfc(-3 / (math.sqrt(2) * 3.0) / math.sqrt(2))
    assert abs((labels == 0).mean() - expected) < 6 * math.sqrt(0.25 / 200_000)


def test_lnmax_has_the_law_of_two_laplace_variates():
    """P(label 1) = (2 + g gap)/(4 e^(g gap))."""
    labels = LNMax(0.4).release(np.tile([12, 9], (200_000, 1)), InsecureNoise(6)).labels
    expected = (2 + 0.4 * 3) / (4 * math.exp(0.4 * 3))
    assert abs((labels == 1).mean() - expected) < 6 * math.sqrt(0.25 / 200_000)


def test_noisy_votes_are_whole_numbers_around_the_votes():
    votes = np.tile([30, 4, 0], (50_000, 1))
    release = NoisyVotes(2.5).release(votes, InsecureNoise(7))
    assert release.labels is None
    assert release.values.dtype == np.float64
    assert np.array_equal(release.values, np.round(release.values))
    assert (release.values < 0).any()
    error = release.values - votes
    assert np.abs(error.mean(axis=0)).max() < 6 * 2.5 / math.sqrt(50_000)
    # Rounding adds 1/12 to the variance.
    assert error.var(axis=0) == pytest.approx(2.5**2 + 1 / 12, rel=0.05)
    assert np.abs(np.corrcoef(error.T) - np.eye(3)).max() < 6 / math.sqrt(50_000)


def test_noisy_votes_take_hard_votes_only():
    from tacit.mechanisms import sum_soft_votes

    soft = sum_soft_votes([[[0.5, 0.5]], [[0.25, 0.75]]])
    with pytest.raises(InvalidArgument, match="votes"):
        NoisyVotes(2.0).release(soft, InsecureNoise(0))
    with pytest.raises(InvalidArgument, match="votes"):
        NoisyVotes(2.0).accept(soft, queries=1, n_teachers=2, n_classes=2)


@given(st.floats(0.01, 1e4))
def test_worst_case_of_gaussian_noise(sigma):
    """order/sigma^2, by the L2 sensitivity sqrt(2)."""
    for mechanism in (GNMax(sigma), NoisyVotes(sigma)):
        assert mechanism.cost(ORDERS).values == pytest.approx(np.array(ORDERS) / sigma**2)
        assert mechanism.gaussian_cost() == pytest.approx(2 / sigma**2)


@given(st.floats(0.001, 5.0))
def test_worst_case_of_laplace_noise(gamma):
    """Twice the curve of one Laplace coordinate, at most 2 gamma."""
    a = np.array(ORDERS)
    one = np.log(
        a / (2 * a - 1) * np.exp((a - 1) * gamma) + (a - 1) / (2 * a - 1) * np.exp(-a * gamma)
    )
    cost = LNMax(gamma).cost(ORDERS).values
    assert cost == pytest.approx(2 * one / (a - 1), rel=1e-6, abs=1e-9)
    assert (cost <= 2 * gamma).all()
    assert LNMax(gamma).gaussian_cost() is None
    assert Plan(LNMax(gamma), 3).mu_squared() is None


@settings(max_examples=40, deadline=None)
@given(votes_of_some_teachers(), st.floats(0.3, 60.0))
def test_secret_cost_is_never_above_the_worst_case(votes, sigma):
    for mechanism in (GNMax(sigma), LNMax(1 / sigma)):
        secret = mechanism.secret_cost(votes, ORDERS).values
        assert secret.shape == (len(votes), len(ORDERS))
        assert (secret >= 0).all()
        assert (secret <= mechanism.cost(ORDERS).values * (1 + 1e-12)).all()


@settings(max_examples=20, deadline=None)
@given(votes_of_some_teachers(), st.floats(0.3, 60.0))
def test_noisy_votes_have_no_secret_price(votes, sigma):
    mechanism = NoisyVotes(sigma)
    secret = mechanism.secret_cost(votes, ORDERS).values
    assert np.array_equal(secret, np.tile(mechanism.cost(ORDERS).values, (len(votes), 1)))


def test_secret_costs_are_those_of_the_votes():
    votes = [[50, 0, 0], [20, 18, 12]]
    assert np.array_equal(
        GNMax(9.0).secret_cost(votes, ORDERS).values, gnmax_rdp(votes, 9.0, ORDERS)
    )
    assert np.array_equal(
        LNMax(0.2).secret_cost(votes, ORDERS).values, lnmax_rdp(votes, 0.2, ORDERS)
    )
    clear, close = GNMax(9.0).secret_cost(votes, ORDERS).values
    assert (clear < close).all()


def test_a_hundred_thousand_queries_are_quick():
    votes = np.tile(np.array([151, *([1] * 99), *([0] * 50)]), (100_000, 1))
    spent = {}
    for mechanism in (GNMax(40.0), NoisyVotes(40.0)):
        noise = GrantedNoise(SecureNoise(), entry="e" * 64)
        start = time.process_time()
        mechanism.release(votes, noise)
        spent[mechanism.name] = time.process_time() - start
    assert spent["gnmax"] < 1.0
    assert spent["noisy-votes"] < 5.0


def test_noise_that_no_exact_draw_can_make_is_refused_before_anything_is_charged():
    with pytest.raises(InvalidArgument, match="sigma"):
        NoisyVotes(sigma=2.0**60)
