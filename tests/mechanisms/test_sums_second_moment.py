"""The noisy second moment, and what every mechanism on vectors owes to the ledger."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit.errors import GrantError, InvalidArgument, UnlicensedNoise
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import (
    DistributedGaussianMean,
    GaussianMean,
    NoisySecondMoment,
    Plan,
    released_once,
)
from tacit.noise import GrantedNoise, InsecureNoise, SecureNoise

WILD = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-2, 2),
    st.sampled_from([1e300, -1e300, 5e-324, 0.0, np.nan, np.inf]),
)
CASES = [
    (GaussianMean(1.0, 1.0, 3), np.ones((3, 2, 4))),
    (DistributedGaussianMean(1.0, 1.0, 3, 1, 1), np.ones((3, 2, 4))),
    (NoisySecondMoment(2.0, 4), np.ones((5, 4))),
]
EVERY = pytest.mark.parametrize(
    ("mechanism", "answers"), CASES, ids=[case[0].name for case in CASES]
)


class TestSensitivity:
    @settings(max_examples=100, deadline=None)
    @given(
        hnp.arrays(np.float64, (3, 2, 3), elements=WILD),
        hnp.arrays(np.float64, (1, 2, 3), elements=WILD),
        st.floats(1e-3, 1e3),
    )
    def test_one_record_adds_at_most_one(self, records, record, radius):
        """In integers: |difference|_F^2 <= (2^28)^2 squared steps, for two parts of a record."""
        mechanism = NoisySecondMoment(1.0, 3, radius)
        without = mechanism._total(mechanism._checked(records))
        added = mechanism._total(mechanism._checked(np.concatenate([records, record])))
        difference = [Fraction(float(one)) for one in (added - without).ravel()]
        assert sum(one**2 for one in difference) <= Fraction(2**28) ** 2

    def test_the_bound_is_attained(self):
        mechanism = NoisySecondMoment(1.0, 3)
        moment = mechanism._total(mechanism._checked([[5.0, 0.0, 0.0]])) * 2.0**-28
        assert np.linalg.norm(moment) == pytest.approx(1.0, abs=2e-4)

    def test_sum_is_the_second_moment(self):
        rows = np.random.default_rng(0).normal(size=(500, 6)) * 0.1
        mechanism = NoisySecondMoment(2.0**-6, 6)
        values = mechanism.release(rows, InsecureNoise(0)).values
        assert np.allclose(values, rows.T @ rows, atol=0.1)
        assert np.array_equal(values, values.T)

    def test_parts_of_a_record_share_one_bound(self):
        mechanism = NoisySecondMoment(1.0, 2)
        moment = mechanism._total(mechanism._checked(np.full((1, 50, 2), 9.0))) * 2.0**-28
        assert np.trace(moment) == pytest.approx(1.0, abs=2e-3)

    def test_centring_with_a_private_mean_would_cost_four_times_as_much(self):
        """C 21: why rows are centred with a public mean. n/(n+1) |y - mean|^2 goes to 4."""
        rows = np.tile([1.0, 0.0], (1000, 1))
        more = np.vstack([rows, [-1.0, 0.0]])
        first, second = ((r - r.mean(axis=0)).T @ (r - r.mean(axis=0)) for r in (rows, more))
        assert np.linalg.norm(second - first) > 3.9


class TestNoise:
    def test_isotropic_in_the_frobenius_norm(self):
        mechanism = NoisySecondMoment(3.0, 3, radius=2.0)
        drawn = mechanism._draw(np.zeros((3, 3), dtype=np.int64), InsecureNoise(0), 40000)
        spread = drawn.std(axis=0) / 4.0
        expected = np.full((3, 3), 3 / np.sqrt(2)) + np.eye(3) * (3 - 3 / np.sqrt(2))
        assert np.allclose(spread, expected, rtol=0.02)
        assert np.array_equal(drawn, drawn.transpose(0, 2, 1))

    def test_values_lie_on_the_grid(self):
        values = NoisySecondMoment(3.0, 3).release(np.ones((2, 3)), InsecureNoise(0)).values
        assert np.array_equal(values * 2.0**28, np.rint(values * 2.0**28))

    def test_no_record_is_a_data_set_too(self):
        release = NoisySecondMoment(3.0, 3).release(np.empty((0, 3)), InsecureNoise(0))
        assert release.values.shape == (3, 3)


@pytest.mark.parametrize(
    "answers",
    [np.ones(3), np.ones((2, 4)), np.ones((2, 0, 3)), np.ones((1, 1, 1, 3)), "rows", None],
)
def test_other_shapes_are_refused(answers):
    with pytest.raises(InvalidArgument):
        NoisySecondMoment(3.0, 3).release(answers, InsecureNoise(0))


def test_more_records_than_a_sum_holds_exactly_are_refused(monkeypatch):
    monkeypatch.setattr(released_once, "MOST_RECORDS", 4)
    NoisySecondMoment(3.0, 3).release(np.ones((4, 3)), InsecureNoise(0))
    with pytest.raises(InvalidArgument, match="a number of records from 0 to"):
        NoisySecondMoment(3.0, 3).release(np.ones((5, 3)), InsecureNoise(0))


@pytest.mark.parametrize(
    ("field", "value"),
    [("sigma", 0.0), ("sigma", 1e9), ("dimension", 0), ("radius", -1.0), ("radius", 1e300)],
)
def test_parameters_out_of_range_are_refused(field, value):
    with pytest.raises(InvalidArgument):
        dataclasses.replace(NoisySecondMoment(3.0, 3), **{field: value})


def test_price_of_the_moment():
    mechanism = NoisySecondMoment(2.0, 3)
    assert Plan(mechanism, 1).mu_squared() == 0.25
    assert mechanism.cost([4.0]).values[0] == pytest.approx(0.5)
    assert np.array_equal(
        mechanism.secret_cost(np.ones((2, 3)), [4.0]).values, mechanism.cost([4.0]).values
    )
    with pytest.raises(InvalidArgument, match="one matrix"):
        Plan(mechanism, 2).accept(np.ones((2, 3)))


@EVERY
@pytest.mark.parametrize("noise", [SecureNoise(), None, np.random.default_rng(0)])
def test_noise_that_no_ledger_granted_is_refused(mechanism, answers, noise):
    with pytest.raises(UnlicensedNoise):
        mechanism.release(answers, noise)


@EVERY
def test_a_closed_grant_is_refused(mechanism, answers):
    noise = GrantedNoise(SecureNoise(), entry="e" * 64)
    noise.close()
    with pytest.raises(GrantError):
        mechanism.release(answers, noise)


@EVERY
def test_release_says_whether_it_is_secure(mechanism, answers):
    granted = mechanism.release(answers, GrantedNoise(SecureNoise(), entry="e" * 64))
    assert (granted.entry, granted.secure) == ("e" * 64, True)
    seeded = mechanism.release(answers, InsecureNoise(1))
    assert (seeded.entry, seeded.secure) == (None, False)


@EVERY
def test_a_mechanism_is_frozen_data_that_never_fails(mechanism, answers):
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.sigma = 3.0
    assert mechanism == dataclasses.replace(mechanism)
    assert hash(mechanism) == hash(dataclasses.replace(mechanism))
    assert mechanism.confidence_delta() == 0.0


@EVERY
def test_an_honest_ledger_releases_it_and_names_what_it_presumes(mechanism, answers, tmp_path):
    ledger = Ledger(tmp_path / "run.ledger", budget=Budget(100.0, 1e-5))
    queries = 1 if isinstance(mechanism, NoisySecondMoment) else 2
    with ledger.release(Plan(mechanism, queries), purpose="works") as grant:
        assert grant.release(answers).secure
    statement = ledger.statement()
    assert statement.noise == "exact"
    assert len(statement.assumes) == 1
    assert ledger.spent() == pytest.approx(Plan(mechanism, queries).epsilon(1e-5), rel=1e-9)
