"""Linear DP-SGD by its default rule, on sets on which the rule was not made.

    python -m benchmarks.linear_steps mnist --data DIR --epsilon 0.1 0.5 2
    python -m benchmarks.linear_steps usps --data DIR --seeds 3 --before

MNIST: 60,000 private images, half of the test part public, the other half scored. Adult: 10,000
rows are drawn, half of them public, the other half scored; all others are private. USPS: of 11,000
images, 1,100 of each digit, 3,000 are drawn likewise. Fresh secure noise through a ledger, delta
1e-5; one split a seed. --before: the rule before, Adam at 0.3 with clip 0.1 and 20 epochs on rows
as they are, which was found on USPS.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit import DPSGDClassifier, load_dataset
from tacit.features import PublicBins, digit_features
from tacit.methods.dpsgd import Training


def mnist(folder: Path) -> tuple[Any, Any, Any, Any]:
    """Return rows, labels, features and how many rows come first and are always private."""
    data = load_dataset(f"mnist:{folder / 'mnist'}")
    rows = digit_features((28, 28)).fit_transform(np.asarray(data.X))
    return rows, np.asarray(data.labels), None, 60_000


def adult(folder: Path) -> tuple[Any, Any, Any, Any]:
    """Return the same; any row may be private."""
    data = load_dataset(f"adult:{folder / 'adult'}")
    features = PublicBins(data.columns or (), unit_norm=True)
    return data.X, np.asarray(data.labels), features, None


def usps(folder: Path) -> tuple[Any, Any, Any, Any]:
    """Return the same; any image may be private."""
    declared = {"classes": 10, "range": [0, 255]}
    data = load_dataset(f"npz:{folder / 'usps' / 'usps_1100_per_class.npz'}", **declared)
    rows = digit_features((16, 16)).fit_transform(np.asarray(data.X))
    return rows, np.asarray(data.labels), None, None


SETS = {"mnist": mnist, "adult": adult, "usps": usps}
DRAWN = {"mnist": 10_000, "adult": 10_000, "usps": 3000}
"""How many rows are public or scored."""
BEFORE = Training(clipping="flat", clip=0.1, learning_rate=0.3, epochs=20)


def main() -> None:
    """Print a line for each fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 0.5, 2.0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--before", action="store_true", help="the rule before, for images")
    given = parser.parse_args()
    rows, labels, features, first = SETS[given.set](given.data)
    apart = DRAWN[given.set]
    quarter = (len(labels) - apart) // 4
    training = replace(BEFORE, batch_size=quarter) if given.before else None
    for seed in range(given.seeds):
        draw = np.random.default_rng(seed)
        order = draw.permutation(len(labels))
        if first is not None:
            order = np.r_[np.arange(first), first + draw.permutation(len(labels) - first)]
        own, public, scored = np.split(order, [-apart, -apart // 2])
        for epsilon in given.epsilon:
            started = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = DPSGDClassifier(
                    hidden=(),
                    epsilon=epsilon,
                    delta=1e-5,
                    classes=sorted(set(labels.tolist())),
                    n_records=len(own),
                    features=features,
                    training=training,
                    allow_overlap=True,
                ).fit(rows[own], labels[own], None if given.before else rows[public])
            right = float((model.predict(rows[scored]) == labels[scored]).mean())
            found = {"set": given.set, "seed": seed, "epsilon": epsilon, "accuracy": right}
            spent = round(time.process_time() - started, 1)
            print(json.dumps(found | {"cpu seconds": spent}), flush=True)


if __name__ == "__main__":
    main()
