"""Students that are a network whose weights were learned elsewhere, in noisy steps.

They do not learn: they hold public weights, the public centre and scale of their inputs, and the
public features; they predict, and can be saved. Releases only: nothing private ever enters this
floor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, finite_array, positive
from tacit.errors import InvalidArgument
from tacit.students.base import BaseStudent, PublicLearner
from tacit.students.inputs import Lesson
from tacit.students.layers import build_layers
from tacit.students.networks import class_probabilities, need_torch, set_weights, weights_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_BATCH = 512


class _Trained(PublicLearner):
    """What both kinds share: a network, and inputs that are centred and scaled."""

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
        """Take a network that was trained elsewhere, and the fitted features of its inputs."""
        setattr(self, self._width, outputs)
        self.n_features_in_, self.features_ = n_features, features
        self.centre_ = np.atleast_1d(finite_array(centre=centre))
        self.scale_ = positive(scale=scale)
        self.network_ = network.eval()
        return self

    def _tensor(self, inputs: NDArray[Any]) -> Tensor:
        rows = (np.asarray(self._view(inputs), dtype=np.float64) - self.centre_) / self.scale_
        dtype = next(self.network_.parameters()).dtype
        tensor: Tensor = need_torch().from_numpy(rows).to(dtype)
        return tensor

    def _arrays(self) -> dict[str, NDArray[Any]]:
        if self.layers is None:
            raise InvalidArgument(
                "Expected a chain of layers that tacit can describe (Linear, Conv2d, Tanh, ...) "
                "to save; keep student_.network_.state_dict() with torch instead."
            )
        weights = {f"weight.{name}": value for name, value in weights_of(self.network_).items()}
        return {"centre": self.centre_, "scale": np.array([self.scale_]), **weights}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.centre_ = finite_array(centre=arrays["centre"])
        self.scale_ = positive(scale=arrays["scale"].ravel()[0])
        weights = {
            name.removeprefix("weight."): array
            for name, array in arrays.items()
            if name.startswith("weight.")
        }
        network = build_layers(self.layers)
        if any(array.dtype == np.float64 for array in weights.values()):
            network = network.double()
        self.network_ = set_weights(network, weights).eval()


@dataclass(eq=False, repr=False)
class NetworkStudent(_Trained, BaseStudent):
    """A network of classes, trained elsewhere; probabilities are its softmax.

    layers: its layers as plain data (`describe_layers`), None for one that cannot be saved.

    >>> from tacit.students.layers import build_layers, perceptron
    >>> layers = perceptron((2, 3), "tanh")
    >>> student = NetworkStudent(layers).told(build_layers(layers), n_features=2, outputs=3)
    >>> student.predict_proba([[0.0, 1.0]]).shape
    (1, 3)
    """

    layers: Any = None
    features: Any = None

    def _learn(self, lesson: Lesson) -> None:
        raise _taught_elsewhere()

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        return class_probabilities(self.network_, self._tensor(inputs))


@dataclass(eq=False, repr=False)
class ReconstructionStudent(_Trained):
    """A network that gives back its input, trained elsewhere: `predict` returns reconstructions.

    bottleneck: how many of the layers encode; `encode` returns their output.
    """

    _width: ClassVar[str] = "n_outputs_"

    layers: Any = None
    features: Any = None
    bottleneck: int = 0

    def fit(self, X_public: ArrayLike) -> Self:
        """Refuse: the weights are learned in noisy steps, elsewhere, and come by `told`."""
        raise _taught_elsewhere()

    def predict(self, X: ArrayLike) -> Floats:
        """Return reconstructions (inputs, numbers), in the units of the inputs."""
        parts = [self._apply(self._tensor(block), None) for block in self._blocks(X)]
        return np.asarray(np.concatenate(parts) * self.scale_ + self.centre_)

    def encode(self, X: ArrayLike) -> Floats:
        """Return codes (inputs, length): what the narrowest layer says."""
        parts = [self._apply(self._tensor(block), self.bottleneck) for block in self._blocks(X)]
        return np.concatenate(parts)

    def decode(self, codes: ArrayLike) -> Floats:
        """Return the reconstructions of codes."""
        torch = need_torch()
        dtype = next(self.network_.parameters()).dtype
        rows = torch.from_numpy(finite_array(codes=codes)).to(dtype)
        with torch.inference_mode():
            values = self.network_[self.bottleneck :](rows).double().numpy()  # type: ignore[index]
        return np.asarray(values * self.scale_ + self.centre_)

    def _apply(self, rows: Tensor, depth: int | None) -> Floats:
        torch = need_torch()
        network = self.network_ if depth is None else self.network_[:depth]  # type: ignore[index]
        with torch.inference_mode():
            parts = [network(batch).double() for batch in torch.split(rows, _BATCH)]
        return np.asarray(torch.cat(parts).numpy())


def _taught_elsewhere() -> InvalidArgument:
    return InvalidArgument("Expected told(...): the weights are learned in noisy steps, elsewhere.")
