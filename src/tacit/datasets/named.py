"""Data sets by one word, as the command line and configuration files name them: `mnist:DIR`.

And three sets with columns of their own: digits, affairs, adult. Their categories are those of
public descriptions; the edges are round numbers, not read off the rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit._checks import refuse
from tacit._files import PathLike
from tacit._registry import DATASETS, found
from tacit.datasets._reading import file_in
from tacit.datasets.arrays import npz_row_ids
from tacit.datasets.batches import TextFormat
from tacit.datasets.dataset import Dataset
from tacit.datasets.table import (
    Roles,
    as_dataset,
    ids_as_written,
    input_blocks,
    load_inputs,
    read_table,
    roles_of,
    table_names,
    target_of,
)
from tacit.datasets.texts import load_text_inputs, text_names
from tacit.errors import InvalidArgument, MissingExtra
from tacit.features import Categorical, Column, Numeric

Kind = TypeVar("Kind")
_BRIGHTEST = 16  # counts of black pixels in 4 x 4 squares of a 32 x 32 scan


def load_digits() -> Dataset:
    """Load the 1,797 digits, 8 x 8, inside scikit-learn, as float32 in [0, 1]: no file needed.

    Source: Alpaydin and Kaynak (1998), Optical Recognition of Handwritten Digits, UCI; its test
    part.

    Returns
    -------
    Dataset, of 64 features, classes 0 .. 9, without a test part

    Examples
    --------
    >>> load_digits(), len(load_digits())
    (Dataset(name='digits', features=64, classes=10), 1797)
    """
    from sklearn.datasets import load_digits as load

    pixels, labels = load(return_X_y=True)
    X, y = (pixels / _BRIGHTEST).astype(np.float32), labels.astype(np.int64)
    return Dataset(X, y, tuple(range(10)), "digits", (8, 8))


def _declared(columns: dict[str, Any]) -> tuple[Column, ...]:
    """Return columns by name: words are categories, numbers the edges of bins."""
    made: list[Column] = []
    for name, given in columns.items():
        listed: Any = given.split() if isinstance(given, str) else given
        kind = Categorical if isinstance(listed[0], str) else Numeric
        made.append(kind(name, listed))
    return tuple(made)


_JOBS = ("student", "unskilled", "skilled", "teacher or nurse", "managerial", "professional")
AFFAIRS = _declared(
    {
        "rate_marriage": (1.5, 2.5, 3.5, 4.5),
        "age": (20, 25, 30, 35, 40),
        "yrs_married": (1, 4, 8, 11, 15, 20),
        "children": (0.5, 1.5, 2.5, 3.5, 4.5),
        "religious": (1.5, 2.5, 3.5),
        "educ": (10, 13, 15, 16.5, 18),
        "occupation": _JOBS,
        "occupation_husb": _JOBS,
    }
)


def load_affairs(path: PathLike | None = None) -> Dataset:
    """Load Fair's survey from statsmodels' folder, or from a copy of its file `fair.csv`.

    Which of 6,366 married women had an affair, by a magazine's survey of 1974: one record each,
    eight answers on coarse scales. Classes: whether the time spent in affairs is 0. Occupations,
    1 .. 6 in the file, are indices from 0. Edges lie between the answers of the questionnaire.
    Source: Fair, "A theory of extramarital affairs", Journal of Political Economy 86 (1978).

    Parameters
    ----------
    path : path, optional
        A copy of the file; None takes the one that the installed statsmodels ships.

    Returns
    -------
    Dataset, with declared columns, classes "none" and "some", without a test part
    """
    file = _shipped_affairs() if path is None else Path(path)
    names = tuple(column.name for column in AFFAIRS)
    X, time = np.split(load_inputs(file, numeric=(*names, "affairs")), [len(names)], axis=1)
    jobs = [place for place, column in enumerate(AFFAIRS) if isinstance(column, Categorical)]
    X[:, jobs] -= 1
    if not np.isin(X[:, jobs], range(len(_JOBS))).all():
        raise InvalidArgument(f"Expected {file.name!r} to hold occupations 1 .. 6 only.")
    y = (time[:, 0] > 0).astype(np.int64)
    return Dataset(X, y, ("none", "some"), "affairs", columns=AFFAIRS)


def _shipped_affairs() -> Path:
    """Find the file without importing statsmodels, whose dependencies may be missing."""
    found = find_spec("statsmodels")
    for folder in (found.submodule_search_locations or ()) if found else ():
        if (file := Path(folder) / "datasets" / "fair" / "fair.csv").is_file():
            return file
    raise MissingExtra(
        "Expected the package statsmodels, which ships the survey; pip install statsmodels, or "
        "name a copy of its file: affairs:FILE."
    )


ADULT = _declared(
    {
        "age": range(20, 75, 5),
        "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov "
        "Without-pay Never-worked",
        "fnlwgt": range(50_000, 450_000, 50_000),
        "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th "
        "7th-8th 12th Masters 1st-4th 10th Doctorate 5th-6th Preschool",
        "education-num": range(2, 17),
        "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed "
        "Married-spouse-absent Married-AF-spouse",
        "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial "
        "Prof-specialty Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing "
        "Transport-moving Priv-house-serv Protective-serv Armed-Forces",
        "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
        "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
        "sex": "Female Male",
        "capital-gain": (1, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 10_000, 15_000),
        "capital-loss": (1, 1000, 1250, 1500, 1750, 2000, 2250, 2500, 3000),
        "hours-per-week": (10, 20, 30, 35, 40, 41, 45, 50, 55, 60),
        "native-country": "United-States Cambodia England Puerto-Rico Canada Germany "
        "Outlying-US(Guam-USVI-etc) India Japan Greece South China Cuba Iran Honduras Philippines "
        "Italy Poland Jamaica Vietnam Mexico Portugal Ireland France Dominican-Republic Laos "
        "Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia "
        "El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
    }
)


def load_adult(folder: PathLike) -> Dataset:
    """Load `adult.data` and `adult.test` (plain or `.gz`) in UCI's own format.

    Who earns more than 50,000 dollars a year, by the census of 1994. X holds numbers, and indices
    into the declared categories; `?` is `other`.
    Source: Kohavi and Becker (1996), UCI; categories of its `adult.names`.

    Parameters
    ----------
    folder : path
        Folder of the two files.

    Returns
    -------
    Dataset
        With declared columns, classes "<=50K" and ">50K"; `adult.data` is the training part.
    """
    roles, parts = Roles("income", ADULT), []
    # The test file writes a full stop after each label.
    for name, labels in (
        ("adult.data", _INCOMES),
        ("adult.test", tuple(f"{i}." for i in _INCOMES)),
    ):
        text = TextFormat(header=roles.names, comment="|")
        parts.append(read_table(file_in(folder, name), roles, text, target_of(labels, None)))
    return as_dataset(parts, roles, _INCOMES, "adult")


_INCOMES = ("<=50K", ">50K")


# Options that say what a file of inputs alone need not have.
_LABELS = ("target", "classes", "target_range", "groups", "ignored", "name")


def ships(kind: str) -> bool:
    """Whether a set comes with an installed package: its name is enough.

    >>> ships("digits"), ships("affairs"), ships("mnist")
    (True, True, False)
    """
    return kind in DATASETS and all(place.default is not place.empty for place in _places(kind))


def _places(kind: str) -> list[inspect.Parameter]:
    """Return a loader's parameters other than options: the path, or nothing."""
    takes = inspect.signature(found(DATASETS[kind])).parameters.values()
    return [each for each in takes if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]


def _forms() -> str:
    """List every specification: `digits, mnist:DIR or csv:FILE`."""
    ends = {"folder": "DIR", "path": "FILE", "source": "FILE"}
    *most, last = (
        kind if ships(kind) else f"{kind}:{ends[_places(kind)[0].name]}" for kind in DATASETS
    )
    return f"{', '.join(most)} or {last}"


def load_dataset(specification: str, **options: Any) -> Dataset:
    """Load `digits`, `affairs`, `mnist:DIR`, `adult:DIR`, `npz:FILE`, `csv:FILE`, `texts:FILE`.

    Parameters
    ----------
    specification : str, one of these, with a path for FILE or DIR
    **options
        The loader's own: column roles (`load_table`), classes of an archive (`load_npz`) or of
        images (`load_idx`), files of an encoder (`load_texts`). Others are refused.

    Returns
    -------
    Dataset, in memory, with the declared classes

    Examples
    --------
    >>> load_dataset("digits")
    Dataset(name='digits', features=64, classes=10)
    """
    if not isinstance(specification, str):
        raise InvalidArgument(f"Expected a data set as a word: {_forms()}.")
    kind, _, place = named_kind(specification).partition(":")
    if not ships(specification) and (kind not in DATASETS or not place or not _places(kind)):
        raise InvalidArgument(f"Expected data={specification!r} to be {_forms()}.")
    loader: Callable[..., Dataset] = found(DATASETS[kind])
    return call_loader(loader, kind, (place,) if place else (), options)


def load_public(specification: str, **options: Any) -> NDArray[Any]:
    """Load a data set's inputs alone, for the student; a table needs no labels for that.

    Parameters
    ----------
    specification : str, as for `load_dataset`
    **options
        Those of the private data, whose columns the public ones must match.

    Returns
    -------
    array of shape (rows, features), public
    """
    kind, _, place = named_kind(specification).partition(":")
    if kind not in _UNLABELLED or not place:
        return load_dataset(specification, **options).X
    inputs = {key: value for key, value in options.items() if key not in _LABELS}
    return call_loader(_UNLABELLED[kind], kind, (place,), inputs)


_TABLES = ("csv", "parquet")
_UNLABELLED: dict[str, Callable[..., Any]] = {
    "csv": load_inputs,
    "parquet": load_inputs,
    "texts": load_text_inputs,
}
_WRITTEN = ("delimiter", "decimal", "encoding")
"""Options that say how a text file is written."""


def declared_roles(specification: str, **options: Any) -> Roles | None:
    """Return the declared roles of a table's columns, None for arrays; no row is read."""
    kind = named_kind(specification).partition(":")[0]
    if kind in _TABLES:
        inputs = {key: value for key, value in options.items() if key not in _LABELS}
        return roles_of(None, **{key: inputs[key] for key in inputs if key not in _WRITTEN})
    shipped = {"adult": ADULT, "affairs": AFFAIRS}
    return Roles(None, shipped[kind]) if kind in shipped else None


def public_blocks(
    specification: str, *, ids: str | None = None, **options: Any
) -> Iterator[tuple[NDArray[Any], list[str]]]:
    """Yield a data set's inputs and the cells of column `ids`: a table in batches, others at once.

    Options are those of the private data, whose columns the public ones must match.
    """
    kind, _, place = named_kind(specification).partition(":")
    if kind in _TABLES and place:
        inputs = {key: value for key, value in options.items() if key not in _LABELS}
        yield from call_loader(input_blocks, kind, (place,), inputs, ids=ids)
    elif ids is not None:
        raise InvalidArgument(f"Expected a table for the column {ids!r}, got {specification!r}.")
    else:
        yield load_public(specification, **options), []


def deciding_names(specification: str, rule: int, **options: Any) -> list[bytes]:
    """Return what decides each record's side of a split, from its own record alone. Secret.

    Rule 2: the text of the person's id; without `groups`, a hash of the record's inputs as stored.
    Rule 1, for runs of 0.2: the id as it is written, or a hash of the inputs after loading.
    """
    from tacit.teachers import record_ids

    kind, _, place = named_kind(specification).partition(":")
    told = {key: value for key, value in options.items() if key != "name"}
    if kind == "npz":
        return list(npz_row_ids(place, rule))
    if kind not in (*_TABLES, "texts"):
        return list(record_ids(load_dataset(specification, **options).X))
    if rule == 1:
        if told.get("unreadable", "refuse") != "refuse":
            raise refuse("unreadable", told["unreadable"], "'refuse' where split_rule = 1")
        if "groups" in told:
            how = {key: told[key] for key in ("delimiter", "encoding") if key in told}
            return ids_as_written(place, told["groups"], **how)
        return list(record_ids(load_dataset(specification, **options).X))
    if kind == "texts":
        return text_names(place, **told)
    return table_names(place, **told)


_ENDINGS = {".csv": "csv", ".npz": "npz", ".parquet": "parquet", ".pq": "parquet"}
_PACKED = (".gz", ".bz2", ".xz", ".zst")


def named_kind(specification: Any) -> str:
    """Return a specification with its kind: "new.csv" is "csv:new.csv".

    >>> named_kind("new.csv.gz"), named_kind("mnist:data"), named_kind("digits")
    ('csv:new.csv.gz', 'mnist:data', 'digits')
    """
    text = str(specification)
    path = Path(text.lower())
    known = _ENDINGS.get(Path(path.stem).suffix if path.suffix in _PACKED else path.suffix)
    return text if known is None or text.partition(":")[0] in DATASETS else f"{known}:{text}"


def call_loader(
    loader: Callable[..., Kind],
    kind: str,
    places: tuple[str, ...],
    options: dict[str, Any],
    **more: Any,
) -> Kind:
    """Call the loader, after its options are checked: a misspelt one is the caller's mistake."""
    # Those of the kind: inputs alone may come with all of them.
    takes = inspect.signature(found(DATASETS[kind])).parameters.values()
    known = [each.name for each in takes if each.kind is inspect.Parameter.KEYWORD_ONLY]
    if unknown := [option for option in options if option not in known]:
        raise InvalidArgument(
            f"Expected options that {kind!r} data take, not {unknown[0]!r}; known are "
            f"{', '.join(known) or 'none'}."
        )
    try:
        inspect.signature(loader).bind(*places, **options)
    except TypeError as error:
        raise InvalidArgument(f"Expected options that {kind!r} data take: {error}.") from None
    return loader(*places, **options, **more)
