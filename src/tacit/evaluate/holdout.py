"""Records kept apart say once, through the ledger, how well a public model does on them.

The model is public: it was made of public inputs and releases. Each record is scored by itself, so
that its score is its own, bit for bit. What is told, the bins and the noise follow from public
scores and declared numbers; then one entry of the ledger is paid (two with several classes), and
everything else is post-processing (docs/theory/evaluation.md).
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, at_least
from tacit.datasets import TableStream
from tacit.errors import InvalidArgument
from tacit.evaluate.design import Design, Payer, carry_out, faults_of
from tacit.evaluate.evaluation import Evaluation
from tacit.evaluate.judged import Judged
from tacit.ledger import KeptReleases, Ledger
from tacit.methods import NewLedger
from tacit.noise import InsecureNoise
from tacit.records import (
    PrivateRecords,
    StreamedRecords,
    is_from_data,
    public_matrix,
    read_records,
    refuse_overlap,
    streamed,
    view_alone,
)

_TRIED = 8  # public rows, or rows of zeros, on which a model is tried out


def evaluate(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    epsilon: float,
    ledger: Ledger | NewLedger,
    n_records: int | str,
    delta: float | None = None,
    share: Any = None,
    X_public: Any = None,
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
    X : array of shape (records, features), or TableStream
        Records kept apart. Secret; no error quotes them. A table that `tacit.datasets.open_table`
        opened is gone through batch by batch, and need not fit into memory. Its columns, and those
        of a frame, must be those that the model learned from, in their order, declared as there.
    y : array of shape (records,), optional
        Their labels or numbers. Secret. A table names its own.
    epsilon : float
        What this evaluation may cost by itself, at the ledger's delta.
    ledger : Ledger or NewLedger
        Who pays: the ledger of the model's own records (another than its `ledger_` is refused; of a
        model without one, the statement says that nobody could tell), unless `disjoint`. Then it is
        that of the people here, the same for every model that they judge; a `NewLedger` is made for
        epsilon and delta once nothing speaks against the evaluation.
    n_records : int or str
        How many records (people, with `groups`) there are, as publicly declared: it decides how
        many bins there are and which figures are told. "from_data" counts them, which no cost
        covers: the ledger then says so, for ever.
    delta : float, optional
        Of a ledger that is made; one that is there has its own, and another is refused.
    share : float or array, optional
        Of the positive class, or of each class, as declared or released earlier; None takes the
        model's mean probability of public inputs. "from_data" as above.
    X_public : array of shape (inputs, features), path or table, optional
        Public inputs, whose scores fix the bins and must be finite; without them bins are even.
    threshold : float
        From which probability on the positive class of two is said; it becomes an edge.
    classes : array, optional
        The public label set; the model's own by default.
    positive : label, optional
        Which of two classes is the outcome: the last by default.
    target_range : tuple of float, optional
        For numbers: the public bounds of y; the model's own by default.
    groups : array of shape (records,), optional
        Whose each record is; everybody counts once, with the mean of the own records. Secret. A
        table names its own.
    disjoint : bool
        Declares that nobody here taught the model: then the ledger may be one of their own, and
        says that this was declared. A second ledger for the same people would hide what the first
        one counts.
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
    judged = Judged.of(model, classes, target_range, positive)
    with contextlib.ExitStack() as stack:
        private = _checked(judged, X, y, groups, X_public, allow_overlap, stack)
        outside, columns = private.outside, private.columns
        payer = Payer.of(
            ledger,
            epsilon,
            delta,
            model=model,
            by_person=private.records.by_person,
            each="record",
            disjoint=disjoint,
        )
        # What was counted is never quoted: too few are refused as hopeless, without the number.
        size = (
            max(private.records.n_units, 2)
            if is_from_data(n_records)
            else at_least(2, n_records=n_records)
        )
        design = judged.design(size, share, outside, private.records, threshold, payer)
        public = np.zeros((_TRIED, columns)) if outside is None else outside
        return carry_out(
            design,
            payer,
            partial(_said, judged, private.records, public, design),
            faults=faults_of(disjoint, allow_overlap, n_records, share, model=model),
            public=outside,
            noise=noise,
            kept=kept,
        )


class _KeptApart(NamedTuple):
    """Records that were checked, how many columns they have, and public inputs beside them."""

    records: PrivateRecords | StreamedRecords
    columns: int
    outside: Floats | None


def _checked(
    judged: Judged,
    X: Any,
    y: Any,
    groups: Any,
    X_public: Any,
    allow_overlap: bool,
    stack: contextlib.ExitStack,
) -> _KeptApart:
    """Check all rows: of a table in one pass over it."""
    judged.check_columns(X)
    if isinstance(X, TableStream):
        if y is not None or groups is not None:
            raise InvalidArgument("Expected no y and groups beside a table that names them.")
        columns = len(X.columns)
        outside = None if X_public is None else public_matrix(X.public(X_public), columns)
        records, buckets = streamed(
            partial(X.pieces, judged.target),
            outside=None if allow_overlap else outside,
            again=X.again,
            executor=X.executor,
        )
        if buckets is not None:
            stack.enter_context(contextlib.closing(buckets))
        return _KeptApart(records, columns, outside)
    judged.check_columns(X_public)
    held, names = read_records(X, y, groups, judged.target)
    columns = held.rows.shape[1]
    outside = None if X_public is None else public_matrix(X_public, columns, names)
    if outside is not None and not allow_overlap:
        refuse_overlap(held.rows, outside)
    return _KeptApart(held, columns, outside)


def _said(
    judged: Judged, private: PrivateRecords | StreamedRecords, public: Floats, design: Design
) -> list[Any]:
    """Return what the records say, for each plan: of a table in one pass a plan. Secret."""
    if isinstance(private, PrivateRecords):  # scored once, whatever is asked of the scores
        return judged.answers(view_alone(judged, private.rows, public), private, design)
    few = public[:_TRIED]
    return [
        private.said(plan.mechanism, partial(_said_by_some, judged, few, design, place))
        for place, plan in enumerate(design.plans)
    ]


def _said_by_some(
    judged: Judged, public: Floats, design: Design, place: int, some: PrivateRecords
) -> Any:
    return judged.answers(view_alone(judged, some.rows, public), some, design)[place]
