"""Further students of a finished run: free, as post-processing of its releases.

Another kind of student, or other features, need public inputs and the same releases alone. Each
goes into a folder inside the run's, with its own statement, and the run's ledger notes its hash.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.base import clone

from tacit._checks import refuse
from tacit._files import alone_in, write_atomically
from tacit.errors import InvalidArgument
from tacit.ledger import KeptReleases
from tacit.methods import NewLedger
from tacit.runs.about import learned_by
from tacit.runs.config import RunConfig
from tacit.runs.ledgers import RELEASES, STUDENTS
from tacit.runs.running import RunResult, load_rows, make_classifier, measured, write_results
from tacit.runs.sealing import STATEMENT, STUDENT
from tacit.runs.verifying import refuse_broken, verify_run


def train_student(
    folder: str | Path,
    *,
    student: str,
    features: str | None = None,
    name: str | None = None,
    ledger: str | Path | None = None,
) -> RunResult:
    """Train another student from the releases of a finished run: nothing is paid for.

    Queries, votes and noise stay those of the run. Its data are read once more, for the public
    inputs; no private row is used or compared with anything.

    Parameters
    ----------
    folder : path, the run's
    student : str, its kind, as run.toml names it
    features : str, optional, its features, as run.toml names them; by default the run's
    name : str, optional
        Its folder is RUN/students/NAME; by default the kind's name.
    ledger : path, optional, of the run's ledger, if not as configured

    Returns
    -------
    RunResult, whose folder `tacit verify` and `tacit predict` take
    """
    run = Path(folder)
    refuse_broken(verify_run(run, ledger))
    config = RunConfig.of_finished(run)
    if ledger is not None and config.privacy.ledger:
        config = replace(config, privacy=replace(config.privacy, ledger=str(ledger)))
    if "student" not in config.settings:
        raise InvalidArgument(
            f"Expected a run whose student learns from releases, not method = {config.method!r}: "
            "there the network itself is what was released."
        )
    told = {"student": student, **({} if features is None else {"features": features})}
    other = replace(config, settings={**config.settings, **told})
    target = run / STUDENTS / _one_name(student if name is None else name)
    if (target / STATEMENT).exists():
        raise InvalidArgument(f"Expected {str(target)!r} to be new; choose another name.")
    rows = load_rows(config)
    model = make_classifier(config, rows.private, run)
    model.student = _student_of(other, rows.private, run)
    if ledger is not None and isinstance(model.ledger, NewLedger):
        model.ledger = replace(model.ledger, path=ledger)
    model._kept = KeptReleases(run / RELEASES, only=True)
    with alone_in(run):
        private = rows.private
        model.fit(private.X, private.labels, X_public=rows.public, groups=private.groups)
        target.mkdir(parents=True, exist_ok=True)
        write_atomically(target / "config.toml", other.to_toml().encode("utf-8"))
        model.save(target / STUDENT)
        metrics = measured(model, rows, by_share=config.data.by_share)
        learned = learned_by(other, model.classes_.tolist(), metrics)
        statement = write_results(target, model, metrics, learned)
    return RunResult(target, statement, ledger=model.ledger_, **metrics)


def _one_name(name: str) -> str:
    """Return the name of a folder; refuse a path, whose files would be noted as the run's."""
    if name in ("", ".", "..") or Path(name).name != name or not name.isprintable():
        raise refuse("name", name, "the name of one folder, such as 'logistic-2'")
    return name


def _student_of(other: RunConfig, data: Any, run: Path) -> Any:
    """Return the unfitted student of a configuration, with its features."""
    made: Any = make_classifier(other, data, run)
    student = made._default_student() if made.student is None else made.student
    if made.features is not None and getattr(student, "features", 0) is None:
        student.set_params(features=clone(made.features))
    return student
