"""Quantised vectors: short enough, each by itself, and their float32 products exact."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tacit.errors import InvalidArgument
from tacit.neighbours import extended, quantise, questions, ranking


def squared_norms(vectors: np.ndarray) -> np.ndarray:
    whole = vectors.astype(np.int64)
    np.testing.assert_array_equal(whole, vectors)
    return (whole**2).sum(axis=1)


def awkward_rows(dimensions: int) -> np.ndarray:
    """Rows at, near and far beyond the radius 1, of few and of many directions."""
    rng = np.random.default_rng(dimensions)
    rows = rng.standard_normal((400, dimensions))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    lengths = np.concatenate([np.linspace(0.999, 1.001, 200), np.geomspace(1e-9, 1e9, 200)])
    corners = np.vstack([np.eye(dimensions)[:3], -np.ones((3, dimensions))])
    huge = np.vstack([1e308 * corners, 1e-310 * corners, (1 - 2.0**-53) * corners])
    return np.vstack([rows * lengths[:, None], corners, huge, 16 * corners, 16.001 * corners])


@pytest.mark.parametrize("dimensions", [1, 2, 3, 64, 769])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_no_vector_is_longer_than_the_grid_allows(dimensions: int, dtype: type) -> None:
    rows = awkward_rows(dimensions).astype(dtype)
    rows = rows[np.isfinite(rows).all(axis=1)]
    assert squared_norms(quantise(rows, 1.0)).max() <= 2**22
    assert squared_norms(quantise(rows * 1e-3, 1e-3)).max() <= 2**22


def test_rows_within_the_radius_are_rounded_to_the_nearest() -> None:
    rows = np.random.default_rng(1).uniform(-0.5, 0.5, (50, 3))
    expected = [[round(Fraction(x) * 2048) for x in row] for row in rows]
    np.testing.assert_array_equal(quantise(rows, 1.0), expected)


def test_long_rows_keep_their_direction() -> None:
    rows = awkward_rows(5)
    found = quantise(rows, 1.0).astype(np.float64)
    lengths = np.array([math.hypot(*row) for row in rows])
    long = (lengths > 1.01) & np.isfinite(lengths)
    aim = rows[long] / lengths[long, None] * 2048
    assert np.abs(found[long] - aim).max() < 1.1


@pytest.mark.arithmetic
@pytest.mark.parametrize("dimensions", [1, 7, 64])
def test_a_row_depends_on_itself_alone(dimensions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = awkward_rows(dimensions)
    whole = quantise(rows, 1.0)
    shuffle = np.random.default_rng(2).permutation(len(rows))
    np.testing.assert_array_equal(quantise(rows[shuffle], 1.0), whole[shuffle])
    np.testing.assert_array_equal(quantise(np.asfortranarray(rows), 1.0), whole)
    np.testing.assert_array_equal(quantise(rows[5::7], 1.0), whole[5::7])
    np.testing.assert_array_equal(np.vstack([quantise(row[None], 1.0) for row in rows]), whole)
    monkeypatch.setattr(ranking, "BLOCK_NUMBERS", 3 * dimensions)
    np.testing.assert_array_equal(quantise(rows, 1.0), whole)


def worst_pairs(dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of the full length, parallel and opposite ones among them: the largest sums."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((300, dimensions)) * 100
    rows[:20] = 100 * np.sign(rows[:20])
    rows[20:24] = 0
    rows[20:24, 0] = (5, -5, 1, 1)
    return rows, np.vstack([rows[:30], -rows[:30]])


@pytest.mark.arithmetic
@pytest.mark.parametrize("dimensions", [1, 3, 64, 768])
def test_products_are_exact_whatever_the_shape_and_the_threads(dimensions: int) -> None:
    rows, asked = worst_pairs(dimensions)
    x, q = quantise(rows, 1.0).astype(np.int64), quantise(asked, 1.0).astype(np.int64)
    exact = (x**2).sum(axis=1) - 2 * q @ x.T
    assert np.abs(exact).max() > 2.9 * 2**22, "the bound of the proof is nearly reached"
    records, queries = extended(rows, 1.0), questions(asked, 1.0)
    for threads in (1, 2):
        with threadpool_limits(threads):
            np.testing.assert_array_equal(queries @ records.T, exact)
            for step in (1, 7, 16, 33):
                for start in (0, 5, 250):
                    part = slice(start, start + step)
                    np.testing.assert_array_equal(queries @ records[part].T, exact[:, part])
                    np.testing.assert_array_equal(queries[3:5] @ records[part].T, exact[3:5, part])


def test_products_of_plain_features_are_not_exact() -> None:
    """What the grid is for: the comparison above would notice a product that rounds."""
    rows, asked = (part.astype(np.float32) for part in worst_pairs(64))
    exact = asked.astype(np.float64) @ rows.astype(np.float64).T
    assert (asked @ rows.T != exact).any()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_features_must_be_finite(bad: float) -> None:
    rows = np.full((3, 2), 0.5)
    rows[1, 1] = bad
    with pytest.raises(InvalidArgument, match="finite numbers only"):
        quantise(rows, 1.0)


@pytest.mark.parametrize(
    "bad", [[1.0, 2.0], 3.0, [[]], [["a"]], [[1j]], [[True]], [[1.0], [1.0, 2.0]]]
)
def test_features_must_be_a_table_of_numbers(bad: object) -> None:
    with pytest.raises(InvalidArgument, match="Expected features to be an array"):
        quantise(bad, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, "1", None])
def test_the_radius_must_be_positive(bad: float) -> None:
    with pytest.raises(InvalidArgument, match="Expected radius="):
        quantise([[1.0]], bad)


def test_extreme_radii_neither_overflow_nor_vanish() -> None:
    for radius in (5e-324, 1e-300, 1e300, 1.7e308):
        assert quantise([[radius, 0.0]], radius).tolist() == [[2048.0, 0.0]]
