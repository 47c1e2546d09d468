"""A run.toml at a site: what a record says decides neither presence nor another teacher."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tacit.errors import InvalidArgument
from tacit.federation.readable import example_of, readable_records

OPTIONS = {
    "target": "illness",
    "classes": ["no", "yes"],
    "groups": "patient",
    "numeric": ["age"],
    "categorical": {"sex": ["f", "m"]},
    "dates": {},
}
HEADER = "patient,age,sex,illness"
GOOD = ["p1,40,f,no", "p2,50,m,yes", "p3,60,f,no", "p4,70,m,yes"]
ODD = ["p5,old,f,no", "p6,,f,no", "p7,40,f,perhaps", ",40,f,no", "p8,inf,m,yes", "NA,1,m,yes"]


def table(folder, lines, kind="csv"):
    path = folder / "patients.csv"
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    if kind == "csv":
        return f"csv:{path}"
    cells = [line.split(",") for line in lines]
    columns = {
        name: [row[at] or None for row in cells] for at, name in enumerate(HEADER.split(","))
    }
    parquet.write_table(pa.table(columns), folder / "patients.parquet")
    return f"parquet:{folder / 'patients.parquet'}"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("odd", [[one] for one in ODD] + [ODD], ids=[*"123456", "all"])
def test_an_odd_record_is_left_out_and_changes_no_other(tmp_path, odd, kind):
    plain, all_read = readable_records(table(tmp_path, GOOD, kind), OPTIONS)
    assert all_read
    for lines in (odd + GOOD, GOOD + odd, GOOD[:2] + odd + GOOD[2:]):
        found, all_read = readable_records(table(tmp_path, lines, kind), OPTIONS)
        assert not all_read
        assert np.array_equal(found.X, plain.X)
        assert np.array_equal(found.y, plain.y)
        assert list(found.groups) == list(plain.groups)
    assert readable_records(table(tmp_path, odd, kind), OPTIONS) == (None, False)


@pytest.mark.parametrize(
    "odd",
    [b"p9,4,0,f,no", b"p9", b'p9,40,"f,no', b"p9,4\xff,f,no", b"\x00,,,"],
)
def test_a_line_that_cannot_be_cut_is_left_out_and_changes_no_other(tmp_path, odd):
    plain, _ = readable_records(table(tmp_path, GOOD), OPTIONS)
    good = [line.encode() for line in GOOD]
    for lines in ([odd, *good], [*good, odd], [*good[:2], odd, *good[2:]]):
        (tmp_path / "patients.csv").write_bytes(b"\n".join([HEADER.encode(), *lines, b""]))
        found, all_read = readable_records(f"csv:{tmp_path / 'patients.csv'}", OPTIONS)
        assert not all_read
        assert np.array_equal(found.X, plain.X)
        assert list(found.groups) == list(plain.groups)


@pytest.mark.parametrize(
    "change",
    [
        {"classes": ["no"]},
        {"classes": "no"},
        {"target": 3},
        {"numeric": 3},
        {"dates": {"sex": "2020-01-01"}},
        {"nonsense": 1},
    ],
)
def test_a_declaration_that_no_record_can_meet_is_refused(tmp_path, change):
    with pytest.raises(InvalidArgument):
        example_of(table(tmp_path, GOOD), {**OPTIONS, **change})


@pytest.mark.parametrize("missing", ["target", "groups", "numeric"])
def test_a_missing_column_is_no_records_fault_and_refused(tmp_path, missing):
    wrong = {**OPTIONS, missing: ["height"] if missing == "numeric" else "height"}
    with pytest.raises(InvalidArgument, match="height"):
        readable_records(table(tmp_path, GOOD), wrong)


def test_a_missing_file_and_arrays_are_refused(tmp_path):
    with pytest.raises(InvalidArgument):
        readable_records(f"csv:{tmp_path / 'nothing.csv'}", OPTIONS)
    with pytest.raises(InvalidArgument, match=r"Site\.answer"):
        example_of("npz:records.npz", {})


def test_an_example_is_as_declared_and_nobodys(tmp_path):
    dated = {**OPTIONS, "numeric": ["age", "joined"], "dates": {"joined": "2020-01-01"}}
    example = example_of(table(tmp_path, GOOD), {**dated, "classes": 3, "ignored": ["note"]})
    assert example.X.tolist() == [[0.0, 0.0, 0.0]]
    assert (len(example.classes), example.groups.tolist()) == (3, ["somebody"])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "UTF8", "latin-1"])
def test_a_text_is_read_in_the_encoding_that_is_declared(tmp_path, encoding):
    plain, _ = readable_records(table(tmp_path, GOOD), OPTIONS)
    path = tmp_path / "patients.csv"
    path.write_bytes("\n".join([HEADER, *GOOD, "p9,50,\xe9,no"]).encode(encoding))
    found, _ = readable_records(f"csv:{path}", {**OPTIONS, "encoding": encoding})
    assert np.array_equal(found.X[: len(plain.X)], plain.X)


def test_a_damaged_archive_is_refused_in_one_line(tmp_path):
    (tmp_path / "patients.csv.gz").write_bytes(b"\x1f\x8bno archive")
    with pytest.raises(InvalidArgument, match="whole, readable"):
        readable_records(f"csv:{tmp_path / 'patients.csv.gz'}", OPTIONS)
