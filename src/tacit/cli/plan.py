"""`tacit plan`: which noise buys which epsilon, before any data is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit._registry import METHODS
from tacit.cli import options
from tacit.cli.evaluate import show_forecast
from tacit.cli.show import Result, print_table, screen
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.ledger import Budget
    from tacit.mechanisms import Mechanism, Plan

AGREEMENTS = (0.6, 0.8, 0.95)
"""Shares of the voters that agree, for which the chance of a right label is shown."""
RATES = (1.0, 0.5, 0.2, 0.05)
"""Sampling rates that are compared at equal reach."""
OPTIONS = {"n_teachers": "teachers"}
"""Settings whose option has another name."""


def plan(
    *,
    queries: int | None = None,
    epsilon: float,
    delta: float,
    teachers: int | None = None,
    method: str = "pate",
    k: int | None = None,
    sampling_rate: float | None = None,
    classes: int = 10,
    numbers: bool = False,
    calibration: float = 0.0,
    mechanism: str | None = None,
    reserve_delta: float | None = None,
    evaluate: bool = False,
    records: int | None = None,
    share: float | None = None,
    of: str | None = None,
    plot: Path | None = None,
    overwrite: bool = False,
) -> Result:
    """Propose noise for a budget, without any data, and show the trade-off.

    Example: tacit plan --teachers 250 --queries 640 --delta 1e-5 --epsilon 2

    Neighbours: tacit plan --method knn --k 300 --queries 100 --delta 1e-5 --epsilon 1

    Records that speak once: tacit plan --method ridge --records 5000 --delta 1e-5 --epsilon 1

    Evaluation: tacit plan --evaluate --records 2000 --share 0.3 --delta 1e-5 --epsilon 0.5

    queries: How many public inputs are to be labelled.
    epsilon: Worst-case epsilon to stay within.
    delta: Delta to stay within.
    teachers: How many teachers vote (pate).
    method: Who votes: teachers (pate) or private neighbours (knn); or prototype, moments, ridge,
        whose records speak once; dpsgd or mac, trained in noisy steps; segmentation; or auto, as
        for images and plain numbers.
    k: How many neighbours vote (knn).
    sampling_rate: Chance of a record to take part (knn); 1 by default.
    classes: How many classes.
    numbers: Plan for numbers instead of labels (moments, ridge, auto).
    calibration: Share of mu^2 that checks probabilities, such as 0.05 (every method of labels).
    mechanism: Price this one beside the proposals (pate): NAME:KEY=VALUE,... for example
        lnmax:gamma=0.05.
    evaluate: Say how wide the bands of tacit evaluate would be, instead.
    records: How many records, or people, are kept apart (evaluate), or there are in all, where
        that is public (prototype, moments, ridge, auto): for the forecast; dpsgd and mac need it.
    share: Of positives among them, as far as it is known publicly (evaluate).
    of: What is evaluated: labels (of two classes; the default), numbers, or masks, of as many
        classes as --classes says, background included.
    plot: Write a picture: .png, .svg or .pdf.
    """
    from tacit._checks import at_least, one_of
    from tacit.ledger import Budget
    from tacit.mechanisms import Plan
    from tacit.methods import method_named

    budget = Budget(epsilon, delta)  # refuses what no ledger would take
    if evaluate:
        return show_forecast(budget, records, share, of=of, classes=classes)
    options.refuse_given("a plan without --evaluate", share=share, of=of)
    if method_named(one_of(*METHODS, method=method)).outline is not None:
        voting = {"queries": queries, "teachers": teachers, "k": k, "sampling_rate": sampling_rate}
        unused = {"mechanism": mechanism, "plot": plot, "reserve_delta": reserve_delta}
        options.refuse_given(f"--method {method}", **voting, **unused)
        return _outline(method, budget, 0 if numbers else classes, records, calibration)
    options.refuse_given(f"--method {method}", records=records, numbers=numbers or None)
    if queries is None:
        raise InvalidArgument("Expected --queries, how many public inputs are to be labelled.")
    at_least(1, queries=queries)
    settings = _settings(method, {"n_teachers": teachers, "k": k, "sampling_rate": sampling_rate})
    if method == "pate":
        at_least(1, teachers=teachers)
        options.writable(plot, overwrite=overwrite)
        budget = Budget(epsilon, delta - options.reserved(delta, reserve_delta))
    else:
        unused = {"mechanism": mechanism, "plot": plot, "reserve_delta": reserve_delta}
        options.refuse_given(f"--method {method}", **unused)
    checks, propose = _checks(method, budget, calibration), method_named(method).propose
    assert propose is not None  # as `_settings` asked
    beside = {"beside": checks} if checks else {}  # part of what may be spent
    proposals: list[Plan] = propose(queries, budget, classes, **settings, **beside)
    if mechanism is not None:
        made = options.vote_mechanism(mechanism)
        proposals.append(Plan(made, queries, n_teachers=teachers, n_classes=classes))
    trade_off = _trade_off(method, queries, budget, classes, settings, checks)
    forecast = (method_named(method).forecast or _no_forecast)(proposals, classes, teachers or k)
    if plot is not None:
        _plot(plot, queries, budget)
    plain = {
        "proposals": _plain(proposals, budget),
        "check": _plain(checks, budget),
        "trade_off": trade_off,
        "forecast": str(forecast),
        "plot": None if plot is None else str(plot),
    }
    about = {"queries": queries, "classes": classes, **settings}
    named = [f"{OPTIONS.get(key, key).replace('_', ' ')} {about[key]:g}" for key in about]

    def shown() -> None:
        title = f"Within epsilon {epsilon:g} at delta {delta:g}: {', '.join(named)}"
        _show_proposals(title, proposals, budget.delta, method, teachers or k)
        _show_trade_off(method, trade_off, teachers)
        _show_checks(checks, budget)
        screen().print(f"Forecast. {forecast}", highlight=False, markup=False)
        if (price := proposals[-1].epsilon(budget.delta)) > epsilon:
            screen().print(f"[yellow]{mechanism} is beyond that budget: epsilon {price:.4g}.[/]")
        if plot is not None:
            screen().print(f"Picture: {plot}")

    return Result(plain, shown)


def _checks(method: str, budget: Budget, calibration: float) -> list[Plan]:
    """Return what checks probabilities, within the budget; a method without any refuses."""
    from tacit.methods import check_within, method_named, share_of_check

    if not share_of_check(calibration=calibration):
        return []
    if not method_named(method).takes("checks"):
        raise InvalidArgument(f"Expected no --calibration with --method {method}: it has none.")
    return [check_within(budget, calibration)]


def _show_checks(checks: list[Plan], budget: Budget) -> None:
    """Print what is released beside each proposal."""
    for check in checks:
        screen().print(
            f"Beside each: outcomes by score, for calibration, with noise {_noise_of(check):.4g} "
            f"on each count (epsilon {check.epsilon(budget.delta):.4g} by itself); together they "
            f"stay within epsilon {budget.epsilon:g}."
        )


def _plain(plans: list[Plan], budget: Budget) -> list[dict[str, Any]]:
    return [{**each.as_dict(), **each.price(budget.delta)._asdict()} for each in plans]


def _no_forecast(*_: object) -> str:
    """Say of a method without a forecast that it has none."""
    return "None: this method cannot tell beforehand from public numbers what it will learn."


def _outline(
    method: str, budget: Budget, classes: int, records: int | None, calibration: float
) -> Result:
    """Return what a method without queries releases, and what public numbers say of it."""
    from tacit._checks import at_least
    from tacit.methods import method_named, with_check
    from tacit.privacy import gaussian_mu

    if records is not None:
        at_least(1, records=records)
    found: Any = method_named(method)
    if not classes and found.regressor is None:
        raise InvalidArgument(f"Expected labels with --method {method}: it learns no numbers.")
    _checks(method, budget, calibration)  # refuses where there is none
    releases = with_check(found.outline(budget, classes, records), budget, calibration)
    forecast = found.forecast(budget, classes, records)
    squares = [plan.mu_squared() for _, plan in releases]
    whole = sum(square or 0.0 for square in squares)
    if None in squares:  # steps on samples have no mu^2: they have what the others leave
        whole = float(gaussian_mu(budget.epsilon, budget.delta)) ** 2
    left = whole - sum(square or 0.0 for square in squares)
    plain: list[dict[str, Any]] = [
        {"what": what, "sigma": _noise_of(plan), "share": (left if mu2 is None else mu2) / whole}
        for (what, plan), mu2 in zip(releases, squares, strict=True)
    ]
    rows = [(each["what"], f"{each['share']:.0%}", f"{each['sigma']:.4g}") for each in plain]
    title = f"Within epsilon {budget.epsilon:g} at delta {budget.delta:g}: {method}"

    def shown() -> None:
        print_table(title, ("release", "share of mu^2", "noise on what one record can add"), rows)
        screen().print(f"Forecast. {forecast}", highlight=False, markup=False)

    return Result({"releases": plain, "forecast": str(forecast)}, shown)


def _noise_of(plan: Plan) -> float:
    """Return the noise in units of what one record, or teacher, can add."""
    return float(getattr(plan.mechanism, plan.mechanism.noise_parameter))


def _settings(method: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the method's plan wants; refuse those of another instead."""
    from tacit._checks import one_of
    from tacit.methods import method_named

    known = [name for name in METHODS if method_named(name).propose is not None]
    wanted = method_named(one_of(*known, method=method)).proposes_with
    others = {OPTIONS.get(name, name): value for name, value in given.items() if name not in wanted}
    options.refuse_given(f"--method {method}", **others)
    settings = {name: given[name] for name in wanted if given.get(name) is not None}
    if wanted and wanted[0] not in settings:
        needed = OPTIONS.get(wanted[0], wanted[0])
        raise InvalidArgument(f"Expected --{needed}, how many vote, with --method {method}.")
    return settings


def _trade_off(
    method: str,
    queries: int,
    budget: Budget,
    classes: int,
    settings: dict[str, Any],
    checks: Sequence[Plan],
) -> list[dict[str, float]]:
    """Return what fewer and more queries, or other sampling rates, would need."""
    from tacit.methods import sigma_for

    if method == "knn":
        reach = settings["k"] / settings.get("sampling_rate", 1.0)
        return compare_rates(reach, queries, budget, classes, checks)
    numbers = {max(1, queries // 4), max(1, queries // 2), queries, 2 * queries}
    asked = sorted(numbers) if method == "pate" else []
    return [
        {"queries": n, "sigma": sigma_for(n, budget, checks), "epsilon": budget.epsilon}
        for n in asked
    ]


def compare_rates(
    reach: float, queries: int, budget: Budget, classes: int, checks: Sequence[Plan] = ()
) -> list[dict[str, float]]:
    """Return, for some rates, the k that looks as far out as `reach` records, and its noise.

    With k = rate times reach neighbours of a sample, an answer rests on the same part of the
    space. What counts is sigma/k: the noise against the votes.
    """
    from tacit.methods import Neighbourly, propose_class_plan

    rows = []
    for rate in RATES:
        if (k := round(reach * rate)) < 1:
            continue
        asked = Neighbourly(k, rate, 1, classes)
        plan = propose_class_plan("sampled-max", asked, queries, budget, checks)
        mechanism: Any = plan.mechanism
        sigma = mechanism.sigma
        rows.append({"sampling_rate": rate, "k": k, "sigma": sigma, "noise_of_k": sigma / k})
    return rows


def _chance_of_right_label(mechanism: Mechanism, voters: int, agreement: float) -> float:
    """Lower bound on the chance of the plurality's label if all others agree on one rival."""
    first = max(round(agreement * voters), voters - round(agreement * voters))
    return mechanism.reading().ahead(2 * first - voters)


def _show_proposals(
    title: str, proposals: list[Plan], delta: float, method: str, voters: int | None
) -> None:
    """Print what is proposed, and where somebody votes, how often the right label comes out."""
    shares = () if voters is None else AGREEMENTS
    columns = ("mechanism", "parameters", "epsilon", *(f"{share:.0%}" for share in shares))
    rows = []
    for each in proposals:
        chances = (_chance_of_right_label(each.mechanism, voters or 0, share) for share in shares)
        cells = (each.mechanism.name, _parameters(each, method), f"{each.epsilon(delta):.4g}")
        rows.append((*cells, *(f"{chance:.1%}" for chance in chances)))
    print_table(title, columns, rows)
    if voters is not None:
        who = "k neighbours" if method == "knn" else "teachers"
        screen().print(
            f"[dim]80%: the chance that the plurality's label comes out when 80 % of the {who} "
            "agree and all others name one rival.[/]"
        )


def _parameters(proposal: Plan, method: str) -> str:
    """Return options for `tacit aggregate`, one a line; for neighbours, the noise and the cap."""
    values = {**proposal.as_dict()["parameters"], "max_answers": proposal.max_answers}
    if method == "knn":
        names = ("sigma", "sigma_screen", "threshold", "max_answers")
        chosen = options.given(**{name: values.get(name) for name in names})
        return "\n".join(f"{name}={value:g}" for name, value in chosen.items())
    return "\n".join(
        f"--{key.replace('_', '-')} {value:g}" for key, value in values.items() if value
    )


def _show_trade_off(method: str, trade_off: list[dict[str, float]], teachers: Any) -> None:
    if not trade_off:
        return
    if method == "pate":
        title = "GNMax for more or fewer queries"
        columns = {"queries": ".0f", "sigma": ".1f", "of teachers": ".0%"}
        rows = [{**row, "of teachers": row["sigma"] / teachers} for row in trade_off]
    else:
        title = "Sampling at equal reach, k/rate records around a query"
        columns = {"sampling rate": "g", "k": ".0f", "sigma": ".4g", "noise of k": ".1%"}
        rows = [{key.replace("_", " "): row[key] for key in row} for row in trade_off]
    cells = [[format(row[name], form) for name, form in columns.items()] for row in rows]
    print_table(title, list(columns), cells)
    if method == "knn":
        least = min(trade_off, key=lambda row: row["noise_of_k"])
        screen().print(
            "[dim]Sampling hides who took part and pays with fewer votes: noise against votes, the "
            f"last column, is least at rate {least['sampling_rate']:g}.[/]"
        )


def _plot(path: Path, queries: int, budget: Budget) -> None:
    import numpy as np

    from tacit.methods import sigma_for
    from tacit.privacy import gaussian_epsilon
    from tacit.report import save_figure, trade_off_figure

    numbers = np.unique(np.geomspace(1, 4 * queries, 80).round())
    sigmas = [factor * sigma_for(queries, budget) for factor in (0.5, 1.0, 2.0)]
    curves = {
        f"sigma {sigma:.0f}": gaussian_epsilon(budget.delta, np.sqrt(2 * numbers) / sigma)
        for sigma in sigmas
    }
    save_figure(trade_off_figure(numbers, curves, budget=budget.epsilon, delta=budget.delta), path)
