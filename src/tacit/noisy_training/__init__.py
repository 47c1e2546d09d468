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
    StackParts,
    UnitParts,
)
from tacit.noisy_training.exact_rows import ACTIVATIONS
from tacit.noisy_training.examples import (
    Loss,
    PrivateExamples,
    cross_entropy,
    flat_parameters,
    half_squares,
    need_torch,
    set_parameters,
    trained_parameters,
)
from tacit.noisy_training.training import (
    ENGINES,
    OPTIMISERS,
    GradientSteps,
    Recipe,
    blocks_of,
    choose_engine,
    steps_of,
)

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
