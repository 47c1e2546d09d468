"""Optimisers of a flat parameter vector. They see noisy sums alone: all this is post-processing.

Gradients come in units of the clipping radius, so that neither the learning rate nor Adam's epsilon
depends on it (docs/theory/direct.md#thresholds).
"""

from __future__ import annotations

import numpy as np

from tacit._checks import Floats, one_of, positive, probability

OPTIMISERS = ("adam", "sgd")
_TINY = 1e-8


class Adam:
    """Adam (Kingma and Ba 2015) in float64.

    >>> parameters = np.array([1.0, -1.0])
    >>> Adam(2, 0.1).step(parameters, np.array([3.0, -5.0]))
    >>> parameters.round(6).tolist()
    [0.9, -0.9]
    """

    def __init__(
        self, dimension: int, rate: float, *, first: float = 0.9, second: float = 0.999
    ) -> None:
        self.rate = positive(rate=rate)
        self._first, self._second = probability(first=first), probability(second=second)
        self._mean, self._square, self._count = np.zeros(dimension), np.zeros(dimension), 0

    def step(self, parameters: Floats, gradient: Floats) -> None:
        """Take one step down."""
        self._count += 1
        self._mean += (1 - self._first) * (gradient - self._mean)
        self._square += (1 - self._second) * (gradient**2 - self._square)
        spread = np.sqrt(self._square / (1 - self._second**self._count))
        parameters -= self.rate / (1 - self._first**self._count) * self._mean / (spread + _TINY)


class SGD:
    """Plain gradient descent.

    >>> parameters = np.array([1.0])
    >>> SGD(0.5).step(parameters, np.array([1.0]))
    >>> parameters.tolist()
    [0.5]
    """

    def __init__(self, rate: float) -> None:
        self.rate = positive(rate=rate)

    def step(self, parameters: Floats, gradient: Floats) -> None:
        """Take one step down."""
        parameters -= self.rate * gradient


def make_optimiser(name: str, dimension: int, rate: float) -> Adam | SGD:
    """Return the optimiser of that name."""
    one_of(*OPTIMISERS, optimizer=name)
    return Adam(dimension, rate) if name == "adam" else SGD(rate)
