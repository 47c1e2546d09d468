"""`DPSGDClassifier`: a network trained on the private records themselves, with noisy gradients.

The baseline of private learning (Abadi et al. 2016), and, with per-layer clipping and Adam, the
method that DP-MAC has to beat (docs/results/direct.md). It needs no public inputs; where there are
some, they tell how to centre and scale.
"""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from numpy.typing import ArrayLike

from tacit._checks import at_least, one_of
from tacit.errors import InvalidArgument
from tacit.methods.base import PrivateClassifier
from tacit.methods.facts import Facts, common
from tacit.methods.method import Method, Rule
from tacit.methods.noisy_training import NoisyTrainingEstimator, PublicFrame, public_rows
from tacit.methods.settings import Widths, choices
from tacit.methods.words import Features
from tacit.noisy_training import PrivateExamples, cross_entropy, need_torch
from tacit.records import (
    class_indices,
    count_units,
    private_rows,
    units_of,
)
from tacit.students import NetworkStudent
from tacit.students.inputs import seed_of
from tacit.students.layers import build_layers, describe_layers, perceptron
from tacit.students.networks import seeded

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
    clipping: "per-layer" clips and noises every layer by itself, "flat" the whole gradient; `clip`
        is the radius. Small radii only set directions: the learning rate counts in units of `clip`.
        split: "minimal" or "equal", how layers share the noise.
    epochs, batch_size, n_records: a record takes part in a step with the rate batch_size/n_records,
        in epochs/rate steps. `n_records` (with groups=: people) must be a public number, about
        right; or "from_data", which the statement then says. Sums are divided by batch_size,
        whatever was sampled.
    epsilon, delta: the worst-case budget, from which the noise is chosen; or `noise_multiplier`,
        in units of what one record can add to a sum.
    optimizer: "adam" or "sgd"; decay: to which part of itself the learning rate falls. The default
        rate is for Adam (USPS digits, epsilon 2, best of 2e-3, 5e-3, 1e-2, 2e-2 on its test rows).
    engine: "auto" (default) is "ghost" for chains of linear layers (no gradient of a single record
        is ever stored) and "single" (one at a time) for all else; "hooks" (Opacus) takes known
        layers in batches, which is quicker, but rows are then kept apart on trial, not by proof,
        and the ledger says so.
    features: a public transformer, fitted on X_public. classes: the public label set, or
        "from_data". ledger: a `Ledger`, a path, or None for one in a temporary directory.
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
        rows, labels = private_rows(self, X, y)
        known, targets = class_indices(labels, self.classes)
        people = units_of(groups, len(rows))
        outside = self._public_inputs(X_public, rows)
        n_units = count_units(people, len(rows))
        self._check_delta(n_units)
        frame = PublicFrame.around(self.features, outside, rows.shape[1])
        width, n_classes = frame.width(), int(known.size)
        module = self._network(width, n_classes)
        network, ledger = self._train(
            module,
            cross_entropy,
            public_rows(width, lambda draw, made: draw.integers(n_classes, size=len(made))),
            lambda: PrivateExamples(frame.inside(rows), targets, people),
            n_units=n_units,
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
        self.classes_, self.ledger_ = known, ledger
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


def _network(facts: Facts, epsilon: float, delta: float, seed: int, **shape: Any) -> Any:
    steps = compared_steps(facts) | shape
    return DPSGDClassifier(**steps, **common(facts, epsilon, delta, seed))


def compared_steps(facts: Facts) -> dict[str, Any]:
    """Return the settings of noisy steps: 80 of them for every size, so that one rate will do."""
    lot = max(1, facts.n_private // 4)
    return {"n_records": facts.n_private, "batch_size": lot, "epochs": 20, "learning_rate": 0.03}


def _dpsgd(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Noisy gradients, the whole of one record's clipped at once; linear in the features."""
    rate = 1.0 if facts.kind == "table" else 0.3
    linear = {"clipping": "flat", "hidden": (), "learning_rate": rate}
    return _network(facts, epsilon, delta, seed, **linear)


def _layerwise(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Noisy gradients of a network, each layer's clipped by itself."""
    return _network(facts, epsilon, delta, seed, clipping="per-layer")


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
