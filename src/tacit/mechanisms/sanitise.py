"""Sanitise: publish a data-dependent cost, privately.

First the smooth sensitivity of the cost is released on a logarithmic scale, then the cost with
noise of that scale; both as exactly rounded Gaussians on public grids.
Proof: docs/theory/smooth-sensitivity.md#two-stages-sanitise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit import privacy
from tacit._checks import Floats, positive, refuse, renyi_order, set_checked, vote_matrix
from tacit.errors import InvalidArgument
from tacit.mechanisms.audit_cases import AUDIT_DELTAS, Look, Suspicion
from tacit.mechanisms.base import NO_ANSWER, Mechanism, Plan
from tacit.mechanisms.released_once import ReleasedOnce, copied
from tacit.mechanisms.selective import ConfidentGNMax
from tacit.mechanisms.votes import GNMax
from tacit.noise import Noise
from tacit.privacy import Event, RdpCurve, SanitiseCost

# Grids are this fraction of the noise, rounded down to a power of two: public and harmless.
_GRID_PER_SIGMA = 2.0**-20
_MOST_NOISE = 2.0**18
_MOST_STEPS = 2.0**62  # whole steps are counted in int64


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SecretCost:
    """The data-dependent RDP of a run at one order, and its smooth sensitivity. Secret.

    Parameters
    ----------
    value : float
        The cost; secret.
    smooth : float
        A beta-smooth bound on how far one unit moves it; secret.
    order : float
        The Renyi order; public, chosen without the data.
    beta : float
        Public: smooth differs by at most a factor e^beta between neighbours.
    """

    value: float
    smooth: float
    order: float
    beta: float

    def __repr__(self) -> str:
        return f"SecretCost(<secret>, order={self.order}, beta={self.beta})"


class SanitisedCost(NamedTuple):
    """The released log-scale and cost, and the upper bound that they support."""

    log_scale: float
    value: float
    upper_bound: float
    """At least the true data-dependent RDP unless an event of probability delta happened."""


def secret_cost_of(
    mechanism: Mechanism, votes: ArrayLike, labels: ArrayLike, order: float, beta: float
) -> SecretCost:
    """Return the data-dependent cost of a run at one order, and its smooth sensitivity. Secret.

    Parameters
    ----------
    mechanism : GNMax or ConfidentGNMax
        What released the labels.
    votes : array of shape (queries, classes)
        Whole votes; secret.
    labels : array of shape (queries,)
        What was released, -1 where unanswered; public.
    order, beta : float
        Those of the `Sanitise` to come, chosen without the data.

    Returns
    -------
    SecretCost
        Secret: publish it through `Sanitise` only.

    Notes
    -----
    GNMax: the sum of `gnmax_rdp` over all queries. ConfidentGNMax: the data-independent cost of
    every check plus `gnmax_rdp` of the answered queries, a set that is public already. Not
    `gnmax_rdp_total`: its lines are off by up to 1e-3, which the smooth sensitivity does not
    cover.
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
    elif isinstance(mechanism, GNMax) and mechanism.votes_per_unit == 1:
        if not answered.all():
            raise InvalidArgument("Expected labels without -1: GNMax answers every query.")
        checks, sigma = 0.0, mechanism.sigma
    else:
        raise InvalidArgument(
            f"Expected mechanism={mechanism!r} to be GNMax, one vote a unit, or ConfidentGNMax: "
            "no smooth sensitivity is known for the others; publish the worst case."
        )
    told = counts[answered]
    if not len(told):
        return SecretCost(checks, 0.0, order, beta)
    answers = math.fsum(privacy.gnmax_rdp(told, sigma, [order])[:, 0])
    smooth = privacy.gnmax_smooth_sensitivity(told, sigma, order, beta)
    return SecretCost(checks + answers, smooth, order, beta)


@dataclass(frozen=True, slots=True)
class Sanitise(ReleasedOnce):
    """Release a `SecretCost` in two stages, at mu^2 = beta^2/sigma_log^2 + 1/sigma^2 in all.

    Parameters
    ----------
    order : float
        The Renyi order at which the cost was computed.
    beta : float
        Smoothness of the sensitivity.
    sigma : float
        Noise of the cost, in units of SS_upper.
    sigma_log : float
        Deviation of the noise on the logarithm of the smooth sensitivity.
    delta_value, delta_scale : float
        Probabilities, paid from the budget's delta, with which either bound may fail.
    covers : str
        Hash of the ledger entry whose cost it is.
    scale_floor : float, optional
        Smaller sensitivities count as this.

    Notes
    -----
    (1) log max(SS, scale_floor) + N(0, sigma_log^2) gives SS_upper, which holds except with
    probability delta_scale; (2) cost + N(0, (sigma SS_upper)^2) gives an upper bound, except with
    probability delta_value. Every parameter, the order included, must be chosen without the data.
    Rounding to the grids is paid for by more noise. Unit: one teacher.
    Proof: docs/theory/smooth-sensitivity.md#two-stages-sanitise.

    Examples
    --------
    >>> Sanitise(order=14, beta=0.0143, sigma=6, sigma_log=0.1, delta_value=1e-6, delta_scale=1e-6,
    ...          covers="3f2a").confidence_delta()
    2e-06
    """

    name: ClassVar[str] = "sanitise"
    assumes: ClassVar[str] = (
        "the votes and labels whose cost was published are those of the release that the cost is "
        "claimed for"
    )
    order: float
    beta: float
    sigma: float
    sigma_log: float
    delta_value: float
    delta_scale: float
    covers: str
    scale_floor: float = 1e-6

    def __post_init__(self) -> None:
        scales = ("beta", "sigma", "sigma_log", "delta_value", "delta_scale", "scale_floor")
        set_checked(self, order=renyi_order, **dict.fromkeys(scales, positive))
        self.price()
        if max(self.sigma, self.sigma_log / self.beta) > _MOST_NOISE:
            raise InvalidArgument(
                f"Expected sigma={self.sigma} and sigma_log/beta={self.sigma_log / self.beta} to "
                f"be at most {_MOST_NOISE:g}: beyond, the exact sampler has no grid."
            )
        if not isinstance(self.covers, str) or not self.covers:
            raise InvalidArgument("Expected covers to be the hash of the ledger entry it prices.")

    def price(self) -> SanitiseCost:
        """Return cost, confidence delta and quantiles; public.

        Returns
        -------
        SanitiseCost
        """
        stages = self.order, self.beta, self.sigma, self.sigma_log
        return privacy.sanitise_cost(*stages, self.delta_value, self.delta_scale)

    def _draw(self, secret: SecretCost, noise: Noise, copies: int) -> Floats:
        """Return (noisy log-scale, noisy cost)."""
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
        """Return the upper bound on the true cost that the released pair supports.

        Parameters
        ----------
        released : pair of float
            Noisy log-scale and noisy cost: `values` of the release.

        Returns
        -------
        SanitisedCost
            Both numbers and the upper bound; public.
        """
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

    def cost(self, orders: ArrayLike, **sizes: int | None) -> RdpCurve:
        """Two Gaussian releases: order * mu^2 / 2; public."""
        return RdpCurve(orders, privacy.gaussian_rdp(1 / math.sqrt(self.gaussian_cost()), orders))

    def gaussian_cost(self) -> float:
        """beta^2/sigma_log^2 + 1/sigma^2; public."""
        return self.price().mu_squared

    def confidence_delta(self) -> float:
        """delta_value + delta_scale; public."""
        return self.price().delta

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield neighbours that differ in the scale alone, in the cost alone, and in both.

        The smooth sensitivity of one is e^beta times the other's; the costs differ by the smaller
        one.
        """
        one = Plan(self, 1)
        deltas = [delta for delta in AUDIT_DELTAS if delta > 2 * self.confidence_delta()]
        if not deltas:
            confidence = self.confidence_delta()
            raise refuse("delta_value + delta_scale", confidence, "below 0.05 for an audit")
        smooth = max(1.0, self.scale_floor)
        plain = SecretCost(1.0, smooth * np.exp(self.beta), self.order, self.beta)
        for what, value, scale in (
            ("the scale", 1.0, smooth),
            ("the cost", 1.0 + smooth, plain.smooth),
            ("scale and cost", 1.0 + smooth, smooth),
        ):
            pair = SecretCost(value, scale, self.order, self.beta), plain
            looks = tuple(
                Look((self._likely(pair, one.epsilon(delta / 2)), self._likely(pair, 0.0)), delta)
                for delta in deltas
            )
            yield copied(what, self, pair, looks, 2)

    def _likely(self, pair: tuple[SecretCost, SecretCost], limit: float) -> Event:
        """Return the event that the log-likelihood ratio is at least `limit`."""
        first, second = pair
        scales = np.log(first.smooth), np.log(second.smooth)

        def event(outputs: Floats) -> NDArray[np.bool_]:
            log_scale, value = outputs[:, 0], outputs[:, 1]
            deviation, _ = self._value_noise(log_scale)
            ratio = _log_ratio(log_scale, *scales, self.sigma_log)
            ratio = ratio + _log_ratio(value, first.value, second.value, deviation)
            return np.asarray(ratio >= limit)

        return event

    @classmethod
    def parameters(cls) -> dict[str, Any]:
        """Leave out `covers`: a description on the command line covers no entry."""
        named = super(Sanitise, cls).parameters()
        del named["covers"]
        return named

    @classmethod
    def from_parameters(cls, **given: Any) -> Sanitise:
        """Make one that covers no entry, for an audit."""
        return cls(**given, covers="an audit")


def _log_ratio(found: Floats, first: float, second: float, spread: Floats | float) -> Floats:
    """Return log N(found; first, spread^2) - log N(found; second, spread^2)."""
    return np.asarray((found - (first + second) / 2) * (first - second) / np.square(spread))


def _on_grid(answer: float, sigma: Floats, grid: Floats, noise: Noise) -> Floats:
    """Round the answer to the grids and add Gaussians rounded to them, counted in whole steps."""
    steps = np.clip(np.floor(answer / grid + 0.5), -_MOST_STEPS, _MOST_STEPS).astype(np.int64)
    # A grid is a power of two, so sigma/grid is exact.
    steps += noise.rounded_gaussian_steps(sigma / grid, 1.0, sigma.shape)
    return np.asarray(steps * grid)


def _power_of_two_below(value: ArrayLike) -> Floats:
    return np.asarray(np.ldexp(1.0, np.floor(np.log2(value)).astype(np.int64)))
