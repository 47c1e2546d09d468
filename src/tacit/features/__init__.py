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
    from tacit.features.images import HOG, Deskew, digit_features
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

_HOME = {
    "Deskew": "tacit.features.images",
    "HOG": "tacit.features.images",
    "PublicBins": "tacit.features.bins",
    "digit_features": "tacit.features.images",
    "is_row_wise": "tacit.features.rows",
    "transform_rows": "tacit.features.rows",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
