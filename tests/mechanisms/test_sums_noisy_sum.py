"""`NoisySum`: the sum is exact, no unit moves it by more than 1, nothing leaves without a grant."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from priced import for_budget
from summary_cases import STEPS, matrix, plain_sum, spoken, squared_length

from tacit import Budget, BudgetExceeded, InsecureNoise, Ledger, SecureNoise
from tacit.errors import GrantError, InvalidArgument, UnlicensedNoise
from tacit.mechanisms import Contributions, NoisySum, Plan, assumptions, unit_steps
from tacit.privacy import gaussian_epsilon

ONE = STEPS**4  # (2^28)^2: the squared length of a contribution of norm 1
SIZE = NoisySum(1.0, 3, 2)


def total(said: Contributions, size: NoisySum = SIZE) -> np.ndarray:
    return size._total(said)


class TestSteps:
    @given(matrix(4, 3))
    def test_no_row_is_longer_than_one(self, rows):
        steps = unit_steps(rows, rows.shape)
        assert (steps == np.trunc(steps)).all()
        for row in steps:
            assert squared_length(row) <= STEPS**2

    @given(matrix(5, 3))
    def test_a_row_depends_on_itself_alone(self, rows):
        together = unit_steps(rows, rows.shape)
        fortran = unit_steps(np.asfortranarray(rows), rows.shape)
        np.testing.assert_array_equal(together, fortran)
        for place in range(5):
            alone = unit_steps(rows[place : place + 1], (1, 3))
            np.testing.assert_array_equal(alone[0], together[place])

    def test_what_is_short_is_only_rounded(self):
        rows = np.random.default_rng(0).normal(size=(50, 4)) / 9
        assert np.abs(unit_steps(rows, rows.shape) / STEPS - rows).max() <= 0.5 / STEPS

    @pytest.mark.parametrize("scale", [1.0001, 7.9, 8.1, 1e8, 1e300])
    def test_what_is_long_keeps_its_direction(self, scale):
        row = scale * np.array([[0.6, -0.8]])
        assert unit_steps(row, (1, 2)) / STEPS == pytest.approx(
            np.array([[0.6, -0.8]]), abs=2 / STEPS
        )

    def test_what_is_not_finite_says_nothing(self):
        rows = [[np.nan, 1.0], [np.inf, 0.0], [0.0, -np.inf]]
        assert not unit_steps(rows, (3, 2)).any()

    def test_wrong_shape_is_refused_without_quoting(self):
        with pytest.raises(InvalidArgument, match="shape") as caught:
            unit_steps([[77123.5, 0.0]], (1, 3))
        assert "77123" not in str(caught.value)


class TestSum:
    def test_is_exact(self):
        random = np.random.default_rng(1)
        left, right = random.normal(size=(40, 3)) / 6, random.normal(size=(40, 2)) / 6
        expected = plain_sum(left.tolist(), right.tolist())
        assert total(spoken(left, right)).tolist() == [[int(x) for x in row] for row in expected]

    @given(st.permutations(range(6)), st.integers(1, 6))
    @settings(max_examples=30)
    def test_does_not_depend_on_order_or_blocks(self, order, cut):
        random = np.random.default_rng(2)
        left, right = random.normal(size=(6, 3)), random.normal(size=(6, 2))
        whole = total(spoken(left, right))
        order = np.array(order)
        np.testing.assert_array_equal(total(spoken(left[order], right[order])), whole)
        parts = [spoken(left[part], right[part]) for part in (slice(cut), slice(cut, None))]
        np.testing.assert_array_equal(sum(map(total, parts)), whole)

    def test_many_blocks(self, monkeypatch):
        monkeypatch.setattr("tacit.mechanisms.base.BLOCK", 7)
        random = np.random.default_rng(3)
        left, right = random.normal(size=(50, 3)), random.normal(size=(50, 2))
        in_blocks = total(spoken(left, right))
        monkeypatch.undo()
        np.testing.assert_array_equal(in_blocks, total(spoken(left, right)))

    def test_nobody_says_nothing(self):
        assert not total(spoken(np.empty((0, 3)), np.empty((0, 2)))).any()
        assert not total(spoken(np.empty((0, 3)), np.empty((0, 2)), np.empty(0))).any()

    @pytest.mark.parametrize("records", [1, 3, 1000, 40_000])
    def test_a_mean_is_not_rounded_away_however_many_records_a_person_has(self, records):
        """A record's part of it may be far less than a step of the grid."""
        left, right = np.full((records + 2, 1), 1.0), np.full((records + 2, 2), [0.3, -0.6])
        people = np.array(["many"] * records + ["one", "other"])
        said = total(spoken(left, right, people, mean=True), NoisySum(1.0, 1, 2)) / STEPS**2
        assert said[0] == pytest.approx([0.9, -1.8], abs=3 / STEPS)


class TestSensitivity:
    """Adversarial: whatever the vectors are, one unit more moves the sum by at most 1, exactly."""

    @given(matrix(4, 3), matrix(4, 2), st.integers(0, 3))
    def test_one_record(self, left, right, gone):
        kept = np.arange(4) != gone
        moved = total(spoken(left, right)) - total(spoken(left[kept], right[kept]))
        assert squared_length(moved) <= ONE

    @given(
        matrix(6, 3),
        matrix(6, 2),
        st.lists(st.sampled_from("abc"), min_size=6, max_size=6),
        st.sampled_from("abc"),
        st.booleans(),
    )
    def test_one_person_with_any_records(self, left, right, people, gone, mean):
        people = np.array(people)
        kept = people != gone
        with_them = total(spoken(left, right, people, mean))
        without = total(spoken(left[kept], right[kept], people[kept], mean))
        assert squared_length(with_them - without) <= ONE

    @given(matrix(3, 3), matrix(3, 2), matrix(7, 3), matrix(7, 2))
    def test_a_person_may_bring_other_records(self, left, right, more_left, more_right):
        """The others' part of the sum does not depend on how many records this person has."""
        others = spoken(left, right, ["a", "b", "b"])
        left, right = np.vstack([left, more_left]), np.vstack([right, more_right])
        everyone = spoken(left, right, ["a", "b", "b"] + ["z"] * 7)
        assert squared_length(total(everyone) - total(others)) <= ONE

    def test_the_bound_is_reached(self):
        assert squared_length(total(spoken([[1.0, 0, 0]], [[0, 1.0]]))) == ONE

    @given(matrix(2, 3), matrix(2, 2))
    def test_replacing_what_has_no_negative_entry_moves_by_sqrt_two(self, left, right):
        one, other = (
            total(spoken(np.abs(left[k : k + 1]), np.abs(right[k : k + 1]))) for k in (0, 1)
        )
        assert squared_length(one - other) <= 2 * ONE

    def test_a_person_counts_once_however_many_records(self):
        many = total(spoken([[1.0, 0, 0]] * 500, [[0, 1.0]] * 500, ["a"] * 500))
        assert squared_length(many) <= ONE
        assert squared_length(many) > 0.999999 * ONE


class TestPrice:
    @pytest.mark.parametrize("epsilon", [0.02, 0.1, 3.0])
    def test_budget_is_spent_and_not_exceeded(self, epsilon):
        plan = for_budget(NoisySum, epsilon, 1e-5, rows=300, columns=10)
        assert plan.epsilon(1e-5) == pytest.approx(epsilon, rel=1e-6)
        assert plan.epsilon(1e-5) <= epsilon * (1 + 1e-9)
        assert plan.mu_squared() == pytest.approx(1 / plan.mechanism.sigma**2)
        mu = 1 / plan.mechanism.sigma
        assert float(gaussian_epsilon(1e-5, mu)) == pytest.approx(epsilon, rel=1e-6)

    def test_shares_add_up(self):
        parts = [for_budget(NoisySum, 1, 1e-5, rows=2, columns=2, share=s) for s in (0.3, 0.7)]
        whole = for_budget(NoisySum, 1, 1e-5, rows=2, columns=2)
        assert sum(p.mu_squared() for p in parts) == pytest.approx(whole.mu_squared())

    def test_price_knows_neither_size_nor_data(self):
        small, large = NoisySum(9.0, 1, 2), NoisySum(9.0, 1000, 10)
        assert Plan(small, 1).epsilon(1e-5) == Plan(large, 1).epsilon(1e-5)
        said = spoken([[1.0]], [[1.0, 0.0]])
        np.testing.assert_array_equal(small.secret_cost(said, [2, 8]).values, [1 / 81, 4 / 81])

    def test_the_statement_says_what_is_assumed(self):
        assert "that record alone" in assumptions([{"mechanism": "noisy-sum"}])[0]


class TestRelease:
    def test_noise_has_the_deviation_it_was_priced_for(self):
        size = NoisySum(5.0, 40, 50)
        said = spoken(np.zeros((1, 40)), np.zeros((1, 50)))
        values = size.release(said, InsecureNoise(0)).values
        assert values.std() == pytest.approx(5.0, rel=0.05)  # 2000 draws: 3 deviations
        assert abs(values.mean()) < 4 * 5 / math.sqrt(2000)

    def test_values_lie_on_the_public_grid(self):
        said = spoken(np.random.default_rng(0).normal(size=(9, 3)), np.ones((9, 2)))
        values = SIZE.release(said, InsecureNoise(1)).values / 2.0**-28
        np.testing.assert_array_equal(values, np.round(values))

    def test_only_a_grant_opens_it(self):
        said = spoken([[1.0, 0, 0]], [[1.0, 0]])
        with pytest.raises(UnlicensedNoise):
            SIZE.release(said, SecureNoise())
        assert not SIZE.release(said, InsecureNoise(0)).secure

    def test_ledger_pays_once_and_then_refuses(self, tmp_path):
        ledger = Ledger(tmp_path / "a.ledger", budget=Budget(1.0, 1e-5))
        plan = for_budget(NoisySum, 0.9, 1e-5, rows=3, columns=2)
        said = spoken([[1.0, 0, 0]], [[1.0, 0]])
        with ledger.release(plan, purpose="once") as grant:
            assert grant.release(said).entry == ledger.head
            with pytest.raises(GrantError):
                grant.release(said)
        with pytest.raises(BudgetExceeded), ledger.release(plan, purpose="twice"):
            pass
        assert len(ledger) == 1

    @pytest.mark.parametrize("answers", [None, np.ones((3, 2)), [[1]], "votes"])
    def test_other_answers_are_refused(self, answers, tmp_path):
        ledger = Ledger(tmp_path / "a.ledger", budget=Budget(1.0, 1e-5))
        plan = for_budget(NoisySum, 0.5, 1e-5, rows=3, columns=2)
        with ledger.release(plan, purpose="wrong") as grant, pytest.raises(GrantError):
            grant.release(answers)

    def test_one_plan_is_one_matrix(self):
        with pytest.raises(InvalidArgument, match="queries"):
            Plan(SIZE, 2).accept(spoken([[1.0, 0, 0]], [[1.0, 0]]))


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"sigma": 0.0}, "sigma"),
            ({"sigma": math.nan}, "sigma"),
            ({"sigma": 1e9}, "sigma"),
            ({"rows": 0}, "rows"),
            ({"columns": 2.0}, "columns"),
            ({"rows": 2**19}, "rows"),
        ],
    )
    def test_bad_mechanisms(self, changes, complaint):
        with pytest.raises(InvalidArgument, match=complaint):
            NoisySum(**{"sigma": 1.0, "rows": 2, "columns": 2, **changes})

    @pytest.mark.parametrize("count", [-1, 2**34 + 1, 1.0, True])
    def test_bad_numbers_of_records(self, count):
        with pytest.raises(InvalidArgument, match="records"):
            Contributions(count, lambda rows: rows, lambda rows: rows)

    def test_bad_contributions(self):
        with pytest.raises(InvalidArgument, match="functions"):
            Contributions(1, np.eye(1), np.eye(1))
        with pytest.raises(InvalidArgument, match="units"):
            Contributions(2, lambda rows: rows, lambda rows: rows, np.array(["a"]))

    @pytest.mark.parametrize("ids", [[math.nan] * 2, ["a", None], [1.5, 2.5]])
    def test_ids_that_may_differ_from_themselves(self, ids):
        """A person whose id is NaN would be a person for each record."""
        with pytest.raises(InvalidArgument, match="units to be integers"):
            Contributions(2, lambda rows: rows, lambda rows: rows, np.array(ids, dtype=object))

    def test_contributions_stay_and_show_nothing(self):
        said = spoken([[77123.5]], [[1.0]], ["c4n4ry"])
        assert repr(said) == "Contributions(secret)"
        with pytest.raises(TypeError, match="stay where they are"):
            pickle.dumps(said)
