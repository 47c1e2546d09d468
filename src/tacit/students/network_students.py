"""Students that are a network: trained elsewhere in noisy steps, or here, on public inputs.

`NetworkStudent` and `ReconstructionStudent` do not learn: they hold public weights, the public
centre and scale of their inputs, and the public features. `CNNStudent` learns the labels that a
`LabelSpreadingStudent` spread over all public images from randomly moved copies of them, which
smooths over the graph's mistakes. `VATStudent` is virtual adversarial training (Miyato, Maeda,
Koyama and Ishii 2018), the student of PATE 2018: the labelled loss comes from the released
posteriors, the smoothness loss from all public inputs. Public inputs and releases only: nothing
private ever enters this floor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tacit._checks import Floats, at_least, finite, finite_array, non_negative, positive, refuse
from tacit.errors import InvalidArgument
from tacit.students.base import (
    BaseStudent,
    Lesson,
    PublicLearner,
    flat_rows,
    normalised,
    row_numbers,
    seed_of,
)
from tacit.students.graph import LabelSpreadingStudent, nearest
from tacit.students.networks import (
    CHANNELS,
    build_layers,
    class_probabilities,
    convolutional,
    dense,
    image_planes,
    images_of,
    moved,
    need_torch,
    outputs_of,
    part_of,
    random_affine,
    seeded,
    set_weights,
    shuffled,
    soft_cross_entropy,
    train,
    weights_of,
)
from tacit.students.posterior import answer_weights

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch.nn import Module

_VIEW = 0.4  # how far a test-time view moves, relative to the augmentation
_PROBE = 1e-2  # length of the first guess of the adversarial direction, relative to the radius
_TINY = 1e-12
_LEAST_SCALE = 1e-3  # of the largest
_SAMPLE = 1000  # public inputs from which the scale of the radius is measured


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
        setattr(self, self._count_name, outputs)
        self.n_features_in_, self.features_ = n_features, features
        self.centre_ = np.atleast_1d(finite_array(centre=centre))
        self.scale_ = positive(scale=scale)
        self.network_ = network.eval()
        return self

    def _tensor(self, inputs: NDArray[Any]) -> Tensor:
        return self._cast((self._view(inputs, np.float64) - self.centre_) / self.scale_)

    def _cast(self, rows: Floats) -> Tensor:
        tensor: Tensor = need_torch().from_numpy(rows)
        return tensor.to(next(self.network_.parameters()).dtype)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        if self.layers is None:
            raise InvalidArgument(
                "Expected a chain of layers that tacit can describe (Linear, Conv2d, Tanh, ...) "
                "to save; keep student_.network_.state_dict() with torch instead."
            )
        weights = weights_of(self.network_, "weight.")
        return {"centre": self.centre_, "scale": np.array([self.scale_]), **weights}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.centre_ = finite_array(centre=arrays["centre"])
        self.scale_ = positive(scale=arrays["scale"].ravel()[0])
        network = build_layers(self.layers)
        if any(array.dtype == np.float64 for array in part_of(arrays, "weight.").values()):
            network = network.double()
        self.network_ = set_weights(network, arrays, "weight.").eval()


@dataclass(eq=False, repr=False)
class NetworkStudent(_Trained, BaseStudent):
    """A network of classes, trained elsewhere; probabilities are its softmax.

    layers: its layers as plain data (`describe_layers`), None for one that cannot be saved.

    >>> from tacit.students import build_layers, perceptron
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

    _count_name: ClassVar[str] = "n_outputs_"

    layers: Any = None
    features: Any = None
    bottleneck: int = 0

    def fit(self, X_public: ArrayLike) -> Self:
        """Refuse: the weights are learned in noisy steps, elsewhere, and come by `told`."""
        raise _taught_elsewhere()

    def predict(self, X: ArrayLike) -> Floats:
        """Return reconstructions (inputs, numbers), in the units of the inputs."""
        parts = [self._outputs(slice(None), self._tensor(block)) for block in self._blocks(X)]
        return np.asarray(np.concatenate(parts) * self.scale_ + self.centre_)

    def encode(self, X: ArrayLike) -> Floats:
        """Return codes (inputs, length): what the narrowest layer says."""
        layers = slice(self.bottleneck)
        return np.concatenate([self._outputs(layers, self._tensor(one)) for one in self._blocks(X)])

    def decode(self, codes: ArrayLike) -> Floats:
        """Return the reconstructions of codes."""
        values = self._outputs(slice(self.bottleneck, None), self._cast(finite_array(codes=codes)))
        return np.asarray(values * self.scale_ + self.centre_)

    def _outputs(self, layers: slice, rows: Tensor) -> Floats:
        return np.asarray(outputs_of(self.network_[layers], rows).numpy())  # type: ignore[index]


def _taught_elsewhere() -> InvalidArgument:
    return InvalidArgument("Expected told(...): the weights are learned in noisy steps, elsewhere.")


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
        image_planes(self.image_shape, self.n_features_in_)
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
        self.network_ = self._train(self._images(pixels), self.graph_.spread_)

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
        image = image_planes(self.image_shape, self.n_features_in_)
        return convolutional(image, self.n_classes_, widths)

    def _images(self, pixels: NDArray[Any]) -> Tensor:
        image = image_planes(self.image_shape, self.n_features_in_)
        return images_of(pixels, image, self.mean_, self.scale_)

    def _train(self, images: Tensor, posterior: Floats) -> Module:
        torch = need_torch()
        seed, batch = seed_of(self.random_state), at_least(2, batch_size=self.batch_size)
        network = seeded(self._network, seed)
        generator = torch.Generator().manual_seed(seed)
        targets = torch.from_numpy(posterior.astype(np.float32))
        weights = torch.from_numpy(answer_weights(posterior).astype(np.float32))
        steps = shuffled(len(images), batch, at_least(1, epochs=self.epochs), generator)

        def loss(rows: Tensor) -> Tensor:
            chosen = images[rows]
            chosen = random_affine(chosen, generator) if self.augment else chosen
            return soft_cross_entropy(network(chosen), targets[rows], weights[rows])

        rates = {"learning_rate": self.learning_rate, "weight_decay": self.weight_decay}
        return train(network, steps, loss, **rates)

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        torch = need_torch()
        images = self._images(self._pixels(inputs))
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
        images = self._images(self._pixels(flat_rows(X=X)))
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
        view = self._network_view(lesson.inputs)
        self.mean_, self.scale_ = self._scaling(view)
        inputs = self._prepared(view)
        flat = inputs.flatten(start_dim=1).numpy()[:_SAMPLE]
        self.reach_ = positive(radius=self.radius) * _typical_gap(flat)
        self.network_ = self._train(inputs, lesson)

    def _network_view(self, inputs: NDArray[Any]) -> NDArray[Any]:
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
            image = image_planes(self.image_shape, self.n_features_in_)
            return images_of(view, image, self.mean_[0], self.scale_[0])
        scaled = (view - self.mean_) / self.scale_
        tensor: Tensor = need_torch().from_numpy(scaled.astype(np.float32))
        return tensor

    def _new_network(self, seed: int) -> Module:
        classes = len(self.classes_seen_)
        if self.image_shape is None:
            return seeded(lambda: dense(len(self.mean_), classes), seed)
        image = image_planes(self.image_shape, self.n_features_in_)
        return seeded(lambda: convolutional(image, classes), seed)

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

        def loss(_: int) -> Tensor:
            asked = torch.randint(len(rows), (batch // 2,), generator=generator)
            free = inputs[torch.randint(len(inputs), (batch,), generator=generator)]
            scores = network(torch.cat([inputs[rows[asked]], free]))
            known = soft_cross_entropy(scores[: len(asked)], targets[asked], weights[asked])
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
        prepared = self._prepared(self._network_view(inputs))
        scores[:, self.classes_seen_] = class_probabilities(self.network_, prepared)
        return scores

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = weights_of(self.network_, "network.")
        return arrays | {"mean": self.mean_, "scale": self.scale_, "seen": self.classes_seen_}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.mean_ = finite_array(mean=arrays["mean"])
        self.scale_ = finite_array(scale=arrays["scale"])
        self.classes_seen_ = row_numbers(arrays["seen"], self.n_classes_)
        self.network_ = set_weights(self._new_network(0), arrays, "network.").eval()


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
