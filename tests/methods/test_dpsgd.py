"""DP-SGD estimators: learning, price, sensitivity end to end, refusals, what is published."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from canary_traces import CANARY, canary_people, left_of, traces
from contract_shared import contract_checks
from flat_settings import built
from knn_shared import Quiet, blobs
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn

from tacit import Budget, BudgetExceeded, DPSGDAutoencoder, DPSGDClassifier, InsecureNoise, Ledger
from tacit.errors import InvalidArgument, LedgerUnavailable, WeakSignal
from tacit.ledger.store import Store
from tacit.mechanisms import NoisySteps
from tacit.methods.linear_steps import steps_borne
from tacit.methods.noisy_training import PublicFrame
from tacit.noisy_training.training import GradientSteps
from tacit.privacy import gaussian_mu
from tacit.students import NetworkStudent, load_student, saved_extra

X, Y = blobs(600)
X_NEW, Y_NEW = blobs(300, seed=2)
OUTSIDE = blobs(60, seed=1)[0]
BOTH = pytest.mark.parametrize("clipping", ["per-layer", "flat"])


def make(**changes):
    settings = {
        "hidden": (8,),
        "classes": (0, 1, 2),
        "n_records": 600,
        "batch_size": 120,
        "epochs": 8,
        "learning_rate": 2e-2,
        "epsilon": 30.0,
        "noise_multiplier": 1.0,
        "random_state": 0,
        "noise": InsecureNoise(0),
    }
    return built(DPSGDClassifier, **{**settings, **changes})


def small(**changes):
    """A run of few steps, where what is learned does not matter."""
    return make(**{"epochs": 1.0, "noise_multiplier": 2.0, **changes})


class TestLearning:
    @BOTH
    @pytest.mark.parametrize("optimizer", ["adam", "sgd"])
    def test_network_learns_within_the_budget(self, clipping, optimizer):
        rate = 2e-2 if optimizer == "adam" else 0.5
        model = make(clipping=clipping, optimizer=optimizer, learning_rate=rate)
        model.fit(X, Y, X_public=OUTSIDE)
        assert model.score(X_NEW, Y_NEW) > 0.9
        assert model.predict_proba(X_NEW).sum(axis=1) == pytest.approx(1.0)
        assert 0 < model.ledger_.spent() < 30

    def test_noise_is_chosen_to_spend_epsilon(self):
        model = small(epsilon=3.0, noise_multiplier=None).fit(X, Y)
        assert 2.99 < model.ledger_.spent() <= 3.0
        assert model.statement_.epsilon == model.ledger_.spent()
        assert len(model.ledger_) == 1

    def test_everybody_in_every_step_is_gaussian(self):
        model = small(epsilon=3.0, noise_multiplier=None, batch_size=600, epochs=4).fit(X, Y)
        assert 2.999 < model.ledger_.spent() <= 3.0
        assert model.ledger_.accountant == "gaussian"

    def test_a_regression_takes_the_steps_that_its_strength_bears(self):
        """With public inputs or without."""
        own = {"batch_size": None, "epochs": None, "learning_rate": None, "noise_multiplier": None}
        model = make(hidden=(), epsilon=2.0, **own)
        for outside in (OUTSIDE, None):
            fitted = clone(model).fit(X, Y, X_public=outside)
            (entry,) = fitted.ledger_.entries()
            assert entry.plan["queries"] == steps_borne(600 * gaussian_mu(2.0, model.delta))
            assert entry.plan["parameters"]["sampling_rate"] == pytest.approx(0.25)
            assert fitted.score(X_NEW, Y_NEW) > 0.9

    def test_a_regression_is_judged_as_descent_by_whose_rule_it_learns(self):
        weak = {"noise_multiplier": None, "hidden": (), "epsilon": 0.15}
        with pytest.warns(WeakSignal, match="n mu = "):
            model = make(**weak).fit(X, Y, X_public=OUTSIDE)
        assert model.forecast_.verdict == "doubtful"
        with pytest.raises(InvalidArgument, match="can learn something"):
            make(**{**weak, "epsilon": 0.01}).fit(X, Y, X_public=OUTSIDE)

    def test_any_module(self):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(2, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
        before = [parameter.clone() for parameter in module.parameters()]
        model = make(module=module, epochs=4, batch_size=60).fit(X, Y, X_public=OUTSIDE)
        assert model.score(X_NEW, Y_NEW) > 0.85
        assert all(torch.equal(*pair) for pair in zip(before, module.parameters(), strict=True))

    def test_labels_may_be_words(self):
        words = np.array(["ant", "bee", "cat"])
        model = make(classes=words).fit(X, words[Y], X_public=OUTSIDE)
        assert model.score(X_NEW, words[Y_NEW]) > 0.9

    def test_features_are_fitted_on_public_inputs(self):
        model = make(features=StandardScaler()).fit(X, Y, X_public=OUTSIDE)
        np.testing.assert_allclose(model.student_.features_.mean_, OUTSIDE.mean(axis=0))
        assert model.score(X_NEW, Y_NEW) > 0.9

    def test_people(self):
        people = [f"person {row // 2}" for row in range(600)]
        model = make(n_records=300, batch_size=60).fit(X, Y, X_public=OUTSIDE, groups=people)
        assert model.ledger_.unit == "person"
        assert model.score(X_NEW, Y_NEW) > 0.85

    def test_noise_and_samples_are_not_seeded(self):
        one, two = (small(noise=None).fit(X, Y) for _ in range(2))
        assert not np.array_equal(one.predict_proba(X_NEW), two.predict_proba(X_NEW))

    def test_autoencoder(self):
        model = built(DPSGDAutoencoder,
            (8, 1, 8), n_records=600, batch_size=120, epochs=20, learning_rate=2e-2, epsilon=50,
            noise_multiplier=1.0, random_state=0, noise=InsecureNoise(0),
        )  # fmt: skip
        model.fit(X, X_public=OUTSIDE)
        back = model.reconstruct(X_NEW)
        assert np.square(back - X_NEW).mean() < 0.5 * X_NEW.var(axis=0).mean()
        codes = model.transform(X_NEW)
        assert codes.shape == (300, 1)
        np.testing.assert_allclose(model.inverse_transform(codes), back, rtol=1e-12)


class Watching(Quiet):
    """Lets everybody take part, adds no noise, and keeps what each step summed up."""

    seen: list

    def poisson_mask(self, rate, size):
        return np.ones(size, dtype=bool)


@contextmanager
def watched_sums():
    """Keep what each step of a run learned from."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        original = GradientSteps.learn

        def learn(self, noisy):
            seen.append(noisy)
            original(self, noisy)

        patch.setattr(GradientSteps, "learn", learn)
        yield seen


class TestSensitivity:
    """End to end, from rows to the sum that noise is added to: one unit moves it by at most 1."""

    @staticmethod
    def first_sum(rows, labels, people=None, **settings):
        with watched_sums() as seen:
            small(noise=Watching(), allow_large_delta=True, **settings).fit(
                rows, labels, X_public=OUTSIDE, groups=people
            )
        return seen[0]

    @pytest.mark.arithmetic
    @BOTH
    @pytest.mark.parametrize("engine", ["auto", "single"])
    def test_one_record(self, clipping, engine):
        settings = {"clipping": clipping, "engine": engine, "clip": 1e-3}
        rows, labels = X[:90], Y[:90]
        kept = np.arange(90) != 41
        moved = self.first_sum(rows, labels, **settings) - self.first_sum(
            rows[kept], labels[kept], **settings
        )
        assert 0.99 < np.linalg.norm(moved) <= 1 + 2.0**-11

    @BOTH
    def test_a_wild_record(self, clipping):
        wild = np.vstack([X[:50], [[1e200, -1e300]], [[1e12, 1.0]]])
        labels = np.append(Y[:50], [2, 1])
        moved = self.first_sum(wild, labels, clipping=clipping) - self.first_sum(
            X[:50], Y[:50], clipping=clipping
        )
        assert np.linalg.norm(moved) <= 2 + 2.0**-11

    def test_one_person_with_half_of_the_records(self):
        people = np.where(np.arange(60) < 30, "all mine", [f"p{row}" for row in range(60)])
        kept = people != "all mine"
        moved = self.first_sum(X[:60], Y[:60], people, clip=1e-3) - self.first_sum(
            X[:60][kept], Y[:60][kept], people[kept], clip=1e-3
        )
        assert 0.99 < np.linalg.norm(moved) <= 1 + 2.0**-11

    def test_one_person_with_half_of_the_records_of_an_autoencoder(self):
        people = np.where(np.arange(40) < 20, "all mine", [f"p{row}" for row in range(40)])

        def first_sum(kept):
            with watched_sums() as seen:
                built(DPSGDAutoencoder,
                    (3, 1, 3), n_records=40, batch_size=40, epochs=1, clip=1e-3, random_state=0,
                    noise_multiplier=1.0, epsilon=50.0, delta=1e-3, noise=Watching(),
                ).fit(X[:40][kept], X_public=OUTSIDE, groups=people[kept])  # fmt: skip
            return seen[0]

        moved = first_sum(np.arange(40) >= 0) - first_sum(people != "all mine")
        assert 0.99 < np.linalg.norm(moved) <= 1 + 2.0**-11

    @pytest.mark.arithmetic
    @pytest.mark.parametrize("features", [None, StandardScaler()])
    def test_inputs_have_the_same_bits_in_any_company(self, features):
        """How many private rows there are, and what they are, changes nobody's input."""
        frame = PublicFrame.around(features, OUTSIDE, 2)
        rows = np.vstack([X, 1e3 * X, 1e12 * X, [[1e300, -1e300]]])
        alone = np.vstack([frame.inside(row[None]) for row in rows[:40]])
        expected = (OUTSIDE if features is None else features.fit_transform(OUTSIDE)).std(axis=0)
        assert frame.scale == pytest.approx(np.sqrt(np.square(expected).mean()))
        for company in (rows, rows[:40], rows[:41], X[:300], rows[:3]):
            np.testing.assert_array_equal(frame.inside(company)[:40], alone[: len(company)])

    def test_inputs_that_overflow_say_nothing(self):
        frame = PublicFrame.around(None, OUTSIDE, 2)
        assert not np.isfinite(frame.inside(np.array([[1e300, 0.0]]))).all()


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"classes": None}, "classes="),
            ({"classes": (0, 1)}, "2 declared classes"),
            ({"n_records": None}, "n_records="),
            ({"n_records": 0}, "n_records"),
            ({"epsilon": 0.0, "noise_multiplier": None}, "epsilon"),
            ({"noise_multiplier": -1.0}, "noise_multiplier"),
            ({"delta": 0.01}, "delta"),
            ({"clipping": "none"}, "clipping"),
            ({"clip": 0.0}, "clip"),
            ({"optimizer": "lbfgs"}, "optimizer"),
            ({"learning_rate": 0.0}, "learning_rate"),
            ({"epochs": 0}, "epochs"),
            ({"batch_size": 0}, "batch_size"),
            ({"hidden": (0,)}, "hidden"),
            ({"activation": "sign"}, "activation"),
            ({"engine": "magic"}, "engine"),
            ({"module": "network"}, "module"),
            ({"module": nn.Linear(3, 3)}, "rows of 2 numbers"),
            ({"module": nn.Linear(2, 4)}, "3 scores"),
            ({"module": nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 3))}, "batch normal"),
            ({"module": nn.Sequential(nn.Dropout(), nn.Linear(2, 3))}, "dropout"),
        ],
    )
    def test_bad_parameters(self, changes, complaint, tmp_path):
        with pytest.raises(InvalidArgument, match=complaint):
            small(ledger=tmp_path / "a.ledger", **changes).fit(X, Y)
        assert not (tmp_path / "a.ledger").exists()

    def test_bad_inputs(self):
        with pytest.raises(ValueError, match="NaN"):
            small().fit(np.full_like(X, np.nan), Y)
        with pytest.raises(InvalidArgument, match="features"):
            small().fit(X, Y, X_public=OUTSIDE[:, :1])
        with pytest.raises(InvalidArgument, match="groups"):
            small().fit(X, Y, groups=[1, 2])

    def test_ledger_refuses_before_private_rows_are_worked_on(self, tmp_path):
        plan_ledger = Ledger(tmp_path / "one.ledger", budget=Budget(6.0, 1e-5), accountant="rdp")
        model = small(ledger=plan_ledger, epsilon=6.0, noise_multiplier=None).fit(X, Y)
        head = plan_ledger.head

        def looked(self, rows):
            raise AssertionError("a private row was looked at although the budget was used up")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PublicFrame, "inside", looked)
            with pytest.raises(BudgetExceeded):
                clone(model).fit(X, Y)
        assert plan_ledger.head == head

    def test_too_little_noise_is_refused_before_a_ledger_is_made(self, tmp_path):
        with pytest.raises(BudgetExceeded):
            small(noise_multiplier=0.3, epsilon=1.0, ledger=tmp_path / "a.ledger").fit(X, Y)
        assert not (tmp_path / "a.ledger").exists()

    def test_a_full_disk_trains_nothing(self, monkeypatch, tmp_path):
        def full(store, draft, *asked, **options):
            raise LedgerUnavailable("The disk is full.")

        def summed(self, sample):
            raise AssertionError("private rows were summed although no entry was written")

        monkeypatch.setattr(Store, "append", full)
        monkeypatch.setattr(GradientSteps, "sums", summed)
        model = small(ledger=tmp_path / "a.ledger")
        with pytest.raises(LedgerUnavailable):
            model.fit(X, Y)
        assert not hasattr(model, "student_")

    def test_divergence_is_told_from_the_release(self, monkeypatch):
        monkeypatch.setattr(GradientSteps, "result", lambda run: np.full(run.dimension, np.inf))
        with pytest.raises(InvalidArgument, match="diverged"):
            small().fit(X, Y)


class TestPublication:
    def test_nothing_private_is_left(self, tmp_path, capfd):
        rows = X.copy()
        rows[::20] = CANARY
        model = small(ledger=tmp_path / "run.ledger", dataset="clouds")
        model.fit(rows, Y, X_public=OUTSIDE, groups=canary_people(600))
        assert not traces(*left_of(model, tmp_path), *capfd.readouterr())

    def test_saved_student_predicts_the_same(self, tmp_path):
        model = small(features=FunctionTransformer()).fit(X, Y, X_public=OUTSIDE)
        model.save(tmp_path / "student.tacit")
        loaded = load_student(tmp_path / "student.tacit")
        assert isinstance(loaded, NetworkStudent)
        np.testing.assert_array_equal(loaded.predict_proba(X_NEW), model.predict_proba(X_NEW))
        extra = saved_extra(tmp_path / "student.tacit")
        assert extra["classes"] == [0, 1, 2]
        assert extra["statement"]["epsilon"] == model.statement_.epsilon

    def test_a_module_without_a_description_cannot_be_saved(self, tmp_path):
        class Odd(nn.Linear):
            pass

        model = small(module=Odd(2, 3)).fit(X, Y)
        with pytest.raises(InvalidArgument, match="state_dict"):
            model.save(tmp_path / "student.tacit")
        assert model.predict(X_NEW).shape == (300,)

    def test_statement(self):
        text = str(small(dataset="clouds").fit(X, Y).statement_)
        assert "one record" in text
        assert "nobody learns who was sampled" in text
        assert "was read" not in text
        assert "insecure" in text.lower()

    def test_what_was_read_from_the_data_is_confessed(self):
        text = str(small(classes="from_data", n_records="from_data").fit(X, Y).statement_)
        assert "number of private units" in text
        assert "class labels was read" in text

    def test_entry_names_the_run(self):
        ledger = small().fit(X, Y).ledger_
        (entry,) = ledger.entries()
        assert entry.plan["mechanism"] == NoisySteps.name
        assert entry.plan["queries"] == 5
        assert entry.plan["parameters"] == {"noise_multiplier": 2.0, "sampling_rate": 0.2}


SETTINGS = {"epsilon": 1000.0, "n_records": "from_data", "random_state": 0, "noise": Quiet()}
# With everybody in every step and a silent noise, a fit can be repeated to the bit.
CHECKED = [
    built(DPSGDClassifier,
        hidden=(8,), classes="from_data", batch_size=10**6, epochs=80, learning_rate=5e-2,
        noise_multiplier=1.0, allow_large_delta=True, **SETTINGS,
    ),
    built(DPSGDAutoencoder,
        (2,), batch_size=10**6, epochs=3, noise_multiplier=1.0, allow_large_delta=True, **SETTINGS
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("estimator", "check"), [pair for model in CHECKED for pair in contract_checks(model)]
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_contract(estimator, check):
    check(estimator)
