"""`make bench`: one table of ratios, next to the last recorded run.

    python -m benchmarks [--only privacy,noise] [--json] [--record]

Writes `benchmarks/results/last.json`, which is not kept, and compares with
`benchmarks/results/recorded.json`, which is; `--record` replaces that. A ratio that fell below
three quarters of the recorded one is marked, and the exit code is then 1: ratios of one run are
steadier than seconds, but not perfectly so, and a busy machine is worth a second try.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.ratios import PARTS, Ratio
from tacit import __version__

RESULTS = Path(__file__).parent / "results"
RECORDED, LAST = RESULTS / "recorded.json", RESULTS / "last.json"
WORSE = 0.75


def measure(parts: list[str]) -> list[Ratio]:
    with threadpool_limits(1):  # CPU-seconds of one thread: waiting threads would be counted too
        return [one for part in parts for one in PARTS[part]()]


def recorded() -> dict[str, float]:
    """Return the recorded ratios by key; none before the first record."""
    if not RECORDED.exists():
        return {}
    return dict(json.loads(RECORDED.read_text(encoding="utf-8"))["ratios"])


def as_record(found: list[Ratio], before: dict[str, float]) -> dict[str, Any]:
    """Return what is written: new ratios, and the recorded ones of parts that were left out."""
    ratios = {**before, **{one.key: round(one.ratio, 3) for one in found}}
    return {"version": __version__, "ratios": ratios}


def fell(one: Ratio, before: dict[str, float]) -> bool:
    return one.key in before and one.ratio < WORSE * before[one.key]


def table(found: list[Ratio], before: dict[str, float]) -> Table:
    result = Table(title="How many times faster than the other way, side by side in one run")
    for heading in ("part", "what", "against"):
        result.add_column(heading)
    for heading in ("ratio", "recorded", "change"):
        result.add_column(heading, justify="right")
    for one in found:
        old = before.get(one.key)
        change = "new" if old is None else f"{one.ratio / old - 1:+.0%}"
        mark = " [red]fell[/]" if fell(one, before) else ""
        was = "" if old is None else f"{old:,.2f}"
        result.add_row(one.part, one.name, one.against, f"{one.ratio:,.2f}", was, f"{change}{mark}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    parser.add_argument("--record", action="store_true", help="keep this run as the recorded one")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := sorted(set(parts) - set(PARTS)):
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(PARTS)}")
    before, found = recorded(), measure(parts)
    text = json.dumps(as_record(found, before), indent=2) + "\n"
    RESULTS.mkdir(exist_ok=True)
    for path in (LAST, RECORDED) if options.record else (LAST,):
        path.write_text(text, encoding="utf-8")
    if options.json:
        print(json.dumps([{**asdict(one), "recorded": before.get(one.key)} for one in found]))
    else:
        Console().print(table(found, before))
    sys.exit(any(fell(one, before) for one in found) and not options.record)


if __name__ == "__main__":
    main()
