"""`PrivateKNNMultiLabelClassifier`: which of many labels the private neighbours bear.

The k nearest private records of a Poisson sample say their labels, each record clipped to a bounded
vector; a mechanism releases noisy counts, which are compared with public thresholds. Counts of
those *without* a label are never released: they would cost as much again
(docs/theory/private-knn.md#several-labels).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from tacit._checks import Floats, Integers, at_least, finite_array, refuse
from tacit.errors import InvalidArgument
from tacit.ledger import Budget
from tacit.mechanisms import Plan, Release
from tacit.methods.knn_base import PrivateNeighbours, Targets
from tacit.methods.knn_planning import Neighbourly, plan_labels
from tacit.records import PrivateRecords
from tacit.students import ValueStudent

MATCHED = "matched"
"""Value of `threshold=` that leaves the thresholds to the student's own shares."""


@dataclass(eq=False, repr=False)
class PrivateKNNMultiLabelClassifier(ClassifierMixin, PrivateNeighbours):  # type: ignore[misc]
    """Private k-nearest-neighbour votes on several labels at once, worst-case priced.

    y is a matrix of 0 and 1, a column for each label; predictions are such a matrix, too.

    student: `ValueStudent()` by default; it learns the noisy shares of neighbours with each label.
    k, sampling_rate, queries, strategy, features, radius, votes_per_unit, ledger, random_state:
        as for `PrivateKNNClassifier`.
    labels: the public names of the labels, or how many there are.
    tau: for how many labels a record may count in full; one with more counts less for each. The
        noise grows as its square root. clip: "l2" keeps more of such a record than "l1", the
        paper's tau-approximation, at the same price.
    threshold: the public share of k that a label's clipped, noisy count must reach, or one for each
        label; or "matched": each label is predicted for as many public inputs as the student's
        shares add up to, which suits neighbourhoods so large that no label reaches a half.

    Unit: one record, or one person with `groups=`. Source:
    docs/theory/private-knn.md#several-labels.
    """

    _y_checks: ClassVar[dict[str, bool]] = {"multi_output": True}

    _: KW_ONLY
    labels: Any = None
    tau: float = 1.0
    clip: str = "l2"
    threshold: Any = 0.5

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        return tags

    def _read(self, y: NDArray[Any]) -> Targets:
        names = label_names(self.labels)
        if y.ndim != 2 or y.shape[1] != names.size:
            raise InvalidArgument(
                f"Expected y of shape (rows, {names.size}), a column for each of labels=."
            )
        if y.dtype.kind not in "biuf" or not ((y == 0) | (y == 1)).all():
            # The last words are those that scikit-learn's contract wants.
            raise InvalidArgument("Expected y to hold 0 and 1 only. Unknown label type: other.")
        # Matched thresholds follow from the student's shares; until then every label is a half.
        start = 0.5 if self._matched else self.threshold
        public = {"labels_": names, "thresholds_": label_thresholds(start, names.size)}
        return Targets(y.astype(np.int8), int(names.size) if names.size > 1 else None, public)

    def _price(self, asked: Neighbourly, queries: int, budget: Budget, *, listed: bool) -> Plan:
        return plan_labels(asked, queries, budget, tau=self.tau, clip=self.clip, listed=listed)

    def _default_student(self) -> Any:
        return ValueStudent()

    def _keep(self, private: PrivateRecords, asked: Neighbourly, task: Targets) -> Self:
        if self._matched:
            raise InvalidArgument(
                f"Expected threshold={self.threshold!r} with X_public= only: it is a student's."
            )
        return super()._keep(private, asked, task)

    @property
    def _matched(self) -> bool:
        return isinstance(self.threshold, str) and self.threshold == MATCHED

    def _train_student(self, student: Any, outside: NDArray[Any]) -> Any:
        mechanism: Any = self.releases_[-1].mechanism
        shares = np.concatenate([_shares(release) for release in self.releases_])
        student.fit(outside, self.queries_, shares, noise=mechanism.sigma / mechanism.k)
        if self._matched:
            shares = np.asarray(student.predict(outside)).reshape(len(outside), -1)
            self.thresholds_ = matched_thresholds(shares)
        return student

    def _answers(self, release: Release) -> Integers:
        return self._reached(_shares(release))

    def _reached(self, shares: Floats) -> Integers:
        return np.asarray(shares >= self.thresholds_, dtype=np.int64)

    def _public_facts(self) -> dict[str, Any]:
        return {"labels": self.labels_.tolist(), "thresholds": self.thresholds_.tolist()}

    def predict_shares(self, X: ArrayLike) -> Floats:
        """Return the student's share of neighbours with each label, clipped as by the mechanism."""
        inputs = self._student_inputs(X)
        return np.asarray(self.student_.predict(inputs), dtype=np.float64)

    def predict(self, X: ArrayLike) -> Integers:
        """Return 0 or 1 for each label: post-processing of the releases, free of charge."""
        return self._reached(self.predict_shares(X))


def _shares(release: Release) -> Floats:
    mechanism: Any = release.mechanism
    return np.asarray(np.asarray(release.values) / mechanism.k)


def matched_thresholds(shares: ArrayLike) -> Floats:
    """Return for each label the threshold that as many rows reach as its shares add up to.

    >>> matched_thresholds([[0.1, 0.4], [0.2, 0.3], [0.4, 0.1], [0.3, 0.2]]).tolist()
    [0.4, 0.4]
    """
    rows = np.sort(np.asarray(shares, dtype=np.float64), axis=0)
    wanted = np.rint(rows.clip(0, 1).sum(axis=0)).astype(np.int64)
    reached = rows[np.minimum(len(rows) - wanted, len(rows) - 1), np.arange(rows.shape[1])]
    return np.asarray(np.where(wanted > 0, reached, rows[-1] + 1))


def label_names(labels: Any) -> NDArray[Any]:
    """Return the public names of labels; a number n stands for 0 .. n - 1.

    >>> label_names(["sun", "rain"]).tolist(), label_names(2).tolist()
    (['sun', 'rain'], [0, 1])
    """
    if labels is None:
        raise InvalidArgument("Expected labels= the public names of y's columns, or their number.")
    if np.ndim(labels) == 0:
        return np.arange(at_least(1, labels=labels))
    names = np.asarray(labels)
    if names.ndim != 1 or names.size < 1 or np.unique(names).size != names.size:
        raise refuse("labels", labels, "a list of different names, or their number")
    return names


def label_thresholds(threshold: Any, n_labels: int) -> Floats:
    """Return one threshold for each label, each a share in (0, 1].

    >>> label_thresholds(0.5, 3).tolist()
    [0.5, 0.5, 0.5]
    """
    values = finite_array(threshold=threshold)
    in_range = ((values > 0) & (values <= 1)).all()
    if values.ndim > 1 or values.size not in (1, n_labels) or not in_range:
        raise refuse("threshold", threshold, f"a share in (0, 1], or {n_labels} of them")
    return np.broadcast_to(values, (n_labels,)).copy()
