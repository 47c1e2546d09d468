"""Autoencoders with codes in the unit ball, in two and three dimensions.

Fitted on public masks with noise in the bottleneck, which serves utility and gives no privacy.
Norms can exceed 1 by float32 rounding: the mechanism clips again in float64, so nothing here is
relied upon. Formulas: docs/theory/high-dimensional.md#codes-of-autoencoders.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, at_least, non_negative, one_of, positive, refuse
from tacit._extras import torch
from tacit.masks.codecs import PUBLIC, answer_rows, code_rows, public_masks
from tacit.students import seeded

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


BOUNDS = ("clip", "smooth", "ball", "cube")


_SLOPE = math.sqrt(8 / math.pi)  # sigmoid(c x) is near Phi(x) for this c (PCA-PATE 2020)
_TINY = 1e-12


_BATCH = 64


_FEW = 16  # masks of one step while fitting: there are few of them, so steps are many and small
_RARE = 0.01
_PENALTY = 0.01  # on what the clip cuts off
_WIDTHS = (8, 16)  # channels of the convolutions


def ball_activation(outputs: Tensor) -> Tensor:
    """Map l + 1 numbers to a point of the unit ball in l dimensions (PCA-PATE 2020).

    r u, u = v / sqrt(|v|^2 + 1e-12), r = exp(-softplus(-c o_0)/l): finite for v = 0, too.
    """
    radial, direction = outputs[:, :1], outputs[:, 1:]
    length = direction.shape[1]
    radius = torch.exp(-torch.nn.functional.softplus(-_SLOPE * radial) / length)
    norm = torch.sqrt(direction.square().sum(1, keepdim=True) + _TINY)
    inside: Tensor = radius * direction / norm
    return inside


def bounded(outputs: Tensor, bound: str) -> Tensor:
    """Bring outputs f into the unit ball, by one of the bounds of `AutoencoderCodec.fit`."""
    if bound == "ball":
        return ball_activation(outputs)
    if bound == "cube":
        return outputs.tanh() / math.sqrt(outputs.shape[1])
    square = outputs.square().sum(1, keepdim=True)
    if bound == "smooth":
        return outputs / (1 + square).sqrt()
    return outputs / (square + _TINY).sqrt().clamp(min=1.0)


@dataclass(eq=False, slots=True)
class AutoencoderCodec:
    """A small convolutional autoencoder whose codes lie in the unit ball: diameter 2.

    Made by `AutoencoderCodec.fit`. Source: PCA-PATE 2020, Generalized PATE 2022;
    `docs/theory/high-dimensional.md#codes-of-autoencoders`.

    Parameters
    ----------
    encoder, decoder : torch modules, from masks to numbers, and from codes to offsets of the logits
    prior : tensor of shape (channels, *sides)
        Logits of the mean public mask, to which the decoder adds.
    shape : tuple of int, of one mask
    length : int, how many numbers a code has
    bound : str, how codes get into the unit ball: "clip", "smooth", "ball" or "cube"
    mean : array of the shape of a mask, the mean public mask
    """

    encoder: Module = field(repr=False)
    decoder: Module = field(repr=False)
    prior: Tensor = field(repr=False)
    shape: tuple[int, ...]
    length: int
    bound: str
    mean: Floats = field(repr=False)
    diameter: ClassVar[float] = 2.0
    provenance: ClassVar[str] = "public"
    statement: ClassVar[str] = PUBLIC

    @classmethod
    def fit(
        cls,
        masks: ArrayLike,
        *,
        length: int,
        dimensions: int | None = None,
        bound: str = "clip",
        sigma: float = 0.0,
        epochs: int = 50,
        learning_rate: float = 3e-3,
        random_state: int = 0,
    ) -> AutoencoderCodec:
        """Train on public masks.

        Parameters
        ----------
        masks : array of shape (n, *sides) or (n, channels, *sides)
            Public masks with values in [0, 1].
        length : int, how many numbers a code has
        dimensions : int, optional, 2 or 3, needed where the masks have channels
        bound : str
            "clip" f/max(1,|f|) as in Generalized PATE 2022, with a weak penalty on |f| > 1;
            "smooth" f/sqrt(1+|f|^2); "ball" as in PCA-PATE 2020; "cube" tanh(f)/sqrt(length).
        sigma : float, deviation of the noise on codes in training: for utility, it gives no privacy
        epochs : int, passes over the masks
        learning_rate : float, of Adam
        random_state : int, seeds weights, batches and the noise of training

        Returns
        -------
        AutoencoderCodec, public, as the masks are
        """
        array = public_masks(masks)
        shape = array.shape[1:]
        sides = _sides(shape, dimensions)
        one_of(*BOUNDS, bound=bound)
        non_negative(sigma=sigma)
        length = at_least(1, length=length)
        seed = at_least(0, random_state=random_state)
        inputs = torch.from_numpy(array.astype(np.float32)).reshape(len(array), -1, *sides)
        # The decoder adds to the mean mask, which it would otherwise have to learn first.
        prior = torch.logit(inputs.mean(dim=0).clamp(_RARE, 1 - _RARE))
        halves: Any = seeded(lambda: _halves(prior.shape, length + (bound == "ball"), length), seed)
        codec = cls(halves[0], halves[1], prior, shape, length, bound, array.mean(axis=0))
        generator = torch.Generator().manual_seed(seed)
        optimiser = torch.optim.Adam(halves.parameters(), lr=positive(learning_rate=learning_rate))
        for _ in range(at_least(1, epochs=epochs)):
            order = torch.randperm(len(inputs), generator=generator)
            for batch in order.split(_FEW):
                optimiser.zero_grad()
                codec._loss(inputs[batch], sigma, generator).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        return codec

    def _loss(self, batch: Tensor, sigma: float, generator: Any) -> Tensor:
        """Cross entropy of the decoded code with fresh noise, and the clip's penalty."""
        outputs = self.encoder(batch)
        codes = bounded(outputs, self.bound)
        codes = codes + sigma * torch.randn(codes.shape, generator=generator)
        scores = self.prior + self.decoder(codes)
        loss: Tensor = torch.nn.functional.binary_cross_entropy_with_logits(scores, batch)
        if self.bound == "clip":
            excess = torch.relu((outputs.square().sum(1) + _TINY).sqrt() - 1)
            loss = loss + _PENALTY * excess.square().mean()
        return loss

    def fingerprint_parts(self) -> dict[str, Any]:
        """Return what determines codes and masks: layers, weights and bound.

        Returns
        -------
        dict
        """
        halves = (self.encoder, self.decoder)
        weights = [
            {name: value.numpy() for name, value in half.state_dict().items()} for half in halves
        ]
        prior = self.prior.numpy()
        return {"layers": repr(halves), "weights": weights, "prior": prior, "bound": self.bound}

    def encode(self, answers: ArrayLike) -> Floats:
        """Return codes of norm at most 1, up to float32 rounding; the mechanism clips again.

        Parameters
        ----------
        answers : array of shape (n, *shape), masks of any values

        Returns
        -------
        array of shape (n, length)
        """
        rows = answer_rows(answers, self.shape)
        with np.errstate(all="ignore"):
            inputs = torch.from_numpy(rows.astype(np.float32))
        with torch.no_grad():
            batches = inputs.reshape(len(rows), *self.prior.shape).split(_BATCH)
            parts = [bounded(self.encoder(batch), self.bound) for batch in batches]
        return np.asarray(torch.cat(parts).numpy(), dtype=np.float64)

    def decode(self, codes: ArrayLike) -> Floats:
        """Return soft masks in [0, 1] from codes, noisy or not: post-processing.

        Parameters
        ----------
        codes : array of shape (n, length)

        Returns
        -------
        array of shape (n, *shape)
        """
        rows = code_rows(codes, self.length)
        batches = torch.from_numpy(rows.astype(np.float32)).split(_BATCH)
        with torch.no_grad():
            parts = [torch.sigmoid(self.prior + self.decoder(batch)) for batch in batches]
        whole = np.asarray(torch.cat(parts).numpy(), dtype=np.float64)
        return whole.reshape(len(rows), *self.shape)


def _sides(shape: tuple[int, ...], dimensions: int | None) -> tuple[int, ...]:
    """Return the spatial sides of a mask: the last two or three."""
    wanted = len(shape) if dimensions is None else dimensions
    if wanted not in (2, 3) or len(shape) not in (wanted, wanted + 1):
        raise refuse("dimensions", dimensions, f"2 or 3, for masks of shape {shape}")
    return shape[-wanted:]


def _halves(planes: tuple[int, ...], outputs: int, length: int) -> Module:
    """Make strided convolutions of (channels, *sides) down to a linear layer, and the way back."""
    nn: Any = torch.nn
    channels, *sides = planes
    flat = len(sides) == 2
    down, up = (nn.Conv2d, nn.ConvTranspose2d) if flat else (nn.Conv3d, nn.ConvTranspose3d)
    widths = [channels, *_WIDTHS]
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
    halves: Module = nn.ModuleList([nn.Sequential(*encoder), nn.Sequential(*decoder)])
    return halves
