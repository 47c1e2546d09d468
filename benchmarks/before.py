"""The same few runs under 0.1 and today: a script that asks nothing of either but what both have.

Run it as a file, with the package that is to be measured on the path:

    git worktree add --detach OLD b7e4f9e
    PYTHONPATH=OLD/src python benchmarks/before.py --data DIR [--images DIR]
    PYTHONPATH=src     python benchmarks/before.py --data DIR [--images DIR]

b7e4f9e is the last commit that calls itself 0.1.0. Parts: residual ridge while public images are
turned (10,000 private ones, 2,000 public, epsilon 2); PATE and Private-kNN on 500 records of Adult
at epsilon 1, against the most frequent label; the calibration error of probabilities on 4,000
records of Adult at epsilon 1, which `--calibration 0.05` makes smaller today; what `tacit train`
prints of moments at epsilon 1 where 3 % of 6,000 records of Adult are positive. Settings are those
of a comparison; noise is simulated (by `tacit train` it is not), delta 1e-5.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import rotate
from sklearn.metrics import roc_auc_score

import tacit
from tacit.datasets import load_adult, load_idx
from tacit.methods import Facts, all_rules

DELTA, BINS = 1e-5, 15
TURNED = (0, 5, 45)
SIDE = 28
BEGINNING = 170
"""Of a warning, so many letters are printed."""
VOTING = ("pate", "knn")
EDGES = {
    "age": [25, 35, 45, 55, 65],
    "education-num": [6, 9, 11, 13],
    "hours-per-week": [20, 35, 41, 50],
    "capital-gain": [1000, 5000, 10000],
}
RUN = f"""
method = "moments"

[data]
name = "adult"
source = "csv:records.csv"
public_source = "csv:inputs.csv"
held_out_source = "csv:checked.csv"
allow_overlap = true

[data.options]
target = "rich"
classes = ["0", "1"]

[data.options.numeric]
{chr(10).join(f"{name} = {edges}" for name, edges in EDGES.items())}

[privacy]
epsilon = 1.0
delta = {DELTA}

[moments]
features = "bins"
"""


class Task(NamedTuple):
    """Rows in three parts, and what is public of them."""

    X: np.ndarray
    y: np.ndarray
    public: np.ndarray
    held_out: np.ndarray
    truth: np.ndarray
    facts: Facts


def main() -> None:
    """Print a line for each run, with the version that made it."""
    options = parse()
    for seed in range(options.runs):
        for part in options.parts.split(","):
            PARTS[part](options, seed)


def turned(options: argparse.Namespace, seed: int) -> None:
    """Turn public images, never private ones."""
    train = load_idx(options.images or options.data / "mnist").train
    X, y = np.asarray(train.X, dtype=np.float64).reshape(len(train.y), -1), np.asarray(train.y)
    for angle in TURNED:
        task = cut(X, y, seed, sizes=(2000, 3000, 10_000), kind="images", image_shape=(SIDE, SIDE))
        grey = task.public.reshape(-1, SIDE, SIDE)
        if angle:
            grey = rotate(grey, angle, axes=(1, 2), reshape=False, order=1)
        said = probabilities(
            task._replace(public=grey.reshape(len(grey), -1)), "ridge", 2.0, seed, options
        )
        told(f"ridge, public images turned by {angle}", task, *said)


def few(options: argparse.Namespace, seed: int) -> None:
    """Let few records vote."""
    task = adult(options.data, seed, 500)
    for method in VOTING:
        told(f"{method}, 500 records", task, *probabilities(task, method, 1.0, seed, options))


def sure(options: argparse.Namespace, seed: int) -> None:
    """Ask how far probabilities are from how often it is so."""
    task = adult(options.data, seed, 4000)
    for method in (*VOTING, "dpsgd"):
        told(f"{method}, 4,000 records", task, *probabilities(task, method, 1.0, seed, options))


def rare(options: argparse.Namespace, seed: int) -> None:
    """Print what the command says of a model whose outcome is rare."""
    found = load_adult(options.data / "adult")
    names = [column.name for column in found.columns]
    X = np.asarray(found.X)[:, [names.index(name) for name in EDGES]]
    y = np.asarray(found.y)
    random = np.random.default_rng(seed)
    yes, no = (random.permutation(np.flatnonzero(y == label)) for label in (1, 0))
    with tempfile.TemporaryDirectory() as folder:
        at = 0
        for name, rows in (("records", 6000), ("inputs", 1500), ("checked", 3000)):
            part = np.concatenate(
                [yes[at : (few := rows * 3 // 100) + at], no[at : at + rows - few]]
            )
            table = np.column_stack([X[part], y[part]])[random.permutation(rows)]
            head = ",".join([*EDGES, "rich"])
            np.savetxt(Path(folder, f"{name}.csv"), table, "%d", ",", header=head, comments="")
            at += rows
        Path(folder, "run.toml").write_text(RUN)
        command = [sys.executable, "-c", "from tacit.cli import main; main()"]
        run = [*command, "train", "run.toml", "--out", "run"]
        told = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=True).stdout
    print(f"{tacit.__version__} | tacit train, 3 % positives:\n{told.partition('Budget')[0]}")


PARTS = {"turned": turned, "few": few, "sure": sure, "rare": rare}


def adult(data: Path, seed: int, records: int) -> Task:
    """Return rows of Adult."""
    found = load_adult(data / "adult")
    sizes = (1500, 3000, records)
    return cut(found.X, found.y, seed, sizes=sizes, kind="table", columns=found.columns)


def cut(
    X: np.ndarray, y: np.ndarray, seed: int, *, sizes: tuple[int, ...], kind: str, **known: Any
) -> Task:
    """Cut shuffled rows in public, held-out and private ones."""
    order = np.random.default_rng(seed).permutation(len(y))[: sum(sizes)]
    ends = np.cumsum(sizes)[:-1]
    (public, held_out, inside), (_, truth, targets) = (
        np.split(each[order], ends) for each in (X, y)
    )
    classes = tuple(np.unique(y).tolist())
    facts = Facts(kind, len(inside), len(public), X.shape[1], classes, **known)
    return Task(inside, targets, public, held_out, np.searchsorted(classes, truth), facts)


def probabilities(
    task: Task, method: str, epsilon: float, seed: int, options: argparse.Namespace
) -> tuple[np.ndarray | None, str]:
    """Return what a method says of held-out rows, and what it warned of; or why it refused."""
    model = all_rules()[method].build(task.facts, epsilon, DELTA, seed)
    model.set_params(noise=tacit.InsecureNoise(seed), allow_overlap=True)
    if options.calibration:
        model.set_params(checks__calibration=options.calibration)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(task.X, task.y, X_public=task.public)
        except tacit.errors.InvalidArgument as error:
            return None, f"refused: {str(error)[:BEGINNING]}"
    own = [one for one in caught if one.category.__module__.startswith("tacit")]
    words = sorted({f"{one.category.__name__}: {str(one.message)[:BEGINNING]}" for one in own})
    return model.predict_proba(task.held_out), "; ".join(words) or "no warning"


def told(what: str, task: Task, said: np.ndarray | None, word: str) -> None:
    """Print accuracy, that of the most frequent label, and of two classes AUC and ECE."""
    most = np.bincount(task.truth).max() / len(task.truth)
    line = f"{tacit.__version__} | {what} | most frequent {most:.3f}"
    if said is not None:
        line += f" | accuracy {(said.argmax(axis=1) == task.truth).mean():.3f}"
        if said.shape[1] == 2:
            line += f" | AUC {roc_auc_score(task.truth, said[:, 1]):.3f}"
            place = np.minimum((said[:, 1] * BINS).astype(int), BINS - 1)
            gaps = np.bincount(place, said[:, 1] - (task.truth == 1), BINS)
            line += f" | ECE {np.abs(gaps).sum() / len(task.truth):.3f}"
    print(f"{line} | {word}", flush=True)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", "data")))
    parser.add_argument("--images", type=Path, help="a folder like MNIST's; MNIST by default")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--calibration", type=float, default=0.0, help="today only")
    parser.add_argument("--runs", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
