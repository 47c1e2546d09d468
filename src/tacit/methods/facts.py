"""What a comparison's rules rest on: public facts of a task, and the public view of its inputs.

What votes and noise have in common is `strength` = n mu: how many standard deviations of noise all
private records weigh together, mu being that of the exact Gaussian curve at (epsilon, delta).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tacit.features import Column
from tacit.privacy import gaussian_mu


@dataclass(frozen=True, slots=True)
class Facts:
    """What is publicly known of a task; the methods' settings come from this and the budget.

    kind: "images", "table" (declared columns) or "numbers".
    """

    kind: str
    n_private: int
    n_public: int
    n_features: int
    classes: tuple[Any, ...]
    image_shape: tuple[int, int] | None = None
    columns: tuple[Column, ...] | None = None

    @property
    def n_classes(self) -> int:
        """How many labels there are."""
        return len(self.classes)


def strength(facts: Facts, epsilon: float, delta: float) -> float:
    """Return n mu, the public ratio on which all rules rest."""
    return facts.n_private * float(gaussian_mu(epsilon, delta))


def features_of(facts: Facts) -> Any:
    """Return the public view by kind of data: HOG of deskewed images, public bins, or scaling."""
    if facts.kind == "images":
        from tacit.features import digit_features

        return digit_features(facts.image_shape or (28, 28))
    if facts.kind == "table":
        from tacit.features import PublicBins

        return PublicBins(facts.columns or (), unit_norm=True)
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    # Standardised by public inputs, then shortened so that a typical row has length 1.
    shorten = FunctionTransformer(_shortened, kw_args={"width": facts.n_features})
    return make_pipeline(StandardScaler(), shorten)


def _shortened(X: Any, width: int) -> Any:
    return X / math.sqrt(width)


def common(facts: Facts, epsilon: float, delta: float, seed: int) -> dict[str, Any]:
    """Return the arguments that all rules give."""
    return {
        "epsilon": epsilon,
        "delta": delta,
        "features": features_of(facts),
        "classes": facts.classes,
        "random_state": seed,
    }


def boosting_student() -> Any:
    """Return the student for tables: label spreading finds no clusters there."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    from tacit.students import SupervisedStudent

    return SupervisedStudent(
        HistGradientBoostingClassifier(max_iter=50, max_depth=3, random_state=0)
    )


CLEAR = 4.5
"""Votes over noise that a query needs: what USPS needed at the strength of MNIST at 0.1."""


def fewest_queries(facts: Facts, clear_at_one: float) -> int:
    """Return how many queries stay clear: noise grows with their root; 100 at most, 2 a class."""
    affordable = int((clear_at_one / CLEAR) ** 2)
    return min(facts.n_public, max(2 * facts.n_classes, min(100, affordable)))
