"""Privacy loss distributions of training runs: tighter than RDP.

dp-accounting composes Poisson-subsampled Gaussian steps and Gaussian releases; its estimate is an
upper bound up to the rounding of Fourier transforms. A part of delta is reserved for that rounding,
which is measured and not proved; runs longer than were measured are left to the RDP curve.
Why: docs/theory/direct.md#what-a-run-costs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from tacit._checks import Floats, at_least, non_negative, positive, probability, sampling_rate
from tacit.errors import InvalidArgument
from tacit.privacy.curves import (
    DEFAULT_ORDERS,
    RdpCurve,
    WorstCase,
    conversion_term,
    worst_case_epsilon,
)
from tacit.privacy.gaussian import calibrate_gaussian, gaussian_rdp
from tacit.privacy.subsampled import poisson_gaussian_rdp

_LIBRARY = "dp-accounting"
# Part of delta for rounding in Fourier transforms: an engineering allowance, not a bound.
# Probabilities below 0, which only rounding makes, add up to at most 2.1e-10 in the runs that were
# examined, of up to `_MOST_STEPS` steps
# (`test_rounding_of_transforms_is_far_below_its_allowance`).
_FFT_DELTA = 1e-9
_MOST_STEPS = 1_000_000  # steps in all of the longest runs whose rounding was examined
# Cells of the loss per epsilon: the grid is epsilon / 5,000, from the RDP bound on epsilon.
_CELLS = 5e3
_FEW_CELLS = 5e2  # for a first search
_FINEST, _COARSEST = 2e-5, 2e-2
_ARRAYS_FROM = 10
_STRIDES = (16, 4, 1)  # of so many orders one is looked at first, then more of them
# Beyond this epsilon nothing is protected, and the distributions would fill the memory.
_LARGEST = 300.0
_PRECISE = 1.0002
_BESIDE = 1.003  # how far from a coarse result the exact one is looked for first
_GUESSES = 5
_LEAST_NOISE, _MOST_NOISE = 2.0**-8, 2.0**10
_TINY = 1e-300


class SampledSteps(NamedTuple):
    """`steps` Gaussian releases of sensitivity 1, each on a fresh Poisson sample.

    Parameters
    ----------
    noise_multiplier : float, noise deviation of a step, in sensitivities
    sampling_rate : float in (0, 1], chance of each unit to be sampled
    steps : int
    """

    noise_multiplier: float
    sampling_rate: float
    steps: int


def priced_with(accountant: str) -> dict[str, str]:
    """Return the library, with its version, behind a bound of `worst_case_epsilon`; {} if ours.

    Parameters
    ----------
    accountant : {"gaussian", "rdp", "pld"}

    Returns
    -------
    dict of str to str, version by library

    Examples
    --------
    >>> priced_with("gaussian"), list(priced_with("pld"))
    ({}, ['dp-accounting'])
    """
    return {_LIBRARY: version(_LIBRARY)} if accountant == "pld" else {}


def sampled_steps_pld(
    steps: Sequence[SampledSteps], delta: float, mu_squared: float = 0.0, cells: float = _CELLS
) -> Any:
    """Compose runs of steps and Gaussian releases into a privacy loss distribution, or None.

    Parameters
    ----------
    steps : sequence of SampledSteps, all composed
    delta : float in (0, 1)
    mu_squared : float, optional, sum of (sensitivity/sigma)^2 of Gaussian releases as well
    cells : float, optional
        Grid cells per epsilon: fewer are quicker, and the result is still an upper bound.

    Returns
    -------
    privacy loss distribution or None
        Has `get_epsilon_for_delta`. None where delta is too small or epsilon too large for it to be
        of use, or the steps are more than a million. Source: docs/theory/direct.md.

    Examples
    --------
    >>> sampled_steps_pld([SampledSteps(1.0, 0.1, 10)], delta=1e-12) is None
    True
    """
    delta, mu_squared = probability(delta=delta), non_negative(mu_squared=mu_squared)
    rough = _least_by_rdp(tuple(steps), mu_squared, delta)
    if delta <= 4 * _FFT_DELTA or not rough <= _LARGEST:
        return None
    if sum(one.steps for one in steps) > _MOST_STEPS:
        return None
    cell = _CELLS / cells * min(max(rough / _CELLS, _FINEST), _COARSEST)
    return _composed(tuple(steps), mu_squared, cell)


@functools.lru_cache(maxsize=64)
def _composed(steps: tuple[SampledSteps, ...], mu_squared: float, cell: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as losses

    loss = functools.partial(losses.from_gaussian_mechanism, value_discretization_interval=cell)
    runs = [(loss(noise, sampling_prob=rate), count) for noise, rate, count in steps]
    parts = [_as_arrays(one, count).self_compose(count) for one, count in runs]
    if mu_squared > 0:
        parts.append(loss(1 / math.sqrt(mu_squared)))
    return _Guarded(functools.reduce(lambda first, second: first.compose(second), parts))


def _as_arrays(loss: Any, count: int) -> Any:
    """Make a loss dense from so many compositions on, as the library would after a slow test."""
    try:
        sides: list[Any] = [loss._pmf_remove, loss._pmf_add]
    except AttributeError:
        return loss
    if count < _ARRAYS_FROM or min(side.size for side in sides) < 2:
        return loss
    symmetric = sides[0] is sides[1]
    return type(loss)(*(side.to_dense_pmf() for side in sides[: 1 if symmetric else 2]))


class _Guarded:
    """A loss distribution queried at a slightly smaller delta than it has to prove."""

    __slots__ = ("_loss",)

    def __init__(self, loss: Any) -> None:
        self._loss = loss

    def get_epsilon_for_delta(self, delta: float) -> float:
        """Epsilon at delta, less what Fourier transforms may have rounded away."""
        return float(self._loss.get_epsilon_for_delta(delta - _FFT_DELTA))


def sampled_steps_rdp(steps: Sequence[SampledSteps], mu_squared: float = 0.0) -> RdpCurve:
    """Return the RDP curve of runs of steps and of Gaussian releases.

    Parameters
    ----------
    steps : sequence of SampledSteps, all composed
    mu_squared : float, optional, sum of (sensitivity/sigma)^2 of Gaussian releases as well

    Returns
    -------
    RdpCurve
        At `DEFAULT_ORDERS`; public.

    Examples
    --------
    >>> run = SampledSteps(noise_multiplier=1.8, sampling_rate=0.1, steps=500)
    >>> round(sampled_steps_rdp([run]).epsilon(1e-5, "classic"), 2)
    7.71
    """
    return RdpCurve(DEFAULT_ORDERS, _rdp_at(DEFAULT_ORDERS, steps, mu_squared))


def _rdp_at(orders: Floats, steps: Sequence[SampledSteps], mu_squared: float) -> Floats:
    values = orders * mu_squared / 2
    for noise, rate, count in steps:
        sampled = poisson_gaussian_rdp(rate, noise, orders)
        values = values + count * np.minimum(sampled, gaussian_rdp(noise, orders))
    return values


@functools.lru_cache(maxsize=256)
def _least_by_rdp(steps: tuple[SampledSteps, ...], mu_squared: float, delta: float) -> float:
    """Epsilon of the RDP curve, by few orders first; rounding can only make it larger."""
    terms, values = conversion_term(DEFAULT_ORDERS, delta), np.zeros(DEFAULT_ORDERS.size)
    least, places = math.inf, np.arange(DEFAULT_ORDERS.size)
    for stride in _STRIDES:
        may_be_less = np.maximum.accumulate(values) + terms < least
        looked_at = places[may_be_less & (values == 0) & (places % stride == 0)]
        if looked_at.size:
            values[looked_at] = _rdp_at(DEFAULT_ORDERS[looked_at], steps, mu_squared)
            least = min(least, float((values + terms)[looked_at].min()))
    return max(least, 0.0)


def sampled_steps_epsilon(
    steps: Sequence[SampledSteps], delta: float, mu_squared: float = 0.0
) -> WorstCase:
    """Return the least proved epsilon of runs of steps together with Gaussian releases.

    Parameters
    ----------
    steps : sequence of SampledSteps, all composed
    delta : float in (0, 1)
    mu_squared : float, optional, sum of (sensitivity/sigma)^2 of Gaussian releases as well

    Returns
    -------
    WorstCase, the lesser of what the curve and the loss distribution prove

    Examples
    --------
    >>> run = SampledSteps(noise_multiplier=7.8, sampling_rate=0.05, steps=1000)
    >>> sampled_steps_epsilon([run], 1e-5, mu_squared=6 / 20**2).epsilon < 1.1
    True
    """
    loss = sampled_steps_pld(steps, delta, mu_squared)
    return worst_case_epsilon(delta, rdp=sampled_steps_rdp(steps, mu_squared), pld=loss)


@functools.lru_cache(maxsize=64)
def calibrate_steps(
    epsilon: float, delta: float, *, steps: int, rate: float, mu_squared: float = 0.0
) -> float:
    """Return the least noise multiplier with which a run costs at most (epsilon, delta).

    Certified: `sampled_steps_epsilon` of it is at most epsilon. Within 0.02 % of the least.

    Parameters
    ----------
    epsilon : float > 0
    delta : float in (0, 1)
    steps : int, steps of the run
    rate : float in (0, 1], chance of each unit to be sampled
    mu_squared : float, optional
        Cost of Gaussian releases beside the run, such as a histogram of thresholds.

    Returns
    -------
    float

    Examples
    --------
    >>> sigma = calibrate_steps(2.0, 1e-3, steps=10, rate=0.1)
    >>> sampled_steps_epsilon([SampledSteps(sigma, 0.1, 10)], 1e-3).epsilon <= 2.0
    True
    """
    epsilon, delta = positive(epsilon=epsilon), probability(delta=delta)
    count, rate = at_least(1, steps=steps), sampling_rate(rate=rate)
    beside = non_negative(mu_squared=mu_squared)
    if beside > 0 and calibrate_gaussian(1.0, epsilon, delta) ** -2 <= beside:
        raise InvalidArgument(
            f"Expected mu_squared={mu_squared!r} to leave something of epsilon={epsilon!r} to the "
            "steps; add noise to the other releases, or raise epsilon."
        )

    def rough(sigma: float) -> float:
        return _least_by_rdp((SampledSteps(sigma, rate, count),), beside, delta)

    def priced(sigma: float, cells: float) -> float:
        loss = sampled_steps_pld([SampledSteps(sigma, rate, count)], delta, beside, cells)
        return min(rough(sigma), math.inf if loss is None else loss.get_epsilon_for_delta(delta))

    coarse, exact = (
        functools.cache(functools.partial(priced, cells=cells)) for cells in (_FEW_CELLS, _CELLS)
    )
    sigma = _least_fitting(epsilon, rough, coarse, exact)
    # As a ledger asks: RDP that is summed otherwise may be above the budget by its last digit.
    while not _costs_at_most(epsilon, delta, [SampledSteps(sigma, rate, count)], beside):
        sigma *= math.sqrt(_PRECISE)
    return sigma


def _costs_at_most(
    epsilon: float, delta: float, steps: Sequence[SampledSteps], mu_squared: float
) -> bool:
    """Whether `sampled_steps_epsilon` is no more, without the curve where the loss decides."""
    loss = sampled_steps_pld(steps, delta, mu_squared)
    if loss is not None and loss.get_epsilon_for_delta(delta) <= epsilon:
        return True
    return bool(sampled_steps_rdp(steps, mu_squared).epsilon(delta) <= epsilon)


_Cost = Callable[[float], float]  # from a noise multiplier to epsilon; it falls


def _least_fitting(epsilon: float, rough: _Cost, coarse: _Cost, exact: _Cost) -> float:
    """Bracket by RDP, which is quick, refine on a coarse grid, end with the ledger's own price."""
    high = 1.0
    while rough(high) > epsilon:
        high *= 2
        if high > _MOST_NOISE:
            raise InvalidArgument("Expected a budget that some noise can meet; raise epsilon.")
    low = high
    while rough(low) <= epsilon and low > _LEAST_NOISE:
        low /= 2
    high = _closed_in(low, high, 1.02, epsilon, rough)
    low = 0.7 * high  # tighter accountants save about a fifth
    while coarse(low) <= epsilon and low > _LEAST_NOISE:
        low, high = low / 2, low
    found = _closed_in(low, high, _PRECISE, epsilon, coarse)
    # What is exact is hardly less than on the coarse grid, and falls with noise as that does.
    falls = max(coarse(found / _PRECISE), _TINY) / max(coarse(found), _TINY)
    if exact(found) <= epsilon <= falls * max(exact(found), _TINY):
        return found
    return _settled(found, epsilon, exact)


def _settled(near: float, epsilon: float, exact: _Cost) -> float:
    """Return the least noise that meets epsilon, or up to `_PRECISE` more, starting from `near`."""
    low, high, step = near, near, _BESIDE
    while exact(high) > epsilon:
        low, high, step = high, step * high, step**3
    while exact(low) <= epsilon:
        if low <= _LEAST_NOISE:
            return low
        low, high, step = max(low / step, _LEAST_NOISE), low, step**3
    for _ in range(_GUESSES):
        enough = max(exact(high), _TINY)
        slope = math.log(exact(low) / enough) / math.log(high / low)
        if enough >= epsilon * _PRECISE**-slope:
            return high
        guess = high * math.exp(math.log(enough / epsilon) / slope) * math.sqrt(_PRECISE)
        sigma = min(max(guess, low), high)
        low, high = (sigma, high) if exact(sigma) > epsilon else (low, sigma)
    return _closed_in(low, high, _PRECISE, epsilon, exact)


def _closed_in(low: float, high: float, factor: float, epsilon: float, cost: _Cost) -> float:
    """Return the least noise that meets epsilon, or up to `factor` more; `high` meets it."""
    from scipy.optimize import brentq  # slow to import, and not needed to price

    if cost(low) <= epsilon:  # the least noise there is
        return low

    def excess(log_sigma: float) -> float:
        ratio = math.log(max(cost(math.exp(log_sigma)), _TINY) / epsilon)
        return min(max(ratio, -1.0), 1.0)  # where the cost leaps, it is no straight line

    error = math.log(factor) / 4
    root = brentq(excess, math.log(low), math.log(high), xtol=error)
    sigma = math.exp(root + error)
    while sigma < high and cost(sigma) > epsilon:  # the cost need not fall in every last digit
        sigma *= math.sqrt(factor)
    return min(sigma, high)
