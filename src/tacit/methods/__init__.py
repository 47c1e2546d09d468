"""The methods: for each, one file with its estimator, table of run.toml, rule, plan and pictures.

Names load on first use: whoever wants one method does not wait for the others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "Count": "settings",
    "DPSGDAutoencoder": "dpsgd",
    "DPSGDClassifier": "dpsgd",
    "Facts": "method",
    "Figures": "method",
    "MACAutoencoder": "mac",
    "MACClassifier": "mac",
    "MACSteps": "mac",
    "Method": "method",
    "MomentClassifier": "moments",
    "MomentRegressor": "moments",
    "Neighbourly": "knn",
    "NewLedger": "base",
    "NoisyTrainingEstimator": "noisy_training",
    "PATEClassifier": "pate",
    "Positive": "settings",
    "PrivateClassifier": "base",
    "PrivateEstimator": "base",
    "PrivateKNNClassifier": "knn",
    "PrivateKNNMultiLabelClassifier": "knn",
    "PrivateKNNRegressor": "knn",
    "PrototypeClassifier": "prototypes",
    "PublicPart": "summary",
    "Queries": "settings",
    "RENAMED": "settings",
    "ResidualRidgeClassifier": "ridge",
    "ResidualRidgeRegressor": "ridge",
    "Rule": "method",
    "Strategy": "settings",
    "SummaryClassifier": "summary",
    "TRAINING": "noisy_training",
    "Training": "noisy_training",
    "Widths": "settings",
    "all_rules": "method",
    "calibrate": "calibration",
    "choices": "settings",
    "common": "method",
    "features_of": "method",
    "method_named": "method",
    "propose_class_plan": "knn",
    "propose_neighbours": "knn",
    "propose_votes": "pate",
    "sigma_for": "pate",
}

__all__ = [
    "RENAMED",
    "TRAINING",
    "Count",
    "DPSGDAutoencoder",
    "DPSGDClassifier",
    "Facts",
    "Figures",
    "MACAutoencoder",
    "MACClassifier",
    "MACSteps",
    "Method",
    "MomentClassifier",
    "MomentRegressor",
    "Neighbourly",
    "NewLedger",
    "NoisyTrainingEstimator",
    "PATEClassifier",
    "Positive",
    "PrivateClassifier",
    "PrivateEstimator",
    "PrivateKNNClassifier",
    "PrivateKNNMultiLabelClassifier",
    "PrivateKNNRegressor",
    "PrototypeClassifier",
    "PublicPart",
    "Queries",
    "ResidualRidgeClassifier",
    "ResidualRidgeRegressor",
    "Rule",
    "Strategy",
    "SummaryClassifier",
    "Training",
    "Widths",
    "all_rules",
    "calibrate",
    "choices",
    "common",
    "features_of",
    "method_named",
    "propose_class_plan",
    "propose_neighbours",
    "propose_votes",
    "sigma_for",
]

if TYPE_CHECKING:
    from tacit.methods.base import NewLedger, PrivateClassifier, PrivateEstimator
    from tacit.methods.calibration import calibrate
    from tacit.methods.dpsgd import DPSGDAutoencoder, DPSGDClassifier
    from tacit.methods.knn import (
        Neighbourly,
        PrivateKNNClassifier,
        PrivateKNNMultiLabelClassifier,
        PrivateKNNRegressor,
        propose_class_plan,
        propose_neighbours,
    )
    from tacit.methods.mac import MACAutoencoder, MACClassifier, MACSteps
    from tacit.methods.method import (
        Facts,
        Figures,
        Method,
        Rule,
        all_rules,
        common,
        features_of,
        method_named,
    )
    from tacit.methods.moments import MomentClassifier, MomentRegressor
    from tacit.methods.noisy_training import TRAINING, NoisyTrainingEstimator, Training
    from tacit.methods.pate import PATEClassifier, propose_votes, sigma_for
    from tacit.methods.prototypes import PrototypeClassifier
    from tacit.methods.ridge import ResidualRidgeClassifier, ResidualRidgeRegressor
    from tacit.methods.settings import RENAMED, Count, Positive, Queries, Strategy, Widths, choices
    from tacit.methods.summary import PublicPart, SummaryClassifier


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tacit.methods' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tacit.methods.{_HOME[name]}"), name)
