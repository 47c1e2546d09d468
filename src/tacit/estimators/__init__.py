"""The objects people use; they only wire the floors below."""

from tacit.estimators.comparing import compare
from tacit.estimators.dpsgd import DPSGDClassifier
from tacit.estimators.dpsgd_autoencoder import DPSGDAutoencoder
from tacit.estimators.knn import PrivateKNNClassifier
from tacit.estimators.knn_multilabel import PrivateKNNMultiLabelClassifier
from tacit.estimators.knn_regression import PrivateKNNRegressor
from tacit.estimators.mac import MACAutoencoder, MACClassifier
from tacit.estimators.moments import MomentClassifier
from tacit.estimators.pate import PATEClassifier
from tacit.estimators.prototypes import PrototypeClassifier
from tacit.estimators.residual_ridge import ResidualRidgeClassifier
from tacit.estimators.spoken_values import MomentRegressor, ResidualRidgeRegressor

__all__ = [
    "DPSGDAutoencoder",
    "DPSGDClassifier",
    "MACAutoencoder",
    "MACClassifier",
    "MomentClassifier",
    "MomentRegressor",
    "PATEClassifier",
    "PrivateKNNClassifier",
    "PrivateKNNMultiLabelClassifier",
    "PrivateKNNRegressor",
    "PrototypeClassifier",
    "ResidualRidgeClassifier",
    "ResidualRidgeRegressor",
    "compare",
]
