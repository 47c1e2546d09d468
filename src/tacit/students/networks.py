"""Small torch networks, what their training shares, and how they become plain data.

No seed is set globally: modules are made in a forked generator and everything else draws from a
generator of its own, so that a student is the same bits each time on one machine (for one number
of torch threads) and disturbs nobody's random numbers. A chain of known layers is described by
names and numbers, so that it can be saved without pickle. Public inputs and releases only: nothing
private ever enters this floor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import at_least, non_negative, positive, refuse
from tacit._extras import need
from tacit._progress import training_bar
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch.nn import Module

CHANNELS = (32, 64, 96)
_KERNELS = (5, 5, 3)
_HIDDEN = (256, 128)
_TINY = 1e-12
_BATCH = 512  # inputs predicted at a time
_RISE = 5  # steps of a cycle whose first quarter has a length; torch divides by it
# Largest turn (radians), log scale, shear, and shift (of half an image) of the augmentation.
_TURN, _SCALE, _SHEAR, _SHIFT = 0.25, 0.15, 0.2, 0.1


def need_torch() -> Any:
    """Return torch, or say which extra brings it."""
    return need("torch", "for this student", extra="torch")


def image_planes(image_shape: Any, n_features: int) -> tuple[int, int, int]:
    """Return (channels, height, width) of (height, width[, channels]) with so many numbers."""
    if not isinstance(image_shape, Sequence) or len(image_shape) not in (2, 3):
        raise refuse("image_shape", image_shape, "(height, width) or (height, width, channels)")
    height, width, *rest = (at_least(1, image_shape=side) for side in image_shape)
    if math.prod((height, width, *rest)) != n_features:
        raise InvalidArgument(
            f"Expected inputs of image_shape={tuple(image_shape)}, got {n_features} features in a "
            "row."
        )
    return (rest[0] if rest else 1), height, width


def seeded(make: Callable[[], Module], seed: int) -> Module:
    """Make a module whose initial weights depend on the seed alone."""
    torch = need_torch()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def convolutional(
    image: tuple[int, int, int], n_classes: int, widths: Sequence[int] = CHANNELS
) -> Module:
    """Make three strided convolutions with batch normalisation, and a linear head.

    Strides instead of pooling: most of the work happens on few pixels.
    """
    torch = need_torch()
    nn, layers, (channels, height, width) = torch.nn, [], image
    for out, kernel in zip(widths, _KERNELS, strict=True):
        layers += [
            nn.Conv2d(channels, out, kernel, stride=2, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
        ]
        channels, height, width = out, (height + 1) // 2, (width + 1) // 2
    head = nn.Linear(channels * height * width, n_classes)
    network: Module = nn.Sequential(*layers, nn.Flatten(), head)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def dense(n_features: int, n_classes: int) -> Module:
    """Make a perceptron with two hidden layers and batch normalisation."""
    nn, layers, width = need_torch().nn, [], n_features
    for out in _HIDDEN:
        layers += [nn.Linear(width, out, bias=False), nn.BatchNorm1d(out), nn.ReLU()]
        width = out
    network: Module = nn.Sequential(*layers, nn.Linear(width, n_classes))
    return network


def images_of(
    inputs: NDArray[Any], image: tuple[int, int, int], mean: float, scale: float
) -> Tensor:
    """Return flat inputs as standardised images, channels last in memory."""
    torch = need_torch()
    channels, height, width = image
    scaled = (np.asarray(inputs, dtype=np.float32) - np.float32(mean)) / np.float32(scale)
    pixels = torch.from_numpy(scaled).view(-1, height, width, channels).permute(0, 3, 1, 2)
    result: Tensor = pixels.contiguous(memory_format=torch.channels_last)
    return result


def random_affine(images: Tensor, generator: Generator) -> Tensor:
    """Turn, scale, shear and shift each image a little, by a random affine map of its own."""
    torch = need_torch()
    moves = torch.rand(6, len(images), generator=generator) * 2 - 1
    return moved(images, moves)


def moved(images: Tensor, moves: Tensor) -> Tensor:
    """Apply affine maps: six numbers in [-1, 1] for each image, scaled to the largest move."""
    torch = need_torch()
    turn = moves[0] * _TURN
    across, down = torch.exp(moves[1] * _SCALE), torch.exp(moves[2] * _SCALE)
    cos, sin, shear = torch.cos(turn), torch.sin(turn), moves[3] * _SHEAR
    rows = (
        (cos * across, (shear * cos - sin) * across, moves[4] * _SHIFT),
        (sin * down, (shear * sin + cos) * down, moves[5] * _SHIFT),
    )
    maps = torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)
    sample = torch.nn.functional
    grid = sample.affine_grid(maps, images.shape, align_corners=False)
    result: Tensor = sample.grid_sample(images, grid, align_corners=False, padding_mode="border")
    return result


def shuffled(n: int, batch: int, epochs: int, generator: Generator) -> list[Tensor]:
    """Return the rows of each step: every epoch a new order, without its last, incomplete batch."""
    torch = need_torch()
    steps = []
    for _ in range(epochs):
        order = torch.randperm(n, generator=generator)
        whole = max(batch, n - n % batch)
        steps += torch.split(order[:whole], batch)
    return steps


def soft_cross_entropy(scores: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted mean of -sum_c target_c log softmax(scores)_c."""
    losses = -(targets * scores.log_softmax(dim=1)).sum(dim=1)
    return (losses * weights).sum() / weights.sum().clamp_min(_TINY)


def one_cycle(network: Module, rate: float, steps: int, decay: float) -> tuple[Any, Any]:
    """Return AdamW and a one-cycle schedule (Smith and Topin 2018) of `steps` steps."""
    torch = need_torch()
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=decay, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, rate, total_steps=max(_RISE, steps), pct_start=0.25
    )
    return optimiser, schedule


def train(
    network: Module,
    steps: Sequence[Any],
    loss: Callable[[Any], Tensor],
    *,
    learning_rate: float,
    weight_decay: float,
) -> Module:
    """Take one step down the loss of each of the steps, and return the network, ready to use."""
    rate, decay = positive(learning_rate=learning_rate), non_negative(weight_decay=weight_decay)
    optimiser, schedule = one_cycle(network, rate, len(steps), decay)
    network.train()
    with training_bar("Training the student", len(steps)) as tick:
        for step in steps:
            optimiser.zero_grad(set_to_none=True)
            loss(step).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
            tick()
    return network.eval()


def outputs_of(network: Module, inputs: Tensor) -> Tensor:
    """Return a network's outputs in float64, in batches, without gradients."""
    torch = need_torch()
    network.eval()
    with torch.inference_mode():
        parts = [network(batch).double() for batch in torch.split(inputs, _BATCH)]
    result: Tensor = torch.cat(parts)
    return result


def class_probabilities(network: Module, inputs: Tensor) -> NDArray[np.float64]:
    """Return softmax probabilities."""
    return np.asarray(outputs_of(network, inputs).softmax(dim=1).numpy())


def weights_of(network: Module, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Return a network's weights and statistics as arrays."""
    return {
        prefix + name: np.array(value.detach().numpy(), order="C")
        for name, value in network.state_dict().items()
    }


def set_weights(network: Module, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Module:
    """Put saved weights into a network of the same shape; refuse any that do not fit."""
    torch = need_torch()
    wanted, found = network.state_dict(), part_of(arrays, prefix)
    fit = set(found) == set(wanted) and all(
        found[name].shape == tuple(value.shape) and found[name].dtype == value.numpy().dtype
        for name, value in wanted.items()
    )
    if not fit:
        raise InvalidArgument("Expected saved weights of the network that the file describes.")
    network.load_state_dict({name: torch.from_numpy(array) for name, array in found.items()})
    return network


def part_of(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin so, without the prefix."""
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


Layers = tuple[tuple[Any, ...], ...]
"""One tuple a layer: its name in torch.nn, then pairs (argument, value)."""

_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "Linear": ("in_features", "out_features", "bias"),
    "Conv2d": ("in_channels", "out_channels", "kernel_size", "stride", "padding", "bias"),
    "GroupNorm": ("num_groups", "num_channels"),
    "LayerNorm": ("normalized_shape",),
    "MaxPool2d": ("kernel_size", "stride", "padding"),
    "AvgPool2d": ("kernel_size", "stride", "padding"),
    "Flatten": ("start_dim", "end_dim"),
    "Unflatten": ("dim", "unflattened_size"),
    "LeakyReLU": ("negative_slope",),
    "ELU": ("alpha",),
    **dict.fromkeys(("ReLU", "Tanh", "Sigmoid", "Softplus", "GELU", "SiLU", "Identity"), ()),
}


def describe_layers(module: Module) -> Layers | None:
    """Return a chain of known layers as plain data, or None where a module is something else.

    >>> from torch import nn
    >>> describe_layers(nn.Sequential(nn.Linear(2, 3), nn.Tanh()))
    (('Linear', ('in_features', 2), ('out_features', 3), ('bias', True)), ('Tanh',))
    """
    nn = need_torch().nn
    if type(module) is not nn.Sequential:
        return None
    found = []
    for layer in module:  # type: ignore[attr-defined]
        name = type(layer).__name__
        if name not in _ARGUMENTS or type(layer) is not getattr(nn, name):
            return None
        pairs = tuple((key, _plain(getattr(layer, key))) for key in _ARGUMENTS[name])
        found.append((name, *pairs))
    layers = tuple(found)
    # An option that is not described (a dilation, say) would be lost: then it is something else.
    return layers if repr(build_layers(layers)) == repr(module) else None


def _plain(value: Any) -> Any:
    tensor = need_torch().Tensor
    if isinstance(value, tensor | need_torch().nn.Parameter) or value is None:
        return value is not None  # only a bias is asked for
    return tuple(value) if isinstance(value, Sequence) else value


def build_layers(layers: Any) -> Module:
    """Make the network that `describe_layers` described; its weights are still to be set.

    >>> build_layers([["Linear", ["in_features", 2], ["out_features", 3]], ["ReLU"]])
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    """
    nn = need_torch().nn
    made = []
    for name, *pairs in layers:
        if name not in _ARGUMENTS or any(key not in _ARGUMENTS[name] for key, _ in pairs):
            raise InvalidArgument("Expected layers that tacit can build; some are unknown.")
        made.append(getattr(nn, name)(**{key: _tuples(value) for key, value in pairs}))
    network: Module = nn.Sequential(*made)
    return network


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def perceptron(widths: Sequence[int], activation: str) -> Layers:
    """Describe linear layers of these widths with an activation between them.

    >>> [layer[0] for layer in perceptron((4, 3, 2), "tanh")]
    ['Linear', 'Tanh', 'Linear']
    """
    names = {"tanh": "Tanh", "relu": "ReLU", "softplus": "Softplus"}
    layers: list[tuple[Any, ...]] = []
    for before, after in pairwise(widths):
        layers.append(("Linear", ("in_features", before), ("out_features", after), ("bias", True)))
        layers.append((names[activation],))
    return tuple(layers[:-1])
