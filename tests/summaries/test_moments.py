"""What is made of noisy moments: logistic regression without noise, shrinkage with it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from tacit.errors import InvalidArgument
from tacit.features import Categorical, Numeric, PublicBins
from tacit.summaries import (
    NoisyEcho,
    NoisyMoment,
    best_centre,
    bins_prior,
    fit_moment,
    longest_label,
    plain_prior,
)
from tacit.summaries.descent import shrinkage


def problem(n: int, classes: int, seed: int):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4)) / 2
    truth = np.random.default_rng(99).normal(size=(4, classes)) * 2
    chances = softmax(X @ truth, axis=1)
    y = (chances.cumsum(axis=1) > random.random((n, 1))).argmax(axis=1)
    return X, y


def moment(X, y, classes, sigma=0.0, seed=0):
    labels = np.eye(classes)[y]
    shares = labels.mean(axis=0)
    noise = np.random.default_rng(seed).normal(scale=max(sigma, 1e-9), size=(4, classes))
    return NoisyMoment(X.T @ (labels - shares) + noise, sigma**2, len(X), shares, shares)


class TestFit:
    @pytest.mark.parametrize("classes", [2, 4])
    def test_without_noise_it_is_logistic_regression(self, classes):
        X, y = problem(4000, classes, 0)
        public, _ = problem(4000, classes, 1)
        found = fit_moment(public, moment(X, y, classes), plain_prior(4))
        reference = LogisticRegression(C=100.0).fit(X, y)
        theirs = reference.predict_proba(public)
        assert np.abs(found.chances(public) - theirs).mean() < 0.03
        same = found.chances(public).argmax(axis=1) == theirs.argmax(axis=1)
        assert same.mean() > 0.93

    def test_an_echo_corrects_what_public_inputs_got_wrong(self):
        """Public inputs are few: the residual moment on private rows brings the solution nearer."""
        X, y = problem(6000, 2, 2)
        public, _ = problem(150, 2, 3)
        first = moment(X, y, 2)
        one = fit_moment(public, first, plain_prior(4))
        residual = X.T @ (np.eye(2)[y] - one.chances(X))
        two = fit_moment(public, first, plain_prior(4), NoisyEcho(residual, 1e-9, one))
        best = LogisticRegression(C=100.0).fit(X, y).predict_proba(X)
        gaps = [np.abs(found.chances(X) - best).mean() for found in (one, two)]
        assert gaps[1] < 0.5 * gaps[0]

    def test_noise_alone_switches_the_weights_off(self):
        X, y = problem(300, 2, 4)
        found = fit_moment(X, moment(X, y, 2, sigma=3000.0), plain_prior(4))
        assert np.abs(found.weights).max() < 0.5
        assert found.chances(X).mean(axis=0) == pytest.approx(np.eye(2)[y].mean(axis=0), abs=0.01)

    def test_a_trend_is_found_in_noise_that_hides_single_bins(self):
        random = np.random.default_rng(5)
        ages = random.uniform(0, 100, size=(4000, 1))
        y = (random.random(4000) < ages[:, 0] / 100).astype(int)
        columns = [Numeric("age", range(5, 100, 5))]
        view = PublicBins(columns).transform(ages).astype(float)
        labels = np.eye(2)[y]
        shares = labels.mean(axis=0)
        noise = random.normal(scale=150.0, size=(view.shape[1], 2))
        noisy = NoisyMoment(view.T @ (labels - shares) + noise, 150.0**2, 4000, shares, shares)
        chance = fit_moment(view, noisy, bins_prior(columns)).chances(view)[:, 1]
        error = np.abs(chance - ages[:, 0] / 100).mean()
        plain = fit_moment(view, noisy, plain_prior(view.shape[1])).chances(view)[:, 1]
        assert error < 0.1
        assert error < np.abs(plain - ages[:, 0] / 100).mean()


class TestCentre:
    def test_longest_label_by_hand(self):
        centre = np.array([0.5, 0.3, 0.2])
        lengths = [np.sqrt(((np.eye(3)[y] - centre) ** 2).sum()) for y in range(3)]
        assert longest_label(centre) == pytest.approx(max(lengths))

    def test_noise_asks_for_the_middle_and_few_public_inputs_for_the_shares(self):
        shares = np.array([0.9, 0.1])
        view = np.full((100, 2), 0.7)
        assert best_centre(view, 1e6, shares, 10.0, 1.0) == pytest.approx(shares)
        assert best_centre(view, 10.0, shares, 1e-3, 1.0) == pytest.approx([0.5, 0.5])


class TestPrior:
    def test_columns_are_groups_and_numbers_have_trends(self):
        prior = bins_prior([Categorical("sex", ["F", "M"]), Numeric("age", [18, 65])])
        assert prior.groups.tolist() == [0, 0, 0, 1, 1, 1, 1, 2]
        assert prior.basis[:, -1].tolist() == [0, 0, 0, -1, 0, 1, 0]
        np.testing.assert_array_equal(prior.basis[:, :7], np.eye(7))


class TestShrinkage:
    def test_finds_the_scale_of_the_weights(self):
        random = np.random.default_rng(0)
        bends = np.full((4000, 1), 50.0)
        weights = random.normal(scale=0.3, size=(4000, 1))
        moments = bends * weights + random.normal(scale=np.sqrt(50 + 100.0), size=(4000, 1))
        shrunk = shrinkage(moments, bends, noise=100.0)
        assert shrunk.prior[0, 0] == pytest.approx(0.09, rel=0.4)  # the grid is coarse
        ideal = moments * 0.09 * 50 / (0.09 * 2500 + 150)
        assert np.abs(shrunk.mean(moments) - ideal).mean() < 0.03
        left = ((shrunk.mean(moments) - weights) ** 2).mean()
        assert shrunk.posterior.mean() == pytest.approx(left, rel=0.3)

    def test_noise_alone_is_not_believed(self):
        moments = np.random.default_rng(1).normal(scale=10, size=(2000, 2))
        assert np.abs(shrinkage(moments, 5.0, noise=100.0).mean(moments)).max() < 0.2

    def test_refusals(self):
        for curvature in (-1.0, 0.0):
            with pytest.raises(InvalidArgument, match="curvature"):
                shrinkage([[1.0]], curvature, noise=1.0)


def test_many_features_are_fitted_in_their_main_directions(monkeypatch):
    """Turned and whole fits agree where the directions left out are those of no public input."""
    random = np.random.default_rng(0)
    view = np.pad(random.normal(size=(300, 4)) / 3, ((0, 0), (0, 3))) @ _turn(7, random)
    weights = view.T @ random.normal(size=(300, 3))
    moment = NoisyMoment(weights * 3, 4.0, 900.0, np.full(3, 1 / 3), np.full(3, 1 / 3))
    whole = fit_moment(view, moment, plain_prior(7))
    echo = NoisyEcho(weights * 0.2, 4.0, whole)
    later = fit_moment(view, moment, plain_prior(7), echo)
    monkeypatch.setattr("tacit.summaries.moments._MOST_FEATURES", 4)
    for oracle, heard in ((whole, None), (later, echo)):
        turned = fit_moment(view, moment, plain_prior(7), heard)
        np.testing.assert_allclose(turned.chances(view), oracle.chances(view), atol=0.02)


def _turn(size, random):
    return np.linalg.qr(random.normal(size=(size, size)))[0]
