"""A student that is any scikit-learn classifier, trained on the answered queries alone.

Public inputs and releases only: nothing private ever enters this floor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tacit._checks import Floats
from tacit.errors import InvalidArgument
from tacit.students.base import BaseStudent
from tacit.students.inputs import Lesson, row_numbers


@dataclass(eq=False, repr=False)
class SupervisedStudent(BaseStudent):
    """Train a scikit-learn classifier on the most probable class of each answered query.

    A query weighs (C max_c p_c - 1)/(C - 1) (`answer_weights`) where the classifier or the last
    step of a pipeline takes sample weights. Classes that were never released have probability 0;
    if one class only was released, that class is the answer. A classifier without `predict_proba`
    gives probability 1 to what it predicts. Training is seeded by the classifier's own
    random_state. Learned: `estimator_`, None if only one class was released, and `classes_seen_`.

    >>> from sklearn.linear_model import LogisticRegression
    >>> student = SupervisedStudent(LogisticRegression())
    >>> student = student.fit([[0.0], [1.0], [9.0]], [0, 2], [[0.9, 0.1], [0.1, 0.9]])
    >>> student.predict([[0.5], [8.0]]).tolist()
    [0, 1]
    """

    estimator: Any
    _: KW_ONLY
    features: Any = None

    def _learn(self, lesson: Lesson) -> None:
        if not hasattr(self.estimator, "fit") or not hasattr(self.estimator, "predict"):
            raise InvalidArgument(
                f"Expected estimator={type(self.estimator).__name__} to be a scikit-learn "
                "classifier, with fit and predict."
            )
        rows = lesson.answered
        labels = lesson.posterior[rows].argmax(axis=1)
        self.classes_seen_ = np.unique(labels)
        self.estimator_ = None
        if self.classes_seen_.size > 1:
            estimator, inputs = clone(self.estimator), lesson.inputs[lesson.indices[rows]]
            weights = _weight_keyword(estimator, lesson.weights[rows])
            self.estimator_ = estimator.fit(self._view(inputs), labels, **weights)

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        scores = np.zeros((len(inputs), self.n_classes_))
        if self.estimator_ is None:
            scores[:, self.classes_seen_[0]] = 1.0
        elif hasattr(self.estimator_, "predict_proba"):
            scores[:, self.classes_seen_] = self.estimator_.predict_proba(self._view(inputs))
        else:
            labels = np.asarray(self.estimator_.predict(self._view(inputs)), dtype=np.int64)
            scores[np.arange(len(inputs)), labels] = 1.0
        return scores

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"classes_seen": self.classes_seen_}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.classes_seen_ = row_numbers(arrays["classes_seen"], self.n_classes_)
        self.estimator_ = self.estimator
        if (self.classes_seen_.size > 1) != (self.estimator_ is not None):
            raise InvalidArgument("Expected a saved estimator where several classes were released.")


def _weight_keyword(estimator: Any, weights: Floats) -> dict[str, Floats]:
    """Return the keyword by which this estimator takes sample weights, if it takes any."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return {f"{name}__{key}": value for key, value in _weight_keyword(last, weights).items()}
    return {"sample_weight": weights} if has_fit_parameter(estimator, "sample_weight") else {}
