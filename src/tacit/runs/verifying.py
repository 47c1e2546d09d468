"""Whether a finished run holds together: model, statement, report, metrics and ledger.

When a run ends, the SHA-256 of each file that it leaves is appended to its ledger, as an entry that
costs nothing. The statement names the head of the ledger before that. So a file that was swapped or
edited is not the one that the ledger knows, a statement or a report of another ledger names a head
that this one never had, and a ledger that was cut short lacks either (docs/theory/ledger.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tacit.errors import InvalidArgument, LedgerError, TacitError
from tacit.ledger import Entry, KeptReleases, Ledger, Statement

LEDGER, STATEMENT, STUDENT, RELEASES = "run.ledger", "statement.json", "student.tacit", "releases"
PUBLISHED = (STUDENT, "metrics.json", "report.html", STATEMENT)
_NUMBERS = ("epsilon", "delta", "unit", "dataset", "accountant", "noise", "entries", "budget")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Parameters
    ----------
    what : str
        What was looked at.
    holds : bool
        Whether it is as it should be.
    says : str
        What was found, in a sentence.
    """

    what: str
    holds: bool
    says: str


def publish_files(ledger: Ledger, folder: Path, statement: Statement) -> None:
    """Note the hash of each file of a finished run in its ledger.

    Parameters
    ----------
    ledger : Ledger
        The run's.
    folder : path
        Where its files are.
    statement : Statement
        What will be written last, when everything else is there.
    """
    for name in files_of(folder):
        if name != STATEMENT:
            ledger.publish(sha256((folder / name).read_bytes()), purpose=_purpose(name))
    ledger.publish(sha256(statement.to_file()), purpose=_purpose(STATEMENT))


def files_of(folder: Path) -> list[str]:
    """Return the files of a run that its ledger knows, as far as they are there.

    Parameters
    ----------
    folder : path
        The run's.

    Returns
    -------
    list of str
        Releases first, then what came of them.
    """
    kept = [f"{RELEASES}/{path.name}" for path in KeptReleases(folder / RELEASES).stored()]
    return [*kept, *(name for name in PUBLISHED if (folder / name).exists())]


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes.

    Parameters
    ----------
    data : bytes
        What a file holds.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    return hashlib.sha256(data).hexdigest()


def verify_run(folder: str | Path) -> list[Check]:
    """Check that everything in the folder of a finished run belongs together.

    Parameters
    ----------
    folder : path
        The run's.

    Returns
    -------
    list of Check
        In the order in which one rests on the other.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InvalidArgument(f"Expected the folder of a run at {str(folder)!r}; no such folder.")
    if not (folder / LEDGER).exists():
        raise InvalidArgument(f"Expected the folder of a run at {str(folder)!r}: no {LEDGER}.")
    try:
        ledger = Ledger(folder / LEDGER)
        entries = ledger.entries()
    except LedgerError as error:
        return [Check("ledger", False, str(error))]
    intact = Check("ledger", True, f"its {len(entries)} entries are one unbroken chain")
    return [intact, *_statement_checks(folder, ledger), *_file_checks(folder, entries)]


def _statement_checks(folder: Path, ledger: Ledger) -> Iterator[Check]:
    try:
        text = (folder / STATEMENT).read_text(encoding="utf-8")
        said = Statement.from_json(text)
    except (OSError, UnicodeError):
        yield Check("statement", False, "there is none: the run did not finish")
        return
    except InvalidArgument as error:
        yield Check("statement", False, str(error))
        return
    try:
        true = ledger.statement(head=said.head)
    except TacitError:
        yield Check(
            "statement",
            False,
            "the ledger never had the head that the statement names: it was cut short or rolled "
            "back, or one of the two is another run's",
        )
        return
    yield _compared(said, true)


def _compared(said: Statement, true: Statement) -> Check:
    """Compare a statement with what the ledger says of itself at the same entry."""
    if said.kind != "worst-case":
        return Check("statement", True, "sanitised; its ledger holds the head that it names")
    other = [name for name in _NUMBERS if getattr(said, name) != getattr(true, name)]
    if said.warnings != true.warnings:
        other.append("warnings")
    if said.library == true.library and said.assumes != true.assumes:
        other.append("assumes")
    if other:
        return Check("statement", False, f"the ledger says another {', '.join(other)}")
    return Check("statement", True, "says what the ledger says at the entry that it names")


def _file_checks(folder: Path, entries: tuple[Entry, ...]) -> Iterator[Check]:
    published = [entry for entry in entries if entry.kind == "publication"]
    for name in (*PUBLISHED, *(each for each in files_of(folder) if each not in PUBLISHED)):
        known = [entry.about["sha256"] for entry in published if entry.purpose == _purpose(name)]
        path = folder / name
        if not path.exists():
            if known:
                yield Check(name, False, "is missing, though the ledger says it was published")
        elif not known:
            says = "the ledger knows no such file: the run did not finish, or was made by 0.1"
            yield Check(name, False, says)
        elif sha256(path.read_bytes()) in known:
            yield Check(name, True, "is what the ledger says was published")
        else:
            yield Check(name, False, "is another file than the ledger says was published")


def _purpose(name: str) -> str:
    return f"publish {name}"
