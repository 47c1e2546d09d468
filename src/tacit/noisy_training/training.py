"""DP-SGD as a run of noisy steps: an engine that sums clipped gradients, and an optimiser.

A `NoisySteps` mechanism drives `GradientSteps`; samples and noise come from the grant. The divisor
of a sum is the public, expected size of a sample. Optimisers see noisy sums alone, in units of the
clipping radius (docs/theory/direct.md#thresholds): post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._checks import Floats, Integers, at_least, blocks, one_of, positive
from tacit._loops import loop, use_loops
from tacit._quiet import Secret
from tacit.errors import InvalidArgument
from tacit.noisy_training.clipped_sums import (
    HOOK_ROWS,
    Blocks,
    HookParts,
    Parts,
    UnitParts,
)
from tacit.noisy_training.examples import (
    LOSSES,
    Loss,
    PrivateExamples,
    RowLoss,
    flat_parameters,
    layer_sizes,
)
from tacit.noisy_training.isolation import (
    failure_of,
    foreign_layer,
    keeps_apart,
    refuse_coupled,
)
from tacit.noisy_training.stack_sums import StackParts, is_stack

if TYPE_CHECKING:
    from torch.nn import Module

OPTIMISERS = ("adam", "sgd", "momentum")
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8
_BLOCK = 2**13  # numbers whose few temporary arrays stay in the processor's cache


class Adam:
    """Adam (Kingma and Ba 2015) in float64, elementwise."""

    def __init__(self, shape: int | tuple[int, ...], rate: float) -> None:
        self.rate: Floats | float = positive(rate=rate)
        self._mean, self._square, self._count = np.zeros(shape), np.zeros(shape), 0

    def step(self, parameters: Floats, gradient: Floats) -> None:
        """Take one step down, in place."""
        self._count += 1
        rates = np.atleast_1d(np.asarray(self.rate, dtype=np.float64))
        sizes = {self._mean.shape, parameters.shape, gradient.shape, (self._mean.size,)}
        fits = len(sizes) == 1 and rates.size in (1, parameters.size)
        # A loop looks at no bounds: what does not fit is left to NumPy, which refuses it.
        if _adam_in_one_pass and fits:
            moments = (self._mean, self._square)
            past = (1 - _FIRST**self._count, 1 / (1 - _SECOND**self._count))
            _adam_in_one_pass(parameters, gradient, *moments, rates / past[0], past[1])
            return
        for block in blocks(len(parameters), _BLOCK // max(1, parameters[:1].size)):
            parameters[block] -= self._change(gradient[block], block)

    def _change(self, gradient: Floats, block: slice) -> Floats:
        """Update the moments of a block; return the decrease of its parameters."""
        mean, square = self._mean[block], self._square[block]
        change = gradient - mean
        change *= 1 - _FIRST
        mean += change
        np.multiply(gradient, gradient, out=change)
        change -= square
        change *= 1 - _SECOND
        square += change
        np.multiply(square, 1 / (1 - _SECOND**self._count), out=change)
        np.sqrt(change, out=change)
        change += _TINY
        np.divide(mean, change, out=change)
        rate = self.rate[block] if isinstance(self.rate, np.ndarray) else self.rate
        change *= rate / (1 - _FIRST**self._count)
        return change

    def state(self) -> dict[str, Any]:
        """Return the moments and their number of steps, to resume from."""
        return {"mean": self._mean.copy(), "square": self._square.copy(), "count": self._count}

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Restore the state of an optimiser of the same shape."""
        self._mean[:], self._square[:] = state["mean"], state["square"]
        self._count = int(state["count"])


_TAKEN = (1 - _FIRST, 1 - _SECOND)
_VECTORS = ", ".join(["float64[::1]"] * 5)


@loop(f"void({_VECTORS}, float64)")
def _adam_in_one_pass(  # type: ignore[no-untyped-def]
    parameters, gradient, mean, square, rates, lifted
):
    """Do what `Adam._change` does, number by number; rates are one for each, or one for all."""
    own_rates = 1 if rates.size > 1 else 0
    for place in range(parameters.size):
        own = gradient[place]
        mean[place] += (own - mean[place]) * _TAKEN[0]
        square[place] += (own * own - square[place]) * _TAKEN[1]
        root = np.sqrt(square[place] * lifted) + _TINY
        parameters[place] -= mean[place] / root * rates[place * own_rates]


class SGD:
    """Plain gradient descent."""

    def __init__(self, rate: float) -> None:
        self.rate: Floats | float = positive(rate=rate)

    def step(self, parameters: Floats, gradient: Floats) -> None:
        """Take one step down."""
        parameters -= self.rate * gradient

    def state(self) -> dict[str, Any]:
        """Return nothing: it has no state."""
        return {}

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Restore nothing."""


class Momentum(SGD):
    """Gradient descent along a running sum of gradients, each 0.9 of the next (Polyak 1964).

    >>> parameters, descent = np.array([1.0]), Momentum(1, 0.1)
    >>> for _ in range(2):
    ...     descent.step(parameters, np.array([1.0]))
    >>> parameters.round(6).tolist()
    [0.71]
    """

    def __init__(self, shape: int | tuple[int, ...], rate: float) -> None:
        super().__init__(rate)
        self._sum = np.zeros(shape)

    def step(self, parameters: Floats, gradient: Floats) -> None:
        """Take one step down, in place."""
        self._sum *= _FIRST
        self._sum += gradient
        super().step(parameters, self._sum)

    def state(self) -> dict[str, Any]:
        """Return the running sum, to resume from."""
        return {"sum": self._sum.copy()}

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Restore the state of an optimiser of the same shape."""
        self._sum[:] = state["sum"]


def make_optimiser(name: str, dimension: int, rate: float) -> Adam | SGD:
    """Return the optimiser of that name."""
    one_of(*OPTIMISERS, optimizer=name)
    if name == "sgd":
        return SGD(rate)
    return Adam(dimension, rate) if name == "adam" else Momentum(dimension, rate)


ENGINES = ("auto", "ghost", "hooks", "single")
Maker = Callable[[PrivateExamples], Parts]
_TRIED = 2
"""Rows of a trial of single units, each of which is computed many times."""
_BATCHES = 64
"""Batches of a trial of hooks. Where kernels round two positions of 16 otherwise, a layer of two
units shows it in one of ten rows there: one batch misses that, 64 have 250 such rows."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a module is trained: all of it public.

    Source: `docs/theory/direct.md#one-step`, `docs/theory/direct.md#blocks`.

    Parameters
    ----------
    steps : int, how many steps the run has
    lot : float, the expected size of a sample, by which sums are divided, whatever was sampled
    clip : float, optional, the clipping radius; optimisers see gradients in units of it
    clipping : str, optional, "flat" clips the whole gradient, "per-layer" every layer by itself
    split : str, optional, how layers share the noise: "minimal" (the least total power) or "equal"
    optimizer : str, optional, "adam", "sgd" or "momentum"
    learning_rate : float, optional, of the first step
    decay : float, optional, the learning rate falls linearly to this part of itself
    engine : str, optional
        "auto" is "ghost" for chains of linear layers, convolutions and pools and "single", one unit
        at a time, for all else; in both, rows are independent by construction. "hooks" (Opacus;
        known layers only) is quicker than "single", but independence is tested, not proved.
    """

    steps: int
    lot: float
    clip: float = 1.0
    clipping: str = "flat"
    split: str = "minimal"
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    decay: float = 0.1
    engine: str = "auto"

    def __post_init__(self) -> None:
        at_least(1, steps=self.steps)
        positive(lot=self.lot)
        positive(learning_rate=self.learning_rate)
        positive(decay=self.decay)
        one_of(*ENGINES, engine=self.engine)
        make_optimiser(self.optimizer, 1, self.learning_rate)
        Blocks.cut([1], clip=self.clip, clipping=self.clipping, split=self.split)


def choose_engine(
    recipe: Recipe,
    module: Module,
    blocks: Blocks,
    loss: Loss,
    probes: Callable[[int], PrivateExamples],
    *,
    by_person: bool,
) -> Maker:
    """Return the engine that will sum parts; refuse a module, or an engine, that mixes rows.

    Ghost norms are exact; any other module gets one unit at a time, a copy of it each. Hooks put
    rows into one batch, whose rounding depends on the processor: they must be requested, are
    refused where a trial finds a difference, and the ledger records that a trial is all there is.

    Parameters
    ----------
    recipe : Recipe, names the engine
    module : torch module, the network that will be trained; public
    blocks : Blocks, how its gradients are clipped, from `blocks_of`
    loss : function, from outputs and targets of some rows to one loss a row
    probes : function, makes a number of public random examples, to test module and engine
    by_person : bool, whether units are people with several records, for which only "single" works

    Returns
    -------
    function, from private examples to their engine
    """
    refuse_coupled(module, probes)
    if recipe.engine not in ("auto", "single") and by_person:
        raise InvalidArgument(
            f"Expected engine={recipe.engine!r} to be 'single' or 'auto' where groups= are given: "
            "a person's records have one gradient together."
        )
    ghost = recipe.engine in ("auto", "ghost") and not by_person
    shape = probes(1).inputs.shape[1:]
    if ghost and isinstance(loss, RowLoss) and is_stack(module, shape):
        stack: Maker = partial(StackParts, module, loss=loss, blocks=blocks)
        if (failure := failure_of(stack, module, probes, _TRIED)) is None:
            return stack
        if recipe.engine == "ghost":
            raise InvalidArgument(failure)
    if recipe.engine == "ghost":
        raise InvalidArgument(
            "Expected engine='hooks', 'single' or 'auto': ghost norms are for a Sequential of "
            "Linear, Conv2d, MaxPool2d, Flatten and Unflatten with ReLU, Tanh or Softplus between."
        )
    if recipe.engine == "hooks":
        hooks: Maker = partial(HookParts, module, loss=loss, blocks=blocks)
        if (objection := _objection(hooks, module, loss, probes)) is not None:
            raise InvalidArgument(objection)
        return hooks
    return _one_by_one(module, blocks, loss, probes)


def _objection(
    hooks: Maker, module: Module, loss: Loss, probes: Callable[[int], PrivateExamples]
) -> str | None:
    """Return why rows may not share a batch, or None; making hooks raises for what Opacus lacks."""
    foreign = foreign_layer(module) or (None if loss in LOSSES else "the loss")
    if foreign is not None:
        return (
            f"Expected engine='single' or 'auto': {foreign} is not among the layers and losses "
            "that are known to treat every row by itself, and hooks put rows into one batch."
        )
    if (failure := failure_of(hooks, module, probes, HOOK_ROWS)) is not None:
        return failure
    if keeps_apart(hooks, module, probes, HOOK_ROWS, batches=_BATCHES):
        return None
    return (
        "Expected engine='single': on this machine the hooks round a row's gradient differently "
        "in another company."
    )


def _one_by_one(
    module: Module, blocks: Blocks, loss: Loss, probes: Callable[[int], PrivateExamples]
) -> Maker:
    single: Maker = partial(UnitParts, module, loss=loss, blocks=blocks)
    if (failure := failure_of(single, module, probes, _TRIED)) is not None:
        raise InvalidArgument(failure)
    if not keeps_apart(single, module, probes, _TRIED):
        raise InvalidArgument(
            "Expected a module that treats every row by itself; this one remembers, outside of "
            "itself, what it has seen."
        )
    return single


class GradientSteps(Secret):
    """A DP-SGD run for `NoisySteps`: clipped gradients of sampled units, then one optimiser step.

    Unit: one record, or one person where the examples name owners. Secret until it is over: samples
    and noise come from the grant of the mechanism, and only noisy sums reach the optimiser. Source:
    `docs/theory/direct.md#one-step`.

    Parameters
    ----------
    recipe : Recipe, how many steps there are, the divisor of sums and the optimiser; public
    module : torch module, with the first parameters; it is not changed; public
    make : function, from private examples to an engine that sums their parts, such as `StackParts`
    examples : PrivateExamples, secret
    blocks : Blocks, how gradients are clipped, from `blocks_of`
    tick : function, optional, called without arguments after each step, to show progress
    scales : float or array of shape (dimension,), optional, factors of the learning rate; public
    """

    def __init__(
        self,
        recipe: Recipe,
        module: Module,
        make: Maker,
        examples: PrivateExamples,
        blocks: Blocks,
        tick: Callable[[], None] = lambda: None,
        scales: Floats | float = 1.0,
    ) -> None:
        self._recipe, self._blocks, self._tick, self._scales = recipe, blocks, tick, scales
        self._parameters = flat_parameters(module)
        self._optimiser = make_optimiser(recipe.optimizer, blocks.dimension, recipe.learning_rate)
        self._done = self._learned = 0
        # What a run goes through: parameters and noise in each step, and the sampled rows.
        a_row = examples.inputs[:1].size
        use_loops(recipe.steps * (blocks.dimension + recipe.lot * a_row))
        self._parts: Parts | None = make(examples)
        self._parts.load(self._parameters)

    @property
    def steps(self) -> int:
        """How many steps the run has. Public."""
        return self._recipe.steps

    @property
    def dimension(self) -> int:
        """How many numbers a step releases. Public."""
        return self._blocks.dimension

    @property
    def steps_a_note(self) -> int:
        """How many steps the ledger notes as started at a time, from the recipe alone. Public."""
        return steps_a_note(self._recipe, self._blocks.dimension)

    @property
    def learned(self) -> int:
        """From how many noisy sums it has learned, those of an earlier process included."""
        return self._learned

    @property
    def n_units(self) -> int:
        """How many units there are. Secret."""
        return self._private.n_units

    @property
    def _private(self) -> Parts:
        if self._parts is None:
            raise InvalidArgument("Expected a training run that is not over: its records are gone.")
        return self._parts

    def sums(self, sample: Integers) -> Floats:
        """Return the sum, without noise, of the parts of some units. Secret.

        Parameters
        ----------
        sample : array of int, positions of the sampled units; secret

        Returns
        -------
        array of float64 of shape (dimension,)
        """
        return self._private.sums(sample)

    def learn(self, noisy_sums: Floats) -> None:
        """Take one step from the noisy sum alone.

        Parameters
        ----------
        noisy_sums : array of shape (dimension,), the sum with its noise: public already
        """
        recipe = self._recipe
        now = recipe.learning_rate * falling(self._done, recipe.steps, recipe.decay)
        self._optimiser.rate = now * self._scales
        gradient = self._blocks.mean_gradient(noisy_sums, recipe.lot)
        self._optimiser.step(self._parameters, gradient)
        self._move_on()

    def _move_on(self) -> None:
        """Count a step, and prepare the next one."""
        self._private.load(self._parameters)
        self._done += 1
        self._learned += 1
        self._tick()

    def state(self) -> dict[str, Any]:
        """Return the public state from which another process can resume.

        Returns
        -------
        dict, parameters, the optimiser's state and the number of steps learned from
        """
        optimiser = {f"optimiser_{name}": each for name, each in self._optimiser.state().items()}
        return {"parameters": self.result(), "learned": self._learned, **optimiser}

    def go_on(self, state: Mapping[str, Any], position: int) -> None:
        """Resume from an earlier process, as if it had done all steps up to here.

        Parameters
        ----------
        state : mapping, from `state`; empty for a run that stored nothing yet
        position : int, steps done, skipped ones included: rates fall with them
        """
        if state:
            self._parameters[:] = state["parameters"]
            self._learned = int(state["learned"])
            self._optimiser.go_on(
                {name.removeprefix("optimiser_"): each for name, each in state.items()}
            )
        self._done = position
        self._private.load(self._parameters)
        for _ in range(position):
            self._tick()

    def result(self) -> Floats:
        """Return a copy of the learned parameters, which is released: from noisy sums alone.

        Returns
        -------
        array of float64 of shape (parameters,)
        """
        return self._parameters.copy()

    def forget(self) -> None:
        """Drop the private records."""
        self._parts = None


def falling(done: int, steps: int, to: float) -> float:
    """Return the rate's factor: 1 at the first step, `to` at the last, linear in between."""
    return 1.0 - (1.0 - to) * done / max(steps - 1, 1)


_NOTES, _FEWEST_NOTES = 50, 8
_WORK = 2e8
"""A lot times the numbers of a step, over so many steps that they take a second or two where a note
and a checkpoint take a fiftieth of that: a constant, so that what is noted depends on no clock."""


def steps_a_note(recipe: Recipe, dimension: int) -> int:
    """Return how many steps share a note that they were started, from public numbers.

    A fiftieth of the run, or a second or two; at most an eighth, which a killed run may lose.
    """
    quick = math.ceil(_WORK / (recipe.lot * dimension))
    most = math.ceil(recipe.steps / _FEWEST_NOTES)
    return min(most, max(math.ceil(recipe.steps / _NOTES), quick))


def blocks_of(recipe: Recipe, module: Module) -> Blocks:
    """Return the blocks in which a module's gradients are clipped.

    Parameters
    ----------
    recipe : Recipe, with `clip`, `clipping` and `split`
    module : torch module, its trained layers become blocks, or one block together; public

    Returns
    -------
    Blocks, in the order of the module's parameters
    """
    return Blocks.cut(
        layer_sizes(module), clip=recipe.clip, clipping=recipe.clipping, split=recipe.split
    )


def steps_of(epochs: float, rate: float) -> int:
    """Return how many steps process each unit `epochs` times on average."""
    return max(1, math.ceil(positive(epochs=epochs) / rate - 1e-9))
