"""Files of votes for the tests of their reader: three queries, four teachers, three classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

VOTES = np.array([[3, 1, 0], [0, 2, 2], [4, 0, 0]])
PREDICTIONS = np.array([[0, 1, 0], [0, 2, 0], [0, 1, 0], [1, 2, 0]])


def write_csv(path: Path, rows: object, header: str = "") -> Path:
    """Write rows of numbers, below a header if there is one."""
    lines = [",".join(map(str, row)) for row in np.asarray(rows).tolist()]
    path.write_text("\n".join([header, *lines] if header else lines) + "\n", encoding="utf-8")
    return path


def saved(folder: Path, kind: str, array: np.ndarray, key: str) -> Path:
    """Save an array in a file of this kind; an archive holds it under `key`."""
    path = folder / f"file.{kind}"
    if kind == "npy":
        np.save(path, array)
    elif kind == "npz":
        np.savez(path, **{key: array})
    else:
        write_csv(path, array)
    return path
