"""Private records, and the public feature spaces in which they are compared.

Everything that decides who is near whom is public: features are fitted on public inputs, centred on
their mean, and compared within a public radius. Each record's features come from its own row alone
(`transform_rows`), as sensitivity demands (docs/theory/private-knn.md#what-one-unit-can-move).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from tacit._checks import Floats, positive, unquoted
from tacit._progress import training_bar
from tacit._quiet import Secret
from tacit._warn import warn
from tacit.errors import InvalidArgument, WeakSignal
from tacit.features import is_row_wise, transform_rows

Look = Callable[[Floats], NDArray[Any]]
"""Makes an array with a row for each of some centred features."""
BLOCK = 2**14
"""Rows in memory that are looked at together."""
_TRIED = 3  # public rows that go where private ones are: a transformer is tried out on so many
_AT_ONCE = 2048
"""Private rows that are brought into the space at a time."""


_WILD = 100.0
"""How many times longer than the middle public row one may be before it is told."""


def _warn_of_wild(reach: float, middle: float) -> None:
    if reach > _WILD * middle > 0:
        warn(
            f"One public row is {reach / middle:.0f} times as far from the mean as the middle one, "
            "and sets the scale for all: take it out, or bound columns by public numbers first.",
            WeakSignal,
        )


def view_alone(features: Any, rows: NDArray[Any], public: NDArray[Any]) -> NDArray[Any]:
    """Return features of private rows, each as if it were alone; NaN where they fail. Secret.

    Parameters
    ----------
    features : transformer, fitted without private rows
    rows : array of shape (records, features), private inputs
    public : array of shape (rows, features)
        Public inputs. Any refusal depends on them alone: this may follow a release.

    Returns
    -------
    array, a row of features for each private row
    """
    with training_bar("Features of private records", total=len(rows)) as step:
        return unquoted(
            lambda: transform_rows(features, rows, public, step=step), "features of single rows"
        )


def count_units(people: NDArray[np.bytes_] | None, n_rows: int) -> int:
    """Return the number of units: people, or rows where each is its own. Secret."""
    return n_rows if people is None else int(np.unique(people).size)


@dataclass(frozen=True, slots=True)
class PublicSpace:
    """A public feature space: a fitted transformer (or None), a centre and a radius.

    Each record's features come from its own row alone
    (docs/theory/private-knn.md#what-one-unit-can-move).

    Parameters
    ----------
    features : transformer or None
        Fitted without private rows; None leaves inputs as they are.
    centre : array of shape (features,), public, subtracted from every row's features
    radius : float > 0, public bound on the norm of centred features
    public : array of shape (rows, features)
        Public inputs on which the transformer is tested before it reads a private one.
    """

    features: Any
    centre: Floats
    radius: float
    public: NDArray[Any]

    @classmethod
    def around(
        cls,
        features: Any,
        outside: NDArray[Any],
        radius: float | None = None,
        *,
        centred: bool = True,
    ) -> Self:
        """Fit features, centre and radius on public inputs alone.

        Parameters
        ----------
        features : transformer or None, cloned before it is fitted
        outside : array of shape (rows, features), the public inputs
        radius : float, optional, by default the largest norm among the public inputs
        centred : bool
            Whether the centre is their mean; 0 for features that are made with a norm.

        Returns
        -------
        PublicSpace
        """
        fitted = None if features is None else clone(features).fit(outside)
        view = _public_view(fitted, outside)
        centre = view.mean(axis=0) if centred else np.zeros(view.shape[1])
        if radius is None:
            lengths = np.linalg.norm(view - centre, axis=1)
            reach = float(lengths.max())
            _warn_of_wild(reach, float(np.median(lengths)))
            radius = 1.0 if centred and not reach > 0 else reach
        return cls(fitted, centre, positive(radius=radius), outside)

    @classmethod
    def given(cls, features: Any, radius: float | None, n_features: int) -> Self:
        """Use the features as given, with centre 0, without public inputs to fit them on.

        Parameters
        ----------
        features : transformer or None
            Fitted on public data by the caller; tacit's own that learn nothing are fitted on a
            zero.
        radius : float, a public bound on the norm of the features; None is refused
        n_features : int, number of input columns

        Returns
        -------
        PublicSpace
        """
        if radius is None:
            raise InvalidArgument(
                "Expected radius=, a public bound on the norm of the features, where no public "
                "inputs tell it."
            )
        zeros = np.zeros((1, n_features))
        if features is not None and is_row_wise(features) and not _is_fitted(features):
            features = clone(features).fit(zeros)
        return cls(features, np.zeros(1), positive(radius=radius), zeros)

    def sent(self) -> PublicSpace:
        """Return the same space with few public inputs, to be sent along with blocks of records.

        Returns
        -------
        PublicSpace
        """
        return replace(self, public=self.public[:_TRIED])

    def view(self, inputs: NDArray[Any]) -> Floats:
        """Return public inputs in this space, centred; all of them are transformed at once.

        Parameters
        ----------
        inputs : array of shape (rows, features), public

        Returns
        -------
        array of float64
        """
        return _public_view(self.features, inputs) - self.centre

    def inside(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return features of private rows, not centred, each as if it were alone. Secret.

        Parameters
        ----------
        rows : array of shape (records, features), private inputs

        Returns
        -------
        array, NaN where the transformer fails on a row
        """
        return rows if self.features is None else view_alone(self.features, rows, self.public)

    def seen(self, rows: NDArray[Any], look: Look) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Apply `look` to the features of private rows, each as if it were alone. Secret.

        A row on which the features fail or are not finite is left out: to refuse it, or to warn of
        it, would disclose that it is in the data.

        Parameters
        ----------
        rows : array of shape (records, features), private inputs
        look : callable
            From some centred features to an array with a row for each, treating each row by itself;
            called with no rows first, then with block after block.

        Returns
        -------
        seen : array, a row for each row that is not left out
        placed : array of bool, of shape (records,), which rows these are
        """
        inside = self.inside(rows)
        looks = [look(np.empty((0, inside.shape[1])))]
        places: list[NDArray[np.bool_]] = [np.empty(0, dtype=np.bool_)]
        for start in range(0, len(rows), _AT_ONCE):
            with np.errstate(all="ignore"):
                block = np.asarray(inside[start : start + _AT_ONCE], dtype=np.float64) - self.centre
                placed = np.asarray(np.isfinite(block).all(axis=1))
                looks.append(look(block if placed.all() else block[placed]))
            places.append(placed)
        return np.concatenate(looks), np.concatenate(places)


def _is_fitted(features: Any) -> bool:
    try:
        check_is_fitted(features)
    except NotFittedError:
        return False
    return True


def _public_view(features: Any, inputs: NDArray[Any]) -> Floats:
    view = inputs if features is None else features.transform(inputs)
    return np.asarray(view, dtype=np.float64)


@dataclass(frozen=True, slots=True, repr=False)
class PrivateRecords(Secret):
    """The private rows of a fit, their targets and people. Secret.

    Parameters
    ----------
    rows : array, inputs or their features, one row for each record
    targets : array of shape (records,), class indices, or numbers for a regression
    people : array of shape (records,), optional
        Person of each record as `units_of` names them; None where each is its own unit.
    """

    rows: NDArray[Any]
    targets: NDArray[Any]
    people: NDArray[Any] | None

    @property
    def by_person(self) -> bool:
        """Whether the unit is a person."""
        return self.people is not None

    @property
    def n_units(self) -> int:
        """Number of units."""
        return count_units(self.people, len(self.rows))

    def shares(self) -> Floats:
        """Return weights that sum to 1 for each person: 1/(number of the person's records).

        Returns
        -------
        array of float64, of shape (records,), secret
        """
        if self.people is None:
            return np.ones(len(self.targets))
        _, owner, count = np.unique(self.people, return_inverse=True, return_counts=True)
        return np.asarray(1.0 / count[owner])

    def seen_in(self, space: PublicSpace, look: Look) -> PrivateRecords:
        """Return the records with `look` applied in a space, without those that it leaves out.

        Parameters
        ----------
        space : PublicSpace
        look : callable, as for `PublicSpace.seen`

        Returns
        -------
        PrivateRecords
        """
        seen, placed = space.seen(self.rows, look)
        return replace(self.only(placed), rows=seen)

    def said(self, mechanism: Any, say: Say) -> Any:
        """Return the contribution of all records to a mechanism. Secret.

        Parameters
        ----------
        mechanism : ExactlySummed
        say : callable
            The contribution of some records, computed from them and public values alone.

        Returns
        -------
        Contributions or ScoredRecords
        """
        return say(self)

    def parts(self, work: Callable[[Iterator[PrivateRecords]], Any]) -> Iterator[Any]:
        """Yield the result of a pure function, as `StreamedRecords` does for each piece.

        Parameters
        ----------
        work : callable
            Goes through blocks of records; a person's may be in several.

        Yields
        ------
        any, once, secret
        """
        yield work(
            self.only(slice(start, start + BLOCK))
            for start in range(0, max(1, len(self.rows)), BLOCK)
        )

    def only(self, placed: NDArray[np.bool_] | slice) -> PrivateRecords:
        """Return some of the records, in the same order.

        Parameters
        ----------
        placed : array of bool, of shape (records,), or slice

        Returns
        -------
        PrivateRecords
        """
        people = None if self.people is None else self.people[placed]
        return PrivateRecords(self.rows[placed], self.targets[placed], people)


Say = Callable[[PrivateRecords], Any]
"""Makes what some records say to a mechanism, of these records and public things alone."""
