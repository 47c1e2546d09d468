"""Texts with labels: a column of a table becomes numbers, each text by itself, from local files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit._files import PathLike
from tacit.datasets._reading import existing_file
from tacit.datasets.batches import TextFormat
from tacit.datasets.dataset import Dataset, Label, class_indices, declared_classes
from tacit.datasets.table import Roles, read_cells


def load_texts(
    source: PathLike,
    *,
    text: str,
    target: str,
    classes: Iterable[Label],
    tokenizer: PathLike,
    table: PathLike,
    lexicons: Sequence[PathLike] = (),
    groups: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
    name: str | None = None,
) -> Dataset:
    """Load texts as means of their tokens' public vectors, and as public ratings of their words.

    Parameters
    ----------
    source : path
        A CSV or Parquet file, as `load_table` reads it.
    text : str
        The column of texts; an empty cell is a text without words.
    target : str
        The column of labels.
    classes : iterable of str or int
        All the labels there are; one that is not declared is an error, and is not quoted.
    tokenizer : path
        A `tokenizer.json` of the package tokenizers.
    table : path
        A safetensors file of the tokens' vectors.
    lexicons : sequence of path
        Files with a word, a tab and its rating on each line.
    groups : str, optional
        The column that says whose text it is.
    delimiter : str
        The one character between cells of a text file.
    encoding : str
        Of a text file.
    name : str, optional
        What the set is called; by default the file's name without its ending.

    Returns
    -------
    Dataset
        X holds the numbers of `StaticTextEncoder`, then those of `LexiconScores`; `described_by`
        names the files, with the start of each one's hash.

    References
    ----------
    docs/encoders.md#texts
    """
    declared, written = declared_classes(classes), TextFormat(delimiter, ".", encoding)
    files = (table, tokenizer, *lexicons)
    described_by = " and ".join(_named(file) for file in files)
    X = load_text_inputs(
        source,
        text=text,
        tokenizer=tokenizer,
        table=table,
        lexicons=lexicons,
        delimiter=delimiter,
        encoding=encoding,
    )
    cells = read_cells(source, Roles(target, (), groups), written)
    where = f"column {target!r} of {Path(source).name!r}"
    y = class_indices(cells.labels, [str(label) for label in declared], where)
    called = Path(source).name.partition(".")[0] if name is None else name
    return Dataset(X, y, declared, called, groups=cells.groups, described_by=described_by)


def load_text_inputs(
    source: PathLike,
    *,
    text: str,
    tokenizer: PathLike,
    table: PathLike,
    lexicons: Sequence[PathLike] = (),
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> NDArray[np.float32]:
    """Load the inputs alone, as `load_texts` does: public texts need no labels."""
    from tacit.features import LexiconScores, StaticTextEncoder

    # Read before any text is: a mistake in a path must not wait for private ones.
    vectors = StaticTextEncoder(tokenizer, table=table).fit(None)
    ratings = LexiconScores(lexicons).fit(None)
    texts = read_cells(source, Roles(text, ()), TextFormat(delimiter, ".", encoding)).labels
    return np.hstack([vectors.transform(texts), ratings.transform(texts)])


def _named(file: PathLike) -> str:
    digest = hashlib.sha256(existing_file(file).read_bytes()).hexdigest()
    return f"{Path(file).name} ({digest[:16]})"
