"""Mechanisms and runs by their names: where each stands. Nothing is imported until one is used.

A mechanism is added by its own file and one line here; the name is what its class says, and what
ledgers and the command line say. A name is never given to anything else: old ledgers hold it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

MECHANISMS = {
    "gnmax": "tacit.mechanisms.noisy_max:GNMax",
    "lnmax": "tacit.mechanisms.noisy_max:LNMax",
    "noisy-votes": "tacit.mechanisms.noisy_max:NoisyVotes",
    "threshold-check": "tacit.mechanisms.selective:ThresholdCheck",
    "confident-gnmax": "tacit.mechanisms.selective:ConfidentGNMax",
    "interactive-gnmax": "tacit.mechanisms.selective:InteractiveGNMax",
    "sanitise": "tacit.mechanisms.sanitise:Sanitise",
    "sampled-max": "tacit.mechanisms.sampled_votes:SampledMax",
    "sampled-votes": "tacit.mechanisms.sampled_votes:SampledVotes",
    "screening-check": "tacit.mechanisms.screening:ScreeningCheck",
    "noisy-screening": "tacit.mechanisms.screening:NoisyScreening",
    "sampled-labels": "tacit.mechanisms.sampled_sums:SampledLabels",
    "sampled-mean": "tacit.mechanisms.sampled_sums:SampledMean",
    "sampled-median": "tacit.mechanisms.sampled_median:SampledMedian",
    "unit-mean": "tacit.mechanisms.gaussian_mean:UnitMean",
    "gaussian-mean": "tacit.mechanisms.gaussian_mean:GaussianMean",
    "distributed-gaussian-mean": "tacit.mechanisms.distributed:DistributedGaussianMean",
    "noisy-sum": "tacit.mechanisms.summary:NoisySum",
    "noisy-second-moment": "tacit.mechanisms.second_moment:NoisySecondMoment",
    "noisy-steps": "tacit.mechanisms.noisy_steps:NoisySteps",
}

RUNS = {"segmentation": "tacit.masks:run_masks"}
"""Methods whose run stands on a floor above the others': (configuration, folder) to a result."""


def own_run(method: str) -> Callable[[Any, Any], Any]:
    """Return the function that carries out a run of a method of `RUNS`."""
    run: Callable[[Any, Any], Any] = _found(RUNS[method])
    return run


def mechanism_class(name: str) -> Any:
    """Return the class of a mechanism; `KeyError` for a name that is not registered.

    >>> mechanism_class("gnmax")(sigma=40)
    GNMax(sigma=40.0)
    """
    return _found(MECHANISMS[name])


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
