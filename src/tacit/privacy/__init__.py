"""What a release costs: pure functions, arrays in, arrays out, in float64 and log space.

One function per quantity of docs/theory.md. Functions that take votes return secrets, to be
published only through the mechanism `Sanitise`; functions that end in `_worst` take none.
"""

from tacit.privacy.curves import (
    DEFAULT_ORDERS,
    RdpCurve,
    WorstCase,
    conversion_term,
    worst_case_epsilon,
)
from tacit.privacy.epsilon_lower_bounds import (
    Event,
    epsilon_lower_bound,
    events_lower_bound,
    one_run_epsilon,
    one_run_p_value,
    rdp_lower_bound,
)
from tacit.privacy.gaussian import (
    calibrate_gaussian,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_rdp,
)
from tacit.privacy.loss_distributions import (
    SampledSteps,
    calibrate_steps,
    priced_with,
    sampled_steps_epsilon,
    sampled_steps_pld,
    sampled_steps_rdp,
)
from tacit.privacy.noisy_max import gnmax_log_q, gnmax_rdp, lnmax_rdp, lnmax_rdp_worst
from tacit.privacy.smooth_sensitivity import (
    SanitiseCost,
    gnmax_smooth_sensitivity,
    gnss_rdp,
    sanitise_cost,
    threshold_smooth_sensitivity,
)
from tacit.privacy.subsampled import (
    poisson_gaussian_rdp,
    sampled_exponential_rdp,
    sampled_screening_rdp,
    sampled_threshold_rdp,
)
from tacit.privacy.threshold import (
    confident_rdp,
    confident_rdp_worst,
    threshold_rdp,
    threshold_rdp_worst,
)
from tacit.privacy.totals import gnmax_rdp_total

__all__ = [
    "DEFAULT_ORDERS",
    "Event",
    "RdpCurve",
    "SampledSteps",
    "SanitiseCost",
    "WorstCase",
    "calibrate_gaussian",
    "calibrate_steps",
    "confident_rdp",
    "confident_rdp_worst",
    "conversion_term",
    "epsilon_lower_bound",
    "events_lower_bound",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_rdp",
    "gnmax_log_q",
    "gnmax_rdp",
    "gnmax_rdp_total",
    "gnmax_smooth_sensitivity",
    "gnss_rdp",
    "lnmax_rdp",
    "lnmax_rdp_worst",
    "one_run_epsilon",
    "one_run_p_value",
    "poisson_gaussian_rdp",
    "priced_with",
    "rdp_lower_bound",
    "sampled_exponential_rdp",
    "sampled_screening_rdp",
    "sampled_steps_epsilon",
    "sampled_steps_pld",
    "sampled_steps_rdp",
    "sampled_threshold_rdp",
    "sanitise_cost",
    "threshold_rdp",
    "threshold_rdp_worst",
    "threshold_smooth_sensitivity",
    "worst_case_epsilon",
]
