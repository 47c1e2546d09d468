"""No message about a file of votes quotes a vote."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import everything_said
from vote_files import PREDICTIONS, VOTES, saved

from tacit.datasets import read_rows, read_votes
from tacit.errors import InvalidArgument

CANARY = 987_654_321


def with_canary(array: np.ndarray) -> np.ndarray:
    planted = array.astype(float)
    planted[1, 1] = CANARY
    return planted


@pytest.mark.parametrize("kind", ["npy", "npz", "csv"])
@pytest.mark.parametrize(("format", "array"), [("histogram", VOTES), ("predictions", PREDICTIONS)])
@pytest.mark.parametrize("change", [0, 0.25, 1e40], ids=["out of range", "fraction", "huge"])
def test_errors_quote_no_vote(tmp_path, kind, format, array, change):
    key = {"histogram": "votes", "predictions": "predictions"}[format]
    planted = with_canary(array) + change
    path = saved(tmp_path, kind, planted, key)
    with pytest.raises(InvalidArgument) as caught:
        read_votes(path, format=format, n_classes=3)
    hidden = planted[1, 1]  # the huge change swallows the canary, so look for what is left
    for quoted in (str(CANARY), str(hidden), f"{hidden:g}", str(int(hidden))):
        assert quoted not in everything_said(caught.value)


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
