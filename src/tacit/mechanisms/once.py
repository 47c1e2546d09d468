"""What mechanisms share that release one matrix, once, with noise in units of its sensitivity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from numpy.typing import ArrayLike

from tacit._checks import refuse
from tacit.privacy import RdpCurve, gaussian_rdp


class ReleasedOnce(ABC):
    """One Gaussian release whose noise is `sigma` sensitivities: mu = 1/sigma."""

    __slots__ = ()
    sigma: float

    @abstractmethod
    def _checked(self, answers: Any) -> Any:
        """Return the answers as this mechanism reads them, or raise without quoting them."""

    def cost(
        self, orders: ArrayLike, *, n_teachers: int | None = None, n_classes: int | None = None
    ) -> RdpCurve:
        """Worst case: order / (2 sigma^2), whatever the records say."""
        return RdpCurve(orders, gaussian_rdp(self.sigma, orders))

    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Return the worst case: the cost does not depend on the data."""
        return self.cost(orders)

    def gaussian_cost(self) -> float | None:
        """mu^2 = 1/sigma^2."""
        return 1 / self.sigma**2

    def confidence_delta(self) -> float:
        """No probability of failure: 0."""
        return 0.0

    def accept(
        self, answers: Any, *, queries: int, n_teachers: int | None, n_classes: int | None
    ) -> None:
        """Raise unless the answers are usable, for the one release of the plan."""
        if queries != 1:
            raise refuse("queries", queries, "1: one matrix is released, once")
        self._checked(answers)
