"""Networks as plain data, and students whose weights were learned elsewhere, in noisy steps.

A chain of known layers is described by names and numbers, so that it can be saved without pickle.
`NetworkStudent` and `ReconstructionStudent` do not learn: they hold public weights, centre, scale
and features. Nothing private enters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, finite_array, positive
from tacit._extras import torch
from tacit.errors import InvalidArgument
from tacit.students.base import BaseStudent, Lesson, PublicLearner

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

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
_BATCH = 512  # inputs predicted at a time


def seeded(make: Callable[[], Module], seed: int) -> Module:
    """Make a module whose initial weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def outputs_of(network: Module, inputs: Tensor) -> Tensor:
    """Return a network's outputs in float64, in batches, without gradients."""
    network.eval()
    with torch.inference_mode():
        parts = [network(batch).double() for batch in torch.split(inputs, _BATCH)]
    return cast("Tensor", torch.cat(parts))


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


def describe_layers(module: Module) -> Layers | None:
    """Return a chain of known layers as plain data, or None where a module is something else."""
    nn = torch.nn
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
    if isinstance(value, torch.Tensor) or value is None:
        return value is not None  # only a bias is asked for
    return tuple(value) if isinstance(value, list | tuple) else value


def build_layers(layers: Any) -> Module:
    """Make the network that `describe_layers` described; its weights are still to be set."""
    nn = torch.nn
    made = []
    for name, *pairs in layers:
        if name not in _ARGUMENTS or any(key not in _ARGUMENTS[name] for key, _ in pairs):
            raise InvalidArgument("Expected layers that tacit can build; some are unknown.")
        made.append(getattr(nn, name)(**{key: _plain(value) for key, value in pairs}))
    return cast("Module", nn.Sequential(*made))


def perceptron(widths: Sequence[int], activation: str) -> Layers:
    """Describe linear layers of these widths with an activation between them."""
    names = {"tanh": "Tanh", "relu": "ReLU", "softplus": "Softplus"}
    layers: list[tuple[Any, ...]] = []
    for before, after in pairwise(widths):
        layers.append(("Linear", ("in_features", before), ("out_features", after), ("bias", True)))
        layers.append((names[activation],))
    return tuple(layers[:-1])


class _Trained(PublicLearner):
    """Base of both: a network, and inputs that are centred and scaled."""

    _saved = ("centre", "scale")
    layers: Any
    network_: Module

    def told(
        self,
        network: Module,
        *,
        n_features: int,
        outputs: int,
        features: Any = None,
        centre: ArrayLike = 0.0,
        scale: float = 1.0,
    ) -> Self:
        """Take a network with public weights, and the fitted transform of its inputs.

        `n_features` counts an input before `features`, which were fitted on public inputs; the
        network gets (features - centre) / scale.
        """
        setattr(self, self._count_name, outputs)
        self.n_features_in_, self.features_ = n_features, features
        self.centre_ = np.atleast_1d(finite_array(centre=centre))
        self.scale_ = positive(scale=scale)
        self.network_ = network.eval()
        return self

    def _tensor(self, inputs: NDArray[Any]) -> Tensor:
        return self._cast((self._view(inputs, np.float64) - self.centre_) / self.scale_)

    def _cast(self, rows: Floats) -> Tensor:
        dtype = next(self.network_.parameters()).dtype
        return cast("Tensor", torch.from_numpy(rows).to(dtype))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        if self.layers is None:
            raise InvalidArgument(
                "Expected a chain of layers that tacit can describe (Linear, Conv2d, Tanh, ...) "
                "to save; keep student_.network_.state_dict() with torch instead."
            )
        return super()._arrays() | weights_of(self.network_, "weight.")

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        super()._restore(arrays)
        self.scale_ = positive(scale=np.ravel(self.scale_)[0])
        network = build_layers(self.layers)
        if any(array.dtype == np.float64 for array in part_of(arrays, "weight.").values()):
            network = network.double()
        self.network_ = set_weights(network, arrays, "weight.").eval()


@dataclass(eq=False, repr=False)
class NetworkStudent(_Trained, BaseStudent):
    """A network of classes, trained elsewhere; probabilities are its softmax.

    It does not learn: `fit` refuses, and `told` sets public weights. It needs `tacit[torch]`.

    Parameters
    ----------
    layers : tuple, optional
        Its layers as plain data (`describe_layers`); None for one that cannot be saved.
    features : transformer, optional, public, of the inputs; `told` sets the fitted one

    Attributes
    ----------
    network_ : torch.nn.Module
    centre_, scale_ : array, float, applied to features before the network
    """

    layers: Any = None
    features: Any = None

    def _learn(self, lesson: Lesson) -> None:
        raise _learned_elsewhere()

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        return class_probabilities(self.network_, self._tensor(inputs))


@dataclass(eq=False, repr=False)
class ReconstructionStudent(_Trained):
    """An autoencoder, trained elsewhere: `predict` returns reconstructions.

    It does not learn: `fit` refuses, and `told` sets public weights. It needs `tacit[torch]`.

    Parameters
    ----------
    layers : tuple, optional
        Its layers as plain data (`describe_layers`); None for one that cannot be saved.
    features : transformer, optional, public, of the inputs; `told` sets the fitted one
    bottleneck : int, how many of the layers encode; `encode` returns their output

    Attributes
    ----------
    network_ : torch.nn.Module, layers that encode, then layers that decode
    centre_, scale_ : array, float, applied to features before the network
    n_outputs_ : int, numbers in a reconstruction
    """

    _count_name: ClassVar[str] = "n_outputs_"

    layers: Any = None
    features: Any = None
    bottleneck: int = 0

    def fit(self, X_public: ArrayLike) -> Self:
        """Refuse: the weights are learned in noisy steps, elsewhere, and set by `told`.

        Parameters
        ----------
        X_public : array of shape (inputs, features), not used

        Returns
        -------
        ReconstructionStudent, never: it always raises `InvalidArgument`
        """
        raise _learned_elsewhere()

    def predict(self, X: ArrayLike) -> Floats:
        """Return reconstructions, in the units of the inputs, or of `features` where there are any.

        Parameters
        ----------
        X : array of shape (inputs, features)

        Returns
        -------
        array of shape (inputs, numbers)
        """
        return self._said(slice(None), X) * self.scale_ + self.centre_

    def encode(self, X: ArrayLike) -> Floats:
        """Return codes: the output of the first `bottleneck` layers.

        Parameters
        ----------
        X : array of shape (inputs, features)

        Returns
        -------
        array of shape (inputs, length)
        """
        return self._said(slice(self.bottleneck), X)

    def decode(self, codes: ArrayLike) -> Floats:
        """Return the reconstructions of codes.

        Parameters
        ----------
        codes : array of shape (inputs, length), from `encode`, or any other point of that space

        Returns
        -------
        array of shape (inputs, numbers), in the units of `predict`
        """
        values = self._outputs(slice(self.bottleneck, None), self._cast(finite_array(codes=codes)))
        return np.asarray(values * self.scale_ + self.centre_)

    def _said(self, layers: slice, X: ArrayLike) -> Floats:
        parts = [self._outputs(layers, self._tensor(block)) for block in self._blocks(X)]
        return np.concatenate(parts)

    def _outputs(self, layers: slice, rows: Tensor) -> Floats:
        return np.asarray(outputs_of(self.network_[layers], rows).numpy())  # type: ignore[index]


def _learned_elsewhere() -> InvalidArgument:
    return InvalidArgument("Expected told(...): the weights are learned in noisy steps, elsewhere.")
