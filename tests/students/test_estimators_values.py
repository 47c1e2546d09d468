"""`ValueStudent`: a Gaussian process with the noise that is known, any regressor, and saving."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

from tacit.errors import InvalidArgument
from tacit.features import HOG
from tacit.students import ValueStudent, load_student, saved_extra


def lesson(noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Public inputs on two scales, rows asked about, noisy values, and the truth everywhere."""
    generator = np.random.default_rng(seed)
    inputs = generator.uniform(-1, 1, size=(400, 2)) * [1.0, 1000.0] + [50.0, 0.0]
    truth = 3000.0 + 40.0 * np.sin(2 * (inputs[:, 0] - 50)) + 0.02 * inputs[:, 1]
    rows = generator.permutation(400)[:150]
    return inputs, rows, truth[rows] + generator.normal(scale=noise, size=150), truth


def solved(inputs, rows, values, noise, amplitude, length):
    """The textbook's posterior mean, by a dense solve in the units of the values."""
    view = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    squares = ((view[:, None] - view[rows]) ** 2).sum(axis=2)
    kernel = amplitude * np.exp(-squares / (2 * length**2))
    level = values.mean()
    gram = kernel[rows] + noise**2 * np.eye(len(rows))
    return level + kernel @ np.linalg.solve(gram, values - level)


def test_predictions_are_the_posterior_mean_under_the_known_noise():
    inputs, rows, values, _ = lesson(noise=5.0)
    student = ValueStudent().fit(inputs, rows, values, noise=5.0)
    spread = values.std()
    constant, length = student._solution.kernel
    expected = solved(inputs, rows, values, 5.0, constant * spread**2, length)
    np.testing.assert_allclose(student.predict(inputs), expected, rtol=1e-6)


def test_it_averages_noise_away_and_does_not_care_for_units():
    inputs, rows, values, truth = lesson(noise=20.0)
    error = ValueStudent().fit(inputs, rows, values, noise=20.0).predict(inputs) - truth
    assert np.sqrt((error**2).mean()) < 8.0  # of 20 in each value
    in_thousands = ValueStudent().fit(inputs, rows, values / 1e3, noise=0.02).predict(inputs)
    np.testing.assert_allclose(in_thousands * 1e3 - truth, error, atol=0.5)


def test_pure_noise_teaches_the_mean():
    inputs, rows, _, _ = lesson(noise=1.0)
    values = np.random.default_rng(5).normal(7.0, 2.0, size=rows.size)
    predicted = ValueStudent().fit(inputs, rows, values, noise=2.0).predict(inputs)
    assert np.abs(predicted - 7.0).max() < 1.0


def test_unknown_noise_is_estimated():
    inputs, rows, values, truth = lesson(noise=20.0)
    error = ValueStudent().fit(inputs, rows, values).predict(inputs) - truth
    assert np.sqrt((error**2).mean()) < 10.0


def test_several_outputs_and_constant_values():
    inputs, rows, values, _ = lesson(noise=1.0)
    both = np.stack([values, 3000 - values], axis=1)
    predicted = ValueStudent().fit(inputs, rows, both, noise=1.0).predict(inputs[:10])
    assert predicted.shape == (10, 2)
    np.testing.assert_allclose(predicted.sum(axis=1), 3000.0, atol=1e-6)
    constant = ValueStudent().fit(inputs, rows, np.full(rows.size, 2.5), noise=0.1)
    np.testing.assert_allclose(constant.predict(inputs[:3]), 2.5)


@pytest.mark.parametrize("outputs", [0, 1, 3])
def test_a_loaded_student_predicts_the_same_bits_without_skops(
    outputs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "skops.io", None)
    inputs, rows, values, _ = lesson(noise=1.0)
    taught = values if outputs == 0 else np.repeat(values[:, None], outputs, axis=1)
    student = ValueStudent().fit(inputs, rows, taught, noise=1.0)
    student.save(tmp_path / "one", extra={"bounds": [0, 1]})
    loaded = load_student(tmp_path / "one")
    np.testing.assert_array_equal(loaded.predict(inputs), student.predict(inputs))
    assert loaded.predict(inputs).shape == (400, *taught.shape[1:])
    assert saved_extra(tmp_path / "one") == {"bounds": [0, 1]}
    loaded.save(tmp_path / "two", extra={"bounds": [0, 1]})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_own_regressor_and_features_go_through_skops(tmp_path: Path) -> None:
    pytest.importorskip("skops")
    inputs, rows, values, _ = lesson(noise=1.0)
    student = ValueStudent(LinearRegression(), StandardScaler()).fit(inputs, rows, values, noise=1)
    plain = LinearRegression().fit(inputs[rows], values)
    np.testing.assert_allclose(student.predict(inputs), plain.predict(inputs), rtol=1e-6)
    student.save(tmp_path / "student")
    with zipfile.ZipFile(tmp_path / "student") as archive:
        assert {"estimator.skops", "features.skops"} <= set(archive.namelist())
    loaded = load_student(tmp_path / "student")
    np.testing.assert_array_equal(loaded.predict(inputs), student.predict(inputs))


def test_features_are_used_and_cloned():
    images = np.random.default_rng(0).uniform(size=(30, 64))
    student = ValueStudent(features=HOG((8, 8), cells=2))
    fitted = clone(student).fit(images, [0, 5, 9], [1.0, 2.0, 3.0], noise=0.1)
    assert fitted.features_ is not fitted.features
    assert fitted.predict(images).shape == (30,)
    assert not hasattr(student, "features_")


@pytest.mark.parametrize(
    ("indices", "values", "noise", "complaint"),
    [
        ([0, 1], [1.0], 1.0, "values of shape"),
        ([0, 1], [1.0, np.nan], 1.0, "finite"),
        ([0, 900], [1.0, 2.0], 1.0, "indices"),
        ([0, 1], [1.0, 2.0], 0.0, "noise"),
        ([0, 1], [1.0, 2.0], -1.0, "noise"),
        ([0, 1], np.zeros((2, 0)), 1.0, "values of shape"),
    ],
)
def test_bad_lessons_are_refused(indices, values, noise, complaint):
    with pytest.raises(InvalidArgument, match=complaint):
        ValueStudent().fit(np.zeros((5, 2)), indices, values, noise=noise)


def test_what_is_no_regressor_is_refused():
    with pytest.raises(InvalidArgument, match="regressor"):
        ValueStudent("ridge").fit(np.zeros((5, 2)), [0, 1], [1.0, 2.0])


def test_other_width_is_refused():
    student = ValueStudent().fit(np.eye(4), [0, 1], [1.0, 2.0], noise=0.1)
    with pytest.raises(InvalidArgument, match="4 features"):
        student.predict(np.eye(3))
