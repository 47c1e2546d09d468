"""Inputs on which each mechanism loses most, for audits of what it claims.

`suspicions(mechanism)` lists the experiments; `tacit.ledger.auditing` carries them out. `AUDITED`
names every mechanism, and the parameters that describe one are those of its class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tacit._checks import refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms.auditing.cases import (
    AUDIT_DELTAS,
    AUDIT_ORDERS,
    MOST,
    Look,
    Suspicion,
    labelled,
)
from tacit.mechanisms.auditing.costs import of_sanitise
from tacit.mechanisms.auditing.neighbours import (
    of_noisy_screening,
    of_sampled_labels,
    of_sampled_max,
    of_sampled_mean,
    of_sampled_median,
    of_sampled_votes,
    of_screening_check,
)
from tacit.mechanisms.auditing.numbers import (
    of_distributed_mean,
    of_gaussian_mean,
    of_noisy_second_moment,
    of_noisy_sum,
    of_unit_mean,
)
from tacit.mechanisms.auditing.steps import of_noisy_steps
from tacit.mechanisms.auditing.votes import (
    of_gnmax,
    of_lnmax,
    of_noisy_votes,
    of_selective,
    of_threshold_check,
)
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.distributed import DistributedGaussianMean
from tacit.mechanisms.gaussian_mean import GaussianMean, UnitMean
from tacit.mechanisms.noisy_max import GNMax, LNMax, NoisyVotes
from tacit.mechanisms.noisy_steps import NoisySteps
from tacit.mechanisms.sampled_median import SampledMedian
from tacit.mechanisms.sampled_sums import SampledLabels, SampledMean
from tacit.mechanisms.sampled_votes import SampledMax, SampledVotes
from tacit.mechanisms.sanitise import Sanitise
from tacit.mechanisms.screening import NoisyScreening, ScreeningCheck
from tacit.mechanisms.second_moment import NoisySecondMoment
from tacit.mechanisms.selective import ConfidentGNMax, InteractiveGNMax, ThresholdCheck
from tacit.mechanisms.summary import NoisySum

__all__ = ["AUDITED", "AUDIT_DELTAS", "AUDIT_ORDERS", "Look", "Suspicion", "labelled", "suspicions"]

_KINDS: dict[type, Callable[[Any], Iterator[Suspicion]]] = {
    GNMax: of_gnmax,
    LNMax: of_lnmax,
    NoisyVotes: of_noisy_votes,
    ThresholdCheck: of_threshold_check,
    ConfidentGNMax: of_selective,
    InteractiveGNMax: of_selective,
    Sanitise: of_sanitise,
    SampledMax: of_sampled_max,
    SampledVotes: of_sampled_votes,
    ScreeningCheck: of_screening_check,
    NoisyScreening: of_noisy_screening,
    SampledLabels: of_sampled_labels,
    SampledMean: of_sampled_mean,
    SampledMedian: of_sampled_median,
    UnitMean: of_unit_mean,  # before its parent
    GaussianMean: of_gaussian_mean,
    DistributedGaussianMean: of_distributed_mean,
    NoisySum: of_noisy_sum,
    NoisySecondMoment: of_noisy_second_moment,
    NoisySteps: of_noisy_steps,
}
AUDITED: dict[str, type] = {vars(kind)["name"]: kind for kind in _KINDS}
"""Every mechanism that can be audited, by its name."""


_SIZES = ("threshold", "sigma_check", "k", "joint", "n_teachers", "rows", "columns", "dimension",
          "tau")  # fmt: skip
"""Parameters that say how large the made-up answers are."""


def suspicions(mechanism: Mechanism) -> list[Suspicion]:
    """Return the experiments that could refute a mechanism's price of one release.

    Neighbours differ in one unit: a teacher's vote or codes, a record and what it displaces.

    >>> [(each.first, each.second) for each in suspicions(GNMax(1.0))][:2]
    [((2, 3), (1, 4)), ((2, 1), (1, 2))]
    """
    kind = next((kind for kind in _KINDS if isinstance(mechanism, kind)), None)
    if kind is None:
        raise InvalidArgument(
            f"Expected a mechanism of tacit to audit, got {mechanism.name}: no inputs are known on "
            "which it would lose most."
        )
    for name in _SIZES:
        if getattr(mechanism, name, 0) > MOST:
            raise refuse(name, getattr(mechanism, name), f"at most {MOST} for an audit")
    return list(_KINDS[kind](mechanism))
