"""Whether probabilities mean what they say, before and after records were asked for it.

Every method with the settings of a comparison, on sets of `benchmarks.shift_data` without a shift,
with simulated noise. Printed are the calibration error of held-out rows (15 bins of equal width; of
the second class of two, of the likeliest of more), AUC (one against the rest, averaged, of several)
and Brier score: without calibration, and with `calibration=` within the same epsilon. Both are
fitted to the same rows in every run, with noise of their own; the last two columns are the mean
change of AUC and of Brier score with its standard error. Few runs do not tell a change from noise.

    python -m benchmarks.calibration --data DIR --sets adult,housing,digits --runs 3

    python -m benchmarks.calibration --data DIR --part free --sets affairs,housing,digits

The second prints PATE and Private-kNN with the student as it is, and moved to the share that each
class has of all released votes, which is free (of two classes it is the default). `expected` is the
calibration error that rows drawn from the model's own probabilities would have: what so few rows
cannot tell from nothing.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.shift_data import IMAGES, SETS, raw
from tacit import InsecureNoise
from tacit.methods import Facts, all_rules
from tacit.students import shifted_to

DELTA = 1e-5
BINS = 15
METHODS = ("prototype", "moments", "ridge", "pate", "knn", "dpsgd", "layerwise", "mac")
VOTING = ("pate", "knn")
_SIZES = {"digits": (400, 500), "affairs": (1000, 1500)}  # public inputs, rows held out


class Task(NamedTuple):
    """Rows of a set as they are, cut in three, and what is public of them."""

    X: np.ndarray
    y: np.ndarray
    public: np.ndarray
    held_out: np.ndarray
    truth: np.ndarray
    facts: Facts


class Figures(NamedTuple):
    """Of held-out rows: calibration error, what chance alone would give, AUC, Brier, accuracy."""

    error: float
    expected: float
    auc: float
    brier: float
    accuracy: float

    def __str__(self) -> str:
        return " | ".join(f"{each:.3f}" for each in self)


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")
    heads = ("ECE", "expected", "AUC", "Brier", "accuracy")
    columns = " | ".join(f"{head} {when}" for when in ("before", "after") for head in heads)
    print(f"set | method | epsilon | runs | {columns} | AUC change | Brier change", flush=True)
    for name in options.sets.split(","):
        for method in options.methods.split(","):
            for epsilon in map(float, options.epsilon.split(",")):
                print(line(name, method, epsilon, options), flush=True)


def line(name: str, method: str, epsilon: float, options: argparse.Namespace) -> str:
    pairs = []
    for run in range(options.runs):
        task = task_of(name, options.data, run, options.records)
        compare = free if options.part == "free" else paid
        pairs.append(compare(task, method, epsilon, run, options.share))
    before, after = (Figures(*np.mean([pair[side] for pair in pairs], axis=0)) for side in (0, 1))
    found = f"{name} | {method} | {epsilon:g} | {options.runs} | {before} | {after}"
    return f"{found} | {change(pairs, 'auc')} | {change(pairs, 'brier')}"


def change(pairs: list[list[Figures]], name: str) -> str:
    """Return the mean of what a figure gained from run to run, and its standard error."""
    gained = [getattr(after, name) - getattr(before, name) for before, after in pairs]
    unsure = np.std(gained, ddof=1) / np.sqrt(len(gained)) if len(gained) > 1 else np.nan
    return f"{np.mean(gained):+.4f} +- {unsure:.4f}"


def paid(task: Task, method: str, epsilon: float, run: int, share: float) -> list[Figures]:
    models = [fitted(task, method, epsilon, run, calibration=each) for each in (0.0, share)]
    return [figures(model.predict_proba(task.held_out), task, run) for model in models]


def free(task: Task, method: str, epsilon: float, run: int, share: float) -> list[Figures]:
    """Compare the student as it is with one that is moved, of two classes or more."""
    del share
    model = fitted(task, method, epsilon, run)
    student, release = model.student_, model.releases_[0]
    student.score_map_ = None
    asked = student.predict_proba(task.public[model.queries_])
    voters = model.n_teachers if method == "pate" else model.k
    votes = np.asarray(release.values) / voters
    noise = release.mechanism.sigma / voters / np.sqrt(len(votes))
    gap = votes.mean(axis=0) - asked.mean(axis=0)
    if gap.size == 2:  # all votes on a query add up to their number
        gap, noise = (gap - gap.mean()), noise / np.sqrt(2)
    believed = max(0.0, 1 - gap.size * noise**2 / float((gap**2).sum()))
    goal = np.clip(asked.mean(axis=0) + believed * gap, 1e-3, None)
    said = student.predict_proba(task.held_out)
    return [figures(each, task, run) for each in (said, shifted_to(asked, goal)(said))]


def fitted(task: Task, method: str, epsilon: float, run: int, **own: Any) -> Any:
    model = all_rules()[method].build(task.facts, epsilon, DELTA, run)
    own = {f"checks__{name}": value for name, value in own.items()}
    model.set_params(noise=InsecureNoise(run), allow_overlap=True, **own)
    model.set_params(checks__allow_hopeless=True)
    return model.fit(task.X, task.y, X_public=task.public)


def task_of(name: str, data: Path, seed: int, records: int) -> Task:
    X, y, columns = raw(name, data)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order], y[order]
    n_public, n_held_out = _SIZES.get(name, (1500, 3000))
    (public, held_out, inside), (_, truth, targets) = (
        np.split(each, [n_public, n_public + n_held_out]) for each in (X, y)
    )
    inside, targets = inside[:records], targets[:records]
    kind = "images" if name in IMAGES else "table"
    known = tuple(np.unique(y).tolist())
    sizes = (len(inside), n_public, X.shape[1])
    facts = Facts(kind, *sizes, known, IMAGES.get(name), columns)
    return Task(inside, targets, public, held_out, np.searchsorted(known, truth), facts)


def figures(said: np.ndarray, task: Task, seed: int) -> Figures:
    truth, two = task.truth, said.shape[1] == 2
    drawn = np.random.default_rng(seed)
    cuts = said.cumsum(axis=1)
    made = [
        (drawn.random((len(said), 1)) > cuts).sum(axis=1).clip(max=said.shape[1] - 1)
        for _ in range(20)
    ]
    auc = roc_auc_score(truth, said[:, 1]) if two else roc_auc_score(truth, said, multi_class="ovr")
    brier = float(((said - np.eye(said.shape[1])[truth]) ** 2).sum(axis=1).mean())
    expected = float(np.mean([calibration_error(said, each) for each in made]))
    right = float((said.argmax(axis=1) == truth).mean())
    return Figures(calibration_error(said, truth), expected, float(auc), brier, right)


def calibration_error(said: np.ndarray, truth: np.ndarray) -> float:
    two = said.shape[1] == 2
    sure = said[:, 1] if two else said.max(axis=1)
    right = truth == 1 if two else said.argmax(axis=1) == truth
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = np.bincount(place, sure - right, BINS)
    return float(np.abs(gaps).sum() / len(truth))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", "data")))
    parser.add_argument("--sets", default=",".join(each for each in SETS if each != "prices"))
    parser.add_argument("--part", choices=("paid", "free"), default="paid")
    parser.add_argument("--methods", default="", help="all, or those that vote, by default")
    parser.add_argument("--epsilon", default="1,4")
    parser.add_argument("--records", type=int, default=8000, help="private ones, at most")
    parser.add_argument("--share", type=float, default=0.05, help="of mu^2, for the check")
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    options.methods = options.methods or ",".join(VOTING if options.part == "free" else METHODS)
    return options


if __name__ == "__main__":
    main()
