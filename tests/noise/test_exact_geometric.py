"""Geometric skips are exact: chosen bits against rational arithmetic, and their law by chi-square.

Statistical tests fail by chance with probability below 1e-9 each, those that must reject a mutant
too; the chi-square tests reject at 1e-12, with at least 300 draws expected in every cell.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, chi2
from tapes import Tape

from tacit.noise import InsecureNoise, Noise, SecureNoise, exact

CONTEXT = mpmath.mp.clone()
CONTEXT.prec = 500

RATES = [0.5, 0.15, 0.05, 1e-3, 1 / 3, 0.999, 1 - 1e-12, 1 - 2.0**-53]
TINY = [1e-6, 1e-9, 1e-12, 2.0**-50, 2.0**-49 * (1 - 2.0**-53)]
every_rate = pytest.mark.parametrize("rate", RATES)
tiny_rates = pytest.mark.parametrize("rate", TINY)


def exact_skip(uniform: Fraction, rate: float) -> int:
    """The g with (1 - rate)^(g + 1) < uniform < (1 - rate)^g, in rational arithmetic."""
    failure, skip, power = 1 - Fraction(rate), 0, 1 - Fraction(rate)
    while uniform < power:
        skip, power = skip + 1, power * failure
    return skip


def skip_by_mpmath(uniform: Fraction, rate: float) -> int:
    """The same by logarithms of 500 bits, for skips that nobody can count up to."""
    log_uniform = CONTEXT.log(CONTEXT.mpf(uniform.numerator) / uniform.denominator)
    return int(CONTEXT.floor(log_uniform / CONTEXT.log1p(-CONTEXT.mpf(rate))))


# --- chosen bits ----------------------------------------------------------------------------


@every_rate
def test_random_words_give_the_skip_of_rational_arithmetic(rate: float) -> None:
    """The middle of the word's interval: it is certain whatever comes next, or not in 500 draws."""
    count = 500 if rate > 0.1 else 40 if rate > 0.01 else 3
    words = [int(word) | 2**55 for word in Tape()(count)]
    skips = exact.geometric(Tape(*words), rate, count)
    assert skips.tolist() == [exact_skip(Fraction(2 * w + 1, 2**65), rate) for w in words]


@tiny_rates
def test_random_words_at_tiny_rates(rate: float) -> None:
    """Each draw is refined with words of 2^63, so that the oracle knows all the bits."""
    for word in Tape()(30).tolist():
        (skip,) = exact.geometric(Tape(word, *[2**63, 0, 0, 0]), rate, 1).tolist()
        assert skip == skip_by_mpmath(Fraction(2 * word + 1, 2**65), rate)


@every_rate
@pytest.mark.parametrize("skip", [1, 2, 3, 7])
def test_a_boundary_is_decided_by_all_of_its_bits(rate: float, skip: int) -> None:
    """Words that agree with the first 128 bits of (1 - rate)^skip and fall below or above it."""
    boundary = (1 - Fraction(rate)) ** skip
    length = 3 + int(-math.log2(boundary)) // 64
    digits = int(boundary * 2 ** (64 * length))
    for near in (digits - 2, digits + 2):
        words = [(near >> 64 * place) % 2**64 for place in reversed(range(length))]
        tape = Tape(*words, 2**63)
        (found,) = exact.geometric(tape, rate, 1).tolist()
        assert found == exact_skip(Fraction(2 * near + 1, 2 ** (64 * length + 1)), rate)
        assert found == (skip if near < digits else skip - 1)
        if 2 < digits % 2**64 < 2**64 - 2:  # a boundary of fewer bits is decided sooner
            assert tape.read >= length


def test_a_uniform_number_is_refined_and_never_replaced() -> None:
    """For rate 1/2 the skip is the number of leading zero bits, however many words that takes."""
    for zeros in (1, 5, 63, 64, 65, 200):
        digits = 3 << (318 - zeros)
        words = [(digits >> shift) % 2**64 for shift in range(256, -1, -64)]
        assert exact.geometric(Tape(*words), 0.5, 1).tolist() == [zeros]


@pytest.mark.parametrize("rate", [*RATES[:6], 1e-6, 1e-9])
def test_refinement_and_fast_path_agree_on_the_same_bits(
    rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    refined: list[int] = []
    original = exact._refined_skip

    def counted(word: int, *rest: object) -> int:
        refined.append(word)
        return original(word, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(exact, "_refined_skip", counted)
    words = [int(word) for word in Tape()(1000)]
    fast = exact.geometric(Tape(*words), rate, 1000)
    assert len(refined) < 30, "the fast path must do nearly all of the work"
    refined.clear()
    monkeypatch.setattr(exact, "_SKIP_SLACK", 1e300)
    slow = exact.geometric(Tape(*words), rate, 1000)
    assert refined == words
    np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize("rate", [*RATES, *TINY])
@pytest.mark.parametrize("exponent", [1, 2, 3, 17, 300])
def test_power_bounds_enclose_the_power_tightly(rate: float, exponent: int) -> None:
    low, high, scale = exact._power_bounds(exponent, 64, rate)
    power = (1 - Fraction(rate)) ** exponent * 2**scale
    assert low <= power <= high
    assert high - low <= 4 * exponent


@tiny_rates
@pytest.mark.parametrize("exponent", [10**9, 2**40 + 12345, 2**55 + 1])
def test_power_bounds_enclose_huge_powers(rate: float, exponent: int) -> None:
    low, high, scale = exact._power_bounds(exponent, 64, rate)
    power = CONTEXT.exp(exponent * CONTEXT.log1p(-CONTEXT.mpf(rate))) * CONTEXT.mpf(2) ** scale
    assert low <= power <= high
    assert high - low <= 4 * exponent


def test_double_precision_is_far_better_than_the_allowance() -> None:
    """The proof allows log and log1p a relative error of 2^-46; 2^-50 is what is seen."""
    uniform = np.concatenate(
        [np.exp(-np.geomspace(1e-12, 13.9, 300)), 1 - 2.0 ** -np.arange(1, 53)]
    )
    pairs = [
        (x, y, CONTEXT.log(CONTEXT.mpf(x))) for x, y in zip(uniform, np.log(uniform), strict=True)
    ]
    pairs += [(r, math.log1p(-r), CONTEXT.log1p(-CONTEXT.mpf(r))) for r in RATES + TINY]
    assert max(abs((CONTEXT.mpf(found) - true) / true) for _, found, true in pairs) < 2.0**-50


# --- the law --------------------------------------------------------------------------------

both_sources = pytest.mark.parametrize("noise", [SecureNoise(), InsecureNoise(23)], ids=repr)


def p_value(skips: np.ndarray, rate: float) -> float:
    """Chi-square over the skips that are expected 300 times, and all larger ones together."""
    most = max(0, math.floor(math.log(300 / (skips.size * rate)) / math.log1p(-rate)))
    while skips.size * (1 - rate) ** (most + 1) < 300:
        most -= 1
    counts = np.bincount(np.minimum(skips, most + 1), minlength=most + 2)
    chances = (1 - rate) ** np.arange(most + 1) * rate
    expected = skips.size * np.append(chances, (1 - rate) ** (most + 1))
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), most + 1))


@both_sources
@pytest.mark.parametrize("rate", [0.9, 0.5, 0.15, 0.05])
def test_skips_follow_the_geometric_law(noise: Noise, rate: float) -> None:
    assert p_value(noise.geometric(rate, 200_000), rate) > 1e-12


@pytest.mark.parametrize("shift", [0.0, 0.02])
def test_the_chi_square_test_tells_a_wrong_law(shift: float) -> None:
    skips = SecureNoise().geometric(0.3 + shift, 200_000)
    assert (p_value(skips, 0.3) > 1e-12) == (shift == 0.0)
    assert p_value(skips + 1, 0.3) < 1e-12


@pytest.mark.parametrize("rate", [1e-6, 1e-12])
def test_tiny_rates_are_exponential(rate: float) -> None:
    """The Dvoretzky-Kiefer-Wolfowitz-Massart bound; at 1e-12 every draw is refined."""
    ordered = np.sort(SecureNoise().geometric(rate, 5000))
    true = -np.expm1((ordered + 1.0) * math.log1p(-rate))
    distance = np.abs(true - np.arange(1, 5001) / 5000).max()
    assert distance < math.sqrt(math.log(2e10) / 10_000) + 1 / 5000
    assert np.unique(ordered).size > 4900


def test_rates_near_one() -> None:
    assert SecureNoise().geometric(1 - 1e-12, 100_000).sum() <= 1
    assert exact.geometric(Tape(0, 2**63), 1 - 1e-12, 1).tolist() == [1]
    tape = Tape()
    assert exact.geometric(tape, 1.0, 1000).tolist() == [0] * 1000
    assert tape.read == 0


def test_a_walk_by_skips_is_a_poisson_sample() -> None:
    """How many of the first 40 take part is binomial, and so is each one's own part."""
    places = np.cumsum(SecureNoise().geometric(0.2, (50_000, 41)) + 1, axis=1) - 1
    row, column = np.nonzero(places < 40)
    taken = np.zeros((50_000, 40), dtype=bool)
    taken[row, places[row, column]] = True
    counts = np.bincount(taken.sum(axis=1), minlength=41)[2:16]
    expected = 50_000 * binom.pmf(np.arange(2, 16), 40, 0.2)
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), 13) > 1e-12
    each = taken.sum(axis=0)
    assert (binom.cdf(each, 50_000, 0.2) > 1e-11).all()
    assert (binom.sf(each, 50_000, 0.2) > 1e-11).all()
