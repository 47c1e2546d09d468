"""`MACClassifier` and `MACAutoencoder`: DP-MAC, networks trained layer by layer with noisy steps.

Harder, Köhler, Welling and Park 2018, corrected (docs/theory/direct.md): each example's auxiliary
coordinates cut a network into layers with gradients bounded by themselves. DP-SGD with
`Training(clipping="per-layer")` is the same without coordinates, and many times quicker.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tacit._checks import at_least, one_of, positive, refuse
from tacit._extras import torch
from tacit._warn import warn
from tacit.errors import InvalidArgument
from tacit.ledger import Ledger
from tacit.mechanisms import Plan
from tacit.methods.dpsgd import (
    NO_FORECAST,
    DPSGDAutoencoder,
    DPSGDClassifier,
    compared_steps,
)
from tacit.methods.method import Facts, Method, Rule, common
from tacit.methods.noisy_training import (
    TRAINING,
    NoisyTrainingEstimator,
    Training,
    steps_outline,
)
from tacit.methods.settings import (
    CHECKS,
    CountOrZero,
    OneOrTwo,
    Parameters,
    Positive,
    Widths,
    choices,
)
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
    second_order_blocks,
    thresholds_from,
)

if TYPE_CHECKING:
    from torch.nn import Module

    from tacit.noisy_training import Loss

THRESHOLDS = ("small", "histogram")
_FEWEST_Z_STEPS = 6
_REACH = 0.18
"""How far the steps of a coordinate lead in all: about as far as the next layer pulls it."""
_WIDE, _MOST_CURVATURE_NOISE = 64, 0.09
"""Where the orders were seen to fall behind (docs/results/direct.md#the-rule-for-rates)."""
_NARROW = (
    "Expected hidden= of at least 64 units a layer: with {} the rates that DP-MAC takes by default "
    "can be .1 behind DP-SGD. Set learning_rate=, order=2, or take DPSGDClassifier."
)
_DROWNED = (
    "Expected curvatures above the noise, which is {:.2g} of their bound: order=2 then falls "
    "behind. Set order=1, larger lots or a larger epsilon, or narrower layers."
)
_BY_ORDER = {
    1: Training(clip=1e-3),
    2: Training(clip=1.0, learning_rate=1.0),  # lengths meet curvatures in the objective's units
}


class MACPlan(NamedTuple):
    """All that defines a run, from public numbers."""

    recipe: Recipe
    network: AuxiliaryCoordinates
    blocks: Blocks
    plans: list[Plan]
    order: int


@dataclass(eq=False, repr=False, kw_only=True)
class MACSteps(Parameters):
    """Settings of DP-MAC beside `Training`; None is the default.

    Parameters
    ----------
    z_steps : int, optional
        Steps of each example's auxiliary coordinates; by default the larger of 6 and twice the
        hidden layers.
    z_rate : float, optional
        The rate of those steps, 0.18/z_steps by default.
    thresholds : str, optional
        "small" (default) clips every layer's gradient to `clip`: 0.001 in first order, far below
        its length, so that directions count; 1 in second order. "histogram" spends some of the
        budget on a noisy histogram of lengths and takes each layer's fullest bin.
    histogram_noise : float, optional
        Deviation of the noise on each count of that histogram, 20 by default.
    order : int, optional
        1 (default), or 2 for second-order steps (narrow layers only; `learning_rate` is then the
        part of the solved step that is taken, 1 at the most).

    Notes
    -----
    Adam's default rate in first order is 3/sqrt(steps x inputs) for each layer (of an autoencoder
    1/sqrt(steps x inputs)), from widths and declared sizes alone
    (`docs/theory/direct.md#coordinates-of-dp-mac`, `docs/theory/direct.md#thresholds`).
    """

    z_steps: CountOrZero | None = None
    z_rate: Positive | None = None
    thresholds: Annotated[str, choices(*THRESHOLDS)] | None = None
    histogram_noise: Positive | None = None
    order: OneOrTwo | None = None


_STEPS = MACSteps(thresholds="small", histogram_noise=20.0, order=1)
_BY_RULE: dict[str, Any] = {**TRAINING.get_params(), **dict.fromkeys(("clip", "learning_rate"))}


@dataclass(eq=False, repr=False)
class MACTraining(NoisyTrainingEstimator):
    """Recipe, thresholds, price and run of DP-MAC; a subclass defines the network."""

    _objective: ClassVar[str]
    _rate: ClassVar[float]
    """Adam's rate, times sqrt(steps x inputs) of a layer: docs/results/direct.md."""
    _: KW_ONLY
    activation: Annotated[str, choices(*ACTIVATIONS)] = "tanh"
    steps: MACSteps | None = None
    _fixed: ClassVar[frozenset[str]] = frozenset({"clipping", "engine"})
    thresholds_: tuple[float, ...] = field(init=False)

    def _settings(self, name: str) -> Any:
        """Return settings; what is left out of the training follows from the order."""
        found = super()._settings(name)
        if name != "training":
            return found
        order = self._settings("steps").order
        if order not in _BY_ORDER:
            raise refuse("order", order, "1 or 2")
        return found.or_else(_BY_ORDER[order]).or_else(Training(learning_rate=self._rate))

    def _has_own_rate(self) -> bool:
        return self.training is not None and self.training.learning_rate is not None

    def _recipe(self, size: int) -> tuple[Recipe, float]:
        """Return the recipe and the sampling rate; a default rate falls with the steps."""
        recipe, rate = super()._recipe(size)
        if self._has_own_rate() or self._settings("steps").order == 2:
            return recipe, rate
        if recipe.optimizer != "adam":
            raise InvalidArgument(
                f"Expected learning_rate= with optimizer={recipe.optimizer!r}: the rule for it is "
                "Adam's."
            )
        by_rule = recipe.learning_rate / math.sqrt(recipe.steps)
        return replace(recipe, learning_rate=by_rule), rate

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
        # DP-MAC has its own objective, and rows apart by arithmetic
        public = self._public_run(module, *self._recipe(self._declared_size(n_units)))
        plans = [*public.plans, *self._check_plans()]
        ledger = self._open_ledger(by_person=by_person, plans=plans)
        self._refuse_early(ledger, plans)
        examples = private()
        thresholds = self._find_thresholds(module, public, ledger, examples)
        run = partial(self._steps_of, module, public, thresholds, examples)
        self._take_steps(module, public.recipe, public.plans[-1], ledger, run)
        self.thresholds_ = thresholds
        return module, ledger

    def _public_run(self, module: Module, recipe: Recipe, rate: float) -> MACPlan:
        how = self._settings("steps")
        one_of(*THRESHOLDS, thresholds=how.thresholds)
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
        run = MACPlan(recipe, network, blocks, self._plans(recipe, rate, before), how.order)
        if advice := self._advice(run):
            warn(advice)  # the caller of fit
        return run

    def _advice(self, run: MACPlan) -> str | None:
        """Return advice where the defaults were seen to fall behind; from public numbers."""
        if run.order == 2:
            mechanism: Any = run.plans[-1].mechanism
            shares = run.blocks.shares[len(run.network.sizes) :]
            inputs = np.sqrt(np.add(run.network.widths[:-1], 1))
            noise = mechanism.noise_multiplier * inputs / (np.multiply(shares, run.recipe.lot))
            return _DROWNED.format(max(noise)) if max(noise) > _MOST_CURVATURE_NOISE else None
        narrow = min(self.hidden, default=_WIDE) < _WIDE and self._objective == "binary"
        return None if self._has_own_rate() or not narrow else _NARROW.format(min(self.hidden))

    def _coordinates(self, module: Module, how: MACSteps) -> AuxiliaryCoordinates:
        linear = torch.nn.Linear
        layers: list[Any] = [layer for layer in module.modules() if isinstance(layer, linear)]
        fewest = max(2 * (len(layers) - 1), _FEWEST_Z_STEPS)
        steps = fewest if how.z_steps is None else at_least(0, z_steps=how.z_steps)
        rate = _REACH / max(steps, 1) if how.z_rate is None else how.z_rate
        return AuxiliaryCoordinates(
            widths=(layers[0].in_features, *(layer.out_features for layer in layers)),
            loss=self._objective,
            activation=self.activation,
            steps=steps,
            rate=positive(z_rate=rate),
        )

    def _find_thresholds(
        self, module: Module, public: MACPlan, ledger: Ledger, examples: PrivateExamples
    ) -> tuple[float, ...]:
        """Return T_k, from a released histogram where the plans have one."""
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
        # Public bounds of |kappa| |a|^2 for inputs of length 1: sqrt(outputs) (1 + 1).
        bounds = tuple(2.0 * float(np.sqrt(width)) for width in public.network.widths[1:])
        curvatures = bounds if public.order == 2 else ()

        def make(private: PrivateExamples) -> LayerParts:
            return LayerParts(public.network, private, public.blocks, thresholds, curvatures)

        run = (public.recipe, module, make, examples, public.blocks, tick)
        if public.order == 1:
            return GradientSteps(*run, 1.0 if self._has_own_rate() else public.network.scales())
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


@dataclass(eq=False, repr=False)
class MACClassifier(MACTraining, DPSGDClassifier):
    """Train a classifier on private records by DP-MAC; output units have binary cross-entropy.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the hidden layers, (300, 100) by default. In run.toml: a list.
    epsilon, delta, ledger, allow_overlap, noise, random_state, checks, classes
        As in `PrivateClassifier`: budget, ledger, noise, seed, checks, label set.
    n_records : int or str
        About how many records (with `groups=`: people) there are, a public number that sets rate
        and steps; required. "from_data" counts them, which the statement then states.
    noise_multiplier : float, optional
        Deviation of the noise on each sum, in units of what one record can add to it; by default
        chosen from epsilon and delta.
    training : Training, optional
        `Training(epochs=..., batch_size=..., learning_rate=...)`: how it is trained; clip and rate
        by the rule of `MACSteps`. Clipping is per layer, and the engine DP-MAC's own. Each of its
        other parts is a key in run.toml.
    activation : str
        "tanh" (default), "relu" or "softplus", between the layers.
    features : transformer, optional
        A public one for private and public inputs alike, fitted on `X_public`; without public
        inputs it must be fitted already, or one of tacit's that learn nothing. None for the inputs
        themselves. In run.toml: "none", "digits" or "images", "bins" (declared columns) or
        "whitened".
    steps : MACSteps, optional
        `MACSteps(z_steps=..., z_rate=...)`: auxiliary coordinates, thresholds, order; each of its
        parts is a key in run.toml.

    Attributes
    ----------
    thresholds_ : tuple of float
        The length to which each layer's gradient was clipped; public.

    Notes
    -----
    `X_public`, if given, sets features, centre and scale. Unit: one record, or one person with
    `groups=`, who contributes the mean of the records' contributions. In run.toml: `method =
    "mac"`, table `[mac]`. Harder, Köhler, Welling and Park 2018, corrected;
    `docs/theory/direct.md#coordinates-of-dp-mac`.
    """

    module: Any = field(init=False, default=None)
    _objective: ClassVar[str] = "binary"
    _rate: ClassVar[float] = 3.0

    hidden: Widths = (300, 100)
    _own: ClassVar[dict[str, Any]] = {
        "training": Training(**_BY_RULE),
        "steps": _STEPS,
        "checks": CHECKS,
    }


@dataclass(eq=False, repr=False)
class MACAutoencoder(MACTraining, DPSGDAutoencoder):
    """Train an autoencoder of private rows by DP-MAC: a linear output, half the squared error.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the layers between input and output, at least one; the narrowest is the code.
    epsilon, delta, ledger, allow_overlap, noise, random_state
        As in `PrivateEstimator`: budget, ledger, noise, seed.
    n_records, noise_multiplier
        As in `MACClassifier`.
    training : Training, optional
        As in `MACClassifier`, by default 50 epochs and lots of 500.
    activation : str
        "tanh" (default), "relu" or "softplus", after each hidden layer.
    steps : MACSteps, optional
        `MACSteps(z_steps=..., z_rate=...)`: auxiliary coordinates, thresholds, order.

    Attributes
    ----------
    thresholds_ : tuple of float
        The length to which each layer's gradient was clipped; public.

    Notes
    -----
    `transform` encodes, `inverse_transform` decodes, `reconstruct` does both, free of charge;
    `X_public`, if given, sets centre and scale. Unit: one record, or one person with `groups=`,
    who contributes the mean of the records' contributions. For Python alone. Harder, Köhler,
    Welling and Park 2018, corrected; `docs/theory/direct.md#coordinates-of-dp-mac`.
    """

    _objective: ClassVar[str] = "squares"
    _rate: ClassVar[float] = 1.0

    hidden: tuple[int, ...] = (300, 100, 20, 100, 300)
    _own: ClassVar[dict[str, Any]] = {
        "training": Training(**_BY_RULE | {"epochs": 50, "batch_size": 500}),
        "steps": _STEPS,
    }


def _compared(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """DP-MAC in a comparison."""
    shared = common(facts, epsilon, delta, seed)
    steps = MACSteps(z_steps=6, z_rate=0.03)
    return MACClassifier(steps=steps, **compared_steps(facts), **shared)


METHOD = Method(
    outline=lambda budget, classes, n_records: steps_outline(MACClassifier, budget, n_records),
    forecast=lambda budget, classes, n_records: NO_FORECAST,
    name="mac",
    summary="DP-MAC: a network is trained on the private records in noisy steps, each "
    "layer by its own targets.",
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
