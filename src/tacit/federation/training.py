"""A run.toml as a site's way to train: which records, whose, and what each teacher is."""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path
from typing import Any

from tacit.datasets import load_dataset
from tacit.errors import InvalidArgument
from tacit.federation.study import Study
from tacit.runs import RunConfig, make_classifier

_UNUSED = {
    "privacy": {"epsilon": 1.0, "delta": 1e-9},
    "public_source": "csv:inputs-of-the-study.csv",
}
"""What a run.toml need not say here: the site's ledger and the study say it."""


def records_of(path: Path, study: Study) -> dict[str, Any]:
    """Return teacher, X, y and groups for `Site.answer`, as a run.toml describes them. Secret.

    Parameters
    ----------
    path : path
        With `[data]` (all rows of source are private) and, if wanted, `[pate]` with its teacher.
    study : Study
        Whose number of classes the data must declare.

    Returns
    -------
    dict
        Keyword arguments of `Site.answer`.
    """
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
    data = load_dataset(config.data.source, **config.data.options)
    if len(data.classes) != study.classes:
        raise InvalidArgument(
            f"Expected data that declare the {study.classes} classes of the study, in its order."
        )
    with tempfile.TemporaryDirectory() as nowhere:
        model: Any = make_classifier(config, data, Path(nowhere))
        teacher = model._teacher()
    if model.features is not None:
        raise InvalidArgument(
            "Expected no features in [pate]: teachers here answer the study's inputs as they are."
        )
    return {"teacher": teacher, "X": data.X, "y": data.y, "groups": data.groups}
