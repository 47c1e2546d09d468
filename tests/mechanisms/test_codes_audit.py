"""Audits of the mechanisms on codes: none loses more than it claims, every mutant is caught.

Honest audits use secure noise and fail by bad luck with probability at most 1e-6; mutants use
seeded noise. See `code_audits` for inputs and events.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from audits import TRIALS, proved
from code_audits import CODE_AUDITS, DELTA, CodeAudit
from mutants import WeakNoise, mutated, seeded_noise, weak_noise

from tacit.mechanisms import DistributedGaussianMean, GaussianMean, NoisySecondMoment, Plan, Release
from tacit.mechanisms.codes import clip_rows, teacher_codes
from tacit.noise import InsecureNoise, admit
from tacit.privacy import gaussian_epsilon

EVERY = pytest.mark.parametrize("name", sorted(CODE_AUDITS))


@EVERY
def test_audit_does_not_refute_the_claim_and_is_sharp(name):
    audit = CODE_AUDITS[name]
    assert 0.85 * audit.claim() < audit.finds() <= audit.claim()


@EVERY
def test_noise_too_small_by_sqrt_2_is_caught(name):
    audit = CODE_AUDITS[name]
    assert audit.finds(noise=weak_noise()) > audit.claim()


def unclipped_mean(answers):
    codes = teacher_codes(answers)
    return sum(codes.part(k, slice(None)) for k in range(codes.shape[0])) / codes.shape[0]


class ClipAfterMean(GaussianMean):
    """Clips the mean instead of each code: one teacher can move it by the whole diameter."""

    __slots__ = ()

    def release(self, answers, noise, **public):
        entry = admit(noise)
        mean = unclipped_mean(answers)
        values = clip_rows(mean, self.radius) + noise.gaussian(self.sigma, mean.shape)
        return Release(self, values=values, entry=entry)


class Unclipped(GaussianMean):
    """Believes that teachers keep within the radius, as with logits in the 2020 paper."""

    __slots__ = ()

    def release(self, answers, noise, **public):
        entry = admit(noise)
        mean = unclipped_mean(answers)
        return Release(self, values=mean + noise.gaussian(self.sigma, mean.shape), entry=entry)


class ClipEachQuery(GaussianMean):
    """Clips every query to the radius, and is sold as one bound over all of them."""

    __slots__ = ()

    def release(self, answers, noise, **public):
        alone = GaussianMean(self.sigma, self.radius, self.n_teachers)
        return alone.release(answers, noise, **public)


class NoiseOfTheBall(GaussianMean):
    """Clips in the ellipsoid, and adds the ball's noise: too little where a weight is below 1."""

    __slots__ = ()

    def release(self, answers, noise, *, weights, **public):
        entry = admit(noise)
        still = GaussianMean(1e-4, self.radius, self.n_teachers, self.joint)
        values = still.release(answers, InsecureNoise(3), weights=weights, **public).values
        return Release(self, values=values + noise.gaussian(self.sigma, values.shape), entry=entry)


class SharedNoise(GaussianMean):
    """One noise for all numbers of a bound: their differences carry none."""

    __slots__ = ()

    def release(self, answers, noise, **public):
        entry = admit(noise)
        still = GaussianMean(1e-4, self.radius, self.n_teachers, self.joint)
        values = still.release(answers, InsecureNoise(3)).values
        bounds = values.reshape(len(values) // self.joint, -1)
        bounds = bounds + noise.gaussian(self.sigma, (len(bounds), 1))
        return Release(self, values=bounds.reshape(values.shape), entry=entry)


class SharesForEverybody(DistributedGaussianMean):
    """Sizes the shares as if nobody would ever be missing."""

    __slots__ = ()

    @property
    def share(self):
        return self.deviation / np.sqrt(self.n_teachers)


class PlainSymmetricNoise(NoisySecondMoment):
    """Half the variance everywhere, on the diagonal too."""

    __slots__ = ()

    def _draw(self, moment, noise, copies):
        return NoisySecondMoment(self.sigma / np.sqrt(2), self.dimension)._draw(
            moment, noise, copies
        )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gaussian-mean", ClipAfterMean),
        ("gaussian-mean", Unclipped),
        ("gaussian-mean, joint", ClipEachQuery),
        ("gaussian-mean, recentred", ClipEachQuery),
        ("distributed-gaussian-mean", SharesForEverybody),
        ("noisy-second-moment", PlainSymmetricNoise),
    ],
)
def test_mutant_is_caught(name, kind):
    audit = CODE_AUDITS[name]
    assert audit.finds(mutated(audit.mechanism, kind), seeded_noise()) > audit.claim()


def test_the_balls_noise_in_an_ellipsoid_is_caught():
    audit = CODE_AUDITS["gaussian-mean, ellipsoid"]
    thin = mutated(audit.mechanism, NoiseOfTheBall)
    outputs = [
        audit.released(thin, codes, noise)
        for codes, noise in zip((audit.first, audit.second), seeded_noise(), strict=True)
    ]
    found = proved(*outputs, (lambda values: values[:, 0] >= 0.5,), DELTA)
    assert found > 1.5 * audit.claim()


def test_shared_noise_is_caught():
    """Two queries under one bound: the difference of the two numbers has no noise at all."""
    mechanism = GaussianMean(1.0, 1.0, 2, joint=2)
    wild, still = np.array([[1e300], [-1e300]]), np.zeros((2, 1))
    first, second = np.array([wild, still]), np.array([-wild, still])
    audit = CodeAudit(mechanism, first, second, [[1.0], [-1.0]], {})
    shared = mutated(mechanism, SharedNoise)
    outputs = [
        audit.released(shared, codes, noise)
        for codes, noise in zip((first, second), seeded_noise(), strict=True)
    ]
    found = proved(*outputs, (lambda values: values @ [1.0, -1.0] > 0,), DELTA)
    assert found > 5 * audit.claim()


def test_a_bound_for_each_block_counted_once_is_caught():
    """Four blocks of a volume, each clipped to 1, are a code of norm 2; sold for 1."""
    sold = CODE_AUDITS["gaussian-mean"].mechanism
    blocks = np.zeros((2, 4, 1))
    blocks[0] = 1e300
    whole = dataclasses.replace(sold, joint=4)
    audit = CodeAudit(whole, blocks, -blocks, np.full((4, 1), 0.5), {})
    found = audit.finds(mutated(whole, ClipEachQuery), seeded_noise())
    assert 2 * audit.claim() < found <= Plan(sold, 4).epsilon(DELTA)


def two_rounds(codes, noises):
    """A release, and a second one about it: what an adversary makes of both transcripts."""
    mechanism = GaussianMean(1.0, 1.0, 2)
    rows = np.tile(codes, (1, TRIALS, 1))
    first = mechanism.release(rows, noises[0]).values
    second = mechanism.release(rows, noises[1], centres=first).values
    # The other teacher says 0, and what becomes of it about a public centre is public.
    offset = second - first - np.clip(-first, -1, 1) / 2
    return first + offset


@pytest.mark.parametrize("kind", [InsecureNoise, WeakNoise])
def test_a_round_about_an_earlier_release_costs_the_sum_of_squares(kind):
    """mu^2 adds although the centre is itself random; with less noise the audit would see it."""
    claim = gaussian_epsilon(DELTA, np.sqrt(2 * GaussianMean(1.0, 1.0, 2).gaussian_cost()))
    wild, still = np.full((1, 1), 1e300), np.zeros((1, 1))
    sources = [kind(seed=seed) for seed in (21, 22, 23, 24)]
    first = two_rounds(np.array([wild, still]), sources[:2])
    second = two_rounds(np.array([-wild, still]), sources[2:])
    # The log-likelihood ratio of N(1/2, 1) and N(-1/2, 1) is the number itself, in both rounds.
    found = proved(first, second, (lambda values: values[:, 0] >= claim,), DELTA)
    if kind is WeakNoise:
        assert found > claim
    else:
        assert 0.85 * claim < found <= claim
