"""`tacit replicate`: the list, one item, and what is missing."""

from __future__ import annotations


def test_the_list_names_items_and_verdicts(tacit):
    outcome = tacit("replicate")
    assert outcome.code == 0, outcome.err
    assert "figure-4" in outcome.out


def test_missing_data_is_one_line(tacit, monkeypatch):
    monkeypatch.delenv("TACIT_DATA", raising=False)
    outcome = tacit("replicate", "pate", "figure-4")
    assert outcome.code == 2
    assert "TACIT_DATA" in outcome.err
    assert "Traceback" not in outcome.err


def test_all_items_of_a_paper_go_on_where_data_is_missing(tacit, monkeypatch):
    monkeypatch.delenv("TACIT_DATA", raising=False)
    outcome = tacit("replicate", "pate")
    assert outcome.code == 0
    assert "pate_votes" in outcome.err


def test_a_small_screen_loses_no_figure(tacit, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    outcome = tacit("replicate", "mac", "section-2-4")
    assert outcome.code == 0
    assert "lambda: 8; sigma: 4; quadrature: 2.25" in outcome.out
    monkeypatch.setenv("COLUMNS", "100")
    assert "…" not in tacit("replicate", "mac", "section-2-4").out
