"""PATE with each mechanism of votes that can teach a student: priced, stated, on its own ledger."""

from __future__ import annotations

import json

import numpy as np
import pytest
from flat_settings import built

from tacit import Ledger
from tacit._registry import MECHANISMS, found
from tacit.mechanisms import ConfidentGNMax, GNMax, LNMax, NoisyVotes
from tacit.mechanisms.votes import VoteMechanism
from tacit.methods import PATEClassifier

RNG = np.random.default_rng(0)
X, OUTSIDE = RNG.normal(size=(400, 2)) + 3, RNG.normal(size=(60, 2)) + 3
X[::2], OUTSIDE[::2] = -X[::2], -OUTSIDE[::2]
Y = (X[:, 0] > 0).astype(int)
TEACHING = {
    "gnmax": GNMax(5.0),
    "lnmax": LNMax(0.2),
    "noisy-votes": NoisyVotes(5.0),
    "confident-gnmax": ConfidentGNMax(10.0, 8.0, 5.0),
}
NOT_TEACHING = {"threshold-check", "interactive-gnmax", "shared-votes"}
"""Without labels; asks a student first; released by two aggregators."""


def test_all_mechanisms_of_votes_are_listed():
    votes = {name for name, where in MECHANISMS.items() if issubclass(found(where), VoteMechanism)}
    assert votes == TEACHING.keys() | NOT_TEACHING


@pytest.mark.parametrize("name", TEACHING)
@pytest.mark.parametrize("calibration", [0.0, 0.1])
def test_a_mechanism_that_is_given_teaches_and_is_stated(name, calibration, tmp_path):
    mechanism, path = TEACHING[name], tmp_path / "it.ledger"
    how = {"n_teachers": 60, "queries": 12, "classes": [0, 1], "delta": 1e-4, "random_state": 0}
    how |= {"epsilon": 40.0, "mechanism": mechanism, "calibration": calibration, "ledger": path}
    model = built(PATEClassifier, **how).fit(X, Y, X_public=OUTSIDE)
    assert model.score(X, Y) > 0.9
    epsilon = json.loads(model.statement_.to_json())["epsilon"]
    assert Ledger(path).accountant == ("fixed" if name == "lnmax" else "gaussian")
    assert 0 < epsilon <= 40.0
    if name == "lnmax" and not calibration:
        assert epsilon <= 12 * 2 * 0.2 * (1 + 1e-3)  # its pure price
