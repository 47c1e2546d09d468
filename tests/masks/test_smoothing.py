"""Smoothing: releases help each other where public features say so, and never worse elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.masks import wiener_weights
from tacit.masks.codecs import smooth_releases

SPECTRUM = np.array([1.0, 0.8, 0.5, 0.05])
SIGMA = 0.7


def lesson(related, seed=0):
    """Codes of 60 queries, a linear function of their features or not, and noisy releases."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(60, 5))
    codes = features @ rng.normal(size=(5, 4)) / np.sqrt(5) if related else rng.normal(size=(60, 4))
    codes = codes * np.sqrt(SPECTRUM)
    return features, codes, codes + rng.normal(scale=SIGMA, size=codes.shape)


def errors(related):
    found = []
    for seed in range(10):
        features, codes, noisy = lesson(related, seed)
        smooth = smooth_releases(noisy, features, SPECTRUM, SIGMA)
        shrunk = noisy * wiener_weights(SPECTRUM, SIGMA)
        found.append([np.square(one - codes)[:, :3].mean() for one in (smooth, shrunk)])
    return np.mean(found, axis=0)


def test_related_queries_help_each_other():
    smooth, shrunk = errors(related=True)
    assert smooth < 0.6 * shrunk


def test_unrelated_features_do_no_harm():
    smooth, shrunk = errors(related=False)
    assert smooth < 1.05 * shrunk


def test_without_features_it_is_the_wiener_shrinkage():
    _, _, noisy = lesson(related=True)
    smooth = smooth_releases(noisy, np.ones((60, 1)), SPECTRUM, SIGMA)
    expected = noisy * wiener_weights(SPECTRUM, SIGMA)
    assert np.allclose(smooth[:, :3], expected[:, :3])


def test_coordinates_that_drown_are_left_out():
    features, _, noisy = lesson(related=True)
    assert not smooth_releases(noisy, features, SPECTRUM, SIGMA)[:, 3].any()
    assert not smooth_releases(noisy, features, SPECTRUM, np.inf).any()


def test_other_shapes_are_refused():
    features, _, noisy = lesson(related=True)
    with pytest.raises(InvalidArgument):
        smooth_releases(noisy[:, :2], features, SPECTRUM, SIGMA)
    with pytest.raises(InvalidArgument):
        smooth_releases(noisy, features[:9], SPECTRUM, SIGMA)
