"""Lower bounds on epsilon that an experiment proves, for a mechanism or a model.

Many releases: count how often an event, chosen before, happens on two neighbouring inputs.
One run: plant canaries in the training data by coin tosses and count the coins guessed right.
Implausible counts refute a claim; other counts prove nothing at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, betainccinv, betaincinv, expit

from tacit._checks import Floats, at_least, non_negative, probability, refuse, renyi_order
from tacit.privacy.gaussian import closed_in

Event = Callable[[NDArray[np.float64]], NDArray[np.bool_]]
"""Which of many outputs count: chosen before they are seen."""

_MOST_EPSILON = 2.0**10  # no experiment that fits into a computer proves more


def _clopper_pearson(hits: int, trials: int, tail: float) -> tuple[float, float]:
    """Clopper-Pearson bounds on a probability, each wrong with probability at most `tail`.

    >>> low, high = _clopper_pearson(5, 100, 0.025)
    >>> round(low, 4), round(high, 4)
    (0.0164, 0.1128)
    """
    _counts(hits=hits, trials=trials)
    tail, spared = probability(tail=tail), trials - hits
    low = float(betaincinv(hits, spared + 1, tail)) if hits else 0.0
    high = float(betainccinv(hits + 1, spared, tail)) if spared else 1.0
    return low, high


def epsilon_lower_bound(
    hits_a: int, trials_a: int, hits_b: int, trials_b: int, delta: float, confidence_delta: float
) -> float:
    """Lower bound on epsilon at `delta` from counts of one event on two neighbouring inputs.

    max(0, log((low_a - delta)/high_b)), where low_a <= p_a and p_b <= high_b are Clopper-Pearson
    bounds, each wrong with probability at most confidence_delta/2. The event must be chosen without
    these counts; for k events, divide `confidence_delta` by k. Unit: that in which the inputs
    differ. Source: Clopper and Pearson 1934.

    Parameters
    ----------
    hits_a, trials_a : int, how often the event happened on the first input, of how many releases
    hits_b, trials_b : int, the same on the neighbouring input
    delta : float >= 0, of the claim
    confidence_delta : float, greatest chance that the result exceeds the truth

    Returns
    -------
    float, 0 if the counts prove nothing

    Examples
    --------
    >>> round(epsilon_lower_bound(240_000, 10**6, 17_000, 10**6, 0.1, 1e-6), 2)
    2.06
    """
    _counts(hits_a=hits_a, trials_a=trials_a)
    _counts(hits_b=hits_b, trials_b=trials_b)
    tail = probability(confidence_delta=confidence_delta) / 2
    low_a, _ = _clopper_pearson(hits_a, trials_a, tail)
    _, high_b = _clopper_pearson(hits_b, trials_b, tail)
    excess = low_a - non_negative(delta=delta)
    return max(0.0, math.log(excess / high_b)) if excess > 0 else 0.0


def events_lower_bound(
    first: Floats, second: Floats, events: Sequence[Event], delta: float, confidence_delta: float
) -> float:
    """Return the largest `epsilon_lower_bound` over events, each with its share of the confidence.

    Parameters
    ----------
    first, second : arrays, independent outputs, one a row, on two neighbouring inputs
    events : sequence of functions
        Each marks the outputs that count; chosen before the outputs are seen.
    delta : float >= 0, of the claim
    confidence_delta : float, greatest chance that the result exceeds the truth

    Returns
    -------
    float, 0 if no event proves anything

    Examples
    --------
    >>> first, second = np.repeat([1.0, 0.0], [900, 100]), np.repeat([1.0, 0.0], [100, 900])
    >>> round(events_lower_bound(first, second, [lambda outputs: outputs > 0], 0.0, 0.05), 2)
    1.99
    """
    share = probability(confidence_delta=confidence_delta) / len(events)
    return max(
        epsilon_lower_bound(
            int(event(first).sum()), len(first), int(event(second).sum()), len(second), delta, share
        )
        for event in events
    )


def bit_rdp(p: float, q: float, order: float) -> float:
    """Return D_order(Ber(p) || Ber(q)) = log(p^a q^(1-a) + (1-p)^a (1-q)^(1-a))/(a - 1).

    >>> round(bit_rdp(0.75, 0.25, 2.0), 4)
    0.8473
    """
    moment = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
    return math.log(moment) / (order - 1)


def rdp_lower_bound(
    hits: tuple[int, int], trials: int, order: float, confidence_delta: float
) -> float:
    """Lower bound on the Renyi divergence, in the worse direction, from two counts of one event.

    If the event has probability >= p on one input and <= q < p on the other, then
    D_a >= D_a(Ber(p) || Ber(q)) by post-processing. Each of the four bounds on p and q is wrong
    with probability at most confidence_delta/4.

    Parameters
    ----------
    hits : pair of int, how often the event happened on each of two neighbouring inputs
    trials : int, releases of each
    order : float > 1
    confidence_delta : float, greatest chance that the result exceeds the truth

    Returns
    -------
    float, 0 if the counts prove nothing

    Examples
    --------
    >>> round(rdp_lower_bound((900, 100), 1000, 2.0, 0.01), 2)
    1.77
    """
    order = renyi_order(order=order)
    bounds = [_clopper_pearson(count, trials, confidence_delta / 4) for count in hits]
    (first_low, first_high), (second_low, second_high) = bounds
    if first_low > second_high:
        p, q = first_low, second_high
    elif second_low > first_high:
        p, q = first_high, second_low
    else:
        return 0.0
    return max(bit_rdp(p, q, order), bit_rdp(q, p, order))


def one_run_p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return how likely at least `right` right guesses are if the claim (epsilon, delta) holds.

    With W ~ Bin(r, e^epsilon/(1 + e^epsilon)),

        P <= P(W >= v) + 2 m delta max_{i >= 1} P(v - i <= W < v)/i.

    Unit: one canary, added or removed.
    Source: Steinke, Nasr and Jagielski 2023, Theorem 5.2 and Appendix D.

    Parameters
    ----------
    canaries : int, m, records planted, each by the toss of a fair coin
    guesses : int
        r, coins guessed; the number is fixed before the model is seen.
    right : int, v, right guesses
    epsilon, delta : float
        The claim; epsilon at least 0, delta below 1/(2 canaries).

    Returns
    -------
    float, an upper bound on the probability, at most 1

    Examples
    --------
    >>> round(one_run_p_value(1000, 100, 75, 0.673, 1e-4), 3)
    0.05
    """
    _guessed(canaries, guesses, right, delta)
    chance = float(expit(non_negative(epsilon=epsilon)))
    above = float(bdtrc(right - 1, guesses, chance)) if right else 1.0
    if right == 0 or delta == 0:
        return min(1.0, above)
    # P(v - i <= W < v) for i = 1 .. v.
    upto = bdtr(np.arange(-1, right), guesses, chance)
    upto[0] = 0.0
    steps = np.arange(1, right + 1)
    slope = float(((upto[-1] - upto[:-1][::-1]) / steps).max())
    return min(1.0, above + 2 * canaries * delta * slope)


def one_run_epsilon(
    canaries: int, guesses: int, right: int, delta: float, confidence_delta: float
) -> float:
    """Lower bound on epsilon at `delta` from right guesses of canaries' coins.

    The largest epsilon whose `one_run_p_value` is below `confidence_delta`. The number of guesses
    must be fixed before the model is seen; for k numbers, divide `confidence_delta` by k.
    Source: Steinke, Nasr and Jagielski 2023.

    Parameters
    ----------
    canaries, guesses, right : int, as in `one_run_p_value`
    delta : float, of the claim, at least 0 and below 1/(2 canaries)
    confidence_delta : float, greatest chance that the result exceeds the truth

    Returns
    -------
    float, 0 if the guesses prove nothing

    Examples
    --------
    >>> round(one_run_epsilon(1000, 100, 75, 1e-4, 0.05), 3)  # Appendix D of the paper
    0.673
    """
    probability(confidence_delta=confidence_delta)

    def explained(epsilon: Any) -> bool:  # from some epsilon on, since it grows: see `_guessed`
        return one_run_p_value(canaries, guesses, right, epsilon, delta) >= confidence_delta

    return 0.0 if explained(0.0) else float(closed_in(0.0, _MOST_EPSILON, explained)[0])


def _guessed(canaries: int, guesses: int, right: int, delta: float) -> None:
    """Refuse impossible counts, and 2 m delta >= 1: the p-value must rise with epsilon."""
    _counts(guesses=guesses, canaries=canaries)
    if at_least(0, right=right) > guesses:
        raise refuse("right", right, f"at most guesses={guesses}")
    if 2 * canaries * non_negative(delta=delta) >= 1:
        raise refuse("delta", delta, f"below 1/(2 canaries) with canaries={canaries}")


def _counts(**named: int) -> None:
    """Refuse hits that are not a number from 0 to trials."""
    (hits_name, hits), (trials_name, trials) = named.items()
    at_least(0, **{hits_name: hits})
    if at_least(1, **{trials_name: trials}) < hits:
        raise refuse(hits_name, hits, f"at most {trials_name}={trials}")
