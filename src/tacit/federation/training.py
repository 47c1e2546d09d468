"""A run.toml as a site's way to train: which records, whose, and what each teacher is."""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path
from typing import Any

from tacit.errors import InvalidArgument
from tacit.federation.readable import example_of, readable_records
from tacit.federation.study import Study
from tacit.runs import RunConfig, make_classifier

_UNUSED = {
    "privacy": {"epsilon": 1.0, "delta": 1e-9},
    "public_source": "csv:inputs-of-the-study.csv",
}
"""What a run.toml need not say here: the site's ledger and the study say it."""
SOME_LEFT_OUT = (
    "Some records are not as run.toml declares them: no teacher has learned from those. The "
    "answers are sealed and will be sent; mend file or declaration for the next study."
)
ALL_LEFT_OUT = (
    "No record is as run.toml declares it: every teacher answers class 0. The answers are sealed "
    "and will be sent; mend file or declaration for the next study."
)


def records_of(path: Path, study: Study) -> tuple[dict[str, Any], str]:
    """Return teacher, X, y and groups for `Site.answer`, as a run.toml describes them. Secret.

    Parameters
    ----------
    path : path
        With `[data]` (all rows of source are private) and, if wanted, `[pate]` with its teacher.
    study : Study
        Whose number of classes the data must declare.

    Returns
    -------
    tuple of dict and str
        Keyword arguments of `Site.answer`, and what the steward must know of records that could
        not be used; nothing of it may leave.
    """
    config = _read(path)
    source, options = config.data.source, config.data.options
    example = example_of(source, options)
    if len(example.classes) != study.classes:
        raise InvalidArgument(
            f"Expected data that declare the {study.classes} classes of the study, in its order."
        )
    with tempfile.TemporaryDirectory() as nowhere:
        # Of a record that is nobody's: what the teacher is depends on no record.
        model: Any = make_classifier(config, example, Path(nowhere))
        teacher = model._teacher()
    if model.features is not None:
        raise InvalidArgument(
            "Expected no features in [pate]: teachers here answer the study's inputs as they are."
        )
    data, all_read = readable_records(source, options)
    told = example.take(slice(0, 0)) if data is None else data
    said = "" if all_read else SOME_LEFT_OUT if data is not None else ALL_LEFT_OUT
    return {"teacher": teacher, "X": told.X, "y": told.y, "groups": told.groups}, said


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
