"""`tacit report`: the HTML report of a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import options
from tacit.cli.ledger import existing
from tacit.cli.show import print_json, screen


def report(
    file: Annotated[Path, typer.Argument(help="The ledger file.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("report.html"),
    overwrite: Annotated[bool, typer.Option(help="Replace an existing report.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the report that a privacy officer reads: statement, budget, what was released when.

    Example: tacit report run.ledger --out report.html
    """
    from tacit.report import write_report

    options.writable(out, overwrite=overwrite)
    ledger = existing(file)
    write_report(out, ledger)
    if as_json:
        print_json({"report": str(out), "statement": ledger.statement().to_dict()})
    else:
        screen().print(f"Report: {out}")
