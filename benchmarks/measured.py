"""Measure a function in a process of its own: wall and CPU seconds, and the peak of its memory.

`python -m benchmarks.measured MODULE FUNCTION JSON` calls FUNCTION(**JSON) and prints what it took;
the function returns a dictionary of anything else worth knowing. Memory is the process's own peak,
interpreter and inputs included.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

MIB = 2**20


@dataclass
class Stopwatch:
    """Seconds of named parts, wall and CPU, this process alone."""

    wall: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Note what the block takes."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall[name] = round(time.perf_counter() - wall, 3)
        self.cpu[name] = round(time.process_time() - cpu, 3)


def best_of(work: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """CPU-seconds, best of a few repeats, for the machine may be busy; and the result."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    return min(times), result


def peak_mib() -> float:
    """Highest resident memory so far; ru_maxrss alone would count the parent's before exec."""
    try:
        with open("/proc/self/status") as file:
            lines = dict(line.split(":", 1) for line in file)
        return round(int(lines["VmHWM"].split()[0]) / 1024, 1)
    except (OSError, KeyError):
        scale = 1 if sys.platform == "darwin" else 1024
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / MIB, 1)


def reset_peak() -> float:
    """Forget the peak so far, where the system allows it; return the memory now in use."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass
    return peak_mib()


def in_a_process(
    module: str, function: str, *, one_thread: bool = False, **arguments: Any
) -> dict[str, Any]:
    """Call a function in a fresh process and return what it found, with `peak_mib`."""
    command = [sys.executable, "-m", "benchmarks.measured", module, function, json.dumps(arguments)]
    threads = {"OMP_NUM_THREADS": "1"} if one_thread else {}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ | threads)
    return dict(json.loads(done.stdout))


def main() -> None:
    module, function, arguments = sys.argv[1:]
    found = getattr(importlib.import_module(module), function)(**json.loads(arguments))
    print(json.dumps({**found, "peak_mib": peak_mib()}))


if __name__ == "__main__":
    main()
