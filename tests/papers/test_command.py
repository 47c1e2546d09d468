"""`python -m papers`: the list, one item, and what is missing."""

from __future__ import annotations

import sys

import pytest

from papers.__main__ import app
from tacit.cli import main


@pytest.fixture
def papers(monkeypatch, capfd, tmp_path):
    """Run the command; return its exit code, and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["papers", *arguments])
        with pytest.raises(SystemExit) as stop:
            main(app)
        return stop.value.code or 0, *capfd.readouterr()

    return run


def test_the_list_names_items_and_verdicts(papers):
    code, out, err = papers()
    assert code == 0, err
    assert "figure-4" in out


def test_missing_data_is_one_line(papers, monkeypatch):
    monkeypatch.delenv("TACIT_DATA", raising=False)
    code, _, err = papers("pate", "figure-4")
    assert code == 2
    assert "TACIT_DATA" in err
    assert "Traceback" not in err


def test_all_items_of_a_paper_go_on_where_data_is_missing(papers, monkeypatch):
    monkeypatch.delenv("TACIT_DATA", raising=False)
    code, _, err = papers("pate")
    assert code == 0
    assert "pate_votes" in err


def test_a_small_screen_loses_no_figure(papers, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    code, out, _ = papers("mac", "section-2-4")
    assert code == 0
    assert "lambda: 8; sigma: 4; quadrature: 2.25" in out
    monkeypatch.setenv("COLUMNS", "100")
    assert "…" not in papers("mac", "section-2-4")[1]
