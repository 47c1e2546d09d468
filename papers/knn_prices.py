"""Private-kNN, 2020: what a check, an answer and a list of them cost, in closed form.

No data: prices of the supplement's own parameters, beside what is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr

from papers.items import Floats, Integers, Workplace
from tacit.privacy import (
    DEFAULT_ORDERS,
    RdpCurve,
    gaussian_epsilon,
    poisson_gaussian_rdp,
    sampled_threshold_rdp,
    threshold_rdp,
    threshold_rdp_worst,
)
from tacit.report import label, legend, line, new_figure

K, THRESHOLD, SIGMA_1 = 300, 210, 85
# Where the supplement lets the largest count begin: k over ten classes.
LEAST = 30
RATE, QUERIES = 0.25, 8192
DELTA = 1e-5
# Five counts, as in Figure 2, where the supplement does not say which.
PICKED = (30, 150, 210, 255, 300)


def _epsilon(costs: Floats, conversion: str = "improved") -> float:
    return float(RdpCurve(DEFAULT_ORDERS, costs).epsilon(DELTA, conversion))


def by_count(orders: ArrayLike) -> tuple[Integers, Floats]:
    """Return the counts, and what the check costs at each of them: (counts, orders).

    By the pairs that the supplement prints: k may become k + 1, which no sample can.
    """
    counts = np.arange(K + 1)
    costs = threshold_rdp(counts, THRESHOLD, SIGMA_1, orders, lowest=0, highest=K + 1)
    return counts, costs


def sampled_check_rdp(t: int, rate: float, orders: ArrayLike) -> Floats:
    """Return what one check on a Poisson sample costs if the others' largest count is t.

    The largest divergence, in both directions, between the bit at t and the bit of which a record
    that takes part with probability `rate` makes t - 1 or t + 1.
    """
    a = np.asarray(orders, dtype=np.float64)
    worst = np.zeros(a.size)
    without = np.array([log_ndtr(sign * (t - THRESHOLD) / SIGMA_1) for sign in (1, -1)])
    for neighbour in {max(t - 1, 0), min(t + 1, K)} - {t}:
        moved = np.array([log_ndtr(sign * (neighbour - THRESHOLD) / SIGMA_1) for sign in (1, -1)])
        mixed = np.logaddexp(np.log1p(-rate) + without, np.log(rate) + moved)
        for p, q in ((mixed, without), (without, mixed)):
            moment = np.logaddexp(*(a * p[i] + (1 - a) * q[i] for i in (0, 1)))
            worst = np.maximum(worst, moment / (a - 1))
    return worst


def figure_1(place: Workplace) -> None:
    """Show the cost of the check by count and order, and where it is largest."""
    rows = []
    for order in (2, 10, 20, 50, 80, 100, 200, 400):
        counts, costs = by_count([float(order)])
        supremum = threshold_rdp_worst(THRESHOLD, SIGMA_1, 0, K, [float(order)])[0]
        inside = threshold_rdp([K], THRESHOLD, SIGMA_1, [float(order)], lowest=0, highest=K)[0, 0]
        at = counts[costs[:, 0] >= costs.max() * (1 - 1e-12)]
        shares = [costs[THRESHOLD, 0], costs[K, 0], inside] / supremum
        rows.append((order, " and ".join(str(count) for count in at), *map(float, shares)))
    columns = ["order", "worst count", "cost at T, of the worst", "at k, as printed", "at k"]
    place.table("Figure 1: where the check costs most", columns, rows)
    orders = np.arange(2.0, 201.0)
    _picture_1(place, orders, *by_count(orders))


def _picture_1(place: Workplace, orders: Floats, counts: Integers, costs: Floats) -> None:
    figure = new_figure("Figure 1: cost of the check, as a share of the worst", size=(6.6, 4.2))
    axes = figure.axes[0]
    axes.grid(visible=False)
    shares = costs / costs.max(axis=0)
    levels = [0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0]
    greys = [f"#{shade:02x}{shade:02x}{shade:02x}" for shade in range(0xFF, 0x9B, -14)]
    drawn = axes.contourf(orders, counts, np.minimum(shares, 1.0), levels=levels, colors=greys)
    figure.colorbar(drawn, ax=axes)
    above, below = counts >= THRESHOLD, counts <= THRESHOLD
    upper, lower = (counts[half][costs[half].argmax(axis=0)] for half in (above, below))
    line(axes, 0, orders, np.full(orders.size, float(THRESHOLD)), name="the threshold T")
    line(axes, 1, orders, upper.astype(float), name="worst count above T")
    line(axes, 2, orders, lower.astype(float), name="worst count below T")
    axes.axvline(50, color="#666666", linewidth=0.8)
    label(axes, x="order (the paper's figure ends at 50)", y="largest count, of k = 300")
    legend(axes, "lower right")
    place.picture("knn-figure-1", figure)


def figure_2(place: Workplace) -> None:
    """Show the check's cost at five counts against the order, and the largest over all counts."""
    orders = np.concatenate([[1.5], np.arange(2.0, 201.0)])
    plain = orders / (2 * SIGMA_1**2)
    counts, costs = by_count(orders)
    curves = {f"count {t}": (orders, costs[counts == t][0] / plain) for t in PICKED}
    curves["worst of all counts"] = (orders, costs.max(axis=0) / plain)
    rows = []
    for order in (2, 20, 50, 80, 100, 150, 200):
        at = orders == order
        rows.append((order, *(float(heights[at][0]) for _, heights in curves.values())))
    place.table("Figure 2: cost over the Gaussian's", ["order", *curves], rows)
    end, top, inside = costs[K], costs[THRESHOLD], costs[LEAST:]
    place.table(
        "Figure 2: at which orders",
        ["what", "paper", "ours"],
        [
            ("T costs most of all counts", "up to 80", _span(orders, top >= inside.max(axis=0))),
            ("k costs more than T", "from 80 on", _span(orders, end > top)),
            ("k costs most of 30 .. 300", "from 80 on", _span(orders, end >= inside.max(axis=0))),
        ],
    )
    title = "Figure 2: cost of the check by order, at five counts"
    place.curves("knn-figure-2", curves, title, "order", "cost over order/(2 sigma_1^2)")


def _span(orders: Floats, true: NDArray[np.bool_]) -> str:
    held = orders[true]
    return f"{held.min():g} to {held.max():g}" if held.size else "at none up to 200"


def figure_3(place: Workplace) -> None:
    """Show epsilon against the number of checks on a sample: at five counts, and at the worst."""
    numbers = np.unique(np.geomspace(1, QUERIES, 40).round())
    prices = {f"count {t}": sampled_check_rdp(t, RATE, DEFAULT_ORDERS) for t in PICKED}
    worst = sampled_threshold_rdp(K, THRESHOLD, SIGMA_1, RATE, DEFAULT_ORDERS)
    prices["worst of all counts"] = worst
    curves = {
        name: (numbers, [_epsilon(n * price, "classic") for n in numbers])
        for name, price in prices.items()
    }
    prices["subsampled Gaussian"] = poisson_gaussian_rdp(RATE, SIGMA_1, DEFAULT_ORDERS)
    prices["the rule: T or k"] = np.maximum(prices[f"count {THRESHOLD}"], prices[f"count {K}"])
    rows = [
        (n, *(_epsilon(n * price, "classic") for price in prices.values()), _epsilon(n * worst))
        for n in (1, 10, 100, 1000, QUERIES)
    ]
    columns = ["checks", *prices, "worst, improved conversion"]
    place.table("Figure 3: epsilon of the checks", columns, rows)
    title = "Figure 3: 8,192 checks on a sample, rate 0.25"
    place.curves("knn-figure-3", curves, title, "checks", "epsilon (delta 1e-5)", log="xy")


def theorem_2(place: Workplace) -> None:
    """Show the closed form beside the exact price, at settings that its conditions allow."""
    rows = []
    for rate, sigma_1, sigma_2, checks, answers in (
        (0.05, 85, 25, 30_000, 10_000),
        (0.05, 85, 50, 10_000, 5_000),
        (0.01, 85, 25, 300_000, 100_000),
        (0.09, 40, 40, 5_000, 5_000),
        (0.09, 10, 10, 3_000, 3_000),
    ):
        least, most, most_answers = theorem_2_range(rate, sigma_1, sigma_2)
        assert least <= checks <= most
        assert answers <= most_answers
        printed, exact = theorem_2_prices(rate, sigma_1, sigma_2, checks, answers)
        setting = (rate, sigma_1, sigma_2, f"{checks:,}", f"{answers:,}", f"{least:,.0f}")
        rows.append((*setting, printed, exact, f"{printed / exact:.1f}"))
    columns = ["rate", "sigma_1", "sigma_2", "checks", "answers", "checks at least"]
    title = "Theorem 2: the closed form beside the exact price"
    place.table(title, [*columns, "Theorem 2", "exact", "ratio"], rows)


def theorem_2_range(rate: float, sigma_1: float, sigma_2: float) -> tuple[float, float, float]:
    """Return the least and most checks, and the most answers, for which Theorem 2 is stated."""
    log_delta = math.log(1 / DELTA)
    narrow = min(sigma_1, sigma_2) ** 2 * math.log(1 / rate) ** 2 - 2
    least = 4 * log_delta * sigma_1**2 / (rate**2 * narrow)
    most, most_answers = sigma_1**2 / (3 * rate**2), sigma_2**2 / (6 * rate**2)
    return least, most * log_delta, most_answers * log_delta


def theorem_2_prices(
    rate: float, sigma_1: float, sigma_2: float, checks: int, answers: int
) -> tuple[float, float]:
    """Return epsilon by Theorem 2, and the price of two samples a query."""
    spread = math.sqrt(checks) / sigma_1 + math.sqrt(answers) / sigma_2
    printed = 20 * rate * math.sqrt(math.log(1 / DELTA)) * spread
    check = sampled_threshold_rdp(K, THRESHOLD, sigma_1, rate, DEFAULT_ORDERS)
    answer = poisson_gaussian_rdp(rate, sigma_2 / math.sqrt(2), DEFAULT_ORDERS)
    return printed, _epsilon(checks * check + answers * answer)


def section_b(place: Workplace) -> None:
    """Show which RDP the epsilons printed for GNMAX on Market1501 come from."""
    rows = [
        (printed, rho, f"{plain_epsilon(rho):.4f}", gaussian_epsilon(DELTA, math.sqrt(2 * rho)))
        for printed, rho in PRINTED.items()
    ]
    columns = ["printed", "rho", "rho + 2 sqrt(rho log 1/delta)", "exact Gaussian of that rho"]
    place.table("Section B: epsilons of GNMAX", columns, rows)
    readings = []
    for name, sensitivity in (
        ("one label a query: GNMax", 2.0),
        ("ten labels, Theorem 5: alpha tau/sigma^2", 20.0),
        ("a Gaussian of L2 sensitivity tau = 10", 100.0),
        ("GNMax at sigma/tau = 4", 200.0),
    ):
        mu_squared = 80 * sensitivity / 40**2
        rho = mu_squared / 2
        readings.append((name, rho, plain_epsilon(rho), gaussian_epsilon(DELTA, mu_squared**0.5)))
    columns = ["reading of sigma 40, 80 queries", "rho", "by RDP, as printed", "exact"]
    place.table("Section B: 13.22", columns, readings)


# Each epsilon that section B prints for GNMAX, and the rho it comes from.
PRINTED = {"5.298": 0.5, "6.62": 0.75, "13.22": 2.5, "13.41": 2.56, "43.14": 16.0}


def plain_epsilon(rho: float, delta: float = DELTA) -> float:
    """Return the least of rho a + log(1/delta)/(a - 1) over all orders a."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def one_sample(place: Workplace) -> None:
    """Show what one sample for check and answer costs, beside the sum of the two prices."""
    rows = []
    for rate in (0.01, 0.05, 0.25):
        for order in (2.0, 8.0, 16.0):
            exact, added = one_sample_prices(rate, order)
            rows.append((rate, order, exact, added, f"{exact / added:.2f}"))
    title = "One sample for check and answer: one record against none"
    place.table(title, ["rate", "order", "exact", "sum of the two prices", "ratio"], rows)


def one_sample_prices(
    rate: float, order: float, *, classes: int = 8, sigma_1: float = 0.6, sigma_2: float = 1.5
) -> tuple[float, float]:
    """Return the divergence of one sampled record against none, and the sum that is charged.

    One record, k = 1, threshold 2: the example of docs/theory/private-knn.md#noisy-screening.
    """
    passing = [float(ndtr((t - 2.0) / sigma_1)) for t in (0, 1)]

    def ahead(x: float) -> float:
        density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return density * float(ndtr(x + 1 / sigma_2)) ** (classes - 1)

    wins = quad(ahead, -9, 9)[0]
    without = np.array([1 - passing[0], *[passing[0] / classes] * classes])
    others = [(1 - wins) / (classes - 1)] * (classes - 1)
    sampled = np.array([1 - passing[1], *(passing[1] * np.array([wins, *others]))])
    present = (1 - rate) * without + rate * sampled
    moments = [
        float((p**order * q ** (1 - order)).sum())
        for p, q in ((present, without), (without, present))
    ]
    exact = math.log(max(moments)) / (order - 1)
    check = sampled_threshold_rdp(1, 2.0, sigma_1, rate, [order])[0]
    answer = poisson_gaussian_rdp(rate, sigma_2 / math.sqrt(2), [order])[0]
    return exact, float(check + answer)


def mnist(place: Workplace) -> None:
    """Show what 735 answers to 1,000 screened queries cost with the public code's noise."""
    rows = []
    for rate in (0.05, 0.15):
        spent = mnist_epsilons(rate)
        rows.append((rate, "0.47", *(f"{value:.3f}" for value in spent)))
    columns = ["rate", "printed", "Gaussians, classic conversion", "exact check, improved"]
    title = "MNIST: 1,000 checks (T 180, sigma 75), 735 answers (sigma 25)"
    place.table(title, columns, rows)


def mnist_epsilons(rate: float) -> tuple[float, float]:
    """Return epsilon as the public code composes it, and as it is composed here."""
    answers = 735 * poisson_gaussian_rdp(rate, 25 / math.sqrt(2), DEFAULT_ORDERS)
    plain = 1000 * poisson_gaussian_rdp(rate, 75, DEFAULT_ORDERS)
    check = 1000 * sampled_threshold_rdp(K, 180, 75, rate, DEFAULT_ORDERS)
    return _epsilon(plain + answers, "classic"), _epsilon(check + answers)


SVT_EPSILON, SVT_SIGMA, SVT_THRESHOLD = 1.0, 20.0, 150


def sparse_vector(place: Workplace) -> None:
    """Show screening beside the sparse vector technique on section E's two sequences."""
    far = [
        (
            *(f"{n:,}", SVT_EPSILON, wrongly_passed(n, SVT_THRESHOLD)),
            *(_epsilon(n * _screened(0)), _epsilon(n * _screened())),
            -math.expm1(n * float(log_ndtr(SVT_THRESHOLD / SVT_SIGMA))),
        )
        for n in (1, 100, 10_000, 1_000_000)
    ]
    columns = ["checks", "SVT: epsilon", "SVT: wrongly passed", "screening: at these counts"]
    columns += ["screening: worst case", "screening: wrongly passed"]
    place.table("Section E: every count far below the threshold", columns, far)
    near = []
    for n in (10, 30, 100, 1000):
        costs, worst = _epsilon(n * _screened(SVT_THRESHOLD)), _epsilon(n * _screened())
        near.append((n, costs, worst, f"{costs / worst:.3f}"))
    columns = ["checks", "screening: at these counts", "screening: worst case", "ratio"]
    place.table("Section E: every count at the threshold", columns, near)
    passes, checks = svt_passes(SVT_SIGMA), 1
    while _epsilon((checks + 1) * _screened()) <= SVT_EPSILON:
        checks += 1
    columns = ["what", "epsilon", "delta", "checks, every count at the threshold"]
    rows = [
        (f"SVT, {passes} passes", SVT_EPSILON, 0, f"{svt_length(passes):.1f} (mean)"),
        ("screening, worst case", SVT_EPSILON, DELTA, checks),
    ]
    place.table("Section E: noise of deviation 20 for both", columns, rows)


def _screened(count: int | None = None) -> Floats:
    """Return what a check of a count costs, without sampling; the worst of all for None."""
    if count is None:
        return threshold_rdp_worst(SVT_THRESHOLD, SVT_SIGMA, 0, K, DEFAULT_ORDERS)
    ends = {"lowest": 0, "highest": K}
    costs: Floats = threshold_rdp([count], SVT_THRESHOLD, SVT_SIGMA, DEFAULT_ORDERS, **ends)[0]
    return costs


def svt_scales(passes: int, epsilon: float = SVT_EPSILON) -> tuple[float, float]:
    """Return the Laplace scales of threshold and counts, for so many passes (sensitivity 1).

    1/e1 and 2 passes/e2, e1 + e2 = epsilon, split as 1 to (2 passes)^(2/3), which makes the
    variance of a comparison least.
    """
    share = (2 * passes) ** (2 / 3)
    return (1 + share) / epsilon, 2 * passes * (1 + share) / share / epsilon


def svt_passes(sigma: float) -> int:
    """Return how many passes SVT may give with noise of this deviation in a comparison."""
    passes = 1
    while math.hypot(*svt_scales(passes + 1)) * math.sqrt(2) <= sigma:
        passes += 1
    return passes


def svt_length(passes: int) -> float:
    """Return how many counts, all at the threshold, SVT looks at before it stops, in the mean."""
    return _mean_over_shifts(passes, lambda chance: passes / chance)


def wrongly_passed(n: int, margin: float) -> float:
    """Return the probability that SVT lets one of n counts pass, each `margin` below T."""
    return _mean_over_shifts(1, lambda chance: -math.expm1(n * math.log1p(-chance)), margin)


def _mean_over_shifts(passes: int, of: Callable[[float], float], margin: float = 0.0) -> float:
    """Return the mean over the threshold's noise; `of` takes the chance that one count passes."""
    threshold, counts = svt_scales(passes)

    def weighted(shift: float) -> float:
        gap = margin + shift
        tail = 0.5 * math.exp(-abs(gap) / counts)
        density = math.exp(-abs(shift) / threshold) / (2 * threshold)
        return of(tail if gap > 0 else 1 - tail) * density

    reach, breaks = 40 * threshold, sorted({-margin, 0.0})
    return float(quad(weighted, -reach, reach, points=breaks, limit=400)[0])
