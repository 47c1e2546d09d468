"""Pictures of masks over scans: the right slice, the right colours, and no more than asked."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.masks import mask_figure
from tacit.report import COLOURS


def example():
    scan = np.arange(5 * 6 * 4, dtype=float).reshape(5, 6, 4)
    mask = np.zeros((5, 6, 4), int)
    mask[1:3, 1:4, 2] = 1
    mask[3, 1, 2] = 2
    mask[0, 0, 0] = 1
    return scan, mask


def test_the_slice_with_most_of_the_mask_is_shown():
    scan, mask = example()
    figure = mask_figure([scan], {"released": [mask], "truth": [np.roll(mask, 1, axis=2)]})
    for axes in figure.axes:
        np.testing.assert_array_equal(axes.images[0].get_array(), scan[:, :, 2].T)
    drawn = figure.axes[1].images[1].get_array()
    np.testing.assert_array_equal(drawn[:, :, 3] > 0, mask[:, :, 2].T > 0)
    assert len(figure.axes[0].images) == 1


def test_classes_have_colours_and_names():
    from matplotlib.colors import to_rgb

    scan, mask = example()
    figure = mask_figure([scan], {"released": [mask]}, names=["none", "front", "back"])
    drawn = figure.axes[1].images[1].get_array()
    np.testing.assert_allclose(drawn[1, 1, :3], to_rgb(COLOURS[0]))
    np.testing.assert_allclose(drawn[1, 3, :3], to_rgb(COLOURS[1]))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["front", "back"]


def test_few_rows_of_flat_scans_and_empty_masks():
    flat = [np.zeros((4, 7))] * 9
    figure = mask_figure(flat, {"student": [np.zeros((4, 7), int)] * 9})
    assert len(figure.axes) == 6 * 2
    hollow = mask_figure([np.zeros((4, 7, 5))], {"student": [np.zeros((4, 7, 5), int)]})
    assert hollow.axes[0].images[0].get_array().shape == (7, 4)


@pytest.mark.parametrize(
    ("scans", "masks"),
    [
        ([], {"student": []}),
        ([np.zeros((4, 4))], {}),
        ([np.zeros((4, 4))], {"student": []}),
        ([np.zeros((4, 4))], {"student": [np.zeros((4, 5), int)]}),
        ([np.zeros(4)], {"student": [np.zeros(4, int)]}),
    ],
)
def test_what_does_not_fit_is_refused(scans, masks):
    with pytest.raises(InvalidArgument):
        mask_figure(scans, masks)
