"""What public numbers predict of a run before anything is spent: whether it can learn at all.

`fit` refuses a hopeless run unless `Checks(allow_hopeless=True)`. T voters who agree on one of K
classes, with noise sigma on Q queries, are s = T sqrt(Q/K)/sigma deviations ahead a class. With
p = E_z Phi(s + z)^(K - 1), at most kappa = (p - 1/K)/(1 - 1/K) is learned beyond guessing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from tacit._warn import warn
from tacit.errors import InvalidArgument, WeakSignal
from tacit.ledger import Budget
from tacit.mechanisms import Plan
from tacit.methods.base import RowEstimator
from tacit.methods.settings import CHECKS, Checks, Count, Parameters
from tacit.privacy import gaussian_mu

HOPELESS, DOUBTFUL = 0.15, 0.5
"""Of kappa: below the first `fit` refuses, below the second it warns."""
HOPELESS_STRENGTH, DOUBTFUL_STRENGTH = 20.0, 150.0
"""The same lines for moments, of n mu."""
_NODES = 60
_ONE_DEVIATION = (0.158655, 0.841345)  # quantiles of a Gaussian


@dataclass(frozen=True, slots=True)
class Forecast:
    """What public numbers predict of a run; all of it is public.

    Parameters
    ----------
    verdict : str
        "hopeless", "doubtful", "fair", or "none" where there is no forecast.
    words : str
        Why, in a sentence with the numbers.
    share : float, optional
        The most that the releases can carry of what lies between guessing and being right, from 0
        to 1; None where only a verdict is known.
    helps : str
        What would make it better.
    """

    verdict: str
    words: str
    share: float | None = None
    helps: str = ""

    def __str__(self) -> str:
        """Return all of it in words."""
        said = {
            "hopeless": "Hopeless",
            "doubtful": "Doubtful",
            "fair": "Nothing against it",
            "none": "No forecast",
        }[self.verdict]
        return f"{said}: {self.words}" + (f" {self.helps}" if self.verdict != "fair" else "")

    @classmethod
    def of_share(cls, share: float, words: str, helps: str) -> Forecast:
        """Classify a share of what lies beyond guessing.

        Parameters
        ----------
        share, words, helps
            As in `Forecast`.

        Returns
        -------
        Forecast
            With the verdict.
        """
        verdict = "hopeless" if share < HOPELESS else "doubtful" if share < DOUBTFUL else "fair"
        return cls(verdict, words, share, helps)


def no_forecast(why: str) -> Forecast:
    """Return that nothing is known before the run, and why.

    Parameters
    ----------
    why : str
        A sentence.

    Returns
    -------
    Forecast
        With the verdict "none".
    """
    return Forecast("none", why)


UNDECLARED = no_forecast(
    "n_records= was not declared. It must be a number that is public anyway, such as one from a "
    "publication: read off the private rows, it would tell of them."
)


def chance_of_right(strength: float, n_classes: int) -> float:
    """Return E_z Phi(strength + z)^(classes - 1): the right class is ahead of all others.

    `strength` counts deviations of the noise; the result is 1/classes at 0.

    >>> [round(chance_of_right(s, 10), 2) for s in (0.0, 0.6, 3.0)]
    [0.1, 0.22, 0.9]
    """
    from scipy.special import ndtr

    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    ahead = ndtr(strength + nodes) ** (n_classes - 1)
    return float(np.sum(weights * ahead) / np.sum(weights))


def beyond_guessing(chance: float, n_classes: int) -> float:
    """Return (p - 1/K)/(1 - 1/K): 0 for guessing, 1 for always being right.

    >>> round(beyond_guessing(0.55, 10), 2)
    0.5
    """
    return max((chance - 1 / n_classes) / (1 - 1 / n_classes), 0.0)


def votes_forecast(
    plans: Sequence[Plan], voters: float, n_classes: int, who: str, helps: str
) -> Forecast:
    """Return what `voters` who agree can teach through the noise of these plans.

    `who` is what voters are called, `helps` what would make it better.
    """
    squares = sum(_clearness(plan) for plan in plans)
    pooled = voters * math.sqrt(squares / n_classes)
    share = beyond_guessing(chance_of_right(pooled, n_classes), n_classes)
    one = _clearness(plans[0]) / _answers(plans[0])
    words = (
        f"{voters:.3g} {who} against noise of deviation {one**-0.5:.3g}, on {plans[0].queries} "
        f"queries. Even if all agree, the releases carry {share:.0%} of what lies beyond guessing "
        f"among {n_classes} classes, however many queries there are."
    )
    return Forecast.of_share(share, words, helps)


def _clearness(plan: Plan) -> float:
    """Return answers/sigma^2: how clearly one vote shows in all answers together."""
    low, high = plan.mechanism.reading().quantile(np.array(_ONE_DEVIATION))
    return _answers(plan) / max(float(high - low) / 2, 1e-12) ** 2


def _answers(plan: Plan) -> int:
    return plan.queries if plan.max_answers is None else plan.max_answers


def table_forecast(
    n_records: int, mu: float, votes: int, n_prototypes: int, n_classes: int
) -> Forecast:
    """Return what a noisy table of votes at prototypes can teach.

    n records vote at r of m prototypes with weight 1/sqrt r: s = n mu sqrt(r/(K m)) a class.
    """
    pooled = n_records * mu * math.sqrt(votes / (n_classes * n_prototypes))
    share = beyond_guessing(chance_of_right(pooled, n_classes), n_classes)
    words = (
        f"{n_records} records share {n_prototypes} prototypes; against the noise a class is ahead "
        f"by {pooled:.3g} deviations, all its prototypes together. The release carries at most "
        f"{share:.0%} of what lies beyond guessing among {n_classes} classes."
    )
    helps = "More records, a larger epsilon or fewer prototypes would help."
    return Forecast.of_share(share, words, helps)


def strength_forecast(n_records: int | None, mu: float) -> Forecast:
    """Return what moments of a declared number of records can teach; mu of the whole budget."""
    if n_records is None:
        return UNDECLARED
    strength = n_records * mu
    verdict = "hopeless" if strength < HOPELESS_STRENGTH else "fair"
    if HOPELESS_STRENGTH <= strength < DOUBTFUL_STRENGTH:
        verdict = "doubtful"
    words = (
        f"{n_records} records weigh n mu = {strength:.3g} deviations of the noise together; below "
        f"{DOUBTFUL_STRENGTH:g} little was learned, below {HOPELESS_STRENGTH:g} nothing."
    )
    return Forecast(verdict, words, helps="More records or a larger epsilon would help.")


def strength_within(budget: Budget, classes: int, n_records: int | None) -> Forecast:
    """Return `strength_forecast` with all of a budget, whatever the classes."""
    return strength_forecast(n_records, float(gaussian_mu(budget.epsilon, budget.delta)))


@dataclass(eq=False, repr=False)
class JudgedEstimator(RowEstimator):
    """An estimator with a forecast, before anything is spent, of whether it can learn."""

    _: KW_ONLY
    checks: Checks | None = None
    _own: ClassVar[dict[str, Parameters]] = {"checks": CHECKS}

    def _judge(self, forecast: Forecast) -> None:
        """Refuse what is hopeless before anything is spent; warn of what is doubtful."""
        self.forecast_, allowed = forecast, self._settings("checks").allow_hopeless
        if forecast.verdict == "hopeless" and not allowed:
            raise InvalidArgument(
                f"Expected a run that can learn something. {forecast} Nothing was spent; "
                "checks=Checks(allow_hopeless=True) (in a configuration: allow_hopeless = true in "
                "the method's table) goes on all the same."
            )
        if forecast.verdict in ("hopeless", "doubtful"):
            warn(str(forecast), WeakSignal)

    def _mu(self) -> float:
        """Return mu of all that trains the student."""
        return math.sqrt(self._main_share()) / self._gaussian_noise()

    def _notes(self) -> list[str]:
        return [f"Forecast before anything was spent. {self.forecast_}", *super()._notes()]


@dataclass(eq=False, repr=False)
class ForecastEstimator(JudgedEstimator):
    """One whose forecast needs a declared number of records."""

    _: KW_ONLY
    n_records: Count | None = None


def declared(model: Any) -> int | None:
    """Return the declared number of records of an estimator, at least 1; None without one."""
    from tacit._checks import at_least

    return None if model.n_records is None else at_least(1, n_records=model.n_records)
