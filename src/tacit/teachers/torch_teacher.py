"""Teachers that are torch modules with a training recipe.

Each is trained from its own seed on one thread, so that the same shard gives the same answers in
any process. Several modules side by side in processes of one thread train faster than one module
on several threads, since small networks do not fill them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from tacit._checks import at_least, non_negative, one_of, positive
from tacit._extras import need
from tacit.errors import InvalidArgument
from tacit.teachers.tasks import Shard

if TYPE_CHECKING:
    import torch

Augment = Callable[["torch.Tensor", "torch.Generator"], "torch.Tensor"]

_QUERIES = 1024  # queries that a network labels at a time


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a module is trained: `steps` of cross-entropy on random batches of the shard.

    `optimizer`: "adam", "adamw", "sgd" (momentum 0.9), or a function of (parameters,
    learning_rate) that makes one. `schedule`: "constant", or "cosine", which goes down to 0.
    `augment`: a function of (batch, generator) that takes its randomness from the generator.
    `channels_last` stores images as oneDNN's convolutions like them, about twice as fast on a CPU.

    >>> Recipe(steps=80, batch_size=64).optimizer
    'adam'
    """

    steps: int = 100
    batch_size: int = 32
    learning_rate: float = 1e-3
    optimizer: str | Callable[[Any, float], Any] = "adam"
    weight_decay: float = 0.0
    schedule: str = "constant"
    augment: Augment | None = None
    channels_last: bool = True

    def __post_init__(self) -> None:
        at_least(1, steps=self.steps)
        at_least(1, batch_size=self.batch_size)
        positive(learning_rate=self.learning_rate)
        non_negative(weight_decay=self.weight_decay)
        one_of("constant", "cosine", schedule=self.schedule)
        if not callable(self.optimizer):
            one_of("adam", "adamw", "sgd", optimizer=self.optimizer)


@dataclass(frozen=True, slots=True)
class TorchTeacher:
    """A torch module for each shard: `module_factory()` makes it, the recipe trains it.

    The module maps a float32 batch to (batch, n_classes) scores. `input_shape`, for example
    (1, 28, 28), gives flat rows the shape that it expects. Normalisation over a batch is safe: a
    batch is of one shard. Code that the factory calls is not part of a checkpoint's fingerprint:
    after changing it, use a new checkpoint directory.

    >>> from functools import partial
    >>> import torch
    >>> teacher = TorchTeacher(partial(torch.nn.Linear, 1, 2), Recipe(steps=50, learning_rate=0.1))
    >>> shard = Shard(np.array([[-1.0], [1.0]]), np.array([0, 1]), seed=3)
    >>> teacher.predict_shards([shard], np.array([[-2.0], [2.0]]), n_classes=2).tolist()
    [[0, 1]]
    """

    module_factory: Callable[[], torch.nn.Module]
    recipe: Recipe = field(default_factory=Recipe)
    input_shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _torch()
        if not callable(self.module_factory):
            raise InvalidArgument("Expected module_factory to be a function that makes a module.")

    def validate(self, X_query: NDArray[Any], *, n_classes: int) -> None:
        """Make a module and show it one public query: errors then appear before training."""
        torch = _torch()
        with one_torch_thread(seed=0):
            module = self.module_factory()
            if not isinstance(module, torch.nn.Module):
                raise InvalidArgument("Expected module_factory to return a torch.nn.Module.")
            scores = self._scores(module, self._tensor(X_query[:1]))
        if tuple(scores.shape) != (1, n_classes):
            raise InvalidArgument(
                f"Expected the module to map one query to scores of shape (1, {n_classes}), got "
                f"{tuple(scores.shape)}."
            )

    def predict_shards(
        self, shards: Sequence[Shard], X_query: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Train a module on each shard and let it label the queries."""
        queries = self._tensor(X_query)
        return np.array([self._predict(shard, queries) for shard in shards])

    def _predict(self, shard: Shard, queries: torch.Tensor) -> NDArray[np.int64]:
        with one_torch_thread(shard.seed):
            module = self._placed(self.module_factory())
            self._train(module, shard)
            scores = self._scores(module, queries)
        if not bool(scores.isfinite().all()):
            raise FloatingPointError  # training diverged: a vote of class 0 would hide it
        labels: NDArray[np.int64] = scores.argmax(dim=1).numpy()
        return labels

    def _train(self, module: torch.nn.Module, shard: Shard) -> None:
        torch, recipe = _torch(), self.recipe
        X, y = self._tensor(shard.X), torch.as_tensor(shard.y)
        generator = torch.Generator().manual_seed(shard.seed)
        optimizer = _optimizer(recipe, module.parameters())
        module.train()
        for step, batch in enumerate(_batches(len(y), recipe, generator)):
            _set_rate(optimizer, recipe, step)
            inputs = X[batch]
            if recipe.augment is not None:
                inputs = recipe.augment(inputs, generator)
            scores = module(self._placed(inputs))
            loss = torch.nn.functional.cross_entropy(scores, y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def _scores(self, module: torch.nn.Module, queries: torch.Tensor) -> torch.Tensor:
        library = _torch()
        module.eval()
        with library.inference_mode():
            parts = [
                module(self._placed(part)).float() for part in library.split(queries, _QUERIES)
            ]
        return cast("torch.Tensor", library.cat(parts))

    def _tensor(self, X: NDArray[Any]) -> torch.Tensor:
        tensor: torch.Tensor = _torch().as_tensor(np.array(X, dtype=np.float32, order="C"))
        return tensor if self.input_shape is None else tensor.reshape(len(X), *self.input_shape)

    def _placed(self, thing: Any) -> Any:
        """Store images and modules channels last, if the recipe says so."""
        torch = _torch()
        images = isinstance(thing, torch.nn.Module) or thing.ndim == 4
        if self.recipe.channels_last and images:
            return thing.to(memory_format=torch.channels_last)
        return thing


def _batches(n_records: int, recipe: Recipe, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Yield index batches of equal size, from one shuffling of the shard after another."""
    torch = _torch()
    size = min(recipe.batch_size, n_records)
    deck = torch.empty(0, dtype=torch.int64)
    for _ in range(recipe.steps):
        if len(deck) < size:
            deck = torch.cat([deck, torch.randperm(n_records, generator=generator)])
        yield deck[:size]
        deck = deck[size:]


def _optimizer(recipe: Recipe, parameters: Any) -> Any:
    if callable(recipe.optimizer):
        return recipe.optimizer(parameters, recipe.learning_rate)
    optim = _torch().optim
    common = {"lr": recipe.learning_rate, "weight_decay": recipe.weight_decay, "fused": True}
    if recipe.optimizer == "sgd":
        return optim.SGD(parameters, momentum=0.9, **common)
    return (optim.Adam if recipe.optimizer == "adam" else optim.AdamW)(parameters, **common)


def _set_rate(optimizer: Any, recipe: Recipe, step: int) -> None:
    if recipe.schedule == "cosine":
        rate = recipe.learning_rate * (1 + np.cos(np.pi * step / recipe.steps)) / 2
        for group in optimizer.param_groups:
            group["lr"] = float(rate)


@contextmanager
def one_torch_thread(seed: int) -> Iterator[None]:
    """One thread and a generator of one's own; afterwards both are as they were."""
    torch = _torch()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


def _torch() -> Any:
    return need("torch", "for a TorchTeacher", extra="torch")
