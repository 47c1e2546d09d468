"""Work on private rows that tells nobody of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def quiet() -> Iterator[None]:
    """Let no warning tell of private numbers, neither NumPy's nor anybody's.

    >>> with quiet():
    ...     warnings.warn("a cell is odd", stacklevel=1)
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
