"""A student that segments: MONAI's U-Net, taught by released masks of public scans.

What was released is decoded to soft masks; the network learns them as probabilities, with a weight
for each voxel where some are worth more than others. Public scans and releases only: nothing
private ever enters this floor, so the fitted student may be published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tacit._checks import at_least
from tacit._files import PathLike
from tacit.errors import InvalidArgument, TacitError
from tacit.masks.unet import (
    UNetRecipe,
    channelled,
    make_unet,
    need_monai,
    segment,
    targets_of,
    train_unet,
)
from tacit.students import (
    damaged,
    read_container,
    seed_of,
    seeded,
    set_weights,
    training_bar,
    weights_of,
    write_container,
)

_NAME = "UNetStudent"


@dataclass(eq=False, repr=False)
class UNetStudent(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A small U-Net, in two or three dimensions, trained on soft or hard masks.

    n_classes: background included. The other parameters are those of `UNetRecipe`.
    random_state: seeds training; the same bits again on one machine with as many torch threads.
    Learned: `network_`, `dimensions_`, `n_channels_`.

    >>> from tacit.masks.volumes import generated_volumes
    >>> images, masks = generated_volumes(4, (16, 16)).normalised().arrays()
    >>> student = UNetStudent(channels=(4, 8), steps=3).fit(images, masks)
    >>> student.predict_proba(images).shape, student.predict(images).shape
    ((4, 2, 16, 16), (4, 16, 16))
    """

    n_classes: int = 2
    _: KW_ONLY
    channels: tuple[int, ...] = (8, 16, 32)
    residual_units: int = 2
    steps: int = 300
    batch_size: int = 4
    learning_rate: float = 5e-3
    weight_decay: float = 1e-4
    augment: bool = True
    patch: tuple[int, ...] | None = None
    random_state: int | None = 0

    def fit(self, images: ArrayLike, targets: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Learn from public scans (n, [channels,] *spatial), already normalised.

        `targets`: class indices (n, *spatial); or soft masks (n, n_classes, *spatial); or, with
        two classes, what was decoded of the organ alone, fractions (n, *spatial). Soft values are
        cut to 0 .. 1 and made to sum to 1. `weights`: one for each scan (n,) or each voxel
        (n, *spatial).
        """
        soft, dimensions = self._targets(targets)
        self.check(dimensions)
        recipe = self._recipe()
        scans = self._scans(images, dimensions)
        if len(scans) != len(soft) or scans.shape[2:] != soft.shape[2:]:
            raise InvalidArgument("Expected a target of the same spatial shape for each scan.")
        self.dimensions_, self.n_channels_ = dimensions, scans.shape[1]
        voxels = None if weights is None else _weights(weights, soft)
        with training_bar("Training the student", recipe.steps) as tick:
            self.network_ = train_unet(
                recipe, scans, soft, voxels, seed_of(self.random_state), tick=tick
            )
        return self

    def check(self, dimensions: int) -> None:
        """Raise what `fit` would about the parameters and packages: before anything is released."""
        recipe = self._recipe()
        need_monai()
        seed_of(self.random_state)
        if recipe.patch is not None and len(recipe.patch) != dimensions:
            raise InvalidArgument(f"Expected a patch of {dimensions} sides, got {recipe.patch}.")

    def predict_proba(
        self, images: ArrayLike, *, window: Sequence[int] | None = None
    ) -> NDArray[np.float32]:
        """Return probabilities (n, n_classes, *spatial), of scans of any size.

        `window`: predict in overlapping windows of this shape, for volumes that do not fit into
        memory at once; by default of `patch`, or the whole volume where there is none.
        """
        check_is_fitted(self, "network_")
        scans = self._scans(images, self.dimensions_)
        if scans.shape[1] != self.n_channels_:
            raise InvalidArgument(f"Expected scans of {self.n_channels_} channels.")
        return segment(self._recipe(), self.network_, scans, window=window)

    def predict(
        self, images: ArrayLike, *, window: Sequence[int] | None = None
    ) -> NDArray[np.uint8]:
        """Return the most probable class of each voxel (n, *spatial)."""
        soft = self.predict_proba(images, window=window)
        return np.asarray(soft.argmax(axis=1), dtype=np.uint8)

    def save(self, path: PathLike, *, extra: Mapping[str, Any] | None = None) -> None:
        """Write the fitted student to one file without pickle; `load_segmenter` reads it back."""
        check_is_fitted(self, "network_")
        manifest = {
            "student": _NAME,
            "parameters": self.get_params(deep=False),
            "dimensions": self.dimensions_,
            "n_channels": self.n_channels_,
            "extra": dict(extra or {}),
        }
        write_container(path, manifest, weights_of(self.network_), {})

    def _recipe(self) -> UNetRecipe:
        at_least(2, n_classes=self.n_classes)
        given = {part.name: getattr(self, part.name) for part in fields(UNetRecipe)}
        return UNetRecipe(**given)

    def _scans(self, images: ArrayLike, dimensions: int) -> NDArray[np.float32]:
        scans = channelled(images, dimensions)
        if not len(scans) or not np.isfinite(scans).all():
            raise InvalidArgument("Expected scans of finite numbers, at least one.")
        return scans

    def _targets(self, targets: ArrayLike) -> tuple[NDArray[np.float32], int]:
        array = np.asarray(targets)
        if array.dtype.kind in "iub":
            if array.ndim not in (3, 4) or array.min() < 0 or array.max() >= self.n_classes:
                raise InvalidArgument(
                    f"Expected masks (n, *spatial) of class indices 0 .. {self.n_classes - 1}."
                )
            return targets_of(array, self.n_classes), array.ndim - 1
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise InvalidArgument("Expected targets to be finite numbers.")
        classes = self.n_classes
        if array.ndim in (4, 5) and array.shape[1] == classes:
            return _probabilities(array), array.ndim - 2
        if classes == 2 and array.ndim in (3, 4):
            organ = array.clip(0, 1)
            return _probabilities(np.stack([1 - organ, organ], axis=1)), array.ndim - 1
        raise InvalidArgument(
            f"Expected soft targets (n, {classes}, *spatial), got shape {array.shape}."
        )


def load_segmenter(path: PathLike) -> UNetStudent:
    """Read a student that `UNetStudent.save` wrote; its predictions are the same bits."""
    manifest, arrays, _ = read_container(path)
    try:
        if manifest["student"] != _NAME:
            raise ValueError
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in manifest["parameters"].items()
        }
        student = UNetStudent(**given)
        student.dimensions_ = int(manifest["dimensions"])
        student.n_channels_ = int(manifest["n_channels"])
        recipe = student._recipe()
        network = seeded(
            lambda: make_unet(recipe, student.dimensions_, student.n_channels_, student.n_classes),
            seed=0,
        )
        student.network_ = set_weights(network, arrays).eval()
    except TacitError:
        raise
    except Exception:  # the parts are whole but do not make a student
        raise damaged(path) from None
    return student


def _probabilities(soft: NDArray[Any]) -> NDArray[np.float32]:
    """Cut to 0 .. 1 and let each voxel sum to 1; a voxel of zeros becomes background."""
    cut = soft.clip(0, 1).astype(np.float64)
    sums = cut.sum(axis=1, keepdims=True)
    shared = np.divide(cut, sums, out=np.zeros_like(cut), where=sums > 0)
    shared[:, :1] += sums == 0
    return np.asarray(shared, dtype=np.float32)


def _weights(weights: ArrayLike, soft: NDArray[Any]) -> NDArray[np.float32]:
    array = np.asarray(weights, dtype=np.float32)
    spatial = soft.shape[2:]
    if array.shape == (len(soft),):
        array = np.broadcast_to(array.reshape(-1, *[1] * len(spatial)), (len(soft), *spatial))
    if array.shape != (len(soft), *spatial) or not np.isfinite(array).all() or array.min() < 0:
        raise InvalidArgument(
            "Expected weights >= 0, one for each scan (n,) or voxel (n, *spatial)."
        )
    if not array.any():
        raise InvalidArgument("Expected at least one weight > 0.")
    return np.asarray(array[:, None])
