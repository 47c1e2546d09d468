"""Texts as numbers, each text by itself: public vectors of its tokens, public ratings of its words.

Everything is read from local files or given; nothing is fetched, and nothing is learned from texts.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from tacit._extras import need
from tacit._quiet import kind_of, quiet
from tacit.errors import InvalidArgument


class _TextsAsNumbers(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the text encoders, whose files are read once; copies read them again."""

    def _opened(self) -> Any:
        """Return what was read, at the first time from the files."""
        if "_read" not in self.__dict__:
            self._read = self._open()
        return self._read

    def _open(self) -> Any:
        raise NotImplementedError

    def fit(self, X: object, y: object = None) -> Self:
        """Read the files; nothing is learned from texts."""
        self._opened()
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_read"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = True
        return tags


@dataclass(eq=False, repr=False)
class StaticTextEncoder(_TextsAsNumbers):
    """The mean vector of a text's tokens, from a public table; each text by itself.

    Nothing is fetched or learned. For `fit`, put `PrecomputedEmbeddings("vectors", alone=True,
    files=[tokenizer, table])` in front of `PublicWhitening`: the statement then lists the
    assumptions, with the hashes of both files. Source: docs/encoders.md.

    Parameters
    ----------
    tokenizer : path, a tokenizer of the package tokenizers (`tokenizer.json`)
    table : path, a safetensors file with one matrix (tokens, dimensions), a row for every token
    """

    tokenizer: str | os.PathLike[str]
    _: KW_ONLY
    table: str | os.PathLike[str]

    def _open(self) -> tuple[Any, NDArray[np.float32]]:
        tokens = need("tokenizers", "to read a tokenizer", extra="encoders")
        tensors = need("safetensors.numpy", "to read a table of vectors", extra="encoders")
        try:
            tokenizer = tokens.Tokenizer.from_file(os.fspath(self.tokenizer))
            found = tensors.load_file(os.fspath(self.table))
            matrices = {name: each for name, each in found.items() if each.ndim == 2}
            largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
        except Exception as error:
            raise InvalidArgument(
                "Expected tokenizer= a tokenizer.json and table= a safetensors file with a "
                f"matrix; reading them fails with {type(error).__name__}."
            ) from None
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer, _only(matrices, largest)

    def transform(self, X: Iterable[str]) -> NDArray[np.float32]:
        """Return a vector for each text, as secret as the texts.

        Parameters
        ----------
        X : iterable of str, texts, private or public

        Returns
        -------
        array of float32 of shape (texts, dimensions), 0 for no tokens, NaN for what is no text
        """
        tokenizer, table = self._opened()

        def mean(text: str) -> ArrayLike:
            places = tokenizer.encode(text, add_special_tokens=False).ids
            return np.asarray(table[places].sum(axis=0, dtype=np.float64) / max(len(places), 1))

        return _each(X, mean, table.shape[1])


def _only(matrices: Mapping[str, NDArray[Any]], largest: int) -> NDArray[np.float32]:
    """Return the one matrix, which must have a vector for every token."""
    if len(matrices) != 1:
        raise InvalidArgument(
            f"Expected table= a safetensors file with one matrix, got {sorted(matrices)}; save the "
            "vectors of tokens alone."
        )
    (table,) = matrices.values()
    if largest >= len(table):
        raise InvalidArgument(
            f"Expected table= to have a row for each token of the tokenizer, up to {largest}, got "
            f"{len(table)} rows; give the tokenizer that the vectors were made with."
        )
    return np.asarray(table, dtype=np.float32)


_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_NEGATING = """
not no never none nothing nowhere neither nor cannot without hardly barely scarcely rarely seldom
lack lacks lacking few little less ain't aren't can't couldn't didn't doesn't don't hadn't hasn't
haven't isn't shouldn't wasn't weren't won't wouldn't
"""
_NEGATIONS = frozenset(_NEGATING.split())
_NEGATED_WITHIN = 3
_NEGATED = -0.74
_TURNS = frozenset(("but", "yet", "however", "though"))
_BEFORE_TURN, _AFTER_TURN = 0.5, 1.5
"""Rules and numbers of VADER: what is negated, and what stands before or after a "but"."""


@dataclass(eq=False, repr=False)
class LexiconScores(_TextsAsNumbers):
    """Public ratings of words in an English text: four numbers for each lexicon.

    A rating counts -0.74 times within three words after a negation, half before the last "but" and
    1.5 times after it. The numbers are their sum, the sum of those above 0, and of those below,
    each over the root of the number of words; and the sum over 2 + the sum of sizes. Source: Hutto
    and Gilbert 2014 (VADER); docs/encoders.md#texts.

    Parameters
    ----------
    lexicons : sequence of mapping or path
        Ratings of words, in any case, above 0 for praise and below for blame; or a file with a
        word, a tab and its rating on each line (more cells and other lines are skipped).
    """

    lexicons: Sequence[Mapping[str, float] | str | os.PathLike[str]]

    def _open(self) -> list[dict[str, float]]:
        return [_lexicon(given) for given in self.lexicons]

    def transform(self, X: Iterable[str]) -> NDArray[np.float32]:
        """Return the scores of each text, as secret as the texts.

        Parameters
        ----------
        X : iterable of str, texts, private or public

        Returns
        -------
        array of float32 of shape (texts, 4 lexicons), 0 for no rated words, NaN for what is no text
        """
        ratings = self._opened()

        def scores(text: str) -> ArrayLike:
            words = _WORD.findall(text.lower().replace("\u2019", "'"))
            weights = _weights(words)
            return np.concatenate([_scores(words, weights, each) for each in ratings])

        return _each(X, scores, 4 * len(ratings))


def _lexicon(given: Mapping[str, float] | str | os.PathLike[str]) -> dict[str, float]:
    """Return ratings by word, all of them finite; an empty lexicon is refused."""
    words = given.items() if isinstance(given, Mapping) else _rated_lines(given)
    rated = {str(word).lower(): rating for word, rating in words}
    numbers = all(isinstance(rating, int | float) for rating in rated.values())
    if not rated or not numbers or not np.isfinite([*rated.values()]).all():
        raise InvalidArgument(
            "Expected a lexicon of words with finite ratings: a mapping, or a file with a word, a "
            "tab and a rating on its lines."
        )
    return rated


def _rated_lines(path: str | os.PathLike[str]) -> list[tuple[str, float]]:
    rated = []
    try:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                word, _, rest = line.rstrip("\n").partition("\t")
                with contextlib.suppress(ValueError):
                    rated.append((word, float(rest.partition("\t")[0])))
    except (OSError, UnicodeError) as error:
        raise InvalidArgument(
            "Expected a lexicon, a file of words with ratings; reading it fails with "
            f"{type(error).__name__}."
        ) from None
    return rated


def _weights(words: list[str]) -> list[float]:
    """Return the weight of each word's rating: by negations before it, and by the last "but"."""
    turn = max((place for place, word in enumerate(words) if word in _TURNS), default=-1)
    weights = []
    for place in range(len(words)):
        before = words[max(0, place - _NEGATED_WITHIN) : place]
        weight = _NEGATED if _NEGATIONS.intersection(before) else 1.0
        if turn >= 0:
            weight *= _AFTER_TURN if place > turn else _BEFORE_TURN
        weights.append(weight)
    return weights


def _scores(words: list[str], weights: list[float], ratings: Mapping[str, float]) -> list[float]:
    rated = [ratings[w] * weight for w, weight in zip(words, weights, strict=True) if w in ratings]
    praise, blame = sum(r for r in rated if r > 0), sum(r for r in rated if r < 0)
    total, root = praise + blame, max(len(words), 1) ** 0.5
    return [total / root, praise / root, blame / root, total / (2 + praise - blame)]


def _each(
    texts: Iterable[str], described: Callable[[str], ArrayLike], width: int
) -> NDArray[np.float32]:
    """Describe each text by itself; what is no text becomes NaN, silently."""
    if isinstance(texts, str | bytes):
        raise InvalidArgument("Expected X to be several texts, got one; put it into a list.")
    made = []
    with quiet():
        for text in texts:
            try:
                made.append(np.asarray(described(text), dtype=np.float32))
            except BaseException as error:
                kind_of(error)  # an interrupt goes on
                made.append(np.full(width, np.nan, dtype=np.float32))
    return np.array(made, dtype=np.float32).reshape(len(made), width)
