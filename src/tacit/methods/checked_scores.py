"""A paid check of the student's probabilities: one noisy table of outcomes by score.

Each record, scored by itself by the public student, adds one count to a table (outcome x bin) with
public bins, priced with the other releases of the fit; a map of two numbers is fitted to it
(docs/theory/calibration.md). Without it, noisy votes on two classes still show the classes'
shares.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers
from tacit.ledger import Budget
from tacit.mechanisms import Plan, Release, ScoredRecords, ScoreHistogram, score_bins
from tacit.methods.calibration import calibrate
from tacit.methods.settings import share_of_check
from tacit.privacy import gaussian_mu
from tacit.records import PrivateRecords, view_alone
from tacit.students import (
    SCORE_BINS,
    ScoreCheck,
    ScoreMap,
    outcomes_of,
    scores_of,
    shifted_to,
)
from tacit.summaries import Shift, table_shift

_CHECKED = "outcomes by score, for calibration"
PURPOSE = "count outcomes by the student's score, for calibration"
UNCHECKED = (
    "Probabilities are as the student says them; nobody checked whether they mean what they say. "
    "calibration = 0.05 in the method's table would spend a twentieth of mu^2 on it."
)
MOVED = (
    "Probabilities were moved to the share that each class has of all released votes, which costs "
    "nothing; nobody checked how sure the student may be. calibration = 0.05 in the method's table "
    "would."
)
_ROUNDING = 1 + 2.0**-40  # so that shares, rounded, do not add up to more
_LEAST_SHARE = 1e-3  # of a class: noise may put its votes below nothing
SCORE_EFFECT = 0.15
"""Of what size a difference of scores matters (`python -m benchmarks.shift_warnings`)."""
FEWEST_FRESH = 100
"""Public inputs that did not teach the student: with fewer, scores are not compared."""
_TRIED = 8  # rows of zeros on which a student is tried out where there are no public inputs


def check_plan(share: float, noise: float) -> Plan:
    """Return the table that costs `share` of mu^2 of a sum with noise sigma/sensitivity."""
    sigma = noise / math.sqrt(share) * _ROUNDING
    return Plan(ScoreHistogram(sigma, 2, SCORE_BINS), 1)


def with_check(
    releases: list[tuple[str, Plan]], budget: Budget, share: float
) -> list[tuple[str, Plan]]:
    """Return Gaussian releases, or one plan of noisy steps, with a check of scores in one budget.

    `share` of mu^2 is for the check; 0 for none.
    """
    if not share_of_check(calibration=share):
        return releases
    check = check_within(budget, share)
    if any(plan.mu_squared() is None for _, plan in releases):
        ((what, steps),) = releases  # priced as a list: the steps and the check
        found = calibrate(lambda noise: [check, _with_noise(steps, noise)], budget, listed=True)
        return [(what, found[-1]), (_CHECKED, check)]
    wider = [(what, _with_more_noise(plan, 1 - share)) for what, plan in releases]
    return [*wider, (_CHECKED, check)]


def check_within(budget: Budget, share: float) -> Plan:
    """Return the table that costs a share of mu^2 of a budget."""
    return check_plan(share, 1 / float(gaussian_mu(budget.epsilon, budget.delta)))


def _with_more_noise(plan: Plan, share: float) -> Plan:
    return _with_noise(plan, _noise_of(plan) / math.sqrt(share) * _ROUNDING)


def _noise_of(plan: Plan) -> float:
    return float(getattr(plan.mechanism, plan.mechanism.noise_parameter))


def _with_noise(plan: Plan, noise: float) -> Plan:
    mechanism: Any = plan.mechanism
    return replace(plan, mechanism=replace(mechanism, **{mechanism.noise_parameter: noise}))


@dataclass(frozen=True, slots=True)
class _Scorer:
    """A student as a map of rows, for `view_alone`."""

    student: Any

    def transform(self, rows: NDArray[Any]) -> Floats:
        return np.asarray(self.student.predict_proba(rows), dtype=np.float64)


def check_of(student: Any, outside: NDArray[Any] | None) -> ScoreCheck:
    """Return bins and public scores, from public inputs where there are any."""
    if outside is None:
        return ScoreCheck.without_inputs(student.n_classes_)
    return ScoreCheck.of(student.predict_proba(outside))


def said_by_scores(
    student: Any, check: ScoreCheck, private: PrivateRecords, outside: NDArray[Any] | None
) -> ScoredRecords:
    """Return outcome and bin of each record, each scored by itself. Secret.

    A record (`private` has raw rows) on which the student fails is not counted, silently.
    """
    rows, tried = private.rows, outside
    if tried is None:
        tried = np.zeros((_TRIED, rows.shape[1]))
    if student.features_ is not None:  # by themselves: tacit's own take many rows at a time
        rows = view_alone(student.features_, rows, tried)
        tried = np.asarray(student.features_.transform(tried), dtype=np.float64)
    said = view_alone(_Scorer(_of_features(student, tried.shape[1])), rows, tried)
    outcomes = np.asarray(outcomes_of(said, private.targets), dtype=np.int64)
    bins = score_bins(_or_nothing(said), check.edges)
    return ScoredRecords(outcomes, bins, private.people)


def _of_features(student: Any, width: int) -> Any:
    """Return the student of inputs that are in its feature space."""
    bare = copy.copy(student)
    bare.features_, bare.n_features_in_ = None, width
    return bare


def _or_nothing(said: Floats) -> Floats:
    """Return scores; NaN where any probability of a row is not finite. Secret."""
    whole = np.asarray(np.isfinite(said).all(axis=1))
    return np.where(whole, scores_of(np.where(whole[:, None], said, 0.5)), np.nan)


def scores_apart(check: ScoreCheck, table: Any, sigma: float, fresh: Integers) -> Shift:
    """Compare the distribution of the records' scores with that of the public inputs `fresh`.

    `fresh` were not used to train the student: it is surer of those. `sigma` is the table's noise.
    """
    counts = np.asarray(table, dtype=np.float64)[:, : len(check.edges) + 1]
    found = table_shift(counts.T, sigma, check.places()[fresh, None])
    return found._replace(least=SCORE_EFFECT)


def share_right(release: Release, classes: NDArray[Any], *, by_person: bool) -> str | None:
    """State how many records the student gets right, where a paid check counted it.

    With twice its deviation, of noise and of sampling. None for two classes (the table then counts
    labels by score), and where noise hides the number of records.
    """
    table, mechanism = np.asarray(release.values, dtype=np.float64), release.mechanism
    noise: float = mechanism.sigma * math.sqrt(table.size)  # type: ignore[attr-defined]
    total = float(table.sum())
    if len(classes) < 3 or total < 10 * noise:
        return None
    share = min(max(float(table[1].sum()) / total, 0.0), 1.0)
    # Of r - share (r + w): wrong ones weigh `share`, right ones 1 - share, each with its own noise.
    spread = (noise / total) ** 2 * (share**2 + (1 - share) ** 2) / 2 + share * (1 - share) / total
    whose = "a person's records, on average over people" if by_person else "the private records"
    return (
        f"By that table the student's label is right for {share:.1%} (give or take "
        f"{2 * math.sqrt(spread):.1%}) of {whose}."
    )


def map_by_votes(
    student: Any, asked: NDArray[Any], releases: list[Release], voters: int
) -> ScoreMap | None:
    """Return the map that moves two classes to the share that each has of all released votes.

    None with more than two classes, where it did harm, and without votes. Of a gap g with noise s
    the share 1 - s^2/g^2 is used, at least 0 (James and Stein; `python -m benchmarks.calibration
    --part free`).
    """
    votes = [np.asarray(one.values) for one in releases if one.values is not None]
    if student.n_classes_ != 2 or not votes or votes[0].shape[1:] != (2,):
        return None
    told = np.concatenate(votes)
    sigma: float = releases[0].mechanism.sigma  # type: ignore[attr-defined]
    # All votes on a query add up to their public number: their difference tells both shares.
    share = 0.5 + float((told[:, 1] - told[:, 0]).mean()) / (2 * voters)
    noise = sigma / (voters * math.sqrt(2 * len(told)))
    said = student.predict_proba(asked[: len(told)])
    gap = share - float(said[:, 1].mean())
    believed = max(0.0, 1 - noise**2 / max(gap**2, 1e-12))
    goal = min(max(float(said[:, 1].mean()) + believed * gap, _LEAST_SHARE), 1 - _LEAST_SHARE)
    return shifted_to(said, [1 - goal, goal])
