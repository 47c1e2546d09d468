"""Public transformers: most are data-independent, some are fitted on public rows alone.

Each row's features depend on that row alone, bit for bit: adding or removing a private record
changes no other record's features, so they cost no privacy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tacit.features.columns import Categorical, Column, Numeric

if TYPE_CHECKING:
    from tacit.features.bins import PublicBins
    from tacit.features.encoders import FrozenEncoder, PrecomputedEmbeddings
    from tacit.features.encoders import presumptions as presumptions
    from tacit.features.images import FAINTEST as FAINTEST
    from tacit.features.images import HOG, Deskew, digit_features
    from tacit.features.images import PIXEL_VARIANCE as PIXEL_VARIANCE
    from tacit.features.images import RESIZE_RANGE as RESIZE_RANGE
    from tacit.features.images import STEEPEST_SKEW as STEEPEST_SKEW
    from tacit.features.images import tent_windows as tent_windows
    from tacit.features.patches import FAINT_SQUARE as FAINT_SQUARE
    from tacit.features.patches import SQUARE_STEPS as SQUARE_STEPS
    from tacit.features.patches import PublicPatches, image_features
    from tacit.features.rows import is_row_wise, transform_rows
    from tacit.features.rows import steps_of as steps_of
    from tacit.features.scales import ScaledHOG
    from tacit.features.scales import box_windows as box_windows
    from tacit.features.scattering import Scattering
    from tacit.features.text import LexiconScores, StaticTextEncoder
    from tacit.features.whitening import PublicKernel, PublicWhitening
    from tacit.features.whitening import bearable_dimensions as bearable_dimensions
    from tacit.features.whitening import ends_at_unit_length as ends_at_unit_length
    from tacit.features.whitening import needs_strength as needs_strength
    from tacit.features.whitening import with_dimensions as with_dimensions
    from tacit.features.whitening import with_strength as with_strength
    from tacit.features.whole_numbers import EXACT_BITS as EXACT_BITS
    from tacit.features.whole_numbers import WholeMatrix as WholeMatrix
    from tacit.features.whole_numbers import WholeRows as WholeRows
    from tacit.features.whole_numbers import exp_of_negative as exp_of_negative
    from tacit.features.whole_numbers import row_bits as row_bits
    from tacit.features.whole_numbers import whole_rows as whole_rows

__all__ = [
    "HOG",
    "Categorical",
    "Column",
    "Deskew",
    "FrozenEncoder",
    "LexiconScores",
    "Numeric",
    "PrecomputedEmbeddings",
    "PublicBins",
    "PublicKernel",
    "PublicPatches",
    "PublicWhitening",
    "ScaledHOG",
    "Scattering",
    "StaticTextEncoder",
    "digit_features",
    "image_features",
    "is_row_wise",
    "transform_rows",
]

_HOME = {
    "FrozenEncoder": "encoders",
    "PrecomputedEmbeddings": "encoders",
    "presumptions": "encoders",
    "LexiconScores": "text",
    "StaticTextEncoder": "text",
    "PublicBins": "bins",
    "FAINT_SQUARE": "patches",
    "SQUARE_STEPS": "patches",
    "PublicPatches": "patches",
    "image_features": "patches",
    "is_row_wise": "rows",
    "transform_rows": "rows",
    "steps_of": "rows",
    "ScaledHOG": "scales",
    "Scattering": "scattering",
    "box_windows": "scales",
    "PublicKernel": "whitening",
    "PublicWhitening": "whitening",
    "bearable_dimensions": "whitening",
    "needs_strength": "whitening",
    "ends_at_unit_length": "whitening",
    "with_dimensions": "whitening",
    "with_strength": "whitening",
    "EXACT_BITS": "whole_numbers",
    "WholeMatrix": "whole_numbers",
    "WholeRows": "whole_numbers",
    "exp_of_negative": "whole_numbers",
    "row_bits": "whole_numbers",
    "whole_rows": "whole_numbers",
}  # or "images"
# For the packages above: what an exported model computes again, and exact products of rows.
_INNER = ("FAINTEST", "PIXEL_VARIANCE", "RESIZE_RANGE", "STEEPEST_SKEW", "tent_windows")


def __getattr__(name: str) -> Any:
    if name not in (*__all__, *_INNER, *_HOME):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f"{__name__}.{_HOME.get(name, 'images')}")
    return getattr(home, name)
