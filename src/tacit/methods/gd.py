"""`DescentClassifier`: softmax regression by noisy gradient descent, all records in every step.

Without sampling, T noisy sums compose exactly: mu^2 = T/sigma^2, beside other Gaussian releases.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tacit.errors import InvalidArgument
from tacit.mechanisms import NoisySteps, Plan
from tacit.methods.base import PrivateClassifier, Task
from tacit.methods.dpsgd import zero_layers
from tacit.methods.forecast import (
    UNDECLARED,
    Forecast,
    JudgedEstimator,
    strength_forecast,
    strength_within,
)
from tacit.methods.linear_steps import LINEAR, clip_and_rate, steps_borne
from tacit.methods.method import Method, Rule, with_defaults
from tacit.methods.noisy_training import (
    NoisyTrainingEstimator,
    PublicFrame,
    public_rows,
)
from tacit.methods.settings import CHECKS, Features, Parameters
from tacit.noisy_training import PrivateExamples, Recipe, cross_entropy
from tacit.privacy import gaussian_mu
from tacit.records import PrivateRecords, is_from_data
from tacit.students import NetworkStudent, describe_layers

if TYPE_CHECKING:
    from torch.nn import Module

    from tacit.ledger import Budget

_WEAK = 2000.0
"""The strength that an outline takes for granted where no number of records is declared."""
_TRIES = 200


@dataclass(eq=False, repr=False)
class DescentClassifier(NoisyTrainingEstimator, PrivateClassifier, JudgedEstimator):
    """Softmax regression by noisy gradient descent on all records, without sampling.

    Parameters
    ----------
    epsilon, delta, ledger, allow_overlap, noise
        As in `PrivateEstimator`: budget, ledger, noise.
    random_state : int, optional
        No effect: weights start at 0, and noise is never seeded.
    checks, classes
        As in `PrivateClassifier`.
    n_records : int or str
        About how many records (with `groups=`: people) there are, a public number that sets steps,
        rate and, where features leave it open, their size; required. "from_data" counts them,
        which the statement then states.
    noise_multiplier : float, optional
        Deviation of the noise on each sum, in units of what one record can add to it; by default
        chosen from epsilon and delta.
    training : Training, optional
        `Training(epochs=..., learning_rate=...)`: how it is trained; each of its parts is a key in
        run.toml. An epoch is one step, of all records: no `batch_size`. By default steps from n mu
        (20 at 2,000, growing with its root), the clip sqrt(features)/4, a rate of
        50/sqrt(features), momentum 0.9, and rates that fall to a fiftieth.
    features : transformer, optional
        A public one for private and public inputs alike, fitted on `X_public`; without public
        inputs it must be fitted already, or one of tacit's that learn nothing. None for the inputs
        themselves. In run.toml: "none", "digits" or "images", "bins" (declared columns) or
        "whitened".

    Notes
    -----
    Without `X_public`, which sets features, centre and scale, columns are expected to have mean 0
    and size 1, about, by public numbers, or to come out of whitening fitted on public rows. All
    rows are held in memory. Unit: one record, or one person with `groups=`, whose records' mean
    gradient is clipped as one. In run.toml: `method = "gd"`, table `[gd]`.
    `docs/theory/direct.md#all-records-in-every-step`.
    """

    _: KW_ONLY
    features: Features = None
    _own: ClassVar[dict[str, Parameters]] = {
        "training": LINEAR,
        "checks": CHECKS,
    }
    _fixed: ClassVar[frozenset[str]] = frozenset({"batch_size"})
    _needs_public: ClassVar[bool] = False

    def _recipe_for(self, module: Module, size: int) -> tuple[Recipe, float]:
        """Return the recipe of steps of all records, from public numbers alone."""
        training = self._settings("training").get_params()
        del training["batch_size"]
        del training["epochs"]
        epochs = self._steps_of(size)
        if epochs != int(epochs):
            raise InvalidArgument(f"Expected epochs={epochs!r} to be a whole number of steps.")
        clip, rate = clip_and_rate(module)
        training["clip"] = training["clip"] or clip
        training["learning_rate"] = training["learning_rate"] or rate
        return Recipe(steps=int(epochs), lot=float(size), **training), 1.0

    def _steps_of(self, size: int) -> float:
        """Return how many steps there are: as set, or by the strength n mu."""
        asked: float | None = self._settings("training").epochs
        if asked:
            return asked
        steps = steps_borne(size / self._gaussian_noise())
        if self.noise_multiplier is not None:  # fewer, if so much noise leaves less than epsilon
            for _ in range(_TRIES):
                steps = min(steps, steps_borne(size * math.sqrt(steps) / self.noise_multiplier))
        return steps

    def _learn(self, private: PrivateRecords, task: Task, outside: Any) -> None:
        """Train on the private rows; public inputs, if given, set features, centre and scale."""
        n_features, n_classes = private.rows.shape[1], task.n_classes or 0
        self._judge(self._foreseen())
        view = self._view()
        frame = PublicFrame.around(view, outside, n_features)
        width = frame.width()
        network, ledger = self._train(
            zero_layers(width, n_classes),
            cross_entropy,
            public_rows(width, lambda draw, made: draw.integers(n_classes, size=len(made))),
            lambda: PrivateExamples(frame.inside(private.rows), private.targets, private.people),
            n_units=private.n_units,
            by_person=private.by_person,
        )
        student = NetworkStudent(describe_layers(network), view)
        self.student_ = frame.told(student, network, n_features, n_classes)
        self.__dict__.update(task.public, ledger_=ledger)
        self._check_scores(private, ledger, outside)

    def _foreseen(self) -> Forecast:
        if is_from_data(self.n_records) or self.n_records is None:
            return UNDECLARED
        size = self._declared_size(0)
        if self.noise_multiplier is None:
            return strength_forecast(size, self._mu())
        return strength_forecast(size, math.sqrt(self._steps_of(size)) / self.noise_multiplier)


def _outline(budget: Budget, classes: int, n_records: int | None) -> list[tuple[str, Plan]]:
    """Return the one release of a run with default settings."""
    mu = float(gaussian_mu(budget.epsilon, budget.delta))
    steps = steps_borne((n_records or _WEAK / mu) * mu)
    noise = math.sqrt(steps) / mu * (1 + 2.0**-40)
    return [(f"{steps} steps of all records", Plan(NoisySteps(noise, 1.0), steps))]


METHOD = Method(
    name="gd",
    summary="Noisy gradient descent: a softmax regression is fitted to the private records in "
    "steps in which all of them take part.",
    estimator=DescentClassifier,
    outline=_outline,
    forecast=strength_within,
    rules={
        "gd": Rule(
            "noisy descent",
            with_defaults(DescentClassifier),
            "Softmax regression on the same features, all records in every step, steps and rate "
            "from n mu (training part of Fashion-MNIST).",
        ),
    },
    needs_public=False,
)
