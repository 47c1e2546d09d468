"""Count how many scans and masks that were read from files are in memory at once."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from tacit.masks import volume_files


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets, for each file read, how many are in memory, itself included."""
    there: list[weakref.ref[Any]] = []
    held: list[int] = []
    parse = volume_files.parse_nifti

    def watched(*given: Any, **named: Any) -> volume_files.Grid:
        found = parse(*given, **named)
        there.append(weakref.ref(found.values))
        held.append(sum(each() is not None for each in there))
        return found

    monkeypatch.setattr(volume_files, "parse_nifti", watched)
    return held


ONE_SCAN = 3
"""The scan before, this one, and its mask."""
