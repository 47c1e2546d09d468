"""`tacit verify` and `tacit package`: a finished run, checked and handed over."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer
from rich.markup import escape

from tacit.cli.options import writable
from tacit.cli.show import print_json, print_result, screen
from tacit.errors import InvalidArgument

NOT_TRUSTED = 4


def verify(run: Path, *, as_json: bool = False) -> None:
    """Check that a run's model, statement, report and ledger belong together; exit code 4 if not.

    Example: tacit verify runs/first

    run: The run's folder.
    """
    from tacit.runs import verify_run

    checks = verify_run(run)
    holds = all(check.holds for check in checks)
    if as_json:
        print_json({"verified": holds, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            mark = "[green]ok    [/]" if check.holds else "[bold red]FAILED[/]"
            screen().print(f"{mark} {check.what}: {escape(check.says)}", soft_wrap=True)
        screen().print(
            "[green]Verified[/]: everything belongs together."
            if holds
            else "[bold red]Not verified[/]: do not rely on this run."
        )
    if not holds:
        raise typer.Exit(NOT_TRUSTED)


def package(run: Path, out: Path, *, overwrite: bool = False, as_json: bool = False) -> None:
    """Write a finished run as one archive that others can check and use without tacit.

    Example: tacit package runs/first first.zip

    run: The run's folder.
    out: The archive to write, a .zip.
    """
    from tacit.runs import package_run

    if out.suffix != ".zip":
        raise InvalidArgument(f"Expected out={str(out)!r} to end with .zip.")
    writable(out, overwrite=overwrite)
    members = package_run(run, out)
    print_result(
        {"archive": str(out), "files": members},
        f"{out}: {', '.join(members)}\nWhoever receives it unpacks it and runs: python verify.py",
        as_json=as_json,
    )
