"""Adapter from a row model to evaluation tables: the model's scores, and which tables they fill.

Two classes, several, or numbers: each has its design, from public scores and declared numbers.
"""

from __future__ import annotations

import copy
import io
import math
import pickle
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers, column_names, finite, probability, refuse
from tacit.datasets import TableInputs, TableStream, check_columns
from tacit.errors import InvalidArgument
from tacit.evaluate.binary import bins_for
from tacit.evaluate.bins import ScoreBins
from tacit.evaluate.design import Design, Payer, mean_of_own
from tacit.evaluate.numbers import MOMENTS, RESIDUAL_BINS, said_of_number, scales_of
from tacit.ledger import Ledger
from tacit.mechanisms import (
    Contributions,
    NoisySum,
    Plan,
    ScoredRecords,
    ScoreHistogram,
    score_bins,
)
from tacit.methods import PrivateEstimator
from tacit.records import Labels, Numbers, PrivateRecords, StreamedRecords, is_from_data


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The model that is evaluated; its `transform` gives the scores of rows."""

    model: Any
    classes: NDArray[Any] | None
    bounds: tuple[float, float] | None
    turn: bool = False
    order: Integers | None = None
    """The model's column of each class."""

    def __reduce__(self) -> tuple[Any, ...]:
        rest = (self.classes, self.bounds, self.turn, self.order)
        return _received, (_sent(self.model), *rest)

    def __deepcopy__(self, memo: dict[int, Any]) -> Judged:
        # Not by what is sent: reading that here would write into a class that is not importable.
        rest = (self.classes, self.bounds, self.turn, self.order)
        return Judged(copy.deepcopy(self.model, memo), *rest)

    @classmethod
    def of(cls, model: Any, classes: Any, target_range: Any, positive: Any) -> Judged:
        """Check the model, its classes or bounds, and which class is the outcome."""
        if hasattr(model, "predict_proba"):
            labels, order = _columns(getattr(model, "classes_", None), classes)
            return cls(model, labels, None, _is_first(labels, positive), order)
        if not hasattr(model, "predict"):
            raise refuse("model", type(model).__name__, "a model with predict_proba or predict")
        bounds = getattr(model, "bounds_", None) if target_range is None else target_range
        if bounds is None:
            raise InvalidArgument("Expected target_range=(low, high), the public bounds of y.")
        low, high = (finite(target_range=end) for end in bounds)
        if not low < high:
            raise refuse("target_range", bounds, "(low, high) with low below high")
        return cls(model, None, (low, high))

    def check_columns(self, X: Any) -> None:
        """Refuse tables with other columns than the model's, or cells read otherwise."""
        declared: TableInputs | None = getattr(self.model, "_declared", None)
        check_columns(X, declared, getattr(self.model, "feature_names_in_", None))
        as_they_stand = column_names(X) is not None and not isinstance(X, TableStream)
        if as_they_stand and declared is not None and not declared.are_numbers:
            raise InvalidArgument(
                "Expected a table that open_table opened, or numbers that load_table read, with "
                "the declarations of the fit: the model learned from categories or dates."
            )

    @property
    def target(self) -> Labels | Numbers:
        """How y is read: as the model's classes, the outcome's last, or as numbers."""
        if self.bounds is not None:
            return Numbers(-math.inf, math.inf)
        labels = tuple(np.asarray(self.classes).tolist())
        return Labels(labels[::-1] if self.turn else labels)

    def transform(self, rows: NDArray[Any]) -> Floats:
        """Return probabilities, or numbers within the bounds, a row each."""
        if self.bounds is None:
            chances = np.asarray(self.model.predict_proba(rows), dtype=np.float64)
            assert self.order is not None
            if chances.shape != (len(rows), len(self.order)):
                raise InvalidArgument("Expected a model with one probability for each class.")
            return chances[:, self.order[::-1] if self.turn else self.order]
        found = np.asarray(self.model.predict(rows), dtype=np.float64).reshape(len(rows), -1)
        return np.clip(found, *self.bounds)

    def design(
        self,
        size: int,
        share: Any,
        outside: Floats | None,
        private: PrivateRecords | StreamedRecords,
        threshold: float,
        payer: Payer,
    ) -> Design:
        """Fix bins, tables and noise from public and declared numbers."""
        public = None if outside is None else self._public_scores(outside)
        if self.bounds is not None:
            return self._design_numbers(size, public, payer)
        assert self.classes is not None
        shares = self._shares(share, public, private)
        if len(self.classes) == 2:
            return self._design_binary(size, shares, public, threshold, payer)
        return self._design_classes(size, shares, public, payer)

    def _public_scores(self, outside: Floats) -> Floats:
        """Return the scores of public inputs; all of them must be finite."""
        scores = self.transform(outside)
        failed = np.flatnonzero(~np.isfinite(scores).all(axis=1))
        if failed.size:
            method = "predict_proba" if self.bounds is None else "predict"
            raise InvalidArgument(
                f"Expected model.{method}(X_public) to be finite in every row, got NaN or infinity "
                f"in {failed.size} of {len(scores)}, first in row {failed[0]}: leave such rows out "
                "of X_public, or let the model fill missing cells. Nothing was spent."
            )
        return scores

    def _shares(
        self, share: Any, public: Floats | None, private: PrivateRecords | StreamedRecords
    ) -> Floats:
        assert self.classes is not None
        number = len(self.classes)
        if is_from_data(share):
            if not isinstance(private, PrivateRecords):
                raise InvalidArgument("Expected share= to be declared where X is a table.")
            counts = np.bincount(private.targets, private.shares(), number)
            return np.asarray(counts / counts.sum())
        if share is None:
            return np.full(number, 1 / number) if public is None else public.mean(axis=0)
        if number == 2 and np.ndim(share) == 0:
            positives = probability(share=share)
            return np.array([1 - positives, positives])
        given = np.asarray(share, dtype=np.float64)
        if given.shape != (number,) or not (given > 0).all() or abs(given.sum() - 1) > 1e-6:
            raise refuse("share", share, f"{number} shares above 0 that add up to 1")
        return given

    def _design_binary(
        self,
        size: int,
        shares: Floats,
        public: Floats | None,
        threshold: float,
        payer: Payer,
    ) -> Design:
        cut = probability(threshold=threshold)
        sigma = payer.noise_for(lambda s: ScoreHistogram(s, 2, 2))
        number = bins_for(size, float(shares[1]), sigma)
        edges = sorted({cut, 0.5})
        bins = (
            ScoreBins.even(number, thresholds=edges)
            if public is None
            else ScoreBins.of(public[:, 1], number, thresholds=edges)
        )
        assert cut in bins.edges, "figures at the threshold are told at an edge"
        plans = [Plan(ScoreHistogram(sigma, 2, bins.count), 1)]
        about = {"n_records": size, "shares": shares.tolist(), "bins": bins, "threshold": cut}
        labels = np.asarray(self.classes).tolist()
        about["classes"] = labels[::-1] if self.turn else labels
        return Design("binary", sigma, plans, ["evaluate: outcomes by score"], about)

    def _design_classes(
        self, size: int, shares: Floats, public: Floats | None, payer: Payer
    ) -> Design:
        number = len(shares)
        sigma = payer.noise_for(
            lambda s: ScoreHistogram(s, 2, 2), lambda s: ScoreHistogram(s, number, number)
        )
        sure = None if public is None else public.max(axis=1)
        right = 0.5 if sure is None else float(np.clip(sure.mean(), 0.05, 0.95))
        fine = bins_for(size, right, sigma)
        bins = ScoreBins.even(fine) if sure is None else ScoreBins.of(sure, fine)
        tables = ((2, bins.count), (number, number))
        plans = [Plan(ScoreHistogram(sigma, *shape), 1) for shape in tables]
        about: dict[str, Any] = {"n_records": size, "shares": shares.tolist(), "bins": bins}
        about |= {"classes": np.asarray(self.classes).tolist(), "numbers": {"right": right}}
        purposes = ["evaluate: right labels by probability", "evaluate: true and said classes"]
        return Design("classes", sigma, plans, purposes, about)

    def _design_numbers(self, size: int, public: Floats | None, payer: Payer) -> Design:
        assert self.bounds is not None
        low, high = self.bounds
        middle = low / 2 + high / 2
        centre = middle if public is None else float(np.clip(public.mean(), low, high))
        scale = scales_of(low, high, centre)
        spread = np.zeros(1) if public is None else (public[:, 0] - centre) / scale[0]
        if public is None:  # as if predictions were spread evenly
            spread = np.linspace(-1.0, 1.0, 101)
        columns = MOMENTS + RESIDUAL_BINS
        sigma = payer.noise_for(lambda s: NoisySum(s, 1, columns))
        numbers = {
            "scale": list(scale),
            "predicted": [float((spread**2).mean()), float((spread**4).mean())],
            "centre": centre,
        }
        about = {"n_records": size, "numbers": numbers}
        plans = [Plan(NoisySum(sigma, 1, columns), 1)]
        return Design("numbers", sigma, plans, ["evaluate: numbers and their residuals"], about)

    def answers(self, scored: Floats, private: PrivateRecords, design: Design) -> list[Any]:
        """Return the records' contributions, for each plan. Secret."""
        if design.kind == "numbers":
            return [_said_of_numbers(scored, private, design.about["numbers"])]
        edges = design.about["bins"].edges
        if design.kind == "binary":
            bins = score_bins(scored[:, 1], edges)
            return [ScoredRecords(private.targets, bins, private.people)]
        failed = ~np.isfinite(scored).all(axis=1)
        said = np.where(failed, -1, np.nan_to_num(scored).argmax(axis=1))
        sure = np.where(failed, np.nan, np.nan_to_num(scored).max(axis=1))
        right = (said == private.targets).astype(np.int64)
        return [
            ScoredRecords(right, score_bins(sure, edges), private.people),
            ScoredRecords(private.targets, said.astype(np.int64), private.people),
        ]


def _columns(own: Any, classes: Any) -> tuple[NDArray[Any], Integers]:
    """Return the labels in the records' order, and the model's column of each."""
    if own is None and classes is None:
        raise InvalidArgument("Expected classes=, the public label set: the model has none.")
    columns = np.asarray(classes if own is None else own)
    labels, order = np.unique(columns, return_index=True)
    if len(labels) != columns.size or len(labels) < 2:
        raise InvalidArgument("Expected classes= to be two labels or more, each once.")
    if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), labels):
        raise InvalidArgument("Expected classes= to be the model's own, classes_.")
    return labels, order


def _is_first(labels: NDArray[Any], positive: Any) -> bool:
    """Return whether the first of two classes is the outcome, and has to be put last."""
    if positive is None:
        return False
    if len(labels) != 2 or positive not in labels.tolist():
        raise refuse("positive", positive, f"one of two classes; there are {labels.tolist()}")
    return bool(labels[0] == positive)


def _said_of_numbers(
    scored: Floats, private: PrivateRecords, numbers: dict[str, Any]
) -> Contributions:
    """Return records' contributions of numbers, a person's as the mean of the own ones. Secret."""
    scale, residual_scale = numbers["scale"]
    with np.errstate(all="ignore"):
        target = (private.targets - numbers["centre"]) / scale
        residual = (private.targets - scored[:, 0]) / residual_scale
        return mean_of_own(said_of_number(target, residual), private)


_OWNERS = ("ledger", "ledger_", "noise", "_kept")


class _ForWorkers(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle is untyped
    """Pickles for workers, which only predict: what pays and draws noise stays in this process."""

    def reducer_override(self, obj: Any) -> Any:
        """Return a tacit model as one that can predict, and no more; others as they are."""
        if isinstance(obj, Ledger):
            return type(None), ()
        if not isinstance(obj, PrivateEstimator):
            return super().reducer_override(obj)
        twin = object.__new__(type(obj))
        twin.__dict__.update({key: its for key, its in vars(obj).items() if key not in _OWNERS})
        return twin.__reduce_ex__(5)


def _sent(model: Any) -> bytes:
    file = io.BytesIO()
    _ForWorkers(file, protocol=5).dump(model)
    return file.getvalue()


def _received(sent: bytes, *rest: Any) -> Judged:
    return Judged(pickle.loads(sent), *rest)
