"""The built-in digits: no file, and the same ones that scikit-learn ships."""

from __future__ import annotations

import numpy as np
from sklearn import datasets

from tacit.datasets import load_digits


def test_they_are_scikit_learns_scaled_to_one():
    ours, theirs = load_digits(), datasets.load_digits()
    np.testing.assert_allclose(ours.X * 16, theirs.data)
    np.testing.assert_array_equal(ours.y, theirs.target)
    assert (ours.X.min(), ours.X.max(), ours.X.dtype) == (0, 1, np.float32)
    assert (ours.image_shape, ours.classes, ours.n_train) == ((8, 8), tuple(range(10)), None)
