"""What an evaluation will release and which ledger pays: public, fixed before anything is scored.

A `Design` has the plans and how they will be read, a `Payer` the ledger that exists or will be
made; `carry_out` checks both, then releases once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from tacit._checks import Floats, Integers, positive, probability, refuse
from tacit.errors import BudgetExceeded, InvalidArgument
from tacit.evaluate.dice import columns_of
from tacit.evaluate.evaluation import Evaluation
from tacit.evaluate.numbers import MOMENTS, RESIDUAL_BINS
from tacit.features import presumptions, steps_of
from tacit.ledger import Budget, KeptReleases, Ledger
from tacit.mechanisms import Contributions, NoisySum, Plan, ScoreHistogram
from tacit.methods import NewLedger, calibrate
from tacit.noise import InsecureNoise
from tacit.records import ALLOWED_OVERLAP, PrivateRecords, is_from_data

DISJOINT = (
    "the people of the records that evaluated the model were declared to be others than those it "
    "learned from, and are counted in a ledger of their own; nobody looked, and whatever else they "
    "have said is in this total only if this ledger paid for it"
)
UNMATCHED = (
    "which ledger paid for what the model learned was not known here: if it was another than this, "
    "what these people lose in all is in neither total"
)
READ_NUMBER = (
    "the number of records, or the share of a class, was read from the private records to decide "
    "which figures are told, and stands in the evaluation as it is, which no cost covers"
)
WithNoise = Callable[[float], ScoreHistogram | NoisySum]
"""A mechanism of an evaluation, but for the deviation of its noise."""
_TABLES = {
    "binary": ["scores"],
    "classes": ["scores", "confusion"],
    "numbers": ["sums"],
    "masks": ["sums"],
}


@dataclass(frozen=True, slots=True)
class Payer:
    """The ledger of an evaluation: an existing one, or the terms of a new one.

    `budget` is the cost of this evaluation alone, at the delta of its releases; `unit` is that of a
    new ledger; `disjoint` declares that nobody here trained the model.
    """

    ledger: Ledger | NewLedger
    budget: Budget
    unit: str
    disjoint: bool

    @classmethod
    def of(
        cls,
        ledger: Any,
        epsilon: float,
        delta: float | None,
        *,
        model: Any,
        by_person: bool,
        each: str,
        disjoint: bool,
    ) -> Payer:
        """Check the ledger, and whose privacy is counted."""
        unit = "person" if by_person else each
        if isinstance(ledger, NewLedger):
            if not disjoint:
                raise InvalidArgument(
                    "Expected ledger=model.ledger_, which paid for what the model learned, unless "
                    "disjoint=True says that nobody here taught it."
                )
            if delta is None:
                raise InvalidArgument("Expected delta= for a ledger that is to be made.")
            asked = Budget(positive(epsilon=epsilon), probability(delta=delta))
            return cls(ledger, asked, unit, disjoint)
        if not isinstance(ledger, Ledger):
            raise refuse("ledger", ledger, "a Ledger: the one that paid for the model's records")
        _refuse_another(model, ledger, disjoint)
        if by_person != (ledger.unit != each):
            raise InvalidArgument(
                f"Expected groups=, whose each {each} is, if and only if the ledger's unit is not "
                f"a {each}; it is {ledger.unit!r}."
            )
        if delta is not None and delta != ledger.budget.delta:
            raise InvalidArgument(
                f"Expected delta={delta!r} to be {ledger.budget.delta!r}, at which the ledger "
                f"{ledger.path!r} counts: one ledger has one delta."
            )
        asked = Budget(positive(epsilon=epsilon), ledger.usable_delta)
        return cls(ledger, asked, unit, disjoint)

    @property
    def existing(self) -> Ledger | None:
        """The ledger, if there is one already: it decides how the cost of the noise adds up."""
        return self.ledger if isinstance(self.ledger, Ledger) else None

    def check_delta(self, size: int, called: str) -> None:
        """Refuse a delta at which a release may be one whole record; `called` is public."""
        delta = self.budget.delta if self.existing is None else self.existing.budget.delta
        if not self.ledger.allow_large_delta and delta * size >= 1:
            raise InvalidArgument(
                f"Expected delta={delta!r} of the ledger to be below one over {called}: at "
                "such a delta a release may be one whole record."
            )

    def opened(self) -> Ledger:
        """Return the ledger; a new one is made now."""
        if isinstance(self.ledger, Ledger):
            return self.ledger
        new = self.ledger
        if new.path is None:
            raise InvalidArgument("Expected NewLedger(path): a ledger of these people is kept.")
        return Ledger(
            new.path,
            budget=self.budget,
            unit=self.unit,
            dataset=new.dataset,
            allow_large_delta=new.allow_large_delta or None,
        )

    def noise_for(self, *mechanisms: WithNoise) -> float:
        """Return the deviation at which one release of each mechanism costs the budget."""
        return noise_for(self.budget, *mechanisms, ledger=self.existing)


def noise_for(budget: Budget, *mechanisms: WithNoise, ledger: Ledger | None = None) -> float:
    """Return the deviation at which one release of each mechanism costs the budget."""
    plans = calibrate(
        lambda sigma: [Plan(made(sigma), 1) for made in mechanisms], budget, ledger=ledger
    )
    first = plans[0].mechanism
    assert isinstance(first, ScoreHistogram | NoisySum)
    return first.sigma


def _refuse_another(model: Any, ledger: Ledger, disjoint: bool) -> None:
    own = getattr(model, "ledger_", None)
    if own is not None and own.path != ledger.path and not disjoint:
        raise InvalidArgument(
            "Expected ledger= to be the model's own, ledger=model.ledger_, so that what all these "
            "people lose is added up; if nobody here taught the model, say disjoint=True."
        )


def faults_of(
    disjoint: bool, allow_overlap: bool, n_records: Any, share: Any = None, *, model: Any
) -> tuple[str, ...]:
    """Return caveats on what was requested, which no cost covers; never on what was found."""
    asked = {
        DISJOINT: disjoint,
        UNMATCHED: not disjoint and getattr(model, "ledger_", None) is None,
        ALLOWED_OVERLAP: allow_overlap,
        READ_NUMBER: is_from_data(n_records) or is_from_data(share),
    }
    return (*(fault for fault, is_asked in asked.items() if is_asked), *_presumed(model))


def _presumed(model: Any) -> tuple[str, ...]:
    """Return the assumptions about encoders through which the model sees private rows."""
    parts = steps_of(model) if isinstance(model, Pipeline) else [model]
    owners = [*parts, *(getattr(part, "student_", None) for part in parts)]
    own = (getattr(owner, name, None) for owner in owners for name in ("features", "features_"))
    sees = (getattr(part, "student_", part) for part in parts)  # teachers see none of these rows
    lines = (line for view in (*sees, *own) for line in presumptions(view))
    return tuple(dict.fromkeys(lines))


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """What will be released and how it will be read.

    `kind` and `about` are for `Evaluation`; `plans` and `purposes` are of each table, for the
    ledger.
    """

    kind: str
    sigma: float
    plans: list[Plan]
    purposes: list[str]
    about: dict[str, Any]

    def refuse_hopeless(self, called: str) -> None:
        """Refuse, from declared numbers alone, what would give no figure; `called` is public."""
        empty = {name: np.zeros(shape) for name, shape in self._shapes().items()}
        untold = Evaluation(self.kind, empty, self.sigma, **self.about)
        if not any(True for _ in untold.rows()):
            raise InvalidArgument(
                f"Expected {called} to tell something at this epsilon: "
                f"noise has the deviation {self.sigma:.3g} on each count. Keep more records "
                "apart, or spend more. Nothing was spent."
            )

    def reading(self) -> list[Any]:
        """Return what a stored table must be read with: edges, order of classes, scales."""
        bins, classes = self.about.get("bins"), self.about.get("classes", [])
        told = [np.zeros(0) if bins is None else bins.edges, np.array(list(map(str, classes)))]
        if self.kind == "numbers":
            numbers = self.about["numbers"]
            told.append(np.array([numbers["centre"], *numbers["scale"]]))
        return told

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        if self.kind == "numbers":
            return {"sums": (MOMENTS + RESIDUAL_BINS,)}
        if self.kind == "masks":
            return {"sums": (columns_of(len(self.about["numbers"]["scores"])),)}
        number = len(self.about["shares"])
        shapes = {"scores": (2, self.about["bins"].count), "confusion": (number, number)}
        return {name: shapes[name] for name in _TABLES[self.kind]}

    def read(self, releases: list[Any], cost: Budget) -> Evaluation:
        """Return the released evaluation."""
        tables: dict[str, Floats] = {
            name: np.asarray(one.values)
            for name, one in zip(_TABLES[self.kind], releases, strict=True)
        }
        if "sums" in tables:
            tables["sums"] = tables["sums"][0]
        entries = [str(one.entry) for one in releases if one.entry is not None]
        paid: dict[str, Any] = {"entries": entries, "epsilon": cost.epsilon, "delta": cost.delta}
        return Evaluation(self.kind, tables, self.sigma, **paid, **self.about)


def carry_out(
    design: Design,
    payer: Payer,
    answers: Callable[[], list[Any]],
    *,
    faults: tuple[str, ...],
    public: NDArray[Any] | None = None,
    noise: InsecureNoise | None = None,
    kept: KeptReleases | None = None,
) -> Evaluation:
    """Refuse what gives no figure or costs too much; then release the records' contributions once.

    `answers` returns them for each plan (secret) and is called after all checks; `public` are the
    inputs that a stored release must have been made with.
    """
    size = design.about["n_records"]
    # Were it counted, an error would tell it without an entry of the ledger that confesses it.
    called = "the number of records" if READ_NUMBER in faults else f"n_records={size}"
    payer.check_delta(size, called)
    design.refuse_hopeless(called)
    # No ledger is made for records that then say nothing.
    said = answers() if payer.existing is None else None
    ledger = payer.opened()
    kept = KeptReleases() if kept is None else kept
    about = () if public is None else (public,)
    already = kept.start(ledger, *about, plans=design.plans)
    if ledger.would_exceed(*design.plans[already:]):
        raise BudgetExceeded(_beyond(ledger, payer.disjoint))
    said = answers() if said is None else said
    told: dict[str, Any] = {"noise": noise, "faults": faults, "inputs": design.reading()}
    releases = [
        kept.release(ledger, plan, partial(_itself, one), purpose=what, **told)
        for plan, one, what in zip(design.plans, said, design.purposes, strict=True)
    ]
    return design.read(releases, payer.budget)


def mean_of_own(rows: Floats, private: PrivateRecords) -> Contributions:
    """Return rows of norm at most 1, averaged over each person, for a `NoisySum`. Secret."""

    def left(some: Integers) -> Floats:
        return np.ones((len(some), 1))

    return Contributions(len(rows), left, lambda some: rows[some], private.people, mean=True)


def _itself(answers: Any) -> Any:
    return answers


def _beyond(ledger: Ledger, disjoint: bool) -> str:
    refused = (
        f"Expected an evaluation within the budget of {ledger!r}: it would exceed what is left. "
        "Nothing was spent. Ask for a smaller epsilon=, "
    )
    if disjoint:
        return refused + (
            "or keep other people apart: whatever these have said is in this ledger, and another "
            "one for the same people would hide it."
        )
    return refused + (
        "or, if nobody here taught the model, say disjoint=True (--disjoint), with a ledger of "
        "their own."
    )
