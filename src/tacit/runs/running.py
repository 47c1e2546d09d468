"""A run: configuration in, a directory with everything that may be kept or published out.

config.toml     the resolved configuration
run.ledger      what was spent, unless the configuration names a ledger that runs share
releases/       what was released, each with the hash of the entry that paid for it
begun-with.secret  until the run ends: keyed digests of its files
statement.json, student.tacit, metrics.json (of rows declared public), MODEL_CARD.md
report.html, report.json  for the person who signs

The directory is new or empty, or this very run's that was stopped. A set that ships is shuffled and
cut by numbers. Of a file, the hash of a row, or of its person, alone decides its side: one row more
moves no other, and the number of rows, which is secret, decides nothing. The hash ignores the seed:
a second run must not publish what the first protects.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Integers, refuse
from tacit._files import (
    held_alone,
    name_without_overwriting,
    temporary_beside,
    write_atomically,
)
from tacit._warn import warn
from tacit.datasets import (
    Dataset,
    TableStream,
    contradictions,
    deciding_names,
    load_dataset,
    load_public,
    streamed_file,
)
from tacit.errors import BudgetExceeded, InvalidArgument, LedgerError, ReleaseLost
from tacit.evaluate import RULES, confusion_shares, measure, released_shares, threshold_by
from tacit.ledger import KeptReleases, Ledger, Statement
from tacit.methods import ForecastEstimator, PrivateClassifier
from tacit.records import Overlap
from tacit.report import Learned, PageData
from tacit.runs.about import learned_by
from tacit.runs.begun_with import begun_with, files_of
from tacit.runs.config import DataConfig, RunConfig
from tacit.runs.ledgers import LEDGER, RELEASES, ledger_for, ledger_of
from tacit.runs.sealing import METRICS, STATEMENT, STUDENT, seal_run
from tacit.teachers import places_of, shard_key

_NOT_HELD_OUT = ("groups", "ignored")  # roles that a file of held-out rows need not have
_KEY = shard_key(0)
_UNNAMED = re.compile(r"\.+config\.toml\..*\.tmp")
_LEAST_SHARE = 1e-4  # of an outcome: a threshold needs one
_FEWEST = 2  # rows that a private or a public side has at least


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run; no accuracy where no rows were held out.

    Parameters
    ----------
    folder : path
    statement : Statement, for all that was released
    accuracy : float or None
        On held-out rows, declared public. Of masks, the Dice of all that is not background.
    held_out : int or None
        Number of scored rows; None where a file was split: these numbers are secret.
    ledger : Ledger
    metrics : dict, of masks, more than one number
    most_frequent : float, optional
        Accuracy of always predicting the held-out rows' most frequent label.
    notes : tuple of str, warnings from public numbers and releases, also in the report
    figures : dict
        On held-out rows: value, ends of a 95 % band and chance level, by name; of a file that was
        split without the ends, which would disclose the number of rows.
    thresholds : dict
        Of two classes, for a rare one: "prevalence" and "balanced", from public scores and
        releases.
    confusion : list of lists
        On held-out rows, the share of each pair: a row a true class, a column the likeliest one;
        empty for a file that was split.
    numbers : dict
        For numeric targets: R^2 and mean absolute error on held-out rows, and the error of always
        predicting their mean.
    """

    folder: Path
    statement: Statement
    accuracy: float | None
    held_out: int | None
    ledger: Ledger
    metrics: dict[str, Any] = field(default_factory=dict)
    most_frequent: float | None = None
    notes: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    thresholds: dict[str, float] = field(default_factory=dict)
    confusion: list[list[float]] = field(default_factory=list)
    numbers: dict[str, float] = field(default_factory=dict)


@contextlib.contextmanager
def releasing(folder: Path, config: RunConfig) -> Iterator[None]:
    """Hold a run's directory, alone, until its statement is written.

    Teachers' answers stay only where a stopped run can be resumed; the caller uses
    `forget_teachers` as soon as everything is released.
    """
    enter(folder, config.to_toml())
    with _alone_in(folder):
        try:
            with begun_with(folder, files_of(config.data), RELEASES, "teachers"):
                yield
        except (InvalidArgument, BudgetExceeded) as refused:
            if isinstance(refused, BudgetExceeded):
                forget_teachers(folder)  # an earlier start released, and was stopped
            if not any((folder / name).exists() for name in (LEDGER, RELEASES)):
                # Refused before it had a ledger, or charged one: nothing was spent.
                with contextlib.suppress(OSError):
                    (folder / "config.toml").unlink()
                    folder.rmdir()
            raise
        except ReleaseLost as lost:
            if (folder / "teachers").exists():  # it may still be asked again
                raise ReleaseLost(f"{lost} {folder / 'teachers'} is secret.") from None
            raise


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Refuse a second process in the same directory: it would pay for everything once more."""
    with held_alone(folder) as is_alone:
        if not is_alone or (folder / STATEMENT).exists():
            raise InvalidArgument(
                f"Expected {str(folder)!r} to be this run's alone: another process is at work "
                "there, or has just finished."
            )
        yield


def enter(folder: Path, settings: str) -> None:
    """Create the run's directory, or enter an empty one or the same run's that was stopped."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InvalidArgument(
            f"Expected {str(folder)!r} to be a directory for the run; there is a file of that name."
        ) from None
    if not (_claimed(folder, settings) or _stopped(folder, settings)):
        raise InvalidArgument(
            f"Expected {str(folder)!r} to be new or empty, or this very run, stopped before it "
            f"finished: a run never overwrites another's ledger.{_happened_in(folder)}"
        )


def _happened_in(folder: Path) -> str:
    """Describe a refused folder, and what to do with it."""
    if (folder / STATEMENT).exists():
        return " A run has finished there: choose another folder."
    if not (folder / "config.toml").is_file():
        return ""
    said = what_happened(folder)
    return f" {said} Run the command with the settings of {folder / 'config.toml'} again."


def what_happened(folder: Path) -> str:
    """Describe in a sentence how far a stopped run came, from its files; public."""
    try:
        kept = KeptReleases(folder / RELEASES).entries()
        entries = ledger_of(folder).entries() if kept else ()
    except (InvalidArgument, LedgerError):
        return "The run was interrupted."
    paid = [entry for entry in entries if entry.hash in kept]
    if not paid:
        began = any((folder / RELEASES).glob("*.begun"))
        return (
            "The run was interrupted while it released, or trained in noisy steps."
            if began
            else "The run was interrupted before anything was released."
        )
    last = paid[-1]
    return (
        f"That run released at {last.time[11:16]} UTC on {last.time[:10]} ({last.purpose}) and was "
        "interrupted afterwards; what it released is kept and paid for."
    )


def _claimed(folder: Path, settings: str) -> bool:
    """Put the settings into an empty directory; of two runs at the same time, one succeeds."""
    # A process that was killed right here leaves a temporary file, and nothing else.
    if any(_UNNAMED.fullmatch(path.name) is None for path in folder.iterdir()):
        return False
    target = folder / "config.toml"
    with temporary_beside(target) as temporary:
        write_atomically(temporary, settings.encode("utf-8"))
        return name_without_overwriting(temporary, target)


def _stopped(folder: Path, settings: str) -> bool:
    """Whether the same run was stopped here before it finished."""
    known = folder / "config.toml"
    if not known.is_file() or (folder / STATEMENT).exists():
        return False
    if known.read_text(encoding="utf-8") == settings:
        return True
    try:  # an earlier version may have begun it: its file has other names, and fewer of them
        return RunConfig.of_finished(folder) == RunConfig.parse(tomllib.loads(settings))
    except InvalidArgument:
        return False


def forget_teachers(folder: Path) -> None:
    """Remove the teachers' answers: they are secret, and of no use after the release."""
    shutil.rmtree(folder / "teachers", ignore_errors=True)
    if (folder / "teachers").exists():
        raise InvalidArgument(
            f"Expected {str(folder / 'teachers')!r} to be removable: it holds secret answers. "
            "Remove it before anything in the directory is published."
        )


class Split(NamedTuple):
    """Rows of a data set by their use."""

    private: Integers
    public: Integers
    held_out: Integers


def split_rows(config: RunConfig, n_rows: int) -> Split:
    """Shuffle with the seed and cut: private, public, held out."""
    private, public = int(config.data.private), int(config.data.public)
    if private + public >= n_rows:
        raise InvalidArgument(
            f"Expected private={private} and public={public} to leave rows of "
            f"{config.data.source!r} to hold out; there are too few. Lower one of them."
        )
    order = np.random.default_rng(config.seed).permutation(n_rows)
    return Split(*np.split(order, [private, private + public]))


def split_file(where: DataConfig) -> Split:
    """Split by the hash of each row as stored in the file, or of its person.

    Labels are not hashed, so that equal inputs are on one side.
    """
    place = places_of(deciding_names(where.source, where.split_rule, **where.options), _KEY)
    side = np.digitize(place, [where.private, where.private + where.public])
    split = Split(*(np.flatnonzero(side == each) for each in range(3)))
    if split.private.size < _FEWEST or (where.public and split.public.size < _FEWEST):
        raise InvalidArgument(  # without numbers: how many rows fall on a side is secret
            f"Expected private={where.private} and public={where.public} to put rows of "
            f"{where.source!r} on either side; there are too few rows for such shares."
        )
    return split


def protected_name(where: DataConfig) -> str:
    """Return the ledger's name for the records that it protects."""
    if not where.by_share:
        return where.title
    rule = ", rule 2" if where.split_rule == 2 else ""
    return f"about {100 * where.private:g} % of {where.title}, by keyed hash{rule}"


class Rows(NamedTuple):
    """Data of a run: private records, public inputs, labelled rows declared public.

    Where a file is `stream`ed, `private` has its declarations, and no row.
    """

    private: Dataset
    public: NDArray[Any] | None
    held_out: Dataset | None
    stream: TableStream | None = None

    def teach(self, model: Any) -> None:
        """Fit a model on them."""
        if self.stream is not None:
            model.fit(self.stream, X_public=self.public)
            return
        private = self.private
        model.fit(private.X, private.labels, X_public=self.public, groups=private.groups)

    def refuse_held_out(self) -> None:
        """Refuse a private row that is also a held-out one."""
        assert self.held_out is not None
        overlap = Overlap(self.held_out.X, "held-out")
        overlap.look(self.private.X)
        # What cannot be read is the fit's to refuse.
        for X in () if self.stream is None else self.stream.inputs_only(drop=True):
            overlap.look(X)
        overlap.refuse()


def load_rows(config: RunConfig, *, stream: bool = False) -> Rows:
    """Read all data of a run; a mistake shows here, before anything is made or spent.

    With `stream`, a large table of private rows is opened, and not read.
    """
    where = config.data
    where.check_split()
    where.keep_apart()
    table = None
    if stream and not where.private and config.learner.streams:
        table = streamed_file(where.source, config.executor, **where.options)
    if stream and table is None and not config.spreads_anything:
        raise refuse("executor", config.executor, "'serial', unless source is a table of its own")
    data = load_dataset(where.source, **where.options) if table is None else table.described()
    rows = _split(config, data) if where.private else _by_source(where, data)
    rows = rows._replace(stream=table)
    if rows.public is not None and data.columns is not None:
        for strange in contradictions(data.columns, rows.public):
            warn(strange)
    if rows.held_out is not None and not where.allow_overlap:
        rows.refuse_held_out()
    return rows


def _split(config: RunConfig, data: Dataset) -> Rows:
    where = config.data
    split = split_file(where) if where.by_share else split_rows(config, len(data.y))
    outside = data.X[split.public] if where.public else None
    held_out = data.take(split.held_out) if split.held_out.size else None
    return Rows(data.take(split.private), outside, held_out)


def _by_source(where: DataConfig, data: Dataset) -> Rows:
    public = load_public(where.public_source, **where.options) if where.public_source else None
    held_out = None
    if where.held_out_source:
        unowned = {key: value for key, value in where.options.items() if key not in _NOT_HELD_OUT}
        held_out = load_dataset(where.held_out_source, **unowned)
        kind = (data.X.shape[1], data.classes, data.target_range)
        if (held_out.X.shape[1], held_out.classes, held_out.target_range) != kind:
            raise InvalidArgument(
                "Expected held_out_source to have the features and classes of source."
            )
    return Rows(data, public, held_out)


def make_classifier(
    config: RunConfig, data: Dataset, folder: Path, *, again: bool = False
) -> PrivateClassifier:
    """Return the unfitted estimator that the configuration describes."""
    where, method = config.data, config.learner
    settings = config.settings
    if issubclass(method.estimator, ForecastEstimator) and isinstance(where.private, int):
        # Numbers of rows of a set that ships are declared; those of a file are nobody's to count.
        settings = {**settings, "n_records": settings["n_records"] or where.private or None}
    model: PrivateClassifier = method.build(
        settings,
        data,
        epsilon=config.privacy.epsilon,
        delta=config.privacy.delta,
        classes=data.classes,
        target_range=data.target_range,
        ledger=ledger_for(config, folder, protected_name(where)),
        allow_overlap=where.allow_overlap,
        random_state=config.seed,
        executor=config.executor,
        checkpoint=folder / "teachers",
    )
    model._kept = KeptReleases(folder / RELEASES, again=again)
    if where.by_share:  # what a ledger must confess of a file that was split depends on no row
        model._faults_of_run = (where.split_caveat,)
    return model


def run_config(config: RunConfig, folder: str | Path, *, again: bool = False) -> RunResult:
    """Carry out a run in a directory of its own.

    Parameters
    ----------
    config : RunConfig
    folder : path
        New or empty, or this very run's that was stopped: it is resumed from its stored releases
        and trained teachers. A finished one, or another configuration's, is refused.
    again : bool
        Pay once more, if the budget allows it, for a release that was paid for and lost. It stays
        spent either way.

    Returns
    -------
    RunResult
    """
    folder = Path(folder)
    method = config.learner
    if method.run is not None:
        result: RunResult = method.run(config, folder, again)
        return result
    rows = load_rows(config, stream=True)
    private, public = rows.private, rows.public
    model = make_classifier(config, private, folder, again=again)
    with releasing(folder, config):
        rows.teach(model)
        forget_teachers(folder)
        model.save(folder / STUDENT)
        tell: Any = measured_numbers if config.learns_numbers else measured
        metrics = tell(model, rows, by_share=config.data.by_share)
        shape, figures = private.image_shape, []
        if method.figures is not None and shape is not None and public is not None:
            figures = method.figures(model, public, shape)
        classes = None if config.learns_numbers else model.classes_.tolist()
        learned = learned_by(config, classes, metrics, image_shape=shape)
        notes = [*model._notes(), *([] if config.learns_numbers else _unclear(model))]
        statement = write_results(folder, model, metrics, learned, figures=figures, notes=notes)
    return RunResult(folder, statement, ledger=model.ledger_, notes=tuple(notes), **metrics)


def write_results(
    folder: Path, model: Any, metrics: dict[str, Any], learned: Learned, **shown: Any
) -> Statement:
    """Write a finished run's metrics, report, card and statement, and seal it in its ledger.

    The statement is written last: a run with a statement is finished, and never resumed.
    """
    write_atomically(folder / METRICS, json.dumps(metrics, indent=2).encode("utf-8"))
    notes = [*shown.pop("notes", ()), *model._kept.notes]
    data = PageData(learned=learned, notes=notes, **shown)
    return seal_run(folder, model.ledger_, data, warnings=model.statement_.warnings)


def measured(model: PrivateClassifier, rows: Rows, *, by_share: bool) -> dict[str, Any]:
    """Return metrics, without numbers of rows of a file that was split."""
    held_out, thresholds = rows.held_out, _thresholds(model, rows.private, rows.public)
    count = None if by_share else len(held_out or ())
    about: dict[str, Any] = {"held_out": count, "thresholds": thresholds}
    if held_out is None:
        return {"accuracy": None, "most_frequent": None, **about}
    # All digits of a fraction would tell its denominator, and so would many of the same rows.
    digits = 3 if by_share else None
    chances = model.predict_proba(held_out.X)[:, _declared_order(model, held_out)]
    found = measure(chances, held_out.y, thresholds=thresholds)
    figures = {name: figure.plain(digits) for name, figure in found.items()}
    accuracy = figures["accuracy"]
    return {
        "accuracy": accuracy["value"],
        "most_frequent": accuracy["chance"],
        "figures": figures,
        "confusion": [] if by_share else confusion_shares(chances, held_out.y).round(6).tolist(),
        **about,
    }


def _declared_order(model: PrivateClassifier, data: Dataset) -> Integers:
    """Return the index of each declared class in a model's columns."""
    return np.searchsorted(model.classes_, np.asarray(data.classes))


def _thresholds(
    model: PrivateClassifier, private: Dataset, public: NDArray[Any] | None
) -> dict[str, float]:
    """Return thresholds of the class that was declared second, from public scores and releases."""
    if public is None or len(model.classes_) != 2:
        return {}
    second = int(_declared_order(model, private)[1])
    scores = model.predict_proba(public)[:, second]
    known = released_shares(model)
    share = float(scores.mean()) if known is None else float(known[0][second])
    share = min(max(share, _LEAST_SHARE), 1 - _LEAST_SHARE)
    return {rule: threshold_by(rule, scores, share) for rule in RULES}


def _unclear(model: PrivateClassifier) -> list[str]:
    """Warn of classes of which the release does not show whether they occur at all."""
    known = released_shares(model)
    return [
        f"The released count of class {model.classes_[place]!s} is within 4 deviations of its "
        "noise from nothing: what the model says of that class may be noise."
        for place in (() if known is None else known[1])
    ]


def measured_numbers(model: Any, rows: Rows, *, by_share: bool) -> dict[str, Any]:
    """Return metrics of a regression, compared with predicting the held-out rows' mean."""
    held_out = rows.held_out
    count = None if by_share else len(held_out or ())
    metrics: dict[str, Any] = {"accuracy": None, "most_frequent": None, "held_out": count}
    if held_out is None:
        return metrics
    truth = np.clip(held_out.y, *model.bounds_)
    error = float(np.abs(model.predict(held_out.X) - truth).mean())
    mean_alone = float(np.abs(truth - truth.mean()).mean())
    found = {"r2": float(model.score(held_out.X, truth)), "mean_absolute_error": error}
    found["mean_absolute_error_of_mean"] = mean_alone
    if by_share:  # all digits of a fraction would tell its denominator
        found = {name: float(f"{value:.3g}") for name, value in found.items()}
    return metrics | {"numbers": found}
