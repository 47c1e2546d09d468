"""A data set in memory, and its split into private, public and held-out parts.

Labels are indices into `classes`, which are declared, never read off the labels: a class that only
one person has would disclose that person. Printing a data set shows no record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import at_least, refuse
from tacit.errors import InvalidArgument
from tacit.features import Column

Label = str | int


class Parts(NamedTuple):
    """A data set in three parts.

    Parameters
    ----------
    private : Dataset, records whose privacy counts: only teachers see them
    public : Dataset, rows whose inputs are public; their labels are unused
    held_out : Dataset, rows for scores, declared public with their labels
    """

    private: Dataset
    public: Dataset
    held_out: Dataset


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Inputs `(records, features)` and class indices, with public metadata.

    Parameters
    ----------
    X : array of shape (records, features), for a table numbers and category indices
    y : array of shape (records,)
        Indices into `classes`; numbers where `target_range` is declared instead.
    classes : tuple of str or int, the declared labels, never read off the data
    name : str
    image_shape : tuple of int, optional, (height, width) where a row is an image
    columns : tuple of Column, optional, the declared columns where X is a table
    groups : array of shape (records,), optional, person of each record
    n_train : int, optional, length of the training part, which comes first
    target_range : tuple of float, optional
        (low, high), declared bounds of y where it holds numbers; `classes` is then empty.
    described_by : str, optional, the encoder of texts, for the statement

    Examples
    --------
    >>> data = Dataset(np.eye(3), np.array([0, 1, 0]), ("no", "yes"), "tiny")
    >>> data, len(data), data.labels.tolist()
    (Dataset(name='tiny', features=3, classes=2), 3, ['no', 'yes', 'no'])
    """

    X: NDArray[Any]
    y: NDArray[Any]
    classes: tuple[Label, ...]
    name: str
    image_shape: tuple[int, int] | None = None
    columns: tuple[Column, ...] | None = field(default=None, kw_only=True)
    groups: NDArray[Any] | None = field(default=None, kw_only=True)
    n_train: int | None = field(default=None, kw_only=True)
    target_range: tuple[float, float] | None = field(default=None, kw_only=True)
    described_by: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.X.shape[1] < 1:
            raise InvalidArgument(f"Expected X to be (records, features), got {self.X.shape}.")
        if self.y.shape != (len(self.X),):
            raise InvalidArgument("Expected one label for each record; the counts differ.")
        if self.target_range is not None:
            if self.classes or self.y.dtype.kind != "f" or not np.isfinite(self.y).all():
                raise InvalidArgument("Expected y to hold finite numbers, and no classes.")
        elif self.y.dtype.kind not in "iu" or ((self.y < 0) | (self.y >= len(self.classes))).any():
            raise InvalidArgument(f"Expected y to hold indices 0 .. {len(self.classes) - 1}.")
        if self.groups is not None and len(self.groups) != len(self.X):
            raise InvalidArgument("Expected one group for each record; the counts differ.")

    def __repr__(self) -> str:
        if self.target_range is not None:
            features, target_range = self.X.shape[1], self.target_range
            return f"Dataset(name={self.name!r}, {features=}, {target_range=})"
        features, classes = self.X.shape[1], len(self.classes)
        return f"Dataset(name={self.name!r}, {features=}, {classes=})"

    def __len__(self) -> int:
        return len(self.X)

    @property
    def labels(self) -> NDArray[Any]:
        """The records' labels, `classes[y]`, or numbers."""
        if self.target_range is not None:
            return np.asarray(self.y)
        return np.asarray(np.array(self.classes)[self.y])

    @property
    def train(self) -> Dataset:
        """The set's own training part."""
        return self.take(slice(0, self._own_split()))

    @property
    def test(self) -> Dataset:
        """The set's own test part."""
        return self.take(slice(self._own_split(), None))

    def _own_split(self) -> int:
        if self.n_train is None:
            raise InvalidArgument(f"Expected {self.name!r} to come in two parts; use split(...).")
        return self.n_train

    def take(self, rows: slice | ArrayLike) -> Dataset:
        """Return the records at these rows (a view for a slice), without a training part.

        Parameters
        ----------
        rows : slice or array, row numbers or a mask

        Returns
        -------
        Dataset
        """
        index = rows if isinstance(rows, slice) else np.asarray(rows)
        groups = None if self.groups is None else self.groups[index]
        return replace(self, X=self.X[index], y=self.y[index], groups=groups, n_train=None)

    def split(self, public: int, held_out: int, *, random_state: int | None = None) -> Parts:
        """Split into `public` rows, then `held_out` rows, and the private rest.

        A set with a test part takes public and held-out rows from it, and all its training part is
        private; another takes them from its first rows.

        Parameters
        ----------
        public : int >= 1, number of public inputs
        held_out : int >= 0, number of rows for scores
        random_state : int, optional, shuffles the rows first; None keeps the file's order

        Returns
        -------
        Parts, which are disjoint

        Examples
        --------
        >>> load = Dataset(np.eye(6), np.zeros(6, int), (0, 1), "tiny", n_train=4)
        >>> [len(part) for part in load.split(public=1, held_out=1)]
        [4, 1, 1]
        """
        first = 0 if self.n_train is None else self.n_train
        pool = np.arange(first, len(self))
        if random_state is not None:
            pool = np.random.default_rng(random_state).permutation(pool)
        end = at_least(1, public=public) + at_least(0, held_out=held_out)
        if end > pool.size or (self.n_train is None and end == pool.size):
            raise refuse("public + held_out", end, f"fewer than the rows of {self.name!r}")
        private = pool[end:] if self.n_train is None else slice(0, first)
        return Parts(self.take(private), self.take(pool[:public]), self.take(pool[public:end]))

    def features(self) -> Any:
        """Return the public, data-independent features that suit the set; None where none is known.

        Returns
        -------
        transformer or None
            For images `tacit.features.digit_features`, for a table `tacit.features.PublicBins`.
        """
        from tacit.features import PublicBins, digit_features

        if self.image_shape is not None:
            return digit_features(self.image_shape)
        return None if self.columns is None else PublicBins(self.columns)


def declared_classes(classes: int | Iterable[Label]) -> tuple[Label, ...]:
    """Return the declared labels; a number n stands for 0 .. n - 1."""
    if isinstance(classes, int | np.integer) and not isinstance(classes, bool):
        return tuple(range(at_least(2, classes=classes)))
    expectation = "a list of at least two different labels, or how many there are (0, 1, 2, ...)"
    if isinstance(classes, str | bytes) or not isinstance(classes, Iterable):
        raise refuse("classes", classes, expectation)
    labels = tuple(label.item() if isinstance(label, np.generic) else label for label in classes)
    usable = all(isinstance(label, str | int) for label in labels)
    if not usable or len(labels) < 2 or len(set(labels)) < len(labels):
        raise refuse("classes", labels, expectation)
    return labels
