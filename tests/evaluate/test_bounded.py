"""The band of a bounded mean: the bets behind it, and that it holds where others do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import rel_entr

from tacit.evaluate.bounded import MEANS, _low_end, bets, bounded_mean

noises, sizes = st.sampled_from([0.0, 0.5, 4.0]), st.sampled_from([1.0, 30.0, 2000.0])
dice = st.lists(st.floats(0, 1), min_size=1, max_size=60)


def sums_of(d):
    d = np.asarray(d, dtype=float)
    return (d**2).sum(-1), (d * (1 - d)).sum(-1), ((1 - d) ** 2).sum(-1)


@settings(deadline=None, max_examples=50)
@given(noises, sizes, st.integers(0, MEANS.size - 1), st.floats(0, 1), st.floats(0, 1))
def test_no_bet_wins_on_average_against_a_mean_that_is_no_larger(noise, size, place, left, right):
    """Two points of mean p are the worst distributions: f meets its line in two points."""
    p = MEANS[place]
    points = np.array([left * p, p + right * (1 - p)])
    chance = (p - points[0]) / (points[1] - points[0]) if points[1] > points[0] else 0.0
    for a, b, c, cost in bets(noise, size)[..., place]:
        gain = np.exp(a * points**2 + b * points * (1 - points) + c * (1 - points) ** 2)
        assert (1 - chance) * gain[0] + chance * gain[1] <= 1 + 1e-9
        assert cost == pytest.approx(noise**2 * (a**2 + b**2 / 2 + c**2) / 2)


@settings(deadline=None, max_examples=50)
@given(dice, noises, sizes)
def test_a_band_holds_its_estimate(d, noise, size):
    squares, mixed, rest = sums_of(d)
    assert _low_end(squares, mixed, rest, noise, size) <= np.mean(d) + 1e-12
    band = bounded_mean(squares, mixed, rest, noise, size)
    assert band.value == pytest.approx(np.mean(d), abs=1e-12)
    assert 0 <= band.low <= band.value <= band.high <= 1


@settings(deadline=None, max_examples=30)
@given(st.sampled_from([1, 10, 60, 1000]), st.floats(0, 1))
def test_more_noise_makes_a_band_wider(n, share):
    """Of coins, for which the first bet is made; ends are on a grid, and may jump by one step."""
    coins = sums_of(np.arange(n) < share * n)
    bands = [bounded_mean(*coins, noise=noise, size=n) for noise in (0.0, 0.3, 1.0, 3.0, 10.0)]
    widths = [band.high - band.low for band in bands]
    assert (np.diff(widths) >= -(MEANS[1] - MEANS[0])).all()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("n", [30, 1000])
def test_without_noise_the_first_bet_is_chernoffs_bound(n, share):
    """All p with n KL(share, p) < log 40 are left, to a step of p and the grid of stakes."""
    a, b, c, cost = bets(0.0, float(n))[0]
    squares, mixed, rest = n * share, 0.0, n * (1 - share)  # as many coins
    kept = MEANS[a * squares + b * mixed + c * rest - cost < np.log(40)]

    def excess(p):
        return n * (rel_entr(share, p) + rel_entr(1 - share, 1 - p)) - np.log(40)

    exact = brentq(excess, 1e-12, share)
    assert exact - 1 / MEANS.size <= kept.min() + 1e-3 <= exact + 2 / MEANS.size + 1e-3


@pytest.mark.parametrize("declared", [0.3, 1, 4])
@pytest.mark.parametrize(("n", "failures", "noise"), [(30, 0.05, 0.5), (60, 0.1, 0.5), (60, 0, 4)])
def test_bands_hold_where_scans_fail(n, failures, noise, declared):
    """Normal bands miss 7 to 14 % here; `benchmarks.dice_coverage` has more cells."""
    rng, runs = np.random.default_rng(5), 1000
    d = np.where(rng.uniform(size=(runs, n)) < failures, 0.0, rng.beta(31.5, 3.5, (runs, n)))
    scale = noise * np.array([[1.0], [0.5**0.5], [1.0]])
    sums = np.stack(sums_of(d)) + scale * rng.standard_normal((3, runs))
    band = bounded_mean(*sums, noise=noise, size=declared * n)
    outside = (band.low > 0.9 * (1 - failures)) | (band.high < 0.9 * (1 - failures))
    assert outside.mean() < 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5
    assert np.median(band.high - band.low) < 0.6


def test_scores_that_hardly_differ_have_narrow_bands():
    """Squares pay: of coins of this mean the band is twice as wide."""
    alike, coins = sums_of(np.full(500, 0.85)), sums_of(np.repeat([1.0, 0.0], [425, 75]))
    widths = [
        band.high - band.low for sums in (alike, coins) for band in [bounded_mean(*sums, 1.0, 500)]
    ]
    assert 2 * widths[0] < widths[1]
