"""A run: configuration in, a directory with everything that may be kept or published out.

config.toml     the resolved configuration
run.ledger      what was spent
statement.json  what may be said
student.tacit   the model to publish
metrics.json    accuracy on rows declared public
report.html     for the person who signs
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._files import write_atomically
from tacit.datasets import Dataset, load_dataset
from tacit.errors import InvalidArgument
from tacit.estimators.config import RunConfig
from tacit.estimators.pate import PATEClassifier
from tacit.ledger import Ledger, Statement
from tacit.report import write_report


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run left behind."""

    folder: Path
    statement: Statement
    accuracy: float
    held_out: int
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of a data set by what may be done with them."""

    private: NDArray[np.int64]
    public: NDArray[np.int64]
    held_out: NDArray[np.int64]


def run_config(config: RunConfig, folder: str | Path) -> RunResult:
    """Carry out a run in a directory of its own.

    A run that was stopped before it finished continues there, from the teachers it had trained; a
    finished one, or another configuration's, is refused. A charge that a crash left in the ledger
    stays: the ledger then refuses the second release.
    """
    folder = Path(folder)
    data = load_dataset(config.data.source)
    split = split_rows(config, len(data.y))
    _enter(folder, config.to_toml())
    model = make_classifier(config, data, folder)
    model.fit(data.X[split.private], data.y[split.private], X_public=data.X[split.public])
    shutil.rmtree(folder / "teachers", ignore_errors=True)  # finished teachers' votes are secret
    accuracy = float(model.score(data.X[split.held_out], data.y[split.held_out]))
    model.statement_.write(folder / "statement.json")
    model.save(folder / "student.tacit")
    metrics = {"accuracy": accuracy, "held_out": int(split.held_out.size)}
    write_atomically(folder / "metrics.json", json.dumps(metrics, indent=2).encode("utf-8"))
    note = f"Student: {accuracy:.1%} right on {split.held_out.size} held-out rows, declared public."
    write_report(
        folder / "report.html",
        model.ledger_,
        statement=model.statement_,
        notes=[note],
        figures=_gallery(model, data, split),
    )
    return RunResult(folder, model.statement_, accuracy, split.held_out.size, model.ledger_)


def _gallery(model: PATEClassifier, data: Dataset, split: Split) -> list[tuple[str, Any]]:
    """Show the public inputs that were asked, each with what the releases say of it."""
    if data.image_shape is None:
        return []
    from tacit.report import gallery_figure

    rows = split.public[model.queries_]
    posterior = np.concatenate(model.posteriors_)
    best = posterior.argmax(axis=1)
    captions = [
        f"{model.classes_[label]}  {chance:.0%}"
        for label, chance in zip(best, posterior.max(axis=1), strict=True)
    ]
    images = data.X[rows].reshape(-1, *data.image_shape)
    caption = (
        "The public inputs that were asked: the label that the noisy votes support, and how sure."
    )
    return [(caption, gallery_figure(images, captions))]


def split_rows(config: RunConfig, n_rows: int) -> Split:
    """Shuffle with the seed and cut: private, public, held out."""
    private, public = config.data.private, config.data.public
    if private + public >= n_rows:
        raise InvalidArgument(
            f"Expected private={private} and public={public} to leave rows to hold out: "
            f"{config.data.source!r} has {n_rows}."
        )
    order = np.random.default_rng(config.seed).permutation(n_rows)
    return Split(order[:private], order[private : private + public], order[private + public :])


def make_classifier(config: RunConfig, data: Dataset, folder: Path) -> PATEClassifier:
    """Return the unfitted estimator that the configuration describes."""
    pate = config.pate
    return PATEClassifier(
        teacher=_teacher(pate.teacher),
        student=_student(pate.student, data),
        n_teachers=pate.teachers,
        mechanism=pate.mechanism,
        epsilon=config.privacy.epsilon,
        delta=config.privacy.delta,
        queries=pate.queries,
        strategy=pate.strategy,
        rounds=pate.rounds,
        features=_features(pate.features, data),
        classes=data.classes,
        executor=config.executor,
        checkpoint=folder / "teachers",
        ledger=folder / "run.ledger",
        dataset=config.data.name or config.data.source,
        random_state=config.seed,
    )


def _features(name: str, data: Dataset) -> Any:
    if name == "none":
        return None
    from tacit.features import digit_features

    if data.image_shape is None:
        raise InvalidArgument("Expected images for features = 'digits'; use features = 'none'.")
    return digit_features(data.image_shape)


def _teacher(name: str) -> Any:
    if name == "logistic":
        return None
    from tacit.teachers import KernelRidgeTeachers

    return KernelRidgeTeachers()


def _student(name: str, data: Dataset) -> Any:
    from tacit import students

    if name == "label-spreading":
        return students.LabelSpreadingStudent()
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        return students.SupervisedStudent(LogisticRegression(max_iter=200))
    if name == "vat":
        return students.VATStudent()
    if data.image_shape is None:
        raise InvalidArgument("Expected images for student = 'cnn'.")
    return students.CNNStudent(image_shape=data.image_shape)


def _enter(folder: Path, settings: str) -> None:
    """Make the run's directory, or enter it again if the same run was stopped there."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        stopped = (folder / "config.toml").is_file() and not (folder / "statement.json").exists()
        if not stopped or (folder / "config.toml").read_text(encoding="utf-8") != settings:
            raise InvalidArgument(
                f"Expected {str(folder)!r} to be new, or this very run, stopped before it "
                "finished: a run never overwrites another's ledger."
            ) from None
    write_atomically(folder / "config.toml", settings.encode("utf-8"))
