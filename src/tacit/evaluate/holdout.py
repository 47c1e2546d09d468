"""Private evaluation of a public model: held-out records contribute once, through the ledger.

Each record is scored alone, so that its score does not depend on others. Figures, bins and noise
follow from public scores and declared numbers; one entry of the ledger is paid (two with several
classes), and the rest is post-processing (docs/theory/evaluation.md).
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
    """Release once, with differential privacy, how well a model does on held-out private records.

    Bands are of 95 % and cover sampling and noise together. A record on which the model fails is
    counted nowhere, silently: an error would leak it.
    Source: docs/theory/evaluation.md; docs/private-evaluation.md.

    Parameters
    ----------
    model : classifier or regressor
        Public: a fitted estimator of tacit, a student, or anything with `predict_proba` and
        `classes_`, or with `predict` for numbers. None of these records trained it, or the ledger
        is the one that paid for their training.
    X : array of shape (records, features), or TableStream
        Held-out records. Secret; no error quotes them. A `tacit.datasets.open_table` is read in
        batches. Columns, also of a frame, must be those of the model's training, in order.
    y : array of shape (records,), optional, labels or numbers; secret; a table names its own
    epsilon : float, cost of this evaluation alone, at the ledger's delta
    ledger : Ledger or NewLedger
        That of the model's own records (another than its `ledger_` is refused; of a model without
        one, the statement says that this could not be checked), unless `disjoint`: then that of the
        people here, the same for every model that they evaluate. A `NewLedger` is made for epsilon
        and delta after all checks.
    n_records : int or str
        How many records (people, with `groups`) there are, as publicly declared: it decides bins
        and figures. "from_data" counts them, which no cost covers; the ledger then records it.
    delta : float, optional
        Of a ledger that is made; an existing one has its own, and another is refused.
    share : float or array, optional
        Of the positive class, or of each class, as declared or released earlier; None takes the
        model's mean probability of public inputs. "from_data" as above.
    X_public : array of shape (inputs, features), path or table, optional
        Public inputs, whose scores fix the bins and must be finite; without them bins are even.
    threshold : float, from which probability on two classes' positive is predicted; an edge
    classes : array, optional, the public label set; the model's own by default
    positive : label, optional, which of two classes is the outcome: the last by default
    target_range : tuple of float, optional
        For numbers: the public bounds of y; the model's own by default.
    groups : array of shape (records,), optional
        The person of each record; everybody counts once, with the mean of the own records. Secret.
        A table names its own.
    disjoint : bool
        Declares that nobody here trained the model: then the ledger may be one of their own, and
        records the declaration. A second ledger for the same people would hide the first one's
        cost.
    allow_overlap : bool
        Skip the check for records that equal public inputs; the ledger then records it.
    noise : InsecureNoise, optional, seeded noise for tests and research, without any privacy
    kept : KeptReleases, optional
        Where a run stores what was released, so that a second start pays nothing.

    Returns
    -------
    Evaluation, public; without what so many records cannot give at this price

    Raises
    ------
    BudgetExceeded
        Where the ledger refuses; nothing is spent then.

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
    """Held-out records that were checked, their number of columns, and public inputs."""

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
    """Return the records' contributions, for each plan: of a table in one pass a plan. Secret."""
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
