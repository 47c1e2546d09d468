"""Commands on the votes of teachers, from a file: `tacit aggregate`, `sanitise` and `analyze`.

aggregate: from votes to labels, a ledger and a report.
sanitise: a statement that profits from the teachers' agreement, bought through the same ledger.
    What it means: docs/theory/smooth-sensitivity.md#the-ex-post-statement.
analyze --secret: what a run costs on its actual votes, for the owner's eyes only. All of it depends
    on the votes: it is printed in red, its files are mode 0600 and marked SECRET, and none of it
    reaches a report.
"""

from __future__ import annotations

import csv
import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tacit._registry import mechanism_class
from tacit.cli import options
from tacit.cli.options import existing, vote_mechanism, writable
from tacit.cli.show import csv_text, print_budget, print_json, print_statement, screen, table
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.ledger import Entry, Ledger
    from tacit.mechanisms import Mechanism, Release, Sanitise
    from tacit.report import SecretAnalysis

TERMS = (
    *("epsilon", "delta", "reserve_delta", "accountant", "order", "unit", "dataset", "n_units"),
    "allow_large_delta",
)
"""Options of `aggregate` that are terms of a new ledger."""


def aggregate(
    context: typer.Context,
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
    queries: options.Queries = None,
    indices: options.Indices = None,
    max_answers: Annotated[
        int | None, typer.Option(help="Stop answering after so many answers.")
    ] = None,
    student: options.StudentFile = None,
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
    report: options.Report = None,
    insecure_seed: Annotated[
        int | None, typer.Option(help="Seeded noise, for research only: not private.")
    ] = None,
    overwrite: options.Overwrite = False,
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

    noises = {"threshold": threshold, "sigma_check": sigma_check, "sigma_answer": sigma_answer}
    made = vote_mechanism(mechanism, **noises, sigma=sigma, gamma=gamma, confidence=confidence)
    counts, rows = read_queries(votes, format, classes, queries, indices)
    public = _student(student, made, counts.shape)
    sizes = {"n_teachers": int(counts[0].sum()), "n_classes": counts.shape[1]}
    plan = Plan(made, len(rows), max_answers=max_answers, **sizes)
    writable(out, report, overwrite=overwrite)
    book = options.open_ledger(ledger, plan, **{name: context.params[name] for name in TERMS})
    noise = None if insecure_seed is None else InsecureNoise(insecure_seed)
    with book.release(plan, purpose=purpose, noise=noise) as grant:
        release = grant.release(counts, **public)
    write_atomically(out, as_csv(rows, release))
    if report is not None:
        write_report(report, book)
    _show_release(book, release, out, report, as_json)


def read_queries(
    votes: Path, format: str | None, classes: int | None, queries: int | None, indices: Path | None
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


def as_csv(rows: NDArray[np.int64], release: Release) -> bytes:
    """Return `index,label,entry`, or `index,class_0,…` for released histograms.

    The entry is the beginning of the hash of what paid: `tacit sanitise` asks for it.
    """
    if release.labels is not None:
        paid = str(release.entry)[: options.ENTRY_DIGITS]
        pairs = zip(rows.tolist(), release.labels.tolist(), strict=True)
        return csv_text(["index", "label", "entry"], ((*pair, paid) for pair in pairs))
    values = np.asarray(release.values).astype(np.int64)
    header = ["index", *(f"class_{j}" for j in range(values.shape[1]))]
    return csv_text(header, np.column_stack([rows, values]).tolist())


def _show_release(
    book: Ledger, release: Release, out: Path, report: Path | None, as_json: bool
) -> None:
    statement, labels = book.statement(), release.labels
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


def sanitise(
    votes: options.Votes,
    labels: Annotated[Path, typer.Option(help="The labels that `tacit aggregate` wrote.")],
    ledger: Annotated[Path, typer.Option(help="The ledger that paid for them.")],
    out: Annotated[Path, typer.Option(help="Where the statement goes, as JSON.")],
    beta: Annotated[float | None, typer.Option(help="Smoothness; 0.2/order by default.")] = None,
    sigma: Annotated[float, typer.Option(help="Noise of the cost, in its scale.")] = 6.0,
    sigma_log: Annotated[
        float | None, typer.Option(help="Noise of the log-scale; 5 beta by default.")
    ] = None,
    report: options.Report = None,
    overwrite: options.Overwrite = False,
    format: options.Format = None,
    classes: options.Classes = None,
    as_json: options.AsJson = False,
) -> None:
    """Publish what a run cost on its actual votes, privately, with the worst case beside it.

    Example: tacit sanitise votes.npz --labels labels.csv --ledger run.ledger --out statement.json
    """
    from tacit.datasets import read_votes
    from tacit.ledger import sanitised_statement
    from tacit.mechanisms import Plan, secret_cost_of
    from tacit.report import write_report

    writable(out, report, overwrite=overwrite)
    book = existing(ledger)
    rows, released, paid = read_labels(labels)
    covered = _covered(book, paid)
    mechanism = _sanitise(book, covered, beta, sigma, sigma_log)
    asked = _asked(read_votes(votes, format=format, n_classes=classes), rows, covered)
    priced = mechanism_class(covered.plan["mechanism"])(**covered.plan["parameters"])
    secret = secret_cost_of(priced, asked, released, mechanism.order, mechanism.beta)
    with book.release(Plan(mechanism, 1), purpose=f"sanitise {covered.hash[:12]}") as grant:
        release = grant.release(secret)
    statement = sanitised_statement(book, [release])
    statement.write(out)
    if report is not None:
        write_report(report, book, statement=statement)
    if as_json:
        print_json({"statement": statement.to_dict(), "out": str(out)})
        return
    print_budget(book)
    print_statement(statement)
    if statement.epsilon >= (statement.worst_case_epsilon or 0.0):
        screen().print(
            "[yellow]Sanitising did not pay here: the worst case is the better claim.[/]"
        )
    screen().print(f"Statement: {out}")


def read_labels(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], str]:
    """Read `index,label,entry` as `tacit aggregate` wrote it: rows, labels, what paid for them."""
    if not path.is_file():
        raise InvalidArgument(f"Expected a file at {str(path)!r}; there is none.")
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        rows = np.array([int(line["index"]) for line in lines], dtype=np.int64)
        labels = np.array([int(line["label"]) for line in lines], dtype=np.int64)
        (paid,) = {str(line["entry"]) for line in lines}
    except (KeyError, TypeError, ValueError, OverflowError, UnicodeError, csv.Error):
        paid = ""
    if len(paid) < options.ENTRY_DIGITS:
        raise InvalidArgument(
            f"Expected {path.name!r} to hold index,label,entry as `tacit aggregate` wrote it, all "
            "of one entry."
        )
    return rows, labels, paid


def _covered(book: Ledger, paid: str) -> Entry:
    """Return the entry that paid for the labels: the cost of another would be another's claim."""
    from tacit.ledger import SANITISABLE

    for item in book.entries():
        if item.plan.get("mechanism") in SANITISABLE and item.hash.startswith(paid):
            return item
    raise InvalidArgument(
        f"Expected --labels that an entry of the ledger paid for, by {' or '.join(SANITISABLE)}; "
        f"entry={paid!r} is none of them."
    )


def _sanitise(
    book: Ledger, covered: Entry, beta: float | None, sigma: float, sigma_log: float | None
) -> Sanitise:
    """Fill in defaults from public information alone."""
    from tacit.mechanisms import Sanitise

    if book.reserved_delta <= 0:
        raise InvalidArgument(
            "Expected a ledger with a reserved delta for confidence bounds; this one has none. "
            "Create ledgers with --reserve-delta."
        )
    smooth = float(f"{0.2 / book.sanitise_order:.4g}") if beta is None else beta
    half = float(f"{book.reserved_delta / 2:.6g}")
    return Sanitise(
        order=book.sanitise_order,
        beta=smooth,
        sigma=sigma,
        sigma_log=float(f"{5 * smooth:.4g}") if sigma_log is None else sigma_log,
        delta_value=half,
        delta_scale=half,
        covers=covered.hash,
    )


def _asked(counts: NDArray[np.int64], rows: NDArray[np.int64], covered: Entry) -> NDArray[np.int64]:
    plan = covered.plan
    inside = rows.size and rows.min() >= 0 and rows.max() < len(counts)
    if not inside or rows.size != plan["queries"] or np.unique(rows).size != rows.size:
        raise InvalidArgument(
            f"Expected labels for the {plan['queries']} queries of the entry, each another row of "
            "the votes."
        )
    teachers = counts[rows].sum(axis=1)
    if counts.shape[1] != plan["n_classes"] or (teachers != plan["n_teachers"]).any():
        raise InvalidArgument(
            f"Expected votes of {plan['n_teachers']} teachers on {plan['n_classes']} classes, "
            "as in the entry."
        )
    return counts[rows]


def analyze(
    votes: options.Votes,
    delta: Annotated[float, typer.Option(help="Delta of the comparison.")],
    mechanism: Annotated[
        str, typer.Option(help="gnmax, lnmax, confident-gnmax or interactive-gnmax.")
    ] = "confident-gnmax",
    threshold: options.Threshold = None,
    sigma_check: options.SigmaCheck = None,
    sigma_answer: options.SigmaAnswer = None,
    sigma: options.Sigma = None,
    gamma: options.Gamma = None,
    confidence: options.Confidence = None,
    queries: options.Queries = None,
    indices: options.Indices = None,
    student: options.StudentFile = None,
    secret: Annotated[
        bool, typer.Option("--secret", help="Yes, show quantities that must not be published.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Write the paper's figures into this directory.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the numbers as JSON here.")] = None,
    overwrite: options.Overwrite = False,
    format: options.Format = None,
    classes: options.Classes = None,
    as_json: options.AsJson = False,
) -> None:
    """Price a run on the actual votes. The result is SECRET: it may never be published as it is.

    Example: tacit analyze votes.npz --secret --mechanism confident-gnmax --threshold 200
    --sigma-check 150 --sigma-answer 40 --queries 640 --delta 1e-5
    """
    from tacit._files import write_atomically
    from tacit.report import secret_analysis

    if not secret:
        raise InvalidArgument(
            "Expected --secret: this prints quantities that depend on the private votes and may "
            "never be published."
        )
    noises = {"threshold": threshold, "sigma_check": sigma_check, "sigma_answer": sigma_answer}
    made = vote_mechanism(mechanism, **noises, sigma=sigma, gamma=gamma, confidence=confidence)
    writable(out, overwrite=overwrite)
    counts, rows = read_queries(votes, format, classes, queries, indices)
    public = _student(student, made, counts.shape)
    with screen().status("Pricing the run on its votes ..."):
        analysis = secret_analysis(made, counts, delta, **public)
    result = _plain(analysis, rows)
    if out is not None:
        write_atomically(out, json.dumps(result, indent=2).encode("utf-8"), mode=0o600)
    pictures = [] if plot is None else _plot(plot, made, analysis, counts, public, overwrite)
    if as_json:
        print_json(result)
    else:
        _show_secret(result, pictures)


_NUMBERS = {
    "worst_case_epsilon": "worst-case epsilon (public, known before the run)",
    "data_dependent_epsilon": "data-dependent epsilon, tight bound",
    "theorem6_epsilon": "data-dependent epsilon, the paper's bound (Theorem 6; 2017's for lnmax)",
    "best_order": "best order",
    "expected_answers": "expected answers",
    "smooth_sensitivity": "smooth sensitivity at 0.2/order",
    "sanitised_epsilon_estimate": "what a sanitised statement would say, about",
    "share_of_cost_of_dearest_tenth": "share of the cost in the dearest tenth of the queries",
}


def _plain(analysis: SecretAnalysis, rows: Any) -> dict[str, Any]:
    dearest = np.argsort(analysis.per_query)[::-1][:5].tolist()
    return {
        "SECRET": "depends on private votes; may never be published",
        "queries": len(rows),
        "delta": analysis.delta,
        **{name: getattr(analysis, name) for name in _NUMBERS},
        "dearest_queries": [
            {"index": int(rows[row]), "share_of_cost": float(analysis.shares[row])}
            for row in dearest
        ],
    }


def _show_secret(result: dict[str, Any], pictures: list[Path]) -> None:
    console = screen()
    console.print("[bold red]SECRET: for the data owner's eyes only; do not publish.[/]")
    costs = table("What this run costs on these votes", "quantity", "value")
    for key, meaning in _NUMBERS.items():
        value = result[key]
        costs.add_row(meaning, "not for this mechanism" if value is None else f"{value:.4g}")
    dearest = table("The dearest queries", "row", "share of the cost")
    for item in result["dearest_queries"]:
        dearest.add_row(str(item["index"]), f"{item['share_of_cost']:.2%}")
    for shown in (costs, dearest):
        shown.style = "red"
        console.print(shown)
    for path in pictures:
        console.print(f"[red]SECRET picture:[/] {path}")


def _plot(
    folder: Path,
    mechanism: Mechanism,
    analysis: SecretAnalysis,
    counts: Any,
    public: dict[str, Any],
    overwrite: bool,
) -> list[Path]:
    from tacit import report

    paths = [folder / f"SECRET-{name}.png" for name in ("votes", "cumulative", "sigma")]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    writable(*paths, overwrite=overwrite)
    with screen().status("Pricing other noise levels ..."):
        sweep = report.sigma_sweep(mechanism, counts, analysis.delta, **public)
    top, teachers = counts.max(axis=1), int(counts[0].sum())
    # Interactive-GNMax compares its threshold with a disagreement, not with these votes.
    threshold = None if public else getattr(mechanism, "threshold", None)
    figures = (
        report.votes_cost_figure(top, analysis.per_query, n_teachers=teachers, threshold=threshold),
        report.cumulative_cost_figure(analysis.cumulative),
        report.sigma_cost_figure(*sweep.values(), delta=analysis.delta),
    )
    for path, figure in zip(paths, figures, strict=True):
        report.save_figure(figure, path, secret=True)
    return paths
