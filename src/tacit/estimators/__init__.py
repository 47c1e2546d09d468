"""The objects people use; they only wire the floors below."""

from tacit.estimators.pate import PATEClassifier

__all__ = ["PATEClassifier"]
