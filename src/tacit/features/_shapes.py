"""Shapes of images, checked; kept apart from the transformers, which need scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit._checks import at_least, refuse

Shape = tuple[int, int]

_SMALLEST_SIDE = 2  # a gradient needs two pixels


def shape_pair(**named: Any) -> Shape:
    """Return the argument as `(height, width)`, both integers >= 2."""
    ((name, value),) = named.items()
    if isinstance(value, str | bytes) or not isinstance(value, Sequence) or len(value) != 2:
        raise refuse(name, value, "a pair (height, width)")
    height, width = (at_least(_SMALLEST_SIDE, **{name: side}) for side in value)
    return height, width
