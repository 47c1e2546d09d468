"""`MACClassifier` and `MACAutoencoder`: DP-MAC, networks trained layer by layer with noisy steps.

Harder, Köhler, Welling and Park 2018, corrected (docs/theory/direct.md). Each
example's auxiliary coordinates cut a deep network into layers whose gradients are bounded by
themselves. `DPSGDClassifier(clipping="per-layer")` is the same without coordinates, and many times
quicker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tacit.estimators.dpsgd import DPSGDClassifier
from tacit.estimators.dpsgd_autoencoder import DPSGDAutoencoder
from tacit.estimators.mac_training import MACTraining

if TYPE_CHECKING:
    from tacit.noise import InsecureNoise


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

    module = None
    _objective: ClassVar[str] = "binary"

    def __init__(
        self,
        hidden: tuple[int, ...] = (300, 100),
        *,
        activation: str = "tanh",
        z_steps: int | None = None,
        z_rate: float = 1e-3,
        thresholds: str = "small",
        clip: float = 1e-3,
        histogram_noise: float = 20.0,
        order: int = 1,
        split: str = "minimal",
        optimizer: str = "adam",
        learning_rate: float = 2e-3,
        decay: float = 0.1,
        epochs: float = 20,
        batch_size: int = 512,
        n_records: Any = None,
        noise_multiplier: float | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        features: Any = None,
        classes: Any = None,
        ledger: Any = None,
        dataset: str = "",
        allow_large_delta: bool = False,
        allow_overlap: bool = False,
        noise: InsecureNoise | None = None,
        random_state: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.z_steps = z_steps
        self.z_rate = z_rate
        self.thresholds = thresholds
        self.clip = clip
        self.histogram_noise = histogram_noise
        self.order = order
        self.split = split
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.decay = decay
        self.epochs = epochs
        self.batch_size = batch_size
        self.n_records = n_records
        self.noise_multiplier = noise_multiplier
        self.epsilon = epsilon
        self.delta = delta
        self.features = features
        self.classes = classes
        self.ledger = ledger
        self.dataset = dataset
        self.allow_large_delta = allow_large_delta
        self.allow_overlap = allow_overlap
        self.noise = noise
        self.random_state = random_state


class MACAutoencoder(MACTraining, DPSGDAutoencoder):
    """Train an autoencoder of private rows by DP-MAC: a linear output, half the squared error.

    hidden: widths of the layers between input and output; the narrowest one is the code. The other
    parameters are those of `MACClassifier`.

    `transform` encodes, `inverse_transform` decodes, `reconstruct` does both: post-processing of
    the release, free of charge. Unit: one record, or one person with `groups=`.
    """

    _objective: ClassVar[str] = "squares"

    def __init__(
        self,
        hidden: tuple[int, ...] = (300, 100, 20, 100, 300),
        *,
        activation: str = "tanh",
        z_steps: int | None = None,
        z_rate: float = 1e-3,
        thresholds: str = "small",
        clip: float = 1e-3,
        histogram_noise: float = 20.0,
        order: int = 1,
        split: str = "minimal",
        optimizer: str = "adam",
        learning_rate: float = 3e-3,
        decay: float = 0.1,
        epochs: float = 50,
        batch_size: int = 500,
        n_records: Any = None,
        noise_multiplier: float | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        ledger: Any = None,
        dataset: str = "",
        allow_large_delta: bool = False,
        allow_overlap: bool = False,
        noise: InsecureNoise | None = None,
        random_state: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.z_steps = z_steps
        self.z_rate = z_rate
        self.thresholds = thresholds
        self.clip = clip
        self.histogram_noise = histogram_noise
        self.order = order
        self.split = split
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.decay = decay
        self.epochs = epochs
        self.batch_size = batch_size
        self.n_records = n_records
        self.noise_multiplier = noise_multiplier
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.dataset = dataset
        self.allow_large_delta = allow_large_delta
        self.allow_overlap = allow_overlap
        self.noise = noise
        self.random_state = random_state
