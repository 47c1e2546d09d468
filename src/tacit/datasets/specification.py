"""A data set by one word, as the command line and configuration files name it: `mnist:DIR`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tacit.datasets.adult import load_adult
from tacit.datasets.dataset import Dataset
from tacit.datasets.digits import load_digits
from tacit.datasets.idx import load_idx
from tacit.datasets.npz import load_npz
from tacit.datasets.table import load_csv
from tacit.errors import InvalidArgument

_LOADERS: dict[str, Callable[..., Dataset]] = {
    "mnist": load_idx,
    "npz": load_npz,
    "csv": load_csv,
    "adult": load_adult,
}
_FORMS = "digits, mnist:DIR, adult:DIR, npz:FILE or csv:FILE"


def load_dataset(specification: str, **options: Any) -> Dataset:
    """Load `digits`, `mnist:DIR`, `adult:DIR`, `npz:FILE` or `csv:FILE`.

    `options` go to the loader: the roles of a CSV file's columns, the classes of an archive.

    >>> load_dataset("digits")
    Dataset(name='digits', features=64, classes=10)
    """
    if not isinstance(specification, str):
        raise InvalidArgument(f"Expected a data set as a word: {_FORMS}.")
    kind, colon, place = specification.partition(":")
    if specification == "digits":
        return _call(load_digits, kind, (), options)
    if kind not in _LOADERS or not colon or not place:
        raise InvalidArgument(f"Expected data={specification!r} to be {_FORMS}.")
    return _call(_LOADERS[kind], kind, (place,), options)


def _call(
    loader: Callable[..., Dataset], kind: str, places: tuple[str, ...], options: dict[str, Any]
) -> Dataset:
    """Call the loader once its options are known to fit; a misspelt one is the caller's mistake."""
    try:
        inspect.signature(loader).bind(*places, **options)
    except TypeError as error:
        raise InvalidArgument(f"Expected options that {kind!r} data take: {error}.") from None
    return loader(*places, **options)
