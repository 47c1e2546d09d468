"""`tacit ledger show` and `tacit ledger verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import options
from tacit.cli.show import print_budget, print_json, print_statement, screen, table
from tacit.errors import LedgerUnavailable

ledger_app = typer.Typer(help="Look at a ledger; nothing is changed.", no_args_is_help=True)
File = Annotated[Path, typer.Argument(help="The ledger file.", show_default=False)]


@ledger_app.command()
def show(file: File, as_json: options.AsJson = False) -> None:
    """Show what was released and what is left.

    Example: tacit ledger show run.ledger
    """
    from rich.markup import escape

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
                "entries": [
                    {
                        "time": entry.time,
                        "purpose": entry.purpose,
                        "plan": dict(entry.plan),
                        "cost": entry.cost,
                        "noise": entry.noise,
                        "hash": entry.hash,
                    }
                    for entry in entries
                ],
            }
        )
        return
    currency = {"gaussian": "mu^2", "rdp": "RDP", "fixed": "epsilon"}
    listing = table(
        escape(
            f"{file.name}: {_counted(len(entries), 'release', 'releases')}, unit: one {ledger.unit}"
        ),
        "purpose",
        "when, UTC",
        "mechanism",
        "queries",
        currency[ledger.accountant],
        "entry",
    )
    for entry in entries:
        listing.add_row(
            escape(entry.purpose),
            entry.time[:16].replace("T", " "),
            str(entry.plan["mechanism"]),
            str(entry.plan["queries"]),
            f"{entry.cost:.4g}",
            entry.hash[:8],
        )
    screen().print(listing)
    print_budget(ledger)
    print_statement(ledger.statement())


@ledger_app.command()
def verify(
    file: File,
    head: Annotated[
        str | None, typer.Option(help="A head hash from a statement: detects a roll-back.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check the chain of hashes; exit code 4 if the ledger cannot be trusted.

    Example: tacit ledger verify run.ledger --head 3f0a…
    """
    ledger = existing(file)
    current = ledger.verify(head)
    if as_json:
        print_json({"verified": True, "head": current, "entries": len(ledger)})
        return
    screen().print(
        f"[green]Verified[/]: {_counted(len(ledger), 'entry', 'entries')}, head {current}"
    )
    if head is None:
        screen().print(
            "Without --head, a ledger that was cut short or rolled back looks intact: "
            "compare with the head printed in a statement."
        )


def existing(file: Path):  # type: ignore[no-untyped-def]  # Ledger is imported where it is used
    """Open a ledger that must exist."""
    from tacit.ledger import Ledger

    if not file.is_file():
        raise LedgerUnavailable(f"Expected a ledger at {str(file)!r}; there is none.")
    return Ledger(file)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
