"""A data set by one word, as the command line and configuration files name it: `mnist:DIR`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from numpy.typing import NDArray

from tacit.datasets.adult import load_adult
from tacit.datasets.affairs import load_affairs
from tacit.datasets.dataset import Dataset
from tacit.datasets.digits import load_digits
from tacit.datasets.idx import load_idx
from tacit.datasets.npz import load_npz
from tacit.datasets.table import load_csv, load_inputs
from tacit.errors import InvalidArgument

Kind = TypeVar("Kind")

_LOADERS: dict[str, Callable[..., Dataset]] = {
    "mnist": load_idx,
    "npz": load_npz,
    "csv": load_csv,
    "adult": load_adult,
    "affairs": load_affairs,
}
_SHIPPED: dict[str, Callable[..., Dataset]] = {"digits": load_digits, "affairs": load_affairs}
"""Sets that come with an installed package: their name is enough."""
_LABELS = ("target", "classes", "groups", "ignored", "name")
"""Options that say what a file of inputs alone need not have."""
_FORMS = "digits, affairs, mnist:DIR, adult:DIR, npz:FILE or csv:FILE"


def load_dataset(specification: str, **options: Any) -> Dataset:
    """Load `digits`, `affairs`, `mnist:DIR`, `adult:DIR`, `npz:FILE` or `csv:FILE`.

    `options` go to the loader: the roles of a CSV file's columns, the classes of an archive.

    >>> load_dataset("digits")
    Dataset(name='digits', features=64, classes=10)
    """
    if not isinstance(specification, str):
        raise InvalidArgument(f"Expected a data set as a word: {_FORMS}.")
    kind, colon, place = specification.partition(":")
    if specification in _SHIPPED:
        return _call(_SHIPPED[specification], kind, (), options)
    if kind not in _LOADERS or not colon or not place:
        raise InvalidArgument(f"Expected data={specification!r} to be {_FORMS}.")
    return _call(_LOADERS[kind], kind, (place,), options)


def load_public(specification: str, **options: Any) -> NDArray[Any]:
    """Load the inputs alone of a data set, for the student; a CSV file needs no labels for that.

    `options` are those of the private data, whose columns the public ones must match.
    """
    kind, _, place = str(specification).partition(":")
    if kind != "csv" or not place:
        return load_dataset(specification, **options).X
    inputs = {key: value for key, value in options.items() if key not in _LABELS}
    return _call(load_inputs, kind, (place,), inputs)


def _call(
    loader: Callable[..., Kind], kind: str, places: tuple[str, ...], options: dict[str, Any]
) -> Kind:
    """Call the loader once its options are known to fit; a misspelt one is the caller's mistake."""
    known = _known_options(kind)
    for option in options:
        if option not in known:
            raise InvalidArgument(
                f"Expected options that {kind!r} data take, not {option!r}; known are "
                f"{', '.join(known) or 'none'}."
            )
    try:
        inspect.signature(loader).bind(*places, **options)
    except TypeError as error:
        raise InvalidArgument(f"Expected options that {kind!r} data take: {error}.") from None
    return loader(*places, **options)


def _known_options(kind: str) -> list[str]:
    """Return the options that data of a kind take; inputs alone may come with all of them."""
    takes = inspect.signature({**_SHIPPED, **_LOADERS}[kind]).parameters.values()
    return [each.name for each in takes if each.kind is inspect.Parameter.KEYWORD_ONLY]
