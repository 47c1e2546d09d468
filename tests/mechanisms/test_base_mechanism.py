"""Counting votes, releases as arrays, and what every mechanism on votes shares."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.errors import GrantError, InvalidArgument, UnlicensedNoise
from tacit.mechanisms import (
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
    Mechanism,
    NoisyVotes,
    Release,
    Sanitise,
    SecretCost,
    SelectiveMechanism,
    ThresholdCheck,
    count_votes,
)
from tacit.noise import GrantedNoise, InsecureNoise, SecureNoise

VOTES = np.array([[5, 2, 0], [0, 1, 6], [3, 3, 1]])
SANITISE = Sanitise(8.0, 0.02, 5.0, 0.1, 1e-3, 1e-3, covers="c" * 64)
CASES = [
    (GNMax(2.0), VOTES, {}),
    (LNMax(0.5), VOTES, {}),
    (NoisyVotes(2.0), VOTES, {}),
    (ThresholdCheck(4.0, 1.0), VOTES, {}),
    (ConfidentGNMax(4.0, 1.0, 1.0), VOTES, {}),
    (InteractiveGNMax(4.0, 1.0, 1.0, 0.9), VOTES, {"student": np.full((3, 3), 1 / 3)}),
    (SANITISE, SecretCost(0.5, 0.1, 8.0, 0.02), {}),
]
EVERY = pytest.mark.parametrize(
    ("mechanism", "answers", "public"), CASES, ids=[case[0].name for case in CASES]
)


@EVERY
def test_release_with_seeded_noise_says_that_it_is_insecure(mechanism, answers, public):
    release = mechanism.release(answers, InsecureNoise(1), **public)
    assert release.mechanism is mechanism
    assert (release.entry, release.secure) == (None, False)
    again = mechanism.release(answers, InsecureNoise(1), **public)
    assert np.array_equal(np.asarray(release), np.asarray(again))


@EVERY
def test_release_with_granted_noise_names_its_entry(mechanism, answers, public):
    noise = GrantedNoise(SecureNoise(), entry="e" * 64)
    release = mechanism.release(answers, noise, **public)
    assert (release.entry, release.secure) == ("e" * 64, True)
    seeded = GrantedNoise(InsecureNoise(3), entry="e" * 64)
    assert not mechanism.release(answers, seeded, **public).secure


class Homemade:
    """Looks like noise, and was paid for by nobody."""

    secure = True
    entry = "e" * 64

    def gaussian(self, sigma, size):
        return np.zeros(size)

    laplace = gaussian

    def rounded_gaussian_steps(self, sigma, grid, size):
        return np.zeros(size, dtype=np.int64)


@EVERY
@pytest.mark.parametrize("noise", [SecureNoise(), Homemade(), None, np.random.default_rng(0)])
def test_release_refuses_noise_that_no_ledger_granted(mechanism, answers, public, noise):
    with pytest.raises(UnlicensedNoise):
        mechanism.release(answers, noise, **public)


@EVERY
def test_release_refuses_a_closed_grant(mechanism, answers, public):
    noise = GrantedNoise(SecureNoise(), entry="e" * 64)
    noise.close()
    with pytest.raises(GrantError):
        mechanism.release(answers, noise, **public)


@EVERY
def test_a_mechanism_is_frozen_data(mechanism, answers, public):
    first = dataclasses.fields(mechanism)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(mechanism, first, 1.0)
    assert mechanism == dataclasses.replace(mechanism)
    assert hash(mechanism) == hash(dataclasses.replace(mechanism))


@EVERY
def test_only_selective_mechanisms_have_a_check(mechanism, answers, public):
    selective = isinstance(mechanism, ConfidentGNMax | InteractiveGNMax)
    assert isinstance(mechanism, SelectiveMechanism) is selective


@pytest.mark.parametrize("case", CASES[:-1], ids=[case[0].name for case in CASES[:-1]])
@pytest.mark.parametrize(
    "votes",
    [
        [[1, 2]],
        [[1.5, 2.5, 3.0]] * 3,
        [[-1, 4, 4]] * 3,
        [[1, 2, 4], [1, 2, 4], [1, 2, 5]],
        [[1, 2], [3]],
        [1, 2, 4],
        [[np.nan, 2, 5]] * 3,
        "votes",
        None,
    ],
)
def test_votes_that_are_no_votes_are_refused(case, votes):
    mechanism, _, public = case
    with pytest.raises(InvalidArgument):
        mechanism.accept(votes, queries=3, n_teachers=7, n_classes=3)
    if np.shape(votes := np.array(votes, dtype=object)) != (1, 2):  # too few rows is no error here
        with pytest.raises(InvalidArgument):
            mechanism.release(votes, InsecureNoise(0), **public)


@pytest.mark.parametrize("case", CASES[:-1], ids=[case[0].name for case in CASES[:-1]])
def test_accept_compares_rows_classes_and_teachers(case):
    mechanism, votes, _ = case
    mechanism.accept(votes, queries=3, n_teachers=7, n_classes=3)
    mechanism.accept(votes, queries=3, n_teachers=None, n_classes=None)
    for wrong in ({"queries": 2}, {"n_teachers": 8}, {"n_classes": 4}):
        priced = {"queries": 3, "n_teachers": 7, "n_classes": 3, **wrong}
        with pytest.raises(InvalidArgument):
            mechanism.accept(votes, **priced)


@pytest.mark.parametrize("case", CASES[:-1], ids=[case[0].name for case in CASES[:-1]])
def test_mechanisms_on_votes_never_fail(case):
    assert case[0].confidence_delta() == 0.0


def test_a_release_holds_labels_or_values():
    with pytest.raises(InvalidArgument, match="exactly one"):
        Release(GNMax(1.0))
    with pytest.raises(InvalidArgument, match="exactly one"):
        Release(GNMax(1.0), labels=np.zeros(1, dtype=np.int64), values=np.zeros(1))


def test_a_release_is_an_array():
    release = Release(GNMax(1.0), labels=np.array([2, -1, 0]))
    assert len(release) == 3
    assert np.asarray(release).tolist() == [2, -1, 0]
    assert np.asarray(release, dtype=np.float64).dtype == np.float64
    copy = np.array(release, copy=True)
    copy[0] = 9
    assert release.labels[0] == 2


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.integers(1, 8), st.integers(2, 5), st.randoms(use_true_random=False))
def test_count_votes_counts_each_teacher_once_a_query(teachers, queries, n_classes, random):
    rows = [[random.randrange(n_classes) for _ in range(queries)] for _ in range(teachers)]
    expected = [
        [[row[q] for row in rows].count(c) for c in range(n_classes)] for q in range(queries)
    ]
    votes = tacit.count_votes(rows, n_classes)
    assert votes.dtype == np.int64
    assert votes.tolist() == expected


@pytest.mark.parametrize(
    ("predictions", "n_classes", "message"),
    [
        ([[0, 1]], 1, "n_classes=1"),
        ([0, 1], 2, "shape"),
        (np.zeros((0, 3), dtype=int), 2, "shape"),
        (np.zeros((3, 0), dtype=int), 2, "shape"),
        ([[0.0, 1.0]], 2, "dtype"),
        ([[True, False]], 2, "dtype"),
        ([["a", "b"]], 2, "dtype"),
        ([[0, 2]], 2, "0 .. 1"),
        ([[0, -1]], 2, "0 .. 1"),
    ],
)
def test_count_votes_refuses(predictions, n_classes, message):
    with pytest.raises(InvalidArgument, match=message):
        count_votes(predictions, n_classes)


def test_a_mechanism_must_say_what_its_price_presumes():
    """When its class is made: a statement that cannot be made would come after the release."""
    with pytest.raises(TypeError, match="Expected Silent to say what its price presumes"):
        type("Silent", (Mechanism,), {"name": "silent", "__slots__": ()})
    type("Kind", (Mechanism,), {"__slots__": ()})  # what mechanisms share has no name
