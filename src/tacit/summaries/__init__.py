"""One-shot summaries of private records: prototype votes, moments, residual moments.

Each module defines a record's contribution to a `NoisySum`, which is secret, and what a release of
the sum means, which is public (docs/theory/speak-once.md).
"""

from tacit.summaries.descent import Descent, covariance_gap, weighted_by
from tacit.summaries.moments import (
    NoisyEcho,
    NoisyMoment,
    Solution,
    WeightPrior,
    best_centre,
    bins_prior,
    fit_moment,
    longest_label,
    plain_prior,
)
from tacit.summaries.prototypes import (
    compact_view,
    nearest_prototypes,
    one_hot,
    prototype_votes,
    table_posterior,
)
from tacit.summaries.residuals import ExactNystroem, exact_scores, exact_softmax
from tacit.summaries.shift import Shift, mean_shift, moment_shift, table_shift

__all__ = [
    "Descent",
    "ExactNystroem",
    "NoisyEcho",
    "NoisyMoment",
    "Shift",
    "Solution",
    "WeightPrior",
    "best_centre",
    "bins_prior",
    "compact_view",
    "covariance_gap",
    "exact_scores",
    "exact_softmax",
    "fit_moment",
    "longest_label",
    "mean_shift",
    "moment_shift",
    "nearest_prototypes",
    "one_hot",
    "plain_prior",
    "prototype_votes",
    "table_posterior",
    "table_shift",
    "weighted_by",
]
