"""The command's root: its sub-commands, and how errors become one line and an exit code.

Exit codes: 0 done, 2 bad input, 3 the budget refused or was spent, 4 the ledger cannot be trusted
or used, 5 an audit contradicts a claim, 6 not yet (an approval, a quorum, a deadline), 7
unreachable, 8 refused (identity, signature, pinned key, policy), 130 interrupted.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from tacit import __version__
from tacit.cli import aggregator, coordinator, federation, handover, ledger, site, study
from tacit.cli.audit import audit
from tacit.cli.columns import columns
from tacit.cli.compare import compare
from tacit.cli.evaluate import evaluate
from tacit.cli.ledger import report, show
from tacit.cli.options import add_commands
from tacit.cli.plan import plan
from tacit.cli.runs import demo, predict, segment, student, train
from tacit.cli.show import Result, errors
from tacit.cli.votes import aggregate, analyze, sanitise
from tacit.errors import (
    BudgetExceeded,
    LedgerError,
    NotYet,
    Refused,
    ReleaseLost,
    TacitError,
    Unreachable,
)

BAD_INPUT = 2
_TEMPORARY = re.compile(r"^\.(.+)\.[0-9a-f]{16}\.tmp(?:-\w+)?$")
_CODES = {
    BudgetExceeded: 3,
    ReleaseLost: 3,
    LedgerError: 4,
    NotYet: 6,
    Unreachable: 7,
    Refused: 8,
}

app = typer.Typer(
    name="tacit",
    help="Private learning by knowledge transfer: models that may be published, learned from data "
    "that may not.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _group(name: str, about: str, *commands: Callable[..., Result | None]) -> None:
    """Add commands under a name of their own."""
    group = typer.Typer(help=about, no_args_is_help=True)
    add_commands(group, *commands)
    app.add_typer(group, name=name)


add_commands(app, plan, columns, train, student, evaluate, predict, segment)
add_commands(app, aggregate, sanitise, analyze, audit, compare, report)
add_commands(app, handover.verify, handover.export, handover.package, demo)
_group("ledger", "Make a ledger, or look at one.", ledger.create, show, ledger.verify)
_group(
    "study",
    "Studies over several sites: draft, sign, open, release.",
    *(study.init, study.codec, study.new, study.sign, study.show, study._open),
    *(study.close, study.end, study.release, study.verify),
)
_group(
    "coordinator",
    "The service that sites talk to.",
    *(coordinator.serve, coordinator.invite, coordinator.revoke, coordinator.officer),
)
_group(
    "aggregator",
    "One of two that add shares: neither sees an answer.",
    *(aggregator.init, aggregator.join, aggregator.invite, aggregator.revoke),
    *(aggregator.describe, aggregator.serve, aggregator.show, aggregator.approve),
    *(aggregator.end, aggregator.statement),
)
_group(
    "site",
    "A hospital: join, approve, answer, send.",
    *(site.join, site.run, site.show, site.approve),
    *(site.refuse, site.answer, site.withdraw, site.status),
)
_group("federation", "Coordinator and sites on this machine.", federation.demo)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tacit {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Private learning by knowledge transfer."""


def main(command: typer.Typer = app) -> None:
    """Run a command; a warning, or an error raised on purpose, is one line on stderr.

    Parameters
    ----------
    command : Typer
        `tacit` by default.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            command()
    except (TacitError, OSError) as error:
        _say("[bold red]Error:[/]", os_error_text(error) if isinstance(error, OSError) else error)
        codes = (code for kind, code in _CODES.items() if isinstance(error, kind))
        sys.exit(next(codes, BAD_INPUT))


def os_error_text(error: OSError) -> str:
    """Name the file that was typed, not the temporary one that would have become it.

    >>> hidden = "a/.labels.csv.0123456789abcdef.tmp"
    >>> os_error_text(PermissionError(13, "Permission denied", hidden))
    "Permission denied: 'a/labels.csv'."
    """
    if error.filename is None or error.strerror is None:
        return str(error)
    place = Path(os.fsdecode(error.filename))
    typed = place.parent / _TEMPORARY.sub(r"\1", place.name)
    return f"{error.strerror}: {str(typed)!r}."


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    _say("[bold yellow]Warning:[/]", message)


def _say(what: str, message: object) -> None:
    text = escape(" ".join(str(message).split()))
    errors().print(f"{what} {text}", soft_wrap=True, highlight=False)
