"""Numbers on the command line: declared bounds instead of classes, from a file to predictions."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from tacit.cli.evaluate import evaluate
from tacit.datasets import load_csv
from tacit.errors import InvalidArgument
from tacit.evaluate import Evaluation
from tacit.runs import RunConfig, run_config, verify_run

ROLES = {"target": "price", "target_range": [0.0, 30.0], "numeric": ["size", "age"]}


def table(path, count: int, seed: int, *, target: bool = True):
    random = np.random.default_rng(seed)
    size, age = random.uniform(0, 1, count), random.uniform(0, 1, count)
    price = 10 + 12 * size - 8 * age + random.normal(scale=0.5, size=count)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["size", "age", *(["price"] if target else [])])
        for row in range(count):
            last = [f"{price[row]:.4f}"] if target else []
            writer.writerow([f"{size[row]:.6f}", f"{age[row]:.6f}", *last])
    return path


def config(tmp_path, method: str, table_of: dict, **options) -> RunConfig:
    return RunConfig.parse(
        {
            "method": method,
            method: table_of,
            "data": {
                "source": str(table(tmp_path / "private.csv", 1500, 0)),
                "public_source": str(table(tmp_path / "public.csv", 200, 1, target=False)),
                "held_out_source": str(table(tmp_path / "held.csv", 300, 2)),
                "options": {**ROLES, **options},
            },
            "privacy": {"epsilon": 4.0, "delta": 1e-5},
        }
    )


@pytest.mark.parametrize(
    ("method", "settings", "least"),
    [
        ("moments", {"rounds": 2}, 0.9),
        ("ridge", {"n_landmarks": 30}, 0.7),
        ("knn", {"k": 60, "queries": 30, "statistic": "mean"}, 0.4),
    ],
)
def test_a_run_learns_numbers(method, settings, least, tmp_path):
    result = run_config(config(tmp_path, method, settings), tmp_path / "run")
    assert result.numbers["r2"] > least
    assert result.accuracy is None
    written = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert written["numbers"] == result.numbers
    page = (tmp_path / "run" / "report.html").read_text()
    assert "price: a number." in page
    assert "always saying their mean" in page
    assert RunConfig.of_finished(tmp_path / "run").learns_numbers


def test_predictions_are_numbers_within_the_bounds(tmp_path, capsys):
    from tacit.cli.runs import predict

    run_config(config(tmp_path, "moments", {}), tmp_path / "run")
    predict(tmp_path / "run", str(tmp_path / "public.csv"), out=tmp_path / "said.csv")
    with open(tmp_path / "said.csv", newline="") as file:
        values = [float(row["value"]) for row in csv.DictReader(file)]
    assert len(values) == 200
    assert min(values) >= 0
    assert max(values) <= 30
    assert np.std(values) > 2
    with pytest.raises(InvalidArgument, match="threshold"):
        predict(
            tmp_path / "run", str(tmp_path / "public.csv"), out=tmp_path / "b.csv", threshold=0.5
        )


def test_a_method_of_labels_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="knn, moments, ridge"):
        config(tmp_path, "pate", {})
    with pytest.raises(InvalidArgument, match="student"):
        config(tmp_path, "moments", {"student": "logistic"})


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"target_range": [3.0, 1.0]}, "low below high"),
        ({"target_range": 5.0}, "two numbers"),
        ({"classes": ["a", "b"]}, "classes"),
    ],
)
def test_mistakes_in_the_declaration_are_named(changes, complaint, tmp_path):
    file = table(tmp_path / "a.csv", 5, 0)
    with pytest.raises(InvalidArgument, match=complaint):
        load_csv(file, **{**ROLES, **changes})


def test_a_target_that_is_no_number_is_not_quoted(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("size,age,price\n1,2,3\n1,2,secret\n")
    with pytest.raises(InvalidArgument, match=r"column 'price' .* a finite number") as refusal:
        load_csv(file, **ROLES)
    assert "secret" not in str(refusal.value)
    file.write_text("size,age,price\n1,2,3\n2,2,99\n")
    data = load_csv(file, **ROLES)
    assert data.labels.tolist() == [3.0, 99.0]  # an estimator clips it
    assert "target_range" in repr(data)


def test_records_kept_apart_say_how_good_numbers_are(tmp_path, capsys):
    run_config(config(tmp_path, "moments", {"rounds": 2}), tmp_path / "run")
    apart = table(tmp_path / "apart.csv", 3000, 5)
    # At epsilon 2 R^2 has a deviation of .05, too much for what is told below; at 20 of .014.
    asked = {"epsilon": 20.0, "records": "3000", "disjoint": True}
    evaluate(tmp_path / "run", str(apart), **asked).print(as_json=False)
    shown = capsys.readouterr().out
    assert "R^2" in shown
    assert "mean absolute error" in shown
    found = Evaluation.read(tmp_path / "run" / "evaluation.json")
    assert found.kind == "numbers"
    assert found.figures()["r_squared"].value == pytest.approx(0.97, abs=0.1)
    assert "Residuals" in (tmp_path / "run" / "evaluation.html").read_text(encoding="utf-8")
    assert all(check.holds for check in verify_run(tmp_path / "run"))
