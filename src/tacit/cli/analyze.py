"""`tacit analyze --secret`: what a run costs on its actual votes, for the owner's eyes only.

Everything here depends on the votes. It is printed in red, its files are mode 0600 and marked
SECRET, and none of it reaches a report.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tacit.cli import options
from tacit.cli.aggregate import read_queries
from tacit.cli.mechanisms import vote_mechanism
from tacit.cli.show import print_json, screen, table
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.mechanisms import Mechanism
    from tacit.report import SecretAnalysis


def analyze(
    votes: options.Votes,
    delta: Annotated[float, typer.Option(help="Delta of the comparison.")],
    mechanism: Annotated[str, typer.Option(help="gnmax or confident-gnmax.")] = "confident-gnmax",
    threshold: options.Threshold = None,
    sigma_check: options.SigmaCheck = None,
    sigma_answer: options.SigmaAnswer = None,
    sigma: options.Sigma = None,
    queries: Annotated[int | None, typer.Option(help="Only the first N rows.")] = None,
    indices: Annotated[Path | None, typer.Option(help="Only these rows.")] = None,
    secret: Annotated[
        bool, typer.Option("--secret", help="Yes, show quantities that must not be published.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Write the paper's figures into this directory.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the numbers as JSON here.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace existing outputs.")] = False,
    format: options.Format = None,
    classes: options.Classes = None,
    as_json: options.AsJson = False,
) -> None:
    """Price a run on the actual votes. The result is SECRET: it may never be published as it is.

    Example: tacit analyze votes.npz --secret --mechanism confident-gnmax --threshold 200
    --sigma-check 150 --sigma-answer 40 --queries 640 --delta 1e-5
    """
    from tacit.report import secret_analysis

    if not secret:
        raise InvalidArgument(
            "Expected --secret: this prints quantities that depend on the private votes and may "
            "never be published."
        )
    made = vote_mechanism(
        mechanism,
        threshold=threshold,
        sigma_check=sigma_check,
        sigma_answer=sigma_answer,
        sigma=sigma,
    )
    options.writable(out, overwrite=overwrite)
    counts, rows = read_queries(votes, format, classes, queries, indices)
    with screen().status("Pricing the run on its votes ..."):
        analysis = secret_analysis(made, counts, delta)
    result = _plain(analysis, rows)
    if out is not None:
        _write_secret(out, result)
    pictures = [] if plot is None else _plot(plot, made, analysis, counts, overwrite)
    if as_json:
        print_json(result)
    else:
        _show(result, pictures)


def _plain(analysis: SecretAnalysis, rows: Any) -> dict[str, Any]:
    dearest = np.argsort(analysis.per_query)[::-1][:5]
    return {
        "SECRET": "depends on private votes; may never be published",
        "queries": len(rows),
        "delta": analysis.delta,
        "worst_case_epsilon": analysis.worst_case_epsilon,
        "data_dependent_epsilon": analysis.epsilon,
        "theorem6_epsilon": analysis.theorem6_epsilon,
        "best_order": analysis.order,
        "expected_answers": analysis.expected_answers,
        "smooth_sensitivity": analysis.smooth,
        "sanitised_epsilon_estimate": analysis.sanitised_epsilon,
        "share_of_cost_of_dearest_tenth": analysis.share_of_dearest_tenth,
        "dearest_queries": [
            {"index": int(rows[row]), "share_of_cost": float(analysis.shares[row])}
            for row in dearest
        ],
    }


def _show(result: dict[str, Any], pictures: list[Path]) -> None:
    console = screen()
    console.print("[bold red]SECRET: for the data owner's eyes only; do not publish.[/]")
    shown = table("What this run costs on these votes", "quantity", "value")
    shown.style = "red"
    labels = {
        "worst_case_epsilon": "worst-case epsilon (public, known before the run)",
        "data_dependent_epsilon": "data-dependent epsilon, tight bound",
        "theorem6_epsilon": "data-dependent epsilon, Theorem 6 of the paper",
        "best_order": "best order",
        "expected_answers": "expected answers",
        "smooth_sensitivity": "smooth sensitivity at 0.2/order",
        "sanitised_epsilon_estimate": "what a sanitised statement would say, about",
        "share_of_cost_of_dearest_tenth": "share of the cost in the dearest tenth of the queries",
    }
    for key, label in labels.items():
        shown.add_row(label, f"{result[key]:.4g}")
    console.print(shown)
    dearest = table("The dearest queries", "row", "share of the cost")
    dearest.style = "red"
    for item in result["dearest_queries"]:
        dearest.add_row(str(item["index"]), f"{item['share_of_cost']:.2%}")
    console.print(dearest)
    for path in pictures:
        console.print(f"[red]SECRET picture:[/] {path}")


def _write_secret(path: Path, result: dict[str, Any]) -> None:
    from tacit._files import write_atomically

    write_atomically(path, json.dumps(result, indent=2).encode("utf-8"), mode=0o600)


def _plot(
    folder: Path, mechanism: Mechanism, analysis: SecretAnalysis, counts: Any, overwrite: bool
) -> list[Path]:
    from tacit import report
    from tacit.report import sigma_sweep

    paths = [folder / f"SECRET-{name}.png" for name in ("votes", "cumulative", "sigma")]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in paths:
        options.writable(path, overwrite=overwrite)
    with screen().status("Pricing other noise levels ..."):
        sweep = sigma_sweep(mechanism, counts, analysis.delta)
    figures = (
        report.votes_cost_figure(
            counts.max(axis=1),
            analysis.per_query,
            n_teachers=int(counts[0].sum()),
            threshold=getattr(mechanism, "threshold", None),
        ),
        report.cumulative_cost_figure(analysis.cumulative),
        report.sigma_cost_figure(
            sweep["sigma"], sweep["data-dependent"], sweep["worst case"], delta=analysis.delta
        ),
    )
    for path, figure in zip(paths, figures, strict=True):
        report.save_figure(figure, path, secret=True)
    return paths
