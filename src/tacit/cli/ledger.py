"""`tacit ledger show`, `tacit ledger verify`, and `tacit report` on the same file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import options
from tacit.cli.options import existing
from tacit.cli.show import WIDE, print_budget, print_json, print_statement, screen, table

if TYPE_CHECKING:
    from rich.table import Table

    from tacit.ledger import Entry, Ledger

ledger_app = typer.Typer(help="Look at a ledger; nothing is changed.", no_args_is_help=True)
_SHOWN = (
    *("kind", "time", "behind", "purpose", "plan", "cost", "noise"),
    *("faults", "priced_by", "about", "hash"),
)


@ledger_app.command()
def show(file: options.LedgerFile, as_json: options.AsJson = False) -> None:
    """Show what was released and what is left.

    Example: tacit ledger show run.ledger
    """
    ledger = existing(file)
    entries = ledger.entries()
    if as_json:
        print_json(
            {
                "spent": ledger.spent(),
                "remaining": ledger.remaining(),
                "budget": {"epsilon": ledger.budget.epsilon, "delta": ledger.budget.delta},
                "unit": ledger.unit,
                "accountant": ledger.accountant,
                "head": ledger.head,
                "warnings": ledger.statement().warnings,
                "entries": [{name: getattr(entry, name) for name in _SHOWN} for entry in entries],
            }
        )
        return
    screen().print(_listing(file.name, ledger, entries))
    _print_clock(entries)
    print_budget(ledger)
    print_statement(ledger.statement())


def _listing(name: str, ledger: Ledger, entries: Sequence[Entry]) -> Table:
    """Return the table of releases: a purpose takes more lines, so that the rest stays whole.

    A narrow screen has no room for hashes beside it; --json has them in full.
    """
    from rich.markup import escape

    currency = {"gaussian": "mu^2", "rdp": "RDP", "fixed": "epsilon"}[ledger.accountant]
    columns = ("purpose", "when, UTC", "mechanism", "queries", currency, "entry")
    shown = len(columns) - (screen().width < WIDE)
    counted = _counted(sum(entry.is_paid for entry in entries), "release", "releases")
    listing = table(escape(f"{name}: {counted}, unit: one {ledger.unit}"), *columns[:shown])
    for place, column in enumerate(listing.columns):
        column.no_wrap = place > 0
        column.overflow = "fold"
    for entry in entries:
        cells = (
            escape(entry.purpose),
            entry.time[:16].replace("T", " ") + (" !" if entry.behind else ""),
            str(entry.plan.get("mechanism", entry.kind)),
            str(entry.plan.get("queries", "")),
            f"{entry.cost:.4g}",
            entry.hash[:8],
        )
        listing.add_row(*cells[:shown])
    return listing


@ledger_app.command()
def verify(
    file: options.LedgerFile,
    head: Annotated[
        str | None, typer.Option(help="A head hash from a statement: detects a roll-back.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check the chain of hashes; exit code 4 if the ledger cannot be trusted.

    Example: tacit ledger verify run.ledger --head 3f0a…
    """
    ledger = existing(file)
    current, entries = ledger.verify(head), ledger.entries()
    if as_json:
        late = [entry.sequence for entry in entries if entry.behind]
        verified = {"verified": True, "head": current, "entries": len(entries)}
        print_json({**verified, "clock_behind": late})
        return
    counted = _counted(len(entries), "entry", "entries")
    screen().print(f"[green]Verified[/]: {counted}, head {current}")
    _print_clock(entries)
    if head is None:
        screen().print(
            "Without --head, a ledger that was cut short or rolled back looks intact: "
            "compare with the head printed in a statement."
        )


def _print_clock(entries: Sequence[Entry]) -> None:
    """Say where the clock went back: nothing is refused for it, and nothing hides it."""
    from tacit.ledger import clock_went_back

    for entry in entries:
        if entry.behind:
            screen().print(f"[yellow]Clock[/]: {clock_went_back(entry)}.")


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def report(
    file: options.LedgerFile,
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("report.html"),
    overwrite: options.Overwrite = False,
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
