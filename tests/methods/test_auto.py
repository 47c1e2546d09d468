"""The method by what is public: which one, why, and that no private row decides."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from knn_shared import blobs

from tacit import AutoClassifier, AutoRegressor, InsecureNoise
from tacit.datasets import open_table
from tacit.errors import InvalidArgument
from tacit.features import Numeric
from tacit.methods import Described
from tacit.methods.auto import choose_method

X, Y = blobs(600)
OUTSIDE, _ = blobs(150, seed=1)
X_NEW, Y_NEW = blobs(300, seed=2)
COLUMNS = tuple(Numeric(name, np.linspace(0, 10, 9)) for name in "ab")


def make(kind=AutoClassifier, **changes):
    own = {"classes": (0, 1, 2)} if kind is AutoClassifier else {"target_range": (0.0, 2.0)}
    settings = {"epsilon": 2.0, "noise": InsecureNoise(0), "random_state": 0}
    return kind(**{**settings, **own, **changes})


@pytest.mark.parametrize(
    ("changes", "method"),
    [
        ({}, "ridge"),
        ({"n_records": 600, "classes": np.arange(3)}, "prototype"),
        ({"n_records": 20_000}, "ridge"),
        ({"described": Described(columns=COLUMNS)}, "moments"),
    ],
)
def test_public_facts_choose(changes, method, tmp_path):
    model = make(ledger=tmp_path / "run.ledger", **changes).fit(X, Y, X_public=OUTSIDE)
    assert model.method_ == method
    assert model.score(X_NEW, Y_NEW) > 0.85
    assert 1.9 < model.ledger_.spent() <= 2.0
    assert (tmp_path / "run.ledger").exists()
    assert f"chosen by what is public: {method}" in model.report()


def test_other_private_rows_choose_the_same():
    first = make().fit(X, Y, X_public=OUTSIDE)
    second = make().fit(X[:90] * 0.1, 2 - Y[:90], X_public=OUTSIDE)
    assert (first.method_, first.why_) == (second.method_, second.why_)


def test_numbers():
    y = Y.astype(float)
    bent = make(AutoRegressor).fit(X, y, X_public=OUTSIDE)
    binned = make(AutoRegressor, described=Described(columns=COLUMNS)).fit(X, y, X_public=OUTSIDE)
    assert (bent.method_, binned.method_) == ("ridge", "moments")
    assert bent.score(X_NEW, Y_NEW) > 0.5
    assert bent.predict(X_NEW).max() <= 2


def test_columns_are_those_of_the_last_fit():
    rows = pa.table({"a": X[:, 0], "b": X[:, 1], "label": Y})
    model = make(described=Described(columns=COLUMNS)).fit(rows, "label", X_public=OUTSIDE)
    with pytest.raises(InvalidArgument, match="in their order: a, b"):
        model.predict(rows.select(["b", "a"]))
    model.fit(X, Y, X_public=OUTSIDE)
    assert len(model.predict(open_table(rows, target=None, numeric=["b", "a"]))) == len(X)


def test_what_cannot_be_chosen_is_refused():
    with pytest.raises(InvalidArgument, match="n_records"):
        make().fit(X, Y)
    with pytest.raises(InvalidArgument, match="classes"):
        make(classes="from_data").fit(X, Y, X_public=OUTSIDE)
    with pytest.raises(InvalidArgument, match="X_public"):
        make(AutoRegressor).fit(X, Y.astype(float))
    assert choose_method("images", 9e3, has_public=False).method == "dpsgd"


def test_images_take_ridge_where_votes_fall_behind():
    taken = [choose_method("images", n_mu, has_public=True).method for n_mu in (4e3, 9e3, None)]
    assert taken == ["prototype", "ridge", "ridge"]
