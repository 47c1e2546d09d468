"""The methods: each in a file, with estimator, table of run.toml, rule, plan and pictures."""

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
