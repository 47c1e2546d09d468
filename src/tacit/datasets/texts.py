"""Texts with labels: a column of a table becomes numbers, each text by itself, from local files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._cells import texts_of
from tacit._files import PathLike
from tacit.datasets._reading import existing_file
from tacit.datasets.batches import TextFormat, batches_of
from tacit.datasets.dataset import Dataset, Label, declared_classes
from tacit.datasets.table import (
    Roles,
    check_names,
    hash_of,
    names_of_ids,
    read_table,
    target_of,
)


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

    See docs/encoders.md#texts.

    Parameters
    ----------
    source : path
        A CSV or Parquet file, as `load_table` reads it.
    text : str
        The column of texts; an empty cell is a text without words.
    target : str
        The column of labels.
    classes : iterable of str or int
        All the labels there are; an undeclared one is an error, and is not quoted.
    tokenizer : path
        A `tokenizer.json` of the package tokenizers.
    table : path
        A safetensors file of the tokens' vectors.
    lexicons : sequence of path
        Files with a word, a tab and its rating on each line.
    groups : str, optional
        The column of the texts' people.
    delimiter : str
        The one character between cells of a text file.
    encoding : str
        Of a text file.
    name : str, optional
        Name of the set; by default the file's without its ending.

    Returns
    -------
    Dataset
        X holds the numbers of `StaticTextEncoder`, then those of `LexiconScores`; `described_by`
        names the files, with the start of each one's hash.
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
    block = read_table(source, Roles(target, (), groups), written, target_of(declared, None))
    called = Path(source).name.partition(".")[0] if name is None else name
    groups_of = None if block.ids is None else np.array(block.ids, dtype=object)
    about: dict[str, Any] = {"groups": groups_of, "described_by": described_by}
    return Dataset(X, block.targets, declared, called, **about)


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
    texts = read_texts(source, text, delimiter=delimiter, encoding=encoding)
    return np.hstack([vectors.transform(texts), ratings.transform(texts)])


def read_texts(
    source: PathLike, text: str, *, delimiter: str = ",", encoding: str = "utf-8"
) -> list[str]:
    """Return the texts of a column, each as it is written. Secret."""
    table = batches_of(source, TextFormat(delimiter, ".", encoding))
    check_names(table, Roles(text, ()))
    return [each for batch in table.of([text]) for each in texts_of(batch[text])]


def text_names(
    source: PathLike,
    *,
    text: str,
    target: str,
    classes: Iterable[Label],
    groups: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
    **_: Any,
) -> list[bytes]:
    """Return each text's person, or a hash of the text, in the order of `load_texts`. Secret."""
    if groups is not None:
        written = TextFormat(delimiter, ".", encoding)
        wanted = target_of(declared_classes(classes), None)
        return names_of_ids(
            read_table(source, Roles(target, (), groups), written, wanted).ids or ()
        )
    texts = read_texts(source, text, delimiter=delimiter, encoding=encoding)
    return [hash_of([one]) for one in names_of_ids(texts)]


def _named(file: PathLike) -> str:
    digest = hashlib.sha256(existing_file(file).read_bytes()).hexdigest()
    return f"{Path(file).name} ({digest[:16]})"
