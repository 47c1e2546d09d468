"""Overlap and distances against brute force and MONAI, and what empty masks mean."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.masks import generated_volumes, organ_dice
from tacit.masks.results import dice_scores, surface_distances


def plain_surface(mask):
    """Voxels with a face neighbour outside, or at the border, one by one."""
    found = []
    for place in np.argwhere(mask):
        for axis in range(mask.ndim):
            for step in (-1, 1):
                there = place.copy()
                there[axis] += step
                inside = 0 <= there[axis] < mask.shape[axis]
                if not inside or not mask[tuple(there)]:
                    found.append(tuple(place))
    return np.array(sorted(set(found)), dtype=float)


def plain_distances(a, b, spacing):
    points = [plain_surface(m) * spacing for m in (a, b)]
    table = np.sqrt(((points[0][:, None] - points[1]) ** 2).sum(axis=2))
    there, back = table.min(axis=1), table.min(axis=0)
    far = max(np.percentile(there, 95), np.percentile(back, 95))
    return np.concatenate([there, back]).mean(), far


class TestDice:
    def test_by_hand(self):
        a = np.array([[[1, 1, 0], [2, 0, 0]]])
        b = np.array([[[1, 0, 0], [2, 2, 2]]])
        np.testing.assert_allclose(dice_scores(a, b, n_classes=3), [[2 / 3, 1 / 2]])
        np.testing.assert_allclose(organ_dice(a, b), [2 * 2 / (3 + 4)])

    def test_sets_of_voxels(self):
        rng = np.random.default_rng(0)
        a, b = rng.integers(0, 3, (2, 4, 5, 6, 7))
        ours = dice_scores(a, b, n_classes=3)
        for i in range(4):
            for c in (1, 2):
                p, q = ({*map(tuple, np.argwhere(x[i] == c))} for x in (a, b))
                assert ours[i, c - 1] == pytest.approx(2 * len(p & q) / (len(p) + len(q)))

    def test_empty_masks(self):
        none, some = np.zeros((1, 3, 3), int), np.eye(3, dtype=int)[None]
        assert dice_scores(none, none, n_classes=2).tolist() == [[1.0]]
        assert dice_scores(none, some, n_classes=2).tolist() == [[0.0]]
        average, _ = surface_distances(none, none, n_classes=2)
        assert average.tolist() == [[0.0]]
        for pair in ((none, some), (some, none)):
            average, far = surface_distances(*pair, n_classes=2)
            assert average.tolist() == far.tolist() == [[np.inf]]


class TestSurfaces:
    @pytest.mark.parametrize(
        ("shape", "spacing"), [((14, 15), (0.5, 2.0)), ((9, 10, 8), (1.0, 0.7, 3.0))]
    )
    def test_every_pair_of_points(self, shape, spacing):
        masks = np.stack(generated_volumes(2, shape, n_classes=3, seed=9).masks)
        average, far = surface_distances(masks[:1], masks[1:], n_classes=3, spacing=spacing)
        for c in (1, 2):
            expected = plain_distances(masks[0] == c, masks[1] == c, spacing)
            assert (average[0, c - 1], far[0, c - 1]) == pytest.approx(expected)

    def test_monai_agrees(self):
        pytest.importorskip("monai")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torch
            from monai.metrics import compute_hausdorff_distance

            masks = np.stack(generated_volumes(2, (12, 12, 12), seed=2).masks)
            hot = [torch.from_numpy(np.stack([m == 0, m == 1])[None]).float() for m in masks]
            theirs = compute_hausdorff_distance(*hot, percentile=95, spacing=(1.0, 2.0, 1.5))
        _, ours = surface_distances(masks[:1], masks[1:], n_classes=2, spacing=(1.0, 2.0, 1.5))
        assert float(ours[0, 0]) == pytest.approx(float(theirs[0, 0]), rel=1e-4)


@pytest.mark.parametrize(
    ("a", "b", "options"),
    [
        (np.zeros((1, 3)), np.zeros((1, 3), int), {}),
        (np.full((1, 3), 2), np.zeros((1, 3), int), {}),
        (np.zeros((1, 3), int), np.zeros((1, 4), int), {}),
        (np.zeros((1, 3), int), np.zeros((1, 3), int), {"spacing": (1, 1)}),
        (np.zeros((1, 3), int), np.zeros((1, 3), int), {"spacing": (0,)}),
    ],
)
def test_what_is_no_mask_is_refused(a, b, options):
    with pytest.raises(InvalidArgument):
        surface_distances(a, b, n_classes=2, **options)
