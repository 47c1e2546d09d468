"""Choose k and the number of queries of Private-kNN for MNIST on USPS: no private record is seen.

A query reaches the k/rate nearest records. USPS has fewer records than MNIST, so k is smaller by
the same factor, and so is the noise (mu is larger): votes and noise then stand in the same ratio.
8,000 images private, 2,000 public inputs, 1,000 held out, random splits; rate 1.

    python -m benchmarks.knn_choices --data DIR --epsilon 0.2
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from benchmarks.pate_choices import PRIVATE, SIDE, TARGET, split, usps
from tacit import PrivateKNNClassifier
from tacit.features import digit_features
from tacit.mechanisms import SampledVotes
from tacit.privacy import gaussian_mu

REACH = (300, 600, 1200, 2400, 4800)
QUERIES = (50, 100, 200)


def main() -> None:
    options = parse()
    X, y = usps(options.data)
    view = digit_features(SIDE).fit_transform(X)
    mu = gaussian_mu(options.epsilon, 1e-5) * TARGET / PRIVATE
    print(f"epsilon {options.epsilon} on {TARGET:,} records: mu {mu:.3f} on {PRIVATE:,} of USPS")
    print("k on MNIST (on USPS) | queries: held-out accuracy, mean (min) of random splits")
    for reach in REACH:
        k = round(reach * PRIVATE / TARGET)
        line = [f"{reach:5d} ({k:3d})"]
        for queries in QUERIES:
            scores = [accuracy(view, y, k, queries, mu, s) for s in range(options.splits)]
            line.append(f"{queries}: {np.mean(scores):.4f} ({min(scores):.3f})")
        print(" | ".join(line), flush=True)


def accuracy(view: np.ndarray, y: np.ndarray, k: int, queries: int, mu: float, seed: int) -> float:
    private, public, held_out = split(len(y), seed)
    model = PrivateKNNClassifier(
        k=k,
        mechanism=SampledVotes(sigma=float(np.sqrt(2 * queries) / mu), k=k),
        epsilon=1e3,
        delta=1e-5,
        queries=queries,
        classes=tuple(range(10)),
        random_state=seed,
    )
    model.fit(view[private], y[private], X_public=view[public])
    return float(model.score(view[held_out], y[held_out]))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".")))
    parser.add_argument("--epsilon", type=float, default=0.2)
    parser.add_argument("--splits", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
