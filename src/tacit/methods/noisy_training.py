"""Base of the estimators that train a network on private records in noisy steps (DP-SGD).

Everything that defines a run is public: features, centre and scale from public inputs, first
weights from a seed, rate, lot and steps from a declared number of records. The whole run is one
entry of the ledger, priced before it starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit._checks import at_least
from tacit._progress import training_bar
from tacit._warn import warn
from tacit.errors import InvalidArgument, WeakSignal
from tacit.features import ends_at_unit_length
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import NoisySteps, Plan
from tacit.methods.base import PrivateEstimator
from tacit.methods.calibration import accountant_terms
from tacit.methods.settings import Count, Parameters, Positive, PublicSize, choices
from tacit.noisy_training import (
    CLIPPINGS,
    ENGINES,
    OPTIMISERS,
    SPLITS,
    GradientSteps,
    PrivateExamples,
    Recipe,
    blocks_of,
    choose_engine,
    set_parameters,
    steps_of,
    trained_parameters,
)
from tacit.records import PublicSpace, is_from_data

if TYPE_CHECKING:
    from torch.nn import Module

    from tacit.noisy_training import Loss

SHARED_BATCH = (
    "rows shared batches of kernels (engine='hooks') that were tried, not proved, to round each "
    "row by itself"
)
READ_SIZE = (
    "the number of private units, which sets the sampling rate and the number of steps, was read "
    "from the private data, which no cost covers; declare n_records= to remove this warning"
)
_LEAST_NOISE, _MOST_NOISE = 0.05, 1024.0


UNSCALED = (
    "Without public inputs (X_public=) or features=, columns are taken as they are: if they are "
    "not about 0 in the mean and 1 in size by public numbers, little or nothing is learned."
)


def features_out(space: PublicSpace) -> int:
    """Return how many features a row of a public space has."""
    return int(space.view(space.public[:1]).shape[1])


@dataclass(frozen=True, slots=True)
class PublicFrame:
    """How inputs reach the network: a public space, and one scale for all its features."""

    space: PublicSpace
    scale: float = 1.0

    @classmethod
    def around(cls, features: Any, outside: NDArray[Any] | None, n_features: int) -> Self:
        """Fit centre and scale on public inputs; without them inputs stay as they are.

        The scale is the root of the mean variance of the features. Without public inputs, whitened
        rows of length 1 are scaled alike; other columns are expected to have mean 0 and size 1,
        about.
        """
        if outside is None:
            space = PublicSpace.given(features, 1.0, n_features)
            if ends_at_unit_length(features):
                return cls(space, 1 / math.sqrt(features_out(space)))
            if features is None:
                warn(UNSCALED, WeakSignal)
            return cls(space)
        space = PublicSpace.around(features, outside)
        view = replace(space, centre=np.zeros(1)).view(outside)
        scale = math.sqrt(float(view.var(axis=0).mean()))
        return cls(space, scale if scale > 0 else 1.0)

    def width(self) -> int:
        """Return how many numbers of a row the network sees."""
        return features_out(self.space)

    def inside(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Return private rows for the network, each by itself. Secret."""
        view = np.asarray(self.space.inside(rows), dtype=np.float64)
        with np.errstate(all="ignore"):  # what is not finite afterwards says nothing
            return np.asarray((view - self.space.centre) / self.scale, dtype=np.float32)

    def told(self, student: Any, network: Module, n_features: int, outputs: int) -> Any:
        """Return the student, which brings inputs to the network as in training."""
        seen = {"features": self.space.features, "centre": self.space.centre, "scale": self.scale}
        return student.told(network, n_features=n_features, outputs=outputs, **seen)


@dataclass(eq=False, repr=False, kw_only=True)
class Training(Parameters):
    """How a network is trained in noisy steps; None is the estimator's own default.

    Parameters
    ----------
    clipping : str, optional
        "per-layer" clips and noises every layer by itself, "flat" the whole gradient.
    clip : float, optional
        The radius to which gradients are clipped; the learning rate counts in units of it.
    split : str, optional
        How layers share the noise: "minimal" (the least total power) or "equal".
    optimizer : str, optional
        "adam", "sgd" or "momentum" (that of SGD, 0.9).
    learning_rate : float, optional
        Of the first step.
    decay : float, optional
        To which part of itself the learning rate falls, linearly.
    epochs : float, optional
        How often a record takes part on average, in epochs/rate steps.
    batch_size : int, optional
        A record takes part in a step with the rate batch_size/n_records. Sums are divided by
        batch_size, whatever was sampled.
    engine : str, optional
        "auto" is "ghost" for chains of Linear, Conv2d, MaxPool2d, Flatten and Unflatten with ReLU,
        Tanh or Softplus, in exact arithmetic, and "single" (one at a time) for all else; "hooks"
        (Opacus) takes other known layers in batches, which is quicker than "single", but rows are
        then separate by trial, not by proof, and the ledger states so.

    Notes
    -----
    One argument in Python, `training=Training(...)`; in run.toml each part is a key. The defaults
    of `DPSGDClassifier` are "per-layer", 0.1, "minimal", "adam", 0.01, 0.1, 20, 512 and "auto";
    without hidden layers they follow from n mu. All of it must be public: chosen on private
    records it breaks the claim. `docs/theory/direct.md#one-step`, `docs/theory/direct.md#blocks`.
    """

    clipping: Annotated[str, choices(*CLIPPINGS)] | None = None
    clip: Positive | None = None
    split: Annotated[str, choices(*SPLITS)] | None = None
    optimizer: Annotated[str, choices(*OPTIMISERS)] | None = None
    learning_rate: Positive | None = None
    decay: Positive | None = None
    epochs: Positive | None = None
    batch_size: Count | None = None
    engine: Annotated[str, choices(*ENGINES)] | None = None


TRAINING: Training = Training(
    clipping="per-layer",
    clip=0.1,
    split="minimal",
    optimizer="adam",
    learning_rate=1e-2,
    decay=0.1,
    epochs=20,
    batch_size=512,
    engine="auto",
)


@dataclass(eq=False, repr=False)
class NoisyTrainingEstimator(PrivateEstimator):
    """Recipe, price and run; a base class: a subclass defines the network and its loss.

    Parameters
    ----------
    epsilon, delta, ledger, allow_overlap, noise, random_state
        As in `PrivateEstimator`: budget, ledger, noise, seed.
    n_records : int or str
        About how many records (with `groups=`: people) there are, a public number that sets rate
        and steps; required. "from_data" counts them, which the statement then states.
    noise_multiplier : float, optional
        Deviation of the noise on each sum, in units of what one record can add to it; by default
        chosen from epsilon and delta.
    training : Training, optional
        `Training(epochs=..., batch_size=..., learning_rate=...)`: how it is trained; each of its
        parts is a key in run.toml.

    Notes
    -----
    The whole run is one entry of the ledger, priced before it starts
    (`docs/theory/direct.md#what-a-run-costs`).
    """

    _: KW_ONLY
    n_records: PublicSize = None
    noise_multiplier: Positive | None = None
    training: Training | None = None
    _own: ClassVar[dict[str, Parameters]] = {"training": TRAINING}

    def _declared_faults(self) -> tuple[str, ...]:
        faults = list(super()._declared_faults())
        if is_from_data(self.n_records):
            faults.append(READ_SIZE)
        if self._settings("training").engine == "hooks":
            faults.append(SHARED_BATCH)
        return tuple(faults)

    def _declared_size(self, n_units: int) -> int:
        """Return the public number of units, or the counted one for "from_data"."""
        if is_from_data(self.n_records):
            return n_units
        if self.n_records is None:
            raise InvalidArgument(
                "Expected n_records= about how many records (with groups=, people) there are, a "
                'public number that sets rate and steps; or n_records="from_data", which the '
                "statement then says."
            )
        return at_least(1, n_records=self.n_records)

    def _recipe(self, size: int) -> tuple[Recipe, float]:
        """Return the recipe and the sampling rate, from public numbers alone."""
        return recipe_of(self._settings("training"), size)

    def _recipe_for(self, module: Module, size: int) -> tuple[Recipe, float]:
        """Return the same for a network in its first state, which is public."""
        return self._recipe(size)

    def _plans(self, recipe: Recipe, rate: float, before: Sequence[Plan] = ()) -> list[Plan]:
        """Return plans up to the steps: with the given noise, or that for epsilon.

        Epsilon includes what comes `before` the steps, and the check after them.
        """
        others = [*before, *self._check_plans()]

        def plans_with(noise: float) -> list[Plan]:
            return [*others, Plan(NoisySteps(noise, rate), recipe.steps)]

        if self.noise_multiplier is not None:
            return [*before, plans_with(self.noise_multiplier)[-1]]
        found = self._calibrated(plans_with, listed=True, least=_LEAST_NOISE, most=_MOST_NOISE)
        return [*before, found[-1]]

    def _train(
        self,
        module: Module,
        loss: Loss,
        probes: Any,
        private: Any,
        *,
        n_units: int,
        by_person: bool,
    ) -> tuple[Module, Ledger]:
        """Price, ask the ledger, train and return the network; `private()` makes the examples.

        All refusals come before the ledger is charged and before features of private rows are
        computed.
        """
        recipe, rate = self._recipe_for(module, self._declared_size(n_units))
        blocks = blocks_of(recipe, module)
        (plan,) = self._plans(recipe, rate)
        engine = choose_engine(recipe, module, blocks, loss, probes, by_person=by_person)
        plans = [plan, *self._check_plans()]
        terms = accountant_terms(plans, listed=True)
        ledger = self._open_ledger(by_person=by_person, **terms)
        self._refuse_early(ledger, plans)
        examples = private()

        def run(tick: Any) -> GradientSteps:
            return GradientSteps(recipe, module, engine, examples, blocks, tick)

        self._take_steps(module, recipe, plan, ledger, run)
        return module, ledger

    def _take_steps(
        self,
        module: Module,
        recipe: Recipe,
        plan: Plan,
        ledger: Ledger,
        run: Callable[[Any], GradientSteps],
    ) -> None:
        """Pay, release the steps, and load the result into the network, if it is finite."""
        parameters = trained_parameters(module)
        count = sum(parameter.numel() for parameter in parameters)
        purpose = f"train {count} parameters in {recipe.steps} noisy steps"
        with training_bar("Training in noisy steps", recipe.steps) as tick:
            learned = np.asarray(self._released(ledger, plan, lambda: run(tick), purpose).values)
        if not np.isfinite(learned).all():
            raise InvalidArgument(
                f"Expected learning_rate={recipe.learning_rate!r} to be small enough: training "
                "diverged. The run stays charged."
            )
        set_parameters(parameters, learned)


def recipe_of(training: Training, size: int) -> tuple[Recipe, float]:
    """Return the recipe of settings, none of them None, and the sampling rate for a size."""
    settings = training.get_params()
    lot = min(at_least(1, batch_size=settings.pop("batch_size")), size)
    rate = lot / size
    steps = steps_of(settings.pop("epochs"), rate)
    return Recipe(steps=steps, lot=float(lot), **settings), rate


def steps_outline(kind: Any, budget: Budget, n_records: int | None) -> list[tuple[str, Plan]]:
    """Return the plans of a run with default settings; it needs a declared number of records."""
    if n_records is None:
        raise InvalidArgument("Expected --records, a public number: it sets rate and steps.")
    model = kind(n_records=n_records, epsilon=budget.epsilon, delta=budget.delta)
    recipe, rate = model._recipe(n_records)
    plans = model._plans(recipe, rate)
    return [(f"{recipe.steps} noisy steps on samples of rate {rate:.3g}", plan) for plan in plans]


def public_rows(width: int, targets: Any) -> Any:
    """Return a maker of public random examples, to try a module and an engine."""

    def make(count: int) -> PrivateExamples:
        generator = np.random.default_rng(0)
        inputs = generator.normal(size=(count, width)).astype(np.float32)
        return PrivateExamples(inputs, targets(generator, inputs))

    return make
