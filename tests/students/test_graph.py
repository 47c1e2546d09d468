"""Neighbours against brute force, spreading against a dense solve."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from tacit.students import graph
from tacit.students.graph import nearest, similarity, spread


@pytest.mark.arithmetic
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_nearest_is_exact_search(offset: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "_BLOCK", 1000)  # several blocks
    rng = np.random.default_rng(0)
    queries, rows = rng.normal(size=(30, 5)) + offset, rng.normal(size=(200, 5)) + offset
    found, distances = nearest(queries, rows, 6)
    wanted = cdist(queries, rows, "sqeuclidean")
    np.testing.assert_array_equal(found, wanted.argsort(axis=1)[:, :6])
    np.testing.assert_allclose(distances, np.sort(wanted, axis=1)[:, :6], rtol=1e-3, atol=1e-5)


def test_nobody_is_a_neighbour_of_oneself_even_among_copies() -> None:
    points = np.zeros((5, 2))
    found, distances = nearest(points, points, 4, same=True)
    assert all(row not in found[row] for row in range(5))
    assert (distances == 0).all()


def test_similarity_is_symmetric_and_cannot_amplify() -> None:
    points = np.random.default_rng(0).normal(size=(60, 2))
    dense = similarity(nearest(points, points, 4, same=True)[0]).toarray()
    np.testing.assert_allclose(dense, dense.T)
    assert np.abs(np.linalg.eigvalsh(dense)).max() <= 1 + 1e-12


@pytest.mark.parametrize("alpha", [0.5, 0.98, 0.999])
def test_spread_solves_the_linear_system(alpha: float) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(80, 2))
    matrix = similarity(nearest(points, points, 5, same=True)[0])
    labels = np.zeros((80, 3))
    labels[[1, 2, 3], [0, 1, 1]] = [1.0, 0.7, 0.2]  # the third class has no label at all
    wanted = np.linalg.solve(np.eye(80) - alpha * matrix.toarray(), labels)
    np.testing.assert_allclose(spread(matrix, labels, alpha), wanted, atol=1e-6)
    assert (spread(matrix, labels, alpha)[:, 2] == 0).all()


def test_labels_do_not_jump_to_another_component() -> None:
    points = np.concatenate([np.zeros((4, 1)), np.full((4, 1), 100.0)])
    matrix = similarity(nearest(points, points, 2, same=True)[0])
    labels = np.zeros((8, 2))
    labels[0, 1] = 1
    assert (spread(matrix, labels, 0.9)[4:] == 0).all()
    assert (spread(matrix, labels, 0.9)[:4, 1] > 0).all()
