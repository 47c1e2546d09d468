"""Fair's survey: which of 6,366 married women had an affair, as they told a magazine in 1974.

One record each, eight answers on coarse scales, no clusters, and nothing that anybody would want
known: what this library is for. The file ships inside the package statsmodels (`datasets/fair`),
of which only that file is read; it need not be importable. The edges are round numbers between the
answers that the questionnaire offers, fixed here and not read off the rows. Source: Fair, "A theory
of extramarital affairs", Journal of Political Economy 86 (1978).
"""

from __future__ import annotations

import csv
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tacit.datasets._reading import PathLike, reading
from tacit.datasets.dataset import Dataset
from tacit.errors import InvalidArgument, MissingExtra
from tacit.features.columns import Categorical, Column, Numeric

CLASSES = ("none", "some")
_OCCUPATIONS = ("student", "unskilled", "skilled", "teacher or nurse", "managerial", "professional")
COLUMNS: tuple[Column, ...] = (
    Numeric("rate_marriage", (1.5, 2.5, 3.5, 4.5)),
    Numeric("age", (20, 25, 30, 35, 40)),
    Numeric("yrs_married", (1, 4, 8, 11, 15, 20)),
    Numeric("children", (0.5, 1.5, 2.5, 3.5, 4.5)),
    Numeric("religious", (1.5, 2.5, 3.5)),
    Numeric("educ", (10, 13, 15, 16.5, 18)),
    Categorical("occupation", _OCCUPATIONS),
    Categorical("occupation_husb", _OCCUPATIONS),
)
_TARGET = "affairs"


def load_affairs(path: PathLike | None = None) -> Dataset:
    """Load the survey from statsmodels' folder, or from a copy of its file `fair.csv`.

    Classes: whether the time spent in affairs is 0. Occupations, 1 .. 6 in the file, are indices
    from 0 here.
    """
    file = _shipped() if path is None else Path(path)
    with reading(file, "CSV file"), file.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    names = [column.name for column in COLUMNS]
    if not rows or not {*names, _TARGET} <= set(rows[0]):
        raise InvalidArgument(f"Expected {file.name!r} to be the survey, with all its columns.")
    try:
        X = np.array([[float(row[name]) for name in names] for row in rows])
        some = np.array([float(row[_TARGET]) > 0 for row in rows])
    except (TypeError, ValueError):
        raise InvalidArgument(f"Expected {file.name!r} to hold numbers only.") from None
    jobs = [place for place, column in enumerate(COLUMNS) if isinstance(column, Categorical)]
    X[:, jobs] -= 1
    if not np.isfinite(X).all() or not np.isin(X[:, jobs], range(len(_OCCUPATIONS))).all():
        raise InvalidArgument(f"Expected {file.name!r} to hold occupations 1 .. 6 only.")
    return Dataset(X, some.astype(np.int64), tuple(names), CLASSES, "affairs", columns=COLUMNS)


def _shipped() -> Path:
    """Find the file without importing statsmodels, which may lack what it needs."""
    found = find_spec("statsmodels")
    for folder in (found.submodule_search_locations or ()) if found else ():
        if (file := Path(folder) / "datasets" / "fair" / "fair.csv").is_file():
            return file
    raise MissingExtra(
        "Expected the package statsmodels, which ships the survey; pip install statsmodels, or "
        "name a copy of its file: affairs:FILE."
    )
