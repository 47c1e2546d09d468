"""Calibrated probabilities: a map of two numbers, fitted to a released table.

p' = softmax(slope log p + shift), for two classes Platt's. It is fitted to a noisy, public table of
how many records of each outcome have a score in each bin. With two classes the outcome is the class
and the score its log-odds; with more, whether the likeliest class is right, and that class's
log-odds (docs/theory/calibration.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tacit._checks import Floats, Integers, finite_array, positive, set_checked
from tacit.errors import InvalidArgument

SCORE_BINS = 12
"""Bins of the table: two numbers are fitted to it, and each bin has the same noise."""
_SMALLEST = 1e-12
"""Least value of a probability where there are no public inputs."""
_LEAST = 1e-300
"""Below, a logarithm would not be finite."""
_TIED = 0.01
"""Share of the public probabilities above 0 that count as the smallest of the others."""
_FARTHEST = 4.0
"""Where there are no public inputs to score, log-odds sinh(u) are as likely for all |u| up to this:
fine about 0, and still cut at 15, where networks trained by clipped gradients may be."""
_DIGITS = 4
"""Edges are rounded: the last bits of a student depend on how many threads there are."""
_SLOPE_SPREAD, _SHIFT_SPREAD = 1.0, 2.0
"""How far log slope and shift are from 0 before anything is known: deviations of a prior."""
_ROUNDS = 4
"""How often variances are recomputed at the fitted map."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreMap:
    """From a student's probabilities to calibrated ones: softmax(slope log p + shift).

    Parameters
    ----------
    slope : float, above 0: more than 1 makes the student surer, less makes it less sure
    shift : array of shape (classes,), added to the logarithm of each class
    floor : float, the least value of a probability: students that predict 0 do not mean never

    Examples
    --------
    >>> ScoreMap(2.0, [0.0, 0.0])([[0.4, 0.6]]).round(3).tolist()
    [[0.308, 0.692]]
    """

    slope: float
    shift: Any
    floor: float = _SMALLEST

    def __post_init__(self) -> None:
        set_checked(self, slope=positive, floor=positive)
        shift = finite_array(shift=self.shift)
        if shift.ndim != 1 or len(shift) < 2:
            raise InvalidArgument("Expected shift= to have a number for each class.")
        object.__setattr__(self, "shift", shift)

    def __call__(self, probabilities: ArrayLike) -> Floats:
        """Return calibrated probabilities; each row depends on its own alone and sums to 1."""
        scores = self.slope * _logs(probabilities, self.floor) + self.shift
        grown = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(grown / grown.sum(axis=1, keepdims=True))

    def __str__(self) -> str:
        """Return it in words."""
        shift = self.shift - self.shift[0]
        moved = f", log-odds of the second class moved by {shift[1]:+.2f}" if shift.any() else ""
        if len(shift) > 2 and shift.any():
            moved = ", each class moved to its released share"
        return f"log-odds times {self.slope:.2f}{moved}"

    def as_dict(self) -> dict[str, Any]:
        """Return `slope`, `shift` and `floor` as plain data.

        Returns
        -------
        dict
        """
        return {"slope": self.slope, "shift": self.shift.tolist(), "floor": self.floor}

    @classmethod
    def from_dict(cls, plain: Any) -> Self:
        """Read what `as_dict` returned.

        Parameters
        ----------
        plain : dict

        Returns
        -------
        ScoreMap, the same bits
        """
        return cls(plain["slope"], plain["shift"], plain["floor"])


def scores_of(probabilities: ArrayLike) -> Floats:
    """Return the log-odds of the second of two classes, or of the likeliest of more; NaN stays.

    Secret where the probabilities are of records.
    """
    rows = np.asarray(probabilities, dtype=np.float64)
    if rows.shape[1] > 2:
        rising = np.sort(rows, axis=1)  # the rest is added up: 1 minus the largest loses its digits
        rows = np.column_stack([rising[:, :-1].sum(axis=1), rising[:, -1]])
    logs = _logs(rows, _LEAST)
    return np.asarray(logs[:, 1] - logs[:, 0])


def outcomes_of(probabilities: ArrayLike, classes: ArrayLike) -> Floats:
    """Return the row of the table of each record: its class, or whether it is right. Secret."""
    rows, truth = np.asarray(probabilities, dtype=np.float64), np.asarray(classes)
    if rows.shape[1] == 2:
        return np.asarray(truth, dtype=np.int64)
    return np.asarray(np.nan_to_num(rows).argmax(axis=1) == truth, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ScoreCheck:
    """Bins of scores, and the public probabilities by which a table over them is read.

    Parameters
    ----------
    public : array of shape (inputs, classes), a student's probabilities of public inputs
    edges : array of shape (at most bins - 1,), between the bins, rising
    floor : float, the least value of a probability
    """

    public: Floats
    edges: Floats
    floor: float = _SMALLEST

    @classmethod
    def of(cls, probabilities: ArrayLike, bins: int = SCORE_BINS) -> Self:
        """Cut public scores into bins of equal numbers.

        Parameters
        ----------
        probabilities : array of shape (inputs, classes), a student's probabilities of public inputs
        bins : int, at most so many

        Returns
        -------
        ScoreCheck, a function of public numbers alone
        """
        public = np.asarray(probabilities, dtype=np.float64)
        scores = scores_of(public)
        cuts = np.quantile(scores, np.arange(1, bins) / bins, method="higher")
        edges = np.unique(np.round(cuts, _DIGITS))
        said = public[public > 0]
        return cls(
            public, edges[edges > scores.min()], max(float(np.quantile(said, _TIED)), _LEAST)
        )

    @classmethod
    def without_inputs(cls, n_classes: int, bins: int = SCORE_BINS) -> Self:
        """Cut log-odds evenly, where there are no public inputs.

        Parameters
        ----------
        n_classes, bins : int

        Returns
        -------
        ScoreCheck, as of evenly spread scores, all but the likeliest class alike
        """
        least = -_FARTHEST if n_classes == 2 else -np.arcsinh(np.log(n_classes - 1))
        odds = np.exp(np.sinh(np.linspace(least, _FARTHEST, 50 * bins)))
        rest = np.repeat(1 / (1 + odds[:, None]) / (n_classes - 1), n_classes - 1, axis=1)
        made = cls.of(np.column_stack([rest, odds / (1 + odds)]), bins)
        return cls(made.public, made.edges)

    def fit(self, table: ArrayLike, sigma: float) -> ScoreMap:
        """Return the map under which the released outcomes are likeliest.

        With h the counts of a bin and m(slope, shift) the mean mapped probability of its public
        inputs, h_1 - m (h_0 + h_1) has mean 0 at the right map and variance sigma^2 (m^2 + (1 -
        m)^2) + (h_0 + h_1) m (1 - m). The sum of squares in these units, with a prior about the
        identity, is minimised. Source: docs/theory/calibration.md#the-map.

        Parameters
        ----------
        table : array of shape (2, bins), noisy counts of each outcome by bin; public
        sigma : float, standard deviation of that noise

        Returns
        -------
        ScoreMap, the slope alone with several classes; the identity where noise hides everything
        """
        from scipy.optimize import least_squares

        counts, expected = np.asarray(table)[:, : len(self.edges) + 1], self._expected()
        totals = counts.sum(axis=0)
        found = np.zeros(2 if self.public.shape[1] == 2 else 1)
        spread = np.array([_SLOPE_SPREAD, _SHIFT_SPREAD])[: len(found)]
        for _ in range(_ROUNDS):
            mean = expected(found)
            noise = sigma**2 * (mean**2 + (1 - mean) ** 2)
            deviation = np.sqrt(noise + np.maximum(totals, 0) * mean * (1 - mean) + 1e-12)

            def gaps(point: Floats, deviation: Floats = deviation) -> Floats:
                apart = (counts[1] - expected(point) * totals) / deviation
                return np.concatenate([apart, point / spread])

            found = least_squares(gaps, found).x
        shift = np.zeros(self.public.shape[1])
        shift[1] = found[1] if len(found) > 1 else 0.0
        return ScoreMap(float(np.exp(found[0])), shift, self.floor)

    def places(self) -> Integers:
        """Return the bin of each public input.

        Returns
        -------
        array of int of shape (inputs,)
        """
        return np.asarray(np.searchsorted(self.edges, scores_of(self.public), side="right"))

    def _expected(self) -> Callable[[Floats], Floats]:
        """Return a function from log slope (and shift) to the mean mapped probability of bins."""
        place = self.places()
        bins, logs = len(self.edges) + 1, _logs(self.public, self.floor)
        number = np.maximum(np.bincount(place, minlength=bins), 1)
        two = logs.shape[1] == 2
        best = np.full(len(logs), 1) if two else logs.argmax(axis=1)

        def mean(point: Floats) -> Floats:
            scores = np.exp(point[0]) * logs
            if two:
                scores[:, 1] += point[1]
            grown = np.exp(scores - scores.max(axis=1, keepdims=True))
            said = grown[np.arange(len(grown)), best] / grown.sum(axis=1)
            return np.asarray(np.bincount(place, said, bins) / number)

        return mean


def shifted_to(probabilities: ArrayLike, shares: ArrayLike) -> ScoreMap:
    """Return the map, of slope 1, that gives public inputs the released class shares.

    Parameters
    ----------
    probabilities : array of shape (inputs, classes), a student's probabilities of public inputs
    shares : array of shape (classes,), of the classes, as released; above 0

    Returns
    -------
    ScoreMap
    """
    logs, wanted = _logs(probabilities, _SMALLEST), finite_array(shares=shares)
    moved = ScoreMap(1.0, np.zeros(len(wanted)))
    for _ in range(200):
        mean = moved(np.exp(logs)).mean(axis=0)
        shift = moved.shift + np.log(wanted / wanted.sum()) - np.log(np.maximum(mean, _SMALLEST))
        moved = ScoreMap(1.0, shift - shift[0])
    return moved


def _logs(probabilities: ArrayLike, floor: float) -> Floats:
    rows = np.asarray(probabilities, dtype=np.float64)
    return np.asarray(np.log(np.clip(rows, floor, None)))
