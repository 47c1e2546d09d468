"""`tacit export` and `tacit package --onnx`: what is handed over says what the run says."""

from __future__ import annotations

import csv
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from tacit import Ledger
from tacit.ledger import advisories
from tacit.runs import RunConfig

CONFIG = """
method = "prototype"
[data]
source = "csv:private.csv"
public_source = "csv:public.csv"
[data.options]
target = "ill"
classes = ["no", "yes"]
numeric = { age = [30, 60], dose = [] }
categorical = { ward = ["north", "south"] }
missing = 50.0
[privacy]
epsilon = 8.0
delta = 1e-4
[prototype]
n_prototypes = 12
features = "bins"
"""


def rows(count, seed):
    draw = np.random.default_rng(seed)
    age, dose = draw.integers(0, 99, count).astype(float), draw.normal(size=count).round(2)
    ward = draw.choice(["north", "south", "elsewhere"], size=count)
    return age, dose, ward, np.where(age + 9 * dose > 45, "yes", "no")


def write(path, count, seed):
    lines = [",".join(map(str, row)) for row in zip(*rows(count, seed), strict=True)]
    path.write_text("\n".join(["age,dose,ward,ill", *lines]))


@pytest.fixture
def run(tmp_path, tacit):
    write(tmp_path / "private.csv", 400, 0)
    write(tmp_path / "public.csv", 60, 1)
    (tmp_path / "run.toml").write_text(CONFIG)
    assert tacit("train", "run.toml", "--out", "run").code == 0
    return tmp_path / "run"


def predicted(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_words_go_in_and_the_labels_of_tacit_predict_come_out(run, tacit, tmp_path):
    import onnxruntime

    write(tmp_path / "new.csv", 50, 2)
    assert tacit("predict", "run", "new.csv", "--out", "labels.csv").code == 0
    told = predicted(tmp_path / "labels.csv")
    done = tacit("export", "run", "model.onnx", "--json")
    assert json.loads(done.out)["inputs"] == ["age", "dose", "ward"]
    age, dose, ward, _ = rows(50, 2)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    given = {"age": age[:, None], "dose": dose[:, None], "ward": ward[:, None].astype(object)}
    labels, chances = session.run(None, given)
    assert labels.tolist() == [row["label"] for row in told]
    assert chances[:, 1] == pytest.approx(
        [float(row["probability of yes"]) for row in told], abs=5.1e-5
    )
    given["age"][0], given["dose"][1] = np.nan, np.inf
    again, _ = session.run(None, given)
    assert again[0] in ("no", "yes")  # a missing number is 50 by declaration
    assert again[1] == ""


def test_an_undeclared_word_gets_no_label_where_none_may_be(run, tacit, tmp_path):
    import onnxruntime

    config = run / "config.toml"
    text = config.read_text()
    assert '"missing" = 50.0' in text
    config.write_text(text.replace('"missing" = 50.0', '"missing" = 50.0, "other" = false'))
    assert tacit("export", "run", "model.onnx").code == 0
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    words = np.array([["north"], ["elsewhere"]], dtype=object)
    labels, _ = session.run(None, {"age": np.ones((2, 1)), "dose": np.ones((2, 1)), "ward": words})
    assert (labels == "").tolist() == [False, True]


def test_a_published_model_is_verified_and_packaged(run, tacit, tmp_path):
    assert tacit("export", "run").code == 2
    assert tacit("export", "run", "run/model.onnx").code == 2
    before = json.loads((run / "statement.json").read_text())
    old = json.loads(tacit("ledger", "show", "run/run.ledger", "--json").out)["head"]
    head = json.loads(tacit("export", "run", "--publish", "--json").out)["head"]
    after = json.loads((run / "statement.json").read_text())
    assert old != head
    assert {**before, "entries": 0} == {**after, "entries": 0}
    done = tacit("verify", "run", "--head", old)
    assert done.code == 0
    assert f"older; by now it is {head}" in done.out
    assert "report.html: was written anew by a later publication" in done.out
    done = tacit("verify", "run", "--head", head)
    assert done.code == 0
    assert "model.onnx: is what the ledger says" in done.out
    assert tacit("package", "run", "run.zip", "--onnx").code == 0
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        assert archive.read("model.onnx") == (run / "model.onnx").read_bytes()
        assert "`model.onnx` is the same model" in archive.read("MODEL_CARD.md").decode()
        archive.extractall(tmp_path / "out")
    from tacit.runs import standalone_verify as standalone

    assert standalone.main(tmp_path / "out") == 0
    (run / "model.onnx").write_bytes(b"another")
    assert tacit("verify", "run").code == 4
    assert tacit("export", "run", "--publish").code == 0
    assert tacit("verify", "run").code == 0


def test_a_model_that_nobody_listed_is_found(run, tacit, tmp_path):
    assert tacit("export", "run", "model.onnx").code == 0
    (tmp_path / "model.onnx").rename(run / "model.onnx")
    done = tacit("verify", "run")
    assert done.code == 4
    assert "lists no such file; tacit export RUN --publish" in done.out


def test_nothing_is_listed_where_the_statement_would_have_to_claim_more(run, tacit):
    from tacit import Budget, GNMax, Ledger, Plan

    ledger = Ledger(run / "run.ledger", budget=Budget(8.0, 1e-4))
    with ledger.release(Plan(GNMax(1e9), 1), purpose="one more"):
        pass
    done = tacit("export", "run", "--publish")
    assert done.code == 2
    assert "would have to claim more" in done.err
    assert not (run / "model.onnx").exists()
    assert tacit("verify", "run").code == 0


def test_a_sanitised_statement_is_published_in_a_run(run, tacit, tmp_path):
    from tacit import Budget, Ledger
    from tacit.datasets import demo_votes

    np.savez(tmp_path / "votes.npz", votes=demo_votes())
    place = tmp_path / "all.ledger"
    book = Ledger(place, budget=Budget(80.0, 1e-4), reserved_delta=2e-5)
    assert tacit("train", "run.toml", "--out", "on-it", "--ledger", place).code == 0
    asked = ("--mechanism", "gnmax", "--sigma", 60, "--ledger", place, "--out", "labels.csv")
    assert tacit("aggregate", "votes.npz", *asked).code == 0
    how = ("sanitise", "votes.npz", "--labels", "labels.csv", "--ledger", place, "--overwrite")
    before = len(book)
    refused = tacit(*how, "--out", "run/statement.json")
    assert refused.code == 2
    assert "another ledger. Nothing was spent." in refused.err
    assert len(book) == before
    done = tacit(*how, "--out", "on-it/statement.json", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)["statement"]
    assert (said["kind"], said["head"]) == ("sanitised", book.head)
    assert tacit("verify", "on-it", "--head", book.head).code == 0


def test_an_ending_and_a_file_that_is_there_are_refused(run, tacit, tmp_path):
    assert tacit("export", "run", "model.txt").code == 2
    (tmp_path / "model.onnx").write_text("mine")
    assert tacit("export", "run", "model.onnx").code == 2
    assert (tmp_path / "model.onnx").read_text() == "mine"


@pytest.mark.parametrize(("source", "concerned"), [("csv:private.csv", False), ("npz:a.npz", True)])
def test_a_run_of_02_verifies_with_the_advisory_that_concerns_it(
    run, tacit, monkeypatch, source, concerned
):
    assert json.loads(tacit("verify", "run", "--json").out)["advisory"] == ""
    read = RunConfig.of_finished

    def finished(folder):
        config = read(folder)
        return replace(config, data=replace(config.data, source=source))

    monkeypatch.setattr(RunConfig, "of_finished", finished)
    monkeypatch.setattr(Ledger, "record_rules", 1)
    monkeypatch.setattr(advisories, "_is_old", lambda entry: entry.is_paid)
    outcome = tacit("verify", "run")
    assert (outcome.code, "Advisory: 1 paid entry" in outcome.out) == (0, concerned)
