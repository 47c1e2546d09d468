"""Tiny Private-kNN in full: every data set, every sample of it, every neighbouring data set.

Records stand in a fixed order around one query, nearest first; each says one of a few words. A
release depends on how many of the k nearest sampled records say each word, so its exact law is a
weighted sum over all samples of the laws given the counts. Nothing here uses a formula of the code
under test.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import numpy as np
from scipy.special import binom

Laws = Callable[[np.ndarray], np.ndarray]
"""From distinct counts (rows, words) to outcome probabilities (rows, outcomes)."""


@functools.cache
def data_sets(records: int, words: int) -> np.ndarray:
    """All data sets of so many records: shape (data sets, records)."""
    return np.array(list(itertools.product(range(words), repeat=records))).reshape(-1, records)


@functools.cache
def samples(
    records: int, words: int, k: int, owners: tuple[int, ...], missing: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every sample of every data set without one owner's records (or with all of them).

    Returns how many owners each sample holds (samples,), the distinct counts (rows, words), and
    which of them each sample leads to (data sets, samples). An owner's records have one coin.
    """
    kept = [place for place, owner in enumerate(owners) if owner != missing]
    units = sorted({owners[place] for place in kept})
    coins = (np.arange(2 ** len(units))[:, None] >> np.arange(len(units))) & 1
    taken = coins[:, [units.index(owners[place]) for place in kept]].astype(bool)
    taken &= np.cumsum(taken, axis=1) <= k
    one_hot = data_sets(records, words)[:, kept, None] == np.arange(words)
    counts = np.tensordot(one_hot.astype(np.int64), taken.astype(np.int64), axes=(1, 1))
    codes = np.tensordot(counts, (k + 1) ** np.arange(words), axes=(1, 0))
    distinct, place = np.unique(codes, return_inverse=True)
    rows = distinct[:, None] // (k + 1) ** np.arange(words) % (k + 1)
    return coins.sum(axis=1), rows, place.reshape(codes.shape)


def laws_of(
    records: int,
    words: int,
    k: int,
    rate: float,
    given: Laws,
    owners: tuple[int, ...] | None = None,
    missing: int | None = None,
) -> np.ndarray:
    """Exact outcome probabilities of a release for each data set: shape (data sets, outcomes)."""
    who = tuple(range(records)) if owners is None else owners
    sizes, counts, place = samples(records, words, k, who, missing)
    others = len(set(who) - {missing}) - sizes
    weights = rate**sizes * (1 - rate) ** others
    spread = np.zeros((len(place), len(counts)))
    np.add.at(spread, (np.arange(len(place))[:, None], place), weights)
    return spread @ given(counts)


def neighbouring_laws(
    records: int,
    words: int,
    k: int,
    rate: float,
    given: Laws,
    owners: tuple[int, ...] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Laws of every data set with so many records, and of each without one owner, paired up."""
    who = tuple(range(records)) if owners is None else owners
    whole = laws_of(records, words, k, rate, given, who)
    less = [laws_of(records, words, k, rate, given, who, missing) for missing in sorted(set(who))]
    return np.concatenate([whole] * len(less)), np.concatenate(less)


def largest_divergence(first: np.ndarray, second: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """max over rows and both directions of D_a, from sums of terms that are all >= 0."""
    return np.maximum(_divergence(first, second, orders), _divergence(second, first, orders))


def _divergence(p: np.ndarray, q: np.ndarray, orders: np.ndarray) -> np.ndarray:
    some = (p > 0) | (q > 0)
    ratio = np.where(some, p, 1.0) / np.where(some, q, 1.0)
    t = np.where(some, (p - q), 0.0) / np.where(some, q, 1.0)
    worst = []
    for a in orders:
        small = np.abs(a * t) < 0.02
        series = sum(binom(a, j) * np.where(small, t, 0.0) ** j for j in range(2, 9))
        excess = np.where(small, series, ratio**a - 1 - a * t)
        worst.append(np.log1p((q * excess).sum(axis=1).max()) / (a - 1))
    return np.array(worst)
