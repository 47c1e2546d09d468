"""Stored releases of a run: what was paid for is never lost, and never paid for twice.

Each release is stored with the hash of its entry before anything is learned from it. Before a plan
is charged, a marker is stored with random digits that its entry repeats: an entry with its digits
and no stored release is a loss, which stays spent, for its noise may have been drawn. Nothing
computed from private rows is stored here (`tacit.runs.begun_with` checks that they are the same).
"""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Integers
from tacit._files import PathLike, write_atomically
from tacit._warn import warn
from tacit.errors import BudgetExceeded, InvalidArgument, LedgerDamaged, ReleaseLost
from tacit.ledger.begun_steps import NotedSteps, notes_of
from tacit.ledger.chain import NOISE_LEVELS, Entry, canonical, digest
from tacit.ledger.ledger import Ledger
from tacit.ledger.step_checkpoints import StepCheckpoint, is_old, storing, take_up
from tacit.mechanisms import Plan, Release, ResumableSteps
from tacit.noise import InsecureNoise

_HELD = ("labels", "values", "shares")


class KeptReleases:
    """The releases of one run, in the order in which they were made.

    Parameters
    ----------
    folder : path, optional
        Where they are stored, a public file each. None stores nothing.
    again : bool, pay once more, within the budget, for a release that was paid for and lost
    only : bool
        Take what is stored and pay for nothing: refuse what was never released.

    Attributes
    ----------
    about : tuple of arrays
        Public inputs of every release of a fit; an estimator sets it.
    notes : list of str
        For a reader of the run's report: how it was resumed; public.
    """

    def __init__(
        self, folder: PathLike | None = None, *, again: bool = False, only: bool = False
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self.again, self.only = again, only
        self._count = 0
        self.about: tuple[ArrayLike, ...] = ()
        self._asked: tuple[Any, ...] = ()
        self.notes: list[str] = []

    def start(self, ledger: Ledger, *inputs: ArrayLike, plans: Sequence[Plan] = ()) -> int:
        """Begin with the first release; refuse where one was paid for and lost.

        Parameters
        ----------
        ledger : Ledger
        *inputs : arrays
            Public inputs of all releases: those of stored ones must be the same.
        plans : sequence of Plan
            Of all releases: whether the ledger has room for one that was lost.

        Returns
        -------
        int
            Number of releases that are stored or resumed: so many plans are paid for.
        """
        asked = (*self.about, *inputs)
        self._asked = () if self.folder is None else tuple(map(_fingerprint, asked))
        self._count, kept = 0, len(self.stored())
        return kept + (self._unfinished(ledger, kept + 1, plans[kept:]) is not None)

    def stored(self) -> list[Path]:
        """Return the files that hold a release, in order.

        Returns
        -------
        list of path
        """
        if self.folder is None:
            return []
        places = (self._place(number, "npz") for number in itertools.count(1))
        return list(itertools.takewhile(Path.is_file, places))

    def questions(self, choose: Callable[[], Integers], most: int) -> Integers:
        """Return the indices of the public inputs to query next: stored before they are paid for.

        Parameters
        ----------
        choose : callable
            Chooses them from public inputs and releases; not called where the choice is stored.
        most : int, number of public inputs

        Returns
        -------
        array of int, public
        """
        if self.folder is None:
            return choose()
        place = self._place(self._count + 1, "asked.npy")
        if not place.exists():
            chosen, buffer = choose(), io.BytesIO()
            np.save(buffer, np.asarray(chosen, dtype=np.int64))
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(place, buffer.getvalue())
            return chosen
        try:
            kept = np.load(io.BytesIO(place.read_bytes()), allow_pickle=False)
        except Exception:  # whatever a damaged file provokes: it is damaged
            raise _damaged(place) from None
        if kept.dtype != np.int64 or kept.ndim != 1 or not ((kept >= 0) & (kept < most)).all():
            raise _damaged(place)
        return np.asarray(kept)

    def entries(self) -> list[str]:
        """Return the hashes of the entries that paid for what is stored, in order.

        Returns
        -------
        list of str, the first identifies this run on its ledger
        """
        return [str(_about(path)["entry"]) for path in self.stored()]

    def release(
        self,
        ledger: Ledger,
        plan: Plan,
        answers: Callable[[], Any],
        *,
        purpose: str,
        inputs: Iterable[ArrayLike] = (),
        noise: InsecureNoise | None = None,
        faults: Sequence[str] = (),
        **public: Any,
    ) -> Release:
        """Return the next release: the stored one, or a new one, paid for and then stored.

        Parameters
        ----------
        ledger : Ledger
        plan : Plan
        answers : callable, makes the secret answers; not called where the release is stored
        purpose : str, as the entry states it
        inputs : arrays, further public inputs of this release
        noise : InsecureNoise, optional, for tests and research
        faults : sequence of str, what no cost covers
        **public
            Further arguments of the mechanism.

        Returns
        -------
        Release, with the hash of the entry that paid
        """
        self._count += 1
        how: dict[str, Any] = {"purpose": purpose, "noise": noise, "faults": faults}
        if self.folder is None:
            return _new(ledger, plan, answers(), public, **how)
        file, asked = self._place(self._count, "npz"), [*self._asked, *map(_fingerprint, inputs)]
        key = digest(canonical({"plan": plan.as_dict(), "purpose": purpose, "inputs": asked}))
        if file.exists():
            return self._kept(file, ledger, plan, key)
        if self.only:
            raise InvalidArgument(
                f"Expected {str(self.folder)!r} to hold every release that is asked for: nothing "
                "is paid for here."
            )
        unfinished = self._unfinished(ledger, self._count)
        if unfinished is not None and unfinished.marker.key != key:
            raise self._other_questions()
        secret = answers()  # before anything is paid: what fails here costs nothing
        if unfinished is None:
            release = self._paid(ledger, plan, secret, key, public, how)
        else:
            release = self._resumed(ledger, plan, secret, unfinished)
        _keep(release, key, file)
        # Only now: without marker and file, what was paid for would be paid for again unasked.
        self._place(self._count, "begun").unlink(missing_ok=True)
        self._place(self._count, "steps.npz").unlink(missing_ok=True)
        if unfinished is not None:
            self._say_skipped(plan.queries - secret.learned, plan.queries)
        return release

    def _paid(
        self,
        ledger: Ledger,
        plan: Plan,
        secret: Any,
        key: str,
        public: Mapping[str, Any],
        how: dict[str, Any],
    ) -> Release:
        """Pay for a release, and make it; one in steps stores its state meanwhile."""
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        attempt = secrets.token_hex(32)
        # On disk before the charge: a crash after the charge then shows as a release that was lost.
        marker = _Marker(ledger.head, attempt, how["purpose"], key)
        marker.write(self._place(self._count, "begun"))
        how["attempt"] = attempt
        if isinstance(secret, ResumableSteps):
            place = self._place(self._count, "steps.npz")
            place.unlink(missing_ok=True)  # of an attempt that was lost
            entry = functools.cache(lambda: marker.paid_by(ledger)[0].hash)
            how["noted"] = NotedSteps(secret.steps_a_note, storing(place, secret, entry))
        return _new(ledger, plan, secret, public, **how)

    def _resumed(
        self, ledger: Ledger, plan: Plan, secret: ResumableSteps, unfinished: _Unfinished
    ) -> Release:
        """Resume a release with the steps that were never begun, from its stored state."""
        place, paid = self._place(self._count, "steps.npz"), unfinished.entry.hash
        take_up(secret, unfinished.checkpoint, unfinished.begun, place)
        store = storing(place, secret, lambda: paid)
        if unfinished.begun < plan.queries:
            store(unfinished.begun)  # before the next note, as always
        with ledger.resume(paid, plan, NotedSteps(secret.steps_a_note, store)) as grant:
            return grant.release(secret)

    def _say_skipped(self, skipped: int, steps: int) -> None:
        """Note the cost of an interrupt, which the ledger's notes show as well."""
        if skipped:
            self.notes.append(
                f"{skipped} of {steps} steps of training were begun when the run was interrupted "
                "and not stored: they were skipped, never drawn again."
            )
            warn(self.notes[-1])

    def _place(self, number: int, ending: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{number}.{ending}"

    def _marker(self, number: int | None = None) -> _Marker | None:
        """Return the marker of the release under a number, if there is one."""
        place = self._place(number or self._count, "begun")
        return _Marker.read(place) if place.exists() else None

    def _unfinished(
        self, ledger: Ledger, number: int, plans: Sequence[Plan] = ()
    ) -> _Unfinished | None:
        """Return the release to resume under a number; refuse where it was paid for and lost."""
        if self.folder is None or (marker := self._marker(number)) is None:
            return None
        ledger.verify(marker.head)
        if not (paid := marker.paid_by(ledger)):
            return None
        notes = ledger.collect(lambda entries: notes_of(entries, paid[0].hash))
        checkpoint = StepCheckpoint.read(self._place(number, "steps.npz"))
        if (reason := _why_lost(paid[0], notes, checkpoint)) is None:
            return _Unfinished(marker, paid[0], notes[-1], checkpoint)
        said = (
            f"This run paid at {paid[0].time[:16].replace('T', ' ')} UTC to {marker.purpose!r} "
            f"and {reason}: it stays spent."
        )
        if ledger.would_exceed(*plans):
            kind = BudgetExceeded if self.again else ReleaseLost
            raise kind(
                f"{said} Its ledger has no room to pay once more (--again). Begin anew in another "
                f"folder: these people then pay for both, so add epsilon = {ledger.spent():.4g} of "
                f"{ledger.path!r} to what is stated there. For later runs, a ledger with room for "
                "two is made by tacit ledger create."
            )
        if not self.again:
            raise ReleaseLost(f"{said} Run the same command with --again to pay once more.")
        return None

    def _kept(self, path: Path, ledger: Ledger, plan: Plan, key: str) -> Release:
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
                about = json.loads(str(arrays["about"]))
                known, entry = about["key"], about["entry"]
                held = {name: arrays[name] for name in _HELD if name in arrays}
                release = Release(plan.mechanism, entry=entry, secure=about["secure"], **held)
        except Exception:  # whatever a damaged file provokes: it is damaged
            raise _damaged(path) from None
        if known != key:
            raise self._other_questions()
        payers = ledger.collect(
            lambda entries: [
                each for each in entries if (each.hash, each.kind) == (entry, "release")
            ]
        )
        if not any(_is_for(each, plan) for each in payers):
            raise LedgerDamaged(
                f"Expected the ledger to hold the entry that paid for {str(path)!r}: it was cut "
                "short, or is another run's; do not trust its total."
            )
        return release

    def _other_questions(self) -> InvalidArgument:
        return InvalidArgument(
            f"Expected the settings and public inputs with which {str(self.folder)!r} was "
            "begun: what was released there answers other questions. Use another folder."
        )


@dataclass(frozen=True, slots=True)
class _Marker:
    """A release about to be charged: the digits that its entry repeats, and a key of its inputs."""

    head: str
    attempt: str
    purpose: str
    key: str

    def write(self, path: Path) -> None:
        write_atomically(path, canonical(asdict(self)).encode("utf-8"))

    @classmethod
    def read(cls, path: Path) -> _Marker:
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            return cls(*(str(told[each.name]) for each in fields(cls)))
        except (KeyError, OSError, TypeError, ValueError):
            raise _damaged(path) from None

    def paid_by(self, ledger: Ledger) -> list[Entry]:
        """Return the entry that paid for this very attempt, if one did."""
        behind = ledger.entries(since=self.head)
        return [each for each in behind if each.about.get("attempt") == self.attempt]


class _Unfinished(NamedTuple):
    """A release in steps to resume: its entry, how far it was begun, its stored state."""

    marker: _Marker
    entry: Entry
    begun: int
    checkpoint: StepCheckpoint | None


def _why_lost(entry: Entry, notes: list[int], checkpoint: StepCheckpoint | None) -> str | None:
    """Return why a release that was paid for cannot be resumed; None if it can."""
    if not notes:
        return "was interrupted before the release was stored"
    if entry.noise == NOISE_LEVELS[-1]:
        return "its seeded noise would be drawn again"
    if checkpoint is not None and checkpoint.position > notes[-1]:
        raise LedgerDamaged(
            "Expected the ledger to hold the note of every step that was begun: it was cut short "
            "or rolled back; do not trust its total."
        )
    if is_old(checkpoint, entry.hash, notes):
        return "what it had stored of its steps is missing, or an old copy"
    learned = 0 if checkpoint is None else checkpoint.learned
    if notes[-1] >= int(entry.plan["queries"]) and not learned:
        return "was interrupted after its last step was begun, with none stored"
    return None


def _about(path: Path) -> Any:
    """Return the metadata of a stored release."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            return json.loads(str(arrays["about"]))
    except Exception:  # whatever a damaged file provokes: it is damaged
        raise _damaged(path) from None


def _is_for(entry: Entry, plan: Plan) -> bool:
    return canonical(entry.plan) == canonical(plan.as_dict())


def _new(ledger: Ledger, plan: Plan, secret: Any, public: Mapping[str, Any], **how: Any) -> Release:
    """Pay for a release, and make it."""
    # A warning would tell of a record.
    with ledger.release(plan, **how) as grant, np.errstate(all="ignore"):
        return grant.release(secret, **public)


def _keep(release: Release, key: str, path: Path) -> None:
    told = ((name, getattr(release, name)) for name in _HELD)
    arrays: dict[str, Any] = {name: array for name, array in told if array is not None}
    about = {"key": key, "entry": release.entry, "secure": release.secure}
    buffer = io.BytesIO()
    np.savez(buffer, about=np.array(json.dumps(about)), **arrays)
    write_atomically(path, buffer.getvalue())


def _damaged(path: Path) -> InvalidArgument:
    return InvalidArgument(
        f"Expected {str(path)!r} to be a kept release; it is damaged, or another file."
    )


def _fingerprint(inputs: ArrayLike) -> list[Any]:
    """Return shape, type and hash of an array of public inputs."""
    array = np.ascontiguousarray(inputs)
    content = hashlib.sha256(array.tobytes()).hexdigest()
    return [array.dtype.str, list(array.shape), content]
