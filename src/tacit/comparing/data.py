"""The data of a comparison: a data set, split by a public rule, and its metadata.

A comparison reads the labels of every part: held-out rows score. It is for public benchmark data,
or for rows that were declared public, and nothing that it prints is differentially private.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._checks import at_least, one_of
from tacit._warn import warn
from tacit.comparing.scores import SCORES
from tacit.datasets import Dataset, Parts, contradictions, load_dataset, load_table
from tacit.errors import InvalidArgument
from tacit.methods import Facts
from tacit.teachers import record_ids

ADULT_PUBLIC = 11_000
"""Rows of Adult's test file that every page of results takes as public: the first ones."""


@dataclass(frozen=True, slots=True)
class SplitRule:
    """How the rows of a comparison are split.

    Parameters
    ----------
    public, held_out : int, numbers of rows
    shuffled : bool, by a seed; otherwise the file's order stays
    """

    public: int
    held_out: int
    shuffled: bool

    def words(self, data: Dataset) -> str:
        """Describe what is private, public and held out.

        Parameters
        ----------
        data : Dataset

        Returns
        -------
        str
        """
        private = len(data) - self.public - self.held_out if data.n_train is None else data.n_train
        origin = "rows" if data.n_train is None else "rows of the set's own test part"
        order = "drawn anew with each seed" if self.shuffled else "in the file's order"
        whole = "" if data.groups is None else "; about, since nobody's rows are in two parts"
        return (
            f"{private:,} private records; {self.public:,} public inputs without labels and "
            f"{self.held_out:,} held-out {origin}, {order}{whole}"
        )


def default_rule(data: Dataset) -> SplitRule:
    """Return the default split of a data set.

    Adult: the first 11,000 test rows public, the others held out. Another set with a test part: a
    tenth of that held out, the rest public. A set without one: a sixth public, a sixth held out.

    Parameters
    ----------
    data : Dataset

    Returns
    -------
    SplitRule

    Examples
    --------
    >>> from tacit.datasets import load_digits
    >>> default_rule(load_digits())
    SplitRule(public=299, held_out=299, shuffled=True)
    """
    if data.n_train is None:
        sixth = len(data) // 6
        return SplitRule(sixth, sixth, shuffled=True)
    test = len(data) - data.n_train
    if data.name == "adult" and test > ADULT_PUBLIC:
        return SplitRule(ADULT_PUBLIC, test - ADULT_PUBLIC, shuffled=False)
    return SplitRule(test - test // 10, test // 10, shuffled=True)


@dataclass(frozen=True, slots=True, eq=False)
class ComparedData:
    """A data set with its split; `parts(seed)` is the same for every method."""

    data: Dataset
    rule: SplitRule
    by: str = "accuracy"

    def parts(self, seed: int) -> Parts:
        """Return private, public and held-out rows; no person is in two of them."""
        state = seed if self.rule.shuffled else None
        if self.data.groups is not None:
            return _by_person(self.data, self.rule, state)
        return self.data.split(self.rule.public, self.rule.held_out, random_state=state)

    def facts(self) -> Facts:
        """Return the public metadata."""
        data, rule = self.data, self.rule
        kind = "numbers" if data.columns is None else "table"
        kind = kind if data.image_shape is None else "images"
        part, width = self.parts(0).private, data.X.shape[1]
        private = len(part) if part.groups is None else int(np.unique(part.groups).size)
        known = (data.classes, data.image_shape, data.columns, data.target_range)
        return Facts(kind, private, rule.public, width, *known)

    def held_out_rows(self, seeds: int) -> int:
        """Return the number of distinct scored rows: the sampling error depends on it."""
        if self.data.groups is not None:
            return len(self.parts(0).held_out)
        if not self.rule.shuffled:
            return self.rule.held_out
        start, end = self.rule.public, self.rule.public + self.rule.held_out
        pool = np.arange(self.data.n_train or 0, len(self.data))
        rows = [np.random.default_rng(s).permutation(pool)[start:end] for s in range(seeds)]
        return int(np.unique(np.concatenate(rows)).size)

    def overlap(self) -> str:
        """Describe public and held-out rows that equal private ones; "" without any."""
        private, *others = (record_ids(part.X).tolist() for part in self.parts(0))
        known = set(private)
        public, held_out = (sum(row in known for row in rows) for rows in others)
        if not public and not held_out:
            return ""
        return (
            f"{public:,} public and {held_out:,} held-out rows equal a private one (first split): "
            "scores may flatter whatever remembers rows, and on private data tacit would refuse."
        )

    def fingerprint(self) -> str:
        """Return a hash of rows, labels, classes and split: finished cells belong to it."""
        digest = hashlib.sha256()
        for array in (self.data.X, self.data.y):
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        digest.update(repr((self.data.classes, self.data.n_train, self.rule)).encode())
        if self.data.target_range is not None:
            digest.update(repr(self.data.target_range).encode())
        if self.data.groups is not None:
            owners = np.unique(self.data.groups, return_inverse=True)[1]
            digest.update(owners.astype(np.int64).tobytes())
        if self.by != "accuracy":  # folders of earlier versions go on
            digest.update(self.by.encode())
        return digest.hexdigest()


def _by_person(data: Dataset, rule: SplitRule, seed: int | None) -> Parts:
    """Split people, not rows, in the rule's order, up to the wanted numbers of rows.

    Whoever has a row in the set's own training part is private, with all rows.
    """
    people, first, owner, rows = np.unique(
        np.asarray(data.groups), return_index=True, return_inverse=True, return_counts=True
    )
    by_file = np.argsort(first)
    order = by_file if seed is None else np.random.default_rng(seed).permutation(len(people))
    private, beyond = 2, 2 if data.n_train is None else 3
    place = np.full(len(people), private)
    order = order[~np.isin(order, owner[: data.n_train or 0])]
    before = np.cumsum(rows[order]) - rows[order]
    place[order] = np.array([0, 1, beyond])[
        np.digitize(before, [rule.public, rule.public + rule.held_out])
    ]
    sides = (np.flatnonzero(place[owner] == each) for each in (private, 0, 1))
    return Parts(*(data.take(rows_of) for rows_of in sides))


def compared_data(
    data: Any,
    *,
    public: int | None = None,
    held_out: int | None = None,
    options: dict[str, Any] | None = None,
    by: str = "accuracy",
) -> ComparedData:
    """Load the data and fix the split; `public` and `held_out` replace the default rule's.

    `by` is the score. A declaration that the public rows contradict is warned of.
    """
    loaded = _loaded(data, options or {})
    usual = default_rule(loaded)
    rule = SplitRule(
        usual.public if public is None else at_least(2, public=public),
        usual.held_out if held_out is None else at_least(1, held_out=held_out),
        usual.shuffled,
    )
    task = ComparedData(loaded, rule, _score(loaded, by))
    if len(task.parts(0).private) < 2 or rule.held_out < 1 or rule.public < 2:
        raise InvalidArgument("Expected rows enough for private, public and held-out parts.")
    if loaded.columns is not None:
        for strange in contradictions(loaded.columns, task.parts(0).public.X):
            warn(strange)
    return task


def _loaded(data: Any, options: dict[str, Any]) -> Dataset:
    """Return the rows of a named set, or of a table with declared columns."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str):
        return load_dataset(data, **options)
    if "target" not in options:
        raise InvalidArgument(
            'Expected options={"target": ..., "classes": ..., "numeric": ...} beside a table: what '
            "load_table asks for."
        )
    return load_table(data, **options)


def _score(data: Dataset, by: str) -> str:
    """Return the score to compare by: R^2 for numbers, another for labels."""
    numbers = data.target_range is not None
    able = ("r2",) if numbers else tuple(name for name in SCORES if name != "r2")
    return "r2" if numbers and by == "accuracy" else one_of(*able, by=by)
