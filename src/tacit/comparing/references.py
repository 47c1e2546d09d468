"""References for methods: no privacy, no learning, or an estimator of the caller's own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tacit.methods import Facts, Rule, features_of

Build = Callable[[Facts, float, float, int], Any]


def _build_reference(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Learn without privacy from the same private records and features."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline

    if facts.kind == "images":
        return make_pipeline(features_of(facts), KNeighborsClassifier(5))
    return HistGradientBoostingClassifier(random_state=seed)


def _plain(place: str, seeded: bool = False, **settings: Any) -> Build:
    """Return a builder of a scikit-learn estimator that needs no metadata."""

    def build(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
        module, name = place.split(":")
        own = {"random_state": seed} if seeded else {}
        return getattr(importlib.import_module(module), name)(**settings, **own)

    return build


REFERENCES: dict[str, Rule] = {
    "non-private": Rule(
        "not private",
        _build_reference,
        "Images: 5 nearest neighbours in the same features; else gradient boosting of the inputs; "
        "scikit-learn's defaults.",
    ),
    "majority": Rule(
        "most frequent label",
        _plain("sklearn.dummy:DummyClassifier", strategy="most_frequent"),
        "Says one label always.",
    ),
}

NUMBER_REFERENCES: dict[str, Rule] = {
    "non-private": Rule(
        "not private",
        _plain("sklearn.ensemble:HistGradientBoostingRegressor", seeded=True),
        "Gradient boosting of the inputs; scikit-learn's defaults.",
    ),
    "majority": Rule(
        "mean of all targets", _plain("sklearn.dummy:DummyRegressor"), "Says one number always."
    ),
}
"""What is compared with where numbers are learned."""


def custom_methods(estimators: Mapping[str, Any] | None) -> dict[str, Rule]:
    """Return the caller's own methods: estimators, or functions that build them."""
    built = {
        name: partial(_copy, given) if hasattr(given, "fit") else given
        for name, given in (estimators or {}).items()
    }
    return {name: Rule(name, build, "As given by the caller.") for name, build in built.items()}


def _copy(estimator: Any, facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Clone it, with epsilon, delta, random_state and classes where it has them."""
    from sklearn.base import clone

    copy = clone(estimator)
    known = {"epsilon": epsilon, "delta": delta, "random_state": seed, "classes": facts.classes}
    if facts.target_range is not None:
        known["target_range"] = facts.target_range
    own = copy.get_params(deep=False)
    return copy.set_params(**{key: value for key, value in known.items() if key in own})
