"""What a mechanism is, what it releases, and the plan that prices it before the run.

A mechanism is frozen data: noise and cost read the same dataclass, so they cannot drift apart. The
price of a plan is the worst case over all data, so it is public; for a mechanism that answers only
some queries it never depends on how many were answered.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit import privacy
from tacit._checks import at_least, order_array, refuse
from tacit._registry import MECHANISMS, mechanism_class
from tacit.errors import InvalidArgument
from tacit.noise import Noise
from tacit.privacy import DEFAULT_ORDERS, RdpCurve, SampledSteps, WorstCase

if TYPE_CHECKING:  # both stand above this module
    from tacit.mechanisms.audit_cases import Suspicion
    from tacit.mechanisms.votes import VoteReading

BLOCK = 1 << 18  # votes noised at a time: the temporaries stay in the processor's cache

# The sizes of a plan, each with its least value.
_LEAST = {"queries": 1, "max_answers": 0, "n_teachers": 1, "n_classes": 2}

NO_ANSWER = -1
"""The label of a query that was not answered."""


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """What became public: labels (-1: no answer), values or shares.

    Parameters
    ----------
    mechanism : Mechanism
        What made it.
    labels : array of shape (queries,), optional
        Released labels or bits; -1 is no answer.
    values : array of floats, optional
        Released numbers. Exactly one of labels, values and shares is given.
    entry : str, optional
        Hash of the ledger entry that paid for it; None without a ledger (`InsecureNoise` only).
    secure : bool, optional
        False if the noise was insecure.
    shares : array of uint64, optional
        One of two noisy shares mod 2^64, which `open_shares` adds.

    Notes
    -----
    `np.asarray(release)` is its labels, its values or its shares.
    """

    mechanism: Mechanism
    labels: NDArray[np.int64] | None = None
    values: NDArray[np.float64] | None = None
    entry: str | None = None
    secure: bool = True
    shares: NDArray[np.uint64] | None = None

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.labels, self.values, self.shares)) != 1:
            raise InvalidArgument("Expected exactly one of labels, values and shares in a Release.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        told = (one for one in (self.labels, self.values, self.shares) if one is not None)
        array = np.asarray(next(told), dtype=dtype)
        return array.copy() if copy else array

    def __len__(self) -> int:
        return len(np.asarray(self))


class Mechanism(ABC):
    """How secret answers become a public release; a frozen dataclass that knows its own cost.

    `name` is what the ledger and the command line call it; `noise_level` is "csprng" for an index
    or a bit, "exact" for numbers on a public grid; `assumes` is what must hold that tacit cannot
    check for the price to be right. One line of `tacit._registry` makes it known by its name.
    """

    __slots__ = ()
    name: ClassVar[str]
    noise_level: ClassVar[str]
    assumes: ClassVar[str]
    counts_classes: ClassVar[bool] = False
    """Whether a plan must say how many classes there are: `release` is then told `n_classes`."""
    noise_parameter: ClassVar[str] = "sigma"
    """The field that says how much noise an answer has."""

    def __init_subclass__(cls) -> None:
        # Now, not when a statement is to be made: then the budget is spent.
        if hasattr(cls, "name") and not hasattr(cls, "assumes"):
            raise TypeError(f"Expected {cls.__name__} to say what its price presumes: assumes.")

    @abstractmethod
    def release(self, answers: Any, noise: Noise) -> Release:
        """Draw noise once and return what may be published.

        Parameters
        ----------
        answers : object
            What the mechanism reads, votes for instance; secret.
        noise : Noise
            That of an open grant, or `InsecureNoise`; each number is drawn once.

        Returns
        -------
        Release
            Labels or values; public.

        Notes
        -----
        `admit(noise)` comes first: refusing noise that was not paid for must reveal nothing of the
        answers.
        """

    @abstractmethod
    def cost(
        self, orders: ArrayLike, *, n_teachers: int | None = None, n_classes: int | None = None
    ) -> RdpCurve:
        """Worst case over all data, for one query; public.

        Parameters
        ----------
        orders : array of floats
            Renyi orders, each above 1.
        n_teachers, n_classes : int, optional
            Sizes of the plan; needed where the price depends on them.

        Returns
        -------
        RdpCurve
        """

    @abstractmethod
    def secret_cost(self, answers: Any, orders: ArrayLike) -> RdpCurve:
        """Data-dependent cost of each query: secret, never to be published as it is.

        Parameters
        ----------
        answers : object
            What the mechanism reads; secret.
        orders : array of floats
            Renyi orders, each above 1.

        Returns
        -------
        RdpCurve
            One row for each query; secret.
        """

    def gaussian_cost(self) -> float | None:
        """mu^2 = (sensitivity/sigma)^2 of one answered query; None if the noise is not Gaussian.

        Returns
        -------
        float or None
            Public.
        """
        return None

    def sampled_gaussian(self) -> tuple[float, float] | None:
        """Noise multiplier s and rate q if a query is Gaussian noise on a sum of a Poisson sample.

        Returns
        -------
        tuple of float, or None
            None if a query is something else.

        Notes
        -----
        The add/remove neighbours are then dominated by N(0, s^2) and (1-q) N(0, s^2) + q N(1,
        s^2), which a privacy loss distribution composes.
        """
        return None

    def confidence_delta(self) -> float:
        """Probability, taken from the budget's delta, with which the claimed cost may fail.

        Returns
        -------
        float
            For each query; 0 unless overridden.
        """
        return 0.0

    @abstractmethod
    def accept(
        self, answers: Any, *, queries: int, n_teachers: int | None, n_classes: int | None
    ) -> None:
        """Raise `InvalidArgument` unless the answers are what the plan priced.

        Parameters
        ----------
        answers : object
            What the mechanism reads; secret.
        queries : int
            As many as the plan priced.
        n_teachers, n_classes : int or None
            Those of the plan; None if it has none.
        """

    def reading(self) -> VoteReading:
        """Return how a student reads a release; raise unless it holds classes or their votes.

        Returns
        -------
        VoteReading
            Public: it does not depend on the data.
        """
        raise InvalidArgument(
            f"Expected a release of class labels or noisy votes, got one of {self.name!r}."
        )

    def audit_cases(self) -> Iterator[Suspicion]:
        """Yield the neighbouring inputs on which it loses most, for `tacit audit`.

        Yields
        ------
        Suspicion
            Two neighbouring inputs, and the events that distinguish them.
        """
        return iter(())

    @classmethod
    def parameters(cls) -> dict[str, Any]:
        """Return the parameters that NAME:KEY=VALUE,... may set on the command line.

        Returns
        -------
        dict of str to object
            Default by name, or `dataclasses.MISSING`.
        """
        made: Any = cls  # a dataclass by contract
        return {each.name: each.default for each in fields(made)}

    @classmethod
    def from_parameters(cls, **given: Any) -> Self:
        """Make one from values by the names of `parameters`.

        Parameters
        ----------
        **given : object
            Values by name.

        Returns
        -------
        Mechanism
            One of this class.
        """
        return cls(**given)


@runtime_checkable
class SelectiveMechanism(Protocol):
    """A mechanism that checks every query and answers only those that pass."""

    @property
    def check(self) -> Mechanism:
        """What every query pays."""

    @property
    def answer(self) -> Mechanism:
        """What a query that passes pays on top."""


def _selects(mechanism: Mechanism) -> TypeGuard[SelectiveMechanism]:
    """Check for a `SelectiveMechanism`; a tenth of the time of `isinstance`."""
    return hasattr(mechanism, "check") and hasattr(mechanism, "answer")


def blocks(count: int, width: int, joint: int = 1) -> list[slice]:
    """Cut rows of `width` numbers into blocks that fit the cache, keeping `joint` rows together."""
    step = joint * max(1, BLOCK // (joint * width))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


# What mechanisms on the answers of teachers presume; `votes_per_unit` says if it is more than one.
ONE_TEACHER = "each unit's records reached one teacher only, whoever else is in the data"

# What every mechanism presumes.
CHOICES = (
    "method and hyper-parameters (numbers of teachers and of queries included) were chosen without "
    "the private records, or from earlier releases alone, and that inputs called public hold no "
    "private record"
)


def assumptions(plans: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return what the mechanisms of plans presume, each once.

    Parameters
    ----------
    plans : iterable of mapping
        Plans as ledgers record them (`Plan.as_dict`): `mechanism`, and its `parameters`.

    Returns
    -------
    tuple of str
        What must hold, unchecked by tacit, for their prices to be right. A mechanism that this
        version does not know is stated as such, never left out.

    Examples
    --------
    >>> names = ["gnmax", "lnmax", "gnmax", "gnmax-2"]
    >>> for each in assumptions({"mechanism": name} for name in names):
    ...     print(each.split(", and that ")[0])
    each unit's records reached one teacher only, whoever else is in the data
    whatever mechanism 'gnmax-2' presumes holds, which this version of tacit does not know
    """
    return tuple(dict.fromkeys(f"{_presumed(plan)}, and that {CHOICES}" for plan in plans))


def _presumed(plan: Mapping[str, Any]) -> str:
    name, votes = plan["mechanism"], plan.get("parameters", {}).get("votes_per_unit", 1)
    if name in MECHANISMS:
        assumed = str(mechanism_class(name).assumes)
        several = ONE_TEACHER.replace("one teacher only", f"at most {votes} teachers")
        return assumed if votes == 1 else assumed.replace(ONE_TEACHER, several)
    return f"whatever mechanism {name!r} presumes holds, which this version of tacit does not know"


def later_field(default: Any) -> Any:
    """Return a field added later: a plan names it only where it differs from the default.

    So old ledger entries keep their meaning, and the same plan is recorded by the same text.
    """
    return field(default=default, metadata={"added later": True})


def _is_said(made: Any, each: Field[Any]) -> bool:
    return not each.metadata.get("added later") or getattr(made, each.name) != each.default


@dataclass(frozen=True, slots=True)
class Plan:
    """`queries` uses of `mechanism`, of which at most `max_answers` are answered.

    Parameters
    ----------
    mechanism : Mechanism
        What is used.
    queries : int
        How many uses there are, at least 1.
    max_answers : int, optional
        Public cap for mechanisms that select: once it is reached, the remaining rows are -1 and
        unchecked. None is no cap.
    n_teachers, n_classes : int, optional
        Public sizes, needed where the price depends on them.

    Notes
    -----
    Its price is the worst case over all data: public, and known before the run.

    Examples
    --------
    >>> from tacit import GNMax
    >>> plan = Plan(GNMax(sigma=40), queries=100)
    >>> round(plan.epsilon(delta=1e-5), 3), plan.price(delta=1e-5).accountant
    (1.356, 'gaussian')
    """

    mechanism: Mechanism
    queries: int
    _: KW_ONLY
    max_answers: int | None = None
    n_teachers: int | None = None
    n_classes: int | None = None

    def __post_init__(self) -> None:
        mechanism = self.mechanism
        if not all(hasattr(mechanism, part) for part in ("release", "cost", "secret_cost")):
            raise refuse("mechanism", mechanism, "a mechanism, for example GNMax(sigma=40)")
        if self.max_answers is not None and not _selects(mechanism):
            raise InvalidArgument(
                f"Expected max_answers=None for {mechanism.name}, which answers every query; "
                "lower queries instead."
            )
        if self.n_classes is None and self._counts_classes():
            raise InvalidArgument(
                f"Expected n_classes for {mechanism.name}: its answers do not tell how many "
                "classes there are; give it to Plan(...)."
            )
        for name, minimum in _LEAST.items():
            if name == "queries" or getattr(self, name) is not None:
                whole = at_least(minimum, **{name: getattr(self, name)})
                object.__setattr__(self, name, whole)

    def _counts_classes(self) -> bool:
        return getattr(self.mechanism, "counts_classes", False)

    @property
    def answers(self) -> int:
        """The most queries that are answered."""
        cap = self.queries if self.max_answers is None else self.max_answers
        return min(cap, self.queries)

    def mu_squared(self) -> float | None:
        """Sum of (sensitivity/sigma)^2 over all releases; None unless every one is Gaussian.

        Returns
        -------
        float or None
            Public.
        """
        if not _selects(self.mechanism):
            each = self.mechanism.gaussian_cost()
            return None if each is None else self.queries * each
        check, answer = self.mechanism.check.gaussian_cost(), self.mechanism.answer.gaussian_cost()
        if check is None or answer is None:
            return None
        return self.queries * check + self.answers * answer

    def cost(self, orders: ArrayLike = DEFAULT_ORDERS) -> RdpCurve:
        """Worst-case RDP of the whole plan; public.

        Parameters
        ----------
        orders : array of floats, optional
            Renyi orders, each above 1.

        Returns
        -------
        RdpCurve

        Notes
        -----
        A selective mechanism costs, at each order, the lesser of "every query checked, `answers`
        of them answered" and the per-query composite, which needs no cap
        (docs/theory/selective.md#what-a-plan-costs).
        """
        orders = order_array(orders)
        composite = self._cost_of(self.mechanism, orders) * self.queries
        if not _selects(self.mechanism):
            return composite
        checks = self._cost_of(self.mechanism.check, orders) * self.queries
        answers = self._cost_of(self.mechanism.answer, orders) * self.answers
        return RdpCurve(orders, np.minimum(composite.values, (checks + answers).values))

    def _cost_of(self, mechanism: Mechanism, orders: ArrayLike) -> RdpCurve:
        return mechanism.cost(orders, n_teachers=self.n_teachers, n_classes=self.n_classes)

    def price(self, delta: float) -> WorstCase:
        """Return the worst-case epsilon at `delta` and the accountant that proves it; public.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        WorstCase
        """
        return price_of_list([self], delta)

    def epsilon(self, delta: float) -> float:
        """Return the worst-case epsilon at `delta`, known before the run; public.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float
        """
        return self.price(delta).epsilon

    def sampled_steps(self) -> SampledSteps | None:
        """Return the plan as Gaussian releases on Poisson samples; None if it is something else.

        Returns
        -------
        SampledSteps or None
            As many steps as queries.
        """
        ask: Any = getattr(self.mechanism, "sampled_gaussian", None)
        sampled: tuple[float, float] | None = ask and ask()
        return None if sampled is None else SampledSteps(*sampled, self.queries)

    def confidence_delta(self) -> float:
        """Return what the plan takes from the budget's delta for its own confidence bounds.

        Returns
        -------
        float
            For all queries.
        """
        return self.queries * self.mechanism.confidence_delta()

    def accept(self, answers: Any) -> None:
        """Raise `InvalidArgument` unless the answers are what this plan priced.

        Parameters
        ----------
        answers : object
            What the mechanism reads; secret.
        """
        self.mechanism.accept(
            answers, queries=self.queries, n_teachers=self.n_teachers, n_classes=self.n_classes
        )

    def release_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `Mechanism.release` that the plan fixes.

        Returns
        -------
        dict of str to object
            `max_answers` and `n_classes`, where the mechanism takes them.
        """
        fixed: dict[str, Any] = {}
        if _selects(self.mechanism):
            fixed["max_answers"] = self.max_answers
        if self._counts_classes():
            fixed["n_classes"] = self.n_classes
        return fixed

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain data: what a ledger entry records.

        Returns
        -------
        dict of str to object
            `mechanism`, `parameters` and the sizes; public.
        """
        made: Any = self.mechanism  # a dataclass by contract
        said = (each.name for each in fields(made) if _is_said(made, each))
        parameters = {name: getattr(made, name) for name in said}
        sizes = {name: getattr(self, name) for name in _LEAST}
        return {"mechanism": made.name, "parameters": parameters} | sizes


def price_of_list(
    plans: Sequence[Plan], delta: float, orders: ArrayLike = DEFAULT_ORDERS
) -> WorstCase:
    """Price a whole list of plans by the tightest worst-case accountant.

    Parameters
    ----------
    plans : sequence of Plan
        At least one; all of them are composed.
    delta : float
        In (0, 1).
    orders : array of floats, optional
        Renyi orders. Fewer than `DEFAULT_ORDERS` are quicker and never give a lower epsilon.

    Returns
    -------
    WorstCase
        Epsilon of all together, and the accountant that proves it
        (docs/theory/gaussian.md#which-accountant); public.

    Examples
    --------
    >>> from tacit import GNMax
    >>> price_of_list([Plan(GNMax(sigma=40), 60), Plan(GNMax(sigma=40), 40)], 1e-5).accountant
    'gaussian'
    """
    curve = plans[0].cost(orders)
    for plan in plans[1:]:
        curve = curve + plan.cost(orders)
    squares = [plan.mu_squared() for plan in plans]
    gaussian = math.fsum(square for square in squares if square is not None)
    if None not in squares:
        return privacy.worst_case_epsilon(delta, mu_squared=gaussian, rdp=curve)
    # The rest is composed as a loss distribution, if all of it is steps on Poisson samples.
    others = zip(plans, squares, strict=True)
    sampled = [plan.sampled_steps() for plan, square in others if square is None]
    steps = [one for one in sampled if one is not None]
    loss = None if None in sampled else privacy.sampled_steps_pld(steps, delta, gaussian)
    return privacy.worst_case_epsilon(delta, rdp=curve, pld=loss)
