"""`AutoClassifier`, `AutoRegressor`: the method that public facts choose.

Kinds of columns, public inputs, a declared number of records and the budget decide; no private row
is read, and nothing is paid for it. The rule: docs/choose-a-method.md (`python -m
benchmarks.auto_rule`).
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
    """The name in run.toml of the method that public facts choose, and why, in a sentence."""

    method: str
    why: str


def choose_method(
    kind: str, strength: float | None, *, has_public: bool, numbers: bool = False
) -> Chosen:
    """Choose a method by public facts alone; `strength` is n mu with a declared n, or None.

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
    """Base of both: facts, the choice, and an estimator that does the work."""

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
        """Choose by what is public, then learn as the chosen estimator does, with its arguments."""
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
        """Return the chosen estimator, with the settings of its rule in a comparison."""
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
    epsilon, delta, ledger, allow_overlap, noise, random_state, checks
        As in `PrivateClassifier`: budget, ledger, noise, seed, checks.
    n_records : int, optional
        How many private records there are, if that is public anyway: for the choice and the
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
        Why, in a sentence; the report states it, too.
    model_ : estimator
        The chosen one, fitted; its attributes (`releases_`, `forecast_`) are here as well.

    Notes
    -----
    Declared columns: moments. Images and plain numbers: residual ridge from n mu = 5,000 on or
    where no n is declared, below that prototypes. Without public inputs: DP-SGD, which needs
    `n_records` (`docs/choose-a-method.md`). In run.toml: `method = "auto"`, table `[auto]`.
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
    epsilon, delta, ledger, allow_overlap, noise, random_state, checks
        As in `PrivateClassifier`: budget, ledger, noise, seed, checks (no `calibration`).
    n_records : int, optional
        How many private records there are, if that is public anyway: for the forecast. Never count
        them for it.
    described : Described
        Declared columns, or the shape of images; by default inputs are plain numbers. In run.toml:
        "data", what the run's data declare.
    target_range : pair of float
        (low, high), public bounds to which y is clipped. Required: taken from the private numbers
        they would break the claim.

    Attributes
    ----------
    method_, why_ : str
        What was chosen, and why.
    model_ : estimator
        The chosen one, fitted; its attributes (`releases_`, `forecast_`) are here as well.
    bounds_ : tuple of float
        The bounds of `target_range`, within which predictions stay.

    Notes
    -----
    Declared columns: moments on public bins. Otherwise residual ridge (`docs/choose-a-method.md`).
    In run.toml: `method = "auto"` where `[data.options]` declares `target_range`, table `[auto]`.
    """

    _fixed: ClassVar[frozenset[str]] = frozenset({"calibration"})


def _chosen(budget: Budget, classes: int, n_records: int | None) -> Method:
    """Return the choice for images and plain numbers; for declared columns it is moments."""
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
