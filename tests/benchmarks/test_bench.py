"""`make bench`: what is measured, written, compared and recorded."""

from __future__ import annotations

import json
import sys

import pytest

import benchmarks.__main__ as bench
from benchmarks.ratios import PARTS, Ratio


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run with made-up ratios, and with results in a folder of the test."""
    monkeypatch.setattr(bench, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(bench, "LAST", tmp_path / "results" / "last.json")
    monkeypatch.setattr(bench, "RECORDED", tmp_path / "results" / "recorded.json")

    def call(*arguments, **ratios):
        parts = {
            part: lambda part=part, ratio=ratio: [Ratio(part, "x", "a loop", ratio)]
            for part, ratio in ratios.items()
        }
        monkeypatch.setattr(bench, "PARTS", parts)
        monkeypatch.setattr(sys, "argv", ["bench", *arguments])
        with pytest.raises(SystemExit) as stop:
            bench.main()
        return int(stop.value.code), capsys.readouterr().out

    return call


def test_every_part_of_the_issue_is_there():
    assert {"privacy", "noise", "features", "knn", "teachers", "streams", "direct"} <= set(PARTS)


def test_the_first_run_is_new_and_records_nothing(run, tmp_path):
    code, out = run(noise=0.5)
    assert code == 0
    assert "new" in out
    assert json.loads((tmp_path / "results/last.json").read_text())["ratios"] == {"noise: x": 0.5}
    assert not (tmp_path / "results/recorded.json").exists()


def test_a_later_run_is_compared(run):
    run("--record", noise=2.0, knn=4.0)
    code, out = run(noise=2.2, knn=3.8)
    assert code == 0
    assert "+10%" in out
    assert "-5%" in out
    code, out = run(noise=1.4, knn=4.0)
    assert code == 1
    assert "fell" in out
    assert "-30%" in out


def test_parts_left_out_keep_their_record(run, tmp_path):
    run("--record", noise=2.0, knn=4.0)
    run("--record", "--only", "noise", noise=3.0, knn=0.0)
    recorded = json.loads((tmp_path / "results/recorded.json").read_text())["ratios"]
    assert recorded == {"noise: x": 3.0, "knn: x": 4.0}


def test_json_and_unknown_parts(run, capsys):
    _, out = run("--json", noise=2.0)
    assert json.loads(out) == [
        {"part": "noise", "name": "x", "against": "a loop", "ratio": 2.0, "recorded": None}
    ]
    code, _ = run("--only", "speed", noise=2.0)
    assert code == 2
