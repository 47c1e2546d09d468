"""UCI Adult: who earns more than 50,000 dollars a year, by the census of 1994.

The categories are those of the set's own public description (`adult.names`); the edges are round
numbers fixed here, once, and not read off the rows. Source: Kohavi and Becker (1996), UCI.
"""

from __future__ import annotations

from pathlib import Path

from tacit.datasets._reading import PathLike, file_in, reading
from tacit.datasets.dataset import Dataset
from tacit.datasets.table import Cells, Roles, as_dataset, read_cells
from tacit.features.columns import Categorical, Column, Numeric


def _words(text: str) -> list[str]:
    return text.split()


CLASSES = ("<=50K", ">50K")

COLUMNS: tuple[Column, ...] = (
    Numeric("age", range(20, 75, 5)),
    Categorical(
        "workclass",
        _words(
            "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay "
            "Never-worked"
        ),
    ),
    Numeric("fnlwgt", range(50_000, 450_000, 50_000)),
    Categorical(
        "education",
        _words(
            "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th "
            "Masters 1st-4th 10th Doctorate 5th-6th Preschool"
        ),
    ),
    Numeric("education-num", range(2, 17)),
    Categorical(
        "marital-status",
        _words(
            "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
            "Married-AF-spouse"
        ),
    ),
    Categorical(
        "occupation",
        _words(
            "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
            "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving "
            "Priv-house-serv Protective-serv Armed-Forces"
        ),
    ),
    Categorical(
        "relationship", _words("Wife Own-child Husband Not-in-family Other-relative Unmarried")
    ),
    Categorical("race", _words("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black")),
    Categorical("sex", _words("Female Male")),
    Numeric("capital-gain", (1, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 10_000, 15_000)),
    Numeric("capital-loss", (1, 1000, 1250, 1500, 1750, 2000, 2250, 2500, 3000)),
    Numeric("hours-per-week", (10, 20, 30, 35, 40, 41, 45, 50, 55, 60)),
    Categorical(
        "native-country",
        _words(
            "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) "
            "India Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica "
            "Vietnam Mexico Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti "
            "Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador "
            "Trinadad&Tobago Peru Hong Holand-Netherlands"
        ),
    ),
)

_TARGET = "income"
_ROLES = Roles(_TARGET, COLUMNS)


def load_adult(folder: PathLike) -> Dataset:
    """Load `adult.data` and `adult.test` (plain or `.gz`) in UCI's own format.

    X holds numbers, and indices into the declared categories; `?` is `other`. The rows of
    `adult.data` are the training part (`n_train`).
    """
    train, test = (file_in(folder, name) for name in ("adult.data", "adult.test"))
    parts = [_read(train), _read(test)]
    return as_dataset(parts, _ROLES, CLASSES, "adult", "UCI Adult")


def _read(path: Path) -> Cells:
    header = [*(column.name for column in COLUMNS), _TARGET]
    with reading(path, "file in the format of UCI Adult"):
        cells = read_cells(path, _ROLES, header=header, comment="|")
    labels = [label.removesuffix(".") for label in cells.labels]  # the test file writes a full stop
    return Cells(cells.X, labels, None)
