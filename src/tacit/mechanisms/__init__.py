"""How secret answers become a public release; each mechanism is frozen data with its own cost."""

from typing import TYPE_CHECKING, Any

from tacit._registry import MECHANISMS, mechanism_class
from tacit.mechanisms.audit_cases import Look, Suspicion, suspicions
from tacit.mechanisms.base import (
    NO_ANSWER,
    Mechanism,
    Plan,
    Release,
    SelectiveMechanism,
    assumptions,
    price_of_list,
)
from tacit.mechanisms.codes import (
    DistributedGaussianMean,
    GaussianMean,
    SummedSteps,
    TeacherCodes,
    UnitMean,
)
from tacit.mechanisms.histogram import NOWHERE as NOWHERE
from tacit.mechanisms.histogram import ScoredRecords, ScoreHistogram, score_bins
from tacit.mechanisms.neighbour_values import SampledLabels, SampledMean, SampledMedian
from tacit.mechanisms.neighbours import (
    NeighbourAnswers,
    NoisyScreening,
    SampledMax,
    SampledVotes,
    ScreeningCheck,
)
from tacit.mechanisms.noisy_steps import MOST_UNITS, NoisySteps, PrivateSteps, ResumableSteps
from tacit.mechanisms.released_once import STEP, ExactlySummed, ExactSum
from tacit.mechanisms.sanitise import Sanitise, SecretCost, secret_cost_of
from tacit.mechanisms.selective import (
    ConfidentGNMax,
    InteractiveGNMax,
    ThresholdCheck,
    student_probabilities,
)
from tacit.mechanisms.selective import disagreement as disagreement
from tacit.mechanisms.shared import SharedCodes, SharedTotal, SharedVotes, open_shares
from tacit.mechanisms.sums import Contributions, NoisySecondMoment, NoisySum, unit_steps
from tacit.mechanisms.votes import (
    GNMax,
    LNMax,
    NoisyVotes,
    SoftVotes,
    VoteMechanism,
    VoteReading,
    count_votes,
    sum_soft_votes,
)

__all__ = [
    "MOST_UNITS",
    "NO_ANSWER",
    "STEP",
    "ConfidentGNMax",
    "Contributions",
    "DistributedGaussianMean",
    "ExactSum",
    "ExactlySummed",
    "GNMax",
    "GaussianMean",
    "InteractiveGNMax",
    "LNMax",
    "Look",
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
    "ResumableSteps",
    "SampledLabels",
    "SampledMax",
    "SampledMean",
    "SampledMedian",
    "SampledVotes",
    "Sanitise",
    "ScoreHistogram",
    "ScoredRecords",
    "ScreeningCheck",
    "SecretCost",
    "SelectiveMechanism",
    "SharedCodes",
    "SharedTotal",
    "SharedVotes",
    "SoftVotes",
    "SummedSteps",
    "Suspicion",
    "TeacherCodes",
    "ThresholdCheck",
    "UnitMean",
    "VoteMechanism",
    "VoteReading",
    "assumptions",
    "count_votes",
    "open_shares",
    "price_of_list",
    "score_bins",
    "secret_cost_of",
    "student_probabilities",
    "sum_soft_votes",
    "suspicions",
    "unit_steps",
]

if not TYPE_CHECKING:  # a checker is to know each name

    def __getattr__(name: str) -> Any:
        for registered, path in MECHANISMS.items():
            if path.endswith(f":{name}"):
                return mechanism_class(registered)
        raise AttributeError(f"module 'tacit.mechanisms' has no attribute {name!r}")
