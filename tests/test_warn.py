"""Warnings point at the line that called, however deep the call that gives them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from flat_settings import built

from tacit import DPSGDClassifier, MomentClassifier, PATEClassifier, PrototypeClassifier
from tacit._warn import warn

RNG = np.random.default_rng(0)
X, OUTSIDE = 100 * RNG.normal(size=(200, 3)), RNG.normal(size=(60, 3))
Y = RNG.integers(0, 2, 200)
COMMON = {"classes": [0, 1], "delta": 1e-3, "epsilon": 0.5, "random_state": 0}
KINDS = {
    PATEClassifier: {"n_teachers": 10, "queries": 5, "allow_hopeless": True},
    DPSGDClassifier: {"n_records": 200, "epochs": 1},
    MomentClassifier: {},
    PrototypeClassifier: {"n_prototypes": 5, "allow_hopeless": True},
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_fit_warns_of_is_said_where_it_is_called(kind):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        built(kind, **COMMON, **KINDS[kind]).fit(X, Y[:, None], X_public=OUTSIDE)
    assert any("column-vector" in str(one.message) for one in caught)
    assert {one.filename for one in caught} == {__file__}


def test_a_call_from_outside_is_its_own_line():
    with pytest.warns(UserWarning, match="careful") as caught:
        warn("careful")
    assert caught[0].filename == __file__
