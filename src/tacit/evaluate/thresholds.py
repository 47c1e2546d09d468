"""Thresholds for a rare outcome, from public scores and released or declared shares: free.

*prevalence*: as many inputs are predicted positive as there are positives. *balanced*: scores are
shifted, on the logit scale, until their mean is the share; positive is what is then likelier than
on average, as balanced accuracy wants.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, number_array, probability, refuse
from tacit.evaluate.bins import logit

RULES = ("prevalence", "balanced")
FAR = 4.0
"""A released count within so many deviations of 0 may be noise alone."""


def threshold_by(rule: str, scores: ArrayLike, share: float) -> float:
    """Return the threshold of a rule.

    Parameters
    ----------
    rule : str, "prevalence" or "balanced"
    scores : array of shape (inputs,), the model's probabilities of public inputs
    share : float, of positives, as released or declared

    Returns
    -------
    float, between 0 and 1; public

    Examples
    --------
    >>> round(threshold_by("prevalence", np.linspace(0.001, 0.2, 1000), 0.1), 2)
    0.18
    """
    public, positives = number_array(scores=scores), probability(share=share)
    if rule == "prevalence":
        return float(np.quantile(public, 1 - positives))
    if rule != "balanced":
        raise refuse("threshold", rule, f"a number, or one of {', '.join(RULES)}")
    moved = logit(positives) - _shift(logit(public), positives)
    return float(1 / (1 + np.exp(-moved)))


def _shift(logits: Floats, share: float) -> float:
    """Return what to add to logits so that the mean probability is the share, by bisection."""
    low, high = -40.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        mean = float((1 / (1 + np.exp(-np.clip(logits + middle, -700, 700)))).mean())
        low, high = (middle, high) if mean < share else (low, middle)
    return (low + high) / 2


def released_shares(model: Any) -> tuple[Floats, list[int]] | None:
    """Return a model's released class shares (None without), and the classes lost in noise.

    Parameters
    ----------
    model : estimator, fitted; one whose first release counts the classes, such as moments and ridge

    Returns
    -------
    tuple of array and list of int, or None
        Shares, none of them 0; classes whose count is within 4 deviations of its noise from 0.
    """
    classes = getattr(model, "classes_", None)
    releases = getattr(model, "releases_", None)
    if classes is None or not releases or getattr(releases[0], "values", None) is None:
        return None
    mechanism, values = releases[0].mechanism, np.asarray(releases[0].values)
    if mechanism.name != "noisy-sum" or values.shape != (1, len(classes)):
        return None
    counts = np.maximum(values[0], mechanism.sigma)
    unclear = np.flatnonzero(values[0] < FAR * mechanism.sigma)
    return counts / counts.sum(), unclear.tolist()
