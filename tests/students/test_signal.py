"""Releases that carry nothing are told from those that do."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.students import CombinedStudent, signal_of

QUERIES, CLASSES, VOTERS = 60, 4, 100


def told(sigma: float, seed: int, *, agree: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """Votes on queries of known classes, with noise; and those classes as what was foretold."""
    random = np.random.default_rng(seed)
    classes = np.eye(CLASSES)[random.integers(CLASSES, size=QUERIES)]
    votes = agree * classes + (1 - agree) * (1 - classes) / (CLASSES - 1)
    return votes + random.normal(scale=sigma / VOTERS, size=votes.shape), classes


def test_noise_alone_teaches_nothing_and_says_so():
    found = [signal_of(told(50.0, seed)[0], told(50.0, seed + 500)[1]) for seed in range(300)]
    assert np.mean([each.is_weak for each in found]) > 0.94
    assert abs(np.mean([each.learned for each in found])) < 0.3
    assert "do not show" in str(next(each for each in found if each.is_weak))


def test_votes_that_can_be_foretold_are_learned():
    found = [signal_of(*told(50.0, seed)) for seed in range(50)]
    assert not any(each.is_weak for each in found)
    assert "not that it is the labels'" in str(found[0])


def test_the_same_said_of_every_query_is_nothing_learned():
    votes, _ = told(1.0, 0)
    assert signal_of(votes, np.tile([0.7, 0.1, 0.1, 0.1], (QUERIES, 1))).is_weak
    assert signal_of(votes, None).is_weak
    assert signal_of(votes, np.full((QUERIES, CLASSES), np.nan)).is_weak


def test_queries_are_foretold_without_their_own_release():
    """A query's own posterior, turned around, does not change what is foretold of it."""
    random = np.random.default_rng(1)
    inputs = np.concatenate([random.normal(size=(20, 2)), random.normal(size=(20, 2)) + 6])
    posterior = np.repeat([[0.9, 0.1], [0.1, 0.9]], 20, axis=0)
    places = np.arange(40)
    turned = posterior.copy()
    turned[7] = turned[7, ::-1]
    said = [CombinedStudent().fit(inputs, places, each).foretold_ for each in (posterior, turned)]
    assert said[0].shape == (40, 2)
    assert (said[0].argmax(axis=1) == np.repeat([0, 1], 20)).all()
    assert said[1][7, 0] == pytest.approx(said[0][7, 0], abs=0.2)
    assert said[1][7].argmax() == 0
