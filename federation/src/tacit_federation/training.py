"""A site's training by a run.toml: records, people and teachers."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.datasets import TableStream, named_kind, open_table
from tacit.errors import InvalidArgument
from tacit.records import Labels
from tacit.runs import RunConfig, make_classifier
from tacit_federation.study import Study

_UNUSED = {
    "privacy": {"epsilon": 1.0, "delta": 1e-9},
    "public_source": "csv:inputs-of-the-study.csv",
}
"""What a run.toml need not say here: the site's ledger and the study say it."""
ALL_LEFT_OUT = (
    "No record is as run.toml declares it: every teacher answers class 0. The answers are sealed "
    "and will be sent; mend file or declaration for the next study."
)


def records_of(path: Path, study: Study) -> tuple[dict[str, Any], str]:
    """Return arguments of `Site.answer` by a run.toml, and a warning for the steward. Secret.

    All rows of `source` in `[data]` are private; `[pate]` may name the teacher. The data must
    declare the study's number of classes.
    """
    config = _read(path)
    table = _opened(config.data.source, config.data.options)
    if len(table.classes) != study.classes:
        raise InvalidArgument(
            f"Expected data that declare the {study.classes} classes of the study, in its order."
        )
    with tempfile.TemporaryDirectory() as nowhere:
        # Of declarations alone: what the teacher is depends on no record.
        model: Any = make_classifier(config, table.described(), Path(nowhere))
        teacher = model._teacher()
    if model.features is not None:
        raise InvalidArgument(
            "Expected no features in [pate]: teachers here answer the study's inputs as they are."
        )
    X, y, groups = table.load(Labels(table.classes), drop=True)
    given = {"teacher": teacher, "X": X, "y": y, "groups": groups}
    return given, "" if len(X) else ALL_LEFT_OUT


def _opened(source: str, options: Mapping[str, Any]) -> TableStream:
    """Open a site's table: an invalid record is left out, and no other one."""
    kind, _, place = named_kind(source).partition(":")
    if kind not in ("csv", "parquet"):
        raise InvalidArgument(
            "Expected a table as source in [data], csv:FILE or parquet:FILE; arrays go through "
            "Site.answer(X=..., y=...) in Python."
        )
    known = {name: value for name, value in options.items() if name != "name"}
    try:
        return open_table(place, **{**known, "unreadable": "drop"})
    except TypeError as error:
        raise InvalidArgument(f"Expected options that tables take: {error}.") from None


def _read(path: Path) -> RunConfig:
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InvalidArgument(f"Expected {str(path)!r} to be a run.toml.") from None
    raw.setdefault("privacy", _UNUSED["privacy"])
    if isinstance(raw.get("data"), dict):
        raw["data"].setdefault("public_source", _UNUSED["public_source"])
    config = RunConfig.parse(raw)
    if config.method != "pate" or config.data.private:
        raise InvalidArgument(
            "Expected method = 'pate' and a source whose rows are all private: the study brings "
            "the public inputs."
        )
    return config
