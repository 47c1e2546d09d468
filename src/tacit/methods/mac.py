"""`MACClassifier` and `MACAutoencoder`: DP-MAC, networks trained layer by layer with noisy steps.

Harder, Köhler, Welling and Park 2018, corrected (docs/theory/direct.md). Each
example's auxiliary coordinates cut a deep network into layers whose gradients are bounded by
themselves. `DPSGDClassifier(clipping="per-layer")` is the same without coordinates, and many times
quicker.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

from tacit.methods.dpsgd import DPSGDClassifier, compared_steps
from tacit.methods.dpsgd_autoencoder import DPSGDAutoencoder
from tacit.methods.facts import Facts, common
from tacit.methods.mac_training import MACTraining
from tacit.methods.method import Method, Rule
from tacit.methods.settings import Widths


@dataclass(eq=False, repr=False)
class MACClassifier(MACTraining, DPSGDClassifier):
    """Train a classifier on private records by DP-MAC; output units have binary cross-entropy.

    hidden: widths of the hidden layers. activation: "tanh", "relu" or "softplus".
    z_steps, z_rate: steps of each example's auxiliary coordinates, and their rate; None for the
        larger of 30 and twice the hidden layers.
    thresholds: "small" clips every layer's gradient to `clip`, far below its length, so that
        directions count; "histogram" spends some of the budget on a noisy histogram of lengths
        (`histogram_noise` on each count) and takes each layer's fullest bin.
    order: 1, or 2 for second-order steps (narrow layers only; `learning_rate` is then the part of
        the solved step that is taken, 1 at the most).
    split: "minimal" or "equal", how layers share the noise.
    epochs, batch_size, n_records, epsilon, delta, noise_multiplier, optimizer, learning_rate,
    decay, features, classes, ledger, random_state: as in `DPSGDClassifier`.

    Unit: one record, or one person with `groups=`, who says the mean of what the records say.
    After `fit`: `student_` (the network), `thresholds_`, `ledger_`, `statement_`.
    """

    module: Any = field(init=False, default=None)
    _objective: ClassVar[str] = "binary"

    hidden: Widths = (300, 100)
    _: KW_ONLY
    learning_rate: float = 2e-3


@dataclass(eq=False, repr=False)
class MACAutoencoder(MACTraining, DPSGDAutoencoder):
    """Train an autoencoder of private rows by DP-MAC: a linear output, half the squared error.

    hidden: widths of the layers between input and output; the narrowest one is the code. The other
    parameters are those of `MACClassifier`.

    `transform` encodes, `inverse_transform` decodes, `reconstruct` does both: post-processing of
    the release, free of charge. Unit: one record, or one person with `groups=`.
    """

    _objective: ClassVar[str] = "squares"

    hidden: tuple[int, ...] = (300, 100, 20, 100, 300)
    _: KW_ONLY
    learning_rate: float = 3e-3
    epochs: float = 50
    batch_size: int = 500


def _compared(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Auxiliary coordinates cut the network into layers; each is trained by noisy steps."""
    shared = common(facts, epsilon, delta, seed)
    return MACClassifier(z_steps=6, z_rate=0.03, **compared_steps(facts), **shared)


METHOD = Method(
    name="mac",
    estimator=MACClassifier,
    rules={
        "mac": Rule(
            "DP-MAC",
            _compared,
            "Layers of 300 and 100 on the same features, thresholds of 0.001, 6 Z-steps of 0.03, "
            "Adam, rate 0.03, 20 epochs in lots of a quarter of the records (USPS).",
        ),
    },
    needs_public=False,
)
