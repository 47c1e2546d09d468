"""Students that train a network on public inputs: `CNNStudent` and `VATStudent`.

No seed is set globally: modules are made in a forked generator, and everything else draws from a
generator of its own, so that a student is the same bits each time on one machine (for one number of
torch threads). Nothing private enters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tacit._checks import Floats, at_least, finite, non_negative, positive, refuse
from tacit._extras import torch
from tacit._progress import training_bar
from tacit.errors import InvalidArgument
from tacit.students.base import BaseStudent, Lesson, flat_rows, normalised, row_numbers, seed_of
from tacit.students.graph import LabelSpreadingStudent
from tacit.students.neighbour_search import nearest
from tacit.students.networks import (
    class_probabilities,
    outputs_of,
    part_of,
    seeded,
    set_weights,
    weights_of,
)
from tacit.students.posterior import answer_weights

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch.nn import Module

CHANNELS = (32, 64, 96)
_KERNELS = (5, 5, 3)
_HIDDEN = (256, 128)
_RISE = 5  # steps of a cycle whose first quarter has a length; torch divides by it
# Largest turn (radians), log scale, shear, and shift (of half an image) of the augmentation.
_TURN, _SCALE, _SHEAR, _SHIFT = 0.25, 0.15, 0.2, 0.1
_VIEW = 0.4  # how far a test-time view moves, relative to the augmentation
_PROBE = 1e-2  # length of the first guess of the adversarial direction, relative to the radius
_TINY = 1e-12
_LEAST_SCALE = 1e-3  # of the largest
_SAMPLE = 1000  # public inputs from which the scale of the radius is measured


@dataclass(eq=False, repr=False)
class CNNStudent(BaseStudent):
    """Spread the labels over all public images, then train a small CNN on them with augmentation.

    Three strided convolutions, AdamW with a one-cycle rate, a random turn, scale, shear and shift
    of each image each time. The target of an image is the posterior that was spread to it. It needs
    `tacit[torch]`.

    Parameters
    ----------
    image_shape : tuple of int, (height, width) or (height, width, channels) of a row of the inputs
    features : transformer, optional, public, for the neighbour graph; the network sees the images
    preprocess : transformer, optional
        A public transformer (`Deskew`) of what the network sees; the shape must not change.
    n_neighbors : int, of the spreading: neighbours of each image (`LabelSpreadingStudent`)
    alpha : float, of the spreading: how far labels travel, strictly between 0 and 1
    channels : tuple of three ints, of the three convolutions
    epochs : int, passes over all public images
    batch_size : int, images in a step, at least 2
    learning_rate : float, the highest of the one-cycle rate
    weight_decay : float, of AdamW; 0 for none
    augment : bool, whether each image is moved at random each time that it is trained on
    views : int, average predictions over so many slightly moved copies; 1 is the image alone
    graph_share : float, weight of the neighbour graph in predictions, from 0 to 1
    random_state : int, optional
        Seeds training: the same bits again on one machine with as many torch threads. None draws a
        fresh seed.

    Attributes
    ----------
    network_ : torch.nn.Module, the trained network
    graph_ : LabelSpreadingStudent, the fitted graph; its `spread_` is what the network learned from
    preprocess_ : transformer or None, `preprocess`, fitted on the public inputs
    mean_, scale_ : float, by which all pixels are standardised
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

    @classmethod
    def for_data(cls, data: Any, settings: Mapping[str, Any]) -> Self:
        """Return the student of this name in run.toml.

        Parameters
        ----------
        data : Dataset, of which only public facts are read: columns, the shape of images
        settings : mapping, the other settings of the method

        Returns
        -------
        CNNStudent, of images of that shape; other data are refused
        """
        if data.image_shape is None:
            raise InvalidArgument("Expected images for student = 'cnn'.")
        return cls(image_shape=data.image_shape)

    def _learn(self, lesson: Lesson) -> None:
        torch.need()
        at_least(1, views=self.views)
        image_planes(self.image_shape, self.n_features_in_)
        if len(lesson.inputs) < 2:
            raise InvalidArgument("Expected at least two public images to train on, got one.")
        if not 0 <= finite(graph_share=self.graph_share) <= 1:
            raise refuse("graph_share", self.graph_share, "between 0 and 1")
        self.graph_ = self._new_graph().fit(lesson.inputs, lesson.indices, lesson.posterior)
        self.preprocess_ = None
        if self.preprocess is not None:
            self.preprocess_ = clone(self.preprocess).fit(lesson.inputs)
        pixels = self._pixels(lesson.inputs)
        self.mean_ = float(pixels.mean(dtype=np.float64))
        self.scale_ = float(pixels.std(dtype=np.float64)) or 1.0
        images = _images_of(pixels, self.image_shape, self.mean_, self.scale_)
        self.network_ = self._train(images, self.graph_.spread_)

    def _new_graph(self) -> LabelSpreadingStudent:
        return LabelSpreadingStudent(
            self.features, n_neighbors=self.n_neighbors, alpha=self.alpha, most_points=None
        )

    def _pixels(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return the network's input for these inputs."""
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
        image = image_planes(self.image_shape, self.n_features_in_)
        return convolutional(image, self.n_classes_, widths)

    def _images(self, inputs: NDArray[Any]) -> Tensor:
        return _images_of(self._pixels(inputs), self.image_shape, self.mean_, self.scale_)

    def _train(self, images: Tensor, posterior: Floats) -> Module:
        seed, batch = seed_of(self.random_state), at_least(2, batch_size=self.batch_size)
        network = seeded(self._network, seed)
        generator = torch.Generator().manual_seed(seed)
        targets = torch.from_numpy(posterior.astype(np.float32))
        weights = torch.from_numpy(answer_weights(posterior).astype(np.float32))
        steps = shuffled(len(images), batch, at_least(1, epochs=self.epochs), generator)

        def loss(rows: Tensor) -> Tensor:
            chosen = images[rows]
            if self.augment:  # each image by a random map of its own
                chosen = moved(chosen, torch.rand(6, len(rows), generator=generator) * 2 - 1)
            return _soft_cross_entropy(network(chosen), targets[rows], weights[rows])

        rates = {"learning_rate": self.learning_rate, "weight_decay": self.weight_decay}
        return train(network, steps, loss, **rates)

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        images = self._images(inputs)
        scores = class_probabilities(self.network_, images)
        for moves in self._moves():
            view = moved(images, moves.expand(6, len(images)))
            scores += class_probabilities(self.network_, view)
        near = self.graph_.predict_proba(inputs)
        return (1 - self.graph_share) * normalised(scores) + self.graph_share * near

    def _moves(self) -> list[Tensor]:
        """Return the moves of all views but the first: the same for all images in a batch."""
        generator = torch.Generator().manual_seed(0)
        count = at_least(1, views=self.views) - 1
        return [_VIEW * (torch.rand(6, 1, generator=generator) * 2 - 1) for _ in range(count)]

    def represent(self, X: ArrayLike) -> Floats:
        """Return the last hidden layer of the inputs.

        Parameters
        ----------
        X : array of shape (inputs, features), images, in the form of `X_public`

        Returns
        -------
        array of shape (inputs, hidden units)
        """
        check_is_fitted(self, "network_")
        images = self._images(flat_rows(X=X))
        return np.asarray(outputs_of(self.network_[:-1], images).numpy())  # type: ignore[index]

    def _arrays(self) -> dict[str, NDArray[Any]]:
        graph = {f"graph.{name}": value for name, value in self.graph_._arrays().items()}
        arrays = weights_of(self.network_, "network.") | graph
        return arrays | {"scaling": np.asarray([self.mean_, self.scale_])}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.mean_, self.scale_ = (float(finite(scaling=x)) for x in arrays["scaling"])
        self.graph_ = self._new_graph()
        self.graph_.n_features_in_, self.graph_.n_classes_ = self.n_features_in_, self.n_classes_
        self.graph_.features_ = self.features_
        self.graph_._restore(part_of(arrays, "graph."))
        self.network_ = set_weights(seeded(self._network, 0), arrays, "network.").eval()


@dataclass(eq=False, repr=False)
class VATStudent(BaseStudent):
    """Train a small network on the released posteriors, smooth around all public inputs.

        loss = cross entropy(queries) + smoothness * KL(p(x) || p(x + r_adv))
               + entropy * H(p(x)) + balance * KL(q || mean p(x))

    over public inputs x, where r_adv has length `radius` times the median distance between nearest
    public inputs, in the direction that changes p most (one power iteration), and q is the mean of
    the releases: without it, noisy labels let one class win all. It needs `tacit[torch]`.
    Source: Miyato, Maeda, Koyama and Ishii (2018), the student of PATE 2018.

    Parameters
    ----------
    features : transformer, optional, public; the network is then a perceptron on what it returns
    image_shape : tuple of int, optional
        (height, width[, channels]): a convolutional network on the images themselves; `features` is
        then not used.
    radius : float, length of r_adv, in median distances between nearest public inputs
    smoothness : float, weight of the change of p under the adversarial step; 0 leaves the term out
    entropy : float, weight of the entropy of p on public inputs; 0 leaves the term out
    balance : float, weight of the gap between mean prediction and mean release; 0 leaves it out
    steps : int, of training
    batch_size : int, public inputs in a step, at least 2; half as many answered queries join them
    learning_rate : float, the highest of the one-cycle rate
    weight_decay : float, of AdamW; 0 for none
    random_state : int, optional
        Seeds training: the same bits again on one machine with as many torch threads. None draws a
        fresh seed.

    Attributes
    ----------
    network_ : torch.nn.Module, the trained network
    classes_seen_ : array of int
        The network chooses among the classes that are the most probable in some release, lest a
        cluster without labels become a class of its own.
    mean_, scale_ : array, by which features, or all pixels, are standardised
    reach_ : float, length of the adversarial step, in standardised units
    """

    _saved = ("mean", "scale")

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
        torch.need()
        self.classes_seen_ = np.unique(lesson.posterior[lesson.answered].argmax(axis=1))
        if len(lesson.inputs) < 2:
            raise InvalidArgument("Expected at least two public inputs to train on, got one.")
        view = self._shown(lesson.inputs)
        self.mean_, self.scale_ = self._scaling(view)
        inputs = self._prepared(view)
        flat = inputs.flatten(start_dim=1).numpy()[:_SAMPLE]
        _, gaps = nearest(flat, flat, 1, same=True)
        self.reach_ = positive(radius=self.radius) * (float(np.sqrt(np.median(gaps))) or 1.0)
        self.network_ = self._train(inputs, lesson)

    def _shown(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return the network's input for these inputs."""
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
            return _images_of(view, self.image_shape, self.mean_[0], self.scale_[0])
        scaled = (view - self.mean_) / self.scale_
        return cast("Tensor", torch.from_numpy(scaled.astype(np.float32)))

    def _new_network(self, seed: int) -> Module:
        classes = len(self.classes_seen_)
        if self.image_shape is None:
            return seeded(lambda: dense(len(self.mean_), classes), seed)
        image = image_planes(self.image_shape, self.n_features_in_)
        return seeded(lambda: convolutional(image, classes), seed)

    def _train(self, inputs: Tensor, lesson: Lesson) -> Module:
        seed, batch = seed_of(self.random_state), at_least(2, batch_size=self.batch_size)
        network, steps = self._new_network(seed), at_least(1, steps=self.steps)
        generator = torch.Generator().manual_seed(seed)
        answered = np.nonzero(lesson.answered)[0]
        rows = torch.from_numpy(lesson.indices[answered])
        beliefs = normalised(lesson.posterior[answered][:, self.classes_seen_])
        targets = torch.from_numpy(beliefs.astype(np.float32))
        weights = torch.from_numpy(lesson.weights[answered].astype(np.float32))
        mean = (targets * weights[:, None]).sum(dim=0) / weights.sum()

        def loss(_: int) -> Tensor:
            asked = torch.randint(len(rows), (batch // 2,), generator=generator)
            free = inputs[torch.randint(len(inputs), (batch,), generator=generator)]
            scores = network(torch.cat([inputs[rows[asked]], free]))
            known = _soft_cross_entropy(scores[: len(asked)], targets[asked], weights[asked])
            return known + self._unlabelled(network, free, scores[len(asked) :], mean, generator)

        rates = {"learning_rate": self.learning_rate, "weight_decay": self.weight_decay}
        return train(network, range(steps), loss, **rates)

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
        prepared = self._prepared(self._shown(inputs))
        scores[:, self.classes_seen_] = class_probabilities(self.network_, prepared)
        return scores

    def _arrays(self) -> dict[str, NDArray[Any]]:
        seen = {"seen": self.classes_seen_}
        return weights_of(self.network_, "network.") | super()._arrays() | seen

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        super()._restore(arrays)
        self.classes_seen_ = row_numbers(arrays["seen"], self.n_classes_)
        self.network_ = set_weights(self._new_network(0), arrays, "network.").eval()


def _adversarial(
    network: Module, inputs: Tensor, belief: Tensor, reach: float, generator: Generator
) -> Tensor:
    """Return the step of length `reach` that changes p most, by one power iteration."""
    guess = _unit(torch.randn(inputs.shape, generator=generator))
    probe = (_PROBE * reach * guess).requires_grad_()
    (gradient,) = torch.autograd.grad(_divergence(belief, network(inputs + probe)), probe)
    return reach * _unit(gradient)


def _unit(steps: Tensor) -> Tensor:
    flat = torch.nn.functional.normalize(steps.flatten(start_dim=1), eps=1e-20)
    return cast("Tensor", flat.view_as(steps))


def _divergence(belief: Tensor, scores: Tensor) -> Tensor:
    """Return the mean of KL(p || softmax(scores))."""
    return (belief.exp() * (belief - scores.log_softmax(dim=1))).sum(dim=1).mean()


@contextmanager
def _still_statistics(network: Module) -> Iterator[None]:
    """Exclude adversarial inputs from the running statistics of batch normalisation."""
    layers: list[Any] = [layer for layer in network.modules() if hasattr(layer, "momentum")]
    before = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in zip(layers, before, strict=True):
            layer.momentum = momentum


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


def convolutional(
    image: tuple[int, int, int], n_classes: int, widths: Sequence[int] = CHANNELS
) -> Module:
    """Make three strided convolutions with batch normalisation, and a linear head."""
    nn, layers, (channels, height, width) = torch.nn, [], image
    for out, kernel in zip(widths, _KERNELS, strict=True):
        layers += [
            nn.Conv2d(channels, out, kernel, stride=2, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
        ]
        channels, height, width = out, (height + 1) // 2, (width + 1) // 2
    head = nn.Linear(channels * height * width, n_classes)
    network = nn.Sequential(*layers, nn.Flatten(), head)
    return cast("Module", network.to(memory_format=torch.channels_last))


def dense(n_features: int, n_classes: int) -> Module:
    """Make a perceptron with two hidden layers and batch normalisation."""
    nn, layers, width = torch.nn, [], n_features
    for out in _HIDDEN:
        layers += [nn.Linear(width, out, bias=False), nn.BatchNorm1d(out), nn.ReLU()]
        width = out
    return cast("Module", nn.Sequential(*layers, nn.Linear(width, n_classes)))


def _images_of(inputs: NDArray[Any], image_shape: Any, mean: float, scale: float) -> Tensor:
    """Return flat inputs as standardised images, channels last in memory."""
    channels, height, width = image_planes(image_shape, inputs.shape[1])
    scaled = (np.asarray(inputs, dtype=np.float32) - np.float32(mean)) / np.float32(scale)
    pixels = torch.from_numpy(scaled).view(-1, height, width, channels).permute(0, 3, 1, 2)
    return cast("Tensor", pixels.contiguous(memory_format=torch.channels_last))


def moved(images: Tensor, moves: Tensor) -> Tensor:
    """Turn, scale, shear and shift images by six numbers in [-1, 1], of the largest move, each."""
    turn = moves[0] * _TURN
    across, down = torch.exp(moves[1] * _SCALE), torch.exp(moves[2] * _SCALE)
    cos, sin, shear = torch.cos(turn), torch.sin(turn), moves[3] * _SHEAR
    rows = (
        (cos * across, (shear * cos - sin) * across, moves[4] * _SHIFT),
        (sin * down, (shear * sin + cos) * down, moves[5] * _SHIFT),
    )
    maps = torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)
    grid = torch.nn.functional.affine_grid(maps, images.shape, align_corners=False)
    sample = torch.nn.functional.grid_sample
    return cast("Tensor", sample(images, grid, align_corners=False, padding_mode="border"))


def shuffled(n: int, batch: int, epochs: int, generator: Generator) -> list[Tensor]:
    """Return the rows of each step: every epoch a new order, without its last, incomplete batch."""
    whole = max(batch, n - n % batch)
    orders = [torch.randperm(n, generator=generator)[:whole] for _ in range(epochs)]
    return [rows for order in orders for rows in torch.split(order, batch)]


def _soft_cross_entropy(scores: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted mean of -sum_c target_c log softmax(scores)_c."""
    losses = -(targets * scores.log_softmax(dim=1)).sum(dim=1)
    return (losses * weights).sum() / weights.sum().clamp_min(_TINY)


def one_cycle(network: Module, rate: float, steps: int, decay: float) -> tuple[Any, Any]:
    """Return AdamW and a one-cycle schedule (Smith and Topin 2018) of `steps` steps."""
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
