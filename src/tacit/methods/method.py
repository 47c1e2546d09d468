"""What tacit knows of a method beside its estimator: its rule in a comparison, plan and figures.

`METHOD` at the end of a method's module and one line of `tacit._registry` make a method; its table
in run.toml is the constructor's signature (`settings`). The rules of a comparison use public facts
alone, above all n mu, mu that of the exact Gaussian curve at (epsilon, delta).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit._registry import METHODS, method_of
from tacit.datasets import Dataset
from tacit.errors import InvalidArgument
from tacit.features import Column
from tacit.methods.base import PrivateEstimator
from tacit.methods.settings import arguments_of, bins_view, digits_view, read_settings
from tacit.privacy import gaussian_mu

if TYPE_CHECKING:
    from tacit.ledger import Budget
    from tacit.mechanisms import Plan
    from tacit.runs import RunResult

Figures = list[tuple[str, Any]]
"""Captions and matplotlib figures."""
_OF_THE_RUN = frozenset(item.name for item in dataclasses.fields(PrivateEstimator))
"""What [privacy] and [data] say, or a run knows by itself."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is publicly known of a task; the methods' settings come from this and the budget.

    Parameters
    ----------
    kind : str
        "images", "table" (declared columns) or "numbers".
    n_private : int
        How many private records there are; declared public.
    n_public, n_features : int
        How many public inputs there are, and how many columns they have.
    classes : tuple
        The public label set.
    image_shape : tuple of int, optional
        Height and width, where inputs are images.
    columns : tuple of Column, optional
        The declared columns of a table.
    target_range : tuple of float, optional
        The declared bounds of numbers to learn; there are then no classes.
    """

    kind: str
    n_private: int
    n_public: int
    n_features: int
    classes: tuple[Any, ...]
    image_shape: tuple[int, int] | None = None
    columns: tuple[Column, ...] | None = None
    target_range: tuple[float, float] | None = None

    @property
    def n_classes(self) -> int:
        """How many labels there are."""
        return len(self.classes)


def strength(facts: Facts, epsilon: float, delta: float) -> float:
    """Return n mu, the public ratio on which all rules rest."""
    return facts.n_private * float(gaussian_mu(epsilon, delta))


def features_of(facts: Facts) -> Any:
    """Return the public features by kind of data: HOG of deskewed images, public bins, or scaling.

    Parameters
    ----------
    facts : Facts
        What is publicly known of the task.

    Returns
    -------
    transformer
        Not fitted; to be fitted on public inputs alone.
    """
    if facts.kind == "images":
        return digits_view(facts.image_shape)
    if facts.kind == "table":
        return bins_view(facts.columns)
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    # Standardised by public inputs, then shortened so that a typical row has length 1.
    shorten = FunctionTransformer(_shortened, kw_args={"width": facts.n_features})
    return make_pipeline(StandardScaler(), shorten)


def _shortened(X: Any, width: int) -> Any:
    return X / math.sqrt(width)


def common(facts: Facts, epsilon: float, delta: float, seed: int) -> dict[str, Any]:
    """Return the arguments that all rules give.

    Parameters
    ----------
    facts : Facts
        What is publicly known of the task.
    epsilon, delta : float
        The worst-case budget of the fit.
    seed : int
        For training and queries, never for noise.

    Returns
    -------
    dict
        `epsilon`, `delta`, `features`, `classes` and `random_state` of an estimator.
    """
    return {
        "epsilon": epsilon,
        "delta": delta,
        "features": features_of(facts),
        "classes": facts.classes,
        "random_state": seed,
    }


def with_defaults(kind: Any, **more: Any) -> Callable[[Facts, float, float, int], Any]:
    """Return a rule that leaves an estimator (with `n_records`) at its defaults, but for `more`."""

    def build(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
        shared = common(facts, epsilon, delta, seed)
        return kind(n_records=facts.n_private, **shared, **more)

    return build


def boosting_student() -> Any:
    """Return the student for tables: label spreading finds no clusters there."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    from tacit.students import SupervisedStudent

    return SupervisedStudent(
        HistGradientBoostingClassifier(max_iter=50, max_depth=3, random_state=0)
    )


CLEAR = 4.5
"""Votes over noise that a query needs: what USPS needed at the strength of MNIST at 0.1."""


def fewest_queries(facts: Facts, clear_at_one: float) -> int:
    """Return how many queries stay clear: noise grows with their root; 100 at most, 2 a class."""
    affordable = int((clear_at_one / CLEAR) ** 2)
    return min(facts.n_public, max(2 * facts.n_classes, min(100, affordable)))


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """How a comparison sets a method: its name on the page, a function, and the rule in words.

    Parameters
    ----------
    title : str
        The name in tables and figures.
    build : callable
        (facts, epsilon, delta, seed) to an unfitted estimator; settings depend on public facts and
        the budget alone, by rules that were fixed on other data (USPS digits for images,
        California housing for tables).
    words : str
        The rule in words, with the data on which it was fixed; printed with every comparison.
    """

    title: str
    build: Callable[[Facts, float, float, int], Any]
    words: str


def asked_figures(model: Any, public: NDArray[Any], shape: tuple[int, int]) -> Figures:
    """Show the public inputs that were queried, each with its likeliest label by the releases."""
    from tacit.report import gallery_figure

    posterior = np.concatenate(model.posteriors_)
    likely = zip(model.classes_[posterior.argmax(axis=1)], posterior.max(axis=1), strict=True)
    captions = [f"{label}  {chance:.0%}" for label, chance in likely]
    images = public[model.queries_].reshape(-1, *shape)
    caption = (
        "The public inputs that were asked: the label that the noisy votes support, and how sure."
    )
    return [(caption, gallery_figure(images, captions))]


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A method: the estimator whose signature is its table, and what else there is to know.

    Parameters
    ----------
    name : str
        In run.toml and on the command line: `method = NAME`, with a table `[NAME]`.
    summary : str
        How it learns from private records, in a sentence for those who sign.
    estimator : type
        A dataclass whose fields are the constructor's arguments and, by their types, the keys of
        the table.
    regressor : type, optional
        The same for numbers: a run takes it where its data declare `target_range`.
    rules : mapping from str to Rule
        Its rows in a comparison, by name.
    figures : callable, optional
        Figures of its releases, from the fitted model, the public inputs and the shape of an
        image. None: the releases have no inputs to show.
    needs_public : bool
        Whether it cannot do without public inputs.
    propose : callable, optional
        For `tacit plan`: plans that spend a budget, from a number of queries, a budget, the number
        of classes, and the settings named in `proposes_with`.
    proposes_with : tuple of str
        Names of settings that `propose` takes; the first of them is required.
    outline : callable, optional
        For a method without queries: purpose and plan of each release, from a budget, the number
        of classes (0: numbers are learned), and a declared number of records or None.
    forecast : callable, optional
        From the same, or from the plans of `propose`, the `Forecast` of a run with default
        settings.
    run : callable, optional
        A run of its own, where the data are no rows: configuration, folder, and whether what was
        lost may be paid for again.
    evaluate : callable, optional
        A private evaluation of its own, where the data are no rows: configuration, folder, the
        held-out records, and the options.
    """

    name: str
    summary: str
    estimator: type[Any]
    regressor: type[Any] | None = None
    rules: Mapping[str, Rule] = field(default_factory=dict)
    figures: Callable[[Any, NDArray[Any], tuple[int, int]], Figures] | None = None
    needs_public: bool = True
    propose: Callable[..., list[Plan]] | None = None
    proposes_with: tuple[str, ...] = ()
    outline: Callable[[Budget, int, int | None], list[tuple[str, Plan]]] | None = None
    forecast: Callable[..., Any] | None = None
    run: Callable[[Any, Path, bool], RunResult] | None = None
    evaluate: Callable[[Any, Path, str, dict[str, Any]], Any] | None = None

    def for_targets(self, numbers: bool) -> Method:
        """Return the method for labels, or for numbers.

        Parameters
        ----------
        numbers : bool
            Whether `target_range` is declared.

        Returns
        -------
        Method
            With the regressor as its estimator; a method without one refuses.
        """
        if not numbers:
            return self
        if self.regressor is None:
            able = ", ".join(name for name in METHODS if method_named(name).regressor is not None)
            raise InvalidArgument(
                f"Expected a method that learns numbers where target_range is declared: {able}; "
                f"method = {self.name!r} learns labels."
            )
        return dataclasses.replace(self, estimator=self.regressor, rules={}, figures=None)

    def takes(self, argument: str) -> bool:
        """Check whether the estimator has such an argument.

        Parameters
        ----------
        argument : str
            A name.

        Returns
        -------
        bool
            True for a field of the estimator.
        """
        return argument in {item.name for item in dataclasses.fields(self.estimator)}

    def read(self, table: Any) -> dict[str, Any]:
        """Return all settings of a table in run.toml, defaults included.

        Parameters
        ----------
        table : dict
            As read; an unknown key or a wrong value is refused by name.

        Returns
        -------
        dict
            A value for each key of the table; objects are still words.
        """
        return read_settings(self.estimator, table, self.name, _OF_THE_RUN)

    @property
    def streams(self) -> bool:
        """Whether private rows need not fit into memory."""
        return bool(getattr(self.estimator, "_streams", False))

    def build(self, settings: Mapping[str, Any], data: Dataset, **of_the_run: Any) -> Any:
        """Return the unfitted estimator with these settings.

        Parameters
        ----------
        settings : mapping
            From `read`.
        data : Dataset
            Image shape or declared columns, which some words need.
        **of_the_run : any
            Budget, ledger, seed; those that the estimator does not take are left out.

        Returns
        -------
        estimator
            Of the class `estimator`.
        """
        known = {key: value for key, value in of_the_run.items() if self.takes(key)}
        return self.estimator(**arguments_of(self.estimator, settings, data), **known)


def method_named(name: str) -> Method:
    """Return a registered method; `KeyError` for a name that is not registered.

    Parameters
    ----------
    name : str
        As in run.toml, such as "pate".

    Returns
    -------
    Method
        Imported on first use.
    """
    found: Method = method_of(name)
    return found


def all_rules(*, numbers: bool = False) -> dict[str, Rule]:
    """Return the rows of a comparison, by name, in the order of the registry.

    Parameters
    ----------
    numbers : bool
        Whether numbers are to be learned, not labels.

    Returns
    -------
    dict from str to Rule
        For `tacit compare --methods`.
    """
    if numbers:
        learn = [method_named(name) for name in METHODS]
        return {one.name: _number_rule(one) for one in learn if one.regressor and one.rules}
    return {key: rule for name in METHODS for key, rule in method_named(name).rules.items()}


def _number_rule(method: Method) -> Rule:
    """Return the rule of a method's regressor: defaults, on the features of the data."""
    kind: Any = method.regressor

    def build(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
        given = {"epsilon": epsilon, "delta": delta, "random_state": seed}
        return kind(features=features_of(facts), target_range=facts.target_range, **given)

    title = next(iter(method.rules.values())).title
    return Rule(title, build, "The estimator's defaults, for numbers.")
