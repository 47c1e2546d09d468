"""The data owner's own analysis of a run: its cost on its actual votes. All of it is secret.

Expected values, as in the 2018 paper's tables. Nothing here may be published except through
`Sanitise` (docs/sharp-edges.md#data-dependent-epsilon-raw): figures carry a red SECRET mark, are
saved with mode 0600, and are refused by the report. No message quotes a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from tacit import privacy
from tacit._checks import Floats, Integers, at_least, vote_matrix
from tacit.errors import InvalidArgument
from tacit.mechanisms import (
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
    Mechanism,
    Plan,
    disagreement,
    student_probabilities,
)
from tacit.privacy import RdpCurve
from tacit.report import figures
from tacit.report.figures import BLUE, DOTTED, INK, VERMILION, mark_secret, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDERS: Floats = np.concatenate(
    [np.arange(1.5, 10.1, 0.5), np.arange(11, 33), 2.0 ** np.arange(6, 10)]
)
"""Few orders, because a secret analysis needs no last digit."""
BINS = 25
"""Bars of the figure of votes."""


@dataclass(frozen=True, slots=True, repr=False)
class SecretAnalysis:
    """Cost of a run on its votes, for the data owner alone; `repr` shows nothing of it.

    Parameters
    ----------
    delta : float, of every epsilon here
    worst_case_epsilon : float, what the ledger charges, whatever the votes
    data_dependent_epsilon : float, by the tight bound on these votes
    theorem6_epsilon : float
        By the bound and the conversion of the 2018 paper; of LNMax, by those of the 2017 paper.
    best_order : float, the Renyi order of the least data-dependent epsilon
    expected_answers : float, number of answers, averaged over the noise of the checks
    smooth_sensitivity : float or None
        Of the data-dependent cost at the best order. None, as the next, where a run cannot be
        sanitised: LNMax and Interactive-GNMax.
    sanitised_epsilon_estimate : float or None
        Approximate result of `tacit sanitise` with its defaults.
    per_query : array of shape (queries,)
        RDP of each query at the best order, weighted by its chance of being answered.
    cumulative : dict of str to array of shape (queries,)
        Epsilon after each query: tight, theorem6 and worst case.
    """

    delta: float
    worst_case_epsilon: float
    data_dependent_epsilon: float
    theorem6_epsilon: float
    best_order: float
    expected_answers: float
    smooth_sensitivity: float | None
    sanitised_epsilon_estimate: float | None
    per_query: Floats
    cumulative: dict[str, Floats]

    def __repr__(self) -> str:
        return "SecretAnalysis(<secret>)"

    @property
    def shares(self) -> Floats:
        """Each query's share of the total cost at the best order."""
        total = float(self.per_query.sum())
        return self.per_query / total if total > 0 else np.zeros_like(self.per_query)

    @property
    def share_of_cost_of_dearest_tenth(self) -> float:
        """Share of the cost of the most expensive tenth of the queries."""
        return _dearest_tenth(self.per_query)[1]


def _dearest_tenth(costs: Floats) -> tuple[int, float]:
    """Return how many queries are a tenth, and the most expensive tenth's share of the cost."""
    tenth, total = max(1, costs.size // 10), float(costs.sum())
    return tenth, float(np.sort(costs)[-tenth:].sum()) / total if total > 0 else 0.0


class _Run(NamedTuple):
    """Votes, noise of the answer, chances of being answered, and the cost of one check."""

    counts: Integers
    noise: str
    chance: Floats
    check: Floats
    check_of_paper: Floats
    sanitisable: bool = True

    def answers(self, noise: float, bound: str = "tight") -> Floats:
        """Return the cost of each query's answer at each order, tight or by the papers' bound."""
        if self.noise == "gamma":
            name = "tight" if bound == "tight" else "pate2017"
            return privacy.lnmax_rdp(self.counts, noise, ORDERS, name)
        return privacy.gnmax_rdp(self.counts, noise, ORDERS, bound)

    def total(self, noise: float) -> Floats:
        """Return the cost of all answers, each times its chance of being given, and all checks."""
        if self.noise == "gamma":
            return np.asarray(self.answers(noise).sum(axis=0))
        paid = privacy.gnmax_rdp_total(self.counts, noise, ORDERS, weights=self.chance)
        return paid + self.check * len(self.counts)

    def plan(self, mechanism: Mechanism) -> Plan:
        return Plan(mechanism, len(self.counts), **_sizes(self.counts))


def _sizes(counts: Integers) -> dict[str, int]:
    return {"n_teachers": int(counts[0].sum()), "n_classes": counts.shape[1]}


def _run(mechanism: Mechanism, votes: Integers, student: ArrayLike | None) -> _Run:
    counts = vote_matrix(votes)
    none, always = np.zeros(ORDERS.size), np.ones(len(counts))
    if isinstance(mechanism, ConfidentGNMax | InteractiveGNMax):
        interactive = isinstance(mechanism, InteractiveGNMax)
        top = counts.max(axis=1)
        if interactive:
            top = disagreement(counts, student_probabilities(student, counts.shape))
        chance = ndtr((top - mechanism.threshold) / mechanism.sigma_check)
        check = mechanism.check.cost(ORDERS, **_sizes(counts)).values
        of_paper = privacy.gaussian_rdp(mechanism.sigma_check, ORDERS)
        return _Run(counts, mechanism.noise_parameter, chance, check, of_paper, not interactive)
    if isinstance(mechanism, LNMax):
        return _Run(counts, mechanism.noise_parameter, always, none, none, sanitisable=False)
    if isinstance(mechanism, GNMax) and mechanism.votes_per_unit == 1:
        return _Run(counts, mechanism.noise_parameter, always, none, none)
    raise InvalidArgument(
        f"Expected mechanism={mechanism.name!r} to be gnmax, lnmax, confident-gnmax or "
        "interactive-gnmax, one vote a unit: the others have no data-dependent analysis here."
    )


def secret_analysis(
    mechanism: Mechanism, votes: Integers, delta: float, *, student: ArrayLike | None = None
) -> SecretAnalysis:
    """Price a run on its actual votes: GNMax, LNMax, Confident- or Interactive-GNMax. Secret.

    Expected values, as in the tables of PATE 2018: an answer counts with its probability of being
    given, a check with its data-independent cost (docs/sharp-edges.md#data-dependent-epsilon-raw).

    Parameters
    ----------
    mechanism : GNMax, LNMax, ConfidentGNMax or InteractiveGNMax
    votes : array of int, shape (queries, classes), secret
    delta : float
    student : array of shape (queries, classes), optional
        The public probabilities that Interactive-GNMax compares with.

    Returns
    -------
    SecretAnalysis
    """
    run = _run(mechanism, votes, student)
    counts, chance, noise = run.counts, run.chance[:, None], getattr(mechanism, run.noise)
    plan = run.plan(mechanism)
    tight = chance * run.answers(noise) + run.check
    paper = chance * run.answers(noise, "theorem6") + run.check_of_paper
    worst = np.tile(plan.cost(ORDERS).values / len(counts), (len(counts), 1))
    total = RdpCurve(ORDERS, tight).total()
    order = float(total.best_order(delta))
    best = int(np.argmax(order == ORDERS))
    smooth = sanitised = None
    if run.sanitisable:
        beta = 0.2 / order
        smooth = privacy.gnmax_smooth_sensitivity(counts, noise, order, beta, weights=run.chance)
        sanitised = _sanitised(float(total.values[best]), smooth, order, delta)
    return SecretAnalysis(
        delta=delta,
        worst_case_epsilon=plan.epsilon(delta),
        data_dependent_epsilon=float(total.epsilon(delta)),
        theorem6_epsilon=float(RdpCurve(ORDERS, paper).total().epsilon(delta, "classic")),
        best_order=order,
        expected_answers=float(run.chance.sum()),
        smooth_sensitivity=smooth,
        sanitised_epsilon_estimate=sanitised,
        per_query=tight[:, best],
        cumulative={
            name: np.asarray(RdpCurve(ORDERS, np.cumsum(costs, axis=0)).epsilon(delta, conversion))
            for name, costs, conversion in (
                ("tight", tight, "improved"),
                ("theorem6", paper, "classic"),
                ("worst case", worst, "improved"),
            )
        },
    )


def _sanitised(rdp: float, smooth: float, order: float, delta: float) -> float:
    """Return about what `tacit sanitise` would state with its defaults (the noise at its mean)."""
    price = privacy.sanitise_cost(order, 0.2 / order, 6.0, 1.0 / order, delta / 20, delta / 20)
    scale = smooth * float(np.exp(price.scale_quantile / order))
    conversion = float(privacy.conversion_term(np.array([order]), 0.9 * delta)[0])
    return rdp + price.value_quantile * 6.0 * scale + price.rdp + conversion


def sigma_sweep(
    mechanism: Mechanism, votes: Integers, delta: float, *, student: ArrayLike | None = None
) -> dict[str, Floats]:
    """Epsilon against the noise of the answer: data-dependent (secret) and worst case.

    Parameters
    ----------
    mechanism : GNMax, LNMax, ConfidentGNMax or InteractiveGNMax
        Its noise of the answer is varied, from a quarter to four times its value.
    votes : array of int, shape (queries, classes), secret
    delta : float
    student : array of shape (queries, classes), optional, as in `secret_analysis`

    Returns
    -------
    dict of str to array
        "sigma", "data-dependent" (secret) and "worst case", nine numbers each;
        of LNMax "sigma" is its scale, 1/gamma.
    """
    run = _run(mechanism, votes, student)
    levels = getattr(mechanism, run.noise) * np.geomspace(0.25, 4, 9)
    dependent, worst = [], []
    for level in levels:
        dependent.append(RdpCurve(ORDERS, run.total(level)).epsilon(delta))
        changed = replace(mechanism, **{run.noise: level})  # type: ignore[type-var]  # a dataclass
        worst.append(run.plan(changed).epsilon(delta))
    scales = 1 / levels if run.noise == "gamma" else levels
    return {"sigma": scales, "data-dependent": np.array(dependent), "worst case": np.array(worst)}


def votes_cost_figure(
    top_votes: ArrayLike, costs: ArrayLike, *, n_teachers: int, threshold: float | None = None
) -> Figure:
    """Draw a histogram of winners' votes, and the cost of each bin. Secret.

    In the manner of PATE 2018, figure 5, left (`python -m papers pate figure-5` draws that):
    agreement is cheap, disagreement is not.

    Parameters
    ----------
    top_votes : array of shape (queries,)
        Votes for the winner, from 0 to `n_teachers`. Secret.
    costs : array of shape (queries,)
        Cost of each query, such as RDP at one order; costs add within a bin. Secret.
    n_teachers : int
    threshold : float, optional, of a check; a dotted line

    Returns
    -------
    Figure, marked as secret
    """
    top, each = figures.curves_of(top_votes=top_votes, costs=costs)
    teachers = at_least(1, n_teachers=n_teachers)
    if (top < 0).any() or (top > teachers).any() or (each < 0).any():
        raise InvalidArgument("Expected top_votes from 0 to n_teachers, and costs >= 0.")
    edges = np.linspace(0, teachers, BINS + 1)
    tenth, share = _dearest_tenth(each)
    title = f"The dearest {tenth} of {each.size} queries carry {share:.0%} of the cost"
    figure = new_figure(title, rows=2, size=(6.2, 5.0))
    panels = ((None, "queries", BLUE), (each, "cost, sum", VERMILION))
    for axes, (weights, name, colour) in zip(figure.axes, panels, strict=True):
        heights, _ = np.histogram(top, bins=edges, weights=weights)
        axes.bar(edges[:-1], heights, np.diff(edges) * 0.92, align="edge", color=colour)
        figures.label(axes, y=name)
        if threshold is not None:
            axes.axvline(threshold, color=INK, linewidth=1.2, linestyle=DOTTED)
    if threshold is not None:
        text, axis = f"threshold {threshold:g}", ("data", "axes fraction")
        figures.note(figure.axes[0], text, (threshold, 1.0), axis, (-4, -2), ha="right", va="top")
    axes.set_xlim(0, teachers)
    axes.set_xlabel(f"votes for the winner (of {teachers} teachers)", color=INK, fontsize=10)
    return mark_secret(figure)


def cumulative_cost_figure(curves: Mapping[str, ArrayLike]) -> Figure:
    """Draw the running epsilon over queries by several bounds. Secret.

    Parameters
    ----------
    curves : mapping of str to array of shape (queries,)
        A name ("tight", "theorem6", "worst case") and epsilon after each query.

    Returns
    -------
    Figure, marked as secret
    """
    drawn = figures.named_curves(curves)
    queries = np.arange(1, drawn[0].size + 1, dtype=np.float64)
    figure = new_figure(f"Running epsilon over {queries.size} queries")
    axes = figure.axes[0]
    for place, (name, values) in enumerate(zip(curves, drawn, strict=True)):
        figures.line(axes, place, queries, values, name=f"{name}: {values[-1]:.3g}")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    figures.label(axes, x="queries", y="epsilon")
    figures.legend(axes, "upper left")
    return mark_secret(figure)


def sigma_cost_figure(
    sigmas: ArrayLike, data_dependent: ArrayLike, worst_case: ArrayLike, *, delta: float
) -> Figure:
    """Draw epsilon against the noise sigma, for this data and in the worst case. Secret.

    Choosing sigma by this figure spends privacy that is not accounted for
    (docs/sharp-edges.md#tuning-on-private-votes).

    Parameters
    ----------
    sigmas : array of shape (n,), noise of the answer
    data_dependent : array of shape (n,), epsilon of these votes at each sigma, secret
    worst_case : array of shape (n,), epsilon of any votes at each sigma
    delta : float, of all epsilons

    Returns
    -------
    Figure, marked as secret
    """
    x, own, worst = figures.curves_of(
        sigmas=sigmas, data_dependent=data_dependent, worst_case=worst_case
    )
    figure = new_figure("Epsilon against noise: these votes, and the worst case")
    axes = figure.axes[0]
    figures.line(axes, 0, x, own, name="for these votes (secret)", marker="o", markersize=3.5)
    figures.line(axes, 1, x, worst, name="worst case over all votes", marker="s", markersize=3.5)
    axes.set_ylim(bottom=0)
    figures.label(axes, x="noise (sigma, or 1/gamma)", y="epsilon", delta=delta)
    figures.legend(axes, "upper right")
    return mark_secret(figure)
