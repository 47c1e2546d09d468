"""The methods: each in a file, with estimator, table of run.toml, rule, plan and pictures.

Names that are not in `__all__` are for the packages above.
"""

from tacit.methods.asked_neighbours import Neighbourly as Neighbourly
from tacit.methods.auto import AutoClassifier, AutoRegressor, Described
from tacit.methods.base import NewLedger, PrivateClassifier, PrivateEstimator
from tacit.methods.calibration import calibrate
from tacit.methods.checked_scores import check_within as check_within
from tacit.methods.checked_scores import with_check as with_check
from tacit.methods.dpsgd import DPSGDAutoencoder, DPSGDClassifier
from tacit.methods.forecast import Forecast, no_forecast
from tacit.methods.forecast import ForecastEstimator as ForecastEstimator
from tacit.methods.gd import DescentClassifier
from tacit.methods.knn import (
    PrivateKNNClassifier,
    PrivateKNNMultiLabelClassifier,
    PrivateKNNRegressor,
)
from tacit.methods.knn import propose_class_plan as propose_class_plan
from tacit.methods.mac import MACAutoencoder, MACClassifier, MACSteps
from tacit.methods.method import Facts, Method, Rule, all_rules, common, features_of, method_named
from tacit.methods.moments import MomentClassifier, MomentRegressor
from tacit.methods.noisy_training import TRAINING as TRAINING
from tacit.methods.noisy_training import NoisyTrainingEstimator, Training
from tacit.methods.pate import PATEClassifier
from tacit.methods.pate import sigma_for as sigma_for
from tacit.methods.prototypes import PrototypeClassifier
from tacit.methods.ridge import ResidualRidgeClassifier, ResidualRidgeRegressor
from tacit.methods.settings import CHECKS as CHECKS
from tacit.methods.settings import RENAMED as RENAMED
from tacit.methods.settings import Checks, Count, Positive, Queries, choices
from tacit.methods.settings import Strategy as Strategy
from tacit.methods.settings import Widths as Widths
from tacit.methods.settings import only_known as only_known
from tacit.methods.settings import share_of_check as share_of_check
from tacit.methods.summary import PublicPart, SummaryClassifier

__all__ = [
    "AutoClassifier",
    "AutoRegressor",
    "Checks",
    "Count",
    "DPSGDAutoencoder",
    "DPSGDClassifier",
    "DescentClassifier",
    "Described",
    "Facts",
    "Forecast",
    "MACAutoencoder",
    "MACClassifier",
    "MACSteps",
    "Method",
    "MomentClassifier",
    "MomentRegressor",
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
    "SummaryClassifier",
    "Training",
    "all_rules",
    "calibrate",
    "choices",
    "common",
    "features_of",
    "method_named",
    "no_forecast",
]
