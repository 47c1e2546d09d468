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
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from tacit import __version__
from tacit.cli import handover, ledger, plan
from tacit.cli.audit import audit
from tacit.cli.columns import columns
from tacit.cli.compare import compare
from tacit.cli.evaluate import evaluate
from tacit.cli.ledger import report, show
from tacit.cli.options import add_commands, add_group
from tacit.cli.runs import demo, predict, segment, student, train
from tacit.cli.show import errors
from tacit.cli.votes import aggregate, analyze, sanitise
from tacit.errors import (
    BudgetExceeded,
    InvalidArgument,
    LedgerError,
    MissingExtra,
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

_FEDERATION = {"study", "coordinator", "aggregator", "site", "federation"}
"""Commands that tacit-federation brings."""

app = typer.Typer(
    name="tacit",
    help="Private learning by knowledge transfer: models that may be published, learned from data "
    "that may not.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


add_commands(app, columns, train, student, evaluate, predict, segment)
add_commands(app, aggregate, sanitise, analyze, audit, compare, report)
add_commands(app, handover.verify, handover.export, handover.package, demo)
about_plan = "Propose noise for a budget, before any data is looked at."
add_group(app, "plan", about_plan, plan.pate, plan.knn, plan.method, plan.evaluation)
add_group(app, "ledger", "Make a ledger, or look at one.", ledger.create, show, ledger.verify)


@cache
def full_app() -> typer.Typer:
    """Return the root with the commands that installed packages add to it (`tacit.cli`)."""
    for entry in entry_points(group="tacit.commands"):
        added = typer.Typer()
        try:
            entry.load()(added)
            if taken := _names(added) & _names(app):
                raise InvalidArgument(f"tacit has {', '.join(sorted(taken))} already.")
        except Exception as error:  # whatever it is, the other commands work
            text = f"The commands of {entry.value} are missing: {type(error).__name__}: {error}"
            _say("[bold yellow]Warning:[/]", text)
            continue
        app.registered_commands += added.registered_commands
        app.registered_groups += added.registered_groups
    anything: dict[str, Any] = {"ignore_unknown_options": True, "allow_extra_args": True}
    for name in _FEDERATION - _names(app):
        refusing: dict[str, Any] = {
            "hidden": True,
            "add_help_option": False,
            "context_settings": anything,
        }
        app.command(name, **refusing)(_no_federation)
    return app


def _names(root: typer.Typer) -> set[str]:
    return set(typer.main.get_group(root).commands)


def _no_federation(context: typer.Context) -> None:
    raise MissingExtra(
        f"Expected the package tacit-federation for `tacit {context.info_name}`; install "
        "tacit[federation]."
    )


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


def main(command: typer.Typer | None = None) -> None:
    """Run a command; a warning, or an error raised on purpose, is one line on stderr.

    Parameters
    ----------
    command : Typer, optional
        `tacit` by default, with the commands of installed packages.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            (full_app() if command is None else command)()
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
