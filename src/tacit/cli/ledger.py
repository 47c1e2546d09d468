"""`tacit ledger create`, `show` and `verify`, and `tacit report` on the same file."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.markup import escape

from tacit.cli.options import existing, writable
from tacit.cli.show import WIDE, Result, print_advisory, print_statement, print_table, screen
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.ledger import Entry, Ledger

_SHOWN = (
    *("kind", "time", "behind", "purpose", "plan", "cost", "noise"),
    *("faults", "priced_by", "about", "hash"),
)


ROWS = 50
"""Entries on a page of `tacit ledger show`."""


def create(
    file: Path,
    *,
    epsilon: float,
    delta: float,
    unit: str = "record",
    dataset: str = "",
    accountant: str = "rdp",
    run_epsilon: float | None = None,
    allow_large_delta: bool = False,
) -> Result:
    r"""Make a ledger that all runs on one data set share: one budget, one statement.

    Then name it in every run: ledger = "patients.ledger" in \[privacy], or tacit train --ledger.
    Example: tacit ledger create patients.ledger --epsilon 4 --delta 1e-5 --unit person

    epsilon: The most that all runs together may spend.
    delta: At which it is counted, in every run.
    unit: Whose privacy: record, or person where the data name groups.
    dataset: What the data are called; the statement says it.
    accountant: rdp counts every method, gaussian all but knn, dpsgd and mac, and those exactly.
    run_epsilon: With rdp: what the smallest run will spend; the one order is best for that.
    allow_large_delta: Do not compare delta with the number of units; the statement then warns.
    """
    from tacit.ledger import Budget, Ledger, best_order

    writable(file)
    if accountant not in ("rdp", "gaussian"):
        raise InvalidArgument(f"Expected accountant={accountant!r} to be rdp or gaussian.")
    order = None
    if accountant == "rdp":
        order = best_order(Budget(run_epsilon or epsilon, delta), delta)
    made = Ledger(
        file,
        budget=Budget(epsilon, delta),
        unit=unit,
        dataset=dataset,
        accountant=accountant,
        order=order,
        allow_large_delta=allow_large_delta or None,
    )
    said = f"{file}: epsilon = {epsilon:g} at delta = {delta:g} for all runs that name it"
    return Result({"ledger": str(file), "origin": made.origin}, said)


def show(file: Path, *, page: int = 1) -> Result:
    """Show what was released and what is left; of a long ledger, the latest entries.

    Example: tacit ledger show run.ledger

    page: 1 shows the latest 50 entries, 2 those before them, and so on. --json has all of them.
    """
    from tacit.ledger import advisory

    ledger = existing(file)

    def plain() -> dict[str, Any]:  # for machines alone: a ledger may be long
        statement, entries = ledger.survey(lambda each: list(map(_plain, each)))
        seals = {e["about"]["run"]: e["hash"] for e in entries if e["kind"] == "seal"}
        spent = statement.epsilon or 0.0
        return {
            "spent": spent,
            "remaining": max(0.0, ledger.budget.epsilon - spent),
            "budget": asdict(ledger.budget),
            "unit": ledger.unit,
            "accountant": ledger.accountant,
            "head": statement.head,
            "runs": seals,
            "warnings": statement.warnings,
            "advisory": advisory(ledger),
            "entries": entries,
        }

    def shown() -> None:
        statement, found = ledger.survey(lambda entries: _found(entries, page))
        _print_entries(file.name, ledger, found, page)
        _print_clock(found.late)
        for run, (sequence, head) in found.seals.items():
            screen().print(
                f"The head of {run.rstrip('/') or 'the run'} is {head}, entry {sequence}.",
                soft_wrap=True,
                highlight=False,
            )
        if not found.paid_since and list(found.seals.values()):
            # Notes behind a seal change nothing that is said: one head is enough.
            _, head = max(found.seals.values())
            statement = ledger.statement(head=head)
        print_statement(ledger, statement)
        print_advisory(advisory(ledger))

    return Result(plain, shown)


def _plain(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in _SHOWN}


class _Found(NamedTuple):
    """What is printed of the entries of a ledger, and how many there are."""

    length: int
    paid: int
    listed: int
    on_page: Sequence[Entry]
    late: Sequence[Entry]
    seals: Mapping[str, tuple[int, str]]
    paid_since: bool


def _found(entries: Iterable[Entry], page: int) -> _Found:
    """Return a page of entries, counted from the end; refuse one that there is not.

    Notes of begun steps are on none: they are many, and of use to the run alone; --json has them.
    """
    length = paid = listed = 0
    late: list[Entry] = []
    seals: dict[str, tuple[int, str]] = {}
    paid_since = False
    kept: deque[Entry] = deque(maxlen=min(max(page, 1) * ROWS, sys.maxsize))
    for entry in entries:
        length, paid = entry.sequence, paid + entry.is_paid
        if entry.behind:
            late.append(entry)
        if entry.kind == "seal":
            seals[entry.about["run"]] = (entry.sequence, entry.hash)
        paid_since = entry.kind != "seal" and (paid_since or entry.is_paid)
        if entry.kind != "began":
            kept.append(entry)
            listed += 1
    pages = max(1, -(-listed // ROWS))
    if not 1 <= page <= pages:
        raise InvalidArgument(f"Expected --page={page} to be a page from 1 to {pages}.")
    on_page = list(kept)[: min(ROWS, listed - (page - 1) * ROWS)]
    return _Found(length, paid, listed, on_page, late, seals, paid_since)


def _print_entries(name: str, ledger: Ledger, found: _Found, page: int) -> None:
    """Print the table of releases: a purpose takes more lines, so that the rest stays whole.

    A narrow screen has no room for hashes beside it; --json has them in full.
    """
    currency = {"gaussian": "mu^2", "rdp": "RDP", "fixed": "epsilon"}[ledger.accountant]
    columns = ("purpose", "when, UTC", "mechanism", "queries", currency, "entry")
    shown = len(columns) - (screen().width < WIDE)
    rows = [
        (
            escape(entry.purpose),
            entry.time[:16].replace("T", " ") + (" !" if entry.behind else ""),
            str(entry.plan.get("mechanism", entry.kind)),
            str(entry.plan.get("queries", "")),
            f"{entry.cost:.4g}",
            entry.hash[:8],
        )[:shown]
        for entry in found.on_page
    ]
    counted = _counted(found.paid, "release", "releases")
    title = escape(f"{name}: {counted}, unit: one {ledger.unit}")
    print_table(title, columns[:shown], rows, folded=True)
    if len(rows) < found.listed:
        first, last = found.on_page[0].sequence, found.on_page[-1].sequence
        before = f"; --page {page + 1} shows those before" if page * ROWS < found.listed else ""
        screen().print(f"Entries {first:,} to {last:,} of {found.length:,}{before}.")


def verify(file: Path, *, head: str | None = None) -> Result:
    """Check pages, schema and the chain of hashes; exit code 4 if it cannot be trusted.

    Example: tacit ledger verify run.ledger --head 3f0a…

    head: A head hash from a statement: detects a roll-back.
    """
    ledger = existing(file)
    length, current, late = ledger.collect(_end_and_late, head)
    current = current or ledger.origin
    behind = [entry.sequence for entry in late]
    plain = {"verified": True, "head": current, "entries": length, "clock_behind": behind}

    def shown() -> None:
        counted = _counted(length, "entry", "entries")
        screen().print(f"[green]Verified[/]: {counted}, head {current}")
        _print_clock(late)
        if head is None:
            screen().print(
                "Without --head, a ledger that was cut short or rolled back looks intact: "
                "compare with the head printed in a statement."
            )

    return Result(plain, shown)


def _end_and_late(entries: Iterable[Entry]) -> tuple[int, str, list[Entry]]:
    """Return how many there are, the hash of the last, and those whose clock had gone back."""
    length, last, late = 0, "", []
    for entry in entries:
        length, last = entry.sequence, entry.hash
        if entry.behind:
            late.append(entry)
    return length, last, late


def _print_clock(entries: Sequence[Entry]) -> None:
    """Say where the clock went back: nothing is refused for it, and nothing hides it."""
    from tacit.ledger import clock_went_back

    for entry in entries:
        if entry.behind:
            screen().print(f"[yellow]Clock[/]: {clock_went_back(entry)}.")


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def report(file: Path, *, out: Path = Path("report.html"), overwrite: bool = False) -> Result:
    """Write the report that a privacy officer reads: statement, budget, what was released when.

    Example: tacit report run.ledger --out report.html

    out: Where the report goes.
    """
    from tacit.report import write_report

    writable(out, overwrite=overwrite)
    ledger = existing(file)
    write_report(out, ledger)
    result = {"report": str(out), "statement": ledger.statement().to_dict()}
    return Result(result, f"Report: {out}")
