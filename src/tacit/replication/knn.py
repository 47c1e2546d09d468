"""Private-kNN, 2020: its items in its own order."""

from __future__ import annotations

from tacit.replication.items import Item

ITEMS: tuple[Item, ...] = ()
"""In the paper's own order."""
