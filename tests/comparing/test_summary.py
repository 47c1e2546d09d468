"""The words of a comparison: no method is praised beyond what was measured."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from compare_shared import DONE
from hypothesis import given
from hypothesis import strategies as st

from tacit.comparing import Comparison
from tacit.comparing.cells import Cell
from tacit.comparing.summary import (
    Description,
    advice,
    learned_nothing,
    recommended,
    standard_error,
)


def comparison_of(
    scores: dict[tuple[str, float | None], list[float]], rows: int = 10_000
) -> Comparison:
    """A comparison of given accuracies; a method's CPU-seconds are its name's length."""
    results = tuple(
        (
            Cell(method, epsilon, 1e-5, seed, "task", ""),
            replace(DONE, accuracy=score, cpu=float(len(method))),
        )
        for (method, epsilon), found in scores.items()
        for seed, score in enumerate(found)
    )
    about = Description("made", "split", 1e-5, "numbers", rows, {}, {}, ("non-private", "majority"))
    return Comparison(about, results)


FLOOR = {("majority", None): [0.5], ("non-private", None): [0.97]}


class TestWords:
    def test_the_error_is_the_larger_of_two(self):
        scores = np.array([0.8, 0.9, 1.0])
        assert standard_error(scores, 10**9) == pytest.approx(0.1 / math.sqrt(3))
        assert standard_error(scores, 9) == pytest.approx(math.sqrt(0.09 / 9))
        assert standard_error(np.array([0.5]), 100) == pytest.approx(0.05)

    def test_equals_are_not_told_apart_and_a_much_quicker_one_is_named(self):
        result = comparison_of({("slow-one", 1.0): [0.91], ("one", 1.0): [0.909], **FLOOR})
        assert [row.method for row in result.tied(1.0)] == ["slow-one", "one"]
        assert recommended(result, 1.0).method == "slow-one"
        first = advice(result)[0]
        assert "not told apart from it: one 90.9 %" in first
        assert "one takes 3.0 CPU-s instead of 8.0" in first
        almost = comparison_of({("slow-one", 1.0): [0.91], ("quick", 1.0): [0.909], **FLOOR})
        assert "instead of" not in advice(almost)[0]

    def test_a_clear_winner_is_named_alone(self):
        result = comparison_of({("slow-one", 1.0): [0.95], ("quick", 1.0): [0.9], **FLOOR})
        assert recommended(result, 1.0).method == "slow-one"
        first = advice(result)[0]
        assert "slow-one, 95.0 %; next is quick, 90.0 %" in first

    def test_nothing_is_recommended_where_nothing_was_learned(self):
        result = comparison_of({("quick", 1.0): [0.504], **FLOOR})
        assert recommended(result, 1.0) is None
        assert learned_nothing(result, result.row("quick", 1.0))
        assert "no method was better" in advice(result)[0]
        assert any("No better than the most frequent label" in line for line in advice(result))

    def test_the_words_claim_no_more_than_was_measured(self):
        result = comparison_of({("quick", 1.0): [0.9], ("quick", 8.0): [0.97], **FLOOR})
        text = " ".join(advice(result))
        assert "from 8 on" in text
        assert "nothing about other data" in text
        assert "epsilon 2" not in text

    @given(scores=st.dictionaries(st.sampled_from("abcde"), st.floats(0, 1), min_size=1))
    def test_the_best_mean_is_always_among_the_equals(self, scores):
        result = comparison_of({(name, 1.0): [score] for name, score in scores.items()})
        tied = {row.method for row in result.tied(1.0)}
        best = max(scores.values())
        assert {name for name, score in scores.items() if score == best} <= tied
        for row in result.tied(1.0):
            assert best - row.accuracy <= 0.5 / math.sqrt(10_000) + 1e-12
