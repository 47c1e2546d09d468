"""`tacit aggregate`: from votes in a file to labels, a ledger and a report."""

from __future__ import annotations

import csv
import inspect
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tacit.cli import options
from tacit.cli.mechanisms import vote_mechanism
from tacit.cli.show import print_budget, print_json, print_statement, screen
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms import Mechanism, Release


def aggregate(
    votes: options.Votes,
    ledger: Annotated[Path, typer.Option(help="The ledger; made if there is none.")],
    out: Annotated[Path, typer.Option(help="Where the released labels go: index,label,entry.")],
    mechanism: Annotated[
        str,
        typer.Option(
            help="How votes become labels: a mechanism on votes by its name, with the options "
            "below, or as NAME:KEY=VALUE,... for example lnmax:gamma=0.05."
        ),
    ] = "confident-gnmax",
    threshold: options.Threshold = None,
    sigma_check: options.SigmaCheck = None,
    sigma_answer: options.SigmaAnswer = None,
    sigma: options.Sigma = None,
    gamma: options.Gamma = None,
    confidence: options.Confidence = None,
    queries: Annotated[int | None, typer.Option(help="Ask only the first N rows.")] = None,
    indices: Annotated[
        Path | None, typer.Option(help="Ask only these rows: a file of row numbers.")
    ] = None,
    max_answers: Annotated[
        int | None, typer.Option(help="Stop answering after so many answers.")
    ] = None,
    student: Annotated[
        Path | None, typer.Option(help="The student's probabilities, .npy (interactive-gnmax).")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Budget of a new ledger.")] = None,
    delta: Annotated[float | None, typer.Option(help="Budget of a new ledger.")] = None,
    reserve_delta: options.ReserveDelta = None,
    accountant: Annotated[str, typer.Option(help="auto, gaussian or rdp (new ledger).")] = "auto",
    order: Annotated[
        float | None, typer.Option(help="Renyi order of a new rdp ledger; the best by default.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Whose privacy, e.g. patient; record by default.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="What the private data is called.")] = None,
    n_units: Annotated[int | None, typer.Option(help="How many units, if public.")] = None,
    allow_large_delta: Annotated[
        bool, typer.Option(help="Accept a delta of 1/n-units or more.")
    ] = False,
    purpose: Annotated[str, typer.Option(help="Why, for the ledger.")] = "label public inputs",
    report: Annotated[Path | None, typer.Option(help="Write an HTML report here.")] = None,
    insecure_seed: Annotated[
        int | None, typer.Option(help="Seeded noise, for research only: not private.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace existing outputs.")] = False,
    format: options.Format = None,
    classes: options.Classes = None,
    as_json: options.AsJson = False,
) -> None:
    """Release labels from teacher votes, through a ledger.

    Example: tacit aggregate votes.npz --mechanism confident-gnmax --threshold 200 --sigma-check 150
    --sigma-answer 40 --queries 640 --epsilon 4 --delta 1e-5 --ledger run.ledger --out labels.csv
    --report report.html
    """
    from tacit._files import write_atomically
    from tacit.mechanisms import Plan
    from tacit.noise import InsecureNoise
    from tacit.report import write_report

    made = vote_mechanism(
        mechanism,
        threshold=threshold,
        sigma_check=sigma_check,
        sigma_answer=sigma_answer,
        sigma=sigma,
        gamma=gamma,
        confidence=confidence,
    )
    counts, rows = read_queries(votes, format, classes, queries, indices)
    public = _student(student, made, counts.shape)
    plan = Plan(
        made,
        len(rows),
        max_answers=max_answers,
        n_teachers=int(counts[0].sum()),
        n_classes=counts.shape[1],
    )
    for path in (out, report):
        options.writable(path, overwrite=overwrite)
    book = options.open_ledger(
        ledger,
        plan,
        epsilon=epsilon,
        delta=delta,
        reserve=reserve_delta,
        accountant=accountant,
        order=order,
        unit=unit,
        dataset=dataset,
        n_units=n_units,
        allow_large_delta=allow_large_delta,
    )
    noise = None if insecure_seed is None else InsecureNoise(insecure_seed)
    with book.release(plan, purpose=purpose, noise=noise) as grant:
        release = grant.release(counts, **public)
    write_atomically(out, as_csv(rows, release).encode("utf-8"))
    if report is not None:
        write_report(report, book)
    _show(book, release, out, report, as_json)


def read_queries(
    votes: Path,
    format: str | None,
    classes: int | None,
    queries: int | None,
    indices: Path | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the votes of the queries that are asked, and their row numbers."""
    from tacit.datasets import read_rows, read_votes

    counts = read_votes(votes, format=format, n_classes=classes)
    if queries is not None and indices is not None:
        raise InvalidArgument("Expected --queries or --indices, not both.")
    if indices is not None:
        rows = read_rows(indices, n_rows=len(counts))
    else:
        asked = len(counts) if queries is None else queries
        if not 1 <= asked <= len(counts):
            raise InvalidArgument(f"Expected --queries={asked} to be 1 .. {len(counts)}.")
        rows = np.arange(asked)
    return counts[rows], rows


def _student(path: Path | None, mechanism: Mechanism, shape: tuple[int, ...]) -> dict[str, Any]:
    """Read the student's probabilities for a mechanism whose release asks for them."""
    if "student" not in inspect.signature(mechanism.release).parameters:
        if path is not None:
            raise InvalidArgument(f"Expected no --student for {mechanism.name}.")
        return {}
    if path is None or not path.is_file():
        raise InvalidArgument("Expected --student FILE.npy with the student's probabilities.")
    from tacit.mechanisms import student_probabilities

    try:
        raw = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise InvalidArgument(f"Expected {path.name!r} to be a whole .npy file.") from None
    return {"student": student_probabilities(raw, shape)}


def as_csv(rows: NDArray[np.int64], release: Release) -> str:
    """Return `index,label,entry`, or `index,class_0,…` for released histograms.

    The entry is the beginning of the hash of what paid: `tacit sanitise` asks for it.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if release.labels is not None:
        paid = str(release.entry)[: options.ENTRY_DIGITS]
        writer.writerow(["index", "label", "entry"])
        pairs = zip(rows.tolist(), release.labels.tolist(), strict=True)
        writer.writerows((row, label, paid) for row, label in pairs)
    else:
        values = np.asarray(release.values).astype(np.int64)
        writer.writerow(["index", *(f"class_{j}" for j in range(values.shape[1]))])
        writer.writerows([row, *counts] for row, counts in zip(rows, values.tolist(), strict=True))
    return text.getvalue()


def _show(book: Any, release: Release, out: Path, report: Path | None, as_json: bool) -> None:
    statement = book.statement()
    labels = release.labels
    answered = len(release) if labels is None else int((labels >= 0).sum())
    if as_json:
        print_json(
            {
                "labels": str(out),
                "report": None if report is None else str(report),
                "ledger": book.path,
                "queries": len(release),
                "answered": answered,
                "entry": release.entry,
                "statement": statement.to_dict(),
            }
        )
        return
    screen().print(f"Released {answered} answers to {len(release)} queries: {out}")
    print_budget(book)
    print_statement(statement)
    if report is not None:
        screen().print(f"Report: {report}")
