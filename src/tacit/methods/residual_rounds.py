"""Base of the estimators that release moments of residuals, round by round, to a public descent.

A fit releases: counts, or level and variance of y; if n mu allows, a second moment of the
features, to compare with public inputs; a moment of residuals a round; and the gains of several
solutions on the records, which weight them
(docs/theory/speak-once.md#public-inputs-of-another-kind).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers, at_least, positive
from tacit.errors import InvalidArgument
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import STEP, Contributions, Plan, Release, unit_steps
from tacit.methods.base import AnyRecords, PrivateRegressor
from tacit.methods.calibration import shared_sums
from tacit.methods.settings import Count, Positive
from tacit.methods.summary import (
    COUNT_SHARE,
    PublicPart,
    SummaryEstimator,
    measured,
    ones_of,
    said_by,
)
from tacit.privacy import gaussian_mu
from tacit.records import Numbers, PrivateRecords, PublicSpace
from tacit.summaries import (
    Descent,
    ExactNystroem,
    Shift,
    covariance_gap,
    exact_scores,
    moment_shift,
    weighted_by,
)

CHECK_SHARE = 0.05
"""Share of mu^2 for the check of solutions."""
_SECOND_MOMENT = ((5000.0, 0.2), (1000.0, 0.1))
"""From which strength on what share of mu^2 goes to the second moment of features."""
_ONE_ROUND_BELOW = 250.0
"""The strength below which a second round tells less than it takes from the first: it lost on 8 x 8
digits up to 200 and on USPS up to 120, and gained on both from 450 on."""
_FEWEST_TYPICAL = 100
"""Public inputs that a second moment is compared with."""
_MOST_FEATURES = 1024
"""Beyond, a second moment would take longer than all the rest."""
_FIRST_PENALTIES = (0.01, 0.1, 1.0)
_LAST_PENALTIES = (0.01, 0.1)
_LEAST_VARIANCE = 1e-4
"""Of t in [-1, 1]: noise may make the released variance negative."""


class Shares(NamedTuple):
    """Shares of mu^2 after the counts: second moment (0: none), each round, check of solutions.

    With `COUNT_SHARE` they add up to 1.
    """

    second: float
    each: float
    check: float

    @classmethod
    def at(cls, strength: float, features: int, rounds: int) -> Shares:
        """Return the shares at a strength n mu, with n declared or released, never counted.

        >>> shares = Shares.at(2000.0, 500, 2)
        >>> shares.second, round(shares.each, 3), shares.check
        (0.1, 0.4, 0.05)
        """
        second = next((share for least, share in _SECOND_MOMENT if strength >= least), 0.0)
        second = second if features <= _MOST_FEATURES else 0.0
        left = 1 - COUNT_SHARE - CHECK_SHARE - second
        return cls(second, left / rounds, CHECK_SHARE)


def rounds_borne(strength: float, rounds: int) -> int:
    """Cap the rounds by the signal strength n mu (n declared or released): 1 below 250.

    >>> rounds_borne(100.0, 2), rounds_borne(1000.0, 2)
    (1, 2)
    """
    return 1 if strength < _ONE_ROUND_BELOW else rounds


ByRow = Callable[[Integers], Floats]
"""Something of each of some records, by row numbers. Secret."""
Gains = Callable[[Integers, Floats], Floats]
"""How well a public solution does on some records, by row numbers and its scores. Secret."""


class Told(NamedTuple):
    """What the first release shows, and what follows from it for the records.

    `total` records and target `variance` (None for classes) as released; `columns` of a target;
    `targets` of some records by row numbers, secret, of length at most the public `longest`;
    `gains` of a public solution on each record, from 0 to 1, from that record's own bits, secret.
    """

    total: float
    columns: int
    targets: Callable[[PrivateRecords], ByRow]
    longest: float
    gains: Callable[[PrivateRecords], Gains]
    variance: float | None = None


class Found(NamedTuple):
    """The result of the rounds: the solution, weights of the candidates, releases, a shift."""

    weights: Floats
    candidates: dict[str, float]
    releases: list[Release]
    shift: Shift | None


@dataclass(eq=False, repr=False)
class ResidualEstimator(SummaryEstimator):
    """Base of estimators that release moments of residuals, round by round, to a public descent."""

    _: KW_ONLY
    rounds: Count = 2
    clip: Positive = 0.5
    _counted: ClassVar[int | None] = None  # numbers of the first release; None: one a class

    @abstractmethod
    def _kernel(self, space: PublicSpace, view: Floats) -> ExactNystroem | None:
        """Return the features, made of public inputs; None for these themselves."""

    def _prepare(self, outside: NDArray[Any], columns: int) -> PublicPart:
        space = PublicSpace.around(self._view(), outside, self.radius)
        view = space.view(outside)
        kernel = self._kernel(space, view)

        def look(view: Floats) -> NDArray[Any]:
            # Features of norm at most 1 in whole steps of 2^-14, each row's bits its own.
            if kernel is not None:
                return kernel.steps(view)
            return unit_steps(view / space.radius, view.shape)

        seen = np.asarray(look(view) * STEP)
        if not seen.any():
            raise InvalidArgument("Expected public inputs that differ from each other.")
        at_least(1, rounds=self.rounds)
        positive(clip=self.clip)
        # The second stands for all that follow, whose shares depend on what the first tells.
        plans = self._plans((COUNT_SHARE, 1, self._counted or columns), (1 - COUNT_SHARE, 1, 1))
        return PublicPart(space, seen, plans, kernel, look, _without(kernel, view, seen))

    def _open_ledger(self, *, by_person: bool, **terms: Any) -> Ledger:
        ledger = super()._open_ledger(by_person=by_person, **terms)
        if ledger.accountant == "fixed":
            raise InvalidArgument(
                'Expected a ledger with accountant="gaussian" or "rdp": how this method shares its '
                "budget depends on what its first release tells, and a fixed list cannot react."
            )
        return ledger

    def _rounds_for(self, told: Told) -> int:
        """Return the number of rounds after the first release."""
        if told.variance is not None:  # of numbers a second round was not seen to do harm
            return self.rounds
        return rounds_borne(told.total * self._mu(), self.rounds)

    def _later_plans(self, ledger: Ledger, public: PublicPart, told: Told) -> list[Plan]:
        """Return the plans after the first: second moment or none, rounds, check.

        They react to a release, which Gaussian and Renyi ledgers allow: given what was released,
        each costs its share of mu^2, and these add up to what is left.
        """
        features = public.view.shape[1]
        strength = told.total * self._mu()
        rounds = self._rounds_for(told)
        second, each, check = Shares.at(strength, features, rounds)
        moment = [(second, features, features)] if second else []
        count = len(_candidate_names(bool(second), rounds))
        each_round = [(each, features, told.columns)] * rounds
        plans = self._plans(*moment, *each_round, (check, 1, count))
        left = [*plans, *self._check_plans()]
        self._refuse_beyond(ledger, left[max(len(self._kept.stored()) - 1, 0) :])
        return plans

    def _descend(
        self, told: Told, public: PublicPart, private: AnyRecords, ledger: Ledger
    ) -> Found:
        """Release what follows the first release, and return the result."""
        plans = self._later_plans(ledger, public, told)
        rounds = self._rounds_for(told)
        releases = []
        gap, shift = None, None
        if len(plans) > rounds + 1:
            purpose = "a second moment of the features"
            asked = private, second_moment_of, purpose
            releases.append(self._release(ledger, plans.pop(0), *asked))
            mechanism: Any = releases[0].mechanism
            moment = np.asarray(releases[0].values)
            gap = covariance_gap(moment, public.view, told.total, mechanism.sigma)
            if len(public.typical) >= _FEWEST_TYPICAL:
                shift = moment_shift(moment, public.typical, told.total, mechanism.sigma)
        solutions: list[Floats] = []
        releases += self._rounds(plans[:-1], told, public, private, ledger, gap, solutions)

        def say(some: PrivateRecords) -> Contributions:
            return compared_by(some, solutions, told.gains(some))

        purpose = f"how well each of {len(solutions)} solutions does"
        releases.append(self._release(ledger, plans[-1], private, say, purpose))
        shares = believed_gains(releases[-1])
        names = _candidate_names(gap is not None, rounds)
        weights = sum(share * one for share, one in zip(shares, solutions, strict=True))
        counted = dict(zip(names, shares.tolist(), strict=True))
        return Found(np.asarray(weights), counted, releases, shift)

    def _rounds(
        self,
        plans: list[Plan],
        told: Told,
        public: PublicPart,
        private: AnyRecords,
        ledger: Ledger,
        gap: Floats | None,
        solutions: list[Floats],
    ) -> list[Release]:
        """Release a moment of residuals a round; the first, with nothing explained, is unclipped.

        Solutions are added in the order of `_candidate_names`.
        """
        kind: dict[str, Any] = {"classes": told.variance is None, "variance": told.variance}
        descent = Descent(public.view, told.total, told.columns, gap=gap, **kind)
        clip, releases = told.longest, []
        for number, plan in enumerate(plans, start=1):
            say = partial(_residuals_of_some, told.targets, descent.weights, clip)
            purpose = f"a moment of residuals, round {number} of {len(plans)}"
            releases.append(self._release(ledger, plan, private, say, purpose))
            moment, variance = measured(releases[-1], clip)
            if number == 1 and gap is not None:
                plain = Descent(public.view, told.total, told.columns, **kind)
                plain.step(moment, variance)
                solutions.append(plain.weights)
            if number in (1, len(plans)):
                penalties = _FIRST_PENALTIES if number == 1 else _LAST_PENALTIES
                solutions += [descent.ridge(moment, penalty) for penalty in penalties]
            descent.step(moment, variance)
            if number in (1, len(plans)):
                solutions.append(descent.weights)
            # Only now: this round's noise was in units of the length that bounded its residuals.
            clip = min(clip, float(self.clip))
        return releases


def residual_outline(
    budget: Budget, classes: int, n_records: int | None, features: int, rounds: int
) -> list[tuple[str, Plan]]:
    """Return the releases with default settings, for a declared number of records (None: few).

    `classes` is 0 where numbers are learned.
    """
    strength = (n_records or 0) * float(gaussian_mu(budget.epsilon, budget.delta))
    rounds = rounds_borne(strength, rounds) if classes else rounds
    second, each, check = Shares.at(strength, features, rounds)
    first = "class counts" if classes else "number of records, mean and variance of y"
    columns = classes or 1
    named = [(first, COUNT_SHARE, classes or 3)]
    named += [("second moment of the features", second, features)] if second else []
    moments = range(1, rounds + 1)
    named += [(f"moment of residuals, round {number}", each, columns) for number in moments]
    named.append(("comparison of solutions", check, 1))
    plans = shared_sums(budget, *((share, 1, width) for _, share, width in named))
    return [(what, plan) for (what, _, _), plan in zip(named, plans, strict=True)]


def _without(kernel: ExactNystroem | None, view: Floats, seen: Floats) -> Floats:
    """Return the features of public inputs other than landmarks, whose features are longer."""
    if kernel is None:
        return seen
    landmarks = {row.tobytes() for row in np.asarray(kernel.landmarks, dtype=view.dtype)}
    return seen[[row.tobytes() not in landmarks for row in view]]


def _candidate_names(corrected: bool, rounds: int) -> list[str]:
    """Return the names of the solutions that a fit weighs; their number is public."""
    names = ["evidence, public covariance"] if corrected else []
    names += [f"ridge {penalty:g}, round 1" for penalty in _FIRST_PENALTIES]
    names.append("evidence, round 1")
    if rounds > 1:
        names += [f"ridge {penalty:g}, round {rounds}" for penalty in _LAST_PENALTIES]
        names.append(f"evidence, round {rounds}")
    return names


@dataclass(eq=False, repr=False)
class SummaryRegressor(PrivateRegressor, ResidualEstimator):
    """Fit and predict; a subclass defines the features."""

    _fixed: ClassVar[frozenset[str]] = frozenset({"calibration"})
    _counted: ClassVar[int | None] = 3  # records, the sum of y and that of its squares

    @abstractmethod
    def _solution(
        self, public: PublicPart, outside: NDArray[Any], weights: Floats, level: float
    ) -> Any:
        """Return the student that is the solution, in the units of y."""

    def _target(self, y: Any = None) -> Numbers:
        return Numbers(*self._bounds(), scaled=True)

    def _release_and_learn(
        self, public: PublicPart, private: AnyRecords, ledger: Ledger, outside: NDArray[Any]
    ) -> dict[str, Any]:
        purpose = "count, and add up y and its square"
        first = self._release(ledger, public.plans[0], private, level_of, purpose)
        count, level, variance = believed_level(first)

        def targets(some: PrivateRecords) -> ByRow:
            return lambda rows: np.asarray(some.targets[rows, None] - level)

        def gains(some: PrivateRecords) -> Gains:
            own = targets(some)
            # In units of twice the released deviation: beyond, an error is an error.
            return lambda rows, scores: (
                1 - np.minimum((own(rows) - scores)[:, 0] ** 2 / (4 * variance), 1)
            )

        told = Told(count, 1, targets, 1 + abs(level), gains, variance)
        found = self._descend(told, public, private, ledger)
        low, high = self._bounds()
        half = high / 2 - low / 2
        weights, level = found.weights[:, 0] * half, low / 2 + high / 2 + level * half
        solved = self._solution(public, outside, weights, level)
        student = self._taught(solved, lambda X: np.clip(solved.predict(X), low, high), outside)
        releases = [first, *found.releases]
        learned = {"releases_": releases, "candidates_": found.candidates}
        return {**learned, "shift_": found.shift, "student_": student}


def _residuals_of_some(
    targets: Callable[[PrivateRecords], ByRow],
    weights: Floats,
    clip: float,
    some: PrivateRecords,
) -> Contributions:
    return residuals_of(some, targets(some), weights, clip)


def residuals_of(
    private: PrivateRecords,
    targets: ByRow,
    weights: Floats,
    clip: float,
) -> Contributions:
    """Return phi(x) and (target - phi(x) weights)/clip, each shortened to norm 1. Secret.

    Rows (phi) and weights are whole steps, so products are exact: no record's residual depends on
    others computed beside it.
    """

    def right(rows: Integers) -> Floats:
        residual = (targets(rows) - exact_scores(private.rows[rows], weights)) / clip
        # Shortened before a person's records are averaged; exactly, row by row.
        return np.asarray(unit_steps(residual, residual.shape) * STEP)

    return said_by(private, _features_of(private), right)


def second_moment_of(private: PrivateRecords) -> Contributions:
    """Return phi(x) and phi(x), of which a person has the mean. Secret.

    Averaged with its transpose, their noisy sum is what `NoisySecondMoment` releases at the same
    price; this one supports people.
    """
    left = _features_of(private)
    return said_by(private, left, left)


def compared_by(
    private: PrivateRecords,
    solutions: list[Floats],
    gains: Gains,
) -> Contributions:
    """Return 1 and (gain_j - mean_j gain)/(sqrt(J)/2), of norm at most 1. Secret.

    Gains are from 0 to 1, so their squared distances from their mean add up to at most J/4. In
    whole steps: sums over solutions are exact in any order.
    """
    count = len(solutions)

    def right(rows: Integers) -> Floats:
        scores = [exact_scores(private.rows[rows], weights) for weights in solutions]
        said = np.column_stack([np.rint(gains(rows, score) / STEP) for score in scores])
        apart = (said - said.sum(axis=1, keepdims=True) / count) * (2 * STEP / math.sqrt(count))
        return np.asarray(apart)

    return said_by(private, ones_of, right)


def believed_gains(release: Release) -> Floats:
    """Return the weight of each solution, from a release of `compared_by`."""
    gains = np.asarray(release.values)[0]
    return weighted_by(gains, release.mechanism.sigma)  # type: ignore[attr-defined]


def _features_of(private: PrivateRecords) -> ByRow:
    return lambda rows: np.asarray(private.rows[rows] * STEP)


def level_of(private: PrivateRecords) -> Contributions:
    """Return 1 and (1, t, t^2)/sqrt 3, of norm at most 1 for |t| <= 1. Secret."""

    def right(rows: Integers) -> Floats:
        t = private.targets[rows]
        return np.column_stack([np.ones(len(rows)), t, t * t]) / math.sqrt(3)

    return said_by(private, ones_of, right)


def believed_level(release: Release) -> tuple[float, float, float]:
    """Return the number of records, at least 1, and mean and variance of t, within their bounds."""
    count, total, squares = (np.asarray(release.values)[0] * math.sqrt(3)).tolist()
    count = max(count, 1.0)
    level = min(max(total / count, -1.0), 1.0)
    return count, level, min(max(squares / count - level**2, _LEAST_VARIANCE), 1.0)
