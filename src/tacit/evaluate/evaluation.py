"""The result of an evaluation: noisy tables, the public numbers that read them, and figures.

All of it is public: the tables were paid for, and figures at any threshold are post-processing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from tacit._checks import Floats, finite
from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument
from tacit.evaluate.bands import Band
from tacit.evaluate.binary import BinaryTable, Told
from tacit.evaluate.bins import ScoreBins
from tacit.evaluate.classes import ConfusionTable
from tacit.evaluate.dice import DiceSums
from tacit.evaluate.numbers import NumberSums

FORMAT, VERSION = "tacit-evaluation", 1
NAMES = {
    "auc": "area under the ROC curve",
    "average_precision": "average precision, at these thresholds",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "recall": "recall (sensitivity)",
    "specificity": "specificity",
    "precision": "precision",
    "brier": "Brier score",
    "share": "share of positives",
    "r_squared": "R^2",
    "mean_absolute_error": "mean absolute error",
    "dice": "mean Dice",
    "something": "share of scans with something to find",
    "left_alone": "nothing found where there is nothing",
}
"""Readable names of the figures."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """How good a model is, from one private release of held-out records.

    Parameters
    ----------
    kind : str, "binary", "classes", "numbers" or "masks"
    tables : dict of str to array, what was released, by name; public
    sigma : float, deviation of the noise on each number of them
    n_records : int, declared records (or people), which decided the figures
    shares : list of float
        Of the classes, as declared; empty for numbers. Of masks: of scans with something to find.
    bins : ScoreBins, optional, edges between scores, and the public scores inside them
    classes : list, the label set; the last is the positive one of two
    threshold : float, of the positive class's probability
    numbers : dict
        For numbers: `scale` and `predicted` of `NumberSums`. For masks: `scores`, their names.
    entries : list of str, hashes of the ledger's entries that paid
    epsilon, delta : float, the cost of the evaluation alone
    """

    kind: str
    tables: dict[str, Floats]
    sigma: float
    n_records: int
    shares: list[float] = field(default_factory=list)
    bins: ScoreBins | None = None
    classes: list[Any] = field(default_factory=list)
    threshold: float = 0.5
    numbers: dict[str, Any] = field(default_factory=dict)
    entries: list[str] = field(default_factory=list)
    epsilon: float = 0.0
    delta: float = 0.0

    def scores(self) -> BinaryTable:
        """Return the table of scores; with several classes, positive is a right label.

        Returns
        -------
        BinaryTable
        """
        bins = self._bins()
        share = self.shares[-1] if self.kind == "binary" else self.numbers["right"]
        told = Told.at(self.n_records, share, self.sigma, bins)
        return BinaryTable(self.tables["scores"], self.sigma, bins, told)

    def _bins(self) -> ScoreBins:
        if self.bins is None:
            raise InvalidArgument(f"Expected an evaluation of classes; this one is of {self.kind}.")
        return self.bins

    def _confusion(self) -> ConfusionTable:
        shares = np.asarray(self.shares)
        return ConfusionTable(self.tables["confusion"], self.sigma, self.n_records, shares)

    def _numbers(self) -> NumberSums:
        scale, predicted = (tuple(self.numbers[name]) for name in ("scale", "predicted"))
        sums = self.tables["sums"]
        return NumberSums(sums, self.sigma, self.n_records, scale, predicted)

    def _masks(self) -> DiceSums:
        names = list(self.numbers["scores"])
        return DiceSums(self.tables["sums"], self.sigma, self.n_records, self.shares[0], names)

    def figures(self) -> dict[str, Any]:
        """Return all figures, as Bands.

        Returns
        -------
        dict
            By name. "thresholds" has a dict for each edge and "calibration" pairs of mean score and
            Band; with several classes they are of "the label is right", by its probability.
        """
        if self.kind == "numbers":
            return self._numbers().figures()
        if self.kind == "masks":
            return self._masks().figures()
        told = self.scores().figures()
        if self.kind == "classes":
            kept = {"confidence_auc": told.get("auc"), "calibration": told["calibration"]}
            return self._confusion().figures() | {k: v for k, v in kept.items() if v is not None}
        return told

    def nearest_edge(self, threshold: float) -> tuple[int, float]:
        """Return the edge nearest to a threshold, and its probability.

        Parameters
        ----------
        threshold : float, between 0 and 1

        Returns
        -------
        tuple of int and float
        """
        edges = self._bins().edges
        place = int(np.abs(edges - finite(threshold=threshold)).argmin())
        return place, float(edges[place])

    def at(self, threshold: float | None = None) -> dict[str, Band]:
        """Return recall, specificity, precision and accuracies at a threshold; free.

        Parameters
        ----------
        threshold : float, optional, the nearest edge is taken; None: the one declared beforehand

        Returns
        -------
        dict of str to Band
        """
        if self.kind != "binary":
            raise InvalidArgument("Expected an evaluation of two classes for a threshold.")
        edge, _ = self.nearest_edge(self.threshold if threshold is None else threshold)
        return self.scores().at(edge)

    def confusion(self, threshold: float | None = None) -> Floats:
        """Return the noisy confusion matrix: rows true, columns predicted.

        Parameters
        ----------
        threshold : float, optional, of two classes, the nearest edge is taken

        Returns
        -------
        array of shape (classes, classes), noisy counts of records or people; some may be negative
        """
        if self.kind == "classes":
            return self.tables["confusion"]
        edge, _ = self.nearest_edge(self.threshold if threshold is None else threshold)
        counts = {name: each[0] for name, each in self.scores().counts_at(edge).items()}
        return np.array([[counts["tn"], counts["fp"]], [counts["fn"], counts["tp"]]])

    def refused(self) -> list[str]:
        """Return the names of figures that so many records cannot give at this price.

        Returns
        -------
        list of str, decided from declared numbers and public scores before anything was released
        """
        wanted = {
            "binary": ("auc", "average_precision", "brier", "share"),
            "classes": ("accuracy", "balanced_accuracy"),
            "numbers": ("r_squared", "mean_absolute_error"),
            "masks": ("something",),
        }[self.kind]
        told = self.figures()
        missing = [NAMES[name] for name in wanted if name not in told]
        if self.kind == "masks" and None in told["dice"]:
            missing.append(NAMES["dice"])
        if self.kind == "binary":
            here = self.at()
            missing += [
                f"{NAMES[name]} at {self.threshold:g}"
                for name in ("recall", "precision")
                if name not in here
            ]
        return missing

    def rows(self) -> Iterator[tuple[str, Band]]:
        """Yield the figures that are one number each; of two classes, also at the threshold.

        Yields
        ------
        tuple of str and Band
        """
        told = self.figures()
        for name, value in told.items():
            if isinstance(value, Band) and np.ndim(value.value) == 0:
                yield NAMES.get(name, "AUC of the label's own probability"), value
        if self.kind == "masks":
            for score, found in zip(self.numbers["scores"], told["dice"], strict=True):
                if found is not None:
                    yield f"{NAMES['dice']} of {score}", found
        if self.kind == "binary":
            for name, band in self.at().items():
                yield f"{NAMES[name]} at {self.threshold:g}", band
        if self.kind == "classes":
            for label, found in zip(self.classes, told["recall"], strict=True):
                if found is not None:
                    yield f"recall of {label}", found

    def to_json(self) -> str:
        """Return it as JSON: tables, the numbers that read them, and all figures.

        Returns
        -------
        str
        """
        shown = {name: [float(end) for end in band] for name, band in self.rows()}
        plain = {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "tables": {name: table.tolist() for name, table in self.tables.items()},
            "bins": None if self.bins is None else self.bins.as_dict(),
            **{name: getattr(self, name) for name in _PLAIN},
            "figures": {
                name: dict(zip(Band._fields, ends, strict=True)) for name, ends in shown.items()
            },
            "not_told": self.refused(),
        }
        return json.dumps(without_open_ends(plain), indent=1, allow_nan=False) + "\n"

    def write(self, path: PathLike) -> None:
        """Write it to a file, atomically.

        Parameters
        ----------
        path : path
        """
        write_atomically(path, self.to_json().encode("utf-8"))

    @classmethod
    def read(cls, path: PathLike) -> Self:
        """Read what `write` wrote.

        Parameters
        ----------
        path : path

        Returns
        -------
        Evaluation
        """
        try:
            plain = json.loads(Path(path).read_text(encoding="utf-8"))
            if plain["format"] != FORMAT or plain["version"] > VERSION:
                raise ValueError
            tables = {
                name: np.asarray(one, dtype=np.float64) for name, one in plain["tables"].items()
            }
            bins = None if plain["bins"] is None else ScoreBins.from_dict(plain["bins"])
            made = {name: plain[name] for name in _PLAIN}
            found = cls(plain["kind"], tables, bins=bins, **made)
            list(found.rows())  # a file whose parts do not fit together is damaged, too
        except Exception:
            raise InvalidArgument(
                f"Expected {str(path)!r} to be an evaluation; it is damaged, or another file."
            ) from None
        return found


_PLAIN = (
    *("sigma", "n_records", "shares", "classes", "threshold", "numbers", "entries"),
    *("epsilon", "delta"),
)


def without_open_ends(plain: Any) -> Any:
    """Replace numbers that are not finite by None, which JSON can hold.

    >>> without_open_ends({"R^2": [0.5, float("-inf"), 1.0]})
    {'R^2': [0.5, None, 1.0]}
    """
    if isinstance(plain, dict):
        return {key: without_open_ends(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [without_open_ends(value) for value in plain]
    return None if isinstance(plain, float) and not np.isfinite(plain) else plain
