"""The door: private rows, whose they are, and public inputs; what a row says is its own.

Names that are not in `__all__` are for the packages above.
"""

from tacit.records.inputs import ALLOWED_OVERLAP as ALLOWED_OVERLAP
from tacit.records.inputs import READ_CLASSES as READ_CLASSES
from tacit.records.inputs import Overlap as Overlap
from tacit.records.inputs import class_indices, private_rows, public_matrix, units_of, view_alone
from tacit.records.inputs import count_units as count_units
from tacit.records.inputs import is_from_data as is_from_data
from tacit.records.inputs import refuse_overlap as refuse_overlap
from tacit.records.inputs import unquoted as unquoted
from tacit.records.spaces import PrivateRecords, PublicSpace
from tacit.records.spaces import Say as Say
from tacit.records.stored import ArrayPiece as ArrayPiece
from tacit.records.stored import Piece as Piece
from tacit.records.stored import RawRows as RawRows
from tacit.records.stored import Spread as Spread
from tacit.records.stored import StoredShards as StoredShards
from tacit.records.streams import StreamedRecords, streamed
from tacit.records.streams import people_of as people_of

__all__ = [
    "PrivateRecords",
    "PublicSpace",
    "StreamedRecords",
    "class_indices",
    "private_rows",
    "public_matrix",
    "streamed",
    "units_of",
    "view_alone",
]
