"""`compare`: run methods on one task at one budget, cell by cell.

Each cell runs in a process of its own with one thread (processes.py), and its file is written when
it is done: a comparison that was stopped, even by `kill -9`, resumes, and more methods, epsilons or
seeds may be added to a folder later.
"""

from __future__ import annotations

import json
import math
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit._checks import at_least, positive, probability, refuse
from tacit._files import write_atomically
from tacit.comparing.cells import (
    FAILED,
    REFUSED,
    Cell,
    Outcome,
    cells_of,
    finished,
    settings_of,
    write_cell,
)
from tacit.comparing.data import ComparedData, compared_data
from tacit.comparing.processes import Job, Starter, one_line
from tacit.comparing.references import NUMBER_REFERENCES, REFERENCES, custom_methods
from tacit.comparing.scores import SCORES, rows_behind
from tacit.comparing.summary import Comparison, Description
from tacit.datasets import Dataset
from tacit.errors import InvalidArgument, TacitError
from tacit.methods import Rule, all_rules

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 8.0)
PLAN = "comparison.json"
CELLS = "cells"
Watcher = Callable[[str, int, int], None]
"""Told the label of the cell that was just finished, how many are, and of how many."""


def compare(
    data: str | Dataset,
    *,
    methods: Sequence[str] | None = None,
    epsilon: Iterable[float] = EPSILONS,
    delta: float = 1e-5,
    seeds: int = 3,
    out: str | Path | None = None,
    public: int | None = None,
    held_out: int | None = None,
    options: dict[str, Any] | None = None,
    estimators: Mapping[str, Any] | None = None,
    limit: float | None = None,
    jobs: int = 1,
    retry_failed: bool = False,
    watch: Watcher | None = None,
    by: str = "accuracy",
    minutes: float | None = None,
) -> Comparison:
    """Compare methods on the same private rows, public inputs, held-out rows and budget.

    The comparison itself is NOT private: it reads the labels of all rows. Use it on public
    benchmark data, or on rows declared public.

    Parameters
    ----------
    data : str or Dataset, or its word: "mnist:DIR", "adult:DIR", "digits"
    methods : sequence of str, optional, of `tacit.methods.all_rules()`; all by default
    epsilon : iterable of float, worst-case budgets, for adding or removing one record
    delta : float, of every budget
    seeds : int, repetitions of split (where the rule shuffles), training and fresh noise
    out : path, optional
        Folder of finished cells, tables, page and figures; None stores nothing.
    public, held_out : int, optional, numbers of rows, in place of the default rule
    options : dict, optional, for the loader of `data`
    estimators : mapping, optional
        Your own, by name: an estimator (given epsilon, delta, random_state and classes where it has
        such parameters) or a function (facts, epsilon, delta, seed) that builds one.
    limit : float, optional, seconds after which a cell is stopped and counted as failed
    jobs : int, cells at a time, one thread each
    retry_failed : bool
        Run those again that failed (a refusal stands: its cause is public).
    watch : callable, optional
        Called with the label of each finished cell, how many are finished, and of how many.
    by : str
        "accuracy"; for rare classes "balanced" accuracy, or of two classes "auc". Numbers (data
        with a `target_range`) are always compared by R^2.
    minutes : float, optional
        After so many no cell is started any more; the next call runs what is missing.

    Returns
    -------
    Comparison, of all finished cells

    Examples
    --------
    >>> result = compare("digits", methods=["prototype"], epsilon=[8], seeds=1, delta=1e-4)
    >>> result.row("prototype", 8).accuracy > 0.5
    True
    """
    own = custom_methods(estimators)
    # Before anything is read: a name that no kind of data has.
    _chosen(methods or list(all_rules()), all_rules() | all_rules(numbers=True) | own, estimators)
    task = compared_data(data, public=public, held_out=held_out, options=options, by=by)
    numbers = task.data.target_range is not None
    rules, references = all_rules(numbers=numbers), NUMBER_REFERENCES if numbers else REFERENCES
    known = rules | own
    chosen = _chosen(list(rules) if methods is None else methods, known, estimators)
    levels = sorted({positive(epsilon=value) for value in epsilon})
    if not levels:
        raise InvalidArgument("Expected epsilon to hold at least one number.")
    delta, seeds = probability(delta=delta), at_least(1, seeds=seeds)
    plan = _Plan(task, known | references, delta)
    pairs: list[tuple[str, float | None]] = [(name, level) for level in levels for name in chosen]
    pairs += [(name, None) for name in references]
    work = [(name, level, seed) for seed in range(seeds) for name, level in pairs]
    with tempfile.TemporaryDirectory(prefix="tacit-compare-") as scratch:
        folder = _enter(Path(scratch if out is None else out), plan)
        end = math.inf if minutes is None else time.monotonic() + 60 * positive(minutes=minutes)
        runner = _Runner(plan, folder / CELLS, limit, retry_failed, end)
        runner.run(work, at_least(1, jobs=jobs), watch)
        result = plan.collect(folder / CELLS)
    if out is not None:
        result.write(out)
    return result


def _chosen(
    methods: Sequence[str], known: dict[str, Rule], own: Mapping[str, Any] | None
) -> list[str]:
    """Return the methods to run, each once, in the order given."""
    names = list(methods)
    if unknown := [name for name in names if name not in known]:
        raise refuse("methods", unknown[0], f"one of {', '.join(sorted(known))}")
    names = list(dict.fromkeys([*names, *(own or {})]))
    if not names or set(own or {}) & set(REFERENCES):
        raise InvalidArgument("Expected at least one method, none of them named as a reference.")
    return names


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """What a folder is for: the task, the known methods, delta."""

    task: ComparedData
    methods: dict[str, Rule]
    delta: float

    def describe(self) -> dict[str, Any]:
        data = self.task.data
        return {
            "format": "tacit-comparison/1",
            "private": False,
            "task": self.task.fingerprint(),
            "data": data.name,
            "delta": self.delta,
            "split": self.task.rule.words(data),
        }

    def build(self, name: str, epsilon: float | None, seed: int) -> tuple[Any, str]:
        """Return the unfitted estimator, or None and the reason."""
        make = self.methods[name].build
        try:
            return make(self.task.facts(), epsilon or 1.0, self.delta, seed), ""
        except (TacitError, ImportError) as error:
            return None, one_line(error)

    def current(self, cell: Cell) -> bool:
        """Whether a cell has today's settings, or is of an unknown method."""
        if cell.method not in self.methods:
            return True
        estimator, _ = self.build(cell.method, cell.epsilon, cell.seed)
        return cell.settings == settings_of(estimator)

    def collect(self, cells: Path) -> Comparison:
        """Collect all finished cells of the folder, from any run."""
        task, data = self.task, self.task.data
        found = [item for item in cells_of(cells, task.fingerprint()) if self.current(item[0])]
        seeds = 1 + max((cell.seed for cell, _ in found), default=0)
        description = Description(
            data=data.name,
            split=task.rule.words(data),
            delta=self.delta,
            kind=task.facts().kind,
            held_out_rows=rows_behind(task.by, data.labels, task.held_out_rows(seeds)),
            rules={name: rule.words for name, rule in self.methods.items()},
            titles={name: rule.title for name, rule in self.methods.items()},
            references=tuple(REFERENCES),
            score=SCORES[task.by],
            by=task.by,
            notes=tuple(filter(None, [task.overlap()])),
        )
        return Comparison(description, tuple(found))


def _enter(folder: Path, plan: _Plan) -> Path:
    """Make the folder, or enter it again if it belongs to the same task and delta."""
    (folder / CELLS).mkdir(parents=True, exist_ok=True)
    about, path = plan.describe(), folder / PLAN
    if path.exists():
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            same = all(kept[key] == about[key] for key in ("task", "delta"))
        except (ValueError, KeyError, TypeError):
            same = False
        if not same:
            raise InvalidArgument(
                f"Expected {str(folder)!r} to be new, or to hold a comparison of the same data, "
                "split and delta; choose another folder."
            )
    write_atomically(path, json.dumps(about, indent=2).encode("utf-8"))
    return folder


@dataclass(frozen=True, slots=True, eq=False)
class _Runner:
    """Runs what is not finished yet; once `stopped`, no outcome is written any more."""

    plan: _Plan
    folder: Path
    limit: float | None
    retry_failed: bool
    end: float = math.inf
    stopped: threading.Event = field(default_factory=threading.Event)
    starters: queue.SimpleQueue[Starter] = field(default_factory=queue.SimpleQueue)

    def run(
        self, work: list[tuple[str, float | None, int]], jobs: int, watch: Watcher | None
    ) -> None:
        """Run all cells, several at a time if asked to; stop cleanly when interrupted."""
        task = self.plan.task.fingerprint()
        pool, starters = ThreadPoolExecutor(jobs), [Starter() for _ in range(jobs)]
        for starter in starters:
            self.starters.put(starter)
        try:
            for done, cell in enumerate(pool.map(lambda one: self._one(task, *one), work), start=1):
                if watch is not None:
                    watch(cell.label, done, len(work))
        except BaseException:
            self.stopped.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            for starter in starters:
                starter.close()

    def _one(self, task: str, name: str, epsilon: float | None, seed: int) -> Cell:
        estimator, reason = self.plan.build(name, epsilon, seed)
        cell = Cell(name, epsilon, self.plan.delta, seed, task, settings_of(estimator))
        kept = finished(self.folder, cell)
        if kept is not None and not (self.retry_failed and kept.status == FAILED):
            return cell
        if time.monotonic() > self.end:
            return cell
        outcome = Outcome(REFUSED, reason) if reason else self._measure(estimator, cell)
        if not self.stopped.is_set():
            write_cell(self.folder, cell, outcome)
        return cell

    def _measure(self, estimator: Any, cell: Cell) -> Outcome:
        private, public, held_out = self.plan.task.parts(cell.seed)
        rows = (private.X, private.labels, public.X, held_out.X, held_out.labels)
        job = Job(estimator, cell.epsilon, cell.delta, *rows, self.plan.task.by, private.groups)
        starter = self.starters.get()
        try:
            return starter.run(job, self.limit, self.stopped)
        finally:
            self.starters.put(starter)
