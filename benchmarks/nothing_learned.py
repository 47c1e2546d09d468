"""How often PATE and Private-kNN say that their releases show nothing learned, and what stays then.

Votes are counted once for each set; each run draws the noise anew and teaches a student. "Shuffled"
are labels in a random order: there is nothing to learn. Printed are the runs that say it
(`signal_`), the accuracy of the student, that of the label with most released votes, and both in
the runs in which nothing at all was foretold: whether that label should replace the student.

    python -m benchmarks.nothing_learned --data DIR --sets digits,affairs --epsilon 0.3,1 --runs 40
"""

from __future__ import annotations

import argparse
import math
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.shift_data import shifts_of
from benchmarks.shift_warnings import Asked, Cell, asked_of
from tacit.students import signal_of


def main() -> None:
    """Print a line for each set, method, kind of labels and epsilon."""
    options = parse()
    warnings.simplefilter("ignore")
    heads = ("said", "student", "most votes", "nothing foretold", "student", "most votes")
    print("set | method | labels | S | " + " | ".join(heads), flush=True)
    for name in options.sets.split(","):
        task = next(iter(shifts_of(name, options.data, 0, "as the private")))
        y = np.searchsorted(task.classes, task.y[: options.records])
        shuffled = np.random.default_rng(0).permutation(y)
        for method in ("pate", "knn"):
            for kind, labels in (("true", y), ("shuffled", shuffled)):
                cell = Cell(task, task.X[: options.records], labels, 1.0)
                asked = asked_of(cell, method)
                for epsilon in map(float, options.epsilon.split(",")):
                    line = summed(cell._replace(epsilon=epsilon), asked, options.runs)
                    print(f"{name} | {method} | {kind} | {line}", flush=True)


def summed(cell: Cell, asked: Asked, runs: int) -> str:
    """Return the figures of many runs."""
    noisy = asked._replace(sigma=math.sqrt(2 * len(asked.rows)) / cell.mu)
    found = np.array(list(measured(cell, noisy, runs)))
    weak, none = found[:, 0] > 0, found[:, 1] > 0
    said = f"{weak.sum()} of {runs} | {_means(found[:, 2:])}"
    return f"{len(cell.y) * cell.mu:.0f} | {said} | {none.sum()} | {_means(found[none, 2:])}"


def measured(cell: Cell, asked: Asked, runs: int) -> Iterator[tuple[float, float, float, float]]:
    """Yield whether a run says it, whether nothing was foretold, and two accuracies."""
    truth = np.searchsorted(cell.task.classes, cell.task.truth)
    for seed in range(runs):
        student, told = asked.taught(cell.n_classes, seed)
        signal = signal_of(told / asked.voters, student.foretold_)
        most = float((truth == told.sum(axis=0).argmax()).mean())
        yield signal.is_weak, signal.learned <= 0, cell.accuracy(student), most


def _means(pairs: np.ndarray) -> str:
    if not len(pairs):
        return "- | -"
    return " | ".join(f"{each:.3f}" for each in pairs.mean(axis=0))


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", "data")))
    parser.add_argument("--sets", default="digits,affairs")
    parser.add_argument("--epsilon", default="0.3,1")
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument("--runs", type=int, default=40)
    return parser.parse_args()


if __name__ == "__main__":
    main()
