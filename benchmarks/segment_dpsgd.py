"""DP-SGD on private volumes: the row that private masks are compared with.

The split of `benchmarks.segment_hippocampus`: 130 private volumes of the Decathlon's hippocampus,
40 held out; unit: one volume. A U-Net is trained on the private ones by DP-SGD (`DPSGDSegmenter`),
from random weights, with no public scan at all. Beside it: the same network with almost no noise,
which is not private, and the mean of 40 public masks, for which nobody needs a network.

    python -m benchmarks.segment_dpsgd --data DIR [--epsilon 8 --seeds 1 --no-references]

The settings below were chosen on generated volumes (`--generated`), not on this data.
"""

from __future__ import annotations

import argparse
import os
import time
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.segment_teaching import score
from tacit import InsecureNoise, NewLedger, Training
from tacit.masks import DPSGDSegmenter, generated_volumes, load_volumes

SHAPE, DELTA = (20, 28, 20), 1e-5
SETTINGS: dict[str, Any] = {
    "channels": (4, 8, 16),
    "residual_units": 0,
    "training": Training(clip=0.01, learning_rate=2e-2, epochs=30, batch_size=65),
}
Array = NDArray[Any]


def dp_unet(
    images: Array, masks: Array, *, epsilon: float, delta: float, seed: int = 0, **changes: Any
) -> tuple[Callable[[Array], Array], float]:
    """Train a U-Net by DP-SGD; return what segments scans, and the epsilon that was spent.

    The number of volumes is declared public, as it is in the comparison's other rows.
    """
    model = DPSGDSegmenter(
        n_records=len(images),
        epsilon=epsilon,
        delta=delta,
        ledger=NewLedger(dataset="MSD hippocampus"),
        random_state=seed,
        **{**SETTINGS, **changes},
    ).fit(images, masks)
    return model.predict, model.ledger_.spent()


def hippocampus(folder: Path) -> list[tuple[Array, Array]]:
    """Return scans and masks: private, of the codec, asked, held out."""
    path = folder / "hippocampus_msd" / "hippocampus_48x64x48.npz"
    volumes = load_volumes(f"npz:{path}", n_classes=3).normalised().resampled(SHAPE)
    images, labels = volumes.arrays()
    assert labels is not None
    masks = (labels > 0).astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(images))
    return [(images[rows], masks[rows]) for rows in np.split(order, [130, 170, 220])]


def generated() -> list[tuple[Array, Array]]:
    images, masks = generated_volumes(210, SHAPE).normalised().arrays()
    assert masks is not None
    parts = np.split(np.arange(210), [130, 170, 170])
    return [(images[rows], masks[rows]) for rows in parts]


def main() -> None:
    options = parse()
    changes = {name: literal_eval(value) for name, value in map(_pair, options.change)}
    private, known, _, held_out = generated() if options.generated else hippocampus(options.data)
    for seed in range(options.seeds):
        start = time.process_time()
        predict, spent = dp_unet(
            *private, epsilon=options.epsilon, delta=DELTA, seed=seed, **changes
        )
        seconds = time.process_time() - start
        found = score(predict(held_out[0]), held_out[1])
        print(f"DP-SGD U-Net: epsilon {spent:.3f}, Dice {found:.3f}, {seconds:.0f} s", flush=True)
    if options.references:
        quiet = {"noise_multiplier": 0.05, "noise": InsecureNoise(0), **changes}
        predict, _ = dp_unet(*private, epsilon=1e9, delta=DELTA, **quiet)
        found = score(predict(held_out[0]), held_out[1])
        print(f"the same with almost no noise, not private: Dice {found:.3f}", flush=True)
        mean = np.repeat((known[1].mean(axis=0) > 0.5)[None], len(held_out[1]), axis=0)
        print(f"mean of 40 public masks: Dice {score(mean, held_out[1]):.3f}")


def _pair(text: str) -> list[str]:
    return text.split("=", maxsplit=1)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".")))
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--generated", action="store_true", help="generated volumes instead")
    parser.add_argument("--no-references", dest="references", action="store_false")
    parser.add_argument("--change", nargs="*", default=[], metavar="NAME=VALUE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
