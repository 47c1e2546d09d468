"""The worst-case epsilon of a plan: the best of the accountants that apply.

Every accountant here is data-independent, so taking the minimum over them before the run is free.
Which they are: docs/theory/gaussian.md#which-accountant.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tacit._checks import non_negative, probability
from tacit.errors import InvalidArgument
from tacit.privacy.curves import RdpCurve
from tacit.privacy.gaussian import gaussian_epsilon


class WorstCase(NamedTuple):
    """A worst-case epsilon and the accountant that gave it: "gaussian", "rdp" or "pld"."""

    epsilon: float
    accountant: str


def worst_case_epsilon(
    delta: float,
    mu_squared: float | None = None,
    rdp: RdpCurve | None = None,
    pld: Any = None,
) -> WorstCase:
    """Return the smallest epsilon that one of the given accounts proves, and its name.

    mu_squared: sum of (sensitivity/sigma)^2 over all Gaussian releases: exact composition.
    rdp:        a composed `RdpCurve`, converted by the improved conversion.
    pld:        a composed dp-accounting privacy loss distribution (docs/theory/direct.md).

    >>> worst_case_epsilon(1e-5, mu_squared=640 / 150**2 + 2 * 286 / 40**2).accountant
    'gaussian'
    """
    delta = probability(delta=delta)
    proved: list[WorstCase] = []
    if mu_squared is not None:
        mu = math.sqrt(non_negative(mu_squared=mu_squared))
        proved.append(WorstCase(gaussian_epsilon(delta, mu), "gaussian"))
    if rdp is not None:
        if not isinstance(rdp, RdpCurve):
            raise InvalidArgument(f"Expected rdp to be an RdpCurve, got {type(rdp).__name__}.")
        proved.append(WorstCase(rdp.total().epsilon(delta), "rdp"))
    if pld is not None:
        if not hasattr(pld, "get_epsilon_for_delta"):
            raise InvalidArgument(
                f"Expected pld to be a PrivacyLossDistribution of dp-accounting, "
                f"got {type(pld).__name__}."
            )
        proved.append(WorstCase(float(pld.get_epsilon_for_delta(delta)), "pld"))
    if not proved:
        raise InvalidArgument("Expected at least one of mu_squared, rdp or pld to be given.")
    if any(math.isnan(one.epsilon) for one in proved):
        raise InvalidArgument("Expected accounts without NaN; recompute the curve.")
    return min(proved)
