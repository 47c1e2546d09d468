"""scikit-learn's own checks of the estimators on neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from contract_shared import PublicSupplied, contract_checks
from flat_settings import built
from knn_shared import Quiet
from sklearn.linear_model import LinearRegression, LogisticRegression

from tacit import (
    PrivateKNNClassifier,
    PrivateKNNMultiLabelClassifier,
    PrivateKNNRegressor,
)
from tacit.students import SupervisedStudent, ValueStudent


class CheckedClassifier(PublicSupplied, PrivateKNNClassifier):
    pass


class CheckedRegressor(PublicSupplied, PrivateKNNRegressor):
    pass


class CheckedLabels(PublicSupplied, PrivateKNNMultiLabelClassifier):
    """The checks' classes become 0 and 1, and their columns are the labels."""

    def _fit_arrays(self, X, y, X_public, groups):
        if y is None:
            return super()._fit_arrays(X, y, X_public, groups)
        y = np.asarray(y)
        declared, self.labels = self.labels, y.shape[1] if y.ndim == 2 else 1
        try:
            whole = y.dtype.kind in "iuf" and (np.isfinite(y) & (y == np.round(y))).all()
            return super()._fit_arrays(X, (y > 0).astype(int) if whole else y, X_public, groups)
        finally:
            self.labels = declared


ONE_COLUMN = "y is a matrix with a column for each label, not a vector of classes"
MUST_FAIL = {
    CheckedLabels: {
        "check_classifiers_one_label": ONE_COLUMN,
        "check_classifiers_classes": ONE_COLUMN,
        "check_classifiers_train": ONE_COLUMN,
        "check_classifiers_regression_target": ONE_COLUMN,
    }
}


# The checks want the same numbers from two fits, which noise never gives; without it, none fails.
COMMON = {"k": 5, "queries": 40, "epsilon": 1000.0, "random_state": 0, "noise": Quiet()}
CHECKED = [
    built(
        CheckedClassifier, SupervisedStudent(LogisticRegression()), classes="from_data", **COMMON
    ),
    built(CheckedRegressor, ValueStudent(LinearRegression()), low=-5.0, high=5.0, **COMMON),
    built(CheckedLabels, ValueStudent(LinearRegression()), labels=1, **COMMON),
]


@pytest.mark.parametrize(
    ("estimator", "check"),
    [pair for model in CHECKED for pair in contract_checks(model, MUST_FAIL.get(type(model)))],
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_contract(estimator, check):
    check(estimator)
