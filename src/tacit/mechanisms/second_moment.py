"""The second moment of private vectors plus Gaussian noise: what a private PCA is made of.

docs/theory/high-dimensional.md#private-components. Records speak for themselves, without teachers:
each adds y y^T for a vector y of norm at most the radius, so adding or removing one moves the sum
by at most radius^2 in the Frobenius norm. It is not centred with a private mean (the sensitivity
would be 4, not 1) and not divided by the number of records (which would be private).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit._checks import Floats, at_least, noise_scale, number_array, positive, refuse
from tacit.errors import InvalidArgument
from tacit.mechanisms.auditing import Suspicion, small
from tacit.mechanisms.codes import Frame, bounded_steps
from tacit.mechanisms.once import ReleasedOnce, everywhere
from tacit.noise.exact import check_ratio

if TYPE_CHECKING:
    from tacit.noise import Noise

_STEP = 2.0**-14
"""Grid of a vector of norm 1; its products lie on the grid 2^-28."""
_MOST_RECORDS = 2**24
"""2^28 steps of trace each: float64 adds integers below 2^53 exactly, in any order."""
_ROWS = 4096
_SQRT_HALF = math.sqrt(0.5) * (1 + 1e-12)


@dataclass(frozen=True, slots=True)
class NoisySecondMoment(ReleasedOnce):
    """Release sum_n sum_b y_nb y_nb^T + radius^2 sigma E, E symmetric Gaussian, y_n clipped.

    Answers are vectors `(records, dimension)`, or `(records, parts, dimension)` where one record
    has many parts, the blocks of a volume: |(y_n1, ..., y_nB)| <= radius bounds them together, and
    |sum_b y_b y_b^T|_F <= sum_b |y_b|^2 <= radius^2. E has variance 1 on the diagonal and 1/2 off
    it, which is isotropic noise on (diagonal, sqrt2 upper triangle), an isometry of the Frobenius
    norm. mu^2 = 1/sigma^2. Unit: one record; a unit with several must bring one row.

    >>> from tacit import InsecureNoise
    >>> mechanism = NoisySecondMoment(sigma=0.01, dimension=2)
    >>> mechanism.release([[3, 0], [0, 0.5]], InsecureNoise(0)).values.diagonal().round(1)
    array([1. , 0.3])
    """

    name: ClassVar[str] = "noisy-second-moment"
    noise_level: ClassVar[str] = "exact"
    assumes: ClassVar[str] = (
        "each unit brought one vector, centred and scaled without the private records"
    )
    sigma: float
    dimension: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", noise_scale(sigma=self.sigma))
        object.__setattr__(self, "dimension", at_least(1, dimension=self.dimension))
        object.__setattr__(self, "radius", positive(radius=self.radius))
        if not 1e-100 <= self.radius <= 1e100:
            raise refuse("radius", self.radius, "between 1e-100 and 1e100; rescale the vectors")
        check_ratio(np.array([self.sigma * _SQRT_HALF, self.sigma]), _STEP**2)

    def _draws(self, answers: Any, noise: Noise, copies: int) -> Floats:
        """Return noisy symmetric matrices; they may have negative roots."""
        return self._draw(self._moment(self._checked(answers)), noise, copies)

    def _moment(self, vectors: Floats) -> Floats:
        """Return the exact sum of outer products, in squared steps. Secret."""
        total = np.zeros((self.dimension, self.dimension))
        weights = np.full(vectors.shape[1] * self.dimension, 1 / self.radius)
        for start in range(0, len(vectors), _ROWS):
            part = vectors[start : start + _ROWS].reshape(-1, weights.size)
            frame = Frame(np.zeros(part.shape), np.broadcast_to(weights, part.shape))
            # One bound for all parts of a record: with more of them it moves the sum no farther.
            steps = bounded_steps(part, frame, 1.0, _STEP, 1).astype(np.float64)
            steps = steps.reshape(-1, self.dimension)
            total += steps.T @ steps
        return total

    def _draw(self, moment: Floats, noise: Noise, copies: int) -> Floats:
        rows, columns = np.triu_indices(self.dimension)
        deviations = np.where(rows == columns, self.sigma, self.sigma * _SQRT_HALF)
        noisy = noise.rounded_gaussian_steps(deviations, _STEP**2, (copies, rows.size))
        noisy += moment[rows, columns].astype(np.int64)
        matrices = np.empty((copies, self.dimension, self.dimension))
        matrices[:, rows, columns] = noisy * (_STEP * self.radius) ** 2
        matrices[:, columns, rows] = matrices[:, rows, columns]
        return matrices

    def _checked(self, answers: Any) -> Floats:
        """Return vectors (records, parts, dimension); the messages never quote them."""
        vectors = number_array(vectors=answers)
        if vectors.ndim == 2:
            vectors = vectors[:, None, :]
        if vectors.ndim != 3 or vectors.shape[1] < 1 or vectors.shape[2] != self.dimension:
            raise InvalidArgument(
                f"Expected vectors (records, [parts,] dimension={self.dimension})."
            )
        if len(vectors) > _MOST_RECORDS:
            raise InvalidArgument(f"Expected at most {_MOST_RECORDS} records.")
        return vectors

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield one record that is far too long, alike in every coordinate, and none."""
        small(dimension=self.dimension)
        wild = np.full((1, self.dimension), 1e300)
        shape = self.dimension, self.dimension
        yield everywhere("the moment", self, (wild, wild[:0]), self.radius**2, shape)
