"""Spreading against a dense solve, and what a student keeps of many inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.students import CombinedStudent, load_student, neighbour_search
from tacit.students.graph import LabelSpreadingStudent, similarity, spread
from tacit.students.neighbour_search import nearest
from tacit.students.saving import read_container


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


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """Two classes of points, a lesson, and lists from 500 points on."""
    monkeypatch.setattr(neighbour_search, "LISTED", 500)
    rng = np.random.default_rng(0)
    inputs = np.concatenate([rng.normal(size=(700, 3)), rng.normal(size=(700, 3)) + 3])
    asked = np.arange(0, 1400, 70)
    posterior = np.eye(2)[(asked >= 700).astype(int)] * 0.8 + 0.1
    return inputs, asked, posterior, rng.normal(size=(300, 3)) + 1.5


KEEPING_ALL = [LabelSpreadingStudent(most_points=None), CombinedStudent(most_points=None)]


@pytest.mark.parametrize("student", KEEPING_ALL)
def test_a_student_that_keeps_very_many_looks_into_lists(student: Any, many: Any) -> None:
    inputs, asked, posterior, new = many
    student = student.fit(inputs, asked, posterior)
    spreading = getattr(student, "parts_", [student])[0]
    assert len(spreading.points_) == 1400
    assert spreading.lists_ is not None
    by_lists = student.predict(new)
    spreading.lists_ = None
    assert (student.predict(new) == by_lists).mean() > 0.98


@pytest.mark.arithmetic
@pytest.mark.parametrize("student", KEEPING_ALL)
def test_with_lists_a_prediction_depends_on_its_own_row_alone(student: Any, many: Any) -> None:
    inputs, asked, posterior, new = many
    spreading = student.fit(inputs, asked, posterior)
    spreading = getattr(spreading, "parts_", [spreading])[0]
    together = spreading.predict_proba(new)
    alone = np.concatenate([spreading.predict_proba(row[None]) for row in new])
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("student", KEEPING_ALL)
def test_lists_are_saved_with_the_student(student: Any, many: Any, tmp_path: Path) -> None:
    inputs, asked, posterior, new = many
    student.fit(inputs, asked, posterior).save(tmp_path / "student.tacit")
    assert read_container(tmp_path / "student.tacit")[0]["version"] == 2  # 0.1 refuses it
    loaded = load_student(tmp_path / "student.tacit")
    assert loaded.most_points is None
    assert getattr(loaded, "parts_", [loaded])[0].lists_ is not None
    np.testing.assert_array_equal(loaded.predict_proba(new), student.predict_proba(new))


def test_centres_of_another_space_are_refused(many: Any) -> None:
    student = LabelSpreadingStudent(most_points=None).fit(*many[:3])
    arrays = student._arrays()
    with pytest.raises(InvalidArgument, match="centres in the space"):
        student._restore({**arrays, "centres": arrays["centres"][:, :2]})


def test_lessons_share_their_lists_and_a_new_fit_forgets_them(many: Any) -> None:
    inputs, asked, posterior, _ = many
    student = LabelSpreadingStudent(most_points=None)
    one, other = student.fit_each(inputs, [(asked, posterior), (asked[1:], posterior[1:])])
    assert one.lists_ is other.lists_ is not None
    assert one.fit(inputs[600:800], [0, 199], np.eye(2)).lists_ is None


def test_the_default_student_keeps_as_many_as_it_compares_with_all() -> None:
    assert CombinedStudent().most_points == LabelSpreadingStudent().most_points == 20_000
    assert neighbour_search.LISTED == 20_000


def test_the_combined_student_keeps_as_many_as_it_is_told(many: Any) -> None:
    student = CombinedStudent(most_points=100).fit(*many[:3])
    assert len(student.parts_[0].points_) == 100
    with pytest.raises(InvalidArgument, match="most_points=0"):
        CombinedStudent(most_points=0).fit(*many[:3])
