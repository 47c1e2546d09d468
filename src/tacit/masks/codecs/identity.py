"""The naive codec: every voxel is a number of the code (the baseline of both founding papers)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats
from tacit.masks.codecs.base import answer_rows, code_rows, shape_of

_CENTRE = 0.5


@dataclass(frozen=True, slots=True)
class IdentityCodec:
    """Codes are the answers themselves, less 1/2, for answers in [0, 1].

    The cube [0,1]^D has diameter sqrt(D) and lies in the ball of radius sqrt(D)/2 about its middle
    (the 2022 paper pays for twice that:
    docs/theory/high-dimensional.md#what-the-papers-say).

    >>> codec = IdentityCodec((2, 2))
    >>> codec.length, codec.diameter, codec.decode(codec.encode([[[0, 1], [1, 0]]])).tolist()
    (4, 2.0, [[[0.0, 1.0], [1.0, 0.0]]])
    """

    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", shape_of(self.shape))

    @property
    def length(self) -> int:
        """The number of voxels."""
        return math.prod(self.shape)

    @property
    def diameter(self) -> float:
        """sqrt(length), the diagonal of the cube."""
        return math.sqrt(self.length)

    @property
    def provenance(self) -> str:
        """It was made from nothing: "public"."""
        return "public"

    @property
    def statement(self) -> str:
        """Say that no data was used."""
        return "made without any data"

    def encode(self, answers: ArrayLike) -> Floats:
        """Return answers less 1/2, flat."""
        rows = answer_rows(answers, self.shape)
        with np.errstate(all="ignore"):
            return rows.reshape(len(rows), -1) - _CENTRE

    def decode(self, codes: ArrayLike) -> Floats:
        """Return codes plus 1/2, in shape."""
        return (code_rows(codes, self.length) + _CENTRE).reshape(-1, *self.shape)
