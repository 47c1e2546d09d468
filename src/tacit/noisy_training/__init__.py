"""Private records to a model without teachers: noisy steps of training (DP-SGD, DP-MAC).

Modules here turn private units into bounded sums and learn from noisy ones; samples and noise come
from the grant of a `NoisySteps` mechanism, never from here.
"""

from tacit.noisy_training.auxiliary_coordinates import (
    AuxiliaryCoordinates,
    LayerParts,
    NewtonSteps,
    NoisyNewton,
    histogram_of,
    histogram_plan,
    second_order_blocks,
    thresholds_from,
)
from tacit.noisy_training.clipped_sums import (
    CLIPPINGS,
    SPLITS,
    Blocks,
    HookParts,
    UnitParts,
)
from tacit.noisy_training.exact_rows import ACTIVATIONS
from tacit.noisy_training.examples import (
    Loss,
    PrivateExamples,
    cross_entropy,
    half_squares,
)
from tacit.noisy_training.examples import flat_parameters as flat_parameters
from tacit.noisy_training.examples import need_torch as need_torch
from tacit.noisy_training.examples import set_parameters as set_parameters
from tacit.noisy_training.examples import trained_parameters as trained_parameters
from tacit.noisy_training.stack_sums import StackParts
from tacit.noisy_training.training import (
    ENGINES,
    OPTIMISERS,
    GradientSteps,
    Recipe,
    blocks_of,
    choose_engine,
)
from tacit.noisy_training.training import steps_of as steps_of

__all__ = [
    "ACTIVATIONS",
    "CLIPPINGS",
    "ENGINES",
    "OPTIMISERS",
    "SPLITS",
    "AuxiliaryCoordinates",
    "Blocks",
    "GradientSteps",
    "HookParts",
    "LayerParts",
    "Loss",
    "NewtonSteps",
    "NoisyNewton",
    "PrivateExamples",
    "Recipe",
    "StackParts",
    "UnitParts",
    "blocks_of",
    "choose_engine",
    "cross_entropy",
    "half_squares",
    "histogram_of",
    "histogram_plan",
    "second_order_blocks",
    "thresholds_from",
]
