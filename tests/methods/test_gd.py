"""Noisy descent on all records: no sample, exact composition, refusals, and what it learns."""

import json

import numpy as np
import pytest

from tacit import (
    Budget,
    DescentClassifier,
    DPSGDClassifier,
    InsecureNoise,
    Ledger,
    PATEClassifier,
    PrivateKNNClassifier,
    Training,
)
from tacit.errors import InvalidArgument, WeakSignal
from tacit.features import PublicWhitening
from tacit.methods.gd import METHOD
from tacit.methods.linear_steps import steps_borne
from tacit.privacy import gaussian_mu

DRAW = np.random.default_rng(3)
CENTRES = 2.5 * DRAW.normal(size=(3, 6))


def clouds(n, seed):
    draw = np.random.default_rng(seed)
    y = draw.integers(3, size=n)
    return CENTRES[y] + draw.normal(size=(n, 6)), y


X, Y = clouds(400, 0)
PUBLIC, _ = clouds(60, 1)
LATER, TRUTH = clouds(300, 2)


def model(**changes):
    given = {"epsilon": 2.0, "classes": [0, 1, 2], "n_records": 400, "noise": InsecureNoise(0)}
    return DescentClassifier(**given | changes)


@pytest.mark.parametrize("features", [None, PublicWhitening()])
def test_learns_clouds(features):
    fitted = model(features=features).fit(X, Y, PUBLIC)
    assert (fitted.predict(LATER) == TRUTH).mean() > 0.9
    assert fitted.forecast_.verdict == "fair"


@pytest.mark.parametrize("kind", [DescentClassifier, DPSGDClassifier])
def test_whitening_that_public_rows_have_taught_needs_no_public_inputs(kind):
    own = {"hidden": ()} if kind is DPSGDClassifier else {}
    white = PublicWhitening(5, standardise=True).fit(PUBLIC)
    given = {"epsilon": 2.0, "classes": [0, 1, 2], "n_records": 400, "features": white}
    fitted = kind(**given, **own, noise=InsecureNoise(0)).fit(X, Y)
    assert (fitted.predict(LATER) == TRUTH).mean() > 0.9


def test_columns_that_nobody_has_scaled_are_warned_of():
    with pytest.warns(WeakSignal, match="about 0 in the mean"):
        model().fit(X, Y)


def test_a_wild_public_row_is_warned_of():
    wild = np.concatenate([PUBLIC] * 5 + [1e4 * PUBLIC[:1]])
    with pytest.warns(WeakSignal, match="times as far from the mean"):
        model().fit(X, Y, wild)


def test_the_number_of_records_may_be_one_of_numpy():
    fitted = model(n_records=np.int64(400), features=PublicWhitening()).fit(X, Y, PUBLIC)
    assert (fitted.predict(LATER) == TRUTH).mean() > 0.9


def test_methods_that_ask_for_no_number_of_records_look_at_a_hundred_directions():
    for asked in (PATEClassifier(n_teachers=20), PrivateKNNClassifier(k=20)):
        asked.set_params(features=PublicWhitening(), epsilon=20.0, classes=[0, 1, 2])
        asked.set_params(noise=InsecureNoise(0), random_state=0, queries=30)
        assert (asked.fit(X, Y, X_public=PUBLIC).predict(LATER) == TRUTH).mean() > 0.8


def test_without_public_inputs_and_by_person():
    fitted = model(training=Training(epochs=3), n_records=200).fit(
        X[:60], Y[:60], groups=np.arange(60) // 2
    )
    assert fitted.ledger_.unit == "person"


def test_a_run_costs_what_gaussian_composition_says(tmp_path):
    """T steps with noise sqrt(T)/mu: exactly the budget, in a ledger that counts Gaussians."""
    ledger = Ledger(tmp_path / "a.ledger", budget=Budget(1.0, 1e-5), accountant="gaussian")
    model(epsilon=1.0, ledger=ledger, noise=None).fit(X, Y, PUBLIC)
    (entry,) = [each for each in ledger.entries() if each.is_paid]
    steps = steps_borne(400 * gaussian_mu(1.0, 1e-5))
    said = json.dumps(entry.plan)
    assert '"sampling_rate": 1.0' in said
    assert f'"queries": {steps}' in said
    assert ledger.spent() == pytest.approx(1.0, rel=1e-3)
    assert ledger.spent() <= 1.0


def test_the_outline_is_what_a_run_pays():
    ((_, plan),) = METHOD.outline(Budget(1.0, 1e-5), 3, 400)
    assert plan.queries == steps_borne(400 * gaussian_mu(1.0, 1e-5))
    assert plan.mu_squared() == pytest.approx(gaussian_mu(1.0, 1e-5) ** 2, rel=1e-6)


def test_steps_grow_with_the_root_of_the_strength():
    assert [steps_borne(each) for each in (1.0, 500.0, 8000.0, 1e9)] == [2, 10, 40, 200]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"n_records": None}, "n_records"),
        ({"training": Training(epochs=2.5)}, "epochs"),
        ({"training": Training(batch_size=10)}, "batch_size"),
        ({"epsilon": 0.001, "n_records": 20}, "learn something"),
        ({"features": PublicWhitening(), "n_records": "from_data"}, "n_records"),
    ],
)
def test_refuses_before_anything_is_spent(wrong, named, tmp_path):
    with pytest.raises(InvalidArgument, match=named):
        model(ledger=tmp_path / "a.ledger", **wrong).fit(X, Y, PUBLIC)
    assert not (tmp_path / "a.ledger").exists()


def test_the_forecast_is_of_the_noise_that_was_asked_for():
    with pytest.raises(InvalidArgument, match="learn something"):
        model(noise_multiplier=1000.0).fit(X, Y, PUBLIC)
    weak, usual = model(noise_multiplier=60.0), model()
    assert weak._steps_of(400) < usual._steps_of(400)
    assert weak._foreseen().verdict != usual._foreseen().verdict == "fair"
    assert model(noise_multiplier=0.1)._steps_of(400) == usual._steps_of(400)
