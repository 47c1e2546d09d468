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
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit._files import write_atomically
from tacit._progress import at_work
from tacit._registry import mechanism_class
from tacit.cli.options import ENTRY_DIGITS, existing, open_ledger, vote_mechanism, writable
from tacit.cli.show import Result, csv_text, print_statement, print_table, screen
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from tacit import report as reports
    from tacit._checks import Integers
    from tacit.ledger import Entry, Ledger
    from tacit.mechanisms import Mechanism, Release, Sanitise

TERMS = (
    *("epsilon", "delta", "reserve_delta", "accountant", "unit", "dataset", "n_units"),
    "allow_large_delta",
)
"""Options of `aggregate` that are terms of a new ledger."""
PARAMETERS = ("threshold", "sigma_check", "sigma_answer", "sigma", "gamma", "confidence")
"""Options that are parameters of a mechanism."""


def aggregate(
    context: typer.Context,
    votes: Path,
    *,
    ledger: Path,
    out: Path,
    mechanism: str = "confident-gnmax",
    threshold: float | None = None,
    sigma_check: float | None = None,
    sigma_answer: float | None = None,
    sigma: float | None = None,
    gamma: float | None = None,
    confidence: float | None = None,
    queries: int | None = None,
    indices: Path | None = None,
    max_answers: int | None = None,
    student: Path | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    reserve_delta: float | None = None,
    accountant: str = "auto",
    unit: str | None = None,
    dataset: str | None = None,
    n_units: int | None = None,
    allow_large_delta: bool = False,
    purpose: str = "label public inputs",
    report: Path | None = None,
    insecure_seed: int | None = None,
    overwrite: bool = False,
    format: str | None = None,
    classes: int | None = None,
) -> Result:
    """Release labels from teacher votes, through a ledger.

    Example: tacit aggregate votes.npz --mechanism confident-gnmax --threshold 200 --sigma-check 150
    --sigma-answer 40 --queries 640 --epsilon 4 --delta 1e-5 --ledger run.ledger --out labels.csv
    --report report.html

    ledger: The ledger; made if there is none.
    out: Where the released labels go: index,label,entry.
    mechanism: How votes become labels: a mechanism on votes by its name, with the options below, or
        as NAME:KEY=VALUE,... for example lnmax:gamma=0.05.
    max_answers: Stop answering after so many answers.
    epsilon: Budget of a new ledger.
    delta: Budget of a new ledger.
    accountant: auto, gaussian or rdp (new ledger).
    unit: Whose privacy, e.g. patient; record by default.
    dataset: What the private data is called.
    n_units: How many units, if public.
    allow_large_delta: Accept a delta of 1/n-units or more.
    purpose: Why, for the ledger.
    insecure_seed: Seeded noise, for research only: not private.
    """
    from tacit import report as reports
    from tacit.mechanisms import Plan
    from tacit.noise import InsecureNoise

    made = _mechanism(context)
    counts, rows = _read_queries(context)
    public = _student(student, made, counts.shape)
    sizes = {"n_teachers": int(counts[0].sum()), "n_classes": counts.shape[1]}
    plan = Plan(made, len(rows), max_answers=max_answers, **sizes)
    writable(out, report, overwrite=overwrite)
    book = open_ledger(ledger, plan, {name: context.params[name] for name in TERMS})
    noise = None if insecure_seed is None else InsecureNoise(insecure_seed)
    with book.release(plan, purpose=purpose, noise=noise) as grant:
        release = grant.release(counts, **public)
    write_atomically(out, _as_csv(rows, release))
    if report is not None:
        reports.write_report(report, book, learned=_labels_of(made, sizes))
    return _released(book, release, out, report)


def _labels_of(made: Mechanism, sizes: Mapping[str, Any]) -> reports.Learned:
    """Say what was learned, for the report: no more is known here than what was asked of whom."""
    from tacit.report import Learned

    classes, teachers = (sizes.get(key) for key in ("n_classes", "n_teachers"))
    return Learned(
        predicts=f"Labels of public inputs{f', each one of {classes} classes' if classes else ''}.",
        inputs=f"The votes of {teachers or 'all'} teachers on these inputs.",
        method=f"{made.name}: teachers answer with one vote each, and what is released is noisy.",
    )


def _mechanism(context: typer.Context) -> Mechanism:
    """Make the mechanism that the command's options describe."""
    asked = context.params
    return vote_mechanism(asked["mechanism"], **{name: asked.get(name) for name in PARAMETERS})


def _read_queries(context: typer.Context) -> tuple[Integers, Integers]:
    """Return the votes of the queries that are asked, and their row numbers."""
    import numpy as np

    from tacit.datasets import read_rows, read_votes

    asked = context.params
    queries, indices = asked["queries"], asked["indices"]
    counts = read_votes(asked["votes"], format=asked["format"], n_classes=asked["classes"])
    if queries is not None and indices is not None:
        raise InvalidArgument("Expected --queries or --indices, not both.")
    if indices is not None:
        rows = read_rows(indices, n_rows=len(counts))
    else:
        first = len(counts) if queries is None else queries
        if not 1 <= first <= len(counts):
            raise InvalidArgument(f"Expected --queries={first} to be 1 .. {len(counts)}.")
        rows = np.arange(first)
    return counts[rows], rows


def _student(path: Path | None, mechanism: Mechanism, shape: tuple[int, ...]) -> dict[str, Any]:
    """Read the student's probabilities for a mechanism whose release asks for them."""
    import numpy as np

    from tacit.datasets import read_file
    from tacit.mechanisms import student_probabilities

    if "student" not in inspect.signature(mechanism.release).parameters:
        if path is not None:
            raise InvalidArgument(f"Expected no --student for {mechanism.name}.")
        return {}
    if path is None or not path.is_file():
        raise InvalidArgument("Expected --student FILE.npy with the student's probabilities.")
    raw = read_file(path, ".npy file", lambda: np.load(path, allow_pickle=False))
    return {"student": student_probabilities(raw, shape)}


def _as_csv(rows: Integers, release: Release) -> bytes:
    """Return `index,label,entry`, or `index,class_0,…` for released histograms.

    The entry is the beginning of the hash of what paid: `tacit sanitise` asks for it.
    """
    import numpy as np

    if release.labels is not None:
        paid = str(release.entry)[:ENTRY_DIGITS]
        pairs = zip(rows.tolist(), release.labels.tolist(), strict=True)
        return csv_text([["index", "label", "entry"], *((*pair, paid) for pair in pairs)])
    values = np.asarray(release.values).astype(np.int64)
    header = ["index", *(f"class_{j}" for j in range(values.shape[1]))]
    return csv_text([header, *np.column_stack([rows, values]).tolist()])


def _released(book: Ledger, release: Release, out: Path, report: Path | None) -> Result:
    statement, labels = book.statement(), release.labels
    answered = len(release) if labels is None else int((labels >= 0).sum())
    plain = {
        "labels": str(out),
        "report": None if report is None else str(report),
        "ledger": book.path,
        "queries": len(release),
        "answered": answered,
        "entry": release.entry,
        "statement": statement.to_dict(),
    }

    def shown() -> None:
        screen().print(f"Released {answered} answers to {len(release)} queries: {out}")
        print_statement(book, statement)
        if report is not None:
            screen().print(f"Report: {report}")

    return Result(plain, shown)


def sanitise(
    votes: Path,
    *,
    labels: Path,
    ledger: Path,
    out: Path,
    sigma: float = 6.0,
    report: Path | None = None,
    overwrite: bool = False,
    format: str | None = None,
    classes: int | None = None,
) -> Result:
    """Publish what a run cost on its actual votes, privately, with the worst case beside it.

    Example: tacit sanitise votes.npz --labels labels.csv --ledger run.ledger --out statement.json

    labels: The labels that `tacit aggregate` wrote.
    ledger: The ledger that paid for them.
    out: Where the statement goes, as JSON. statement.json of a finished run on that ledger, with
        --overwrite: the run is sealed again.
    sigma: Noise of the cost, in its scale.
    """
    from tacit import report as reports
    from tacit.datasets import read_votes
    from tacit.ledger import sanitised_statement
    from tacit.mechanisms import Plan, secret_cost_of
    from tacit.runs import publish_also, run_of_statement

    writable(out, report, overwrite=overwrite)
    book = existing(ledger)
    run = run_of_statement(out, book)
    rows, released, paid = _read_labels(labels)
    covered = _covered(book, paid)
    mechanism = _sanitise(book, covered, sigma)
    asked = _asked(read_votes(votes, format=format, n_classes=classes), rows, covered)
    priced = mechanism_class(covered.plan["mechanism"])(**covered.plan["parameters"])
    secret = secret_cost_of(priced, asked, released, mechanism.order, mechanism.beta)
    with book.release(Plan(mechanism, 1), purpose=f"sanitise {covered.hash[:12]}") as grant:
        release = grant.release(secret)
    statement = sanitised_statement(book, [release])
    if run is None:
        statement.write(out)
    else:
        statement = publish_also(run, kind="sanitised")
    if report is not None:
        learned = _labels_of(priced, covered.plan)
        reports.write_report(report, book, statement=statement, learned=learned)

    def shown() -> None:
        print_statement(book, statement)
        if statement.epsilon >= (statement.worst_case_epsilon or 0.0):
            screen().print(
                "[yellow]Sanitising did not pay here: the worst case is the better claim.[/]"
            )
        screen().print(f"Statement: {out}")

    return Result({"statement": statement.to_dict(), "out": str(out)}, shown)


def _read_labels(path: Path) -> tuple[Integers, Integers, str]:
    """Read `index,label,entry` as `tacit aggregate` wrote it: rows, labels, what paid for them."""
    import numpy as np

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
    if len(paid) < ENTRY_DIGITS:
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


def _sanitise(book: Ledger, covered: Entry, sigma: float) -> Sanitise:
    """Fill in defaults from public information alone."""
    from tacit.mechanisms import Sanitise

    if book.reserved_delta <= 0:
        raise InvalidArgument(
            "Expected a ledger with a reserved delta for confidence bounds; this one has none. "
            "Create ledgers with --reserve-delta."
        )
    beta = float(f"{0.2 / book.sanitise_order:.4g}")
    half = float(f"{book.reserved_delta / 2:.6g}")
    return Sanitise(
        order=book.sanitise_order,
        beta=beta,
        sigma=sigma,
        sigma_log=float(f"{5 * beta:.4g}"),
        delta_value=half,
        delta_scale=half,
        covers=covered.hash,
    )


def _asked(counts: Integers, rows: Integers, covered: Entry) -> Integers:
    import numpy as np

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
    context: typer.Context,
    votes: Path,
    *,
    delta: float,
    mechanism: str = "confident-gnmax",
    threshold: float | None = None,
    sigma_check: float | None = None,
    sigma_answer: float | None = None,
    sigma: float | None = None,
    gamma: float | None = None,
    confidence: float | None = None,
    queries: int | None = None,
    indices: Path | None = None,
    student: Path | None = None,
    secret: bool = False,
    plot: Path | None = None,
    out: Path | None = None,
    overwrite: bool = False,
    format: str | None = None,
    classes: int | None = None,
) -> Result:
    """Price a run on the actual votes. The result is SECRET: it may never be published as it is.

    Example: tacit analyze votes.npz --secret --mechanism confident-gnmax --threshold 200
    --sigma-check 150 --sigma-answer 40 --queries 640 --delta 1e-5

    delta: Delta of the comparison.
    mechanism: gnmax, lnmax, confident-gnmax or interactive-gnmax.
    secret: Yes, show quantities that must not be published.
    plot: Write the paper's figures into this directory.
    out: Write the numbers as JSON here.
    """
    from tacit import report as reports

    if not secret:
        raise InvalidArgument(
            "Expected --secret: this prints quantities that depend on the private votes and may "
            "never be published."
        )
    made = _mechanism(context)
    writable(out, overwrite=overwrite)
    counts, rows = _read_queries(context)
    public = _student(student, made, counts.shape)
    with at_work("Pricing the run on its votes"):
        analysis = reports.secret_analysis(made, counts, delta, **public)
    result = _plain(analysis, rows)
    if out is not None:
        write_atomically(out, json.dumps(result, indent=2).encode("utf-8"), mode=0o600)
    pictures = [] if plot is None else _plot(plot, made, analysis, counts, public, overwrite)
    return Result(result, lambda: _show_secret(result, pictures))


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


def _plain(analysis: reports.SecretAnalysis, rows: Any) -> dict[str, Any]:
    import numpy as np

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
    known = ((meaning, result[key]) for key, meaning in _NUMBERS.items())
    costs = [(m, "not for this mechanism" if v is None else f"{v:.4g}") for m, v in known]
    print_table("What this run costs on these votes", ("quantity", "value"), costs, style="red")
    dearest = [
        (str(item["index"]), f"{item['share_of_cost']:.2%}") for item in result["dearest_queries"]
    ]
    print_table("The dearest queries", ("row", "share of the cost"), dearest, style="red")
    for path in pictures:
        console.print(f"[red]SECRET picture:[/] {path}")


def _plot(
    folder: Path,
    mechanism: Mechanism,
    analysis: reports.SecretAnalysis,
    counts: Any,
    public: dict[str, Any],
    overwrite: bool,
) -> list[Path]:
    from tacit import report as reports

    paths = [folder / f"SECRET-{name}.png" for name in ("votes", "cumulative", "sigma")]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    writable(*paths, overwrite=overwrite)
    with at_work("Pricing other noise levels"):
        sweep = reports.sigma_sweep(mechanism, counts, analysis.delta, **public)
    top, teachers = counts.max(axis=1), int(counts[0].sum())
    # Interactive-GNMax compares its threshold with a disagreement, not with these votes.
    threshold = None if public else getattr(mechanism, "threshold", None)
    figures = (
        reports.votes_cost_figure(
            top, analysis.per_query, n_teachers=teachers, threshold=threshold
        ),
        reports.cumulative_cost_figure(analysis.cumulative),
        reports.sigma_cost_figure(*sweep.values(), delta=analysis.delta),
    )
    for path, figure in zip(paths, figures, strict=True):
        reports.save_figure(figure, path, secret=True)
    return paths
