"""The rounded Gaussian is exact: chosen bits against mpmath, and its law by chi-square.

Statistical tests fail by chance with probability below 1e-9 each, those that must reject a mutant
too. The chi-square tests reject at
1e-12 (every cell expects at least 300 draws, so the approximation has three decades in hand); the
Kolmogorov tests use the Dvoretzky-Kiefer-Wolfowitz-Massart bound, which holds for every law.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from mpmath import libmp
from scipy.special import ndtri
from scipy.stats import chi2
from tapes import Tape

from tacit.errors import InvalidArgument
from tacit.noise import InsecureNoise, SecureNoise, exact, quantiles
from tacit.noise.quantiles import upper_quantiles

CONTEXT = mpmath.mp.clone()
CONTEXT.prec = 300

RATIOS = [(0.3, 1.0), (1.0, 1.0), (40.0, 1.0), (0.7, 0.1), (1.0, 2.0**-20), (3e7, 0.3)]
every_ratio = pytest.mark.parametrize(("sigma", "grid"), RATIOS)


def steps_of(tape: Tape, sigma: float, grid: float, count: int = 1) -> np.ndarray:
    return exact.rounded_steps(tape, np.asarray(sigma), grid, count)


def tail_of(x: mpmath.mpf) -> mpmath.mpf:
    """Q(x) for x >= 0 by the incomplete gamma function: not the function that the code uses."""
    return CONTEXT.gammainc(CONTEXT.mpf(1) / 2, x * x / 2, regularized=True) / 2


def boundary_tail(step: int, sigma: float, grid: float) -> mpmath.mpf:
    """The tail beyond the boundary between step and step + 1."""
    return tail_of(CONTEXT.mpf(2 * step + 1) * CONTEXT.mpf(grid) / (2 * CONTEXT.mpf(sigma)))


def oracle_step(tail: mpmath.mpf, sigma: float, grid: float) -> int:
    """The cell of a tail probability, by bisection over the boundaries."""
    low, high = -1, math.ceil(64 * sigma / grid) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tail < boundary_tail(middle, sigma, grid) else (low, middle)
    return high


def signed(magnitude: int, word: int) -> int:
    return -magnitude if word & 1 else magnitude


# --- chosen bits ----------------------------------------------------------------------------


@every_ratio
def test_random_words_give_the_step_that_mpmath_gives(sigma: float, grid: float) -> None:
    words = [int(word) for word in Tape()(40)]
    steps = steps_of(Tape(*words), sigma, grid, count=40)
    tails = [(CONTEXT.mpf(word >> 1) + 0.5) / 2**64 for word in words]
    expected = [signed(oracle_step(t, sigma, grid), w) for t, w in zip(tails, words, strict=True)]
    assert steps.tolist() == expected


@pytest.fixture
def refined(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the draws that take the slow path."""
    calls: list[int] = []
    original = exact._refined_step

    def counted(word: int, *rest: object) -> int:
        calls.append(word)
        return original(word, *rest)

    monkeypatch.setattr(exact, "_refined_step", counted)
    return calls


@every_ratio
def test_refinement_and_fast_path_agree_on_the_same_bits(
    sigma: float, grid: float, monkeypatch: pytest.MonkeyPatch, refined: list[int]
) -> None:
    words = [int(word) for word in Tape()(1500)]
    fast = steps_of(Tape(*words), sigma, grid, count=1500)
    assert len(refined) < 15, "the fast path must do nearly all of the work"
    refined.clear()
    monkeypatch.setattr(exact, "_SLACK", 1.0)
    slow = steps_of(Tape(*words), sigma, grid, count=1500)
    assert refined == words
    np.testing.assert_array_equal(fast, slow)


@every_ratio
@pytest.mark.parametrize("extra", [0, 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("word", [0, 1, 2, 3, 4, 1000, 2**20 + 1, 2**44, 2**45 - 1, 2**45])
def test_deep_tails(sigma: float, grid: float, word: int, extra: int) -> None:
    """Words near zero are Gaussians of 5 to 13 sigma; the third word is 2^63 where it is needed."""
    tape = Tape(word, extra, 2**63)
    (step,) = steps_of(tape, sigma, grid).tolist()
    tail = CONTEXT.mpf(((word >> 1) << 128) + (extra << 64) + 2**63) / CONTEXT.mpf(2) ** 192
    assert step == signed(oracle_step(tail, sigma, grid), word)
    assert tape.read <= 3


def test_a_run_of_zero_words_is_followed_as_far_as_it_goes() -> None:
    """After 256 zero bits the Gaussian lies beyond 18 sigma: no table or cut-off stops it."""
    (step,) = steps_of(Tape(0, 0, 0, 0, 12345), 40.0, 1.0).tolist()
    assert step == oracle_step(CONTEXT.mpf(12345.5) / CONTEXT.mpf(2) ** 320, 40.0, 1.0)
    assert step > 18 * 40


def test_words_next_to_one_half_are_zero_noise() -> None:
    assert steps_of(Tape(2**64 - 1, 2**64 - 2), 40.0, 1.0, count=2).tolist() == [0, 0]


def boundary_steps(sigma: float, grid: float) -> list[int]:
    """The innermost cells and some out to 4.7 sigma and beyond, where the fast path ends."""
    ratio = sigma / grid
    return sorted({0, 1, 2, *(round(ratio * z) for z in (0.5, 1.1, 1.5, 3.1, 4.7, 5.5, 8.0))})


def digits_of(value: mpmath.mpf) -> tuple[int, int, int]:
    """The first three 64-bit digits of a number below one."""
    number = int(CONTEXT.floor(value * CONTEXT.mpf(2) ** 192))
    return number >> 128, (number >> 64) % 2**64, number % 2**64


@every_ratio
@pytest.mark.parametrize("sign", [0, 1])
def test_a_word_on_a_boundary_is_decided_by_the_next_words(
    sigma: float, grid: float, sign: int
) -> None:
    """The words continue one uniform: a fresh draw in place of it would decide at random."""
    decided = 0
    for step in boundary_steps(sigma, grid):
        first, second, third = digits_of(boundary_tail(step, sigma, grid))
        if first == 0:
            continue
        word = 2 * first + sign
        inner, outer = signed(step, sign), signed(step + 1, sign)
        assert steps_of(Tape(word, second - 1), sigma, grid).tolist() == [outer]
        assert steps_of(Tape(word, second + 1), sigma, grid).tolist() == [inner]
        tape = Tape(word, second, third - 2**40)
        assert steps_of(tape, sigma, grid).tolist() == [outer]
        assert tape.read == 3
        assert steps_of(Tape(word, second, third + 2**40), sigma, grid).tolist() == [inner]
        decided += 1
    assert decided >= 3


@every_ratio
def test_no_word_near_a_boundary_is_certified_wrongly(sigma: float, grid: float) -> None:
    offsets = np.unique(np.concatenate([[1, 2, 3], np.logspace(0.7, 15, 60)]).astype(np.int64))
    tried = 0
    for step in boundary_steps(sigma, grid):
        first, _, _ = digits_of(boundary_tail(step, sigma, grid))
        near = offsets[offsets < min(first, 2**63 - first) / 1000]
        # The offsets stay within the two cells that meet at this boundary.
        width = boundary_tail(step, sigma, grid) - boundary_tail(step + 1, sigma, grid)
        near = near[near < float(width) * 2.0**63]
        if not near.size:
            continue
        tried += near.size
        outer = steps_of(Tape(*(2 * (first - int(e)) for e in near)), sigma, grid, len(near))
        inner = steps_of(Tape(*(2 * (first + int(e)) for e in near)), sigma, grid, len(near))
        assert set(outer.tolist()) == {step + 1}
        assert set(inner.tolist()) == {step}
    assert tried > 100


def test_a_boundary_closer_than_the_slack_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tail 5 / 2^64 .. 6 / 2^64 against boundaries next to its ends, in units of 2^-128."""
    slack = 2**20
    for offset, below, beyond in [(0, 0, 0), (slack - 1, 0, 0), (1 - slack, 0, 0), (slack, 0, 1)]:
        monkeypatch.setattr(exact, "_scaled_tail", lambda *_, at=(6 << 64) + offset: at)
        assert exact._compare(5, 64, 1, 1.0, 1.0) == beyond
        monkeypatch.setattr(exact, "_scaled_tail", lambda *_, at=(5 << 64) + offset: at)
        assert exact._compare(5, 64, 1, 1.0, 1.0) == below
    monkeypatch.setattr(exact, "_scaled_tail", lambda *_: (5 << 64) - slack)
    assert exact._compare(5, 64, 1, 1.0, 1.0) == -1


# --- the bounds that the argument rests on --------------------------------------------------


def error_of(quantile: float, tail: float) -> float:
    """One Newton step from a quantile that is right to 40 bits gives its error to 40 bits."""
    with CONTEXT.workprec(150):
        x = CONTEXT.mpf(quantile)
        return float((tail_of(x) - CONTEXT.mpf(tail)) / CONTEXT.npdf(x))


def test_ndtri_at_the_nodes_is_better_than_the_bound_that_is_used() -> None:
    """The argument allows a relative error of 2^-46; measured, it must stay below 1/4 of that."""
    tails = np.concatenate(
        [
            np.geomspace(2.0**-20, 0.5, 400, endpoint=False),
            0.5 - np.geomspace(2.0**-53, 0.49, 200),
            math.exp(-2.0) + np.linspace(-1e-6, 1e-6, 50),
        ]
    )
    pairs = zip(tails.tolist(), (-ndtri(tails)).tolist(), strict=True)
    assert max(abs(error_of(z, tail)) / z for tail, z in pairs) < 2.0**-48


@pytest.mark.arithmetic
def test_quantiles_of_the_table_are_better_than_the_bound_that_is_used() -> None:
    """The argument allows 4.2 x 2^-44; measured at ends, middles and anywhere, half of it."""
    rng = np.random.default_rng(0)
    shift = quantiles.SHIFT
    first, last = (np.array([2.0**-20, 0.5]).view(np.int64) >> shift).tolist()
    cells = rng.integers(first, last, 150) << shift
    inside = rng.integers(0, 2**shift, 150)
    bits = np.concatenate([cells, cells + 2**shift - 1, cells + 2 ** (shift - 1), cells + inside])
    tails = np.concatenate([bits.view(np.float64), [2.0**-20, 0.5 - 2.0**-54, 0.5]])
    pairs = zip(tails.tolist(), upper_quantiles(tails).tolist(), strict=True)
    assert max(abs(error_of(z, tail)) for tail, z in pairs) < 2.1 * 2.0**-44


def test_quantiles_below_the_table_are_finite() -> None:
    assert np.isfinite(upper_quantiles(np.array([0.0, 2.0**-64, 2.0**-21]))).all()


def test_erfc_of_mpmath_is_far_better_than_the_slack_that_is_used() -> None:
    """The argument allows 2^20 units in the last place; measured, 2^4 must do."""
    for precision in (128, 192, 256):
        for x in (1e-6, 0.01, 0.3, 1.0, 2.5, 3.7, 5.0, 6.6, 8.9, 12.0, 20.0, 500.0):
            value = CONTEXT.make_mpf(libmp.mpf_erfc(libmp.from_float(x), precision))
            true = 2 * tail_of(CONTEXT.mpf(x) * CONTEXT.sqrt(2))
            assert abs(value / true - 1) < CONTEXT.mpf(2) ** (4 - precision)


# --- the law --------------------------------------------------------------------------------


def cell_probabilities(sigma: float, grid: float, count: int) -> np.ndarray:
    """P(-last..last), the end cells with the tails beyond them; each expects 300 of count draws."""
    beyond = [0.5, float(boundary_tail(0, sigma, grid))]
    while count * (beyond[-2] - beyond[-1]) > 300 or len(beyond) == 2:
        beyond.append(float(boundary_tail(len(beyond) - 1, sigma, grid)))
    cells = -np.diff(beyond[1:-2])
    return np.array([beyond[-3], *cells[::-1], 1 - 2 * beyond[1], *cells, beyond[-3]])


def chi_square_p_value(steps: np.ndarray, sigma: float, grid: float) -> float:
    expected = steps.size * cell_probabilities(sigma, grid, steps.size)
    assert expected.min() > 300
    assert math.isclose(expected.sum(), steps.size)
    last = expected.size // 2
    observed = np.bincount(np.clip(steps, -last, last) + last, minlength=expected.size)
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), 2 * last))


def sample_size(ratio: float) -> int:
    """More cells need more draws to show the same mutant."""
    return 300_000 if ratio < 10 else 5_000_000


@pytest.mark.parametrize(
    ("sigma", "grid"), [(0.3, 1.0), (1.0, 1.0), (40.0, 1.0), (2.5, 0.5), (0.7, 0.1)]
)
def test_chi_square_of_every_cell(sigma: float, grid: float) -> None:
    steps = SecureNoise().rounded_gaussian_steps(sigma, grid, sample_size(sigma / grid))
    assert chi_square_p_value(steps, sigma, grid) > 1e-12


def gaussians(sigma: float) -> np.ndarray:
    return SecureNoise().gaussian(sigma, sample_size(sigma))


MUTANTS: dict[str, Callable[[float], np.ndarray]] = {
    "truncated": lambda sigma: np.trunc(gaussians(sigma)),
    "floored": lambda sigma: np.floor(gaussians(sigma)),
    "half to even": lambda sigma: np.rint(np.rint(2 * gaussians(sigma)) / 2),
    "sigma / sqrt 2": lambda sigma: np.rint(gaussians(sigma / math.sqrt(2))),
    "sigma + 4 %": lambda sigma: np.rint(gaussians(sigma * 1.04)),
    "one-sided": lambda sigma: np.abs(np.rint(gaussians(sigma))),
    "shifted": lambda sigma: np.rint(gaussians(sigma) + 0.05 * sigma),
}


@pytest.mark.parametrize("sigma", [0.7, 1.0, 40.0])
@pytest.mark.parametrize("mutant", MUTANTS)
def test_chi_square_rejects_mutants(mutant: str, sigma: float) -> None:
    steps = MUTANTS[mutant](sigma).astype(np.int64)
    assert chi_square_p_value(steps, sigma, 1.0) < 1e-12


def test_chi_square_rejects_a_wrong_quantile_in_the_code_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def narrow(tails: np.ndarray) -> np.ndarray:
        return upper_quantiles(tails) / math.sqrt(2)

    monkeypatch.setattr(exact, "upper_quantiles", narrow)
    steps = SecureNoise().rounded_gaussian_steps(40.0, 1.0, 300_000)
    assert chi_square_p_value(steps, 40.0, 1.0) < 1e-12


def kolmogorov_distance(steps: np.ndarray, ratio: float) -> float:
    """The largest gap between the empirical and the true distribution function."""
    from scipy.special import ndtr

    values, counts = np.unique(steps, return_counts=True)
    after = np.cumsum(counts) / steps.size
    before = after - counts / steps.size
    above = np.abs(after - ndtr((values + 0.5) / ratio)).max()
    return float(max(above, np.abs(before - ndtr((values - 0.5) / ratio)).max()))


def massart_bound(count: int) -> float:
    """P(distance > bound) <= 2 exp(-2 count bound^2) = 1e-10."""
    return math.sqrt(math.log(2e10) / (2 * count))


@pytest.mark.parametrize("ratio", [2.0**-3, 0.3, 1.0, 40.0, 2.0**20, 2.0**30])
def test_steps_follow_the_distribution_function(ratio: float) -> None:
    steps = SecureNoise().rounded_gaussian_steps(ratio, 1.0, 200_000)
    assert kolmogorov_distance(steps, ratio) < massart_bound(steps.size)


def test_distribution_function_rejects_a_wrong_sigma() -> None:
    steps = SecureNoise().rounded_gaussian_steps(2.0**20, 1.0, 200_000)
    assert kolmogorov_distance(steps, 2.0**20 * 1.1) > massart_bound(steps.size)


def test_zero_noise_has_no_sign() -> None:
    """-0.0 would tell the sign of the Gaussian before it was rounded: steps are whole numbers."""
    draws = SecureNoise().rounded_gaussian_steps(0.5, 1.0, 2000)
    assert (draws == 0).any()
    assert draws.dtype == np.int64


# --- grids, blocks, limits ------------------------------------------------------------------


@pytest.mark.parametrize(("sigma", "grid"), [(40.0, 0.1), (1e6, 1 / 3), (2.0**39, 1 + 2.0**-20)])
def test_any_grid_will_do(sigma: float, grid: float) -> None:
    """Steps are counted, so float64 need not hold the multiples of the grid."""
    assert SecureNoise().rounded_gaussian_steps(sigma, grid, 3).shape == (3,)


@pytest.mark.parametrize("ratio", [2.0**41, 1e300, 2.0**-21, 1e-300])
def test_ratios_out_of_range_are_refused(ratio: float) -> None:
    for sigma in (ratio, np.array([1.0, ratio, 1.0])):
        with pytest.raises(InvalidArgument, match=r"Expected sigma=.*between 2\*\*-20 and 2\*\*40"):
            SecureNoise().rounded_gaussian_steps(sigma, 1.0, 3)


def test_the_ends_of_the_range_work() -> None:
    """At 2^40 everything is refined; at 2^-20 every draw is 0."""
    wide = SecureNoise().rounded_gaussian_steps(2.0**40, 1.0, 20)
    assert 2.0**20 < np.abs(wide).max() < 2.0**46
    assert not SecureNoise().rounded_gaussian_steps(2.0**-20, 1.0, 2000).any()


def test_extreme_scales_do_not_overflow() -> None:
    for unit in (2.0**-1060, 2.0**1000):
        draws = SecureNoise().rounded_gaussian_steps(40 * unit, unit, 200)
        assert 10 < np.abs(draws).max() < 40 * 64
    assert np.abs(SecureNoise().rounded_gaussian_steps(2.0**1020, 2.0**1000, 20)).max() > 2.0**10


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = InsecureNoise(9).rounded_gaussian_steps(40.0, 1.0, 1000)
    monkeypatch.setattr(exact, "_BLOCK", 7)
    np.testing.assert_array_equal(InsecureNoise(9).rounded_gaussian_steps(40.0, 1.0, 1000), whole)


def test_per_coordinate_sigmas_give_each_its_own_law() -> None:
    sigma = np.array([0.7, 1.0, 40.0])
    steps = SecureNoise().rounded_gaussian_steps(sigma, 1.0, (200_000, 3))
    for column, ratio in zip(steps.T, sigma.tolist(), strict=True):
        assert chi_square_p_value(column, ratio, 1.0) > 1e-12
