"""Bernoulli bits are exact for every float64 probability: against rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tacit.noise import exact

PROBABILITIES = [
    0.5,
    0.1,
    1 / 3,
    0.999999999,
    1 - 2.0**-53,
    2.0**-11 * (1 - 2.0**-53),
    1e-5,
    3 * 2.0**-65,
    1e-30,
    2.0**-128,
    1.7e-40,
    1e-308,
    5e-324,
]


class Tape:
    """Chosen words; reading past the end is an error, so every word counts."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)

    def __call__(self, count: int) -> np.ndarray:
        assert count <= len(self.words), "more words were read than the oracle needs"
        taken, self.words = self.words[:count], self.words[count:]
        return np.array(taken, dtype=np.uint64)


def digits_of(probability: float) -> list[int]:
    """The 64-bit digits of a probability, all of them: a float64 has at most 17."""
    rest, digits = Fraction(probability), []
    while rest:
        rest *= 2**64
        digits.append(int(rest))
        rest -= digits[-1]
    return digits


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_a_bit_is_one_exactly_below_the_probability(probability: float) -> None:
    """Words that agree with the first digits of p and then fall below or above the next one."""
    digits = digits_of(probability)
    assert len(digits) <= 17
    for place, digit in enumerate(digits):
        for word in {max(digit - 1, 0), digit, min(digit + 1, 2**64 - 1)} - {digit}:
            tape = Tape(*digits[:place], word)
            uniform = sum(
                Fraction(w, 2 ** (64 * (i + 1))) for i, w in enumerate([*digits[:place], word])
            )
            assert exact.bernoulli(tape, probability, 1).tolist() == [
                uniform < Fraction(probability)
            ]
            assert not tape.words
    tape = Tape(*digits)
    assert exact.bernoulli(tape, probability, 1).tolist() == [False], "p itself is not below p"
    assert not tape.words


def test_only_undecided_words_are_refined() -> None:
    """p 2^64 = 1.5: a 0 is below, a 2 above, and each 1 reads a word of its own."""
    tape = Tape(0, 1, 2, 1, 2**63 - 1, 2**63)
    bits = exact.bernoulli(tape, 3 * 2.0**-65, 4)
    assert bits.tolist() == [True, True, False, False]
    assert not tape.words


def test_certain_and_impossible() -> None:
    worst = [0, 2**64 - 1] * 50
    assert exact.bernoulli(Tape(*worst), 1.0, 100).all()
    assert not exact.bernoulli(Tape(*worst), 0.0, 100).any()


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    words = np.random.default_rng(5).integers(0, 2**64, 1000, dtype=np.uint64)
    whole = exact.bernoulli(Tape(*words.tolist()), 0.3, 1000)
    monkeypatch.setattr(exact, "_BLOCK", 7)
    np.testing.assert_array_equal(exact.bernoulli(Tape(*words.tolist()), 0.3, 1000), whole)
    np.testing.assert_array_equal(whole, words / 2.0**64 < 0.3)
