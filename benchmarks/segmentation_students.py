"""Students against the number of queries, at one epsilon: the papers' trade-off as ours.

More queries teach a student more, and each release gets more of the noise. Teachers are perfect
(the true mask of the query), so that this is a matter of privacy and codec alone. A student is
`UNetStudent(random_state=0)`, taught the released masks of the first N queries in a random order
(draw 0 of the table) and tested on the 60 volumes that nothing else has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.segmentation_data import PUBLIC, QUERIES, Array, Task, decided, dice
from benchmarks.segmentation_schemes import (
    FOUR,
    Bench,
    Cell,
    Draw,
    answers_in_rounds,
    paper_answers,
)
from tacit.masks import UNetStudent

ASKED = (10, 20, 50, 100)
EPSILON, TEACHERS = 8.0, 100
CURVES = ("paper", "four rounds", "true masks")


def students(bench: Bench, asked: tuple[int, ...] = ASKED) -> list[dict[str, Any]]:
    """Return the Dice of each scheme's releases, and of the student they teach, for each N."""
    rows = []
    for count in asked:
        row: dict[str, Any] = {"N": count}
        for name in CURVES:
            released, taught = measured_student(bench, name, count)
            row[f"{name}: released"], row[f"{name}: student"] = released, taught
        rows.append(row)
    return rows


def measured_student(bench: Bench, name: str, count: int) -> tuple[float, float]:
    """Return the Dice of what is released, and of its student on the volumes kept for tests."""
    draw = Draw(bench, Cell(TEACHERS, count, EPSILON), seed=0)
    masks = _releases(name)(draw)
    task = bench.task
    released = dice(masks, draw.masks, task.n_classes)
    student = UNetStudent(random_state=0)
    student.fit(task.asked_scans[draw.chosen], masks.astype(np.uint8))
    scans, truth = tests(task)
    found = student.predict(scans).astype(bool)
    return released, dice(found, truth, task.n_classes)


def tests(task: Task) -> tuple[Array, Array]:
    """Return scans and masks that are neither the codec's nor queries."""
    return task.scans[PUBLIC + QUERIES :], task.masks[PUBLIC + QUERIES :]


def _releases(name: str) -> Callable[[Draw], Array]:
    if name == "true masks":
        return lambda draw: draw.masks
    if name == "paper":
        return _paper
    return _rounds


def _paper(draw: Draw) -> Array:
    return decided(paper_answers(draw), draw.bench.mean_threshold, draw.bench.task.n_classes)


def _rounds(draw: Draw) -> Array:
    answers, threshold = answers_in_rounds(draw, FOUR)
    return decided(answers, threshold, draw.bench.task.n_classes)
