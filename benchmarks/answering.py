"""What one answer costs that is paid for by itself: CPU-milliseconds of `answer` with one question.

`python -m benchmarks.answering --records 1e5 --answers 50` holds so many records of 16 numbers,
asks one question after another through a ledger on disk, and prints CPU and wall time of an answer,
beside the bare product of one question with all records.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

COLUMNS = 16


@dataclass(frozen=True, slots=True)
class Answering:
    """Milliseconds of one answer, and of the bare product of a question with all records."""

    records: int
    cpu: float
    wall: float
    bare: float


def measure(records: int, answers: int) -> Answering:
    from tacit import PrivateKNNClassifier

    draw = np.random.default_rng(0)
    X = draw.normal(size=(records, COLUMNS))
    model = PrivateKNNClassifier(
        k=200,
        classes=(0, 1),
        epsilon=8.0,
        delta=1e-9,
        queries=answers + 1,
        radius=10.0,
    ).fit(X, (X[:, 0] > 0).astype(int))
    inputs = draw.normal(size=(answers + 1, 1, COLUMNS))
    model.answer(inputs[-1])  # what is done once, such as imports
    cpu, wall = time.process_time(), time.perf_counter()
    for one in inputs[:-1]:
        model.answer(one)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    held, each = X.astype(np.float32), 1e3 / answers
    began = time.process_time()
    for one in inputs[:-1]:
        held @ one[0].astype(np.float32)
    bare = time.process_time() - began
    return Answering(records, cpu * each, wall * each, bare * each)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=float, default=1e5)
    parser.add_argument("--answers", type=int, default=50)
    asked = parser.parse_args()
    found = measure(int(asked.records), asked.answers)
    print(
        f"{found.records:,} records: {found.cpu:.2f} CPU-ms, {found.wall:.2f} ms an answer; "
        f"a bare product of one question with all records {found.bare:.2f} CPU-ms"
    )


if __name__ == "__main__":
    main()
