"""Mechanisms with one mistake each: the audits must tell every one of them from the honest one."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from tacit.mechanisms import ConfidentGNMax, Plan, Release, Sanitise, SoftVotes
from tacit.noise import InsecureNoise, admit


class WeakNoise(InsecureNoise):
    """Every deviation is too small by sqrt(2)."""

    def gaussian(self, sigma, size):
        return super().gaussian(sigma / math.sqrt(2), size)

    def laplace(self, scale, size):
        return super().laplace(scale / math.sqrt(2), size)

    def rounded_gaussian_steps(self, sigma, grid, size):
        return super().rounded_gaussian_steps(sigma / math.sqrt(2), grid, size)


def weak_noise() -> tuple[WeakNoise, WeakNoise]:
    """Two seeded sources of it, so that the verdict on a mutant never changes."""
    return WeakNoise(seed=11), WeakNoise(seed=12)


def seeded_noise() -> tuple[InsecureNoise, InsecureNoise]:
    """Two seeded sources of the right size."""
    return InsecureNoise(seed=21), InsecureNoise(seed=22)


class SharedNoise(ConfidentGNMax):
    """The check and the answer use one noise: what passed tells which noise the answer has."""

    __slots__ = ()

    def release(self, answers: Any, noise: Any, *, max_answers: int | None = None) -> Release:
        entry, votes = admit(noise), self.votes(answers)
        shared = noise.gaussian(1.0, votes.shape)
        passed = votes.max(axis=1) + self.sigma_check * shared[:, 0] >= self.threshold
        winners = (votes + self.sigma_answer * shared).argmax(axis=1)
        return Release(self, labels=np.where(passed, winners, -1), entry=entry)


class ForgetfulPlan(Plan):
    """Prices the answers and forgets the checks."""

    __slots__ = ()

    def price(self, delta):
        return Plan(self.mechanism.answer, self.answers).price(delta)


class HalvedLogNoise(Sanitise):
    """Half the noise on the log-scale."""

    __slots__ = ()

    def _draw(self, secret, noise, copies):
        quieter = {**dataclasses.asdict(self), "sigma_log": self.sigma_log / 2}
        return Sanitise(**quieter)._draw(secret, noise, copies)


class WithoutInflation(Sanitise):
    """Takes the released scale itself, not its upper bound, to scale the noise."""

    __slots__ = ()

    def _value_noise(self, log_scale):
        margin = self.price().scale_quantile * self.sigma_log
        return super()._value_noise(log_scale - margin)


def mutated(mechanism: Any, kind: type) -> Any:
    """The same parameters, the other class."""
    return kind(**dataclasses.asdict(mechanism))


def round_half_even(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What NumPy and Python do: 0.5 becomes 0 and 1.5 becomes 2."""
    return np.round(values).astype(np.int64)


def count_first_teacher_twice(predictions: np.ndarray[Any, Any], n_classes: int) -> Any:
    """Count votes, the first teacher's twice."""
    from tacit.mechanisms import count_votes

    return count_votes(np.vstack([predictions, predictions[:1]]), n_classes)


def sum_without_simplex(probabilities: np.ndarray[Any, Any]) -> SoftVotes:
    """Add scores as they are."""
    totals = np.asarray(probabilities).sum(axis=0)
    return SoftVotes(totals, int(totals[0].sum()))
