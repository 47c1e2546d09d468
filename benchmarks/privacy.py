"""How fast costs are computed, next to the paper's formulas evaluated query by query.

Run `python -m benchmarks.privacy` (or with `--json`). Votes are generated: 12,000 queries of 5,000
teachers on 150 classes, and 9,000 of 250 on 10. The plain transcription (`paper_formulas`) is timed
on some of the queries and scaled up, as the table says; CPU-seconds throughout. It knows Theorem 6
only, so the tight bound, which costs more and says more, is compared with Theorem 6's time, and
its total also with the exact sum, which is timed on some of the queries in the same way.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks import paper_formulas
from benchmarks.measured import best_of
from tacit.privacy import DEFAULT_ORDERS, gnmax_rdp, gnmax_rdp_total, gnmax_smooth_sensitivity

PAPER = "the paper's formulas, query by query"
Votes = NDArray[np.int64]
ORDERS = np.linspace(1.1, 100, 300)
GLYPH_SIGMA, GLYPH_ORDER, GLYPH_BETA = 100.0, 20.5, 0.0205
MNIST_SIGMA, MNIST_ORDER, MNIST_BETA = 40.0, 14.0, 0.0329
TOTAL_SAMPLE, MNIST_SAMPLE, GLYPH_SAMPLE = (
    300,
    300,
    40,
)  # queries that the transcription is timed on


@dataclass(frozen=True, slots=True)
class Measurement:
    """CPU-seconds of one computation, ours and the transcription's, and what ours should take."""

    name: str
    seconds: float
    plain: float | None = None
    plain_queries: str = ""
    goal: float | None = None
    against: str = PAPER

    @property
    def ratio(self) -> float | None:
        """How many times faster than the transcription."""
        return None if self.plain is None else self.plain / self.seconds

    @property
    def met(self) -> bool | None:
        """Whether it is as fast as it should be."""
        return None if self.goal is None else self.seconds < self.goal


def generated_votes(queries: int, classes: int, teachers: int) -> Votes:
    """Most teachers agree, the others err in a few ways, and a few vote at random."""
    random = np.random.default_rng(2018)
    top = random.beta(4, 1.5, (queries, 1))
    wrong = random.dirichlet([0.1] * (classes - 1), queries)
    share = 0.96 * np.hstack([top, (1 - top) * wrong]) + 0.04 / classes
    return random.permuted(random.multinomial(teachers, share), axis=1)


def cpu_seconds(call: Callable[[], object], repeats: int = 3) -> float:
    return best_of(call, repeats)[0]


def plain_seconds(call: Callable[[list[list[int]]], object], votes: Votes, sample: int) -> float:
    """Time the transcription on every k-th query and scale up to all."""
    some = votes[:: len(votes) // sample][:sample].tolist()
    return cpu_seconds(lambda: call(some), repeats=1) * len(votes) / len(some)


def total_measurements(votes: Votes) -> list[Measurement]:
    def total(bound: str) -> Callable[[], object]:
        return lambda: gnmax_rdp_total(votes, GLYPH_SIGMA, ORDERS, bound)

    orders = ORDERS.tolist()
    plain = plain_seconds(
        lambda rows: paper_formulas.total_cost(rows, GLYPH_SIGMA, orders), votes, TOTAL_SAMPLE
    )
    basis = f"{TOTAL_SAMPLE} of {len(votes):,}"
    return [
        Measurement("total, theorem6", cpu_seconds(total("theorem6")), plain, basis, goal=0.2),
        Measurement("total, tight", cpu_seconds(total("tight")), plain, basis, goal=0.5),
    ]


def exact_measurements(name: str, votes: Votes, sigma: float) -> list[Measurement]:
    """Compare the total at the default orders with the sum of what each query costs."""
    some = votes[:: len(votes) // TOTAL_SAMPLE][:TOTAL_SAMPLE]
    exact = cpu_seconds(lambda: gnmax_rdp(some, sigma, DEFAULT_ORDERS), repeats=1)
    seconds = cpu_seconds(lambda: gnmax_rdp_total(votes, sigma, DEFAULT_ORDERS))
    plain, basis = exact * len(votes) / len(some), f"{len(some)} of {len(votes):,}"
    against = "the exact sum, query by query"
    return [Measurement(f"total, tight, {name}", seconds, plain, basis, 0.5, against)]


def smooth_measurements(
    name: str, votes: Votes, setting: tuple[float, float, float], sample: int, goal: float
) -> list[Measurement]:
    sigma, order, beta = setting
    plain = plain_seconds(
        lambda rows: paper_formulas.smooth_sensitivity(rows, sigma, order, beta), votes, sample
    )
    basis = f"{sample} of {len(votes):,}"
    found = []
    for bound, algorithm in (("tight", "window"), ("theorem6", "window"), ("theorem6", "paper")):
        seconds = cpu_seconds(
            lambda bound=bound, algorithm=algorithm: gnmax_smooth_sensitivity(
                votes, sigma, order, beta, bound=bound, algorithm=algorithm
            )
        )
        label = f"smooth, {name}, {bound}, {algorithm}"
        found.append(Measurement(label, seconds, plain, basis, goal))
    return found


def measure() -> list[Measurement]:
    glyph, mnist = generated_votes(12_000, 150, 5_000), generated_votes(9_000, 10, 250)
    small = (MNIST_SIGMA, MNIST_ORDER, MNIST_BETA)
    large = (GLYPH_SIGMA, GLYPH_ORDER, GLYPH_BETA)
    return [
        *total_measurements(glyph),
        *exact_measurements("12,000 x 150", glyph, GLYPH_SIGMA),
        *exact_measurements("9,000 x 10", mnist, MNIST_SIGMA),
        *smooth_measurements("9,000", mnist, small, MNIST_SAMPLE, goal=0.5),
        *smooth_measurements("12,000", glyph, large, GLYPH_SAMPLE, goal=5.0),
    ]


def table(measurements: list[Measurement]) -> Table:
    result = Table(
        title="Cost of GNMax in CPU-seconds",
        caption=(
            "Totals: 12,000 queries x 150 classes x 5,000 teachers, 300 orders. "
            "Smooth sensitivity: the same votes, and 9,000 x 10 x 250. "
            "Plain: the paper's formulas (for totals with a size: the exact tight bound) query by "
            "query, timed on some queries and scaled up."
        ),
    )
    result.add_column("computation")
    for heading in ("tacit", "goal", "met", "plain", "timed on", "ratio"):
        result.add_column(heading, justify="right")
    for one in measurements:
        goal = "" if one.goal is None else f"< {one.goal:g}"
        met = {None: "", True: "yes", False: "no"}[one.met]
        plain = "" if one.plain is None else f"{one.plain:,.0f}"
        ratio = "" if one.ratio is None else f"{one.ratio:,.0f}"
        result.add_row(one.name, f"{one.seconds:.3f}", goal, met, plain, one.plain_queries, ratio)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    as_json = parser.parse_args().json
    found = measure()
    if as_json:
        rows = [{**asdict(one), "ratio": one.ratio, "met": one.met} for one in found]
        print(json.dumps(rows, indent=2))
    else:
        Console().print(table(found))


if __name__ == "__main__":
    main()
