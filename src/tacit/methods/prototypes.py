"""`PrototypeClassifier`: each private record votes once, at its nearest public prototypes.

Prototypes are medoids of the public inputs. Every record adds its class, with weight
1/sqrt(votes), at its nearest few; the table (prototypes x classes) is released once, with noise
independent of their number; a student spreads it over public inputs (docs/theory/speak-once.md).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tacit._checks import Floats, Integers, at_least, refuse
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import Contributions, Plan
from tacit.methods.base import AnyRecords
from tacit.methods.calibration import shared_sums
from tacit.methods.forecast import UNDECLARED, Forecast, declared, table_forecast
from tacit.methods.method import Facts, Method, Rule, common, strength
from tacit.methods.settings import Count, Strategy
from tacit.methods.summary import PublicPart, SummaryClassifier
from tacit.methods.told import ToldByVotes
from tacit.privacy import gaussian_mu
from tacit.records import PrivateRecords, PublicSpace
from tacit.students import CombinedStudent, choose_queries
from tacit.summaries import (
    compact_view,
    nearest_prototypes,
    prototype_votes,
    table_posterior,
    table_shift,
)


@dataclass(eq=False, repr=False)
class PrototypeClassifier(ToldByVotes, SummaryClassifier):
    """Noisy votes of private records at public prototypes, worst-case priced, released once.

    Parameters
    ----------
    student : student, optional
        By default `CombinedStudent()`: label spreading, a linear model and the nearest prototypes,
        each as the released table supports it; any, `CNNStudent` for example. In run.toml:
        "label-spreading", "nearest", "linear", "kernel", "logistic", "cnn" (images) or "vat".
    epsilon, delta, ledger, allow_overlap, noise, random_state, checks
        As in `PrivateClassifier`: budget, ledger, noise, seed, checks.
    n_records : int, optional
        How many private records there are, if that is public anyway: for the forecast alone, which
        can then refuse. Never count them for it.
    features : transformer, optional
        A public one for private and public inputs alike, fitted on public inputs; None for the
        inputs themselves. In run.toml: "none", "digits" or "images", "bins" (declared columns) or
        "whitened".
    radius : float, optional
        The public norm within which features are compared exactly: longer vectors are scaled down
        to it. By default the largest norm among the public inputs.
    classes : array or str
        As in `PrivateClassifier`.
    n_prototypes : int
        How many public inputs are prototypes; the price does not depend on it, but more of them
        share the same votes.
    votes : int
        At how many nearest prototypes each record votes, with weight 1/sqrt(votes).
    strategy : str or array
        "medoids" (default), "random", or, in Python, row numbers of the public inputs, however
        many.

    Attributes
    ----------
    table_ : Release
        The noisy table; its `values` have the shape (prototypes, classes).
    posterior_ : array of shape (prototypes, classes)
        The classes' posterior at each prototype, from which the student learned.
    prototypes_ : array of int
        The rows of `X_public` that are prototypes.
    prototype_inputs_ : array of shape (prototypes, features)
        Those rows; public.
    shift_ : Shift
        Whether the votes lie where those of public inputs would (`ShiftWarning` if not).
    signal_ : Signal or None
        Whether the releases show that anything was learned (`WeakSignal` if not); None with
        another student than the default one.

    Notes
    -----
    Unit: one record (norm 1: added or removed, the table moves by 1; replaced, by sqrt 2 at most),
    or one person with `groups=`, whose summed votes are shortened to norm 1. In run.toml: `method
    = "prototype"`, table `[prototype]`. `docs/theory/speak-once.md#prototype-votes`,
    `docs/theory/speak-once.md#choosing-the-student`.
    """

    _: KW_ONLY
    n_prototypes: Count = 300
    votes: Count = 3
    strategy: Strategy = "medoids"

    def _prepare(self, outside: NDArray[Any], columns: int) -> PublicPart:
        votes = at_least(1, votes=self.votes)
        space = PublicSpace.around(self._view(), outside, self.radius)
        view = space.view(outside)
        named = not isinstance(self.strategy, str)
        count = None if named else at_least(1, n_prototypes=self.n_prototypes)
        places = choose_queries(
            compact_view(view), count, strategy=self.strategy, random_state=self.random_state
        )
        if votes > places.size:
            raise refuse("votes", votes, f"at most {places.size}, the number of prototypes")
        plans = self._plans((1.0, int(places.size), columns))
        prototypes = view[places]

        def near(view: Floats) -> Integers:
            return nearest_prototypes(view, prototypes, votes, radius=space.radius)

        return PublicPart(space, prototypes, plans, places, near, near(view))

    def _forecast(self, public: PublicPart) -> Forecast:
        n_records, mechanism = declared(self), public.plans[0].mechanism
        if n_records is None:
            return UNDECLARED
        sizes: Any = mechanism  # a table: prototypes x classes
        return table_forecast(n_records, self._mu(), self.votes, sizes.rows, sizes.columns)

    def _release_and_learn(
        self, public: PublicPart, private: AnyRecords, ledger: Ledger, outside: NDArray[Any]
    ) -> dict[str, Any]:
        mechanism: Any = public.plans[0].mechanism
        sizes = {"n_prototypes": mechanism.rows, "n_classes": mechanism.columns}

        def say(some: PrivateRecords) -> Contributions:
            return prototype_votes(some.rows, some.targets, units=some.people, **sizes)

        purpose = f"vote once at {mechanism.rows} public prototypes"
        release = self._release(ledger, public.plans[0], private, say, purpose)
        table, places = np.asarray(release.values), public.basis
        found = {"table_": release, "prototypes_": places, "prototype_inputs_": outside[places]}
        found["shift_"] = table_shift(table, mechanism.sigma, public.typical)
        posterior = table_posterior(table, mechanism.sigma)
        if self.student is not None:
            student = self._new_student().fit(outside, places, posterior)
            self._hear(student, table)
            return {**found, "posterior_": posterior, "student_": student}
        combined: Any = self._with_features(CombinedStudent())
        student = combined.weigh(
            outside, places, table, mechanism.sigma, partial(table_posterior, sigma=mechanism.sigma)
        )
        self._hear(student, table)
        return {**found, "posterior_": posterior, "student_": student}

    def _finish(self, private: AnyRecords, outside: NDArray[Any]) -> None:
        super()._finish(private, outside)
        self._warn_of_signal()

    def report(
        self, path: str | Path | None = None, *, image_shape: tuple[int, int] | None = None
    ) -> str:
        """Return the HTML report of the ledger; write it, too, where a path is given.

        Parameters
        ----------
        path : path, optional
            The file to write.
        image_shape : tuple of int, optional
            Height and width of an input: the report then shows the prototypes with their released
            labels.

        Returns
        -------
        str
            One page of HTML; public.
        """
        shown = {} if image_shape is None else {"figures": self.figures(image_shape)}
        return self._report(path, **shown)

    def figures(self, image_shape: tuple[int, int]) -> list[tuple[str, Any]]:
        """Return a picture of the prototypes with their released labels.

        Parameters
        ----------
        image_shape : tuple of int
            Height and width of an input.

        Returns
        -------
        list of tuple of str and figure
            A caption and a matplotlib figure; public.
        """
        from tacit.report import gallery_figure

        check_is_fitted(self, "ledger_")
        images = self.prototype_inputs_.reshape(-1, *image_shape)
        captions = [_caption(self.classes_, row) for row in self.posterior_]
        caption = "Public prototypes: the labels that the noisy table supports, and their shares."
        return [(caption, gallery_figure(images, captions))]


def _caption(classes: NDArray[Any], shares: Floats) -> str:
    """Name the best class, and the second if its share is at least a tenth."""
    first, second = np.argsort(-shares, kind="stable")[:2]
    text = f"{classes[first]} {shares[first]:.0%}"
    return text if shares[second] < 0.1 else f"{text}, {classes[second]} {shares[second]:.0%}"


def _compared(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Votes at public prototypes."""
    power = strength(facts, epsilon, delta)
    wanted = 300 if power >= 1000 else 100 if power >= 300 else 50
    count = max(3, min(wanted, facts.n_public // 3))
    shared = common(facts, epsilon, delta, seed)
    return PrototypeClassifier(n_prototypes=count, n_records=facts.n_private, **shared)


def _outline(budget: Budget, classes: int, n_records: int | None) -> list[tuple[str, Plan]]:
    """Return the one release, with the default number of prototypes."""
    count = PrototypeClassifier.n_prototypes
    (plan,) = shared_sums(budget, (1.0, count, classes))
    return [(f"votes at {count} prototypes", plan)]


def _foreseen(budget: Budget, classes: int, n_records: int | None) -> Forecast:
    mu, model = float(gaussian_mu(budget.epsilon, budget.delta)), PrototypeClassifier
    if n_records is None:
        return UNDECLARED
    return table_forecast(n_records, mu, model.votes, model.n_prototypes, classes)


METHOD = Method(
    outline=_outline,
    forecast=_foreseen,
    name="prototype",
    summary="Prototype votes: each private record votes once, at the public inputs nearest "
    "to it; a student learns from the noisy votes.",
    estimator=PrototypeClassifier,
    rules={
        "prototype": Rule(
            "prototypes",
            _compared,
            "300 prototypes from n mu = 1,000 on, 100 from 300 on, else 50, at most a third of "
            "the public inputs; 3 votes (USPS); label spreading, a linear student and the nearest "
            "prototypes, each as the release supports it.",
        ),
    },
    figures=lambda model, public, shape: model.figures(shape),  # it keeps its prototypes
)
