"""Records kept apart say once, through the ledger, how well a public model does on them.

The model is public: it was made of public inputs and releases. Each record is scored by itself, so
that its score is its own, bit for bit. What is told, the bins and the noise follow from public
scores and declared numbers; then one entry of the ledger is paid (two with several classes), and
everything else is post-processing (docs/theory/evaluation.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from tacit._checks import Floats, Integers, at_least, finite, positive, probability, refuse
from tacit.errors import BudgetExceeded, InvalidArgument
from tacit.evaluate.binary import bins_for
from tacit.evaluate.bins import ScoreBins
from tacit.evaluate.evaluation import Evaluation
from tacit.evaluate.numbers import MOMENTS, RESIDUAL_BINS, said_of_number
from tacit.ledger import Budget, KeptReleases, Ledger
from tacit.mechanisms import (
    Contributions,
    NoisySum,
    Plan,
    ScoredRecords,
    ScoreHistogram,
    score_bins,
)
from tacit.methods import calibrate
from tacit.noise import InsecureNoise
from tacit.records import (
    ALLOWED_OVERLAP,
    PrivateRecords,
    class_indices,
    is_from_data,
    private_rows,
    public_matrix,
    refuse_overlap,
    units_of,
    view_alone,
)

DISJOINT = (
    "the people of the records that evaluated the model were declared to be others than those it "
    "learned from, and are counted in a ledger of their own; nobody looked"
)
READ_NUMBER = (
    "the number of records, or the share of a class, was read from the private records to decide "
    "which figures are told, which no cost covers"
)
_TRIED = 8  # public rows, or rows of zeros, on which a model is tried out


def evaluate(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    epsilon: float,
    ledger: Ledger,
    n_records: int | str,
    share: Any = None,
    X_public: ArrayLike | None = None,
    threshold: float = 0.5,
    classes: Any = None,
    positive: Any = None,
    target_range: tuple[float, float] | None = None,
    groups: ArrayLike | None = None,
    disjoint: bool = False,
    allow_overlap: bool = False,
    noise: InsecureNoise | None = None,
    kept: KeptReleases | None = None,
) -> Evaluation:
    """Let private records that were kept apart say, once, how well a model does.

    Parameters
    ----------
    model : classifier or regressor
        Public: a fitted estimator of tacit, a student, or anything with `predict_proba` and
        `classes_`, or with `predict` for numbers. None of these records taught it, or the ledger
        is the one that paid for what they taught.
    X : array of shape (records, features)
        Records kept apart. Secret; no error quotes them.
    y : array of shape (records,)
        Their labels or numbers. Secret.
    epsilon : float
        What this evaluation may cost by itself, at the ledger's delta.
    ledger : Ledger
        Who pays: the ledger of the model's own records, unless `disjoint`.
    n_records : int or str
        How many records (people, with `groups`) there are, as publicly declared: it decides how
        many bins there are and which figures are told. "from_data" counts them, which no cost
        covers: the ledger then says so, for ever.
    share : float or array, optional
        Of the positive class, or of each class, as declared or released earlier; None takes the
        model's mean probability of public inputs. "from_data" as above.
    X_public : array of shape (inputs, features), optional
        Public inputs, whose scores fix the bins; without them bins are even.
    threshold : float
        From which probability on the positive class of two is said; it becomes an edge.
    classes : array, optional
        The public label set; the model's own by default.
    positive : label, optional
        Which of two classes is the outcome: the last by default.
    target_range : tuple of float, optional
        For numbers: the public bounds of y; the model's own by default.
    groups : array of shape (records,), optional
        Whose each record is; everybody counts once, with the mean of the own records. Secret.
    disjoint : bool
        Declares that nobody here taught the model: then the ledger may be one of their own, and
        says that this was declared.
    allow_overlap : bool
        Do not look for records that equal public inputs; the ledger then says so.
    noise : InsecureNoise, optional
        Seeded noise for tests and research, without any privacy.
    kept : KeptReleases, optional
        Where a run keeps what was released, so that a second start pays nothing.

    Returns
    -------
    Evaluation
        Public. What so many records cannot tell at this price is left out of it.

    Raises
    ------
    BudgetExceeded
        Where the ledger refuses; nothing is spent then.

    Notes
    -----
    Bands are of 95 % and cover sampling and noise together. A record on which the model fails is
    counted nowhere, silently: to refuse it would tell of it.

    References
    ----------
    docs/theory/evaluation.md; docs/private-evaluation.md

    Examples
    --------
    >>> import tempfile
    >>> from tacit import Budget, InsecureNoise, Ledger
    >>> class Model:
    ...     classes_ = np.array(["no", "yes"])
    ...     def predict_proba(self, X):
    ...         return np.column_stack([1 - X[:, 0], X[:, 0]])
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(5000, 1))
    >>> y = np.where(rng.uniform(size=5000) < X[:, 0], "yes", "no")
    >>> ledger = Ledger(tempfile.mktemp(), budget=Budget(1.0, 1e-6))
    >>> found = evaluate(Model(), X, y, epsilon=0.5, ledger=ledger, n_records=5000, share=0.5,
    ...                  disjoint=True, noise=InsecureNoise(0))
    >>> auc = found.figures()["auc"]
    >>> bool(auc.low < 5 / 6 < auc.high), len(ledger)
    (True, 1)
    """
    _check_ledger(model, ledger, disjoint)
    judged = _Judged.of(model, classes, target_range, positive)
    rows, said = private_rows(BaseEstimator(), X, y, y_numeric=judged.bounds is not None)
    people = units_of(groups, len(rows))
    _check_unit(ledger, people is not None)
    outside = None if X_public is None else public_matrix(X_public, rows.shape[1])
    if outside is not None and not allow_overlap:
        refuse_overlap(rows, outside)
    faults = _faults(disjoint, allow_overlap, n_records, share)
    targets = said
    if judged.bounds is None:
        _, targets = class_indices(said, judged.classes)
        targets = 1 - targets if judged.turn else targets
    private = PrivateRecords(rows, targets, people)
    size = private.n_units if is_from_data(n_records) else at_least(2, n_records=n_records)
    design = judged.design(size, share, outside, private, threshold, epsilon, ledger)
    _check_delta(ledger, size)
    design.refuse_hopeless()
    kept = KeptReleases() if kept is None else kept
    already = kept.start(ledger, *(() if outside is None else (outside,)))
    if ledger.would_exceed(*design.plans[already:]):
        raise BudgetExceeded(
            f"Expected an evaluation within the budget of {ledger!r}: it would exceed what is "
            "left. Nothing was spent. Ask for a smaller epsilon=, or, if nobody here taught the "
            "model, say disjoint=True (--disjoint), with a ledger of their own."
        )
    public = np.zeros((_TRIED, rows.shape[1])) if outside is None else outside
    scored = view_alone(judged, rows, public)
    answers = judged.answers(scored, private, design)
    told: dict[str, Any] = {"noise": noise, "faults": faults, "inputs": design.reading()}
    releases = [
        kept.release(ledger, plan, partial(_itself, one), purpose=what, **told)
        for plan, one, what in zip(design.plans, answers, design.purposes, strict=True)
    ]
    return design.read(releases, Budget(epsilon, ledger.usable_delta))


def _itself(answers: Any) -> Any:
    return answers


def _check_ledger(model: Any, ledger: Any, disjoint: bool) -> None:
    if not isinstance(ledger, Ledger):
        raise refuse("ledger", ledger, "a Ledger: the one that paid for the model's records")
    own = getattr(model, "ledger_", None)
    if own is not None and own.path != ledger.path and not disjoint:
        raise InvalidArgument(
            "Expected ledger= to be the model's own, ledger=model.ledger_, so that what all these "
            "people lose is added up; if nobody here taught the model, say disjoint=True."
        )


def _check_unit(ledger: Ledger, by_person: bool) -> None:
    if by_person != (ledger.unit != "record"):
        raise InvalidArgument(
            f"Expected groups=, whose each row is, if and only if the ledger's unit is not a "
            f"record; it is {ledger.unit!r}."
        )


def _check_delta(ledger: Ledger, size: int) -> None:
    if not ledger.allow_large_delta and ledger.budget.delta * size >= 1:
        raise InvalidArgument(
            f"Expected delta={ledger.budget.delta!r} of the ledger to be below one over "
            f"n_records={size}: at such a delta a release may be one whole record."
        )


def _faults(disjoint: bool, allow_overlap: bool, n_records: Any, share: Any) -> tuple[str, ...]:
    """Return what no cost covers of what was asked for; never of what was found."""
    asked = {
        DISJOINT: disjoint,
        ALLOWED_OVERLAP: allow_overlap,
        READ_NUMBER: is_from_data(n_records) or is_from_data(share),
    }
    return tuple(fault for fault, is_asked in asked.items() if is_asked)


_TABLES = {"binary": ["scores"], "classes": ["scores", "confusion"], "numbers": ["sums"]}


class _Design(NamedTuple):
    """What will be released and how it will be read: public, fixed before anything is scored."""

    plans: list[Plan]
    purposes: list[str]
    kind: str
    about: dict[str, Any]

    def refuse_hopeless(self) -> None:
        """Refuse, from public numbers alone, what would tell nothing; nothing is spent."""
        empty = {name: np.zeros(shape) for name, shape in self._shapes().items()}
        mechanism: Any = self.plans[0].mechanism
        untold = Evaluation(self.kind, empty, float(mechanism.sigma), **self.about)
        if not any(True for _ in untold.rows()):
            raise InvalidArgument(
                f"Expected n_records={self.about['n_records']} to tell something at this epsilon: "
                f"noise has the deviation {mechanism.sigma:.3g} on each count. Keep more records "
                "apart, or spend more. Nothing was spent."
            )

    def reading(self) -> list[Any]:
        """Return what a table that is kept must be read with: edges, order of the classes."""
        bins, classes = self.about.get("bins"), self.about.get("classes", [])
        return [np.zeros(0) if bins is None else bins.edges, np.array(list(map(str, classes)))]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        if self.kind == "numbers":
            return {"sums": (MOMENTS + RESIDUAL_BINS,)}
        number = len(self.about["shares"])
        shapes = {"scores": (2, self.about["bins"].count), "confusion": (number, number)}
        return {name: shapes[name] for name in _TABLES[self.kind]}

    def read(self, releases: list[Any], cost: Budget) -> Evaluation:
        tables = {
            name: np.asarray(one.values)
            for name, one in zip(_TABLES[self.kind], releases, strict=True)
        }
        if self.kind == "numbers":
            tables["sums"] = tables["sums"][0]
        mechanism: Any = self.plans[0].mechanism
        entries = [str(one.entry) for one in releases if one.entry is not None]
        return Evaluation(
            self.kind,
            tables,
            float(mechanism.sigma),
            entries=entries,
            epsilon=cost.epsilon,
            delta=cost.delta,
            **self.about,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """The model that is evaluated; its `transform` gives the scores of rows."""

    model: Any
    classes: NDArray[Any] | None
    bounds: tuple[float, float] | None
    turn: bool = False
    order: Integers | None = None
    """Which column of the model's is that of each class."""

    @classmethod
    def of(cls, model: Any, classes: Any, target_range: Any, positive: Any) -> _Judged:
        if hasattr(model, "predict_proba"):
            labels, order = _columns(getattr(model, "classes_", None), classes)
            return cls(model, labels, None, _is_first(labels, positive), order)
        if not hasattr(model, "predict"):
            raise refuse("model", type(model).__name__, "a model with predict_proba or predict")
        bounds = getattr(model, "bounds_", None) if target_range is None else target_range
        if bounds is None:
            raise InvalidArgument("Expected target_range=(low, high), the public bounds of y.")
        low, high = (finite(target_range=end) for end in bounds)
        if not low < high:
            raise refuse("target_range", bounds, "(low, high) with low below high")
        return cls(model, None, (low, high))

    def transform(self, rows: NDArray[Any]) -> Floats:
        """Return probabilities, or numbers within the bounds, a row each."""
        if self.bounds is None:
            chances = np.asarray(self.model.predict_proba(rows), dtype=np.float64)
            assert self.order is not None
            if chances.shape != (len(rows), len(self.order)):
                raise InvalidArgument("Expected a model with one probability for each class.")
            return chances[:, self.order[::-1] if self.turn else self.order]
        found = np.asarray(self.model.predict(rows), dtype=np.float64).reshape(len(rows), -1)
        return np.clip(found, *self.bounds)

    def design(
        self,
        size: int,
        share: Any,
        outside: Floats | None,
        private: PrivateRecords,
        threshold: float,
        epsilon: float,
        ledger: Ledger,
    ) -> _Design:
        """Fix bins, tables and noise from public and declared numbers."""
        cost = Budget(positive(epsilon=epsilon), ledger.usable_delta)
        public = None if outside is None else self.transform(outside)
        if self.bounds is not None:
            return self._design_numbers(size, public, cost, ledger)
        assert self.classes is not None
        shares = self._shares(share, public, private)
        if len(self.classes) == 2:
            return self._design_binary(size, shares, public, threshold, cost, ledger)
        return self._design_classes(size, shares, public, cost, ledger)

    def _shares(self, share: Any, public: Floats | None, private: PrivateRecords) -> Floats:
        assert self.classes is not None
        number = len(self.classes)
        if is_from_data(share):
            counts = np.bincount(private.targets, private.shares(), number)
            return np.asarray(counts / counts.sum())
        if share is None:
            return np.full(number, 1 / number) if public is None else public.mean(axis=0)
        if number == 2 and np.ndim(share) == 0:
            positives = probability(share=share)
            return np.array([1 - positives, positives])
        given = np.asarray(share, dtype=np.float64)
        if given.shape != (number,) or not (given > 0).all() or abs(given.sum() - 1) > 1e-6:
            raise refuse("share", share, f"{number} shares above 0 that add up to 1")
        return given

    def _design_binary(
        self,
        size: int,
        shares: Floats,
        public: Floats | None,
        threshold: float,
        cost: Budget,
        ledger: Ledger,
    ) -> _Design:
        cut = probability(threshold=threshold)
        (plan,) = calibrate(lambda s: [Plan(ScoreHistogram(s, 2, 2), 1)], cost, ledger=ledger)
        sigma = plan.mechanism.sigma  # type: ignore[attr-defined]
        number = bins_for(size, float(shares[1]), sigma)
        edges = sorted({cut, 0.5})
        bins = (
            ScoreBins.even(number, thresholds=edges)
            if public is None
            else ScoreBins.of(public[:, 1], number, thresholds=edges)
        )
        plans = [Plan(ScoreHistogram(sigma, 2, bins.count), 1)]
        about = {"n_records": size, "shares": shares.tolist(), "bins": bins, "threshold": cut}
        labels = np.asarray(self.classes).tolist()
        about["classes"] = labels[::-1] if self.turn else labels
        return _Design(plans, ["evaluate: outcomes by score"], "binary", about)

    def _design_classes(
        self, size: int, shares: Floats, public: Floats | None, cost: Budget, ledger: Ledger
    ) -> _Design:
        number = len(shares)
        plans = calibrate(
            lambda s: [
                Plan(ScoreHistogram(s, 2, 2), 1),
                Plan(ScoreHistogram(s, number, number), 1),
            ],
            cost,
            ledger=ledger,
        )
        sigma = plans[0].mechanism.sigma  # type: ignore[attr-defined]
        sure = None if public is None else public.max(axis=1)
        right = 0.5 if sure is None else float(np.clip(sure.mean(), 0.05, 0.95))
        fine = bins_for(size, right, sigma)
        bins = ScoreBins.even(fine) if sure is None else ScoreBins.of(sure, fine)
        plans[0] = Plan(ScoreHistogram(sigma, 2, bins.count), 1)
        about: dict[str, Any] = {"n_records": size, "shares": shares.tolist(), "bins": bins}
        about |= {"classes": np.asarray(self.classes).tolist(), "numbers": {"right": right}}
        purposes = ["evaluate: right labels by probability", "evaluate: true and said classes"]
        return _Design(plans, purposes, "classes", about)

    def _design_numbers(
        self, size: int, public: Floats | None, cost: Budget, ledger: Ledger
    ) -> _Design:
        assert self.bounds is not None
        low, high = self.bounds
        half, middle = high / 2 - low / 2, low / 2 + high / 2
        centre = middle if public is None else float(public.mean())
        spread = np.zeros(1) if public is None else (public[:, 0] - centre) / half
        if public is None:  # as if predictions were spread evenly
            spread = np.linspace(-1.0, 1.0, 101)
        columns = MOMENTS + RESIDUAL_BINS
        plans = calibrate(lambda s: [Plan(NoisySum(s, 1, columns), 1)], cost, ledger=ledger)
        numbers = {
            "scale": [half, half],
            "predicted": [float((spread**2).mean()), float((spread**4).mean())],
            "centre": centre,
        }
        about = {"n_records": size, "numbers": numbers}
        return _Design(plans, ["evaluate: numbers and their residuals"], "numbers", about)

    def answers(self, scored: Floats, private: PrivateRecords, design: _Design) -> list[Any]:
        """Return what the records say, for each plan. Secret."""
        if design.kind == "numbers":
            return [_said_of_numbers(scored, private, design.about["numbers"])]
        edges = design.about["bins"].edges
        if design.kind == "binary":
            bins = score_bins(scored[:, 1], edges)
            return [ScoredRecords(private.targets, bins, private.people)]
        failed = ~np.isfinite(scored).all(axis=1)
        said = np.where(failed, -1, np.nan_to_num(scored).argmax(axis=1))
        sure = np.where(failed, np.nan, np.nan_to_num(scored).max(axis=1))
        right = (said == private.targets).astype(np.int64)
        return [
            ScoredRecords(right, score_bins(sure, edges), private.people),
            ScoredRecords(private.targets, said.astype(np.int64), private.people),
        ]


def _columns(own: Any, classes: Any) -> tuple[NDArray[Any], Integers]:
    """Return the labels, sorted as those of records are, and which column of the model is whose."""
    if own is None and classes is None:
        raise InvalidArgument("Expected classes=, the public label set: the model has none.")
    columns = np.asarray(classes if own is None else own)
    labels, order = np.unique(columns, return_index=True)
    if len(labels) != columns.size or len(labels) < 2:
        raise InvalidArgument("Expected classes= to be two labels or more, each once.")
    if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), labels):
        raise InvalidArgument("Expected classes= to be the model's own, classes_.")
    return labels, order


def _is_first(labels: NDArray[Any], positive: Any) -> bool:
    """Tell whether the first of two classes is the outcome, and has to be put last."""
    if positive is None:
        return False
    if len(labels) != 2 or positive not in labels.tolist():
        raise refuse("positive", positive, f"one of two classes; there are {labels.tolist()}")
    return bool(labels[0] == positive)


def _said_of_numbers(
    scored: Floats, private: PrivateRecords, numbers: dict[str, Any]
) -> Contributions:
    """Return what records say of their numbers; a person says the mean of the own ones. Secret."""
    scale, residual_scale = numbers["scale"]
    with np.errstate(all="ignore"):
        target = (private.targets - numbers["centre"]) / scale
        residual = (private.targets - scored[:, 0]) / residual_scale
        rows = said_of_number(target, residual) * private.shares()[:, None]

    def left(some: Integers) -> Floats:
        return np.ones((len(some), 1))

    return Contributions(len(rows), left, lambda some: rows[some], private.people)
