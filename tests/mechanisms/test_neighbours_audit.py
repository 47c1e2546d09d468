"""Audits of the mechanisms on neighbours: none loses more than it claims, every mutant is caught.

Honest audits use secure noise and fail by bad luck with probability at most 1e-6; mutants use
seeded noise. See `knn_audits` for inputs and events, `knn_reference` for wrong ways to sample.
"""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest
from knn_audits import KNN_AUDITS, NeighbourAudit, ahead, label
from knn_reference import Redrawing, Reference, WithReplacement
from mutants import mutated, seeded_noise, weak_noise
from scipy.special import ndtr

from tacit.mechanisms import (
    NoisyScreening,
    Release,
    SampledLabels,
    SampledMax,
    SampledMean,
    SampledMedian,
    SampledVotes,
    ScreeningCheck,
)
from tacit.mechanisms.neighbour_values import GRID, summed
from tacit.mechanisms.neighbours import count_classes
from tacit.noise import admit
from tacit.privacy.epsilon_lower_bounds import bit_rdp

GAUSSIAN = sorted(set(KNN_AUDITS) - {"sampled-median"})


@pytest.mark.parametrize("name", sorted(KNN_AUDITS))
def test_audit_does_not_refute_the_claim_and_is_sharp(name):
    """One event of two outcomes shows at most 2/pi of a Gaussian's divergence at small orders."""
    audit = KNN_AUDITS[name]
    assert 0.4 * audit.claim() < audit.finds() <= audit.claim()


@pytest.mark.parametrize("name", GAUSSIAN)
def test_noise_too_small_by_sqrt_2_is_caught(name):
    audit = KNN_AUDITS[name]
    assert audit.finds(noise=weak_noise()) > audit.claim()


class SharedSample(NoisyScreening):
    """The screening and the answer see one sample, as in the paper."""

    __slots__ = ()

    def release(self, answers, noise, *, n_classes=None, max_answers=None):
        entry = admit(noise)
        labels = np.empty(answers.n_queries, dtype=np.int64)
        read = partial(self._targets, answers, n_classes)
        for places, positions, classes in self._drawn(answers, noise, read):
            votes = count_classes(classes, positions, n_classes)
            top = votes.max(axis=1) + noise.gaussian(self.sigma_screen, len(votes))
            winners = (votes + noise.gaussian(self.sigma, votes.shape)).argmax(axis=1)
            labels[places] = np.where(top >= self.threshold, winners, -1)
        return Release(self, labels=labels, entry=entry)


def test_one_sample_for_screening_and_answer_is_caught():
    """Who passes was sampled: the answer then speaks about that record at its full strength."""
    audit = NeighbourAudit(
        NoisyScreening(1.0, 0.3, 0.7, k=1, sampling_rate=0.01), [0], label(0), 2.0, n_classes=8
    )
    assert audit.finds(noise=seeded_noise()) <= audit.claim()
    assert audit.finds(mutated(audit.mechanism, SharedSample), seeded_noise()) > audit.claim()


def test_sampling_with_replacement_is_caught():
    """One of five records against none of four: the size of the sample alone tells them apart."""
    audit = NeighbourAudit(
        SampledVotes(3.0, k=3, sampling_rate=0.2),
        [0, 1, 1, 1, 1],
        lambda values: values[:, 1] >= 1,
        2.0,
        n_classes=2,
    )
    assert audit.finds(noise=seeded_noise()) <= audit.claim()
    assert audit.finds(noise=seeded_noise(), kind=WithReplacement) > audit.claim()


def test_drawing_again_after_a_miss_is_caught():
    """Of two records sampled with 0.1, the first takes part in more than half of the draws."""
    audit = NeighbourAudit(
        SampledMax(3.0, k=1, sampling_rate=0.1), [0, 1], label(0), 1.5, n_classes=2
    )
    assert audit.finds(noise=seeded_noise()) <= audit.claim()
    assert audit.finds(noise=seeded_noise(), kind=Redrawing) > audit.claim()


def test_a_range_from_ceil_k_over_classes_is_caught():
    """It leaves out the small counts, where this check loses most."""
    k, rate, order, threshold, sigma = 4, 0.3, 1.2, 0.5, 0.7
    audit = NeighbourAudit(
        ScreeningCheck(threshold, sigma, k=k, sampling_rate=rate), [0], label(1), order, n_classes=2
    )
    passing = ndtr((np.arange(k + 1) - threshold) / sigma)
    narrow = max(
        bit_rdp(*pair, order)
        for t in range(2, k)
        for p0, p1 in ((passing[t], passing[t + 1]), (passing[t + 1], passing[t]))
        for mixed in [(1 - rate) * p0 + rate * p1]
        for pair in ((mixed, p0), (p0, mixed))
    )
    assert narrow < audit.finds(noise=seeded_noise()) <= audit.claim()


class Unclipped(SampledLabels):
    """Adds 0/1 vectors as they are."""

    __slots__ = ()

    def weights(self, n_labels):
        return np.full(n_labels + 1, round(1 / GRID))


def test_unclipped_labels_are_caught():
    audit = dataclasses.replace(KNN_AUDITS["sampled-labels"], event=ahead(4.0))
    assert audit.finds(noise=seeded_noise()) <= audit.claim()
    assert audit.finds(mutated(audit.mechanism, Unclipped), seeded_noise()) > audit.claim()


class RealisedCount(SampledMean):
    """Divides by how many neighbours were found."""

    __slots__ = ()

    def release(self, answers, noise):
        entry, numbers = admit(noise), np.asarray(answers.targets)
        steps = np.rint(numbers / GRID).astype(np.int64)[:, None]
        values = np.empty(answers.n_queries)
        for places, positions, shares in self._drawn(answers, noise, lambda: steps):
            found = np.maximum((positions >= 0).sum(axis=1), 1)
            mean = summed(shares, positions)[:, 0] * GRID / found
            values[places] = mean + noise.gaussian(self.sigma, mean.shape)
        return Release(self, values=values, entry=entry)


def test_division_by_the_realised_count_is_caught():
    audit = NeighbourAudit(
        SampledMean(1.0, k=4, sampling_rate=0.5, low=-1.0, high=1.0),
        [1.0],
        lambda values: values >= 0.5,
        1.5,
    )
    assert audit.finds(noise=seeded_noise()) <= audit.claim()
    assert audit.finds(mutated(audit.mechanism, RealisedCount), seeded_noise()) > audit.claim()


class FullStrength(SampledMedian):
    """exp(e0 u) instead of exp(e0 u/2): the normalisation is forgotten."""

    __slots__ = ()

    def weights(self):
        louder = dataclasses.replace(
            SampledMedian(**dataclasses.asdict(self)), epsilon_per_query=2 * self.epsilon_per_query
        )
        return louder.weights()


def test_a_median_without_the_half_is_caught():
    audit = KNN_AUDITS["sampled-median"]
    assert audit.finds(mutated(audit.mechanism, FullStrength), seeded_noise()) > audit.claim()


def test_two_votes_priced_as_one_are_caught():
    audit = KNN_AUDITS["sampled-max, two votes"]
    one = SampledMax(6.0, k=2, sampling_rate=0.8)
    assert audit.finds(noise=seeded_noise()) > one.cost([audit.order]).values[0]


def test_the_reference_samples_as_defined():
    """Two records with rate 1/2, k = 1: first 1/2, second 1/4, nobody 1/4."""
    drawn = Reference([0, 1], 40_000).draw(1, 0.5, seeded_noise()[0])[:, 0]
    shares = [(drawn == place).mean() for place in (0, 1, -1)]
    assert shares == pytest.approx([0.5, 0.25, 0.25], abs=0.02)
