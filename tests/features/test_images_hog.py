"""HOG against its definition, pixel by pixel, and against what a gradient's direction must do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_features import histograms_of, hog, tent, votes_of

from tacit.errors import InvalidArgument
from tacit.features import HOG
from tacit.features.images import direction_votes, gradients, planes_of, tent_windows


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((8, 8), {"cells": 3}),
        ((9, 6), {"cells": 2, "orientations": 4}),
        ((6, 9), {"cells": 2, "orientations": 6, "margin": 0}),
        ((7, 7), {"cells": 4, "orientations": 8, "overlap": 1.0}),
        ((10, 10), {"cells": 2, "orientations": 18, "overlap": 2.5, "margin": 0.2}),
        ((2, 2), {"cells": 1, "margin": 0}),
        ((12, 12), {}),
    ],
    ids=str,
)
def test_it_is_the_definition(shape, options):
    images = np.random.default_rng(4).random((3, *shape)) - 0.2
    ours = HOG(shape, **options).transform(images)
    for image, row in zip(images, ours, strict=True):
        np.testing.assert_allclose(row, hog(image, **options), atol=2e-4)


@settings(max_examples=200, deadline=None)
@given(st.floats(-1, 1), st.floats(-1, 1), st.sampled_from([4, 6, 8, 12, 20]))
def test_votes_put_the_gradient_together_again(down, across, orientations):
    # A plane with this gradient; its middle pixel sees differences over two pixels.
    y, x = np.indices((3, 3)) - 1.0
    planes = (down * y + across * x)[..., None].astype(np.float32) / 2
    votes = np.array([v[1, 1, 0].copy() for v in direction_votes(planes, orientations)])
    angles = np.arange(orientations) * 2 * math.pi / orientations
    assert (votes >= 0).all()
    assert np.count_nonzero(votes > 1e-6) <= 2
    assert votes @ np.cos(angles) == pytest.approx(across, abs=1e-5)
    assert votes @ np.sin(angles) == pytest.approx(down, abs=1e-5)
    np.testing.assert_allclose(votes, votes_of(down, across, orientations), atol=1e-5)


def test_gradients_are_numpys():
    planes = np.random.default_rng(0).random((5, 6, 4), dtype=np.float32)
    down, across = gradients(planes)
    twice = np.full(5, 2.0)
    twice[[0, -1]] = 1  # NumPy divides by the distance; at the border that is one pixel
    np.testing.assert_allclose(down, np.gradient(planes, axis=0) * twice[:, None, None], rtol=1e-5)
    twice = np.full(6, 2.0)
    twice[[0, -1]] = 1
    np.testing.assert_allclose(across, np.gradient(planes, axis=1) * twice[:, None], rtol=1e-5)


@pytest.mark.parametrize(("size", "cells"), [(28, 8), (16, 5), (7, 7)])
def test_windows_are_tents_around_evenly_spaced_cells(size, cells):
    windows = tent_windows(size, cells, overlap=1.5, margin=1 / 14)
    expected = [
        [tent(k, cell, size, cells, 1.5, 1 / 14) for k in range(size)] for cell in range(cells)
    ]
    np.testing.assert_allclose(windows, expected, atol=1e-12)
    np.testing.assert_allclose(windows, windows[::-1, ::-1], atol=1e-12)


def test_bilinear_cells_without_margin_count_every_inner_pixel_once():
    windows = tent_windows(24, 6, overlap=1.0, margin=0)
    np.testing.assert_allclose(windows.sum(axis=0)[2:-2], 1)


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_turning_the_image_turns_directions_and_cells(turns):
    options = {"cells": 3, "orientations": 8}
    image = np.random.default_rng(6).random((9, 9))
    still, turned = (
        HOG((9, 9), **options).transform(each[None]).reshape(8, 3, 3)
        for each in (image, np.rot90(image, turns))
    )
    expected = np.rot90(np.roll(still, -2 * turns, axis=0), turns, axes=(1, 2))
    np.testing.assert_allclose(turned, expected, atol=1e-4)


def test_a_negative_has_the_opposite_directions():
    image = np.random.default_rng(7).random((8, 8))
    positive, negative = (
        HOG((8, 8), cells=2).transform(np.stack([image, 1 - image]) + 1).reshape(2, 12, 4)
    )
    np.testing.assert_allclose(negative, np.roll(positive, 6, axis=0), atol=0.02)


def test_rows_have_unit_length_and_no_negative_feature():
    images = np.random.default_rng(9).random((40, 10, 10))
    features = HOG((10, 10)).transform(images)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-5)
    assert (features >= 0).all()


def test_a_grey_image_has_no_gradient_even_at_its_border():
    assert not HOG((8, 8), cells=2).transform(np.full((1, 8, 8), 0.7)).any()


def test_brightness_added_everywhere_changes_no_histogram():
    image = np.random.default_rng(1).random((8, 8))
    np.testing.assert_allclose(
        histograms_of(image, 2, 4, 1.0, 0.0), histograms_of(image + 3, 2, 4, 1.0, 0.0), atol=1e-9
    )
    planes = [planes_of(each.reshape(1, -1), (8, 8)) for each in (image, image + 3)]
    votes = [np.array([v.copy() for v in direction_votes(p, 4)]) for p in planes]
    ratio = (image.max() + 3) / image.max()  # each image is scaled by its own brightest pixel
    np.testing.assert_allclose(votes[0], votes[1] * ratio, atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"cells": 0},
        {"cells": 2.0},
        {"cells": 40, "overlap": 0.1},
        {"orientations": 2},
        {"orientations": 7},
        {"orientations": "8"},
        {"overlap": 0},
        {"overlap": float("inf")},
        {"margin": -0.1},
        {"margin": 0.5},
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused_at_fit_not_before(options):
    transformer = HOG((8, 8), **options)
    name = next(iter(options))
    with pytest.raises(InvalidArgument, match=f"^Expected {name}="):
        transformer.fit(np.zeros((1, 64)))
