"""Votes in files: what is read, what is refused, and that no message quotes a vote."""

from __future__ import annotations

import io
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import read_or_refuse
from vote_files import PREDICTIONS, VOTES, saved, write_csv

from tacit.datasets import demo_votes, read_rows, read_votes
from tacit.errors import InvalidArgument

# --- what is read ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npy", "npz", "csv"])
def test_histograms_are_read_as_they_are(tmp_path, kind):
    votes = read_votes(saved(tmp_path, kind, VOTES, "votes"), format="histogram")
    assert votes.dtype == np.int64
    np.testing.assert_array_equal(votes, VOTES)


@pytest.mark.parametrize("kind", ["npy", "npz", "csv"])
def test_predictions_are_counted(tmp_path, kind):
    path = saved(tmp_path, kind, PREDICTIONS, "predictions")
    votes = read_votes(path, format="predictions", n_classes=3)
    np.testing.assert_array_equal(votes, VOTES)


@pytest.mark.parametrize(("key", "array"), [("votes", VOTES), ("predictions", PREDICTIONS)])
def test_an_archive_says_itself_what_it_holds(tmp_path, key, array):
    path = saved(tmp_path, "npz", array, key)
    np.testing.assert_array_equal(read_votes(path, n_classes=3), VOTES)


def test_an_archive_with_both_needs_the_word(tmp_path):
    path = tmp_path / "both.npz"
    np.savez(path, votes=VOTES, predictions=PREDICTIONS[:1])
    with pytest.raises(InvalidArgument, match="--format"):
        read_votes(path, n_classes=3)
    np.testing.assert_array_equal(read_votes(path, format="histogram"), VOTES)
    assert read_votes(path, format="predictions", n_classes=3).sum() == 3


def test_other_arrays_in_an_archive_are_not_in_the_way(tmp_path):
    path = tmp_path / "more.npz"
    np.savez(path, votes=VOTES, notes=np.zeros(3))
    np.testing.assert_array_equal(read_votes(path), VOTES)


def test_a_header_line_of_a_csv_is_skipped(tmp_path):
    path = write_csv(tmp_path / "votes.csv", VOTES, header="zero,one,two")
    np.testing.assert_array_equal(read_votes(path, format="histogram"), VOTES)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float64])
def test_whole_numbers_of_any_type_are_votes(tmp_path, dtype):
    path = saved(tmp_path, "npy", VOTES.astype(dtype), "")
    np.testing.assert_array_equal(read_votes(str(path), format="histogram"), VOTES)
    path = saved(tmp_path, "npy", PREDICTIONS.astype(dtype), "")
    np.testing.assert_array_equal(read_votes(path, format="predictions", n_classes=3), VOTES)


@pytest.mark.data
@pytest.mark.parametrize(("name", "shape"), [("mnist", (9000, 10)), ("adult", (16281, 2))])
def test_the_papers_votes_are_read(data_dir, name, shape):
    votes = read_votes(data_dir / "pate_votes" / f"{name}_250_teachers.npz")
    assert votes.shape == shape
    assert (votes.sum(axis=1) == 250).all()


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_without_a_format_nothing_is_guessed(tmp_path, kind):
    with pytest.raises(InvalidArgument, match="--format"):
        read_votes(saved(tmp_path, kind, VOTES, ""))


def test_the_number_of_classes_is_never_read_off_predictions(tmp_path):
    path = saved(tmp_path, "npz", PREDICTIONS, "predictions")
    with pytest.raises(InvalidArgument, match="--classes"):
        read_votes(path)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_histogram_must_have_the_declared_classes(tmp_path, n_classes):
    with pytest.raises(InvalidArgument, match=f"Expected {n_classes} classes"):
        read_votes(saved(tmp_path, "npz", VOTES, "votes"), n_classes=n_classes)


@pytest.mark.parametrize("n_classes", [0, 1, -3, 2.0, "3"])
def test_the_number_of_classes_must_be_a_number_of_classes(tmp_path, n_classes):
    path = saved(tmp_path, "npz", PREDICTIONS, "predictions")
    with pytest.raises(InvalidArgument, match="n_classes"):
        read_votes(path, n_classes=n_classes)


def test_a_format_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="'histogram', 'predictions'"):
        read_votes(saved(tmp_path, "npy", VOTES, ""), format="counts")


def test_wrong_keys_are_named(tmp_path):
    path = tmp_path / "wrong.npz"
    np.savez(path, ballots=VOTES)
    with pytest.raises(InvalidArgument, match=r"'votes' or 'predictions'.*ballots"):
        read_votes(path)


@pytest.mark.parametrize("name", ["absent.npy", "absent.npz", "absent.csv"])
def test_a_file_that_is_not_there(tmp_path, name):
    with pytest.raises(InvalidArgument, match="there is none"):
        read_votes(tmp_path / name, format="histogram")
    with pytest.raises(InvalidArgument, match="there is none"):
        read_votes(tmp_path, format="histogram")


@pytest.mark.parametrize("name", ["votes.txt", "votes.pkl", "votes", "votes.NPY"])
def test_other_endings_are_refused(tmp_path, name):
    path = tmp_path / name
    with path.open("wb") as file:
        np.save(file, VOTES)
    with pytest.raises(InvalidArgument, match=r"\.npy, \.npz or \.csv"):
        read_votes(path, format="histogram")


@pytest.mark.parametrize("kind", ["npy", "npz"])
@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.99])
def test_truncated_files_are_refused(tmp_path, kind, share):
    path = saved(tmp_path, kind, np.tile(VOTES, (50, 1)), "votes")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InvalidArgument, match="truncated, damaged or holds something else"):
        read_votes(path, format="histogram")


@pytest.mark.parametrize(
    "text", ["", "\n\n", "1,2\n3\n", "1,2\n3,x\n", "a,b\n", "1;2\n3;4\n", '"1,2\n']
)
def test_a_csv_that_is_no_table_of_numbers_is_refused(tmp_path, text):
    path = tmp_path / "votes.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidArgument):
        read_votes(path, format="histogram")


def test_a_csv_in_no_known_encoding_is_refused(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_bytes(b"1,2\n3,\xff\xfe\n")
    with pytest.raises(InvalidArgument, match="another encoding"):
        read_votes(path, format="histogram")


class Explosive:
    """Raises when unpickled: a reader that opens pickles would set it off."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_pickles_are_refused_and_never_opened(tmp_path, kind):
    array = np.array([[Explosive(), 1]], dtype=object)
    path = tmp_path / f"votes.{kind}"
    if kind == "npy":
        np.save(path, array, allow_pickle=True)
    else:
        np.savez(path, votes=array)
    with pytest.raises(InvalidArgument, match="holds something else"):
        read_votes(path, format="histogram")


def test_a_bare_pickle_by_the_name_of_npy_is_refused(tmp_path):
    path = tmp_path / "votes.npy"
    path.write_bytes(pickle.dumps(Explosive()))
    with pytest.raises(InvalidArgument, match="holds something else"):
        read_votes(path, format="histogram")


def test_an_archive_by_the_name_of_an_array_is_refused_and_the_reverse(tmp_path):
    (tmp_path / "votes.npy").write_bytes(valid_bytes("npz"))
    (tmp_path / "votes.npz").write_bytes(valid_bytes("npy"))
    for kind in ("npy", "npz"):
        for format in ("histogram", "predictions"):
            with pytest.raises(InvalidArgument, match="holds something else"):
                read_votes(tmp_path / f"votes.{kind}", format=format, n_classes=3)


def test_an_archive_whose_member_is_damaged_is_refused(tmp_path):
    path = tmp_path / "votes.npz"
    np.savez_compressed(path, votes=np.arange(3000).reshape(1000, 3))
    content = bytearray(path.read_bytes())
    content[200:260] = bytes(60)
    path.write_bytes(content)
    with pytest.raises(InvalidArgument, match="damaged"):
        read_votes(path)


def test_a_header_that_claims_more_than_the_machine_has_is_refused(tmp_path):
    path = tmp_path / "votes.npy"
    header = io.BytesIO()
    claim = {"descr": "<i8", "fortran_order": False, "shape": (2**45, 4)}
    np.lib.format.write_array_header_1_0(header, claim)
    path.write_bytes(header.getvalue() + bytes(64))
    with pytest.raises(InvalidArgument, match="truncated, damaged"):
        read_votes(path, format="histogram")


@pytest.mark.parametrize("bad", [0.5, -1.0, 3.0, np.nan, np.inf, -np.inf, 1e30])
def test_predictions_that_are_no_class_are_refused(tmp_path, bad):
    predictions = PREDICTIONS.astype(float)
    predictions[1, 2] = bad
    path = saved(tmp_path, "npz", predictions, "predictions")
    with pytest.raises(InvalidArgument, match="Expected"):
        read_votes(path, n_classes=3)


@pytest.mark.parametrize(
    "array", [VOTES[0], VOTES[None], VOTES[:0], VOTES[:, :1], VOTES - 1, VOTES > 1]
)
def test_arrays_that_are_no_histogram_are_refused(tmp_path, array):
    with pytest.raises(InvalidArgument, match="Expected"):
        read_votes(saved(tmp_path, "npz", array, "votes"))


def test_rows_that_sum_to_different_numbers_of_teachers_are_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="sum to one number of teachers"):
        read_votes(saved(tmp_path, "npz", np.array([[3, 1], [2, 1]]), "votes"))


# --- rows -----------------------------------------------------------------------------------


def test_rows_are_read_from_every_format(tmp_path):
    np.save(tmp_path / "rows.npy", np.array([4, 0, 2]))
    write_csv(tmp_path / "rows.csv", [[4], [0], [2]], header="row")
    (tmp_path / "rows.txt").write_text("4\n0\n2\n", encoding="utf-8")
    for name in ("rows.npy", "rows.csv", "rows.txt"):
        rows = read_rows(tmp_path / name, n_rows=5)
        assert rows.tolist() == [4, 0, 2]
        assert rows.dtype == np.int64


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0\n5\n", "indices in 0 .. 4"),
        ("-1\n", "indices in 0 .. 4"),
        ("1\n2\n1\n", "each index once"),
        ("1.5\n", "one a line"),
        ("nan\n", "one a line"),
        ("x\ny\n", "one a line"),
        ("inf\n", "Expected"),
        ("1e30\n", "Expected"),
        ("", "at least one"),
    ],
)
def test_rows_that_are_none_are_refused(tmp_path, text, problem):
    path = tmp_path / "rows.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidArgument, match=problem):
        read_rows(path, n_rows=5)


def test_rows_from_no_file_or_a_pickle_are_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="there is none"):
        read_rows(tmp_path / "rows.npy", n_rows=5)
    np.save(tmp_path / "rows.npy", np.array([Explosive()], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidArgument, match="one a line"):
        read_rows(tmp_path / "rows.npy", n_rows=5)


# --- whatever the bytes ---------------------------------------------------------------------


def valid_bytes(kind: str) -> bytes:
    file = io.BytesIO()
    if kind == "npy":
        np.save(file, VOTES)
    elif kind == "npz":
        np.savez_compressed(file, votes=VOTES)
    else:
        file.write(b"3,1,0\n0,2,2\n4,0,0\n")
    return file.getvalue()


damage = st.tuples(st.integers(0, 10**6), st.binary(min_size=1, max_size=4))


@pytest.mark.parametrize("kind", ["npy", "npz", "csv"])
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(damage, min_size=1, max_size=4))
def test_no_damage_raises_anything_but_our_own_error(tmp_path, kind, blows):
    content = bytearray(valid_bytes(kind))
    for at, bytes_ in blows:
        place = at % len(content)
        content[place : place + len(bytes_)] = bytes_
    path = tmp_path / f"votes.{kind}"
    path.write_bytes(content)
    votes = read_or_refuse(lambda: read_votes(path, format="histogram"))
    assert votes is None or (votes.sum(axis=1) == votes[0].sum()).all()


@pytest.mark.parametrize("kind", ["npy", "npz", "csv"])
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.binary(max_size=200))
def test_no_file_at_all_raises_anything_but_our_own_error(tmp_path, kind, content):
    path = tmp_path / f"votes.{kind}"
    path.write_bytes(content)
    read_or_refuse(lambda: read_votes(path, format="predictions", n_classes=3))
    read_or_refuse(lambda: read_rows(path, n_rows=9))


def test_an_encrypted_archive_is_refused(tmp_path):
    path = tmp_path / "votes.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("votes.npy", valid_bytes("npy"))
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1  # the bit that says "encrypted"
    path.write_bytes(content)
    with pytest.raises(InvalidArgument, match="damaged"):
        read_votes(path)


# --- the demonstration's votes --------------------------------------------------------------


def test_demo_votes_are_repeatable_and_all_teachers_vote():
    votes = demo_votes(n_teachers=40, n_queries=30, n_classes=4)
    assert votes.shape == (30, 4)
    assert (votes.sum(axis=1) == 40).all()
    np.testing.assert_array_equal(votes, demo_votes(40, 30, 4))
    assert (votes != demo_votes(40, 30, 4, seed=1)).any()
