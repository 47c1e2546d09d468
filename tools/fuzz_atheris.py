"""`make fuzz-atheris`: readers of files under Atheris, which mutates towards code not yet reached.

The same readers as in `tests/fuzz`: votes, tables, archives, IDX, configurations, ledgers, students
and NIfTI. The first byte of an input chooses the reader, the rest is the file. A reader may succeed
or raise a `TacitError`; anything else, a warning too, stops the run and leaves the input in a
`crash-` file. Arguments are those of libFuzzer: `-max_total_time=300`, or the name of such a file.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris
import numpy as np

with atheris.instrument_imports(include=["tacit"]):
    from tacit import Budget, GNMax, Ledger, Plan, Statement
    from tacit.datasets import load_csv, load_npz, read_idx, read_rows, read_votes
    from tacit.errors import TacitError
    from tacit.masks import parse_nifti, save_mask
    from tacit.runs.config import RunConfig
    from tacit.students import LabelSpreadingStudent, load_student, saved_extra

LONGEST = 1 << 15
CONFIG = b"""method = "pate"
[data]
source = "digits"
private = 100
[privacy]
epsilon = 1.0
delta = 1e-5
[pate]
n_teachers = 10
"""
TABLE = b"age,work,rich,who\n30,farm,no,a\n?,sea,yes,b\n44,office,no,a\n"
ROLES: dict[str, Any] = {"numeric": {"age": [20, 40]}, "categorical": {"work": ["farm", "office"]}}
IDX = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2]) + bytes(range(8))


def read_ledger(path: Path) -> None:
    """Open a ledger and ask it for everything it may say."""
    for log in ("-wal", "-journal", "-shm"):
        Path(f"{path}{log}").unlink(missing_ok=True)
    ledger = Ledger(path)
    ledger.verify()
    ledger.spent()
    str(ledger.statement())


def read_table(path: Path) -> None:
    """Read a table with declared roles."""
    load_csv(path, target="rich", classes=["no", "yes"], groups="who", **ROLES)


READERS: list[tuple[str, Callable[[Path], Any]]] = [
    ("votes.npy", lambda path: read_votes(path, format="histogram")),
    ("votes.npz", read_votes),
    ("votes.csv", lambda path: read_votes(path, format="predictions", n_classes=3)),
    ("rows.npy", lambda path: read_rows(path, n_rows=5)),
    ("table.csv", read_table),
    ("data.npz", lambda path: load_npz(path, classes=3, range=[0, 255])),
    ("images-idx3-ubyte", read_idx),
    ("images-idx3-ubyte.gz", read_idx),
    ("run.toml", RunConfig.read),
    ("statement.json", lambda path: Statement.from_json(path.read_text("utf-8", "replace"))),
    ("run.ledger", read_ledger),
    ("student.tacit", lambda path: (load_student(path), saved_extra(path))),
    ("scan.nii", lambda path: parse_nifti(path.read_bytes(), path.name, most_voxels=10_000)),
    ("scan.nii.gz", lambda path: parse_nifti(path.read_bytes(), path.name, most_voxels=10_000)),
]


def read_one(folder: Path, data: bytes) -> None:
    """Give a file to the reader that its first byte names."""
    if not data:
        return
    name, read = READERS[data[0] % len(READERS)]
    path = folder / name
    path.write_bytes(data[1:])
    with contextlib.suppress(TacitError):
        read(path)


def seeds(folder: Path) -> dict[str, bytes]:
    """Make one good file for each reader."""
    votes = np.array([[3, 1, 0], [0, 2, 2]])
    ledger = Ledger(folder / "seed.ledger", budget=Budget(2.0, 1e-5))
    with ledger.release(Plan(GNMax(40), 2), purpose="x") as grant:
        grant.release(votes)
    student = LabelSpreadingStudent().fit([[0.0], [1.0]], [0, 1], [[1, 0], [0, 1]])
    student.save(folder / "seed.tacit", extra={"classes": [0, 1]})
    save_mask(folder / "seed.nii", np.arange(24).reshape(2, 3, 4) % 3)
    volume = (folder / "seed.nii").read_bytes()
    return {
        **dict.fromkeys(("votes.npy", "rows.npy"), _saved(np.save, votes)),
        "votes.npz": _saved(np.savez_compressed, votes=votes),
        "votes.csv": b"0,1,2\n0,0,2\n",
        "table.csv": TABLE,
        "data.npz": _saved(np.savez_compressed, x=np.eye(3), y=np.arange(3)),
        "images-idx3-ubyte": IDX,
        "images-idx3-ubyte.gz": gzip.compress(IDX),
        "run.toml": CONFIG,
        "statement.json": ledger.statement().to_json().encode(),
        "run.ledger": (folder / "seed.ledger").read_bytes(),
        "student.tacit": (folder / "seed.tacit").read_bytes(),
        "scan.nii": volume,
        "scan.nii.gz": gzip.compress(volume),
    }


def _saved(save: Callable[..., None], *arrays: Any, **named: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *arrays, **named)
    return buffer.getvalue()


def main() -> None:
    """Write good files as a corpus, and let Atheris go on from there."""
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory(prefix="tacit-fuzz-") as place:
        folder, corpus = Path(place), Path(place) / "corpus"
        corpus.mkdir()
        good = seeds(folder)
        for number, (name, _) in enumerate(READERS):
            (corpus / name).write_bytes(bytes([number]) + good[name])
        replayed = any(Path(argument).is_file() for argument in sys.argv[1:])
        arguments = [*sys.argv, f"-max_len={LONGEST}"] + ([] if replayed else [str(corpus)])
        atheris.Setup(arguments, lambda data: read_one(folder, data))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
