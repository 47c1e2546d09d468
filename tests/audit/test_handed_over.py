"""A model that was handed over, examined with rows whose membership is known."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tacit.audit import examine_model
from tacit.errors import InvalidArgument

CLAIM = {"claim": 1.0, "delta": 1e-5}


def tossed_rows(count, seed=0):
    """Rows with random labels, and coins that decide who is in the data."""
    draw = np.random.default_rng(seed)
    rows, labels = draw.normal(size=(count, 3)), draw.integers(0, 2, count)
    coins = draw.integers(0, 2, count).astype(bool)
    return rows, labels, coins


def remembering(rows, labels):
    """A model that knows its members by heart, and nothing else."""
    known = {row.tobytes(): label for row, label in zip(rows, labels, strict=True)}

    def chances(asked):
        said = np.full((len(asked), 2), 0.5)
        for place, row in enumerate(asked):
            if (label := known.get(row.tobytes())) is not None:
                said[place] = 0.01
                said[place, label] = 0.99
        return said

    return chances


def examined(chances, rows, labels, coins, **options):
    members, others = (rows[coins], labels[coins]), (rows[~coins], labels[~coins])
    return examine_model(chances, [0, 1], members, others, **CLAIM, **options)


def test_a_model_that_remembers_is_found_out():
    rows, labels, coins = tossed_rows(300)
    found = examined(remembering(rows[coins], labels[coins]), rows, labels, coins, tossed=True)
    assert found.advantage == 1.0
    assert found.proved > 3
    assert found.contradicts


@pytest.mark.parametrize("seed", range(5))
def test_a_model_that_says_nothing_proves_nothing_whatever_the_order(seed):
    """Equal scores: an order that puts members first must not decide."""
    rows, labels, coins = tossed_rows(300, seed)
    found = examined(lambda X: np.full((len(X), 2), 0.5), rows, labels, coins, tossed=True)
    assert found.advantage == 0.5
    assert found.proved < 0.5
    assert not found.contradicts


def test_an_honest_model_is_rarely_contradicted():
    """Randomised response of each member's label at epsilon 1: the bound must hold."""
    wrong = 0
    for seed in range(60):
        rows, labels, coins = tossed_rows(200, seed)
        flips = np.random.default_rng(1000 + seed).uniform(size=200) > np.e / (1 + np.e)
        said = remembering(rows[coins], labels[coins] ^ flips[coins])
        wrong += examined(said, rows, labels, coins, tossed=True).contradicts
    assert wrong <= 9  # 60 x 0.05 on average at worst; more has probability below 1 in 1,000


def test_without_coins_nothing_is_proved_about_epsilon():
    rows, labels, coins = tossed_rows(300)
    found = examined(remembering(rows[coins], labels[coins]), rows, labels, coins)
    assert (found.proved, found.contradicts, found.guesses) == (None, False, ())
    assert found.within == pytest.approx(
        np.sqrt(np.log(40) / (2 * min(coins.sum(), (~coins).sum())))
    )


def test_what_was_found_is_not_shown_by_accident():
    rows, labels, coins = tossed_rows(40)
    found = examined(remembering(rows[coins], labels[coins]), rows, labels, coins, tossed=True)
    assert repr(found) == str(found) == "Examination(secret)"
    json.dumps(found.secret_dict())


def test_bad_rows_are_refused_without_being_quoted():
    rows, labels, coins = tossed_rows(40)

    def flat(X):
        return np.full((len(X), 2), 0.5)

    with pytest.raises(InvalidArgument, match="labels that the model knows"):
        examined(flat, rows, labels + 7, coins)
    with pytest.raises(InvalidArgument, match="either side"):
        examined(flat, rows, labels, np.ones(40, dtype=bool))
    with pytest.raises(InvalidArgument, match="at least 20"):
        examined(flat, rows[:10], labels[:10], coins[:10], tossed=True)
    with pytest.raises(InvalidArgument, match="probability of each class"):
        examined(lambda X: np.full((len(X), 3), 0.5), rows, labels, coins)
