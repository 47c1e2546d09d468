"""`tacit train CONFIG.toml`: a whole run, in a directory of its own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import options
from tacit.cli.show import errors, print_budget, print_json, print_statement, screen, table

if TYPE_CHECKING:
    from tacit.runs import RunResult

INTERRUPTED = 130
"""Exit code of a run that Ctrl-C stopped, as shells have it."""


def train(
    config: Annotated[Path, typer.Argument(help="The configuration, TOML.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The run's directory: new, or empty.")],
    data: Annotated[
        str | None, typer.Option(help="Another source of data, e.g. mnist:DIR.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Train teachers on the Dask cluster at this address.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    r"""Let private records label public inputs and train the student: all in one directory.

    method = "pate" trains teachers on them, method = "knn" lets them vote as neighbours.
    method = "prototype", "moments" or "ridge" lets each speak once, over public inputs.
    method = "segmentation" takes folders of scans and masks (NIfTI); then see tacit segment.
    A table needs \[data.options]: target, classes, numeric, categorical, groups (whose record).
    method = "dpsgd" or "mac" trains a network on the records, with or without public inputs.
    Paths in the configuration are relative to the current directory, not to the file.
    Example: tacit train run.toml --out runs/first
    """
    try:
        result = _run(config, out, data, cluster)
    except KeyboardInterrupt:
        errors().print(_interrupted(out), soft_wrap=True, highlight=False, markup=False)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(as_plain(result))
    else:
        show(result)


def _run(config: Path, out: Path, data: str | None, cluster: str | None) -> RunResult:
    from dataclasses import replace

    from tacit.runs import RunConfig, run_config

    settings = RunConfig.read(config)
    if data is not None:
        settings = replace(settings, data=replace(settings.data, source=data))
    if cluster is not None:
        settings = replace(settings, executor=cluster)
    return run_config(settings, out)


def _interrupted(out: Path) -> str:
    """Say what an interrupt left; a ledger that was never made was never charged.

    Teachers' answers stay for the run that goes on: whoever copies the directory must know.
    """
    ledger = out / "run.ledger"
    if not ledger.exists():
        return "Interrupted: nothing was charged. The same command goes on."
    secret = f" {out / 'teachers'} is secret." if (out / "teachers").exists() else ""
    return (
        f"Interrupted. Whether the ledger was charged: tacit ledger show {shlex.quote(str(ledger))}"
        f"; if nothing was released, the same command goes on.{secret}"
    )


def as_plain(result: RunResult) -> dict[str, object]:
    """Return the result for machines."""
    if result.metrics:
        shown = {"dice": result.accuracy, "held_out": result.held_out, **result.metrics}
        return {"folder": str(result.folder), **shown, "statement": result.statement.to_dict()}
    return {
        "folder": str(result.folder),
        "accuracy": result.accuracy,
        "most_frequent": result.most_frequent,
        "held_out": result.held_out,
        "statement": result.statement.to_dict(),
    }


def show(result: RunResult) -> None:
    """Print the result for people."""
    shown = table("The student", "what", "result")
    for what, value in _masks_rows(result) if result.metrics else _rows(result):
        shown.add_row(what, value)
    screen().print(shown)
    print_budget(result.ledger)
    print_statement(result.statement)
    screen().print(f"Run: {result.folder}, report: {result.folder / 'report.html'}")


def _rows(result: RunResult) -> list[tuple[str, str]]:
    what = "accuracy on held-out rows, declared public"
    if result.accuracy is None:
        return [(what, "no rows were held out")]
    rows = [
        (what, f"{result.accuracy:.1%}"),
        ("  of their most frequent label alone", f"{result.most_frequent:.1%}"),
    ]
    return rows if result.held_out is None else [*rows, ("held-out rows", str(result.held_out))]


def _masks_rows(result: RunResult) -> list[tuple[str, str]]:
    held_out = result.metrics["held_out"]
    if held_out is None:
        return [("Dice", "no scans were held out")]
    rows = [("Dice on held-out scans, declared public", f"{held_out['dice']:.3f}")]
    for name, one in held_out["classes"].items():
        apart = one["surface_distance_mm"]
        distance = "" if apart is None else f", surfaces {apart:.2f} mm apart"
        rows.append((f"  {name}", f"{one['dice']:.3f}{distance}"))
    return [*rows, ("held-out scans", str(held_out["scans"]))]
