"""One odd record among others changes nobody else's numbers, person, teacher or label.

Every entrance of private records is listed here; one that is added to the package and not to this
list fails a test. An entrance reads the same records without the odd one, and with it first, in the
middle and last: the others must be the same bits, and at most one record more is read.
"""

from __future__ import annotations

import csv
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from refusals import everything_said

import tacit.datasets
from tacit import _cells
from tacit._registry import DATASETS
from tacit.datasets import deciding_names, load_dataset, load_npz, load_table, open_table
from tacit.errors import InvalidArgument
from tacit.records import Labels, Numbers, Tags, read_records, read_stack
from tacit.teachers import place_of, places_of, record_ids, shard_key, shard_of
from tacit_federation.answering import (
    _inputs_of,
    _sharded,
    codes_of_answers,
    counts_of_answers,
)

KEY = shard_key(0)
NAMES = ("num", "size", "day", "sex", "label", "person")
COLUMNS = {
    "target": "label",
    "classes": ["no", "yes"],
    "numeric": ["num", "size", "day"],
    "categorical": {"sex": ["f", "m"]},
    "dates": {"day": "2020-01-01"},
    "groups": "person",
}
ODD = {
    "nothing": None,
    "nan": math.nan,
    "infinite": math.inf,
    "large": 1e300,
    "subnormal": 5e-324,
    "truth": True,
    "beyond 64 bits": 2**70,
    "exact decimal": Decimal("12.3456"),
    "long decimal": Decimal("0.1234567890123456789012345"),
    "date": date(2021, 3, 4),
    "last date": date(9999, 12, 31),
    "nanosecond": pd.Timestamp("2021-03-04 05:06:07.000000001"),
    "duration": pd.Timedelta(1, "ns"),
    "aware": datetime(2021, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=5))),
    "naive": datetime(2021, 3, 4, 5, 6, 7, 8),
    "bytes": b"\xff\x00",
    "spaces": "  7 ",
    "empty": "",
    "zero byte": "\0",
    "list": [1, [2, "three"]],
    "complex": 1 + 2j,
    "undeclared": "c4n4ry",
    "whole float": 7.0,
    "single": np.float32(0.1),
    "half": np.float16(0.1),
    "big-endian": np.array(513, dtype=">i2")[()],
    "attosecond": np.datetime64(5, "as"),
    "written instant": "2021-03-04 05:06:07+02:00",
}
PLACES = (0, 4, 9)


def record(number, **odd):
    base = {
        "num": 0.1 * number + 0.3,
        "size": number - 3,
        "day": date(2020, 1, 1) + timedelta(days=37 * number),
        "sex": "fmx"[number % 3],
        "label": ("no", "yes")[number % 2],
        "person": f"p{number % 4}",
    }
    return base | odd


BASE = [record(number) for number in range(9)]


def columns(records, wanted=NAMES):
    return {name: [one[name] for one in records] for name in wanted}


def seen(X, y, people):
    """Return what is known of each record: its bits, its label, its person."""
    ids = record_ids(X) if people is None else people
    shards = shard_of(list(ids), 7, KEY)
    rows = np.ascontiguousarray(X, dtype="<f8")
    return [
        (row.tobytes(), one.item(), str(who), int(shard))
        for row, one, who, shard in zip(rows, np.asarray(y), ids, shards, strict=True)
    ]


def of_dataset(data):
    return seen(data.X, data.y, data.groups)


def of_table(source, **how):
    found = open_table(source, **COLUMNS, **how).load(Labels(("no", "yes")))
    return seen(*found)


def pandas_frame(records):
    return pd.DataFrame(columns(records))


def polars_frame(records):
    return pl.from_arrow(arrow_table(records))


def polars_objects(records):
    how = {"dtype": pl.Object}
    return pl.DataFrame([pl.Series(name, cells, **how) for name, cells in columns(records).items()])


TYPES = {"num": pa.float64(), "size": pa.int64(), "day": pa.date32()}


def arrow_table(records):
    """Return a table of which one odd cell makes a whole column text."""
    return pa.table({name: arrow_column(name, cells) for name, cells in columns(records).items()})


def arrow_column(name, cells):
    try:
        return pa.array(cells, TYPES.get(name, pa.string()))
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())


def csv_file(records, folder):
    path = folder / "records.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        writer.writerows([["" if c is None else c for c in one.values()] for one in records])
    return path


def parquet_file(records, folder):
    parquet.write_table(arrow_table(records), folder / "records.parquet")
    return folder / "records.parquet"


def parquet_folder(records, folder, dictionaries=False):
    """Write each record into a file of its own, with a schema and dictionary of its own."""
    place = folder / "many"
    place.mkdir()
    for number, one in enumerate(records):
        table = arrow_table([one])
        if dictionaries and number % 2:
            text = [name for name in NAMES if pa.types.is_string(table[name].type)]
            for name in text:
                at = table.column_names.index(name)
                table = table.set_column(at, name, table[name].dictionary_encode())
        parquet.write_table(table, place / f"{number:03}.parquet")
    return place


def dask_frame(records):
    import dask
    import dask.dataframe as dd

    parts = [pandas_frame([one]) for one in records]
    return dd.from_delayed(
        [dask.delayed(part) for part in parts], meta=pandas_frame(BASE), verify_meta=False
    )


def lists(records, drop=False):
    rows = [[one["num"], one["size"]] for one in records]
    y, people = ([one[name] for one in records] for name in ("label", "person"))
    found, _ = read_records(rows, y, people, Labels(("no", "yes")), width=2, drop=drop)
    return seen(found.rows, found.targets, [name.decode() for name in found.people])


def objects(records, container, drop=False):
    """Read arrays of objects, or Series: NumPy and pandas decide nothing."""
    X = np.empty((len(records), 2), dtype=object)
    for place, one in enumerate(records):
        X[place, 0], X[place, 1] = one["num"], one["size"]
    y, people = (container([one[name] for one in records]) for name in ("label", "person"))
    found, _ = read_records(X, y, people, Labels(("no", "yes")), drop=drop)
    return seen(found.rows, found.targets, [name.decode() for name in found.people])


def object_array(values):
    made = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        made[place] = value
    return made


def site_arrays(records, container=list):
    X = [[one["num"], one["size"]] for one in records]
    y, people = (container([one[name] for one in records]) for name in ("size", "person"))
    labels, fits = Labels(tuple(range(-3, 60))).read(y)
    found = _sharded(_inputs_of(X, (2,)), labels, fits, people, 7, KEY)
    return [(row.tobytes(), one.item(), int(shard)) for row, one, shard in zip(*found, strict=True)]


def numbers_and_tags(records):
    rows = [[one["num"]] for one in records]
    values, known = Numbers(0, 1).read([one["size"] for one in records])
    tags, fits = Tags(2).read([[one["size"], 1] for one in records])
    found, _ = read_records(rows, [one["num"] for one in records], None, Numbers(0, 1), width=1,
                            drop=True)  # fmt: skip
    assert len(values) == len(known) == len(tags) == len(fits) == len(records)
    return seen(found.rows, found.targets, None)


DESK = {
    "lists": lambda records, folder: lists(records),
    "arrays of objects": lambda records, folder: objects(records, object_array),
    "series": lambda records, folder: objects(records, partial(pd.Series, dtype=object)),
    "pandas": lambda records, folder: of_table(pandas_frame(records)),
    "pandas at once": lambda records, folder: of_dataset(
        load_table(pandas_frame(records), **COLUMNS)
    ),
    "polars": lambda records, folder: of_table(polars_frame(records)),
    "polars objects": lambda records, folder: of_table(polars_objects(records)),
    "arrow": lambda records, folder: of_table(arrow_table(records)),
    "csv": lambda records, folder: of_table(csv_file(records, folder)),
    "csv at once": lambda records, folder: of_dataset(
        load_dataset(f"csv:{csv_file(records, folder)}", **COLUMNS)
    ),
    "parquet": lambda records, folder: of_table(parquet_file(records, folder)),
    "parquet at once": lambda records, folder: of_dataset(
        load_dataset(f"parquet:{parquet_file(records, folder)}", **COLUMNS)
    ),
    "parquet folder": lambda records, folder: of_table(parquet_folder(records, folder)),
    "dictionaries": lambda records, folder: of_table(parquet_folder(records, folder, True)),
    "dask": lambda records, folder: of_table(dask_frame(records)),
}
"""Entrances that refuse all records where one cannot be read."""

LEAVING_OUT = {
    "lists": lambda records, folder: lists(records, drop=True),
    "arrays of objects": lambda records, folder: objects(records, object_array, drop=True),
    "site arrays": lambda records, folder: site_arrays(records),
    "site arrays of objects": lambda records, folder: site_arrays(records, object_array),
    "numbers and tags": lambda records, folder: numbers_and_tags(records),
    "pandas": lambda records, folder: of_table(pandas_frame(records), unreadable="drop"),
    "csv": lambda records, folder: of_table(csv_file(records, folder), unreadable="drop"),
    "parquet": lambda records, folder: of_table(parquet_file(records, folder), unreadable="drop"),
    "parquet folder": lambda records, folder: of_table(
        parquet_folder(records, folder), unreadable="drop"
    ),
    "dask": lambda records, folder: of_table(dask_frame(records), unreadable="drop"),
}
"""Entrances that leave out a record that cannot be read, and say nothing."""

OTHER = {
    "npz": "test_a_container_of_another_type_changes_no_number",
    "texts": "test_texts",
    "mnist": "unsigned bytes and nothing else",
    "adult": "public",
    "affairs": "public",
    "digits": "public",
}
"""Data sets whose cells cannot be of any type, and why or where they are tested."""


def held(make, records, folder):
    """Return what an entrance reads, or its refusal."""
    folder.mkdir()
    try:
        return make(records, folder), None
    except InvalidArgument as refusal:
        return None, refusal


@pytest.mark.parametrize("column", NAMES)
@pytest.mark.parametrize(
    ("kind", "drops"), [(kind, False) for kind in DESK] + [(kind, True) for kind in LEAVING_OUT]
)
def test_an_odd_record_changes_no_other(kind, drops, column, tmp_path):
    make = (LEAVING_OUT if drops else DESK)[kind]
    expected, _ = held(make, BASE, tmp_path / "base")
    assert len(expected) == len(BASE)
    read = refused = 0
    for number, (name, cell) in enumerate(ODD.items()):
        place = PLACES[number % 3]
        records = [*BASE[:place], record(50, **{column: cell}), *BASE[place:]]
        found, refusal = held(make, records, tmp_path / f"{number}")
        if refusal is not None:
            refused += 1
            # Dask makes text of all words before they are here, and fails.
            assert not drops or (kind, name) == ("dask", "bytes")
            assert "c4n4ry" not in everything_said(refusal)
            assert refusal.__context__ is None
        if found is not None:
            read += 1
            others = found if len(found) == len(BASE) else found[:place] + found[place + 1 :]
            assert others == expected, name
    assert read + refused == len(ODD)


def test_a_new_entrance_joins_the_list():
    assert set(DATASETS) == set(OTHER) | {"csv", "parquet"}
    opening = {name for name in tacit.datasets.__all__ if name.startswith(("load_", "open_"))}
    assert opening == {
        *("load_adult", "load_affairs", "load_csv", "load_dataset", "load_digits", "load_idx"),
        *("load_npz", "load_public", "load_table", "load_texts", "open_table"),
    }


@pytest.mark.parametrize(
    "odd", ["x", "x,y,z,p,q,r,s", '"x,1,2020-01-01,f,no,p', "\x00", '"a\nb",1,2020-01-01,f,no,p1']
)
def test_a_line_that_cannot_be_cut_is_its_own_matter(odd, tmp_path):
    lines = csv_file(BASE, tmp_path).read_text().splitlines()
    expected = of_table(tmp_path / "records.csv", unreadable="drop")
    for place in (1, 5, len(lines)):
        (tmp_path / "odd.csv").write_text("\n".join([*lines[:place], odd, *lines[place:]]) + "\n")
        assert of_table(tmp_path / "odd.csv", unreadable="drop") == expected


PIXELS = np.arange(36).reshape(9, 4) * 7


@pytest.mark.parametrize("kind", ["u1", "i2", ">u2", "u4", "i8", ">i8", "f4", ">f4", "f8", "O"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_container_of_another_type_changes_no_number(kind, order, tmp_path):
    """One number among others may decide the type of an array: here it does."""
    X = np.array(PIXELS, dtype=kind, order=order)
    y, people = [n % 2 for n in range(9)], list(range(9))
    plain, _ = read_records(PIXELS.tolist(), y, people, Labels((0, 1)), width=4)
    for labels in (y, np.array(y, dtype=bool), np.array(y, dtype=">f4"), [str(n) for n in y]):
        for ids in (people, np.array(people, dtype=">f8"), [f"{n}.0" for n in people]):
            found, _ = read_records(X, labels, ids, Labels((0, 1)))
            assert np.array_equal(found.rows, plain.rows)
            assert found.targets.tolist() == plain.targets.tolist()
            assert found.people.tolist() == plain.people.tolist()
    if kind == "O":
        return
    stack = read_stack(X.reshape(9, 2, 2), name="images")
    assert np.array_equal(stack, PIXELS.reshape(9, 2, 2).astype(np.float32))
    sides = {}
    for name, array in (("plain", PIXELS.astype("u1")), ("other", X)):
        path = tmp_path / f"{name}.npz"
        np.savez(path, x=array, y=np.array(y))
        data = load_npz(path, classes=2, range=[0, 255])
        names = deciding_names(f"npz:{path}", 2, classes=2, range=[0, 255])
        sides[name] = (data.X.tobytes(), places_of(names, KEY).tolist())
    assert sides["plain"] == sides["other"]


def test_texts(tmp_path):
    """The side of a text follows from the text alone, and of a person from the id alone."""
    path, how = tmp_path / "texts.csv", {"text": "words", "target": "label", "classes": [0, 1]}
    path.write_text("words,label,who\none two,0,a\n,1,b\n3.0,0,7.0\n")
    alone = deciding_names(f"texts:{path}", 2, **how)
    assert len(set(alone)) == 3
    people = deciding_names(f"texts:{path}", 2, groups="who", **how)
    assert people == [b"a", b"b", b"7"]
    path.write_text("words,label,who\n\0,0,z\none two,0,a\n,1,b\n3.0,0,7\n")
    assert deciding_names(f"texts:{path}", 2, **how)[1:] == alone
    assert deciding_names(f"texts:{path}", 2, groups="who", **how)[1:] == people


def test_an_odd_scan_is_its_own_matter():
    scans = [np.full((2, 3), n, dtype=np.uint8) for n in range(4)]
    for odd in (np.zeros((2, 4)), None, np.full((2, 3), np.nan), [[1], [2, 3]], np.array([1j] * 6)):
        found = read_stack([*scans[:2], odd, *scans[2:]], (2, 3), name="images")
        assert np.array_equal(found[[0, 1, 3, 4]], np.stack(scans))
        assert np.isnan(found[2]).all()


@pytest.mark.parametrize(
    "odd", [None, [0.0, math.nan, 1.0], [1.0, 1.0, 9.0], "no", [0.5, 0, 0], [[1], [2, 3], 4], [0]]
)
def test_an_odd_teacher_of_a_site_is_its_own_matter(odd):
    rows = [[0, 1, 2], [2, 2, 1], [1, 1, 1]]
    expected = counts_of_answers([*rows, [0, 0, 0]], teachers=4, queries=3, classes=3)
    for place in range(4):
        given_rows = [*rows[:place], odd, *rows[place:]]
        found = counts_of_answers(given_rows, teachers=4, queries=3, classes=3)
        assert np.array_equal(found, expected)
        codes = codes_of_answers([[one] for one in given_rows], (4, 1, 3))
        assert np.array_equal(np.delete(codes, place, axis=0)[:, 0], rows)


LARGE = [2**53, 2**53 + 1] * 5


@pytest.mark.parametrize("hole", [None, "c4n4ry"])
@pytest.mark.parametrize("container", [list, pa.array, pl.Series, pd.array, pa.chunked_array])
def test_a_hole_among_large_labels_rounds_no_other(container, hole):
    """As an array one hole makes float64 of all, and 2^53 + 1 is 2^53."""
    cells = [*LARGE[:3], None, *LARGE[3:]]
    if hole is not None:  # one word makes words of all
        cells = [hole if cell is None else str(cell) for cell in cells]
    column = container([cells]) if container is pa.chunked_array else container(cells)
    places, fits = Labels((2**53, 2**53 + 1)).read(column)
    assert np.delete(places, 3).tolist() == [0, 1] * 5
    assert fits.tolist() == [place != 3 for place in range(11)]


def test_a_text_that_is_no_text_is_its_own_matter(tmp_path):
    """Arrow does not look whether words are UTF-8; its error would quote them."""
    words = [b"no", b"yes", b"c4n4ry\xff", b"no"]
    for kind in (pa.string(), pa.large_string()):
        column = pa.array(words, pa.large_binary() if kind == pa.large_string() else pa.binary())
        column = column.view(kind)
        for each in (column, column.dictionary_encode(), pa.chunked_array([column])):
            assert _cells.words_of(each)[:2] == ["no", "yes"]
            assert _cells.ids_of(each)[3] == "no"
            _, fits = Labels(("no", "yes")).read(each)
            assert fits.tolist() == [True, True, False, True]
        table = pa.table({"a": [1.0, 2.0, 3.0, 4.0], "y": column})
        parquet.write_table(table, tmp_path / "odd.parquet")
        about = {"target": "y", "classes": ["no", "yes"], "numeric": ["a"]}
        found = open_table(tmp_path / "odd.parquet", **about, unreadable="drop").load()
        assert found.rows.ravel().tolist() == [1.0, 2.0, 4.0]
        with pytest.raises(InvalidArgument) as caught:
            open_table(tmp_path / "odd.parquet", **about).load()
        assert "c4n4ry" not in everything_said(caught.value)


def test_a_range_divides_every_type_alike(tmp_path):
    X = np.random.default_rng(0).uniform(-2, 2, (50, 4)).astype(np.float32)
    found = []
    for name, array in (("f4", X), ("f8", X.astype(np.float64))):
        np.savez(tmp_path / f"{name}.npz", x=array, y=np.arange(50) % 2)
        found.append(load_npz(tmp_path / f"{name}.npz", classes=2, range=[-2.5, 2.5]).X.tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("encoding", ["hz", "iso2022_jp", "utf-16", "utf-7", "cp037", "big5"])
def test_lines_are_read_alone_only_where_an_encoding_lets_them(encoding, tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,0\n")
    about = {"target": "y", "classes": [0, 1], "numeric": ["a"], "encoding": encoding}
    with pytest.raises(InvalidArgument, match="encoding"):
        open_table(tmp_path / "a.csv", **about, unreadable="drop")
    for fine in ("utf-8", "latin-1", "cp1252", "iso8859-15"):
        open_table(tmp_path / "a.csv", **about | {"encoding": fine}, unreadable="drop").load()


def test_which_file_of_a_folder_comes_first_decides_nothing(tmp_path):
    rows = pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0], "y": [0, 1]})
    about = {"target": "y", "classes": [0, 1], "unreadable": "drop"}
    for name, odd in (("more", {"z": [1.0]}), ("less", {})):
        folder = tmp_path / name
        folder.mkdir()
        one = {"a": [9.0], "y": [1], **odd} | ({"b": [9.0]} if odd else {})
        parquet.write_table(pa.table(one), folder / "0.parquet")
        parquet.write_table(rows, folder / "1.parquet")
        found = open_table(folder, numeric=["a", "b"], **about).load()
        assert found.rows[-2:].tolist() == [[1.0, 3.0], [2.0, 4.0]]
        with pytest.raises(InvalidArgument, match="declare the columns"):
            open_table(folder, **about)


def test_a_date_among_instants_that_dask_has_written_as_text():
    import dask.dataframe as dd

    days = [datetime(2024, 1, 1 + n, 13) for n in range(8)]
    frames = [
        pd.DataFrame({"day": cells, "y": 0}) for cells in (days, [*days[:7], date(2024, 1, 8)])
    ]
    about = {"target": "y", "classes": [0, 1], "numeric": ["day"], "dates": {"day": "2024-01-01"}}
    plain, odd = (open_table(dd.from_pandas(f, npartitions=1), **about).load() for f in frames)
    assert plain.rows[:7].tolist() == odd.rows[:7].tolist() == [[n + 13 / 24] for n in range(7)]


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(),
    st.fractions(),
    st.text(max_size=6),
    st.binary(max_size=4),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.timedeltas(),
    st.complex_numbers(),
    st.sampled_from(["?", "NA", " 1,5 ", "1e5", "+3", "1_000", "٣", "7.0", "0x1"]),
)


@given(st.lists(CELLS, max_size=8))
def test_a_column_is_read_as_its_cells_are(cells):
    """The fast ways for whole columns give what the rules for one cell give."""
    start = date(2020, 1, 1)
    numbers, missing = _cells.numbers_of(cells)
    days, holes = _cells.days_of(cells, start)
    for place, cell in enumerate(cells):
        assert np.array_equal(numbers[place], _cells.number_of(cell), equal_nan=True)
        assert missing[place] == _cells.is_missing(cell)
        assert np.array_equal(days[place], _cells.days_of([cell], start)[0][0], equal_nan=True)
        assert holes[place] == _cells.is_missing(cell)
    assert _cells.words_of(cells) == [_cells.word_of(cell) for cell in cells]
    assert _cells.ids_of(cells) == [_cells.id_of(cell) for cell in cells]


@given(
    st.sampled_from(["i1", "u1", "i4", ">i8", "u8", "f2", "f4", ">f8", "?", "M8[D]", "M8[us]"]),
    st.lists(st.integers(0, 2**62), max_size=6),
)
def test_arrays_are_read_as_their_cells_are(kind, raw):
    width = np.dtype(kind).itemsize
    whole = np.frombuffer(b"".join(n.to_bytes(8, "big") for n in raw), dtype="u1")
    column = np.frombuffer(whole[: len(whole) // width * width].tobytes(), dtype=kind)
    if kind == "?":
        column = whole % 2 == 1
    cells = list(column)
    with np.errstate(all="ignore"):
        numbers, _ = _cells.numbers_of(column)
    expected = [_cells.number_of(cell) for cell in cells]
    assert np.array_equal(numbers, expected, equal_nan=True)
    assert _cells.ids_of(column) == [_cells.id_of(cell) for cell in cells]
    days, _ = _cells.days_of(column, date(2020, 1, 1))
    alone = [_cells.days_of([cell], date(2020, 1, 1))[0][0] for cell in cells]
    assert np.array_equal(days, alone, equal_nan=True)


@given(st.lists(st.one_of(st.integers(-(2**40), 2**40), st.text("ab7.0 ", max_size=4)), max_size=6))
def test_frames_are_read_as_their_cells_are(cells):
    words = [str(cell) for cell in cells]
    series = SimpleNamespace(
        pandas=pd.Series(words, dtype=object),
        categories=pd.Series(words, dtype="category"),
        polars=pl.Series(words, dtype=pl.String),
        arrow=pa.array(words, pa.string()),
        chunks=pa.chunked_array([pa.array([one], pa.string()) for one in words], pa.string()),
        dictionary=pa.array(words, pa.string()).dictionary_encode(),
    )
    for column in vars(series).values():
        assert _cells.words_of(column) == _cells.words_of(words)
        assert _cells.ids_of(column) == _cells.ids_of(words)
        assert np.array_equal(
            _cells.numbers_of(column)[0], _cells.numbers_of(words)[0], equal_nan=True
        )


def test_one_person_is_one_person_however_the_id_is_stored():
    alike = [7, 7.0, "7", " 7 ", "7.0", np.int8(7), np.float32(7), Decimal("7.00"), b"7", b"7.0"]
    assert len(set(_cells.ids_of(alike))) == 1
    assert len(set(place_of(alike, KEY))) == 1
    nobody = [None, math.nan, "", "NA", True, 2.0**53, 1j, [7], pd.NaT, Decimal("nan")]
    assert _cells.ids_of(nobody) == [None] * len(nobody)
