"""Autoencoders with codes in the unit ball, in two and three dimensions.

Fitted on public masks, with noise in the bottleneck, because the decoder will see noisy codes: that
noise is for utility and gives no privacy. Networks compute in float32, where a norm can exceed 1 by
rounding; the mechanism clips again in float64, so nothing here is relied upon.
Formulas: docs/theory/high-dimensional.md#codes-of-autoencoders.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, at_least, non_negative, one_of, positive, refuse
from tacit._extras import need
from tacit.masks.codecs import PUBLIC, answer_rows, code_rows, public_masks

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


BOUNDS = ("clip", "smooth", "ball", "cube")


_SLOPE = math.sqrt(8 / math.pi)  # sigmoid(c x) is near Phi(x) for this c (PCA-PATE 2020)
_TINY = 1e-12


_BATCH = 64


_FEW = 16  # masks of one step while fitting: there are few of them, so steps are many and small
_RARE = 0.01


def need_torch() -> Any:
    """Return torch, or say which extra brings it."""
    return need("torch", "for an AutoencoderCodec", extra="torch")


def ball_activation(outputs: Tensor) -> Tensor:
    """Map l + 1 numbers to a point of the unit ball in l dimensions (PCA-PATE 2020).

    r u, u = v / sqrt(|v|^2 + 1e-12), r = sigmoid(c o_0)^(1/l) = exp(-softplus(-c o_0)/l): the
    literal formula is NaN for v = 0. Values and gradients are finite everywhere.
    """
    torch = need_torch()
    radial, direction = outputs[:, :1], outputs[:, 1:]
    length = direction.shape[1]
    radius = torch.exp(-torch.nn.functional.softplus(-_SLOPE * radial) / length)
    norm = torch.sqrt(direction.square().sum(1, keepdim=True) + _TINY)
    inside: Tensor = radius * direction / norm
    return inside


def bounded(outputs: Tensor, bound: str) -> Tensor:
    """Bring encoder outputs into the unit ball.

    f/max(1,|f|), f/sqrt(1+|f|^2), the ball's activation, or tanh(f)/sqrt(l): a cube within it.
    """
    if bound == "ball":
        return ball_activation(outputs)
    if bound == "cube":
        return outputs.tanh() / math.sqrt(outputs.shape[1])
    square = outputs.square().sum(1, keepdim=True)
    if bound == "smooth":
        return outputs / (1 + square).sqrt()
    return outputs / (square + _TINY).sqrt().clamp(min=1.0)


class AutoencoderCodec:
    """A small convolutional autoencoder whose codes lie in the unit ball: diameter 2.

    `AutoencoderCodec.fit(masks, length=32, sigma=...)` trains it on public masks
    `(n, *sides)` or `(n, channels, *sides)` with values in [0, 1].

    bound: "clip" f/max(1,|f|) as in Generalized PATE 2022, with a weak penalty on |f| > 1, for its
        gradient has no radial part there; "smooth" f/sqrt(1+|f|^2); "ball" as in PCA-PATE 2020;
        "cube" tanh(f)/sqrt(l), which that paper advises against.
    """

    def __init__(
        self,
        network: tuple[Module, Module],
        mean: Floats,
        sides: int,
        length: int,
        bound: str,
        prior: Tensor,
    ) -> None:
        self._encoder, self._decoder = network
        self._prior = prior
        self._planes = (-1, *mean.shape[-sides:])
        self.mean = mean
        self.shape = mean.shape
        self.length = length
        self.bound = bound
        self.provenance = "public"
        self.statement = PUBLIC

    @property
    def diameter(self) -> float:
        """The unit ball's: 2."""
        return 2.0

    @classmethod
    def fit(
        cls,
        masks: ArrayLike,
        *,
        length: int,
        dimensions: int | None = None,
        bound: str = "clip",
        sigma: float = 0.0,
        channels: Sequence[int] = (8, 16),
        epochs: int = 50,
        learning_rate: float = 3e-3,
        penalty: float = 0.01,
        random_state: int = 0,
    ) -> AutoencoderCodec:
        """Train on public masks; `sigma` is the noise of the plan that it will be used for.

        dimensions: 2 or 3, needed where the masks have channels.
        """
        array = public_masks(masks)
        shape = array.shape[1:]
        sides = _sides(shape, dimensions)
        one_of(*BOUNDS, bound=bound)
        positive(learning_rate=learning_rate)
        length = at_least(1, length=length)
        torch = need_torch()
        generator = torch.Generator().manual_seed(at_least(0, random_state=random_state))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(random_state)
            halves = _halves(shape, sides, length + (bound == "ball"), length, channels)
        inputs = torch.from_numpy(array.astype(np.float32)).reshape(len(array), -1, *sides)
        # The decoder adds to the mean mask, which it would otherwise have to learn first.
        prior = torch.logit(inputs.mean(dim=0).clamp(_RARE, 1 - _RARE))
        weights = [*halves[0].parameters(), *halves[1].parameters()]
        optimiser = torch.optim.Adam(weights, lr=learning_rate)
        for _ in range(at_least(1, epochs=epochs)):
            order = torch.randperm(len(inputs), generator=generator)
            for batch in order.split(_FEW):
                loss = _loss(halves, prior, inputs[batch], bound, sigma, penalty, generator)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        return cls(halves, array.mean(axis=0), len(sides), length, bound, prior)

    def fingerprint_parts(self) -> dict[str, Any]:
        """Return what the codes follow from, without the addresses that a pickle would hold."""
        weights = {name: value.numpy() for name, value in self._encoder.state_dict().items()}
        return {"layers": repr(self._encoder), "weights": weights, "bound": self.bound}

    def encode(self, answers: ArrayLike) -> Floats:
        """Return codes (n, length), of norm at most 1 up to float32's rounding."""
        torch = need_torch()
        rows = answer_rows(answers, self.shape)
        with np.errstate(all="ignore"):
            inputs = torch.from_numpy(rows.astype(np.float32))
        with torch.no_grad():
            batches = inputs.reshape(len(rows), *self._planes).split(_BATCH)
            parts = [bounded(self._encoder(batch), self.bound) for batch in batches]
        return np.asarray(torch.cat(parts).numpy(), dtype=np.float64)

    def decode(self, codes: ArrayLike) -> Floats:
        """Return answers in [0, 1] from codes (n, length), noisy or not."""
        torch = need_torch()
        rows = code_rows(codes, self.length)
        inputs = torch.from_numpy(rows.astype(np.float32))
        with torch.no_grad():
            parts = [
                torch.sigmoid(self._prior + self._decoder(part)) for part in inputs.split(_BATCH)
            ]
        whole = np.asarray(torch.cat(parts).numpy(), dtype=np.float64)
        return whole.reshape(len(rows), *self.shape)

    def __repr__(self) -> str:
        return (
            f"AutoencoderCodec(shape={self.shape}, length={self.length}, bound={self.bound!r}, "
            f"provenance={self.provenance!r})"
        )


def _sides(shape: tuple[int, ...], dimensions: int | None) -> tuple[int, ...]:
    """Return the spatial sides of a mask: the last two or three."""
    wanted = len(shape) if dimensions is None else dimensions
    if wanted not in (2, 3) or len(shape) not in (wanted, wanted + 1):
        raise refuse("dimensions", dimensions, f"2 or 3, for masks of shape {shape}")
    return shape[-wanted:]


def _loss(
    halves: tuple[Module, Module],
    prior: Tensor,
    batch: Tensor,
    bound: str,
    sigma: float,
    penalty: float,
    generator: Any,
) -> Tensor:
    """Cross entropy of the decoded noisy code, fresh noise each time, and the clip's penalty."""
    torch = need_torch()
    encoder, decoder = halves
    outputs = encoder(batch)
    codes = bounded(outputs, bound)
    codes = codes + non_negative(sigma=sigma) * torch.randn(codes.shape, generator=generator)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(prior + decoder(codes), batch)
    if bound == "clip":
        excess = torch.relu((outputs.square().sum(1) + _TINY).sqrt() - 1)
        loss = loss + non_negative(penalty=penalty) * excess.square().mean()
    return loss  # type: ignore[no-any-return]


def _halves(
    shape: tuple[int, ...],
    sides: tuple[int, ...],
    outputs: int,
    length: int,
    channels: Sequence[int],
) -> tuple[Module, Module]:
    """Make strided convolutions down to a linear layer, and the way back."""
    torch = need_torch()
    nn, flat = torch.nn, len(sides) == 2
    down, up = (nn.Conv2d, nn.ConvTranspose2d) if flat else (nn.Conv3d, nn.ConvTranspose3d)
    planes = 1 if len(shape) == len(sides) else shape[0]
    widths = [planes, *(at_least(1, channels=width) for width in channels)]
    factor = 2 ** (len(widths) - 1)
    small = tuple(-(-side // factor) for side in sides)
    inner = widths[-1] * math.prod(small)
    # The last side comes first in torch's padding; a negative padding cuts off.
    extra = [size * factor - side for size, side in zip(small, sides, strict=True)][::-1]
    padding = [side for missing in extra for side in (0, missing)]
    pad = nn.ConstantPad2d if flat else nn.ConstantPad3d
    encoder: list[Any] = [pad(padding, 0.0)]
    decoder: list[Any] = [nn.Linear(length, inner), nn.Unflatten(1, (widths[-1], *small))]
    for before, after in pairwise(widths):
        encoder += [down(before, after, 3, stride=2, padding=1), nn.ReLU()]
    for before, after in pairwise(reversed(widths)):
        decoder += [nn.ReLU(), up(before, after, 4, stride=2, padding=1)]
    encoder += [nn.Flatten(), nn.Linear(inner, outputs)]
    decoder += [pad([-side for side in padding], 0.0)]
    return nn.Sequential(*encoder), nn.Sequential(*decoder)
