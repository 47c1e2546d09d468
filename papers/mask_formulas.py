"""High-dimensional targets, two papers in one: noise, bounds and distributions by formula.

Names of items begin with the year: 2020 is *Private Learning for High-Dimensional Targets with
PATE* (PCA- and autoencoded PATE), 2022 *Private Learning via Knowledge Transfer with
High-Dimensional Targets* (Generalized PATE), both by Fay, Sjolund and Oechtering.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

from papers.items import Workplace
from papers.mask_figures import slices
from papers.mask_schemes import Array, hippocampus
from tacit.masks import PCACodec
from tacit.mechanisms import GaussianMean, Plan
from tacit.privacy import calibrate_gaussian

# Epsilon, delta, K and N.
SETTINGS = ((8.0, 1e-3, 8, 80), (8.0, 1e-5, 100, 50), (1.0, 1e-5, 250, 20), (0.1, 1e-5, 2, 10))
SLOPE = math.sqrt(8 / math.pi)
SAMPLES = 200_000


def sigmas(place: Workplace) -> None:
    """Compare the noise of equation 5, of the box, and the least that suffices."""
    rows = []
    for epsilon, delta, teachers, queries in SETTINGS:
        b = math.log(1 / delta)
        roots = math.sqrt(queries) * (math.sqrt(b + epsilon) + math.sqrt(b))
        exact = calibrate_gaussian(math.sqrt(queries) / teachers, epsilon, delta)
        printed = roots / (math.sqrt(2) * teachers * epsilon)
        box = roots / math.sqrt(2 * teachers * epsilon)
        setting = f"{epsilon:g}, {delta:g}, {teachers}, {queries}"
        rows.append([setting, printed, box, exact, f"{100 * (printed / exact - 1):.0f} %"])
    columns = ["epsilon, delta, K, N", "equation 5", "box", "exact", "equation 5 above exact"]
    place.table("Noise over the diameter of a code", columns, rows)


def maximisation(place: Workplace) -> None:
    """Bounds of equation 3 on the hippocampus from both sides, over the papers' sqrt(d)."""
    task = hippocampus(place)
    codec = PCACodec.fit(task.public)
    whole = math.sqrt(codec.mean.size)
    rows = []
    for length in (1, 2, 5, 10, 20):
        components = codec.components[:length]
        low, high = longest_code(components)
        rows.append([length, low / whole, high / whole])
    columns = ["components", "reached, of sqrt(d)", "never above, of sqrt(d)"]
    place.table("Equation 3: the longest code of a mask with entries in [-1, 1]", columns, rows)


def longest_code(components: Array, starts: int = 20) -> tuple[float, float]:
    """Return bounds of max |A y| over the cube [-1, 1]^d, for orthonormal rows A.

    From below by climbing, y <- sign(A^T A y), from several starts. From above by the sum of the
    lengths of the columns, and by the root of how many columns are not 0, for A lengthens nothing.

    >>> low, high = longest_code(np.array([[0.6, 0.8, 0.0]]))
    >>> round(low, 6), round(high, 6)
    (1.4, 1.4)
    """
    rng = np.random.default_rng(0)
    best = 0.0
    for _ in range(starts):
        code = rng.normal(size=len(components))
        for _ in range(100):
            reached = components @ np.sign(code @ components)
            if np.allclose(reached, code):
                break
            code = reached
        best = max(best, float(np.linalg.norm(code)))
    lengths = np.linalg.norm(components, axis=0)
    seen = math.sqrt(np.count_nonzero(lengths > 1e-12))
    return best, min(float(lengths.sum()), seen)


def logistic(place: Workplace) -> None:
    """Draw the logistic and the normal distribution."""
    x = np.linspace(-6, 6, 1201)
    logistic, normal = 1 / (1 + np.exp(-x)), norm.cdf(x / SLOPE)
    apart = float(np.abs(logistic - normal).max())
    place.table(
        "2020, Figure 1: standard logistic against normal of variance 8/pi",
        ["farthest apart", "at |x|"],
        [[apart, abs(float(x[np.abs(logistic - normal).argmax()]))]],
    )
    densities = {
        "logistic": (x, logistic * (1 - logistic)),
        "normal, variance 8/pi": (x, norm.pdf(x / SLOPE) / SLOPE),
    }
    place.curves("masks-2020-figure-1", densities, "2020, Figure 1", "x", "density")


def disc(place: Workplace) -> None:
    """Activations of standard normal inputs in the disc, uniform points, and the difference."""
    inputs = np.random.default_rng(0).normal(size=(SAMPLES, 3))
    radius = (1 / (1 + np.exp(-SLOPE * inputs[:, 0]))) ** 0.5
    direction = inputs[:, 1:] / np.linalg.norm(inputs[:, 1:], axis=1, keepdims=True)
    rings = np.linspace(0, 1, 6) ** 0.5
    shares = np.histogram(radius, rings)[0] / SAMPLES
    place.table(
        "2020, Figure 2: share of the activations in parts of the disc",
        ["part of the disc", "uniform", "activations"],
        [
            ["the innermost hundredth", 0.01, float((radius < 0.1).mean())],
            *([f"fifth {k}", 0.2, float(share)] for k, share in enumerate(shares, start=1)),
        ],
    )
    grid = np.linspace(-1, 1, 41)
    points = radius[:, None] * direction
    ours = np.histogram2d(points[:, 0], points[:, 1], bins=(grid, grid))[0]
    place.picture("masks-2020-figure-2", _three_discs(ours / SAMPLES, grid))


def _three_discs(ours: Array, grid: Array) -> Figure:
    rng = np.random.default_rng(1)
    angle, radius = rng.uniform(0, 2 * np.pi, SAMPLES), rng.uniform(size=SAMPLES) ** 0.5
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    uniform = np.histogram2d(x, y, bins=(grid, grid))[0] / SAMPLES
    figure = Figure(figsize=(8.4, 3.0), layout="constrained", facecolor="white")
    shown = {"activations": ours, "uniform": uniform, "difference": np.abs(ours - uniform)}
    all_axes = figure.subplots(1, 3)
    for axes, (name, picture) in zip(all_axes, shown.items(), strict=True):
        drawn = axes.imshow(
            picture.T, origin="lower", extent=(-1, 1, -1, 1), vmin=0, vmax=uniform.max()
        )
        axes.set_title(name, fontsize=10)
    figure.colorbar(drawn, ax=list(all_axes), label="share of the points", shrink=0.75)
    return figure


def analytic(place: Workplace) -> None:
    """Inequality 1 at the noise that is taken, and at a thousandth less."""
    rows = []
    for epsilon, delta, teachers, queries in SETTINGS:
        reach = 2 * math.sqrt(queries) / teachers
        sigma = calibrate_gaussian(reach, epsilon, delta)
        left = [_left(reach, one, epsilon) for one in (sigma, 0.999 * sigma)]
        rows.append([f"{epsilon:g}, {delta:g}, {teachers}, {queries}", sigma, *left])
    columns = ["epsilon, delta, K, N", "sigma", "left side", "with 0.999 sigma"]
    place.table("2022, Theorem 1: the left side is delta at the least sigma", columns, rows)


def _left(reach: float, sigma: float, epsilon: float) -> float:
    a, b = reach / (2 * sigma), epsilon * sigma / reach
    return float(norm.cdf(a - b) - math.exp(epsilon) * norm.cdf(-a - b))


def theorem_4(place: Workplace) -> None:
    """Compare the error by the formula with that of drawn noise, on the queries."""
    task = hippocampus(place)
    codec = PCACodec.fit(task.public)
    rng, sigma = np.random.default_rng(0), 2.0
    offsets = (task.asked - codec.mean).reshape(len(task.asked), -1)
    rows = []
    for length in (0, 5, 20, 60):
        components = codec.components[:length]
        codes = offsets @ components.T
        noisy = (codes + rng.normal(scale=sigma, size=codes.shape)) @ components
        drawn = np.square(offsets - noisy).sum(axis=1).mean()
        lost = np.square(offsets).sum(axis=1).mean() - np.square(codes).sum(axis=1).mean()
        rows.append([length, float(length * sigma**2 + lost), float(drawn)])
    columns = ["components", "formula", "drawn"]
    place.table("2022, Theorem 4: squared error per volume at sigma 2", columns, rows)


def blocks(place: Workplace) -> None:
    """Price blocks or slices that have a bound each while volumes are counted."""
    noise = calibrate_gaussian(1.0, 1.0, 1e-5)
    sold = GaussianMean.with_noise(noise, queries=10, radius=1.0, n_teachers=50)
    rows = [
        [name, count, Plan(sold.mechanism, 10 * count).epsilon(1e-5)]
        for name, count in (("volumes", 1), ("slices", 155), ("blocks", 1000))
    ]
    columns = ["what has a bound", "in a volume", "epsilon at delta 1e-5"]
    place.table("A claim of epsilon 1 for 10 volumes", columns, rows)
    slices(place)
