"""Spreading against a dense solve, and what a student keeps of many inputs."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.students.graph import LabelSpreadingStudent, similarity, spread
from tacit.students.neighbour_search import nearest


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


def test_a_student_of_many_inputs_keeps_some_and_says_nearly_the_same() -> None:
    rng = np.random.default_rng(0)
    inputs = np.concatenate([rng.normal(size=(300, 2)), rng.normal(size=(300, 2)) + 5])
    lesson = [0, 1, 300, 301], np.repeat(np.eye(2), 2, axis=0)
    every = LabelSpreadingStudent(most_points=None).fit(inputs, *lesson)
    some = LabelSpreadingStudent(most_points=100).fit(inputs, *lesson)
    assert (len(every.points_), len(some.points_), len(some.spread_)) == (600, 100, 100)
    assert (every.predict(inputs) == some.predict(inputs)).mean() > 0.99


def test_a_student_keeps_one_point_at_least() -> None:
    with pytest.raises(InvalidArgument, match="most_points=0"):
        LabelSpreadingStudent(most_points=0).fit([[0.0], [1.0]], [0, 1], np.eye(2))
