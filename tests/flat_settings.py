"""Estimators built from flat settings, named as in a table of run.toml."""

from __future__ import annotations

from typing import Any

from tacit.methods import NewLedger
from tacit.methods.settings import table_of


def built(kind: Any, *given: Any, **flat: Any) -> Any:
    """Return an unfitted estimator; parts of an argument, and terms of its ledger, stand alone."""
    keys = table_of(kind)
    arguments: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    terms = {key: flat.pop(key) for key in ("dataset", "allow_large_delta") if key in flat}
    if terms:
        arguments["ledger"] = NewLedger(flat.pop("ledger", None), **terms)
    if "low" in flat or "high" in flat:
        arguments["target_range"] = (flat.pop("low", None), flat.pop("high", None))
    if "tau" in flat or isinstance(flat.get("clip"), str):
        arguments["clip"] = (flat.pop("clip", "l2"), flat.pop("tau", 1.0))
    for name, value in flat.items():
        key = keys.get(name)
        if key is None or key.part is None:
            arguments[name] = value
        else:
            parts.setdefault(key.argument, {})[key.part] = value
    for name, settings in parts.items():
        arguments[name] = type(kind._own[name])(**settings)
    return kind(*given, **arguments)
