"""A run: configuration in, a directory with everything that may be kept or published out.

config.toml     the resolved configuration
run.ledger      what was spent
statement.json  what may be said
student.tacit   the model to publish
metrics.json    accuracy on rows declared public, if there are any
report.html     for the person who signs
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._files import write_atomically
from tacit.datasets import Dataset, load_dataset, load_public
from tacit.errors import InvalidArgument
from tacit.methods import Figures, PrivateClassifier, method_named
from tacit.records import refuse_overlap
from tacit.report import write_report
from tacit.runs.config import DataConfig, RunConfig
from tacit.runs.folders import RunResult, releasing
from tacit.runs.splitting import declared_public, protected_name, split_file, split_rows

_NOT_HELD_OUT = ("groups", "ignored")
"""Roles that a file of held-out rows need not have."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What a run works on: private records, public inputs, labelled rows declared public."""

    private: Dataset
    public: NDArray[Any] | None
    held_out: Dataset | None


def run_config(config: RunConfig, folder: str | Path) -> RunResult:
    """Carry out a run in a directory of its own.

    A run that was stopped before it finished continues there, from the teachers it had trained; a
    finished one, or another configuration's, is refused. A charge that a crash left in the ledger
    stays: the ledger then refuses the second release.
    """
    folder = Path(folder)
    method = method_named(config.method)
    if method.run is not None:
        return method.run(config, folder)
    rows = load_rows(config)
    model = make_classifier(config, rows.private, folder)
    private = rows.private
    with releasing(folder, config.to_toml()):
        model.fit(private.X, private.labels, X_public=rows.public, groups=private.groups)
    model.statement_.write(folder / "statement.json")
    model.save(folder / "student.tacit")
    return _measured(config, model, rows, folder)


def _measured(config: RunConfig, model: PrivateClassifier, rows: Rows, folder: Path) -> RunResult:
    """Write the metrics and the report; no numbers of rows of a file that was split."""
    accuracy, most_frequent, notes = None, None, []
    held_out = None if config.data.by_share else 0
    if rows.held_out is not None:
        accuracy = float(model.score(rows.held_out.X, rows.held_out.labels))
        most_frequent = float(np.bincount(rows.held_out.y).max() / len(rows.held_out))
        if config.data.by_share:  # all digits of a fraction would tell its denominator
            accuracy, most_frequent = round(accuracy, 3), round(most_frequent, 3)
        else:
            held_out = len(rows.held_out)
        notes = [
            f"Student: {accuracy:.1%} right on {'the' if held_out is None else held_out} held-out "
            f"rows, declared public; their most frequent label alone would be {most_frequent:.1%} "
            "right."
        ]
    metrics = {"accuracy": accuracy, "most_frequent": most_frequent, "held_out": held_out}
    write_atomically(folder / "metrics.json", json.dumps(metrics, indent=2).encode("utf-8"))
    write_report(
        folder / "report.html",
        model.ledger_,
        statement=model.statement_,
        notes=notes,
        figures=_figures(config, model, rows),
    )
    return RunResult(
        folder,
        model.statement_,
        accuracy,
        held_out,
        model.ledger_,
        most_frequent=most_frequent,
    )


def load_rows(config: RunConfig) -> Rows:
    """Read all that a run works on; a mistake shows here, before anything is made or spent."""
    where = config.data
    where.check_split()
    where.keep_apart()
    data = load_dataset(where.source, **where.options)
    rows = _split(config, data) if where.private else _by_source(where, data)
    if rows.held_out is not None and not where.allow_overlap:
        refuse_overlap(rows.private.X, rows.held_out.X, "held-out")
    return rows


def _split(config: RunConfig, data: Dataset) -> Rows:
    where = config.data
    split = split_file(where, data) if where.by_share else split_rows(config, len(data.y))
    outside = data.X[split.public] if where.public else None
    held_out = data.take(split.held_out) if split.held_out.size else None
    return Rows(data.take(split.private), outside, held_out)


def _by_source(where: DataConfig, data: Dataset) -> Rows:
    public = load_public(where.public_source, **where.options) if where.public_source else None
    held_out = None
    if where.held_out_source:
        unowned = {key: value for key, value in where.options.items() if key not in _NOT_HELD_OUT}
        held_out = load_dataset(where.held_out_source, **unowned)
        if held_out.X.shape[1] != data.X.shape[1] or held_out.classes != data.classes:
            raise InvalidArgument(
                "Expected held_out_source to have the features and classes of source."
            )
    return Rows(data, public, held_out)


def _figures(config: RunConfig, model: PrivateClassifier, rows: Rows) -> Figures:
    shape = rows.private.image_shape
    if shape is None or rows.public is None:
        return []
    return method_named(config.method).figures(model, rows.public, shape)


def make_classifier(config: RunConfig, data: Dataset, folder: Path) -> PrivateClassifier:
    """Return the unfitted estimator that the configuration describes."""
    model: PrivateClassifier = method_named(config.method).build(
        config.settings,
        data,
        epsilon=config.privacy.epsilon,
        delta=config.privacy.delta,
        allow_large_delta=config.privacy.allow_large_delta,
        classes=data.classes,
        ledger=folder / "run.ledger",
        allow_overlap=config.data.allow_overlap,
        dataset=protected_name(config.data),
        random_state=config.seed,
        executor=config.executor,
        checkpoint=folder / "teachers",
    )
    model._faults_of_run = declared_public(config.data)
    return model
