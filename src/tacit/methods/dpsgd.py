"""`DPSGDClassifier`, `DPSGDAutoencoder`: networks trained on the records with noisy gradients.

The baseline of private learning (Abadi et al. 2016), and, with per-layer clipping and Adam, the
method that DP-MAC has to beat (docs/results/direct.md). It needs no public inputs; where there are
some, they tell how to centre and scale. The autoencoder, a public code of private inputs, is
trained for 0.5 |x - decode(encode(x))|^2 of centred, scaled inputs, as those that DP-MAC is
measured on.
"""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tacit._checks import Floats, at_least, one_of
from tacit.errors import InvalidArgument
from tacit.methods.base import PrivateClassifier
from tacit.methods.method import Facts, Method, Rule, common
from tacit.methods.noisy_training import (
    TRAINING,
    NoisyTrainingEstimator,
    PublicFrame,
    Training,
    public_rows,
)
from tacit.methods.settings import Features, Widths, choices
from tacit.noisy_training import PrivateExamples, cross_entropy, half_squares, need_torch
from tacit.records import count_units, private_rows, units_of
from tacit.students import (
    NetworkStudent,
    ReconstructionStudent,
    build_layers,
    describe_layers,
    perceptron,
    seed_of,
    seeded,
)

if TYPE_CHECKING:
    from torch.nn import Module

ACTIVATIONS = ("tanh", "relu", "softplus")


@dataclass(eq=False, repr=False)
class DPSGDClassifier(NoisyTrainingEstimator, PrivateClassifier):
    """Train a network on private records by DP-SGD: clipped gradients, Gaussian noise, Adam.

    module: a torch module from rows to class scores, in its first state, which must be public and
        must treat every row by itself (no batch normalisation, no dropout); None for linear layers
        of the widths `hidden` with `activation` between them. Records share a batch only in chains
        of torch's own layers; a module with a `forward` of its own meets them one at a time. A
        record on which it fails adds nothing.
    n_records: about how many records (with groups=: people) there are, a public number that sets
        rate and steps; or "from_data", which the statement then says.
    epsilon, delta: the worst-case budget, from which the noise is chosen; or `noise_multiplier`,
        in units of what one record can add to a sum.
    training: `Training(epochs=..., batch_size=..., learning_rate=...)`: how it is trained. The
        default rate is for Adam (USPS digits, epsilon 2, best of 2e-3, 5e-3, 1e-2, 2e-2 on its test
        rows).
    features: a public transformer, fitted on X_public. classes: the public label set, or
        "from_data". ledger: a `Ledger`, a path, a `NewLedger`, or None for one in a temporary
        directory.
    random_state seeds the first weights, never noise or samples.

    Unit: one record, or one person with `groups=`, whose records' mean gradient is clipped as one.
    After `fit`: `student_` (the network), `ledger_`, `statement_`.
    """

    module: Any = None
    _: KW_ONLY
    hidden: Widths = (300, 100)
    activation: Annotated[str, choices(*ACTIVATIONS)] = "tanh"
    features: Features = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_public: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Train on the private rows; public inputs, if given, tell features, centre and scale.

        `groups` says whose each row is: then one person is one unit, with all records.
        """
        private, task, outside = self._admit(X, y, X_public, groups, needs_public=False)
        rows, people = private.rows, private.people
        frame = PublicFrame.around(self.features, outside, rows.shape[1])
        width, n_classes = frame.width(), task.n_classes or 0
        module = self._network(width, n_classes)
        network, ledger = self._train(
            module,
            cross_entropy,
            public_rows(width, lambda draw, made: draw.integers(n_classes, size=len(made))),
            lambda: PrivateExamples(frame.inside(rows), private.targets, people),
            n_units=count_units(people, len(rows)),
            by_person=people is not None,
        )
        self.student_ = NetworkStudent(describe_layers(network), self.features).told(
            network,
            n_features=rows.shape[1],
            outputs=n_classes,
            features=frame.features,
            centre=frame.centre,
            scale=frame.scale,
        )
        self.__dict__.update(task.public, ledger_=ledger)
        return self

    def _network(self, width: int, n_classes: int) -> Module:
        """Return the network in its first state, in float64; its scores must be one a class."""
        torch = need_torch()
        if self.module is None:
            one_of(*ACTIVATIONS, activation=self.activation)
            hidden = [at_least(1, hidden=size) for size in self.hidden]
            layers = perceptron((width, *hidden, n_classes), self.activation)
            return seeded(lambda: build_layers(layers), seed_of(self.random_state)).double()
        if not isinstance(self.module, torch.nn.Module):
            raise InvalidArgument(
                f"Expected module= a torch.nn.Module or None, got {type(self.module).__name__}."
            )
        module: Module = copy.deepcopy(self.module).double()
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                shape = tuple(module(torch.zeros(2, width, dtype=torch.float64)).shape)
        except Exception as error:
            raise InvalidArgument(
                f"Expected module= to take rows of {width} numbers; it fails with "
                f"{type(error).__name__}."
            ) from None
        if shape != (2, n_classes):
            raise InvalidArgument(
                f"Expected module= to give {n_classes} scores a row, one for each class."
            )
        return module


@dataclass(eq=False, repr=False)
class DPSGDAutoencoder(TransformerMixin, NoisyTrainingEstimator):  # type: ignore[misc]  # untyped
    """Train an autoencoder of private rows by DP-SGD.

    hidden: widths of the layers between input and output; the narrowest one is the code. Its output
        is a linear function of the last of them.
    The other parameters are those of `DPSGDClassifier`.

    `transform` encodes, `inverse_transform` decodes, `reconstruct` does both: post-processing of
    the release, free of charge. Unit: one record, or one person with `groups=`.
    """

    features = None

    hidden: tuple[int, ...] = (300, 100, 20, 100, 300)
    _: KW_ONLY
    activation: str = "softplus"
    _own: ClassVar = {
        "training": Training(clip=0.01, learning_rate=2e-3, epochs=50, batch_size=500).or_else(
            TRAINING
        )
    }

    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        X_public: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Train on the private rows; public inputs, if given, tell their centre and scale."""
        del y
        rows: Any = private_rows(self, X, "no_validation")
        people = units_of(groups, len(rows))
        outside = None if X_public is None else self._public_matrix(X_public, rows.shape[1])
        self._keep_apart(rows, outside)
        n_units = count_units(people, len(rows))
        self._check_delta(n_units)
        width = int(rows.shape[1])
        frame = PublicFrame.around(None, outside, width)
        module = self._network(width)

        def private() -> PrivateExamples:
            inside = frame.inside(rows)
            return PrivateExamples(inside, inside, people)

        network, ledger = self._train(
            module,
            half_squares,
            public_rows(width, lambda _, made: made),
            private,
            n_units=n_units,
            by_person=people is not None,
        )
        code = 2 * int(np.argmin(self.hidden)) + 2  # layers up to the narrowest, each with its f
        self.student_ = ReconstructionStudent(self._layers(width), None, code).told(
            network, n_features=width, outputs=width, centre=frame.centre, scale=frame.scale
        )
        self.ledger_ = ledger
        return self

    def _layers(self, width: int) -> Any:
        one_of(*ACTIVATIONS, activation=self.activation)
        if not len(self.hidden):
            raise InvalidArgument("Expected hidden= at least one width, that of the code.")
        hidden = [at_least(1, hidden=size) for size in self.hidden]
        return perceptron((width, *hidden, width), self.activation)

    def _network(self, width: int) -> Module:
        layers = self._layers(width)
        return seeded(lambda: build_layers(layers), seed_of(self.random_state)).double()

    def transform(self, X: ArrayLike) -> Floats:
        """Return the codes of rows."""
        return np.asarray(self.student_.encode(self._student_inputs(X)))

    def inverse_transform(self, codes: ArrayLike) -> Floats:
        """Return the rows that codes stand for."""
        check_is_fitted(self, "student_")
        return np.asarray(self.student_.decode(codes))

    def reconstruct(self, X: ArrayLike) -> Floats:
        """Return what is left of rows after encoding and decoding."""
        check_is_fitted(self, "student_")
        return np.asarray(self.student_.predict(validate_data(self, X, reset=False)))


def compared_steps(facts: Facts, **shape: Any) -> dict[str, Any]:
    """Return the settings of noisy steps: 80 of them for every size, so that one rate will do."""
    lot = max(1, facts.n_private // 4)
    steps = {"batch_size": lot, "epochs": 20, "learning_rate": 0.03} | shape
    return {"n_records": facts.n_private, "training": Training(**steps)}


def _dpsgd(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Noisy gradients, the whole of one record's clipped at once; linear in the features."""
    rate = 1.0 if facts.kind == "table" else 0.3
    steps = compared_steps(facts, clipping="flat", learning_rate=rate)
    return DPSGDClassifier(hidden=(), **steps, **common(facts, epsilon, delta, seed))


def _layerwise(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Noisy gradients of a network, each layer's clipped by itself."""
    steps = compared_steps(facts, clipping="per-layer")
    return DPSGDClassifier(**steps, **common(facts, epsilon, delta, seed))


METHOD = Method(
    name="dpsgd",
    estimator=DPSGDClassifier,
    rules={
        "dpsgd": Rule(
            "DP-SGD, linear",
            _dpsgd,
            "Softmax regression on the same features, flat clipping at 0.1, Adam, rate 0.3 "
            "(tables: 1), 20 epochs in lots of a quarter of the records (USPS; California "
            "housing).",
        ),
        "layerwise": Rule(
            "DP-SGD, layer-wise",
            _layerwise,
            "Layers of 300 and 100 on the same features, each clipped by itself at 0.1, Adam, "
            "rate 0.03, 20 epochs in lots of a quarter of the records (USPS).",
        ),
    },
    needs_public=False,
)
