"""The papers, item by item: reproduced, improved, refuted, or not to be had; `tacit replicate`."""

from tacit.replication.items import (
    PAPERS,
    Item,
    Workplace,
    data_folder,
    find_item,
    items_of,
    missing,
    replicate,
)

__all__ = [
    "PAPERS",
    "Item",
    "Workplace",
    "data_folder",
    "find_item",
    "items_of",
    "missing",
    "replicate",
]
