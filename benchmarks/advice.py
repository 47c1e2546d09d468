"""Which method to use when: measured on several sets, derived by a rule, checked on sets left out.

Every cell is a set, a number of private records and an epsilon; prototypes, moments and residual
ridge (for numbers moments and ridge) learn the same rows, and each result is kept in a file, so
that a run that was stopped goes on. The rule: for images and for tables, and on either side of
the line of `method = "auto"`, take the method with the least mean loss to the best of its cell. The
check: derive it again without a set, and see what it loses on that set.

    python -m benchmarks.advice --data DIR [--sets digits,usps] [--results FILE]
    python -m benchmarks.advice --only-derive        # from the results that are kept
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections import defaultdict
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.auto_rule import DELTA, fitted, shared
from benchmarks.shift_data import IMAGES, SETS, Shifted, shifts_of
from tacit import MomentRegressor, ResidualRidgeRegressor
from tacit._files import write_atomically
from tacit.errors import WeakSignal
from tacit.methods.auto import STRONG, choose_method
from tacit.privacy import gaussian_mu

RESULTS = Path(__file__).parent / "results" / "advice.json"
RECORDS, EPSILONS = {"mnist": (1000, 10_000), "affairs": (1000, 4000)}, (0.2, 1.0, 8.0)
_RECORDS = (1000, 5000)
"""Of the other sets."""
METHODS = ("prototype", "moments", "ridge")
NUMBERS = {"moments": MomentRegressor, "ridge": ResidualRidgeRegressor}
EARLIER = {"images": "prototype", "table": "moments", "numbers to learn": "moments"}
"""What the pages of 0.1 advised, wherever n mu lay."""
Cells = dict[str, dict[str, float]]
"""Scores of methods, by "set, records, epsilon"."""


def measured(
    data: Path, sets: list[str], path: Path, epsilons: tuple[float, ...], seeds: int
) -> Cells:
    """Run what is not yet in the file."""
    cells: Cells = json.loads(path.read_text()) if path.exists() else {}
    for name in sets:
        for records in RECORDS.get(name, _RECORDS):
            for epsilon in epsilons:
                key = f"{name}, {records}, {epsilon:g}"
                if key not in cells and records <= len(task_of(name, data, 0).X):
                    cells[key] = cell(name, data, records, epsilon, seeds)
                    write_atomically(path, json.dumps(cells, indent=1).encode())
                    print(key, cells[key], flush=True)
    return cells


@lru_cache(maxsize=3)
def task_of(name: str, data: Path, seed: int) -> Shifted:
    """Return a set without any shift, in its public features."""
    return next(iter(shifts_of(name, data, seed, "as the private")))


def cell(name: str, data: Path, records: int, epsilon: float, seeds: int) -> dict[str, float]:
    """Return the mean score of each method: accuracy, or R^2 of prices."""
    found: dict[str, list[float]] = defaultdict(list)
    for seed in range(seeds):
        task = task_of(name, data, seed)
        for method in NUMBERS if name == "prices" else METHODS:
            learn = fitted_numbers if name == "prices" else fitted
            model = learn(method, task, records, epsilon, seed)
            found[method].append(float(model.score(task.held_out, task.truth)))
    return {method: round(float(np.mean(scores)), 4) for method, scores in found.items()}


def fitted_numbers(method: str, task: Shifted, records: int, epsilon: float, seed: int) -> Any:
    """Fit a regressor within bounds that anybody would declare."""
    bounds = (0.0, 500_001.0)
    model = NUMBERS[method](target_range=bounds, **shared(records, epsilon, seed))
    return model.fit(task.X[:records], task.y[:records], X_public=task.public)


@cache
def place_of(key: str) -> tuple[str, bool]:
    """Return what the rule looks at: the kind of data, and whether n mu is large."""
    name, records, epsilon = key.split(", ")
    kind = "images" if name in IMAGES else "numbers to learn" if name == "prices" else "table"
    return kind, int(records) * float(gaussian_mu(float(epsilon), DELTA)) >= STRONG


def derived(cells: Cells) -> dict[tuple[str, bool], str]:
    """Return the method of least mean loss to the best, for each place."""
    losses: dict[tuple[str, bool], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for key, scores in cells.items():
        for method, score in scores.items():
            losses[place_of(key)][method].append(max(scores.values()) - score)
    return {
        place: min(by_method, key=lambda method: float(np.mean(by_method[method])))
        for place, by_method in losses.items()
    }


def show(cells: Cells) -> None:
    """Print the scores, the rule, and what it loses on sets that it was not made from."""
    rule = derived(cells)
    print("| set, records, epsilon | prototype | moments | ridge | rule, made without this set |")
    print("|---|---|---|---|---|")
    lost = defaultdict(list)
    for key, scores in cells.items():
        name = key.split(",", maxsplit=1)[0]
        others = derived({k: v for k, v in cells.items() if k.split(",", maxsplit=1)[0] != name})
        chosen = others.get(place_of(key))
        told = "no other set"
        if chosen is not None:
            loss = max(scores.values()) - scores[chosen]
            lost[name].append(loss)
            told = f"{chosen}, loses {100 * loss:.1f} points"
        cut = [f"{scores[m]:.3f}" if m in scores else "-" for m in METHODS]
        print(f"| {key} | {' | '.join(cut)} | {told} |")
    print("\nThe rule from all sets:")
    for (kind, strong), method in sorted(rule.items()):
        side = f"from {STRONG:,.0f} on" if strong else f"below {STRONG:,.0f}"
        print(f"  {kind}, n mu {side}: {method}")
    print("Lost on a set that the rule was not made from, mean and most, in points:")
    for name, losses in lost.items():
        print(f"  {name}: {100 * np.mean(losses):.1f}, {100 * max(losses):.1f}")
    before = {place: EARLIER[place[0]] for place in rule}
    for called, advised in (("0.1", before), ("this rule, on the sets it was made from", rule)):
        each = [max(v.values()) - v[advised[place_of(k)]] for k, v in cells.items()]
        print(f"All cells, by {called}: {100 * np.mean(each):.1f}, {100 * max(each):.1f}")
    for kind in ("images", "table"):
        for strong in (False, True):
            told = choose_method(kind, STRONG * (2 if strong else 0.1), has_public=True).method
            here = rule.get((kind, strong))
            verdict = "not measured here" if here is None else f"the rule says {here}"
            print(f"method = auto, {kind}, {'strong' if strong else 'weak'}: {told}, {verdict}")


def main() -> None:
    """Measure what is missing, then derive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", "data")))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--epsilon", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only-derive", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", WeakSignal)
    warnings.simplefilter("ignore", UserWarning)
    sets = [] if asked.only_derive else asked.sets.split(",")
    epsilons = tuple(map(float, asked.epsilon.split(",")))
    show(measured(asked.data, sets, asked.results, epsilons, asked.seeds))


if __name__ == "__main__":
    main()
