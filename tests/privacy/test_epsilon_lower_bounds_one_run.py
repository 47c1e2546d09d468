"""The one-run audit: the paper's formula, its printed value, and how often it may be wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.errors import InvalidArgument
from tacit.privacy import one_run_epsilon, one_run_p_value


def by_the_paper(canaries, guesses, right, epsilon, delta):
    """Theorem 5.2 of Steinke, Nasr and Jagielski 2023, term by term."""
    chance = 1 / (1 + math.exp(-epsilon))
    pmf = [float(stats.binom.pmf(k, guesses, chance)) for k in range(guesses + 1)]
    tail = math.fsum(pmf[right:])
    slopes = [math.fsum(pmf[right - i : right]) / i for i in range(1, right + 1)]
    return min(1.0, tail + 2 * canaries * delta * max(slopes, default=0.0))


COUNTS = st.tuples(st.integers(1, 60), st.floats(0, 1), st.floats(0, 1)).map(
    lambda drawn: (
        drawn[0],
        max(1, round(drawn[0] * drawn[1])),
        round(max(1, round(drawn[0] * drawn[1])) * drawn[2]),
    )
)


@settings(max_examples=100, deadline=None)
@given(counts=COUNTS, epsilon=st.floats(0, 12), share=st.floats(0, 0.99))
def test_agrees_with_the_paper(counts, epsilon, share):
    delta = share / (2 * counts[0])
    ours = one_run_p_value(*counts, epsilon, delta)
    assert ours == pytest.approx(by_the_paper(*counts, epsilon, delta), rel=1e-9, abs=1e-13)


@settings(max_examples=60, deadline=None)
@given(counts=COUNTS, share=st.floats(0, 0.99), error=st.floats(1e-6, 0.5))
def test_the_bound_is_where_the_p_value_crosses(counts, share, error):
    delta = share / (2 * counts[0])
    found = one_run_epsilon(*counts, delta, error)
    assert one_run_p_value(*counts, found + 1e-9, delta) >= error * (1 - 1e-6)
    if found > 0:
        assert one_run_p_value(*counts, found * (1 - 1e-9), delta) < error


@settings(max_examples=60, deadline=None)
@given(counts=COUNTS, share=st.floats(0, 0.99), epsilon=st.floats(0, 8), step=st.floats(0, 2))
def test_a_weaker_claim_is_never_less_plausible(counts, share, epsilon, step):
    delta = share / (2 * counts[0])
    less = one_run_p_value(*counts, epsilon, delta)
    assert one_run_p_value(*counts, epsilon + step, delta) >= less - 1e-12


def test_the_value_printed_in_the_paper():
    """Appendix D: 1000 canaries, 75 of 100 guesses right, delta 1e-4, 95 % confidence."""
    assert one_run_epsilon(1000, 100, 75, 1e-4, 0.05) == pytest.approx(0.673, abs=5e-4)


def test_all_right_proves_what_the_number_of_guesses_allows():
    chance = 0.05 ** (1 / 50)
    expected = math.log(chance / (1 - chance))
    assert one_run_epsilon(50, 50, 50, 0.0, 0.05) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("right", [0, 10, 20])
def test_guesses_no_better_than_coins_prove_nothing(right):
    assert one_run_epsilon(40, 40, right, 1e-5, 0.05) == 0.0


EPSILON, CANARIES, REVEALED, DELTA = 1.0, 100, 25, 2e-3
"""With probability CANARIES DELTA/REVEALED so many coins are shown; each with probability DELTA."""


def exactly(right: int) -> float:
    """P(at least so many right) of randomised response that sometimes shows some coins."""
    chance = 1 / (1 + math.exp(-EPSILON))
    shown = CANARIES * DELTA / REVEALED
    plain = stats.binom.sf(right - 1, CANARIES, chance)
    helped = stats.binom.sf(right - REVEALED - 1, CANARIES - REVEALED, chance)
    return float((1 - shown) * plain + shown * helped)


def test_the_delta_term_covers_the_worst_mechanism_and_is_needed():
    exact = [exactly(right) for right in range(CANARIES + 1)]
    with_delta = [
        one_run_p_value(CANARIES, CANARIES, right, EPSILON, DELTA) for right in range(CANARIES + 1)
    ]
    without = [
        one_run_p_value(CANARIES, CANARIES, right, EPSILON, 0.0) for right in range(CANARIES + 1)
    ]
    assert all(p <= bound + 1e-12 for p, bound in zip(exact, with_delta, strict=True))
    assert any(p > 1.5 * bound for p, bound in zip(exact, without, strict=True))


def test_it_is_wrong_no_more_often_than_it_says():
    """Simulated: the worst mechanism for (epsilon, delta), guessed as well as possible."""
    random, runs, error = np.random.default_rng(6), 4000, 0.05
    chance = 1 / (1 + math.exp(-EPSILON))
    shown = REVEALED * (random.random(runs) < CANARIES * DELTA / REVEALED)
    right = shown + random.binomial(CANARIES - shown, chance)
    found = {int(v): one_run_epsilon(CANARIES, CANARIES, int(v), DELTA, error) for v in set(right)}
    wrong = sum(found[int(v)] > EPSILON for v in right)
    assert stats.binom.sf(wrong - 1, runs, error) > 1e-6
    assert max(found.values()) > 0.5  # and it does prove something


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 11, 5, 0.0, 0.05), "guesses=11 to be at most canaries=10"),
        ((10, 5, 6, 0.0, 0.05), "right=6 to be at most guesses=5"),
        ((10, 5, -1, 0.0, 0.05), "right=-1"),
        ((0, 0, 0, 0.0, 0.05), "canaries=0"),
        ((10, 5, 5, 0.05, 0.05), "delta=0.05 to be below"),
        ((10, 5, 5, -0.1, 0.05), "delta=-0.1"),
        ((10, 5, 5, 0.0, 1.0), "confidence_delta=1.0"),
    ],
)
def test_impossible_counts_are_refused(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        one_run_epsilon(*arguments)
