"""scikit-learn's contract for the estimators whose records speak once."""

from __future__ import annotations

import pytest
from contract_shared import PublicSupplied, contract_checks
from flat_settings import built
from knn_shared import Quiet
from sklearn.linear_model import LogisticRegression

from tacit import (
    MomentClassifier,
    MomentRegressor,
    PrototypeClassifier,
    ResidualRidgeClassifier,
    ResidualRidgeRegressor,
)
from tacit.students import SupervisedStudent


class CheckedPrototypes(PublicSupplied, PrototypeClassifier):
    pass


class CheckedMoments(PublicSupplied, MomentClassifier):
    pass


class CheckedRidge(PublicSupplied, ResidualRidgeClassifier):
    pass


class CheckedLine(PublicSupplied, MomentRegressor):
    pass


class CheckedKernel(PublicSupplied, ResidualRidgeRegressor):
    pass


VALUES = {"epsilon": 1000.0, "noise": Quiet(), "random_state": 0}
SETTINGS = {**VALUES, "classes": "from_data"}
CHECKED = [
    CheckedPrototypes(
        SupervisedStudent(LogisticRegression()), n_prototypes=30, votes=1, **SETTINGS
    ),
    CheckedMoments(**SETTINGS),
    CheckedRidge(n_landmarks=40, **SETTINGS),
    built(CheckedLine, low=-5.0, high=5.0, **VALUES),
    built(CheckedKernel, low=-5.0, high=5.0, **VALUES),
]


@pytest.mark.parametrize(
    ("estimator", "check"), [pair for model in CHECKED for pair in contract_checks(model)]
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_contract(estimator, check):
    check(estimator)
