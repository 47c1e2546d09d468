"""How a student finds neighbours among very many public inputs, and what that costs.

`python -m benchmarks.student_search` compares four searches for the graph of 100,000 made-up inputs
(share of the true neighbours found, CPU-seconds; hnswlib and pynndescent where they are installed).
`--fit 1000000` measures a whole `LabelSpreadingStudent` of so many inputs and its predictions of
100,000 rows.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_blobs

from tacit._checks import Integers
from tacit.students import LabelSpreadingStudent
from tacit.students.neighbour_search import Features, graph_neighbours, nearest

_NEIGHBOURS = 7
_CLASSES = 10


def made_up(count: int, dimension: int = 32) -> tuple[Features, Integers]:
    """Return points of ten classes, each of thirty clusters that overlap."""
    points, clusters = make_blobs(
        count, dimension, centers=30 * _CLASSES, cluster_std=4.0, random_state=0
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


def measure_student(count: int) -> None:
    """Print what fitting with so many public inputs takes, and predicting 100,000 rows."""
    points, classes = made_up(count + 100_000)
    inputs, labels = points[:count], classes[:count]
    asked = np.random.default_rng(2).choice(count, 3000, replace=False)
    posterior = np.full((len(asked), _CLASSES), 0.02)
    posterior[np.arange(len(asked)), labels[asked]] = 0.82
    start = time.process_time()
    student = LabelSpreadingStudent().fit(inputs, asked, posterior)
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
    parser.add_argument("--fit", type=int, nargs="*", default=None)
    arguments = parser.parse_args()
    if arguments.fit is None:
        compare_searches(arguments.inputs)
    for count in arguments.fit or []:
        measure_student(count)


if __name__ == "__main__":
    main()
