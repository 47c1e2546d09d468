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
    folder : path
        Where they are kept: a file each, public as they are.
    again : bool
        Pay once more, within the budget, for a release that was paid for and lost.
    """

    def __init__(self, folder: PathLike, *, again: bool = False) -> None:
        self.folder = Path(folder)
        self.again = again
        self._count = 0

    def start(self) -> None:
        """Begin with the first release, as each start of a run does."""
        self._count = 0

    def stored(self) -> list[Path]:
        """Return the files that hold a release, in order.

        Returns
        -------
        list of path
            None of them is half written.
        """
        numbers = sorted(int(path.stem) for path in self.folder.glob("*.npz"))
        return [self._file(number) for number in numbers]

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
            The public inputs that were asked about: those of a kept release must be the same.
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
        key = _key(plan, purpose, inputs)
        if self._file(self._count).exists():
            return self._kept(ledger, plan, key)
        if not self.again:
            self._refuse_lost(ledger, plan, purpose, key)
        secret = answers()  # before anything is paid: what fails here costs nothing
        self._mark(ledger, key)
        with ledger.release(plan, purpose=purpose, noise=noise, faults=faults) as grant:
            release = grant.release(secret, **public)
        self._keep(release, key)
        return release

    def _file(self, number: int) -> Path:
        return self.folder / f"{number}.npz"

    def _marker(self) -> Path:
        return self.folder / f"{self._count}.begun"

    def _mark(self, ledger: Ledger, key: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        marker = {"head": ledger.head, "key": key}
        write_atomically(self._marker(), json.dumps(marker).encode("utf-8"))

    def _refuse_lost(self, ledger: Ledger, plan: Plan, purpose: str, key: str) -> None:
        """Refuse where the plan was charged after its marker, and nothing was kept."""
        if not self._marker().exists():
            return
        try:
            marker = json.loads(self._marker().read_text(encoding="utf-8"))
            head, known = marker["head"], marker["key"]
        except (KeyError, OSError, TypeError, ValueError):
            raise self._damaged(self._marker()) from None
        if known != key:
            raise self._another()
        ledger.verify(head)
        entries = ledger.entries()
        hashes = [ledger.origin, *(entry.hash for entry in entries)]
        later = entries[hashes.index(head) :]
        if lost := [entry for entry in later if _is_of(entry, plan, purpose)]:
            raise ReleaseLost(
                f"This run paid at {lost[-1].time[:16].replace('T', ' ')} UTC to {purpose!r} and "
                "was interrupted before the release was stored: it stays spent. Run the same "
                "command with --again to pay once more, if the budget allows it."
            )

    def _kept(self, ledger: Ledger, plan: Plan, key: str) -> Release:
        path = self._file(self._count)
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
                about = json.loads(str(arrays["about"]))
                known, entry = about["key"], about["entry"]
                held = {name: arrays[name] for name in ("labels", "values") if name in arrays}
                release = Release(plan.mechanism, entry=entry, secure=about["secure"], **held)
        except Exception:  # whatever a damaged file provokes: it is damaged
            raise self._damaged(path) from None
        if known != key:
            raise self._another()
        if entry not in {each.hash for each in ledger.entries()}:
            raise LedgerDamaged(
                f"Expected the ledger to hold the entry that paid for {str(path)!r}: it was cut "
                "short, or is another run's; do not trust its total."
            )
        return release

    def _keep(self, release: Release, key: str) -> None:
        held = {"labels": release.labels, "values": release.values}
        arrays: dict[str, Any] = {name: a for name, a in held.items() if a is not None}
        about = {"key": key, "entry": release.entry, "secure": release.secure}
        buffer = io.BytesIO()
        np.savez(buffer, about=np.array(json.dumps(about)), **arrays)
        write_atomically(self._file(self._count), buffer.getvalue())
        self._marker().unlink(missing_ok=True)

    def _another(self) -> InvalidArgument:
        return InvalidArgument(
            f"Expected the settings and public inputs with which {str(self.folder)!r} was begun: "
            "what was released there answers other questions. Use another folder."
        )

    def _damaged(self, path: Path) -> InvalidArgument:
        return InvalidArgument(
            f"Expected {str(path)!r} to be a kept release; it is damaged, or another file."
        )


def _key(plan: Plan, purpose: str, inputs: Iterable[ArrayLike]) -> str:
    """Return what tells one public question from another."""
    asked = []
    for each in inputs:
        array = np.ascontiguousarray(each)
        content = hashlib.sha256(array.tobytes()).hexdigest()
        asked.append([array.dtype.str, list(array.shape), content])
    question: Mapping[str, Any] = {"plan": plan.as_dict(), "purpose": purpose, "inputs": asked}
    return digest(canonical(question))


def _is_of(entry: Entry, plan: Plan, purpose: str) -> bool:
    same = canonical(entry.plan) == canonical(plan.as_dict())
    return entry.kind == "release" and same and entry.purpose == purpose
