"""Embeddings that were computed elsewhere: what the statement says of the files behind them."""

import hashlib

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from tacit.errors import InvalidArgument
from tacit.features import PrecomputedEmbeddings, PublicWhitening
from tacit.students import LinearStudent, load_student

ROWS = np.random.default_rng(0).normal(size=(9, 3))


@pytest.fixture
def files(tmp_path):
    made = [tmp_path / "tokenizer.json", tmp_path / "vectors.safetensors"]
    for path in made:
        path.write_bytes(path.name.encode())
    return made


def test_files_are_named_with_their_hashes_as_they_were_first(files):
    named = " and ".join(
        f"{path.name} ({hashlib.sha256(path.read_bytes()).hexdigest()[:16]})" for path in files
    )
    given = PrecomputedEmbeddings("vectors", alone=True, files=files)
    said = given.presumed()
    assert f"outputs of vectors, made with {named}, each from its own record alone" in said[0]
    files[0].write_bytes(b"another")
    files[1].unlink()
    assert given.presumed() == clone(given).fit(ROWS).presumed() == said


def test_a_saved_student_says_the_same_without_the_files(files, tmp_path):
    given = PrecomputedEmbeddings("vectors", files=files)
    student = LinearStudent(make_pipeline(given, PublicWhitening(2)))
    student.fit(ROWS, np.arange(9), np.eye(2)[(ROWS[:, 0] > 0).astype(int)])
    student.save(tmp_path / "student")
    for path in files:
        path.unlink()
    loaded = load_student(tmp_path / "student")
    assert loaded.features_[0].presumed() == given.presumed()


def test_a_file_that_is_missing_and_a_path_alone_are_refused(files, tmp_path):
    with pytest.raises(InvalidArgument, match="'none' fails with FileNotFoundError"):
        PrecomputedEmbeddings("vectors", files=[tmp_path / "none"])
    with pytest.raises(InvalidArgument, match="put it into a list"):
        PrecomputedEmbeddings("vectors", files=str(files[0]))
