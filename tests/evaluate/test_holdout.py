"""`evaluate`: what is paid, refused, confessed and kept; each record is scored by itself."""

from __future__ import annotations

import json
from typing import ClassVar

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from tacit import Budget, InsecureNoise, Ledger
from tacit.cli import show
from tacit.cli.evaluate import _plain
from tacit.errors import BudgetExceeded, InvalidArgument
from tacit.evaluate import Evaluation, evaluate, evaluation_section, forecast
from tacit.features import PrecomputedEmbeddings
from tacit.ledger import KeptReleases
from tacit.methods import NewLedger

rng = np.random.default_rng(0)
N = 4000
X = rng.uniform(size=(N, 2))
Y = (rng.uniform(size=N) < X[:, 0]).astype(int)
PUBLIC = np.random.default_rng(1).uniform(size=(500, 2))


class Model:
    """Says that the first column is the chance."""

    classes_ = np.array([0, 1])

    def predict_proba(self, rows):
        return np.column_stack([1 - rows[:, 0], rows[:, 0]])


class Nosy(Model):
    """Remembers how many rows it was asked together: in its class, which copies share."""

    sizes: ClassVar[list[int]] = []

    def predict_proba(self, rows):
        self.sizes.append(len(rows))
        return super().predict_proba(rows)


class Three:
    classes_ = np.array(["a", "b", "c"])

    def predict_proba(self, rows):
        chances = np.column_stack([rows[:, 0], 1 - rows[:, 0], np.full(len(rows), 0.3)])
        return chances / chances.sum(1, keepdims=True)


class Line:
    bounds_ = (0.0, 2.0)

    def predict(self, rows):
        return 2 * rows[:, 0]


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "a.ledger", budget=Budget(2.0, 1e-6))


def told(ledger, model=None, y=Y, **changes):
    asked = {"epsilon": 1.0, "n_records": N, "X_public": PUBLIC, "disjoint": True, "share": 0.5}
    return evaluate(model or Model(), X, y, ledger=ledger, **{**asked, **changes})


class TestBinary:
    def test_it_pays_once_and_tells(self, ledger):
        found = told(ledger)
        assert len(ledger) == 1
        assert ledger.spent() == pytest.approx(1.0, rel=1e-3)
        # A band of 95 % fails one time in twenty: six deviations never do.
        assert found.figures()["auc"].value == pytest.approx(5 / 6, abs=0.05)
        assert found.entries == [ledger.head]
        assert found.refused() == []
        assert found.at(0.5)["recall"].value == pytest.approx(0.75, abs=0.07)

    def test_it_comes_back_from_its_file(self, ledger, tmp_path):
        found = told(ledger, noise=InsecureNoise(0))
        found.write(tmp_path / "evaluation.json")
        again = Evaluation.read(tmp_path / "evaluation.json")
        assert again.to_json() == found.to_json()
        (tmp_path / "evaluation.json").write_text('{"format": "tacit-evaluation"}')
        with pytest.raises(InvalidArgument, match="damaged"):
            Evaluation.read(tmp_path / "evaluation.json")

    def test_the_positive_class_may_be_the_first(self, ledger):
        found = told(ledger, positive=0, noise=InsecureNoise(0))
        assert found.classes == [1, 0]
        assert found.figures()["auc"].value > 0.8
        with pytest.raises(InvalidArgument, match="positive"):
            told(ledger, positive=7)

    def test_a_section_of_the_report_has_table_and_curves(self, ledger):
        section = evaluation_section(told(ledger, noise=InsecureNoise(0)))
        assert any("ROC" in row[0] for row in section.rows)
        assert len(section.figures) == 3

    def test_without_public_inputs_bins_are_even(self, ledger):
        found = told(ledger, X_public=None)
        assert np.diff(found.bins.edges).std() < 0.02
        assert found.figures()["auc"].value > 0.75


class TestEachRecordAlone:
    def test_a_model_that_rounds_by_company_is_asked_row_by_row(self, ledger):
        Nosy.sizes.clear()
        told(ledger, Nosy(), noise=InsecureNoise(0))
        assert Nosy.sizes.count(1) >= N
        assert max(Nosy.sizes) == len(PUBLIC)  # public inputs may stand together

    def test_a_record_on_which_the_model_fails_is_counted_nowhere_in_silence(self, ledger, capfd):
        class Moody(Model):
            def predict_proba(self, rows):
                if rows[0, 0] in X[:5, 0]:
                    raise RuntimeError(f"cannot read {rows}")
                return super().predict_proba(rows)

        found = told(ledger, Moody(), noise=InsecureNoise(0))
        assert found.tables["scores"].sum() == pytest.approx(N - 5, abs=150)
        assert capfd.readouterr() == ("", "")

    def test_one_more_record_moves_one_cell(self, tmp_path):
        """With the same noise, tables of neighbours differ by one count."""
        tables = []
        for number, rows in enumerate((slice(None), slice(1, None))):
            ledger = Ledger(tmp_path / f"{number}.ledger", budget=Budget(2.0, 1e-6))
            found = evaluate(
                Model(),
                X[rows],
                Y[rows],
                epsilon=1.0,
                ledger=ledger,
                n_records=N,
                disjoint=True,
                noise=InsecureNoise(0),
            )
            tables.append(found.tables["scores"])
        moved = (tables[0] - tables[1]).ravel()
        assert np.count_nonzero(moved) == 1
        assert moved.sum() == 1


class TestPeople:
    def test_everybody_counts_once(self, tmp_path):
        ledger = Ledger(tmp_path / "a.ledger", budget=Budget(2.0, 1e-6), unit="person")
        groups = np.arange(N) // 4
        found = told(ledger, groups=groups, n_records=N // 4)
        assert found.tables["scores"].sum() == pytest.approx(N / 4, abs=150)

    def test_unit_and_groups_belong_together(self, ledger):
        with pytest.raises(InvalidArgument, match="groups"):
            told(ledger, groups=np.arange(N))
        assert len(ledger) == 0


class TestOtherKinds:
    def test_several_classes_pay_for_two_tables(self, ledger):
        labels = np.where(Y == 1, "a", np.where(X[:, 1] < 0.2, "c", "b"))
        found = told(ledger, Three(), labels, share=[0.5, 0.4, 0.1])
        assert len(ledger) == 2
        assert ledger.spent() == pytest.approx(1.0, rel=1e-3)
        right = (labels == np.where(X[:, 0] > 0.5, "a", "b")).mean()
        assert found.figures()["accuracy"].value == pytest.approx(right, abs=0.05)
        assert found.confusion().shape == (3, 3)
        assert [name for name, _ in found.rows()][-1] == "recall of c"

    def test_numbers(self, ledger):
        y = 2 * X[:, 0] + np.random.default_rng(2).normal(0, 0.1, N)
        # Chosen noise: R^2 has a deviation of .028 here, and .05 would be too little now and then.
        found = told(ledger, Line(), y, share=None, noise=InsecureNoise(0))
        assert found.figures()["r_squared"].value == pytest.approx(0.97, abs=0.05)
        assert found.figures()["mean_absolute_error"].value == pytest.approx(0.08, abs=0.03)
        assert len(evaluation_section(found).figures) == 1
        with pytest.raises(InvalidArgument, match="two classes"):
            found.at(0.5)


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"n_records": 0}, "n_records"),
            ({"epsilon": 0.0}, "epsilon"),
            ({"share": 1.5}, "share"),
            ({"threshold": 2.0}, "threshold"),
            ({"ledger": "run.ledger"}, "ledger"),
            ({"n_records": 30}, "tell something"),
            ({"n_records": 10**7}, "delta"),
            ({"X_public": X[:9]}, "equals a public one"),
            ({"y": Y + 1}, "2 declared classes"),
        ],
    )
    def test_nothing_is_spent(self, ledger, changes, complaint):
        with pytest.raises(InvalidArgument, match=complaint):
            told(**{"ledger": ledger, **changes})
        assert len(ledger) == 0

    def test_another_delta_than_the_ledgers(self, ledger):
        with pytest.raises(InvalidArgument, match="delta=1e-05 to be 1e-06, at which the ledger"):
            told(ledger, delta=1e-5)
        assert told(ledger, delta=1e-6).delta == 1e-6

    def test_no_ledger_is_left_by_records_that_say_nothing(self, tmp_path, monkeypatch):
        def refusing(*_):
            raise InvalidArgument("no")

        monkeypatch.setattr("tacit.evaluate.holdout._said", refusing)
        with pytest.raises(InvalidArgument):
            told(NewLedger(tmp_path / "new.ledger"), delta=1e-6)
        assert not list(tmp_path.iterdir())

    def test_beyond_the_budget(self, ledger):
        with pytest.raises(BudgetExceeded, match="Nothing was spent"):
            told(ledger, epsilon=3.0)
        assert len(ledger) == 0

    def test_another_ledger_than_the_models_must_be_declared(self, ledger, tmp_path):
        model = Model()
        model.ledger_ = Ledger(tmp_path / "own.ledger", budget=Budget(1.0, 1e-6))
        with pytest.raises(InvalidArgument, match="disjoint"):
            told(ledger, model, disjoint=False)

    def test_too_few_positives_are_refused_from_the_declared_share_alone(self, ledger):
        """Half of the records are positive; the declared share says that few are."""
        found = told(ledger, share=0.001, noise=InsecureNoise(0))
        assert "auc" not in found.figures()
        assert "area under the ROC curve" in found.refused()

    @pytest.mark.parametrize(("kind", "says"), [(Model, "_proba"), (Three, "_proba"), (Line, "")])
    @pytest.mark.parametrize("rows", [[7], range(len(PUBLIC))])
    def test_a_model_that_cannot_score_a_public_row(self, tmp_path, monkeypatch, kind, says, rows):
        rows, asked = list(rows), getattr(kind, f"predict{says}")

        def failing(self, inputs):
            found = asked(self, inputs)
            found[rows] = np.nan
            return found

        monkeypatch.setattr(kind, f"predict{says}", failing)
        new = NewLedger(tmp_path / "new.ledger", "those kept apart")
        y = np.where(Y == 1, "a", "b") if kind is Three else Y
        said = rf"model\.predict{says}\(X_public\).* in {len(rows)} of 500, first in row {rows[0]}:"
        with pytest.raises(InvalidArgument, match=said) as refused:
            told(new, kind(), y, delta=1e-6, share=None)
        assert "\n" not in str(refused.value)
        assert not (tmp_path / "new.ledger").exists()


class TestFaults:
    @pytest.mark.parametrize("known", [True, False])
    def test_a_payer_that_nobody_can_match_is_confessed(self, known, ledger):
        model = Model()
        if known:
            model.ledger_ = ledger
        told(ledger, model, disjoint=False, noise=InsecureNoise(0))
        said = any("was not known here" in each for each in ledger.statement().warnings)
        assert said is not known

    def test_what_is_declared_or_read_is_confessed(self, ledger):
        told(ledger, n_records="from_data", noise=InsecureNoise(0))
        warnings = " ".join(ledger.statement().warnings)
        assert "nobody looked" in warnings
        assert "read from the private records" in warnings

    @pytest.mark.parametrize(("number", "delta"), [(37, 1e-6), (3137, 0.001)])
    def test_a_count_that_is_refused_is_not_quoted(self, number, delta, tmp_path):
        """Without a release, no entry of the ledger would confess it."""
        ledger = Ledger(tmp_path / "a.ledger", budget=Budget(2.0, delta))
        asked = {"epsilon": 1.0, "n_records": "from_data", "disjoint": True}
        with pytest.raises(InvalidArgument, match="the number of records") as refused:
            evaluate(Model(), X[:number], Y[:number], ledger=ledger, **asked)
        assert str(number) not in str(refused.value)
        assert len(ledger) == 0

    @pytest.mark.parametrize("where", ["features", "pipeline"])
    def test_what_is_presumed_of_an_encoder_is_said_to_its_people(self, where, ledger):
        """A ledger of their own knows nothing of what that of the model says."""
        encoder = PrecomputedEmbeddings("lite0")
        model, y = Model(), Y
        if where == "features":
            model.features = encoder
        else:
            model = make_pipeline(encoder, LogisticRegression()).fit(PUBLIC, PUBLIC[:, 0] > 0.5)
            y = Y.astype(bool)
        told(ledger, model, y, noise=InsecureNoise(0))
        assert encoder.presumed()[0] in ledger.entries()[0].faults

    def test_faults_come_from_arguments_not_rows(self, tmp_path):
        faults = []
        for number, y in enumerate((Y, 1 - Y)):
            ledger = Ledger(tmp_path / f"{number}.ledger", budget=Budget(2.0, 1e-6))
            told(ledger, y=y, share="from_data", noise=InsecureNoise(0))
            faults.append(ledger.entries()[0].faults)
        assert faults[0] == faults[1]


def test_an_open_end_is_null_for_machines(capsys):
    """Targets without any spread: R^2 has no lower end."""
    numbers = {"scale": [1.0, 1.0], "predicted": [0.3, 0.2], "centre": 0.0}
    found = Evaluation("numbers", {"sums": np.zeros(21)}, 3.0, 800, numbers=numbers)
    show.print_json(_plain(found))
    said = json.loads(capsys.readouterr().out)["figures"]["R^2"]
    assert said[1] is None


def test_a_second_start_pays_nothing(ledger, tmp_path):
    first = told(ledger, kept=KeptReleases(tmp_path / "kept"))
    second = told(ledger, kept=KeptReleases(tmp_path / "kept"))
    assert len(ledger) == 1
    np.testing.assert_array_equal(first.tables["scores"], second.tables["scores"])


def test_forecast_agrees_with_what_comes_out(ledger):
    seen = forecast(N, 0.5, Budget(1.0, 1e-6), auc=5 / 6).half_widths["area under the ROC curve"]
    auc = told(ledger).figures()["auc"]
    assert seen == pytest.approx((auc.high - auc.low) / 2, rel=0.35)
    assert np.isnan(forecast(500, 0.01, Budget(0.3, 1e-6)).half_widths["area under the ROC curve"])


class Turned(Model):
    """The same, with its columns in another order than that of the labels."""

    classes_ = np.array([1, 0])

    def predict_proba(self, rows):
        return super().predict_proba(rows)[:, ::-1]


class Nameless(Turned):
    classes_ = None


class TestColumns:
    def test_each_column_is_of_the_class_that_the_model_says(self, tmp_path):
        """Otherwise a good model would look as bad as it is good."""
        asked = {"noise": InsecureNoise(0)}
        for number, (model, more) in enumerate(
            [(Turned(), {}), (Turned(), {"classes": [0, 1]}), (Nameless(), {"classes": [1, 0]})]
        ):
            ledger = Ledger(tmp_path / f"{number}.ledger", budget=Budget(2.0, 1e-6))
            assert told(ledger, model, **asked, **more).figures()["auc"].value > 0.8
        three = Three()
        three.classes_ = np.array(["c", "a", "b"])
        y = np.array(["c", "a", "b"])[three.predict_proba(X).argmax(axis=1)]
        ledger = Ledger(tmp_path / "three.ledger", budget=Budget(2.0, 1e-6))
        found = told(ledger, three, y=y, share=None, **asked)
        assert found.figures()["accuracy"].value > 0.9

    @pytest.mark.parametrize("classes", [[0, 1, 2], [0, 2]])
    def test_classes_that_are_not_the_models_are_refused(self, ledger, classes):
        with pytest.raises(InvalidArgument, match="the model's own"):
            told(ledger, classes=classes)
        assert len(ledger) == 0

    @pytest.mark.parametrize("public", [PUBLIC, None])
    def test_a_column_too_many_is_refused_before_anything_is_paid(self, ledger, public):
        class Wide(Model):
            def predict_proba(self, rows):
                return np.column_stack([super().predict_proba(rows), rows[:, 0]])

        with pytest.raises(InvalidArgument):
            told(ledger, Wide(), X_public=public)
        assert len(ledger) == 0


@pytest.mark.parametrize("changed", [{"threshold": 0.3}, {"positive": 0}])
def test_what_is_kept_is_never_read_with_other_edges(ledger, tmp_path, changed):
    """A table tells of the bins that it was counted in."""
    told(ledger, kept=KeptReleases(tmp_path / "kept"))
    with pytest.raises(InvalidArgument, match="other questions"):
        told(ledger, kept=KeptReleases(tmp_path / "kept"), **changed)
    assert len(ledger) == 1
