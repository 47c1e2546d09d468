"""`tacit plan`: which noise buys which epsilon, before any data is looked at."""

from __future__ import annotations

import enum
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tacit.cli import options
from tacit.cli.mechanisms import vote_mechanism
from tacit.cli.show import print_json, screen, table
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.mechanisms import Mechanism, Plan

AGREEMENTS = (0.6, 0.8, 0.95)
"""Shares of the teachers that agree, for which the chance of a right label is shown."""


class Method(enum.StrEnum):
    """Who answers."""

    PATE = "pate"
    KNN = "knn"


def plan(
    queries: Annotated[int, typer.Option(help="How many public inputs are to be labelled.")],
    epsilon: Annotated[float, typer.Option(help="Worst-case epsilon to stay within.")],
    delta: Annotated[float, typer.Option(help="Delta to stay within.")],
    teachers: Annotated[int | None, typer.Option(help="How many teachers vote (pate).")] = None,
    method: Annotated[
        Method, typer.Option(help="Who votes: teachers (pate) or private neighbours (knn).")
    ] = Method.PATE,
    k: Annotated[int | None, typer.Option("--k", help="How many neighbours vote (knn).")] = None,
    sampling_rate: Annotated[
        float | None, typer.Option(help="Chance of a record to take part (knn); 1 by default.")
    ] = None,
    classes: Annotated[int, typer.Option(help="How many classes.")] = 10,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="Price this one beside the proposals (pate): NAME:KEY=VALUE,... for example "
            "lnmax:gamma=0.05."
        ),
    ] = None,
    reserve_delta: options.ReserveDelta = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture: .png, .svg or .pdf.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing picture.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Propose noise for a budget, without any data, and show the trade-off.

    Example: tacit plan --teachers 250 --queries 640 --delta 1e-5 --epsilon 2

    Neighbours: tacit plan --method knn --k 300 --queries 100 --delta 1e-5 --epsilon 1
    """
    from tacit._checks import at_least
    from tacit.ledger import Budget

    Budget(epsilon, delta)  # refuses what no ledger would take
    at_least(1, queries=queries)
    _only(
        method,
        pate={
            "teachers": teachers,
            "mechanism": mechanism,
            "plot": plot,
            "reserve_delta": reserve_delta,
        },
    )
    _only(method, knn={"k": k, "sampling_rate": sampling_rate})
    if teachers is None and k is None:
        needed = "--teachers" if method is Method.PATE else "--k"
        raise InvalidArgument(f"Expected {needed}, how many vote, with --method {method.value}.")
    if method is Method.KNN:
        from tacit.cli.plan_knn import plan_neighbours

        rate = 1.0 if sampling_rate is None else sampling_rate
        plan_neighbours(k, rate, queries, Budget(epsilon, delta), classes, as_json=as_json)
        return
    teachers = at_least(1, teachers=teachers)
    options.writable(plot, overwrite=overwrite)
    usable = delta - options.reserved(delta, reserve_delta)
    proposals = propose(teachers, queries, epsilon, usable, classes)
    if mechanism is not None:
        proposals.append(_given(mechanism, queries, teachers, classes))
    trade_off = [
        {"queries": n, "sigma": sigma_for(n, epsilon, usable), "epsilon": epsilon}
        for n in sorted({max(1, queries // 4), max(1, queries // 2), queries, 2 * queries})
    ]
    if plot is not None:
        _plot(plot, queries, epsilon, usable)
    if as_json:
        print_json(
            {
                "proposals": [_plain(proposal, usable) for proposal in proposals],
                "trade_off": trade_off,
                "plot": None if plot is None else str(plot),
            }
        )
        return
    title = f"Within epsilon {epsilon:g} at delta {delta:g}: {teachers} teachers, {classes} classes"
    _show(title, proposals, trade_off, teachers, usable)
    if (price := proposals[-1].price(usable).epsilon) > epsilon:
        screen().print(f"[yellow]{mechanism} is beyond that budget: epsilon {price:.4g}.[/]")
    if plot is not None:
        screen().print(f"Picture: {plot}")


def _given(text: str, queries: int, teachers: int, classes: int) -> Plan:
    from tacit.mechanisms import Plan

    return Plan(vote_mechanism(text), queries, n_teachers=teachers, n_classes=classes)


def _only(method: Method, **options: dict[str, Any]) -> None:
    """Refuse options of the other method, named by the keyword, instead of ignoring them."""
    ((owner, given),) = options.items()
    strange = [name for name, value in given.items() if value is not None]
    if strange and method != owner:
        raise InvalidArgument(
            f"Expected no --{strange[0].replace('_', '-')} with --method {method.value}."
        )


def sigma_for(queries: int, epsilon: float, delta: float) -> float:
    """Noise with which so many GNMax answers cost exactly epsilon: sensitivity sqrt(2 queries)."""
    from tacit.privacy import calibrate_gaussian

    return rounded_up(calibrate_gaussian(math.sqrt(2 * queries), epsilon, delta))


def rounded_up(sigma: float) -> float:
    """Return noise with four digits, never less: typed as printed, it stays within the budget.

    >>> rounded_up(71.33219), rounded_up(0.0123411)
    (71.34, 0.01235)
    """
    unit = 10.0 ** (math.floor(math.log10(sigma)) - 3)
    return float(f"{math.ceil(sigma / unit) * unit:.4g}")


def propose(teachers: int, queries: int, epsilon: float, delta: float, classes: int) -> list[Plan]:
    """Return plans that spend the budget: GNMax, NoisyVotes, and Confident-GNMax with a cap.

    Confident-GNMax spends a tenth of mu^2 on its checks, asks for 60 % of the teachers, and answers
    at most half of the queries.
    """
    from tacit.mechanisms import ConfidentGNMax, GNMax, NoisyVotes, Plan
    from tacit.privacy import gaussian_mu

    sigma = sigma_for(queries, epsilon, delta)
    mu_squared = gaussian_mu(epsilon, delta) ** 2 * (1 - 1e-9)
    if mu_squared <= 0:
        raise InvalidArgument(f"Expected epsilon={epsilon} and delta={delta} to allow any release.")
    cap = math.ceil(queries / 2)
    confident = ConfidentGNMax(
        threshold=round(0.6 * teachers),
        sigma_check=rounded_up(math.sqrt(queries / (0.1 * mu_squared))),
        sigma_answer=rounded_up(math.sqrt(2 * cap / (0.9 * mu_squared))),
    )
    public = {"n_teachers": teachers, "n_classes": classes}
    return [
        Plan(GNMax(sigma), queries, **public),
        Plan(NoisyVotes(sigma), queries, **public),
        Plan(confident, queries, max_answers=cap, **public),
    ]


def chance_of_right_label(mechanism: Mechanism, teachers: int, agreement: float) -> float:
    """Lower bound on the chance of the plurality's label if all others agree on one rival."""
    first = max(round(agreement * teachers), teachers - round(agreement * teachers))
    return mechanism.reading().ahead(2 * first - teachers)


def _plain(proposal: Plan, delta: float) -> dict[str, Any]:
    price = proposal.price(delta)
    return {**proposal.as_dict(), "epsilon": price.epsilon, "accountant": price.accountant}


def _show(
    title: str,
    proposals: list[Plan],
    trade_off: list[dict[str, float]],
    teachers: int,
    delta: float,
) -> None:
    columns = [f"{share:.0%}" for share in AGREEMENTS]
    shown = table(title, "mechanism", "parameters", "epsilon", *columns)
    for proposal in proposals:
        price = proposal.price(delta)
        chances = [
            f"{chance_of_right_label(proposal.mechanism, teachers, share):.1%}"
            for share in AGREEMENTS
        ]
        name = proposal.mechanism.name
        shown.add_row(name, _parameters(proposal), f"{price.epsilon:.4g}", *chances)
    screen().print(shown)
    screen().print(
        "[dim]80%: the chance that the plurality's label comes out when 80 % of the teachers agree "
        "and all others name one rival.[/]"
    )
    other = table("GNMax for more or fewer queries", "queries", "sigma", "of teachers")
    for row in trade_off:
        other.add_row(
            f"{row['queries']:.0f}", f"{row['sigma']:.1f}", f"{row['sigma'] / teachers:.0%}"
        )
    screen().print(other)


def _parameters(proposal: Plan) -> str:
    """Return options for `tacit aggregate`, one a line."""
    values = {**proposal.as_dict()["parameters"], "max_answers": proposal.max_answers}
    return "\n".join(
        f"--{key.replace('_', '-')} {value:g}" for key, value in values.items() if value
    )


def _plot(path: Path, queries: int, epsilon: float, delta: float) -> None:
    from tacit.privacy import gaussian_epsilon
    from tacit.report import save_figure, trade_off_figure

    proposed = sigma_for(queries, epsilon, delta)
    numbers = np.unique(np.geomspace(1, 4 * queries, 80).round())
    curves = {
        f"sigma {factor * proposed:.0f}": gaussian_epsilon(
            delta, np.sqrt(2 * numbers) / (factor * proposed)
        )
        for factor in (0.5, 1.0, 2.0)
    }
    save_figure(trade_off_figure(numbers, curves, budget=epsilon, delta=delta), path)
