"""How often the bands of a private evaluation hold the truth: every figure, many simulated runs.

    python -m benchmarks.evaluation_coverage --data DIR            # some minutes on one core
    python -m benchmarks.evaluation_coverage --data DIR --runs 200 # a look

Scores are real: a third of each set trains a model, the rest is scored and is the population. A run
draws n records from it with a given share of positives, counts them, adds noise and reads every
figure. Histograms of n records are multinomial, so that all runs of a cell are one draw. Sets:
Adult (boosted trees), California housing (naive Bayes on place and size, far too sure of itself),
MNIST (is it an 8; logistic regression).
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
from tacit.evaluate import Band, BinaryTable, ScoreBins, Told, bins_for
from tacit.privacy import calibrate_gaussian

SIZES, SHARES, EPSILONS = (500, 2000, 10_000, 50_000), (0.03, 0.3), (0.3, 0.5, 1.0, 2.0, 4.0)
DELTA, PUBLIC = 1e-5, 2000
Arrays = tuple[Any, Any]


class Cell(NamedTuple):
    """One set of scores, share, size and budget."""

    name: str
    share: float
    n: int
    epsilon: float


def scored(model: Any, X: Any, y: Any) -> Arrays:
    """Return scores of negatives and of positives that did not train the model."""
    order = np.random.default_rng(0).permutation(len(y))
    fit, rest = np.split(order, [len(y) // 3])
    model.fit(X[fit], y[fit])
    scores = model.predict_proba(X[rest])[:, 1].astype(np.float64)
    return np.sort(scores[y[rest] == 0]), np.sort(scores[y[rest] == 1])


def populations(data: Path) -> dict[str, Arrays]:
    """Return the scores of all three sets."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    adult = load_dataset(f"adult:{data / 'adult'}")
    digits = load_dataset(f"mnist:{data / 'mnist'}")
    with gzip.open(data / "housing" / "california_housing.csv.gz", "rt") as file:
        houses = np.genfromtxt(file, delimiter=",", skip_header=1)
    place = np.nan_to_num(houses[:, [0, 1, 2, 3, 5, 6]], nan=400.0)
    dear = (houses[:, 8] > np.quantile(houses[:, 8], 0.8)).astype(int)
    eights = digits.X.reshape(len(digits.y), -1)[:, ::3]
    return {
        "adult": scored(HistGradientBoostingClassifier(max_iter=60), adult.X, adult.y),
        "housing": scored(GaussianNB(), place, dear),
        "mnist": scored(LogisticRegression(max_iter=30, C=0.01), eights, (digits.y == 8) * 1),
    }


def covers(band: Band, truth: Any) -> float:
    """Return how often the truth lies in the band."""
    return float(((band.low <= truth) & (truth <= band.high)).mean())


def area(no: Any, yes: Any) -> float:
    """Return the exact area under the ROC curve."""
    ties = np.searchsorted(no, yes, "left") + np.searchsorted(no, yes, "right")
    return float(ties.mean() / 2 / len(no))


def exact_average_precision(no: Any, yes: Any, share: float) -> float:
    """Return average precision without bins."""
    cuts = np.unique(np.concatenate([no, yes]))[::-1]
    true = share * (len(yes) - np.searchsorted(yes, cuts, "left")) / len(yes)
    false = (1 - share) * (len(no) - np.searchsorted(no, cuts, "left")) / len(no)
    rise = np.diff(np.concatenate([[0.0], true]))
    return float((rise * true / (true + false)).sum() / share)


def simulated(cell: Cell, scores: Arrays, runs: int, rng: Any) -> tuple[BinaryTable, BinaryTable]:
    """Return noisy tables of many runs, and the table of the whole population without noise."""
    no, yes = scores
    few = round(PUBLIC * cell.share)
    public = np.concatenate([rng.choice(yes, few), rng.choice(no, PUBLIC - few)])
    sigma = calibrate_gaussian(1.0, cell.epsilon, DELTA)
    bins = ScoreBins.of(public, bins_for(cell.n, cell.share, sigma), thresholds=[0.5])
    parts = []
    for part, each in ((1 - cell.share, no), (cell.share, yes)):
        counts = np.bincount(np.searchsorted(bins.edges, each, "right"), minlength=bins.count)
        parts.append(part * counts / len(each))
    chances = np.stack(parts)
    shape = (runs, *chances.shape)
    tables = rng.multinomial(cell.n, chances.ravel(), runs).reshape(shape)
    told = Told.at(cell.n, cell.share, sigma, bins)
    noisy = BinaryTable(tables + sigma * rng.standard_normal(shape), sigma, bins, told)
    return noisy, BinaryTable(1e12 * chances, 0.0, bins, told)


def figures(cell: Cell, scores: Arrays, runs: int, rng: Any) -> Iterator[tuple[str, float, float]]:
    """Yield each figure with its coverage and half of its median width."""
    noisy, exact = simulated(cell, scores, runs, rng)
    told, truth = noisy.figures(), exact.figures()
    if "auc" in told:
        yield "area under ROC", *_seen(told["auc"], area(*scores))
    for name in ("average_precision", "brier", "share"):
        if name in told:
            yield name.replace("_", " "), *_seen(told[name], truth[name].value)
    for here, there in zip(told["thresholds"], truth["thresholds"], strict=True):
        for name, band in here.items():
            if 1e-3 < there[name].value < 1 - 1e-3:  # at the very ends a band can only hold
                yield name.replace("_", " "), *_seen(band, there[name].value)
    for (_, band), (_, true) in zip(told["calibration"], truth["calibration"], strict=True):
        if 1e-3 < true.value < 1 - 1e-3:
            yield "calibration", *_seen(band, true.value)


def _seen(band: Band, truth: Any) -> tuple[float, float]:
    return covers(band, truth), float(np.median(band.high - band.low)) / 2


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    found: dict[str, list[float]] = defaultdict(list)
    areas: dict[tuple[float, int], list[str]] = defaultdict(list)
    everyone = populations(asked.data)
    for share in SHARES:
        for n in SIZES:
            for epsilon in EPSILONS:
                seen = []
                for name, scores in everyone.items():
                    for figure, held, half in figures(
                        Cell(name, share, n, epsilon), scores, asked.runs, rng
                    ):
                        found[figure].append(held)
                        if figure == "area under ROC":
                            seen.append((held, half))
                text = "-"
                if seen:
                    low, high = min(s[0] for s in seen), max(s[0] for s in seen)
                    text = f"{np.mean([s[1] for s in seen]):.3f} ({low:.3f} to {high:.3f})"
                areas[share, n].append(text)
    print(f"| figure | cells | least | mean | most | within .93 to .97 |\n{'|---' * 6}|")
    for figure, all_held in found.items():
        held = np.array(all_held)
        inside = ((held >= 0.93) & (held <= 0.97)).mean()
        ends = f"{held.min():.3f} | {held.mean():.3f} | {held.max():.3f}"
        print(f"| {figure} | {len(held)} | {ends} | {inside:.1%} |")
    columns = " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS)
    print(f"\n| area: half-width (coverage) | {columns} |\n{'|---' * (len(EPSILONS) + 1)}|")
    for (share, n), texts in areas.items():
        print(f"| n {n:,}, {share:.0%} positives | {' | '.join(texts)} |")
    print("\nHow far rounding to bins moves a figure (n 10,000, epsilon 1):")
    for name, (no, yes) in everyone.items():
        for share in SHARES:
            _, table = simulated(Cell(name, share, 10_000, 1.0), (no, yes), 1, rng)
            ap, brier = table.average_precision().value, table.brier().value
            true = (1 - share) * (no**2).mean() + share * ((1 - yes) ** 2).mean()
            told = exact_average_precision(no, yes, share)
            print(
                f"  {name}, {share:.0%}: average precision {ap:.3f} (exact {told:.3f}), "
                f"Brier {brier:.4f} (exact {true:.4f})"
            )


if __name__ == "__main__":
    main()
