"""Figures on rows that are public, and thresholds for a rare outcome."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    recall_score,
    roc_auc_score,
)

from tacit import InsecureNoise, MomentClassifier
from tacit.errors import InvalidArgument
from tacit.evaluate import (
    confusion_shares,
    measure,
    measure_numbers,
    released_shares,
    threshold_by,
)
from tacit.evaluate.metrics import exact_auc

rng = np.random.default_rng(0)
S = rng.normal(size=20_000)
Y = (rng.uniform(size=20_000) < 1 / (1 + np.exp(3 - 1.5 * S))).astype(int)
P = 1 / (1 + np.exp(2.5 - 1.2 * S))
CHANCES = np.column_stack([1 - P, P])


class TestMeasure:
    def test_values_are_scikit_learns(self):
        told = {name: one.band.value for name, one in measure(CHANCES, Y).items()}
        assert told["ROC AUC"] == pytest.approx(roc_auc_score(Y, P))
        assert told["average precision"] == pytest.approx(average_precision_score(Y, P))
        assert told["Brier score"] == pytest.approx(brier_score_loss(Y, P))
        assert told["balanced accuracy"] == pytest.approx(balanced_accuracy_score(Y, P > 0.5))
        assert told["recall at 0.5"] == pytest.approx(recall_score(Y, P >= 0.5))

    def test_bands_hold_the_truth_as_often_as_they_say(self, monkeypatch):
        monkeypatch.setattr("tacit.evaluate.metrics._RESAMPLED", 10)  # of the rough one, slow
        truth = {name: one.band.value for name, one in measure(CHANCES, Y).items()}
        held = dict.fromkeys(truth, 0)
        # Draws of its own: the area's band, which holds in 98 %, is near the upper bound.
        draw = np.random.default_rng(2)
        for _ in range(300):
            some = draw.integers(0, len(Y), 800)
            for name, one in measure(CHANCES[some], Y[some]).items():
                held[name] += bool(one.band.low <= truth[name] <= one.band.high)
        del held["calibration error"]
        assert min(held.values()) > 0.91 * 300, held
        assert max(held.values()) < 0.99 * 300, held

    def test_what_chance_reaches(self):
        told = measure(CHANCES, Y)
        assert told["accuracy"].chance == pytest.approx(1 - Y.mean())
        assert told["average precision"].chance == pytest.approx(Y.mean())
        assert (told["ROC AUC"].chance, told["balanced accuracy"].chance) == (0.5, 0.5)

    def test_several_classes_and_one_that_does_not_occur(self):
        chances = rng.dirichlet([1, 1, 1], 300)
        told = measure(chances, rng.integers(0, 2, 300))
        assert "balanced accuracy" not in told
        assert "ROC AUC" not in told
        assert set(told) == {"accuracy", "Brier score", "calibration error"}

    def test_digits_are_left_out_where_they_would_tell_a_number_of_rows(self):
        plain = measure(CHANCES[:700], Y[:700])["accuracy"].plain(3)
        assert plain["value"] == round(plain["value"], 3)

    def test_confusion_adds_up_to_one(self):
        assert confusion_shares(CHANCES, Y).sum() == pytest.approx(1)

    def test_shapes(self):
        with pytest.raises(InvalidArgument, match="chances"):
            measure(CHANCES, Y[:3])


class TestThresholds:
    def test_prevalence_calls_as_many_positive_as_there_are(self):
        cut = threshold_by("prevalence", P, 0.03)
        assert (cut <= P).mean() == pytest.approx(0.03, abs=0.001)

    def test_balanced_is_better_balanced_than_a_half(self):
        cut = threshold_by("balanced", P, Y.mean())
        best = max(balanced_accuracy_score(Y, q <= P) for q in np.linspace(0.01, 0.5, 50))
        assert balanced_accuracy_score(Y, cut <= P) > best - 0.01
        assert balanced_accuracy_score(Y, P >= 0.5) < best - 0.1

    def test_a_model_that_is_off_by_a_shift_gets_the_same_rows(self):
        moved = 1 / (1 + np.exp(-(1.2 * S - 2.5 + 1.0)))
        cuts = threshold_by("balanced", P, 0.07), threshold_by("balanced", moved, 0.07)
        assert ((cuts[0] <= P) == (cuts[1] <= moved)).mean() > 0.999

    def test_other_rules_are_refused(self):
        with pytest.raises(InvalidArgument, match="prevalence, balanced"):
            threshold_by("best", P, 0.1)

    def test_released_counts_tell_shares_and_what_is_not_clear(self):
        X = rng.normal(size=(900, 2))
        y = (rng.uniform(size=900) < 0.005).astype(int)
        model = MomentClassifier(classes=[0, 1], epsilon=0.5, noise=InsecureNoise(0))
        model.fit(X, y, X_public=rng.normal(size=(60, 2)))
        shares, unclear = released_shares(model)
        assert shares.sum() == pytest.approx(1)
        assert (shares > 0).all()
        assert unclear == [1]
        assert released_shares(object()) is None


def test_numbers_are_scikit_learns_and_their_bands_hold():
    from sklearn.metrics import mean_absolute_error, r2_score

    draw = np.random.default_rng(3)
    held = {"R^2": 0, "mean absolute error": 0}
    for _ in range(400):
        truth = draw.normal(size=300)
        said = 0.8 * truth + draw.normal(scale=0.3, size=300)
        told = measure_numbers(said, truth)
        exact = {"R^2": 1 - 0.09 - 0.04, "mean absolute error": np.sqrt(0.13 * 2 / np.pi)}
        for name, band in ((name, figure.band) for name, figure in told.items()):
            held[name] += bool(band.low <= exact[name] <= band.high)
    assert told["R^2"].band.value == pytest.approx(r2_score(truth, said))
    assert told["mean absolute error"].band.value == pytest.approx(mean_absolute_error(truth, said))
    assert all(0.9 < count / 400 < 0.985 for count in held.values())
    assert set(measure_numbers([1.0, 2.0], [3.0, 3.0])) == {"mean absolute error"}
    with pytest.raises(InvalidArgument):
        measure_numbers([1.0], [1.0])


def test_equal_scores_are_calibrated_whatever_the_order_of_rows():
    truth, chances = np.repeat([0, 1], [700, 300]), np.tile([0.7, 0.3], (1000, 1))
    assert measure(chances, truth)["calibration error"].band.value == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", ["ROC AUC", "average precision"])
def test_a_perfect_ranking_of_five_rows_is_not_certain(name):
    p = np.array([0.1, 0.2, 0.3, 0.8, 0.9])
    band = measure(np.column_stack([1 - p, p]), [0, 0, 0, 1, 1])[name].band
    assert band.value == band.high == 1
    assert band.low < 0.5  # of scores that say nothing, one draw in ten is ranked so


def test_the_area_of_few_rows_is_covered():
    draw, truth = np.random.default_rng(0), np.repeat([0, 1], [24, 12])
    chances = 1 / (1 + np.exp(-draw.normal(2.0 * truth, 1, size=(200, 36))))
    bands = [exact_auc(one, truth) for one in chances]
    area = 0.9213503964748574  # Phi(sqrt 2)
    assert np.mean([band.low <= area <= band.high for band in bands]) > 0.93
    assert np.median([band.high - band.low for band in bands]) < 0.5
