"""Mechanisms and methods by their names: where each stands. Nothing is imported until it is used.

A mechanism, or a method, is added by its own file and one line here; the name is what its class
says, and what ledgers and the command line say. A name is never given to anything else: old ledgers
hold it.
"""

from __future__ import annotations

import importlib
from typing import Any

MECHANISMS = {
    "gnmax": "tacit.mechanisms.votes:GNMax",
    "lnmax": "tacit.mechanisms.votes:LNMax",
    "noisy-votes": "tacit.mechanisms.votes:NoisyVotes",
    "threshold-check": "tacit.mechanisms.selective:ThresholdCheck",
    "confident-gnmax": "tacit.mechanisms.selective:ConfidentGNMax",
    "interactive-gnmax": "tacit.mechanisms.selective:InteractiveGNMax",
    "sanitise": "tacit.mechanisms.sanitise:Sanitise",
    "sampled-max": "tacit.mechanisms.neighbours:SampledMax",
    "sampled-votes": "tacit.mechanisms.neighbours:SampledVotes",
    "screening-check": "tacit.mechanisms.neighbours:ScreeningCheck",
    "noisy-screening": "tacit.mechanisms.neighbours:NoisyScreening",
    "sampled-labels": "tacit.mechanisms.neighbour_values:SampledLabels",
    "sampled-mean": "tacit.mechanisms.neighbour_values:SampledMean",
    "sampled-median": "tacit.mechanisms.neighbour_values:SampledMedian",
    "unit-mean": "tacit.mechanisms.codes:UnitMean",
    "gaussian-mean": "tacit.mechanisms.codes:GaussianMean",
    "distributed-gaussian-mean": "tacit.mechanisms.codes:DistributedGaussianMean",
    "noisy-sum": "tacit.mechanisms.sums:NoisySum",
    "noisy-second-moment": "tacit.mechanisms.sums:NoisySecondMoment",
    "score-histogram": "tacit.mechanisms.histogram:ScoreHistogram",
    "noisy-steps": "tacit.mechanisms.noisy_steps:NoisySteps",
}

METHODS = {
    "pate": "tacit.methods.pate:METHOD",
    "knn": "tacit.methods.knn:METHOD",
    "prototype": "tacit.methods.prototypes:METHOD",
    "moments": "tacit.methods.moments:METHOD",
    "ridge": "tacit.methods.ridge:METHOD",
    "mac": "tacit.methods.mac:METHOD",
    "dpsgd": "tacit.methods.dpsgd:METHOD",
    "segmentation": "tacit.masks:METHOD",
}
"""Methods by the name that run.toml and the command line say."""


def method_of(name: str) -> Any:
    """Return a method (`tacit.methods.method.Method`); `KeyError` for an unknown name."""
    return _found(METHODS[name])


def mechanism_class(name: str) -> Any:
    """Return the class of a mechanism; `KeyError` for a name that is not registered.

    >>> mechanism_class("gnmax")(sigma=40)
    GNMax(sigma=40.0, votes_per_unit=1)
    """
    return _found(MECHANISMS[name])


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
