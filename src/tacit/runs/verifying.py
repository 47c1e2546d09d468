"""Whether a finished run is consistent: model, statement, report, evaluation and ledger.

The run's last seal (`tacit.runs.sealing`) lists the hash of each file; its own hash is the head
that report and card show. The statement is derived anew from the ledger and compared field by
field. Only `head=` shows that an officer was given another head than this one
(docs/theory/ledger.md#what-a-line-says). Runs of 0.2 have one note for each file, and no seal.
"""

from __future__ import annotations

import dataclasses
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tacit._files import alone_in
from tacit._registry import mechanism_class
from tacit.errors import InvalidArgument, LedgerError, TacitError
from tacit.evaluate import Evaluation
from tacit.ledger import Entry, KeptReleases, Ledger, Statement, epsilon_text, sanitised_at
from tacit.mechanisms import Plan
from tacit.report import NO_HEAD
from tacit.runs.ledgers import STUDENTS, ledger_of, noted_as, run_of
from tacit.runs.sealing import (
    EVALUATED,
    EVALUATION,
    EVALUATION_PAYER,
    ONNX,
    PUBLISHED,
    REWRITTEN,
    SHOW_HEAD,
    STAGED,
    STATEMENT,
    data_of,
    file_sha256,
    files_of,
    seal_run,
    seals_of,
    settle,
)

SINCE = "since then"
"""What a check is called that tells what the ledger has paid for after the statement."""
HEAD = "head"
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result.

    Parameters
    ----------
    what : str, what was checked
    holds : bool
    says : str, the result in a sentence
    """

    what: str
    holds: bool
    says: str


def publish_also(
    folder: str | Path,
    write: Callable[[Path], object] | None = None,
    name: str = ONNX,
    *,
    kind: str | None = None,
) -> Statement:
    """Add a file to a finished run, or change the kind of its statement, and seal it anew: free.

    A run that does not verify is refused, and one whose ledger has paid for more since its
    statement, which would have to claim more. The earlier head does not cover what is added.

    Parameters
    ----------
    folder : path, the run's
    write : callable, optional
        Writes the file to the path that it is given, once it is known that it can be sealed.
    name : str, the file's
    kind : str, optional
        "sanitised" states what the sanitised costs in the ledger support; by default as before.

    Returns
    -------
    Statement, as it stands in the folder now, with the new head
    """
    folder = Path(folder)
    checks = [check for check in verify_run(folder) if check.what != name]
    refuse_broken(checks)
    if kind is None and any(check.what == SINCE for check in checks):
        raise InvalidArgument(
            "Expected a ledger that has paid for nothing since the run's statement; another "
            "statement would have to claim more. Nothing was listed."
        )
    with alone_in(run_of(folder)), tempfile.TemporaryDirectory() as place:
        new = {}
        if write is not None:
            write(Path(place) / name)
            new[name] = (Path(place) / name).read_bytes()
        return seal_run(folder, ledger_of(folder), data_of(folder), new=new, kind=kind)


def run_of_statement(path: Path, ledger: Ledger) -> Path | None:
    """Return the finished run whose statement a path names, or None.

    A run on another ledger, or one that does not verify, is refused.
    """
    folder = path.parent
    if path.name != STATEMENT or not (folder / "config.toml").is_file():
        return None
    refuse_broken(verify_run(folder), " Nothing was spent.")
    if ledger_of(folder).origin != ledger.origin:
        raise InvalidArgument(
            f"Expected {str(path)!r} to be of a run on {ledger.path!r}; it has another ledger. "
            "Nothing was spent."
        )
    return folder


def refuse_broken(checks: Sequence[Check], so: str = "") -> None:
    """Refuse a run of which a check does not hold, and name it."""
    for check in checks:
        if not check.holds:
            raise InvalidArgument(
                f"Expected a run that holds together; {check.what}: {check.says}.{so}"
            )


def verify_run(
    folder: str | Path, ledger: str | Path | None = None, head: str | None = None
) -> list[Check]:
    """Check that everything in the folder of a finished run belongs together.

    Parameters
    ----------
    folder : path, the run's, or that of a further student of it
    ledger : path, optional, of its ledger, if not as configured
    head : str, optional
        The run's head, or an older one, from elsewhere. Without it, a run that was written anew in
        whole, its ledger included, looks intact.

    Returns
    -------
    list of Check, each of which relies on those before
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
    try:
        known = noted_as(folder)
        settle(folder, opened)
    except InvalidArgument as error:
        return [*checks, Check("releases", False, str(error))]
    except OSError:  # not ours to write: what is staged stays there
        pass
    if (folder / STAGED).is_dir():
        says = "another process is publishing, or was killed; tacit verify by its owner ends it"
        checks.append(Check(STAGED, True, says))
    found = _Found(folder, opened, entries, known)
    seals = seals_of(entries, known)
    checks += _sealed_checks(found, seals) if seals else _checks_of_0_2(found)
    return checks if head is None else [*checks, *_head_checks(found, seals, head)]


@dataclass(frozen=True, slots=True)
class _Found:
    """A folder, its ledger, and the run's name there."""

    folder: Path
    ledger: Ledger
    entries: tuple[Entry, ...]
    known: str


def _sealed_checks(found: _Found, seals: Sequence[Entry]) -> Iterator[Check]:
    """Compare files with the last seal, and the statement with the ledger at that point."""
    folder, seal = found.folder, seals[-1]
    yield Check("seal", True, f"entry {seal.sequence} lists every file; the head is {seal.hash}")
    yield _statement_check(found, seal)
    listed: Mapping[str, str] = seal.about["files"]
    for name in dict.fromkeys([*PUBLISHED, *files_of(folder), *listed]):
        if name in listed or (folder / name).exists():
            yield _file_check(folder / name, listed.get(name), name, seal.hash)
    yield from _later_checks(found, seal.sequence)


def _statement_check(found: _Found, seal: Entry) -> Check:
    """Derive the statement anew at the seal, and compare every field but its library."""
    path = found.folder / STATEMENT
    try:
        text = path.read_text(encoding="utf-8")
        said = Statement.from_json(text)
    except (OSError, UnicodeError):
        return Check("statement", False, "there is none, or none that can be read")
    except InvalidArgument as error:
        return Check("statement", False, str(error))
    derive = sanitised_at if said.kind == "sanitised" else Ledger.statement
    try:
        true = replace(derive(found.ledger, seal.hash), head=None, library=said.library)
    except TacitError as error:
        return Check("statement", False, f"the ledger does not support it: {error}")
    names = (each.name for each in dataclasses.fields(Statement))
    other = [name for name in names if getattr(said, name) != getattr(true, name)]
    if other:
        return Check("statement", False, f"the ledger says another {', '.join(other)}")
    if text.encode("utf-8") != true.to_file():
        return Check("statement", False, "is not written as tacit writes it: a field is missing")
    return Check("statement", True, "says what the ledger says at the seal, in every field")


def _file_check(path: Path, known: str | None, name: str, head: str = "") -> Check:
    if not path.is_file():
        return Check(name, False, "is missing, though the ledger says that it was published")
    if known is None:
        says = "the ledger lists no such file: the run did not finish, or was made by 0.1"
        if name == ONNX:
            says = "the ledger lists no such file; tacit export RUN --publish lists it"
        if name == EVALUATION or name.startswith(f"{EVALUATED}/"):
            says = "the ledger lists no such file; the same tacit evaluate command goes on"
        return Check(name, False, says)
    if file_sha256(path, head) != known:
        return Check(name, False, "is another file than the ledger says was published")
    if head and name in SHOW_HEAD and NO_HEAD.encode() in path.read_bytes():
        return Check(name, False, f"shows zeros where the head should be, {head}")
    return Check(name, True, "is what the ledger says was published")


def _later_checks(found: _Found, sequence: int) -> Iterator[Check]:
    if (found.folder / EVALUATION).is_file():
        yield _evaluation_check(found.folder, found.ledger)
    if any(entry.is_paid for entry in found.entries[sequence:]):
        now = epsilon_text(found.ledger.spent())
        yield Check(SINCE, True, f"the ledger has gone on: epsilon = {now} in all by now")


def _head_checks(found: _Found, seals: Sequence[Entry], head: str) -> Iterator[Check]:
    """Compare with the files listed under a given head."""
    held = [entry for entry in found.entries if entry.hash == head]
    listed = dict(_noted(found, held[0])) if held else {}
    if not listed:
        says = "is not the one that you gave: ledger and files were written anew, or are another's"
        if held:
            says = f"is not the one that you gave: entry {held[0].sequence} seals no such run"
        yield Check(HEAD, False, says)
        return
    newest = seals[-1].hash if seals else ""
    if head == newest:
        yield Check(HEAD, True, "is the one that you gave")
        return
    if newest:
        yield Check(HEAD, True, f"the one that you gave is older; by now it is {newest}")
    else:
        yield Check(HEAD, True, "is one of this ledger, from before there were seals")
        for name in {*PUBLISHED, *files_of(found.folder)} - {STATEMENT} - listed.keys():
            if (found.folder / name).exists():
                says = "was noted after the head that you gave, which says nothing of it"
                yield Check(f"{HEAD}: {name}", False, says)
    for name, known in listed.items():
        path = found.folder / name
        if path.is_file() and file_sha256(path, newest) == known:
            continue
        if name in REWRITTEN and path.is_file():
            says = "was written anew by a later publication: the head that you gave is not about it"
            yield Check(f"{HEAD}: {name}", True, says)
        else:
            says = "is another file than the one under the head that you gave"
            yield Check(f"{HEAD}: {name}", False, says)


def _noted(found: _Found, upto: Entry) -> Iterator[tuple[str, str]]:
    """Yield the files of a run, with their hashes, as of an entry."""
    if upto.kind == "seal":
        if upto.about["run"] == found.known:
            yield from upto.about["files"].items()
        return
    for entry in found.entries[: upto.sequence]:
        if _is_note(entry) and entry.purpose.startswith(_purpose(found.known)):
            name = entry.purpose.removeprefix(_purpose(found.known))
            if not name.startswith(f"{STUDENTS}/"):
                yield name, entry.about["sha256"]


def _evaluation_check(folder: Path, ledger: Ledger) -> Check:
    """Compare an evaluation with its release and its ledger."""
    what = f"what paid for {EVALUATION}"
    try:
        told = Evaluation.read(folder / EVALUATION)
        payer, where = _payer(folder, ledger)
        paid = {entry.hash: entry for entry in payer.entries() if entry.is_paid}
        if not told.entries or not set(told.entries) <= set(paid):
            return Check(what, False, f"{where} holds no such entries")
        plans = [_plan_of(paid[each]) for each in told.entries]
        other = _differs(folder, told, plans, payer)
    except (OSError, ValueError, KeyError, TypeError, IndexError, TacitError) as error:
        return Check(what, False, f"cannot be read: {type(error).__name__}")
    if other:
        return Check(what, False, f"{where} and what was released say another {', '.join(other)}")
    spent = epsilon_text(payer.spent())
    return Check(what, True, f"is in {where}: epsilon = {spent} in all")


def _plan_of(entry: Entry) -> Plan:
    asked = dict(entry.plan)
    mechanism = mechanism_class(asked.pop("mechanism"))(**asked.pop("parameters"))
    return Plan(mechanism, **asked)


def _differs(folder: Path, told: Evaluation, plans: Sequence[Plan], payer: Ledger) -> list[str]:
    """Return how an evaluation differs from its entries and its release."""
    other = []
    if payer.price(*plans) > told.epsilon * (1 + _TOLERANCE):
        other.append("epsilon")
    if told.delta != payer.usable_delta:
        other.append("delta")
    if any(getattr(plan.mechanism, "sigma", None) != told.sigma for plan in plans):
        other.append("sigma")
    kept = KeptReleases(folder / EVALUATED)
    if kept.entries() != list(told.entries):
        other.append("entries")
    for path, (name, table) in zip(kept.stored(), told.tables.items(), strict=True):
        with np.load(path, allow_pickle=False) as arrays:
            if not np.array_equal(arrays["values"].ravel(), table.ravel()):
                other.append(name)
    shown = json.loads((folder / EVALUATION).read_text(encoding="utf-8"))["figures"]
    values = {name: float(band.value) for name, band in told.rows()}
    both = sorted(set(shown) & set(values))  # another version may refuse to tell another one
    if shown and not both:
        other.append("figures")
    return other + [name for name in both if not _is_near(shown[name]["value"], values[name])]


def _is_near(shown: float | None, value: float) -> bool:
    if shown is None:  # JSON has no word for what is not finite
        return not math.isfinite(value)
    return math.isclose(shown, value, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def _payer(folder: Path, ledger: Ledger) -> tuple[Ledger, str]:
    """Return the ledger that paid for an evaluation, and its name."""
    if not (folder / EVALUATION_PAYER).is_file():
        return ledger, "the run's ledger"
    path = Path((folder / EVALUATION_PAYER).read_text(encoding="utf-8").strip())
    if not path.is_file():
        raise FileNotFoundError(path)
    return Ledger(path), "the ledger of the people kept apart"


_SAME_IN_0_2 = (
    *("delta", "unit", "dataset", "adjacency", "covers", "accountant", "noise", "entries"),
    *("budget", "warnings", "assumes"),
)


def _checks_of_0_2(found: _Found) -> Iterator[Check]:
    """Check a run without a seal: its statement names the head behind the notes of files."""
    folder, path = found.folder, found.folder / STATEMENT
    try:
        said = Statement.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError):
        yield Check("statement", False, "there is none: the run did not finish")
        return
    except InvalidArgument as error:
        yield Check("statement", False, str(error))
        return
    try:
        true = found.ledger.statement(head=said.head or "")
    except TacitError:
        yield Check(
            "statement",
            False,
            "the ledger has no seal of this run, and never had the head that the statement names: "
            "it was cut short or rolled back, or one of the two is another run's",
        )
        return
    yield _compared_as_0_2(said, true)
    # Only what was noted before the statement's head: its signature covers that, and nothing later.
    covered, later = found.entries[: true.entries], found.entries[true.entries :]
    listed = dict(_noted(found, covered[-1])) if covered else {}
    listed.pop(STATEMENT, None)  # an earlier one, which was replaced
    names = dict.fromkeys([*PUBLISHED, *files_of(folder), *listed])
    names.pop(STATEMENT, None)
    for name in names:
        asked = name.endswith(".asked.npy")  # which 0.2 did not note
        if name in listed or ((folder / name).exists() and not asked):
            yield _file_check(folder / name, listed.get(name), name)
    notes = [each for each in later if each.purpose == _purpose(found.known + STATEMENT)]
    yield _file_check(path, notes[0].about["sha256"] if notes else None, STATEMENT)
    yield from _later_checks(found, true.entries)


def _compared_as_0_2(said: Statement, true: Statement) -> Check:
    """Compare as 0.2 did: a statement may have warnings that its ledger lacks."""
    sanitised = said.kind == "sanitised"
    names = [name for name in _SAME_IN_0_2 if not sanitised or name != "accountant"]
    other = [name for name in names if not _agrees(name, said, true)]
    if (said.worst_case_epsilon if sanitised else said.epsilon) != true.epsilon:
        other.append("epsilon")
    if other:
        return Check("statement", False, f"the ledger says another {', '.join(other)}")
    says = "says what the ledger says at the entry that it names"
    if sanitised:
        return Check("statement", False, "0.2 noted no sanitised cost: only the worst case is so")
    return Check("statement", True, says)


def _agrees(name: str, said: Statement, true: Statement) -> bool:
    """Whether a field of both is equal."""
    mine, theirs = getattr(said, name), getattr(true, name)
    return set(theirs) <= set(mine) if name == "warnings" else bool(mine == theirs)


def _is_note(entry: Entry) -> bool:
    return entry.kind == "publication" and entry.purpose.startswith("publish ")


def _purpose(name: str) -> str:
    return f"publish {name}"
