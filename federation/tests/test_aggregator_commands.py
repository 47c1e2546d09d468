"""`tacit aggregator`: keys, descriptions, invitations, and one-line refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tacit_federation import Aggregator, Server


@pytest.fixture
def place(tacit, tmp_path):
    told = ("--name", "Board", "--url", "https://board.example:8443", "--delta", 1e-6)
    tacit("aggregator", "init", *told, "--epsilon", 4, "--folder", tmp_path / "board")
    return tmp_path / "board"


def test_a_description_pins_address_keys_and_ledger(tacit, place, tmp_path):
    file = tmp_path / "first.json"
    tacit("aggregator", "describe", file, "--role", "first", "--folder", place)
    made = Aggregator(place)
    assert Server(**json.loads(file.read_text())) == made.describe("first")
    made.close()
    asked = ("aggregator", "describe", tmp_path / "x", "--role", "third", "--folder", place)
    assert "first or second" in tacit(*asked, code=2)


def test_invitations_and_lists(tacit, place, tmp_path):
    out = tmp_path / "a.invitation"
    given = ("aggregator", "invite", "hospital-a", "--out", out, "--folder", place)
    tacit(*given)
    assert out.stat().st_mode & 0o777 == 0o600
    shown = tacit("aggregator", "show", "--folder", place, "--json")
    assert json.loads(shown)["studies"] == []
    tacit("aggregator", "statement", "--folder", place, code=6)
    tacit("aggregator", "revoke", "nobody", "--folder", place, code=2)


def test_two_aggregators_or_none(tacit, place, tmp_path):
    missing = tacit("aggregator", "show", "--folder", tmp_path / "nowhere", code=2)
    assert "tacit aggregator init" in missing
    (tmp_path / "odd.json").write_text("{}")
    made = ("--name", "U", "--url", "https://u.example:8443", "--epsilon", 4, "--delta", 1e-6)
    tacit("study", "init", *made, "--folder", tmp_path / "u")
    np.save(tmp_path / "x.npy", np.zeros((2, 1)))
    about = ("--title", "t", "--purpose", "p", "--inputs", tmp_path / "x.npy", "--classes", 2)
    about += ("--mechanism", "shared-votes:sigma=40", "--quorum-sites", 1)
    about += ("--folder", tmp_path / "u", "--first", tmp_path / "odd.json")
    assert "two aggregators, or none" in tacit("study", "new", *about, code=2)
    both = tacit("study", "new", *about, "--second", tmp_path / "odd.json", code=2)
    assert "tacit aggregator describe" in both
