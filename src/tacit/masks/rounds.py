"""The rounds of a segmenter's release: plan, centres and weights of each, and what they add up to.

All of it is public: a codec, public scans, a budget, and earlier releases (proof:
docs/theory/high-dimensional.md#the-bound). All queries of a round share one bound, in the ellipsoid
that water-filling gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats
from tacit.errors import InvalidArgument
from tacit.masks.codecs import (
    ImageRegression,
    LinearCodec,
    combine_rounds,
    noise_to_signal,
    smooth_by_images,
)
from tacit.mechanisms import GaussianMean, Plan, Release, UnitMean

SHARES = {1: (1.0,), 2: (0.3, 0.7), 4: (0.1, 0.15, 0.25, 0.5)}
"""Shares of mu^2 for so many rounds."""
_LEVELS = np.arange(0.2, 0.651, 0.01)


class MaskRounds:
    """Iterate to get (number, plan, public arguments) of each round; `learn` each release."""

    def __init__(
        self,
        codec: Any,
        scans: NDArray[Any],
        *,
        n_teachers: int,
        each_alone: bool,
        epsilon: float,
        delta: float,
        rounds: int,
    ) -> None:
        self.codec, self.scans, self.rounds = codec, scans, rounds
        self.kind = UnitMean if each_alone else GaussianMean
        self.n_teachers, self.epsilon, self.delta = n_teachers, epsilon, delta
        self.linear = isinstance(codec, LinearCodec)
        if rounds not in SHARES or (rounds > 1 and not self.linear):
            raise InvalidArgument(
                f"Expected rounds={rounds} to be 1, or 2 or 4 with a linear codec like PCACodec."
            )
        self.shares = SHARES[rounds]
        self._released: list[tuple[Floats, Floats]] = []
        self._codes: Floats | None = None
        self._smoothed: Any = None
        self._regression: ImageRegression | None = None

    def __iter__(self) -> Iterator[tuple[int, Plan, dict[str, Any]]]:
        if not self.linear:
            yield 1, self.first_plan(), {}
            return
        for number, share in enumerate(self.shares, start=1):
            known = self._smoothed  # by all rounds so far
            base = self.codec if known is None else self.codec.remaining(known.spectrum)
            self._round = self._ellipsoid(base, share)
            centres = {} if known is None else {"centres": known.centres}
            yield (
                number,
                self._plan(self._round, share),
                {"weights": self._round.weights, **centres},
            )

    def plans(self) -> list[Plan]:
        """Return plans that cost what the rounds will, before anything private is looked at.

        Later rounds have other radii, but mu^2 is their share of the budget all the same.
        """
        if not self.linear:
            return [self.first_plan()]
        return [self._plan(self._ellipsoid(self.codec, share), share) for share in self.shares]

    def first_plan(self) -> Plan:
        """Return the one round of a codec that is not linear."""
        return self.kind.for_budget(
            self.epsilon,
            self.delta,
            queries=len(self.scans),
            radius=self.codec.diameter / 2,
            n_teachers=self.n_teachers,
        )

    def _plan(self, codec: LinearCodec, share: float) -> Plan:
        queries = len(self.scans)
        return self.kind.for_budget(
            self.epsilon,
            self.delta,
            queries=queries,
            radius=codec.joint_radius(queries),
            n_teachers=self.n_teachers,
            joint=True,
            # A hair below, so that two rounds never exceed the budget by rounding.
            share=share if share == 1 else share * (1 - 1e-9),
        )

    def _ellipsoid(self, codec: LinearCodec, share: float) -> LinearCodec:
        queries = len(self.scans)
        level = noise_to_signal(
            self.epsilon, self.delta, queries=queries, n_teachers=self.n_teachers
        )
        # noise_to_signal is for a diameter of two radii.
        return codec.ellipsoid(level * (self.kind.RADII / 2) ** 2 / share)

    def learn(self, release: Release) -> None:
        """Take in what a round released, and what the public scans say of it."""
        values = np.asarray(release.values)
        if not self.linear:
            self._codes = values
            return
        mechanism: Any = release.mechanism
        self._released.append((values, self._round.deviations(mechanism.sigma)))
        codes, deviations = combine_rounds(*self._released)
        if self._regression is None:
            self._regression = ImageRegression(self.scans, self.codec.mean)
        self._smoothed = smooth_by_images(self.codec, codes, deviations, self._regression)

    def answers(self) -> Floats:
        """Return soft masks of the queries after all rounds."""
        if not self.linear:
            return np.asarray(self.codec.decode(self._codes))
        return np.asarray(self._smoothed.answers)

    @property
    def public_volume(self) -> float | None:
        """How many voxels an organ has in the codec's public masks, on average, if it knows."""
        return float(np.sum(self.codec.mean)) if self.linear else None


@dataclass(frozen=True, slots=True)
class EncodeMasks:
    """What teachers send of their soft masks: the code of all but the background.

    An object of plain fields, so that another process has the same fingerprint of it, and a
    checkpoint is found again.
    """

    codec: Any
    n_classes: int

    def __call__(self, soft: NDArray[Any]) -> Floats:
        """Return codes (queries, length) of soft masks (queries, n_classes, *spatial)."""
        return np.asarray(self.codec.encode(foreground(soft, self.n_classes)))


def foreground(soft: ArrayLike, n_classes: int, *, last: bool = False) -> NDArray[Any]:
    """Return what is encoded of soft masks (n, n_classes, *spatial): all but the background.

    With two classes that is (n, *spatial), with more (n, n_classes - 1, *spatial). `last`: classes
    are the last axis instead.
    """
    array = np.asarray(soft)
    array = np.moveaxis(array, -1, 1) if last else array
    return array[:, 1] if n_classes == 2 else array[:, 1:]


def cut_masks(soft: ArrayLike, n_classes: int, volume: float | None = None) -> Floats:
    """Return released foregrounds with every voxel 0 or 1, where together they exceed a level.

    The level is 1/2, or the one at which an organ has `volume` voxels on average: a mean of masks
    that disagree is soft, and too small where it is cut at 1/2.

    >>> cut_masks([[0.1, 0.3, 0.45, 0.9]], 2, volume=3.0).tolist()
    [[0.0, 1.0, 1.0, 1.0]]
    """
    array = np.asarray(soft, dtype=np.float64)
    parts = array[:, None] if n_classes == 2 else array
    total, best = parts.sum(axis=1), parts.argmax(axis=1)
    level = 0.5 if volume is None else level_of_volume(total, volume)
    hard = [(total > level) & (best == place) for place in range(parts.shape[1])]
    return np.stack(hard, axis=1).reshape(array.shape).astype(np.float64)


def level_of_volume(soft: NDArray[Any], volume: float) -> float:
    """Return the level above which soft masks (n, *spatial) have `volume` voxels on average."""
    volumes = np.array([(soft > level).sum() / len(soft) for level in _LEVELS])
    return float(_LEVELS[np.abs(volumes - volume).argmin()])


def one_hot_masks(answers: ArrayLike, n_classes: int) -> NDArray[np.float32]:
    """Return released foregrounds as probabilities (n, n_classes, *spatial) of all classes."""
    array = np.asarray(answers, dtype=np.float32).clip(0, 1)
    parts = array[:, None] if n_classes == 2 else array
    parts = parts / np.maximum(parts.sum(axis=1, keepdims=True), 1.0)
    background = 1 - parts.sum(axis=1, keepdims=True)
    return np.concatenate([background, parts], axis=1)
