"""`AutoClassifier`, `AutoRegressor`: the method by what is public, by the rule of the docs.

Kinds of columns, the number of public inputs, a declared number of records, and the budget decide;
no private row is looked at, and nothing is paid for it. The rule in words is
docs/choose-a-method.md; `python -m benchmarks.auto_rule` prints what it rests on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from numpy.typing import ArrayLike

from tacit._checks import column_names
from tacit.datasets import Dataset, TableStream
from tacit.errors import InvalidArgument
from tacit.features import Column
from tacit.ledger import Budget
from tacit.mechanisms import Plan
from tacit.methods.base import PrivateClassifier, PrivateRegressor, Task, by_names
from tacit.methods.forecast import ForecastEstimator, declared
from tacit.methods.method import Facts, Method, all_rules, method_named
from tacit.methods.settings import Words
from tacit.privacy import gaussian_mu
from tacit.records import PrivateRecords

STRONG = 5000.0
"""n mu from which residual ridge is taken for images and plain numbers: `python -m
benchmarks.advice` asks here, and prints what it would say."""
_SHARED = ("ledger", "noise", "allow_overlap", "checks", "n_records")


class Chosen(NamedTuple):
    """The method that public facts choose, and why.

    Parameters
    ----------
    method : str
        Its name in run.toml.
    why : str
        In a sentence.
    """

    method: str
    why: str


def choose_method(
    kind: str, strength: float | None, *, has_public: bool, numbers: bool = False
) -> Chosen:
    """Choose a method by public facts alone.

    Parameters
    ----------
    kind : str
        "images", "table" (declared columns) or "numbers".
    strength : float, optional
        n mu with a declared n; None where none was declared.
    has_public : bool
        Whether there are public inputs.
    numbers : bool
        Whether numbers are to be learned, not labels.

    Returns
    -------
    Chosen
        The method and the reason.

    Examples
    --------
    >>> choose_method("images", 400.0, has_public=True).method
    'prototype'
    """
    if not has_public:
        if numbers:
            raise InvalidArgument("Expected X_public: without it, no method here learns numbers.")
        return Chosen("dpsgd", "there are no public inputs, which every other method needs.")
    if kind == "table":
        return Chosen("moments", "columns are declared, and a line on their bins needs least.")
    if numbers:
        return Chosen("ridge", "columns are not declared, and numbers may bend with them.")
    if strength is None:
        why = "no number of records is declared, and it holds up best where little is known."
        return Chosen("ridge", why)
    said = f"n mu = {strength:.3g} is {'' if strength >= STRONG else 'not '}at least {STRONG:g}"
    if strength >= STRONG:
        return Chosen("ridge", f"{said}: enough for a model that need not cluster.")
    return Chosen("prototype", f"{said}: votes at prototypes stand most noise.")


class Described(NamedTuple):
    """What is declared of inputs; nothing of any row.

    Parameters
    ----------
    columns : tuple of Column, optional
        The declared columns of a table.
    image_shape : tuple of int, optional
        Height and width, where inputs are images.
    """

    columns: tuple[Column, ...] | None = None
    image_shape: tuple[int, int] | None = None


def _described(data: Dataset, settings: Mapping[str, Any]) -> Described:
    return Described(data.columns, data.image_shape)


@dataclass(eq=False, repr=False)
class AutoEstimator(ForecastEstimator):
    """What both share: facts, the choice, and an estimator that does the work."""

    _: KW_ONLY
    described: Annotated[Any, Words({"data": _described})] = "data"
    _streams: ClassVar[bool] = True
    method_: str = field(init=False)
    why_: str = field(init=False)
    model_: Any = field(init=False)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        X_public: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose by what is public, then learn as the chosen estimator does.

        Parameters
        ----------
        X : array of shape (rows, features)
            The private rows. Secret; the choice does not look at them.
        y : array of shape (rows,), optional
            What is to be learned of them. Secret.
        X_public : array of shape (public rows, features), optional
            Public inputs with the same columns.
        groups : array of shape (rows,), optional
            Whose each row is. Secret.

        Returns
        -------
        self
            The fitted estimator.
        """
        table = self._table(X, y, groups)
        with self._as_declared(table):
            return self._fit_chosen(table, X, y, X_public, groups)

    def _fit_chosen(
        self, table: TableStream | None, X: Any, y: Any, X_public: Any, groups: Any
    ) -> Self:
        if X_public is not None:  # read once: a reader has no more
            X_public = (
                by_names(X_public, column_names(X)) if table is None else table.public(X_public)
            )
        facts = self._facts(X_public)
        strength = None if declared(self) is None else facts.n_private * self._mu()
        chosen = choose_method(
            facts.kind, strength, has_public=X_public is not None, numbers=not facts.classes
        )
        model = self._made(chosen.method, facts)
        model._kept, model._faults_of_run = self._kept, self._faults_of_run
        if table is None:
            model.fit(X, y, X_public=X_public, groups=groups)
        else:
            model.fit(table, X_public=X_public)
        # What was learned is this one's, too; settings stay as they were given.
        self.__dict__.pop("feature_names_in_", None)  # an earlier fit's
        self._declared = model._declared
        self.__dict__.update(
            {
                name: value
                for name, value in vars(model).items()
                if name.endswith("_") and not name.startswith("_")
            }
        )
        self.method_, self.why_, self.model_ = chosen.method, chosen.why, model
        return self

    def _facts(self, X_public: ArrayLike | None) -> Facts:
        """Return what is public; the number of records is the declared one, 0 where none is."""
        columns, shape = self.described if isinstance(self.described, Described) else Described()
        kind = "images" if shape is not None else "table" if columns is not None else "numbers"
        size = (0, 0) if X_public is None else (len(X_public), _width(X_public))  # type: ignore[arg-type]
        classes = getattr(self, "classes", None)
        labels = () if classes is None else tuple(classes)  # an array has no truth
        bounds = getattr(self, "target_range", None)
        return Facts(kind, declared(self) or 0, *size, labels, shape, columns, bounds)

    def _made(self, name: str, facts: Facts) -> Any:
        """Return the chosen estimator, with the settings that its rule in a comparison gives."""
        rule = all_rules(numbers=not facts.classes)[name]
        model = rule.build(facts, self.epsilon, self.delta, self.random_state or 0)
        return self._shared(model)

    def _shared(self, model: Any) -> Any:
        known = model.get_params(deep=False)
        shared = {key: getattr(self, key) for key in _SHARED if key in known}
        if self.n_records is None and "training" in known:  # it sets rate and steps
            raise InvalidArgument("Expected n_records=, a public number, or X_public.")
        return model.set_params(**shared, random_state=self.random_state)

    def _learn(self, private: PrivateRecords, task: Task, outside: Any) -> None:
        raise NotImplementedError  # the chosen estimator learns

    def _notes(self) -> list[str]:
        return [f"Method, chosen by what is public: {self.method_}; {self.why_}", *self._told()]

    def _told(self) -> list[str]:
        said: list[str] = self.model_._notes()
        return said


def _width(rows: Any) -> int:
    shape = getattr(rows, "shape", None)
    return int(shape[1]) if shape is not None and len(shape) > 1 else 1


@dataclass(eq=False, repr=False)
class AutoClassifier(PrivateClassifier, AutoEstimator):
    """The method that public facts choose, with the settings of a comparison; worst-case priced.

    Parameters
    ----------
    epsilon : float
        Epsilon of the worst-case budget. It sets the noise, also where a `Ledger` is given: all
        releases of a fit cost at most this together. In run.toml: `[privacy]`.
    delta : float
        Delta of that budget, below one over the number of records or people; a given `Ledger`
        counts with its own instead. In run.toml: `[privacy]`.
    ledger : Ledger, NewLedger or path, optional
        Who pays. A `Ledger` is charged as it is; at a path, or by a `NewLedger`, one is made for
        epsilon and delta; None makes it in a temporary directory. A run has its own, `run.ledger`.
    allow_overlap : bool
        True: do not look for private rows that equal public ones; the ledger then says, for ever,
        that nobody looked. False: such a row is refused. In run.toml: `[data]`.
    noise : InsecureNoise, optional
        Seeded noise for tests and research, without any privacy; the statement says so. None:
        secure noise, the only one of a run.
    random_state : int, optional
        Seeds what is drawn in public, never noise. In run.toml: `seed`, at the top.
    checks : Checks, optional
        `Checks(calibration=0.05)` lets the records tell once how sure the student may be;
        `allow_hopeless=True` goes on where public numbers say that nothing can be learned. Each of
        its parts is a key of its own in run.toml.
    n_records : int, optional
        How many private records there are, where that is public anyway: for the choice and the
        forecast. Never count them for it.
    described : Described
        Declared columns, or the shape of images; by default inputs are plain numbers. In run.toml:
        "data", what the run's data declare.
    classes : array
        The public label set; required. A run takes the classes that its data declare.

    Attributes
    ----------
    method_ : str
        What was chosen.
    why_ : str
        Why, in a sentence; the report says it, too.
    model_ : estimator
        The chosen one, fitted; its attributes (`releases_`, `forecast_`) are here as well.
    student_ : student
        The model to publish: it saw public inputs and releases only.
    classes_ : array of shape (classes,)
        The label set, in order: the columns of `predict_proba`.
    score_check_ : Release or None
        The noisy table of outcomes by score; None without `calibration`.
    ledger_ : Ledger
        Who paid.
    statement_ : Statement
        What may be said of all that this ledger has released so far.
    n_features_in_ : int
        How many columns X had; `feature_names_in_` are their names, where it had any.

    Notes
    -----
    Declared columns: moments. Images and plain numbers: residual ridge from n mu = 5,000 on or
    where no n is declared, below that prototypes. Without public inputs: DP-SGD, which needs
    `n_records`.

    In run.toml: `method = "auto"`, and a table `[auto]` with `n_records`, `allow_hopeless`,
    `calibration` and `described`.

    References
    ----------
    `docs/choose-a-method.md`
    """

    def _facts(self, X_public: ArrayLike | None) -> Facts:
        if self.classes is None or isinstance(self.classes, str):
            raise InvalidArgument("Expected classes= the public label set; auto reads no labels.")
        return super()._facts(X_public)


@dataclass(eq=False, repr=False)
class AutoRegressor(PrivateRegressor, AutoEstimator):
    """The method for numbers that public facts choose; worst-case priced.

    Parameters
    ----------
    epsilon : float
        Epsilon of the worst-case budget. It sets the noise, also where a `Ledger` is given: all
        releases of a fit cost at most this together. In run.toml: `[privacy]`.
    delta : float
        Delta of that budget, below one over the number of records or people; a given `Ledger`
        counts with its own instead. In run.toml: `[privacy]`.
    ledger : Ledger, NewLedger or path, optional
        Who pays. A `Ledger` is charged as it is; at a path, or by a `NewLedger`, one is made for
        epsilon and delta; None makes it in a temporary directory. A run has its own, `run.ledger`.
    allow_overlap : bool
        True: do not look for private rows that equal public ones; the ledger then says, for ever,
        that nobody looked. False: such a row is refused. In run.toml: `[data]`.
    noise : InsecureNoise, optional
        Seeded noise for tests and research, without any privacy; the statement says so. None:
        secure noise, the only one of a run.
    random_state : int, optional
        Seeds what is drawn in public, never noise. In run.toml: `seed`, at the top.
    checks : Checks, optional
        `Checks(allow_hopeless=True)` goes on where public numbers say that nothing can be learned;
        else `fit` refuses such a run before anything is spent. In run.toml: `allow_hopeless`.
    n_records : int, optional
        How many private records there are, where that is public anyway: for the forecast. Never
        count them for it.
    described : Described
        Declared columns, or the shape of images; by default inputs are plain numbers. In run.toml:
        "data", what the run's data declare.
    target_range : pair of float
        (low, high), public bounds to which y is clipped. Required: read off the private numbers
        they would break the claim.

    Attributes
    ----------
    method_ : str
        What was chosen.
    why_ : str
        Why, in a sentence; the report says it, too.
    model_ : estimator
        The chosen one, fitted; its attributes (`releases_`, `forecast_`) are here as well.
    student_ : student
        The model to publish: it saw public inputs and releases only.
    bounds_ : tuple of float
        The bounds of `target_range`, within which predictions stay.
    ledger_ : Ledger
        Who paid.
    statement_ : Statement
        What may be said of all that this ledger has released so far.
    n_features_in_ : int
        How many columns X had; `feature_names_in_` are their names, where it had any.

    Notes
    -----
    Declared columns: moments on public bins. Otherwise residual ridge.

    In run.toml: `method = "auto"` where `[data.options]` declares `target_range`, and a table
    `[auto]` with `n_records`, `allow_hopeless` and `described`.

    References
    ----------
    `docs/choose-a-method.md`
    """

    _fixed: ClassVar[frozenset[str]] = frozenset({"calibration"})


def _chosen(budget: Budget, classes: int, n_records: int | None) -> Method:
    """Return what is taken for images and plain numbers; of declared columns it is moments."""
    strength = None
    if n_records is not None:
        strength = n_records * float(gaussian_mu(budget.epsilon, budget.delta))
    chosen = choose_method("numbers", strength, has_public=True, numbers=not classes)
    return method_named(chosen.method)


def _outline(budget: Budget, classes: int, n_records: int | None) -> list[tuple[str, Plan]]:
    found: Any = _chosen(budget, classes, n_records)
    releases = found.outline(budget, classes, n_records)
    return [(f"{found.name}: {what}", plan) for what, plan in releases]


def _foreseen(budget: Budget, classes: int, n_records: int | None) -> Any:
    found: Any = _chosen(budget, classes, n_records)
    return found.forecast(budget, classes, n_records)


METHOD = Method(
    outline=_outline,
    forecast=_foreseen,
    name="auto",
    summary="The method was chosen by what is public of the data; the notes say which, and why.",
    estimator=AutoClassifier,
    regressor=AutoRegressor,
    needs_public=False,
)
