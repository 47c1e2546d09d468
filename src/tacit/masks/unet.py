"""The U-Net that teachers and students of masks share: MONAI's, its recipe, training, prediction.

Training is seeded; targets are probabilities, so that a released, decoded mask is learned as it is.
Large volumes are trained on random patches and predicted in overlapping windows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tacit._checks import at_least, count, non_negative, own_floats, positive, refuse, set_checked
from tacit._extras import torch
from tacit._files import PathLike
from tacit._progress import training_bar
from tacit.errors import InvalidArgument, MissingExtra, TacitError
from tacit.masks.volumes import holds_classes, most_probable, one_hot
from tacit.students import (
    damaged,
    read_container,
    seed_of,
    seeded,
    set_weights,
    weights_of,
    write_container,
)

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch.nn import Module


_TINY = 1e-6


OVERLAP = 0.5  # of neighbouring windows


# Largest turn (radians), log scale and shift (of half an image), and contrast, of a moved copy.
_TURN, _SCALE, _SHIFT, _CONTRAST = 0.15, 0.12, 0.08, 0.2


_RISE = 5  # steps of a cycle whose first fifth has a length; torch divides by it


_BATCH = 8  # volumes, or windows, predicted at a time


@dataclass(frozen=True, slots=True)
class UNetRecipe:
    """How a U-Net is made and trained; small by default.

    Parameters
    ----------
    channels : tuple of int
        Of each level, the first at full resolution, each further one at half of the one above; the
        last works at the resolution of the last but one.
    residual_units : int, convolutions of a level's residual unit (0: one plain convolution)
    steps : int, of AdamW
    batch_size : int, scans, or patches, in a step
    learning_rate : float, the largest of one cycle
    weight_decay : float, of AdamW
    augment : bool, move, scale and shade a copy of each scan at each step
    patch : tuple of int, optional
        Train on random patches of this shape and predict in windows of it; None: whole volumes.
    """

    channels: tuple[int, ...] = (8, 16, 32)
    residual_units: int = 2
    steps: int = 300
    batch_size: int = 4
    learning_rate: float = 5e-3
    weight_decay: float = 1e-4
    augment: bool = True
    patch: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if len(tuple(self.channels)) < 2:
            raise refuse("channels", self.channels, "two levels or more, such as (8, 16, 32)")
        for width in self.channels:
            at_least(1, channels=width)
        at_least(0, residual_units=self.residual_units)
        set_checked(self, steps=count, batch_size=count)
        set_checked(self, learning_rate=positive, weight_decay=non_negative)
        for side in self.patch or ():
            at_least(self.factor, patch=side)

    @property
    def factor(self) -> int:
        """What every side is padded to a multiple of."""
        return int(2 ** (len(self.channels) - 2))

    def grown(self, sides: Sequence[int]) -> list[int]:
        """Return the sides padded to multiples of the factor.

        Parameters
        ----------
        sides : sequence of int, of a volume, in voxels

        Returns
        -------
        list of int
        """
        return [side + -side % self.factor for side in sides]


def need_monai() -> Any:
    """Return MONAI, or raise with the name of the extra that installs it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # MONAI warns of what it does not find
            import monai.inferers
            import monai.networks.nets
    except ImportError:
        raise MissingExtra(
            "Expected the packages torch and monai for a U-Net; install tacit[segmentation]."
        ) from None
    return monai


def scan_floats(**named: ArrayLike) -> NDArray[np.float32]:
    """Return scans as float32; never quoted in errors.

    By way of float64: a voxel's rounding must not depend on the type of another scan in the stack.
    """
    (value,) = named.values()
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return np.ascontiguousarray(value).reshape(value.shape)  # the same, without the way
    with np.errstate(all="ignore"):  # too large a number becomes infinite, and is refused as such
        return own_floats(**named).astype(np.float32)


def channelled(images: ArrayLike, dimensions: int) -> NDArray[np.float32]:
    """Return images (n, channels, *spatial) from these or (n, *spatial)."""
    array = scan_floats(images=images)
    if array.ndim == dimensions + 1:
        array = array[:, None]
    if array.ndim != dimensions + 2 or 0 in array.shape[1:]:
        raise InvalidArgument(
            f"Expected images (n, *spatial) or (n, channels, *spatial) of {dimensions} spatial "
            f"dimensions, got shape {array.shape}."
        )
    return array


def targets_of(masks: ArrayLike, n_classes: int) -> NDArray[np.float32]:
    """Return masks of class indices (n, *spatial) as probabilities (n, n_classes, *spatial)."""
    return np.moveaxis(one_hot(masks, n_classes), 0, 1)


def _make_unet(recipe: UNetRecipe, dimensions: int, in_channels: int, n_classes: int) -> Module:
    nets = need_monai().networks.nets
    network: Module = nets.UNet(
        spatial_dims=dimensions,
        in_channels=in_channels,
        out_channels=n_classes,
        channels=tuple(recipe.channels),
        # MONAI's own habit, to halve at once, blurs the borders of small organs.
        strides=(1, *[2] * (len(recipe.channels) - 2)),
        num_res_units=recipe.residual_units,
        norm=("INSTANCE", {"affine": True}),
    )
    return network


def train_unet(
    recipe: UNetRecipe,
    images: NDArray[Any],
    targets: NDArray[Any],
    seed: int,
    *,
    tick: Callable[[], None] = lambda: None,
) -> Module:
    """Train on images (n, c, *spatial) and probabilities (n, classes, *spatial).

    The loss of a batch is the cross-entropy plus a soft Dice loss of the organs.
    """
    channels = images.shape[1]
    network = seeded(lambda: _make_unet(recipe, images.ndim - 2, channels, targets.shape[1]), seed)
    generator = torch.Generator().manual_seed(seed)
    there = np.ones((len(images), 1, *images.shape[2:]))  # voxels that padding adds will have 0
    stack = np.concatenate([images, targets, there], axis=1, dtype=np.float32)
    data = torch.from_numpy(stack)
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, recipe.learning_rate, total_steps=max(_RISE, recipe.steps) + 1, pct_start=0.2
    )
    network.train()
    for _ in range(recipe.steps):
        loss = _loss(network, _batch(data, recipe, channels, generator), channels)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        tick()
    return network.eval()


def segment(
    recipe: UNetRecipe,
    network: Module,
    images: NDArray[Any],
    *,
    window: Sequence[int] | None = None,
) -> NDArray[np.float32]:
    """Return probabilities (n, classes, *spatial), by windows of `window` or the recipe's patch.

    Windows overlap by half and are normalised alone; their scores are averaged with MONAI's
    Gaussian weights. A side shorter than the window is padded with 0.
    """
    shape = _window(recipe, images.ndim - 2, window)
    predict: Callable[[Tensor], Any] = partial(_whole, recipe, network)
    if shape is not None:
        predict = partial(
            need_monai().inferers.sliding_window_inference,
            roi_size=shape,
            sw_batch_size=_BATCH,
            predictor=predict,
            overlap=OVERLAP,
            mode="gaussian",
        )
    with torch.inference_mode():
        whole = torch.from_numpy(np.ascontiguousarray(images)).float()
        blocks = torch.split(whole, _BATCH if shape is None else 1)
        result = np.concatenate([predict(block).softmax(dim=1).numpy() for block in blocks])
    if not np.isfinite(result).all():
        raise FloatingPointError  # training diverged: a mask of one class would hide it
    return result


def _window(
    recipe: UNetRecipe, dimensions: int, window: Sequence[int] | None
) -> tuple[int, ...] | None:
    shape = recipe.patch if window is None else tuple(window)
    if shape is None:
        return None
    if len(shape) != dimensions:
        raise refuse("window", shape, f"{dimensions} sides")
    return tuple(at_least(recipe.factor, window=side) for side in shape)


def _whole(recipe: UNetRecipe, network: Module, block: Tensor) -> Tensor:
    """Predict volumes whose sides are padded, by their borders, to what the network halves."""
    sides = block.shape[2:]
    scores: Tensor = network(_grown(block, recipe.grown(sides), mode="replicate"))
    inside: Any = (..., *(slice(0, side) for side in sides))
    return scores[inside]


def _grown(block: Tensor, sides: Sequence[int], *, mode: str = "constant") -> Tensor:
    """Pad at the end of each spatial axis, up to these sides where it is shorter."""
    from torch.nn.functional import pad

    pairs = zip(block.shape[-len(sides) :], sides, strict=True)
    room = [(0, max(0, side - have)) for have, side in pairs]
    return pad(block, [end for ends in reversed(room) for end in ends], mode=mode)


def _loss(network: Module, batch: Tensor, in_channels: int) -> Tensor:
    images, targets, weights = batch[:, :in_channels], batch[:, in_channels:-1], batch[:, -1:]
    scores = network(images)
    entropy = -(targets * scores.log_softmax(dim=1)).sum(dim=1, keepdim=True)
    axes = (0, *range(2, batch.ndim))
    soft = scores.softmax(dim=1)[:, 1:]
    organs = targets[:, 1:]
    both = (weights * soft * organs).sum(dim=axes)
    # The loss is least at soft = organs, also of soft ones.
    sizes = (weights * (soft**2 + organs**2)).sum(dim=axes)
    dice = 1 - (2 * both + _TINY) / (sizes + _TINY)
    cross = (entropy * weights).sum() / weights.sum().clamp_min(_TINY)
    loss: Tensor = cross + dice.mean()
    return loss


def _batch(data: Tensor, recipe: UNetRecipe, in_channels: int, generator: Generator) -> Tensor:
    """Draw volumes (or patches of them), move them, and pad them for the network."""
    rows = torch.randperm(len(data), generator=generator)[: recipe.batch_size]
    batch = data[rows]
    if recipe.patch:
        batch = torch.stack([_patch(one, recipe.patch, generator) for one in batch])
    if recipe.augment:
        batch = _moved(batch, generator)
        shades = 1 + _CONTRAST * (2 * torch.rand(len(batch), generator=generator) - 1)
        batch[:, :in_channels] *= shades.view(-1, *[1] * (batch.ndim - 1))
    return _grown(batch, recipe.grown(batch.shape[2:]))


def _patch(one: Tensor, patch: tuple[int, ...], generator: Generator) -> Tensor:

    for axis, side in enumerate(patch, start=1):
        room = one.shape[axis] - side
        if room > 0:
            start = int(torch.randint(room + 1, (1,), generator=generator))
            one = one.narrow(axis, start, side)
    return _grown(one, patch)


def _moved(batch: Tensor, generator: Generator) -> Tensor:
    """Turn, scale and shift each volume with its targets by a small random affine map."""
    from torch.nn.functional import affine_grid, grid_sample

    n, dimensions = len(batch), batch.ndim - 2
    draws = torch.rand(n, dimensions, dimensions + 1, generator=generator) * 2 - 1
    skew = draws[:, :, :dimensions]
    turn = torch.linalg.matrix_exp(_TURN * (skew - skew.transpose(1, 2)) / 2)
    scale = torch.exp(_SCALE * skew.diagonal(dim1=1, dim2=2))
    maps = torch.cat([turn * scale[:, None], _SHIFT * draws[:, :, dimensions:]], dim=2)
    grid = affine_grid(maps, list(batch.shape), align_corners=False)
    return grid_sample(batch, grid, align_corners=False, padding_mode="border")


_NAME = "UNetStudent"


@dataclass(eq=False, repr=False)
class UNetStudent(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A small U-Net, in two or three dimensions, trained on soft or hard masks.

    Parameters
    ----------
    n_classes : int, background included
    channels, residual_units, steps, batch_size, learning_rate, weight_decay, augment, patch
        As in `UNetRecipe`.
    random_state : int, optional
        Seeds training; the same bits again on one machine with as many torch threads.

    Attributes
    ----------
    network_ : torch module, MONAI's U-Net
    dimensions_ : int, 2 or 3, of the scans in `fit`
    n_channels_ : int, of these scans
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

    def fit(self, images: ArrayLike, targets: ArrayLike) -> Self:
        """Learn from normalised public scans.

        Parameters
        ----------
        images : array of shape (n, *spatial) or (n, channels, *spatial), public scans
        targets : array
            Class indices (n, *spatial); or soft masks (n, n_classes, *spatial); or, with two
            classes, fractions (n, *spatial) of the organ. Soft values are cut to 0 .. 1 and
            normalised.

        Returns
        -------
        self : UNetStudent
        """
        soft, dimensions = self._targets(targets)
        self.check(dimensions)
        recipe = self._recipe()
        scans = self._scans(images, dimensions)
        if len(scans) != len(soft) or scans.shape[2:] != soft.shape[2:]:
            raise InvalidArgument("Expected a target of the same spatial shape for each scan.")
        self.dimensions_, self.n_channels_ = dimensions, scans.shape[1]
        with training_bar("Training the student", recipe.steps) as tick:
            self.network_ = train_unet(recipe, scans, soft, seed_of(self.random_state), tick=tick)
        return self

    def untrained(self, dimensions: int, n_channels: int, seed: int = 0) -> Self:
        """Set `network_` to its first state, for scans of these channels.

        Parameters
        ----------
        dimensions : int, 2 or 3
        n_channels : int
        seed : int, of the first weights

        Returns
        -------
        self : UNetStudent
        """
        recipe = self._recipe()
        self.dimensions_, self.n_channels_ = dimensions, n_channels
        self.network_ = seeded(
            lambda: _make_unet(recipe, dimensions, n_channels, self.n_classes), seed
        )
        return self

    def check(self, dimensions: int) -> None:
        """Raise what `fit` would about the parameters and packages: before anything is released.

        Parameters
        ----------
        dimensions : int, 2 or 3, of the scans for `fit`
        """
        recipe = self._recipe()
        need_monai()
        seed_of(self.random_state)
        if recipe.patch is not None and len(recipe.patch) != dimensions:
            raise InvalidArgument(f"Expected a patch of {dimensions} sides, got {recipe.patch}.")

    def predict_proba(
        self, images: ArrayLike, *, window: Sequence[int] | None = None
    ) -> NDArray[np.float32]:
        """Return the probability of each class at each voxel, for scans of any size.

        Parameters
        ----------
        images : array of shape (n, *spatial) or (n, channels, *spatial)
            Normalised as the scans of `fit` were.
        window : sequence of int, optional
            Predict in overlapping windows of this shape, for volumes that do not fit into memory at
            once; by default of `patch`, or the whole volume where there is none.

        Returns
        -------
        array of float32, shape (n, n_classes, *spatial)
        """
        check_is_fitted(self, "network_")
        scans = self._scans(images, self.dimensions_)
        if scans.shape[1] != self.n_channels_:
            raise InvalidArgument(f"Expected scans of {self.n_channels_} channels.")
        return segment(self._recipe(), self.network_, scans, window=window)

    def predict(
        self, images: ArrayLike, *, window: Sequence[int] | None = None
    ) -> NDArray[np.uint8]:
        """Return the most probable class of each voxel.

        Parameters
        ----------
        images, window : as in `predict_proba`

        Returns
        -------
        array of uint8, shape (n, *spatial)
        """
        return most_probable(self.predict_proba(images, window=window), axis=1)

    def save(self, path: PathLike, *, extra: Mapping[str, Any] | None = None) -> None:
        """Write the fitted student to one file without pickle; `load_segmenter` reads it back.

        Parameters
        ----------
        path : path
        extra : mapping, optional
            Plain data to store with it: the grid, the classes' names, a statement.
        """
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
            if array.ndim not in (3, 4) or not holds_classes(array, self.n_classes):
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
    """Read a student that `UNetStudent.save` wrote; its predictions are the same bits.

    Parameters
    ----------
    path : path

    Returns
    -------
    UNetStudent
    """
    manifest, arrays, _ = read_container(path)
    try:
        if manifest["student"] != _NAME:
            raise ValueError
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in manifest["parameters"].items()
        }
        sizes = int(manifest["dimensions"]), int(manifest["n_channels"])
        student = UNetStudent(**given).untrained(*sizes)
        student.network_ = set_weights(student.network_, arrays).eval()
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
