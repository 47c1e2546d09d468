"""The papers on whole masks: what their items compute, and that nothing numbered is left out."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from papers.mask_figures import SliceCodec, cross_entropy
from papers.mask_formulas import longest_code
from papers.mask_schemes import Cell
from papers.mask_setting import CELL, most_steps
from tacit.mechanisms import NoisySteps, Plan

PAGE = Path(__file__).parents[2] / "docs" / "replication" / "masks.md"
NUMBERED = {
    "2020": (
        "Definitions 1 and 2",
        "Proposition 1",
        "Algorithm 1",
        "equation 3",
        "Proposition 2",
        "Algorithm 2",
        "Propositions 3, 4 and 5",
        "Figure 1",
        "Figure 2",
    ),
    "2022": (
        "Algorithm 1",
        "Theorem 1",
        "Theorem 2",
        "Theorem 3",
        "Theorem 4",
        "equation 14",
        "Figure 1",
        "equation 15",
        "Figure 2",
        "Figure 3",
    ),
}


@pytest.mark.parametrize("year", NUMBERED)
def test_every_numbered_item_has_its_heading(year):
    headings = [line for line in PAGE.read_text().splitlines() if line.startswith(f"## {year}: ")]
    for name in NUMBERED[year]:
        assert any(name in heading for heading in headings), name


@pytest.mark.parametrize("seed", range(5))
def test_the_longest_code_against_every_corner(seed):
    """A convex function is largest at a corner of the cube; there are 2^8."""
    matrix = np.random.default_rng(seed).normal(size=(8, 3))
    components = np.linalg.qr(matrix)[0].T
    corners = np.array(list(product((-1, 1), repeat=8)))
    exact = np.linalg.norm(corners @ components.T, axis=1).max()
    low, high = longest_code(components)
    assert low <= exact * (1 + 1e-12)
    assert low >= 0.95 * exact
    assert exact <= high * (1 + 1e-12)


def test_the_papers_setting_has_more_noise_than_a_code_is_long():
    assert pytest.approx(1.0733, abs=1e-4) == CELL.sigma
    assert Cell(100, 50, 8.0).sigma == pytest.approx(0.0849, abs=1e-4)


def test_no_further_step_is_paid_for():
    steps = most_steps(2.0, 0.1)
    costs = [Plan(NoisySteps(2.0, 0.1), count).epsilon(CELL.delta) for count in (steps, steps + 1)]
    assert costs[0] <= CELL.epsilon < costs[1]


class Flat:
    """Codes of slices: two numbers on the unit circle, whatever the slice."""

    length = 2

    def encode(self, answers):
        return np.tile([0.6, 0.8], (len(answers), 1))

    def decode(self, codes):
        return np.repeat(codes[:, :1, None], 3, axis=1) * np.ones((1, 3, 4))


def test_codes_of_slices_share_one_bound():
    codec = SliceCodec(Flat(), slices=5)
    codes = codec.encode(np.zeros((7, 5, 3, 4)))
    assert codes.shape == (7, codec.length)
    np.testing.assert_allclose(np.linalg.norm(codes, axis=1), 1.0)
    decoded = codec.decode(codes)
    assert decoded.shape == (7, 5, 3, 4)
    np.testing.assert_allclose(decoded, 0.6)


def test_cross_entropy_of_a_voxel():
    masks = np.array([[True, False]])
    assert cross_entropy(np.array([[0.5, 0.5]]), masks) == pytest.approx(np.log(2))
    assert cross_entropy(np.array([[1.0, 0.0]]), masks) == pytest.approx(-np.log(0.999))
    assert cross_entropy(np.array([[0.0, 1.0]]), masks) == pytest.approx(-np.log(0.001))
