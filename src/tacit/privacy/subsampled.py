"""Gaussian noise on a Poisson sample of the records: amplification by sampling.

Proof: docs/theory/subsampling.md#the-gaussian-on-a-poisson-sample.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp

from tacit._checks import Floats, order_array, positive, sampling_rate
from tacit.privacy.gaussian import gaussian_rdp
from tacit.privacy.mixtures import log_excess

_REACH = 40.0  # standard deviations beyond which the integrand is below 1e-300
_MOST_MU = 30.0  # beyond, quadrature needs too many nodes and a real order is rounded up
_ORDERS_AT_ONCE = 16
_SMALL = 512.0
_Rule = Callable[[float, float, Floats], Floats]


def poisson_gaussian_rdp(rate: float, noise_multiplier: float, orders: ArrayLike) -> Floats:
    """RDP of the Poisson-subsampled Gaussian, add or remove one record, any real order > 1.

    D_a((1-rate) N(0,1) + rate N(mu,1) || N(0,1)), mu = 1/noise_multiplier: the larger of the two
    directions (Mironov, Talwar, Zhang 2019). Integer orders by the binomial sum, others by
    quadrature of a positive integrand, so that nothing cancels; dp-accounting is loose or infinite
    for fractional orders below 3. Where noise_multiplier < 1/30, a real order is rounded up.

    >>> float(f"{poisson_gaussian_rdp(0.05, 5 / 2**0.5, [8])[0]:.10g}")
    0.0008536918171
    """
    rate = sampling_rate(rate=rate)
    orders = order_array(orders)
    if rate == 1.0:
        return gaussian_rdp(noise_multiplier, orders)
    mu = 1 / positive(noise_multiplier=noise_multiplier)
    if mu > _MOST_MU:
        return np.minimum(
            _by_blocks(_integer_orders, rate, mu, np.ceil(orders)),
            gaussian_rdp(noise_multiplier, orders),
        )
    whole = orders == np.floor(orders)
    result = np.empty(orders.size)
    result[whole] = _by_blocks(_integer_orders, rate, mu, orders[whole])
    result[~whole] = _by_blocks(_real_orders, rate, mu, orders[~whole])
    return result


def _by_blocks(rule: _Rule, rate: float, mu: float, orders: Floats) -> Floats:
    """Compute small orders several at a time; a large one has enough terms of its own."""
    result = np.empty(orders.size)
    rising = np.argsort(orders)
    small = int(np.searchsorted(orders[rising], _SMALL / max(mu, 1.0)))
    starts = [*range(0, small, _ORDERS_AT_ONCE), *range(small, orders.size), orders.size]
    for start, end in itertools.pairwise(starts):
        block = rising[start:end]
        result[block] = rule(rate, mu, orders[block])
    return result


def _integer_orders(rate: float, mu: float, orders: Floats) -> Floats:
    """log1p( sum_{j=2}^a C(a,j) (1-rate)^(a-j) rate^j expm1(j(j-1)mu^2/2) ) / (a-1)."""
    a = orders[:, None].astype(np.int64)
    j = np.arange(2, a.max() + 1)
    log_factorial = gammaln(np.arange(a.max() + 1) + 1.0)
    log_binomial = log_factorial[a] - log_factorial[j] - log_factorial[np.maximum(a - j, 0)]
    with np.errstate(over="ignore", divide="ignore"):  # too large is inf, too small is 0
        exponent = j * (j - 1) / 2 * mu * mu
        log_growth = np.where(exponent > 30, exponent, np.log(np.expm1(np.minimum(exponent, 31))))
    logs = log_binomial + (a - j) * math.log1p(-rate) + j * math.log(rate) + log_growth
    total = logsumexp(np.where(j <= a, logs, -np.inf), axis=1)
    return np.asarray(np.logaddexp(0.0, total) / (orders - 1))


def _real_orders(rate: float, mu: float, orders: Floats) -> Floats:
    """log1p( E[ r^a - 1 - a t ] ) / (a-1), x ~ N(0,1), r = 1 + t, t = rate expm1(mu x - mu^2/2).

    E[r] = 1, so the subtracted terms change nothing but make the integrand positive. It is
    analytic in a strip of half-width pi/mu, so the trapezoid rule converges geometrically.
    """
    step = min(0.2, 2 * math.pi * 0.9 * (math.pi / mu) / 45)  # error about e^-45
    x = np.arange(-_REACH, _REACH + orders.max() * mu + step, step)
    exponent = mu * x - mu**2 / 2
    log_r = np.where(
        exponent > 30,
        np.logaddexp(math.log1p(-rate), math.log(rate) + exponent),
        np.log1p(rate * np.expm1(np.minimum(exponent, 31))),
    )
    with np.errstate(over="ignore"):
        t = rate * np.expm1(exponent)  # read only where it is small
    log_density = -x * x / 2 - 0.5 * math.log(2 * math.pi) + math.log(step)
    logs = logsumexp(log_excess(orders[:, None], log_r, t) + log_density, axis=1)
    return np.asarray(np.logaddexp(0.0, logs) / (orders - 1))
