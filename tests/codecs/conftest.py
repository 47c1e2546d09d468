"""Public masks to fit codecs on: ellipses and ellipsoids, and one thread for torch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from blobs import blobs


@pytest.fixture(autouse=True, scope="module")
def _one_torch_thread() -> Iterator[None]:
    """Networks this small gain nothing from threads, and lose much on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def flat() -> np.ndarray:
    return blobs(120, (16, 16), seed=0)


@pytest.fixture(scope="session")
def deep() -> np.ndarray:
    return blobs(40, (9, 10, 8), seed=1)
