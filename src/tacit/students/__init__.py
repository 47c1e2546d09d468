"""Public inputs and releases to a model: queries, posteriors over labels, and students.

Nothing private enters this package: a student is post-processing of releases that a ledger has
paid for. Names that are not in `__all__` are for packages above.
"""

from tacit.students.base import Student
from tacit.students.base import seed_of as seed_of
from tacit.students.combined import CombinedStudent
from tacit.students.estimators import (
    KernelStudent,
    LinearStudent,
    SupervisedStudent,
    ValueStudent,
)
from tacit.students.estimators import kernel_width as kernel_width
from tacit.students.graph import NEAREST_SHARE as NEAREST_SHARE
from tacit.students.graph import LabelSpreadingStudent, NearestStudent
from tacit.students.neighbour_search import nearest as nearest
from tacit.students.network_training import CNNStudent, VATStudent
from tacit.students.network_training import image_planes as image_planes
from tacit.students.network_training import moved as moved
from tacit.students.networks import NetworkStudent, ReconstructionStudent
from tacit.students.networks import build_layers as build_layers
from tacit.students.networks import describe_layers as describe_layers
from tacit.students.networks import perceptron as perceptron
from tacit.students.networks import seeded as seeded
from tacit.students.networks import set_weights as set_weights
from tacit.students.networks import weights_of as weights_of
from tacit.students.posterior import answer_weights, label_posterior
from tacit.students.queries import choose_queries
from tacit.students.saving import damaged as damaged
from tacit.students.saving import load_student, saved_extra
from tacit.students.saving import read_container as read_container
from tacit.students.saving import write_container as write_container
from tacit.students.score_map import SCORE_BINS as SCORE_BINS
from tacit.students.score_map import ScoreCheck, ScoreMap, shifted_to
from tacit.students.score_map import outcomes_of as outcomes_of
from tacit.students.score_map import scores_of as scores_of
from tacit.students.signal import Signal as Signal
from tacit.students.signal import signal_of as signal_of

__all__ = [
    "CNNStudent",
    "CombinedStudent",
    "KernelStudent",
    "LabelSpreadingStudent",
    "LinearStudent",
    "NearestStudent",
    "NetworkStudent",
    "ReconstructionStudent",
    "ScoreCheck",
    "ScoreMap",
    "Student",
    "SupervisedStudent",
    "VATStudent",
    "ValueStudent",
    "answer_weights",
    "choose_queries",
    "label_posterior",
    "load_student",
    "saved_extra",
    "shifted_to",
]
