"""One query of 240 x 240 x 155 voxels from 50 teachers, naively and by blocks, under 4 GiB.

Run `python -m benchmarks.segmentation`; `--json` for all digits. The schemes, the papers' figures
and the students are items of `python -m papers masks`.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.measured import in_a_process
from benchmarks.segmentation_data import shown

LARGE = {"teachers": 50, "public": 8, "n_components": 32}


def large() -> list[dict[str, Any]]:
    rows = []
    for kind in ("naive", "block"):
        found = in_a_process("benchmarks.segmentation_large", "volume", kind=kind, **LARGE)
        seconds = {f"{name} (s)": value for name, value in found.pop("wall").items()}
        cpu = sum(found.pop("cpu").values())
        rows.append({"codec": kind, **found, **seconds, "CPU (s)": cpu})
    return rows


def as_text(name: str, value: Any) -> str:
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if name == "sigma":
        return f"{value:.3g}"
    return f"{value:,.1f}" if "(s)" in name or "mib" in name else f"{value:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    options = parser.parse_args()
    with threadpool_limits(1):
        found = large()
    if options.json:
        print(json.dumps(found, indent=2))
        return
    Console(width=150).print(shown("240 x 240 x 155 voxels, one query", found, as_text))


if __name__ == "__main__":
    main()
