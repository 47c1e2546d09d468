"""One choice of parameters for the tests of sanitised statements."""

from __future__ import annotations

from typing import Any

from tacit.mechanisms import Sanitise

DELTA, RESERVED = 1e-5, 2e-6
ORDER, BETA, SIGMA, SIGMA_LOG = 6.0, 0.03, 6.0, 0.15


def sanitiser(covers: str, **changed: Any) -> Sanitise:
    """Sanitise the cost of the entry `covers`, with whatever is not changed as above."""
    chosen = {
        "order": ORDER,
        "beta": BETA,
        "sigma": SIGMA,
        "sigma_log": SIGMA_LOG,
        "delta_value": RESERVED / 2,
        "delta_scale": RESERVED / 2,
        **changed,
    }
    return Sanitise(covers=covers, **chosen)
