"""Base of the estimators that train a student: public inputs in, a ledger, a student out.

After `fit` such an object holds the student, the releases and the ledger, and nothing private.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from tacit._checks import Floats, Integers, column_names, positive, refuse
from tacit._warn import warn
from tacit.datasets import (
    TableInputs,
    TableStream,
    check_columns,
    contradictions,
    is_table,
    open_table,
)
from tacit.errors import BudgetExceeded, InvalidArgument, ShiftWarning, WeakSignal
from tacit.features import needs_strength, presumptions, with_dimensions, with_strength
from tacit.ledger import (
    LARGE_DELTA,
    ONE_RUN,
    Budget,
    KeptReleases,
    Ledger,
    Statement,
    epsilon_text,
)
from tacit.mechanisms import NoisySum, Plan, Release
from tacit.methods.calibration import PlansWith, calibrate
from tacit.methods.checked_scores import (
    FEWEST_FRESH,
    MOVED,
    PURPOSE,
    UNCHECKED,
    check_of,
    check_plan,
    said_by_scores,
    scores_apart,
    share_right,
)
from tacit.methods.settings import CHECKS, Checks, Parameters, share_of_check
from tacit.noise import InsecureNoise
from tacit.records import (
    ALLOWED_OVERLAP,
    READ_CLASSES,
    Labels,
    Numbers,
    PrivateRecords,
    Spread,
    StreamedRecords,
    Target,
    bounds_of,
    check_containers,
    is_from_data,
    labels_of,
    public_matrix,
    read_records,
    refuse_overlap,
    streamed,
)
from tacit.students import CombinedStudent, ScoreMap, ValueStudent, choose_queries
from tacit.summaries import Shift

_OWNERS = ("ledger", "noise")  # what stays with the owner of the records
_ROUNDING = 1e-9  # what a price may be above the epsilon for which noise was chosen
_TRIED = 1000  # public inputs on which a student is tried out
_DIRECTIONS = 100  # that whitening keeps where no number of records is asked for
_NOT_ASKED = object()
ONE_LABEL = (
    "The student says the same label of every public input that was tried: labels that are no "
    "better than the most frequent one. Its probabilities may still rank inputs (a threshold uses "
    "that: tacit predict --threshold balanced); more records or a larger epsilon may help."
)
RECORD = "record"
"""The unit of a ledger where each row is its own."""


@dataclass(frozen=True, slots=True)
class NewLedger:
    """A ledger that `fit` makes, for the estimator's epsilon and delta: `ledger=NewLedger(...)`.

    Parameters
    ----------
    path : path, optional
        Its file; None for one in a temporary directory. A run's is `run.ledger` in its folder.
    dataset : str
        Name of the data, for the statement. A run takes `name` of `[data]`, or the source.
    allow_large_delta : bool
        True: do not compare delta with the number of records or people; the statement then warns
        of that. In run.toml: `[privacy]`.
    one_run : bool
        No other run uses it: the statement then starts by stating that it covers one run alone, as
        for a ledger in a temporary directory.
    """

    path: str | os.PathLike[str] | None = None
    dataset: str = ""
    allow_large_delta: bool = False
    one_run: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Task:
    """What is public about y: the number of classes, and the fitted attributes of it."""

    n_classes: int | None = None
    public: dict[str, Any] = field(default_factory=dict)


class _Columns(NamedTuple):
    """The columns of a fit: how many, their names, and how a table declares them."""

    width: int
    names: list[str] | None
    declared: TableInputs | None

    def note(self, model: Any) -> None:
        """Set a model's columns, as scikit-learn calls them."""
        model.__dict__.pop("feature_names_in_", None)  # an earlier fit's
        model.n_features_in_ = self.width
        if self.names is not None:
            model.feature_names_in_ = np.array(self.names, dtype=object)
        model._declared = self.declared


@dataclass(eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]  # sklearn is untyped
    """An estimator whose predictions are a student's; the base class of all methods.

    Parameters
    ----------
    epsilon : float
        Epsilon of the worst-case budget. It sets the noise, also where a `Ledger` is given: all
        releases of a fit cost at most this together. In run.toml: `[privacy]`.
    delta : float
        Delta of that budget, below one over the number of records or people; a given `Ledger`
        counts with its own instead. In run.toml: `[privacy]`.
    ledger : Ledger, NewLedger or path, optional
        What is charged. A `Ledger` as it is; at a path, or by a `NewLedger`, one is made for
        epsilon and delta; None makes it in a temporary directory. A run has its own, `run.ledger`.
    allow_overlap : bool
        True: do not look for private rows that equal public ones; the ledger then records, for
        ever, that this was not checked. False: such a row is refused. In run.toml: `[data]`.
    noise : InsecureNoise, optional
        Seeded noise for tests and research, without any privacy; the statement states so. None:
        secure noise, the only one of a run.
    random_state : int, optional
        Seeds public draws, such as queries or first weights, never noise. In run.toml: `seed`, at
        the top.

    Attributes
    ----------
    student_ : student
        The model to publish: it saw public inputs and releases only.
    ledger_ : Ledger
        The ledger that was charged.
    statement_ : Statement
        What may be claimed of all that this ledger has released so far.
    n_features_in_ : int
        How many columns X had; `feature_names_in_` are their names, if it had any.

    Notes
    -----
    Estimators are dataclasses, whose fields are the constructor's arguments. In run.toml these
    arguments are in `[privacy]`, in `[data]` and at the top; those of a subclass in its method's
    own table.
    """

    _: KW_ONLY
    epsilon: float = 1.0
    delta: float = 1e-5
    ledger: Any = None
    allow_overlap: bool = False
    noise: InsecureNoise | None = None
    random_state: int | None = None
    ledger_: Ledger = field(init=False)
    _kept: KeptReleases = field(init=False, default_factory=KeptReleases)
    """Where a run keeps its releases; by default nowhere."""
    _declared: TableInputs | None = field(init=False, default=None)
    """How inputs are read, where the fit was one on a table."""
    _faults_of_run: tuple[str, ...] = field(init=False, default=())
    """What no cost covers of a configured run: what its other tables ask for, not the rows."""

    _unit: ClassVar[str] = RECORD
    """Whose privacy a new ledger counts where nobody says whose the private rows are."""
    _own: ClassVar[dict[str, Parameters]] = {}
    """Of each argument that holds settings, this method's own."""
    _fixed: ClassVar[frozenset[str]] = frozenset()
    """Which of those settings this method does not leave to anybody."""

    def set_params(self, **params: Any) -> Self:
        """Set arguments, or parts of one: `set_params(training__epochs=5)`."""
        for name, own in self._own.items():
            if any(key.startswith(f"{name}__") for key in params):
                given = params.get(name, getattr(self, name))
                params[name] = type(own).of(**{name: given})
        super().set_params(**params)
        return self

    def _settings(self, name: str) -> Any:
        """Return the settings in an argument, with this method's own in place of None."""
        own = self._own[name]
        given = type(own).of(**{name: getattr(self, name)})
        for part in self._fixed:
            value = getattr(given, part, None)
            if value not in (None, getattr(own, part, None)):
                kind = type(self).__name__
                raise refuse(part, value, f"left out: {kind} has {getattr(own, part)!r}")
        return given.or_else(own)

    def _given_ledger(self) -> Ledger | None:
        """Return the ledger that was given; None where this fit makes its own."""
        return self.ledger if isinstance(self.ledger, Ledger) else None

    def _new_ledger(self) -> NewLedger:
        """Return the terms of a ledger that this fit makes."""
        return self.ledger if isinstance(self.ledger, NewLedger) else NewLedger(self.ledger)

    def _budget(self) -> Budget:
        """Return what sets the noise: epsilon, at the delta with which the ledger will count it."""
        ledger = self._given_ledger()
        delta = self.delta if ledger is None else ledger.usable_delta
        return Budget(positive(epsilon=self.epsilon), delta)

    def _calibrated(self, plans_with: PlansWith, **how: Any) -> list[Plan]:
        """Return plans that together cost at most epsilon, as this fit's ledger will count it."""
        return calibrate(plans_with, self._budget(), ledger=self._given_ledger(), **how)

    def _gaussian_noise(self) -> float:
        """Return sigma over sensitivity with which Gaussian releases together cost epsilon."""
        (plan,) = self._calibrated(lambda noise: [Plan(NoisySum(noise, 1, 1), 1)])
        return 1 / math.sqrt(plan.mu_squared() or math.nan)

    def _main_share(self) -> float:
        """Return the share of mu^2 that trains the student; the rest checks its scores."""
        return 1.0

    def _check_plans(self) -> list[Plan]:
        """Return the last releases, of the student's scores; none by default."""
        return []

    def _check_delta(self, n_units: int) -> None:
        """Refuse too large a delta; the number of units goes into no file and no message.

        The refusal itself tells on which side of 1/delta the number is, which one unit can change:
        a leak, listed with why in docs/sharp-edges.md. At such a delta a release may be one whole
        record.
        """
        ledger = self._given_ledger()
        delta = self.delta if ledger is None else ledger.budget.delta
        if not (ledger or self._new_ledger()).allow_large_delta and delta * n_units >= 1:
            raise InvalidArgument(
                f"Expected delta={delta!r} to be below one over the number of records or people; "
                "lower it, or say ledger=NewLedger(allow_large_delta=True) (in a configuration: "
                "allow_large_delta = true in [privacy])."
            )

    def _keep_apart(self, rows: NDArray[Any], outside: NDArray[Any] | None) -> None:
        """Refuse a private row or scan that is also a public one, unless that was allowed."""
        if not isinstance(self.allow_overlap, bool):
            raise refuse("allow_overlap", self.allow_overlap, "True or False")
        if outside is not None and not self.allow_overlap:
            refuse_overlap(rows, outside)

    def _check_unit(self, by_person: bool) -> None:
        """Refuse a ledger of another unit than the rows have.

        People on a ledger of records would claim too little: one record less can reverse what its
        person contributes, which moves a sum by two bounds.
        """
        ledger = self._given_ledger()
        if ledger is None or by_person == (ledger.unit not in (RECORD, self._unit)):
            return
        if by_person:
            raise InvalidArgument(
                f"Expected a ledger whose unit is the person where groups= are given, got one of "
                f'unit={ledger.unit!r}; create it with unit="person".'
            )
        raise InvalidArgument(
            f"Expected groups= for a ledger whose unit is {ledger.unit!r}: whose each "
            "row is. Where each has one row, groups=range(len(X)) says so."
        )

    def _open_ledger(self, *, by_person: bool, **terms: Any) -> Ledger:
        """Return the ledger that was given, or make one for this fit's budget."""
        self._check_unit(by_person)
        if (given := self._given_ledger()) is not None:
            return given
        new = self._new_ledger()
        path = new.path
        if path is None:
            path = Path(tempfile.mkdtemp(prefix="tacit-")) / "run.ledger"
        return Ledger(
            path,
            budget=Budget(self.epsilon, self.delta),
            unit="person" if by_person else self._unit,
            dataset=new.dataset,
            allow_large_delta=new.allow_large_delta or None,
            **terms,
        )

    def _declared_faults(self) -> tuple[str, ...]:
        """Return what no cost covers of what the constructor's arguments ask for.

        Every release of a fit writes it into the ledger for good. It may depend on arguments
        alone, not on a private row (`tacit.ledger.chain`).
        """
        terms = self._given_ledger() or self._new_ledger()
        alone = isinstance(terms, NewLedger) and (terms.one_run or terms.path is None)
        asked = {
            ONE_RUN: alone,
            LARGE_DELTA: terms.allow_large_delta,
            ALLOWED_OVERLAP: self.allow_overlap,
            READ_CLASSES: is_from_data(getattr(self, "classes", None)),
        }
        faults = (fault for fault, is_asked in asked.items() if is_asked)
        # Teachers see private rows; so does a student, where scores are checked, or asked again.
        return (*faults, *presumptions(self), *self._faults_of_run)

    def _released(
        self,
        ledger: Ledger,
        plan: Plan,
        answers: Callable[[], Any],
        purpose: str,
        *,
        inputs: Sequence[ArrayLike] = (),
        faults: Sequence[str] | None = None,
        **public: Any,
    ) -> Release:
        """Return what a fit releases by a plan: stored by an earlier start, or paid for now.

        `answers` makes what is secret, and is not called for a stored release; `inputs` are the
        public inputs of the release.
        """
        fresh = self.__dict__.get("ledger_") is not ledger
        before = len(ledger) if fresh else 0
        try:
            return self._kept.release(
                ledger,
                plan,
                answers,
                purpose=purpose,
                inputs=inputs,
                noise=self.noise,
                faults=self._declared_faults() if faults is None else faults,
                **public,
            )
        finally:
            if fresh and len(ledger) > before:
                # Now, not at the end: whatever stops this fit, what it has spent can be asked. An
                # earlier fit's student would get this fit's statement.
                self.__dict__.pop("student_", None)
                self.ledger_ = ledger

    def _chosen(self, view: NDArray[Any], number: int | None) -> Integers:
        """Return `number` public inputs to query, chosen from public inputs alone."""
        strategy, seed = self._settings("queries").strategy, self.random_state
        return choose_queries(view, number, strategy=strategy, random_state=seed)

    def _refuse_early(self, ledger: Ledger, plans: Sequence[Plan], *inputs: ArrayLike) -> int:
        """Let the ledger refuse before private rows are used; return how many releases are stored.

        Those of an earlier start of the same run are paid for, if they have the same public
        `inputs`.
        """
        kept = self._kept.start(ledger, *inputs, plans=plans)
        self._refuse_beyond_epsilon(plans)
        self._refuse_beyond(ledger, plans[kept:])
        return kept

    @staticmethod
    def _refuse_beyond(ledger: Ledger, plans: Sequence[Plan]) -> None:
        if ledger.would_exceed(*plans):
            raise BudgetExceeded(
                f"Expected a run within the budget of {ledger!r}: it would exceed what is left. "
                "Nothing was spent; ask for a smaller epsilon= (more noise) or fewer queries."
            )

    def _refuse_beyond_epsilon(self, plans: Sequence[Plan]) -> None:
        """Let a run on a shared ledger spend no more than its own epsilon.

        In Python a mechanism with its own noise may cost more.
        """
        ledger = self._given_ledger()
        if ledger is None or self._kept.folder is None:
            return
        if (price := ledger.price(*plans)) > self.epsilon * (1 + _ROUNDING):
            raise BudgetExceeded(
                f"Expected a run within its own epsilon={self.epsilon!r}: it would cost "
                f"{epsilon_text(price)} at delta={ledger.usable_delta!r}. Nothing was spent."
            )

    def _new_student(self) -> Any:
        """Return a student of raw public inputs, with the public features unless it has its own."""
        known = hasattr(self.student, "__sklearn_tags__")  # else not an estimator, or None
        if known and (is_classifier(self.student) or is_regressor(self.student)):
            raise InvalidArgument(
                f"Expected student={type(self.student).__name__} to be a student: wrap an "
                "estimator of scikit-learn in SupervisedStudent(...) or ValueStudent(...)."
            )
        return self._with_features(
            self._default_student() if self.student is None else clone(self.student)
        )

    def _with_features(self, student: Any) -> Any:
        if self.features is not None and getattr(student, "features", 0) is None:
            student.set_params(features=clone(self._view()))
        return student

    def _view(self) -> Any:
        """Return the public features; set the output dimension from the declared n mu.

        Never from the counted records: the dimension would depend on them. Methods without
        `n_records` use a hundred directions.
        """
        if not needs_strength(self.features):
            return self.features
        known = getattr(self, "n_records", _NOT_ASKED)
        if known is _NOT_ASKED:
            return with_dimensions(self.features, _DIRECTIONS)
        if not isinstance(known, Integral):
            return self.features
        return with_strength(self.features, int(known) / self._gaussian_noise())

    def _default_student(self) -> Any:
        return CombinedStudent()

    @property
    def statement_(self) -> Statement:
        """What may be claimed of all that was released so far: never older than the ledger."""
        return self.ledger_.statement()

    def _notes(self) -> list[str]:
        """Return further notes of a report; public."""
        return []

    def _public_facts(self) -> dict[str, Any]:
        """Return what a user of the student needs to read its output, as plain data."""
        return {}

    def _student_inputs(self, X: ArrayLike) -> NDArray[Any]:
        """Validate inputs for the student; there must be one."""
        check_is_fitted(self, "student_")
        return self._inputs(X)

    def _inputs(self, X: Any) -> NDArray[Any]:
        """Return inputs with the columns of the fit, as numbers."""
        X = self._opened(X)
        self._check_columns(X)
        if isinstance(X, TableStream):
            X = np.concatenate(list(X.inputs_only()))
        elif self._declared is not None and column_names(X) is not None:
            X = self._declared.read(X)
        return np.asarray(validate_data(self, X, dtype="numeric", reset=False), dtype=np.float64)

    def _opened(self, X: Any) -> Any:
        """Open a file, or a reader, as the table of the fit was; others are read as they are."""
        if self._declared is None or not _is_to_be_opened(X):
            return by_names(X, getattr(self, "feature_names_in_", None))
        return self._declared.opened(X)

    def _check_columns(self, X: Any) -> None:
        """Refuse columns other than those of the fit's table or frame."""
        check_columns(X, self._declared, getattr(self, "feature_names_in_", None))

    def save(self, path: str | Path) -> None:
        """Write the student, what its output means and the statement to one file, without pickle.

        Parameters
        ----------
        path : path
            The file to write; nothing in it is private. `tacit.students.load_student` reads it.
        """
        check_is_fitted(self, "student_")
        statement = json.loads(self.statement_.to_json())
        self.student_.save(path, extra={**self._public_facts(), "statement": statement})

    def report(self, path: str | Path | None = None) -> str:
        """Return the HTML report of the ledger; write it, too, where a path is given.

        Parameters
        ----------
        path : path, optional
            The file to write.

        Returns
        -------
        str
            One page of HTML, which loads nothing from elsewhere; public.
        """
        return self._report(path)

    def _report(self, path: str | Path | None, **shown: Any) -> str:
        from tacit.methods.about import learned_model
        from tacit.report import render_report, write_report

        check_is_fitted(self, "ledger_")
        shown |= {"statement": self.statement_, "learned": learned_model(self)}
        shown["notes"] = self._notes()
        if path is not None:
            write_report(path, self.ledger_, **shown)
        return render_report(self.ledger_, **shown)


@dataclass(eq=False, repr=False)
class RowEstimator(PrivateEstimator):
    """An estimator of private rows; subclasses define what y means and how it is learned."""

    _needs_public: ClassVar[bool] = True
    _needs_y: ClassVar[bool] = True
    _streams: ClassVar[bool] = False
    """Whether private rows need not fit into memory."""
    _as_stored: ClassVar[bool] = False
    """Whether rows in memory stay in their type and order: float64 is made of some at a time."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        X_public: Any = None,
        groups: Any = None,
    ) -> Self:
        """Learn from private rows through the ledger; see the class for the public inputs.

        Parameters
        ----------
        X : array of shape (rows, features), path or table
            The private rows. Secret; no error quotes them. A Parquet file or folder, a CSV file,
            or any table that `tacit.datasets.open_table` opens, or has opened.
        y : array of shape (rows,) or (rows, labels), or str, optional
            Labels, numbers, or a matrix of 0 and 1. Secret. Of a table the name of a column.
            Autoencoders take none.
        X_public : array of shape (public rows, features), path or table, optional
            Public inputs with the same columns, none of them a private row. The student may store
            them as they are. Required, unless the class says otherwise.
        groups : array of shape (rows,), or str, optional
            Whose each row is: then one person is one unit, with all records. Secret. Of a table
            the name of a column; a person's rows may be anywhere in it.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        BudgetExceeded
            If the ledger refuses; nothing is spent then.

        Notes
        -----
        Everything is validated and priced before private rows are used; the ledger is charged
        before noise is drawn. Methods of sums, PATE and, with public inputs, Private-kNN read a
        table batch by batch; the others read it into memory.
        """
        if (table := self._table(X, y, groups)) is not None:
            with self._as_declared(table):
                return self._fit_table(table, X_public)
        return self._fit_arrays(X, y, X_public, groups)

    def _fit_arrays(self, X: Any, y: Any, X_public: Any, groups: Any) -> Self:
        """Learn from arrays, lists or a frame."""
        check_containers(X, y, needs_y=self._needs_y)
        target = self._target(y)
        how: dict[str, Any] = {"as_stored": self._as_stored}
        private, names = read_records(X, y if self._needs_y else None, groups, target, **how)
        outside = None
        if self._needs_public or X_public is not None:
            outside = public_matrix(by_names(X_public, names), private.rows.shape[1], names)
        return self._fit_records(private, target, outside, names, None)

    def _fit_records(
        self,
        private: PrivateRecords,
        target: Target,
        outside: Floats | None,
        names: list[str] | None,
        declared: TableInputs | None,
    ) -> Self:
        """Learn from records in memory; `declared` where they were read from a table."""
        self._keep_apart(private.rows, outside)
        columns = _Columns(private.rows.shape[1], names, declared)
        return self._begin(private, self._task(target), outside, columns)

    def _begin(self, private: AnyRecords, task: Task, outside: Any, columns: _Columns) -> Self:
        """Learn from records that were checked."""
        self._kept.about = () if outside is None else (outside,)
        self._check_unit(private.by_person)
        self._check_delta(private.n_units)
        before = getattr(self, "student_", None)
        try:
            self._learn(private, task, outside)
        except BaseException:
            # Refused: an earlier student stays as it was, with the columns that it knows.
            if getattr(self, "student_", None) is not before:
                columns.note(self)
            raise
        columns.note(self)
        return self

    def _table(self, X: Any, y: Any, groups: Any) -> TableStream | None:
        """Return the table that X is, or names; None where it is an array."""
        if isinstance(X, TableStream):
            if y is not None or groups is not None:
                raise InvalidArgument("Expected no y and groups beside a table that names them.")
            return X
        if not isinstance(X, str | os.PathLike) and not (isinstance(y, str) and is_table(X)):
            return None
        if self._needs_y and not isinstance(y, str):
            raise InvalidArgument("Expected y to be the name of a column, where X is a table.")
        classes = getattr(self, "classes", None)
        if is_from_data(classes) or (classes is None and isinstance(self, PrivateClassifier)):
            raise InvalidArgument(
                "Expected classes= to be declared where X is a table: they are not looked for."
            )
        bounds = self._bounds() if isinstance(self, PrivateRegressor) else None
        return open_table(
            X,
            target=y if self._needs_y else None,
            classes=() if classes is None or bounds is not None else classes,
            target_range=bounds,
            groups=groups,
        )

    @contextlib.contextmanager
    def _as_declared(self, table: TableStream | None) -> Iterator[None]:
        """Use labels, or bounds, that the table declares and this estimator leaves open.

        Its settings are afterwards as they were given.
        """
        told = (
            {} if table is None else {"classes": table.classes, "target_range": table.target_range}
        )
        ours = {name: told[name] for name in told if told[name] and getattr(self, name, ()) is None}
        self.__dict__.update(ours)
        try:
            yield
        finally:
            self.__dict__.update(dict.fromkeys(ours))

    def _fit_table(self, table: TableStream, X_public: Any) -> Self:
        """Learn from a table: batch by batch, where the method can."""
        target, outside = self._target(), None
        if self._needs_public or X_public is not None:
            inputs = X_public if X_public is None else table.public(X_public)
            outside = public_matrix(inputs, len(table.columns))
            if self._kept.folder is None:  # a run has said it
                for strange in contradictions(table.columns, outside):
                    warn(strange)
        if not self._streams or outside is None:  # who answers later holds the records
            if not isinstance(table.executor, str) or table.executor != "serial":
                raise InvalidArgument(
                    f"Expected a table with executor='serial' for this fit of "
                    f"{type(self).__name__}: it holds all records in this process."
                )
            found = table.load(target)
            return self._fit_records(PrivateRecords(*found), target, outside, None, table.inputs)
        if not isinstance(self.allow_overlap, bool):
            raise refuse("allow_overlap", self.allow_overlap, "True or False")
        private, buckets = streamed(
            partial(table.pieces, target),
            outside=None if self.allow_overlap else outside,
            again=table.again,
            executor=table.executor,
            spread=self._spread(),
        )
        columns = _Columns(len(table.columns), None, table.inputs)
        with contextlib.closing(buckets) if buckets is not None else contextlib.nullcontext():
            return self._begin(private, self._task(target), outside, columns)

    def _spread(self) -> Spread | None:
        """Return how a table's rows are grouped, by arguments alone; None for no grouping."""
        return None

    def _batches(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield inputs for the student: batch by batch of a table, else all at once."""
        X = self._opened(X) if hasattr(self, "student_") else X
        if not isinstance(X, TableStream):
            yield self._student_inputs(X)
            return
        check_is_fitted(self, "student_")
        self._check_columns(X)
        parts = map(self._student_inputs, X.inputs_only())
        first = next(parts, None)
        if first is None:
            raise InvalidArgument("Expected a table of at least one row to predict.")
        yield first
        yield from parts

    @abstractmethod
    def _target(self, y: Any = None) -> Target:
        """Return how y is read, by what is declared; y itself only for `"from_data"`."""

    def _task(self, target: Any) -> Task:
        """Return what is public of y."""
        return Task()

    @abstractmethod
    def _learn(self, private: Any, task: Task, outside: Any) -> None:
        """Price, ask the ledger, release and learn; `outside` is None without public inputs."""


AnyRecords = PrivateRecords | StreamedRecords


def _is_to_be_opened(X: Any) -> bool:
    """Check for a table whose columns Python does not see: a path, a reader, a dataset."""
    return not isinstance(X, TableStream) and is_table(X) and column_names(X) is None


def by_names(X: Any, names: Sequence[str] | None) -> Any:
    """Read a file, or a reader, by the column names of the fit's frame."""
    if not _is_to_be_opened(X):
        return X
    if names is None:
        raise InvalidArgument(
            "Expected an array where X of the fit is one: an array has no names by which columns "
            "of a file could be found. Give a frame, or open_table(...), to fit."
        )
    import pyarrow as pa

    found = open_table(X, target=None, numeric=list(names))
    rows = np.concatenate(list(found.inputs_only()))
    return pa.table(dict(zip(names, rows.T, strict=True)))


@dataclass(eq=False, repr=False)
class PrivateClassifier(ClassifierMixin, RowEstimator):  # type: ignore[misc]  # sklearn is untyped
    """A classifier whose predictions are a student's; a base class (see CONTRIBUTING.md).

    Parameters
    ----------
    epsilon, delta, ledger, allow_overlap, noise, random_state
        As in `PrivateEstimator`: budget, ledger, noise, seed.
    classes : array or str
        The public label set; required. "from_data" reads it off the private labels, which no cost
        covers and the statement states. A run takes the classes that its data declare.
    checks : Checks, optional
        `Checks(calibration=0.05)` spends a share of the budget on calibrating the student's
        probabilities; `allow_hopeless=True` continues although public numbers show that nothing
        can be learned. Each of its parts is a key in run.toml.

    Attributes
    ----------
    classes_ : array of shape (classes,)
        The label set, in order: the columns of `predict_proba`.
    score_check_ : Release or None
        The noisy table of outcomes by score; None without `calibration`.
    """

    _: KW_ONLY
    classes: Any = None
    checks: Checks | None = None
    score_check_: Release | None = field(init=False)
    score_shift_: Shift | None = field(init=False)
    _one_label: bool = field(init=False, default=False)
    _own: ClassVar[dict[str, Parameters]] = {"checks": CHECKS}

    def _calibration(self) -> float:
        """Return the share of mu^2 that checks the student's scores."""
        return share_of_check(calibration=self._settings("checks").calibration)

    def _main_share(self) -> float:
        return 1.0 - self._calibration()

    def _check_plans(self) -> list[Plan]:
        share = self._calibration()
        return [check_plan(share, self._gaussian_noise())] if share else []

    def _new_student(self) -> Any:
        student = super()._new_student()
        if self._calibration() and not hasattr(student, "score_map_"):
            raise InvalidArgument(
                f"Expected calibration=0 with student={type(student).__name__}: only students of "
                "tacit keep what is learned of their scores."
            )
        return student

    def _check_scores(self, private: Any, ledger: Ledger, outside: NDArray[Any] | None) -> None:
        """Release which outcomes have which of the student's scores; calibrate the student by it.

        `private` has raw rows. It comes after other releases: nothing private is refused.
        """
        student, self.score_check_, self.score_shift_ = self.student_, None, None
        if not (plans := self._check_plans()):
            if hasattr(student, "score_map_"):
                student.score_map_ = self._free_map(outside)
            self._warn_of_student(outside)
            return
        check, mechanism = check_of(student, outside), plans[0].mechanism
        self.score_check_ = self._released(
            ledger,
            plans[0],
            lambda: private.said(
                mechanism, lambda some: said_by_scores(student, check, some, outside)
            ),
            PURPOSE,
            inputs=(check.edges,),
        )
        sigma: float = mechanism.sigma  # type: ignore[attr-defined]
        table = np.asarray(self.score_check_.values)
        student.score_map_ = check.fit(table, sigma)
        fresh = self._fresh(outside)
        if fresh.size >= FEWEST_FRESH:
            self.score_shift_ = scores_apart(check, table, sigma, fresh)
        self._warn_of_student(outside)

    def _warn_of_student(self, outside: NDArray[Any] | None) -> None:
        """Warn of shifted scores, and of one label for all (the first) public inputs.

        Last: a user who turns warnings into errors has a student all the same.
        """
        self._one_label = False
        if outside is not None and len(outside) > 1:
            said = self._opinion(outside[:_TRIED]).argmax(axis=1)
            self._one_label = bool((said == said[0]).all())
        if self._one_label:
            warn(ONE_LABEL, WeakSignal)
        if self.score_shift_ is not None and self.score_shift_.is_told:
            warn(str(self.score_shift_), ShiftWarning)

    def _fresh(self, outside: NDArray[Any] | None) -> Integers:
        """Return the public inputs whose scores are compared with the records'; none by default."""
        return np.empty(0, dtype=np.int64)

    def _free_map(self, outside: NDArray[Any] | None) -> ScoreMap | None:
        """Return a map of probabilities that follows from releases already paid for."""
        return None

    def _notes(self) -> list[str]:
        mapped = getattr(getattr(self, "student_", None), "score_map_", None)
        first = [*super()._notes(), *([ONE_LABEL] if self._one_label else [])]
        if not self._calibration():
            return [*first, UNCHECKED if mapped is None else MOVED]
        said = f"Probabilities were calibrated: {mapped}, fitted to a table of outcomes by score "
        said = f"{said}that {self._calibration():.0%} of mu^2 paid for."
        check, apart = (getattr(self, name, None) for name in ("score_check_", "score_shift_"))
        people = self.ledger_.unit not in (RECORD, self._unit)
        more = [] if check is None else [share_right(check, self.classes_, by_person=people)]
        more += [] if apart is None else [f"By these scores: {apart}"]
        return [*first, said, *filter(None, more)]

    def _target(self, y: Any = None) -> Labels:
        return labels_of(self.classes, y)

    def _task(self, target: Labels) -> Task:
        return Task(len(target.classes), {"classes_": np.array(target.classes)})

    def _opinion(self, inputs: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(self.student_.predict_proba(inputs), dtype=np.float64)

    def _public_facts(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist()}

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the student's probabilities; the columns are `classes_`.

        Parameters
        ----------
        X : array or frame of shape (rows, features), path, or TableStream
            Inputs with the columns of the fit, free of charge. A file, a reader, a frame or a
            table of Arrow is read by the declarations of the fit; files and tables batch by batch.

        Returns
        -------
        array of shape (rows, classes)
            Each row adds up to 1. Public.
        """
        return np.concatenate([self._opinion(some) for some in self._batches(X)])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the student's labels: post-processing of the releases, free of charge.

        Parameters
        ----------
        X : array or frame of shape (rows, features), path, or TableStream
            As for `predict_proba`.

        Returns
        -------
        array of shape (rows,)
            The likeliest label of each row, one of `classes_`. Public.
        """
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])


@dataclass(eq=False, repr=False)
class PrivateRegressor(RegressorMixin, RowEstimator):  # type: ignore[misc]  # sklearn is untyped
    """A regressor whose predictions are a student's, within public bounds."""

    _: KW_ONLY
    target_range: Any = None

    def _bounds(self) -> tuple[float, float]:
        """Return the public bounds to which y is clipped."""
        return bounds_of(self.target_range)

    def _target(self, y: Any = None) -> Numbers:
        return Numbers(*self._bounds())

    def _task(self, target: Any) -> Task:
        return Task(public={"bounds_": self._bounds()})

    def _default_student(self) -> Any:
        return ValueStudent()

    def _public_facts(self) -> dict[str, Any]:
        return {"bounds": list(self.bounds_)}

    def _within_bounds(self, values: Any) -> NDArray[np.float64]:
        return np.asarray(np.clip(np.asarray(values, dtype=np.float64), *self.bounds_))

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the student's numbers, within the bounds, free of charge.

        `X` as for `PrivateClassifier.predict_proba`. Public.
        """
        said = [self.student_.predict(some) for some in self._batches(X)]
        return self._within_bounds(np.concatenate(said))
