"""What somebody might do to a run before handing it over, and what finds it.

Run `python -m benchmarks.tampering`. Two runs on the same records, epsilon 1 and epsilon 10^6, are
made in this process; for each line a copy of the first is tampered with and looked at by
`verify_run`; or its archive is, and `verify.py` looks at it in a folder and a process of its own,
which cannot import tacit (`python -I -S`). Each must be found, and what nobody touched must pass:
the exit code says so.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tacit import Budget, Ledger
from tacit.runs import (
    DataConfig,
    PrivacyConfig,
    RunConfig,
    package_run,
    publish_also,
    run_config,
    standalone_verify,
    verify_run,
)

Change = Callable[[Path, Path], object]
COST = re.compile(r'"cost":(0\.\d+[-e\d]*|[1-9][-e.\d]*)')


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was tried, on what, and what was found; nothing found is an empty text."""

    tried: str
    on: str
    found: str


def make_run(folder: Path, epsilon: float) -> Path:
    """Make a small run on digits, with an exported model."""
    from tacit.export import export_onnx

    config = RunConfig(
        data=DataConfig(source="digits", private=1000, public=200),
        privacy=PrivacyConfig(epsilon=epsilon, delta=1e-5),
        method="prototype",
        settings={"n_prototypes": 40, "features": "digits"},
    )
    run_config(config, folder)
    publish_also(folder, lambda path: export_onnx(folder, path))
    return folder


def copied(name: str) -> Change:
    return lambda run, careless: shutil.copy(careless / name, run / name)


def edited(name: str, **changes: Any) -> Change:
    def change(run: Path, _: Path) -> None:
        said = json.loads((run / name).read_text())
        (run / name).write_text(json.dumps(said | changes))

    return change


def removed(name: str) -> Change:
    return lambda run, _: (run / name).unlink()


def everything_but_the_ledger(run: Path, careless: Path) -> None:
    for path in careless.iterdir():
        if path.is_file() and not path.name.startswith("run.ledger"):
            shutil.copy(path, run / path.name)


def another_ledger(run: Path, careless: Path) -> None:
    for path in careless.glob("run.ledger*"):
        shutil.copy(path, run / path.name)


def new_ledger(run: Path, _: Path) -> None:
    for path in run.glob("run.ledger*"):  # what it remembers of its head, too
        path.unlink()
    Ledger(run / "run.ledger", budget=Budget(1.0, 1e-5))


def cheaper(text: str) -> str:
    """Take nine tenths off the first cost that is not 0."""
    return COST.sub(lambda found: f'"cost":{float(found[1]) / 10!r}', text, count=1)


def cheaper_entry(run: Path, _: Path) -> None:
    with sqlite3.connect(run / "run.ledger") as database:
        database.create_function("cheaper", 1, cheaper)
        database.execute("DROP TRIGGER entries_never_update")
        database.execute("UPDATE entries SET payload = cheaper(payload)")
    database.close()


def last_entries_gone(run: Path, _: Path) -> None:
    (run / "run.ledger-head").unlink(missing_ok=True)
    with sqlite3.connect(run / "run.ledger") as database:
        guards = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in guards.fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute("DELETE FROM entries WHERE sequence > 1")
    database.close()


def swapped_and_noted(run: Path, careless: Path) -> None:
    shutil.copy(careless / "student.tacit", run / "student.tacit")
    digest = standalone_verify.file_sha256(run / "student.tacit")
    Ledger(run / "run.ledger").publish(digest, purpose="publish student.tacit")


def earlier_statement(run: Path, _: Path) -> None:
    ledger = Ledger(run / "run.ledger")
    statement = ledger.statement(head=ledger.origin)  # when nothing was spent yet
    statement.write(run / "statement.json")
    digest = standalone_verify.file_sha256(run / "statement.json")
    ledger.publish(digest, purpose="publish statement.json")


RUNS: dict[str, Change] = {
    "student of the epsilon 10^6 run": copied("student.tacit"),
    "the same, noted in the ledger afterwards": swapped_and_noted,
    "everything of the epsilon 10^6 run but its ledger": everything_but_the_ledger,
    "exported model of the epsilon 10^6 run": copied("model.onnx"),
    "statement edited: epsilon 0.01": edited("statement.json", epsilon=0.01),
    "statement edited: another unit": edited("statement.json", unit="village"),
    "statement of another ledger": copied("statement.json"),
    "statement of the moment before the release": earlier_statement,
    "report of another ledger": copied("report.html"),
    "accuracy edited": edited("metrics.json", accuracy=0.999),
    "configuration of another run": copied("config.toml"),
    "report removed": removed("report.html"),
    "statement removed": removed("statement.json"),
    "ledger of another run": another_ledger,
    "a new, empty ledger": new_ledger,
    "ledger cut short": last_entries_gone,
    "cost of an entry made smaller": cheaper_entry,
}


def dropped_line(run: Path, _: Path) -> None:
    lines = (run / "ledger.jsonl").read_text().splitlines(keepends=True)
    (run / "ledger.jsonl").write_text("".join(lines[:-1]))


def cheaper_line(run: Path, _: Path) -> None:
    text = (run / "ledger.jsonl").read_text()
    (run / "ledger.jsonl").write_text(cheaper(text))


ARCHIVES: dict[str, Change] = {
    "student of the epsilon 10^6 run": copied("student.tacit"),
    "exported model of the epsilon 10^6 run": copied("model.onnx"),
    "report of another ledger": copied("report.html"),
    "statement edited: epsilon 0.99": edited("statement.json", epsilon=0.99),
    "statement of another ledger": copied("statement.json"),
    "last line of the ledger dropped": dropped_line,
    "cost in a line made smaller": cheaper_line,
    "statement removed": removed("statement.json"),
}


def found_in_run(run: Path) -> str:
    """Return what `tacit verify` says fails first."""
    failed = [f"{check.what}: {check.says}" for check in verify_run(run) if not check.holds]
    return failed[0] if failed else ""


def found_in_archive(folder: Path) -> str:
    """Return what verify.py says, in a process that cannot import tacit."""
    command = [sys.executable, "-I", "-S", "verify.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    if done.returncode == 0:
        return ""
    return (failed or [done.stderr])[0].removeprefix("FAILED").strip()


def seal(folder: Path) -> None:
    """Make the manifest anew, as somebody would who hides a change."""
    names = [path.name for path in folder.iterdir() if path.name != "manifest.json"]
    hashes = {name: standalone_verify.file_sha256(folder / name) for name in names}
    (folder / "manifest.json").write_text(json.dumps({"files": hashes}))


def attempts(place: Path) -> list[Attempt]:
    """Try everything, each on a fresh copy."""
    careful, careless = make_run(place / "careful", 1.0), make_run(place / "careless", 1e6)
    package_run(careful, place / "careful.zip")
    tried = [Attempt("nothing", "a run", found_in_run(careful))]
    for name, change in RUNS.items():
        run = shutil.copytree(careful, place / "tampered")
        change(run, careless)
        tried.append(Attempt(name, "a run", found_in_run(run)))
        shutil.rmtree(run)
    for name, change in {"nothing": None, **ARCHIVES}.items():
        folder = place / "received"
        with zipfile.ZipFile(place / "careful.zip") as archive:
            archive.extractall(folder)
        if change is not None:
            change(folder, careless)
            seal(folder)
        kind = "an archive" if change is None else "an archive, sealed again"
        tried.append(Attempt(name, kind, found_in_archive(folder)))
        shutil.rmtree(folder)
    return tried


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        tried = attempts(Path(folder))
    table = Table("tried", "on", "found")
    for each in tried:
        table.add_row(each.tried, each.on, each.found or "nothing: it holds together")
    Console(width=150).print(table)
    return 0 if all(bool(each.found) == (each.tried != "nothing") for each in tried) else 1


if __name__ == "__main__":
    sys.exit(main())
