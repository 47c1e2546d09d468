"""The one clip of codes: bounded exactly, in integers, whatever the code."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from wild_codes import exact_square, wild

from tacit.mechanisms import GaussianMean
from tacit.mechanisms.codes import (
    Frame,
    bounded_steps,
    certify,
    clip_rows,
    public_frame,
)

RADII = st.floats(1e-6, 1e6)


class TestBound:
    @settings(max_examples=150, deadline=None)
    @given(wild(4, 5), RADII, st.sampled_from([1, 2, 4]), st.data())
    def test_norm_is_bounded_exactly_whatever_the_code(self, codes, radius, joint, data):
        centres = data.draw(hnp.arrays(np.float64, (4, 5), elements=st.floats(-1e3, 1e3)))
        weights = data.draw(hnp.arrays(np.float64, 5, elements=st.floats(1e-3, 1e3)))
        grid = GaussianMean(1.0, radius, 3).grid
        frame = public_frame(centres, weights, (4, 5))
        steps = bounded_steps(codes, frame, radius, grid, joint)
        assert steps.dtype == np.int64
        for bound in steps.reshape(4 // joint, -1):
            assert exact_square(bound) * Fraction(grid) ** 2 <= Fraction(radius) ** 2

    @settings(max_examples=100, deadline=None)
    @given(wild(3, 6), RADII)
    def test_clip_is_the_projection_on_the_ball(self, vectors, radius):
        clipped = clip_rows(vectors, radius)
        for vector, result in zip(vectors, clipped, strict=True):
            if not np.isfinite(vector).all():
                assert not result.any()
                continue
            norm = math.hypot(*(float(one) for one in vector))
            if math.isinf(norm):
                continue
            expected = vector if norm <= radius else vector * (radius / norm)
            assert np.allclose(result, expected, rtol=2e-9, atol=1e-300)

    def test_a_code_that_overflows_is_still_clipped(self):
        clipped = clip_rows(np.full((1, 4), 1.7e308), 2.0)
        assert np.allclose(clipped, 1.0)

    def test_one_bad_number_makes_the_whole_bound_the_centre(self):
        codes = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])
        frame = public_frame(None, None, (3, 2))
        alone = bounded_steps(codes, frame, 100.0, 2.0**-10, 1)
        assert alone[1].tolist() == [0, 0]
        assert alone[2].tolist() == [5 * 1024, 6 * 1024]
        assert not bounded_steps(codes, frame, 100.0, 2.0**-10, 3).any()

    def test_certificate_catches_a_clip_that_is_wrong(self):
        """Were float64 wrong by a factor of two, the bound would hold all the same."""
        steps = np.array([[300, 400, 0], [3, 4, 0]])
        certify(steps, 250.0, 1.0)
        assert exact_square(steps[0]) <= 250**2
        assert steps[1].tolist() == [3, 4, 0]

    @pytest.mark.parametrize(("radius", "kept"), [(1.5, [1, 1]), (1.4, [0, 0]), (0.1, [0, 0])])
    def test_the_limit_is_rounded_down(self, radius, kept):
        """Two squares of 1 fit into 1.5^2 and not into 1.4^2."""
        steps = np.array([[1, 1]])
        certify(steps, radius, 1.0)
        assert steps.tolist() == [kept]

    @pytest.mark.parametrize("length", [10**3, 10**6])
    def test_certificate_finds_nothing_to_do(self, length):
        """The margin of 1e-9 covers float64 even for a million coordinates."""
        vector = np.random.default_rng(0).normal(size=(1, length))
        mechanism = GaussianMean(1e-3, 1.0, 5)
        steps = np.trunc(clip_rows(vector, 1.0) / mechanism.grid).astype(np.int64)
        before = steps.copy()
        certify(steps, 1.0, mechanism.grid)
        assert np.array_equal(steps, before)
        root = math.sqrt(exact_square(steps)) * mechanism.grid
        assert 1 - 1e-5 < root <= 1


def test_frame_returns_to_code_space():
    frame = Frame(np.array([[1.0, 2.0]]), np.array([[2.0, 0.0]]))
    assert frame.back(np.array([[4.0, 4.0]])).tolist() == [[3.0, 2.0]]
