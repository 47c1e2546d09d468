"""An outcome that three in a hundred have: what each method makes of it, and what balancing adds.

Adult with positives thinned out to 3 %, 15,000 private records, the settings of a comparison; PATE
also with 150 logistic teachers, 200 queries and a logistic student, and with these teachers
balanced. Printed are held-out ROC AUC, average precision, and balanced accuracy
at three thresholds: 0.5, and by the rules prevalence and balanced, from public scores and the
released share (the public scores' mean where no counts are released).

    python -m benchmarks.rare_outcome --data DIR [--epsilon 1] [--runs 1] [--methods pate,moments]
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tacit import Queries, load_dataset
from tacit.datasets import Dataset
from tacit.evaluate import measure, released_shares, threshold_by
from tacit.methods import Facts, all_rules
from tacit.students import SupervisedStudent

SHARE, PRIVATE, PUBLIC, HELD_OUT = 0.03, 15_000, 2000, 8000
DELTA = 1e-5
METHODS = (
    "pate",
    "pate logistic",
    "pate balanced",
    "knn",
    "prototype",
    "moments",
    "ridge",
    "dpsgd",
)


def thinned(data: Dataset, rng: Any) -> Dataset:
    """Return the rows in a new order, with so few positives."""
    no, yes = (rng.permutation(np.flatnonzero(data.y == c)) for c in (0, 1))
    rows = np.concatenate([no, yes[: round(len(no) * SHARE / (1 - SHARE))]])
    return data.take(rng.permutation(rows))


def line(name: str, data: Dataset, epsilon: float, seed: int) -> str:
    """Fit a method, and return its figures on held-out rows."""
    parts = np.split(np.arange(len(data)), [PRIVATE, PRIVATE + PUBLIC, PRIVATE + PUBLIC + HELD_OUT])
    private, public, held_out = (data.take(rows) for rows in parts[:3])
    facts = Facts("table", PRIVATE, PUBLIC, data.X.shape[1], data.classes, columns=data.columns)
    model = all_rules()[name.split(maxsplit=1)[0]].build(facts, epsilon, DELTA, seed)
    model.set_params(allow_overlap=True)
    if "checks" in model.get_params(deep=False):
        model.set_params(checks__allow_hopeless=True)
    if name in ("pate logistic", "pate balanced"):
        from sklearn.linear_model import LogisticRegression

        student = SupervisedStudent(LogisticRegression(C=0.1, max_iter=200))
        weights = "balanced" if name.endswith("balanced") else None
        teacher = LogisticRegression(C=0.3, class_weight=weights)
        model.set_params(teacher=teacher, student=student, n_teachers=150)
        model.set_params(queries=Queries(200, "random"))
    model.fit(private.X, private.labels, X_public=public.X)
    outside, chances = model.predict_proba(public.X)[:, 1], model.predict_proba(held_out.X)
    known = released_shares(model)
    share = float(np.clip(outside.mean() if known is None else known[0][1], 1e-4, 1 - 1e-4))
    cuts = {"0.5": 0.5} | {
        rule: threshold_by(rule, outside, share) for rule in ("prevalence", "balanced")
    }
    told = measure(chances, held_out.y)
    right = [_balanced(chances[:, 1] >= cut, held_out.y) for cut in cuts.values()]
    numbers = [float(told[what].band.value) for what in ("ROC AUC", "average precision")]
    return " | ".join([name, *(f"{value:.3f}" for value in (*numbers, *right))])


def _balanced(said: Any, truth: Any) -> float:
    return float(np.mean([(said == truth)[truth == c].mean() for c in (0, 1)]))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", "data")))
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--methods", default=",".join(METHODS))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    adult = load_dataset(f"adult:{asked.data / 'adult'}")
    print("method | AUC | average precision | balanced accuracy at 0.5 | prevalence | balanced")
    for seed in range(asked.runs):
        data = thinned(adult, np.random.default_rng(seed))
        for name in asked.methods.split(","):
            print(line(name, data, asked.epsilon, seed), flush=True)


if __name__ == "__main__":
    main()
