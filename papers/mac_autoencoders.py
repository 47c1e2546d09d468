"""DP-MAC's autoencoder of USPS, beside DP-SGD's."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from papers.items import Floats, Workplace
from papers.mac_classifiers import AUTOENCODER, DELTA, GREY, SEEDS, TEST, strips, usps
from tacit.mechanisms import NoisySteps, Plan
from tacit.noise import InsecureNoise
from tacit.noisy_training import (
    AuxiliaryCoordinates,
    Blocks,
    GradientSteps,
    LayerParts,
    PrivateExamples,
    Recipe,
    StackParts,
    blocks_of,
    half_squares,
    set_parameters,
    steps_of,
    trained_parameters,
)
from tacit.students import build_layers, perceptron, seeded

# Epoch, error on private images, error on held-out ones.
Errors = list[tuple[int, float, float]]
METHODS = ("DP-MAC, Adam", "DP-SGD, flat, Adam", "DP-SGD, flat, SGD")
EPOCHS, LOT = 10, 250
# Noise makes Adam's steps short. Without it DP-MAC takes this part of its rate, which has 7.2 on
# shrunk MNIST images where the whole has 9.1.
CALM = 0.3
GALLERY = {"cmap": "gray_r", "vmin": -GREY, "vmax": 1 - GREY}
# In units of the radius, best of 0.3, 1, 3 on MNIST images shrunk to 16 x 16, epsilon 8.
SGD_RATE = 3.0


def _autoencoder(
    method: str, rows: Floats, epsilon: float, seed: int, watch: Callable[[int, Any], None]
) -> None:
    """Train Table 2's autoencoder; `watch` sees the network after every epoch.

    The data are public, and so is every step: seeded noise, no ledger. Epsilon inf is no noise.
    """
    module = seeded(lambda: build_layers(perceptron(AUTOENCODER, "tanh")), seed).double()
    rate, examples = LOT / len(rows), PrivateExamples(rows, rows)
    steps = steps_of(EPOCHS, rate)
    recipe = Recipe(
        steps=steps,
        lot=float(LOT),
        clip=1e-3,
        clipping="per-layer" if method.startswith("DP-MAC") else "flat",
        optimizer="sgd" if method.endswith("SGD") else "adam",
        learning_rate={"DP-MAC, Adam": 1 / math.sqrt(steps), "DP-SGD, flat, Adam": 8e-3}.get(
            method, SGD_RATE
        ),
    )
    blocks = blocks_of(recipe, module)
    scales: Floats | float = 1.0
    make: Any = partial(StackParts, module, loss=half_squares, blocks=blocks)
    if method.startswith("DP-MAC"):
        calm = CALM if math.isinf(epsilon) else 1.0
        network = AuxiliaryCoordinates(AUTOENCODER, steps=10, rate=0.018)
        make = partial(_layer_parts, network, blocks, recipe.clip)
        scales = calm * network.scales()
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if done % (steps // EPOCHS) == 0:
            set_parameters(trained_parameters(module), run.result())
            watch(done * EPOCHS // steps, module)

    run = GradientSteps(recipe, module, make, examples, blocks, tick, scales)
    noise = 1e-6 if math.isinf(epsilon) else noise_of(epsilon, rate, steps)
    NoisySteps(noise, rate).release(run, InsecureNoise(seed))


def _layer_parts(
    network: AuxiliaryCoordinates, blocks: Blocks, clip: float, examples: PrivateExamples
) -> LayerParts:
    return LayerParts(network, examples, blocks, (clip,) * len(network.sizes))


def noise_of(epsilon: float, rate: float, steps: int) -> float:
    """Return the least noise multiplier, to a hundredth, whose run costs at most epsilon."""
    low, high = 0.3, 64.0
    while high - low > 0.01:
        middle = (low + high) / 2
        fits = Plan(NoisySteps(middle, rate), steps).epsilon(DELTA) <= epsilon
        low, high = (low, middle) if fits else (middle, high)
    return high


def _error(module: Any, rows: Floats) -> float:
    """Return the mean summed squared error of an image."""
    with torch.no_grad():
        made = module(torch.from_numpy(rows)).numpy()
    return float(np.square(made - rows).sum(axis=1).mean())


def _errors(method: str, data: tuple[Floats, Floats], epsilon: float, seed: int) -> Errors:
    inside, outside = data
    found: Errors = []

    def watch(epoch: int, module: Any) -> None:
        found.append((epoch, _error(module, inside[:TEST]), _error(module, outside)))

    _autoencoder(method, inside, epsilon, seed, watch)
    return found


def figure_1(place: Workplace) -> None:
    """Training and test errors over the epochs at epsilon 8, means and deviations of the seeds."""
    data, curves, rows = usps(place), {}, []
    for method in METHODS:
        runs = np.array([_errors(method, data, 8.0, seed) for seed in SEEDS])
        mean, spread = runs.mean(axis=0), runs.std(axis=0, ddof=1)
        curves[f"{method}: test"] = mean[:, 0], mean[:, 2]
        curves[f"{method}: training"] = mean[:, 0], mean[:, 1]
        rows += [
            (method, int(one[0]), one[1], one[2], dev[2])
            for one, dev in zip(mean, spread, strict=True)
            if int(one[0]) in (1, 2, 5, EPOCHS)
        ]
    columns = ["method", "epoch", "training", "test", "deviation of test"]
    place.table("Figure 1: summed squared error at epsilon 8, three seeds", columns, rows)
    title = "Figure 1: USPS autoencoder, epsilon 8"
    place.curves("mac-figure-1", curves, title, "epoch", "summed squared error")


def table_1b(place: Workplace) -> None:
    """DP-MAC on USPS as in Figure 1, as the summed squared error and as half of it."""
    data = usps(place)
    printed = {1.0: (23.5, 19.0), 2.0: (20.8, 14.0), 4.0: (16.8, 12.7), 8.0: (15.4, 12.0)}
    rows = []
    for epsilon, said in printed.items():
        error = _errors(METHODS[0], data, epsilon, seed=0)[-1][-1]
        place.progress(epsilon, error)
        rows.append((epsilon, *said, error, error / 2))
    columns = ["epsilon", "DP-SGD, printed", "DP-MAC, printed", "DP-MAC here", "half of it"]
    place.table("Table 1b: USPS, summed squared error after 10 epochs", columns, rows)


def figure_4(place: Workplace) -> None:
    """Held-out images and what is left of them, without noise and at epsilon 4 and 1."""
    inside, outside = usps(place)
    shown: dict[str, Floats] = {"images": outside[:10]}
    rows = []
    for name, epsilon, printed in (
        ("no noise", math.inf, 11.1),
        ("epsilon 4", 4.0, 12.7),
        ("epsilon 1", 1.0, 17.8),
    ):
        last: dict[int, Any] = {}
        _autoencoder(METHODS[0], inside, epsilon, 0, last.__setitem__)
        error = _error(last[EPOCHS], outside)
        shown[f"{name}: {error:.1f}"] = _made(last[EPOCHS], outside[:10])
        rows.append((name, printed, error, error / 2))
    place.table(
        "Figure 4: error of reconstructions",
        ["setting", "printed", "summed squared error", "half of it"],
        rows,
    )
    strips(place, "mac-figure-4", "Figure 4: USPS images and reconstructions", shown, GALLERY)


def _made(module: Any, rows: Floats) -> Floats:
    with torch.no_grad():
        return np.asarray(module(torch.from_numpy(rows)).numpy())
