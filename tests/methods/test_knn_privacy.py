"""What must never leave an estimator on neighbours, and what must happen before anything does."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import pprint
from pathlib import Path

import numpy as np
import pytest
from canary_traces import CANARY, canary_people, left_of, traces, traces_in_words
from knn_shared import KINDS, NAMES, OWN, PROBLEMS, Spy, blobs, make
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer

from tacit import (
    Budget,
    BudgetExceeded,
    Ledger,
    PrivateKNNClassifier,
    PrivateKNNMultiLabelClassifier,
    PrivateKNNRegressor,
)
from tacit.errors import InvalidArgument, LedgerUnavailable
from tacit.ledger.store import Store
from tacit.methods.asked_neighbours import PassingRecords, index_records
from tacit.neighbours import Neighbourhoods
from tacit.records import PrivateRecords, PublicSpace

EVERY = pytest.mark.parametrize("kind", KINDS, ids=NAMES)


def planted(kind: type) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Private rows, every tenth of which is a canary, each of a person with a telling name."""
    X, y = PROBLEMS[kind](300)
    X[::10] = CANARY
    if kind is PrivateKNNRegressor:
        y[::10] = CANARY
    return X, y, canary_people(300)


class TestNothingPrivateStays:
    def test_the_search_for_traces_finds_them(self):
        held = {"x": np.array([[CANARY, 1.0]]), "who": "c4n4ry-7"}
        assert len(traces(pickle.dumps(held), str(CANARY))) == 3

    @EVERY
    @pytest.mark.parametrize("rate", [1.0, 0.5])
    def test_after_teaching(self, kind, rate, tmp_path, capfd):
        X, y, people = planted(kind)
        model = make(kind, ledger=tmp_path / "run.ledger", dataset="clouds", sampling_rate=rate)
        model.fit(X, y, X_public=blobs(60, seed=1)[0], groups=people)
        assert not traces(*left_of(model, tmp_path), *capfd.readouterr())

    @EVERY
    def test_while_it_answers(self, kind, tmp_path, capfd):
        X, y, people = planted(kind)
        model = make(kind, ledger=tmp_path / "run.ledger", radius=12.0)
        model.fit(X, y, groups=people)
        model.answer(X[1:4])
        page = model.report(tmp_path / "report.html")
        files = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
        assert not traces(page, *files, repr(model), str(model.statement_))
        assert not traces(pprint.pformat(vars(model)), pprint.pformat(model.get_params()))
        assert not traces(*capfd.readouterr())

    @EVERY
    def test_records_that_are_held_cannot_be_pickled_or_copied(self, kind):
        X, y, _ = planted(kind)
        model = make(kind, radius=12.0).fit(X, y)
        for attempt in (pickle.dumps, copy.deepcopy, copy.copy):
            with pytest.raises(TypeError, match="stay where they are"):
                attempt(model._index)
        for attempt in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="stay where they are"):
                attempt(model)
        assert not traces(pickle.dumps(clone(model)))

    def test_what_passes_through_shows_nothing_either(self):
        X, y, _ = planted(PrivateKNNClassifier)
        private = PrivateRecords(X, y, None)
        asked = make(PrivateKNNClassifier)._asking(False, 3)
        index = index_records(private, PublicSpace.around(None, X), asked)
        passing = PassingRecords(private, PublicSpace.around(None, X), asked)
        passing.around(X[:3])
        assert not traces(repr(private), repr(index), repr(passing))
        with pytest.raises(TypeError, match="stay where they are"):
            pickle.dumps(private)

    @EVERY
    def test_another_fit_leaves_nothing_of_the_one_before(self, kind):
        X, y, people = planted(kind)
        outside = blobs(60, seed=1)[0]
        model = make(kind, radius=12.0).fit(X, y, groups=people)
        assert hasattr(model, "_index")
        model.fit(*PROBLEMS[kind](300), X_public=outside)
        assert not traces(pickle.dumps(model))
        assert not hasattr(model, "_index")
        model.fit(*PROBLEMS[kind](300))
        left = {"student_", "queries_", "releases_", "posteriors_"} & set(vars(model))
        assert not left

    @EVERY
    def test_a_refused_fit_changes_nothing(self, kind, tmp_path):
        outside = blobs(60, seed=1)[0]
        model = make(kind, ledger=Ledger(tmp_path / "a.ledger", budget=Budget(3.0, 1e-5)))
        model.fit(*PROBLEMS[kind](300), X_public=outside)
        before = model.predict(outside)
        X, y, _ = planted(kind)
        with pytest.raises(BudgetExceeded):
            model.fit(X, y, X_public=outside)
        np.testing.assert_array_equal(model.predict(outside), before)
        assert not traces(pickle.dumps(model))

    @EVERY
    def test_messages_quote_nothing_private(self, kind):
        X, y, people = planted(kind)
        outside = blobs(60, seed=1)[0]
        bad_y = np.where(np.arange(300) == 5, 77123, y.T).T
        said = []
        for attempt in (
            lambda: make(kind).fit(X, bad_y, X_public=outside),
            lambda: make(kind, delta=0.5).fit(X, y, X_public=outside),
            lambda: make(kind).fit(X, y, X_public=outside, groups=people[:-1]),
            lambda: make(kind, features=FunctionTransformer(lambda X: X[0])).fit(
                X, y, X_public=outside
            ),
            lambda: make(kind, radius=12.0).fit(X, y).predict(outside),
        ):
            try:
                attempt()
            except ValueError as error:
                said.append(str(error))
        assert len(said) >= 4  # y out of its bounds is clipped, not refused
        assert not traces_in_words(*said)


class TestLedgerFirst:
    @EVERY
    def test_refuses_before_private_rows_are_worked_on(self, kind, tmp_path, monkeypatch):
        X, y = PROBLEMS[kind](300)
        outside = blobs(60, seed=1)[0]
        ledger = Ledger(tmp_path / "one.ledger", budget=Budget(3.0, 1e-5))
        model = make(kind, ledger=ledger).fit(X, y, X_public=outside)
        head = ledger.head

        def worked_on(*arguments, **named):
            raise AssertionError("private rows were worked on although the budget was used up")

        monkeypatch.setattr(PublicSpace, "seen", worked_on)
        monkeypatch.setattr(PassingRecords, "around", worked_on)
        with pytest.raises(BudgetExceeded):
            clone(model).fit(X, y, X_public=outside)
        with pytest.raises(BudgetExceeded):
            clone(model).set_params(radius=12.0, queries=1).fit(X, y)
        assert ledger.head == head

    @EVERY
    def test_answers_end_with_the_budget(self, kind, monkeypatch):
        X, y = PROBLEMS[kind](300)
        model = make(kind, radius=12.0, queries=4).fit(X, y)
        for _ in range(4):
            model.answer(X[:1])
        assert model.ledger_.spent() <= 3.0
        head = model.ledger_.head

        def asked(*arguments, **named):
            raise AssertionError("a record was asked although the budget was used up")

        monkeypatch.setattr(Neighbourhoods, "draw", asked)
        for count in (1, 3):
            with pytest.raises(BudgetExceeded):
                model.answer(X[:count])
        assert model.ledger_.head == head

    @EVERY
    @pytest.mark.parametrize("rate", [1.0, 0.5])
    def test_no_answer_without_an_entry(self, kind, rate, monkeypatch):
        X, y = PROBLEMS[kind](300)
        ready = make(kind, radius=12.0, sampling_rate=rate).fit(X, y)
        teacher = make(kind, sampling_rate=rate)

        def full_disk(*arguments, **named):
            raise LedgerUnavailable("no entry was written")

        def asked(*arguments, **named):
            raise AssertionError("a record was asked without an entry")

        monkeypatch.setattr(Store, "append", full_disk)
        monkeypatch.setattr(Neighbourhoods, "draw", asked)
        with pytest.raises(LedgerUnavailable):
            ready.answer(X[:2])
        with pytest.raises(LedgerUnavailable):
            teacher.fit(X, y, X_public=blobs(60, seed=1)[0])
        assert not hasattr(teacher, "student_")

    @EVERY
    @pytest.mark.parametrize("rate", [1.0, 0.5])
    def test_the_entry_is_the_mechanism_that_was_used(self, kind, rate):
        X, y = PROBLEMS[kind](300)
        spy = Spy()
        model = make(kind, noise=spy, sampling_rate=rate).fit(X, y, X_public=blobs(60, seed=1)[0])
        (release,), (entry,) = model.releases_, model.ledger_.entries()
        assert release.entry == entry.hash
        assert entry.plan["parameters"] == dataclasses.asdict(release.mechanism)
        assert entry.plan["queries"] == len(release)
        sigma = release.mechanism.sigma
        if kind is PrivateKNNRegressor:  # drawn for the sum, in units of half the range
            sigma *= release.mechanism.k / ((OWN[kind]["high"] - OWN[kind]["low"]) / 2)
        assert spy.sigmas == pytest.approx([sigma])
        assert entry.noise == "insecure-seeded"

    def test_a_ledger_of_people_wants_to_know_whose_the_rows_are(self, tmp_path):
        X, y = blobs(300)
        outside = blobs(60, seed=1)[0]
        ledger = Ledger(tmp_path / "a.ledger", budget=Budget(9.0, 1e-5), unit="patient")
        model = make(PrivateKNNClassifier, ledger=ledger)
        with pytest.raises(InvalidArgument, match="'patient'"):
            model.fit(X, y, X_public=outside)
        assert len(ledger) == 0
        model.fit(X, y, X_public=outside, groups=np.arange(300))
        assert model.statement_.unit == "patient"


class TestPeople:
    """One person's records, however many, displace at most `votes_per_unit` votes."""

    @pytest.mark.parametrize("votes", [1, 3])
    @pytest.mark.parametrize("k", [5, 40])
    def test_a_thousand_records_of_one_person(self, votes, k):
        X, y = blobs(300)
        flood = np.zeros((1000, 2)) + [6.0, 0.0] + 1e-4 * blobs(1000, seed=9)[0]
        asked = np.array([[6.0, 0.0], [0.0, 0.0], [3.0, 0.0]])
        settings = {"votes_per_unit": votes, "k": k, "radius": 12.0, "noise": Spy()}
        others = np.arange(300)
        without, within = (
            make(PrivateKNNClassifier, mechanism="sampled-votes", **settings).fit(
                rows, labels, groups=people
            )
            for rows, labels, people in (
                (X, y, others),
                (
                    np.vstack([X, flood]),
                    np.concatenate([y, np.full(1000, 2)]),
                    np.concatenate([others, np.full(1000, 300)]),
                ),
            )
        )
        before, after = (_counts(model, asked) for model in (without, within))
        change = np.abs(after - before)
        assert change.max() <= votes
        assert change.sum(axis=1).max() <= 2 * votes  # as many added as displaced
        assert after[0, 2] - before[0, 2] == votes  # and near the flood the person does speak
        assert before.sum(axis=1).tolist() == [k] * 3

    @pytest.mark.parametrize("kind", [PrivateKNNRegressor, PrivateKNNMultiLabelClassifier])
    def test_numbers_and_labels_move_within_what_was_priced(self, kind):
        X, y = PROBLEMS[kind](300)
        flood = np.zeros((1000, 2)) + [6.0, 0.0] + 1e-4 * blobs(1000, seed=9)[0]
        extreme = np.full(1000, 1e9) if kind is PrivateKNNRegressor else np.ones((1000, 3), int)
        people = np.concatenate([np.arange(300), np.full(1000, 300)])
        settings = {"votes_per_unit": 2, "k": 20, "radius": 12.0, "noise": Spy()}
        without = make(kind, **settings).fit(X, y, groups=people[:300])
        within = make(kind, **settings).fit(
            np.vstack([X, flood]), np.concatenate([y, extreme]), groups=people
        )
        change = np.linalg.norm(
            np.atleast_1d(
                np.squeeze(_counts(within, [[6.0, 0.0]]) - _counts(without, [[6.0, 0.0]]))
            )
        )
        mechanism = within._mechanism
        assert 0 < change <= mechanism.sigma / mechanism.noise_multiplier + 1e-9

    def test_the_price_grows_with_the_votes(self):
        X, y = blobs(300)
        sigmas = [
            make(PrivateKNNClassifier, votes_per_unit=votes, radius=12.0)
            .fit(X, y, groups=np.arange(300))
            ._mechanism.sigma
            for votes in (1, 2, 4)
        ]
        assert sigmas == pytest.approx([sigmas[0], 2 * sigmas[0], 4 * sigmas[0]], rel=1e-3)

    def test_without_groups_a_record_is_its_own_unit(self):
        X, y = blobs(300)
        model = make(PrivateKNNClassifier, votes_per_unit=7, radius=12.0).fit(X, y)
        assert model._mechanism.votes_per_unit == 1
        assert model.ledger_.unit == "record"
        assert (
            make(PrivateKNNClassifier, radius=12.0).fit(X, y, groups=np.arange(300)).ledger_.unit
            == "person"
        )


class TestFeatures:
    @EVERY
    def test_a_batch_dependent_map_is_applied_row_by_row(self, kind):
        """With it, one far record would otherwise shift every other's features."""
        X, y = PROBLEMS[kind](300)
        far = np.vstack([X, [[1e6, -1e6]]])
        y_far = np.concatenate([y, y[:1]])
        centred = FunctionTransformer(lambda X: np.hstack([X, X - X.mean(axis=0)]))
        settings = {"features": centred, "radius": 12.0, "noise": Spy(), "k": 20}
        asked = blobs(10, seed=4)[0]
        without = make(kind, **settings).fit(X, y)
        within = make(kind, **settings).fit(far, y_far)
        np.testing.assert_array_equal(_counts(within, asked), _counts(without, asked))

    def test_a_map_with_a_memory_is_refused_and_nothing_is_spent(self, tmp_path):
        seen = []

        def remembers(X):
            seen.append(len(X))
            return X + len(seen)

        X, y = blobs(100)
        model = make(
            PrivateKNNClassifier,
            features=FunctionTransformer(remembers),
            ledger=tmp_path / "a.ledger",
        )
        with pytest.raises(InvalidArgument, match="same numbers every time"):
            model.fit(X, y, X_public=blobs(60, seed=1)[0])
        assert len(Ledger(tmp_path / "a.ledger")) == 0

    def test_features_are_fitted_on_public_inputs_only(self):
        fitted_on = []

        class Watched(FunctionTransformer):
            def fit(self, X, y=None):
                fitted_on.append(X.copy())
                return super().fit(X)

        X, y = blobs(200)
        outside = blobs(60, seed=1)[0]
        make(PrivateKNNClassifier, features=Watched()).fit(X, y, X_public=outside)
        assert fitted_on
        for inputs in fitted_on:
            np.testing.assert_array_equal(inputs, outside)

    @pytest.mark.arithmetic
    def test_second_round_sees_each_private_row_alone(self, monkeypatch):
        from tacit.students import CombinedStudent

        X, y = blobs(150)
        outside = blobs(60, seed=1)[0]
        sizes = []
        represent = CombinedStudent.represent

        def watched(self, X):
            sizes.append(len(X))
            return represent(self, X)

        monkeypatch.setattr(CombinedStudent, "represent", watched)
        make(PrivateKNNClassifier, rounds=2, queries=6).fit(X, y, X_public=outside)
        assert set(sizes) == {1, 6, 60}  # a row alone, the queries, all public inputs
        assert sizes.count(1) >= 150


def _counts(model, asked) -> np.ndarray:
    """What the mechanism would release of these inputs, without any noise."""
    mechanism, index = model._mechanism, model._index
    public = {"n_classes": 3} if isinstance(model, PrivateKNNClassifier) else {}
    release = mechanism.release(index.around(np.asarray(asked, dtype=float)), Spy(), **public)
    return np.asarray(release.values)


def test_ledger_files_are_where_they_were_asked_for(tmp_path: Path):
    X, y = blobs(100)
    make(PrivateKNNClassifier, ledger=tmp_path / "a.ledger").fit(
        X, y, X_public=blobs(60, seed=1)[0]
    )
    assert (tmp_path / "a.ledger").exists()
