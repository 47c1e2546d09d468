"""Sanitise: publish a data-dependent cost, privately.

First the smooth sensitivity of the cost is released on a logarithmic scale, then the cost itself
with noise of that scale. Both are numbers, so both are exactly rounded Gaussians on public grids.
Proof: docs/theory/smooth-sensitivity.md#two-stages-sanitise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, positive, renyi_order, vote_matrix
from tacit.errors import InvalidArgument
from tacit.mechanisms.base import NO_ANSWER, Mechanism, Release
from tacit.mechanisms.noisy_max import GNMax
from tacit.mechanisms.selective import ConfidentGNMax
from tacit.noise import admit
from tacit.privacy import (
    RdpCurve,
    SanitiseCost,
    gaussian_rdp,
    gnmax_rdp,
    gnmax_smooth_sensitivity,
    sanitise_cost,
)

if TYPE_CHECKING:
    from tacit.noise import Noise

_GRID_PER_SIGMA = 2.0**-20
"""Grids are this fraction of the noise, rounded down to a power of two: public and harmless."""
_MOST_NOISE = 2.0**18
_MOST_STEPS = 2.0**62  # whole steps are counted in int64


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SecretCost:
    """The data-dependent RDP of a run at one order, and its smooth sensitivity. Secret."""

    value: float
    smooth: float
    order: float
    beta: float

    def __repr__(self) -> str:
        return f"SecretCost(<secret>, order={self.order}, beta={self.beta})"


class SanitisedCost(NamedTuple):
    """What was released about a cost, and the upper bound that holds with high probability."""

    log_scale: float
    value: float
    upper_bound: float
    """At least the true data-dependent RDP unless an event of probability delta happened."""


def secret_cost_of(
    mechanism: Mechanism, votes: ArrayLike, labels: ArrayLike, order: float, beta: float
) -> SecretCost:
    """Return what the realised run cost at one order (chosen without the data), and its SS. Secret.

    GNMax: the sum of `gnmax_rdp` over all queries. ConfidentGNMax: the data-independent cost of
    every check plus `gnmax_rdp` of the queries that were answered (labels != -1), a set that is
    public already. Not `gnmax_rdp_total`: its table of rounded-up q is off by up
    to 1e-3, which the smooth sensitivity does not cover.
    """
    counts = vote_matrix(votes)
    answered = np.asarray(labels) != NO_ANSWER
    if answered.shape != (counts.shape[0],):
        raise InvalidArgument(
            f"Expected labels for the {counts.shape[0]} rows of votes, got {answered.shape}."
        )
    if isinstance(mechanism, ConfidentGNMax):
        n_teachers, n_classes = int(counts[0].sum()), counts.shape[1]
        check = mechanism.check.cost([order], n_teachers=n_teachers, n_classes=n_classes)
        checks = counts.shape[0] * float(check.values[0])
        sigma = mechanism.sigma_answer
    elif isinstance(mechanism, GNMax):
        if not answered.all():
            raise InvalidArgument("Expected labels without -1: GNMax answers every query.")
        checks, sigma = 0.0, mechanism.sigma
    else:
        raise InvalidArgument(
            f"Expected mechanism={mechanism!r} to be GNMax or ConfidentGNMax: "
            "no smooth sensitivity is known for the others; publish the worst case."
        )
    told = counts[answered]
    if not len(told):
        return SecretCost(checks, 0.0, order, beta)
    answers = math.fsum(gnmax_rdp(told, sigma, [order])[:, 0])
    smooth = gnmax_smooth_sensitivity(told, sigma, order, beta)
    return SecretCost(checks + answers, smooth, order, beta)


@dataclass(frozen=True, slots=True)
class Sanitise:
    """Release a `SecretCost` in two stages, at mu^2 = beta^2/sigma_log^2 + 1/sigma^2 in all.

    (1) log max(SS, scale_floor) + N(0, sigma_log^2), from which SS_upper holds except with
        probability delta_scale; (2) cost + N(0, (sigma SS_upper)^2), from which an upper bound
    holds except with probability delta_value. Every parameter, the order included, must be chosen
    without the data. Rounding the answers to their grids is paid for by as much more noise.
    `covers` names the ledger entry whose cost it is. Unit: one teacher.

    >>> Sanitise(order=14, beta=0.0143, sigma=6, sigma_log=0.1, delta_value=1e-6, delta_scale=1e-6,
    ...          covers="3f2a").confidence_delta()
    2e-06
    """

    name: ClassVar[str] = "sanitise"
    noise_level: ClassVar[str] = "exact"
    order: float
    beta: float
    sigma: float
    sigma_log: float
    delta_value: float
    delta_scale: float
    covers: str
    scale_floor: float = 1e-6

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", renyi_order(order=self.order))
        for name in ("beta", "sigma", "sigma_log", "delta_value", "delta_scale", "scale_floor"):
            object.__setattr__(self, name, positive(**{name: getattr(self, name)}))
        self.price()
        if max(self.sigma, self.sigma_log / self.beta) > _MOST_NOISE:
            raise InvalidArgument(
                f"Expected sigma={self.sigma} and sigma_log/beta={self.sigma_log / self.beta} to "
                f"be at most {_MOST_NOISE:g}: beyond, the exact sampler has no grid."
            )
        if not isinstance(self.covers, str) or not self.covers:
            raise InvalidArgument("Expected covers to be the hash of the ledger entry it prices.")

    def price(self) -> SanitiseCost:
        """Return cost, confidence delta and quantiles."""
        return sanitise_cost(
            self.order, self.beta, self.sigma, self.sigma_log, self.delta_value, self.delta_scale
        )

    def release(self, answers: Any, noise: Noise) -> Release:
        """Return (noisy log-scale, noisy cost)."""
        entry = admit(noise)
        pair = self._draws(answers, noise, 1)[0]
        return Release(self, values=pair, entry=entry, secure=noise.secure)

    def _draws(self, answers: Any, noise: Noise, copies: int) -> Floats:
        """Return (noisy log-scale, noisy cost), one for a release, many for an audit."""
        return self._draw(self._checked(answers), noise, copies)

    def _draw(self, secret: SecretCost, noise: Noise, copies: int) -> Floats:
        grid = np.full(copies, self._log_grid())
        # Rounded answers differ by at most beta + grid: the noise grows in the same proportion.
        log_noise = self.sigma_log * (1 + grid / self.beta)
        log_scale = _on_grid(math.log(max(secret.smooth, self.scale_floor)), log_noise, grid, noise)
        # Noise and grid follow from the released scale: the true one would be a second release.
        value = _on_grid(secret.value, *self._value_noise(log_scale), noise)
        return np.column_stack([log_scale, value])

    def _log_grid(self) -> float:
        return float(_power_of_two_below(min(self.sigma_log, self.beta) * _GRID_PER_SIGMA))

    def _value_noise(self, log_scale: Floats) -> tuple[Floats, Floats]:
        """Return deviation and grid of stage (2), functions of the released log-scale alone."""
        grid = self._log_grid()
        margin = self.price().scale_quantile * self.sigma_log * (1 + grid / self.beta) + grid
        upper = np.exp(np.clip(log_scale + margin, -600.0, 600.0))
        value_grid = _power_of_two_below(min(self.sigma, 1.0) * upper * _GRID_PER_SIGMA)
        return self.sigma * (upper + value_grid), value_grid

    def read(self, released: ArrayLike) -> SanitisedCost:
        """Return the upper bound on the true cost that the released pair supports."""
        log_scale, value = np.asarray(released, dtype=np.float64)
        deviation, grid = self._value_noise(log_scale)
        upper = float(value + self.price().value_quantile * deviation + grid)
        return SanitisedCost(float(log_scale), float(value), max(upper, 0.0))

    def _checked(self, answers: Any) -> SecretCost:
        if not isinstance(answers, SecretCost):
            raise InvalidArgument("Expected a SecretCost; make it with secret_cost_of(...).")
        if (answers.order, answers.beta) != (self.order, self.beta):
            raise InvalidArgument(
                f"Expected a SecretCost at order={self.order} and beta={self.beta}, "
                f"got order={answers.order} and beta={answers.beta}."
            )
        if not (math.isfinite(answers.value) and math.isfinite(answers.smooth)):
            raise InvalidArgument("Expected a finite SecretCost.")
        return answers

    def cost(
        self, orders: ArrayLike, *, n_teachers: int | None = None, n_classes: int | None = None
    ) -> RdpCurve:
        """Two Gaussian releases: order * mu^2 / 2."""
        return RdpCurve(orders, gaussian_rdp(1 / math.sqrt(self.gaussian_cost()), orders))

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Return the worst case: publishing a cost has no cheaper price."""
        return self.cost(orders)

    def gaussian_cost(self) -> float:
        """beta^2/sigma_log^2 + 1/sigma^2."""
        return self.price().mu_squared

    def confidence_delta(self) -> float:
        """delta_value + delta_scale."""
        return self.price().delta

    def accept(
        self, answers: Any, *, queries: int, n_teachers: int | None, n_classes: int | None
    ) -> None:
        """Raise unless one secret cost is given for the one query of the plan."""
        if queries != 1:
            raise InvalidArgument(f"Expected queries={queries} to be 1: one cost is published.")
        self._checked(answers)


def _on_grid(answer: float, sigma: Floats, grid: Floats, noise: Noise) -> Floats:
    """Round the answer to the grids and add Gaussians rounded to them, counted in whole steps."""
    steps = np.clip(np.floor(answer / grid + 0.5), -_MOST_STEPS, _MOST_STEPS).astype(np.int64)
    # A grid is a power of two, so sigma/grid is exact.
    steps += noise.rounded_gaussian_steps(sigma / grid, 1.0, sigma.shape)
    return np.asarray(steps * grid)


def _power_of_two_below(value: ArrayLike) -> Floats:
    return np.asarray(np.ldexp(1.0, np.floor(np.log2(value)).astype(np.int64)))
