"""Kinds of teachers: closed form, scikit-learn estimators, torch modules with a recipe.

A teacher's arithmetic depends on its own shard and seed alone, on one thread: not even the last bit
of an answer depends on another teacher's records, or on the process that trained it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from tacit._checks import blocks, count, non_negative, one_of, positive, set_checked
from tacit._extras import torch
from tacit.errors import InvalidArgument
from tacit.teachers.tasks import Shard, TeacherFamily

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch.nn import Module

_CELLS = 1 << 22  # kernel values held at a time: 16 MiB in float32
_QUERIES = 1024  # queries at a time: 3 MiB of 768 features in float32


@dataclass(frozen=True, slots=True)
class KernelRidgeTeachers:
    """RBF kernel ridge classifiers: argmax_c of k(x, X) (K + alpha I)^-1 Y_c.

    k(x, x') = exp(-gamma |x - x'|^2); Y is 1 where a record is of class c, else 0. The defaults are
    for features of unit length (`digit_features`), chosen on USPS digits; gamma 0.5 to 2 and alpha
    0.001 to 0.03 are as good for 15 to 240 records. For other scales divide gamma by a typical
    |x|^2, known from public data.

    Parameters
    ----------
    gamma : float, of the kernel, above 0; public: never fitted to private records
    alpha : float, ridge on the kernel matrix, above 0
    precision : str
        "float32" or "float64": of the queries' kernel. The system is always solved in float64.
    balanced : bool
        Weigh the classes of a shard equally, for rare ones: a record's ridge is alpha over its
        weight, which is 1 on average.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(40) % 2
    >>> shard = Shard(rng.normal(size=(40, 2)) + 4 * y[:, None], y, seed=0)
    >>> KernelRidgeTeachers(gamma=0.5).predict_shards([shard], np.array([[0, 0], [4, 4]]),
    ...                                               n_classes=2).tolist()
    [[0, 1]]
    """

    teachers_per_task: ClassVar[int] = 32
    gamma: float = 1.0
    alpha: float = 0.01
    precision: str = "float32"
    balanced: bool = False

    def __post_init__(self) -> None:
        set_checked(self, gamma=positive, alpha=positive)
        one_of("float32", "float64", precision=self.precision)

    @classmethod
    def for_data(cls, data: Any, settings: Mapping[str, Any]) -> KernelRidgeTeachers:
        """Return the family of this name in run.toml, for images or rows of bins.

        Parameters
        ----------
        data : Dataset, of which only public facts are read: columns, the shape of images
        settings : mapping, the other settings of the method

        Returns
        -------
        KernelRidgeTeachers
        """
        if settings["features"] in (None, "none") and data.image_shape is None:
            raise InvalidArgument(
                "Expected features = 'bins' for teacher = 'kernel-ridge' of a table: distances of "
                "unscaled columns mean nothing. Or take teacher = 'logistic'."
            )
        # Rows of bins are nearer each other than digits; chosen on California housing.
        return cls(gamma=0.1) if settings["features"] == "bins" else cls()

    def validate(self, X_query: NDArray[Any], *, n_classes: int) -> None:
        """Refuse public queries that are not finite, before any teacher is trained.

        Parameters
        ----------
        X_query : array of shape (queries, features), public: an error may quote them
        n_classes : int, not used
        """
        self._rows(X_query)

    def predict_shards(
        self, shards: Sequence[Shard], X_query: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Solve each shard's system and label every query. Secret.

        Parameters
        ----------
        shards, X_query, n_classes : as in `TeacherFamily.predict_shards`

        Returns
        -------
        array of int of shape (shards, queries)
        """
        queries = self._rows(X_query)
        norms = _squared_norms(queries)
        labels = np.empty((len(shards), len(queries)), dtype=np.int64)
        fitted = [self._fit(shard, n_classes) for shard in shards]
        for block in blocks(len(queries), _QUERIES):  # it stays in cache for all shards
            for row, (records, own, weights) in zip(labels, fitted, strict=True):
                asked, lengths, said = queries[block], norms[block], row[block]
                for part in blocks(len(asked), _CELLS // len(records)):
                    kernel = self._kernel(asked[part], lengths[part], records, own)
                    said[part] = (kernel @ weights).argmax(axis=1)
        return labels

    def _fit(self, shard: Shard, n_classes: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return a teacher: its records, their squared norms, its classes' weights. Secret."""
        records = self._rows(shard.X)
        weights = self._weights(records.astype(np.float64), shard.y, n_classes)
        return records, _squared_norms(records), weights.astype(self.precision)

    def _weights(
        self, records: NDArray[np.float64], y: NDArray[np.int64], n_classes: int
    ) -> NDArray[Any]:
        from scipy.linalg import cho_factor, cho_solve

        norms = _squared_norms(records)
        system = self._kernel(records, norms, records, norms)
        system[np.diag_indices_from(system)] = 1.0 + self.alpha / self._weight(y, n_classes)
        factor = cho_factor(system, lower=True, overwrite_a=True)
        return np.asarray(cho_solve(factor, np.eye(n_classes)[y]))

    def _weight(self, y: NDArray[np.int64], n_classes: int) -> Any:
        """Return the weight of each record: by its own shard's counts, or 1."""
        if not self.balanced:
            return 1.0
        counts = np.bincount(y, minlength=n_classes)
        return len(y) / (np.count_nonzero(counts) * counts[y])

    def _kernel(
        self, left: NDArray[Any], left_norms: Any, right: NDArray[Any], right_norms: Any
    ) -> NDArray[Any]:
        """exp(-gamma |x - x'|^2), in place: one array of (left, right) is in memory."""
        cells: NDArray[Any] = left @ right.T
        cells *= 2
        cells -= left_norms[:, None]
        cells -= right_norms
        np.minimum(cells, 0, out=cells)
        cells *= self.gamma
        np.exp(cells, out=cells)
        return cells

    def _rows(self, X: NDArray[Any]) -> NDArray[Any]:
        rows = np.ascontiguousarray(np.reshape(X, (len(X), -1)), dtype=self.precision)
        if not np.isfinite(rows).all():
            raise InvalidArgument("Expected features to be finite numbers.")
        return rows


def _squared_norms(rows: NDArray[Any]) -> NDArray[Any]:
    return np.asarray((rows * rows).sum(axis=1))


@dataclass(frozen=True, slots=True)
class EstimatorTeachers:
    """A scikit-learn classifier or pipeline as a family of teachers.

    Every `random_state` inside it is replaced by a seed of the teacher's own.
    """

    estimator: Any

    @classmethod
    def for_data(cls, data: Any, settings: Mapping[str, Any]) -> None:
        """Return None: the method's own teacher, scaled logistic regression."""

    def predict_shards(
        self, shards: Sequence[Shard], X_query: NDArray[Any], *, n_classes: int
    ) -> NDArray[Any]:
        """Fit a clone on each shard and predict the queries."""
        return np.array([self._predict(shard, X_query) for shard in shards])

    def _predict(self, shard: Shard, X_query: NDArray[Any]) -> NDArray[Any]:
        from sklearn.base import clone

        with _seeded(shard.seed):
            fitted = _with_seeds(clone(self.estimator), shard.seed).fit(shard.X, shard.y)
            return np.asarray(fitted.predict(X_query))


def as_family(teacher: Any) -> TeacherFamily:
    """Return a family as it is, a scikit-learn estimator as a family."""
    if not isinstance(teacher, type):
        if isinstance(teacher, TeacherFamily):
            return teacher
        if all(hasattr(teacher, name) for name in ("fit", "predict", "get_params")):
            from sklearn.base import clone

            return EstimatorTeachers(clone(teacher))  # without anything that it has learned
    raise InvalidArgument(
        f"Expected teacher={getattr(teacher, '__name__', type(teacher).__name__)} to be a "
        "scikit-learn classifier or pipeline, a TorchTeacher, or a family with predict_shards."
    )


def may_print(family: Any) -> bool:
    """Return whether native code of teachers may print: they then need a worker process.

    tacit's own and scikit-learn's teachers do not, unless these are verbose.
    """
    if not isinstance(family, EstimatorTeachers):
        return not type(family).__module__.startswith("tacit.")
    settings = family.estimator.get_params(deep=True)
    parts = [family.estimator, *(each for each in settings.values() if hasattr(each, "fit"))]
    verbose = any(value for name, value in settings.items() if name.endswith("verbose"))
    return verbose or any(not type(each).__module__.startswith("sklearn.") for each in parts)


def scaled_logistic(**settings: Any) -> Any:
    """Return the default teacher: logistic regression on scaled columns."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=200, **settings))


class BalancedLogistic:
    """The default teacher with `class_weight="balanced"`, for rare classes.

    Labels and probabilities are then those of balanced classes.
    """

    @classmethod
    def for_data(cls, data: Any, settings: Mapping[str, Any]) -> Any:
        """Return scaled logistic regression with `class_weight="balanced"`, whatever the data."""
        return scaled_logistic(class_weight="balanced")


def _with_seeds(estimator: Any, seed: int) -> Any:
    """Seed every `random_state`, also of nested estimators, each in its own way."""
    stream = np.random.default_rng(seed)
    every = sorted(estimator.get_params(deep=True))
    names = [name for name in every if name.rpartition("__")[2] == "random_state"]
    return estimator.set_params(**{name: int(stream.integers(2**31)) for name in names})


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the global generators too, for estimators that use them, and restore them."""
    legacy = np.random.mtrand._rand  # the generator behind np.random.seed, shuffle and the like
    before, before_numpy = random.getstate(), legacy.get_state()
    random.seed(seed)
    legacy.seed(seed % 2**32)
    try:
        yield
    finally:
        random.setstate(before)
        legacy.set_state(before_numpy)


Augment = Callable[["Tensor", "Generator"], "Tensor"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a module is trained: `steps` of cross-entropy on random batches of the shard.

    Parameters
    ----------
    steps : int, how many batches a teacher is trained on
    batch_size : int, records in a batch; all of a shard that has fewer
    learning_rate : float, of the optimizer, above 0
    optimizer : str or callable
        "adam", "adamw", "sgd" (momentum 0.9), or a function of (parameters, learning_rate) that
        makes one.
    weight_decay : float, of the optimizers that are named by a word; 0 for none
    schedule : str, "constant", or "cosine", which goes down to 0
    augment : callable, optional, a function of (batch, generator), random by the generator alone
    channels_last : bool, layout of images, about twice as fast for convolutions on a CPU
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
        set_checked(self, steps=count, batch_size=count, learning_rate=positive)
        set_checked(self, weight_decay=non_negative)
        one_of("constant", "cosine", schedule=self.schedule)
        if not callable(self.optimizer):
            one_of("adam", "adamw", "sgd", optimizer=self.optimizer)


@dataclass(frozen=True, slots=True)
class TorchTeacher:
    """A torch module for each shard: `module_factory()` makes it, the recipe trains it.

    Normalisation over a batch is safe: a batch is of one shard. Code that the factory calls is not
    part of a checkpoint's fingerprint: after changing it, use a new checkpoint directory. It needs
    `tacit[torch]`.

    Parameters
    ----------
    module_factory : callable
        Takes nothing and makes a module that maps a float32 batch to (batch, n_classes) scores. It
        is called once for each teacher, in a generator seeded for that teacher.
    recipe : Recipe, optional, how each module is trained
    input_shape : tuple of int, optional, of a row for the module, such as (1, 28, 28)
    """

    module_factory: Callable[[], Module]
    recipe: Recipe = field(default_factory=Recipe)
    input_shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        torch.need()
        if not callable(self.module_factory):
            raise InvalidArgument("Expected module_factory to be a function that makes a module.")

    def validate(self, X_query: NDArray[Any], *, n_classes: int) -> None:
        """Run a new module on one public query: errors then appear before training.

        Parameters
        ----------
        X_query : array of shape (queries, ...), public: an error may quote them
        n_classes : int, how many scores the module must give a query
        """
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
        """Train a module on each shard and let it label the queries. Secret.

        Parameters
        ----------
        shards, X_query, n_classes : as in `TeacherFamily.predict_shards`

        Returns
        -------
        array of int of shape (shards, queries)
        """
        queries = self._tensor(X_query)
        return np.array([self._predict(shard, queries) for shard in shards])

    def _predict(self, shard: Shard, queries: Tensor) -> NDArray[np.int64]:
        with one_torch_thread(shard.seed):
            module = self._placed(self.module_factory())
            self._train(module, shard)
            scores = self._scores(module, queries)
        if not bool(scores.isfinite().all()):
            raise FloatingPointError  # training diverged: a vote of class 0 would hide it
        labels: NDArray[np.int64] = scores.argmax(dim=1).numpy()
        return labels

    def _train(self, module: Module, shard: Shard) -> None:
        recipe = self.recipe
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

    def _scores(self, module: Module, queries: Tensor) -> Tensor:
        module.eval()
        with torch.inference_mode():
            blocks = torch.split(queries, _QUERIES)
            parts = [module(self._placed(block)).float() for block in blocks]
        return cast("Tensor", torch.cat(parts))

    def _tensor(self, X: NDArray[Any]) -> Tensor:
        tensor: Tensor = torch.as_tensor(np.array(X, dtype=np.float32, order="C"))
        return tensor if self.input_shape is None else tensor.reshape(len(X), *self.input_shape)

    def _placed(self, thing: Any) -> Any:
        """Store images and modules channels last, if the recipe says so."""
        images = isinstance(thing, torch.nn.Module) or thing.ndim == 4
        if self.recipe.channels_last and images:
            return thing.to(memory_format=torch.channels_last)
        return thing


def _batches(n_records: int, recipe: Recipe, generator: Generator) -> Iterator[Tensor]:
    """Yield index batches of equal size, from one shuffling of the shard after another."""
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
    optim = torch.optim
    kinds = {"adam": optim.Adam, "adamw": optim.AdamW, "sgd": partial(optim.SGD, momentum=0.9)}
    rates = {"lr": recipe.learning_rate, "weight_decay": recipe.weight_decay}
    return kinds[recipe.optimizer](parameters, **rates, fused=True)


def _set_rate(optimizer: Any, recipe: Recipe, step: int) -> None:
    if recipe.schedule == "cosine":
        rate = recipe.learning_rate * (1 + np.cos(np.pi * step / recipe.steps)) / 2
        for group in optimizer.param_groups:
            group["lr"] = float(rate)


@contextmanager
def one_torch_thread(seed: int) -> Iterator[None]:
    """Use one thread and a separate generator; afterwards both are restored."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
