"""What it costs to publish a data-dependent cost.

Proofs: docs/theory/smooth-sensitivity.md#one-noisy-number-gnss and #two-stages-sanitise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.special import ndtri

from tacit._checks import positive, probability, renyi_order
from tacit.errors import InvalidArgument


def gnss_rdp(order: float, beta: float, sigma: float) -> float:
    """RDP of releasing f + SS * N(0, sigma^2), SS a beta-smooth sensitivity: the correct theorem.

    a/(2 sigma^2 v) - log(v)/(2(a-1)) - beta,  v = a - (a-1) e^(2 beta) > 0.
    Theorem 23 of PATE 2018 drops a factor and is false for a*beta > 1/4, which is where the paper
    uses it (MNIST: .518 printed, 1.607 true).

    >>> round(gnss_rdp(14, 0.0329, 6.23), 6)
    1.607056
    """
    a = renyi_order(order=order)
    beta, sigma = positive(beta=beta), positive(sigma=sigma)
    v = 1 - (a - 1) * math.expm1(min(2 * beta, 700.0))  # a - (a-1) e^(2 beta); 700: no overflow
    if v <= 0:
        limit = math.log(a / (a - 1)) / 2
        raise InvalidArgument(
            f"Expected beta={beta} to be below {limit:.4g} at order={a}: no bound holds; "
            f"try beta={0.2 / a:.4g}."
        )
    return a / (2 * sigma**2 * v) - math.log(v) / (2 * (a - 1)) - beta


class SanitiseCost(NamedTuple):
    """What the two-stage release costs, and the quantiles it publishes with."""

    rdp: float
    """order * mu_squared / 2, at the one order fixed in advance."""
    mu_squared: float
    """beta^2/sigma_log^2 + 1/sigma^2: two Gaussian releases."""
    delta: float
    """delta_value + delta_scale: with this probability one of the two bounds may fail."""
    value_quantile: float
    """z(delta_value): how many noise deviations are added to the released cost."""
    scale_quantile: float
    """z(delta_scale): how many are added to the released log-scale."""


def sanitise_cost(
    order: float,
    beta: float,
    sigma: float,
    sigma_log: float,
    delta_value: float,
    delta_scale: float,
) -> SanitiseCost:
    """Cost of releasing first the smooth sensitivity, then the data-dependent cost.

    (1) log max(SS, s_min) + N(0, sigma_log^2): log SS is beta-Lipschitz, mu^2 = beta^2/sigma_log^2.
    (2) f + SS_upper * sigma * N(0, 1): the shift is at most SS_upper unless (1) failed, which has
        probability at most delta_scale; mu^2 = 1/sigma^2.

    >>> round(sanitise_cost(14, 0.02, 6.0, 0.2, 2.5e-6, 2.5e-6).mu_squared, 6)
    0.037778
    """
    a = renyi_order(order=order)
    d_value, d_scale = probability(delta_value=delta_value), probability(delta_scale=delta_scale)
    if d_value + d_scale >= 1:
        raise InvalidArgument(
            f"Expected delta_value={delta_value} + delta_scale={delta_scale} to be below 1."
        )
    beta, sigma_log = positive(beta=beta), positive(sigma_log=sigma_log)
    mu_squared = (beta / sigma_log) ** 2 + 1 / positive(sigma=sigma) ** 2
    return SanitiseCost(
        rdp=a * mu_squared / 2,
        mu_squared=mu_squared,
        delta=d_value + d_scale,
        value_quantile=-float(ndtri(d_value)),
        scale_quantile=-float(ndtri(d_scale)),
    )
