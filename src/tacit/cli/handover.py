"""`tacit verify` and `tacit package`: a finished run, checked and handed over."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import options
from tacit.cli.show import print_json, screen, table
from tacit.errors import InvalidArgument

NOT_TRUSTED = 4
RunFolder = Annotated[Path, typer.Argument(help="The run's folder.", show_default=False)]


def verify(run: RunFolder, as_json: options.AsJson = False) -> None:
    """Check that a run's model, statement, report and ledger belong together; exit code 4 if not.

    Example: tacit verify runs/first
    """
    from rich.markup import escape

    from tacit.runs import verify_run

    checks = verify_run(run)
    holds = all(check.holds for check in checks)
    if as_json:
        names = ("what", "holds", "says")
        found = [{name: getattr(check, name) for name in names} for check in checks]
        print_json({"verified": holds, "checks": found})
    else:
        listing = table(escape(f"{run}"), "what", "", "found")
        listing.columns[2].justify = "left"
        for check in checks:
            mark = "[green]ok[/]" if check.holds else "[bold red]FAILED[/]"
            listing.add_row(check.what, mark, escape(check.says))
        screen().print(listing)
        screen().print(
            "[green]Verified[/]: everything belongs together."
            if holds
            else "[bold red]Not verified[/]: do not rely on this run."
        )
    if not holds:
        raise typer.Exit(NOT_TRUSTED)


def package(
    run: RunFolder,
    out: Annotated[Path, typer.Argument(help="The archive to write.", show_default=False)],
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a finished run as one archive that others can check and use without tacit.

    Example: tacit package runs/first first.zip
    """
    from tacit.runs import package_run

    if out.suffix != ".zip":
        raise InvalidArgument(f"Expected out={str(out)!r} to end with .zip.")
    options.writable(out, overwrite=overwrite)
    members = package_run(run, out)
    if as_json:
        print_json({"archive": str(out), "files": members})
    else:
        screen().print(f"{out}: {', '.join(members)}")
        screen().print("Whoever receives it unpacks it and runs: python verify.py")
