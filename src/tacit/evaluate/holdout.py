"""Records kept apart say once, through the ledger, how well a public model does on them.

The model is public: it was made of public inputs and releases. Each record is scored by itself, so
that its score is its own, bit for bit. What is told, the bins and the noise follow from public
scores and declared numbers; then one entry of the ledger is paid (two with several classes), and
everything else is post-processing (docs/theory/evaluation.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from tacit._checks import at_least
from tacit.evaluate.design import Payer, carry_out, faults_of
from tacit.evaluate.evaluation import Evaluation
from tacit.evaluate.judged import Judged
from tacit.ledger import KeptReleases, Ledger
from tacit.methods import NewLedger
from tacit.noise import InsecureNoise
from tacit.records import (
    PrivateRecords,
    class_indices,
    is_from_data,
    private_rows,
    public_matrix,
    refuse_overlap,
    units_of,
    view_alone,
)

_TRIED = 8  # public rows, or rows of zeros, on which a model is tried out


def evaluate(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    epsilon: float,
    ledger: Ledger | NewLedger,
    n_records: int | str,
    delta: float | None = None,
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
    ledger : Ledger or NewLedger
        Who pays: the ledger of the model's own records, unless `disjoint`. Then it is that of the
        people here, the same for every model that they judge; a `NewLedger` is made for epsilon and
        delta once nothing speaks against the evaluation.
    n_records : int or str
        How many records (people, with `groups`) there are, as publicly declared: it decides how
        many bins there are and which figures are told. "from_data" counts them, which no cost
        covers: the ledger then says so, for ever.
    delta : float, optional
        Of a ledger that is made; one that is there has its own.
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
    rows, said = private_rows(BaseEstimator(), X, y, y_numeric=judged.bounds is not None)
    people = units_of(groups, len(rows))
    payer = Payer.of(
        ledger,
        epsilon,
        delta,
        model=model,
        by_person=people is not None,
        each="record",
        disjoint=disjoint,
    )
    outside = None if X_public is None else public_matrix(X_public, rows.shape[1])
    if outside is not None and not allow_overlap:
        refuse_overlap(rows, outside)
    targets = said
    if judged.bounds is None:
        _, targets = class_indices(said, judged.classes)
        targets = 1 - targets if judged.turn else targets
    private = PrivateRecords(rows, targets, people)
    size = private.n_units if is_from_data(n_records) else at_least(2, n_records=n_records)
    design = judged.design(size, share, outside, private, threshold, payer)
    public = np.zeros((_TRIED, rows.shape[1])) if outside is None else outside

    def answers() -> list[Any]:
        return judged.answers(view_alone(judged, rows, public), private, design)

    return carry_out(
        design,
        payer,
        answers,
        faults=faults_of(disjoint, allow_overlap, n_records, share),
        public=outside,
        noise=noise,
        kept=kept,
    )
