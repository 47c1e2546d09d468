"""Pictures of one private evaluation, as docs/private-evaluation.md shows it.

    python -m benchmarks.evaluation_picture --data DIR    # writes docs/images/evaluation-*.svg

Adult: 20,000 records teach, 4,000 others evaluate, 1,000 inputs are public. Noise is seeded: the
picture is to be the same each time, and nobody is protected here.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tacit import Budget, InsecureNoise, Ledger, MomentClassifier, load_dataset
from tacit.evaluate import evaluate, evaluation_figures
from tacit.features import PublicBins
from tacit.report import save_figure

IMAGES = Path(__file__).parents[1] / "docs" / "images"
NAMES = ("roc", "precision", "calibration")


def main() -> None:
    """Train, evaluate, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    adult = load_dataset(f"adult:{parser.parse_args().data / 'adult'}")
    teach, apart, public = adult.X[:20_000], adult.X[20_000:24_000], adult.X[24_000:25_000]
    labels = adult.labels
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(f"{folder}/run.ledger", budget=Budget(3.0, 1e-6))
        model = MomentClassifier(
            classes=adult.classes,
            features=PublicBins(adult.columns or (), unit_norm=True),
            epsilon=1.0,
            ledger=ledger,
            allow_overlap=True,
            noise=InsecureNoise(0),
        ).fit(teach, labels[:20_000], X_public=public)
        found = evaluate(
            model,
            apart,
            labels[20_000:24_000],
            X_public=public,
            epsilon=1.0,
            ledger=ledger,
            n_records=4000,
            allow_overlap=True,
            noise=InsecureNoise(1),
        )
    for name, band in found.rows():
        print(f"{name}: {band.value:.3f} ({band.low:.3f} to {band.high:.3f})")
    for name, (_, figure) in zip(NAMES, evaluation_figures(found), strict=True):
        save_figure(figure, IMAGES / f"evaluation-{name}.svg")


if __name__ == "__main__":
    main()
