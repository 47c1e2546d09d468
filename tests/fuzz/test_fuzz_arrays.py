"""Votes, archives, IDX files and tables that are damaged: one line, never a traceback."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from mangled import damaged, fuzzed, survives

from tacit.datasets import load_csv, load_idx, load_npz, read_idx, read_rows, read_votes
from tacit.datasets.table import load_inputs


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


VOTES = np.array([[3, 1, 0], [0, 2, 2]])
VOTE_FILES = {
    ".npy": (npy(VOTES), npy(VOTES.astype(float)), npy(np.array([{}, None]))),
    ".npz": (npz(votes=VOTES), npz(predictions=VOTES), npz(votes=VOTES, predictions=VOTES)),
    ".csv": (b"a,b,c\n3,1,0\n0,2,2\n", b"3,1,0\n", "a,\u00fc\n1,2\n".encode()),
}
ODD_ARRAYS = hnp.arrays(
    dtype=st.one_of(
        hnp.integer_dtypes(), hnp.unsigned_integer_dtypes(), hnp.floating_dtypes(),
        hnp.boolean_dtypes(), hnp.complex_number_dtypes(), hnp.unicode_string_dtypes(max_len=3),
        hnp.datetime64_dtypes(), hnp.byte_string_dtypes(max_len=3),
    ),
    shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)  # fmt: skip


@pytest.mark.parametrize("suffix", VOTE_FILES)
@fuzzed
@given(data=st.data())
def test_damaged_votes(tmp_path, suffix, data):
    path = tmp_path / f"votes{suffix}"
    path.write_bytes(data.draw(damaged(*VOTE_FILES[suffix])))
    form = data.draw(st.sampled_from([None, "histogram", "predictions"]))
    classes = data.draw(st.sampled_from([None, 2, 3, 5]))
    votes = survives(lambda: read_votes(path, format=form, n_classes=classes))
    if votes is not None:
        assert votes.ndim == 2
        assert (votes >= 0).all()
        assert len(set(votes.sum(axis=1).tolist())) == 1
    survives(lambda: read_rows(path, n_rows=5))


@fuzzed
@example(array=np.zeros((1, 2), dtype=np.float16), form="histogram")  # the limit is infinite there
@given(array=ODD_ARRAYS, form=st.sampled_from(["histogram", "predictions"]))
def test_votes_of_any_kind_and_shape(tmp_path, array, form):
    np.save(tmp_path / "votes.npy", array)
    np.savez(tmp_path / "votes.npz", votes=array)
    for name in ("votes.npy", "votes.npz"):
        survives(lambda name=name: read_votes(tmp_path / name, format=form, n_classes=3))
    survives(lambda: read_rows(tmp_path / "votes.npy", n_rows=5))


@fuzzed
@given(x=ODD_ARRAYS, y=ODD_ARRAYS, classes=ODD_ARRAYS | st.none())
def test_archives_of_any_kind_and_shape(tmp_path, x, y, classes):
    given_classes = {} if classes is None else {"classes": classes}
    np.savez(tmp_path / "data.npz", x=x, y=y, **given_classes)
    survives(lambda: load_npz(tmp_path / "data.npz"))
    survives(lambda: load_npz(tmp_path / "data.npz", classes=2, image_shape=(2, 2)))


@fuzzed
@given(content=damaged(npz(x=np.eye(3), y=np.arange(3)), npz(x=VOTES), npy(VOTES)))
def test_damaged_archives(tmp_path, content):
    (tmp_path / "data.npz").write_bytes(content)
    survives(lambda: load_npz(tmp_path / "data.npz", classes=3))


IMAGES = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2]) + bytes(range(8))
LABELS = bytes([0, 0, 8, 1, 0, 0, 0, 2, 1, 0])


@pytest.mark.parametrize("suffix", ["", ".gz"])
@fuzzed
@given(data=st.data())
def test_damaged_idx(tmp_path, suffix, data):
    pack = gzip.compress if suffix else bytes
    packed = [pack(IMAGES), pack(LABELS)]
    victim = data.draw(st.sampled_from(["train-images-idx3", "train-labels-idx1"]))
    for part in ("train", "t10k"):
        for name, content in (("images-idx3", packed[0]), ("labels-idx1", packed[1])):
            (tmp_path / f"{part}-{name}-ubyte{suffix}").write_bytes(content)
    path = tmp_path / f"{victim}-ubyte{suffix}"
    path.write_bytes(data.draw(damaged(*packed)))
    survives(lambda: read_idx(path))
    survives(lambda: load_idx(tmp_path))


TABLE = b"age,work,rich,who\n30,farm,no,a\n?,sea,yes,b\n44,office,no,a\n"
ROLES = {"numeric": {"age": [20, 40]}, "categorical": {"work": ["farm", "office"]}}


@fuzzed
@given(
    content=damaged(TABLE, TABLE.replace(b",", b";"), b"\xff\xfe" + TABLE),
    delimiter=st.sampled_from([",", ";", "\t"]),
    missing=st.sampled_from([None, 0.0]),
)
def test_damaged_tables(tmp_path, content, delimiter, missing):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    shared = {**ROLES, "delimiter": delimiter, "missing": missing}
    survives(lambda: load_csv(path, target="rich", classes=["no", "yes"], groups="who", **shared))
    survives(lambda: load_inputs(path, **shared))


@fuzzed
@given(
    options=st.fixed_dictionaries(
        {},
        optional={
            name: st.one_of(
                st.none(), st.booleans(), st.integers(-2, 3), st.floats(), st.text(max_size=3),
                st.lists(st.text(max_size=3), max_size=3),
                st.dictionaries(st.text(max_size=3), st.lists(st.floats(), max_size=3), max_size=2),
            )
            for name in ("target", "classes", "numeric", "categorical", "groups", "ignored",
                         "missing", "other", "delimiter", "name")
        },
    )
)  # fmt: skip
def test_roles_of_the_wrong_kind(tmp_path, options):
    from tacit.datasets import load_dataset, load_public

    path = tmp_path / "table.csv"
    path.write_bytes(TABLE)
    survives(lambda: load_dataset(f"csv:{path}", **options))
    survives(lambda: load_public(f"csv:{path}", **options))
    survives(lambda: load_dataset("digits", **options))
