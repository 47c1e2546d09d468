"""`tacit predict`: the student of a run labels other rows, in the run's own words."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from tacit.cli.runs import _places, _second

CONFIG = """
method = "prototype"

[data]
source = "csv:private.csv"
public_source = "csv:public.csv"

[data.options]
target = "side"
classes = ["left", "right"]
numeric = ["height", "place"]

[privacy]
epsilon = 8.0
delta = 1e-4

[prototype]
n_prototypes = 10
votes = 1
student = "label-spreading"
"""


def write(path, rows, seed, *, labelled):
    """Left and right of 0, far apart. Columns of the two kinds of file come in another order."""
    draw = np.random.default_rng(seed)
    sides = draw.choice(["left", "right"], size=rows).tolist()
    lines = ["place,height,side" if labelled else "height,place"]
    for side, height in zip(sides, draw.uniform(size=rows), strict=True):
        place = (5 if side == "right" else -5) + height
        lines.append(f"{place},{height},{side}" if labelled else f"{height},{place}")
    path.write_text("\n".join(lines))
    return sides


@pytest.fixture
def run(tmp_path, monkeypatch, tacit):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "private.csv", 400, 0, labelled=True)
    write(tmp_path / "public.csv", 60, 1, labelled=False)
    (tmp_path / "run.toml").write_text(CONFIG)
    assert tacit("train", "run.toml", "--out", "run").code == 0
    return tmp_path


def test_labels_are_the_runs_own_words(run, tacit):
    truth = write(run / "new.csv", 30, 2, labelled=False)
    assert tacit("predict", "run", "csv:new.csv", "--out", "labels.csv").code == 0
    with (run / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == truth
    assert all(0.5 <= float(row["probability"]) <= 1 for row in rows)


def test_ids_stand_beside_the_labels_and_a_column_for_every_class(run, tacit):
    write(run / "new.csv", 30, 2, labelled=False)
    lines = (run / "new.csv").read_text().splitlines()
    named = [f"patient,{lines[0]}", *(f"p{n},{line}" for n, line in enumerate(lines[1:]))]
    (run / "named.csv").write_text("\n".join(named))
    told = run.joinpath("run", "config.toml").read_text()
    assert tacit("predict", "run", "new.csv", "--out", "plain.csv").code == 0
    ignoring = told.replace('"numeric"', '"ignored" = ["patient"], "numeric"')
    assert ignoring != told
    run.joinpath("run", "config.toml").write_text(ignoring)
    arguments = ("predict", "run", "named.csv", "--ids", "patient", "--out", "labels.csv")
    assert tacit(*arguments).code == 0
    with (run / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["patient"] for row in rows] == [f"p{n}" for n in range(30)]
    for row in rows:
        chances = [float(row[f"probability of {side}"]) for side in ("left", "right")]
        assert sum(chances) == pytest.approx(1, abs=2e-4)
        assert float(row["probability"]) == max(chances)
    said = tacit("predict", "run", "new.csv", "--ids", "nobody", "--out", "x.csv")
    assert said.code == 2
    assert "'nobody'" in said.err


def test_a_threshold_decides_between_two_classes(run, tacit):
    write(run / "new.csv", 30, 2, labelled=False)
    for threshold, label in (("1e-9", "right"), ("0.999999999", "left")):
        out = f"at-{threshold}.csv"
        arguments = ("predict", "run", "new.csv", "--threshold", threshold, "--out", out)
        assert tacit(*arguments).code == 0
        with (run / out).open(newline="") as file:
            labels = [row["label"] for row in csv.DictReader(file)]
        assert labels.count(label) > labels.count("right" if label == "left" else "left")
    said = tacit("predict", "run", "new.csv", "--threshold", "2", "--out", "x.csv")
    assert said.code == 2


def test_the_second_class_is_the_one_that_was_declared_second():
    sorted_by_a_student = np.array(["ill", "well"])
    assert _second(sorted_by_a_student, ["well", "ill"]) == 0
    assert _second(sorted_by_a_student, ["ill", "well"]) == 1
    assert _second(np.array([0, 1]), None) == 1
    chances = np.array([[0.3, 0.7], [0.1, 0.9]])
    assert _places(chances, 0.2, 0).tolist() == [0, 1]
    assert _places(chances, 0.2, 1).tolist() == [1, 1]


def test_labelled_rows_say_how_good_it_is(run, tacit):
    write(run / "checked.csv", 40, 5, labelled=True)
    asked = ("predict", "run", "csv:checked.csv", "--out")
    shown = tacit(*asked, "a.csv", "--labelled")
    assert shown.code == 0
    assert "ROC AUC" in shown.out
    assert "chance 0.5" in shown.out
    told = json.loads(tacit(*asked, "b.csv", "--labelled", "--threshold", "0.3", "--json").out)
    assert told["figures"]["balanced accuracy"]["value"] > 0.9
    assert "recall at 0.3" in told["figures"]
    assert (run / "a.csv").read_text().count("\n") == 41
    write(run / "new.csv", 30, 2, labelled=False)
    for source in ("csv:new.csv", "csv:private.csv"):  # without labels, or not public
        assert tacit("predict", "run", source, "--out", "c.csv", "--labelled").code == 2
    assert not (run / "c.csv").exists()


def test_machines_get_json(run, tacit):
    write(run / "new.csv", 3, 2, labelled=False)
    said = tacit("predict", "run", "csv:new.csv", "--out", "labels.csv", "--json")
    assert json.loads(said.out) == {"rows": 3, "out": "labels.csv"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("predict", "run", "csv:none.csv", "--out", "x.csv"), "none.csv"),
        (("predict", "nowhere", "csv:public.csv", "--out", "x.csv"), "no such folder"),
        (("predict", "run", "csv:public.csv", "--out", "run.toml"), "to be new"),
        (
            ("predict", "run", "csv:public.csv", "--out", "no/p.csv"),
            "'no' to exist; make it",
        ),
        (
            ("predict", "run", "csv:run", "--out", "x.csv"),
            "at 'run'; there is none: that is a directory",
        ),
        (("predict", "csv:public.csv", "run", "--out", "x.csv"), "Rows come second"),
    ],
)
def test_refusals_are_one_line_and_write_nothing(run, tacit, arguments, complaint):
    said = tacit(*arguments)
    assert said.code == 2
    assert complaint in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert not (run / "x.csv").exists()


def test_rows_come_batch_by_batch_and_a_later_one_that_is_odd_leaves_no_file(
    run, tacit, monkeypatch
):
    write(run / "new.csv", 30, 2, labelled=False)
    assert tacit("predict", "run", "new.csv", "--ids", "place", "--out", "whole.csv").code == 0
    frame = arrow_csv.read_csv(run / "new.csv")
    parquet.write_table(frame, run / "new.parquet", row_group_size=7)
    monkeypatch.setattr("tacit.datasets.batches._ROWS", 4)
    command = ("predict", "run", "new.parquet", "--ids", "place", "--out", "parts.csv")
    assert tacit(*command).code == 0
    assert (run / "parts.csv").read_text() == (run / "whole.csv").read_text()
    (run / "parts.csv").unlink()
    odd = frame.set_column(0, "height", pa.array([1.0] * 29 + [None]))
    parquet.write_table(odd, run / "new.parquet", row_group_size=7)
    refused = tacit(*command)
    assert refused.code == 2
    assert "'height'" in refused.err
    assert not list(run.glob("*parts.csv*"))
