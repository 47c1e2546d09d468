"""Linear and kernel students: they learn from posteriors, take weights, and can be saved."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer
from students_shared import Lesson

from tacit.errors import InvalidArgument
from tacit.students import KernelStudent, LinearStudent, load_student
from tacit.students.estimators import fit_softmax, kernel_width

BOTH = pytest.mark.parametrize("kind", [LinearStudent, KernelStudent])


@BOTH
def test_learns_from_posteriors(kind, clouds: Lesson):
    student = kind().fit(clouds.X_public, clouds.indices, clouds.posterior)
    chances = student.predict_proba(clouds.X_new)
    assert (chances.argmax(axis=1) == clouds.y_new).mean() > 0.9
    assert chances.sum(axis=1) == pytest.approx(1.0)


@BOTH
def test_saved_and_loaded_it_says_the_same(kind, clouds: Lesson, tmp_path):
    student = kind().fit(clouds.X_public, clouds.indices, clouds.posterior)
    student.save(tmp_path / "student.tacit")
    loaded = load_student(tmp_path / "student.tacit")
    np.testing.assert_array_equal(
        loaded.predict_proba(clouds.X_new), student.predict_proba(clouds.X_new)
    )
    assert loaded.get_params() == student.get_params()


def test_softmax_agrees_with_scikit_learn():
    random = np.random.default_rng(0)
    rows = random.normal(size=(300, 3))
    y = (rows @ [1.0, -2.0, 0.5] + random.normal(size=300) > 0).astype(int)
    found = fit_softmax(rows, rows.T @ np.eye(2)[y], 300.0, 1.0)
    # Two columns that share a penalty of 1 are one, their difference, with a penalty of 1/2.
    theirs = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-8).fit(rows, y).coef_[0]
    np.testing.assert_allclose(found[:, 1] - found[:, 0], theirs, atol=1e-3)


def test_told_weights_are_used():
    inputs = [[1.0, 0.0], [0.0, 1.0]]
    student = LinearStudent().told(inputs, [[2.0, 0.0], [0.0, 2.0]], [0.0, 0.5])
    expected = np.exp([[2.0, 0.5], [0.0, 2.5]])
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(student.predict_proba(inputs), expected)


def test_told_features_are_applied():
    double = FunctionTransformer(lambda rows: 2.0 * np.asarray(rows))
    student = LinearStudent(double).told([[1.0]], [[1.0, -1.0]], [0.0, 0.0])
    assert student.predict_proba([[1.0]])[0, 0] == pytest.approx(1 / (1 + np.exp(-4.0)))


@pytest.mark.parametrize(
    ("weights", "bias"),
    [([[1.0, 2.0]], [0.0]), ([[1.0], [2.0]], [0.0, 1.0]), ([[np.nan, 0]], [0, 0])],
)
def test_weights_must_fit(weights, bias):
    with pytest.raises(InvalidArgument, match="weights"):
        LinearStudent().told([[1.0], [2.0]], weights, bias)


def test_kernel_parts_must_fit():
    parts = {
        "landmarks": np.zeros((3, 2)),
        "gamma": 1.0,
        "whitening": np.zeros((3, 2)),
        "weights": np.zeros((2, 2)),
        "bias": np.zeros(2),
    }
    KernelStudent().told(np.zeros((4, 2)), **parts)
    for name, wrong in {"whitening": (2, 2), "weights": (3, 2), "landmarks": (3,)}.items():
        with pytest.raises(InvalidArgument):
            KernelStudent().told(np.zeros((4, 2)), **{**parts, name: np.zeros(wrong)})


def test_kernel_by_hand():
    parts = {"landmarks": [[1.0], [2.0]], "whitening": np.eye(2), "weights": np.eye(2)}
    student = KernelStudent().told([[0.0]], **parts, gamma=0.5, bias=[0.0, 0.0])
    kernel = np.exp([[-0.5, -2.0], [-0.5, 0.0]])
    found = student.predict_proba([[0.0], [2.0]])
    np.testing.assert_allclose(found, kernel / kernel.sum(axis=1, keepdims=True))


def test_width_is_the_neighbours_distance():
    assert kernel_width(np.zeros((5, 2))) == 1.0
    assert kernel_width(np.zeros((1, 2))) == 1.0
    points = np.array([[0.0], [2.0]])
    assert kernel_width(points, share=2.0) == pytest.approx(0.5)
