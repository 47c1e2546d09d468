"""`tacit demo`: private digits in, a publishable model out, in under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import options
from tacit.cli.show import print_budget, print_json, print_statement, screen, table, working

if TYPE_CHECKING:
    from tacit.runs import RunConfig

TEACHERS, QUERIES = 100, 20


def demo(
    out: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("tacit-demo"),
    as_json: options.AsJson = False,
) -> None:
    """Train 100 teachers on private digits, release their votes, train and publish a student.

    Example: tacit demo
    """
    from tacit.mechanisms import GNMax, Plan
    from tacit.runs import run_config

    config = demo_config()
    folder = _next(out)
    with working("Training teachers, asking them, training the student ..."):
        result = run_config(config, folder)
        baseline = non_private_accuracy(config)
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "accuracy": result.accuracy,
                "non_private_accuracy": baseline,
                "statement": result.statement.to_dict(),
            }
        )
        return
    shown = table(
        "Handwritten digits: 1,200 private, 300 public, the others held out", "what", "result"
    )
    shown.add_row("teachers, each on about 12 private digits", str(TEACHERS))
    shown.add_row("public digits they were asked about", str(QUERIES))
    shown.add_row("worst-case epsilon at delta 1e-5", f"{result.statement.epsilon:.3f}")
    shown.add_row("student, which may be published", f"{result.accuracy:.1%} right")
    # These digits are public, so that the comparison may be shown; on private data it is a secret.
    shown.add_row("the same without privacy", f"{baseline:.1%} right")
    verdict = "refused" if result.ledger.would_exceed(Plan(GNMax(40), 100)) else "allowed"
    shown.add_row("100 more questions", f"{verdict} by the ledger, nothing spent")
    screen().print(shown)
    print_budget(result.ledger)
    print_statement(result.statement)
    screen().print(f"Open {folder / 'report.html'} in a browser.")


def demo_config() -> RunConfig:
    """Return the demo's configuration: scikit-learn's digits, epsilon 2."""
    from tacit.runs import DataConfig, PrivacyConfig, RunConfig

    return RunConfig(
        data=DataConfig(source="digits", private=1200, public=300, name="scikit-learn's digits"),
        privacy=PrivacyConfig(epsilon=2.0, delta=1e-5),
        settings={
            "n_teachers": TEACHERS,
            "queries": QUERIES,
            "features": "digits",
            "teacher": "kernel-ridge",
        },
    )


def non_private_accuracy(config: RunConfig) -> float:
    """Return the accuracy of one teacher that sees all private rows."""
    import numpy as np

    from tacit.datasets import load_dataset
    from tacit.features import digit_features
    from tacit.runs import split_rows
    from tacit.teachers import KernelRidgeTeachers, predict_with_teachers

    data = load_dataset(config.data.source)
    split = split_rows(config, len(data.y))
    view = digit_features(data.image_shape or (8, 8)).fit_transform(data.X)
    predictions = predict_with_teachers(
        KernelRidgeTeachers(),
        view[split.private],
        data.y[split.private],
        np.zeros(split.private.size, dtype=np.int64),
        1,
        view[split.held_out],
        n_classes=len(data.classes),
    )
    return float((predictions[0] == data.y[split.held_out]).mean())


def _next(out: Path) -> Path:
    """Return the next run's directory; a ledger is never overwritten."""
    number = 1
    while (out / f"run-{number}").exists():
        number += 1
    return out / f"run-{number}"
