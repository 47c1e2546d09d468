"""What a sanitised statement guarantees, on toys small enough to integrate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ledger_shared import conversion
from sanitised_shared import BETA, sanitiser
from scipy import stats

from tacit.mechanisms import GNMax, secret_cost_of
from tacit.noise import InsecureNoise


@pytest.mark.parametrize("seed", range(2))
def test_the_statement_covers_the_true_cost(tmp_path, seed):
    """delta_value + delta_scale = 0.1: in no more runs may epsilon be below the truth."""
    votes = np.array([[30, 12, 8], [44, 3, 3]])
    runs, below = 400, 0
    reserve = 0.1
    made = sanitiser("c" * 64, delta_value=reserve / 2, delta_scale=reserve / 2, order=4.0)
    secret = secret_cost_of(GNMax(9.0), votes, [0, 0], 4.0, BETA)
    for run in range(runs):
        released = made.release(secret, InsecureNoise(1000 * seed + run))
        below += made.read(np.asarray(released)).upper_bound < secret.value
    assert stats.binom.sf(below - 1, runs, reserve) > 1e-6
    assert below > 0  # the bound is a quantile, not a multiple of it


TOY_DELTA, TOY_CONFIDENCE = 1e-3, 0.01


def toy_excess(first, second, *, pay_for_sanitising=True):
    """max(0, 1 - e^(eps_hat - loss)) of transcripts of M(first): its mean is the worst excess.

    One GNMax answer and its sanitised cost. The loss against M(second) is known, for the laws of
    the label and of the noise are known.
    """
    made = sanitiser(
        "c" * 64,
        order=6.0,
        beta=0.3,
        sigma=0.5,
        sigma_log=0.15,
        delta_value=TOY_CONFIDENCE,
        delta_scale=TOY_CONFIDENCE,
    )
    draws, sigma = 100_000, 2.0
    chances = [stats.norm.cdf((v[0] - v[1]) / (math.sqrt(2) * sigma)) for v in (first, second)]
    secrets = [
        secret_cost_of(GNMax(sigma), [v], [0], made.order, made.beta) for v in (first, second)
    ]
    zero = np.random.default_rng(7).random(draws) < chances[0]
    pairs = made._draw(secrets[0], InsecureNoise(8), draws)
    of_label = np.where(zero, chances[0] / chances[1], (1 - chances[0]) / (1 - chances[1]))
    loss = np.log(of_label) + log_density(made, secrets[0], pairs)
    loss -= log_density(made, secrets[1], pairs)
    quantile = stats.norm.isf(TOY_CONFIDENCE)
    scale = np.exp(pairs[:, 0] + quantile * made.sigma_log)
    bound = np.maximum(pairs[:, 1] + quantile * made.sigma * scale, 0.0)
    own = made.order / 2 * made.gaussian_cost() if pay_for_sanitising else 0.0
    claimed = np.maximum(bound + own + conversion(made.order, TOY_DELTA), 0.0)
    return -np.expm1(np.minimum(claimed - loss, 0.0))


@pytest.mark.parametrize("pair", [((4, 2), (5, 1)), ((5, 1), (4, 2)), ((3, 3), (4, 2))])
def test_ex_post_guarantee_on_a_toy(pair):
    """Pr[M(D) in S] <= integral over S of e^eps_hat dM(D') + delta + d1 + d2, for the worst S.

    The worst S collects the transcripts whose loss exceeds eps_hat. A statement that forgets what
    sanitising itself cost breaks the guarantee, and this finds it.
    """
    allowed = TOY_DELTA + 2 * TOY_CONFIDENCE
    excess = toy_excess(*pair)
    assert excess.mean() + 6 * excess.std() / math.sqrt(len(excess)) <= allowed
    forgetful = toy_excess(*pair, pay_for_sanitising=False)
    assert forgetful.mean() - 6 * forgetful.std() / math.sqrt(len(forgetful)) > allowed


def log_density(made, secret, pairs):
    """Of the released pair, up to terms that both inputs share; grids are too fine to matter."""
    log_scale, value = pairs.T
    first = (log_scale - math.log(secret.smooth)) / made.sigma_log
    scale = np.exp(log_scale + stats.norm.isf(made.delta_scale) * made.sigma_log)
    second = (value - secret.value) / (made.sigma * scale)
    return -(first**2) / 2 - second**2 / 2
