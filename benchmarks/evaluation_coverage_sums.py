"""How often the bands of R^2, mean absolute error and Dice hold the truth, in simulated runs.

    python -m benchmarks.evaluation_coverage_sums --data DIR            # some minutes on one core
    python -m benchmarks.evaluation_coverage_sums --data DIR --runs 200 # a look

Scores are real: a third of each set trains a model, up to 1,000 of the rest are the population. A
run draws n of them with replacement, adds up what each says, adds noise and reads every figure.
Numbers: prices of Californian districts (boosted trees), weekly hours of Adult (linear), the digit
that an image shows, taken for a number (linear on pixels). Masks: the hippocampus as the mean mask
of other people draws it (two classes), lesions of made-up scans by a threshold (some scans have
none), and scores with a part that failed.
"""

from __future__ import annotations

import argparse
import gzip
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tacit import load_dataset
from tacit.evaluate import Band, DiceSums, NumberSums, said_of_masks
from tacit.evaluate.numbers import said_of_number, scales_of
from tacit.masks.results import dice_scores, organ_dice
from tacit.privacy import calibrate_gaussian

SIZES, EPSILONS = (500, 2000, 10_000, 50_000), (0.3, 0.5, 1.0, 2.0, 4.0)
DELTA, MOST = 1e-5, 1000


class Population(NamedTuple):
    """What each record says, the public moments of predictions, and the true figures."""

    rows: Any
    predicted: tuple[float, float]
    truth: dict[str, float]
    share: float = 1.0
    scale: tuple[float, float] = (1.0, 1.0)


def numbers(X: Any, y: Any, model: Any, bounds: tuple[float, float]) -> Population:
    """Train on a third, and let the rest be the population; a tenth of it is public."""
    order = np.random.default_rng(0).permutation(len(y))
    fit, public, rest = np.split(order, [len(y) // 3, len(y) // 3 + len(y) // 10])
    rest, low, high = rest[:MOST], *bounds
    model.fit(X[fit], y[fit])
    said = np.clip(model.predict(X[rest]), low, high)
    outside = np.clip(model.predict(X[public]), low, high)
    centre = outside.mean()
    scale = scales_of(low, high, centre)
    spread = (outside - centre) / scale[0]
    held = np.clip(y[rest], low, high)
    target, residual = (held - centre) / scale[0], (held - said) / scale[1]
    truth = {
        "R^2": 1 - ((held - said) ** 2).mean() / held.var(),
        "mean absolute error": np.abs(residual).mean(),
    }
    moments = (float((spread**2).mean()), float((spread**4).mean()))
    rows = said_of_number(target, residual)
    return Population(rows, moments, truth, scale=(scale[0] / scale[1], 1.0))


def number_sets(data: Path) -> dict[str, Population]:
    """Return the three sets of numbers."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import Ridge

    with gzip.open(data / "housing" / "california_housing.csv.gz", "rt") as file:
        houses = np.genfromtxt(file, delimiter=",", skip_header=1)
    place = np.nan_to_num(houses[:, :8], nan=400.0)
    adult = load_dataset(f"adult:{data / 'adult'}")
    hours = int(np.argmin(np.abs(np.median(adult.X, axis=0) - 40)))
    others = np.delete(adult.X, hours, axis=1)
    digits = load_dataset("digits")
    boosted = HistGradientBoostingRegressor(max_iter=60)
    return {
        "prices": numbers(place, houses[:, 8], boosted, (0.0, 500_001.0)),
        "hours": numbers(others, adult.X[:, hours], Ridge(), (0.0, 80.0)),
        "digits": numbers(digits.X, digits.y.astype(float), Ridge(), (0.0, 9.0)),
    }


def masks(dice: Any, there: Any, found: Any) -> Population:
    """Return what scans say, and the mean of each score over scans that have it."""
    truth = {
        f"Dice {place}": float(dice[there[:, place], place].mean()) for place in range(len(dice[0]))
    }
    share = float(there[:, 0].mean())
    truth["something"] = share
    if share < 1:
        truth["left alone"] = float((~found[~there[:, 0]]).mean())
    return Population(said_of_masks(dice, there, found), (0.0, 0.0), truth, share)


def mask_sets(data: Path) -> dict[str, Population]:
    """Return the three sets of Dice scores."""
    with np.load(data / "hippocampus_msd" / "hippocampus_48x64x48.npz") as file:
        truth = file["label"][:, ::2, ::2, ::2].astype(np.int64)
    third = len(truth) // 3
    often = np.stack([(truth[:third] == one).mean(axis=0) for one in range(3)]).argmax(axis=0)
    rest = truth[third:]
    drawn = np.broadcast_to(often, rest.shape)
    dice = np.column_stack([organ_dice(drawn, rest), dice_scores(drawn, rest, n_classes=3)])
    there = np.column_stack(
        [(rest > 0).any((1, 2, 3)), *((rest == c).any((1, 2, 3)) for c in (1, 2))]
    )
    rng = np.random.default_rng(0)
    failed = np.where(rng.uniform(size=MOST) < 0.1, 0.0, rng.beta(18, 3, MOST))[:, None]
    return {
        "hippocampus": masks(dice, there, np.ones(len(rest), dtype=bool)),
        "lesions": masks(*_lesions(rng)),
        "a tenth failed": masks(failed, np.ones((MOST, 1), dtype=bool), failed[:, 0] > 0),
    }


def _lesions(rng: Any) -> tuple[Any, Any, Any]:
    """Return scores of blobs on noise, found by a threshold; a quarter of the scans has none."""
    grid = np.stack(np.mgrid[:24, :24])
    dice, there, found = [], [], []
    for _ in range(MOST):
        centre, radius = rng.uniform(6, 18, 2), rng.uniform(2, 5)
        mask = (((grid - centre[:, None, None]) ** 2).sum(0) < radius**2) & (rng.uniform() > 0.25)
        drawn = mask + rng.normal(scale=0.3, size=mask.shape) > 0.9
        dice.append(organ_dice(drawn[None] * 1, mask[None] * 1))
        there.append([mask.any()])
        found.append(drawn.sum() > 2)
    return np.array(dice), np.array(there), np.array(found)


def read(one: Population, sums: Any, sigma: float, n: int) -> dict[str, Band]:
    """Return the bands that are told."""
    if "R^2" in one.truth:
        told = NumberSums(sums, sigma, n, one.scale, one.predicted).figures()
        named = {"R^2": "r_squared", "mean absolute error": "mean_absolute_error"}
        return {name: told[key] for name, key in named.items() if key in told}
    names = [name for name in one.truth if name.startswith("Dice")]
    told = DiceSums(sums, sigma, n, one.share, names).figures()
    bands = dict(zip(names, told["dice"], strict=True))
    bands |= {name: told.get(name.replace(" ", "_")) for name in ("something", "left alone")}
    return {name: band for name, band in bands.items() if band is not None}


def seen(one: Population, n: int, epsilon: float, runs: int, rng: Any) -> Iterator[Any]:
    """Yield each figure with its coverage and half of its median width."""
    size = len(one.rows)
    counts = rng.multinomial(n, np.full(size, 1 / size), runs)
    sigma = float(calibrate_gaussian(1.0, epsilon, DELTA))
    sums = counts @ one.rows
    sums = sums + sigma * rng.standard_normal(sums.shape)
    for name, band in read(one, sums, sigma, n).items():
        true = one.truth[name]
        if 1e-3 < true < 1 - 1e-3:  # at the very ends a band can only hold
            held = float(((band.low <= true) & (true <= band.high)).mean())
            yield (
                name.split()[0] if "Dice" in name else name,
                held,
                float(np.median(band.high - band.low)) / 2,
            )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    held: dict[str, list[float]] = defaultdict(list)
    widths: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for name, one in {**number_sets(asked.data), **mask_sets(asked.data)}.items():
        print(f"{name}: {', '.join(f'{k} {v:.3f}' for k, v in one.truth.items())}", flush=True)
        for n in SIZES:
            for epsilon in EPSILONS:
                first = {}
                for figure, share, half in seen(one, n, epsilon, asked.runs, rng):
                    held[figure].append(share)
                    first.setdefault(figure, f"{half:.3f} ({share:.3f})")
                for figure in ("R^2", "mean absolute error", "Dice"):
                    if any(key.startswith(figure) for key in one.truth):
                        widths[name, figure, n].append(first.get(figure, "-"))
    print(f"\n| figure | cells | least | mean | most | within .93 to .97 |\n{'|---' * 6}|")
    for figure, shares in held.items():
        all_held = np.array(shares)
        inside = ((all_held >= 0.93) & (all_held <= 0.97)).mean()
        ends = f"{all_held.min():.3f} | {all_held.mean():.3f} | {all_held.max():.3f}"
        print(f"| {figure} | {len(all_held)} | {ends} | {inside:.1%} |")
    columns = " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS)
    print(f"\n| half-width (coverage) | {columns} |\n{'|---' * (len(EPSILONS) + 1)}|")
    for (name, figure, n), texts in widths.items():
        print(f"| {name}, {figure}, n {n:,} | {' | '.join(texts)} |")


if __name__ == "__main__":
    main()
