"""What every source of noise has in common: shapes, scales, refusals, and the seeded source."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.noise import GrantedNoise, InsecureNoise, Noise, SecureNoise


def sources() -> list[Noise]:
    return [SecureNoise(), InsecureNoise(3), GrantedNoise(SecureNoise(), entry="e")]


every_source = pytest.mark.parametrize("noise", sources(), ids=lambda noise: type(noise).__name__)


@every_source
@pytest.mark.parametrize(
    ("size", "shape"), [(5, (5,)), ((2, 3), (2, 3)), (0, (0,)), ((4, 0), (4, 0)), ((), ())]
)
def test_shapes_and_types(
    noise: Noise, size: int | tuple[int, ...], shape: tuple[int, ...]
) -> None:
    draws = {
        np.float64: [noise.gaussian(2.0, size), noise.laplace(2.0, size)],
        np.int64: [noise.rounded_gaussian_steps(2.0, 0.1, size), noise.geometric(0.5, size)],
        np.bool_: [noise.bernoulli(0.5, size), noise.poisson_mask(0.5, size)],
    }
    for dtype, arrays in draws.items():
        for array in arrays:
            assert isinstance(array, np.ndarray)
            assert array.shape == shape
            assert array.dtype == dtype


@every_source
def test_an_array_of_scales_applies_per_coordinate(noise: Noise) -> None:
    """|x| <= 40 scales always holds, and |x| <= scale / 1e6 for all 16 draws never."""
    scales = np.array([[1.0], [1e15]])
    for draws in (
        noise.gaussian(scales, (2, 16)),
        noise.laplace(scales, (2, 16)),
        noise.rounded_gaussian_steps(scales, 2.0**12, (2, 16)) * 2.0**12,
    ):
        assert np.abs(draws[0]).max() <= 80
        assert 1e9 < np.abs(draws[1]).max() < 1e17


@every_source
@pytest.mark.parametrize(
    "bad", [0, 0.0, -1, math.nan, math.inf, "wide", None, [1.0, -1.0], [1.0, math.nan]]
)
def test_scales_are_refused_by_name(noise: Noise, bad: object) -> None:
    with pytest.raises(InvalidArgument, match="Expected sigma"):
        noise.gaussian(bad, 2)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="Expected scale"):
        noise.laplace(bad, 2)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="Expected sigma"):
        noise.rounded_gaussian_steps(bad, 1.0, 2)  # type: ignore[arg-type]


@every_source
@pytest.mark.parametrize("bad", [0, -0.5, math.nan, math.inf, "fine", None])
def test_grid_is_refused_by_name(noise: Noise, bad: float) -> None:
    with pytest.raises(InvalidArgument, match="Expected grid="):
        noise.rounded_gaussian_steps(1.0, bad, 2)


@every_source
@pytest.mark.parametrize("bad", [-1, 2.5, "3", None, (2, -1), (2, 1.5), True])
def test_size_is_refused_by_name(noise: Noise, bad: int) -> None:
    for draw in (
        lambda: noise.gaussian(1.0, bad),
        lambda: noise.laplace(1.0, bad),
        lambda: noise.rounded_gaussian_steps(1.0, 1.0, bad),
        lambda: noise.bernoulli(0.5, bad),
        lambda: noise.poisson_mask(0.5, bad),
        lambda: noise.geometric(0.5, bad),
    ):
        with pytest.raises(InvalidArgument, match="Expected size="):
            draw()


@every_source
def test_scales_that_do_not_fit_the_size_are_refused(noise: Noise) -> None:
    for shape in ((2,), (1, 3), (3, 1)):
        with pytest.raises(InvalidArgument, match=r"(?s)Expected sigma=.* fits size=\(3,\)"):
            noise.gaussian(np.ones(shape), 3)


@every_source
def test_probabilities_are_refused_by_name(noise: Noise) -> None:
    for bad in (-1e-9, 1 + 1e-9, math.nan, "often", None):
        with pytest.raises(InvalidArgument, match="Expected probability="):
            noise.bernoulli(bad, 2)  # type: ignore[arg-type]
    for bad in (0.0, -0.1, 1.5, math.nan):
        with pytest.raises(InvalidArgument, match="Expected rate="):
            noise.poisson_mask(bad, 2)
    for bad in (0.0, -0.1, 1.5, math.nan, math.inf, "often", None, True, [0.5], 1e-30):
        with pytest.raises(InvalidArgument, match="Expected rate="):
            noise.geometric(bad, 2)  # type: ignore[arg-type]


def test_same_seed_same_noise_and_other_seed_other_noise() -> None:
    def draws(seed: int) -> list[np.ndarray]:
        noise = InsecureNoise(seed)
        return [
            noise.gaussian(3.0, 50),
            noise.laplace(3.0, 50),
            noise.rounded_gaussian_steps(2.0**30, 1.0, 50),
            noise.bernoulli(0.5, 500),
            noise.poisson_mask(0.5, 500),
            noise.geometric(0.5, 500),
        ]

    for first, second, other in zip(draws(5), draws(5), draws(6), strict=True):
        np.testing.assert_array_equal(first, second)
        assert not np.array_equal(first, other)


def test_insecure_noise_says_so_and_cannot_be_relabelled() -> None:
    noise = InsecureNoise(5)
    assert noise.secure is False
    assert repr(noise) == "InsecureNoise(seed=5)"
    with pytest.raises(AttributeError):
        noise.secure = True  # type: ignore[misc]
    assert SecureNoise().secure is True


def test_insecure_noise_may_be_copied() -> None:
    noise = InsecureNoise(5)
    np.testing.assert_array_equal(copy.deepcopy(noise).gaussian(1.0, 5), noise.gaussian(1.0, 5))


@pytest.mark.parametrize("seed", [None, -1, 1.5, "1", True])
def test_seed_must_be_a_whole_number(seed: int) -> None:
    with pytest.raises(InvalidArgument, match="Expected seed="):
        InsecureNoise(seed)
