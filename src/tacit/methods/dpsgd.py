"""`DPSGDClassifier`, `DPSGDAutoencoder`: networks trained on the records with noisy gradients.

Abadi et al. 2016 with per-layer clipping and Adam, the method that DP-MAC has to beat
(docs/results/direct.md). It needs no public inputs; given ones set centre and scale.
"""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tacit._checks import Floats, at_least, one_of
from tacit._extras import torch
from tacit.errors import InvalidArgument
from tacit.methods.base import PrivateClassifier, RowEstimator, Task
from tacit.methods.forecast import (
    UNDECLARED,
    Forecast,
    JudgedEstimator,
    no_forecast,
    strength_forecast,
)
from tacit.methods.linear_steps import LINEAR, clip_and_rate, steps_borne
from tacit.methods.method import Facts, Method, Rule, common, with_defaults
from tacit.methods.noisy_training import (
    TRAINING,
    NoisyTrainingEstimator,
    PublicFrame,
    Training,
    public_rows,
    recipe_of,
    steps_outline,
)
from tacit.methods.settings import CHECKS, Features, Widths, choices
from tacit.noisy_training import (
    ACTIVATIONS,
    PrivateExamples,
    cross_entropy,
    half_squares,
    set_parameters,
    trained_parameters,
)
from tacit.privacy import calibrate_gaussian
from tacit.records import NoTargets, PrivateRecords, is_from_data
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

    from tacit.noisy_training import Recipe

_LOTS = 4
"""Of a softmax regression: a step sees one record in four."""


NO_FORECAST = no_forecast(
    "how much noisy steps learn depends on gradients, which nobody knows before. Of records that "
    "speak once, those that weigh less than n mu = 150 deviations of the noise learned little."
)
"""What is said of noisy steps before they are taken."""


@dataclass(eq=False, repr=False)
class DPSGDClassifier(NoisyTrainingEstimator, PrivateClassifier, JudgedEstimator):
    """Train a network on private records by DP-SGD: clipped gradients, Gaussian noise, Adam.

    Parameters
    ----------
    module : torch module, optional
        From rows to class scores, in its first state, which must be public and must treat every
        row by itself (no batch normalisation, no dropout); None for linear layers of the widths
        `hidden` with `activation` between them. For Python alone. Records share a batch only in
        chains of torch's own layers. A record on which it fails adds nothing.
    epsilon, delta, ledger, allow_overlap, noise, random_state, checks, classes
        As in `PrivateClassifier`: budget, ledger, noise, seed, checks, label set.
    n_records : int or str
        About how many records (with `groups=`: people) there are, a public number that sets rate
        and steps; required. "from_data" counts them, which the statement then states.
    noise_multiplier : float, optional
        Deviation of the noise on each sum, in units of what one record can add to it; by default
        chosen from epsilon and delta.
    training : Training, optional
        `Training(epochs=..., batch_size=..., learning_rate=...)`: how it is trained; each of its
        parts is a key in run.toml. The default rate is for Adam (USPS digits, epsilon 2, best of
        2e-3, 5e-3, 1e-2, 2e-2 on its test rows). Without hidden layers the defaults are those of
        `DescentClassifier` (clip sqrt(features)/4, rate 50/sqrt(features), momentum, steps from n
        mu), in lots of a quarter of the records; another `batch_size` leaves the epochs, so that
        steps are others.
    hidden : tuple of int
        Widths of the hidden layers, (300, 100) by default; () is softmax regression. In run.toml:
        a list.
    activation : str
        "tanh" (default), "relu" or "softplus", between the layers.
    features : transformer, optional
        A public one for private and public inputs alike, fitted on `X_public`; without public
        inputs it must be fitted already, or one of tacit's that learn nothing. None for the inputs
        themselves. In run.toml: "none", "digits" or "images", "bins" (declared columns) or
        "whitened".

    Notes
    -----
    Without `X_public`, which sets features, centre and scale, columns are expected to have mean 0
    and size 1, about, by public numbers, or to come out of whitening fitted on public rows. Unit:
    one record, or one person with `groups=`, whose records' mean gradient is clipped as one. In
    run.toml: `method = "dpsgd"`, table `[dpsgd]`. Abadi et al. 2016;
    `docs/theory/direct.md#one-step`.
    """

    module: Any = None
    _: KW_ONLY
    hidden: Widths = (300, 100)
    activation: Annotated[str, choices(*ACTIVATIONS)] = "tanh"
    features: Features = None
    _own: ClassVar[dict[str, Any]] = {"training": TRAINING, "checks": CHECKS}

    _needs_public: ClassVar[bool] = False

    def _learn(self, private: PrivateRecords, task: Task, outside: Any) -> None:
        """Train on the private rows; public inputs, if given, set features, centre and scale."""
        self._judge(self._foreseen())
        n_features, n_classes = private.rows.shape[1], task.n_classes or 0
        frame = PublicFrame.around(self._view(), outside, n_features)
        width = frame.width()
        network, ledger = self._train(
            self._network(width, n_classes),
            cross_entropy,
            public_rows(width, lambda draw, made: draw.integers(n_classes, size=len(made))),
            lambda: PrivateExamples(frame.inside(private.rows), private.targets, private.people),
            n_units=private.n_units,
            by_person=private.by_person,
        )
        student = NetworkStudent(describe_layers(network), self._view())
        self.student_ = frame.told(student, network, n_features, n_classes)
        self.__dict__.update(task.public, ledger_=ledger)
        self._check_scores(private, ledger, outside)

    @property
    def _by_strength(self) -> bool:
        """Whether it is a softmax regression, whose settings follow from n mu."""
        return self.module is None and not self.hidden

    def _foreseen(self) -> Forecast:
        """Return the forecast of noisy descent for softmax regression; none for other networks."""
        if not self._by_strength or self.noise_multiplier is not None:
            return NO_FORECAST
        if is_from_data(self.n_records) or self.n_records is None:
            return UNDECLARED
        return strength_forecast(self._declared_size(0), self._own_mu())

    def _recipe_for(self, module: Module, size: int) -> tuple[Recipe, float]:
        """Return the recipe; that of a softmax regression follows from n mu."""
        if not self._by_strength:
            return self._recipe(size)
        lot = max(1, size // _LOTS)
        # Half a step less, so that rounding never makes it one more.
        epochs = (steps_borne(size * self._own_mu()) - 0.5) * lot / size
        clip, rate = clip_and_rate(module)
        own = replace(LINEAR, batch_size=lot, epochs=epochs, clip=clip, learning_rate=rate)
        return recipe_of(Training.of(training=self.training).or_else(own), size)

    def _own_mu(self) -> float:
        """Return mu of the budget. With a given noise multiplier, ignore the ledger's RDP order."""
        if self.noise_multiplier is None:
            return 1 / self._gaussian_noise()
        budget = self._budget()
        return 1 / calibrate_gaussian(1.0, budget.epsilon, budget.delta)

    def _network(self, width: int, n_classes: int) -> Module:
        """Return the network in its first state, in float64; it must have one score a class."""
        if self._by_strength:
            return zero_layers(width, n_classes)
        if self.module is None:
            return first_state(self, layers_of(self, width, n_classes))
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
class DPSGDAutoencoder(TransformerMixin, NoisyTrainingEstimator, RowEstimator):  # type: ignore[misc]  # untyped
    """Train an autoencoder of private rows by DP-SGD.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the layers between input and output, at least one; the narrowest is the code. The
        output is a linear function of the last of them.
    epsilon, delta, ledger, allow_overlap, noise, random_state
        As in `PrivateEstimator`: budget, ledger, noise, seed.
    n_records, noise_multiplier
        As in `DPSGDClassifier`.
    training : Training, optional
        As in `DPSGDClassifier`, but with clip 0.01, rate 2e-3, 50 epochs and lots of 500 by
        default.
    activation : str
        "tanh" (default, as in DP-MAC's autoencoder: on MNIST images shrunk to 16 x 16 at epsilon 2
        its summed squared error is 11.8, ReLU's 17.0, softplus' 23.0), "relu" or "softplus".

    Notes
    -----
    It is trained for 0.5 |x - decode(encode(x))|^2 of centred, scaled inputs; `X_public`, if
    given, sets centre and scale. `transform` encodes, `inverse_transform` decodes, `reconstruct`
    does both, free of charge. Unit: one record, or one person with `groups=`, whose records' mean
    gradient is clipped as one. For Python alone. Abadi et al. 2016;
    `docs/theory/direct.md#one-step`.
    """

    features = None

    hidden: tuple[int, ...] = (300, 100, 20, 100, 300)
    _: KW_ONLY
    activation: str = "tanh"
    _own: ClassVar[dict[str, Any]] = {
        "training": Training(clip=0.01, learning_rate=2e-3, epochs=50, batch_size=500).or_else(
            TRAINING
        )
    }

    _needs_public: ClassVar[bool] = False
    _needs_y: ClassVar[bool] = False

    def _target(self, y: Any = None) -> NoTargets:
        return NoTargets()

    def _learn(self, private: PrivateRecords, task: Task, outside: Any) -> None:
        if not len(self.hidden):
            raise InvalidArgument("Expected hidden= at least one width, that of the code.")
        width = int(private.rows.shape[1])
        frame = PublicFrame.around(None, outside, width)
        layers = layers_of(self, width, width)

        def examples() -> PrivateExamples:
            inside = frame.inside(private.rows)
            return PrivateExamples(inside, inside, private.people)

        network, self.ledger_ = self._train(
            first_state(self, layers),
            half_squares,
            public_rows(width, lambda _, made: made),
            examples,
            n_units=private.n_units,
            by_person=private.by_person,
        )
        code = 2 * int(np.argmin(self.hidden)) + 2  # layers up to the narrowest, each with its f
        student = ReconstructionStudent(layers, None, code)
        self.student_ = frame.told(student, network, width, width)

    def transform(self, X: ArrayLike) -> Floats:
        """Return the codes of rows.

        Parameters
        ----------
        X : array of shape (rows, features)
            Inputs with the columns of the fit, free of charge.

        Returns
        -------
        array of shape (rows, code)
            As wide as the narrowest layer.
        """
        return np.asarray(self.student_.encode(self._student_inputs(X)))

    def inverse_transform(self, codes: ArrayLike) -> Floats:
        """Return the rows that codes stand for.

        Parameters
        ----------
        codes : array of shape (rows, code)
            From `transform`.

        Returns
        -------
        array of shape (rows, features)
            In the units of the inputs.
        """
        check_is_fitted(self, "student_")
        return np.asarray(self.student_.decode(codes))

    def reconstruct(self, X: ArrayLike) -> Floats:
        """Return rows after encoding and decoding.

        Parameters
        ----------
        X : array of shape (rows, features)
            Inputs with the columns of the fit, free of charge.

        Returns
        -------
        array of shape (rows, features)
            In the units of the inputs.
        """
        inputs = self._student_inputs(X)
        return np.asarray(self.student_.predict(inputs))


def layers_of(estimator: Any, width: int, outputs: int) -> Any:
    """Return the description of linear layers of the estimator's widths."""
    one_of(*ACTIVATIONS, activation=estimator.activation)
    hidden = [at_least(1, hidden=size) for size in estimator.hidden]
    return perceptron((width, *hidden, outputs), estimator.activation)


def first_state(estimator: Any, layers: Any) -> Module:
    """Return such layers with weights from the estimator's seed, in float64."""
    return seeded(lambda: build_layers(layers), seed_of(estimator.random_state)).double()


def zero_layers(width: int, outputs: int) -> Module:
    """Return one linear layer of weights 0, in float64: the start of softmax regression."""
    network = build_layers(perceptron((width, outputs), "tanh")).double()
    set_parameters(trained_parameters(network), np.zeros((width + 1) * outputs))
    return network


def compared_steps(facts: Facts, **shape: Any) -> dict[str, Any]:
    """Return the settings of a comparison: 80 noisy steps for every size, so one rate will do."""
    lot = max(1, facts.n_private // 4)
    steps = {"batch_size": lot, "epochs": 20, "learning_rate": 0.03} | shape
    return {"n_records": facts.n_private, "training": Training(**steps)}


def _layerwise(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Noisy gradients of a network, each layer clipped by itself."""
    steps = compared_steps(facts, clipping="per-layer")
    return DPSGDClassifier(**steps, **common(facts, epsilon, delta, seed))


METHOD = Method(
    outline=lambda budget, classes, n_records: steps_outline(DPSGDClassifier, budget, n_records),
    forecast=lambda budget, classes, n_records: NO_FORECAST,
    name="dpsgd",
    summary="DP-SGD: a network is trained on the private records in noisy steps of clipped "
    "gradients.",
    estimator=DPSGDClassifier,
    rules={
        "dpsgd": Rule(
            "DP-SGD, linear",
            with_defaults(DPSGDClassifier, hidden=()),
            "Softmax regression on the same features in lots of a quarter of the records; clip, "
            "steps and rate from n mu, as noisy descent (training part of Fashion-MNIST).",
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
