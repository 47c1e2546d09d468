"""Predictions from public images: learned from other queries' releases, never from one's own."""

from __future__ import annotations

import numpy as np
import pytest
from blobs import blobs

import tacit.masks.rounds as module
from tacit.errors import InvalidArgument
from tacit.masks import ImageRegression, PCACodec, smooth_by_images, wiener_weights

SHAPE = (16, 16)
COUNT = 40


@pytest.fixture(scope="module")
def lesson(flat):
    """Masks of 40 queries, scans that show them in noise, and scans that show nothing."""
    masks = blobs(COUNT, SHAPE, seed=3)
    rng = np.random.default_rng(4)
    noise = rng.normal(scale=0.7, size=masks.shape)
    codec = PCACodec.fit(flat, blur=0.7, copies=1)
    telling = ImageRegression(3 * masks + noise, codec.mean, n_features=150)
    silent = ImageRegression(noise, codec.mean, n_features=150)
    return masks, codec, telling, silent


def noisy(codec, masks, sigma, seed=0):
    codes = codec.encode(masks)
    return codes, codes + np.random.default_rng(seed).normal(scale=sigma, size=codes.shape)


def test_it_learns_what_the_images_show(lesson):
    masks, codec, telling, _ = lesson
    truth = codec.decode(codec.encode(masks))
    error = np.square(telling.predict(truth) - truth).mean()
    assert error < 0.4 * np.square(codec.mean - truth).mean()


def test_a_prediction_never_uses_its_own_release(lesson):
    masks, codec, telling, _ = lesson
    answers = codec.decode(codec.encode(masks))
    before = telling.predict(answers)
    changed = answers.copy()
    changed[7] += 5.0
    after = telling.predict(changed)
    fold = np.arange(COUNT) % 5 == 7 % 5
    assert np.array_equal(after[fold], before[fold])
    assert not np.allclose(after[~fold], before[~fold])


def test_some_queries_are_predicted_as_if_there_were_no_others(lesson):
    masks, codec, telling, _ = lesson
    answers = codec.decode(codec.encode(masks))
    chosen = np.array([3, 30, 9, 14, 21, 2, 11])
    part = telling.rows(chosen)
    found = part.predict(answers[chosen])
    assert found.shape == (7, *SHAPE)
    assert np.allclose(part.predict(answers[chosen]), found)
    assert np.allclose(
        part.rows([0, 1, 2]).predict(answers[chosen[:3]]),
        telling.rows(chosen[:3]).predict(answers[chosen[:3]]),
    )


def test_ridge_regression_against_a_plain_solution(lesson):
    masks, codec, telling, _ = lesson
    answers = codec.decode(codec.encode(masks))
    predicted = telling.predict(answers)
    inside = telling._voxels
    train, test = np.arange(COUNT) % 5 != 0, np.arange(COUNT) % 5 == 0
    rows = telling._features[train].reshape(-1, telling._features.shape[2]).astype(np.float64)
    targets = (answers - codec.mean)[train][:, inside].ravel()
    ridge = module._PENALTY * np.square(rows).sum() / rows.shape[1]
    extended = np.concatenate([rows, np.sqrt(ridge) * np.eye(rows.shape[1])])
    wanted = np.concatenate([targets, np.zeros(rows.shape[1])])
    coefficients = np.linalg.lstsq(extended, wanted, rcond=None)[0]
    expected = telling._features[test].astype(np.float64) @ coefficients
    assert np.allclose((predicted - codec.mean)[test][:, inside], expected, atol=2e-3)
    assert np.array_equal(predicted[:, ~inside], np.tile(codec.mean[~inside], (COUNT, 1)))


def test_smoothing_helps_where_images_tell_and_hardly_hurts_elsewhere(lesson):
    masks, codec, telling, silent = lesson
    sigma = 1.0
    ratios = []
    for regression in (telling, silent):
        errors = []
        for seed in range(4):
            codes, releases = noisy(codec, masks, sigma, seed)
            smooth = smooth_by_images(codec, releases, sigma, regression).centres
            shrunk = releases * wiener_weights(codec.spectrum, sigma)
            errors.append([np.square(one - codes).sum() for one in (smooth, shrunk)])
        ratios.append(np.divide(*np.sum(errors, axis=0)))
    assert ratios[0] < 0.75
    assert ratios[1] < 1.08


def test_what_remains_is_what_is_wrong(lesson):
    """The second moments for the next round are those of the actual errors."""
    masks, codec, telling, _ = lesson
    codes, releases = noisy(codec, masks, 1.0)
    found = smooth_by_images(codec, releases, 1.0, telling)
    actual = np.square(found.centres - codes).mean(axis=0)
    assert found.spectrum.sum() == pytest.approx(actual.sum(), rel=0.35)
    assert found.spectrum.sum() < 0.6 * codec.spectrum.sum()


def test_coordinates_that_were_left_out_stay_as_predicted(lesson):
    masks, codec, telling, _ = lesson
    _, releases = noisy(codec, masks, 0.5)
    deviations = np.where(np.arange(codec.length) < 6, 0.5, np.inf)
    releases[:, 6:] = 0
    found = smooth_by_images(codec, releases, deviations, telling)
    predicted = codec.coordinates(found.predicted)
    assert np.allclose(found.centres[:, 6:], predicted[:, 6:])
    assert not np.allclose(found.centres[:, :6], predicted[:, :6])
    assert np.allclose(codec.coordinates(found.answers), found.centres)


def test_one_query_alone_is_the_mean(lesson):
    masks, codec, telling, _ = lesson
    alone = telling.rows([4]).predict(masks[4:5])
    assert np.array_equal(alone, codec.mean[None])


def test_channels_are_predicted_each(deep):
    two = np.stack([deep, 1 - deep], axis=1)
    regression = ImageRegression(deep, two.mean(axis=0), n_features=60)
    predicted = regression.predict(two)
    assert np.allclose(predicted.sum(axis=1), 1, atol=1e-3)
    assert np.square(predicted - two).mean() < 0.3 * np.square(two.mean(axis=0) - two).mean()


def test_wrong_shapes_and_too_large_images_are_refused(lesson, monkeypatch):
    masks, codec, telling, _ = lesson
    with pytest.raises(InvalidArgument):
        telling.predict(masks[:3])
    with pytest.raises(InvalidArgument):
        ImageRegression(masks[:, :8], codec.mean)
    with pytest.raises(InvalidArgument):
        smooth_by_images(codec, np.zeros((COUNT, 3)), 1.0, telling)
    monkeypatch.setattr(module, "_MOST_BYTES", 2**16)
    with pytest.raises(InvalidArgument, match="coarser"):
        ImageRegression(masks, codec.mean)
