"""High-dimensional targets, two papers in one: their items in their own order."""

from __future__ import annotations

from tacit.replication.items import Item

ITEMS: tuple[Item, ...] = ()
"""In the paper's own order."""
