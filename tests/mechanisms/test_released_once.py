"""Exact sums: parts add up to the whole, up to the limit, in Python's integers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import InsecureNoise
from tacit.errors import InvalidArgument
from tacit.mechanisms import (
    Contributions,
    ExactSum,
    NoisySum,
    ScoredRecords,
    ScoreHistogram,
    unit_steps,
)
from tacit.mechanisms.released_once import A_RECORD, MOST_RECORDS
from tests.mechanisms.summary_cases import spoken

SIZE = NoisySum(1.0, 3, 2)
RNG = np.random.default_rng(5)
LEFT, RIGHT = RNG.normal(size=(40, 3)), RNG.normal(size=(40, 2))
WHOSE = RNG.integers(0, 12, size=40)


def of(rows: np.ndarray, *, people: bool) -> Contributions:
    return spoken(LEFT[rows], RIGHT[rows], WHOSE[rows] if people else None)


@pytest.mark.parametrize("people", [False, True])
@given(st.lists(st.integers(0, 4), min_size=12, max_size=12))
def test_parts_of_whole_units_add_up_to_the_whole(people, parts):
    """The division is by unit: person k, or record k modulo 12, is in part parts[k]."""
    owner = WHOSE if people else np.arange(40) % 12
    total = ExactSum(np.zeros((3, 2), dtype=np.int64), 0)
    for part in range(5):
        rows = np.flatnonzero(np.array(parts)[owner] == part)
        total = SIZE.added(of(rows, people=people)) + total
    whole = SIZE.added(of(np.arange(40), people=people))
    np.testing.assert_array_equal(total.steps, whole.steps)
    assert total.records == whole.records == 40


def test_many_people_at_once_are_each_bounded_as_if_alone():
    alone = sum(
        SIZE.added(of(np.flatnonzero(person == WHOSE), people=True)).steps for person in range(12)
    )
    np.testing.assert_array_equal(SIZE.added(of(np.arange(40), people=True)).steps, alone)


def test_a_sum_is_what_products_of_steps_add_up_to():
    left, right = unit_steps(LEFT, LEFT.shape), unit_steps(RIGHT, RIGHT.shape)
    expected = [
        [sum(int(a[i]) * int(b[j]) for a, b in zip(left, right, strict=True)) for j in range(2)]
        for i in range(3)
    ]
    assert SIZE.added(of(np.arange(40), people=False)).steps.tolist() == expected


class TestLimit:
    most = ExactSum(np.array([[MOST_RECORDS * A_RECORD]]), MOST_RECORDS)

    def test_the_largest_sum_does_not_wrap(self):
        noisy = NoisySum(2.0**-20, 1, 1).release(self.most, InsecureNoise(0))
        assert np.asarray(noisy.values).item() == pytest.approx(2.0**34)
        least = ExactSum(-self.most.steps, MOST_RECORDS)
        assert np.asarray(NoisySum(2.0**-20, 1, 1).release(least, InsecureNoise(0)).values) < 0

    def test_two_that_would_wrap_are_refused_before_they_are_added(self):
        with pytest.raises(InvalidArgument, match="2\\*\\*34"):
            self.most + ExactSum(np.array([[1]]), 1)

    @pytest.mark.parametrize("steps", [[[A_RECORD + 1]], [[-A_RECORD - 1]], [[-(2**63)]]])
    def test_a_sum_beyond_its_records_is_refused(self, steps):
        with pytest.raises(InvalidArgument, match="within their bound"):
            ExactSum(np.array(steps), 1)

    def test_other_types_and_shapes(self):
        with pytest.raises(InvalidArgument, match="int64"):
            ExactSum(np.ones((1, 1)), 1)
        with pytest.raises(InvalidArgument, match="one shape"):
            self.most + ExactSum(np.zeros((2, 1), dtype=np.int64), 0)
        with pytest.raises(InvalidArgument, match="Expected Contributions"):
            NoisySum(1.0, 2, 1).release(self.most, InsecureNoise(0))


def test_histograms_in_parts():
    table = ScoreHistogram(1.0, 2, 4)
    classes, bins = RNG.integers(-1, 3, size=40), RNG.integers(-1, 5, size=40)
    whole = table.added(ScoredRecords(classes, bins, WHOSE)).steps
    parts = [
        table.added(ScoredRecords(classes[some], bins[some], WHOSE[some]))
        for some in (WHOSE % 2 == 0, WHOSE % 2 == 1)
    ]
    np.testing.assert_array_equal((parts[1] + parts[0]).steps, whole)


def test_a_sum_shows_nothing_and_stays_where_it_is():
    assert repr(ExactSum(np.array([[7]]), 1)) == "ExactSum(secret)"
    with pytest.raises(TypeError, match="stay where they are"):
        pickle.dumps(ExactSum(np.array([[7]]), 1))
