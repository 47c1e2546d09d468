"""What the rule of `method = "auto"` and the lines of forecasts rest on: methods against n mu.

Prototypes, moments and residual ridge with the settings of a comparison, on the sets of
`benchmarks.shift_data` without a shift, at several numbers of records and epsilons. Printed are
n mu, what each forecast says (h: hopeless, d: doubtful, f: fair), held-out accuracy, and which
method the rule would take.

    python -m benchmarks.auto_rule --data DIR --sets digits,usps,housing [--runs 3]
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shift_data import IMAGES, SETS, Shifted, shifts_of
from tacit import (
    Checks,
    InsecureNoise,
    MomentClassifier,
    PrototypeClassifier,
    ResidualRidgeClassifier,
)
from tacit.errors import WeakSignal
from tacit.methods.auto import choose_method
from tacit.privacy import gaussian_mu

DELTA = 1e-5
METHODS = {
    "prototype": PrototypeClassifier,
    "moments": MomentClassifier,
    "ridge": ResidualRidgeClassifier,
}


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore", WeakSignal)
    print("set | records | epsilon | n mu | " + " | ".join(METHODS) + " | the rule takes")
    for name in options.sets.split(","):
        for records in map(int, options.records.split(",")):
            for epsilon in map(float, options.epsilon.split(",")):
                print(line(name, records, epsilon, options), flush=True)


def line(name: str, records: int, epsilon: float, options: argparse.Namespace) -> str:
    found: dict[str, list[float]] = {method: [] for method in METHODS}
    verdicts = {}
    for run in range(options.runs):
        task = next(iter(shifts_of(name, options.data, run, "as the private")))
        for method in METHODS:
            model = fitted(method, task, records, epsilon, run)
            verdicts[method] = model.forecast_.verdict[0]
            found[method].append(float(model.score(task.held_out, task.truth)))
    strength = records * float(gaussian_mu(epsilon, DELTA))
    kind = "images" if name in IMAGES else "table"
    chosen = choose_method(kind, strength, has_public=True).method
    scores = [f"{np.mean(found[method]):.3f} {verdicts[method]}" for method in METHODS]
    return " | ".join([name, f"{records}", f"{epsilon:g}", f"{strength:.3g}", *scores, chosen])


def fitted(method: str, task: Shifted, records: int, epsilon: float, seed: int) -> Any:
    strength = records * float(gaussian_mu(epsilon, DELTA))
    own: dict[str, Any] = {}
    if method == "prototype":
        wanted = 300 if strength >= 1000 else 100 if strength >= 300 else 50
        own["n_prototypes"] = max(3, min(wanted, len(task.public) // 3))
    model = METHODS[method](classes=task.classes, **shared(records, epsilon, seed), **own)
    return model.fit(task.X[:records], task.y[:records], X_public=task.public)


def shared(records: int, epsilon: float, seed: int) -> dict[str, Any]:
    """Return what every estimator of these benchmarks is given."""
    simulated = {"noise": InsecureNoise(seed), "random_state": seed, "n_records": records}
    anyway = {"checks": Checks(allow_hopeless=True), "allow_overlap": True}
    return {"epsilon": epsilon, "delta": DELTA, **simulated, **anyway}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", "data")))
    parser.add_argument("--sets", default=",".join(each for each in SETS if each != "prices"))
    parser.add_argument("--records", default="1000,6000")
    parser.add_argument("--epsilon", default="0.05,0.5,2")
    parser.add_argument("--runs", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
