"""Votes in files: `.npy`, `.npz` and `.csv`, as histograms or as the teachers' predictions.

Votes are secret: an error names the file and its fault, never its content.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Integers, at_least, one_of, vote_matrix
from tacit.datasets._reading import existing_file, open_npz, read_file, read_npy
from tacit.errors import InvalidArgument
from tacit.mechanisms import count_votes

_LARGEST = 2**53  # float64 holds every whole number up to here
_KEYS = {"votes": "histogram", "predictions": "predictions"}


def read_votes(
    path: str | Path, *, format: str | None = None, n_classes: int | None = None
) -> Integers:
    """Read votes `(queries, classes)` from a file. Secret.

    Parameters
    ----------
    path : path to an `.npy`, `.npz` or `.csv` file; no error quotes its content
    format : str, optional
        "histogram" for `(queries, classes)` counts, "predictions" for `(teachers, queries)` class
        indices. In an `.npz` the key `votes` or `predictions` decides; elsewhere this must.
    n_classes : int, optional
        Public number of classes, never read off private predictions, which need it.

    Returns
    -------
    array of int, of shape (queries, classes), secret
    """
    path = Path(path)
    if format is not None:
        one_of(*_KEYS.values(), format=format)
    array, found = _read(path, format)
    chosen = format or found
    if chosen is None:
        raise InvalidArgument(
            f"Expected a format for {path.name!r}: say --format histogram for (queries, classes) "
            "or --format predictions for (teachers, queries)."
        )
    if chosen == "histogram":
        votes = vote_matrix(array)
        if n_classes is not None and votes.shape[1] != n_classes:
            raise InvalidArgument(f"Expected {n_classes} classes, {path.name!r} has {votes.shape}.")
        return votes
    if n_classes is None:
        raise InvalidArgument(
            "Expected the number of classes beside predictions (--classes); reading it off private "
            "answers could itself tell something."
        )
    return count_votes(_whole(array, path), at_least(2, n_classes=n_classes))


def _read(path: Path, format: str | None) -> tuple[NDArray[Any], str | None]:
    readers: dict[str, Callable[[], tuple[NDArray[Any], str | None]]] = {
        ".npz": lambda: _read_npz(path, format),
        ".npy": lambda: (read_npy(path), None),
        ".csv": lambda: (_read_csv(path), None),
    }
    existing_file(path)
    if path.suffix not in readers:
        raise InvalidArgument(f"Expected {path.name!r} to end in .npy, .npz or .csv.")
    return read_file(path, f"{path.suffix} file of numbers", readers[path.suffix])


def _read_npz(path: Path, format: str | None) -> tuple[NDArray[Any], str]:
    with open_npz(path) as archive:
        known = [key for key in archive.files if key in _KEYS]
        wanted = [key for key in known if format in (None, _KEYS[key])] or known
        if len(wanted) != 1:
            raise InvalidArgument(
                f"Expected {path.name!r} to hold one array named 'votes' or 'predictions', "
                f"found {sorted(archive.files)}; choose with --format."
            )
        return archive[wanted[0]], _KEYS[wanted[0]]


def _read_csv(path: Path) -> NDArray[np.float64]:
    """Read rows of numbers; a first line that is not numeric is a header."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    try:
        first = [[float(cell) for cell in row] for row in rows[:1]]
    except ValueError:
        first = []
    return np.array([*first, *([float(cell) for cell in row] for row in rows[1:])])


def _whole(array: NDArray[Any], path: Path) -> NDArray[Any]:
    if array.dtype.kind in "iu":
        return array
    numbers = array.astype(np.float64) if array.dtype.kind == "f" else None
    whole = numbers is not None and bool((numbers == np.floor(numbers)).all())
    if numbers is None or not whole or (np.abs(numbers) > _LARGEST).any():  # inf is its own floor
        raise InvalidArgument(f"Expected {path.name!r} to hold class indices 0, 1, 2, ...")
    return numbers.astype(np.int64)


def read_rows(path: str | Path, *, n_rows: int) -> Integers:
    """Read row numbers of queries (public) from `.npy`, or `.csv`/`.txt`, one a line.

    Parameters
    ----------
    path : path
    n_rows : int, number of rows to choose from

    Returns
    -------
    array of int64
        Each in 0 .. n_rows - 1, each once: a repeated query would be paid for again.
    """
    path = existing_file(path)
    try:
        read = read_npy if path.suffix == ".npy" else _read_csv
        raw = read_file(path, "file of numbers", lambda: read(path))
        rows = _whole(raw.reshape(-1), path)
    except InvalidArgument:
        raise InvalidArgument(f"Expected {path.name!r} to hold row numbers, one a line.") from None
    if not rows.size or rows.min() < 0 or rows.max() >= n_rows:
        raise InvalidArgument(f"Expected indices in 0 .. {n_rows - 1}, at least one.")
    if np.unique(rows).size != rows.size:
        raise InvalidArgument("Expected each index once; a repeated query is paid for again.")
    return rows.astype(np.int64)


def demo_votes(
    n_teachers: int = 250, n_queries: int = 200, n_classes: int = 10, *, seed: int = 2018
) -> Integers:
    """Generate votes like those of teachers who agree on most queries and split on some.

    Parameters
    ----------
    n_teachers, n_queries, n_classes : int
    seed : int

    Returns
    -------
    array of int, of shape (queries, classes)

    Examples
    --------
    >>> demo_votes().shape, set(demo_votes().sum(axis=1).tolist())
    ((200, 10), {250})
    """
    generator = np.random.default_rng(seed)
    agreement = generator.beta(6, 1.2, size=n_queries)
    truth = generator.integers(n_classes, size=n_queries)
    rest = generator.dirichlet(np.full(n_classes, 0.3), size=n_queries)
    shares = (1 - agreement)[:, None] * rest
    shares[np.arange(n_queries), truth] += agreement
    return generator.multinomial(n_teachers, shares / shares.sum(axis=1, keepdims=True))
