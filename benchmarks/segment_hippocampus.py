"""One real run: atlas teachers of one patient each, private masks, a student, on the hippocampus.

260 volumes of the Medical Segmentation Decathlon: 130 private, 40 public masks for the codec, 50
public scans asked, 40 held out; unit: one volume. Beside the private student: one trained on the
true masks of the 50 asked scans (had they been public), and one on the codec's 40 volumes with
their own masks (had their scans been public). Registration numbers were chosen on other pairs of
this data set by an earlier study, which is not covered by epsilon.

    python -m benchmarks.segment_hippocampus --data DIR [--epsilon 8 --rounds 2]
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

from tacit.datasets.volumes import load_volumes
from tacit.estimators.segmenter import PATESegmenter
from tacit.students.masks import organ_dice
from tacit.students.segmentation import UNetStudent

SHAPE = (20, 28, 20)


def main() -> None:
    options = parse()
    path = options.data / "hippocampus_msd" / "hippocampus_48x64x48.npz"
    volumes = load_volumes(f"npz:{path}", n_classes=3).normalised().resampled(SHAPE)
    images, masks = volumes.arrays()
    masks = (masks > 0).astype(np.uint8)  # the organ as a whole
    order = np.random.default_rng(options.seed).permutation(len(images))
    private, known, asked, held_out = np.split(order, [130, 170, 220])
    start = time.perf_counter()
    model = PATESegmenter(
        student=UNetStudent(random_state=0),
        n_teachers=130,
        each_alone=not options.shards,
        epsilon=options.epsilon,
        delta=1e-5,
        rounds=options.rounds,
        dataset="MSD hippocampus",
        random_state=0,
    )
    model.fit(images[private], masks[private], images[asked], public_masks=masks[known])
    print(f"epsilon {model.ledger_.spent():.4f}, {time.perf_counter() - start:.0f} s wall")
    truth = masks[asked][model.queries_]
    released = organ_dice((model.released_ > 0.5).astype(np.uint8), truth).mean()
    mean_mask = np.repeat((masks[known].mean(axis=0) > 0.5)[None], len(truth), axis=0)
    print(
        f"released masks: Dice {released:.3f}; the public mean mask {score(mean_mask, truth):.3f}"
    )
    print(f"private student: Dice {model.score(images[held_out], masks[held_out]):.3f}")
    for name, rows in (("true masks of the asked scans", asked), ("the codec's 40", known)):
        student = UNetStudent(random_state=0).fit(images[rows], masks[rows])
        found = score(student.predict(images[held_out]), masks[held_out])
        print(f"student of {name}, not private: Dice {found:.3f}", flush=True)


def score(predicted: np.ndarray, truth: np.ndarray) -> float:
    return float(organ_dice(np.asarray(predicted, dtype=np.uint8), truth).mean())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".")))
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shards", action="store_true", help="hash patients into 130 teachers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
