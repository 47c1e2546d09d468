"""What both DP-MAC estimators share: thresholds, price and run.

The whole run, with the histogram of thresholds if there is one, is priced as one list before it
starts. Everything before and after is that of the other estimators that train in noisy steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tacit._checks import Floats, at_least, one_of, positive, refuse
from tacit._progress import training_bar
from tacit.ledger import Ledger
from tacit.mechanisms import Plan
from tacit.methods.noisy_training import NoisyTrainingEstimator
from tacit.methods.settings import CountOrZero, OneOrTwo, Positive, choices
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


@dataclass(eq=False, repr=False)
class MACTraining(NoisyTrainingEstimator):
    """Recipe, thresholds, price and run of DP-MAC; a subclass says what the network is for."""

    _objective: ClassVar[str]
    _: KW_ONLY
    activation: Annotated[str, choices(*ACTIVATIONS)] = "tanh"
    z_steps: CountOrZero | None = None
    z_rate: Positive = 1e-3
    thresholds: Annotated[str, choices(*THRESHOLDS)] = "small"
    clip: Positive = 1e-3
    histogram_noise: Positive = 20.0
    order: OneOrTwo = 1
    clipping: str = field(init=False, default="per-layer")
    engine: str = field(init=False, default="auto")
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
        terms = {} if self._given_ledger() is not None else {"plans": public.plans}
        ledger = self._open_ledger(by_person=by_person, **terms)
        self._refuse_early(ledger, public.plans)
        examples = private()
        thresholds = self._find_thresholds(module, public, ledger, examples)
        learned = self._run(module, public, thresholds, ledger, examples)
        self._take_over(module, learned)
        self.thresholds_ = thresholds
        return module, ledger

    def _public_run(self, module: Module, recipe: Recipe, rate: float) -> MACPlan:
        one_of(*THRESHOLDS, thresholds=self.thresholds)
        if self.order not in (1, 2):
            raise refuse("order", self.order, "1 or 2")
        network = self._coordinates(module)
        if self.order == 2:
            blocks = second_order_blocks(network.widths, self.split)
        else:
            blocks = Blocks.cut(
                network.sizes, clip=recipe.clip, clipping="per-layer", split=self.split
            )
        before: list[Plan] = []
        if self.thresholds == "histogram":
            before = [histogram_plan(len(network.sizes), self.histogram_noise)]
        return MACPlan(recipe, network, blocks, [*before, self._steps_plan(recipe, rate, before)])

    def _coordinates(self, module: Module) -> AuxiliaryCoordinates:
        linear = need_torch().nn.Linear
        layers: list[Any] = [layer for layer in module.modules() if isinstance(layer, linear)]
        steps = self.z_steps
        if steps is None:
            steps = max(2 * (len(layers) - 1), _FEWEST_Z_STEPS)
        return AuxiliaryCoordinates(
            widths=(layers[0].in_features, *(layer.out_features for layer in layers)),
            loss=self._objective,
            activation=self.activation,
            steps=at_least(0, z_steps=steps),
            rate=positive(z_rate=self.z_rate),
        )

    def _run(
        self,
        module: Module,
        public: MACPlan,
        thresholds: tuple[float, ...],
        ledger: Ledger,
        examples: PrivateExamples,
    ) -> Floats:
        """Release the run and return the parameters learned."""
        recipe, plan = public.recipe, public.plans[-1]
        purpose = f"train {sum(public.network.sizes)} parameters in {recipe.steps} noisy steps"
        with training_bar("Training in noisy steps", recipe.steps) as tick:
            run = self._steps_of(module, public, thresholds, examples, tick)
            with self._paid(ledger, plan, purpose) as grant:
                return np.asarray(grant.release(run).values)

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
        with self._paid(ledger, public.plans[0], purpose) as grant:
            released = grant.release(histogram_of(parts, examples, layers))
        return thresholds_from(np.asarray(released.values), layers)

    def _steps_of(
        self,
        module: Module,
        public: MACPlan,
        thresholds: tuple[float, ...],
        examples: PrivateExamples,
        tick: Any,
    ) -> GradientSteps:
        curvatures = _curvature_bounds(public.network) if self.order == 2 else ()

        def make(private: PrivateExamples) -> LayerParts:
            return LayerParts(public.network, private, public.blocks, thresholds, curvatures)

        run = (public.recipe, module, make, examples, public.blocks, tick)
        if self.order == 1:
            return GradientSteps(*run)
        mechanism: Any = public.plans[-1].mechanism
        newton = NoisyNewton(
            public.network.widths,
            public.blocks,
            thresholds,
            curvatures,
            mechanism.noise_multiplier,
            public.recipe.lot,
            rate=self.learning_rate,
        )
        return NewtonSteps(newton, *run)


def _curvature_bounds(network: AuxiliaryCoordinates) -> tuple[float, ...]:
    """Return public bounds of |kappa| |a|^2 for inputs of length 1: sqrt(outputs) (1 + 1)."""
    return tuple(2.0 * float(np.sqrt(width)) for width in network.widths[1:])
