"""scikit-learn's contract for the estimators whose records speak once."""

from __future__ import annotations

import numpy as np
import pytest
from knn_shared import Quiet
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import estimator_checks_generator

from tacit import (
    MomentClassifier,
    MomentRegressor,
    PrototypeClassifier,
    ResidualRidgeClassifier,
    ResidualRidgeRegressor,
)
from tacit.students import SupervisedStudent


class Supplied:
    """For scikit-learn's checks: supplies public inputs."""

    def fit(self, X, y, X_public=None, groups=None):
        try:
            array = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):  # what the check feeds is refused by the parent
            array = np.zeros((1, 1))
        if array.ndim == 2 and len(array) and np.isfinite(array).all():
            generator = np.random.default_rng(0)
            X_public = array[generator.integers(len(array), size=60)] + generator.normal(
                scale=1e-3, size=(60, array.shape[1])
            )
        elif X_public is None:
            X_public = np.zeros((2, array.shape[-1] if array.ndim else 1))
        return super().fit(X, y, X_public=X_public, groups=groups)


class CheckedPrototypes(Supplied, PrototypeClassifier):
    pass


class CheckedMoments(Supplied, MomentClassifier):
    pass


class CheckedRidge(Supplied, ResidualRidgeClassifier):
    pass


class CheckedLine(Supplied, MomentRegressor):
    pass


class CheckedKernel(Supplied, ResidualRidgeRegressor):
    pass


VALUES = {"epsilon": 1000.0, "noise": Quiet(), "random_state": 0}
SETTINGS = {**VALUES, "classes": "from_data"}
CHECKED = [
    CheckedPrototypes(
        SupervisedStudent(LogisticRegression()), n_prototypes=30, votes=1, **SETTINGS
    ),
    CheckedMoments(**SETTINGS),
    CheckedRidge(n_landmarks=40, **SETTINGS),
    CheckedLine(low=-5.0, high=5.0, **VALUES),
    CheckedKernel(low=-5.0, high=5.0, **VALUES),
]
EXPECTED_FAILURES = {
    "check_estimators_overwrite_params": "InsecureNoise is a stream: drawing from it changes it",
}


@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pair
        for model in CHECKED
        for pair in estimator_checks_generator(
            model, mark="skip", expected_failed_checks=EXPECTED_FAILURES
        )
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_contract(estimator, check):
    check(estimator)
