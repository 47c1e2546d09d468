"""Score histograms: one count a record, one a person, exact tables, audits and their mutants."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from audits import TRIALS, proved, secure_noise
from hypothesis import given
from hypothesis import strategies as st
from mutants import mutated, seeded_noise, weak_noise

from tacit import Budget, Ledger, Plan
from tacit.errors import GrantError, InvalidArgument, UnlicensedNoise
from tacit.mechanisms import ScoredRecords, ScoreHistogram, assumptions, score_bins
from tacit.noise import InsecureNoise, SecureNoise

DELTA = 0.1
ONE = 2**28
SMALL = ScoreHistogram(1.0, 2, 3)


def scored(classes, bins, units=None):
    owners = None if units is None else np.array(units)
    return ScoredRecords(np.array(classes, dtype=int), np.array(bins, dtype=int), owners)


cells = st.lists(st.tuples(st.integers(-2, 3), st.integers(-2, 4), st.integers(0, 3)), max_size=12)


class TestTable:
    def test_counts_are_exact(self):
        said = scored([0, 0, 1, 1, 1], [0, 0, 2, 2, 1])
        assert (SMALL._total(said) // ONE).tolist() == [[2, 0, 0], [0, 1, 2]]

    @given(cells)
    def test_adding_a_person_moves_it_by_at_most_one(self, rows):
        """Whoever it is, with however many records, in and out of the table."""
        classes, bins, people = (
            (list(part) for part in zip(*rows, strict=True)) if rows else [[]] * 3
        )
        everybody = SMALL._total(scored(classes, bins, people))
        for person in set(people):
            others = [row for row in rows if row[2] != person]
            parts = zip(*others, strict=True) if others else [[]] * 3
            moved = everybody - SMALL._total(scored(*(list(part) for part in parts)))
            assert (moved >= 0).all()
            assert int(moved.sum()) <= ONE
            assert sum(int(step) ** 2 for step in moved.ravel()) <= ONE**2

    @given(cells)
    def test_a_record_moves_one_cell_by_one_or_nothing(self, rows):
        classes, bins = ([row[part] for row in rows] for part in (0, 1))
        moved = SMALL._total(scored([*classes, 1], [*bins, 2])) - SMALL._total(
            scored(classes, bins)
        )
        assert moved.ravel().tolist() == [0, 0, 0, 0, 0, ONE]

    def test_seven_records_of_one_person_share_one_count(self):
        total = SMALL._total(scored([0] * 7, [0, 1, 2, 0, 1, 2, 0], ["p"] * 7))
        assert ONE - 7 < total.sum() <= ONE

    def test_what_is_outside_the_table_counts_nowhere(self):
        assert not SMALL._total(scored([0, 2, -1, 0], [-1, 0, 0, 3])).any()


class TestBins:
    def test_an_edge_belongs_to_the_bin_above(self):
        assert score_bins([0.0, 0.5, 1.0, math.inf, -math.inf], [0.5, 1.0]).tolist() == [
            0,
            1,
            2,
            2,
            0,
        ]

    def test_nan_has_no_bin(self):
        assert score_bins([math.nan], [0.5]).tolist() == [-1]

    @pytest.mark.parametrize("edges", [[1.0, 1.0], [2.0, 1.0], [[0.0]], [math.nan]])
    def test_edges_that_do_not_rise_are_refused(self, edges):
        with pytest.raises(InvalidArgument, match="edges"):
            score_bins([0.5], edges)


class TestRelease:
    def test_price_is_that_of_norm_one(self):
        assert Plan(ScoreHistogram(9.0, 2, 50), 1).mu_squared() == pytest.approx(1 / 81)

    def test_noise_has_the_deviation_it_was_priced_for(self):
        values = ScoreHistogram(5.0, 40, 50).release(scored([], []), InsecureNoise(0)).values
        assert values.std() == pytest.approx(5.0, rel=0.05)  # 2000 draws: 3 deviations
        np.testing.assert_array_equal(values * ONE, np.round(values * ONE))

    def test_only_a_grant_opens_it(self, tmp_path):
        said = scored([0], [0])
        with pytest.raises(UnlicensedNoise):
            SMALL.release(said, SecureNoise())
        ledger = Ledger(tmp_path / "a.ledger", budget=Budget(9.0, 1e-5))
        with ledger.release(Plan(SMALL, 1), purpose="score") as grant:
            assert grant.release(said).values.shape == (2, 3)
        assert "scored by itself" in str(ledger.statement())

    @pytest.mark.parametrize("answers", [None, np.ones((2, 3)), "votes"])
    def test_other_answers_are_refused(self, answers, tmp_path):
        ledger = Ledger(tmp_path / "a.ledger", budget=Budget(9.0, 1e-5))
        with ledger.release(Plan(SMALL, 1), purpose="x") as grant, pytest.raises(GrantError):
            grant.release(answers)

    def test_the_statement_says_what_is_assumed(self):
        assert "edges of the bins" in assumptions([{"mechanism": "score-histogram"}])[0]

    def test_records_stay_and_show_nothing(self):
        said = scored([0], [77123])
        assert repr(said) == "ScoredRecords(secret)"
        with pytest.raises(TypeError, match="stay where they are"):
            pickle.dumps(said)


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [({"sigma": 0.0}, "sigma"), ({"classes": 0}, "classes"), ({"bins": 2**20}, "bins")],
    )
    def test_bad_mechanisms(self, changes, complaint):
        with pytest.raises(InvalidArgument, match=complaint):
            ScoreHistogram(**{"sigma": 1.0, "classes": 2, "bins": 2, **changes})

    @pytest.mark.parametrize(
        ("parts", "complaint"),
        [
            (([0.5], [1]), "whole numbers"),
            (([0], [1, 2]), "one class and one bin"),
            (([0], [1], np.array(["a", "b"])), "units"),
            (([0], [1], np.array([math.nan])), "units to be integers"),
        ],
    )
    def test_bad_records(self, parts, complaint):
        classes, bins, *units = parts
        with pytest.raises(InvalidArgument, match=complaint):
            ScoredRecords(np.array(classes), np.array(bins), *units)


class EachRecordWhole(ScoreHistogram):
    """Counts every record of a person as one."""

    __slots__ = ()

    def _total(self, said):
        return super()._total(ScoredRecords(said.classes, said.bins))


class OneNoiseForAll(ScoreHistogram):
    """Draws one number and adds it to every cell: differences of cells are exact."""

    __slots__ = ()

    def _draw(self, total, noise, copies):
        shared = noise.rounded_gaussian_steps(self.sigma, 2.0**-28, (copies, 1, 1))
        return (shared + total) * 2.0**-28


class TestAudit:
    """A million tables with a person of four records and without; mistakes must be found."""

    PERSON = scored([0] * 5, [0] * 5, ["p", "p", "p", "p", "q"])
    NOBODY = scored([0], [0], ["q"])
    MECHANISM = ScoreHistogram(1.0, 1, 2)

    def finds(self, direction=(1.0, 0.0), mechanism=None, noise=None):
        subject = mechanism or self.MECHANISM
        draws = noise or (secure_noise(), secure_noise())
        outputs = [
            subject._draws(said, source, TRIALS).reshape(TRIALS, -1)
            for said, source in zip((self.PERSON, self.NOBODY), draws, strict=True)
        ]
        limit = 1.5 + self.claim()  # q's own count, and sigma 1
        return proved(*outputs, (lambda values: values @ direction >= limit,), DELTA)

    def claim(self):
        return Plan(self.MECHANISM, 1).epsilon(DELTA)

    def test_the_claim_stands_and_the_audit_is_sharp(self):
        assert 0.85 * self.claim() < self.finds() <= self.claim()

    def test_noise_too_small_by_sqrt_2_is_caught(self):
        assert self.finds(noise=weak_noise()) > self.claim()

    def test_a_person_counted_once_a_record_is_caught(self):
        mutant = mutated(self.MECHANISM, EachRecordWhole)
        assert self.finds(mechanism=mutant, noise=seeded_noise()) > self.claim()

    def test_shared_noise_is_caught(self):
        mutant = mutated(self.MECHANISM, OneNoiseForAll)
        with_p, without = (
            mutant._draws(said, noise, 1000).reshape(1000, -1)
            for said, noise in zip((self.PERSON, self.NOBODY), seeded_noise(), strict=True)
        )
        gaps = [values[:, 0] - values[:, 1] for values in (with_p, without)]
        event = (lambda values: values[:, 0] - values[:, 1] > 1.5,)
        assert [set(gap.round(6)) for gap in gaps] == [{2.0}, {1.0}]
        assert proved(with_p, without, event, DELTA) > self.claim()


@pytest.mark.parametrize("kind", [np.uint8, np.uint64, np.int8])
def test_whole_numbers_of_any_type_are_counted(kind):
    """What is accepted is released: nothing raises once it was paid for."""
    places = np.array([0, 1, 1], dtype=kind)
    found = ScoreHistogram(0.001, 2, 2).release(ScoredRecords(places, places), InsecureNoise(0))
    assert found.values.round().tolist() == [[1, 0], [0, 2]]
