"""Declarations of a table's columns, proposed from a public file, and compared with one.

Read off private rows, bins and categories would disclose those rows. So `tacit columns` reads the
*public* file, and a declaration that the public inputs contradict is found before anything is
spent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats
from tacit.datasets.batches import TextFormat, batches_of
from tacit.datasets.table import read_columns
from tacit.errors import InvalidArgument
from tacit.features import Categorical, Column

MOST_BINS = 6
MOST_CATEGORIES = 30
"""Words with more different values than this are names or notes, no categories."""
_FEW_NUMBERS = 12
"""Whole numbers with at most so many values get an edge between every two of them."""


def proposed_columns(source: Any, **text: str) -> str:
    """Return the table `[data.options]` of run.toml for a public file, to be edited.

    Parameters
    ----------
    source : path or table, whose rows are public: the proposal discloses them
    **text
        `delimiter`, `decimal` and `encoding` of a text file.

    Returns
    -------
    str
        TOML: bins at round numbers near quantiles, categories by frequency, and comments.
    """
    written = TextFormat(**text)
    table = batches_of(source, written)
    options = [f"{key} = {json.dumps(value)}" for key, value in text.items()]
    numeric, categorical, others = [], [], []
    for name, column in read_columns(table, written):
        if (edges := _edges(column.numbers, column.holes)) is not None:
            numeric.append(f"{_key(name)} = {json.dumps(edges)}")
        elif words := _categories(column.words):
            categorical.append(f"{_key(name)} = {json.dumps(words, ensure_ascii=False)}")
        else:
            others.append(name)
    return "\n".join(
        [
            f"# Proposed from {table.name}: its rows must be public. Check every line.",
            "[data.options]",
            '# target = "..."            # the column of labels, and all the labels there are',
            '# classes = ["no", "yes"]',
            '# groups = "..."            # whose row it is, where a person has several',
            "# missing = 0              # what stands for a hole in a numeric column",
            *options,
            *([f"ignored = {json.dumps(others, ensure_ascii=False)}"] if others else []),
            *(["", "[data.options.numeric]", *numeric] if numeric else []),
            *(["", "[data.options.categorical]", *categorical] if categorical else []),
            "",
        ]
    )


def _key(name: str) -> str:
    bare = name.replace("_", "a").replace("-", "a")
    return name if bare.isascii() and bare.isalnum() else json.dumps(name, ensure_ascii=False)


def _edges(numbers: Floats, holes: NDArray[np.bool_]) -> list[float] | None:
    """Return round edges near quantiles; None if the column is not numeric."""
    if np.isnan(numbers[~holes]).any() or holes.all():
        return None
    known = numbers[~holes]
    values = np.unique(known)
    if len(values) <= _FEW_NUMBERS and (values == np.floor(values)).all():
        return [float(edge) for edge in (values[1:] + values[:-1]) / 2]
    inner = np.linspace(0, 1, MOST_BINS + 1)[1:-1]
    digits = _digits(known)
    return sorted({float(round(edge, digits)) for edge in np.quantile(known, inner).tolist()})


def _digits(known: Floats) -> int:
    """Return the fewest decimals that tell bins apart."""
    low, high = np.quantile(known, [0.1, 0.9])
    width = (high - low) / MOST_BINS
    return 0 if width <= 0 else max(-12, min(12, -math.floor(math.log10(width))))


def _categories(words: list[str]) -> list[str]:
    """Return the words of a column, the most frequent first; none where they are free text."""
    found, counts = np.unique([word for word in words if word], return_counts=True)
    if not len(found) or len(found) > MOST_CATEGORIES or len(found) > len(words) / 2:
        return []
    return [str(word) for word in found[np.argsort(-counts, kind="stable")]]


def contradictions(columns: Sequence[Column], public: NDArray[Any]) -> list[str]:
    """Return a sentence for each column whose public inputs do not fit its declaration.

    A column none of whose declared categories occurs raises `InvalidArgument`.

    Parameters
    ----------
    columns : sequence of Column, as declared
    public : array of shape (rows, columns), as `load_public` reads them

    Returns
    -------
    list of str
    """
    found = []
    for place, column in enumerate(columns):
        if isinstance(column, Categorical):
            found += _strange_categories(column, public[:, place])
        elif (
            column.edges and len(set(np.searchsorted(column.edges, public[:, place], "right"))) < 2
        ):
            found.append(
                f"all public values of column {column.name!r} lie in one of the declared bins: it "
                "tells the student nothing; check the edges and the unit"
            )
    return found


def _strange_categories(column: Categorical, codes: NDArray[Any]) -> list[str]:
    declared = column.labels[:-1]
    absent = [label for place, label in enumerate(declared) if not (codes == place).any()]
    if len(absent) == len(declared):
        raise InvalidArgument(
            f"Expected a declared category of column {column.name!r} in the public inputs; none of "
            f"{list(declared)!r} occurs there. Check how they are spelt, or leave the column out."
        )
    if not absent:
        return []
    return [
        f"no public input has {', '.join(map(repr, absent[:3]))} in column {column.name!r}"
        f"{' (and others)' if len(absent) > 3 else ''}: the student cannot learn about it"
    ]
