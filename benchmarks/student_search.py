"""How a student finds neighbours among very many public inputs, and what that costs.

`python -m benchmarks.student_search` compares four searches for the graph of 100,000 made-up inputs
(share of the true neighbours found, CPU-seconds; hnswlib and pynndescent where they are installed).
`--predict 100000` has the default student of so many public inputs predict 100,000 rows: as it is,
where it keeps all of them, and there by exact search as well; `--spread 7` makes classes overlap.
`--fit 1000000` measures a whole `LabelSpreadingStudent` of so many inputs and its predictions of
100,000 rows.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_blobs

from tacit._checks import Floats, Integers
from tacit.students import CombinedStudent, LabelSpreadingStudent
from tacit.students.neighbour_search import (
    LISTED,
    Features,
    graph_neighbours,
    nearest,
    nearest_in_lists,
)

_NEIGHBOURS = 7
_ASKED = 100_000
_CLASSES = 10


def made_up(count: int, dimension: int = 32, spread: float = 4.0) -> tuple[Features, Integers]:
    """Return points of ten classes, each of thirty clusters that overlap, the more they spread."""
    points, clusters = make_blobs(
        count, dimension, centers=30 * _CLASSES, cluster_std=spread, random_state=0
    )
    return points.astype(np.float32), clusters % _CLASSES


def _with_hnswlib(points: Features) -> Integers:
    import hnswlib

    index = hnswlib.Index("l2", points.shape[1])
    index.init_index(len(points), ef_construction=60, M=12, random_seed=0)
    index.set_num_threads(1)
    index.add_items(points)
    index.set_ef(40)
    return np.asarray(index.knn_query(points, _NEIGHBOURS + 1, num_threads=1)[0][:, 1:])


def _with_pynndescent(points: Features) -> Integers:
    from pynndescent import NNDescent

    index = NNDescent(points, n_neighbors=_NEIGHBOURS + 8, n_jobs=1, random_state=0)
    return np.asarray(index.neighbor_graph[0][:, 1 : _NEIGHBOURS + 1])


def _searches() -> dict[str, Callable[[Features], Integers]]:
    found: dict[str, Callable[[Features], Integers]] = {
        "exact": lambda points: nearest(points, points, _NEIGHBOURS, same=True)[0],
        "lists (ours)": lambda points: graph_neighbours(points, _NEIGHBOURS),
    }
    others = {"hnswlib": _with_hnswlib, "pynndescent": _with_pynndescent}
    for name in others:
        if not find_spec(name):
            print(f"{name:14} not installed")
    return found | {name: search for name, search in others.items() if find_spec(name)}


def compare_searches(count: int) -> None:
    """Print what each search takes and which share of the true neighbours it finds."""
    points, _ = made_up(count)
    probe = np.random.default_rng(1).choice(count, 500, replace=False)
    for name, search in _searches().items():
        start = time.process_time()
        found = search(points)[probe]
        spent = time.process_time() - start
        print(
            f"{name:14} {count:9,} inputs  {spent:7.1f} CPU-s  {_share(points, probe, found):.3f}"
        )


def _share(points: Features, probe: Integers, found: NDArray[np.int64]) -> float:
    with_oneself, _ = nearest(points[probe], points, _NEIGHBOURS + 1)
    pairs = zip(with_oneself[:, 1:], found, strict=True)
    return float(np.mean([len(set(true) & set(said)) / _NEIGHBOURS for true, said in pairs]))


def measure_predictions(count: int, spread: float) -> None:
    """Print what 100,000 predictions take, which labels are right, and which the search changes."""
    points, classes = made_up(count + _ASKED, spread=spread)
    lesson = (points[:count], *_lesson(classes[:count]))
    new, labels = points[count:], classes[count:]
    some = CombinedStudent().fit(*lesson)
    _timed(f"{count:,} public inputs, the default", some, new, labels)
    if count <= LISTED:
        return
    every = CombinedStudent(most_points=None).fit(*lesson)
    by_lists = _timed(f"{count:,} public inputs, all kept", every, new, labels)
    spreading = every.parts_[0]
    probe = new[:2000]
    told = nearest_in_lists(probe, spreading.lists_, _NEIGHBOURS)[0]
    true = nearest(probe, spreading.points_, _NEIGHBOURS, precise=True)[0]
    spreading.lists_ = None
    exact = _timed(f"{count:,} public inputs, all kept, exact", every, new, labels)
    shared = np.mean([len({*one} & {*other}) for one, other in zip(told, true, strict=True)])
    print(
        f"lists find {shared / _NEIGHBOURS:.2%} of the true neighbours and say "
        f"{(by_lists == exact).mean():.3%} of the labels of an exact search"
    )


def _timed(what: str, student: Any, new: Features, labels: Integers) -> Integers:
    start = time.process_time()
    said: Integers = student.predict(new)
    spent = time.process_time() - start
    print(f"{what}: {len(new):,} rows in {spent:.1f} CPU-s, {(said == labels).mean():.2%} right")
    return said


def _lesson(labels: Integers) -> tuple[Integers, Floats]:
    """Return 3,000 inputs that were asked about, and what was said of them."""
    asked = np.random.default_rng(2).choice(len(labels), 3000, replace=False)
    posterior = np.full((len(asked), _CLASSES), 0.02)
    posterior[np.arange(len(asked)), labels[asked]] = 0.82
    return asked, posterior


def measure_student(count: int) -> None:
    """Print what fitting with so many public inputs takes, and predicting 100,000 rows."""
    points, classes = made_up(count + _ASKED)
    asked, posterior = _lesson(classes[:count])
    start = time.process_time()
    student = LabelSpreadingStudent().fit(points[:count], asked, posterior)
    fitted = time.process_time()
    right = (student.predict(points[count:]) == classes[count:]).mean()
    done = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{count:,} public inputs: fit {fitted - start:.1f} CPU-s, predict 100,000 rows "
        f"{done - fitted:.1f} CPU-s, {right:.1%} right, peak {peak:.2f} GiB"
    )


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--predict", type=int, nargs="*", default=None)
    parser.add_argument("--spread", type=float, default=4.0)
    parser.add_argument("--fit", type=int, nargs="*", default=None)
    arguments = parser.parse_args()
    if arguments.fit is None and arguments.predict is None:
        compare_searches(arguments.inputs)
    for count in arguments.predict or []:
        measure_predictions(count, arguments.spread)
    for count in arguments.fit or []:
        measure_student(count)


if __name__ == "__main__":
    main()
