"""The door: private rows, whose they are, and public inputs; what a row says is its own."""

from tacit.records.inputs import (
    ALLOWED_OVERLAP,
    FROM_DATA,
    READ_CLASSES,
    class_indices,
    count_units,
    is_from_data,
    private_rows,
    public_matrix,
    refuse_overlap,
    units_of,
    unquoted,
    view_alone,
)
from tacit.records.spaces import HeldRecords, PrivateRecords, PublicSpace

__all__ = [
    "ALLOWED_OVERLAP",
    "FROM_DATA",
    "READ_CLASSES",
    "HeldRecords",
    "PrivateRecords",
    "PublicSpace",
    "class_indices",
    "count_units",
    "is_from_data",
    "private_rows",
    "public_matrix",
    "refuse_overlap",
    "units_of",
    "unquoted",
    "view_alone",
]
