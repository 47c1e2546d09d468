"""`MACClassifier` and `MACAutoencoder`: contract, price, units, thresholds, saving."""

from __future__ import annotations

import numpy as np
import pytest
from flat_settings import built
from sklearn.base import clone

from tacit.errors import BudgetExceeded, InvalidArgument
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import NoisySteps, NoisySum, Plan
from tacit.methods.mac import MACAutoencoder, MACClassifier, MACSteps
from tacit.noise import InsecureNoise
from tacit.noisy_training import PrivateExamples
from tacit.noisy_training.auxiliary_coordinates import EDGES
from tacit.students import load_student

N, WIDTH = 400, 6


def data(count=N, seed=0):
    """Three blobs in six dimensions."""
    draw = np.random.default_rng(seed)
    y = draw.integers(3, size=count)
    return np.eye(3, WIDTH)[y] * 2 + 0.3 * draw.normal(size=(count, WIDTH)), y


def few(**changes):
    """Settings of a quick run whose price is not searched for."""
    return {
        "hidden": (5,),
        "noise_multiplier": 1.0,
        "epsilon": 60.0,
        "delta": 1e-5,
        "epochs": 6,
        "batch_size": 80,
        "n_records": N,
        "z_steps": 4,
        "learning_rate": 0.02,
        "random_state": 0,
    } | changes


def classifier(**changes):
    return built(MACClassifier, **few(classes=range(3), **changes))


def autoencoder(**changes):
    return built(MACAutoencoder, **few(**changes))


@pytest.fixture(scope="module")
def fitted():
    X, y = data()
    return classifier(epochs=20, z_steps=10, noise=InsecureNoise(1)).fit(X, y)


def test_a_classifier_learns(fitted):
    X, y = data(300, seed=5)
    assert fitted.score(X, y) > 0.9
    assert np.allclose(fitted.predict_proba(X).sum(axis=1), 1)


def test_an_autoencoder_learns_and_codes():
    X, _ = data()
    settings = {"hidden": (8, 3, 8), "epochs": 40, "z_steps": 12, "noise": InsecureNoise(2)}
    model = autoencoder(noise_multiplier=0.5, epsilon=1e3, **settings).fit(X)
    fresh, _ = data(200, seed=6)
    codes = model.transform(fresh)
    assert codes.shape == (200, 3)
    assert np.allclose(model.inverse_transform(codes), model.reconstruct(fresh))
    error = np.square(model.reconstruct(fresh) - fresh).sum(axis=1).mean()
    assert error < 0.7 * np.square(fresh - fresh.mean(axis=0)).sum(axis=1).mean()


def test_one_entry_is_priced_before_the_run_and_stated(fitted):
    (entry,) = fitted.ledger_.entries()
    assert entry.plan["mechanism"] == "noisy-steps"
    assert entry.plan["queries"] == 100
    price = Plan(NoisySteps(1.0, 0.2), 100).price(1e-5)
    assert fitted.statement_.epsilon == price.epsilon
    assert fitted.statement_.accountant == price.accountant
    assert fitted.statement_.noise == "insecure-seeded"


def test_epsilon_sets_the_noise_of_run_and_histogram_together():
    X, y = data()
    model = classifier(noise_multiplier=None, epsilon=3.0, thresholds="histogram", epochs=1).fit(
        X, y
    )
    first, second = model.ledger_.entries()
    assert first.plan["mechanism"] == "noisy-sum"
    assert second.plan["mechanism"] == "noisy-steps"
    assert 2.98 < model.statement_.epsilon <= 3.0
    assert len(model.thresholds_) == 2
    sigma = second.plan["parameters"]["noise_multiplier"]
    alone = Plan(NoisySteps(sigma, 0.2), 5).epsilon(1e-5)
    histogram = Plan(NoisySum(**first.plan["parameters"]), 1).epsilon(1e-5)
    assert alone < 3.0 < alone + histogram


class Taped(InsecureNoise):
    """Gives every count of the histogram noise that was written down before."""

    def __init__(self, tape):
        super().__init__(0)
        self.tape, self.asked = tape, []

    def rounded_gaussian_steps(self, sigma, grid, size):
        self.asked.append(size)
        if len(self.asked) > 1:
            return super().rounded_gaussian_steps(sigma, grid, size)
        return np.rint(self.tape.reshape(size) / grid).astype(np.int64)


@pytest.mark.parametrize("places", [(3, 20), (30, 11)])
def test_thresholds_come_from_the_released_histogram_and_from_nothing_else(places):
    """The tape fills bins that no record is in; of those thresholds are the edges."""
    X, y = data()
    tape = np.zeros((2, EDGES.size))
    tape[[0, 1], places] = 1e4
    noise = Taped(tape.reshape(1, -1))
    model = classifier(thresholds="histogram", epochs=0.2, noise=noise).fit(X, y)
    assert np.prod(noise.asked[0]) == 2 * EDGES.size
    assert model.thresholds_ == tuple(EDGES[list(places)])
    quiet = Taped(np.zeros((1, 2 * EDGES.size)))
    true = classifier(thresholds="histogram", epochs=0.2, noise=quiet).fit(X, y).thresholds_
    assert true not in (model.thresholds_, (EDGES[0],) * 2)


def test_a_run_beyond_the_budget_is_refused_before_anything_is_spent(tmp_path):
    X, y = data()
    ledger = Ledger(tmp_path / "l", budget=Budget(1.0, 1e-5), accountant="rdp")
    with pytest.raises(BudgetExceeded):
        classifier(ledger=ledger).fit(X, y)
    assert len(ledger) == 0
    with pytest.raises(BudgetExceeded):
        classifier(epsilon=1.0, ledger=tmp_path / "other").fit(X, y)
    assert not (tmp_path / "other").exists()


def test_an_old_ledger_pays_by_its_own_accountant(tmp_path):
    X, y = data()
    ledger = Ledger(tmp_path / "l", budget=Budget(60.0, 1e-5), accountant="rdp")
    model = classifier(ledger=ledger, epochs=1).fit(X, y)
    assert model.ledger_ is ledger
    assert len(ledger) == 1


def test_people_are_units():
    X, y = data()
    groups = np.repeat(np.arange(N // 4), 4)
    model = classifier(n_records=N // 4, batch_size=20, epochs=2).fit(X, y, groups=groups)
    assert model.statement_.unit == "person"
    with pytest.raises(InvalidArgument, match="groups="):
        classifier(epochs=1).fit(X, y, groups=groups[:-1])


def test_second_order_steps_learn():
    X, _ = data()
    settings = {"hidden": (3,), "order": 2, "clip": 1.0, "learning_rate": 1.0, "split": "equal"}
    noise = {"noise_multiplier": 0.3, "epsilon": 3e3, "noise": InsecureNoise(3)}
    before = autoencoder(**settings, **noise, epochs=0.2).fit(X)
    after = autoencoder(**settings, **noise, epochs=20).fit(X)
    errors = [np.square(model.reconstruct(X) - X).sum(axis=1).mean() for model in (before, after)]
    assert errors[1] < 0.8 * errors[0]


@pytest.mark.filterwarnings("ignore:Expected")
@pytest.mark.parametrize(("order", "hidden"), [(1, (64,)), (1, (70, 64)), (2, (8,))])
def test_defaults_learn_in_both_orders(order, hidden):
    """Nothing is set but the order: radius, rates and Z-steps follow from widths and sizes."""
    X, y = data()
    steps = MACSteps(order=order)
    model = MACClassifier(
        hidden=hidden,
        steps=steps,
        epsilon=8.0,
        n_records=N,
        classes=range(3),
        noise=InsecureNoise(7),
        random_state=0,
    ).fit(X, y)
    assert model.score(*data(300, seed=5)) > 0.9


def first_rates(count, **changes):
    """The rates with which Adam begins, by number of records and settings."""
    model = classifier(**{"learning_rate": None, "n_records": count, **changes})
    recipe, rate = model._recipe(count)
    plan = model._public_run(model._network(WIDTH, 3), recipe, rate)
    run = model._steps_of(
        model._network(WIDTH, 3), plan, (1e-3,) * 2, PrivateExamples(*data()), lambda: None
    )
    run.learn(np.zeros(run.dimension))
    return run._optimiser.rate, recipe.steps


def test_the_rate_falls_with_the_steps_and_with_the_inputs_of_a_layer():
    rates, steps = first_rates(N)
    assert steps == 30
    assert rates[0] == pytest.approx(3 / np.sqrt(steps * WIDTH))
    assert rates[-1] == pytest.approx(3 / np.sqrt(steps * 5))
    slower, more = first_rates(4 * N)
    assert slower * np.sqrt(more) == pytest.approx(rates * np.sqrt(steps))


def test_an_autoencoder_has_a_third_of_the_rate_and_learns_with_it():
    X, _ = data()
    few_steps = {"hidden": (8, 3, 8), "learning_rate": None, "z_steps": None, "epochs": 40}
    model = autoencoder(**few_steps, noise_multiplier=0.5, epsilon=1e3, noise=InsecureNoise(2))
    recipe, _ = model._recipe(N)
    assert recipe.learning_rate == pytest.approx(1 / np.sqrt(recipe.steps))
    error = np.square(model.fit(X).reconstruct(X) - X).sum(axis=1).mean()
    assert error < 0.7 * np.square(X - X.mean(axis=0)).sum(axis=1).mean()


def test_a_rate_that_is_given_is_adams_for_every_layer():
    rate, _ = first_rates(N, learning_rate=0.07)
    assert rate == pytest.approx(0.07)


def test_defaults_are_those_of_their_order_and_ask_no_record():
    first, second = (classifier(learning_rate=None, order=order) for order in (1, 2))
    assert first._settings("training").clip == 1e-3
    assert second._settings("training").clip == 1.0
    assert second._recipe(N)[0].learning_rate == 1.0
    network = classifier(z_steps=None)._network(WIDTH, 3)
    coordinates = classifier(z_steps=None)._coordinates(network, MACSteps())
    assert coordinates.steps * coordinates.rate == pytest.approx(0.18)


def test_narrow_layers_at_the_default_rate_say_what_to_set():
    X, y = data()
    with pytest.warns(UserWarning, match=r"at least 64 units.*learning_rate=, order=2"):
        classifier(hidden=(70, 5), learning_rate=None, epochs=0.2).fit(X, y)
    classifier(hidden=(64,), learning_rate=None, epochs=0.2).fit(X, y)
    autoencoder(hidden=(5,), learning_rate=None, epochs=0.2).fit(X)


def test_curvatures_below_the_noise_say_what_to_set():
    X, y = data()
    with pytest.warns(UserWarning, match=r"above the noise.*order=1"):
        classifier(order=2, noise_multiplier=5.0, epochs=0.2).fit(X, y)
    classifier(order=2, noise_multiplier=0.5, epsilon=500.0, epochs=0.2).fit(X, y)


def test_plain_descent_needs_a_rate():
    with pytest.raises(InvalidArgument, match="learning_rate= with optimizer='sgd'"):
        classifier(optimizer="sgd", learning_rate=None).fit(*data())


def test_the_seed_sets_weights_and_never_noise():
    X, y = data()
    first, second = (classifier(epochs=1).fit(X, y) for _ in range(2))
    weights = [next(model.student_.network_.parameters()) for model in (first, second)]
    assert not (weights[0] == weights[1]).all()
    same = [
        next(classifier(epochs=1, noise=InsecureNoise(4)).fit(X, y).student_.network_.parameters())
        for _ in range(2)
    ]
    assert (same[0] == same[1]).all()


def test_nothing_private_is_kept(fitted):
    X, _ = data()
    held = [value for value in vars(fitted).values() if isinstance(value, np.ndarray)]
    assert all(array.size < 10 for array in held)
    assert not any(X.shape == getattr(value, "shape", None) for value in vars(fitted).values())


@pytest.mark.parametrize("kind", ["classifier", "autoencoder"])
def test_saved_and_loaded_without_pickle(kind, tmp_path, fitted):
    X, _ = data()
    model = fitted if kind == "classifier" else autoencoder(epochs=1).fit(X)
    model.save(tmp_path / "student")
    loaded = load_student(tmp_path / "student")
    if kind == "classifier":
        assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    else:
        assert np.array_equal(loaded.predict(X), model.reconstruct(X))


@pytest.mark.parametrize("make", [classifier, autoencoder])
def test_parameters_survive_clone(make):
    model = make(thresholds="histogram", order=2)
    assert repr(clone(model)) == repr(model)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_records": None},
        {"activation": "sine"},
        {"order": 3},
        {"thresholds": "median"},
        {"z_steps": 0},
        {"z_rate": -1.0},
        {"split": "odd"},
        {"hidden": (0,)},
        {"clip": 0.0},
        {"classes": None},
        {"optimizer": "lbfgs"},
        {"order": 2, "hidden": (4000,)},
    ],
)
def test_unusable_settings_are_refused_before_a_ledger_exists(wrong, tmp_path):
    X, y = data()
    settings = {"ledger": tmp_path / "l", "classes": range(3), **wrong}
    with pytest.raises(InvalidArgument):
        built(MACClassifier, **few(**settings)).fit(X, y)
    assert not (tmp_path / "l").exists()


def test_a_size_that_was_read_is_said():
    X, y = data()
    model = classifier(n_records="from_data", epochs=1).fit(X, y)
    assert any("n_records=" in warning for warning in model.statement_.warnings)


def test_everyone_in_every_step_is_priced_as_gaussian():
    X, y = data()
    settings = {"noise_multiplier": None, "epsilon": 5.0, "batch_size": N, "epochs": 2}
    model = classifier(**settings).fit(X, y)
    assert model.statement_.accountant == "gaussian"
    assert 4.5 < model.statement_.epsilon <= 5.0


def test_a_histogram_is_part_of_the_epsilon_asked_of_a_ledger(tmp_path):
    """Not on top of it: a ledger whose budget is just that epsilon pays for both."""
    X, y = data()
    ledger = Ledger(tmp_path / "a.ledger", budget=Budget(3.0, 1e-5), accountant="rdp")
    settings = {"noise_multiplier": None, "epsilon": 3.0, "thresholds": "histogram", "epochs": 1}
    model = classifier(ledger=ledger, **settings).fit(X, y)
    assert len(model.ledger_.entries()) == 2
    assert 2.99 < model.ledger_.spent() <= 3.0
