"""`tacit aggregate`: labels, exit codes, and nothing spent on bad input."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tacit import Ledger
from tacit.datasets import demo_votes

CONFIDENT = (
    *("--mechanism", "confident-gnmax", "--threshold", 150),
    *("--sigma-check", 80, "--sigma-answer", 40, "--max-answers", 120),
)
BUDGET = ("--epsilon", 2.5, "--delta", 1e-5)
FILES = ("--ledger", "run.ledger", "--out", "labels.csv")


def rows(path: str = "labels.csv") -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_labels_ledger_and_report(tacit, votes):
    outcome = tacit("aggregate", votes, *CONFIDENT, *BUDGET, *FILES, "--report", "report.html")
    assert outcome.code == 0, outcome.err
    released = rows()
    assert [int(row["index"]) for row in released] == list(range(200))
    answered = [int(row["label"]) for row in released if row["label"] != "-1"]
    assert 0 < len(answered) <= 120
    ledger = Ledger("run.ledger")
    assert len(ledger) == 1
    assert "<html" in Path("report.html").read_text()
    assert f"{ledger.head}" in outcome.out.replace("\n", "").replace("│", "").replace(" ", "")


def test_json_is_one_object(tacit, votes):
    outcome = tacit("aggregate", votes, *CONFIDENT, *BUDGET, *FILES, "--json")
    result = json.loads(outcome.out)
    assert result["queries"] == 200
    assert result["statement"]["kind"] == "worst-case"
    assert result["statement"]["epsilon"] <= 2.5
    assert result["entry"] == Ledger("run.ledger").head


def test_budget_refuses_with_code_3_and_writes_nothing(tacit, votes):
    tacit("aggregate", votes, *CONFIDENT, *BUDGET, *FILES)
    before = Ledger("run.ledger").head
    outcome = tacit(
        "aggregate", votes, "--mechanism", "gnmax", "--sigma", 40, "--ledger", "run.ledger",
        "--out", "more.csv",
    )  # fmt: skip
    assert outcome.code == 3
    assert not Path("more.csv").exists()
    assert Ledger("run.ledger").head == before


def test_first_rows_or_indices(tacit, votes):
    gnmax = ("--mechanism", "gnmax", "--sigma", 60)
    tacit("aggregate", votes, *gnmax, *BUDGET, *FILES, "--queries", 7)
    assert len(rows()) == 7
    Path("which.txt").write_text("5\n190\n17\n")
    outcome = tacit(
        "aggregate", votes, *gnmax, "--ledger", "run.ledger", "--out", "some.csv",
        "--indices", "which.txt",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert [row["index"] for row in rows("some.csv")] == ["5", "190", "17"]


def test_noisy_votes_release_histograms(tacit, votes):
    outcome = tacit(
        "aggregate", votes, "--mechanism", "noisy-votes", "--sigma", 80, *BUDGET, *FILES
    )
    assert outcome.code == 0, outcome.err
    assert list(rows()[0]) == ["index", *(f"class_{j}" for j in range(10))]
    noise = np.array([[int(row[f"class_{j}"]) for j in range(10)] for row in rows()]) - demo_votes()
    assert 70 < noise.std() < 90  # 2,000 draws: ten standard errors either way


def test_lnmax_takes_the_rdp_accountant(tacit, votes):
    outcome = tacit("aggregate", votes, "--mechanism", "lnmax", "--gamma", 0.01, *BUDGET, *FILES)
    assert outcome.code == 0, outcome.err
    assert Ledger("run.ledger").accountant == "rdp"


def test_interactive_needs_the_student(tacit, votes):
    interactive = (
        *("--mechanism", "interactive-gnmax", "--threshold", 100, "--sigma-check", 100),
        *("--sigma-answer", 60, "--confidence", 0.9, "--queries", 50),
    )
    assert tacit("aggregate", votes, *interactive, *BUDGET, *FILES).code == 2
    assert not Path("run.ledger").exists()
    np.save("student.npy", np.full((50, 10), 0.1))
    outcome = tacit("aggregate", votes, *interactive, *BUDGET, *FILES, "--student", "student.npy")
    assert outcome.code == 0, outcome.err


def test_predictions_need_the_number_of_classes(tacit):
    np.savez("p.npz", predictions=np.zeros((250, 20), dtype=np.uint8))
    gnmax = ("--mechanism", "gnmax", "--sigma", 60)
    outcome = tacit("aggregate", "p.npz", *gnmax, *BUDGET, *FILES)
    assert outcome.code == 2
    assert "--classes" in outcome.err
    assert tacit("aggregate", "p.npz", *gnmax, *BUDGET, *FILES, "--classes", 3).code == 0


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("--sigma", -1), "sigma"),
        (("--queries", 0), "--queries"),
        (("--queries", 201), "--queries"),
        (("--out", "no/such/folder.csv"), "no/such"),
        (("--epsilon", 0), "epsilon"),
        (("--delta", 1), "delta"),
        (("--delta", 0.01, "--n-units", 100), "delta"),
        (("--reserve-delta", 1), "reserve-delta"),
        (("--threshold", 3), "--threshold"),
        (("--indices", "missing.txt"), "missing.txt"),
        (("--student", "x.npy"), "--student"),
    ],
)
def test_bad_input_is_one_line_and_spends_nothing(tacit, votes, change, complaint):
    arguments = ["--mechanism", "gnmax", "--sigma", 60, *BUDGET, *FILES, *change]
    outcome = tacit("aggregate", votes, *arguments)
    assert outcome.code == 2
    assert complaint in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert not Path("run.ledger").exists()
    assert not Path("labels.csv").exists()


def test_output_is_not_overwritten_unasked(tacit, votes):
    Path("labels.csv").write_text("precious")
    gnmax = ("--mechanism", "gnmax", "--sigma", 60)
    assert tacit("aggregate", votes, *gnmax, *BUDGET, *FILES).code == 2
    assert not Path("run.ledger").exists()
    assert Path("labels.csv").read_text() == "precious"
    assert tacit("aggregate", votes, *gnmax, *BUDGET, *FILES, "--overwrite").code == 0


def test_new_ledger_needs_a_budget(tacit, votes):
    outcome = tacit("aggregate", votes, "--mechanism", "gnmax", "--sigma", 60, *FILES)
    assert outcome.code == 2
    assert "--epsilon" in outcome.err


def test_seeded_noise_is_announced(tacit, votes):
    outcome = tacit(
        "aggregate", votes, "--mechanism", "gnmax", "--sigma", 60, *BUDGET, *FILES,
        "--insecure-seed", 1,
    )  # fmt: skip
    assert outcome.code == 0
    assert "NOT private" in outcome.out


GNMAX = ("--mechanism", "gnmax", "--sigma", 60, "--queries", 7)


def test_no_ledger_is_left_that_could_not_pay(tacit, votes):
    outcome = tacit("aggregate", votes, *GNMAX, *FILES, "--epsilon", 0.01, "--delta", 1e-5)
    assert outcome.code == 3
    assert list(Path().iterdir()) == [Path("votes.npz")]
    assert tacit("aggregate", votes, *GNMAX, *BUDGET, *FILES).code == 0


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (("--epsilon", 8), "epsilon=8"),
        (("--delta", 1e-6), "delta=1e-06"),
        (("--reserve-delta", 0), "reserved_delta=0"),
        (("--accountant", "rdp"), "accountant='rdp'"),
        (("--unit", "patient"), "unit='patient'"),
        (("--dataset", "scans"), "dataset='scans'"),
        (("--n-units", 500), "n_units=500"),
        (("--allow-large-delta",), "allow_large_delta=True"),
    ],
)
def test_every_term_that_a_ledger_does_not_have_is_named(tacit, votes, other, named):
    again = ("--ledger", "run.ledger", "--out", "more.csv")
    assert tacit("aggregate", votes, *GNMAX, *BUDGET, *FILES).code == 0
    outcome = tacit("aggregate", votes, *GNMAX, *again, *other)
    assert (outcome.code, named in outcome.err) == (4, True), outcome.err
    assert len(Ledger("run.ledger")) == 1
    assert not Path("more.csv").exists()
    same = ("--epsilon", 2.5, "--reserve-delta", 1e-6, "--accountant", "gaussian")
    assert tacit("aggregate", votes, *GNMAX, *again, *same).code == 0
