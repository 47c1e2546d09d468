"""What methods are compared with: no privacy, no learning, or an estimator of the caller's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tacit.methods import Facts, Rule, features_of


def build_reference(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Learn without privacy from the same private records, in the same view."""
    del epsilon, delta
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline

    if facts.kind == "images":
        return make_pipeline(features_of(facts), KNeighborsClassifier(5))
    return HistGradientBoostingClassifier(random_state=seed)


def build_majority(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
    """Say the most frequent label: what can be had for nothing."""
    del facts, epsilon, delta, seed
    from sklearn.dummy import DummyClassifier

    return DummyClassifier(strategy="most_frequent")


REFERENCES: dict[str, Rule] = {
    "non-private": Rule(
        "not private",
        build_reference,
        "Images: 5 nearest neighbours in the same features; else gradient boosting of the inputs; "
        "scikit-learn's defaults.",
        private=False,
    ),
    "majority": Rule(
        "most frequent label", build_majority, "Says one label always.", private=False
    ),
}


def custom_methods(estimators: Mapping[str, Any] | None) -> dict[str, Rule]:
    """Return methods of the caller's own: estimators, or functions that build them.

    An estimator is cloned, and gets epsilon, delta, random_state and classes where it has them.
    """
    found = {}
    for name, given in (estimators or {}).items():
        is_function = not hasattr(given, "fit")
        build = given if is_function else _builder_of(given)
        found[name] = Rule(name, build, "As given by the caller.")
    return found


def _builder_of(estimator: Any) -> Callable[..., Any]:
    from sklearn.base import clone

    def build(facts: Facts, epsilon: float, delta: float, seed: int) -> Any:
        copy = clone(estimator)
        offered = {
            "epsilon": epsilon,
            "delta": delta,
            "random_state": seed,
            "classes": facts.classes,
        }
        own = copy.get_params(deep=False)
        return copy.set_params(**{key: value for key, value in offered.items() if key in own})

    return build
