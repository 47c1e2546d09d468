"""Public masks to fit codecs on: ellipses and ellipsoids."""

from __future__ import annotations

import numpy as np
import pytest
from blobs import blobs


@pytest.fixture(scope="session")
def flat() -> np.ndarray:
    return blobs(120, (16, 16), seed=0)


@pytest.fixture(scope="session")
def deep() -> np.ndarray:
    return blobs(40, (9, 10, 8), seed=1)
