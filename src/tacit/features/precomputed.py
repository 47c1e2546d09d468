"""Rows that are a network's outputs already, and the statement's lines on them."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from tacit._checks import as_array, refuse
from tacit._quiet import kind_of
from tacit.errors import InvalidArgument


@dataclass(eq=False, repr=False)
class PrecomputedEmbeddings(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Rows that are a network's outputs already: unchanged, and listed in the statement.

    The user must have computed each row from its own record alone, not in a batch that changes its
    last bits. In run.toml: `features = "embeddings"`.

    Parameters
    ----------
    name : str, what the statement calls the network
    alone : bool, whether each row is known to be computed by itself, as tacit does it with texts
    files : sequence of path
        What the rows were made with, such as a tokenizer and its table of vectors: read when this
        is made, and named by the statement with the start of each one's hash.
    """

    name: str = "a network"
    _: KW_ONLY
    alone: bool = False
    files: Sequence[str | os.PathLike[str]] = ()

    def __post_init__(self) -> None:
        self._called()  # now: a file may be gone at a release, or be another one

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn nothing.

        Parameters
        ----------
        X : array of shape (n, features), public rows
        y : object, ignored

        Returns
        -------
        self
        """
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the rows unchanged.

        Parameters
        ----------
        X : array of shape (n, features), embeddings

        Returns
        -------
        array
        """
        return as_array(X)

    def presumed(self) -> tuple[str, ...]:
        """Return the assumptions that a statement lists.

        Returns
        -------
        tuple of str, lines for the ledger; public
        """
        if self.alone:
            return (
                f"rows are outputs of {self._called()}, each from its own record alone: presumes "
                "that they were made without the private records",
            )
        return (
            f"rows are outputs of {self._called()}, computed outside tacit: presumes that it was "
            "trained without the private records, and that each row was computed from its own "
            "record alone",
        )

    def described(self) -> dict[str, Any]:
        """Return the parameters for a saved student, without the files.

        Returns
        -------
        dict, plain data
        """
        return {"name": self._called(), "alone": self.alone}

    def _called(self) -> str:
        """Return its name and those of its files, with the hashes that were found first."""
        if isinstance(self.files, str | os.PathLike):
            raise refuse("files", os.fspath(self.files), "a sequence of paths; put it into a list")
        if not (files := tuple(self.files)):
            return self.name
        if self.__dict__.get("_hashed", ((), ""))[0] != files:
            self._hashed = files, " and ".join(map(_named, files))
        return f"{self.name}, made with {self._hashed[1]}"

    def __sklearn_clone__(self) -> Self:
        return copy.copy(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def _named(file: str | os.PathLike[str]) -> str:
    path = Path(file)
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InvalidArgument(
            f"Expected files= to be paths of files; reading {path.name!r} fails with "
            f"{kind_of(error)}."
        ) from None
    return f"{path.name} ({digest[:16]})"
