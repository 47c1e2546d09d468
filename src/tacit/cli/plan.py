"""`tacit plan`: which noise buys which epsilon, before any data is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tacit.cli import options
from tacit.cli.mechanisms import vote_mechanism
from tacit.cli.show import print_json, screen, table
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.ledger import Budget
    from tacit.mechanisms import Mechanism, Plan

AGREEMENTS = (0.6, 0.8, 0.95)
"""Shares of the teachers that agree, for which the chance of a right label is shown."""


def plan(
    queries: Annotated[int, typer.Option(help="How many public inputs are to be labelled.")],
    epsilon: Annotated[float, typer.Option(help="Worst-case epsilon to stay within.")],
    delta: Annotated[float, typer.Option(help="Delta to stay within.")],
    teachers: Annotated[int | None, typer.Option(help="How many teachers vote (pate).")] = None,
    method: Annotated[
        str, typer.Option(help="Who votes: teachers (pate) or private neighbours (knn).")
    ] = "pate",
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
    from tacit.methods import propose_votes, sigma_for

    budget = Budget(epsilon, delta)  # refuses what no ledger would take
    at_least(1, queries=queries)
    given = {"n_teachers": teachers, "k": k, "sampling_rate": sampling_rate}
    settings = _settings(method, given)
    if method != "pate":
        _refuse_given(method, mechanism=mechanism, plot=plot, reserve_delta=reserve_delta)
        if method == "knn":
            from tacit.cli.plan_knn import plan_neighbours

            plan_neighbours(queries, budget, classes, as_json=as_json, **settings)
        else:
            _plan_other(method, queries, budget, classes, as_json=as_json, **settings)
        return
    teachers = at_least(1, teachers=teachers)
    options.writable(plot, overwrite=overwrite)
    usable = delta - options.reserved(delta, reserve_delta)
    within = Budget(epsilon, usable)
    proposals = propose_votes(queries, within, classes, n_teachers=teachers)
    if mechanism is not None:
        proposals.append(_given(mechanism, queries, teachers, classes))
    trade_off = [
        {"queries": n, "sigma": sigma_for(n, within), "epsilon": epsilon}
        for n in sorted({max(1, queries // 4), max(1, queries // 2), queries, 2 * queries})
    ]
    if plot is not None:
        _plot(plot, queries, within)
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


OPTIONS = {"n_teachers": "teachers"}
"""Settings whose option has another name."""


def _settings(method: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the method's plan wants; refuse those of another instead."""
    from tacit._checks import one_of
    from tacit._registry import METHODS
    from tacit.methods import method_named

    known = [name for name in METHODS if method_named(name).propose is not None]
    wanted = method_named(one_of(*known, method=method)).proposes_with
    others = {OPTIONS.get(name, name): value for name, value in given.items() if name not in wanted}
    _refuse_given(method, **others)
    settings = {name: given[name] for name in wanted if given.get(name) is not None}
    if wanted and wanted[0] not in settings:
        needed = OPTIONS.get(wanted[0], wanted[0])
        raise InvalidArgument(f"Expected --{needed}, how many vote, with --method {method}.")
    return settings


def _refuse_given(method: str, **others: Any) -> None:
    """Refuse options of another method instead of ignoring them."""
    if strange := [name for name, value in others.items() if value is not None]:
        raise InvalidArgument(
            f"Expected no --{strange[0].replace('_', '-')} with --method {method}."
        )


def _plan_other(
    method: str, queries: int, budget: Budget, classes: int, *, as_json: bool, **settings: Any
) -> None:
    """Show the plans that a method proposes, and what each costs."""
    from tacit.methods import method_named

    propose: Any = method_named(method).propose
    proposals = propose(queries, budget, classes, **settings)
    if as_json:
        print_json({"proposals": [_plain(each, budget.delta) for each in proposals]})
        return
    title = f"Within epsilon {budget.epsilon:g} at delta {budget.delta:g}: {queries} queries"
    shown = table(title, "mechanism", "parameters", "epsilon")
    for each in proposals:
        price = each.price(budget.delta)
        shown.add_row(each.mechanism.name, _parameters(each), f"{price.epsilon:.4g}")
    screen().print(shown)


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


def _plot(path: Path, queries: int, budget: Budget) -> None:
    from tacit.methods import sigma_for
    from tacit.privacy import gaussian_epsilon
    from tacit.report import save_figure, trade_off_figure

    proposed = sigma_for(queries, budget)
    numbers = np.unique(np.geomspace(1, 4 * queries, 80).round())
    curves = {
        f"sigma {factor * proposed:.0f}": gaussian_epsilon(
            budget.delta, np.sqrt(2 * numbers) / (factor * proposed)
        )
        for factor in (0.5, 1.0, 2.0)
    }
    save_figure(trade_off_figure(numbers, curves, budget=budget.epsilon, delta=budget.delta), path)
