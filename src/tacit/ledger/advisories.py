"""Security advisories for older ledgers: flaws that were found after they were written."""

from __future__ import annotations

import re

from tacit.ledger.chain import Entry
from tacit.ledger.ledger import Ledger

_FIXED = (0, 3)
_READ_ANEW = 2
"""From these rules on (`record_rules` of a header) each cell is read by itself."""
_CONCERNED = (
    "a data frame, an npz archive or, at a site of a study, Parquet or arrays (X=, y=, groups=)"
)


def advisory(ledger: Ledger, source: str = "") -> str:
    """Return advisory 1 of SECURITY.md where it may concern a ledger, otherwise "".

    Before 0.3 one record could change how others were read, which no price covered. `source` is the
    source of all records in run.toml, where that is known: entries do not name it.
    """
    kind = source.partition(":")[0]
    if ledger.record_rules >= _READ_ANEW or (source and kind != "npz"):
        return ""
    old = ledger.collect(lambda entries: sum(map(_is_old, entries)))
    if not old:
        return ""
    whence = f"The records came from {source}" if source else f"If records came from {_CONCERNED}"
    return (
        f"{old} paid {'entry was' if old == 1 else 'entries were'} made before tacit 0.3. {whence}"
        f"{':' if source else ','} one record could change how others were read, and the real "
        "epsilon may be far larger than stated. Do not rely on it: tell whoever signed, publish "
        "nothing more of it, and begin anew with 0.3; what was stated here stays spent besides. "
        "See advisory 1 in SECURITY.md."
    )


def _is_old(entry: Entry) -> bool:
    version = re.match(r"(\d+)\.(\d+)", entry.library)
    return entry.is_paid and (version is None or tuple(map(int, version.groups())) < _FIXED)
