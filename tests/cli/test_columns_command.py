"""`tacit columns` on a public file."""

from __future__ import annotations

import tomllib


def test_it_prints_or_writes_a_table_of_run_toml(tacit, tmp_path):
    rows = [f"{20 + number},{'ab'[number % 2]}" for number in range(40)]
    (tmp_path / "survey.csv").write_text("\n".join(["age,place", *rows]))
    shown = tacit("columns", "survey.csv")
    assert shown.code == 0
    assert tacit("columns", "survey.csv", "--out", "columns.toml").code == 0
    written = (tmp_path / "columns.toml").read_text()
    assert tomllib.loads(shown.out) == tomllib.loads(written)
    assert tomllib.loads(written)["data"]["options"]["categorical"] == {"place": ["a", "b"]}
    again = tacit("columns", "survey.csv", "--out", "columns.toml")
    assert again.code == 2  # nothing is overwritten
    assert tacit("columns", "absent.csv").code == 2
