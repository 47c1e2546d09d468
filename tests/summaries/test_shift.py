"""Releases that tell whether records lie where public inputs do: no false alarm, no silence."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.summaries import mean_shift, moment_shift, table_shift
from tacit.summaries.shift import Shift

PROTOTYPES, VOTES, CLASSES = 40, 3, 2


def near(count: int, seed: int, *, leaning: float = 0.0) -> np.ndarray:
    """Each input's three nearest prototypes, on a line; some lean towards one end."""
    random = np.random.default_rng(seed)
    places = random.beta(2.0, 2.0 + leaning, count) * (PROTOTYPES - VOTES)
    return places.astype(int)[:, None] + np.arange(VOTES)


def table(votes: np.ndarray, sigma: float, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    sums = np.zeros((PROTOTYPES, CLASSES))
    labels = random.integers(CLASSES, size=len(votes))
    np.add.at(sums, (votes, labels[:, None]), 1 / np.sqrt(VOTES))
    return sums + random.normal(scale=sigma, size=sums.shape)


@pytest.mark.parametrize(
    ("records", "public", "sigma"), [(300, 100, 20), (3000, 400, 4), (9e4, 99, 1)]
)
def test_votes_of_one_kind_raise_no_alarm(records, public, sigma):
    found = [
        table_shift(table(near(int(records), seed), sigma, seed), sigma, near(public, 1000 + seed))
        for seed in range(60)
    ]
    assert not any(shift.is_told for shift in found)
    assert max(shift.z for shift in found) < 4


def test_votes_elsewhere_are_told():
    found = [
        table_shift(table(near(3000, seed, leaning=2.0), 4.0, seed), 4.0, near(400, 1000 + seed))
        for seed in range(20)
    ]
    assert all(shift.is_told for shift in found)
    assert "do not resemble" in str(found[0])


def features(count: int, seed: int, turn: float = 0.0) -> np.ndarray:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(count, 12)) / (1 + np.arange(12)) ** 0.5
    turned = rows[:, [0, 11]] @ [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]
    rows = np.column_stack([turned[:, 0], rows[:, 1:11], turned[:, 1]])
    return rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))


def moment(count: int, sigma: float, seed: int, turn: float = 0.0) -> np.ndarray:
    rows = features(count, seed, turn)
    noise = np.random.default_rng(seed).normal(scale=sigma, size=(12, 12))
    return np.asarray(rows.T @ rows + noise)


@pytest.mark.parametrize(("records", "public", "sigma"), [(300, 100, 20.0), (4000, 300, 5.0)])
def test_moments_of_one_kind_raise_no_alarm(records, public, sigma):
    found = [
        moment_shift(moment(records, sigma, seed), features(public, 1000 + seed), records, sigma)
        for seed in range(100)
    ]
    assert not any(shift.is_told for shift in found)


def test_moments_along_other_directions_are_told():
    found = [
        moment_shift(moment(4000, 5.0, seed, turn=1.0), features(300, 1000 + seed), 4000, 5.0)
        for seed in range(20)
    ]
    assert all(shift.is_told for shift in found)


def mean(rows: np.ndarray, sigma: float, unsure: float, seed: int, public: np.ndarray) -> Shift:
    random = np.random.default_rng(seed)
    total = max(len(rows) + random.normal(scale=unsure), 1.0)
    sums = rows.sum(axis=0) + random.normal(scale=sigma, size=rows.shape[1])
    return mean_shift(sums, public, total, sigma, unsure)


@pytest.mark.parametrize(
    ("records", "public", "sigma", "unsure"),
    [(40, 100, 30.0, 60.0), (4000, 30, 0.1, 0.1), (4000, 300, 50.0, 60.0)],
    ids=["hardly any record", "few public inputs", "noise"],
)
def test_means_of_one_kind_raise_no_alarm(records, public, sigma, unsure):
    """Also where one direction has nearly all of the variance, and where the mean is far from 0."""
    found = []
    for seed in range(300):
        inside, outside = (features(n, seed + at) for n, at in ((records, 0), (public, 1000)))
        wide = np.array([3.0, *[0.1] * 11])
        found.append(mean(inside * wide + 0.5, sigma, unsure, seed, outside * wide + 0.5))
    assert sum(shift.is_told for shift in found) <= 1
    assert np.mean([shift.z > 2 for shift in found]) < 0.06
    assert abs(np.mean([shift.z for shift in found])) < 0.3


def test_means_elsewhere_are_told():
    moved = np.eye(12)[0] * 0.6
    found = [
        mean(features(4000, seed) + moved, 50.0, 60.0, seed, features(300, 1000 + seed))
        for seed in range(20)
    ]
    assert all(shift.is_told for shift in found)
    assert np.mean([shift.effect for shift in found]) == pytest.approx(
        0.36 / features(4000, 0).var(axis=0).sum(), rel=0.1
    )


def test_what_is_certain_but_small_is_not_told():
    assert not Shift(z=9.0, effect=0.01, least=0.1).is_told
    assert not Shift(z=2.0, effect=9.0, least=0.1).is_told
    assert "no difference" in str(Shift(z=2.0, effect=0.04, least=0.1))
    assert "effect below 18" in str(Shift(z=2.0, effect=9.0, least=0.1))  # noise hides it
    assert "no difference" in str(Shift(z=0.0, effect=0.0, least=0.1))
