"""Training in noisy steps: Poisson samples, bounded sums, Gaussian noise.

One use is a whole training run. What one unit adds to a step's sum has norm at most 1, so a step
is one Poisson-subsampled Gaussian of sensitivity 1, whatever network, objective and optimiser; an
empty sample is a step like any other. Noise and grid: docs/theory/direct.md#one-step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import (
    Floats,
    Integers,
    blocks,
    noise_scale,
    refuse,
    sampling_rate,
    set_checked,
)
from tacit.errors import InvalidArgument
from tacit.mechanisms.audit_cases import Look, Shift, Suspicion, at_orders
from tacit.mechanisms.base import Mechanism, Plan, Release
from tacit.mechanisms.codes import power_of_two_above
from tacit.noise import Noise, admit, check_rate, check_ratio
from tacit.privacy import Event, RdpCurve, gaussian_rdp, poisson_gaussian_rdp

# Units whose parts are summed at a time: it bounds memory, and the rounding of their sum.
AT_ONCE = 1024
MOST_UNITS = 2**24
MOST_NUMBERS = 2**26
# What rounding may add to the part of one unit; half for the grid, half for float64.
ROOM = 2.0**-11
_AUDITED_STEPS, _AUDITED_RATIOS = 2, (0.0, 0.25, 0.5, 1.0, 2.0)
# Noise of more sensitivities than this has no use, and its grid would be slow to sample.
_MOST_NOISE = 2.0**10
_BLOCK = 2**13  # numbers whose few temporary arrays stay in the processor's cache


@runtime_checkable
class PrivateSteps(Protocol):
    """A model in training: private units contribute to each step, parameters learn. Secret.

    The part of a unit is a vector of `dimension` numbers computed from this unit, public data and
    what was learned so far; its norm is at most 1, in float64, for any data (an invalid one is 0).
    No other part may change by a bit when a unit is added or removed. Parts are added in float64,
    of at most 2**24 records in all and 1024 at a time; `ROOM` bounds the rounding.
    """

    @property
    def steps(self) -> int:
        """How many steps the run has. Public."""

    @property
    def dimension(self) -> int:
        """How many numbers a step releases. Public."""

    @property
    def n_units(self) -> int:
        """How many units there are. Secret."""

    def sums(self, sample: Integers) -> Floats:
        """Return the sum of the parts of some units, at most `AT_ONCE` at a time. Secret.

        Parameters
        ----------
        sample : array of int
            Positions of units; secret.

        Returns
        -------
        array of float64 of shape (dimension,)
        """

    def learn(self, noisy_sums: Floats) -> None:
        """Take one step from the noisy sum; read nothing private.

        Parameters
        ----------
        noisy_sums : array of shape (dimension,)
            Public already.
        """

    def result(self) -> Floats:
        """Return what was learned, from the noisy sums alone: this is released; public.

        Returns
        -------
        array of floats
        """

    def forget(self) -> None:
        """Drop the private records: the run is over."""


@runtime_checkable
class ResumableSteps(PrivateSteps, Protocol):
    """A model in training that can resume from its weights and the state of its optimiser.

    What it stores was made of noisy sums alone and is public: never samples, losses or generators.
    """

    @property
    def steps_a_note(self) -> int:
        """How many steps are recorded as started at a time. Public."""

    @property
    def learned(self) -> int:
        """From how many noisy sums it has learned so far. Public."""

    def state(self) -> dict[str, Any]:
        """Return what it resumes from.

        Returns
        -------
        dict
            Arrays by their names; public.
        """

    def go_on(self, state: Mapping[str, Any], position: int) -> None:
        """Resume from the state of an earlier process.

        Parameters
        ----------
        state : mapping
            What `state` returned there.
        position : int
            How many steps are done, skipped ones included.
        """


@dataclass(frozen=True, slots=True)
class NoisySteps(Mechanism):
    """Train for some steps, each on a Poisson sample, with noise on each sum.

    Parameters
    ----------
    noise_multiplier : float
        Deviation of the noise on a sum, in units of what one unit may add; at most 1024.
    sampling_rate : float, optional
        Chance of each unit to take part in a step, in (0, 1], fresh in every step; 1 takes all.

    Notes
    -----
    A step costs D_a((1-q) N(0,s^2) + q N(1,s^2) || N(0,s^2)) for the add/remove neighbours, both
    directions; `Plan(mechanism, queries=steps)` is one run. Answers: `PrivateSteps`. Unit:
    whatever the answers count as one. Abadi et al. 2016 with the sums' fixed divisor; Mironov,
    Talwar and Zhang 2019; docs/theory/direct.md#one-step.

    Examples
    --------
    >>> from tacit.mechanisms import Plan
    >>> plan = Plan(NoisySteps(noise_multiplier=1.8, sampling_rate=0.1), queries=500)
    >>> round(plan.cost().epsilon(1e-5, "classic"), 1)
    7.7
    """

    name: ClassVar[str] = "noisy-steps"
    noise_parameter: ClassVar[str] = "noise_multiplier"
    noise_level: ClassVar[str] = "exact"
    assumes: ClassVar[str] = (
        "what each unit said in a step was computed from that unit and from earlier releases "
        "alone, that inputs were scaled without the private records, and that nobody learns who "
        "was sampled"
    )
    noise_multiplier: float
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        set_checked(self, noise_multiplier=noise_scale, sampling_rate=sampling_rate)
        check_rate(sampling_rate=self.sampling_rate)
        if self.noise_multiplier > _MOST_NOISE:
            raise refuse("noise_multiplier", self.noise_multiplier, f"at most {_MOST_NOISE:g}")
        check_ratio(self.deviation, self.grid(1))

    @property
    def deviation(self) -> float:
        """Deviation of the noise: the multiplier times a unit's part with its rounding."""
        return self.noise_multiplier * (1 + ROOM)

    def grid(self, dimension: int) -> float:
        """Return the public grid of sums, a power of two: sqrt(dimension) grid <= ROOM/2.

        Parameters
        ----------
        dimension : int
            How many numbers a step releases.

        Returns
        -------
        float
        """
        return ROOM / 2 / power_of_two_above(math.sqrt(dimension))

    def cost(self, orders: ArrayLike, **sizes: int | None) -> RdpCurve:
        """Worst case of one step: the Poisson-subsampled Gaussian; public."""
        values = poisson_gaussian_rdp(self.sampling_rate, self.noise_multiplier, orders)
        return RdpCurve(orders, np.minimum(values, gaussian_rdp(self.noise_multiplier, orders)))

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Return the worst case for each step: no data-dependent price is amplified by sampling."""
        return self.cost(orders).batch(_checked(answers).steps)

    def gaussian_cost(self) -> float | None:
        """mu^2 = 1/noise_multiplier^2 of one step without sampling, else None; public."""
        return self.noise_multiplier**-2 if self.sampling_rate == 1 else None

    def sampled_gaussian(self) -> tuple[float, float]:
        """Return noise multiplier and sampling rate: a loss distribution composes them; public."""
        return self.noise_multiplier, self.sampling_rate

    def accept(self, answers: Any, *, queries: int, n_classes: int | None, **_: Any) -> None:
        """Raise unless the run has as many steps as the plan priced."""
        if n_classes is not None:
            raise refuse("n_classes", n_classes, f"omitted: sums of {self.name} have no classes")
        if (steps := _checked(answers).steps) != queries:
            raise InvalidArgument(f"Expected the {queries} steps of the plan, got {steps}.")

    def release(self, answers: Any, noise: Noise, *, steps: Iterable[int] | None = None) -> Release:
        """Train, and return what was learned; the private records are dropped, also on failure.

        Parameters
        ----------
        answers, noise
            The training run, secret; the noise of an open grant.
        steps : iterable of int, optional
            Which steps of the run to take, in order, all by default. A grant gives those never
            started before.

        Returns
        -------
        Release
            `values`: the run's result; public.
        """
        entry = admit(noise)
        training = _checked(answers)
        try:
            for _ in _in_order(range(training.steps) if steps is None else steps, training.steps):
                # It learns from noisy sums alone, so that all it does with them is free.
                training.learn(self._noisy_sums(training, noise))
            learned = np.array(training.result(), dtype=np.float64)
        finally:
            training.forget()
        return Release(self, values=learned, entry=entry, secure=noise.secure)

    def _noisy_sums(self, training: PrivateSteps, noise: Noise) -> Floats:
        """Return one step's noisy sum: multiples of the grid, as exact float64."""
        dimension, grid = training.dimension, self.grid(training.dimension)
        # Before the sample is known: an empty one gets the same noise, or its absence would show.
        steps = noise.rounded_gaussian_steps(self.deviation, grid, dimension)
        sums = self._sampled_sums(training, noise)
        noisy = steps.view(np.float64)  # its own memory, block by block: the noise is used up
        for block in blocks(dimension, _BLOCK):
            own = sums[block] * (1 / grid)  # a power of two: exact
            np.rint(own, out=own)
            own += steps[block]  # whole numbers below 2^53, and -0.0 + 0 is 0.0: exact, no sign
            np.multiply(own, grid, out=noisy[block])
        return noisy

    def _sampled_sums(self, training: PrivateSteps, noise: Noise) -> Floats:
        """Sum over a fresh Poisson sample, in float64. Secret."""
        sample = np.flatnonzero(noise.poisson_mask(self.sampling_rate, training.n_units))
        total = None
        for some in blocks(sample.size, AT_ONCE):
            own = _checked_sums(training.sums(sample[some]), sample[some].size, training.dimension)
            total = own if total is None else total + own
        return np.zeros(training.dimension) if total is None else total

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield two steps with a unit and without it, one run for each trial.

        The runs share one release, one number each, and no unit, so they are independent.
        """
        one = Plan(self, _AUDITED_STEPS)

        def runs(units: int, trials: int) -> Counting:
            return Counting(units * trials, dimension=trials)

        looks = self._audit_looks(one)
        yield Suspicion("two steps", 1, 0, one, looks, runs, lambda one, _: one, one.queries)

    def _audit_looks(self, one: Plan) -> tuple[Look, ...]:
        if self.sampling_rate == 1:
            together = (one.queries**-0.5,) * one.queries
            return Shift(together, 0.0, one.queries**0.5, self.deviation).looks(one)
        return at_orders(*(likely(self, limit) for limit in _AUDITED_RATIOS))


def _in_order(steps: Iterable[int], most: int) -> Iterator[int]:
    """Yield steps, each once and fewer than `most`: a plan pays for no more."""
    last = -1
    for step in steps:
        if not last < step < most:
            raise InvalidArgument("Expected steps of the plan, each once and in order.")
        last = step
        yield step


def _checked(answers: Any) -> PrivateSteps:
    """Return the answers as a training run, or raise without quoting them."""
    if not isinstance(answers, PrivateSteps):
        raise InvalidArgument(
            "Expected answers to be a training run with sums, learn and result (PrivateSteps), "
            f"got {type(answers).__name__}."
        )
    for number, most in ((answers.dimension, MOST_NUMBERS), (answers.n_units, MOST_UNITS)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise InvalidArgument("Expected whole numbers of units and of released numbers.")
        if not 0 <= number <= most:
            raise InvalidArgument(
                "Expected at most 2**24 units and 2**26 released numbers in a training run."
            )
    if answers.dimension < 1 or answers.steps < 1:
        raise InvalidArgument("Expected a training run of at least one step and one number.")
    return answers


def _checked_sums(sums: Any, size: int, dimension: int) -> Floats:
    """Return sums as float64 whose norm bounded parts can have; never quote them."""
    array = np.asarray(sums)
    if array.dtype != np.float64 or array.shape != (dimension,):
        raise InvalidArgument("Expected sums to be a float64 vector of as many numbers as said.")
    with np.errstate(all="ignore"):  # NaN compares false: what is not finite is refused as well
        bounded = array @ array <= (size * (1 + ROOM)) ** 2
    if not bounded:
        raise InvalidArgument("Expected every unit to add a vector of norm at most 1.")
    return array


@dataclass
class Counting:
    """A run that records the noisy sums it gets: unit n adds 1 to number n (mod dimension).

    For audits and tests. The result lists, number by number, each step's noisy sum.
    """

    n_units: int
    steps: int = _AUDITED_STEPS
    dimension: int = 1
    told: list[Floats] = field(default_factory=list)
    forgotten: bool = False

    def sums(self, sample: Integers) -> Floats:
        """Return how many of the sample add to each number."""
        return np.bincount(sample % self.dimension, minlength=self.dimension).astype(np.float64)

    def learn(self, noisy_sums: Floats) -> None:
        """Record the noisy sums."""
        self.told.append(noisy_sums)

    def result(self) -> Floats:
        """Return all noisy sums, `(numbers, steps)` as one row."""
        return np.stack(self.told, axis=1).ravel()

    def forget(self) -> None:
        """Note that the run is over."""
        self.forgotten = True


def likely(mechanism: NoisySteps, limit: float) -> Event:
    """Return the event that the log-likelihood ratio of some steps is at least `limit`."""
    rate, variance = mechanism.sampling_rate, mechanism.noise_multiplier**2

    def event(steps: Floats) -> NDArray[np.bool_]:
        with np.errstate(over="ignore"):  # infinitely likely
            ratios = 1 + rate * np.expm1((steps - 0.5) / variance)
        return np.asarray(np.log(ratios).sum(axis=1) >= limit)

    return event
