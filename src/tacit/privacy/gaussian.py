"""The exact privacy curve of Gaussian noise.

A release with noise N(0, sigma^2) and L2 sensitivity Delta is mu-GDP with mu = Delta/sigma; under
adaptive composition the mu^2 add, exactly (Dong, Roth, Su 2022; Smith, Thakurta 2022).
Proof: docs/theory/gaussian.md#the-exact-curve.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, erfcx, erfinv, log_ndtr, ndtr

from tacit._checks import (
    Floats,
    finite_array,
    non_negative,
    order_array,
    positive,
    probability,
    refuse,
)
from tacit.errors import InvalidArgument

_SQRT2 = math.sqrt(2.0)
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_SAFETY = 1 + 1e-9  # sigma is rounded up by this much, so that rounding never weakens a claim
_ROUNDS, _CLOSE = 60, 2.0**-44
_GAUSS_NODES, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(20)


def gaussian_rdp(noise_multiplier: float, orders: ArrayLike) -> Floats:
    """RDP of the Gaussian mechanism with sigma/sensitivity = `noise_multiplier`: a/(2 nm^2).

    Unit: that of the sensitivity. Source: Mironov 2017, Prop. 7.

    Parameters
    ----------
    noise_multiplier : float, sigma over the L2 sensitivity
    orders : array of Renyi orders > 1

    Returns
    -------
    array of shape (orders,), public

    Examples
    --------
    >>> gaussian_rdp(2.0, [2, 8]).tolist()
    [0.25, 1.0]
    """
    multiplier = positive(noise_multiplier=noise_multiplier)
    with np.errstate(over="ignore"):  # infinite cost is the right answer to no noise
        return order_array(orders) / 2 / multiplier / multiplier


def gaussian_delta(epsilon: ArrayLike, mu: ArrayLike) -> Any:
    """Exact delta of a mu-GDP release at `epsilon`, broadcast over both.

    delta(epsilon; mu) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu). Accurate to
    1e-13 relative for epsilon 0 to 700 and delta down to 1e-100.
    Source: Balle and Wang 2018. docs/theory/gaussian.md#the-exact-curve.

    Parameters
    ----------
    epsilon : float or array, >= 0
    mu : float or array, sensitivity/sigma >= 0

    Returns
    -------
    float or array

    Examples
    --------
    >>> float(f"{gaussian_delta(1.0, 0.5):.10g}")
    0.006829594983
    """
    log_delta = gaussian_log_delta(epsilon, mu)
    return float(np.exp(log_delta)) if np.ndim(log_delta) == 0 else np.exp(log_delta)


def gaussian_log_delta(epsilon: ArrayLike, mu: ArrayLike) -> Any:
    """Natural logarithm of `gaussian_delta`; mu = 0 gives -inf."""
    eps, mus = finite_array(epsilon=epsilon), finite_array(mu=mu)
    try:
        eps, mus = np.broadcast_arrays(eps, mus)
    except ValueError:
        raise InvalidArgument(
            f"Expected epsilon and mu to broadcast, got shapes {eps.shape} and {mus.shape}."
        ) from None
    if (eps < 0).any():
        raise refuse("epsilon", epsilon, "a finite number >= 0")
    if (mus < 0).any():
        raise refuse("mu", mu, "a finite number >= 0")
    result = np.full(eps.shape, -np.inf)
    some = mus > 0
    with np.errstate(over="ignore", divide="ignore"):  # beyond double range log delta is -inf
        result[some] = _log_delta(eps[some], mus[some])
    return float(result) if result.ndim == 0 else result


def _log_delta(eps: Floats, mu: Floats) -> Floats:
    a = mu / 2 - eps / mu
    out = np.empty_like(a)
    tail, wide, small = a <= 0, mu >= 0.5, eps < 1
    for form, where in (
        (_wide_tail, tail & wide),
        (_narrow_tail, tail & ~wide),
        (_small_body, ~tail & small),
        (_large_body, ~tail & ~small),
    ):
        if where.any():
            out[where] = form(eps[where], mu[where])
    return out


def _log_delta_of_one(epsilon: float, mu: float) -> float:
    """Return `gaussian_log_delta` of two numbers, both above 0, a tenth of the time."""
    eps, mus = np.float64(epsilon), np.float64(mu)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if mus / 2 - eps / mus <= 0:
            form = _wide_tail if mu >= 0.5 else _narrow_tail
        else:
            form = _small_body if epsilon < 1 else _large_body
        return float(form(eps, mus))


def _wide_tail(eps: Any, mu: Any) -> Any:
    a, b = mu / 2 - eps / mu, mu / 2 + eps / mu
    return _log_phi(a) + np.log(np.maximum(_mills(-a) - _mills(b), 0.0))


def _narrow_tail(eps: Any, mu: Any) -> Any:
    return _log_phi(mu / 2 - eps / mu) + np.log(_mills_difference(eps, mu))


def _small_body(eps: Any, mu: Any) -> Any:
    a, b = mu / 2 - eps / mu, mu / 2 + eps / mu
    return np.log(0.5 * (erf(a / _SQRT2) + erf(b / _SQRT2)) - np.expm1(eps) * ndtr(-b))


def _large_body(eps: Any, mu: Any) -> Any:
    a, b = mu / 2 - eps / mu, mu / 2 + eps / mu
    # e^eps Phi(-b) = phi(a) M(b): in eps + log Phi(-b) all digits cancel where mu is large.
    return log_ndtr(a) + np.log1p(-np.exp(_log_phi(a) - log_ndtr(a)) * _mills(b))


def _log_phi(x: Any) -> Any:
    return -x * x / 2 - _LOG_SQRT_2PI


def _mills(x: Any) -> Any:
    """Mills ratio Phi(-x)/phi(x)."""
    return math.sqrt(math.pi / 2) * erfcx(x / _SQRT2)


def _mills_difference(eps: Any, mu: Any) -> Any:
    """M(eps/mu - mu/2) - M(eps/mu + mu/2) as an integral: the plain difference cancels."""
    centre, half = (eps / mu)[..., None], (mu / 2)[..., None]
    t = centre + half * _GAUSS_NODES
    slope = 1 - t * _mills(np.minimum(t, 41.0))
    if (far := t > 40).any():
        x = 1 / np.maximum(t, 1) ** 2
        series = x * (1 - 3 * x * (1 - 5 * x * (1 - 7 * x * (1 - 9 * x * (1 - 11 * x)))))
        slope = np.where(far, series, slope)
    return (half * slope * _GAUSS_WEIGHTS).sum(axis=-1)


def gaussian_epsilon(delta: float, mu: ArrayLike) -> Any:
    """Smallest epsilon with `gaussian_delta(epsilon, mu) <= delta`, rounded up.

    Parameters
    ----------
    delta : float in (0, 1)
    mu : float or array, sensitivity/sigma >= 0

    Returns
    -------
    float or array, infinite where it is beyond the largest float

    Examples
    --------
    >>> round(gaussian_epsilon(1e-5, 0.6212), 4)  # mu of PATE 2018's MNIST run
    2.5424
    """
    log_target = math.log(probability(delta=delta))
    mus = finite_array(mu=mu)
    if (mus < 0).any():
        raise refuse("mu", mu, "a finite number >= 0")
    flat = mus.reshape(-1)
    if len(flat) == 1:
        only = _least_epsilon_of_one(log_target, float(flat[0]))
        return only if mus.ndim == 0 else np.full(mus.shape, only)
    result = np.zeros(flat.shape)
    open_ = np.asarray(gaussian_log_delta(0.0, flat)) > log_target
    if open_.any():
        result[open_] = _least_epsilon(log_target, flat[open_])
    return result.reshape(mus.shape)


# A ledger that says what it has spent asks for the same epsilon again and again.
@lru_cache(maxsize=1024)
def _least_epsilon_of_one(log_target: float, mu: float) -> float:
    if gaussian_log_delta(0.0, mu) <= log_target:
        return 0.0
    low, high = 0.0, 1.0
    while _log_delta_of_one(high, mu) > log_target:
        low, high = high, 2 * high
    low = low or _first_above(high, lambda eps: _log_delta_of_one(eps, mu) > log_target)
    return _neighbours(low, high, lambda eps: _log_delta_of_one(eps, mu) - log_target)[1]


def _first_above(high: float, holds: Callable[[float], bool]) -> float:
    """Return a number above 0 at which something holds that does not at `high`: 0 if too small."""
    low = high / 2
    while low > 0 and not holds(low):
        low /= 2
    return low


def _neighbours(low: float, high: float, excess: Callable[[float], float]) -> tuple[float, float]:
    """Neighbouring floats with excess(first) > 0 >= excess(second), by Illinois and bisection."""
    at_low, at_high = excess(low), excess(high)
    near, moved = low, 0
    for _ in range(_ROUNDS):
        before, near = near, high - at_high * (high - low) / (at_high - at_low)
        if not low < near < high or abs(near - before) <= _CLOSE * near:
            break
        value = excess(near)
        if value > 0:  # an end that stays twice weighs less
            low, at_low, at_high = near, value, at_high / 2 if moved > 0 else at_high
        else:
            high, at_high, at_low = near, value, at_low / 2 if moved < 0 else at_low
        moved = 1 if value > 0 else -1
    for beside in (near * (1 - _CLOSE), near * (1 + _CLOSE)):
        if low < beside < high:
            low, high = (beside, high) if excess(beside) > 0 else (low, beside)
    found = closed_in(low, high, lambda middle: excess(float(middle)) <= 0)
    return float(found[0]), float(found[1])


def _least_epsilon(log_target: float, mu: Floats) -> Floats:
    def is_enough(eps: Floats) -> Any:
        finite = np.minimum(eps, sys.float_info.max)
        return (eps > finite) | (gaussian_log_delta(finite, mu) <= log_target)

    low, high = np.zeros_like(mu), np.ones_like(mu)
    while not (enough := is_enough(high)).all():
        low = np.where(enough, low, high)
        with np.errstate(over="ignore"):  # infinite where no float is enough
            high = np.where(enough, high, 2 * high)
    _, high = closed_in(low, high, is_enough)
    return np.asarray(high)


def closed_in(low: Any, high: Any, beyond: Callable[[Floats], Any]) -> tuple[Any, Any]:
    """Return neighbouring floats between which `beyond`, which holds at `high`, begins to hold."""
    while True:
        middle = np.asarray((low + high) / 2)
        if ((middle <= low) | (middle >= high)).all():
            return low, high
        over = beyond(middle)
        low, high = np.where(over, low, middle), np.where(over, middle, high)


def calibrate_gaussian(sensitivity: float, epsilon: float, delta: float) -> float:
    """Smallest sigma that makes a release of L2 `sensitivity` (epsilon, delta)-DP, rounded up.

    Inverts the exact curve by bisection on log mu. The classical sqrt(2 log(1.25/delta))/epsilon is
    too small for large epsilon and is not used. Source: Balle and Wang 2018.

    Parameters
    ----------
    sensitivity : float, how far one unit can move the release, in L2
    epsilon : float >= 0
    delta : float in (0, 1)

    Returns
    -------
    float

    Examples
    --------
    >>> round(calibrate_gaussian(1.0, 1.0, 1e-5), 6)
    3.730632
    """
    sensitivity = positive(sensitivity=sensitivity)
    return sensitivity / gaussian_mu(epsilon, delta) * _SAFETY


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu whose exact curve stays within (epsilon, delta), rounded down.

    Parameters
    ----------
    epsilon : float >= 0
    delta : float in (0, 1)

    Returns
    -------
    float, a release of sensitivity s then needs sigma >= s/mu

    Examples
    --------
    >>> round(gaussian_mu(0.1, 1e-5), 4)
    0.0325
    """
    return _largest_mu(float(non_negative(epsilon=epsilon)), float(probability(delta=delta)))


# A fit asks for the same mu a dozen times: for its plans, its forecast and its check of the budget.
@lru_cache(maxsize=1024)
def _largest_mu(epsilon: float, delta: float) -> float:
    log_target = math.log(delta)
    if epsilon == 0:
        return float(2 * _SQRT2 * erfinv(delta) * (1 - 1e-12))
    low = high = 1.0
    while _log_delta_of_one(epsilon, high) <= log_target:
        low, high = high, 2 * high
    while _log_delta_of_one(epsilon, low) > log_target:
        low, high = low / 2, low
    return _neighbours(low, high, lambda mu: log_target - _log_delta_of_one(epsilon, mu))[0]
