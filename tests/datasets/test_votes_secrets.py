"""No message about a file of votes quotes a vote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from refusals import everything_said

from tacit.datasets import read_rows, read_votes
from tacit.errors import InvalidArgument

VOTES = np.array([[3, 1, 0], [0, 2, 2], [4, 0, 0]])


PREDICTIONS = np.array([[0, 1, 0], [0, 2, 0], [0, 1, 0], [1, 2, 0]])


CANARY = 987_654_321


def write_csv(path: Path, rows: object, header: str = "") -> Path:
    lines = [",".join(map(str, row)) for row in np.asarray(rows).tolist()]
    path.write_text("\n".join([header, *lines] if header else lines) + "\n", encoding="utf-8")
    return path


def saved(folder: Path, kind: str, array: np.ndarray, key: str) -> Path:
    path = folder / f"file.{kind}"
    if kind == "npy":
        np.save(path, array)
    elif kind == "npz":
        np.savez(path, **{key: array})
    else:
        write_csv(path, array)
    return path


# --- no message quotes a vote ---------------------------------------------------------------


def with_canary(array: np.ndarray) -> np.ndarray:
    planted = array.astype(float)
    planted[1, 1] = CANARY
    return planted


@pytest.mark.parametrize("kind", ["npy", "npz", "csv"])
@pytest.mark.parametrize(("format", "array"), [("histogram", VOTES), ("predictions", PREDICTIONS)])
@pytest.mark.parametrize("change", [0, 0.25, 1e40], ids=["out of range", "fraction", "huge"])
def test_errors_quote_no_vote(tmp_path, kind, format, array, change):
    key = {"histogram": "votes", "predictions": "predictions"}[format]
    path = saved(tmp_path, kind, with_canary(array) + change, key)
    with pytest.raises(InvalidArgument) as caught:
        read_votes(path, format=format, n_classes=3)
    assert str(CANARY) not in everything_said(caught.value)
    assert f"{CANARY:g}" not in everything_said(caught.value)


@pytest.mark.parametrize("cell", [f"{CANARY}x", f"x{CANARY}", f'"{CANARY}'])
def test_a_cell_that_is_no_number_is_not_quoted(tmp_path, cell):
    path = tmp_path / "votes.csv"
    path.write_text(f"1,2\n{cell},3\n", encoding="utf-8")
    for read in (
        lambda: read_votes(path, format="histogram"),
        lambda: read_rows(path, n_rows=10),
    ):
        with pytest.raises(InvalidArgument) as caught:
            read()
        assert str(CANARY) not in everything_said(caught.value)
