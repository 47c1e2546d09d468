"""Choose the settings of DP-MAC's and DP-SGD's classifiers for `tacit compare`, on USPS digits.

Of 11,000 images some are private and 1,000 held out; HOG features, delta 1e-5, 20 epochs, layers of
300 and 100 (none for `linear`). Rates, lots and Z-steps are tried in turn. Nothing of the data sets
that are compared is seen. One split and one seed a line.

    python -m benchmarks.direct_choices --data DIR --method layerwise --rate 1e-2 3e-2
    python -m benchmarks.direct_choices --data DIR --method mac --z-steps 6 --z-rate 3e-2
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pate_choices import SIDE, usps
from tacit.estimators.dpsgd import DPSGDClassifier
from tacit.estimators.mac import MACClassifier
from tacit.features import digit_features

HELD_OUT = 1_000


def build(options: argparse.Namespace, batch: int, rate: float) -> Any:
    common = {
        "epsilon": options.epsilon,
        "n_records": options.private,
        "batch_size": batch,
        "learning_rate": rate,
        "classes": range(10),
        "random_state": 0,
    }
    if options.method == "mac":
        return MACClassifier(z_steps=options.z_steps, z_rate=options.z_rate, **common)
    if options.method == "linear":
        return DPSGDClassifier(hidden=(), clipping="flat", **common)
    return DPSGDClassifier(clipping="per-layer", **common)


def main() -> None:
    options = parse()
    X, y = usps(options.data)
    rows = np.random.default_rng(0).permutation(len(y))[: options.private + HELD_OUT]
    view, labels = digit_features(SIDE).fit_transform(X[rows]), y[rows]
    inside, outside = view[: options.private], view[options.private :]
    for batch, rate in itertools.product(options.batch, options.rate):
        start = time.process_time()
        model = build(options, batch, rate).fit(inside, labels[: options.private])
        right = model.score(outside, labels[options.private :])
        seconds = time.process_time() - start
        print(
            f"{options.method}, {options.private:,} records, epsilon {options.epsilon:g}, "
            f"lots of {batch}, rate {rate:g}: {right:.3f}, {seconds:.0f} CPU-s",
            flush=True,
        )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--method", choices=("linear", "layerwise", "mac"), default="layerwise")
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--private", type=int, default=2_000)
    parser.add_argument("--batch", type=int, nargs="+", default=[512])
    parser.add_argument("--rate", type=float, nargs="+", default=[1e-2, 3e-2])
    parser.add_argument("--z-steps", type=int, default=30)
    parser.add_argument("--z-rate", type=float, default=1e-3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
