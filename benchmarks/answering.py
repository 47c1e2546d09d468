"""What one answer costs that is paid for by itself: CPU-milliseconds of `answer` with one question.

`python -m benchmarks.answering --records 1e5 --answers 50` holds so many records of 16 numbers,
asks one question after another through a ledger on disk, and prints CPU and wall time of an answer,
beside the bare product of one question with all records.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

COLUMNS = 16


def main() -> None:
    from tacit import PrivateKNNClassifier

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=float, default=1e5)
    parser.add_argument("--answers", type=int, default=50)
    asked = parser.parse_args()
    draw = np.random.default_rng(0)
    X = draw.normal(size=(int(asked.records), COLUMNS))
    model = PrivateKNNClassifier(
        k=200,
        classes=(0, 1),
        epsilon=8.0,
        delta=1e-9,
        queries=asked.answers + 1,
        radius=10.0,
    ).fit(X, (X[:, 0] > 0).astype(int))
    inputs = draw.normal(size=(asked.answers + 1, 1, COLUMNS))
    model.answer(inputs[-1])  # what is done once, such as imports
    cpu, wall = time.process_time(), time.perf_counter()
    for one in inputs[:-1]:
        model.answer(one)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    held, each = X.astype(np.float32), 1e3 / asked.answers
    began = time.process_time()
    for one in inputs[:-1]:
        held @ one[0].astype(np.float32)
    bare = time.process_time() - began
    print(
        f"{len(X):,} records: {cpu * each:.2f} CPU-ms, {wall * each:.2f} ms an answer; "
        f"a bare product {bare * each:.2f} CPU-ms"
    )


if __name__ == "__main__":
    main()
