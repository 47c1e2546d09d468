"""Fair's survey: read from a file, found in a package, refused when it is something else."""

from __future__ import annotations

import importlib.machinery
from pathlib import Path

import numpy as np
import pytest

from tacit.datasets import load_affairs, load_dataset
from tacit.errors import InvalidArgument, MissingExtra

HEAD = "rate_marriage,age,yrs_married,children,religious,educ,occupation,occupation_husb,affairs"
ROWS = ["3.0,32.0,9.0,3.0,3.0,17.0,2.0,5.0,0.1111111", "5.0,22.0,2.5,0.0,1.0,16.0,6.0,1.0,0.0"]


def write(folder: Path, *rows: str, head: str = HEAD) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fair.csv").write_text("\n".join([head, *rows]) + "\n")
    return folder / "fair.csv"


def test_a_copy_of_the_file(tmp_path):
    data = load_affairs(write(tmp_path, *ROWS))
    assert data.labels.tolist() == ["some", "none"]
    assert data.X[0].tolist() == [3, 32, 9, 3, 3, 17, 1, 4]
    assert data.features().fit_transform(data.X).shape[0] == 2
    np.testing.assert_array_equal(load_dataset(f"affairs:{tmp_path / 'fair.csv'}").X, data.X)


def test_the_package_that_ships_it(tmp_path, monkeypatch):
    write(tmp_path / "datasets" / "fair", *ROWS)
    spec = importlib.machinery.ModuleSpec("statsmodels", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr("tacit.datasets.named.find_spec", lambda name: spec)
    assert len(load_dataset("affairs")) == 2
    monkeypatch.setattr("tacit.datasets.named.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="statsmodels"):
        load_dataset("affairs")


@pytest.mark.parametrize(
    ("rows", "head"),
    [
        ([], HEAD),
        (ROWS, HEAD.replace("educ", "school")),
        ([ROWS[0].replace("32.0", "c4n4ry")], HEAD),
        ([ROWS[0].replace("2.0,5.0", "7.0,5.0")], HEAD),
        ([ROWS[0].replace("2.0,5.0", "nan,5.0")], HEAD),
        ([ROWS[0].rsplit(",", 3)[0]], HEAD),
    ],
)
def test_anything_else_is_refused_without_a_quote(tmp_path, rows, head):
    with pytest.raises(InvalidArgument, match=r"fair\.csv") as caught:
        load_affairs(write(tmp_path, *rows, head=head))
    assert "c4n4ry" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidArgument, match=r"absent\.csv"):
        load_affairs(tmp_path / "absent.csv")
