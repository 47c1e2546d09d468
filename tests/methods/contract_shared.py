"""scikit-learn's own checks of an estimator, and the public inputs that they do not supply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.utils.estimator_checks import estimator_checks_generator

ROWS = 60


class PublicSupplied:
    """To be mixed into an estimator: public inputs near the private ones, where there are none."""

    def fit(self, X: Any, y: Any, X_public: Any = None, groups: Any = None) -> Any:
        """Fit the estimator on what the check supplies and on inputs near it."""
        if X_public is None:
            X_public = inputs_near(X)
        return super().fit(X, y, X_public=X_public, groups=groups)  # type: ignore[misc]


def inputs_near(X: Any) -> NDArray[np.float64]:
    """Rows of X moved a little; of an X that the estimator must refuse itself, just zeros."""
    try:
        array = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.zeros((1, 1))
    if array.ndim == 2 and array.size and np.isfinite(array).all():
        generator = np.random.default_rng(0)
        rows = array[generator.integers(len(array), size=ROWS)]
        return rows + generator.normal(scale=1e-3, size=rows.shape)
    return np.zeros((2, array.shape[-1] if array.ndim else 1))


def contract_checks(estimator: Any, failing: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Every check with its estimator, for parametrising; `failing` names those that must fail."""
    for checked, check in estimator_checks_generator(estimator):
        reason = (failing or {}).get(check.func.__name__)
        marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
        yield pytest.param(checked, check, marks=marks)
