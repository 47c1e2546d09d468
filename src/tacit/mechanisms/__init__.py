"""How secret answers become a public release; each mechanism is frozen data with its own cost.

`GaussianMean`, for bounded vectors, will stand beside these.
"""

from tacit.mechanisms.base import (
    NO_ANSWER,
    Mechanism,
    Release,
    SelectiveMechanism,
    assumptions,
    count_votes,
)
from tacit.mechanisms.noisy_max import GNMax, LNMax, NoisyVotes
from tacit.mechanisms.plan import Plan
from tacit.mechanisms.sanitise import Sanitise, SecretCost, secret_cost_of
from tacit.mechanisms.selective import ConfidentGNMax, InteractiveGNMax, ThresholdCheck
from tacit.mechanisms.soft_votes import SoftVotes, sum_soft_votes

__all__ = [
    "NO_ANSWER",
    "ConfidentGNMax",
    "GNMax",
    "InteractiveGNMax",
    "LNMax",
    "Mechanism",
    "NoisyVotes",
    "Plan",
    "Release",
    "Sanitise",
    "SecretCost",
    "SelectiveMechanism",
    "SoftVotes",
    "ThresholdCheck",
    "assumptions",
    "count_votes",
    "secret_cost_of",
    "sum_soft_votes",
]
