"""Private records to a model without teachers: noisy steps of training (DP-SGD, DP-MAC).

Modules here turn private units into bounded sums and learn from noisy ones; samples and noise come
from the grant of a `NoisySteps` mechanism, never from here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "ACTIVATIONS": "exact_rows",
    "AuxiliaryCoordinates": "auxiliary",
    "Blocks": "blocks",
    "CLIPPINGS": "blocks",
    "ENGINES": "training",
    "GradientSteps": "training",
    "LayerParts": "layer_parts",
    "Loss": "examples",
    "NewtonSteps": "newton",
    "NoisyNewton": "newton",
    "OPTIMISERS": "optimisers",
    "PrivateExamples": "examples",
    "Recipe": "training",
    "SPLITS": "blocks",
    "blocks_of": "training",
    "choose_engine": "training",
    "cross_entropy": "losses",
    "flat_parameters": "examples",
    "half_squares": "losses",
    "histogram_of": "thresholds",
    "histogram_plan": "thresholds",
    "need_torch": "examples",
    "second_order_blocks": "newton",
    "set_parameters": "examples",
    "steps_of": "training",
    "thresholds_from": "thresholds",
    "trained_parameters": "examples",
}

__all__ = [
    "ACTIVATIONS",
    "CLIPPINGS",
    "ENGINES",
    "OPTIMISERS",
    "SPLITS",
    "AuxiliaryCoordinates",
    "Blocks",
    "GradientSteps",
    "LayerParts",
    "Loss",
    "NewtonSteps",
    "NoisyNewton",
    "PrivateExamples",
    "Recipe",
    "blocks_of",
    "choose_engine",
    "cross_entropy",
    "flat_parameters",
    "half_squares",
    "histogram_of",
    "histogram_plan",
    "need_torch",
    "second_order_blocks",
    "set_parameters",
    "steps_of",
    "thresholds_from",
    "trained_parameters",
]

if TYPE_CHECKING:
    from tacit.noisy_training.auxiliary import AuxiliaryCoordinates
    from tacit.noisy_training.blocks import CLIPPINGS, SPLITS, Blocks
    from tacit.noisy_training.exact_rows import ACTIVATIONS
    from tacit.noisy_training.examples import (
        Loss,
        PrivateExamples,
        flat_parameters,
        need_torch,
        set_parameters,
        trained_parameters,
    )
    from tacit.noisy_training.layer_parts import LayerParts
    from tacit.noisy_training.losses import cross_entropy, half_squares
    from tacit.noisy_training.newton import NewtonSteps, NoisyNewton, second_order_blocks
    from tacit.noisy_training.optimisers import OPTIMISERS
    from tacit.noisy_training.thresholds import histogram_of, histogram_plan, thresholds_from
    from tacit.noisy_training.training import (
        ENGINES,
        GradientSteps,
        Recipe,
        blocks_of,
        choose_engine,
        steps_of,
    )


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tacit.noisy_training' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tacit.noisy_training.{_HOME[name]}"), name)
