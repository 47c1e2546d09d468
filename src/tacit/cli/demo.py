"""`tacit demo`: the whole path from votes to a signed statement, on generated votes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tacit.cli import options
from tacit.cli.show import print_budget, print_json, print_statement, screen, table


def demo(
    out: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("tacit-demo"),
    as_json: options.AsJson = False,
) -> None:
    """Price, refuse, release and report, on generated votes of 250 teachers.

    Example: tacit demo
    """
    from tacit._files import write_atomically
    from tacit.cli.aggregate import as_csv
    from tacit.datasets import demo_votes
    from tacit.ledger import Budget, Ledger
    from tacit.mechanisms import ConfidentGNMax, GNMax, Plan
    from tacit.report import write_report

    votes = demo_votes()
    folder = _fresh(out)
    plan = Plan(
        ConfidentGNMax(threshold=150, sigma_check=60, sigma_answer=40),
        len(votes),
        max_answers=120,
        n_teachers=250,
        n_classes=10,
    )
    budget = Budget(epsilon=2.0, delta=1e-5)
    ledger = Ledger(
        folder / "demo.ledger",
        budget=budget,
        unit="record",
        dataset="generated votes",
        accountant="gaussian",
    )
    with ledger.release(plan, purpose="label 200 public inputs") as grant:
        release = grant.release(votes)
    write_atomically(folder / "labels.csv", as_csv(np.arange(len(votes)), release).encode("utf-8"))
    write_report(folder / "report.html", ledger, title="tacit demo")
    labels, truth = release.labels, votes.argmax(axis=1)
    assert labels is not None
    answered = labels >= 0
    right = float((labels[answered] == truth[answered]).mean())
    further = Plan(GNMax(sigma=40), queries=1000)
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "answered": int(answered.sum()),
                "right": right,
                "statement": ledger.statement().to_dict(),
            }
        )
        return
    shown = table("Generated votes of 250 teachers on 200 public inputs", "what", "result")
    shown.add_row("mechanism", "Confident-GNMax: threshold 150, sigma 60 and 40, at most 120")
    shown.add_row(
        "priced before the run", f"epsilon {plan.epsilon(budget.delta):.3f} at delta 1e-5"
    )
    shown.add_row("answered", f"{answered.sum()} of {len(votes)}")
    # The generated votes are no secret, so the comparison with their plurality may be shown.
    shown.add_row("answers that match the plurality", f"{right:.1%}")
    verdict = "refused" if ledger.would_exceed(further) else "allowed"
    shown.add_row("1,000 more queries", f"{verdict} by the ledger, nothing spent")
    screen().print(shown)
    print_budget(ledger)
    print_statement(ledger.statement())
    screen().print(f"Open {folder / 'report.html'} in a browser.")


def _fresh(out: Path) -> Path:
    """Make the next run's directory; a ledger is never overwritten."""
    number = 1
    while True:
        folder = out / f"run-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder
