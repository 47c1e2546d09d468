"""tacit: private learning by knowledge transfer.

Models that may be published, learned from data that may not. Names resolve on first use, so that
`import tacit` is quick and heavy libraries load only where they are needed.

>>> import tacit
>>> tacit.GNMax(sigma=40)
GNMax(sigma=40.0, votes_per_unit=1)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0.dev0"

_OFFERED = {
    "tacit.comparing": "compare",
    "tacit.datasets": "load_dataset",
    "tacit.errors": "BudgetExceeded",
    "tacit.export": "export_onnx",
    "tacit.ledger": "Budget Ledger Statement",
    "tacit.masks": "DPSGDSegmenter PATESegmenter",
    "tacit.mechanisms": "ConfidentGNMax GNMax GaussianMean InteractiveGNMax LNMax NoisyScreening "
    "NoisyVotes Plan Sanitise count_votes",
    "tacit.methods": "AutoClassifier AutoRegressor Checks DPSGDAutoencoder DPSGDClassifier "
    "DescentClassifier MACAutoencoder MACClassifier MACSteps "
    "MomentClassifier MomentRegressor NewLedger PATEClassifier PrivateKNNClassifier "
    "PrivateKNNMultiLabelClassifier PrivateKNNRegressor PrototypeClassifier Queries "
    "ResidualRidgeClassifier ResidualRidgeRegressor Training calibrate",
    "tacit.noise": "InsecureNoise SecureNoise",
    "tacit.students": "load_student",
}
_HOME = {name: home for home, names in _OFFERED.items() for name in names.split()}

__all__ = ["__version__", "audit", *_HOME]

if TYPE_CHECKING:
    from tacit.comparing import compare
    from tacit.datasets import load_dataset
    from tacit.errors import BudgetExceeded
    from tacit.export import export_onnx
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
        AutoClassifier,
        AutoRegressor,
        Checks,
        DescentClassifier,
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
