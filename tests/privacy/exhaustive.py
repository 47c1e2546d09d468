"""Small vote spaces in full: every histogram, every neighbour, exact outcome probabilities.

Votes of n teachers on m classes form a graph: two histograms are neighbours when one teacher's vote
differs. Everything is computed from definitions, without the formulas of the code under test.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
from scipy.special import log_ndtr

_NODES = np.arange(-20.0, 20.0, 0.05)
_LOG_WEIGHTS = -(_NODES**2) / 2 - np.log(np.sqrt(2 * np.pi)) + np.log(0.05)


@functools.cache
def histograms(n_teachers: int, n_classes: int) -> np.ndarray:
    """All vote histograms: shape (histograms, classes)."""
    bars = itertools.combinations(range(n_teachers + n_classes - 1), n_classes - 1)
    edges = np.array([(-1, *bar, n_teachers + n_classes - 1) for bar in bars])
    return np.diff(edges, axis=1) - 1


@functools.cache
def partitions(n_teachers: int, n_classes: int) -> np.ndarray:
    """All histograms in descending order: one for each class of permutations."""
    return np.unique(np.sort(histograms(n_teachers, n_classes), axis=1)[:, ::-1], axis=0)


def distances(votes: np.ndarray) -> np.ndarray:
    """How many teachers must change their vote to get from one histogram to another."""
    return np.abs(votes[:, None, :] - votes[None, :, :]).sum(axis=2) // 2


def sorted_distances(votes: np.ndarray) -> np.ndarray:
    """The same up to permutation of the classes: sorting both brings them closest."""
    return distances(-np.sort(-votes, axis=1))


def neighbours(votes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices of all ordered pairs of neighbouring histograms."""
    return np.nonzero(distances(votes) == 1)


def steps_from(start: int, votes: np.ndarray) -> np.ndarray:
    """Distances from one histogram by breadth-first search, one vote at a time."""
    index = {tuple(row): i for i, row in enumerate(votes.tolist())}
    found, frontier = {start: 0}, [start]
    while frontier:
        fresh = []
        for here in frontier:
            for there in map(index.__getitem__, _one_vote_away(votes[here])):
                if there not in found:
                    found[there] = found[here] + 1
                    fresh.append(there)
        frontier = fresh
    return np.array([found[i] for i in range(len(votes))])


def _one_vote_away(row: np.ndarray) -> list[tuple[int, ...]]:
    unit = np.eye(row.size, dtype=int)
    pairs = itertools.permutations(range(row.size), 2)
    return [tuple((row - unit[a] + unit[b]).tolist()) for a, b in pairs if row[a] > 0]


def log_outcomes(votes: np.ndarray, sigma: float) -> np.ndarray:
    """Exact log Pr[GNMax answers j]: log Int phi(z) prod_{k != j} Phi(z + (n_j - n_k)/sigma) dz."""
    gaps = (votes[:, :, None] - votes[:, None, :]) / sigma  # (histogram, j, k)
    total = np.zeros((*votes.shape, _NODES.size))
    for k in range(votes.shape[1]):
        beaten = log_ndtr(_NODES + gaps[:, :, k, None])
        beaten[:, k] = 0.0
        total += beaten
    return np.logaddexp.reduce(_LOG_WEIGHTS + total, axis=2)


def renyi(log_p: np.ndarray, log_q: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """D_a(P||Q) for rows of log-probabilities: shape (rows, orders).

    The sum of p^a q^(1-a) is 1 + sum_j q_j (r^a - 1 - a (r - 1)), r = p_j/q_j: terms >= 0, so that
    nothing cancels between outcomes.
    """
    ratio = (log_p - log_q)[:, :, None]
    excess = np.expm1(orders * ratio) - orders * np.expm1(ratio)
    return np.log1p((np.exp(log_q)[:, :, None] * excess).sum(axis=1)) / (orders - 1)


def smooth_closure(local: np.ndarray, distance: np.ndarray, beta: float) -> np.ndarray:
    """The least beta-smooth function above the local sensitivity (Nissim et al. 2007)."""
    return (np.exp(-beta * distance) * local[None, :]).max(axis=1)


def local_sensitivity(costs: np.ndarray, adjacent: np.ndarray) -> np.ndarray:
    """Largest change of the cost to any neighbour; `adjacent` is a Boolean matrix."""
    return np.where(adjacent, np.abs(costs[:, None] - costs[None, :]), 0.0).max(axis=1)
