"""How the number was computed, in sentences and formulas that somebody can check by hand.

One explanation for each accountant of the ledger (docs/theory/ledger.md), and one for the
sanitised statement (docs/theory/smooth-sensitivity.md#the-ex-post-statement), each with the numbers
of this ledger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.ledger.statement import _rounded_up as rounded_up
from tacit.report.snapshot import Snapshot

THEORY = "docs/theory.md"
"""The page of the documentation that derives every formula."""

CURRENCY = {"gaussian": "mu²", "rdp": "RDP", "fixed": "epsilon"}
"""In what each accountant counts."""

_MANY = 6


@dataclass(frozen=True, slots=True)
class Explanation:
    """A few sentences, the formulas they speak of, and where to read more."""

    text: str
    formulas: tuple[str, ...]
    read_more: str


def explain(shot: Snapshot) -> tuple[Explanation, ...]:
    """Return the explanations that the numbers of this ledger need."""
    by_accountant = {"gaussian": _gaussian, "rdp": _rdp, "fixed": _fixed}
    explanations = [by_accountant[shot.terms.accountant](shot)]
    if any(_sampled(entry.plan) for entry in shot.entries):
        explanations.append(_sampling())
    if shot.statement.kind == "sanitised":
        explanations.append(_sanitised(shot))
    return tuple(explanations)


def _sampled(plan: Mapping[str, Any]) -> bool:
    """Whether a plan draws a Poisson sample of the records for each query."""
    return bool(plan.get("parameters", {}).get("sampling_rate", 1.0) < 1.0)


def _gaussian(shot: Snapshot) -> Explanation:
    total, delta = shot.total, shot.terms.delta
    return Explanation(
        "Every release adds Gaussian noise. Its cost is mu², the square of its sensitivity over "
        "its noise, in the worst case over all data: 2/sigma² for a noisy plurality, 1/sigma² for "
        "a noisy check. These costs add exactly, even when a release is chosen in the light of "
        "earlier ones, and the total has the exact privacy curve of one Gaussian. Epsilon is read "
        f"from that curve {_at_delta(shot)}, and rounded up.",
        _filled_in(
            shot,
            f"mu² = {_sum(shot)},   mu = {math.sqrt(total):.6g}",
            "delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)",
            f"delta({_epsilon(shot)}) <= {delta:.6g}",
        ),
        f"{THEORY}: exact composition of Gaussian noise",
    )


def _rdp(shot: Snapshot) -> Explanation:
    order = shot.terms.order
    return Explanation(
        f"The cost of a release is its Renyi divergence at the order a = {order:g}, in the worst "
        "case over all data. The order was fixed when the ledger was created; costs at one fixed "
        "order add, even when a release is chosen in the light of earlier ones. The total is "
        f"converted to epsilon {_at_delta(shot)} by the improved conversion of Canonne, Kamath "
        "and Steinke (2020), and rounded up.",
        _filled_in(
            shot,
            f"rdp = {_sum(shot)}",
            "epsilon = max(0, rdp + log(1 - 1/a) - (log delta + log a)/(a - 1))",
            f"epsilon = {_epsilon(shot)}   at   delta = {shot.terms.delta:.6g}",
        ),
        f"{THEORY}: Renyi differential privacy and the improved conversion",
    )


_TIGHTEST = {
    "gaussian": "exact composition of Gaussian noise (the mu² add)",
    "rdp": "Renyi differential privacy with the improved conversion, at the best order",
    "pld": "the privacy loss distribution of the whole list",
}


def _fixed(shot: Snapshot) -> Explanation:
    count = len(shot.terms.plans)
    bound = _TIGHTEST.get(shot.worst.accountant, shot.worst.accountant)
    return Explanation(
        f"This ledger was opened for one list of {count} plan{'' if count == 1 else 's'}, in one "
        "order, fixed before anything was released. The list was priced as a whole, in the worst "
        f"case over all data and {_at_delta(shot)}, by each valid bound; the smallest epsilon is "
        f"that of {bound}. The first release pays for the whole list, so stopping early or reading "
        "the early releases changes nothing.",
        (f"epsilon = {_price(shot)} = min over the bounds, each for the whole list",),
        f"{THEORY}: worst-case accounting of a fixed list",
    )


def _sampling() -> Explanation:
    return Explanation(
        "Some releases look at a sample only: for each query, and for each step of it, every unit "
        "takes part with the sampling rate g, by a coin of its own that nobody sees. A unit that "
        "may not be in the sample is harder to find: its release is the mixture of what the others "
        "give without it and with it, and the cost is the Renyi divergence of that mixture, in the "
        "worst case over all data and in both directions.",
        (
            "rdp = max(D_a((1-g) P + g Q || P), D_a(P || (1-g) P + g Q))",
            "Gaussian noise: P = N(0, 1), Q = N(mu, 1);   check: P, Q the bits at t, t' in 0..k",
        ),
        f"{THEORY}: amplification by sampling",
    )


def _sanitised(shot: Snapshot) -> Explanation:
    return Explanation(
        "The sanitised number says what this very run cost, and is itself a private release: the "
        "data-dependent cost at one order, fixed without looking at the data, was published with "
        "noise scaled to its smooth sensitivity, which was published with noise as well. Both "
        "were charged to the ledger, like any release. From what was published follows an upper "
        "bound on the true cost, which fails with no more than the reserved delta. The guarantee "
        "is ex post: epsilon is a function of what was published, not a number fixed in advance. "
        "The worst case, which holds for any data, stands beside it at the same delta.",
        (
            "Pr[M(D) in S] <= integral over S of exp(epsilon(y)) dM(D')(y) + delta",
            "epsilon(y) = upper bound of the cost + worst-case cost of what it does not cover"
            " + log(1 - 1/a) - (log(delta - reserved) + log a)/(a - 1)",
        ),
        f"{THEORY}: smooth sensitivity and the sanitised statement",
    )


def _filled_in(shot: Snapshot, total: str, formula: str, result: str) -> tuple[str, ...]:
    """Return the formula with this ledger's numbers around it, once there are any."""
    return (total, formula, result) if shot.entries else (formula,)


def _sum(shot: Snapshot) -> str:
    costs = [f"{entry.cost:.6g}" for entry in shot.entries]
    if len(costs) > _MANY:
        costs = [*costs[:2], "…", costs[-1]]
    total = f"{shot.total:.6g}"
    return f"{' + '.join(costs)} = {total}" if len(costs) > 1 else total


def _epsilon(shot: Snapshot) -> str:
    return rounded_up(shot.worst.epsilon)


def _price(shot: Snapshot) -> str:
    """Return the price of a fixed list, paid or not."""
    price = shot.terms.price
    return rounded_up(shot.worst.epsilon if price is None else price.epsilon)


def _at_delta(shot: Snapshot) -> str:
    terms = shot.terms
    if not terms.reserved_delta:
        return f"at delta = {terms.delta!r}"
    return (
        f"at delta = {terms.delta:.6g}, which is the budget's {terms.budget.delta!r} less the "
        f"{terms.reserved_delta!r} reserved for confidence bounds"
    )
