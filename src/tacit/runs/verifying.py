"""Whether a finished run holds together: model, statement, report, metrics and ledger.

When a run ends, the SHA-256 of each file that it leaves is appended to its ledger, as an entry that
costs nothing. The statement comes last and names the head behind these notes, so that whoever keeps
or signs that head has the student's hash with it; only the statement's own hash is noted after it.
Files are compared with the notes that the statement covers, never with later ones. So a file that
was swapped or edited is not the one that the ledger knows, a statement of an earlier or another
ledger covers no such files or names a head that this one never had, and a ledger that was cut short
lacks either (docs/theory/ledger.md#what-a-line-says).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tacit._files import alone_in, write_atomically
from tacit.errors import InvalidArgument, LedgerError, TacitError
from tacit.ledger import Entry, KeptReleases, Ledger, Statement, epsilon_text
from tacit.runs.ledgers import RELEASES, STUDENTS, ledger_of, noted_as, run_of

STATEMENT, STUDENT = "statement.json", "student.tacit"
ONNX = "model.onnx"
EVALUATION, EVALUATION_PAGE = "evaluation.json", "evaluation.html"
EVALUATION_PAYER, EVALUATED = "evaluation.payer", "evaluation"
REPORT = "report.html"
PUBLISHED = (
    *("config.toml", STUDENT, ONNX, "metrics.json", REPORT),
    *(EVALUATION, EVALUATION_PAGE),
)
SINCE = "since then"
"""What a check is called that tells what the ledger has paid for after the statement."""
_SAME = (
    *("delta", "unit", "dataset", "adjacency", "covers", "accountant", "noise", "entries"),
    *("budget", "warnings"),
)


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


def publish_files(ledger: Ledger, folder: Path, before: Statement) -> Statement:
    """Note the hash of each file of a finished run in its ledger, and state what is true then.

    Parameters
    ----------
    ledger : Ledger
        The run's.
    folder : path
        Where its files are.
    before : Statement
        What was true when everything was released: the statement may say more words than the
        ledger's own, and keeps them.

    Returns
    -------
    Statement
        To be written last: it names the head behind these notes, and its own hash is noted, too.
    """
    known = noted_as(folder)
    for name in files_of(folder):
        ledger.publish(file_sha256(folder / name), purpose=_purpose(known + name))
    return _stated_again(ledger, before, known)


def publish_also(
    folder: str | Path, write: Callable[[Path], object], name: str = ONNX
) -> Statement:
    """Add one more file to a finished run and list it as published: it costs nothing.

    Its hash goes into the ledger, and the statement is written again with the head behind that
    note, for a statement covers only what was noted before its head. What it claims is the same.

    Parameters
    ----------
    folder : path
        The run's.
    write : callable
        Is given the path and writes the file, in one step, once it is known that it can be listed.
    name : str
        The file's.

    Returns
    -------
    Statement
        As it stands in the folder now.

    Notes
    -----
    Whoever signed the earlier head signs this one, too, if the file shall be covered. A run that
    does not hold together is refused, and one whose ledger has paid for more since its statement:
    that one would have to claim more.
    """
    folder = Path(folder)
    checks = [check for check in verify_run(folder) if check.what != name]
    refuse_broken(checks)
    if any(check.what == SINCE for check in checks):
        raise InvalidArgument(
            "Expected a ledger that has paid for nothing since the run's statement; another "
            "statement would have to claim more. Nothing was listed."
        )
    with alone_in(folder):
        ledger, known = ledger_of(folder), noted_as(folder)
        before = Statement.from_json((folder / STATEMENT).read_text(encoding="utf-8"))
        write(folder / name)
        ledger.publish(file_sha256(folder / name), purpose=_purpose(known + name))
        statement = _stated_again(ledger, before, known)
        statement.write(folder / STATEMENT)
    return statement


def refuse_broken(checks: Sequence[Check], so: str = "") -> None:
    """Refuse a run of which a check does not hold, and say which."""
    for check in checks:
        if not check.holds:
            raise InvalidArgument(
                f"Expected a run that holds together; {check.what}: {check.says}.{so}"
            )


def replace_noted(ledger: Ledger, folder: Path, name: str, data: bytes) -> None:
    """Replace a file of a run whose statement is about to be written anew.

    Parameters
    ----------
    ledger : Ledger
        The run's.
    folder : path
        Where its files are.
    name : str
        The file's.
    data : bytes
        What it holds from now on. Its hash is noted first: killed in between, `is_noted` knows it.
    """
    ledger.publish(sha256(data), purpose=_purpose(noted_as(folder) + name))
    write_atomically(folder / name, data)


def is_noted(ledger: Ledger, folder: Path, name: str) -> bool:
    """Tell whether a run's ledger has ever noted this very file under its name.

    Parameters
    ----------
    ledger : Ledger
        The run's.
    folder : path
        Where its files are.
    name : str
        The file's.

    Returns
    -------
    bool
        False for a file that somebody else wrote.
    """
    known = _published(ledger.entries(), noted_as(folder) + name)
    return (folder / name).is_file() and file_sha256(folder / name) in known


def _stated_again(ledger: Ledger, before: Statement, known: str) -> Statement:
    """Return the statement with the ledger's head of now, and note its hash behind that head."""
    now = ledger.statement()
    # On a shared ledger others may have paid meanwhile: what is signed is what its head proves.
    own = [warning for warning in before.warnings if warning not in now.warnings]
    statement = dataclasses.replace(now, warnings=(*now.warnings, *own))
    if before.kind != "worst-case":
        statement = dataclasses.replace(before, head=now.head, entries=now.entries)
    ledger.publish(sha256(statement.to_file()), purpose=_purpose(known + STATEMENT))
    return statement


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
    kept = [
        f"{name}/{path.name}"
        for name in (RELEASES, EVALUATED)
        for path in KeptReleases(folder / name).stored()
    ]
    masks = sorted(folder.glob("released.npz")) + sorted(folder.glob("released/*"))
    shown = [path.relative_to(folder).as_posix() for path in masks if path.is_file()]
    return [*kept, *shown, *(name for name in PUBLISHED if (folder / name).is_file())]


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


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, of which a little is in memory at a time.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify_run(folder: str | Path, ledger: str | Path | None = None) -> list[Check]:
    """Check that everything in the folder of a finished run belongs together.

    Parameters
    ----------
    folder : path
        The run's, or that of a further student of it.
    ledger : path, optional
        Where its ledger is, if not where the configuration says.

    Returns
    -------
    list of Check
        In the order in which one rests on the other.
    """
    folder = Path(folder)
    try:
        opened = ledger_of(folder, ledger)
        entries = opened.entries()
    except LedgerError as error:
        return [Check("ledger", False, str(error))]
    checks = [Check("ledger", True, f"its {len(entries)} entries are one unbroken chain")]
    if (run := run_of(folder)) != folder.resolve():
        broken = [check.what for check in verify_run(run, ledger) if not check.holds]
        says = f"does not hold together: {broken[0]}" if broken else "holds together"
        checks.append(Check("the run that it was learned from", not broken, says))
    return [*checks, *_statement_checks(folder, opened)]


def _statement_checks(folder: Path, ledger: Ledger) -> Iterator[Check]:
    """Check the statement, and then the files that it covers."""
    path = folder / STATEMENT
    try:
        said = Statement.from_json(path.read_text(encoding="utf-8"))
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
    entries = ledger.entries()
    # Only what was noted before the statement's head: its signature covers that, and nothing later.
    covered, later = entries[: true.entries], entries[true.entries :]
    try:
        known = noted_as(folder)
    except InvalidArgument as error:
        yield Check("releases", False, str(error))
        return
    yield from _file_checks(folder, covered, known)
    yield _file_check(path, _published(later, known + STATEMENT)[:1])
    if (folder / EVALUATION).is_file():
        yield _evaluation_check(folder, ledger)
    if any(entry.is_paid for entry in later):
        now = epsilon_text(ledger.spent())
        yield Check(SINCE, True, f"the ledger has gone on: epsilon = {now} in all by now")


def _evaluation_check(folder: Path, ledger: Ledger) -> Check:
    """Check that the ledger which paid for an evaluation holds the entries that it names."""
    what = f"what paid for {EVALUATION}"
    try:
        named = json.loads((folder / EVALUATION).read_text(encoding="utf-8"))["entries"]
        payer, where = _payer(folder, ledger)
        paid = {entry.hash for entry in payer.entries() if entry.is_paid}
    except (OSError, ValueError, KeyError, TypeError, LedgerError) as error:
        return Check(what, False, f"cannot be read: {type(error).__name__}")
    if not named or not set(named) <= paid:
        return Check(what, False, f"{where} holds no such entries")
    spent = epsilon_text(payer.spent())
    return Check(what, True, f"is in {where}: epsilon = {spent} in all")


def _payer(folder: Path, ledger: Ledger) -> tuple[Ledger, str]:
    """Return the ledger that paid for an evaluation, and what it is called."""
    if not (folder / EVALUATION_PAYER).is_file():
        return ledger, "the run's ledger"
    path = Path((folder / EVALUATION_PAYER).read_text(encoding="utf-8").strip())
    if not path.is_file():
        raise FileNotFoundError(path)
    return Ledger(path), "the ledger of the people kept apart"


def _compared(said: Statement, true: Statement) -> Check:
    """Compare a statement with what the ledger says of itself at the same entry."""
    names = [name for name in _SAME if said.kind == "worst-case" or name != "accountant"]
    other = [name for name in names if not _agrees(name, said, true)]
    claimed = said.epsilon if said.kind == "worst-case" else said.worst_case_epsilon
    if claimed != true.epsilon:
        other.append("epsilon")
    if said.library == true.library and said.assumes != true.assumes and said.kind == "worst-case":
        other.append("assumes")
    if other:
        return Check("statement", False, f"the ledger says another {', '.join(other)}")
    return Check("statement", True, "says what the ledger says at the entry that it names")


def _agrees(name: str, said: Statement, true: Statement) -> bool:
    """Tell whether they say the same; a statement may warn of more than its ledger."""
    mine, theirs = getattr(said, name), getattr(true, name)
    return set(theirs) <= set(mine) if name == "warnings" else bool(mine == theirs)


def _file_checks(folder: Path, covered: Sequence[Entry], known: str) -> Iterator[Check]:
    noted = [entry.purpose.removeprefix("publish ") for entry in covered if _is_note(entry)]
    mine = [each.removeprefix(known) for each in noted if each.startswith(known)]
    # A further student of the same run is a run's folder of its own.
    own = [name for name in mine if not name.startswith(f"{STUDENTS}/")]
    # An earlier statement was noted, too, where a file was added: it has been replaced.
    names = dict.fromkeys([*PUBLISHED, *files_of(folder), *own])
    names.pop(STATEMENT, None)
    for name in names:
        hashes = _published(covered, known + name)
        if hashes or (folder / name).exists():
            yield _file_check(folder / name, hashes[-1:], name)


def _published(entries: Sequence[Entry], name: str) -> list[str]:
    """Return the hashes that were noted for a file, the newest last."""
    mine = (entry for entry in entries if _is_note(entry) and entry.purpose == _purpose(name))
    return [entry.about["sha256"] for entry in mine]


def _is_note(entry: Entry) -> bool:
    return entry.kind == "publication" and entry.purpose.startswith("publish ")


def _file_check(path: Path, known: list[str], name: str = "") -> Check:
    name = name or path.name
    if not path.is_file():
        return Check(name, False, "is missing, though the ledger says that it was published")
    if not known:
        says = "the statement covers no such file: the run did not finish, or was made by 0.1"
        if name == ONNX:
            says = "the statement covers no such file; tacit export RUN --publish lists it"
        return Check(name, False, says)
    if file_sha256(path) == known[0]:
        return Check(name, True, "is what the ledger says was published")
    return Check(name, False, "is another file than the ledger says was published")


def _purpose(name: str) -> str:
    return f"publish {name}"
