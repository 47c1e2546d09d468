"""Time and memory of one private training step: ours, Opacus', and without privacy.

Two networks, one lot of records each: a classifier 784-300-100-10 on a lot of 600, and the USPS
autoencoder 256-300-100-20-100-300-256 on a lot of 500; random data, one thread, each measurement in
a process of its own. Before that, five networks against Opacus' ghost clipping alone, in turn in
one process each. Then a step of DP-MAC against a step of the same method without privacy.

    python -m benchmarks.direct [--only opacus,classifier,autoencoder,mac --repeats 7]

"memory" is what the steps add to the process at the most, beyond network and data.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measured import in_a_process, peak_mib, reset_peak

NETWORKS: dict[str, dict[str, Any]] = {
    "classifier": {"widths": (784, 300, 100, 10), "lot": 600},
    "autoencoder": {"widths": (256, 300, 100, 20, 100, 300, 256), "lot": 500},
    "classifier-256": {"widths": (784, 300, 100, 10), "lot": 256, "activation": "tanh"},
    "classifier-1024": {"widths": (784, 300, 100, 10), "lot": 1024, "activation": "tanh"},
    "relu-256": {"widths": (784, 300, 100, 10), "lot": 256, "activation": "relu"},
    "relu-1024": {"widths": (784, 300, 100, 10), "lot": 1024, "activation": "relu"},
    "convolutions-256": {"widths": (784, 10), "lot": 256, "activation": None},
}
"""The widths of inputs, layers and outputs; convolutions are those of Opacus' example for MNIST."""
STEPS = {
    "plain": "no privacy, float32",
    "ours-per-layer": "ours, ghost norms per layer",
    "ours-flat": "ours, ghost norms flat",
    "ours-hooks": "ours, Opacus' hooks in float64",
    "noise": "  of which exact noise",
    "opacus-hooks": "Opacus, hooks (its noise)",
    "opacus-ghost": "Opacus, ghost (its noise)",
}
MAC_STEPS = {
    "mac-plain32": "MAC, no privacy, float32",
    "mac-plain64": "MAC, no privacy, float64",
    "mac-private": "DP-MAC, exact rows and noise",
    "mac-sums": "  of which the clipped sums",
}


def network_of(name: str) -> Any:
    import torch

    from tacit.students import build_layers, perceptron

    torch.manual_seed(0)
    activation = NETWORKS[name].get("activation", "softplus")
    if activation is None:
        return small_convolutions()
    return build_layers(perceptron(NETWORKS[name]["widths"], activation))


def small_convolutions() -> Any:
    """26,010 parameters for images of 28 x 28."""
    from torch import nn

    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def data_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    widths, lot = NETWORKS[name]["widths"], NETWORKS[name]["lot"]
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(lot, widths[0])).astype(np.float32)
    return rows, generator.integers(10, size=lot) if widths[-1] == 10 else rows


def loss_of(name: str) -> Any:
    from tacit.noisy_training import cross_entropy, half_squares

    return cross_entropy if NETWORKS[name]["widths"][-1] == 10 else half_squares


def ours(name: str, kind: str) -> Callable[[], None]:
    """One step as the mechanism takes it: sums, exact noise, Adam."""
    from tacit import SecureNoise
    from tacit.mechanisms import NoisySteps
    from tacit.noisy_training import (
        GradientSteps,
        HookParts,
        PrivateExamples,
        Recipe,
        StackParts,
        blocks_of,
    )

    clipping = "per-layer" if kind == "ours-per-layer" else "flat"
    recipe = Recipe(steps=1000, lot=float(NETWORKS[name]["lot"]), clip=0.1, clipping=clipping)
    module = network_of(name).double()
    blocks, loss = blocks_of(recipe, module), loss_of(name)
    engine = HookParts if kind == "ours-hooks" else StackParts
    examples = PrivateExamples(*data_of(name))
    made = lambda data: engine(module, data, loss, blocks)  # noqa: E731
    run = GradientSteps(recipe, module, made, examples, blocks)
    mechanism, noise = NoisySteps(1.5, 1.0), SecureNoise()
    if kind == "noise":
        grid = mechanism.grid(run.dimension)
        drawn = (mechanism.deviation, grid, run.dimension)
        return lambda: _ignore(noise.rounded_gaussian_steps, *drawn)
    return lambda: run.learn(mechanism._noisy_sums(run, noise))


def products(name: str, kind: str) -> Callable[[], None]:
    """Multiply the matrices of one step and nothing else, in float64: forth, back, summed."""
    import torch

    widths, lot = NETWORKS[name]["widths"], NETWORKS[name]["lot"]
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64)  # noqa: E731
    layers = [
        (draw(lot, before), draw(before, after), draw(lot, after))
        for before, after in pairwise(widths)
    ]

    def step() -> None:
        for number, (rows, weights, deltas) in enumerate(layers):
            torch.mm(rows, weights)
            torch.mm(deltas.T, rows)
            if number > 0:  # nothing goes back to the inputs
                torch.mm(deltas, weights.T)

    return step


def plain(name: str, kind: str) -> Callable[[], None]:
    """One step of Adam on the mean loss, in float32."""
    import torch

    module, loss = network_of(name), loss_of(name)
    rows, targets = map(torch.from_numpy, data_of(name))
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)

    def step() -> None:
        optimiser.zero_grad()
        loss(module(rows), targets).mean().backward()
        optimiser.step()

    return step


def opacus_step(name: str, kind: str) -> Callable[[], None]:
    """One step as Opacus ships it: float32, one physical batch, its optimiser and its noise."""
    import torch
    from opacus.grad_sample import GradSampleModule
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
        GradSampleModuleFastGradientClipping as Ghost,
    )
    from opacus.optimizers import DPOptimizer
    from opacus.optimizers.optimizer_fast_gradient_clipping import (
        DPOptimizerFastGradientClipping as GhostOptimizer,
    )

    loss = loss_of(name)
    rows, targets = map(torch.from_numpy, data_of(name))
    settings = {"noise_multiplier": 1.5, "max_grad_norm": 0.1, "expected_batch_size": len(rows)}
    ghost = kind == "opacus-ghost"
    wrapped = (
        Ghost(network_of(name), max_grad_norm=0.1) if ghost else GradSampleModule(network_of(name))
    )
    inner = torch.optim.Adam(wrapped.parameters(), lr=1e-3)
    optimiser = (GhostOptimizer if ghost else DPOptimizer)(inner, **settings)

    def ghost_step() -> None:
        """Do what its DPLossFastGradientClipping does: norms, then a weighted second backward."""
        losses = loss(wrapped(rows), targets)
        optimiser.zero_grad()
        losses.mean().backward(retain_graph=True)
        optimiser.zero_grad()
        weighted = (losses * wrapped.get_clipping_coef()).sum()
        wrapped.disable_hooks()
        weighted.backward()
        wrapped.enable_hooks()
        optimiser.step()

    def hook_step() -> None:
        optimiser.zero_grad()
        loss(wrapped(rows), targets).mean().backward()
        optimiser.step()

    return ghost_step if ghost else hook_step


def private_mac(name: str, kind: str) -> Callable[[], None]:
    """One step of DP-MAC as the mechanism takes it."""
    from tacit import SecureNoise
    from tacit.mechanisms import NoisySteps
    from tacit.noisy_training import (
        AuxiliaryCoordinates,
        Blocks,
        GradientSteps,
        LayerParts,
        PrivateExamples,
        Recipe,
    )

    widths, lot = NETWORKS[name]["widths"], NETWORKS[name]["lot"]
    objective = "binary" if widths[-1] == 10 else "squares"
    network = AuxiliaryCoordinates(widths, loss=objective, activation="relu")
    blocks = Blocks.cut(network.sizes, clip=1e-3, clipping="per-layer", split="minimal")
    recipe = Recipe(steps=1000, lot=float(lot), clip=1e-3, clipping="per-layer")
    bounds = [1e-3] * len(network.sizes)
    made = lambda data: LayerParts(network, data, blocks, bounds)  # noqa: E731
    module = network_of(name).double()
    run = GradientSteps(recipe, module, made, PrivateExamples(*data_of(name)), blocks)
    mechanism, noise, everyone = NoisySteps(1.5, 1.0), SecureNoise(), np.arange(lot)
    if kind == "mac-sums":
        return lambda: _ignore(run.sums, everyone)
    return lambda: run.learn(mechanism._noisy_sums(run, noise))


def _ignore(function: Callable[..., Any], *arguments: Any) -> None:
    function(*arguments)


def plain_mac(name: str, kind: str) -> Callable[[], None]:
    """One step of MAC without privacy: 30 steps of coordinates, sums, Adam; plain products."""
    from benchmarks.plain_mac import PlainMac

    rows, targets = data_of(name)
    if targets.ndim == 1:
        targets = np.eye(10)[targets]
    dtype = "float32" if kind == "mac-plain32" else "float64"
    return PlainMac(NETWORKS[name]["widths"], rows, targets, dtype=dtype).step


MAKERS: dict[str, Callable[[str, str], Callable[[], None]]] = {
    "plain": plain,
    "ours": ours,
    "noise": ours,
    "products": products,
    "opacus": opacus_step,
}


def measure(network: str, kind: str, repeats: int) -> dict[str, Any]:
    """Run in a fresh process: CPU milliseconds of a step (median) and MiB that steps add."""
    import warnings

    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if kind.startswith("mac"):
        maker = plain_mac if "plain" in kind else private_mac
    else:
        maker = MAKERS[kind.partition("-")[0]]
    step = maker(network, kind)
    before = reset_peak()
    times = []
    for _ in range(repeats + 1):
        start = time.process_time()  # one thread: what others do on the machine does not count
        step()
        times.append(time.process_time() - start)
    return {"ms": 1e3 * statistics.median(times[1:]), "mib": peak_mib() - before}


CELLS = ("classifier-256", "classifier-1024", "relu-256", "relu-1024", "convolutions-256")
CLIPPED = {"ours-flat": "flat", "ours-per-layer": "per layer"}


def side_by_side(network: str, repeats: int) -> dict[str, Any]:
    """Run in a fresh process, one thread: our steps and Opacus' in turn, wall and CPU medians.

    In turn, so that whatever else the machine does slows all of them alike.
    """
    import warnings

    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    linear = NETWORKS[network]["activation"] is not None
    kinds = (*CLIPPED, "opacus-ghost", "noise", *(["products"] if linear else []))
    steps = [MAKERS[kind.partition("-")[0]](network, kind) for kind in kinds]
    taken = np.array([[_clocked(step) for step in steps] for _ in range(repeats + 2)])
    middle = np.median(taken[2:], axis=0)
    return {kind: (1e3 * own).tolist() for kind, own in zip(kinds, middle, strict=True)}


def _clocked(step: Callable[[], None]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - wall, time.process_time() - cpu


def against_opacus(repeats: int) -> Table:
    """Compare Opacus' ghost clipping, which clips flat, with ours: above 1 ours is quicker.

    Milliseconds are of the processor; those of our products in float64 and of our noise, each
    alone, are part of ours.
    """
    made = Table(title="Opacus' ghost clipping, float32, over ours, in turn in one process")
    shown = ("network and lot", "clipping", "ours ms", "products", "noise", "Opacus ms")
    for column in (*shown, "CPU", "wall"):
        made.add_column(column, justify="left" if column == "clipping" else "right")
    for network in CELLS:
        found = in_a_process(
            "benchmarks.direct", "side_by_side", one_thread=True, network=network, repeats=repeats
        )
        theirs = found["opacus-ghost"]
        for kind, clipping in CLIPPED.items():
            wall, cpu = (their / own for their, own in zip(theirs, found[kind], strict=True))
            spent = [
                f"{found[one][1]:.1f}" if one in found else ""
                for one in (kind, "products", "noise", "opacus-ghost")
            ]
            made.add_row(network, clipping, *spent, f"{cpu:.2f}", f"{wall:.2f}")
    return made


def main() -> None:
    options = parse()
    parts = options.only.split(",")
    console = Console(width=110)
    if "opacus" in parts:
        console.print(against_opacus(options.repeats))
    for network in (part for part in parts if part in NETWORKS):
        console.print(table(network, STEPS, "plain", options.repeats))
    if "mac" in parts:
        for network in ("classifier", "autoencoder"):
            console.print(table(network, MAC_STEPS, "mac-plain64", options.repeats))


def table(network: str, kinds: dict[str, str], base: str, repeats: int) -> Table:
    widths = "-".join(map(str, NETWORKS[network]["widths"]))
    made = Table(title=f"{widths}, a lot of {NETWORKS[network]['lot']}")
    for column in ("a step", "CPU ms", "times", "memory (MiB)"):
        made.add_column(column, justify="left" if column == "a step" else "right")
    settings = {"network": network, "repeats": repeats}
    found = {
        kind: in_a_process("benchmarks.direct", "measure", one_thread=True, kind=kind, **settings)
        for kind in kinds
    }
    for kind, title in kinds.items():
        row = found[kind]
        times = row["ms"] / found[base]["ms"]
        made.add_row(title, f"{row['ms']:.1f}", f"{times:.2f}", f"{row['mib']:.0f}")
    return made


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="opacus,classifier,autoencoder,mac")
    parser.add_argument("--repeats", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
