"""What PATE 2018 shows with votes alone, from the published votes of 250 MNIST teachers.

They are public research data; on private votes most of what is printed here would be secret.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.figure import Figure
from scipy.special import erfc

from papers.items import Floats, Integers, Workplace
from papers.pate_tables import FILES, chances
from tacit.datasets import load_dataset, read_rows, read_votes
from tacit.mechanisms import NO_ANSWER, ConfidentGNMax
from tacit.noise import InsecureNoise
from tacit.privacy import (
    DEFAULT_ORDERS,
    RdpCurve,
    gaussian_mu,
    gaussian_rdp,
    gnmax_rdp,
    gnmax_rdp_total,
    lnmax_rdp,
    worst_case_epsilon,
)
from tacit.report import COLOURS, INK, label, legend, new_figure

Noise = Literal["GNMax", "LNMax"]

VOTES, ADULT_VOTES = FILES
ASKED = "pate_votes/mnist_250_teachers_100_indices_used_by_student.npy"
LABELS = "pate_votes/mnist_250_student_labels_lap_20.npy"
TEACHERS, CLASSES = 250, 10
DELTA = 1e-5
QUERIES = 1000
SIGMA_ANSWER = 40.0
LAPLACE = 20.0
# The papers' (Theorem 5), and the one that belongs to the tight bounds.
CONVERSIONS = ("classic", "improved")
# Orders of the script of 2017: its eight moments, each plus one.
MOMENTS = np.arange(2.0, 10.0)


def _check(threshold: float, sigma: float) -> ConfidentGNMax:
    return ConfidentGNMax(threshold, sigma_check=sigma, sigma_answer=SIGMA_ANSWER)


# The paper's checks are for 5,000 teachers, ours are the same shares of 250.
CHECKS = {
    "moderate": _check(175, 75),
    "aggressive": _check(250, 75),
    "Table 1": _check(200, 150),
}


def _check_cost(mechanism: ConfidentGNMax, bound: str) -> Floats:
    """Return the price of one check: as the paper has it, or its exact worst case."""
    if bound == "theorem6":
        return gaussian_rdp(mechanism.sigma_check, DEFAULT_ORDERS)
    sizes = {"n_teachers": TEACHERS, "n_classes": CLASSES}
    return mechanism.check.cost(DEFAULT_ORDERS, **sizes).values


def truth_of(place: Workplace, rows: int) -> Integers:
    """Return the labels of the first MNIST test images."""
    data = load_dataset(f"mnist:{place.path('mnist')}")
    return data.y[data.n_train :][:rows]


def figure_4(place: Workplace) -> None:
    """Cost and label accuracy of both noises at the same scales, from the published votes."""
    votes = read_votes(place.path(VOTES))
    truth, priced = truth_of(place, len(votes)), votes[:QUERIES]
    kinds: tuple[Noise, Noise] = ("GNMax", "LNMax")
    rows = [
        (kind, scale, *epsilons(kind, priced, scale), 100 * _right(kind, votes, scale, truth))
        for kind in kinds
        for scale in (5, 10, 20, 30, 40, 60)
    ]
    columns = ["noise", "scale", "epsilon, the papers' bound", "epsilon, tight", "labels right, %"]
    place.table("Figure 4, left: 1,000 queries to 250 MNIST teachers, delta 1e-5", columns, rows)
    curves = {}
    for kind in kinds:
        own = [row for row in rows if row[0] == kind]
        for at, bound in ((2, "the papers' bound"), (3, "tight")):
            curves[f"{kind}, {bound}"] = [row[at] for row in own], [row[4] for row in own]
    title = "Figure 4, left: 1,000 MNIST queries, 250 teachers"
    place.curves("pate-figure-4", curves, title, "epsilon at delta 1e-5", "labels right, %")


def epsilons(kind: Noise, votes: Integers, scale: float) -> list[float]:
    """Return the data-dependent epsilon by the papers' own bound and conversion, and the tight."""
    if kind == "GNMax":
        costs = [gnmax_rdp_total(votes, scale, DEFAULT_ORDERS, b) for b in ("theorem6", "tight")]
    else:
        bounds = ("pate2017", "tight")
        costs = [lnmax_rdp(votes, 1 / scale, DEFAULT_ORDERS, b).sum(axis=0) for b in bounds]
    return [_epsilon(cost, how) for cost, how in zip(costs, CONVERSIONS, strict=True)]


def _right(kind: Noise, votes: Integers, scale: float, truth: Integers) -> float:
    """Return the mean share of right labels over 5 draws; the votes are public, no ledger asks."""
    rng = np.random.default_rng(0)
    draw = rng.normal if kind == "GNMax" else rng.laplace
    noisy: list[Floats] = [votes + draw(0, scale, votes.shape) for _ in range(5)]
    return float(np.mean([(each.argmax(axis=1) == truth).mean() for each in noisy]))


def parameters(place: Workplace) -> None:
    """Vary the share of the checks, and T, at one worst-case budget: 640 queries, epsilon 2."""
    votes = read_votes(place.path(VOTES))
    truth = truth_of(place, len(votes))
    rows = [
        (f"{share:.0%}", "0.6 n", *_told(votes, truth, share, 0.6))
        for share in (0.02, 0.05, 0.1, 0.2, 0.4)
    ]
    rows += [
        ("10%", f"{part:g} n", *_told(votes, truth, 0.1, part)) for part in (0.4, 0.5, 0.7, 0.8)
    ]
    columns = ["mu^2 spent on checks", "T", "sigma_1", "sigma_2", "answers", "right, %", "wrong"]
    title = "Rules for parameters: 640 MNIST queries, at most 480 answers, worst-case epsilon 2"
    place.table(title, columns, rows)


def _told(votes: Integers, truth: Integers, share: float, part: float) -> list[str]:
    """Return both noises, and mean answers over 40 draws of queries and of noise."""
    queries, cap, mu = 640, 480, gaussian_mu(2.0, DELTA)
    check = math.sqrt(queries / share) / mu
    answer = math.sqrt(2 * cap / (1 - share)) / mu
    mechanism = ConfidentGNMax(part * TEACHERS, check, answer)
    told, right = 0, 0
    for seed in range(40):
        asked = np.random.default_rng(seed).choice(len(votes), queries, replace=False)
        release = mechanism.release(votes[asked], InsecureNoise(seed), max_answers=cap)
        labels = np.asarray(release.labels)
        told += int((labels != NO_ANSWER).sum())
        right += int((labels == truth[asked]).sum())
    numbers = (f"{told / 40:.0f}", f"{100 * right / told:.1f}", f"{(told - right) / 40:.1f}")
    return [f"{check:.0f}", f"{answer:.0f}", *numbers]


def advanced_composition(place: Workplace) -> None:
    """Compare 8.42 and 10.14 of section 4.1 with what the printed parameters cost."""
    runs = {
        "Confident, 10,762 answers": [(12_000, 500.0, 10_762, 100.0)],
        "Interactive, 4,341 answers": [(6000, 1500.0, 3400, 100.0), (10_000, 2000.0, 941, 200.0)],
        "Interactive, 10,422 answers": [(6000, 1500.0, 3400, 100.0), (10_000, 2000.0, 7022, 200.0)],
    }
    delta = 1e-8
    rows = []
    for name, rounds in runs.items():
        mu_squared = sum(asked / s1**2 + 2 * told / s2**2 for asked, s1, told, s2 in rounds)
        rdp = RdpCurve(DEFAULT_ORDERS, gaussian_rdp(1 / math.sqrt(mu_squared), DEFAULT_ORDERS))
        exact = worst_case_epsilon(delta, mu_squared).epsilon
        rows.append((name, _advanced(rounds, delta), rdp.epsilon(delta, "classic"), exact))
    columns = ["run", "advanced composition", "Theorems 4 and 5, worst case", "exact worst case"]
    place.table("Section 4.1: the printed Glyph runs without the votes, delta 1e-8", columns, rows)


def _advanced(rounds: Sequence[tuple[int, float, int, float]], delta: float) -> float:
    """Return epsilon by advanced composition of equal Gaussian steps, half of delta for each use.

    Each noise is split into as many (epsilon_0, delta_0) steps as it was drawn, by the exact
    Gaussian; groups of equal steps are composed by sqrt(2 k log(1/d)) e + k e (exp(e) - 1), and
    groups are added.
    """
    total = 0.0
    groups = [group for asked, s1, told, s2 in rounds for group in ((asked, s1, 1), (told, s2, 2))]
    share = delta / len(groups)
    for count, sigma, moved in groups:
        one = worst_case_epsilon(share / 2 / count, moved / sigma**2).epsilon
        spread = math.sqrt(2 * count * math.log(2 / share)) * one
        total += spread + count * one * math.expm1(one)
    return total


def gap_of_four_sigma(place: Workplace) -> None:
    """Show q where the plurality leads by 4 sigma, by section 5.2 and by Proposition 7."""
    rng, draws, sigma = np.random.default_rng(0), 1_000_000, 1.0
    lead = 4 * sigma + rng.normal(0, sigma, draws) - rng.normal(0, sigma, draws)
    laplace = 4 * sigma + rng.laplace(0, sigma, draws) - rng.laplace(0, sigma, draws)
    found = {
        "GNMax": (math.exp(-16), erfc(2) / 2, (lead < 0).mean()),
        "LNMax": (math.exp(-4), 1.5 * math.exp(-4), (laplace < 0).mean()),
    }
    rows = [(name, *(f"{q:.3g}" for q in three)) for name, three in found.items()]
    columns = ["noise", "q of section 5.2", "q by the papers' own formula", "drawn 1,000,000 times"]
    place.table("Section 5.2: a gap of four noise scales, two classes", columns, rows)


def lnmax_rows(place: Workplace) -> None:
    """Search Table 1's LNMax rows of MNIST and Adult: which rows, which noise, which orders."""
    votes, adult = read_votes(place.path(VOTES)), read_votes(place.path(ADULT_VOTES))
    asked = votes[read_rows(place.path(ASKED), n_rows=len(votes))]
    half = votes[:5000]
    rng = np.random.default_rng(0)
    drawn = [half[rng.choice(5000, QUERIES, replace=False)] for _ in range(10)]
    cases = (
        ("MNIST, the 100 published rows", "2.04", [asked]),
        ("MNIST, the first 100 rows", "2.04", [votes[:100]]),
        ("MNIST, the first 1,000 rows", "8.03", [votes[:QUERIES]]),
        ("MNIST, 1,000 of the first 5,000, ten times", "8.03", drawn),
        ("Adult, the first 500 rows", "2.66", [adult[:500]]),
    )
    rows = []
    for name, said, parts in cases:
        found = [
            np.mean([lnmax_epsilon(part, gamma, orders) for part in parts])
            for gamma in (1 / LAPLACE, 2 / LAPLACE)
            for orders in (MOMENTS, DEFAULT_ORDERS)
        ]
        rows.append((name, said, *(f"{value:.3f}" for value in found)))
    columns = ["rows", "paper", "scale 20, orders to 9", "all orders", "scale 10, orders to 9"]
    place.table("Table 1, LNMax: epsilon at delta 1e-5", [*columns, "all orders "], rows)
    labels = np.load(place.path(LABELS), allow_pickle=False)
    same = [("published labels", f"{100 * (labels == votes.argmax(axis=1)).mean():.1f}")]
    for scale in (10, 20, 40):
        noisy = votes + rng.laplace(0, scale, (10, *votes.shape))
        share = 100 * (noisy.argmax(axis=2) == votes.argmax(axis=1)).mean()
        same.append((f"drawn with scale {scale}", f"{share:.1f}"))
    place.table("Labels that are the plurality, %", ["labels", "%"], same)


def lnmax_epsilon(
    votes: Integers, gamma: float, orders: Floats = DEFAULT_ORDERS, delta: float = DELTA
) -> float:
    """Return what LNMax costs on these votes, by the bound and conversion of 2017."""
    cost = lnmax_rdp(votes, gamma, orders, "pate2017").sum(axis=0)
    return float(RdpCurve(orders, cost).epsilon(delta, "classic"))


def figure_5(place: Workplace) -> None:
    """Show what a moderate and an aggressive check leave of the queries, and what is spent."""
    votes = read_votes(place.path(VOTES))
    edges = np.arange(0, TEACHERS + 1, 25)
    top = votes.max(axis=1)
    per_query = gnmax_rdp(votes, SIGMA_ANSWER, [14.0], "theorem6")[:, 0]
    tight = gnmax_rdp(votes, SIGMA_ANSWER, [14.0])[:, 0]
    weights = [np.ones(len(votes)), *(chances(check, votes) for check in CHECKS.values())]
    counts = [np.histogram(top, edges, weights=weight)[0] for weight in weights]
    inside = np.digitize(top, edges[1:-1])
    rows = []
    for place_of, low in enumerate(edges[:-1]):
        own = inside == place_of
        if own.any():
            numbers = [f"{count[place_of]:.0f}" for count in counts]
            costs = [f"{cost[own].mean():.2g}" for cost in (per_query, tight)]
            rows.append((f"{low} to {edges[place_of + 1]}", *numbers, *costs))
    names = ["LNMax: all", *(f"{name} check" for name in CHECKS)]
    columns = ["votes for the winner", *names, "cost of an answer, theorem6", "tight"]
    place.table("Figure 5, left: queries answered, by votes; RDP at order 14", columns, rows)
    place.picture("pate-figure-5-left", _histogram(edges, names, counts, per_query, inside))
    spent(place, votes, "Figure 5, right", "pate-figure-5-right")


def _histogram(
    edges: Integers,
    names: Sequence[str],
    counts: Sequence[Floats],
    costs: Floats,
    inside: Integers,
) -> Figure:
    figure = new_figure("Queries answered, and what an answer costs", size=(6.6, 4.0))
    axes = figure.axes[0]
    width = np.diff(edges) / (len(names) + 0.4)
    for number, (name, heights) in enumerate(zip(names, counts, strict=True)):
        places = edges[:-1] + (number + 0.2) * width
        axes.bar(places, heights, width, align="edge", color=COLOURS[number], label=name)
    label(axes, x=f"votes for the winner (of {TEACHERS} teachers)", y="queries answered")
    axes.set_ylim(0, 1.45 * counts[0].max())  # room for the legend
    axes.legend(frameon=False, fontsize=9, labelcolor=INK, loc="upper left", ncols=2)
    other = axes.twinx()
    seen = np.unique(inside)
    means = [costs[inside == one].mean() for one in seen]
    other.plot((edges[:-1] + edges[1:])[seen] / 2, means, "o", color=INK, markersize=5)
    other.set_yscale("log")
    other.set_ylim(2e-4, 6e-2)
    other.tick_params(labelsize=9)
    other.spines[["top", "left"]].set_visible(False)
    label(other, y="dots: mean cost of an answer")
    return figure


def spent(place: Workplace, votes: Integers, title: str, name: str) -> None:
    """Show epsilon against the number of answers, and the part that the checks cost."""
    answers = np.array([250, 500, 1000, 2000, 3000, 4000])
    rows, curves, names = [], {}, {"theorem6": "the papers'", "tight": "tight"}
    bounds = (("theorem6", "pate2017"), ("tight", "tight"))
    for (bound, laplace), conversion in zip(bounds, CONVERSIONS, strict=True):
        each = lnmax_rdp(votes, 1 / LAPLACE, DEFAULT_ORDERS, laplace).mean(axis=0)
        every = gnmax_rdp_total(votes, SIGMA_ANSWER, DEFAULT_ORDERS, bound) / len(votes)
        none = np.zeros(DEFAULT_ORDERS.size)
        costs = {"LNMax, scale 20": (each, none), "GNMax, sigma 40": (every, none)}
        for label_of, check in CHECKS.items():
            chance = chances(check, votes)
            paid = gnmax_rdp_total(votes, SIGMA_ANSWER, DEFAULT_ORDERS, bound, weights=chance)
            checks = _check_cost(check, bound) / chance.mean()
            costs[f"Confident, {label_of}"] = checks + paid / chance.sum(), checks
        for who, (total, checks) in costs.items():
            whole = np.array([_epsilon(count * total, conversion) for count in answers])
            part = np.array([_share(count, total, checks, conversion) for count in answers])
            rows += [
                (who, names[bound], count, f"{e:.2f}", f"{100 * p:.0f}")
                for count, e, p in zip(answers.tolist(), whole, part, strict=True)
                if count in (1000, 4000)
            ]
            if bound == "theorem6":
                curves[who] = whole, whole * part
    columns = ["aggregator", "bound", "answers", "epsilon", "of it for checks, %"]
    place.table(f"{title}: epsilon at delta 1e-5 against answers", columns, rows)
    place.picture(name, _stacked(answers, curves, title))


def _epsilon(cost: Floats, conversion: str) -> float:
    return float(RdpCurve(DEFAULT_ORDERS, cost).epsilon(DELTA, conversion))


def _share(count: int, total: Floats, checks: Floats, conversion: str) -> float:
    """Return the share of the checks in the cost at the order that the whole is read at."""
    order = RdpCurve(DEFAULT_ORDERS, count * total).best_order(DELTA, conversion)
    at = int(np.argmin(np.abs(DEFAULT_ORDERS - float(order))))
    return float(checks[at] / total[at])


def _stacked(answers: Integers, curves: dict[str, tuple[Floats, Floats]], title: str) -> Figure:
    figure = new_figure(f"{title}: epsilon against answers (the papers' bounds)")
    axes = figure.axes[0]
    for number, (name, (whole, checks)) in enumerate(curves.items()):
        axes.plot(answers, whole, color=COLOURS[number], linewidth=1.8, label=name)
        if checks.any():
            axes.plot(answers, checks, color=COLOURS[number], linewidth=1.2, linestyle=":")
    axes.set_ylim(bottom=0)
    label(axes, x="answers (dotted: the part that the checks cost)", y="epsilon", delta=DELTA)
    legend(axes, "upper left")
    return figure


def synergy(place: Workplace) -> None:
    """Show that cheap answers are right: by votes for the winner."""
    votes = read_votes(place.path(VOTES))
    top, right = votes.max(axis=1), votes.argmax(axis=1) == truth_of(place, len(votes))
    costs = [gnmax_rdp(votes, SIGMA_ANSWER, [14.0], b)[:, 0] for b in ("theorem6", "tight")]
    rows = []
    for low, high in ((0, 99), (100, 149), (150, 199), (200, TEACHERS)):
        own = (top >= low) & (top <= high)
        means = [f"{cost[own].mean():.4f}" for cost in costs]
        rows.append((f"{low} to {high}", own.sum(), f"{100 * right[own].mean():.1f}", *means))
    columns = ["votes for the winner", "queries", "plurality right, %", "cost, theorem6", "tight"]
    place.table("Section 6: cheap labels are right (sigma 40, order 14)", columns, rows)


def corollary_11(place: Workplace) -> None:
    """Show Corollary 11 beside Theorem 6 and the tight bound, at its own order."""
    rows = []
    for sigma, times in ((10, 4), (10, 8), (40, 4), (40, 8), (40, 16)):
        gap = times * sigma
        order = gap / 4
        votes = [[3 * gap, 2 * gap, gap]]
        bounds = [gnmax_rdp(votes, sigma, [order], b)[0, 0] for b in ("theorem6", "tight")]
        numbers = (math.exp(-2 * order / sigma**2) / order, *bounds, order / sigma**2)
        rows.append((sigma, f"{times} sigma", order, *(f"{number:.3g}" for number in numbers)))
    columns = ["sigma", "both gaps", "order", "Corollary 11", "theorem6", "tight", "worst case"]
    place.table("Corollary 11: RDP at a quarter of the gap", columns, rows)
