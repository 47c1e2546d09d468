"""Warnings that point at the caller's line, whatever the depth of our own calls."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_OURS = str(Path(__file__).parent)


def warn(text: str, kind: type[Warning] = UserWarning) -> None:
    """Warn at the first line outside tacit, such as a user's call of `fit`."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, kind, stacklevel=level)
