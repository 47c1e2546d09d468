"""`DPSGDAutoencoder`: a public code of private inputs, learned with noisy gradients.

Trained for 0.5 |x - decode(encode(x))|^2 of centred, scaled inputs, like the autoencoders that
DP-MAC is measured on (docs/results/direct.md).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tacit._checks import Floats, at_least, one_of
from tacit.errors import InvalidArgument
from tacit.methods.dpsgd import ACTIVATIONS
from tacit.methods.noisy_training import NoisyTrainingEstimator, PublicFrame, public_rows
from tacit.noisy_training import PrivateExamples, half_squares
from tacit.records import count_units, private_rows, units_of
from tacit.students import ReconstructionStudent
from tacit.students.inputs import seed_of
from tacit.students.layers import build_layers, perceptron
from tacit.students.networks import seeded

if TYPE_CHECKING:
    from torch.nn import Module


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
    clip: float = 0.01
    learning_rate: float = 2e-3
    epochs: float = 50
    batch_size: int = 500

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
        outside = self._public_inputs(X_public, rows)
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
