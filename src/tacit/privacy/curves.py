"""Renyi curves, in which every cost is counted, and the worst-case epsilon of a plan.

A mechanism M is (order, value)-RDP when D_order(M(D) || M(D')) <= value for neighbouring D, D'.
The worst case is the least of the accountants that apply, which costs nothing: all are independent
of the data (docs/theory/gaussian.md#which-accountant and #conversion-to-epsilon-and-delta).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, non_negative, number_array, one_of, order_array, probability
from tacit.errors import InvalidArgument
from tacit.privacy.gaussian import gaussian_epsilon

DEFAULT_ORDERS: Floats = np.concatenate(
    [
        [1.01, 1.02, 1.05],
        np.arange(11, 110) / 10,
        np.arange(11, 65),
        np.arange(68, 257, 4),
        np.round(np.geomspace(272, 16384, 50)),
    ]
)
"""Orders for every worst-case price: dense where budgets of epsilon 0.01 to 100 find their best."""
DEFAULT_ORDERS.setflags(write=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RdpCurve:
    """RDP values at given orders; `+` composes releases, `*` repeats one. Immutable.

    Parameters
    ----------
    orders : array of Renyi orders > 1
    values : array of shape (orders,) or (queries, orders)
        RDP at each order, infinite where there is no guarantee. Secret if computed from votes.

    Examples
    --------
    >>> curve = RdpCurve([2, 8, 32], [0.02, 0.08, 0.32]) * 10
    >>> round(curve.epsilon(1e-5), 3)
    2.014
    >>> curve.best_order(1e-5)
    8.0
    """

    orders: Floats
    values: Floats

    def __init__(self, orders: ArrayLike, values: ArrayLike) -> None:
        places, costs = order_array(orders).copy(), number_array(values=values).copy()
        if np.isnan(costs).any() or (costs < 0).any():  # +inf is "no guarantee"
            raise InvalidArgument("Expected values to be >= 0 and not NaN; a divergence cannot be.")
        if costs.ndim not in (1, 2) or costs.shape[-1] != places.size:
            raise InvalidArgument(
                f"Expected values of shape (orders,) or (queries, orders) with "
                f"{places.size} orders, got shape {costs.shape}."
            )
        for name, array in (("orders", places), ("values", costs)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def __add__(self, other: RdpCurve) -> RdpCurve:
        if not isinstance(other, RdpCurve):
            return NotImplemented
        if not np.array_equal(self.orders, other.orders):
            raise InvalidArgument("Expected both curves to have the same orders; recompute one.")
        if self.values.ndim != other.values.ndim:
            raise InvalidArgument("Expected two batches or two totals; call .total() on the batch.")
        if self.values.shape != other.values.shape:
            raise InvalidArgument("Expected two batches of equally many queries to add.")
        with np.errstate(over="ignore"):
            return RdpCurve(self.orders, self.values + other.values)

    def __mul__(self, times: float) -> RdpCurve:
        times = non_negative(times=times)
        if times == 0:  # also where a value is inf: what is not released costs nothing
            return RdpCurve(self.orders, np.zeros_like(self.values))
        with np.errstate(over="ignore"):
            return RdpCurve(self.orders, self.values * times)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RdpCurve):
            return NotImplemented
        return np.array_equal(self.orders, other.orders) and np.array_equal(
            self.values, other.values
        )

    __hash__ = None  # type: ignore[assignment]  # arrays inside: equal curves may not hash alike

    def __repr__(self) -> str:
        """Show shapes only: the values may be secret."""
        batch = f"{self.values.shape[0]} queries, " if self.values.ndim == 2 else ""
        return f"RdpCurve({batch}{self.orders.size} orders)"

    def total(self) -> RdpCurve:
        """Compose a batch of queries into one curve; a single release is its own total.

        Returns
        -------
        RdpCurve of shape (orders,)
        """
        if self.values.ndim == 1:
            return self
        with np.errstate(over="ignore"):
            return RdpCurve(self.orders, self.values.sum(axis=0))

    def batch(self, queries: int) -> RdpCurve:
        """Repeat this release: a batch of equal queries.

        Parameters
        ----------
        queries : int

        Returns
        -------
        RdpCurve of shape (queries, orders)
        """
        return RdpCurve(self.orders, np.tile(self.values, (queries, 1)))

    def epsilon(self, delta: float, conversion: str = "improved") -> Any:
        """Convert to epsilon at `delta`, minimised over the orders.

        Parameters
        ----------
        delta : float in (0, 1)
        conversion : {"improved", "classic"}, optional
            improved: max(0, rdp + log1p(-1/a) - (log delta + log a)/(a - 1)) at order a
            (Canonne, Kamath and Steinke 2020, Prop. 12; docs/theory/gaussian.md).
            classic: rdp + log(1/delta)/(a - 1) (Mironov 2017, Theorem 5 of PATE 2018).

        Returns
        -------
        float or array of shape (queries,), as secret as the curve
        """
        candidates = np.maximum(self.values + conversion_term(self.orders, delta, conversion), 0.0)
        return _scalar(candidates.min(axis=-1))

    def best_order(self, delta: float, conversion: str = "improved") -> Any:
        """Return the order at which `.epsilon(delta)` is attained.

        Parameters
        ----------
        delta : float in (0, 1)
        conversion : {"improved", "classic"}, optional, as in `epsilon`

        Returns
        -------
        float or array of shape (queries,), secret for a data-dependent curve
        """
        candidates = self.values + conversion_term(self.orders, delta, conversion)
        return _scalar(self.orders[candidates.argmin(axis=-1)])


def conversion_term(orders: ArrayLike, delta: float, conversion: str = "improved") -> Floats:
    """Return what is added to an RDP value at each order to get epsilon at `delta`.

    Parameters
    ----------
    orders : array of Renyi orders > 1
    delta : float in (0, 1)
    conversion : {"improved", "classic"}, optional, as in `RdpCurve.epsilon`

    Returns
    -------
    array of shape (orders,)
        May be negative. Sources: see `RdpCurve.epsilon`.

    Examples
    --------
    >>> round(float(conversion_term([14.0], 1e-5, "classic")[0]), 6)
    0.88561
    """
    orders, delta = order_array(orders), probability(delta=delta)
    one_of("improved", "classic", conversion=conversion)
    if conversion == "classic":
        return np.asarray(-math.log(delta) / (orders - 1))
    return np.asarray(np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1))


def _scalar(array: Any) -> Any:
    return float(array) if np.ndim(array) == 0 else np.asarray(array)


class WorstCase(NamedTuple):
    """A worst-case epsilon and the accountant that gave it; public.

    Parameters
    ----------
    epsilon : float, holds for all data
    accountant : {"gaussian", "rdp", "pld"}
    """

    epsilon: float
    accountant: str


def worst_case_epsilon(
    delta: float, mu_squared: float | None = None, rdp: RdpCurve | None = None, pld: Any = None
) -> WorstCase:
    """Return the smallest epsilon that one of the given accounts proves, and its name.

    Each account must cover all the releases; at least one is needed. All are independent of the
    data, so the minimum is free. Source: docs/theory/gaussian.md#which-accountant.

    Parameters
    ----------
    delta : float in (0, 1)
    mu_squared : float, optional
        Sum of (sensitivity/sigma)^2 over all Gaussian releases: exact composition.
    rdp : RdpCurve, optional, the composed curve, converted by the improved conversion
    pld : privacy loss distribution, optional
        A composed one of dp-accounting (docs/theory/direct.md).

    Returns
    -------
    WorstCase

    Examples
    --------
    >>> worst_case_epsilon(1e-5, mu_squared=640 / 150**2 + 2 * 286 / 40**2).accountant
    'gaussian'
    """
    delta = probability(delta=delta)
    proved: list[WorstCase] = []
    if mu_squared is not None:
        mu = math.sqrt(non_negative(mu_squared=mu_squared))
        proved.append(WorstCase(gaussian_epsilon(delta, mu), "gaussian"))
    if rdp is not None:
        if not isinstance(rdp, RdpCurve):
            raise InvalidArgument(f"Expected rdp to be an RdpCurve, got {type(rdp).__name__}.")
        proved.append(WorstCase(rdp.total().epsilon(delta), "rdp"))
    if pld is not None:
        if not hasattr(pld, "get_epsilon_for_delta"):
            raise InvalidArgument(
                f"Expected pld to be a PrivacyLossDistribution of dp-accounting, "
                f"got {type(pld).__name__}."
            )
        proved.append(WorstCase(float(pld.get_epsilon_for_delta(delta)), "pld"))
    if not proved:
        raise InvalidArgument("Expected at least one of mu_squared, rdp or pld to be given.")
    if any(math.isnan(one.epsilon) for one in proved):
        raise InvalidArgument("Expected accounts without NaN; recompute the curve.")
    return min(proved)
