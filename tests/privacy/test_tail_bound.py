"""The tight bound against high precision, and the certificate that makes it rigorous."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tail_oracle import cdf, quantile, tight_cost

from tacit.errors import InvalidArgument
from tacit.privacy import tail_bound
from tacit.privacy.tail_bound import log_sum_near_one, tail_bound_rdp, theorem6_rdp

GOLDEN_LOG_Q = -5.179152311259569  # votes [200, 50, 0 x 8] at sigma = 40

sigmas = st.floats(0.3, 1000)
orders = st.floats(1.01, 100)
log_qs = st.floats(-300, -1e-5)


def cost(log_q, sigma, order):
    return float(tail_bound_rdp(log_q, math.sqrt(2) / sigma, order)[0, 0])


def rounding_room(log_q, order):
    """What floating point cannot resolve: tails of mass q cancel (absolute, in the cost)."""
    return 2e-15 * order * math.exp(log_q) * (1 - 2 * log_q) / (order - 1)


def assert_tight(log_q, sigma, order):
    supremum = tight_cost(log_q, math.sqrt(2) / sigma, order)
    value = mp.mpf(cost(log_q, sigma, order))
    assert value >= supremum * (1 - mp.mpf("1e-15"))  # the last bit of the plateau
    assert value <= supremum * (1 + 2e-9) + rounding_room(log_q, order)


@pytest.mark.parametrize(
    ("order", "value"),
    [(2, 6.694566754e-5), (8, 2.997943168e-4), (14, 6.607214235e-4), (30, 3.028555986e-3)],
)
def test_golden_values(order, value):
    assert cost(GOLDEN_LOG_Q, 40, order) == pytest.approx(value, rel=2e-9)


def test_never_below_the_supremum_and_within_tolerance():
    """The whole range, spread evenly in logarithms."""
    random = np.random.default_rng(24)
    for _ in range(220):
        sigma, order = 10 ** random.uniform(0, 3), 1 + 10 ** random.uniform(-2, math.log10(39))
        assert_tight(-(10 ** random.uniform(math.log10(0.7), math.log10(300))), sigma, order)


@pytest.mark.parametrize("order", [1.01, 1.3, 3, 30])
@pytest.mark.parametrize("log_q", [-2e-4, -0.01, -0.3, -4, -33])
@pytest.mark.parametrize("sigma", [0.09, 0.15, 0.4])
def test_hardly_any_noise(sigma, log_q, order):
    """Where 1 - p is far below the rounding of p."""
    assert_tight(log_q, sigma, order)


@pytest.mark.parametrize("sigma", [0.1, 1, 40, 1000])
@pytest.mark.parametrize("order", [1.01, 2, 40])
def test_close_to_certain_disagreement_is_the_plateau(sigma, order):
    """From log q = -1e-4 the code answers a/s^2 at once: that exceeds the supremum by < 1e-9."""
    supremum = tight_cost(-1e-4, math.sqrt(2) / sigma, order)
    assert supremum >= mp.mpf(order / sigma**2) * (1 - mp.mpf("1e-9"))
    for log_q in (-9e-5, -1e-12, -1e-300, 0.0):
        assert cost(log_q, sigma, order) == pytest.approx(order / sigma**2, rel=1e-14)


@pytest.mark.parametrize("sigma", [0.05, 1, 40, 1e4])
def test_certain_queries_are_free(sigma):
    assert cost(-np.inf, sigma, 8) == 0.0
    if sigma >= 1:
        assert cost(-1e5, sigma, 8) == 0.0


@given(sigmas, orders, log_qs, log_qs)
def test_nondecreasing_in_q(sigma, order, one, other):
    low, high = sorted([one, other])
    less, more = cost(low, sigma, order), cost(high, sigma, order)
    assert 0 <= less <= more * (1 + 2e-9) + rounding_room(low, order)


@given(sigmas, orders, log_qs)
def test_never_above_theorem6_nor_the_worst_case(sigma, order, log_q):
    value = cost(log_q, sigma, order)
    assert value <= order / sigma**2 * (1 + 1e-15)
    theorem6 = float(theorem6_rdp(log_q, sigma, order)[0, 0])
    assert value <= theorem6 * (1 + 2e-9) + rounding_room(log_q, order)


@given(sigmas, st.floats(1.1, 50), st.floats(1, 3), log_qs)
def test_less_noise_or_a_higher_order_never_costs_less(sigma, order, factor, log_q):
    room = 1e-300 + rounding_room(log_q, order) * factor
    assert cost(log_q, sigma * factor, order) <= cost(log_q, sigma, order) * (1 + 2e-9) + room
    assert cost(log_q, sigma, order) <= cost(log_q, sigma, order * factor) * (1 + 2e-9) + room


@pytest.mark.parametrize("tolerance", [1e-3, 1e-5])
def test_a_coarser_tolerance_only_rounds_up(tolerance):
    log_q = -np.linspace(0.1, 60, 200)
    fine = tail_bound_rdp(log_q, 0.05, [1.2, 4, 60])
    coarse = tail_bound_rdp(log_q, 0.05, [1.2, 4, 60], tolerance=tolerance)
    assert (coarse >= fine * (1 - 2e-9)).all()
    assert (coarse <= fine * (1 + 1.01 * tolerance)).all()


def test_running_out_of_halvings_still_gives_an_upper_bound(monkeypatch):
    log_q = -np.linspace(0.1, 60, 50)
    fine = tail_bound_rdp(log_q, 0.05, [1.2, 4, 60])
    for halvings in (1, 2, 5):
        monkeypatch.setattr(tail_bound, "_MAX_HALVINGS", halvings)
        rough = tail_bound_rdp(log_q, 0.05, [1.2, 4, 60])
        assert (rough >= fine * (1 - 2e-9)).all()
        assert (rough > fine * (1 + 1e-6)).any()


def test_blocks_do_not_mix_queries_or_orders():
    """More pairs than are treated at once, with repetitions, in any order."""
    random = np.random.default_rng(3)
    log_q = -random.choice(np.linspace(0.01, 50, 300), 400)
    a = np.linspace(1.1, 40, 70)
    together = tail_bound_rdp(log_q, 0.1, a)
    assert together.shape == (400, 70)
    for i, j in zip(random.integers(400, size=25), random.integers(70, size=25), strict=True):
        assert together[i, j] == tail_bound_rdp(log_q[i], 0.1, a[j])[0, 0]


@pytest.mark.parametrize("log_q", [[np.nan], [1e-9], [[-1.0]]])
def test_bad_log_q(log_q):
    with pytest.raises(InvalidArgument, match="log_q"):
        tail_bound_rdp(log_q, 0.1, [2])


@pytest.mark.parametrize(("mu", "order"), [(0, 2), (-1, 2), (np.inf, 2), (0.1, 1), (0.1, np.inf)])
def test_bad_parameters(mu, order):
    with pytest.raises(InvalidArgument):
        tail_bound_rdp([-3.0], mu, order)


class TestCertificate:
    """What the module's docstring claims about T as a function of the split h."""

    @staticmethod
    def pieces(h, q, mu, a):
        c, d = quantile(mp.log(q - h)), -quantile(mp.log(h))
        p = cdf(c - mu) + cdf(mu - d)
        stay = (1 - q) ** a * (1 - p) ** (1 - a)
        moved = cdf(c + (a - 1) * mu) + cdf(-d - (a - 1) * mu)
        xc, xd = mp.exp(mu**2 / 2 - mu * c), mp.exp(mu**2 / 2 - mu * d)
        return stay, mp.exp(a * (a - 1) * mu**2 / 2) * moved, xc, xd, (1 - q) / (1 - p)

    @staticmethod
    def psi(xc, xd, ratio, a):
        return mp.log((a - 1) * ratio**a * (1 / xd - 1 / xc) / (xc ** (a - 1) - xd ** (a - 1)))

    @staticmethod
    def problems(count):
        random = np.random.default_rng(count)
        for _ in range(count):
            q = mp.exp(-mp.mpf(10 ** random.uniform(-0.5, 1.5)))
            share, mu = random.uniform(0.001, 0.999), 10 ** random.uniform(-2, -0.1)
            yield q * mp.mpf(share), q, mp.mpf(mu), 1 + mp.mpf(10 ** random.uniform(-2, 1))

    def test_derivative_formula(self):
        with mp.workdps(50):
            for h, q, mu, a in self.problems(40):
                _, _, xc, xd, ratio = self.pieces(h, q, mu, a)
                formula = (xc ** (a - 1) - xd ** (a - 1)) * mp.expm1(self.psi(xc, xd, ratio, a))
                step = min(h, q - h) * mp.mpf("1e-6")
                above, below = (sum(self.pieces(h + s, q, mu, a)[:2]) for s in (step, -step))
                numeric = (above - below) / (2 * step)
                scale = xc ** (a - 1)  # near the maximum both are close to zero
                assert abs(numeric - formula) < mp.mpf("1e-9") * (abs(formula) + scale)

    def test_stay_grows_move_falls_and_the_three_arguments_grow_with_h(self):
        with mp.workdps(40):
            for h, q, mu, a in self.problems(40):
                here = self.pieces(h, q, mu, a)
                there = self.pieces((h + q) / 2, q, mu, a)
                assert there[0] > here[0]
                assert there[1] < here[1]
                assert all(more > less for more, less in zip(there[2:], here[2:], strict=True))
                assert here[2] > here[3]  # xc > xd: the formula's logarithms exist

    @given(
        xd=st.floats(1e-3, 1e3),
        apart=st.floats(1e-3, 1e3),
        ratio=st.floats(1e-3, 1e3),
        a=st.floats(1.01, 50),
        factor=st.floats(1.001, 10),
    )
    def test_psi_is_monotone_in_each_argument(self, xd, apart, ratio, a, factor):
        with mp.workdps(40):
            xd, ratio, a, factor = map(mp.mpf, (xd, ratio, a, factor))
            xc = xd * (1 + mp.mpf(apart))
            here = self.psi(xc, xd, ratio, a)
            assert self.psi(xc * factor, xd, ratio, a) < here
            assert self.psi(xc, xd + (xc - xd) * (1 - 1 / factor), ratio, a) < here
            assert self.psi(xc, xd, ratio * factor, a) > here

    @staticmethod
    def cells(count):
        """Random cells [h0, h1], some endless, as the code represents them, and points inside."""
        random = np.random.default_rng(count)
        log_q = -(10 ** random.uniform(-3, 1.5, count))
        order = 1 + 10 ** random.uniform(-2, 1.5, count)
        y = np.sort(random.normal(0, 6, (2, count)), axis=0)
        inside = y[0] + (y[1] - y[0]) * random.uniform(0, 1, (30, count))
        inside[:, :20] = y[1, :20] - random.exponential(5, (30, 20))
        inside[:, 20:40] = y[0, 20:40] + random.exponential(5, (30, 20))
        y[0, :20], y[1, 20:40] = -np.inf, np.inf
        return log_q, order, y, inside

    @pytest.mark.parametrize("mu", [0.003, 0.05, 0.4, 2.0, 8.0])
    def test_psi_and_the_value_stay_within_what_a_cell_promises(self, mu):
        log_q, order, (low, high), inside = self.cells(400)
        left, right = (tail_bound._points(log_q, mu, order, y) for y in (low, high))
        cell = tail_bound._Psi.on(left, right, log_q, order, mu)
        ceiling = tail_bound._ceiling(left, right, cell, log_q, order, mu)
        assert cell.falls.any()
        for y in inside:
            point = tail_bound._points(log_q, mu, order, y)
            c, d, log_r, stay, move = point[1:]
            psi = tail_bound._psi(c, d, log_r, order, mu)
            room = 1e-9 * (1 + np.abs(psi))
            assert ((psi <= cell.most + room) & (psi >= cell.least - room)).all()
            value = log_sum_near_one(stay, move)
            assert (value <= ceiling + 1e-13 * np.exp(log_q) * order + 1e-12 * value).all()

    def test_psi_rises_by_no_more_than_its_slope_allows(self):
        """The derivative of psi by h, cell by cell, and the function n of it."""
        s = 10 ** np.linspace(-6, 3, 200)
        n = tail_bound._n(s)
        assert (np.diff(n) > 0).all()
        with mp.workdps(40):
            exact = [float(1 / mp.expm1(x) - 1 / mp.mpf(x)) for x in s]
        assert n == pytest.approx(exact, rel=1e-8)
        with mp.workdps(50):
            for h, q, mu, a in self.problems(40):
                step = min(h, q - h) * mp.mpf("1e-7")
                ends = [self.pieces(h + t, q, mu, a) for t in (-step, step)]
                psi = [self.psi(*end[2:], a) for end in ends]
                y = [np.array([float(mp.log(x / (q - x)))]) for x in (h - step, h + step)]
                log_q, order = np.array([float(mp.log(q))]), np.array([float(a)])
                left, right = (tail_bound._points(log_q, float(mu), order, end) for end in y)
                bound = tail_bound._psi_slope(left, right, log_q, order, float(mu))[0]
                scale = abs(float(psi[1] - psi[0])) + float(step / h)
                assert bound >= float(psi[1] - psi[0]) - 1e-5 * scale
                assert bound <= float(psi[1] - psi[0]) + 1e-4 * scale
