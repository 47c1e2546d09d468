"""One record, one person or one refusal changes no more than is paid for, around the mechanisms.

Each test was a way in which an estimator once claimed too little: features and ids of one unit that
changed the others', a statement older than its student, messages that quoted a cell.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from flat_settings import built
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from tacit import Budget, Ledger
from tacit.errors import BudgetExceeded, InvalidArgument
from tacit.methods import PATEClassifier, PrivateKNNClassifier
from tacit.noise import InsecureNoise


class Spy(PATEClassifier):
    def _votes(self, *arguments):
        votes = super()._votes(*arguments)
        self.__dict__["_shards"] = arguments[0]
        self.__dict__["_counted"] = votes
        return votes


def pate(X, y, Q, groups=None, **extra):
    given = {
        "n_teachers": 12,
        "epsilon": 5,
        "delta": 1e-3,
        "queries": 1,
        "strategy": [0],
        "classes": [0, 1],
        "noise": InsecureNoise(1),
        "random_state": 3,
        "allow_large_delta": True,
        "allow_overlap": True,
    }
    return built(Spy, **{**given, **extra}).fit(X, y, X_public=Q, groups=groups)


def knn(X, y, Q, groups=None, **extra):
    given = {
        "k": 20,
        "epsilon": 300,
        "delta": 1e-4,
        "queries": 3,
        "classes": [0, 1],
        "radius": 1.0,
        "allow_overlap": True,
        "noise": InsecureNoise(1),
        "random_state": 0,
    }
    return built(PrivateKNNClassifier, **{**given, **extra}).fit(X, y, X_public=Q, groups=groups)


def test_a_student_never_carries_an_older_statement(tmp_path):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(400, 3)), rng.normal(size=(120, 3))
    y = (X[:, 0] > 0).astype(int)
    folder = tmp_path
    ledger = Ledger(folder / "a", budget=Budget(2, 1e-4))
    model = built(
        PATEClassifier,
        n_teachers=20,
        epsilon=0.5,
        delta=1e-4,
        queries=10,
        classes=[0, 1],
        ledger=ledger,
        random_state=0,
    ).fit(X, y, X_public=Q)
    first = model.student_
    model.set_params(queries__rounds=2, epsilon=2.0)
    with pytest.raises(BudgetExceeded):
        model.fit(X, y, X_public=Q)
    assert model.student_ is first or model.statement_.epsilon >= ledger.spent()


def test_one_person_changes_one_teacher_however_features_round():
    V = np.random.default_rng(0).normal(size=(392, 40))
    W = np.r_[V, V]
    for seed in range(6):
        r = np.random.default_rng(seed)
        a, b = r.normal(size=(2, 15, 392))
        X = np.empty((32, 784))
        X[0:30:2], X[1:30:2] = np.c_[a, b], np.c_[b, a]
        X[30:] = 50 * r.normal(size=(2, 784))
        y, people = np.arange(32) % 2, np.r_[np.repeat(np.arange(15), 2), 100, 101]
        Q = np.r_[np.zeros((1, 784)), r.normal(size=(30, 784))]
        view = FunctionTransformer(lambda rows: rows @ W)
        counts = [
            pate(
                X[:n],
                y[:n],
                Q,
                people[:n],
                features=view,
                random_state=seed,
                teacher=KNeighborsClassifier(1, algorithm="brute"),
            )._counted
            for n in (31, 32)
        ]
        assert np.abs(counts[0] - counts[1]).sum() <= 2


def test_features_of_a_batch_reach_one_teacher_only():
    rng = np.random.default_rng(0)
    Q, X = rng.normal(size=(60, 8)), rng.normal(size=(301, 8))
    X[-1] = 1e4
    y = (X[:, 0] > 0).astype(int)
    view = FunctionTransformer(lambda rows: rows - rows.mean(0))
    counts = [pate(X[:n], y[:n], Q, features=view, n_teachers=20)._counted for n in (300, 301)]
    assert np.abs(counts[0] - counts[1]).sum() <= 2


def test_one_persons_id_does_not_move_the_ties_of_others():
    ids = list(range(1, 201))
    y, X = np.array([0 if i < 100 else 1 for i in ids]), np.zeros((200, 1))
    Q = np.linspace(-1, 1, 20)[:, None]
    without = knn(X, y, Q, ids, k=90).releases_[0].values
    with_one = knn(np.r_[X, [[1.0]]], np.r_[y, 0], Q, [*ids, "zz"], k=90).releases_[0].values
    assert np.abs(without - with_one).max() <= 1


def test_one_persons_id_does_not_move_others_between_teachers():
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(101, 3)), rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    ids = [float(i) for i in range(100)]
    before = pate(X[:-1], y[:-1], Q, ids)._shards
    after = pate(X, y, Q, [*ids, "zz"])._shards
    for teacher in range(12):
        told, now = (set(shards.records(teacher)[0][:, 0]) for shards in (before, after))
        assert now - told <= {X[-1, 0]}
        assert not told - now


def test_one_fraction_does_not_change_the_type_of_all_numbers():
    view = FunctionTransformer(
        lambda rows: np.array([[zlib.crc32(str(v).encode()) % 97 / 97 for v in r] for r in rows])
    )
    X = np.random.default_rng(0).integers(0, 30, size=(200, 1)).tolist()
    y = [row[0] % 2 for row in X]
    Q = np.arange(30.0)[:, None]
    asked = {"features": view, "queries": None, "strategy": [0, 1, 2, 3, 4]}
    a = knn(X, y, Q, **asked).releases_[0].values
    b = knn([*X, [0.5]], [*y, 0], Q, **asked).releases_[0].values
    assert np.abs(a - b).max() <= 1


def test_no_private_value_in_a_message():
    rng = np.random.default_rng(0)
    X, Q = rng.integers(0, 5, size=(200, 3)), rng.integers(0, 5, size=(50, 3))
    X[9, 2] = 4711
    encoder = {"features": OneHotEncoder(sparse_output=False)}
    knn(X, np.arange(200) % 2, Q, **encoder)  # a row that it does not know says nothing
    with pytest.raises(InvalidArgument) as caught:
        knn(X, np.where(X[:, 2] == 4711, 4711, np.arange(200) % 2), Q, **encoder)
    assert "4711" not in str(caught.value)


def test_no_private_word_in_a_message():
    X = np.random.default_rng(0).normal(size=(200, 3)).astype(object)
    X[7, 1] = "Alice Secretname"
    with pytest.raises(InvalidArgument) as caught:
        knn(X, np.arange(200) % 2, np.random.default_rng(1).normal(size=(50, 3)))
    assert "Alice" not in str(caught.value)


def test_rounds_that_cannot_all_be_paid_are_refused_at_once(tmp_path):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(400, 3)), rng.normal(size=(80, 3))
    ledger = Ledger(tmp_path / "a", budget=Budget(1, 1e-4))
    with pytest.raises(BudgetExceeded):
        built(
            PrivateKNNClassifier,
            k=20,
            rounds=2,
            epsilon=1.3,
            delta=1e-4,
            queries=10,
            classes=[0, 1],
            ledger=ledger,
        ).fit(X, (X[:, 0] > 0).astype(int), X_public=Q)
    assert len(ledger) == 0


def test_a_ledger_that_exists_is_priced_at_its_own_order(tmp_path):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(400, 3)), rng.normal(size=(80, 3))
    ledger = Ledger(tmp_path / "a", budget=Budget(2, 1e-4), accountant="rdp")
    built(
        PrivateKNNClassifier,
        k=20,
        sampling_rate=0.2,
        epsilon=1,
        delta=1e-4,
        queries=10,
        classes=[0, 1],
        ledger=ledger,
    ).fit(X, (X[:, 0] > 0).astype(int), X_public=Q)
    assert ledger.spent() <= 1.0


def test_groups_may_be_objects():
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(200, 3)), rng.normal(size=(50, 3))
    people = np.array([f"a{i}" for i in range(200)])
    models = [knn(X, (X[:, 0] > 0).astype(int), Q, who) for who in (people, people.astype(object))]
    assert [model.ledger_.unit for model in models] == ["person", "person"]
    releases = [np.asarray(model.releases_[0]) for model in models]
    np.testing.assert_array_equal(*releases)


def test_tiny_rates_are_refused_by_name():
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(200, 3)), rng.normal(size=(50, 3))
    with pytest.raises(InvalidArgument, match="sampling_rate"):
        knn(X, (X[:, 0] > 0).astype(int), Q, sampling_rate=1e-17)


def test_people_are_refused_on_a_ledger_of_records(tmp_path):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(200, 3)), rng.normal(size=(50, 3))
    ledger = Ledger(tmp_path / "a", budget=Budget(300, 1e-4), accountant="rdp", unit="record")
    with pytest.raises(InvalidArgument, match="person"):
        knn(X, np.arange(200) % 2, Q, np.arange(200), sampling_rate=0.2, ledger=ledger)
    assert len(ledger) == 0


def test_a_refit_that_the_ledger_refuses_leaves_the_old_student_as_it_was(tmp_path):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(300, 3)), rng.normal(size=(50, 3))
    y = (X[:, 0] > 0).astype(int)
    ledger = Ledger(tmp_path / "it.ledger", budget=Budget(1.0, 1e-4))
    how = {"n_teachers": 10, "queries": 8, "classes": [0, 1], "delta": 1e-4, "random_state": 0}
    model = built(PATEClassifier, **how, epsilon=0.8, ledger=ledger, allow_hopeless=True)
    model.fit(X, y, X_public=Q)
    before = model.predict(Q)
    with pytest.raises(BudgetExceeded):
        model.fit(X[:, :2], y, X_public=Q[:, :2])
    assert model.n_features_in_ == 3
    assert np.array_equal(model.predict(Q), before)
