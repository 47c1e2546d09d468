"""Public inputs and releases to a model: queries, posteriors over labels, and students.

Public inputs and releases only: nothing private ever enters this floor, so whatever a student does
is post-processing of what a ledger has already paid for. The names load on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tacit._progress import training_bar as training_bar

_HOME = {
    "CNNStudent": "cnn",
    "KernelStudent": "linear",
    "LabelSpreadingStudent": "label_spreading",
    "LinearStudent": "linear",
    "NearestStudent": "nearest",
    "NetworkStudent": "trained",
    "ReconstructionStudent": "trained",
    "Student": "base",
    "SupervisedStudent": "supervised",
    "VATStudent": "vat",
    "ValueStudent": "values",
    "answer_weights": "posterior",
    "choose_queries": "queries",
    "label_posterior": "posterior",
    "load_student": "saving",
    "saved_extra": "saving",
    # For packages above, whose students are of another kind; not in `__all__`.
    "damaged": "container",
    "read_container": "container",
    "seed_of": "inputs",
    "seeded": "networks",
    "set_weights": "networks",
    "weights_of": "networks",
    "write_container": "container",
}

__all__ = [
    "CNNStudent",
    "KernelStudent",
    "LabelSpreadingStudent",
    "LinearStudent",
    "NearestStudent",
    "NetworkStudent",
    "ReconstructionStudent",
    "Student",
    "SupervisedStudent",
    "VATStudent",
    "ValueStudent",
    "answer_weights",
    "choose_queries",
    "label_posterior",
    "load_student",
    "saved_extra",
]

if TYPE_CHECKING:
    from tacit.students.base import Student
    from tacit.students.cnn import CNNStudent
    from tacit.students.container import damaged as damaged
    from tacit.students.container import read_container as read_container
    from tacit.students.container import write_container as write_container
    from tacit.students.inputs import seed_of as seed_of
    from tacit.students.label_spreading import LabelSpreadingStudent
    from tacit.students.linear import KernelStudent, LinearStudent
    from tacit.students.nearest import NearestStudent
    from tacit.students.networks import seeded as seeded
    from tacit.students.networks import set_weights as set_weights
    from tacit.students.networks import weights_of as weights_of
    from tacit.students.posterior import answer_weights, label_posterior
    from tacit.students.queries import choose_queries
    from tacit.students.saving import load_student, saved_extra
    from tacit.students.supervised import SupervisedStudent
    from tacit.students.trained import NetworkStudent, ReconstructionStudent
    from tacit.students.values import ValueStudent
    from tacit.students.vat import VATStudent


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tacit.students' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tacit.students.{_HOME[name]}"), name)
