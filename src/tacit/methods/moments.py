"""`MomentClassifier`, `MomentRegressor`: linear models from a few noisy moments of the records.

Labels appear only in the moment sum phi(x) e_y (for numbers: phi(x) t, |t| <= 1), released once,
centred, with a column that sums the features; normaliser and covariance come from public inputs. A
later round releases the residuals' moment (docs/theory/speak-once.md).
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers
from tacit.features import PublicBins
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import STEP, Contributions, Plan, Release, unit_steps
from tacit.methods.base import AnyRecords
from tacit.methods.calibration import shared_sums
from tacit.methods.forecast import strength_within
from tacit.methods.method import Method, Rule, with_defaults
from tacit.methods.residual_rounds import SummaryRegressor, residual_outline
from tacit.methods.settings import OneOrTwo, one_or_two
from tacit.methods.summary import (
    COUNT_SHARE,
    PublicPart,
    SummaryClassifier,
    believed_counts,
    measured,
    said_by,
)
from tacit.records import PrivateRecords, PublicSpace
from tacit.students import LinearStudent, ValueStudent
from tacit.summaries import (
    NoisyEcho,
    NoisyMoment,
    Shift,
    Solution,
    best_centre,
    bins_prior,
    exact_scores,
    exact_softmax,
    fit_moment,
    longest_label,
    mean_shift,
    one_hot,
    plain_prior,
)

_FIRST_SHARE = 0.3
"""Of two rounds, the share of the first; chosen, like the clip, on California housing."""
_CLIP = 0.7
"""Length, over classes, to which residuals of the second round are shortened."""
PLACE = 0.2
"""Beside its label a record says where it lies, with this weight: 2 % more noise in the moment."""


@dataclass(eq=False, repr=False)
class MomentClassifier(SummaryClassifier):
    """Softmax regression from class counts and noisy moments, worst-case priced.

    Parameters
    ----------
    student : student, optional
        None (default) for the softmax regression itself; a student is trained on its labels of all
        public inputs. In run.toml: "label-spreading", "nearest", "linear", "kernel", "logistic",
        "cnn" (images) or "vat".
    epsilon, delta, ledger, allow_overlap, noise
        As in `PrivateEstimator`: budget, ledger, noise.
    random_state : int, optional
        No effect: only noise is drawn, which it never seeds.
    checks : Checks, optional
        As in `PrivateClassifier`.
    n_records : int, optional
        How many private records there are, if that is public anyway: for the forecast alone, which
        can then refuse. Never count them for it.
    features : transformer, optional
        A public transformer whose rows have a public norm, `PublicBins(columns, unit_norm=True)`
        for tables; by default the inputs themselves about their public mean. In run.toml: "none",
        "digits" or "images", "bins" (declared columns) or "whitened".
    radius : float, optional
        The public norm of a row of features, to which longer ones are shortened; by default the
        largest among the public inputs.
    classes : array or str
        As in `PrivateClassifier`.
    rounds : int
        1 releases the moment alone; 2 (default) also that of its solution's residuals.

    Attributes
    ----------
    releases_ : list of Release
        The class counts, then a moment a round.
    solution_ : Solution
        `weights` and `bias` of the softmax regression on the features; on inputs about their
        public mean where `features` is None. Public.
    shift_ : Shift
        Whether the records' mean features are those of public inputs (`ShiftWarning` if not).

    Notes
    -----
    5 % of mu^2 buys the class counts, which centre the moment; the rest buys moments. The first
    has one more column, the sum of the features, to compare with public inputs: 2 % more noise.
    Shrinkage is fitted to the releases (`tacit.summaries.moments`): no setting to choose on
    private rows. Unit: one record, or one person with `groups=`, who contributes the records'
    mean. In run.toml: `method = "moments"`, table `[moments]`.
    `docs/theory/speak-once.md#moments`.
    """

    _: KW_ONLY
    rounds: OneOrTwo = 2

    def _default_student(self) -> Any:
        return LinearStudent()

    def _prepare(self, outside: NDArray[Any], columns: int) -> PublicPart:
        one_or_two(rounds=self.rounds)
        # Features keep the norm that they were made with; its largest is the radius.
        plain = self.features is None
        space = PublicSpace.around(self._view(), outside, self.radius, centred=plain)
        view = space.view(outside)
        shares = [1.0] if self.rounds == 1 else [_FIRST_SHARE, 1 - _FIRST_SHARE]
        widths = [columns + 1, columns]  # the first also tells where records lie
        moments = [
            (share * (1 - COUNT_SHARE), view.shape[1], width)
            for share, width in zip(shares, widths, strict=False)
        ]
        plans = self._plans((COUNT_SHARE, 1, columns), *moments)
        # Weights of a declared column are known to belong together.
        bins = isinstance(self.features, PublicBins)
        prior = bins_prior(self.features.columns) if bins else plain_prior(view.shape[1])
        return PublicPart(space, view, plans, prior)

    def _release_and_learn(
        self, public: PublicPart, private: AnyRecords, ledger: Ledger, outside: NDArray[Any]
    ) -> dict[str, Any]:
        counts = self._count(ledger, public.plans[0], private)
        total, shares = believed_counts(counts)
        reach, plan = public.space.radius, public.plans[1]
        mechanism: Any = plan.mechanism
        # From the released counts, never from the records: it bounds what each of them may say.
        centre = best_centre(public.view, total, shares, 1 / mechanism.sigma, reach)
        say = partial(moments_of, radius=reach, centre=centre)
        first = self._release(ledger, plan, private, say, "a centred moment of the features")
        values, variance = measured(first, reach * _longest_said(centre))
        moment = NoisyMoment(values[:, :-1], variance, total, shares, centre)
        shift = _shift_of(counts, values[:, -1], variance, moment, public.view)
        solution = fit_moment(public.view, moment, public.basis)
        releases = [counts, first]
        for plan in public.plans[2:]:
            say = partial(echo_of, radius=reach, solution=solution)
            purpose = "a moment of the residuals"
            releases.append(self._release(ledger, plan, private, say, purpose))
            echo = NoisyEcho(*measured(releases[-1], reach * _CLIP), solution)
            solution = fit_moment(public.view, moment, public.basis, echo)
        bias = solution.bias - public.space.centre @ solution.weights
        linear = LinearStudent(self._view()).told(outside, solution.weights, bias)
        student = self._taught(linear, linear.predict_proba, outside)
        learned = {"releases_": releases, "solution_": solution}
        return {**learned, "shift_": shift, "student_": student}


@dataclass(eq=False, repr=False)
class MomentRegressor(SummaryRegressor):
    """Linear regression from noisy moments of public features, worst-case priced.

    Parameters
    ----------
    student : student, optional
        None (default) for the linear solution itself; a student is trained on its predictions for
        all public inputs.
    epsilon, delta, ledger, allow_overlap, noise
        As in `PrivateEstimator`: budget, ledger, noise.
    random_state : int, optional
        No effect: only noise is drawn, which it never seeds.
    checks : Checks, optional
        As in `PrivateClassifier`, without `calibration`.
    n_records : int, optional
        How many private records there are, if that is public anyway: for the forecast alone, which
        can then refuse. Never count them for it.
    features : transformer, optional
        A public one, `PublicBins(columns, unit_norm=True)` for tables; by default the inputs
        themselves. Rows count from the public mean.
    radius : float, optional
        The public norm of a centred row of features, to which longer ones are shortened; by
        default the largest among the public inputs.
    rounds : int
        How many residual moments are released, 2 by default; they share what is left evenly.
    clip : float
        From the second round on, residuals, in halves of high - low, are shortened to this.
    target_range : pair of float
        (low, high), public bounds to which y is clipped. Required: taken from the private numbers
        they would break the claim.

    Attributes
    ----------
    bounds_ : tuple of float
        The bounds of `target_range`, within which predictions stay.
    releases_ : list of Release
        Number of records, sums of y and of its square; from n mu = 1,000 on a second moment of the
        features; a moment of residuals a round; and how well each of several solutions does.
    candidates_ : dict from str to float
        Weight of each solution in the student, by the last release.
    shift_ : Shift or None
        Whether the second moment is that of public inputs (`ShiftWarning` if not); None where none
        was released.

    Notes
    -----
    Shares of mu^2, unit and accountant as in `ResidualRidgeRegressor`. In run.toml: `method =
    "moments"` where `[data.options]` declares `target_range`, table `[moments]`.
    `docs/theory/speak-once.md#numbers`.
    """

    def _kernel(self, space: PublicSpace, view: Floats) -> None:
        """Use the inputs themselves."""

    def _solution(
        self, public: PublicPart, outside: NDArray[Any], weights: Floats, level: float
    ) -> Any:
        slopes = weights / public.space.radius
        level = level - float(np.sum(public.space.centre * slopes))
        return ValueStudent(features=self._view()).told_line(outside, slopes, level)


def moments_of(private: PrivateRecords, radius: float, centre: Floats) -> Contributions:
    """Return phi(x)/radius and (e_y - centre, place)/longest; product of norm at most 1. Secret.

    `place` is one number for all records: that column sums their features, whatever their labels.
    """
    bound, label = _longest_said(centre), one_hot(private.targets, centre.size, centre)
    place = PLACE * longest_label(centre)

    def right(rows: Integers) -> Floats:
        said = label(rows)
        return np.asarray(np.column_stack([said, np.full(len(said), place)]) / bound)

    return said_by(private, lambda rows: np.asarray(private.rows[rows] / radius), right)


def _longest_said(centre: Floats) -> float:
    """Return the norm of the longest centred label with `place` beside it."""
    return longest_label(centre) * math.hypot(1.0, PLACE)


def _shift_of(
    counts: Release, said: Floats, variance: float, moment: NoisyMoment, view: Floats
) -> Shift:
    """Compare the records' mean features (last column of the first moment) with public ones."""
    place = PLACE * longest_label(moment.centre)
    count: Any = counts.mechanism
    unsure = count.sigma * math.sqrt(count.columns)
    return mean_shift(said / place, view, moment.total, math.sqrt(variance) / place, unsure)


def echo_of(private: PrivateRecords, radius: float, solution: Solution) -> Contributions:
    """Return phi(x)/radius and (e_y - p(x))/clip, each shortened to norm 1. Secret.

    p(x) depends on that record and on the public solution alone, bit for bit.
    """
    label = one_hot(private.targets, solution.bias.size)

    def left(rows: Integers) -> Floats:
        return np.asarray(private.rows[rows] / radius)

    def right(rows: Integers) -> Floats:
        inside = left(rows)
        scores = exact_scores(unit_steps(inside, inside.shape), solution.weights * radius)
        residual = (label(rows) - exact_softmax(scores + solution.bias)) / _CLIP
        # Shortened before a person's records are averaged.
        return np.asarray(unit_steps(residual, residual.shape) * STEP)

    return said_by(private, left, right)


def _outline(budget: Budget, classes: int, n_records: int | None) -> list[tuple[str, Plan]]:
    """Return the releases of two rounds; the number of features changes no price."""
    if not classes:
        return residual_outline(budget, classes, n_records, 1, MomentRegressor.rounds)
    left = 1 - COUNT_SHARE
    shares = (COUNT_SHARE, _FIRST_SHARE * left, (1 - _FIRST_SHARE) * left)
    plans = shared_sums(budget, *((share, 1, classes) for share in shares))
    names = ("class counts", "moment", "moment of what is left unexplained")
    return list(zip(names, plans, strict=True))


METHOD = Method(
    outline=_outline,
    forecast=strength_within,
    name="moments",
    summary="Moments: each private record adds once to counts and sums; the model is "
    "computed from the noisy sums.",
    estimator=MomentClassifier,
    regressor=MomentRegressor,
    rules={
        "moments": Rule(
            "moments",
            with_defaults(MomentClassifier),
            "Two rounds; no setting to choose (California housing).",
        ),
    },
)
