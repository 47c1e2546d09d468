"""Releases that a run keeps: what was paid for once is never lost, and never paid for twice.

A run can be killed at any point. So each release goes, in whole and with the hash of its entry, to
a file of its own before anything is learned from it; the same run, started again, takes it from
there. Before a plan is charged, a marker says what is about to be released and where the ledger
ended. A marker without a file, and an entry of that plan behind it, is a release that was paid for
and lost: it stays spent, for its noise may have been drawn, and only who asks for it pays again.

"The same run" means: the same plans for the same purposes, on the same public inputs. Nothing that
was computed from private rows is kept to compare, not even a digest.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument, LedgerDamaged, ReleaseLost
from tacit.ledger.chain import Entry, canonical, digest
from tacit.ledger.ledger import Ledger
from tacit.mechanisms import Plan, Release
from tacit.noise import InsecureNoise


class KeptReleases:
    """The releases of one run, in the order in which they were made.

    Parameters
    ----------
    folder : path, optional
        Where they are kept: a file each, public as they are. None keeps nothing.
    again : bool
        Pay once more, within the budget, for a release that was paid for and lost.

    Attributes
    ----------
    about : tuple of arrays
        Public inputs that every release of a fit is about; an estimator sets it.
    """

    def __init__(self, folder: PathLike | None = None, *, again: bool = False) -> None:
        self.folder = None if folder is None else Path(folder)
        self.again = again
        self._count = 0
        self.about: tuple[ArrayLike, ...] = ()
        self._asked: tuple[Any, ...] = ()

    def start(self, ledger: Ledger, *inputs: ArrayLike) -> int:
        """Begin with the first release; refuse where one was paid for and lost.

        Parameters
        ----------
        ledger : Ledger
            Who pays.
        *inputs : arrays
            Public inputs that all releases are about: those of kept ones must be the same.

        Returns
        -------
        int
            How many releases are kept: so many plans are paid for.
        """
        asked = (*self.about, *inputs)
        self._asked = () if self.folder is None else tuple(map(_fingerprint, asked))
        self._count = len(self.stored())
        if self.folder is not None:
            self._refuse_lost(ledger, self._place(self._count + 1, "begun"))
        kept, self._count = self._count, 0
        return kept

    def stored(self) -> list[Path]:
        """Return the files that hold a release, in order.

        Returns
        -------
        list of path
            None of them is half written.
        """
        if self.folder is None:
            return []
        places = (self._place(number, "npz") for number in itertools.count(1))
        return list(itertools.takewhile(Path.is_file, places))

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
        """Return the next release: the one that is kept, or a new one, paid for and then kept.

        Parameters
        ----------
        ledger : Ledger
            Who pays.
        plan : Plan
            What is released.
        answers : callable
            Makes the secret answers; not called where the release is kept.
        purpose : str
            What the entry says.
        inputs : arrays
            Further public inputs that this one is about.
        noise : InsecureNoise, optional
            For tests and research.
        faults : sequence of str
            What no cost covers.
        **public
            What the mechanism is told beside the answers.

        Returns
        -------
        Release
            With the hash of the entry that paid.
        """
        self._count += 1
        how: dict[str, Any] = {"purpose": purpose, "noise": noise, "faults": faults}
        if self.folder is None:
            return _new(ledger, plan, answers(), public, **how)
        file, asked = self._place(self._count, "npz"), [*self._asked, *map(_fingerprint, inputs)]
        key = digest(canonical({"plan": plan.as_dict(), "purpose": purpose, "inputs": asked}))
        if file.exists():
            return self._kept(file, ledger, plan, key)
        secret = answers()  # before anything is paid: what fails here costs nothing
        # On disk before the charge: a crash after the charge then shows as a release that was lost.
        marker = {"head": ledger.head, "plan": plan.as_dict(), "purpose": purpose}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._place(self._count, "begun"), canonical(marker).encode("utf-8"))
        release = _new(ledger, plan, secret, public, **how)
        _keep(release, key, file)
        # Only now: without marker and file, what was paid for would be paid for again unasked.
        self._place(self._count, "begun").unlink(missing_ok=True)
        return release

    def _place(self, number: int, ending: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{number}.{ending}"

    def _refuse_lost(self, ledger: Ledger, marker: Path) -> None:
        """Refuse where a plan was charged after its marker, and nothing was kept."""
        if not marker.exists():
            return
        try:
            begun = json.loads(marker.read_text(encoding="utf-8"))
            head, plan, purpose = (begun[name] for name in ("head", "plan", "purpose"))
        except (KeyError, OSError, TypeError, ValueError):
            raise _damaged(marker) from None
        ledger.verify(head)
        entries = ledger.entries()
        hashes = [ledger.origin, *(entry.hash for entry in entries)]
        paid = [
            entry
            for entry in entries[hashes.index(head) :]
            if entry.kind == "release" and entry.purpose == purpose and entry.plan == plan
        ]
        if paid and not self.again:
            raise ReleaseLost(
                f"This run paid at {paid[-1].time[:16].replace('T', ' ')} UTC to {purpose!r} and "
                "was interrupted before the release was stored: it stays spent. Run the same "
                "command with --again to pay once more, if the budget allows it."
            )

    def _kept(self, path: Path, ledger: Ledger, plan: Plan, key: str) -> Release:
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
                about = json.loads(str(arrays["about"]))
                known, entry = about["key"], about["entry"]
                held = {name: arrays[name] for name in ("labels", "values") if name in arrays}
                release = Release(plan.mechanism, entry=entry, secure=about["secure"], **held)
        except Exception:  # whatever a damaged file provokes: it is damaged
            raise _damaged(path) from None
        if known != key:
            raise InvalidArgument(
                f"Expected the settings and public inputs with which {str(self.folder)!r} was "
                "begun: what was released there answers other questions. Use another folder."
            )
        payers = (each for each in ledger.entries() if each.kind == "release")
        if not any(each.hash == entry and _is_for(each, plan) for each in payers):
            raise LedgerDamaged(
                f"Expected the ledger to hold the entry that paid for {str(path)!r}: it was cut "
                "short, or is another run's; do not trust its total."
            )
        return release


def _is_for(entry: Entry, plan: Plan) -> bool:
    return canonical(entry.plan) == canonical(plan.as_dict())


def _new(ledger: Ledger, plan: Plan, secret: Any, public: Mapping[str, Any], **how: Any) -> Release:
    """Pay for a release, and make it."""
    # A warning would tell of a record.
    with ledger.release(plan, **how) as grant, np.errstate(all="ignore"):
        return grant.release(secret, **public)


def _keep(release: Release, key: str, path: Path) -> None:
    held = {"labels": release.labels, "values": release.values}
    arrays: dict[str, Any] = {name: array for name, array in held.items() if array is not None}
    about = {"key": key, "entry": release.entry, "secure": release.secure}
    buffer = io.BytesIO()
    np.savez(buffer, about=np.array(json.dumps(about)), **arrays)
    write_atomically(path, buffer.getvalue())


def _damaged(path: Path) -> InvalidArgument:
    return InvalidArgument(
        f"Expected {str(path)!r} to be a kept release; it is damaged, or another file."
    )


def _fingerprint(inputs: ArrayLike) -> list[Any]:
    """Return what tells one array of public inputs from another."""
    array = np.ascontiguousarray(inputs)
    content = hashlib.sha256(array.tobytes()).hexdigest()
    return [array.dtype.str, list(array.shape), content]
