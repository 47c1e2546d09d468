"""One rule for softmax regressions that learn in noisy steps, of all records or of samples of them.

Everything follows from public numbers: how many features a row has, and the strength n mu with a
declared n. Features that `PublicFrame` has centred and scaled have rows of length sqrt d. A clip
of a quarter of that lets every row whose label is likelier than about 0.8 say what it has to say,
and all others equally much: less noise than a larger one needs, and no row that is simply wrong has
the last word. It was made on the training parts of Fashion-MNIST and MNIST
(`python -m benchmarks.linear_choices`).
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
    """Return how many steps a strength n mu bears: 20 at 2,000, growing with its root.

    Parameters
    ----------
    known : float
        n mu, from a declared number of records.

    Returns
    -------
    int
        From 2 to 200.

    Notes
    -----
    Each step more adds noise to all of them, and fits what fewer leave; chosen on the training part
    of Fashion-MNIST. Samples of a rate q leave about the noise of all records in as many steps, at
    q times the cost: noise q sqrt(T)/mu on a sum of q n records.

    Examples
    --------
    >>> steps_borne(2000.0), steps_borne(32_000.0)
    (20, 80)
    """
    borne = round(_STEPS_OF_WEAK * math.sqrt(known / _WEAK))
    return max(2, min(borne, _MOST_STEPS))


def clip_and_rate(module: Any) -> tuple[float, float]:
    """Return clip and learning rate for one linear layer in its first state.

    Parameters
    ----------
    module : torch module
        A chain that starts with the layer.

    Returns
    -------
    tuple of float
        sqrt(d)/4 and, in units of that clip, 50/sqrt(d) for d features. Public.
    """
    root = math.sqrt(module[0].in_features)
    return root * _SHARE, _REACH / root
