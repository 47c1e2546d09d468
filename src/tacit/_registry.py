"""What can be named: mechanisms, methods, students, teachers, data sets, and where each stands.

Each is added by its own file and one line here; the name is what ledgers, run.toml and the command
line say. Nothing is imported until it is used. A name is never given to anything else: old ledgers
and configurations hold it.
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
    "shared-votes": "tacit.mechanisms.shared:SharedVotes",
    "shared-codes": "tacit.mechanisms.shared:SharedCodes",
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
    "gd": "tacit.methods.gd:METHOD",
    "segmentation": "tacit.masks:METHOD",
    "auto": "tacit.methods.auto:METHOD",
}
"""Methods by the name that run.toml and the command line say."""

STUDENTS = {
    "label-spreading": "tacit.students.graph:LabelSpreadingStudent",
    "nearest": "tacit.students.graph:NearestStudent",
    "combined": "tacit.students.combined:CombinedStudent",
    "linear": "tacit.students.estimators:LinearStudent",
    "kernel": "tacit.students.estimators:KernelStudent",
    "logistic": "tacit.students.estimators:SupervisedStudent",
    "cnn": "tacit.students.network_training:CNNStudent",
    "vat": "tacit.students.network_training:VATStudent",
}
"""Students of classes, by the word for `student` in run.toml; `for_data` makes them."""

TEACHERS = {
    "logistic": "tacit.teachers.families:EstimatorTeachers",
    "balanced-logistic": "tacit.teachers.families:BalancedLogistic",
    "kernel-ridge": "tacit.teachers.families:KernelRidgeTeachers",
}
"""Families of teachers, by the word for `teacher` in run.toml; `for_data` makes them."""

DATASETS = {
    "digits": "tacit.datasets.named:load_digits",
    "affairs": "tacit.datasets.named:load_affairs",
    "mnist": "tacit.datasets.arrays:load_idx",
    "adult": "tacit.datasets.named:load_adult",
    "npz": "tacit.datasets.arrays:load_npz",
    "csv": "tacit.datasets.table:load_table",
    "parquet": "tacit.datasets.table:load_table",
    "texts": "tacit.datasets.texts:load_texts",
}
"""Loaders by the word before the colon; one that can do without a path stands for a whole set."""


def method_of(name: str) -> Any:
    """Return a method (`tacit.methods.method.Method`); `KeyError` for an unknown name."""
    return found(METHODS[name])


def mechanism_class(name: str) -> Any:
    """Return the class of a mechanism; `KeyError` for a name that is not registered.

    >>> mechanism_class("gnmax")(sigma=40)
    GNMax(sigma=40.0, votes_per_unit=1)
    """
    return found(MECHANISMS[name])


def found(place: str) -> Any:
    """Return what stands at a place, "module:name".

    >>> found(METHODS["knn"]).name
    'knn'
    """
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
