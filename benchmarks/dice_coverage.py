"""How often the band of a mean Dice misses it where scans fail, and how wide it is.

    python -m benchmarks.dice_coverage            # 4,000 runs a row: two minutes on one core
    python -m benchmarks.dice_coverage --runs 400 # a look

A scan fails (Dice 0) with a given probability; the others have Dice scores of mean .9 and deviation
.05, or, "0 or 1", are all perfect. Beside it, the normal band, as of the other figures, which
takes the variance of sampling from the same sums.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import numpy as np

from tacit.evaluate.bands import UNIT, Band, Z, solved
from tacit.evaluate.bounded import bounded_mean

SIZES, FAILURES, NOISES = (30, 60, 200, 1000), (0.0, 0.01, 0.05, 0.1, 0.5), (0.0, 0.5, 3.7)


def drawn(runs: int, n: int, failures: float, good: str, rng: Any) -> Any:
    """Return the Dice scores of many runs."""
    dice = np.ones((runs, n)) if good == "0 or 1" else rng.beta(31.5, 3.5, (runs, n))
    return np.where(rng.uniform(size=dice.shape) < failures, 0.0, dice)


def released(dice: Any, noise: float, rng: Any) -> Any:
    """Return noisy sums of d^2, d (1 - d) and (1 - d)^2."""
    sums = np.stack([(dice**2).sum(-1), (dice * (1 - dice)).sum(-1), ((1 - dice) ** 2).sum(-1)])
    return sums + noise * np.array([[1.0], [0.5**0.5], [1.0]]) * rng.standard_normal(sums.shape)


def normal_band(squares: Any, mixed: Any, rest: Any, noise: float) -> Band:
    """Return all p with (S - p n)^2 <= z^2 (noise + sampling), both quadratic in p."""
    count, top = squares + 2 * mixed + rest, squares + mixed
    with np.errstate(all="ignore"):
        value = top / count
        spread = np.maximum(squares - top * value, 0.0)
        weight = np.maximum(count, 0.0)
        a = count**2 - Z**2 * (4 * noise**2 + weight)
        b = -2 * top * count + Z**2 * (4 * noise**2 + 2 * weight * value)
        c = top**2 - Z**2 * (1.5 * noise**2 + spread + weight * value**2)
        return solved(np.where(count > 0, a, -1.0), b, c, value, UNIT)


def missed(band: Band, mean: float) -> float:
    """Return the share of runs whose band does not hold the mean."""
    return float(((band.low > mean) | (band.high < mean)).mean())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rng, most = np.random.default_rng(asked.seed), 0.0
    print("| others | n | fail | noise | normal: outside | width | told: outside | width |")
    print("|---" * 8 + "|")
    for good, n, failures, noise in itertools.product((".9", "0 or 1"), SIZES, FAILURES, NOISES):
        mean = (1 - failures) * (0.9 if good == ".9" else 1.0)
        sums = released(drawn(asked.runs, n, failures, good, rng), noise, rng)
        cells = []
        for band in (normal_band(*sums, noise), bounded_mean(*sums, noise=noise, size=n)):
            outside = missed(band, mean)
            cells.append(f"{outside:.1%} | {np.median(band.high - band.low):.3f}")
        most = max(most, outside)
        print(f"| {good} | {n} | {failures:.0%} | {noise} | {' | '.join(cells)} |", flush=True)
    print(f"\nOutside what is told, at most: {most:.1%} of {asked.runs} runs.")


if __name__ == "__main__":
    main()
