"""Votes at prototypes: exact neighbours, each record's own; the table moves by 1 and no more."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InvalidArgument
from tacit.mechanisms import NoisySum
from tacit.neighbours import quantise
from tacit.summaries import compact_view, nearest_prototypes, one_hot, prototype_votes

STEPS = 2**14
ONE = STEPS**4


def table(near, labels, prototypes, classes, units=None):
    """The exact table, in squared steps."""
    owners = None if units is None else np.asarray(units)
    said = prototype_votes(
        np.asarray(near),
        np.asarray(labels),
        n_prototypes=prototypes,
        n_classes=classes,
        units=owners,
    )
    return NoisySum(1.0, prototypes, classes)._total(said)


def squared(steps) -> int:
    return sum(int(step) ** 2 for step in np.asarray(steps).ravel())


class TestNearest:
    def test_agrees_with_sorting_integers_in_python(self):
        random = np.random.default_rng(0)
        rows, places = random.normal(size=(60, 5)), random.normal(size=(17, 5))
        x, z = (quantise(part, 3.0).astype(int).tolist() for part in (rows, places))
        for row, found in zip(x, nearest_prototypes(rows, places, 4, radius=3.0), strict=True):
            gaps = [
                (sum((a - b) ** 2 for a, b in zip(row, p, strict=True)), j) for j, p in enumerate(z)
            ]
            assert found.tolist() == [j for _, j in sorted(gaps)[:4]]

    def test_ties_go_to_the_lower_number(self):
        assert nearest_prototypes([[0.0]], [[1.0], [-1.0], [1.0]], 2, radius=1.0).tolist() == [
            [0, 1]
        ]

    @given(st.integers(0, 2**32 - 1), st.integers(1, 30))
    @settings(max_examples=25)
    def test_a_record_decides_alone(self, seed, count):
        random = np.random.default_rng(seed)
        rows, places = random.normal(size=(count, 37)), random.normal(size=(11, 37))
        together = nearest_prototypes(rows, places, 3, radius=5.0)
        for place in range(count):
            alone = nearest_prototypes(rows[place : place + 1], places, 3, radius=5.0)
            assert alone.tolist() == together[place : place + 1].tolist()

    def test_blocks_change_nothing(self, monkeypatch):
        random = np.random.default_rng(1)
        rows, places = random.normal(size=(50, 3)), random.normal(size=(9, 3))
        whole = nearest_prototypes(rows, places, 2, radius=4.0)
        monkeypatch.setattr("tacit.summaries.prototypes._DISTANCES_AT_ONCE", 20)
        np.testing.assert_array_equal(nearest_prototypes(rows, places, 2, radius=4.0), whole)

    @pytest.mark.parametrize(
        ("features", "prototypes", "votes", "complaint"),
        [
            ([[0.0]], [[0.0]], 2, "votes"),
            ([[0.0]], [[0.0]], 0, "votes"),
            ([[0.0, 1.0]], [[0.0]], 1, "dimensions"),
            ([[np.nan]], [[0.0]], 1, "finite"),
            ([0.0], [[0.0]], 1, "features"),
        ],
    )
    def test_refusals(self, features, prototypes, votes, complaint):
        with pytest.raises(InvalidArgument, match=complaint):
            nearest_prototypes(features, prototypes, votes, radius=1.0)


class TestTinyExhaustive:
    """All data sets of at most three records; a record is two of three prototypes and a class."""

    RECORDS = tuple(
        (pair, label) for pair in itertools.combinations(range(3), 2) for label in range(2)
    )

    def of(self, records, units=None):
        near = np.array([pair for pair, _ in records], dtype=int).reshape(-1, 2)
        return table(near, np.array([label for _, label in records], dtype=int), 3, 2, units)

    def test_every_addition_moves_by_one_and_every_replacement_by_sqrt_two(self):
        longest = 0
        for size in range(3):
            for records in itertools.combinations_with_replacement(self.RECORDS, size):
                before = self.of(records)
                after = [self.of((*records, extra)) for extra in self.RECORDS]
                assert all(0.9998 * ONE < squared(more - before) <= ONE for more in after)
                gaps = [squared(a - b) for a, b in itertools.combinations(after, 2)]
                longest = max(longest, *gaps)
                assert max(gaps) <= 2 * ONE
        assert longest > 1.999 * ONE

    def test_every_person_moves_by_one(self):
        for theirs in itertools.combinations_with_replacement(self.RECORDS, 3):
            other = self.RECORDS[0]
            with_them = self.of((*theirs, other), ["p", "p", "p", "q"])
            without = self.of((other,), ["q"])
            assert 0.999 * ONE < squared(with_them - without) <= ONE

    def test_no_entry_is_negative(self):
        assert (self.of(self.RECORDS) >= 0).all()


class TestVotes:
    def test_weights_are_one_over_root_votes(self):
        votes = table([[0, 2, 3]], [1], 5, 2) / STEPS**2
        expected = np.zeros((5, 2))
        expected[[0, 2, 3], 1] = 3**-0.5
        np.testing.assert_allclose(votes, expected, atol=1e-4)

    def test_one_hot_may_be_centred(self):
        right = one_hot(np.array([1, 0]), 2, np.array([0.25, 0.75]))
        np.testing.assert_array_equal(right(np.array([1, 0])), [[0.75, -0.75], [-0.25, 0.25]])


def test_compact_view_keeps_distances_in_the_main_directions():
    random = np.random.default_rng(0)
    flat = random.normal(size=(30, 2)) @ random.normal(size=(2, 80))
    small = compact_view(flat, width=2)
    gaps = [np.linalg.norm(v[:, None] - v, axis=2) for v in (flat, small)]
    np.testing.assert_allclose(*gaps, atol=1e-9)
    assert compact_view(flat, width=80) is flat
