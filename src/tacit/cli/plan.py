"""`tacit plan`: which noise buys which epsilon, before any data is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


def pate(
    *,
    teachers: int,
    queries: int,
    epsilon: float,
    delta: float,
    classes: int = 10,
    calibration: float = 0.0,
    mechanism: str | None = None,
    reserve_delta: float | None = None,
    plot: Path | None = None,
    overwrite: bool = False,
) -> Result:
    """Propose noise for the votes of teachers, and show the trade-off.

    Example: tacit plan pate --teachers 250 --queries 640 --delta 1e-5 --epsilon 2

    teachers: How many teachers vote.
    queries: How many public inputs are to be labelled.
    epsilon: Worst-case epsilon to stay within.
    delta: Delta to stay within.
    classes: How many classes.
    calibration: Share of mu^2 that checks probabilities, such as 0.05.
    mechanism: Price this one beside the proposals: NAME:KEY=VALUE,... such as lnmax:gamma=0.05.
    plot: Write a picture: .png, .svg or .pdf.
    """
    from tacit._checks import at_least
    from tacit.ledger import Budget
    from tacit.mechanisms import Plan

    at_least(1, queries=queries)
    at_least(1, teachers=teachers)
    options.writable(plot, overwrite=overwrite)
    budget = Budget(epsilon, delta - options.reserved(delta, reserve_delta))
    checks = _checks("pate", budget, calibration)
    proposals = _proposals("pate", queries, budget, classes, checks, n_teachers=teachers)
    if mechanism is not None:
        made = options.vote_mechanism(mechanism)
        proposals.append(Plan(made, queries, n_teachers=teachers, n_classes=classes))
    trade_off = _more_or_fewer(queries, budget, checks)
    if plot is not None:
        _plot(plot, queries, budget)
    shares = [{**row, "of teachers": row["sigma"] / teachers} for row in trade_off]
    found = _Found("pate", proposals, teachers, checks, trade_off)
    title = _title(budget, epsilon, queries=queries, classes=classes, teachers=teachers)

    def shown() -> None:
        found.show(title, budget, classes)
        columns = {"queries": ".0f", "sigma": ".1f", "of teachers": ".0%"}
        _print_rows("GNMax for more or fewer queries", columns, shares)
        if (price := proposals[-1].epsilon(budget.delta)) > epsilon:
            screen().print(f"[yellow]{mechanism} is beyond that budget: epsilon {price:.4g}.[/]")
        if plot is not None:
            screen().print(f"Picture: {plot}")

    return Result({**found.plain(budget, classes), "plot": plot and str(plot)}, shown)


def knn(
    *,
    k: int,
    queries: int,
    epsilon: float,
    delta: float,
    sampling_rate: float = 1.0,
    classes: int = 10,
    calibration: float = 0.0,
) -> Result:
    """Propose noise for the votes of the k nearest private records, and compare sampling rates.

    Example: tacit plan knn --k 300 --queries 100 --delta 1e-5 --epsilon 1

    k: How many neighbours vote.
    queries: How many public inputs are to be labelled.
    epsilon: Worst-case epsilon to stay within.
    delta: Delta to stay within.
    sampling_rate: Chance of a record to take part.
    classes: How many classes.
    calibration: Share of mu^2 that checks probabilities, such as 0.05.
    """
    from tacit._checks import at_least
    from tacit.ledger import Budget

    at_least(1, queries=queries)
    budget = Budget(epsilon, delta)
    checks = _checks("knn", budget, calibration)
    settings = {"k": k, "sampling_rate": sampling_rate}
    proposals = _proposals("knn", queries, budget, classes, checks, **settings)
    trade_off = compare_rates(k / sampling_rate, queries, budget, classes, checks)
    found = _Found("knn", proposals, k, checks, trade_off)
    title = _title(budget, epsilon, queries=queries, classes=classes, **settings)

    def shown() -> None:
        found.show(title, budget, classes)
        columns = {"sampling rate": "g", "k": ".0f", "sigma": ".4g", "noise of k": ".1%"}
        rows = [{key.replace("_", " "): row[key] for key in row} for row in trade_off]
        _print_rows("Sampling at equal reach, k/rate records around a query", columns, rows)
        least = min(trade_off, key=lambda row: row["noise_of_k"])
        screen().print(
            "[dim]Sampling hides who took part and pays with fewer votes: noise against votes, the "
            f"last column, is least at rate {least['sampling_rate']:g}.[/]"
        )

    return Result({**found.plain(budget, classes), "plot": None}, shown)


def method(
    name: str,
    *,
    epsilon: float,
    delta: float,
    records: int | None = None,
    queries: int | None = None,
    classes: int = 10,
    numbers: bool = False,
    calibration: float = 0.0,
) -> Result:
    """Say what another method releases within a budget, and what it can learn.

    Example: tacit plan method ridge --records 5000 --delta 1e-5 --epsilon 1

    name: prototype, moments or ridge (one-shot sums); dpsgd or mac (noisy steps); segmentation;
        auto, as for images and plain numbers; or one of another package.
    epsilon: Worst-case epsilon to stay within.
    delta: Delta to stay within.
    records: How many records, or people, there are, where that is public: for the forecast; dpsgd
        and mac need it.
    queries: How many public inputs are to be labelled, by a method that labels some.
    classes: How many classes.
    numbers: Plan for numbers instead of labels (moments, ridge, auto).
    calibration: Share of mu^2 that checks probabilities, such as 0.05.
    """
    from tacit._checks import at_least, one_of, refuse
    from tacit.ledger import Budget
    from tacit.methods import method_named

    budget, found = Budget(epsilon, delta), method_named(one_of(*METHODS, method=name))
    if found.outline is not None:
        options.refuse_given(f"plan method {name}", queries=queries)
        return _outline(name, budget, 0 if numbers else classes, records, calibration)
    if found.propose is None or found.proposes_with:
        raise refuse("method", name, "one without a command of its own: tacit plan --help")
    options.refuse_given(f"plan method {name}", records=records, numbers=numbers or None)
    if queries is None:
        raise InvalidArgument("Expected --queries, how many public inputs are to be labelled.")
    checks = _checks(name, budget, calibration)
    proposals = _proposals(name, at_least(1, queries=queries), budget, classes, checks)
    shown_as = _Found(name, proposals, None, checks, [])
    title = _title(budget, epsilon, queries=queries, classes=classes)
    plain = {**shown_as.plain(budget, classes), "plot": None}
    return Result(plain, lambda: shown_as.show(title, budget, classes))


def evaluation(
    *,
    records: int,
    epsilon: float,
    delta: float,
    share: float | None = None,
    of: str = "labels",
    classes: int = 2,
) -> Result:
    """Say how wide the bands of `tacit evaluate` would be.

    Example: tacit plan evaluation --records 2000 --share 0.3 --delta 1e-5 --epsilon 0.5

    records: How many records, or people, are held out.
    epsilon: Worst-case epsilon to stay within.
    delta: Delta to stay within.
    share: Of positives among them, as far as it is known publicly (labels).
    of: What is evaluated: labels (of two classes), numbers, or masks.
    classes: Of masks, background included.
    """
    from tacit.ledger import Budget

    return show_forecast(Budget(epsilon, delta), records, share, of=of, classes=classes)


@dataclass(frozen=True, slots=True)
class _Found:
    """What is proposed for a method whose voters answer queries."""

    method: str
    proposals: list[Plan]
    voters: int | None
    checks: list[Plan]
    trade_off: list[dict[str, float]]

    def forecast(self, classes: int) -> Any:
        """Return what public numbers say of a run."""
        from tacit.methods import method_named

        foresee = method_named(self.method).forecast or _no_forecast
        return foresee(self.proposals, classes, self.voters)

    def plain(self, budget: Budget, classes: int) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "proposals": _plain(self.proposals, budget),
            "check": _plain(self.checks, budget),
            "trade_off": self.trade_off,
            "forecast": str(self.forecast(classes)),
        }

    def show(self, title: str, budget: Budget, classes: int) -> None:
        """Print it."""
        _show_proposals(title, self.proposals, budget.delta, self.method, self.voters)
        _show_checks(self.checks, budget)
        screen().print(f"Forecast. {self.forecast(classes)}", highlight=False, markup=False)


def _proposals(
    name: str, queries: int, budget: Budget, classes: int, checks: list[Plan], **settings: Any
) -> list[Plan]:
    """Return what the method proposes, with the checks as part of what may be spent."""
    from tacit.methods import method_named

    propose: Any = method_named(name).propose
    beside = {"beside": checks} if checks else {}
    return list(propose(queries, budget, classes, **settings, **beside))


def _title(budget: Budget, epsilon: float, **about: float) -> str:
    named = ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in about.items())
    return f"Within epsilon {epsilon:g} at delta {budget.delta:g}: {named}"


def _print_rows(title: str, columns: dict[str, str], rows: list[dict[str, float]]) -> None:
    cells = [[format(row[name], form) for name, form in columns.items()] for row in rows]
    print_table(title, list(columns), cells)


def _more_or_fewer(queries: int, budget: Budget, checks: Sequence[Plan]) -> list[dict[str, float]]:
    """Return what fewer and more queries would need."""
    from tacit.methods import sigma_for

    numbers = sorted({max(1, queries // 4), max(1, queries // 2), queries, 2 * queries})
    return [
        {"queries": n, "sigma": sigma_for(n, budget, checks), "epsilon": budget.epsilon}
        for n in numbers
    ]


def _checks(method: str, budget: Budget, calibration: float) -> list[Plan]:
    """Return what checks probabilities, within the budget; a method without any refuses."""
    from tacit.methods import check_within, method_named, share_of_check

    if not share_of_check(calibration=calibration):
        return []
    if not method_named(method).takes("checks"):
        raise InvalidArgument(f"Expected no --calibration with {method}: it has none.")
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
        raise InvalidArgument(f"Expected labels with {method}: it learns no numbers.")
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
