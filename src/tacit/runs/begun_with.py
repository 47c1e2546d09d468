"""A keyed digest of a run's files, so that a resumed run has the same data.

What was released does not identify its data, and a path may lead to another file when a killed run
is resumed. So a random key, and under it a digest of the name, size and content of each file, are
in the run's folder until it ends. With both, guesses of a whole file can be tested: they are secret
as the records are, mode 0600, never published, packaged or noted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from tacit._files import write_atomically
from tacit._warn import warn
from tacit.datasets import ships
from tacit.errors import BudgetExceeded, InvalidArgument
from tacit.runs.config import DataConfig

NAME = "begun-with.secret"
_UNKNOWN = (
    "What this run began with is not noted: it was begun by tacit 0.2, or was all but finished. "
    "Make sure that its files are the same."
)


def files_of(where: DataConfig) -> dict[str, str]:
    """Return the paths of a configuration's files, by key."""
    words = {key: getattr(where, key) for key in ("source", "public_source", "held_out_source")}
    words |= {key: str(where.options.get(key, "")) for key in ("masks_source", "patients_file")}
    return {key: place_of(word) for key, word in words.items()}


def place_of(word: str) -> str:
    """Return the path of a data set's word; nothing for a set that ships with a package.

    >>> place_of("csv:patients.csv"), place_of("scans"), place_of("digits")
    ('patients.csv', 'scans', '')
    """
    return word.partition(":")[2] or ("" if ships(word) else word)


@contextlib.contextmanager
def begun_with(folder: Path, places: Mapping[str, str], *kept: str) -> Iterator[None]:
    """Note digests of the files that a run begins with; refuse other files if it is resumed.

    `kept` are the files in the folder that make it a run to resume.
    """
    goes_on = any((folder / name).exists() for name in kept)
    if goes_on and (folder / NAME).exists():
        _refuse_others(folder, places)
    else:
        if goes_on:
            warn(_UNKNOWN)
        key = secrets.token_bytes(32)
        noted = {"key": key.hex(), "digests": _digests(key, places, folder)}
        write_atomically(folder / NAME, json.dumps(noted).encode("ascii"), mode=0o600)
    try:
        yield
    except (InvalidArgument, BudgetExceeded):
        if not any((folder / name).exists() for name in kept):
            forget(folder)
        raise


def forget(folder: Path) -> None:
    """Remove the digests, before the statement is written: no finished run has them."""
    (folder / NAME).unlink(missing_ok=True)


def _refuse_others(folder: Path, places: Mapping[str, str]) -> None:
    try:
        noted = json.loads((folder / NAME).read_text(encoding="ascii"))
        key, known = bytes.fromhex(noted["key"]), dict(noted["digests"])
    except (KeyError, TypeError, ValueError):
        raise InvalidArgument(
            f"Expected {str(folder / NAME)!r} to say what the run began with; it is damaged. "
            "Restore it from a copy, or begin a new run in another folder."
        ) from None
    found = _digests(key, places, folder)
    others = [name for name in {**known, **found} if found.get(name) != known.get(name)]
    if others:
        raise InvalidArgument(
            f"Expected {' and '.join(others)} to hold what {str(folder)!r} was begun with: the "
            "content is another now, perhaps of other people. Put the first one back, or begin a "
            "new run in another folder. Nothing more was spent."
        )


def _digests(key: bytes, places: Mapping[str, str], own: Path) -> dict[str, str]:
    return {name: _digest(key, Path(place), own) for name, place in places.items() if place}


def _digest(key: bytes, place: Path, own: Path) -> str:
    """Return the digest of a file, or of all files in a folder: names, sizes and contents."""
    keyed = partial(hashlib.blake2b, key=key, digest_size=32)
    whole = keyed()
    for name, path in sorted(_files(place, own.resolve())):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, keyed)  # in pieces, however large it is
            size = file.tell()
        for part in (keyed(os.fsencode(name)).digest(), size.to_bytes(8, "big"), content.digest()):
            whole.update(part)
    return whole.hexdigest()


def _files(place: Path, own: Path) -> Iterator[tuple[str, Path]]:
    """Yield a path's files with their relative names, without hidden ones and the run's own."""
    if place.is_file():
        yield "", place
    seen = {own}
    for folder, inner, names in os.walk(place, followlinks=True):
        here = Path(folder)
        if here.resolve() in seen:
            inner.clear()
            continue
        seen.add(here.resolve())
        inner[:] = [each for each in inner if not each.startswith(".")]
        paths = (here / name for name in names if not name.startswith("."))
        yield from ((path.relative_to(place).as_posix(), path) for path in paths if path.is_file())
