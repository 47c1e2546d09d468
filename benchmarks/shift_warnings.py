"""How often releases warn of public inputs of another kind, and how often without a reason.

On the sets and shifts of `benchmarks.shift_data`. What the records say is computed once for each
shift; each run draws its noise anew and asks whether it warns. Printed are the runs that warn, the
score on held-out rows (accuracy; of prices R^2), and by how many points it falls below that without
a shift. S is n mu.

    python -m benchmarks.shift_warnings --data DIR --sets digits,usps --runs 500 --shifted 200
    python -m benchmarks.shift_warnings --data DIR --sets usps,prices --methods moments,ridge

Methods: prototype by where votes lie, moments by the sum of the features, ridge (and regressors, on
prices) by their second moment, "pate checked" and "knn checked" by the scores of the paid check, 5
% of mu^2. "pate" and "knn" never warn by their votes alone; `--show` prints why: how far voters
agree on an input, and the sum of the classes' squared shares of all votes. The score is that of
three students of the nearest prototypes, of three students of votes, or of one whole fit. At most
100 prototypes or queries, medoids of at most 400 public inputs, which are 1,000 for moments and
ridge; teachers have 30 records (tables 96), queries 280 neighbours.
"""

from __future__ import annotations

import argparse
import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.shift import PRICES
from benchmarks.shift_data import IMAGES, Shifted, shifts_of
from tacit import (
    Checks,
    InsecureNoise,
    MomentClassifier,
    MomentRegressor,
    NoisyVotes,
    ResidualRidgeClassifier,
    ResidualRidgeRegressor,
)
from tacit.mechanisms import STEP, count_votes
from tacit.methods.checked_scores import FEWEST_FRESH, check_of, scores_apart
from tacit.methods.moments import PLACE
from tacit.methods.residual_rounds import Shares
from tacit.methods.summary import COUNT_SHARE
from tacit.privacy import gaussian_mu
from tacit.students import (
    CombinedStudent,
    NearestStudent,
    choose_queries,
    label_posterior,
    scores_of,
)
from tacit.summaries import (
    compact_view,
    mean_shift,
    moment_shift,
    nearest_prototypes,
    table_posterior,
    table_shift,
)
from tacit.teachers import KernelRidgeTeachers, predict_with_teachers

DELTA, ASKED, PUBLIC, MORE_PUBLIC, VOTES, CHECK = 1e-5, 100, 400, 1000, 3, 0.05
_STUDENTS = 3
"""Students whose accuracy is averaged."""
_ON_A_TEACHER = {True: 30, False: 96}
_NEIGHBOURS, _CLASS_SHARE = 280, 0.8

Run = Callable[[np.random.Generator], bool]
"""One run: whether it warns."""


class Cell(NamedTuple):
    """A set with a shift, and a budget."""

    task: Shifted
    X: np.ndarray
    y: np.ndarray
    epsilon: float

    @property
    def mu(self) -> float:
        """Of the whole budget."""
        return float(gaussian_mu(self.epsilon, DELTA))

    @property
    def n_classes(self) -> int:
        """How many labels there are."""
        return len(self.task.classes)

    def accuracy(self, student: Any) -> float:
        """Return the share of held-out rows that a student has right."""
        truth = np.searchsorted(self.task.classes, self.task.truth)
        return float((student.predict(self.task.held_out) == truth).mean())

    def fitted(self, kind: Any, public: np.ndarray, seed: int = 0) -> tuple[Any, float]:
        """Return a whole fit and its score on held-out rows."""
        own: dict[str, Any] = {"epsilon": self.epsilon, "delta": DELTA, "allow_overlap": True}
        own |= {"noise": InsecureNoise(seed), "random_state": 0}
        own["checks"] = Checks(allow_hopeless=True)
        values = self.task.set == "prices"
        own |= {"target_range": PRICES} if values else {"classes": range(self.n_classes)}
        model = kind(**own).fit(self.X, self.y, X_public=public)
        if values:
            return model, float(model.score(self.task.held_out, self.task.truth))
        return model, self.accuracy(model.student_)


def by_table(cell: Cell) -> tuple[Run, list[float]]:
    """Votes at prototypes: the table once, then noise."""
    view = cell.task.public[:PUBLIC]
    count = min(ASKED, len(view))
    prototypes = view[choose_queries(compact_view(view), count, random_state=0)]
    near, typical = (
        nearest_prototypes(rows, prototypes, VOTES, radius=2.0) for rows in (cell.X, view)
    )
    table = np.zeros((count, cell.n_classes))
    np.add.at(table, (near, cell.y[:, None]), 1 / math.sqrt(VOTES))
    sigma, found = 1 / cell.mu, []

    def run(random: np.random.Generator) -> bool:
        noisy = table + random.normal(scale=sigma, size=table.shape)
        if len(found) < _STUDENTS:
            posterior = table_posterior(noisy, sigma)
            student = NearestStudent().fit(prototypes, np.arange(count), posterior)
            found.append(cell.accuracy(student))
        return table_shift(noisy, sigma, typical).is_told

    return run, found


def by_mean(cell: Cell) -> tuple[Run, list[float]]:
    """Moments: the sum of the features once, then noise, also in the number of records."""
    public = cell.task.public[:MORE_PUBLIC]
    if cell.task.set == "prices":
        return by_second_moment(cell, MomentRegressor)
    model, score = cell.fitted(MomentClassifier, public)
    part = model._prepare(public, cell.n_classes)
    sums = part.space.view(cell.X).sum(axis=0)
    first: Any = part.plans[1].mechanism
    # Of labels about the middle: of others the column has as much weight, or more.
    longest = math.sqrt(1 - 1 / cell.n_classes)
    place = PLACE * longest
    sigma = part.space.radius * longest * math.hypot(1, PLACE) * first.sigma / place
    unsure = math.sqrt(cell.n_classes / COUNT_SHARE) / cell.mu

    def run(random: np.random.Generator) -> bool:
        total = max(len(cell.X) + random.normal(scale=unsure), 1.0)
        noisy = sums + random.normal(scale=sigma, size=sums.shape)
        found = mean_shift(noisy, part.view, total, sigma, unsure)
        SEEN.append((found.z, found.effect))
        return found.is_told

    return run, [score]


def by_second_moment(cell: Cell, kind: Any = None) -> tuple[Run, list[float]]:
    """Residual moments: the second moment once, then noise; there is none below n mu = 1,000."""
    values = cell.task.set == "prices"
    kind = kind or (ResidualRidgeRegressor if values else ResidualRidgeClassifier)
    public = cell.task.public[:MORE_PUBLIC]
    model, score = cell.fitted(kind, public)
    part = model._prepare(public, 1 if values else cell.n_classes)
    seen = part.look(part.space.view(cell.X)) * STEP
    moment, n = seen.T @ seen, len(seen)
    share = Shares.at(n * cell.mu, seen.shape[1], 2).second
    unsure = math.sqrt((3 if values else cell.n_classes) / COUNT_SHARE) / cell.mu

    def run(random: np.random.Generator) -> bool:
        if not share or len(part.typical) < FEWEST_FRESH:
            return False
        sigma = 1 / (cell.mu * math.sqrt(share))
        noisy = moment + random.normal(scale=sigma, size=moment.shape)
        total = max(n + random.normal(scale=unsure), 1.0)
        found = moment_shift(noisy, part.typical, total, sigma)
        SEEN.append((found.z, found.effect))
        return found.is_told

    return run, [score]


class Asked(NamedTuple):
    """Votes on public inputs, without noise."""

    public: np.ndarray
    rows: np.ndarray
    votes: np.ndarray
    voters: int
    sigma: float

    def taught(self, n_classes: int, seed: int) -> tuple[Any, np.ndarray]:
        """Return a student of noisy votes, and these over the voters."""
        release = NoisyVotes(self.sigma).release(self.votes, InsecureNoise(seed))
        posterior = label_posterior(release, n_classes=n_classes, n_teachers=self.voters)
        student = CombinedStudent().fit(self.public, self.rows, posterior)
        return student, np.asarray(release.values, dtype=float)


def asked_of(cell: Cell, method: str) -> Asked:
    """Let teachers or neighbours vote."""
    public = cell.task.public[:PUBLIC]
    rows = choose_queries(public, min(ASKED, len(public)), random_state=0)
    sigma = math.sqrt(2 * len(rows)) / cell.mu
    if method == "knn":
        voters = min(_NEIGHBOURS, int(_CLASS_SHARE * len(cell.y) / cell.n_classes))
        near = nearest_prototypes(public[rows], cell.X, voters, radius=2.0)
        counts = [(cell.y[near] == label).sum(axis=1) for label in range(cell.n_classes)]
        return Asked(public, rows, np.stack(counts, axis=1), voters, sigma)
    images = cell.task.set in IMAGES
    voters = max(2, len(cell.y) // _ON_A_TEACHER[images])
    shards = np.random.default_rng(0).integers(voters, size=len(cell.y))
    family = KernelRidgeTeachers() if images else KernelRidgeTeachers(gamma=0.1)
    told = predict_with_teachers(
        family, cell.X, cell.y, shards, voters, public[rows], n_classes=cell.n_classes
    )
    return Asked(public, rows, count_votes(told, cell.n_classes), voters, sigma)


def by_votes(cell: Cell, method: str) -> tuple[Run, list[float]]:
    """Votes once, then noise: what they would tell of a shift, if they told it."""
    asked = asked_of(cell, method)
    scores = [cell.accuracy(asked.taught(cell.n_classes, seed)[0]) for seed in range(_STUDENTS)]
    noise = (asked.sigma / asked.voters) ** 2 * cell.n_classes

    def run(random: np.random.Generator) -> bool:
        told = asked.votes + random.normal(scale=asked.sigma, size=asked.votes.shape)
        shares = told / asked.voters
        agree = float((shares**2).sum(axis=1).mean()) - noise
        uneven = float((shares.mean(axis=0) ** 2).sum()) - noise / len(shares)
        SEEN.append((agree, uneven))
        return False

    return run, scores


def by_scores(cell: Cell, method: str) -> tuple[Run, list[float]]:
    """Score the records once by each of a few students, as the paid check does; then draw noise."""
    asked, tables, scores = asked_of(cell, method), [], []
    fresh = np.delete(np.arange(len(asked.public)), asked.rows)
    for seed in range(_STUDENTS):
        student, _ = asked.taught(cell.n_classes, seed)
        check = check_of(student, asked.public)
        bins = np.searchsorted(check.edges, scores_of(student.predict_proba(cell.X)), side="right")
        counts = np.bincount(bins, minlength=len(check.edges) + 1).astype(float)
        tables.append((check, np.stack([counts, np.zeros_like(counts)])))
        scores.append(cell.accuracy(student))
    sigma = 1 / (cell.mu * math.sqrt(CHECK))

    def run(random: np.random.Generator) -> bool:
        check, table = tables[random.integers(len(tables))]
        noisy = table + random.normal(scale=sigma, size=table.shape)
        if len(fresh) < FEWEST_FRESH:
            return False
        found = scores_apart(check, noisy, sigma, fresh)
        SEEN.append((found.z, found.effect))
        return found.is_told

    return run, scores


METHODS: dict[str, Callable[[Cell], tuple[Run, list[float]]]] = {
    "prototype": by_table,
    "moments": by_mean,
    "ridge": by_second_moment,
    "pate": lambda cell: by_votes(cell, "pate"),
    "knn": lambda cell: by_votes(cell, "knn"),
    "pate checked": lambda cell: by_scores(cell, "pate"),
    "knn checked": lambda cell: by_scores(cell, "knn"),
}
SEEN: list[tuple[float, float]] = []
"""The two numbers that each run of a line compares, for `--show`."""


def main() -> None:
    """Print a line for each method, set, epsilon and shift."""
    options = parse()
    warnings.simplefilter("ignore")
    print("method | set | shift | S | warned | score | fall", flush=True)
    for method in options.methods.split(","):
        for name in options.sets.split(","):
            for epsilon in map(float, options.epsilon.split(",")):
                lines(method, name, epsilon, options)


def lines(method: str, name: str, epsilon: float, options: argparse.Namespace) -> None:
    """Print the shifts of a set, the first of which is none."""
    best = None
    for task in shifts_of(name, options.data, options.split, options.only):
        y = task.y[: options.records]
        y = y if name == "prices" else np.searchsorted(task.classes, y)
        cell = Cell(task, task.X[: options.records], y, epsilon)
        runs = options.runs if task.shift.startswith("as the") else options.shifted
        SEEN.clear()
        run, scores = METHODS[method](cell)
        random = np.random.default_rng(0)
        warned = sum(run(random) for _ in range(runs))
        score = float(np.mean(scores))
        best = score if best is None else best
        counted = f"{len(y) * cell.mu:.0f} | {warned} of {runs}"
        line = f"{counted} | {score:.3f} | {100 * (best - score):.1f}"
        shown = ""
        if options.show and SEEN:
            low, middle, high = np.quantile(SEEN, [0.01, 0.5, 0.99], axis=0)
            shown = f" | {low.round(3)} {middle.round(3)} {high.round(3)}"
        print(f"{method} | {name} | {task.shift} | {line}{shown}", flush=True)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", "data")))
    parser.add_argument("--sets", default="digits,usps,affairs")
    parser.add_argument("--methods", default="prototype")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument("--runs", type=int, default=500, help="without a shift")
    parser.add_argument("--shifted", type=int, default=200, help="runs of each shift")
    parser.add_argument("--split", type=int, default=0, help="seed of the split of the rows")
    parser.add_argument("--only", default="", help="shifts whose name holds this")
    parser.add_argument("--show", action="store_true", help="quantiles of z and effect")
    return parser.parse_args()


if __name__ == "__main__":
    main()
