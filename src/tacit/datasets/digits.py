"""The 1,797 hand-written digits, 8 x 8, that ship inside scikit-learn: no download, no file."""

from __future__ import annotations

import numpy as np

from tacit.datasets.dataset import Dataset
from tacit.datasets.idx import pixel_names

_BRIGHTEST = 16  # counts of black pixels in 4 x 4 squares of a 32 x 32 scan


def load_digits() -> Dataset:
    """Load scikit-learn's digits, as float32 in [0, 1]; the set has no test part of its own.

    Source: Alpaydin and Kaynak (1998), Optical Recognition of Handwritten Digits, UCI; this is
    that set's test part.

    >>> load_digits(), len(load_digits())
    (Dataset(name='digits', features=64, classes=10), 1797)
    """
    from sklearn.datasets import load_digits as load

    pixels, labels = load(return_X_y=True)
    return Dataset(
        (pixels / _BRIGHTEST).astype(np.float32),
        labels.astype(np.int64),
        pixel_names(8, 8),
        tuple(range(10)),
        "digits",
        (8, 8),
    )
