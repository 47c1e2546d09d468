"""The methods: for each, one file with its estimator, table of run.toml, rule, plan and pictures.

Names load on first use: whoever wants one method does not wait for the others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "Count": "settings",
    "DPSGDAutoencoder": "dpsgd_autoencoder",
    "DPSGDClassifier": "dpsgd",
    "Facts": "facts",
    "Figures": "method",
    "MACAutoencoder": "mac",
    "MACClassifier": "mac",
    "Method": "method",
    "MomentClassifier": "moments",
    "MomentRegressor": "summary_regression",
    "Neighbourly": "knn_planning",
    "NoisyTrainingEstimator": "noisy_training",
    "PATEClassifier": "pate",
    "PrivateClassifier": "base",
    "PrivateEstimator": "base",
    "PrivateKNNClassifier": "knn",
    "PrivateKNNMultiLabelClassifier": "knn_multilabel",
    "PrivateKNNRegressor": "knn_regression",
    "PrototypeClassifier": "prototypes",
    "RENAMED": "settings",
    "ResidualRidgeClassifier": "ridge",
    "ResidualRidgeRegressor": "summary_regression",
    "Rule": "method",
    "Strategy": "words",
    "Widths": "settings",
    "all_rules": "method",
    "choices": "settings",
    "features_of": "facts",
    "method_named": "method",
    "plan_classes": "knn_planning",
    "propose_neighbours": "knn_planning",
    "propose_votes": "pate_planning",
    "rounded_up": "pate_planning",
    "sigma_for": "pate_planning",
}

__all__ = [
    "RENAMED",
    "Count",
    "DPSGDAutoencoder",
    "DPSGDClassifier",
    "Facts",
    "Figures",
    "MACAutoencoder",
    "MACClassifier",
    "Method",
    "MomentClassifier",
    "MomentRegressor",
    "Neighbourly",
    "NoisyTrainingEstimator",
    "PATEClassifier",
    "PrivateClassifier",
    "PrivateEstimator",
    "PrivateKNNClassifier",
    "PrivateKNNMultiLabelClassifier",
    "PrivateKNNRegressor",
    "PrototypeClassifier",
    "ResidualRidgeClassifier",
    "ResidualRidgeRegressor",
    "Rule",
    "Strategy",
    "Widths",
    "all_rules",
    "choices",
    "features_of",
    "method_named",
    "plan_classes",
    "propose_neighbours",
    "propose_votes",
    "rounded_up",
    "sigma_for",
]

if TYPE_CHECKING:
    from tacit.methods.base import PrivateClassifier, PrivateEstimator
    from tacit.methods.dpsgd import DPSGDClassifier
    from tacit.methods.dpsgd_autoencoder import DPSGDAutoencoder
    from tacit.methods.facts import Facts, features_of
    from tacit.methods.knn import PrivateKNNClassifier
    from tacit.methods.knn_multilabel import PrivateKNNMultiLabelClassifier
    from tacit.methods.knn_planning import Neighbourly, plan_classes, propose_neighbours
    from tacit.methods.knn_regression import PrivateKNNRegressor
    from tacit.methods.mac import MACAutoencoder, MACClassifier
    from tacit.methods.method import Figures, Method, Rule, all_rules, method_named
    from tacit.methods.moments import MomentClassifier
    from tacit.methods.noisy_training import NoisyTrainingEstimator
    from tacit.methods.pate import PATEClassifier
    from tacit.methods.pate_planning import propose_votes, rounded_up, sigma_for
    from tacit.methods.prototypes import PrototypeClassifier
    from tacit.methods.ridge import ResidualRidgeClassifier
    from tacit.methods.settings import RENAMED, Count, Widths, choices
    from tacit.methods.summary_regression import MomentRegressor, ResidualRidgeRegressor
    from tacit.methods.words import Strategy


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tacit.methods' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tacit.methods.{_HOME[name]}"), name)
