"""Thresholds of layers from one noisy histogram of gradient norms.

Before training, under the public first weights, every unit puts one count a layer into public bins
of the length of its gradient: a vector of norm sqrt(M) for M layers, or 1 once divided by it. Noise
goes on every bin, also the empty ones. T_k is the upper edge of the fullest noisy bin. The release
is priced together with the run.
Proof: docs/theory/direct.md#thresholds.
"""

from __future__ import annotations

import math

import numpy as np

from tacit._checks import Floats, Integers, positive
from tacit.mechanisms import Contributions, NoisySum, Plan
from tacit.noisy_training.examples import PrivateExamples
from tacit.noisy_training.layer_parts import LayerParts

EDGES: Floats = np.geomspace(1e-6, 1e2, 33)
"""Upper edges of public bins; whatever is longer counts in the last one."""
EDGES.setflags(write=False)


def histogram_plan(layers: int, noise: float) -> Plan:
    """Return the plan of a histogram with `noise` on every count: mu = sqrt(layers)/noise.

    >>> plan = histogram_plan(6, 20.0)
    >>> round(plan.epsilon(1e-5), 3)
    0.425
    """
    columns = layers * EDGES.size
    return Plan(NoisySum(positive(noise=noise) / math.sqrt(layers), 1, columns), 1)


def histogram_of(parts: LayerParts, examples: PrivateExamples, layers: int) -> Contributions:
    """Return what the records say to the histogram: one count a layer, over sqrt(layers). Secret.

    A unit of several records says their mean.
    """
    shares = np.ones(len(examples.inputs))
    if examples.owners is not None:
        _, owner, count = np.unique(examples.owners, return_inverse=True, return_counts=True)
        shares = 1.0 / count[owner]

    def counts(rows: Integers) -> Floats:
        places = np.searchsorted(EDGES, parts.norms(rows)).clip(0, EDGES.size - 1)
        said = np.zeros((rows.size, layers, EDGES.size))
        np.put_along_axis(said, places[:, :, None], 1.0 / math.sqrt(layers), axis=2)
        return np.asarray(said.reshape(rows.size, -1) * shares[rows, None])

    return Contributions(
        len(examples.inputs), lambda rows: np.ones((rows.size, 1)), counts, examples.owners
    )


def thresholds_from(released: Floats, layers: int) -> tuple[float, ...]:
    """Return T_k: the upper edge of each layer's fullest noisy bin.

    >>> counts = np.zeros((1, 2 * EDGES.size))
    >>> counts[0, [3, EDGES.size + 8]] = 9.0
    >>> [round(value, 6) for value in thresholds_from(counts, 2)]
    [6e-06, 0.0001]
    """
    fullest = released.reshape(layers, EDGES.size).argmax(axis=1)
    return tuple(float(EDGES[place]) for place in fullest)
