"""How students read releases: the noise that a mechanism names is the noise that it draws."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import ConfidentGNMax, InsecureNoise
from tacit._registry import MECHANISMS, mechanism_class
from tacit.errors import InvalidArgument
from tacit.mechanisms import (
    GNMax,
    InteractiveGNMax,
    LNMax,
    NoisyScreening,
    NoisyVotes,
    Release,
    SampledMax,
    SampledVotes,
    SharedVotes,
    ThresholdCheck,
    VoteReading,
)
from tacit.students.posterior import label_posterior

DRAWN = {
    "gaussian": (VoteReading.gaussian(3.0), lambda noise: noise.gaussian(3.0, 200_000)),
    "laplace": (VoteReading.laplace(3.0), lambda noise: noise.laplace(3.0, 200_000)),
}
READ = (GNMax, LNMax, NoisyVotes, ConfidentGNMax, InteractiveGNMax)
READ += (SampledMax, SampledVotes, NoisyScreening, SharedVotes)


@pytest.mark.parametrize(("reading", "draw"), DRAWN.values(), ids=DRAWN)
def test_is_of_the_noise_that_is_drawn(reading, draw):
    drawn, other = draw(InsecureNoise(1)), draw(InsecureNoise(2))
    for x in (-5.0, 0.0, 2.0):
        assert (drawn <= x).mean() == pytest.approx(reading.below(np.array(x)), abs=0.006)
    for gap in (0.0, 1.0, 6.0):
        assert (drawn + gap > other).mean() == pytest.approx(reading.ahead(gap), abs=0.006)


@pytest.mark.parametrize("reading", [reading for reading, _ in DRAWN.values()], ids=DRAWN)
@given(level=st.floats(1e-9, 1 - 1e-9))
def test_quantile_is_the_inverse(reading, level):
    (back,) = reading.below(reading.quantile(np.array([level])))
    assert back == pytest.approx(level, rel=1e-6)


@given(gap=st.floats(0, 50))
def test_laplace_stays_ahead_as_in_closed_form(gap):
    exact = 1 - (2 + gap / 3) / 4 * math.exp(-gap / 3)
    assert VoteReading.laplace(3.0).ahead(gap) == pytest.approx(exact, abs=1e-4)


def test_a_check_that_was_passed_and_a_student_that_may_have_answered():
    reading = ConfidentGNMax(60, 15, 20).reading()
    assert reading.check == (60, 15)
    passing = reading.passing(100, np.array([0.2, 0.6, 1.0]))
    assert passing[0] < 0.01
    assert passing[1] == 0.5
    assert passing[2] > 0.99
    assert InteractiveGNMax(60, 15, 20, 0.9).reading().at_most == 0.9


@pytest.mark.parametrize("name", MECHANISMS)
def test_only_classes_and_their_votes_are_read(name):
    kind = mechanism_class(name)
    reads = kind.reading is not ThresholdCheck.reading  # the one of the base class
    assert reads is (kind in READ)


def test_what_tells_no_class_is_refused():
    release = Release(ThresholdCheck(3, 1), labels=np.array([0, 1]))
    with pytest.raises(InvalidArgument, match=r"noisy votes, got .*threshold-check"):
        label_posterior(release, n_classes=2, n_teachers=5)


def test_votes_with_other_noise_are_not_decoded_as_gaussian():
    release = Release(LNMax(0.1), values=np.array([[4.0, 1.0]]))
    with pytest.raises(InvalidArgument, match="Gaussian noise, got those of lnmax"):
        label_posterior(release, n_classes=2, n_teachers=5)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_names_the_field_of_its_noise(name):
    kind = mechanism_class(name)
    assert kind.noise_parameter in {field.name for field in dataclasses.fields(kind)}
