"""Two filters that tacit does not use would give more delta away than they promise."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtr

from tacit.privacy import gaussian_delta, gaussian_epsilon, gaussian_mu


def hockey(eps, mu):
    """`gaussian_delta` for any real eps."""
    return ndtr(mu / 2 - eps / mu) - np.exp(eps + log_ndtr(-mu / 2 - eps / mu))


def density(loss, mu):
    """The density of the loss of a Gaussian release."""
    return np.exp(-((loss - mu**2 / 2) ** 2) / (2 * mu**2)) / (mu * math.sqrt(2 * math.pi))


def test_mu_and_confidence_that_trade_use_delta_twice():
    """docs/theory/ledger.md#confidence-deltas-and-why-the-reserve-is-fixed-at-creation."""
    for delta, share, cut, used in ((1e-5, 0.6, 0.4, 1.937), (1e-9, 0.7, 0.45, 1.997)):
        whole = gaussian_mu(1.0, delta)
        first, rest = math.sqrt(share) * whole, math.sqrt(1 - share) * whole
        loss = np.linspace(cut, first**2 / 2 + 40 * first, 100_001)
        above = np.trapezoid(density(loss, first) * hockey(1.0 - loss, rest), loss)
        below = ndtr((cut - first**2 / 2) / first) * (delta - gaussian_delta(1.0, first))
        assert round(float(above + below) / delta, 3) == used


def test_what_was_spent_under_mu_is_no_bound_after_the_fact():
    """docs/theory/ledger.md#what-spent-means: stop after one release if its loss was large."""
    delta, mu = 1e-5, 0.3
    once, twice = gaussian_epsilon(delta, mu), gaussian_epsilon(delta, math.sqrt(2) * mu)
    loss = np.linspace(mu**2 / 2 - 40 * mu, once, 100_001)
    going_on = np.trapezoid(density(loss, mu) * hockey(twice - loss, mu), loss)
    assert round(float(hockey(once, mu) + going_on) / delta, 2) == 1.83
