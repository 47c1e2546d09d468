"""The two sources of noise: `SecureNoise`, which nobody can repeat, and `InsecureNoise`.

docs/architecture.md#noise. Both have one interface, `Noise`, so that a mechanism reads
the same in a test and in earnest; only the secure one may stand behind a release that is published
as private. Noise that repeats is noise that can be subtracted: hence no seed, a fresh key in every
process, and no copies.
"""

from __future__ import annotations

import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from randomgen import ChaCha

from tacit._checks import (
    Floats,
    Integers,
    at_least,
    finite,
    finite_array,
    positive,
    refuse,
    sampling_rate,
)
from tacit.noise import exact, waiting

Bits = NDArray[np.bool_]
Size = int | tuple[int, ...]
_T = TypeVar("_T")

_KEY_BYTES = 32
_CHACHA_ROUNDS = 20


class Noise(Protocol):
    """What a mechanism may ask of its noise; scales are numbers or arrays that fit `size`."""

    @property
    def secure(self) -> bool:
        """Whether nobody, the caller included, can repeat this noise."""

    def gaussian(self, sigma: ArrayLike, size: Size) -> Floats:
        """Draw continuous Gaussians of mean 0 and standard deviation sigma."""

    def laplace(self, scale: ArrayLike, size: Size) -> Floats:
        """Draw Laplace variates of mean 0, with density exp(-|x| / scale) / (2 scale)."""

    def rounded_gaussian(self, sigma: ArrayLike, grid: float, size: Size) -> Floats:
        """Draw Gaussians that are rounded to the nearest multiple of grid, exactly."""

    def rounded_gaussian_steps(self, sigma: ArrayLike, grid: float, size: Size) -> Integers:
        """Draw the same as `rounded_gaussian`, counted in steps of the grid."""

    def bernoulli(self, probability: float, size: Size) -> Bits:
        """Draw bits that are True with exactly the given probability."""

    def poisson_mask(self, rate: float, size: Size) -> Bits:
        """Draw who takes part when everyone does so independently with the given rate."""

    def geometric(self, rate: float, size: Size) -> Integers:
        """Draw how many do not take part before the next one who does."""


class _Sampler(ABC):
    """All draws, written once in terms of a NumPy generator that a source provides."""

    __slots__ = ()

    @abstractmethod
    def _draw(self, draw: Callable[[np.random.Generator], _T]) -> _T:
        """Call `draw` with this source's generator; no two calls see the same stretch of it."""

    def _words(self, count: int) -> exact.Words:
        return self._draw(lambda generator: generator.bit_generator.random_raw(count))

    def gaussian(self, sigma: ArrayLike, size: Size) -> Floats:
        """Draw continuous Gaussians: density exp(-x^2 / (2 sigma^2)), in float64.

        For an index or a bit that is released (docs/theory/gaussian.md#exact-noise). A released
        *number* needs `rounded_gaussian`: the low bits of a float64 sum betray its summands.

        >>> InsecureNoise(seed=1).gaussian(sigma=40.0, size=(2, 3)).shape
        (2, 3)
        """
        shape = _shape(size)
        scales = _scales(shape, sigma=sigma)
        draws = self._draw(lambda generator: generator.standard_normal(shape))
        draws *= scales
        return draws

    def laplace(self, scale: ArrayLike, size: Size) -> Floats:
        """Draw Laplace variates: density exp(-|x| / scale) / (2 scale), in float64.

        >>> InsecureNoise(seed=1).laplace(scale=20.0, size=5).shape
        (5,)
        """
        shape = _shape(size)
        scales = _scales(shape, scale=scale)
        draws = self._draw(lambda generator: generator.laplace(0.0, 1.0, shape))
        draws *= scales
        return draws

    def rounded_gaussian(self, sigma: ArrayLike, grid: float, size: Size) -> Floats:
        """Draw Gaussians rounded to the nearest multiple of grid: exact multiples, exact law.

        P(k grid) = Phi((k + 1/2) grid / sigma) - Phi((k - 1/2) grid / sigma); rounding is
        post-processing, so the cost is that of the continuous Gaussian. sigma / grid must lie
        between 2^-20 and 2^40, and float64 must hold the multiples of grid exactly (a power of
        two does; 0.1 does not and is refused). Why it is exact: `tacit.noise.exact.rounded_steps`.

        >>> noise = InsecureNoise(seed=1).rounded_gaussian(sigma=3.0, grid=0.25, size=4)
        >>> bool((noise % 0.25 == 0).all())
        True
        """
        scales = _scales(_shape(size), sigma=sigma)
        exact.check_ratio(scales, positive(grid=grid))
        exact.check_multiples(scales, positive(grid=grid))
        draws = self.rounded_gaussian_steps(sigma, grid, size).astype(np.float64)
        draws *= float(grid)
        return draws

    def rounded_gaussian_steps(self, sigma: ArrayLike, grid: float, size: Size) -> Integers:
        """Draw Gaussians rounded to the grid as whole numbers k of steps, for any grid.

        The law is that of `rounded_gaussian`. Add k to an answer that is counted in steps too, and
        multiply by the grid last: then no float64 rounding can depend on the answer. |k| stays
        below 2^46 (64 sigma at the largest sigma / grid) but for a probability below 2^-2900.

        >>> InsecureNoise(seed=1).rounded_gaussian_steps(sigma=3.0, grid=0.1, size=4).dtype
        dtype('int64')
        """
        shape = _shape(size)
        scales = _scales(shape, sigma=sigma)
        step = positive(grid=grid)
        exact.check_ratio(scales, step)
        per_draw = np.broadcast_to(scales, shape).reshape(-1)
        return exact.rounded_steps(self._words, per_draw, step).reshape(shape)

    def bernoulli(self, probability: float, size: Size) -> Bits:
        """Draw bits that are True with exactly the given float64 probability, in [0, 1].

        >>> InsecureNoise(seed=1).bernoulli(probability=1.0, size=3)
        array([ True,  True,  True])
        """
        shape = _shape(size)
        chance = finite(probability=probability)
        if not 0.0 <= chance <= 1.0:
            raise refuse("probability", probability, "in [0, 1]")
        return exact.bernoulli(self._words, chance, math.prod(shape)).reshape(shape)

    def poisson_mask(self, rate: float, size: Size) -> Bits:
        """Draw a Poisson sample: each unit takes part independently with exactly this rate.

        The mask is secret: amplification by subsampling holds only while nobody learns
        who took part.

        >>> InsecureNoise(seed=1).poisson_mask(rate=0.01, size=60_000).shape
        (60000,)
        """
        return self.bernoulli(sampling_rate(rate=rate), size)

    def geometric(self, rate: float, size: Size) -> Integers:
        """Draw geometric skips: how many are left out before the next one takes part, exactly.

        P(g) = (1 - rate)^g rate for g = 0, 1, 2, ... and the very float64 value of the rate, which
        must lie in [2^-50, 1]. Cumulative sums walk through a Poisson sample without a coin for
        everyone; the draws are as secret as the mask. Why it is exact:
        `tacit.noise.waiting.geometric`.

        >>> InsecureNoise(seed=1).geometric(rate=1.0, size=3)
        array([0, 0, 0])
        """
        shape = _shape(size)
        chance = sampling_rate(rate=rate)
        waiting.check_rate(rate=chance)
        return waiting.geometric(self._words, chance, math.prod(shape)).reshape(shape)


def _shape(size: Size) -> tuple[int, ...]:
    if isinstance(size, tuple):
        return tuple(at_least(0, size=length) for length in size)
    return (at_least(0, size=size),)


def _scales(shape: tuple[int, ...], **named: ArrayLike) -> Floats:
    """Return a scale as a positive array that broadcasts to the shape."""
    ((name, value),) = named.items()
    if np.ndim(value) == 0:
        return np.asarray(positive(**named))
    scales = finite_array(**named)
    if (scales <= 0).any():
        raise refuse(name, value, "finite numbers > 0")
    try:
        np.broadcast_to(scales, shape)
    except ValueError:
        raise refuse(name, value, f"a number or an array that fits size={shape}") from None
    return scales


_forks = 0


def _count_fork() -> None:
    global _forks  # noqa: PLW0603 - a process has one history of forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def process_mark() -> tuple[int, int]:
    """Tell this process from its parent: forks that Python saw, and the id for those it did not.

    >>> process_mark() == process_mark()
    True
    """
    return _forks, os.getpid()


class _Stream(NamedTuple):
    """A keyed generator, the process that it belongs to, and the lock around it."""

    mark: tuple[int, int]
    generator: np.random.Generator
    lock: AbstractContextManager[bool]


def _new_stream() -> _Stream:
    key = np.frombuffer(os.urandom(_KEY_BYTES), dtype=np.uint64)
    generator = np.random.Generator(ChaCha(key=key, rounds=_CHACHA_ROUNDS))
    return _Stream(process_mark(), generator, threading.RLock())


@final
class SecureNoise(_Sampler):
    """Noise that nobody can repeat: ChaCha20 under a 256-bit key from the operating system.

    There is no seed. After a fork the child takes a key of its own (the common generators would
    repeat the parent's noise, and two equal noises subtract to nothing). It cannot be pickled or
    copied, and draws of several threads never overlap. It does not notice that a virtual machine
    was restored from a snapshot: make a new one after that. A mechanism does not take it as it is;
    it comes with a grant: `with ledger.release(plan) as grant`.

    >>> noise = SecureNoise()
    >>> noise
    SecureNoise()
    >>> noise.secure
    True
    >>> noise.rounded_gaussian(sigma=40.0, grid=1.0, size=3).shape
    (3,)
    """

    __slots__ = ("__stream",)

    def __init__(self) -> None:
        self.__stream = _new_stream()

    @property
    def secure(self) -> bool:
        """True: nobody can repeat this noise."""
        return True

    def _draw(self, draw: Callable[[np.random.Generator], _T]) -> _T:
        stream = self.__stream
        if stream.mark != process_mark():
            # Threads that notice together each take a key: no harm, every key is secret and new.
            # The lock is new too: whoever held the old one did not survive the fork.
            stream = self.__stream = _new_stream()
        with stream.lock:
            return draw(stream.generator)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "Expected SecureNoise to stay where it is: a pickle or a copy would repeat its noise; "
            "make a new SecureNoise() instead."
        )

    def __repr__(self) -> str:
        return "SecureNoise()"


class InsecureNoise(_Sampler):
    """Noise with a seed, for tests and research; what is made with it says "insecure-seeded".

    Whoever knows or guesses the seed can subtract the noise: there is no privacy.

    >>> bool((InsecureNoise(7).gaussian(1.0, 5) == InsecureNoise(7).gaussian(1.0, 5)).all())
    True
    >>> InsecureNoise(7).secure
    False
    """

    __slots__ = ("_generator", "_seed")

    def __init__(self, seed: int) -> None:
        self._seed = at_least(0, seed=seed)
        self._generator = np.random.Generator(np.random.PCG64(self._seed))

    @property
    def secure(self) -> bool:
        """False: the seed repeats this noise."""
        return False

    def _draw(self, draw: Callable[[np.random.Generator], _T]) -> _T:
        return draw(self._generator)

    def __repr__(self) -> str:
        return f"InsecureNoise(seed={self._seed})"
