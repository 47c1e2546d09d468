"""A small convolutional network, trained on labels that were spread over the public images.

A `LabelSpreadingStudent` gives every public image a posterior; the network learns all of them from
randomly moved copies of the images, which smooths over the graph's mistakes.
Public inputs and releases only: nothing private ever enters this floor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tacit._checks import Floats, at_least, finite, non_negative, positive, refuse
from tacit._progress import training_bar
from tacit.errors import InvalidArgument
from tacit.students.base import BaseStudent
from tacit.students.inputs import Lesson, flat_rows, normalised, seed_of
from tacit.students.label_spreading import LabelSpreadingStudent
from tacit.students.networks import (
    CHANNELS,
    class_probabilities,
    convolutional,
    descend,
    images_of,
    last_hidden,
    moved,
    need_torch,
    one_cycle,
    planes,
    random_affine,
    seeded,
    set_weights,
    shuffled,
    soft_cross_entropy,
    weights_of,
)
from tacit.students.posterior import answer_weights

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_VIEW = 0.4  # how far a test-time view moves, relative to the augmentation


@dataclass(eq=False, repr=False)
class CNNStudent(BaseStudent):
    """Spread the labels over all public images, then train a small CNN on them with augmentation.

    Three strided convolutions, AdamW with a one-cycle rate, a random turn, scale, shear and shift
    of each image each time. The target of an image is the posterior that was spread to it.

    image_shape: (height, width) or (height, width, channels) of a flat row of the inputs.
    features: a public transformer for the neighbour graph; the network sees the images themselves,
    preprocess: or what this public transformer makes of them, in the same shape (`Deskew`).
    n_neighbors, alpha: of the spreading. channels: of the three convolutions.
    views: average the prediction over this many slightly moved copies of an image (1: none).
    graph_share: how much of the prediction is the neighbour graph's; the rest is the network's.
        They err on different images: half and half did best on USPS.
    random_state: seeds training; the same bits again on one machine with as many torch threads.
    Learned: `network_`, `graph_`.
    """

    image_shape: tuple[int, ...] = (28, 28)
    _: KW_ONLY
    features: Any = None
    preprocess: Any = None
    n_neighbors: int = 7
    alpha: float = 0.98
    channels: tuple[int, int, int] = CHANNELS
    epochs: int = 12
    batch_size: int = 64
    learning_rate: float = 0.004
    weight_decay: float = 0.01
    augment: bool = True
    views: int = 1
    graph_share: float = 0.5
    random_state: int | None = 0

    def _learn(self, lesson: Lesson) -> None:
        need_torch()
        at_least(1, views=self.views)
        image = self._image()
        if len(lesson.inputs) < 2:
            raise InvalidArgument("Expected at least two public images to train on, got one.")
        if not 0 <= finite(graph_share=self.graph_share) <= 1:
            raise refuse("graph_share", self.graph_share, "between 0 and 1")
        self.graph_ = self._new_graph().fit(lesson.inputs, lesson.indices, lesson.posterior)
        self.preprocess_ = None if self.preprocess is None else clone(self.preprocess)
        if self.preprocess_ is not None:
            self.preprocess_.fit(lesson.inputs)
        pixels = self._pixels(lesson.inputs)
        self.mean_ = float(pixels.mean(dtype=np.float64))
        self.scale_ = float(pixels.std(dtype=np.float64)) or 1.0
        self.network_ = self._train(
            images_of(pixels, image, self.mean_, self.scale_), self.graph_.spread_
        )

    def _new_graph(self) -> LabelSpreadingStudent:
        return LabelSpreadingStudent(self.features, n_neighbors=self.n_neighbors, alpha=self.alpha)

    def _pixels(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return what the network sees of the inputs."""
        if self.preprocess_ is None:
            return inputs
        pixels = flat_rows(preprocess=self.preprocess_.transform(inputs))
        if pixels.shape != inputs.shape:
            raise InvalidArgument(
                f"Expected preprocess to keep image_shape={tuple(self.image_shape)}, "
                f"got {pixels.shape[1]} features in a row."
            )
        return pixels

    def _network(self) -> Module:
        widths = [at_least(1, channels=width) for width in self.channels]
        if len(widths) != 3:
            raise InvalidArgument(f"Expected channels={self.channels!r} to be three numbers.")
        return convolutional(self._image(), self.n_classes_, widths)

    def _image(self) -> tuple[int, int, int]:
        image = planes(self.image_shape)
        if math.prod(image) != self.n_features_in_:
            raise InvalidArgument(
                f"Expected inputs of image_shape={tuple(self.image_shape)}, "
                f"got {self.n_features_in_} features in a row."
            )
        return image

    def _train(self, images: Tensor, posterior: Floats) -> Module:
        torch = need_torch()
        seed, batch = seed_of(self.random_state), at_least(2, batch_size=self.batch_size)
        network = seeded(self._network, seed)
        generator = torch.Generator().manual_seed(seed)
        targets = torch.from_numpy(posterior.astype(np.float32))
        weights = torch.from_numpy(answer_weights(posterior).astype(np.float32))
        steps = shuffled(len(images), batch, at_least(1, epochs=self.epochs), generator)
        optimiser, schedule = one_cycle(
            network,
            positive(learning_rate=self.learning_rate),
            len(steps),
            non_negative(weight_decay=self.weight_decay),
        )
        network.train()
        with training_bar("Training the student", len(steps)) as tick:
            for rows in steps:
                chosen = images[rows]
                chosen = random_affine(chosen, generator) if self.augment else chosen
                loss = soft_cross_entropy(network(chosen), targets[rows], weights[rows])
                descend(loss, optimiser, schedule)
                tick()
        return network.eval()

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        torch = need_torch()
        images = images_of(self._pixels(inputs), self._image(), self.mean_, self.scale_)
        scores = class_probabilities(self.network_, images)
        # Each view is one fixed move for all images: predictions do not depend on their company.
        generator = torch.Generator().manual_seed(0)
        for _ in range(at_least(1, views=self.views) - 1):
            moves = _VIEW * (torch.rand(6, 1, generator=generator) * 2 - 1)
            scores += class_probabilities(
                self.network_, moved(images, moves.expand(6, len(images)))
            )
        near = self.graph_.predict_proba(inputs)
        return (1 - self.graph_share) * normalised(scores) + self.graph_share * near

    def represent(self, X: ArrayLike) -> Floats:
        """Return the last hidden layer of the inputs."""
        check_is_fitted(self, "network_")
        inputs = flat_rows(X=X)
        images = images_of(self._pixels(inputs), self._image(), self.mean_, self.scale_)
        return last_hidden(self.network_, images)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {f"network.{name}": value for name, value in weights_of(self.network_).items()}
        arrays |= {f"graph.{name}": value for name, value in self.graph_._arrays().items()}
        return arrays | {"scaling": np.asarray([self.mean_, self.scale_])}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.mean_, self.scale_ = (float(finite(scaling=x)) for x in arrays["scaling"])
        self.graph_ = self._new_graph()
        self.graph_.n_features_in_, self.graph_.n_classes_ = self.n_features_in_, self.n_classes_
        self.graph_.features_ = self.features_
        self.graph_._restore(_part("graph.", arrays))
        network = seeded(self._network, 0)
        self.network_ = set_weights(network, _part("network.", arrays)).eval()


def _part(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
