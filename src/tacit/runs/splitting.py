"""One source in three: private records, public inputs, and rows that are held out.

A set that ships with the package is shuffled and cut by numbers: nobody is protected there. Of a
file, the hash of a row, or of its person, alone decides on which side it falls. One row more or
less then moves nobody else, and the number of rows, which is secret, decides nothing. The key does
not depend on the seed: a second run with another one must not publish what the first protects.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.datasets import Dataset
from tacit.errors import InvalidArgument
from tacit.runs.config import DataConfig, RunConfig
from tacit.teachers import place_of, record_ids, shard_key

_KEY = shard_key(0)
_FEWEST = 2
"""Rows that a private or a public side has at least."""


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of a data set by what may be done with them."""

    private: NDArray[np.int64]
    public: NDArray[np.int64]
    held_out: NDArray[np.int64]


def split_rows(config: RunConfig, n_rows: int) -> Split:
    """Shuffle with the seed and cut: private, public, held out."""
    private, public = int(config.data.private), int(config.data.public)
    if private + public >= n_rows:
        raise InvalidArgument(
            f"Expected private={private} and public={public} to leave rows of "
            f"{config.data.source!r} to hold out; there are too few. Lower one of them."
        )
    order = np.random.default_rng(config.seed).permutation(n_rows)
    return Split(order[:private], order[private : private + public], order[private + public :])


def split_file(where: DataConfig, data: Dataset) -> Split:
    """Let each row's own hash, or its person's, decide: private, public, or held out.

    The inputs are hashed without their label, so that equal rows are on one side.
    """
    place = place_of(record_ids(data.X) if data.groups is None else data.groups, _KEY)
    end = where.private + where.public
    private, outside = place < where.private, place >= where.private
    public = outside & (place < end)
    split = Split(*(np.flatnonzero(side) for side in (private, public, outside & ~public)))
    if split.private.size < _FEWEST or (where.public and split.public.size < _FEWEST):
        raise InvalidArgument(  # without numbers: how many rows fall on a side is secret
            f"Expected private={where.private} and public={where.public} to put rows of "
            f"{where.source!r} on either side; there are too few rows for such shares."
        )
    return split


def protected_name(where: DataConfig) -> str:
    """Return what a ledger calls the records that it protects."""
    name = where.name or where.source
    return f"about {100 * where.private:g} % of {name}, by keyed hash" if where.by_share else name


def declared_public(where: DataConfig) -> tuple[str, ...]:
    """Return what a ledger must confess of a file that was split; it depends on no row."""
    if not where.by_share:
        return ()
    return (
        f"the other rows of {where.name or where.source} were declared public: the student may "
        "hold them, and metrics tell of them; no cost covers them",
    )
