"""Squares of two photographs: a data set that ships inside scikit-learn and does not cluster.

8,480 squares of 8 x 8 grey pixels, row by row, of the two photographs that scikit-learn shows its
users (a pagoda, a flower); the label says of which. None of tacit's settings was chosen on it. It
is given as 64 numbers, not as an image: these are no written characters. Run it, then compare:

    python -m benchmarks.patches patches.npz
    tacit compare --data npz:patches.npz --out compared
"""

from __future__ import annotations

import sys

import numpy as np

SIDE = 8
CLASSES = ("pagoda", "flower")


def squares(image: np.ndarray) -> np.ndarray:
    """Return the squares of a photograph that do not overlap, as rows of grey values in [0, 1]."""
    grey = image.astype(np.float64).mean(axis=2) / 255
    height, width = (size // SIDE for size in grey.shape)
    cut = grey[: height * SIDE, : width * SIDE].reshape(height, SIDE, width, SIDE)
    return cut.transpose(0, 2, 1, 3).reshape(height * width, SIDE * SIDE)


def patch_table() -> tuple[np.ndarray, np.ndarray]:
    """Return all squares and the name of the photograph that each was cut from."""
    from sklearn.datasets import load_sample_images

    parts = [squares(image) for image in load_sample_images().images]
    return np.concatenate(parts), np.repeat(CLASSES, [len(part) for part in parts])


def main() -> None:
    rows, labels = patch_table()
    np.savez_compressed(sys.argv[1], x=rows, y=labels, classes=np.array(CLASSES))
    print(f"{len(rows):,} squares")


if __name__ == "__main__":
    main()
