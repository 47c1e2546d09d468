"""A number and a name to plant in private rows, and the search for them in all that is left."""

from __future__ import annotations

import pickle
import pprint
from pathlib import Path
from typing import Any

import numpy as np

CANARY = 77123.40625  # exact in binary, so its bytes are its bytes wherever it stands
MARKS = (
    np.float64(CANARY).tobytes(),
    np.float32(CANARY).tobytes(),
    b"77123.4",  # with its point: no hash and no time holds it by chance
    b"c4n4ry",
)


def canary_people(rows: int) -> list[str]:
    """A person for every row, each with a telling name."""
    return [f"c4n4ry-{row}" for row in range(rows)]


def traces(*contents: bytes | str) -> list[bytes]:
    """The marks that stand in any of the contents."""
    data = b"\n".join(part.encode() if isinstance(part, str) else part for part in contents)
    return [mark for mark in MARKS if mark in data]


def traces_in_words(*texts: str) -> list[bytes]:
    """The marks, and the canary's first digits alone: messages hold no hashes."""
    return traces(*texts, *("c4n4ry" for text in texts if "77123" in text))


def left_of(model: Any, folder: Path) -> list[bytes | str]:
    """Save and report a model that keeps its ledger in the folder; return all that can be read."""
    model.save(folder / "student.tacit")
    page = model.report(folder / "report.html")
    files = [path.read_bytes() for path in sorted(folder.iterdir())]
    assert len(files) >= 3
    said = [page, repr(model), model._repr_html_(), str(model.statement_)]
    return [pickle.dumps(model), pprint.pformat(vars(model)), *said, *files]
