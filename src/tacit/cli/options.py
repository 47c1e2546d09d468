"""Options that several commands share, and how they become a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit.ledger import Budget, Ledger
    from tacit.mechanisms import Plan

ENTRY_DIGITS = 12
"""How much of an entry's hash stands beside the labels that it paid for."""
Votes = Annotated[
    Path, typer.Argument(help="Teacher votes: .npy, .npz or .csv.", show_default=False)
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="histogram (queries, classes) or predictions (teachers, queries); needless for an "
        ".npz with the key votes or predictions.",
    ),
]
Classes = Annotated[
    int | None, typer.Option("--classes", help="Number of classes; needed with predictions.")
]
Threshold = Annotated[float | None, typer.Option(help="Votes that the check asks for.")]
SigmaCheck = Annotated[float | None, typer.Option(help="Noise of the check.")]
SigmaAnswer = Annotated[float | None, typer.Option(help="Noise of the answer.")]
Sigma = Annotated[float | None, typer.Option(help="Noise of gnmax and noisy-votes.")]
Gamma = Annotated[float | None, typer.Option(help="Inverse noise scale of lnmax.")]
Confidence = Annotated[
    float | None, typer.Option(help="How sure the student must be (interactive-gnmax).")
]
ReserveDelta = Annotated[
    float | None,
    typer.Option(help="Part of delta kept for `tacit sanitise`; a tenth by default."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def open_ledger(
    path: Path,
    plan: Plan,
    *,
    epsilon: float | None,
    delta: float | None,
    reserve: float | None,
    accountant: str,
    order: float | None,
    unit: str | None,
    dataset: str | None,
    n_units: int | None,
    allow_large_delta: bool,
) -> Ledger:
    """Open the ledger, or create it with the budget that was given.

    A new ledger's accountant, if left to us, is the one that prices this plan lower: the plan is
    public, so the choice is too. A tenth of delta is reserved so that a sanitised statement can
    be bought later.
    """
    from tacit.ledger import Budget, Ledger

    if path.exists():
        budget = None if epsilon is None or delta is None else Budget(epsilon, delta)
        return Ledger(path, budget=budget, unit=unit, dataset=dataset)
    if epsilon is None or delta is None:
        raise InvalidArgument(
            f"Expected --epsilon and --delta: {str(path)!r} does not exist yet, and a new ledger "
            "needs its budget."
        )
    kept = reserved(delta, reserve)
    if accountant == "auto" and order is not None:
        accountant = "rdp"
    if accountant == "auto":
        accountant = cheaper_accountant(plan, Budget(epsilon, delta), kept)
    return Ledger(
        path,
        budget=Budget(epsilon, delta),
        unit=unit or "record",
        dataset=dataset or "",
        accountant=accountant,
        order=order,
        reserved_delta=kept,
        n_units=n_units,
        allow_large_delta=allow_large_delta,
    )


def reserved(delta: float, reserve: float | None) -> float:
    """Return the part of delta that is kept for confidence bounds."""
    kept = float(f"{delta / 10:.6g}") if reserve is None else reserve
    if not 0 <= kept < delta:
        raise InvalidArgument(f"Expected --reserve-delta={kept} to be at least 0 and below delta.")
    return kept


def cheaper_accountant(plan: Plan, budget: Budget, kept: float) -> str:
    """Return "gaussian" or "rdp": which of them lets this plan use less of the budget."""
    from tacit.ledger import GaussianAccountant, RdpAccountant, best_order

    if plan.mu_squared() is None:
        return "rdp"
    delta = budget.delta - kept
    gaussian = GaussianAccountant.within(budget, delta)
    try:
        rdp = RdpAccountant.within(budget, delta, best_order(budget, delta))
    except InvalidArgument:
        return "gaussian"
    share_gaussian = gaussian.cost(plan, 0) / gaussian.capacity
    share_rdp = rdp.cost(plan, 0) / rdp.capacity
    return "gaussian" if share_gaussian <= share_rdp else "rdp"


def writable(path: Path | None, *, overwrite: bool = False) -> None:
    """Refuse, before anything is spent, an output that could not be written afterwards."""
    if path is None:
        return
    if path.exists() and not overwrite:
        raise InvalidArgument(
            f"Expected {str(path)!r} not to exist; choose another or --overwrite."
        )
    if not path.parent.is_dir():
        raise InvalidArgument(f"Expected the directory {str(path.parent)!r} to exist; make it.")
    probe = path.parent / f".{path.name}.probe"
    probe.touch()
    probe.unlink()
