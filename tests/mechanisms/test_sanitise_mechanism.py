"""Sanitise: which cost it publishes, with how much noise, and what the published pair supports."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.errors import InvalidArgument
from tacit.mechanisms import (
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
    NoisyVotes,
    Plan,
    Sanitise,
    SecretCost,
    secret_cost_of,
)
from tacit.noise import GrantedNoise, InsecureNoise, SecureNoise
from tacit.privacy import (
    gnmax_rdp,
    gnmax_rdp_total,
    gnmax_smooth_sensitivity,
    threshold_rdp_worst,
)

ORDER, BETA = 8.0, 0.025
PARAMETERS = {
    "order": ORDER,
    "beta": BETA,
    "sigma": 5.0,
    "sigma_log": 0.1,
    "delta_value": 1e-3,
    "delta_scale": 2e-3,
    "covers": "c" * 64,
}
SANITISE = Sanitise(**PARAMETERS)
SECRET = SecretCost(0.5, 0.02, ORDER, BETA)
VOTES = np.array([[40, 5, 5], [20, 16, 14], [50, 0, 0], [17, 17, 16]])


class Script(InsecureNoise):
    """Noise of so many deviations, rounded to whole steps: one number a stage."""

    def __init__(self, *deviations):
        super().__init__(0)
        self.deviations = list(deviations)

    def rounded_gaussian_steps(self, sigma, grid, size):
        return np.round(np.full(size, self.deviations.pop(0)) * sigma / grid).astype(np.int64)


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": 1.0},
        {"order": [8.0, 9.0]},
        {"order": math.nan},
        {"beta": 0.0},
        {"sigma": -1.0},
        {"sigma": 1e6},
        {"sigma_log": 0.0},
        {"sigma_log": 1e6},
        {"delta_value": 0.0},
        {"delta_value": 1.0},
        {"delta_scale": 0.0},
        {"delta_value": 0.6, "delta_scale": 0.4},
        {"scale_floor": 0.0},
        {"scale_floor": math.inf},
        {"covers": ""},
        {"covers": None},
        {"covers": 7},
    ],
)
def test_parameters_are_checked(wrong):
    with pytest.raises(InvalidArgument):
        Sanitise(**{**PARAMETERS, **wrong})


def test_parameters_are_plain_floats():
    made = Sanitise(**{**PARAMETERS, "order": 8, "beta": np.float32(0.25), "sigma": np.int64(5)})
    fields = [field.name for field in dataclasses.fields(made) if field.name != "covers"]
    assert [type(getattr(made, name)) for name in fields] == [float] * len(fields)


@pytest.mark.parametrize("ends", [{"sigma": 2.0**18}, {"sigma": 1e-6}, {"sigma_log": 1e-9}])
def test_every_noise_that_is_accepted_can_be_drawn(ends):
    made = Sanitise(**{**PARAMETERS, **ends})
    assert np.isfinite(np.asarray(made.release(SECRET, InsecureNoise(0)))).all()


def test_the_price_is_that_of_two_gaussians():
    """mu^2 = beta^2/sigma_log^2 + 1/sigma^2, delta_value + delta_scale."""
    mu_squared = 0.025**2 / 0.1**2 + 1 / 25
    assert SANITISE.gaussian_cost() == pytest.approx(mu_squared)
    assert SANITISE.confidence_delta() == pytest.approx(3e-3)
    assert SANITISE.cost([2.0, 8.0]).values == pytest.approx([mu_squared, 4 * mu_squared])
    assert np.array_equal(
        SANITISE.secret_cost(SECRET, [2.0, 8.0]).values, SANITISE.cost([2.0, 8.0]).values
    )
    plan = Plan(SANITISE, 1)
    assert plan.mu_squared() == pytest.approx(mu_squared)
    assert plan.confidence_delta() == pytest.approx(3e-3)


def test_without_noise_the_pair_is_the_secret():
    log_scale, value = np.asarray(SANITISE.release(SECRET, Script(0.0, 0.0)))
    assert log_scale == pytest.approx(math.log(0.02), abs=1e-7)
    assert value == pytest.approx(0.5, abs=1e-7)


def test_noise_of_both_stages():
    """One deviation down on the scale, two up on the cost, whose scale includes the margin."""
    log_scale, value = np.asarray(SANITISE.release(SECRET, Script(-1.0, 2.0)))
    assert log_scale == pytest.approx(math.log(0.02) - 0.1, abs=1e-6)
    upper = 0.02 * math.exp(-0.1 + stats.norm.isf(2e-3) * 0.1)
    assert value == pytest.approx(0.5 + 2 * 5.0 * upper, rel=1e-5)


def test_small_scales_are_raised_to_the_public_floor():
    tiny = SecretCost(0.5, 0.0, ORDER, BETA)
    assert np.asarray(SANITISE.release(tiny, Script(0.0, 0.0)))[0] == pytest.approx(
        math.log(1e-6), abs=1e-6
    )


def test_released_numbers_lie_on_public_grids():
    """Powers of two that depend on parameters and on the released scale, never on the secret."""
    pairs = SANITISE._draw(SECRET, InsecureNoise(2), 1000)
    log_grid = 2.0 ** math.floor(math.log2(min(0.1, BETA) * 2.0**-20))
    assert np.array_equal(pairs[:, 0] % log_grid, np.zeros(1000))
    upper = np.exp(pairs[:, 0] + stats.norm.isf(2e-3) * 0.1)
    value_grid = 2.0 ** np.floor(np.log2(upper * 2.0**-20) + 1e-9)
    assert np.array_equal(pairs[:, 1] % value_grid, np.zeros(1000))


def test_rounding_to_the_grid_is_paid_for():
    """Two rounded answers may differ by a step more: so the noise is larger by as much."""
    grid = SANITISE._log_grid()
    pairs = SANITISE._draw(SECRET, Script(1.0, 0.0), 1)
    centre = SANITISE._draw(SECRET, Script(0.0, 0.0), 1)
    assert pairs[0, 0] - centre[0, 0] >= 0.1 * (1 + grid / BETA) - grid


def test_read_adds_the_quantile():
    read = SANITISE.read([math.log(0.02), 0.5])
    upper_scale = 0.02 * math.exp(stats.norm.isf(2e-3) * 0.1)
    assert (read.log_scale, read.value) == (math.log(0.02), 0.5)
    assert read.upper_bound == pytest.approx(
        0.5 + stats.norm.isf(1e-3) * 5.0 * upper_scale, rel=1e-5
    )


def test_an_upper_bound_of_a_cost_is_not_negative():
    assert SANITISE.read([math.log(0.02), -50.0]).upper_bound == 0.0


@pytest.mark.parametrize(
    "answers",
    [
        0.5,
        None,
        VOTES,
        SecretCost(0.5, 0.02, 9.0, BETA),
        SecretCost(0.5, 0.02, ORDER, 0.03),
        SecretCost(math.nan, 0.02, ORDER, BETA),
        SecretCost(0.5, math.inf, ORDER, BETA),
    ],
)
def test_answers_must_be_the_priced_secret(answers):
    with pytest.raises(InvalidArgument):
        SANITISE.release(answers, InsecureNoise(0))
    with pytest.raises(InvalidArgument):
        SANITISE.accept(answers, queries=1, n_teachers=None, n_classes=None)


def test_one_cost_is_published_at_a_time():
    SANITISE.accept(SECRET, queries=1, n_teachers=None, n_classes=None)
    with pytest.raises(InvalidArgument, match="queries=2"):
        SANITISE.accept(SECRET, queries=2, n_teachers=None, n_classes=None)


def test_a_granted_release_names_its_entry():
    release = SANITISE.release(SECRET, GrantedNoise(SecureNoise(), entry="e" * 64))
    assert (release.secure, release.entry, release.labels) == (True, "e" * 64, None)
    assert release.values.shape == (2,)


@pytest.mark.parametrize("seed", range(3))
def test_the_upper_bound_fails_no_more_often_than_it_says(seed):
    """delta_value = delta_scale = 0.05: at most 5 % each, and not much less: it is not vacuous."""
    made = Sanitise(**{**PARAMETERS, "delta_value": 0.05, "delta_scale": 0.05})
    pairs = made._draw(SECRET, InsecureNoise(seed), 4000)
    below = sum(made.read(pair).upper_bound < SECRET.value for pair in pairs)
    assert stats.binom.sf(below - 1, 4000, 0.05) > 1e-6
    assert stats.binom.cdf(below, 4000, 0.02) > 1 - 1e-6
    deviation, _ = made._value_noise(pairs[:, 0])
    too_small = int((deviation < made.sigma * SECRET.smooth).sum())
    assert stats.binom.sf(too_small - 1, 4000, 0.05) > 1e-6
    assert stats.binom.cdf(too_small, 4000, 0.02) > 1 - 1e-6


# What a run cost -----------------------------------------------------------------------------


def test_cost_of_gnmax_is_the_sum_over_all_queries():
    secret = secret_cost_of(GNMax(9.0), VOTES, [0, 1, 0, 2], ORDER, BETA)
    assert secret.value == pytest.approx(gnmax_rdp(VOTES, 9.0, [ORDER]).sum())
    assert secret.smooth == gnmax_smooth_sensitivity(VOTES, 9.0, ORDER, BETA)
    assert (secret.order, secret.beta) == (ORDER, BETA)


def test_cost_of_confident_gnmax_counts_every_check_and_the_answers():
    mechanism = ConfidentGNMax(30.0, 20.0, 9.0)
    secret = secret_cost_of(mechanism, VOTES, [0, -1, 0, -1], ORDER, BETA)
    told = VOTES[[0, 2]]
    checks = 4 * threshold_rdp_worst(30.0, 20.0, 17, 50, [ORDER])[0]
    assert secret.value == pytest.approx(checks + gnmax_rdp(told, 9.0, [ORDER]).sum())
    assert secret.smooth == gnmax_smooth_sensitivity(told, 9.0, ORDER, BETA)


def test_a_run_without_answers_still_paid_its_checks():
    secret = secret_cost_of(ConfidentGNMax(30.0, 20.0, 9.0), VOTES, [-1] * 4, ORDER, BETA)
    assert secret.value == pytest.approx(4 * threshold_rdp_worst(30.0, 20.0, 17, 50, [ORDER])[0])
    assert secret.smooth == 0.0


def test_gnmax_answers_everything():
    with pytest.raises(InvalidArgument, match="-1"):
        secret_cost_of(GNMax(9.0), VOTES, [0, -1, 0, 0], ORDER, BETA)


@pytest.mark.parametrize(
    "mechanism", [LNMax(0.1), NoisyVotes(9.0), InteractiveGNMax(30.0, 20.0, 9.0, 0.9)]
)
def test_no_smooth_sensitivity_is_known_for_others(mechanism):
    with pytest.raises(InvalidArgument, match="GNMax, one vote a unit, or ConfidentGNMax"):
        secret_cost_of(mechanism, VOTES, [0] * 4, ORDER, BETA)


@pytest.mark.parametrize("labels", [[0, 1], [[0, 1, 2, 3]], 0])
def test_labels_must_fit(labels):
    with pytest.raises(InvalidArgument, match="labels"):
        secret_cost_of(GNMax(9.0), VOTES, labels, ORDER, BETA)


def test_secret_cost_takes_a_release():
    release = GNMax(9.0).release(VOTES, InsecureNoise(0))
    plain = secret_cost_of(GNMax(9.0), VOTES, release.labels, ORDER, BETA)
    assert secret_cost_of(GNMax(9.0), VOTES, release, ORDER, BETA).value == plain.value


def test_cost_is_the_sum_itself_not_its_lines():
    """`gnmax_rdp_total` bounds q's cost by lines: neighbours could differ by more than SS."""
    random = np.random.default_rng(0)
    third, gap = random.integers(0, 400, 2500), random.integers(100, 2500, 2500)
    first = (6000 - third + gap) // 2
    votes = np.stack([first, 6000 - third - first, third], axis=1)
    secret = secret_cost_of(GNMax(1000.0), votes, np.zeros(2500), 14.0, 0.2 / 14)
    exact = math.fsum(gnmax_rdp(votes, 1000.0, [14.0])[:, 0])
    assert secret.value == pytest.approx(exact, rel=1e-13)
    many = [14.0, *range(2, 12)]  # of one order alone the total would be exact too
    assert gnmax_rdp_total(votes, 1000.0, many)[0] > exact * (1 + 1e-5)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_neighbours_differ_by_no_more_than_the_smooth_sensitivity(data):
    """One teacher votes otherwise on every query: |f - f'| <= SS, |log SS - log SS'| <= beta."""
    n, m, queries = data.draw(st.integers(3, 30)), data.draw(st.integers(2, 4)), 4
    beta, order = data.draw(st.floats(0.005, 0.3)), data.draw(st.sampled_from([2.0, 8.0, 20.0]))
    sigma = data.draw(st.floats(0.7, 15.0))
    cuts = [sorted(data.draw(st.integers(1, n)) for _ in range(m - 1)) for _ in range(queries)]
    votes = np.array([np.diff([0, *cut, n]) for cut in cuts])
    moved = votes.copy()
    for row in moved:
        row[data.draw(st.sampled_from(np.nonzero(row)[0].tolist()))] -= 1
        row[data.draw(st.integers(0, m - 1))] += 1
    one, other = (secret_cost_of(GNMax(sigma), v, [0] * 4, order, beta) for v in (votes, moved))
    assert abs(one.value - other.value) <= min(one.smooth, other.smooth) * (1 + 1e-9)
    assert abs(math.log(one.smooth) - math.log(other.smooth)) <= beta * (1 + 1e-9)
