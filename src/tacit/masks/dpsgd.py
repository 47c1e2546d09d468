"""`DPSGDSegmenter`: a U-Net trained on private scans by DP-SGD, the baseline of private masks.

Gradients are those of whole volumes, one at a time. With a hundred patients the noise of a step is
larger than what all of them say: small networks, few steps (docs/results/direct-speed.md).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import at_least
from tacit.errors import InvalidArgument
from tacit.masks.segmenter import StudentMasks
from tacit.masks.student import UNetStudent
from tacit.masks.unet import UNetRecipe, channelled, make_unet
from tacit.methods import NoisyTrainingEstimator
from tacit.noisy_training import PrivateExamples
from tacit.records import count_units, units_of, unquoted
from tacit.students import seed_of, seeded

if TYPE_CHECKING:
    from torch import Tensor

_TINY = 1.0  # voxels: the Dice loss of an empty organ has a bounded slope


@dataclass(eq=False, repr=False)
class DPSGDSegmenter(StudentMasks, NoisyTrainingEstimator):
    """Train MONAI's U-Net on private scans and masks by DP-SGD, in two or three dimensions.

    n_classes: background included. channels, residual_units: of the U-Net; fewer parameters, less
        noise. The other parameters are those of `DPSGDClassifier`; `n_records` counts scans, or
        people with `groups=`.

    Unit: one scan, or one person. The loss of a scan is its cross-entropy plus a soft Dice loss.
    After `fit`: `student_` (a `UNetStudent`), `ledger_`, `statement_`.
    """

    features = None
    n_classes: int = 2
    _: KW_ONLY
    channels: tuple[int, ...] = (4, 8, 16)
    residual_units: int = 0
    clipping: str = "flat"
    clip: float = 0.01
    learning_rate: float = 2e-2
    epochs: float = 30
    batch_size: int = 64
    epsilon: float = 8.0
    # There are no public scans with which private ones could overlap.
    allow_overlap: bool = field(init=False, default=False)
    # Other engines would round volumes by their company.
    engine: str = field(init=False, default="single")

    def fit(self, images: ArrayLike, masks: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Train on private scans (n, [channels,] *spatial), normalised one by one, and masks."""
        at_least(2, n_classes=self.n_classes)
        truth = unquoted(lambda: np.asarray(masks))
        classes = truth.dtype.kind in "biu" and truth.ndim in (3, 4) and len(truth) > 0
        if not classes or truth.min() < 0 or truth.max() >= self.n_classes:
            raise InvalidArgument(
                f"Expected masks (n, *spatial) of classes 0 .. {self.n_classes - 1}."
            )
        dimensions = truth.ndim - 1
        scans = channelled(images, dimensions)
        if (len(scans), *scans.shape[2:]) != truth.shape or not np.isfinite(scans).all():
            raise InvalidArgument("Expected finite images, one of its mask's shape for each mask.")
        people = units_of(groups, len(scans))
        n_units = count_units(people, len(scans))
        self._check_delta(n_units)
        student = self._student(dimensions, scans.shape[1])
        recipe = student._recipe()
        sides = [side + -side % recipe.factor for side in truth.shape[1:]]
        network, self.ledger_ = self._train(
            student.network_,
            volume_losses,
            lambda count: _phantoms(count, (scans.shape[1], *sides), self.n_classes),
            lambda: PrivateExamples(
                _grown(scans, sides), _grown(truth[:, None], sides)[:, 0].astype(np.int64), people
            ),
            n_units=n_units,
            by_person=people is not None,
        )
        student.network_ = network.eval()
        self.student_ = student
        return self

    def _student(self, dimensions: int, channels: int) -> UNetStudent:
        """Return the student with its network in its first state."""
        student = UNetStudent(
            self.n_classes, channels=self.channels, residual_units=self.residual_units
        )
        recipe: UNetRecipe = student._recipe()
        student.dimensions_, student.n_channels_ = dimensions, channels
        student.network_ = seeded(
            lambda: make_unet(recipe, dimensions, channels, self.n_classes),
            seed_of(self.random_state),
        )
        return student


def volume_losses(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy plus one minus the soft Dice of each volume by itself."""
    from torch.nn.functional import cross_entropy, one_hot

    axes = tuple(range(2, scores.ndim))
    entropy = cross_entropy(scores, labels, reduction="none").flatten(1).mean(dim=1)
    soft = scores.softmax(dim=1)[:, 1:]
    organs = one_hot(labels, scores.shape[1]).movedim(-1, 1)[:, 1:].to(soft.dtype)
    both = (soft * organs).sum(dim=axes)
    sizes = (soft.square() + organs.square()).sum(dim=axes)
    losses: Tensor = entropy + (1 - (2 * both + _TINY) / (sizes + _TINY)).mean(dim=1)
    return losses


def _grown(arrays: NDArray[Any], sides: list[int]) -> NDArray[Any]:
    """Pad by the border values, up to sides that the network can halve."""
    room = [(0, side - have) for side, have in zip(sides, arrays.shape[2:], strict=True)]
    return np.pad(arrays, [(0, 0), (0, 0), *room], mode="edge")


def _phantoms(count: int, shape: tuple[int, ...], n_classes: int) -> PrivateExamples:
    """Return public random volumes, to try the network out."""
    draw = np.random.default_rng(0)
    labels = draw.integers(n_classes, size=(count, *shape[1:]))
    return PrivateExamples(draw.normal(size=(count, *shape)).astype(np.float32), labels)
