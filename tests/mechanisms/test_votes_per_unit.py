"""Units of several votes: priced squared, audited, and recorded only where they are several."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from audits import Audit, label
from code_audits import CodeAudit
from mutants import weak_noise

from tacit.audit import audit_mechanism
from tacit.errors import InvalidArgument
from tacit.mechanisms import (
    GaussianMean,
    GNMax,
    NoisyVotes,
    Plan,
    SharedVotes,
    UnitMean,
    secret_cost_of,
)

STILL = [[0.0]]
AUDITS = {
    "gnmax": Audit(GNMax(2.0, votes_per_unit=2), [4, 6], [2, 8], (label(0),), 0.1, {}),
    "noisy-votes": Audit(
        NoisyVotes(3.0, votes_per_unit=2),
        [6, 6],
        [4, 8],
        (lambda values: values[:, 0] - values[:, 1] >= 2,),
        0.1,
        {},
    ),
    "gaussian-mean": CodeAudit(
        GaussianMean(2.0, 1.0, 3, votes_per_unit=2),
        np.array([[[1e300]], [[1e300]], STILL]),
        np.array([[[-1e300]], [[-1e300]], STILL]),
        [2 / 3],
        {},
    ),
}
EVERY = pytest.mark.parametrize("name", sorted(AUDITS))
PLAIN = [GNMax(40), NoisyVotes(40), GaussianMean(1.0, 1.0, 8)]


@EVERY
def test_a_unit_of_two_votes_loses_what_is_claimed_and_no_more(name):
    audit = AUDITS[name]
    assert 0.8 * audit.claim() < audit.finds() <= audit.claim()


@EVERY
def test_with_too_little_noise_or_the_price_of_one_vote_it_is_caught(name):
    """The second mutant forgets the field: it has the same noise and claims as if it were 1."""
    audit = AUDITS[name]
    forgetful = dataclasses.replace(audit.mechanism, votes_per_unit=1)
    assert audit.finds(noise=weak_noise()) > audit.claim()
    assert audit.finds() > dataclasses.replace(audit, mechanism=forgetful).claim()


@EVERY
def test_the_audit_command_looks_where_a_unit_of_two_votes_loses_most(name):
    mechanism = AUDITS[name].mechanism
    found = audit_mechanism(mechanism, trials=50_000)
    assert not any(each.contradicts for each in found)
    assert max(each.proved / each.claim for each in found) > 0.6


@pytest.mark.parametrize("mechanism", PLAIN, ids=lambda one: one.name)
@pytest.mark.parametrize("votes", [2, 3])
def test_the_price_is_squared(mechanism, votes):
    several = dataclasses.replace(mechanism, votes_per_unit=votes)
    assert several.gaussian_cost() == pytest.approx(votes**2 * mechanism.gaussian_cost())
    more = several.cost([2.0, 32.0]).values
    assert more == pytest.approx(votes**2 * mechanism.cost([2.0, 32.0]).values)


def test_every_neighbour_of_a_small_histogram_is_within_the_price():
    """All pairs that differ in the votes of two teachers: mu^2 is the largest squared distance."""
    classes, sigma = 3, 7.0
    votes = np.eye(classes)[list(itertools.product(range(classes), repeat=3))]  # (all, teachers, C)
    apart = [
        float(np.square(one.sum(axis=0) - other.sum(axis=0)).sum())
        for one, other in itertools.product(votes, repeat=2)
        if (one != other).any(axis=1).sum() <= 2
    ]
    assert max(apart) / sigma**2 == pytest.approx(
        NoisyVotes(sigma, votes_per_unit=2).gaussian_cost()
    )


@pytest.mark.parametrize("kind", [NoisyVotes, SharedVotes], ids=lambda kind: kind.name)
@pytest.mark.parametrize("overlap", [1, 2])
def test_every_neighbour_of_a_small_study_is_within_the_price(kind, overlap):
    """A patient of so many sites moves a teacher's answers to both inputs at each of them.

    All answers of those teachers, before and after; all sets of sites in the sum: a site that is
    absent adds nothing, in either world. One aggregator, with all other sites on its side, sees
    what is left of the total, with the other one's noise.
    """
    classes, queries, sigma = 3, 2, 7.0
    answers = np.eye(classes)[list(itertools.product(range(classes), repeat=queries))]
    moves = np.array([one - other for one, other in itertools.product(answers, repeat=2)])
    price = Plan(kind(sigma, votes_per_unit=overlap), queries).mechanism.gaussian_cost() * queries
    for present in itertools.product([0, 1], repeat=overlap):
        moved = itertools.product(moves, repeat=overlap)
        apart = max(float(np.square(np.tensordot(present, many, 1)).sum()) for many in moved)
        assert apart == 2 * queries * sum(present) ** 2
        assert apart / sigma**2 <= price * (1 + 1e-12)
    assert apart / sigma**2 == pytest.approx(price)


@pytest.mark.parametrize("mechanism", PLAIN, ids=lambda one: one.name)
def test_one_vote_a_unit_is_recorded_as_it_always_was(mechanism):
    """Old ledgers, fixed lists of theirs above all, hold plans without that word."""
    assert "votes_per_unit" not in Plan(mechanism, 5).as_dict()["parameters"]
    several = dataclasses.replace(mechanism, votes_per_unit=2)
    assert Plan(several, 5).as_dict()["parameters"]["votes_per_unit"] == 2


@pytest.mark.parametrize("votes", [0, -1, 1.5, "two", None])
def test_odd_numbers_of_votes_are_refused(votes):
    for kind in (GNMax, NoisyVotes):
        with pytest.raises(InvalidArgument, match="votes_per_unit"):
            kind(40, votes_per_unit=votes)
    with pytest.raises(InvalidArgument, match="votes_per_unit"):
        GaussianMean(1.0, 1.0, 8, votes_per_unit=votes)


def test_a_unit_reaches_no_more_teachers_than_there_are():
    with pytest.raises(InvalidArgument, match="votes_per_unit"):
        GaussianMean(1.0, 1.0, 2, votes_per_unit=3)
    with pytest.raises(InvalidArgument, match="a unit is one teacher"):
        UnitMean(1.0, 1.0, 2, votes_per_unit=2)


def test_noise_is_found_for_the_price_of_several_votes():
    plan = GaussianMean.with_noise(0.5, queries=9, radius=2.0, n_teachers=8, votes_per_unit=3)
    assert plan.mu_squared() == pytest.approx(4.0)


def test_cheaper_prices_of_one_vote_are_not_used_for_several():
    votes, orders = np.array([[90, 5, 5]]), [8.0]
    several = GNMax(4, votes_per_unit=2)
    assert several.secret_cost(votes, orders).values == several.cost(orders).batch(1).values
    with pytest.raises(InvalidArgument, match="one vote a unit"):
        secret_cost_of(several, votes, [0], 8.0, 0.1)
