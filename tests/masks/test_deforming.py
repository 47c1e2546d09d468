"""Deformed copies: public masks moved a little, all channels together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import shift as shifted

from tacit.errors import InvalidArgument
from tacit.masks import deformed


def centres(masks: np.ndarray) -> np.ndarray:
    axes = np.indices(masks.shape[1:]).reshape(masks.ndim - 1, -1)
    rows = masks.reshape(len(masks), -1)
    return rows @ axes.T / rows.sum(axis=1, keepdims=True)


def test_without_any_deformation_copies_are_the_masks(deep):
    same = deformed(deep, 2, shift=0, stretch=0, bend=0)
    assert np.allclose(same, np.concatenate([deep, deep]), atol=1e-12)


def test_a_pure_shift_is_a_shift():
    mask = np.zeros((1, 11, 13))
    mask[0, 4:8, 5:9] = 1
    moved = deformed(mask, 1, shift=1.0, stretch=0, bend=0)
    by = (centres(moved) - centres(mask))[0]
    assert 0.1 < np.abs(by).max() < 4
    assert np.allclose(moved[0], shifted(mask[0], by, order=1), atol=1e-9)


def test_sizes_are_in_voxels(flat):
    middles = centres(flat)
    moves = centres(deformed(flat, 3, shift=0.7, stretch=0, bend=0)) - np.tile(middles, (3, 1))
    assert moves.std() == pytest.approx(0.7, rel=0.15)
    stretched = deformed(flat, 3, shift=0, stretch=0.1, bend=0).sum(axis=(1, 2))
    change = np.log(stretched / np.tile(flat.sum(axis=(1, 2)), 3))
    # det(I + E) is about 1 + trace E, whose deviation is 0.1 sqrt(2).
    assert change.std() == pytest.approx(0.1 * np.sqrt(2), rel=0.2)


def test_channels_move_together(deep):
    both = np.stack([deep, deep], axis=1)
    moved = deformed(both, 1, dimensions=3)
    assert np.array_equal(moved[:, 0], moved[:, 1])
    assert not np.allclose(moved[:, 0], deep)


def test_same_seed_same_copies(flat):
    assert np.array_equal(deformed(flat[:5], 1), deformed(flat[:5], 1))
    assert not np.array_equal(deformed(flat[:5], 1), deformed(flat[:5], 1, random_state=1))


@pytest.mark.parametrize("wrong", [{"shift": -1}, {"dimensions": 4}, {"dimensions": 0}])
def test_nonsense_is_refused(flat, wrong):
    with pytest.raises(InvalidArgument):
        deformed(flat[:2], 1, **wrong)
