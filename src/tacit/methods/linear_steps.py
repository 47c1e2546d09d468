"""One rule for softmax regressions that learn in noisy steps, of all records or of samples.

Everything follows from the number d of features, scaled to rows of length sqrt d, and n mu with a
declared n. A clip of a quarter of that length needs less noise and bounds wrong rows
(`python -m benchmarks.linear_choices`, on training parts of Fashion-MNIST and MNIST).
"""

from __future__ import annotations

import math
from typing import Any

from tacit.methods.noisy_training import Training

_WEAK, _STEPS_OF_WEAK, _MOST_STEPS = 2000.0, 20, 200
_REACH = 50.0
"""By how much a step moves the scores of rows that all say the same, without momentum."""
_SHARE = 0.25
"""Which part of a row's length the clip is."""
LINEAR = Training(clipping="flat", split="minimal", optimizer="momentum", decay=0.02, engine="auto")
"""What does not depend on data at all."""


def steps_borne(known: float) -> int:
    """Return the number of steps for a strength n mu: 20 at 2,000, growing with its root, 2 to 200.

    n is declared. Each step adds noise to all; chosen on the training part of Fashion-MNIST.

    >>> steps_borne(2000.0), steps_borne(32_000.0)
    (20, 80)
    """
    borne = round(_STEPS_OF_WEAK * math.sqrt(known / _WEAK))
    return max(2, min(borne, _MOST_STEPS))


def clip_and_rate(module: Any) -> tuple[float, float]:
    """Return clip and learning rate for a chain that starts with a linear layer of d features.

    sqrt(d)/4 and, in units of that clip, 50/sqrt(d). Public.
    """
    root = math.sqrt(module[0].in_features)
    return root * _SHARE, _REACH / root
