"""Lesions have no common place: atlas teachers against U-Net teachers, on phantoms.

    python -m benchmarks.segment_lesions     # minutes; needs tacit[segment]

A phantom is a noisy 24 x 24 scan with one bright round lesion anywhere, or (one in five) with none.
600 private phantoms, 60 public scans, 200 public masks for the codec, 40 held out. Printed for each
kind of teacher: what the student reaches, beside the empty mask.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

from tacit import PATESegmenter
from tacit.masks import AtlasTeacher, UNetRecipe, UNetStudent, UNetTeacher, organ_dice

SIDE = 24


def phantoms(count: int, seed: int) -> tuple[Any, Any]:
    """Return scans and masks."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij"))
    centres, radii = rng.uniform(5, SIDE - 5, (count, 2, 1, 1)), rng.uniform(2.5, 4.5, count)
    masks = ((grid - centres) ** 2).sum(axis=1) < radii[:, None, None] ** 2
    masks[rng.uniform(size=count) < 0.2] = False
    scans = masks * 0.8 + 0.25 * rng.standard_normal(masks.shape)
    return scans.astype(np.float32), masks.astype(np.uint8)


def main() -> None:
    """Train both, print what they reach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--queries", type=int, default=20)
    asked = parser.parse_args()
    (scans, masks), (outside, _) = phantoms(600, 1), phantoms(60, 2)
    (_, shapes), (held_out, truth) = phantoms(200, 3), phantoms(40, 4)
    recipe = UNetRecipe(channels=(8, 16), steps=150)
    for name, teacher in (("atlas", AtlasTeacher()), ("unet", UNetTeacher(recipe))):
        model = PATESegmenter(
            teacher,
            student=UNetStudent(channels=(8, 16), steps=300, random_state=0),
            n_teachers=30,
            epsilon=asked.epsilon,
            delta=1e-4,
            queries=asked.queries,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(scans, masks, outside, public_masks=shapes)
        said = model.predict(held_out)
        there = truth.reshape(len(truth), -1).any(axis=1)
        dice = organ_dice(said, truth)
        empty = int((said.reshape(len(said), -1).max(axis=1) == 0).sum())
        print(
            f"{name}: Dice {dice.mean():.3f}, where there is a lesion {dice[there].mean():.3f}; "
            f"{empty} of {len(said)} masks empty; the empty mask alone {(~there).mean():.3f}"
        )


if __name__ == "__main__":
    main()
