"""What every estimator checks before anything private is touched, let alone released.

A refusal of private cells has one of a few fixed texts: what scikit-learn and NumPy say of an array
may quote it, and so may a warning, a cause or a context.

Nor may a record be private and public at once: then nothing is spent, and nothing is told of it. A
student may hold public inputs as they are, and a score on held-out rows is theirs: no price covers
a record that is also one of them. Rows are compared as numbers (float64, one zero), however they
are stored, and a row in single or half precision is the row that it was rounded from.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from tacit._checks import Floats, Integers, blocks, column_names, finite_rows, own_floats
from tacit._progress import training_bar
from tacit._quiet import kind_of, quiet
from tacit.errors import InvalidArgument
from tacit.features import transform_rows
from tacit.teachers import record_ids, unit_names

_NARROW = ("float32", "float16")
_LOW = np.uint64(32)
_CACHED = 2**15  # numbers that are mixed at a time
_LOOKED = 2**19  # numbers that are compared at a time
FROM_DATA = "from_data"
"""Value of `classes=` that reads the label set off the private labels: the statement says so."""

READ_CLASSES = (
    "the set of class labels was read from the private data, which no cost covers; declare "
    "classes= to remove this warning"
)


_Read = TypeVar("_Read")


class NotNumbers(InvalidArgument, TypeError):
    """A private cell is no number; scikit-learn's contract calls that a `TypeError`, too."""


def public_matrix(
    X_public: ArrayLike | None, n_features: int, names: NDArray[Any] | None = None
) -> Floats:
    """Return the public inputs: present, finite, with as many features as the private ones.

    Parameters
    ----------
    X_public : array of shape (rows, features)
        At least two rows; None is refused, because without public inputs there is nothing that may
        be published.
    n_features : int
        How many columns the private inputs have.
    names : array of str, optional
        The private columns, which the public ones must repeat where both came as frames.

    Returns
    -------
    array of float64, of shape (rows, features)
        In the same type as private rows.
    """
    if X_public is None:
        raise InvalidArgument(
            "Expected X_public=, the public inputs that teachers label and the student learns "
            "from; without public inputs there is nothing that may be published."
        )
    array = own_floats(X_public=X_public)  # as private rows: both are seen in one type
    if array.ndim != 2 or array.shape[0] < 2:
        raise InvalidArgument(f"Expected X_public of shape (rows, features), got {array.shape}.")
    if array.shape[1] != n_features:
        raise InvalidArgument(
            f"Expected X_public with {n_features} features as in X, got {array.shape[1]}."
        )
    columns = column_names(X_public)
    if names is not None and columns is not None and columns != list(names):
        raise InvalidArgument("Expected X_public to have the columns of X, in the same order.")
    if not np.isfinite(array).all():
        raise InvalidArgument("Expected X_public to hold finite numbers only; remove NaN and inf.")
    return array


def is_from_data(value: Any) -> bool:
    """Tell whether an argument asks to be read from the private data."""
    return isinstance(value, str) and value == FROM_DATA


def class_indices(y: NDArray[Any], classes: Any) -> tuple[NDArray[Any], Integers]:
    """Return the label set, and y as indices into it.

    Parameters
    ----------
    y : array of shape (records,)
        Private labels. Those that are not in the set are not named.
    classes : iterable or "from_data"
        The public set of labels, all words or all numbers. "from_data" reads it from y, which no
        cost covers and the statement then says. None is refused.

    Returns
    -------
    known : array
        The label set, sorted; at least two.
    indices : array of int64, of shape (records,)
        The place of each label in it. Secret.
    """
    if classes is None:
        raise InvalidArgument(
            'Expected classes= the public set of labels, or classes="from_data" to read it from '
            "the private labels, which the statement then says."
        )
    from_data = is_from_data(classes)
    if not from_data and np.ndim(classes) == 0:
        raise InvalidArgument(  # without a quote: somebody may write classes=set(y)
            "Expected classes= a list of all the labels there are, such as range(10) or ['no', "
            f"'yes']; got one {type(classes).__name__}."
        )
    declared = None if from_data else _declared(classes)
    return unquoted(lambda: _placed(y, declared))


def _declared(classes: Any) -> NDArray[Any]:
    """Return the declared labels in order: all words, or all numbers."""
    listed = list(classes)
    if len({_kind(label) for label in listed}) > 1:
        raise InvalidArgument("Expected classes= to be all words or all numbers, not some of each.")
    return np.unique(np.asarray(listed))


def _placed(y: NDArray[Any], declared: NDArray[Any] | None) -> tuple[NDArray[Any], Integers]:
    """Return the label set, unless declared that of y, and y as indices into it."""
    check_classification_targets(y)
    known = np.unique(y) if declared is None else declared
    if known.size < 2:
        raise InvalidArgument("Expected at least two classes; of one class there is no other.")
    names, labels = _comparable(known), _comparable(y)
    if np.unique(names).size < known.size or (names.dtype.kind == "f" and np.isnan(names).any()):
        raise InvalidArgument("Expected classes= of numbers that differ as float64; rename them.")
    strange = names.dtype.kind != labels.dtype.kind  # a word is no number, whatever it reads as
    place = np.zeros(len(y), dtype=np.int64)
    if not strange:
        place = np.searchsorted(names, labels).clip(0, known.size - 1)
    if strange or (names[place] != labels).any():
        raise InvalidArgument(
            "Expected every label of y to be one of classes=; some are not. Add them or drop rows."
        )
    return known, place.astype(np.int64)


def _comparable(labels: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as float64: an array's type may be one label's doing."""
    return labels.astype(np.float64) if labels.dtype.kind in "biuf" else labels


def _kind(label: Any) -> str | None:
    """Return whether a label is a word, bytes or a number; None for anything else."""
    kinds = {str: "word", bytes: "bytes", (bool, int, float, np.bool_, np.number): "number"}
    return next((name for kind, name in kinds.items() if isinstance(label, kind)), None)  # type: ignore[arg-type]


def _labels(y: Any) -> Any:
    """Return labels as an array of words or of numbers, none rewritten for the sake of another.

    NumPy makes 1 and True words, "1" and "True", as soon as one label beside them is a word.
    """
    if not isinstance(y, list | tuple) and np.asarray(y).dtype.kind != "O":
        return y
    cells = np.asarray(y, dtype=object)
    kinds = {_kind(label) for label in cells.ravel()}
    if len(kinds) > 1 or None in kinds:
        raise InvalidArgument(_REFUSALS["Unknown label type"])
    return np.array(cells.tolist())


def _numbers(y: Any) -> Any:
    """Return targets of which none is rewritten for the sake of another, as text may make them."""
    texts = isinstance(y, list | tuple) and np.asarray(y).dtype.kind in "SU"
    return np.asarray(y, dtype=object) if texts else y


def private_rows(
    estimator: Any, X: Any, y: Any, *, as_stored: bool = False, **checks: Any
) -> tuple[Any, Any]:
    """Validate private inputs and labels as scikit-learn does; no message quotes a cell.

    Parameters
    ----------
    estimator : estimator
        Whose `n_features_in_` and `feature_names_in_` are set or compared.
    X : array or frame of shape (records, features)
        Private inputs: finite numbers.
    y : array of shape (records,), or None
        Private labels or numbers.
    as_stored : bool
        Leave X in its type and order, for who makes float64 of some rows at a time.
    **checks
        What scikit-learn's `validate_data` takes; with `y_numeric=True` y must be numbers.

    Returns
    -------
    X : array of float64, of shape (records, features)
        Finite, in C order, whatever type it, or one row of it, has: another type, or another
        order, would be rounded otherwise in the rows of everybody.
    y : array of shape (records,), or None
        As float64 with `y_numeric=True`.
    """
    found = unquoted(lambda: _validated(estimator, X, y, as_stored, checks))
    if found[1] is not None and found[1].ndim < unquoted(lambda: np.asarray(y).ndim):
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; its one column is used.",
            DataConversionWarning,
            stacklevel=3,
        )
    return found


def _validated(
    estimator: Any, X: Any, y: Any, as_stored: bool, checks: dict[str, Any]
) -> tuple[Any, Any]:
    numeric = checks.get("y_numeric", False)
    if y is not None and not isinstance(y, str) and not checks.get("multi_output"):
        y = _numbers(y) if numeric else _labels(y)
    found = validate_data(estimator, X, y, dtype="numeric", **checks)
    rows, said = found if isinstance(found, tuple) else (found, None)
    if rows.dtype.kind not in "biuf":
        raise NotNumbers(_NO_NUMBER)
    if not as_stored or rows.dtype.itemsize > 8:  # a longer number may be none as float64
        rows = own_floats(X=rows)
    said = said.astype(np.float64) if numeric else said
    if not finite_rows(rows).all() or (numeric and not np.isfinite(said).all()):
        raise InvalidArgument(_NOT_FINITE)
    return rows, said


def unquoted(work: Callable[[], _Read]) -> _Read:
    """Return what `work` reads of private cells; if it fails, in words that quote none of them.

    It is silenced: whether anything is said may depend on a single cell.
    """
    with quiet():
        try:
            return work()
        except InvalidArgument:
            raise
        except BaseException as error:
            refusal = _refusal(kind_of(error), _said(error))
    raise refusal  # out here it has no context, which would be shown or logged with it


_NO_NUMBER = (
    "Expected every cell of X to be a number: an argument must be a string that reads as a number, "
    "or a real number."
)
_NOT_FINITE = "Expected X and y to hold finite numbers only; some cell is NaN, inf or too large."
_SHAPE = (
    "Expected X of shape (rows, features). Reshape your data with .reshape(-1, 1) if it has a "
    "single feature, or .reshape(1, -1) if it is a single record."
)
_TEXT = (
    "Expected X and y to hold numbers (y may hold labels); some cell is text. Encode categories "
    "with a public list of them."
)
_REFUSALS = {
    "y is None": "Expected y: this estimator requires y to be passed, but the target y is None.",
    "Complex data": "Expected X and y to hold real numbers. Complex data not supported.",
    "could not convert": _TEXT,
    "bytes/strings": _TEXT,
    "argument must be": _NO_NUMBER,
    "Sparse": "Expected dense X and y. Sparse data is not supported; use .toarray().",
    "sparse": "Expected dense X and y. Sparse data is not supported; use .toarray().",
    "Reshape your data": _SHAPE,
    "expected <=": _SHAPE,
    "NaN": _NOT_FINITE,
    "infinity": _NOT_FINITE,
    "too large": _NOT_FINITE,
    "inconsistent": "Expected y with one entry for each row of X: the input variables have "
    "inconsistent numbers of samples.",
    "1d array": "Expected y of shape (rows,): y should be a 1d array.",
    "feature(s)": "Expected X with columns: 0 feature(s) (shape=(, 0)) while a minimum of 1 is "
    "required.",
    "sample(s)": "Expected X with rows: 0 sample(s) while a minimum of 1 is required.",
    "Unknown label type": "Expected y to hold labels, words or whole numbers. Unknown label type: "
    "something else.",
    "eature names": "Expected the columns of X to have names that are text, or no names.",
}
"""What is said where scikit-learn's message has these words; they are those of its contract."""


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as another:  # an error that cannot even say what it is
        kind_of(another)
        return ""


def _refusal(kind: str, said: str) -> InvalidArgument:
    for words, text in _REFUSALS.items():
        if words in said:
            return NotNumbers(text) if text is _NO_NUMBER else InvalidArgument(text)
    return InvalidArgument(
        "Expected X and y to be arrays of numbers (y may hold labels), one row a record; reading "
        f"them fails with {kind}."
    )


def view_alone(features: Any, rows: NDArray[Any], public: NDArray[Any]) -> NDArray[Any]:
    """Return features of private rows, each as if it were alone; NaN where they fail. Secret.

    Parameters
    ----------
    features : transformer
        Fitted without private rows.
    rows : array of shape (records, features)
        Private inputs. Secret.
    public : array of shape (rows, features)
        Public inputs. What is refused, or not, depends on them alone: this may follow a release.

    Returns
    -------
    array
        A row of features for each private row.
    """
    with training_bar("Features of private records", total=len(rows)) as step:
        return unquoted(lambda: transform_rows(features, rows, public, step=step))


def units_of(groups: Any, n_rows: int) -> NDArray[np.bytes_] | None:
    """Return the person of each row as a name of fixed length, or None where each is its own unit.

    Parameters
    ----------
    groups : sequence or array of shape (records,), or None
        Whose each row is. Secret.
    n_rows : int
        How many rows there are; as many ids are expected.

    Returns
    -------
    array of bytes, of shape (records,), or None
        A name for each row, the same for rows of one person. Secret.

    Notes
    -----
    Each id is written by itself (`unit_names`): a list is never made an array, in which one
    person's odd id would change how everybody else's is written.
    """
    if groups is None:
        return None
    listed = isinstance(groups, list | tuple | range) or np.ndim(groups) == 1
    people = unit_names(groups) if listed else None
    if people is None or len(people) != n_rows:
        raise InvalidArgument("Expected groups= to say for each row of X whose it is, once.")
    return people


def count_units(people: NDArray[np.bytes_] | None, n_rows: int) -> int:
    """Return how many units there are: people, or rows where each is its own. Secret."""
    return n_rows if people is None else int(np.unique(people).size)


ALLOWED_OVERLAP = (
    "equal rows were allowed, not looked for: a private row may also be a public or a held-out "
    "one, which no cost covers"
)


class Overlap:
    """Looks, part by part, for private rows or scans that are also among others; which is secret.

    That a run is refused depends on private rows, but nothing was spent, and only the owner sees
    it: a by-product, listed with why in docs/sharp-edges.md.
    """

    def __init__(self, others: NDArray[Any], kind: str = "public") -> None:
        self._kind, self._others = kind, _Known(others)
        self._stored = {narrow: _Known(_rounded(others, narrow)) for narrow in _NARROW}
        self._equal = dict.fromkeys(("float64", *_NARROW), False)
        self._halves, self._own_halves = _Halves(), _Halves()
        self._halves.look(others)

    def look(self, rows: NDArray[Any]) -> None:
        """Compare some of the private rows."""
        self._own_halves.look(rows)
        halves = self._halves.found or self._own_halves.possible  # else half precision is nobody's
        self._equal["float64"] |= self._others.has(rows)
        for narrow, stored in self._stored.items():
            if narrow == "float32" or halves:
                self._equal[narrow] |= stored.has(rows) or self._others.has(_rounded(rows, narrow))

    def seen(self) -> list[bool]:
        """Return what was seen so far, for `join`. Secret."""
        return [*self._equal.values(), *self._own_halves.seen()]

    def join(self, seen: list[bool]) -> None:
        """Take in what another process saw in other rows, among the same others."""
        *equal, all_short, any_fraction = seen
        self._equal = {
            kind: own or theirs
            for (kind, own), theirs in zip(self._equal.items(), equal, strict=True)
        }
        self._own_halves.join(all_short, any_fraction)

    def refuse(self) -> None:
        """Refuse all that was looked at, if one of them is among the others."""
        equal = self._equal["float64"] or self._equal["float32"]
        if self._halves.found or self._own_halves.found:
            equal |= self._equal["float16"]
        if equal:
            raise InvalidArgument(
                f"Expected no private row that equals a {self._kind} one; take it out of one side. "
                "If equal rows are other people, say allow_overlap=True (in a configuration: "
                "allow_overlap = true in [data])."
            )


def refuse_overlap(X: NDArray[Any], others: NDArray[Any], kind: str = "public") -> None:
    """Refuse private rows, or scans, of which one is also among the others (`Overlap`)."""
    overlap = Overlap(others, kind)
    for some in blocks(len(X), _LOOKED // max(1, math.prod(X.shape[1:]))):
        overlap.look(X[some])  # some at a time: it makes copies
    overlap.refuse()


class _Known:
    """Rows that others are looked up among: by a quick mixture of their bits, then by their ids."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self._ids = set(record_ids(rows).tolist())
        self._mixed = np.unique(_mixed(rows))

    def has(self, rows: NDArray[Any]) -> bool:
        """Tell whether one of some rows is among them."""
        if not self._mixed.size or not len(rows):
            return False
        mixed = _mixed(rows)
        place = np.searchsorted(self._mixed, mixed).clip(max=self._mixed.size - 1)
        alike = rows[self._mixed[place] == mixed]
        return len(alike) > 0 and not self._ids.isdisjoint(record_ids(alike).tolist())


def _mixed(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a number for each row, equal for rows with one id; few others share it."""
    width = int(np.prod(rows.shape[1:]))
    odd = np.random.default_rng(0).integers(2**63, size=width, dtype=np.uint64) * 2 + 1
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for some in blocks(len(rows), _CACHED // max(width, 1)):
        with np.errstate(all="ignore"):
            flat = np.array(rows[some], dtype=np.float64).reshape(-1, width)
        flat[np.isnan(flat)] = np.nan  # one for all, as in ids
        flat += 0.0  # and no negative zero
        bits = flat.view(np.uint64)
        np.einsum("ij,j->i", bits ^ (bits >> _LOW), odd, out=mixed[some])
    return mixed


class _Halves:
    """Tells whether all rows are half precision, and not just small whole numbers.

    Rows are float64 where they come in, so that their type does not tell.
    """

    def __init__(self) -> None:
        self._all_short, self._any_fraction = True, False

    def look(self, rows: NDArray[Any]) -> None:
        if self._all_short:
            with np.errstate(all="ignore"):
                self._all_short = bool((rows.astype(np.float16) == rows).all())
                self._any_fraction |= bool((rows != np.floor(rows)).any())

    def seen(self) -> tuple[bool, bool]:
        return self._all_short, self._any_fraction

    def join(self, all_short: bool, any_fraction: bool) -> None:
        self._all_short &= all_short
        self._any_fraction |= any_fraction

    @property
    def possible(self) -> bool:
        """Whether nothing so far is anything else."""
        return self._all_short

    @property
    def found(self) -> bool:
        return self._all_short and self._any_fraction


def _rounded(rows: NDArray[Any], narrow: str) -> NDArray[Any]:
    """Return the rows that change when they are stored in a narrower type, so stored."""
    with np.errstate(all="ignore"):
        stored = rows.astype(narrow)
        axes = tuple(range(1, rows.ndim))
        return np.asarray(stored[(stored != rows).any(axis=axes)], dtype=np.float64)
