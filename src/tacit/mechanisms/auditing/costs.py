"""Where `Sanitise` loses most: two costs one smooth sensitivity apart, and their sensitivities."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, refuse
from tacit.mechanisms.auditing.cases import AUDIT_DELTAS, Look, Suspicion
from tacit.mechanisms.auditing.numbers import copies
from tacit.mechanisms.plan import Plan
from tacit.mechanisms.repeated import MadeUp
from tacit.mechanisms.sanitise import Sanitise, SecretCost
from tacit.privacy.auditing import Event


def of_sanitise(mechanism: Sanitise) -> Iterator[Suspicion]:
    """Yield neighbours that differ in the scale alone, in the cost alone, and in both.

    The smooth sensitivity S of one is e^beta times the other's, and the costs differ by the
    smaller S. The likelihood ratio reads the deviation of the cost off the released scale.
    """
    one = Plan(mechanism, 1)
    deltas = [delta for delta in AUDIT_DELTAS if delta > 2 * mechanism.confidence_delta()]
    if not deltas:
        confidence = mechanism.confidence_delta()
        raise refuse("delta_value + delta_scale", confidence, "below 0.05 for an audit")
    smooth = max(1.0, mechanism.scale_floor)
    plain = _cost(mechanism, 1.0, smooth * np.exp(mechanism.beta))
    for what, value, scale in (
        ("the scale", 1.0, smooth),
        ("the cost", 1.0 + smooth, smooth * np.exp(mechanism.beta)),
        ("scale and cost", 1.0 + smooth, smooth),
    ):
        first = _cost(mechanism, value, scale)
        looks = tuple(
            Look(_likely(mechanism, first, plain, one.epsilon(delta / 2)), delta=delta)
            for delta in deltas
        )
        yield Suspicion(what, first, plain, one, looks, MadeUp, copies, numbers=2)


def _cost(mechanism: Sanitise, value: float, smooth: float) -> SecretCost:
    return SecretCost(value, smooth, mechanism.order, mechanism.beta)


def _likely(
    mechanism: Sanitise, first: SecretCost, second: SecretCost, epsilon: float
) -> tuple[Event, Event]:
    """Return the events that the log-likelihood ratio is at least epsilon, and at least 0."""

    def ratio(outputs: Floats) -> Floats:
        log_scale, value = outputs[:, 0], outputs[:, 1]
        deviation, _ = mechanism._value_noise(log_scale)
        scales = np.log(first.smooth), np.log(second.smooth)
        return _log_ratio(log_scale, *scales, mechanism.sigma_log) + _log_ratio(
            value, first.value, second.value, deviation
        )

    def at_least(limit: float) -> Event:
        def event(outputs: Floats) -> NDArray[np.bool_]:
            return np.asarray(ratio(outputs) >= limit)

        return event

    return at_least(epsilon), at_least(0.0)


def _log_ratio(found: Floats, first: float, second: float, spread: Floats | float) -> Floats:
    """Return log N(found; first, spread^2) - log N(found; second, spread^2)."""
    return np.asarray((found - (first + second) / 2) * (first - second) / np.square(spread))
