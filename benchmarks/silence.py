"""What silence costs: CPU-seconds of fits with and without it, by turns, the fewest of several.

    python -m benchmarks.silence            # five minutes on one core
    python -m benchmarks.silence --short    # a look: no fit of 20 s

"by thread": teachers and features that stay in this process, against no silence at all. "worker":
an estimator of another package, which the word "serial" sends to a worker process, against the same
one in this process (`Serial()`), without silence.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import FunctionTransformer

from tacit._quiet import quiet
from tacit.features import transform_rows
from tacit.teachers import Serial, predict_with_teachers

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20_000, 20))
Y = (X[:, 0] + RNG.normal(size=len(X)) > 0).astype(int)


class Foreign(RandomForestClassifier):
    """An estimator of another package than scikit-learn, as far as anybody can tell."""


@contextmanager
def aloud() -> Iterator[None]:
    """Let nobody be silent."""
    modules = [name for name in sys.modules if name.startswith("tacit.")]
    with ExitStack() as stack:
        for name in modules:
            if getattr(sys.modules[name], "quiet", None) is quiet:
                stack.enter_context(mock.patch(f"{name}.quiet", nullcontext))
        yield


def teach(teacher: Any, teachers: int, executor: Any) -> None:
    """Train so many teachers."""
    shards = np.arange(len(X)) % teachers
    predict_with_teachers(
        teacher, X, Y, shards, teachers, X[:200], n_classes=2, executor=executor, progress=False
    )


def look(rows: int, _: Any = None) -> None:
    """Compute foreign features of private rows, one by one."""
    transform_rows(FunctionTransformer(np.tanh), X[:rows], public=X[-3:])


def seconds(work: Callable[[], None]) -> float:
    """Return the processor's seconds, of worker processes too: one thing runs at a time."""
    before = os.times()
    work()
    return sum(os.times()[:4]) - sum(before[:4])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--turns", type=int, default=2)
    asked = parser.parse_args()
    forest, foreign = (partial(kind, n_estimators=20) for kind in (RandomForestClassifier, Foreign))
    cases: list[tuple[str, str, Callable[[Any], None]]] = [
        ("features of 20,000 rows", "by thread", partial(look, len(X))),
        ("20 forests", "by thread", lambda how: teach(forest(), 20, how)),
        ("20 forests", "worker", lambda how: teach(foreign(), 20, how)),
    ]
    if not asked.short:
        large = (
            partial(RandomForestClassifier, n_estimators=300),
            partial(Foreign, n_estimators=300),
        )
        cases += [
            ("100 forests of 300 trees", "by thread", lambda how: teach(large[0](), 100, how)),
            ("100 forests of 300 trees", "worker", lambda how: teach(large[1](), 100, how)),
        ]
    print(f"| fit | silence | without, s | with, s | ratio | more, s |\n{'|---' * 6}|")
    cases[1][2](Serial())  # libraries are loaded
    for name, kind, work in cases:
        turns = []
        for _ in range(asked.turns):
            with aloud():
                without = seconds(partial(work, Serial()))
            turns.append((without, seconds(partial(work, "serial"))))
        without, used = np.min(turns, axis=0)
        print(
            f"| {name} | {kind} | {without:.2f} | {used:.2f} | {used / without:.3f} "
            f"| {used - without:+.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
