"""The objects people use; they only wire the floors below."""

from tacit.estimators.knn import PrivateKNNClassifier
from tacit.estimators.knn_multilabel import PrivateKNNMultiLabelClassifier
from tacit.estimators.knn_regression import PrivateKNNRegressor
from tacit.estimators.pate import PATEClassifier

__all__ = [
    "PATEClassifier",
    "PrivateKNNClassifier",
    "PrivateKNNMultiLabelClassifier",
    "PrivateKNNRegressor",
]
