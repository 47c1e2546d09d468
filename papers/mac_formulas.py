"""DP-MAC's formulas: objectives and their expansions, and what its noise costs."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.integrate import quad

from papers.items import Floats, Workplace
from papers.mac_classifiers import AUTOENCODER, CLASSIFIER, DELTA, HUGE, TRAIN, digits
from tacit.mechanisms import NoisySteps, Plan, price_of_list
from tacit.noisy_training import (
    AuxiliaryCoordinates,
    Blocks,
    LayerParts,
    PrivateExamples,
    flat_parameters,
    histogram_plan,
    second_order_blocks,
)
from tacit.students import build_layers, perceptron, seeded


def curvature_numbers(widths: tuple[int, ...]) -> int:
    """Return how many numbers the curvatures of all units have, each symmetric, with a bias."""
    return sum(after * (before + 1) * (before + 2) // 2 for before, after in pairwise(widths))


def second_order(place: Workplace) -> None:
    """How many numbers a second-order step releases, and what Gauss-Newton and g leave out."""
    narrow = {"64-16-10 (digits)": (64, 16, 10), "256-16-10 (USPS)": (256, 16, 10)}
    wide = {"classifier, Table 2": CLASSIFIER, "autoencoder, Table 2": AUTOENCODER}
    rows = []
    for name, widths in (narrow | wide).items():
        gradient = sum((before + 1) * after for before, after in pairwise(widths))
        curvature = curvature_numbers(widths)
        rows.append((name, f"{gradient:,}", f"{curvature:,}", round(curvature / gradient, 1)))
    columns = ["network", "numbers of a gradient", "of the curvatures", "times"]
    place.table("Equation 4: what one second-order step releases", columns, rows)
    place.table(
        "Equation 5: lengths of b and of the gradient, one record, 64-16-10 on digits",
        ["layer", "gradient g", "b = g - 2 C w", "times", "second derivative left out, % of it"],
        _left_out(),
    )


def _left_out() -> list[tuple[Any, ...]]:
    """Compare, under the first weights, one record's g with the paper's b, layer by layer.

    Of a softplus layer the full second derivative by an output is f'^2 + (f - z) f''; what
    Gauss-Newton leaves out is its second part. f' is between 0 and 1 and f'' = f' (1 - f').
    """
    X, y, _, _ = digits()
    widths = (64, 16, 10)
    network = AuxiliaryCoordinates(widths, loss="binary", activation="softplus", steps=6, rate=0.03)
    blocks = second_order_blocks(widths, "equal")
    parts = LayerParts(network, PrivateExamples(X[:60], y[:60]), blocks, (HUGE,) * 2, (HUGE,) * 2)
    module = seeded(lambda: build_layers(perceptron(widths, "softplus")), 0).double()
    parts.load(flat_parameters(module))
    scale = HUGE / blocks.shares[0]
    found: list[list[tuple[float, float, float]]] = [[], []]
    for record in range(60):
        pieces = np.split(parts.sums(np.array([record])) * scale, np.cumsum(blocks.sizes)[:-1])
        for layer, own in enumerate(_weights(module)):
            slope, curved = _with_bias(pieces[layer], own.shape), pieces[2 + layer]
            # H w of each output; the paper's C is half of H.
            turned = np.einsum("hij,hj->hi", matrices(curved, own.shape), own)
            found[layer].append(
                (
                    float(np.linalg.norm(slope)),
                    float(np.linalg.norm(slope - turned)),
                    _residual_share(slope, curved, own.shape),
                )
            )
    rows = []
    for layer, lengths in enumerate(found):
        g, b, left = np.mean(lengths, axis=0)
        rows.append((layer + 1, g, b, b / g, 100 * left if layer == 0 else 0.0))
    return rows


def _weights(module: Any) -> list[Floats]:
    """Return each layer's matrix with its bias in the last column."""
    values = [p.detach().numpy() for p in module.parameters()]
    return [np.hstack([w, b[:, None]]) for w, b in zip(values[::2], values[1::2], strict=True)]


def _with_bias(flat: Floats, shape: tuple[int, ...]) -> Floats:
    outputs, inputs = shape
    matrix, bias = np.split(flat, [outputs * (inputs - 1)])
    return np.hstack([matrix.reshape(outputs, -1), bias[:, None]])


def matrices(flat: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the curvature by each output's weights: (outputs, inputs, inputs)."""
    outputs, inputs = shape
    rows, columns = np.triu_indices(inputs)
    made = np.zeros((outputs, inputs, inputs))
    made[:, rows, columns] = flat.reshape(outputs, -1) / np.where(rows == columns, 1.0, 2**0.5)
    made[:, columns, rows] = made[:, rows, columns]
    return made


def _residual_share(slope: Floats, curved: Floats, shape: tuple[int, ...]) -> float:
    """Return |(f - z) f''| over |f'^2 + (f - z) f''|, from delta = (f - z) f' and kappa = f'^2.

    The bias' input is 1: delta and kappa stand in the last column and the last corner.
    """
    delta, kappa = slope[:, -1], matrices(curved, shape)[:, -1, -1]
    slopes = np.sqrt(np.maximum(kappa, 1e-300))
    left = delta * (1 - slopes)
    return float(np.linalg.norm(left) / np.linalg.norm(kappa + left))


def first_step(place: Workplace) -> None:
    """Unperturbed, first and second order have the same gradient at the point of expansion."""
    X, y, _, _ = digits()
    widths = (64, 16, 10)
    network = AuxiliaryCoordinates(widths, loss="binary", steps=6, rate=0.03)
    module = seeded(lambda: build_layers(perceptron(widths, "tanh")), 0).double()
    both = []
    for order in (1, 2):
        if order == 1:
            blocks = Blocks.cut(network.sizes, clip=HUGE, clipping="per-layer", split="equal")
        else:
            blocks = second_order_blocks(widths, "equal")
        bounds = ((HUGE,) * 2,) * order
        parts = LayerParts(network, PrivateExamples(X, y), blocks, *bounds)
        parts.load(flat_parameters(module))
        both.append(parts.sums(np.arange(len(y)))[: sum(network.sizes)] / blocks.shares[0])
    gap = np.abs(both[0] - both[1]).max() / np.abs(both[0]).max()
    steep, stack = _backpropagated(module, X, y), both[0]
    angles, ends = [], np.cumsum(network.sizes)[:-1]
    by_layer = zip(np.split(stack, ends), np.split(steep, ends), strict=True)
    for layer, (mine, other) in enumerate(by_layer):
        cosine = mine @ other / np.linalg.norm(mine) / np.linalg.norm(other)
        angles.append((layer + 1, float(cosine)))
    place.table(
        "First step: second order against first, largest difference over the largest number",
        ["difference"],
        [(float(gap),)],
    )
    columns = ["layer", "cosine of the angle"]
    place.table("First step: DP-MAC's gradient against backpropagation's", columns, angles)


def _backpropagated(module: Any, X: Floats, y: Floats) -> Floats:
    """Return the gradient of half the binary cross-entropy of all outputs, by torch."""
    scores, truth = (
        module(torch.from_numpy(X)),
        torch.eye(10, dtype=torch.float64)[torch.from_numpy(y)],
    )
    loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, truth, reduction="sum") / 2
    loss.backward()  # type: ignore[no-untyped-call]
    return np.concatenate([p.grad.numpy().ravel() for p in module.parameters()])


def figure_2(place: Workplace) -> None:
    """One weight: the objective, its second-order expansion at 0, and Gauss-Newton's."""
    grid = np.linspace(-2, 2, 81)
    curves: dict[str, tuple[Floats, Floats]] = {}
    rows = []
    for name, truth in (("hidden", -0.7), ("output", 0.7)):
        exact, second, gauss = expansions(grid, truth, output=name == "output")
        curves |= {f"{name}": (grid, exact), f"{name}, second order": (grid, second)}
        if name == "hidden":
            curves["hidden, Gauss-Newton"] = grid, gauss
        for each, made in (("second order", second), ("Gauss-Newton", gauss)):
            at = grid[np.argmin(made)]
            near = np.abs(grid) <= 1
            rows.append((name, each, truth, float(at), float(np.abs(made - exact)[near].max())))
    columns = ["layer", "expansion", "true weight", "its least place", "largest gap within 1"]
    place.table("Figure 2: objectives of one weight, expanded at 0", columns, rows)
    title = "Figure 2: expansions at 0"
    place.curves("mac-figure-2", curves, title, "weight", "objective of the layer")


def expansions(grid: Floats, truth: float, *, output: bool) -> tuple[Floats, Floats, Floats]:
    """Return the objective, the full second-order expansion and Gauss-Newton's, on inputs N(0, 1).

    Hidden: half the squared error of softplus, targets by the true weight. Output: half the binary
    cross-entropy, targets drawn by the true weight.
    """
    draw = np.random.default_rng(0)
    x = draw.normal(size=400)

    def soft(u: Floats) -> Floats:
        return np.logaddexp(0.0, u)

    half = np.full_like(x, 0.5)
    if output:
        y = (draw.random(400) < 1 / (1 + np.exp(-truth * x))).astype(float)
        exact = [np.mean(soft(w * x) - y * w * x) / 2 for w in grid]
        slope, curve = np.mean((half - y) * x) / 2, np.mean(x**2) / 8
        both = curve, curve
    else:
        z = soft(truth * x)
        exact = [np.mean((z - soft(w * x)) ** 2) / 2 for w in grid]
        gap = math.log(2) - z
        slope = np.mean(gap * half * x)
        both = np.mean((half**2 + gap / 4) * x**2), np.mean(half**2 * x**2)
    start = exact[int(np.argmin(np.abs(grid)))]
    made = [start + slope * grid + curve * grid**2 / 2 for curve in both]
    return np.asarray(exact), np.asarray(made[0]), np.asarray(made[1])


def shares(place: Workplace) -> None:
    """Show what one record moves the sum by where K + 1 blocks are scaled by sqrt(K)."""
    rows = []
    for hidden in (1, 2, 5):
        moved = math.sqrt((hidden + 1) / hidden)
        claim, true = (Plan(NoisySteps(2.0 / by, 0.01), 2000).epsilon(DELTA) for by in (1.0, moved))
        rows.append((hidden, moved, claim, true))
    columns = ["hidden layers K", "one record moves", "epsilon claimed", "epsilon"]
    place.table("Section 2.3: blocks scaled by the root of K, noise 2", columns, rows)


def log_moment(place: Workplace) -> None:
    """Show the Gaussian's log-moment by quadrature, beside both formulas."""
    rows = []
    for order, sigma in ((1, 2.0), (3, 2.0), (8, 4.0)):
        width = sigma * math.sqrt(2 * math.pi)

        def density(
            x: float, order: int = order, sigma: float = sigma, width: float = width
        ) -> float:
            ratio = order * (2 * x - 1) / (2 * sigma**2)
            return math.exp(ratio - (x - 1) ** 2 / (2 * sigma**2)) / width

        exact = math.log(quad(density, -60, 80)[0])
        terms = order**2 + order
        rows.append((order, sigma, exact, terms / (2 * sigma**2), terms / (4 * sigma**2)))
    columns = ["lambda", "sigma", "quadrature", "over 2 sigma^2", "over 4 sigma^2, as printed"]
    place.table("Section 2.4: log-moments of the Gaussian mechanism", columns, rows)


# Network, layers of the histogram, records, lots, epochs, and each epsilon with its sigma.
TABLE_2 = (
    ("DP-MAC, classifier", 3, 60_000, 50, 20, ((0.5, 5.8), (2.0, 1.7))),
    ("DP-MAC, autoencoder", 6, TRAIN, 50, 20, ((1.0, 12.1), (2.0, 5.2), (4.0, 3.0), (8.0, 2.2))),
    ("DP-SGD, autoencoder", 0, TRAIN, 100, 100, ((1.0, 7.0), (2.0, 3.7), (4.0, 2.0), (8.0, 1.3))),
)


def table_2(place: Workplace) -> None:
    """Show what the printed noise costs, if it is a noise multiplier of Poisson samples."""
    rows: list[tuple[Any, ...]] = []
    for name, layers, records, lot, epochs, pairs in TABLE_2:
        for claimed, sigma in pairs:
            steps = Plan(NoisySteps(sigma, lot / records), epochs * records // lot)
            found = [steps.epsilon(DELTA), math.nan]
            if layers:
                found[1] = price_of_list([histogram_plan(layers, 20.0), steps], DELTA).epsilon
            rows.append((name, claimed, sigma, *found))
    columns = ["network", "epsilon claimed", "sigma", "epsilon of the run", "with the histogram"]
    place.table("Table 2: sigma read as a noise multiplier", columns, rows)
