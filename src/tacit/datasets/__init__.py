"""Loaders for open formats; no message quotes what they read.

Names that are not in `__all__` are for the packages above, which read formats of their own.
"""

from tacit.datasets._reading import existing_file as existing_file
from tacit.datasets._reading import open_npz as open_npz
from tacit.datasets._reading import read_file as read_file
from tacit.datasets.arrays import load_idx, load_npz, read_idx
from tacit.datasets.dataset import Dataset, Parts
from tacit.datasets.declarations import contradictions, proposed_columns
from tacit.datasets.named import deciding_names as deciding_names
from tacit.datasets.named import declared_roles as declared_roles
from tacit.datasets.named import load_adult, load_affairs, load_dataset, load_digits, load_public
from tacit.datasets.named import named_kind as named_kind
from tacit.datasets.named import public_blocks as public_blocks
from tacit.datasets.named import ships as ships
from tacit.datasets.streams import TableInputs as TableInputs
from tacit.datasets.streams import TableStream, open_table
from tacit.datasets.streams import check_columns as check_columns
from tacit.datasets.streams import is_table as is_table
from tacit.datasets.streams import streamed_file as streamed_file
from tacit.datasets.table import load_csv, load_table
from tacit.datasets.texts import load_texts
from tacit.datasets.votes import demo_votes, read_rows, read_votes

__all__ = [
    "Dataset",
    "Parts",
    "TableStream",
    "contradictions",
    "demo_votes",
    "load_adult",
    "load_affairs",
    "load_csv",
    "load_dataset",
    "load_digits",
    "load_idx",
    "load_npz",
    "load_public",
    "load_table",
    "load_texts",
    "open_table",
    "proposed_columns",
    "read_idx",
    "read_rows",
    "read_votes",
]
