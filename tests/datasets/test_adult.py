"""UCI Adult: read in its own format, by categories declared and not found."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pytest

from tacit.datasets import load_adult, load_dataset
from tacit.datasets.named import ADULT
from tacit.errors import InvalidArgument
from tacit.features import Categorical, Numeric

TRAIN = """39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, \
Male, 2174, 0, 40, United-States, <=50K
52, Self-emp-inc, 287927, HS-grad, 9, Married-civ-spouse, Exec-managerial, Wife, White, Female, \
15024, 0, 40, ?, >50K

"""
TEST = """|1x3 Cross validator
25, ?, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, 0, 0, 40, \
Atlantis, <=50K.
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "adult.data").write_text(TRAIN, encoding="utf-8")
    (tmp_path / "adult.test.gz").write_bytes(gzip.compress(TEST.encode()))
    return tmp_path


def test_both_files_are_read_and_full_stops_do_not_matter(folder):
    data = load_adult(folder)
    assert data.y.tolist() == [0, 1, 0]
    assert (data.n_train, data.classes, data.name) == (2, ("<=50K", ">50K"), "adult")
    assert data.X[:, 0].tolist() == [39, 52, 25]
    place = [column.name for column in data.columns].index("capital-gain")
    assert data.X[:, place].tolist() == [2174, 15024, 0]


def test_categories_are_indices_and_the_unknown_is_other(folder):
    data = load_adult(folder)
    names = [column.name for column in data.columns]
    for name, row, label in [
        ("workclass", 0, "State-gov"),
        ("workclass", 2, "other"),
        ("sex", 1, "Female"),
        ("native-country", 0, "United-States"),
        ("native-country", 1, "other"),
        ("native-country", 2, "other"),
    ]:
        place = names.index(name)
        assert data.columns[place].labels[int(data.X[row, place])] == label


def test_its_public_view_has_one_bin_for_each_column(folder):
    data = load_adult(folder)
    view = data.features().transform(data.X)
    assert view.sum(axis=1).tolist() == [14, 14, 14]


@pytest.mark.parametrize(
    "line",
    ["39, State-gov", TRAIN.splitlines()[0] + ", more", TRAIN.splitlines()[0].replace("39", "old")],
)
def test_damaged_lines_are_refused(folder, line):
    (folder / "adult.data").write_text(TRAIN + line + "\n", encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"line 4"):
        load_adult(folder)


def test_unknown_labels_and_missing_files_are_refused(folder):
    (folder / "adult.data").write_text(TRAIN.replace(">50K", "lots"), encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"declared classes") as caught:
        load_adult(folder)
    assert "lots" not in str(caught.value)
    (folder / "adult.data").unlink()
    with pytest.raises(InvalidArgument, match=r"'adult\.data'.*there is none"):
        load_adult(folder)


@pytest.mark.data
def test_the_declared_categories_are_those_of_the_sets_own_description(data_dir):
    text = (data_dir / "adult" / "adult.names").read_text(encoding="utf-8")
    lines = re.findall(r"^([\w-]+): (.*)\.$", text, flags=re.MULTILINE)
    described = {name: values for name, values in lines if not name.startswith("|")}
    assert list(described) == [column.name for column in ADULT]
    for column in ADULT:
        if isinstance(column, Numeric):
            assert described[column.name] == "continuous"
        else:
            assert isinstance(column, Categorical)
            assert ", ".join(column.categories) == described[column.name]


@pytest.mark.data
def test_the_real_set_has_its_known_counts(data_dir):
    data = load_dataset(f"adult:{data_dir / 'adult'}")
    assert (len(data.train), int(data.train.y.sum())) == (32_561, 7841)
    assert (len(data.test), int(data.test.y.sum())) == (16_281, 3846)
    names = data.features().get_feature_names_out()
    missing = [
        np.flatnonzero(names == f"{c}=other")[0]
        for c in ("workclass", "occupation", "native-country")
    ]
    for part, rows in ((data.train, 2399), (data.test, 1221)):
        view = data.features().transform(part.X)
        assert int(view[:, missing].any(axis=1).sum()) == rows
