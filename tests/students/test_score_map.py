"""Maps of probabilities: what they leave alone, what a noisy table tells of them, and files."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import InvalidArgument
from tacit.students import LinearStudent, ScoreCheck, ScoreMap, load_student, shifted_to
from tacit.students.score_map import outcomes_of, scores_of

RNG = np.random.default_rng(0)
ODDS = RNG.normal(0.0, 1.5, size=4000)
TWO = 1 / (1 + np.exp(-np.column_stack([-ODDS, ODDS])))


def several(n=4000, classes=4):
    grown = np.exp(RNG.normal(0.0, 1.2, size=(n, classes)))
    return grown / grown.sum(axis=1, keepdims=True)


def counted(check, said, truth, sigma, seed=0):
    """Return the table that records with these probabilities and classes would release."""
    table = np.zeros((2, 12))
    places = np.searchsorted(check.edges, scores_of(said), side="right")
    np.add.at(table, (outcomes_of(said, truth), places), 1.0)
    return table + np.random.default_rng(seed).normal(scale=sigma, size=table.shape)


def drawn(chances, seed=1):
    cuts = chances.cumsum(axis=1)
    where = np.random.default_rng(seed).random((len(chances), 1)) > cuts
    return where.sum(axis=1).clip(max=chances.shape[1] - 1)


@given(st.floats(0.05, 20), st.floats(-5, 5))
def test_rows_add_up_to_one_and_two_classes_keep_their_order(slope, shift):
    rising = TWO[np.argsort(TWO[:, 1])][::200]
    said = ScoreMap(slope, [0.0, shift])(rising)
    np.testing.assert_allclose(said.sum(axis=1), 1.0, rtol=1e-12)
    assert (np.diff(said[:, 1]) >= 0).all()


@pytest.mark.parametrize("floor", [0.01, 0.3])
def test_a_floor_ties_no_scores_of_two_classes(floor):
    """Below it the other class's probability still tells them apart: the AUC stays what it was."""
    second = np.linspace(0.001, 0.999, 999)
    said = ScoreMap(0.2, [0.0, 0.7], floor)(np.column_stack([1 - second, second]))
    assert (np.diff(said[:, 1]) > 0).all()


def test_the_map_that_changes_nothing():
    said = several(50)
    np.testing.assert_allclose(ScoreMap(1.0, np.zeros(4))(said), said, rtol=1e-12)


@pytest.mark.parametrize(("slope", "shift"), [(0.4, 0.8), (2.5, -1.0), (1.0, 0.0)])
def test_a_table_tells_slope_and_shift_of_two_classes(slope, shift):
    truth = drawn(ScoreMap(slope, [0.0, shift])(TWO))
    check = ScoreCheck.of(TWO[:1000])
    found = check.fit(counted(check, TWO, truth, sigma=10.0), 10.0)
    assert found.slope == pytest.approx(slope, rel=0.15)
    assert found.shift[1] == pytest.approx(shift, abs=0.15)


@pytest.mark.parametrize("slope", [0.4, 2.5])
def test_a_table_tells_the_slope_of_several_classes(slope):
    said = several()
    truth = drawn(ScoreMap(slope, np.zeros(4))(said))
    check = ScoreCheck.of(said[:1000])
    found = check.fit(counted(check, said, truth, sigma=10.0), 10.0)
    assert found.slope == pytest.approx(slope, rel=0.15)
    assert not found.shift.any()


def test_noise_alone_changes_little():
    check = ScoreCheck.of(TWO[:500])
    maps = [
        check.fit(np.random.default_rng(seed).normal(scale=50.0, size=(2, 12)), 50.0)
        for seed in range(20)
    ]
    slopes = np.log([one.slope for one in maps])
    assert np.abs(slopes).max() < 3  # a prior, not the noise, holds them
    assert abs(np.median(slopes)) < 0.7


def test_bins_without_public_inputs_reach_sure_networks():
    for classes in (2, 5):
        check = ScoreCheck.without_inputs(classes)
        assert len(check.edges) == 11
        assert check.edges[-1] > 10


def test_students_that_say_nothing_else_have_one_bin():
    check = ScoreCheck.of(np.full((30, 2), 0.5))
    assert check.edges.size == 0
    found = check.fit(np.array([[300.0] + [0.0] * 11, [100.0] + [0.0] * 11]), 1.0)
    assert found([[0.5, 0.5]])[0, 1] == pytest.approx(0.25, abs=0.02)


def test_zeros_are_not_never():
    said = np.vstack([TWO[:200], [[1.0, 0.0]] * 50])
    found = ScoreCheck.of(said).floor
    assert 0 < found < 0.05
    assert ScoreMap(1.0, [0.0, 0.0], found)([[1.0, 0.0]])[0, 1] >= found * 0.9


def test_shares_are_reached():
    wanted = [0.1, 0.2, 0.3, 0.4]
    said = several(300)
    moved = shifted_to(said, wanted)(said).mean(axis=0)
    np.testing.assert_allclose(moved, wanted, atol=1e-6)


@pytest.mark.parametrize(
    "wrong", [{"slope": 0.0}, {"slope": np.nan}, {"shift": [0.0]}, {"shift": [0.0, np.inf]}]
)
def test_what_is_no_map_is_refused(wrong):
    with pytest.raises(InvalidArgument):
        ScoreMap(**{"slope": 1.0, "shift": [0.0, 0.0], **wrong})


@pytest.fixture
def student():
    made = LinearStudent().fit([[0.0], [1.0]], [0, 1], [[0.9, 0.1], [0.1, 0.9]])
    made.score_map_ = ScoreMap(0.3, [0.0, 0.7], 1e-5)
    return made


def test_a_map_is_saved_to_the_last_bit_and_an_older_reader_refuses(student, tmp_path):
    path, rows = tmp_path / "a.tacit", [[0.2], [0.8]]
    student.save(path)
    assert (load_student(path).predict_proba(rows) == student.predict_proba(rows)).all()
    assert json.loads(zipfile.ZipFile(path).read("manifest.json"))["version"] == 2
    student.score_map_ = None
    student.save(path)
    assert json.loads(zipfile.ZipFile(path).read("manifest.json"))["version"] == 1
    assert load_student(path).score_map_ is None


def test_a_map_of_other_classes_is_a_damaged_file(student, tmp_path):
    student.score_map_ = ScoreMap(0.3, [0.0, 0.7, 0.0])
    student.save(tmp_path / "a.tacit")
    with pytest.raises(InvalidArgument, match="damaged"):
        load_student(tmp_path / "a.tacit")


def test_a_student_that_learns_again_forgets_its_map(student):
    assert student.fit([[0.0], [1.0]], [0, 1], [[0.9, 0.1], [0.1, 0.9]]).score_map_ is None


def test_the_exported_model_has_the_map(student, tmp_path):
    pytest.importorskip("onnxruntime")
    from benchmarks.onnx_agreement import answers
    from tacit.export import export_onnx

    export_onnx(student, tmp_path / "a.onnx")
    rows = np.linspace(-2, 3, 40)[:, None]
    found = answers(tmp_path / "a.onnx", X=rows)[1]
    np.testing.assert_allclose(found, student.predict_proba(rows), atol=1e-6)
