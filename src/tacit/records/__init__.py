"""Reading of private records: rows, targets and people, each cell by itself.

Names that are not in `__all__` are for the packages above.
"""

from tacit.records.overlap import ALLOWED_OVERLAP as ALLOWED_OVERLAP
from tacit.records.overlap import Overlap as Overlap
from tacit.records.overlap import refuse_overlap as refuse_overlap
from tacit.records.reading import FROM_DATA as FROM_DATA
from tacit.records.reading import READ_CLASSES as READ_CLASSES
from tacit.records.reading import Labels as Labels
from tacit.records.reading import NoTargets as NoTargets
from tacit.records.reading import Numbers as Numbers
from tacit.records.reading import Tags as Tags
from tacit.records.reading import Target as Target
from tacit.records.reading import UnreadableCell as UnreadableCell
from tacit.records.reading import bounds_of as bounds_of
from tacit.records.reading import check_containers as check_containers
from tacit.records.reading import is_from_data as is_from_data
from tacit.records.reading import labels_of as labels_of
from tacit.records.reading import names_of_people as names_of_people
from tacit.records.reading import people_of as people_of
from tacit.records.reading import public_matrix, read_records
from tacit.records.reading import read_rows as read_rows
from tacit.records.reading import read_stack as read_stack
from tacit.records.spaces import PrivateRecords, PublicSpace, view_alone
from tacit.records.spaces import Say as Say
from tacit.records.spaces import count_units as count_units
from tacit.records.stored import ArrayPiece as ArrayPiece
from tacit.records.stored import Piece as Piece
from tacit.records.stored import RecordArrays as RecordArrays
from tacit.records.stored import Spread as Spread
from tacit.records.stored import StoredShards as StoredShards
from tacit.records.streams import StreamedRecords, streamed

__all__ = [
    "PrivateRecords",
    "PublicSpace",
    "StreamedRecords",
    "public_matrix",
    "read_records",
    "streamed",
    "view_alone",
]
