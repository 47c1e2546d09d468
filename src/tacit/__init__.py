"""tacit: private learning by knowledge transfer.

Models that may be published, learned from data that may not. Names resolve on first use, so that
`import tacit` is quick and heavy libraries load only where they are needed.

>>> import tacit
>>> tacit.GNMax(sigma=40)
GNMax(sigma=40.0)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "compare": "tacit.comparing",
    "load_dataset": "tacit.datasets",
    "load_student": "tacit.students",
    "ConfidentGNMax": "tacit.mechanisms",
    "GNMax": "tacit.mechanisms",
    "GaussianMean": "tacit.mechanisms",
    "InteractiveGNMax": "tacit.mechanisms",
    "LNMax": "tacit.mechanisms",
    "NoisyScreening": "tacit.mechanisms",
    "NoisyVotes": "tacit.mechanisms",
    "Plan": "tacit.mechanisms",
    "Sanitise": "tacit.mechanisms",
    "count_votes": "tacit.mechanisms",
    "InsecureNoise": "tacit.noise",
    "SecureNoise": "tacit.noise",
    "DPSGDAutoencoder": "tacit.methods",
    "DPSGDClassifier": "tacit.methods",
    "DPSGDSegmenter": "tacit.masks",
    "MACAutoencoder": "tacit.methods",
    "MACClassifier": "tacit.methods",
    "MACSteps": "tacit.methods",
    "MomentClassifier": "tacit.methods",
    "MomentRegressor": "tacit.methods",
    "NewLedger": "tacit.methods",
    "PATEClassifier": "tacit.methods",
    "PATESegmenter": "tacit.masks",
    "PrivateKNNClassifier": "tacit.methods",
    "PrivateKNNMultiLabelClassifier": "tacit.methods",
    "PrivateKNNRegressor": "tacit.methods",
    "PrototypeClassifier": "tacit.methods",
    "Queries": "tacit.methods",
    "ResidualRidgeClassifier": "tacit.methods",
    "ResidualRidgeRegressor": "tacit.methods",
    "Training": "tacit.methods",
    "calibrate": "tacit.methods",
    "Budget": "tacit.ledger",
    "Ledger": "tacit.ledger",
    "Statement": "tacit.ledger",
    "BudgetExceeded": "tacit.errors",
}

__all__ = ["__version__", "audit", *_HOME]

if TYPE_CHECKING:
    from tacit.comparing import compare
    from tacit.datasets import load_dataset
    from tacit.errors import BudgetExceeded
    from tacit.ledger import Budget, Ledger, Statement
    from tacit.masks import DPSGDSegmenter, PATESegmenter
    from tacit.mechanisms import (
        ConfidentGNMax,
        GaussianMean,
        GNMax,
        InteractiveGNMax,
        LNMax,
        NoisyScreening,
        NoisyVotes,
        Plan,
        Sanitise,
        count_votes,
    )
    from tacit.methods import (
        DPSGDAutoencoder,
        DPSGDClassifier,
        MACAutoencoder,
        MACClassifier,
        MACSteps,
        MomentClassifier,
        MomentRegressor,
        NewLedger,
        PATEClassifier,
        PrivateKNNClassifier,
        PrivateKNNMultiLabelClassifier,
        PrivateKNNRegressor,
        PrototypeClassifier,
        Queries,
        ResidualRidgeClassifier,
        ResidualRidgeRegressor,
        Training,
        calibrate,
    )
    from tacit.noise import InsecureNoise, SecureNoise
    from tacit.students import load_student


def __getattr__(name: str) -> Any:
    if name == "audit":
        return importlib.import_module("tacit.audit")
    if name not in _HOME:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
