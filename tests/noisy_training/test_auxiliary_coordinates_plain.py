"""The benchmark's MAC without privacy and the library's sums of DP-MAC are one method."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.plain_mac import PlainMac
from tacit.noisy_training.auxiliary_coordinates import AuxiliaryCoordinates, LayerParts
from tacit.noisy_training.clipped_sums import Blocks
from tacit.noisy_training.examples import PrivateExamples


@pytest.mark.parametrize("loss", ["squares", "binary"])
def test_gradients_agree_where_nothing_is_clipped(loss):
    generator = np.random.default_rng(0)
    widths = (6, 5, 4, 3)
    rows = generator.normal(size=(12, 6))
    targets = generator.integers(2, size=(12, 3)) if loss == "binary" else rows[:, :3]
    plain = PlainMac(widths, rows, targets, z_rate=1e-2)
    network = AuxiliaryCoordinates(widths, loss=loss, activation="relu", rate=1e-2)
    clip = 1e6
    blocks = Blocks.cut(network.sizes, clip=clip, clipping="per-layer", split="equal")
    parts = LayerParts(network, PrivateExamples(rows, targets), blocks, [clip] * 3)
    parts.load(
        np.concatenate(
            [np.append(w[:, :-1].numpy().ravel(), w[:, -1].numpy()) for w in plain.weights]
        )
    )
    expected = np.concatenate(
        [np.append(g[:, :-1].numpy().ravel(), g[:, -1].numpy()) for g in plain.gradients()]
    )
    found = parts.sums(np.arange(12)) * clip * np.sqrt(3)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
