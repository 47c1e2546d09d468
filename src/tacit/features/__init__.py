"""Public, data-independent views of the inputs: nothing here learns from the data it is given.

Each row's features depend on that row alone, bit for bit, whatever stands beside it: a private
record that comes or goes changes nobody else's features, so they cost no privacy. Names resolve on
first use, because the transformers need scikit-learn and the declarations of columns do not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tacit.features.columns import Categorical, Column, Numeric

if TYPE_CHECKING:
    from tacit.features.bins import PublicBins
    from tacit.features.images import FAINTEST as FAINTEST
    from tacit.features.images import HOG, Deskew, digit_features
    from tacit.features.images import PIXEL_VARIANCE as PIXEL_VARIANCE
    from tacit.features.images import RESIZE_RANGE as RESIZE_RANGE
    from tacit.features.images import STEEPEST_SKEW as STEEPEST_SKEW
    from tacit.features.images import tent_windows as tent_windows
    from tacit.features.rows import is_row_wise, transform_rows

__all__ = [
    "HOG",
    "Categorical",
    "Column",
    "Deskew",
    "Numeric",
    "PublicBins",
    "digit_features",
    "is_row_wise",
    "transform_rows",
]

_HOME = {"PublicBins": "bins", "is_row_wise": "rows", "transform_rows": "rows"}  # or "images"
# What an exported model computes again, for the package that writes it.
_INNER = ("FAINTEST", "PIXEL_VARIANCE", "RESIZE_RANGE", "STEEPEST_SKEW", "tent_windows")


def __getattr__(name: str) -> Any:
    if name not in (*__all__, *_INNER):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f"{__name__}.{_HOME.get(name, 'images')}")
    return getattr(home, name)
