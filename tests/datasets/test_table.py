"""Tables with declared roles: nothing is learned from the rows, and no message quotes them."""

from __future__ import annotations

import gzip
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import everything_said, read_or_refuse

from tacit.datasets import load_csv, load_public
from tacit.errors import InvalidArgument

TEXT = """id,age,sex,note,rich
a,40,Male,x,no
b, 17 ,Female,y,yes
a,65.5,unknown,"z, with a comma",no
c,-1e3,,,yes
"""
ROLES = {
    "target": "rich",
    "classes": ["no", "yes"],
    "numeric": {"age": [18, 65]},
    "categorical": {"sex": ["Female", "Male"]},
}
CANARY = "c4n4ry"


def write(folder: Path, text: str, name: str = "people.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_numbers_and_indices_of_categories(tmp_path):
    data = load_csv(write(tmp_path, TEXT), **ROLES, groups="id")
    assert data.X.tolist() == [[40, 1], [17, 0], [65.5, 2], [-1000, 2]]
    assert data.y.tolist() == [0, 1, 0, 1]
    assert data.groups.tolist() == ["a", "b", "a", "c"]
    assert ([column.name for column in data.columns], data.name) == (["age", "sex"], "people")
    assert data.n_train is None
    assert [column.name for column in data.columns] == ["age", "sex"]


def test_the_public_view_of_a_table_is_its_bins(tmp_path):
    data = load_csv(write(tmp_path, TEXT), **ROLES)
    names = data.features().get_feature_names_out()
    rows = [names[row > 0].tolist() for row in data.features().transform(data.X)]
    assert rows == [
        ["age=18..65", "sex=Male"],
        ["age=<18", "sex=Female"],
        ["age=>=65", "sex=other"],
        ["age=<18", "sex=other"],
    ]


def test_columns_that_are_not_declared_are_not_read(tmp_path):
    text = TEXT.replace(",x,no", f",{CANARY},no")
    data = load_csv(write(tmp_path, text), **ROLES)
    assert data.X.shape == (4, 2)
    assert data.groups is None
    assert all(CANARY not in repr(getattr(data, field)) for field in data.__slots__)


def test_an_undeclared_category_is_other_or_refused(tmp_path):
    path = write(tmp_path, TEXT.replace("unknown", CANARY))
    assert load_csv(path, **ROLES).X[2].tolist() == [65.5, 2]
    with pytest.raises(InvalidArgument, match=r"column 'sex' .*line 4") as caught:
        load_csv(path, **ROLES, other=False)
    assert CANARY not in everything_said(caught.value)


def test_ignored_columns_are_there_and_change_nothing(tmp_path):
    path = write(tmp_path, TEXT)
    with_them = load_csv(path, **ROLES, ignored=["note", "id"])
    np.testing.assert_array_equal(with_them.X, load_csv(path, **ROLES).X)


def test_a_record_of_nobody_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match=r"'id' .* line 3"):
        load_csv(write(tmp_path, TEXT.replace("b, 17", ", 17")), **ROLES, groups="id")


def test_public_inputs_need_no_labels_and_mean_the_same(tmp_path):
    expected = load_csv(write(tmp_path, TEXT), **ROLES, groups="id", ignored=["note"]).X
    rows = [line.split(",") for line in TEXT.replace('"z, with a comma"', "z").splitlines()]
    text = "\n".join(f"{row[2]},{row[1]}" for row in rows)  # no id, no note, no label
    public = write(tmp_path, text, "public.csv")
    options = ROLES | {"groups": "id", "ignored": ["note"]}
    np.testing.assert_array_equal(load_public(f"csv:{public}", **options), expected)
    with pytest.raises(InvalidArgument, match=r"^Expected options"):
        load_public(f"csv:{public}", **options, colour=3)


def test_the_order_of_rows_does_not_change_what_categories_mean(tmp_path):
    header, *rows = TEXT.splitlines()
    forwards = load_csv(write(tmp_path, "\n".join([header, *rows])), **ROLES)
    backwards = load_csv(write(tmp_path, "\n".join([header, *rows[::-1]])), **ROLES)
    alone = load_csv(write(tmp_path, "\n".join([header, rows[2]])), **ROLES)
    np.testing.assert_array_equal(forwards.X, backwards.X[::-1])
    np.testing.assert_array_equal(alone.X[0], forwards.X[2])


@pytest.mark.parametrize(
    "variant",
    [
        TEXT.replace("\n", "\r\n"),
        "\ufeff" + TEXT,
        TEXT.replace("\n", "\n\n"),
        TEXT.rstrip("\n"),
        TEXT.replace("id,age", " id , age "),
    ],
    ids=["windows", "byte order mark", "blank lines", "no last newline", "spaces"],
)
def test_variants_of_the_same_file(tmp_path, variant):
    expected = load_csv(write(tmp_path, TEXT), **ROLES).X
    np.testing.assert_array_equal(load_csv(write(tmp_path, variant), **ROLES).X, expected)


def test_gzipped_and_with_another_delimiter(tmp_path):
    path = tmp_path / "people.csv.gz"
    path.write_bytes(gzip.compress(b"age;rich\n3;no\n4;yes\n"))
    data = load_csv(path, target="rich", classes=["no", "yes"], numeric=["age"], delimiter=";")
    assert data.X.tolist() == [[3], [4]]
    assert data.columns[0].edges == ()


def test_numbers_may_be_classes(tmp_path):
    path = write(tmp_path, "age,level\n3,1\n4,0\n")
    assert load_csv(path, target="level", classes=2, numeric=["age"]).y.tolist() == [1, 0]


@pytest.mark.parametrize("cell", ["", "?", "NA", " nan ", "null"])
def test_a_missing_number_needs_a_public_stand_in(tmp_path, cell):
    path = write(tmp_path, f"age,rich\n3,no\n{cell},yes\n")
    roles = {"target": "rich", "classes": ["no", "yes"], "numeric": ["age"]}
    with pytest.raises(InvalidArgument, match=r"column 'age' .*line 3.*missing="):
        load_csv(path, **roles)
    assert load_csv(path, **roles, missing=-1).X.tolist() == [[3], [-1]]


@pytest.mark.parametrize(
    "cell", ["x", "1_000", "inf", "-inf", "1e999", "1,5", "0x10", "--1", "2024-05-01", CANARY]
)
@pytest.mark.parametrize("missing", [None, 0.0])
def test_what_is_no_number_is_refused_and_not_quoted(tmp_path, cell, missing):
    quoted = f'"{cell}"' if "," in cell else cell
    path = write(tmp_path, f"age,size,rich\n3,3,no\n3,{quoted},yes\n")
    roles = {"target": "rich", "classes": ["no", "yes"], "numeric": ["age", "size"]}
    with pytest.raises(InvalidArgument, match=r"column 'size' .*line 3") as caught:
        load_csv(path, **roles, missing=missing)
    assert cell not in everything_said(caught.value).replace("write 1.5, not 1,5", "").split()
    assert CANARY not in everything_said(caught.value)
    assert ("missing=" in str(caught.value)) == (missing is None)


@pytest.mark.parametrize(
    "text",
    [
        f"age,rich\n3,{CANARY}\n",
        f"age,rich\n3,no\n3,no,{CANARY}\n",
        f"age,rich\n{CANARY}\n",
        f'age,rich\n3,"{CANARY}\n',
        f"age,{CANARY}\n3,no\n",
        "age,rich\n",
        "age,rich",
        "",
        "\n",
        "age,age,rich\n1,2,no\n",
        "age\n3\n",
        'age,rich\n3,"no"x\n',
    ],
    ids=repr,
)
def test_damaged_tables_are_refused_and_not_quoted(tmp_path, text):
    with pytest.raises(InvalidArgument, match=r"^Expected") as caught:
        load_csv(write(tmp_path, text), target="rich", classes=["no", "yes"], numeric=["age"])
    said = everything_said(caught.value)
    assert CANARY not in said
    assert "\n" not in str(caught.value)


HEADERS = {
    "": r"^Expected a header in 'people.csv'; the file is empty\.$",
    "\ufeff": r"^Expected a header in 'people.csv'; the file is empty\.$",
    "\nage,rich\n3,no\n": r"^Expected a header in 'people.csv'; its first line is blank\.$",
    "size,rich\n3,no\n": r"^Expected a column 'age' in the header of .*; there is none\.$",
    f"{CANARY},no\n3,no\n": r"^Expected a column 'age' in the header of .*; there is none\.$",
    "age,rich,age\n3,no,4\n": r"^Expected one column 'age' in the header of .*; there are 2\.$",
    "age;rich\n3;no\n": r"Expected a column 'age' .* one column .*, set delimiter=\";\"\.$",
    '"age";"rich"\n3;"no"\n': r"columns .* one column .*, set delimiter=\";\"\.$",
    f"{CANARY};no\n3;no\n": r"Expected a column 'age' .*set delimiter=\";\"\.$",
    "age\trich\n3\tno\n": r"contains \"\\t\"; .*, set delimiter=\"\\t\"\.$",
    "age|rich\n3|no\n": r"set delimiter=\"\|\"\.$",
    "size\n3\n": r"there is none\.$",
    "size,a;b\n3,no\n": r"there is none\.$",
}


@pytest.mark.parametrize("text", HEADERS, ids=repr)
def test_each_fault_of_a_header_has_its_own_line(tmp_path, text):
    roles = {"target": "rich", "classes": ["no", "yes"], "numeric": ["age"]}
    with pytest.raises(InvalidArgument, match=HEADERS[text]) as caught:
        load_csv(write(tmp_path, text), **roles)
    assert CANARY not in everything_said(caught.value)
    assert "\n" not in str(caught.value)
    assert "\t" not in str(caught.value)


@pytest.mark.parametrize("delimiter", [";", "\t", "|", ","])
@pytest.mark.parametrize("quote", ["", '"'])
def test_the_separator_that_is_named_reads_the_file(tmp_path, delimiter, quote):
    cells = [["age", "rich"], ["3", "no"], ["4", "yes"]]
    lines = [delimiter.join(f"{quote}{cell}{quote}" for cell in row) for row in cells]
    path = write(tmp_path, "\n".join(lines))
    roles = {"target": "rich", "classes": ["no", "yes"], "numeric": ["age"]}
    with pytest.raises(InvalidArgument, match=r"set delimiter=") as caught:
        load_csv(path, **roles, delimiter="," if delimiter != "," else ";")
    named = tomllib.loads(str(caught.value).rstrip(".").rpartition("set ")[2])
    assert load_csv(path, **roles, **named).X.tolist() == [[3], [4]]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16"])
def test_another_encoding_is_called_one(tmp_path, encoding):
    text = f"age,city,rich\n3,M\u00fcnchen {CANARY},no\n"
    path = tmp_path / "people.csv"
    path.write_bytes(text.encode(encoding))
    roles = {"target": "rich", "classes": ["no", "yes"], "numeric": ["age"]}
    with pytest.raises(InvalidArgument, match=r"text in UTF-8; .* iconv -f LATIN1") as caught:
        load_csv(path, **roles)
    assert CANARY not in everything_said(caught.value)
    converted = path.read_bytes().decode(encoding).encode("utf-8")
    path.write_bytes(converted)
    assert load_csv(path, **roles).X.tolist() == [[3]]


@pytest.mark.parametrize(
    "changes",
    [
        {"target": "poor"},
        {"numeric": {"height": []}},
        {"numeric": "age"},
        {"numeric": 5},
        {"numeric": {"age": [2, 1]}},
        {"numeric": ["age", "sex"]},
        {"categorical": ["sex"]},
        {"categorical": {"sex": []}},
        {"categorical": {"rich": ["no", "yes"]}},
        {"numeric": (), "categorical": None},
        {"classes": ["no"]},
        {"classes": ["no", "maybe"]},
        {"groups": "family"},
        {"groups": "rich"},
        {"groups": 5},
        {"groups": ""},
        {"target": None},
        {"ignored": ["height"]},
        {"ignored": ["age"]},
        {"ignored": "note"},
        {"ignored": [3]},
        {"other": 1},
        {"missing": "none"},
        {"missing": float("nan")},
        {"delimiter": ""},
        {"delimiter": ", "},
        {"delimiter": '"'},
        {"delimiter": None},
    ],
    ids=str,
)
def test_roles_that_do_not_fit_are_refused(tmp_path, changes):
    with pytest.raises(InvalidArgument, match=r"^Expected"):
        load_csv(write(tmp_path, TEXT), **(ROLES | changes))


def test_no_file_and_no_text_are_refused(tmp_path):
    with pytest.raises(InvalidArgument, match=r"there is none"):
        load_csv(tmp_path / "people.csv", **ROLES)
    path = tmp_path / "people.csv"
    path.write_bytes(b"age,sex,rich\n1,\xff\xfe,no\n")
    with pytest.raises(InvalidArgument, match=r"or no text at all"):
        load_csv(path, **ROLES)
    path = tmp_path / "people.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode())[:-12])
    with pytest.raises(InvalidArgument, match=r"truncated, damaged"):
        load_csv(path, **ROLES)


csv_text = st.text(st.sampled_from('ab1.-"?,;\n\r \0\ufeff\u0661'), max_size=60)


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.one_of(st.binary(max_size=80), csv_text.map(str.encode)),
    st.booleans(),
    st.sampled_from([None, 0.0]),
)
def test_no_file_raises_anything_but_our_own_error(tmp_path, body, with_header, missing):
    path = tmp_path / "people.csv"
    path.write_bytes((b"age,sex,rich\n" if with_header else b"") + body)
    data = read_or_refuse(
        lambda: load_csv(
            path,
            target="rich",
            classes=["a", "b"],
            numeric=["age"],
            categorical={"sex": ["a", "1"]},
            missing=missing,
        )
    )
    assert data is None or (np.isfinite(data.X).all() and set(data.X[:, 1]) <= {0, 1, 2})


@given(st.lists(st.tuples(st.floats(-1e9, 1e9), st.sampled_from("FMX"), st.booleans()), min_size=1))
@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_was_written_is_read(tmp_path, people):
    lines = [f"{age!r},{sex},{'yes' if rich else 'no'}" for age, sex, rich in people]
    path = write(tmp_path, "\n".join(["age,sex,rich", *lines]))
    roles = ROLES | {"categorical": {"sex": ["F", "M"]}}
    data = load_csv(path, **roles)
    assert data.X[:, 0].tolist() == [age for age, _, _ in people]
    assert data.X[:, 1].tolist() == ["FMX".index(sex) for _, sex, _ in people]
    assert data.y.tolist() == [int(rich) for _, _, rich in people]
