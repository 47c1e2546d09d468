"""`tacit evaluate`: a finished run's student, scored once on private held-out records.

evaluation.json, evaluation/   noisy tables with bands, and the release
evaluation.html, .payer        with disjoint people: the report on their ledger, and its path

That ledger stands beside the records (kept-apart.csv.ledger) and pays for every run they evaluate.
The run is sealed anew; its statement covers the cost where the run's own ledger paid.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit._files import alone_in, write_atomically
from tacit.datasets import load_dataset, load_public, streamed_file
from tacit.errors import InvalidArgument
from tacit.evaluate import Evaluation, evaluate, evaluation_measures, evaluation_section
from tacit.ledger import KeptReleases, Ledger, Statement
from tacit.methods import NewLedger, method_named
from tacit.report import render_report
from tacit.runs.about import learned_by
from tacit.runs.begun_with import begun_with, place_of
from tacit.runs.config import RunConfig
from tacit.runs.ledgers import ledger_of
from tacit.runs.running import load_rows
from tacit.runs.sealing import (
    EVALUATED,
    EVALUATION,
    EVALUATION_PAGE,
    EVALUATION_PAYER,
    METRICS,
    STATEMENT,
    STUDENT,
    data_of,
    seal_run,
)
from tacit.runs.verifying import refuse_broken, verify_run
from tacit.students import load_student

PAID_HERE = "The ledger of this report paid for it: it is among the releases below."
PAID_APART = (
    "They were declared to be other people than those that taught the model. A ledger of their own "
    "paid for it, so nothing of it is in the epsilon above; evaluation.html "
    "beside this page is the report on that ledger, with the statement that covers them."
)


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Result of `evaluate_run`.

    Parameters
    ----------
    folder : path, the run's
    found : Evaluation, the figures
    statement : Statement, of the ledger that paid
    ledger : Ledger, which paid
    head : str, the run's, as it is sealed now
    """

    folder: Path
    found: Evaluation
    statement: Statement
    ledger: Ledger
    head: str


def evaluate_run(
    folder: str | Path,
    holdout: str,
    *,
    epsilon: float,
    n_records: int | str,
    share: Any = None,
    threshold: float = 0.5,
    positive: Any = None,
    disjoint: bool = False,
    ledger: str | Path | None = None,
    again: bool = False,
) -> EvaluationResult:
    """Evaluate the student of a finished run, once, on private held-out records.

    Everything is in the folder, noted in the run's ledger, before this returns.

    Parameters
    ----------
    folder : path, of the run
    holdout : str
        The records, in a word, with the columns of the run's source: "csv:kept-apart.csv".
    epsilon : float, cost of this evaluation alone, at the run's delta
    n_records : int or str
        Their publicly declared number; "from_data" counts them, which no cost covers.
    share : float, optional
        Of the positive class, as declared or released; see `tacit.evaluate.evaluate`.
    threshold : float, probability from which on the outcome is predicted
    positive : label, optional
        Which of two classes is the outcome: the one declared second by default.
    disjoint : bool
        Declares that no person among them trained the model: a ledger of their own pays, the same
        for every run that they evaluate.
    ledger : path, optional
        That ledger, by default HOLDOUT.ledger; created for epsilon and the run's delta if missing.
    again : bool, pay once more, within the budget, for a release that was paid for and lost

    Returns
    -------
    EvaluationResult
    """
    folder = Path(folder)
    config = _finished(folder)
    config.data.keep_apart(holdout=holdout)
    payer = _payer(folder, config, holdout, disjoint, ledger)
    asked: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": config.privacy.delta,
        "n_records": n_records,
        "share": share,
        "disjoint": disjoint,
        "allow_overlap": config.data.allow_overlap,
    }
    with alone_in(folder):
        asked |= {"ledger": payer, "kept": _kept(folder, holdout, again=again)}
        own_way = method_named(config.method).evaluate
        with begun_with(folder, {"HOLDOUT": place_of(holdout)}, EVALUATED):
            if own_way is not None:
                found = own_way(config, folder, holdout, asked)
            else:
                how = {"threshold": threshold, "positive": positive}
                found = _evaluate_rows(config, folder, holdout, asked | how)
            opened = Ledger(payer.path or "") if isinstance(payer, NewLedger) else payer
            said, head = _write(folder, config, found, opened)
    return EvaluationResult(folder, found, said, opened, head)


def _evaluate_rows(
    config: RunConfig, folder: Path, holdout: str, asked: dict[str, Any]
) -> Evaluation:
    """Evaluate a student of rows: of classes, or of numbers within the declared range."""
    student = load_student(folder / STUDENT)
    if config.learns_numbers:
        asked |= {"target_range": config.data.options["target_range"]}
    elif asked["positive"] is None:
        asked |= {"positive": _outcome(config, student)}
    else:  # the command line has words only
        asked |= {"positive": _label(student, asked["positive"])}
    if not asked["disjoint"]:  # the run's own ledger pays: that this is the model's is known here
        student.ledger_ = asked["ledger"]
    how = {"X_public": load_rows_public(config), **asked}
    table = streamed_file(holdout, **config.data.options)  # larger than memory, perhaps
    if table is not None:
        return evaluate(student, table, **how)
    records = load_dataset(holdout, **config.data.options)
    return evaluate(student, records.X, records.labels, groups=records.groups, **how)


def _kept(folder: Path, holdout: str, *, again: bool) -> KeptReleases:
    """Return where the release is stored; that of other records is not used."""
    kept = KeptReleases(folder / EVALUATED, again=again)
    kept.about = (np.frombuffer(holdout.encode("utf-8"), dtype=np.uint8),)
    return kept


def _outcome(config: RunConfig, student: Any) -> Any:
    """Return the class of two that was declared second: a student sorts them."""
    declared = config.data.options.get("classes")
    if not isinstance(declared, list) or len(declared) != 2 or not hasattr(student, "classes_"):
        return None
    named = _label(student, declared[1])
    return named if named in student.classes_.tolist() else None


def _label(student: Any, named: Any) -> Any:
    """Return the student's class of this name, or the name."""
    labels = np.asarray(getattr(student, "classes_", ())).tolist()
    return next((label for label in labels if str(label) == str(named)), named)


def _finished(folder: Path) -> RunConfig:
    """Return the configuration of a finished run that was not evaluated yet."""
    if not (folder / "config.toml").is_file() or not (folder / STATEMENT).is_file():
        raise InvalidArgument(f"Expected the folder of a finished run at {str(folder)!r}.")
    checks = verify_run(folder)
    if any(check.what == EVALUATION and check.holds for check in checks):
        raise InvalidArgument(
            f"Expected a run that was not evaluated yet; {str(folder / EVALUATION)!r} has what was "
            "told, and every threshold is read from it for free: tacit evaluate RUN --threshold T."
        )
    # A release that no seal lists was left by a process that was killed: it goes on.
    others = [check for check in checks if not check.what.startswith(f"{EVALUATED}/")]
    refuse_broken(others, " Nothing was spent.")
    return RunConfig.of_finished(folder)


def load_rows_public(config: RunConfig) -> Any:
    """Return the public inputs of a run, whose scores fix the bins; None without any."""
    where = config.data
    if where.public_source:
        return load_public(where.public_source, **where.options)
    # Without a part of the source that is public, nothing private is read to find none.
    return load_rows(config).public if where.private else None


def _payer(
    folder: Path, config: RunConfig, holdout: str, disjoint: bool, place: str | Path | None
) -> Ledger | NewLedger:
    """Return the run's ledger, or that of disjoint people, which is created later if missing."""
    if not disjoint:
        if place is not None:
            raise InvalidArgument(
                "Expected --ledger with --disjoint only: otherwise the run's own ledger pays."
            )
        return ledger_of(folder)
    path = _beside(holdout) if place is None else Path(place)
    if path.is_file():
        found = Ledger(path)
        if found.origin == ledger_of(folder).origin:
            raise InvalidArgument("Expected another ledger than the run's own with --disjoint.")
        return found
    large = config.privacy.allow_large_delta
    return NewLedger(path.resolve(), Path(holdout).name, allow_large_delta=large)


def _beside(holdout: str) -> Path:
    """Return the path of a ledger of held-out records: beside them, for every run."""
    path = Path(holdout)
    path = (path if path.exists() else Path(holdout.partition(":")[2] or holdout)).resolve()
    if not path.exists():
        raise InvalidArgument(
            f"Expected HOLDOUT={holdout!r} to be a file or a folder, beside which the ledger of "
            "its people stands; or say --ledger PATH, the same for every evaluation of them."
        )
    return path.with_name(f"{path.name}.ledger")


def _write(
    folder: Path, config: RunConfig, found: Evaluation, ledger: Ledger
) -> tuple[Statement, str]:
    """Write file and pages, seal the run anew; return the payer's statement and the head."""
    own = ledger_of(folder)
    apart = ledger.origin != own.origin
    metrics = json.loads((folder / METRICS).read_text(encoding="utf-8"))
    learned = learned_by(config, found.classes or None, metrics)
    learned = replace(learned, measures=(*learned.measures, *evaluation_measures(found)))
    part, new = evaluation_section(found), {EVALUATION: found.to_json().encode("utf-8")}
    said = ledger.statement()
    if apart:
        where = str(Path(ledger.path).resolve())
        write_atomically(folder / EVALUATION_PAYER, f"{where}\n".encode())
        page = render_report(
            ledger, statement=said, title="Private evaluation", learned=learned, sections=[part]
        )
        new[EVALUATION_PAGE] = page.encode("utf-8")
    part = replace(part, paragraphs=[*part.paragraphs, PAID_APART if apart else PAID_HERE])
    data = data_of(folder)
    data = replace(data, learned=learned, sections=[part, *data.sections])
    statement = seal_run(folder, own, data, new=new)
    return (said if apart else statement), str(statement.head)
