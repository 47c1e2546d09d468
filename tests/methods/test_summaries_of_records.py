"""Estimators whose records speak once: learning, budget, sensitivity end to end, secrecy."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from canary_traces import CANARY, canary_people, left_of, traces
from knn_shared import Quiet
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer
from summary_shared import (
    CROWD,
    KINDS,
    NAMES,
    blobs,
    check_features_are_ones_own,
    farthest,
    make,
    moves_of,
    tables_of,
    watching,
)

from tacit import (
    Budget,
    BudgetExceeded,
    InsecureNoise,
    Ledger,
    MomentClassifier,
    PrototypeClassifier,
    ResidualRidgeClassifier,
)
from tacit.errors import InvalidArgument, LedgerUnavailable, ShiftWarning
from tacit.features import Categorical, Numeric, PublicBins
from tacit.ledger.store import Store
from tacit.mechanisms import NoisySum, Release
from tacit.methods.summary import believed_counts
from tacit.records import PrivateRecords, PublicSpace
from tacit.students import LabelSpreadingStudent, SupervisedStudent, load_student, saved_extra

EVERY = pytest.mark.parametrize("kind", KINDS, ids=NAMES)
OUTSIDE = blobs(150, seed=1)[0]
X, Y = blobs(600)
X_NEW, Y_NEW = blobs(400, seed=2)


class TestLearning:
    @EVERY
    def test_student_learns_within_the_budget(self, kind):
        model = make(kind).fit(X, Y, X_public=OUTSIDE)
        assert model.score(X_NEW, Y_NEW) > 0.93
        assert 1.99 < model.ledger_.spent() <= 2.0
        assert model.predict_proba(X_NEW).sum(axis=1) == pytest.approx(1.0)

    @EVERY
    def test_labels_may_be_words(self, kind):
        words = np.array(["ant", "bee", "cat"])
        model = make(kind, classes=words).fit(X, words[Y], X_public=OUTSIDE)
        assert model.score(X_NEW, words[Y_NEW]) > 0.93

    @EVERY
    def test_people_speak_as_one(self, kind):
        people = [f"person {row // 3}" for row in range(600)]
        model = make(kind, epsilon=4.0).fit(X, Y, X_public=OUTSIDE, groups=people)
        assert model.ledger_.unit == "person"
        assert "person" in str(model.statement_)
        assert model.score(X_NEW, Y_NEW) > 0.85

    @EVERY
    def test_any_student(self, kind):
        student = SupervisedStudent(LogisticRegression())
        model = make(kind, student=student).fit(X, Y, X_public=OUTSIDE)
        assert isinstance(model.student_, SupervisedStudent)
        assert model.score(X_NEW, Y_NEW) > 0.93

    @EVERY
    def test_features_serve_private_and_public_inputs(self, kind):
        features = FunctionTransformer(lambda rows: np.asarray(rows) / 3.0 - 1.0)
        model = make(kind, features=features).fit(X, Y, X_public=OUTSIDE)
        assert model.score(X_NEW, Y_NEW) > 0.9

    @EVERY
    def test_noise_is_not_seeded_by_random_state(self, kind):
        one, two = (make(kind, noise=None).fit(X, Y, X_public=OUTSIDE) for _ in range(2))
        assert not np.array_equal(tables_of(one)[-1], tables_of(two)[-1])
        assert all(release.secure for release in getattr(one, "releases_", []))

    def test_moments_of_a_table_with_public_bins(self):
        random = np.random.default_rng(0)
        table = np.column_stack([random.uniform(0, 80, 3000), random.integers(2, size=3000)])
        y = (table[:, 0] + 30 * table[:, 1] + random.normal(scale=10, size=3000) > 50).astype(int)
        columns = [Numeric("age", range(10, 80, 10)), Categorical("sex", ["F", "M"])]
        features = PublicBins(columns, unit_norm=True)
        for rounds in (1, 2):
            model = make(MomentClassifier, classes=(0, 1), features=features, rounds=rounds)
            model.fit(table[:2000], y[:2000], X_public=table[2000:2500])
            assert model.score(table[2500:], y[2500:]) > 0.8
            assert len(model.releases_) == rounds + 1

    def test_moments_tell_that_public_inputs_lie_elsewhere(self):
        moved = OUTSIDE + np.ptp(OUTSIDE, axis=0)
        with pytest.warns(ShiftWarning, match="do not resemble"):
            model = make(MomentClassifier).fit(X, Y, X_public=moved)
        assert "do not resemble" in " ".join(model._notes())
        near = make(MomentClassifier).fit(X, Y, X_public=OUTSIDE)
        assert not near.shift_.is_told
        assert model.shift_.z > 4 > near.shift_.z

    def test_ridge_can_teach_a_graph(self):
        model = make(ResidualRidgeClassifier, student=LabelSpreadingStudent())
        assert model.fit(X, Y, X_public=OUTSIDE).score(X_NEW, Y_NEW) > 0.93


class TestSensitivity:
    """End to end: one unit more or less moves each released sum by at most 1."""

    @pytest.fixture(autouse=True)
    def _release_second_moments(self, second_moments):
        pass

    @staticmethod
    def moves(kind, rows, labels, gone, people=None, **settings):
        # A budget of which 100 records have two rounds.
        model = make(kind, noise=Quiet(), allow_large_delta=True, **{"epsilon": 30.0} | settings)
        with watching(moves_of(gone)) as moved:
            model.fit(rows, labels, X_public=OUTSIDE, groups=people)
        assert len(moved) == len(tables_of(model))
        return moved

    @EVERY
    @pytest.mark.parametrize("gone", [0, 17, 99])
    def test_one_record(self, kind, gone):
        moved = self.moves(kind, X[:100], Y[:100], np.arange(100) == gone)
        assert 0.99 < moved[0] <= 1
        assert min(moved[:4]) > 0  # the fifth compares solutions, of which all may be right
        assert max(moved) <= 1

    @EVERY
    @pytest.mark.parametrize("gone", [0, 99])
    def test_the_first_release_of_another_fit_moves_as_little(self, kind, gone):
        """What one record changes around the contributions, it changes in no release."""
        kept = np.arange(100) != gone
        first, second = (
            tables_of(make(kind, noise=Quiet()).fit(X[some], Y[some], X_public=OUTSIDE))[0]
            for some in (np.arange(100), np.flatnonzero(kept))
        )
        assert 0.99 < np.linalg.norm(first - second) <= 1

    @EVERY
    def test_one_person_with_half_of_the_records(self, kind):
        mine = np.arange(100) < 50
        people = np.where(mine, "all mine", [f"p{row}" for row in range(100)])
        moved = self.moves(kind, X[:100], Y[:100], mine, people)
        assert 0 < min(moved) <= max(moved) <= 1

    @EVERY
    @pytest.mark.parametrize("label", [0, 1, 2])
    def test_one_person_with_thousands_of_records(self, kind, label):
        """A share of each record, rounded to the grid, does not bound a person: the clip does."""
        rows = np.vstack([X[:100], np.full((CROWD, 2), farthest(OUTSIDE))])
        mine = np.arange(len(rows)) >= 100
        labels = np.where(mine, label, np.append(Y[:100], np.zeros(CROWD, dtype=int)))
        people = [f"p{row}" for row in range(100)] + ["all mine"] * CROWD
        # Every public input a landmark: kernel features are long there.
        own = {"n_landmarks": len(OUTSIDE)} if kind is ResidualRidgeClassifier else {}
        moved = self.moves(kind, rows, labels, mine, people, **own)
        assert 0.99 < max(moved) <= 1

    @EVERY
    def test_a_wild_record_moves_no_more(self, kind):
        rows, labels = np.vstack([X[:50], [[1e15, -1e15]]]), np.append(Y[:50], 2)
        moved = self.moves(kind, rows, labels, np.arange(51) == 50)
        assert 0.99 < moved[0] <= 1
        assert max(moved) <= 1

    @EVERY
    def test_a_wild_record_changes_nobody_elses_features(self, kind):
        """Nothing is centred, scaled or binned by what private records are there."""

        def fit(rows, targets):
            make(kind, noise=Quiet()).fit(rows, targets, X_public=OUTSIDE)

        check_features_are_ones_own(fit, X, Y, label=2)

    def test_later_rounds_are_bounded_too(self):
        """Given the same earlier releases: contributions of a residual have norm at most 1."""
        for kind in (MomentClassifier, ResidualRidgeClassifier):
            alone = [moves_of(np.arange(100) == row) for row in range(20)]
            with watching(lambda *given: max(look(*given) for look in alone)) as seen:  # noqa: B023
                make(kind, epsilon=30.0).fit(X[:100], Y[:100], X_public=OUTSIDE)
            assert len(seen) == (3 if kind is MomentClassifier else 5)
            assert max(seen) <= 1
            assert min(seen[:4]) > 0  # the fifth compares solutions, of which all may be right

    def test_the_order_of_records_changes_no_bit(self):
        for kind in KINDS:
            first = make(kind, noise=Quiet()).fit(X[:90], Y[:90], X_public=OUTSIDE)
            order = np.random.default_rng(0).permutation(90)
            second = make(kind, noise=Quiet()).fit(X[:90][order], Y[:90][order], X_public=OUTSIDE)
            for one, other in zip(tables_of(first), tables_of(second), strict=True):
                np.testing.assert_array_equal(one, other)


class TestRefusals:
    @EVERY
    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"classes": None}, "classes="),
            ({"classes": (0, 1)}, "2 declared classes"),
            ({"epsilon": 0.0}, "epsilon"),
            ({"delta": 0.01}, "delta"),
            ({"radius": 0.0}, "radius"),
            ({"student": LogisticRegression()}, "student"),
        ],
    )
    def test_bad_parameters(self, kind, changes, complaint):
        with pytest.raises(InvalidArgument, match=complaint):
            make(kind, **changes).fit(X, Y, X_public=OUTSIDE)

    @pytest.mark.parametrize(
        ("kind", "changes", "complaint"),
        [
            (PrototypeClassifier, {"votes": 0}, "votes"),
            (PrototypeClassifier, {"votes": 13}, "votes"),
            (PrototypeClassifier, {"n_prototypes": 0}, "n_prototypes"),
            (PrototypeClassifier, {"n_prototypes": 151}, "n="),
            (PrototypeClassifier, {"strategy": "magic"}, "strategy"),
            (MomentClassifier, {"rounds": 3}, "rounds"),
            (MomentClassifier, {"rounds": 0}, "rounds"),
            (ResidualRidgeClassifier, {"rounds": 0}, "rounds"),
            (ResidualRidgeClassifier, {"clip": 0.0}, "clip"),
            (ResidualRidgeClassifier, {"n_landmarks": 0}, "n_landmarks"),
            (ResidualRidgeClassifier, {"width": -1.0}, "width"),
        ],
    )
    def test_own_parameters(self, kind, changes, complaint, tmp_path):
        with pytest.raises(InvalidArgument, match=complaint):
            make(kind, ledger=tmp_path / "a.ledger", **changes).fit(X, Y, X_public=OUTSIDE)
        assert not (tmp_path / "a.ledger").exists()

    @EVERY
    def test_bad_inputs(self, kind):
        for inputs in (
            {"X_public": None},
            {"X_public": OUTSIDE[:, :1]},
            {"X_public": np.full((10, 2), np.nan)},
            {"X_public": OUTSIDE, "groups": [1, 2]},
        ):
            with pytest.raises(InvalidArgument):
                make(kind).fit(X, Y, **inputs)
        with pytest.raises(ValueError, match="NaN"):
            make(kind).fit(np.full_like(X, np.nan), Y, X_public=OUTSIDE)

    @EVERY
    def test_ledger_refuses_before_private_rows_are_worked_on(self, kind, tmp_path):
        ledger = Ledger(tmp_path / "one.ledger", budget=Budget(2.0, 1e-5))
        model = make(kind, ledger=ledger).fit(X, Y, X_public=OUTSIDE)
        head, before = ledger.head, model.predict(X_NEW)

        def looked(self, *arguments):
            raise AssertionError("a private row was looked at although the budget was used up")

        again = clone(model)
        assert again.ledger is ledger
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PublicSpace, "seen", looked)
            for one in (again, model):
                with pytest.raises(BudgetExceeded):
                    one.fit(X, Y, X_public=OUTSIDE)
        assert ledger.head == head
        np.testing.assert_array_equal(model.predict(X_NEW), before)

    @EVERY
    def test_a_full_disk_releases_nothing(self, kind, monkeypatch, tmp_path):
        def full(store, draft, *asked, **options):
            raise LedgerUnavailable("The disk is full.")

        def drawn(self, draw):
            raise AssertionError("noise was drawn although no entry was written")

        monkeypatch.setattr(Store, "append", full)
        monkeypatch.setattr(InsecureNoise, "_draw", drawn)
        model = make(kind, ledger=tmp_path / "a.ledger")
        with pytest.raises(LedgerUnavailable):
            model.fit(X, Y, X_public=OUTSIDE)
        assert not hasattr(model, "student_")

    @EVERY
    def test_a_ledger_of_people_wants_groups(self, kind, tmp_path):
        ledger = Ledger(tmp_path / "one.ledger", budget=Budget(2.0, 1e-5), unit="person")
        with pytest.raises(InvalidArgument, match="groups="):
            make(kind, ledger=ledger).fit(X, Y, X_public=OUTSIDE)

    @EVERY
    def test_classes_from_data_are_confessed(self, kind):
        model = make(kind, classes="from_data").fit(X, Y, X_public=OUTSIDE)
        assert "read from the private data" in str(model.statement_)


class TestPublication:
    @EVERY
    def test_nothing_private_is_left(self, kind, tmp_path, capfd):
        rows = X.copy()
        rows[::20] = CANARY
        model = make(kind, ledger=tmp_path / "run.ledger", dataset="clouds")
        model.fit(rows, Y, X_public=OUTSIDE, groups=canary_people(600))
        assert not traces(*left_of(model, tmp_path), *capfd.readouterr())

    @EVERY
    def test_saved_student_predicts_the_same(self, kind, tmp_path):
        model = make(kind).fit(X, Y, X_public=OUTSIDE)
        model.save(tmp_path / "student.tacit")
        loaded = load_student(tmp_path / "student.tacit")
        np.testing.assert_array_equal(loaded.predict_proba(X_NEW), model.predict_proba(X_NEW))
        extra = saved_extra(tmp_path / "student.tacit")
        assert extra["classes"] == [0, 1, 2]
        assert extra["statement"]["epsilon"] == model.statement_.epsilon

    @EVERY
    def test_report_and_statement(self, kind, tmp_path):
        model = make(kind).fit(X, Y, X_public=OUTSIDE)
        page = model.report(tmp_path / "report.html")
        assert Path(tmp_path / "report.html").read_text() == page
        assert model.ledger_.head in page
        assert "that record alone" in str(model.statement_)
        assert model.statement_.epsilon == model.ledger_.spent()

    def test_report_shows_prototypes_with_their_labels(self, tmp_path):
        random = np.random.default_rng(0)
        y = random.integers(2, size=300)
        images = random.random((300, 16)) + 2 * y[:, None]
        model = PrototypeClassifier(
            n_prototypes=6, votes=1, epsilon=3.0, classes=(0, 1), noise=InsecureNoise(0)
        )
        model.fit(images, y, X_public=images[:80] + 1e-3)
        page = model.report(tmp_path / "report.html", image_shape=(4, 4))
        assert "Public prototypes" in page
        assert page.count("<svg") > model.report().count("<svg")

    def test_private_speakers_show_nothing(self):
        private = PrivateRecords(X, Y, np.array(["c4n4ry"] * 600))
        assert repr(private) == "PrivateRecords(secret)"
        with pytest.raises(TypeError, match="stay where they are"):
            pickle.dumps(private)


class TestPeople:
    def test_shares_of_a_person_add_up_to_one(self):
        people = np.array(["a", "b", "a", "a", "b", "c"])
        shares = PrivateRecords(X[:6], Y[:6], people).shares()
        assert {p: shares[people == p].sum() for p in "abc"} == pytest.approx(
            dict.fromkeys("abc", 1)
        )

    def test_counts_count_people(self):
        people = np.arange(600) // 4
        for kind in (MomentClassifier, ResidualRidgeClassifier):
            model = make(kind, noise=Quiet()).fit(X, Y, X_public=OUTSIDE, groups=people)
            assert tables_of(model)[0].sum() == pytest.approx(150, rel=1e-3)

    def test_believed_counts_are_never_zero(self):
        release = Release(NoisySum(10.0, 1, 3), values=np.array([[500.0, -20.0, 0.0]]))
        total, shares = believed_counts(release)
        assert total == 480
        assert shares.min() > 0
        assert shares.sum() == pytest.approx(1)
