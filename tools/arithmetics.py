"""Run the tests that depend on arithmetic as other processors would compute them.

    python -m tools.arithmetics          # one line for each arithmetic; fails if one does

Libraries of linear algebra choose their kernels, and with them the order of sums and the last bits,
by the processor; environment variables make them choose others. Each arithmetic is a process of
its own, two at a time, that runs the tests marked `arithmetic`. Threads, kernels and instructions
meet in few processes, each value at least once; what this processor cannot do is said and skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from numpy._core import _multiarray_umath

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
MARK = "pytest.mark.arithmetic"
AT_A_TIME = 2
FEATURES: dict[str, bool] = _multiarray_umath.__cpu_features__
NEEDS = {
    "Sandybridge": ("AVX",),
    "Haswell": ("AVX2", "FMA3"),
    "Zen": ("AVX2", "FMA3"),
    "SkylakeX": ("AVX512F",),
    "AVX": ("AVX",),
    "AVX2": ("AVX2", "FMA3"),
    "avx2": ("AVX2", "FMA3"),
    "default": (),
    "COMPATIBLE": (),
}
"""What a processor must have for each kernel, in NumPy's words."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Kernels of OpenBLAS (NumPy, SciPy) and MKL (torch), torch's own, and threads.

    MKL's AVX, which nobody need have, rounds some places of a batch in a way of their own.
    """

    openblas: str
    mkl: str
    aten: str
    threads: int

    def missing(self) -> list[str]:
        """Return what the processor would have to have, and has not."""
        needs = {one for name in (self.openblas, self.mkl, self.aten) for one in NEEDS[name]}
        return sorted(one for one in needs if not FEATURES.get(one))

    def environment(self) -> dict[str, str]:
        """Return what a process is told; idle threads sleep, for others need the core."""
        return os.environ | {
            "OPENBLAS_CORETYPE": self.openblas,
            "MKL_CBWR": self.mkl,
            "ATEN_CPU_CAPABILITY": self.aten,
            "OMP_NUM_THREADS": str(self.threads),
            "OMP_WAIT_POLICY": "PASSIVE",
        }


ARITHMETICS = (
    Arithmetic("Sandybridge", "COMPATIBLE", "default", 1),
    Arithmetic("Haswell", "AVX2", "avx2", 2),
    Arithmetic("Zen", "AVX", "avx2", 1),
    Arithmetic("SkylakeX", "AVX2", "default", 1),
    Arithmetic("Zen", "COMPATIBLE", "default", 2),
    Arithmetic("Sandybridge", "AVX", "avx2", 2),
)


def main() -> int:
    """Run them all, print the table, then what failing processes wrote."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        runs = [pool.submit(_run, one) for one in ARITHMETICS]
        print(f"{'OpenBLAS':12} {'MKL':11} {'ATen':8} {'threads':>7}  {'time':>6}  result")
        failures = [_print(one, *run.result()) for one, run in zip(ARITHMETICS, runs, strict=True)]
    for text in filter(None, failures):
        print("\n" + text)
    return int(any(failures))


def marked_files() -> list[str]:
    """Return the test files that hold such tests: collecting the others would take longest."""
    return [
        str(path) for path in sorted(TESTS.rglob("test_*.py")) if MARK in path.read_text("utf-8")
    ]


def _run(one: Arithmetic) -> tuple[bool, float, str]:
    """Return whether an arithmetic did well, how long it took, and what it wrote."""
    if missing := one.missing():
        return True, 0.0, f"skipped: this processor has no {', '.join(missing)}"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "arithmetic", "-p", "no:cacheprovider"]
    begun = time.monotonic()
    done = subprocess.run(
        [*command, *marked_files()],
        cwd=ROOT,
        env=one.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0, time.monotonic() - begun, done.stdout + done.stderr


def _print(one: Arithmetic, well: bool, seconds: float, written: str) -> str:
    """Print a line of the table; return what to show below it."""
    names = f"{one.openblas:12} {one.mkl:11} {one.aten:8} {one.threads:>7}"
    print(f"{names}  {seconds:>5.0f}s  {written.strip().splitlines()[-1]}", flush=True)
    return "" if well else written


if __name__ == "__main__":
    sys.exit(main())
