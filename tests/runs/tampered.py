"""What somebody might do to a run, or to its archive, before handing it over: for the tests."""

from __future__ import annotations

import copy
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tacit import Ledger
from tacit.ledger import digest
from tacit.runs.ledgers import noted_as
from tacit.runs.sealing import SHOW_HEAD, file_sha256, files_of, seals_of
from tacit.runs.standalone_verify import MANIFEST

COLUMNS = ("sequence", "previous", "time", "purpose", "cost", "confidence_delta", "kind")


def changed(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value / 2 if isinstance(value, float) and value else value + 1
    if isinstance(value, str):
        return f"{value[:-1]}{'1' if value.endswith('0') else '0'}"
    if isinstance(value, list):
        return value[:-1] if value else [1]
    return {**value, "more": 1}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where each field is; of a list, its first item stands for the others."""
    items: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))[:1]
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def edits(plain: Any) -> Iterator[tuple[str, Any]]:
    """Yield copies of JSON in which one field is another, missing or new, with its name."""
    for path in places(plain):
        for how in ("changed", "removed", "added"):
            made = copy.deepcopy(plain)
            holder = made
            for key in path[:-1]:
                holder = holder[key]
            if how == "changed":
                holder[path[-1]] = changed(holder[path[-1]])
            elif how == "removed":
                del holder[path[-1]]
            elif isinstance(holder, dict):
                holder[f"{path[-1]}_more"] = 1
            else:
                holder.append(1)
            yield f"{'.'.join(map(str, path))} {how}", made


def lines_of(ledger: Path) -> list[str]:
    return Ledger(ledger).extract().splitlines()


def consistent(
    lines: Sequence[str], place: int, change: Callable[[dict[str, Any]], object]
) -> list[str]:
    """Change a line, and make all hashes after it anew, wherever an older one was named."""
    made, renamed = list(lines[:place]), {}
    for number, text in enumerate(lines[place:], start=place):
        line = json.loads(text)
        if number == place:
            change(line)
        new = json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        for old, its in renamed.items():
            new = new.replace(old, its)
        renamed[digest(text)] = digest(new)
        made.append(new)
    return made


def put_ledger(path: Path, lines: Sequence[str]) -> None:
    """Write these lines into a ledger's database, guards and all, and forget what it remembers."""
    path.with_name(f"{path.name}-head").unlink(missing_ok=True)
    database = sqlite3.connect(path)
    guards = database.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    ).fetchall()
    for name, _ in guards:
        database.execute(f"DROP TRIGGER {name}")
    database.execute("DELETE FROM entries")
    header, *entries = lines
    terms = json.loads(header)
    database.execute(
        "UPDATE header SET payload = ?, hash = ?, epsilon = ?, delta = ?",
        (header, digest(header), terms["epsilon"], terms["delta"]),
    )
    for text in entries:
        line = json.loads(text)
        row = {name: line[name] for name in COLUMNS} | {"payload": text, "hash": digest(text)}
        marks = ", ".join("?" * len(row))
        database.execute(
            f"INSERT INTO entries ({', '.join(row)}) VALUES ({marks})", list(row.values())
        )
    for _, sql in guards:
        database.execute(sql)
    database.commit()
    database.close()


def reseal(run: Path) -> str:
    """Seal a run with its files as they are now, as whoever owns the ledger can."""
    ledger = Ledger(run / "run.ledger")
    said = json.loads((run / "statement.json").read_text(encoding="utf-8"))
    said["entries"] = len(ledger) + 1
    (run / "statement.json").write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    old = seals_of(ledger.entries(), noted_as(run))[-1].hash
    files = {name: file_sha256(run / name, old) for name in files_of(run)}
    seal = ledger.seal(files, run=noted_as(run), after=ledger.head)
    assert seal is not None
    show(run, old, seal.hash)
    return seal.hash


def replace_seal(run: Path) -> str:
    """Write the last line anew, with the files as they are now, and leave no trace of the old."""
    lines = lines_of(run / "run.ledger")
    old = digest(lines[-1])
    files = {name: file_sha256(run / name, old) for name in files_of(run)}
    made = consistent(lines, len(lines) - 1, lambda line: line["about"].update(files=files))
    put_ledger(run / "run.ledger", made)
    show(run, old, digest(made[-1]))
    return digest(made[-1])


def show(folder: Path, old: str, new: str) -> None:
    """Show another head."""
    for name in SHOW_HEAD:
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_text(text.replace(old, new), encoding="utf-8")


def new_manifest(folder: Path, **more: Any) -> None:
    """Make the manifest of an archive anew, as somebody would who hides a change."""
    manifest = json.loads((folder / MANIFEST).read_text())
    ignored = {MANIFEST, f"{MANIFEST}.sig", "__pycache__"}
    names = {path.name for path in folder.iterdir()} - ignored
    manifest["files"] = {name: file_sha256(folder / name) for name in sorted(names)}
    (folder / MANIFEST).write_text(json.dumps({**manifest, **more}, indent=2))
