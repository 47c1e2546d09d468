"""What an experiment proves about a mechanism: a lower bound on its epsilon.

Run the mechanism often on two neighbouring inputs and count how often an event, chosen before,
happens. If it is (epsilon, delta)-differentially private, then p_a <= e^epsilon p_b + delta: counts
that make this implausible refute the claim, and counts that do not prove nothing at all.
"""

from __future__ import annotations

import math

from scipy.special import betainccinv, betaincinv

from tacit._checks import at_least, non_negative, probability, refuse


def epsilon_lower_bound(
    hits_a: int,
    trials_a: int,
    hits_b: int,
    trials_b: int,
    delta: float,
    confidence_delta: float,
) -> float:
    """Return the epsilon at `delta` that counts of one event on two neighbouring inputs prove.

    max(0, log((low_a - delta)/high_b)), where low_a <= p_a and p_b <= high_b are the exact bounds
    of Clopper and Pearson 1934, each wrong with probability at most confidence_delta/2. So the
    result exceeds the true epsilon with probability at most `confidence_delta`, provided that the
    event was chosen without these counts; for k events, divide `confidence_delta` by k. Unit: that
    in which the two inputs differ.

    >>> round(epsilon_lower_bound(240_000, 10**6, 17_000, 10**6, 0.1, 1e-6), 2)
    2.06
    """
    _counts(hits_a=hits_a, trials_a=trials_a)
    _counts(hits_b=hits_b, trials_b=trials_b)
    tail = probability(confidence_delta=confidence_delta) / 2
    # P(Bin(trials_a, low_a) >= hits_a) = tail, and P(Bin(trials_b, high_b) <= hits_b) = tail.
    low_a = float(betaincinv(hits_a, trials_a - hits_a + 1, tail)) if hits_a else 0.0
    spared = trials_b - hits_b
    high_b = float(betainccinv(hits_b + 1, spared, tail)) if spared else 1.0
    excess = low_a - non_negative(delta=delta)
    return max(0.0, math.log(excess / high_b)) if excess > 0 else 0.0


def _counts(**named: int) -> None:
    """Refuse hits that are not a number from 0 to trials."""
    (hits_name, hits), (trials_name, trials) = named.items()
    at_least(0, **{hits_name: hits})
    if at_least(1, **{trials_name: trials}) < hits:
        raise refuse(hits_name, hits, f"at most {trials_name}={trials}")
