"""The data owner's own analysis of a run: what it costs on its actual votes. All of it is secret.

Expected values, as in the paper's tables: an answer counts with its probability of being given, a
check with its data-independent cost. Nothing here may be published except through `Sanitise`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from tacit._checks import Floats, Integers, vote_matrix
from tacit.errors import InvalidArgument
from tacit.mechanisms import ConfidentGNMax, GNMax, Mechanism, Plan
from tacit.privacy import (
    RdpCurve,
    conversion_term,
    gaussian_rdp,
    gnmax_rdp,
    gnmax_rdp_total,
    gnmax_smooth_sensitivity,
    sanitise_cost,
)

ORDERS: Floats = np.concatenate(
    [np.arange(1.5, 10.1, 0.5), np.arange(11, 33), 2.0 ** np.arange(6, 10)]
)
"""Few orders, because a secret analysis needs no last digit."""


@dataclass(frozen=True, slots=True, repr=False)
class SecretAnalysis:
    """What a run costs on its votes; `repr` shows nothing of it."""

    delta: float
    worst_case_epsilon: float
    epsilon: float
    theorem6_epsilon: float
    order: float
    expected_answers: float
    smooth: float
    sanitised_epsilon: float
    per_query: Floats
    """RDP of each query at the best order, weighted by its chance of being answered."""
    cumulative: dict[str, Floats]
    """Epsilon after each query: tight, theorem6 and worst case."""

    def __repr__(self) -> str:
        return "SecretAnalysis(<secret>)"

    @property
    def shares(self) -> Floats:
        """Each query's share of the total cost at the best order."""
        total = float(self.per_query.sum())
        return self.per_query / total if total > 0 else np.zeros_like(self.per_query)

    @property
    def share_of_dearest_tenth(self) -> float:
        """How much of the cost the dearest tenth of the queries has."""
        tenth = max(1, len(self.per_query) // 10)
        return float(np.sort(self.shares)[-tenth:].sum())


def secret_analysis(mechanism: Mechanism, votes: Integers, delta: float) -> SecretAnalysis:
    """Price a GNMax or Confident-GNMax run on its actual votes. Secret."""
    counts = vote_matrix(votes)
    sigma, chance = _answer_noise(mechanism, counts)
    n_teachers, n_classes = int(counts[0].sum()), counts.shape[1]
    plan = Plan(mechanism, len(counts), n_teachers=n_teachers, n_classes=n_classes)
    checks = _check_curves(mechanism, n_teachers, n_classes)
    tight = chance[:, None] * gnmax_rdp(counts, sigma, ORDERS) + checks["tight"]
    paper = chance[:, None] * gnmax_rdp(counts, sigma, ORDERS, "theorem6") + checks["theorem6"]
    worst = np.tile(plan.cost(ORDERS).values / len(counts), (len(counts), 1))
    total = RdpCurve(ORDERS, tight).total()
    order = float(total.best_order(delta))
    smooth = gnmax_smooth_sensitivity(counts, sigma, order, 0.2 / order, weights=chance)
    return SecretAnalysis(
        delta=delta,
        worst_case_epsilon=plan.epsilon(delta),
        epsilon=float(total.epsilon(delta)),
        theorem6_epsilon=float(RdpCurve(ORDERS, paper).total().epsilon(delta, "classic")),
        order=order,
        expected_answers=float(chance.sum()),
        smooth=smooth,
        sanitised_epsilon=_sanitised(float(total.values[order == ORDERS][0]), smooth, order, delta),
        per_query=tight[:, int(np.argmax(order == ORDERS))],
        cumulative={
            "tight": _running(tight, delta, "improved"),
            "theorem6": _running(paper, delta, "classic"),
            "worst case": _running(worst, delta, "improved"),
        },
    )


def sigma_sweep(mechanism: Mechanism, votes: Integers, delta: float) -> dict[str, Floats]:
    """Epsilon against the noise of the answer: data-dependent (secret) and worst case."""
    counts = vote_matrix(votes)
    sigma, chance = _answer_noise(mechanism, counts)
    n_teachers, n_classes = int(counts[0].sum()), counts.shape[1]
    checks = _check_curves(mechanism, n_teachers, n_classes)["tight"] * len(counts)
    sigmas = sigma * np.geomspace(0.25, 4, 9)
    dependent, worst = [], []
    for noise in sigmas:
        answers = gnmax_rdp_total(counts, noise, ORDERS, weights=chance)
        dependent.append(RdpCurve(ORDERS, answers + checks).epsilon(delta))
        changed = _with_noise(mechanism, noise)
        plan = Plan(changed, len(counts), n_teachers=n_teachers, n_classes=n_classes)
        worst.append(plan.epsilon(delta))
    return {"sigma": sigmas, "data-dependent": np.array(dependent), "worst case": np.array(worst)}


def _answer_noise(mechanism: Mechanism, counts: Integers) -> tuple[float, Floats]:
    """Noise of the answer, and each query's chance of being answered."""
    if isinstance(mechanism, ConfidentGNMax):
        top = counts.max(axis=1)
        return mechanism.sigma_answer, ndtr((top - mechanism.threshold) / mechanism.sigma_check)
    if isinstance(mechanism, GNMax):
        return mechanism.sigma, np.ones(len(counts))
    raise InvalidArgument(
        f"Expected mechanism={mechanism.name!r} to be gnmax or confident-gnmax: "
        "the others have no data-dependent analysis here."
    )


def _with_noise(mechanism: Mechanism, sigma: float) -> Mechanism:
    if isinstance(mechanism, ConfidentGNMax):
        return ConfidentGNMax(mechanism.threshold, mechanism.sigma_check, sigma)
    return GNMax(sigma)


def _check_curves(mechanism: Mechanism, n_teachers: int, n_classes: int) -> dict[str, Floats]:
    """Data-independent cost of one check: exact, and as the paper prices it."""
    if not isinstance(mechanism, ConfidentGNMax):
        return {"tight": np.zeros(ORDERS.size), "theorem6": np.zeros(ORDERS.size)}
    exact = mechanism.check.cost(ORDERS, n_teachers=n_teachers, n_classes=n_classes).values
    return {"tight": exact, "theorem6": gaussian_rdp(mechanism.sigma_check, ORDERS)}


def _sanitised(rdp: float, smooth: float, order: float, delta: float) -> float:
    """About what `tacit sanitise` would say with its defaults (the noise at its mean)."""
    price = sanitise_cost(order, 0.2 / order, 6.0, 1.0 / order, delta / 20, delta / 20)
    scale = smooth * float(np.exp(price.scale_quantile / order))
    conversion = float(conversion_term(np.array([order]), 0.9 * delta)[0])
    return rdp + price.value_quantile * 6.0 * scale + price.rdp + conversion


def _running(costs: Floats, delta: float, conversion: str) -> Floats:
    """Epsilon after each query."""
    return np.asarray(RdpCurve(ORDERS, np.cumsum(costs, axis=0)).epsilon(delta, conversion))
