"""Atomic files: every public file of tacit is whole or absent.

Data goes to a temporary file beside the target, is forced to disk, and only then gets its name, so
that a crash or a full disk never leaves half a file under a trusted name.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tacit.errors import InvalidArgument

if sys.platform != "win32":
    import fcntl

PathLike = str | os.PathLike[str]


def write_atomically(path: PathLike, data: bytes | Iterable[bytes], mode: int = 0o644) -> None:
    r"""Replace the file at `path` by `data`, or its parts, durably and in one step.

    `mode` is the permission of the new file, less the process's umask: 0o600 for a secret.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "labels.csv"), b"index,label\n")
    ...     Path(folder, "labels.csv").read_text(), len(os.listdir(folder))
    ('index,label\n', 1)
    """
    target = Path(os.path.realpath(path))
    parts = [data] if isinstance(data, bytes) else data
    if target.exists() and not (target.is_file() or target.is_dir()):
        with target.open("wb") as device:  # root would put a file in place of /dev/null
            device.writelines(parts)
        return
    with temporary_beside(target) as temporary:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(temporary, flags, mode), "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    sync_directory(target.parent)


def _hidden(target: Path) -> str:
    return f".{target.name[:64]}"


@contextlib.contextmanager
def temporary_beside(target: Path) -> Iterator[Path]:
    """Lend an unused hidden name beside the target; remove it and SQLite's journals later."""
    temporary = target.with_name(f"{_hidden(target)}.{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                os.unlink(f"{temporary}{suffix}")


def remove_temporaries_of(target: Path) -> None:
    """Remove temporary names of the file at `target`, left by a killed process or in use.

    A process that is just naming the file does not need the temporary name any more.
    """
    for other in target.parent.glob(f"{glob.escape(_hidden(target))}.*.tmp"):
        with contextlib.suppress(OSError):
            if other.samefile(target):
                other.unlink()


def name_without_overwriting(temporary: Path, target: Path) -> bool:
    """Give a finished file its name by a hard link; False, with no change, if it is taken."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError:
        if not _rename_if_free(temporary, target):
            return False
    sync_directory(target.parent)
    return True


def _rename_if_free(temporary: Path, target: Path) -> bool:
    """Do the same without hard links, one process at a time."""
    with locked(target.parent):
        if os.path.lexists(target):
            return False
        os.rename(temporary, target)
        return True


@contextlib.contextmanager
def locked(path: Path, flags: int = os.O_RDONLY) -> Iterator[None]:
    """Lock this file or directory, between threads and processes."""
    if sys.platform == "win32":  # pragma: no cover - os.rename refuses to overwrite there
        yield
        return
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def sync(path: Path, flags: int = os.O_RDONLY) -> None:
    """Force a file, or the names in a directory, to disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Force a new name to disk, on systems that can."""
    with contextlib.suppress(OSError):
        sync(directory)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder until the block ends; refuse if it is locked."""
    with held_alone(folder) as is_alone:
        if not is_alone:
            raise InvalidArgument(
                f"Expected nobody else at work in {str(folder)!r}: another process is there."
            )
        yield


@contextlib.contextmanager
def held_alone(directory: Path) -> Iterator[bool]:
    """Yield whether the directory could be locked, until the block ends."""
    if sys.platform == "win32":  # pragma: no cover - no locks of directories there
        yield True
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        yield _took(descriptor)
    finally:
        os.close(descriptor)


def _took(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def toml_text(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):  # as JSON has it, except that TOML wants DEL escaped, too
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        inside = ", ".join(f"{toml_text(key)} = {toml_text(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_text, value)) + "]"
    return repr(value)
