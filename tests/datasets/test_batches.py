"""One reader for every kind of table: the same records give the same bits in all of them."""

from __future__ import annotations

import bz2
import gzip
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import everything_said

from tacit.datasets import batches, load_dataset, load_public, load_table, table
from tacit.errors import InvalidArgument

CANARY = "c4n4ry"
ROLES = {
    "target": "rich",
    "classes": ["no", "yes"],
    "numeric": {"age": [18, 65], "joined": [0, 366]},
    "categorical": {"sex": ["Female", "Male"]},
    "dates": {"joined": "2020-01-01"},
    "missing": {"age": -1.0, "joined": -2.0},
    "groups": "id",
}
TABLE = pa.table(
    {
        "id": ["a", "b", "a", "c"],
        "age": pa.array([40, 17, None, 65.5]),
        "joined": [date(2020, 1, 2), None, date(2019, 12, 31), date(2021, 1, 1)],
        "sex": ["Male", "Female", None, "unknown"],
        "note": [CANARY] * 4,
        "rich": ["no", "yes", "no", "yes"],
    }
)
TEXT = """id,age,joined,sex,note,rich
a,40,2020-01-02,Male,x,no
b,17,,Female,x,yes
a,,2019-12-31,,x,no
c,65.5,2021-01-01,unknown,x,yes
"""
EXPECTED = [[40, 1, 1], [17, -2, 0], [-1, -1, 2], [65.5, 366, 2]]


def frames(folder):
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    pyarrow.parquet.write_table(TABLE, folder / "people.parquet")
    (folder / "many").mkdir()
    for part in range(4):
        pyarrow.parquet.write_table(TABLE.slice(part, 1), folder / f"many/{part}.parquet")
    (folder / "people.csv").write_text(TEXT, encoding="utf-8")
    (folder / "people.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    (folder / "people.csv.bz2").write_bytes(bz2.compress(TEXT.encode()))
    return {
        "parquet": folder / "people.parquet",
        "folder": folder / "many",
        "csv": folder / "people.csv",
        "gz": folder / "people.csv.gz",
        "bz2": folder / "people.csv.bz2",
        "table": TABLE,
        "reader": TABLE.to_reader(max_chunksize=1),
        "pandas": TABLE.to_pandas(date_as_object=False),
        "polars": polars.from_arrow(TABLE),
        "duckdb": duckdb.from_arrow(TABLE),
    }


def test_every_kind_of_table_says_the_same(tmp_path):
    for kind, source in frames(tmp_path).items():
        found = load_table(source, **ROLES)
        assert found.X.tolist() == EXPECTED, kind
        assert found.y.tolist() == [0, 1, 0, 1], kind
        assert found.groups.tolist() == ["a", "b", "a", "c"], kind
        assert CANARY not in repr(found)


def test_a_frame_of_dask_is_read_by_its_partitions():
    frame = pytest.importorskip("dask.dataframe").from_pandas(
        TABLE.to_pandas(date_as_object=False), npartitions=2
    )
    assert load_table(frame, **ROLES).X.tolist() == EXPECTED


def test_files_are_known_by_their_endings(tmp_path):
    pyarrow.parquet.write_table(TABLE, tmp_path / "people.parquet")
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    for name in ("people.parquet", "people.csv.gz"):
        assert load_dataset(str(tmp_path / name), **ROLES).X.tolist() == EXPECTED
        assert load_public(str(tmp_path / name), **ROLES).tolist() == EXPECTED
    assert load_dataset(f"parquet:{tmp_path}/people.parquet", **ROLES).name == "people"


def test_an_old_export_is_read_as_it_is(tmp_path):
    path = tmp_path / "export.csv"
    path.write_bytes("city;income;paid\nKöln;1,5;yes\nUlm;-,5e1;no\n".encode("latin-1"))
    roles = {"target": "paid", "classes": ["no", "yes"], "numeric": ["income"]}
    how = {"delimiter": ";", "decimal": ",", "encoding": "latin-1"}
    found = load_table(path, **roles, categorical={"city": ["Köln"]}, **how)
    assert found.X.tolist() == [[1.5, 0], [-5, 1]]
    path.write_bytes(f"city;income;paid\nx;1.5{CANARY};yes\n".encode())
    with pytest.raises(InvalidArgument, match=r"'income' .* line 2 .*write 1,5, not 1.5") as caught:
        load_table(path, **roles, **how)
    assert CANARY not in everything_said(caught.value)


@given(st.lists(st.tuples(st.floats(-1e9, 1e9), st.sampled_from("FMX")), min_size=1), st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_how_records_are_cut_into_batches_changes_nothing(people, data):
    ages, sexes = zip(*people, strict=True)
    whole = pa.table({"age": list(ages), "sex": list(sexes), "rich": ["no"] * len(people)})
    roles = {"target": "rich", "classes": ["no", "yes"], "numeric": ["age"]}
    roles["categorical"] = {"sex": ["F", "M"]}
    expected = load_table(whole, **roles).X
    size = data.draw(st.integers(1, len(people)))
    np.testing.assert_array_equal(
        load_table(whole.to_reader(max_chunksize=size), **roles).X, expected
    )


def test_text_longer_than_a_block_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_BLOCK", 1 << 16)
    path = tmp_path / "long.csv"
    lines = [f"{number},{'é' * 50},no" for number in range(3000)]
    path.write_text("\n".join(["age,note,rich", *lines]), encoding="utf-8")
    roles = {"target": "rich", "classes": ["no", "yes"], "numeric": ["age"]}
    assert load_table(path, **roles).X[:, 0].tolist() == list(range(3000))
    path.write_text("\n".join(["age,note,rich", *lines, "x,y,no"]), encoding="utf-8")
    with pytest.raises(InvalidArgument, match="line 3002 "):
        load_table(path, **roles)


@pytest.mark.parametrize(
    ("cells", "roles"),
    [
        ({"age": [CANARY]}, {}),
        ({"age": [float("inf")]}, {}),
        ({"age": [None]}, {"missing": None}),
        ({"id": [""]}, {}),
        ({"id": [None]}, {}),
        ({"rich": [CANARY]}, {}),
        ({"joined": [CANARY]}, {}),
        ({"sex": [CANARY]}, {"other": False}),
        ({"age": [[1.0]]}, {}),
        ({"sex": [{CANARY: 1}]}, {"other": False}),
    ],
    ids=repr,
)
def test_what_cannot_be_read_is_refused_and_not_quoted(cells, roles):
    row = {name: TABLE[name].slice(0, 1) for name in TABLE.column_names} | cells
    with pytest.raises(InvalidArgument, match=r"^Expected") as caught:
        load_table(pa.table(row), **(ROLES | roles))
    assert CANARY not in everything_said(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"dates": {"height": "2020-01-01"}},
        {"dates": {"joined": "yesterday"}},
        {"dates": ["joined"]},
        {"missing": {"height": 1}},
        {"missing": {"age": "x"}},
        {"decimal": ";"},
        {"decimal": ","},
        {"encoding": "klingon"},
        {"encoding": 5},
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(changes):
    with pytest.raises(InvalidArgument, match=r"^Expected"):
        load_table(TABLE, **(ROLES | changes))


def test_what_is_no_table_is_refused(tmp_path):
    for source in (5, [[1]], np.eye(2)):
        with pytest.raises(InvalidArgument, match=r"^Expected a table"):
            load_table(source, **ROLES)
    broken = tmp_path / "x.parquet"
    broken.write_bytes(b"PAR1" + CANARY.encode())
    with pytest.raises(InvalidArgument, match="Parquet") as caught:
        load_table(broken, **ROLES)
    assert CANARY not in everything_said(caught.value)
    with pytest.raises(InvalidArgument, match="there is none"):
        load_table(tmp_path / "absent.parquet", **ROLES)


def test_categories_declared_as_numbers_are_the_same_to_the_reader_and_to_the_bins(tmp_path):
    """X holds places; a column of numbers would be looked up by its numbers."""
    path = tmp_path / "people.csv"
    path.write_text("level,rich\n2,no\n5,yes\n7,no\n")
    roles = {"target": "rich", "classes": ["no", "yes"], "categorical": {"level": [5, 2]}}
    for source in (path, pa.table({"level": [2.0, 5.0, 7.0], "rich": ["no", "yes", "no"]})):
        found = load_table(source, **roles)
        assert found.X.tolist() == [[1], [0], [2]]
        assert found.features().transform(found.X).argmax(axis=1).tolist() == [1, 0, 2]


PEOPLE = {"target": "y", "classes": ["no", "yes"], "numeric": ["a"], "groups": "id"}


def of_people(ids):
    count = len(ids)
    return pa.table({"a": np.arange(count) * 1.0, "y": ["no"] * count, "id": ids})


def test_people_whose_numbers_differ_in_the_last_digit_are_two():
    """Two people taken for one share one part of a sum, and each moves what the other says."""
    near = pa.array([1234567.0, 1234568.0, 0.1234567, 0.1234568])
    groups = load_table(of_people(near), **PEOPLE).groups
    assert groups.tolist() == ["1234567", "1234568", "0.1234567", "0.1234568"]
    single = load_table(of_people(pa.array([0.1, 2.0], pa.float32())), **PEOPLE)
    assert single.groups.tolist() == ["0.1", "2"]


@pytest.mark.parametrize("kind", ["plain", "categorical", "enum"])
def test_words_of_polars_are_words(kind):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": [0.5, 1.5, 2.5], "who": ["x", "y", "x"], "label": ["n", "y", "n"]})
    types = {"plain": pl.String, "categorical": pl.Categorical, "enum": pl.Enum(["y", "n", "x"])}
    columns = [pl.col("who").cast(types[kind]), pl.col("label").cast(types[kind])]
    declared = {"target": "label", "classes": ["n", "y"], "numeric": ["a"], "groups": "who"}
    data = load_table(frame.with_columns(columns), **declared)
    assert data.groups.tolist() == ["x", "y", "x"]
    assert data.y.tolist() == [0, 1, 0]


@pytest.mark.parametrize("kind", [pa.binary(16), pa.uuid()])
def test_people_named_by_bytes_are_told_apart(kind):
    whose = [bytes([255] * 16), bytes([254] * 16), bytes([255] * 16)]
    table = pa.table({"a": [0.5, 1.5, 2.5], "label": [0, 1, 0], "who": pa.array(whose, kind)})
    declared = {"target": "label", "classes": [0, 1], "numeric": ["a"], "groups": "who"}
    assert load_table(table, **declared).groups.tolist() == [one.hex() for one in whose]


def test_another_file_in_a_folder_of_parquet_is_named(tmp_path):
    rows = pa.table({"a": [0.5, 1.5], "label": [0, 1]})
    pa.parquet.write_table(rows, tmp_path / "0.parquet")
    pa.parquet.write_table(rows, tmp_path / "part-without-an-ending")
    (tmp_path / "_SUCCESS").touch()
    declared = {"target": "label", "classes": [0, 1], "numeric": ["a"]}
    assert len(load_table(tmp_path, **declared)) == 4
    (tmp_path / "README.txt").write_text("4711 Main Street")
    with pytest.raises(InvalidArgument, match=r"got 'README.txt', too") as caught:
        load_table(tmp_path, **declared)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize("nobody", [float("nan"), "NA", "?", "null", " "])
def test_records_of_nobody_are_not_one_person(nobody):
    known = 1.0 if isinstance(nobody, float) else "1"
    with pytest.raises(InvalidArgument, match=r"say whose record it is.*; record 2 does not"):
        load_table(of_people(pa.array([known, nobody])), **PEOPLE)


def test_how_many_digits_one_decimal_has_changes_no_other():
    pandas = pytest.importorskip("pandas")
    alone, together = (
        pandas.DataFrame({"size": pandas.Series(map(Decimal, words), dtype=object)})
        for words in (["1.5", "20"], ["1.5", "20", "1.25"])
    )
    roles = {"categorical": {"size": ["1.5", "20"]}}
    assert table.load_inputs(alone, **roles).ravel().tolist() == [0, 1]
    assert table.load_inputs(together, **roles).ravel().tolist() == [0, 1, 2]


def test_how_one_folder_is_named_changes_no_other(tmp_path):
    roles = {"numeric": ["a"], "categorical": {"site": ["01", "02"]}}
    for name in ("01", "02", "elsewhere"):
        folder = tmp_path / f"site={name}"
        folder.mkdir()
        pyarrow.parquet.write_table(pa.table({"a": [1.0]}), folder / "part.parquet")
        sites = table.load_inputs(tmp_path, **roles)[:, 1].tolist()
        assert sites == [0, 1, 2][: len(sites)]


QUOTED = {
    "a whole cell": ('1,"no, never"\n2,yes\n', ["other", "yes"]),
    "doubled": ('1,"a ""no"" b"\n2,"yes"\n', ["other", "yes"]),
    "two lines": ('1,"a\nb"\n2,yes\n', ["other", "yes"]),
    "empty": ('1,""\n2,yes\n', ["other", "yes"]),
    "behind a space": ('1, "no"\n2, "yes"\n', ["no", "yes"]),
    "inches": ('1,5" long\n2,yes\n', ["other", "yes"]),
    "inches twice": ('1,5" long\n2,6"\n3,no\n', ["other", "other", "no"]),
}


@pytest.mark.parametrize("block", [8, 1 << 23])
@pytest.mark.parametrize(("text", "expected"), QUOTED.values(), ids=QUOTED)
def test_a_quote_begins_or_ends_its_own_cell(tmp_path, monkeypatch, block, text, expected):
    words = ["no", "yes", "other"]
    path = tmp_path / "quotes.csv"
    path.write_text(f"a,word\n{text}", encoding="utf-8")
    with monkeypatch.context() as small:
        small.setattr(batches, "_BLOCK", block)
        rows = table.load_inputs(path, numeric=["a"], categorical={"word": words[:2]})
    assert [words[int(place)] for place in rows[:, 1]] == expected


@pytest.mark.parametrize(
    "text",
    [
        '1,x,no\n2,"y,yes\n3,z,no\n',
        '1,x,no\n2,"y,yes\n3,z,no\n4,"z,yes\n',
        '1,x,no\n2,"y,yes\n3,z,no\n4,"z",yes\n',
    ],
)
def test_a_row_with_an_open_quote_swallows_no_other(tmp_path, text):
    path = tmp_path / "quotes.csv"
    path.write_text(f"a,note,word\n{text}", encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"^Expected 'quotes\.csv'"):
        table.load_inputs(path, numeric=["a"], categorical={"word": ["no", "yes"]})


@pytest.mark.parametrize("day", ["2024-02-31", "24-02-01", "2024-2-1", "2024-13-01"])
def test_days_that_do_not_exist_are_refused(tmp_path, day):
    path = tmp_path / "days.csv"
    path.write_text(f"a\n2024-02-29\n{day}\n", encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"Expected dates .* line 3"):
        table.load_inputs(path, numeric=["a"], dates={"a": "2020-01-01"})
