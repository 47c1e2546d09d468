"""Virtual adversarial training: a network that answers alike around every public input.

Miyato, Maeda, Koyama and Ishii, "Virtual adversarial training" (2018), the student of PATE 2018.
The labelled loss comes from the released posteriors; the smoothness loss from all public inputs.
Public inputs and releases only: nothing private ever enters this floor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, at_least, finite_array, non_negative, positive
from tacit._progress import training_bar
from tacit.errors import InvalidArgument
from tacit.students.base import BaseStudent
from tacit.students.graph import nearest
from tacit.students.inputs import Lesson, normalised, row_numbers, seed_of
from tacit.students.networks import (
    class_probabilities,
    convolutional,
    dense,
    descend,
    images_of,
    need_torch,
    one_cycle,
    planes,
    seeded,
    set_weights,
    soft_cross_entropy,
    weights_of,
)

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch.nn import Module

_PROBE = 1e-2  # length of the first guess of the adversarial direction, relative to the radius
_TINY = 1e-12
_LEAST_SCALE = 1e-3  # of the largest
_SAMPLE = 1000  # public inputs from which the scale of the radius is measured


@dataclass(eq=False, repr=False)
class VATStudent(BaseStudent):
    """Train a small network on the released posteriors, smooth around all public inputs.

    loss = cross entropy(queries) + smoothness * KL(p(x) || p(x + r_adv)) + entropy * H(p(x))
    + balance * KL(q || mean p(x)) over public inputs x, where r_adv has length `radius` times the
    median distance between nearest public inputs, in the direction that changes p most (one power
    iteration), and q is the mean of the releases: without it, noisy labels let one class win all.

    features: a public transformer; the network is then a perceptron on what it returns.
    image_shape: (height, width[, channels]): a convolutional network on the images themselves;
        `features` is then not used.
    random_state: seeds training; the same bits again on one machine with as many torch threads.
    Learned: `network_`, and `classes_seen_`: the network chooses among the classes that are the
    most probable in some release, lest a cluster without labels become a class of its own.
    """

    features: Any = None
    _: KW_ONLY
    image_shape: tuple[int, ...] | None = None
    radius: float = 0.5
    smoothness: float = 1.0
    entropy: float = 1.0
    balance: float = 1.0
    steps: int = 1000
    batch_size: int = 128
    learning_rate: float = 0.002
    weight_decay: float = 0.01
    random_state: int | None = 0

    def _learn(self, lesson: Lesson) -> None:
        need_torch()
        self.classes_seen_ = np.unique(lesson.posterior[lesson.answered].argmax(axis=1))
        if len(lesson.inputs) < 2:
            raise InvalidArgument("Expected at least two public inputs to train on, got one.")
        view = self._seen(lesson.inputs)
        self.mean_, self.scale_ = self._scaling(view)
        inputs = self._prepared(view)
        flat = inputs.flatten(start_dim=1).numpy()[:_SAMPLE]
        self.reach_ = positive(radius=self.radius) * _typical_gap(flat)
        self.network_ = self._train(inputs, lesson)

    def _seen(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return what the network sees of the inputs."""
        return self._view(inputs) if self.image_shape is None else inputs

    def _scaling(self, view: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return mean and scale: of each feature, or of all pixels of images."""
        axis = 0 if self.image_shape is None else None
        mean = np.atleast_1d(view.mean(axis=axis, dtype=np.float64))
        scale = np.atleast_1d(view.std(axis=axis, dtype=np.float64))
        # A feature that hardly varies among the public inputs must not explode on a new one.
        scale = np.maximum(scale, _LEAST_SCALE * scale.max())
        return mean, np.where(scale > 0, scale, 1.0)

    def _prepared(self, view: NDArray[Any]) -> Tensor:
        if self.image_shape is not None:
            return images_of(view, self._image(), self.mean_[0], self.scale_[0])
        scaled = (view - self.mean_) / self.scale_
        tensor: Tensor = need_torch().from_numpy(scaled.astype(np.float32))
        return tensor

    def _image(self) -> tuple[int, int, int]:
        image = planes(self.image_shape)
        if math.prod(image) != self.n_features_in_:
            raise InvalidArgument(
                f"Expected inputs of image_shape={self.image_shape}, "
                f"got {self.n_features_in_} features in a row."
            )
        return image

    def _new_network(self, seed: int) -> Module:
        if self.image_shape is not None:
            image = self._image()
            return seeded(lambda: convolutional(image, len(self.classes_seen_)), seed)
        return seeded(lambda: dense(len(self.mean_), len(self.classes_seen_)), seed)

    def _train(self, inputs: Tensor, lesson: Lesson) -> Module:
        torch = need_torch()
        seed, batch = seed_of(self.random_state), at_least(2, batch_size=self.batch_size)
        network, steps = self._new_network(seed), at_least(1, steps=self.steps)
        generator = torch.Generator().manual_seed(seed)
        answered = np.nonzero(lesson.answered)[0]
        rows = torch.from_numpy(lesson.indices[answered])
        beliefs = normalised(lesson.posterior[answered][:, self.classes_seen_])
        targets = torch.from_numpy(beliefs.astype(np.float32))
        weights = torch.from_numpy(lesson.weights[answered].astype(np.float32))
        mean = (targets * weights[:, None]).sum(dim=0) / weights.sum()
        optimiser, schedule = one_cycle(
            network,
            positive(learning_rate=self.learning_rate),
            steps,
            non_negative(weight_decay=self.weight_decay),
        )
        network.train()
        with training_bar("Training the student", steps) as tick:
            for _ in range(steps):
                asked = torch.randint(len(rows), (batch // 2,), generator=generator)
                free = inputs[torch.randint(len(inputs), (batch,), generator=generator)]
                scores = network(torch.cat([inputs[rows[asked]], free]))
                loss = soft_cross_entropy(scores[: len(asked)], targets[asked], weights[asked])
                rest = scores[len(asked) :]
                loss = loss + self._unlabelled(network, free, rest, mean, generator)
                descend(loss, optimiser, schedule)
                tick()
        return network.eval()

    def _unlabelled(
        self, network: Module, inputs: Tensor, scores: Tensor, mean: Tensor, generator: Generator
    ) -> Tensor:
        """Return the three terms on inputs without labels, weighted."""
        belief = scores.detach().log_softmax(dim=1)
        with _still_statistics(network):
            worst = _adversarial(network, inputs, belief, self.reach_, generator)
            change = _divergence(belief, network(inputs + worst))
        own = scores.log_softmax(dim=1)
        unsure = -(own.exp() * own).sum(dim=1).mean()
        uneven = (mean * (mean / own.exp().mean(dim=0).clamp_min(_TINY)).log()).sum()
        return (
            non_negative(smoothness=self.smoothness) * change
            + non_negative(entropy=self.entropy) * unsure
            + non_negative(balance=self.balance) * uneven
        )

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        scores = np.zeros((len(inputs), self.n_classes_))
        prepared = self._prepared(self._seen(inputs))
        scores[:, self.classes_seen_] = class_probabilities(self.network_, prepared)
        return scores

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {f"network.{name}": value for name, value in weights_of(self.network_).items()}
        return arrays | {"mean": self.mean_, "scale": self.scale_, "seen": self.classes_seen_}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.mean_ = finite_array(mean=arrays["mean"])
        self.scale_ = finite_array(scale=arrays["scale"])
        self.classes_seen_ = row_numbers(arrays["seen"], self.n_classes_)
        weights = {k.removeprefix("network."): v for k, v in arrays.items() if "network." in k}
        self.network_ = set_weights(self._new_network(0), weights).eval()


def _typical_gap(points: NDArray[np.float32]) -> float:
    """Return the median distance from a public input to its nearest other; 1 if that is 0."""
    _, distances = nearest(points, points, 1, same=True)
    return float(np.sqrt(np.median(distances))) or 1.0


def _adversarial(
    network: Module, inputs: Tensor, belief: Tensor, reach: float, generator: Generator
) -> Tensor:
    """Return the step of length `reach` that changes the belief most, by one power iteration."""
    torch = need_torch()
    guess = _unit(torch.randn(inputs.shape, generator=generator))
    probe = (_PROBE * reach * guess).requires_grad_()
    (gradient,) = torch.autograd.grad(_divergence(belief, network(inputs + probe)), probe)
    return reach * _unit(gradient)


def _unit(steps: Tensor) -> Tensor:
    lengths = steps.flatten(start_dim=1).norm(dim=1).clamp_min(1e-20)
    result: Tensor = steps / lengths.view(-1, *[1] * (steps.dim() - 1))
    return result


def _divergence(belief: Tensor, scores: Tensor) -> Tensor:
    """Return the mean of KL(belief || softmax(scores))."""
    return (belief.exp() * (belief - scores.log_softmax(dim=1))).sum(dim=1).mean()


@contextmanager
def _still_statistics(network: Module) -> Iterator[None]:
    """Keep adversarial inputs out of the running statistics of batch normalisation."""
    layers: list[Any] = [layer for layer in network.modules() if hasattr(layer, "momentum")]
    before = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in zip(layers, before, strict=True):
            layer.momentum = momentum
