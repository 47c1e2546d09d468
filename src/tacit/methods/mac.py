"""`MACClassifier` and `MACAutoencoder`: DP-MAC, networks trained layer by layer with noisy steps.

Harder, Köhler, Welling and Park 2018, corrected (docs/theory/direct.md). Each
example's auxiliary coordinates cut a deep network into layers whose gradients are bounded by
themselves. `DPSGDClassifier(training=Training(clipping="per-layer"))` is the same without
coordinates, and many times quicker.

The whole run, with the histogram of thresholds if there is one, is priced before it starts.
Everything before and after is that of the other estimators that train in noisy steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tacit._checks import at_least, one_of, positive, refuse
from tacit.ledger import Ledger
from tacit.mechanisms import Plan
from tacit.methods.dpsgd import DPSGDAutoencoder, DPSGDClassifier, compared_steps
from tacit.methods.method import Facts, Method, Rule, common
from tacit.methods.noisy_training import TRAINING, NoisyTrainingEstimator, Training
from tacit.methods.settings import CountOrZero, OneOrTwo, Parameters, Positive, Widths, choices
from tacit.noisy_training import (
    ACTIVATIONS,
    AuxiliaryCoordinates,
    Blocks,
    GradientSteps,
    LayerParts,
    NewtonSteps,
    NoisyNewton,
    PrivateExamples,
    Recipe,
    flat_parameters,
    histogram_of,
    histogram_plan,
    need_torch,
    second_order_blocks,
    thresholds_from,
)

if TYPE_CHECKING:
    from torch.nn import Module

    from tacit.noisy_training import Loss

THRESHOLDS = ("small", "histogram")
_FEWEST_Z_STEPS = 30


class MACPlan(NamedTuple):
    """All that shapes a run, from public numbers."""

    recipe: Recipe
    network: AuxiliaryCoordinates
    blocks: Blocks
    plans: list[Plan]
    order: int


@dataclass(eq=False, repr=False, kw_only=True)
class MACSteps(Parameters):
    """What DP-MAC has beside `Training`; what is None is the default.

    z_steps, z_rate: steps of each example's auxiliary coordinates, by default the larger of 30 and
        twice the hidden layers, and their rate, 0.001.
    thresholds: "small" (default) clips every layer's gradient to `clip`, far below its length, so
        that directions count; "histogram" spends some of the budget on a noisy histogram of lengths
        (`histogram_noise`, 20, on each count) and takes each layer's fullest bin.
    order: 1, or 2 for second-order steps (narrow layers only; `learning_rate` is then the part of
        the solved step that is taken, 1 at the most).
    """

    z_steps: CountOrZero | None = None
    z_rate: Positive | None = None
    thresholds: Annotated[str, choices(*THRESHOLDS)] | None = None
    histogram_noise: Positive | None = None
    order: OneOrTwo | None = None


_STEPS = MACSteps(z_rate=1e-3, thresholds="small", histogram_noise=20.0, order=1)


@dataclass(eq=False, repr=False)
class MACTraining(NoisyTrainingEstimator):
    """Recipe, thresholds, price and run of DP-MAC; a subclass says what the network is for."""

    _objective: ClassVar[str]
    _: KW_ONLY
    activation: Annotated[str, choices(*ACTIVATIONS)] = "tanh"
    steps: MACSteps | None = None
    _fixed: ClassVar[frozenset[str]] = frozenset({"clipping", "engine"})
    thresholds_: tuple[float, ...] = field(init=False)

    def _train(
        self,
        module: Module,
        loss: Loss,
        probes: Any,
        private: Callable[[], PrivateExamples],
        *,
        n_units: int,
        by_person: bool,
    ) -> tuple[Module, Ledger]:
        """Price, ask the ledger, train and return the network; `private()` makes the examples."""
        del loss, probes  # DP-MAC has its own objective, and rows apart by arithmetic
        public = self._public_run(module, *self._recipe(self._declared_size(n_units)))
        ledger = self._open_ledger(by_person=by_person, plans=public.plans)
        self._refuse_early(ledger, public.plans)
        examples = private()
        thresholds = self._find_thresholds(module, public, ledger, examples)
        run = partial(self._steps_of, module, public, thresholds, examples)
        self._take_steps(module, public.recipe, public.plans[-1], ledger, run)
        self.thresholds_ = thresholds
        return module, ledger

    def _public_run(self, module: Module, recipe: Recipe, rate: float) -> MACPlan:
        how = self._settings("steps")
        one_of(*THRESHOLDS, thresholds=how.thresholds)
        if how.order not in (1, 2):
            raise refuse("order", how.order, "1 or 2")
        network = self._coordinates(module, how)
        if how.order == 2:
            blocks = second_order_blocks(network.widths, recipe.split)
        else:
            blocks = Blocks.cut(
                network.sizes, clip=recipe.clip, clipping="per-layer", split=recipe.split
            )
        before: list[Plan] = []
        if how.thresholds == "histogram":
            before = [histogram_plan(len(network.sizes), how.histogram_noise)]
        return MACPlan(recipe, network, blocks, self._plans(recipe, rate, before), how.order)

    def _coordinates(self, module: Module, how: MACSteps) -> AuxiliaryCoordinates:
        linear = need_torch().nn.Linear
        layers: list[Any] = [layer for layer in module.modules() if isinstance(layer, linear)]
        steps = how.z_steps
        if steps is None:
            steps = max(2 * (len(layers) - 1), _FEWEST_Z_STEPS)
        return AuxiliaryCoordinates(
            widths=(layers[0].in_features, *(layer.out_features for layer in layers)),
            loss=self._objective,
            activation=self.activation,
            steps=at_least(0, z_steps=steps),
            rate=positive(z_rate=how.z_rate),
        )

    def _find_thresholds(
        self, module: Module, public: MACPlan, ledger: Ledger, examples: PrivateExamples
    ) -> tuple[float, ...]:
        """Return T_k, from a histogram that is released where the plans have one."""
        layers = len(public.network.sizes)
        if len(public.plans) == 1:
            return (public.recipe.clip,) * layers
        parts = LayerParts(public.network, examples, public.blocks, [1.0] * layers)
        parts.load(flat_parameters(module))
        purpose = "a histogram of gradient norms, for thresholds"
        released = self._released(
            ledger, public.plans[0], lambda: histogram_of(parts, examples, layers), purpose
        )
        return thresholds_from(np.asarray(released.values), layers)

    def _steps_of(
        self,
        module: Module,
        public: MACPlan,
        thresholds: tuple[float, ...],
        examples: PrivateExamples,
        tick: Any,
    ) -> GradientSteps:
        curvatures = _curvature_bounds(public.network) if public.order == 2 else ()

        def make(private: PrivateExamples) -> LayerParts:
            return LayerParts(public.network, private, public.blocks, thresholds, curvatures)

        run = (public.recipe, module, make, examples, public.blocks, tick)
        if public.order == 1:
            return GradientSteps(*run)
        mechanism: Any = public.plans[-1].mechanism
        newton = NoisyNewton(
            public.network.widths,
            public.blocks,
            thresholds,
            curvatures,
            mechanism.noise_multiplier,
            public.recipe.lot,
            rate=public.recipe.learning_rate,
        )
        return NewtonSteps(newton, *run)


def _curvature_bounds(network: AuxiliaryCoordinates) -> tuple[float, ...]:
    """Return public bounds of |kappa| |a|^2 for inputs of length 1: sqrt(outputs) (1 + 1)."""
    return tuple(2.0 * float(np.sqrt(width)) for width in network.widths[1:])


@dataclass(eq=False, repr=False)
class MACClassifier(MACTraining, DPSGDClassifier):
    """Train a classifier on private records by DP-MAC; output units have binary cross-entropy.

    hidden: widths of the hidden layers. activation: "tanh", "relu" or "softplus".
    steps: `MACSteps(...)`: auxiliary coordinates, thresholds, order. training: `Training(...)`, of
        which clipping is per layer, and the engine DP-MAC's own.
    n_records, epsilon, delta, noise_multiplier, features, classes, ledger, random_state: as in
        `DPSGDClassifier`.

    Unit: one record, or one person with `groups=`, who says the mean of what the records say.
    After `fit`: `student_` (the network), `thresholds_`, `ledger_`, `statement_`.
    """

    module: Any = field(init=False, default=None)
    _objective: ClassVar[str] = "binary"

    hidden: Widths = (300, 100)
    _own: ClassVar[dict[str, Any]] = {
        "training": Training(clip=1e-3, learning_rate=2e-3).or_else(TRAINING),
        "steps": _STEPS,
    }


@dataclass(eq=False, repr=False)
class MACAutoencoder(MACTraining, DPSGDAutoencoder):
    """Train an autoencoder of private rows by DP-MAC: a linear output, half the squared error.

    hidden: widths of the layers between input and output; the narrowest one is the code. The other
    parameters are those of `MACClassifier`.

    `transform` encodes, `inverse_transform` decodes, `reconstruct` does both: post-processing of
    the release, free of charge. Unit: one record, or one person with `groups=`.
    """

    _objective: ClassVar[str] = "squares"

    hidden: tuple[int, ...] = (300, 100, 20, 100, 300)
    _own: ClassVar[dict[str, Any]] = {
        "training": Training(clip=1e-3, learning_rate=3e-3, epochs=50, batch_size=500).or_else(
            TRAINING
        ),
        "steps": _STEPS,
    }


def _compared(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Auxiliary coordinates cut the network into layers; each is trained by noisy steps."""
    shared = common(facts, epsilon, delta, seed)
    steps = MACSteps(z_steps=6, z_rate=0.03)
    return MACClassifier(steps=steps, **compared_steps(facts), **shared)


METHOD = Method(
    name="mac",
    estimator=MACClassifier,
    rules={
        "mac": Rule(
            "DP-MAC",
            _compared,
            "Layers of 300 and 100 on the same features, thresholds of 0.001, 6 Z-steps of 0.03, "
            "Adam, rate 0.03, 20 epochs in lots of a quarter of the records (USPS).",
        ),
    },
    needs_public=False,
)
