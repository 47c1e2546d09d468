"""Ready-made public views: the features that make good teachers of a few hundred digits."""

from __future__ import annotations

from typing import Any

from tacit.features._shapes import Shape, shape_pair
from tacit.features.deskew import Deskew
from tacit.features.hog import HOG

_CANVAS_SIDE = 28  # the grid of 8 x 8 cells needs about this many pixels, whatever the image has


def digit_features(image_shape: Shape = (28, 28)) -> Any:
    """Make the pipeline Deskew, HOG: 768 features of unit length for images of written characters.

    Images smaller than 28 x 28 are drawn on a canvas of that size. All choices (12 directions,
    8 x 8 cells, the sizes) were made on USPS digits, and none is fitted to the data at hand. Made
    for `tacit.teachers.KernelRidgeTeachers`; `benchmarks.features` measures both.

    >>> import numpy as np
    >>> digit_features((8, 8)).fit_transform(np.eye(8)[None]).shape
    (1, 768)
    """
    from sklearn.pipeline import make_pipeline

    height, width = shape_pair(image_shape=image_shape)
    canvas = (max(height, _CANVAS_SIDE), max(width, _CANVAS_SIDE))
    return make_pipeline(Deskew(image_shape, canvas=canvas), HOG(canvas))
