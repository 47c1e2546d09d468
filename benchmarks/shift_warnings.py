"""How often prototypes warn of public inputs of another kind, and how often without a reason.

On the sets and shifts of `benchmarks.shift_data`. The table of votes is computed once for each
shift; each run draws its noise anew. Printed are the runs that warn (`shift_`), the accuracy on
held-out rows (three students of the nearest prototypes), and by how many points it falls below that
without a shift. At most 100 prototypes, medoids of at most 400 public inputs; S is n mu.

    python -m benchmarks.shift_warnings --data DIR --sets digits,usps --runs 500 --shifted 200
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

import numpy as np

from benchmarks.shift_data import Shifted, shifts_of
from tacit.privacy import gaussian_mu
from tacit.students import NearestStudent, choose_queries
from tacit.summaries import compact_view, nearest_prototypes, table_posterior, table_shift

DELTA, PROTOTYPES, PUBLIC, VOTES = 1e-5, 100, 400, 3
_STUDENTS = 3
"""Students whose accuracy is averaged."""


def main() -> None:
    """Print a line for each set, epsilon and shift."""
    options = parse()
    print("set | shift | S | warned | accuracy | fall")
    for name in options.sets.split(","):
        for epsilon in map(float, options.epsilon.split(",")):
            mu, best = float(gaussian_mu(epsilon, DELTA)), 0.0
            for task in shifts_of(name, options.data, 0):
                plain = task.shift.startswith("as the")
                runs = options.runs if plain else options.shifted
                warned, score, strength = measured(task, mu, options.records, runs)
                best = score if plain else best
                count, fall = f"{warned} of {runs}", 100 * (best - score)
                line = f"{strength:.0f} | {count} | {score:.3f} | {fall:.1f}"
                print(f"{name} | {task.shift} | {line}", flush=True)


def measured(task: Shifted, mu: float, records: int, runs: int) -> tuple[int, float, float]:
    """Return how many runs warn, the mean accuracy of the first students, and n mu."""
    y = np.searchsorted(task.classes, task.y[:records])
    X, view = task.X[:records], task.public[:PUBLIC]
    count = min(PROTOTYPES, len(view))
    asked = choose_queries(compact_view(view), count, strategy="medoids", random_state=0)
    prototypes = view[asked]
    near, typical = (nearest_prototypes(rows, prototypes, VOTES, radius=2.0) for rows in (X, view))
    table = np.zeros((count, len(task.classes)))
    np.add.at(table, (near, y[:, None]), 1 / math.sqrt(VOTES))
    random, sigma, warned, scores = np.random.default_rng(0), 1 / mu, 0, []
    truth = np.searchsorted(task.classes, task.truth)
    for number in range(runs):
        noisy = table + random.normal(scale=sigma, size=table.shape)
        warned += table_shift(noisy, sigma, typical).is_told
        if number < _STUDENTS:
            posterior = table_posterior(noisy, sigma)
            student = NearestStudent().fit(prototypes, np.arange(count), posterior)
            scores.append((student.predict(task.held_out) == truth).mean())
    return warned, float(np.mean(scores)), len(y) * mu


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", "data")))
    parser.add_argument("--sets", default="digits,usps,affairs")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument("--runs", type=int, default=500, help="without a shift")
    parser.add_argument("--shifted", type=int, default=200, help="runs of each shift")
    return parser.parse_args()


if __name__ == "__main__":
    main()
