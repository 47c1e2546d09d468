"""CPU-seconds that planning takes, cold, in the corners of what can be planned.

    python -m benchmarks.planning [--draws 300] [--seed 0] [--slowest 20] [--only steps,median]

A corner is a kind of release with a budget, a number of queries or steps, a k, a sampling rate,
votes of a unit and a ledger (a list of its own, or one that exists and counts at its own Renyi
order), drawn from the ends and the middle of what each may be. Each is planned in a process of its
own that has imported everything and computed nothing, as a user's first plan is. What is refused is
counted, too: a refusal must be quick; what takes ten seconds is given up. The exit code is 1 if a
corner takes more than one second.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from rich.console import Console
from rich.table import Table

from tacit import Budget
from tacit.errors import TacitError
from tacit.ledger import best_order
from tacit.mechanisms import (
    GNMax,
    NoisyScreening,
    NoisySteps,
    NoisySum,
    Plan,
    SampledLabels,
    SampledMean,
    SampledMedian,
    SampledVotes,
)
from tacit.methods import calibrate, method_named

GOAL, GIVEN_UP = 1.0, 10
DOMAIN: dict[str, tuple[Any, ...]] = {
    "epsilon": (0.01, 0.1, 1.0, 8.0, 100.0),
    "delta": (1e-2, 1e-5, 1e-8, 1e-12),
    "queries": (1, 10, 300, 10_000, 1_000_000),
    "k": (1, 20, 300, 10_000, 1_000_000),
    "rate": (1.0, 0.99, 0.5, 0.1, 0.01, 1e-4, 1e-6),
    "votes": (1, 1, 1, 3),
    "beside": (0.0, 0.0, 1e-3),
    "ledger": ("its own list", "given"),
}
"""What a corner is drawn from; `beside` is mu^2 of a Gaussian release before the steps."""
Corner = dict[str, Any]
Planning = Callable[[Corner], object]


@dataclass(frozen=True)
class _Given:
    """Stands for a ledger that exists: planning asks it for its order alone."""

    order: float


def _calibrated(plans_with: Callable[[float], list[Plan]], at: Corner, **ends: float) -> object:
    budget = Budget(at["epsilon"], at["delta"])
    ledger: Any = None
    if at["ledger"] == "given":
        ledger = _Given(best_order(budget, budget.delta))
    return calibrate(plans_with, budget, ledger=ledger, listed=True, **ends)


def _sample(at: Corner) -> dict[str, Any]:
    return {"k": at["k"], "sampling_rate": at["rate"], "votes_per_unit": at["votes"]}


def _of_neighbours(mechanism: Callable[..., Any], **ends: float) -> Planning:
    """Return how neighbours are planned whose mechanism is made from noise and their sample."""

    def planned(at: Corner) -> object:
        def plans_with(noise: float) -> list[Plan]:
            return [Plan(mechanism(noise, at["k"], _sample(at)), at["queries"], n_classes=10)]

        return _calibrated(plans_with, at, **ends)

    return planned


def _screening(noise: float, k: int, sample: dict[str, Any]) -> NoisyScreening:
    return NoisyScreening(threshold=round(0.6 * k), sigma_screen=3 * noise, sigma=noise, **sample)


def _steps(at: Corner) -> object:
    def plans_with(noise: float) -> list[Plan]:
        beside = [Plan(NoisySum(at["beside"] ** -0.5, 1, 1), 1)] if at["beside"] else []
        return [*beside, Plan(NoisySteps(noise, at["rate"]), at["queries"])]

    return _calibrated(plans_with, at, least=2.0**-8, most=2.0**10)


def _proposed(method: str, at: Corner) -> object:
    propose: Any = method_named(method).propose
    own = {"k": at["k"], "sampling_rate": at["rate"]}
    asked = own if method == "knn" else {"n_teachers": at["k"]}
    return propose(at["queries"], Budget(at["epsilon"], at["delta"]), 10, **asked)


KINDS: dict[str, Planning] = {
    "gnmax": lambda at: _calibrated(lambda noise: [Plan(GNMax(noise), at["queries"])], at),
    "votes": _of_neighbours(lambda noise, _, sample: SampledVotes(sigma=noise, **sample)),
    "screening": _of_neighbours(_screening),
    "labels": _of_neighbours(
        lambda noise, _, sample: SampledLabels(sigma=noise, tau=1.0, clip="l2", **sample),
        most=2.0**19,
    ),
    "mean": _of_neighbours(
        lambda noise, k, sample: SampledMean(sigma=noise / k, low=0.0, high=1.0, **sample),
        most=2.0**19,
    ),
    "median": _of_neighbours(
        lambda noise, _, sample: SampledMedian(1 / noise, grid=(0.0, 1.0, 64), **sample),
        least=0.01,
        most=2.0**12,
    ),
    "steps": _steps,
    "plan-teachers": lambda at: _proposed("pate", at),
    "plan-neighbours": lambda at: _proposed("knn", at),
}


def seconds(kind: str, at: Corner) -> tuple[float, str]:
    """Plan in a process of its own: CPU-seconds, and what came of it."""
    process = os.fork()
    if process == 0:
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + GIVEN_UP
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        try:
            KINDS[kind](at)
        except TacitError:
            os._exit(1)
        except BaseException as error:
            print(kind, at, repr(error), file=sys.stderr, flush=True)
            os._exit(2)
        os._exit(0)
    _, status, used = os.wait4(process, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == 2:
        raise SystemExit(f"{kind} failed")
    outcome = {0: "made", 1: "refused"}.get(code, "given up")
    return used.ru_utime + used.ru_stime, outcome


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slowest", type=int, default=20)
    parser.add_argument("--only", default=",".join(KINDS))
    options = parser.parse_args()
    draw = random.Random(options.seed)
    kinds = options.only.split(",")
    calibrate(lambda noise: [Plan(NoisySteps(noise, 0.1), 3)], Budget(1.0, 1e-5), listed=True)
    import scipy.optimize  # noqa: F401  (planning imports it when it first searches)

    found = []
    for number in range(options.draws):
        corner = {name: draw.choice(values) for name, values in DOMAIN.items()}
        kind = kinds[number % len(kinds)]
        found.append((*seconds(kind, corner), kind, corner))
    found.sort(key=lambda one: -one[0])
    table = Table("CPU-s", "plan", "kind", *DOMAIN, title=f"The slowest of {len(found)} corners")
    for spent, made, kind, corner in found[: options.slowest]:
        cells = [
            f"{value:g}" if isinstance(value, float) else str(value) for value in corner.values()
        ]
        table.add_row(f"{spent:.2f}", made, kind, *cells)
    Console(width=150).print(table)
    slow = sum(spent > GOAL for spent, *_ in found)
    print(f"{slow} of {len(found)} corners take more than {GOAL:g} CPU-second.")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
