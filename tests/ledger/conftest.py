"""Ledgers in temporary directories, and mechanisms that behave as only a test would want."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from tacit._checks import order_array
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import GNMax, Plan, Release
from tacit.noise import admit
from tacit.privacy import RdpCurve


@dataclass(frozen=True)
class Base:
    """Counts as a Gaussian of mu^2 = `square` and releases zeros."""

    name: ClassVar[str] = "base"
    noise_level: ClassVar[str] = "csprng"
    square: float = 0.01

    def release(self, answers, noise):
        return Release(self, labels=np.zeros(len(answers), dtype=np.int64), entry=admit(noise))

    def cost(self, orders, *, n_teachers=None, n_classes=None):
        orders = order_array(orders)
        return RdpCurve(orders, orders * self.square / 2)

    def secret_cost(self, answers, orders):
        raise AssertionError("a ledger never asks for a secret cost")

    def gaussian_cost(self):
        return self.square

    def confidence_delta(self):
        return 0.0

    def accept(self, answers, *, queries, n_teachers, n_classes):
        pass


@dataclass(frozen=True)
class Laplace(Base):
    """Not Gaussian: only RDP knows its price."""

    name: ClassVar[str] = "laplace"
    noise_level: ClassVar[str] = "exact"

    def gaussian_cost(self):
        return None


@dataclass(frozen=True)
class Unbounded(Laplace):
    """Guarantees nothing."""

    name: ClassVar[str] = "unbounded"

    def cost(self, orders, *, n_teachers=None, n_classes=None):
        return RdpCurve(orders, np.full(len(order_array(orders)), np.inf))


@dataclass(frozen=True)
class Confident(Base):
    """Takes something from delta for its own confidence bound."""

    name: ClassVar[str] = "confident"
    failure: float = 1e-7

    def confidence_delta(self):
        return self.failure


@dataclass(frozen=True)
class Selective(Base):
    """Checks every query; remembers nothing, returns the cap that it was given."""

    name: ClassVar[str] = "selective"

    @property
    def check(self):
        return Base(self.square)

    @property
    def answer(self):
        return Base(self.square)

    def release(self, answers, noise, *, max_answers, student=None):
        labels = np.array([-7 if max_answers is None else max_answers, student or 0])
        return Release(self, labels=labels, entry=admit(noise))


@dataclass(frozen=True)
class Telltale(Base):
    """Fails in a foreign library that quotes the answers."""

    name: ClassVar[str] = "telltale"
    where: str = "release"

    def accept(self, answers, *, queries, n_teachers, n_classes):
        if self.where == "accept":
            raise RuntimeError(f"cannot read {answers}")

    def release(self, answers, noise):
        raise RuntimeError(f"cannot read {answers}")


@dataclass(frozen=True)
class Unpaid(Base):
    """Releases without looking at the noise."""

    name: ClassVar[str] = "unpaid"

    def release(self, answers, noise):
        return Release(self, labels=np.zeros(len(answers), dtype=np.int64))


@dataclass(frozen=True)
class Loud(Base):
    """Claims a noise level that nobody knows."""

    name: ClassVar[str] = "loud"
    noise_level: ClassVar[str] = "perfect"


@pytest.fixture(scope="session")
def fakes() -> Any:
    """The mechanisms of this file."""
    kinds = (Base, Laplace, Unbounded, Confident, Selective, Telltale, Unpaid, Loud)
    return SimpleNamespace(**{kind.__name__: kind for kind in kinds})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.ledger"


@pytest.fixture
def ledger(path):
    """A ledger with room for three of `plan`, not four."""
    return Ledger(path, budget=Budget(epsilon=2.6, delta=1e-5), dataset="scans", unit="person")


@pytest.fixture
def plan():
    """mu^2 = 0.125; epsilon(1e-5) = 1.36, 2.00, 2.50 for one, two and three of them."""
    return Plan(GNMax(sigma=40.0), queries=100)


@pytest.fixture
def votes():
    """Answers for `plan`."""
    return np.tile([200, 40, 10], (100, 1))
