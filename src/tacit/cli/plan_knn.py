"""`tacit plan --method knn`: noise for private neighbours, before any data is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.cli.plan import AGREEMENTS, chance_of_right_label
from tacit.cli.show import print_json, screen, table

if TYPE_CHECKING:
    from tacit.ledger import Budget
    from tacit.mechanisms import Plan

RATES = (1.0, 0.5, 0.2, 0.05)
"""Sampling rates that are compared at equal reach."""


def plan_neighbours(
    queries: int,
    budget: Budget,
    classes: int,
    *,
    as_json: bool,
    k: int,
    sampling_rate: float = 1.0,
) -> None:
    """Show proposals and what sampling buys."""
    from tacit.methods import propose_neighbours

    rate = sampling_rate
    proposals = propose_neighbours(queries, budget, classes, k=k, sampling_rate=rate)
    trade_off = compare_rates(proposals[0].mechanism.k / rate, queries, budget, classes)  # type: ignore[attr-defined]
    if as_json:
        plain = [{**each.as_dict(), "epsilon": each.epsilon(budget.delta)} for each in proposals]
        print_json({"proposals": plain, "trade_off": trade_off})
        return
    _show_proposals(proposals, budget)
    _show_rates(trade_off)


def compare_rates(
    reach: float, queries: int, budget: Budget, classes: int
) -> list[dict[str, float]]:
    """Return, for some rates, the k that looks as far out as `reach` records, and its noise.

    With k = rate times reach neighbours of a sample, an answer rests on the same part of the
    space. What counts is sigma/k: the noise against the votes.
    """
    from tacit.methods import Neighbourly, plan_classes, rounded_up

    rows = []
    for rate in RATES:
        voters = round(reach * rate)
        if voters < 1:
            continue
        asked = Neighbourly(voters, rate, 1, classes)
        mechanism: Any = plan_classes("sampled-max", asked, queries, budget, listed=True).mechanism
        sigma = rounded_up(mechanism.sigma)
        rows.append(
            {"sampling_rate": rate, "k": voters, "sigma": sigma, "noise_of_k": sigma / voters}
        )
    return rows


def _show_proposals(proposals: list[Plan], budget: Budget) -> None:
    first: Any = proposals[0].mechanism
    title = (
        f"Within epsilon {budget.epsilon:g} at delta {budget.delta:g}: {proposals[0].queries} "
        f"queries, k {first.k}, sampling rate {first.sampling_rate:g}"
    )
    shares = [f"{share:.0%}" for share in AGREEMENTS]
    shown = table(title, "mechanism", "parameters", "epsilon", *shares)
    for plan in proposals:
        chances = [
            f"{chance_of_right_label(plan.mechanism, first.k, share):.1%}" for share in AGREEMENTS
        ]
        shown.add_row(
            plan.mechanism.name, _parameters(plan), f"{plan.epsilon(budget.delta):.4g}", *chances
        )
    screen().print(shown)
    screen().print(
        "[dim]80%: the chance that the plurality's label comes out when 80 % of the k neighbours "
        "agree and all others name one rival.[/]"
    )


def _parameters(plan: Plan) -> str:
    names = ("sigma", "sigma_screen", "threshold")
    values = {name: getattr(plan.mechanism, name, None) for name in names}
    values["max_answers"] = plan.max_answers
    return "\n".join(f"{name}={value:g}" for name, value in values.items() if value is not None)


def _show_rates(trade_off: list[dict[str, float]]) -> None:
    shown = table(
        "Sampling at equal reach, k/rate records around a query",
        "sampling rate",
        "k",
        "sigma",
        "sigma of k",
    )
    for row in trade_off:
        shown.add_row(
            f"{row['sampling_rate']:g}",
            f"{row['k']:.0f}",
            f"{row['sigma']:.4g}",
            f"{row['noise_of_k']:.1%}",
        )
    screen().print(shown)
    least = min(trade_off, key=lambda row: row["noise_of_k"])
    screen().print(
        "[dim]Sampling hides who took part and pays with fewer votes: noise against votes, the "
        f"last column, is least at rate {least['sampling_rate']:g}.[/]"
    )
