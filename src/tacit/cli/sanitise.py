"""`tacit sanitise`: buy a statement that profits from the teachers' agreement.

What it means: docs/theory/smooth-sensitivity.md#the-ex-post-statement.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from tacit._registry import mechanism_class
from tacit.cli import options
from tacit.cli.ledger import existing
from tacit.cli.show import print_budget, print_json, print_statement, screen
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.ledger import Entry, Ledger
    from tacit.mechanisms import Sanitise


def sanitise(
    votes: options.Votes,
    labels: Annotated[Path, typer.Option(help="The labels that `tacit aggregate` wrote.")],
    ledger: Annotated[Path, typer.Option(help="The ledger that paid for them.")],
    out: Annotated[Path, typer.Option(help="Where the statement goes, as JSON.")],
    beta: Annotated[float | None, typer.Option(help="Smoothness; 0.2/order by default.")] = None,
    sigma: Annotated[float, typer.Option(help="Noise of the cost, in its scale.")] = 6.0,
    sigma_log: Annotated[
        float | None, typer.Option(help="Noise of the log-scale; 5 beta by default.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report here.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace existing outputs.")] = False,
    format: options.Format = None,
    classes: options.Classes = None,
    as_json: options.AsJson = False,
) -> None:
    """Publish what a run cost on its actual votes, privately, with the worst case beside it.

    Example: tacit sanitise votes.npz --labels labels.csv --ledger run.ledger --out statement.json
    """
    from tacit.datasets import read_votes
    from tacit.ledger import sanitised_statement
    from tacit.mechanisms import Plan, secret_cost_of
    from tacit.report import write_report

    for path in (out, report):
        options.writable(path, overwrite=overwrite)
    book = existing(ledger)
    rows, released, paid = read_labels(labels)
    covered = _covered(book, paid)
    mechanism = _sanitise(book, covered, beta, sigma, sigma_log)
    counts = read_votes(votes, format=format, n_classes=classes)
    asked = _asked(counts, rows, covered)
    priced = mechanism_class(covered.plan["mechanism"])(**covered.plan["parameters"])
    secret = secret_cost_of(priced, asked, released, mechanism.order, mechanism.beta)
    with book.release(Plan(mechanism, 1), purpose=f"sanitise {covered.hash[:12]}") as grant:
        release = grant.release(secret)
    statement = sanitised_statement(book, [release])
    statement.write(out)
    if report is not None:
        write_report(report, book, statement=statement)
    if as_json:
        print_json({"statement": statement.to_dict(), "out": str(out)})
        return
    print_budget(book)
    print_statement(statement)
    if statement.epsilon >= (statement.worst_case_epsilon or 0.0):
        screen().print(
            "[yellow]Sanitising did not pay here: the worst case is the better claim.[/]"
        )
    screen().print(f"Statement: {out}")


def _covered(book: Ledger, paid: str) -> Entry:
    """Return the entry that paid for the labels: the cost of another would be another's claim."""
    from tacit.ledger import SANITISABLE

    for item in book.entries():
        if item.plan.get("mechanism") in SANITISABLE and item.hash.startswith(paid):
            return item
    raise InvalidArgument(
        f"Expected --labels that an entry of the ledger paid for, by {' or '.join(SANITISABLE)}; "
        f"entry={paid!r} is none of them."
    )


def _sanitise(
    book: Ledger,
    covered: Entry,
    beta: float | None,
    sigma: float,
    sigma_log: float | None,
) -> Sanitise:
    """Fill in defaults from public information alone."""
    from tacit.mechanisms import Sanitise

    if book.reserved_delta <= 0:
        raise InvalidArgument(
            "Expected a ledger with a reserved delta for confidence bounds; this one has none. "
            "Create ledgers with --reserve-delta."
        )
    smooth = float(f"{0.2 / book.sanitise_order:.4g}") if beta is None else beta
    half = float(f"{book.reserved_delta / 2:.6g}")
    return Sanitise(
        order=book.sanitise_order,
        beta=smooth,
        sigma=sigma,
        sigma_log=float(f"{5 * smooth:.4g}") if sigma_log is None else sigma_log,
        delta_value=half,
        delta_scale=half,
        covers=covered.hash,
    )


def read_labels(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], str]:
    """Read `index,label,entry` as `tacit aggregate` wrote it: rows, labels, what paid for them."""
    if not path.is_file():
        raise InvalidArgument(f"Expected a file at {str(path)!r}; there is none.")
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        rows = np.array([int(line["index"]) for line in lines], dtype=np.int64)
        labels = np.array([int(line["label"]) for line in lines], dtype=np.int64)
        (paid,) = {str(line["entry"]) for line in lines}
    except (KeyError, TypeError, ValueError, OverflowError, UnicodeError, csv.Error):
        paid = ""
    if len(paid) < options.ENTRY_DIGITS:
        raise InvalidArgument(
            f"Expected {path.name!r} to hold index,label,entry as `tacit aggregate` wrote it, all "
            "of one entry."
        )
    return rows, labels, paid


def _asked(counts: NDArray[np.int64], rows: NDArray[np.int64], covered: Entry) -> NDArray[np.int64]:
    plan = covered.plan
    inside = rows.size and rows.min() >= 0 and rows.max() < len(counts)
    if not inside or rows.size != plan["queries"] or np.unique(rows).size != rows.size:
        raise InvalidArgument(
            f"Expected labels for the {plan['queries']} queries of the entry, each another row of "
            "the votes."
        )
    teachers = counts[rows].sum(axis=1)
    if counts.shape[1] != plan["n_classes"] or (teachers != plan["n_teachers"]).any():
        raise InvalidArgument(
            f"Expected votes of {plan['n_teachers']} teachers on {plan['n_classes']} classes, "
            "as in the entry."
        )
    return counts[rows]
