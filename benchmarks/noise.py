"""How fast noise is drawn, in millions of draws per CPU-second, next to NumPy's own generator.

Run `python -m benchmarks.noise` (or with `--json`). NumPy's generator is neither secure nor exactly
rounded: the ratio is what those two properties cost. Goals: 15 million Gaussians and 5 million
rounded Gaussians per CPU-second.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measured import best_of
from tacit.noise import SecureNoise

CHUNK = 1_000_000
CHUNKS = 10


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of draw, secure and plain, and the rate that it should reach."""

    name: str
    secure: Callable[[int], object]
    plain: Callable[[int], object]
    goal: float | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """Millions of draws per CPU-second of one case; `ratio` is NumPy's time over ours."""

    name: str
    secure: float
    numpy: float
    ratio: float
    goal: float | None
    met: bool | None


def cases() -> list[Case]:
    noise, plain = SecureNoise(), np.random.default_rng()

    def rounded(sigma: float, grid: float, goal: float | None, label: str) -> Case:
        return Case(
            f"rounded, {label}",
            lambda count: noise.rounded_gaussian_steps(sigma, grid, count) * grid,
            lambda count: np.rint(plain.normal(0.0, sigma / grid, count)) * grid,
            goal,
        )

    return [
        Case(
            "Gaussian, sigma 40",
            lambda count: noise.gaussian(40.0, count),
            lambda count: plain.normal(0.0, 40.0, count),
            goal=15.0,
        ),
        rounded(40.0, 1.0, 5.0, "sigma 40, grid 1"),
        rounded(1.0, 2.0**-20, 5.0, "sigma 1, grid 2^-20"),
        rounded(1.0, 2.0**-30, None, "sigma 1, grid 2^-30"),
        Case(
            "Laplace, scale 20",
            lambda count: noise.laplace(20.0, count),
            lambda count: plain.laplace(0.0, 20.0, count),
        ),
        Case(
            "Poisson mask, rate 0.01",
            lambda count: noise.poisson_mask(0.01, count),
            lambda count: plain.random(count) < 0.01,
        ),
    ]


def millions_per_second(draw: Callable[[int], object]) -> float:
    def chunks() -> None:
        for _ in range(CHUNKS):
            draw(CHUNK)

    draw(CHUNK)
    return CHUNKS * CHUNK / best_of(chunks)[0] / 1e6


def measure(case: Case) -> Rate:
    secure, plain = millions_per_second(case.secure), millions_per_second(case.plain)
    met = None if case.goal is None else secure >= case.goal
    return Rate(
        case.name, round(secure, 2), round(plain, 2), round(secure / plain, 3), case.goal, met
    )


def table(rates: list[Rate]) -> Table:
    result = Table(title="Noise: million draws per CPU-second")
    result.add_column("draw")
    for heading in ("SecureNoise", "NumPy", "ratio", "goal", "met"):
        result.add_column(heading, justify="right")
    for rate in rates:
        goal = "" if rate.goal is None else f">= {rate.goal:g}"
        met = {None: "", True: "yes", False: "no"}[rate.met]
        result.add_row(
            rate.name, f"{rate.secure:.1f}", f"{rate.numpy:.1f}", f"{rate.ratio:.2f}", goal, met
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    as_json = parser.parse_args().json
    rates = [measure(case) for case in cases()]
    if as_json:
        print(json.dumps([asdict(rate) for rate in rates], indent=2))
    else:
        Console().print(table(rates))


if __name__ == "__main__":
    main()
