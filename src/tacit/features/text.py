"""Texts as the mean of their tokens' public vectors: a table and a tokenizer from local files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from tacit._extras import need
from tacit._quiet import kind_of, quiet
from tacit.errors import InvalidArgument


@dataclass(eq=False, repr=False)
class StaticTextEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The mean vector of a text's tokens, from a public table; each text by itself.

    Parameters
    ----------
    tokenizer : path
        A tokenizer of the package tokenizers (`tokenizer.json`).
    table : path
        A safetensors file with a matrix (tokens, dimensions): the first one in it.

    Notes
    -----
    Nothing is fetched, and nothing is learned. The vectors are rows for `fit`, where
    `PrecomputedEmbeddings` in front of `PublicWhitening` lets the statement say what they presume.

    References
    ----------
    docs/encoders.md
    """

    tokenizer: str | os.PathLike[str]
    _: KW_ONLY
    table: str | os.PathLike[str]

    def fit(self, X: object, y: object = None) -> Self:
        """Read the two files; nothing is learned from texts.

        Parameters
        ----------
        X : object
            Ignored.
        y : object
            Ignored.

        Returns
        -------
        self
            Ready.
        """
        self._files()
        return self

    def _files(self) -> tuple[Any, NDArray[np.float32]]:
        if "_read" not in self.__dict__:
            tokens = need("tokenizers", "to read a tokenizer", extra="encoders")
            tensors = need("safetensors.numpy", "to read a table of vectors", extra="encoders")
            try:
                tokenizer = tokens.Tokenizer.from_file(os.fspath(self.tokenizer))
                found = tensors.load_file(os.fspath(self.table))
                (table, *_) = [each for each in found.values() if each.ndim == 2]
            except Exception as error:
                raise InvalidArgument(
                    "Expected tokenizer= a tokenizer.json and table= a safetensors file with a "
                    f"matrix; reading them fails with {type(error).__name__}."
                ) from None
            tokenizer.no_padding()
            tokenizer.no_truncation()
            self._read = tokenizer, np.asarray(table, dtype=np.float32)
        return self._read

    def transform(self, X: Iterable[str]) -> NDArray[np.float32]:
        """Return a vector for each text.

        Parameters
        ----------
        X : iterable of str
            Texts, private or public.

        Returns
        -------
        array of float32 of shape (texts, dimensions)
            As secret as the texts; 0 for a text without tokens, NaN for what is no text.
        """
        tokenizer, table = self._files()
        made = []
        with quiet():
            for text in X:
                try:
                    places = tokenizer.encode(text, add_special_tokens=False).ids
                    places = [place for place in places if place < len(table)]
                    total = table[places].sum(axis=0, dtype=np.float64)
                    made.append(total / max(len(places), 1))
                except BaseException as error:
                    kind_of(error)  # an interrupt goes on
                    made.append(np.full(table.shape[1], np.nan))
        return np.array(made, dtype=np.float32).reshape(len(made), table.shape[1])

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_read"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = True
        return tags
