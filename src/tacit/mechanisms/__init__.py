"""How secret answers become a public release; each mechanism is frozen data with its own cost."""

from typing import TYPE_CHECKING, Any

from tacit._registry import MECHANISMS, mechanism_class
from tacit.mechanisms.base import (
    NO_ANSWER,
    ClassMechanism,
    Mechanism,
    Release,
    SampledGaussian,
    SelectiveMechanism,
    assumptions,
)
from tacit.mechanisms.codes import TeacherCodes
from tacit.mechanisms.distributed import DistributedGaussianMean
from tacit.mechanisms.gaussian_mean import GaussianMean, UnitMean
from tacit.mechanisms.neighbours import NeighbourAnswers
from tacit.mechanisms.noisy_max import GNMax, LNMax, NoisyVotes
from tacit.mechanisms.noisy_steps import NoisySteps, PrivateSteps
from tacit.mechanisms.plan import Plan
from tacit.mechanisms.sampled_median import SampledMedian
from tacit.mechanisms.sampled_sums import SampledLabels, SampledMean
from tacit.mechanisms.sampled_votes import SampledMax, SampledVotes
from tacit.mechanisms.sanitise import Sanitise, SecretCost, secret_cost_of
from tacit.mechanisms.screening import NoisyScreening, ScreeningCheck
from tacit.mechanisms.second_moment import NoisySecondMoment
from tacit.mechanisms.selective import ConfidentGNMax, InteractiveGNMax, ThresholdCheck
from tacit.mechanisms.soft_votes import SoftVotes, sum_soft_votes
from tacit.mechanisms.summary import Contributions, NoisySum
from tacit.mechanisms.votes import VoteMechanism, VoteReading, count_votes

__all__ = [
    "NO_ANSWER",
    "ClassMechanism",
    "ConfidentGNMax",
    "Contributions",
    "DistributedGaussianMean",
    "GNMax",
    "GaussianMean",
    "InteractiveGNMax",
    "LNMax",
    "Mechanism",
    "NeighbourAnswers",
    "NoisyScreening",
    "NoisySecondMoment",
    "NoisySteps",
    "NoisySum",
    "NoisyVotes",
    "Plan",
    "PrivateSteps",
    "Release",
    "SampledGaussian",
    "SampledLabels",
    "SampledMax",
    "SampledMean",
    "SampledMedian",
    "SampledVotes",
    "Sanitise",
    "ScreeningCheck",
    "SecretCost",
    "SelectiveMechanism",
    "SoftVotes",
    "TeacherCodes",
    "ThresholdCheck",
    "UnitMean",
    "VoteMechanism",
    "VoteReading",
    "assumptions",
    "count_votes",
    "secret_cost_of",
    "sum_soft_votes",
]

if not TYPE_CHECKING:  # a checker is to know each name

    def __getattr__(name: str) -> Any:
        for registered, path in MECHANISMS.items():
            if path.endswith(f":{name}"):
                return mechanism_class(registered)
        raise AttributeError(f"module 'tacit.mechanisms' has no attribute {name!r}")
