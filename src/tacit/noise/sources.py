"""The two sources of noise, and the noise of an open grant, which a mechanism draws from.

Noise that repeats can be subtracted: so `SecureNoise` has no seed, a fresh key in every process,
and no copies. A mechanism draws only after the cost of its release is on disk: the ledger makes a
`GrantedNoise` then, and closes it when the block ends (docs/architecture.md#noise and #ledger).
"""

from __future__ import annotations

import math
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NoReturn, TypeVar, final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
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
from tacit.errors import GrantError, UnlicensedNoise
from tacit.noise import exact

Bits = NDArray[np.bool_]
Size = int | tuple[int, ...]
_T = TypeVar("_T")

_KEY_BYTES = 32
_CHACHA_ROUNDS = 20
_WORDS_OF_A_KEY = 2**27
_WORDS_AT_ONCE = 2**14
_ZEROS = memoryview(bytes(8 * _WORDS_AT_ONCE))


class _Sampler(ABC):
    """All draws, written once in terms of a NumPy generator that a source provides."""

    __slots__ = ()

    @abstractmethod
    def _draw(self, draw: Callable[[np.random.Generator], _T]) -> _T:
        """Call `draw` with this source's generator; no two calls see the same stretch of it."""

    def _words(self, count: int) -> exact.Words:
        return self._draw(lambda generator: generator.bit_generator.random_raw(count))

    def _scaled(self, standard: Callable[..., Floats], size: Size, **named: ArrayLike) -> Floats:
        shape = _shape(size)
        scales = _scales(shape, **named)
        draws = self._draw(lambda generator: standard(generator, size=shape))
        draws *= scales
        return draws

    def gaussian(self, sigma: ArrayLike, size: Size) -> Floats:
        """Draw continuous Gaussians: density exp(-x^2 / (2 sigma^2)), in float64. Secret.

        For an index or a bit that is released (docs/theory/gaussian.md#exact-noise). A released
        *number* needs `rounded_gaussian_steps`: the low bits of a float64 sum betray its summands.
        """
        return self._scaled(np.random.Generator.standard_normal, size, sigma=sigma)

    def laplace(self, scale: ArrayLike, size: Size) -> Floats:
        """Draw Laplace variates: density exp(-|x| / scale) / (2 scale), in float64. Secret.

        As `gaussian`, for an index or a bit that is released.
        """
        return self._scaled(np.random.Generator.laplace, size, scale=scale)

    def rounded_gaussian_steps(self, sigma: ArrayLike, grid: float, size: Size) -> Integers:
        """Draw Gaussians rounded to multiples of grid, as whole numbers k of steps. Secret.

        P(k) = Phi((k + 1/2) grid / sigma) - Phi((k - 1/2) grid / sigma), exactly
        (`tacit.noise.exact.rounded_steps`); rounding is post-processing, so the cost is that of
        the continuous Gaussian. Add k to an answer that is counted in steps too, and multiply by
        the grid last: then no float64 rounding can depend on the answer. sigma / grid lies between
        2^-20 and 2^40; |k| stays below 2^46 (64 sigma at the largest ratio) but for a probability
        below 2^-2900.

        >>> InsecureNoise(seed=1).rounded_gaussian_steps(sigma=3.0, grid=0.1, size=4).dtype
        dtype('int64')
        """
        shape = _shape(size)
        scales = _scales(shape, sigma=sigma)
        step = positive(grid=grid)
        exact.check_ratio(scales, step)
        if scales.ndim > 0:
            scales = np.broadcast_to(scales, shape).reshape(-1)
        count = math.prod(shape)
        return exact.rounded_steps(self._words, scales, step, count).reshape(shape)

    def bernoulli(self, probability: float, size: Size) -> Bits:
        """Draw bits that are True with exactly the given float64 probability, in [0, 1]. Secret.

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

        Secret: amplification by subsampling holds only while the sample stays unknown.
        """
        return self.bernoulli(sampling_rate(rate=rate), size)

    def geometric(self, rate: float, size: Size) -> Integers:
        """Draw geometric skips: how many are left out before the next one takes part, exactly.

        P(g) = (1 - rate)^g rate for the very float64 value of the rate, in [2^-50, 1]
        (`tacit.noise.exact.geometric`). Cumulative sums walk through a Poisson sample without a
        coin for every unit. As secret as the mask.

        >>> InsecureNoise(seed=1).geometric(rate=1.0, size=3)
        array([0, 0, 0])
        """
        shape = _shape(size)
        chance = sampling_rate(rate=rate)
        exact.check_rate(rate=chance)
        return exact.geometric(self._words, chance, math.prod(shape)).reshape(shape)


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


def _process_mark() -> tuple[int, int]:
    """Identify this process: forks that Python saw, and the id for those it did not."""
    return _forks, os.getpid()


class _Keystream:
    """Words of ChaCha20 (RFC 8439) by OpenSSL, an eighth of the time that a NumPy generator takes.

    Each key gives 2^27 words, 1/256 of what its counter of blocks allows; then comes a new one.
    """

    __slots__ = ("_encrypt", "_left")

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        key = os.urandom(_KEY_BYTES)
        cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None)
        self._encrypt = cipher.encryptor().update_into
        self._left = _WORDS_OF_A_KEY

    def words(self, count: int) -> exact.Words:
        drawn = np.empty(count, dtype=np.uint64)
        for start in range(0, count, _WORDS_AT_ONCE):
            part = drawn[start : start + _WORDS_AT_ONCE]
            if part.size > self._left:
                self._renew()
            self._left -= part.size
            if self._encrypt(_ZEROS[: part.nbytes], part.data.cast("B")) != part.nbytes:
                raise AssertionError("Expected a stream of as many bytes as were asked for.")
        return drawn.byteswap(inplace=True) if sys.byteorder == "big" else drawn


class _Stream:
    """Two streams, each with a key of its own on first use, their process, and a lock."""

    def __init__(self) -> None:
        self.mark = _process_mark()
        self.lock = threading.RLock()

    @cached_property
    def keystream(self) -> _Keystream:
        return _Keystream()

    @cached_property
    def generator(self) -> np.random.Generator:
        key = np.frombuffer(os.urandom(_KEY_BYTES), dtype=np.uint64)
        return np.random.Generator(ChaCha(key=key, rounds=_CHACHA_ROUNDS))


@final
class SecureNoise(_Sampler):
    """Noise that cannot be repeated: ChaCha20 under a 256-bit key from the operating system.

    Notes
    -----
    There is no seed. After a fork the child takes a key of its own; it cannot be pickled or
    copied, and draws of several threads never overlap. It does not notice that a virtual machine
    was restored from a snapshot: make a new one after that. A mechanism takes it only with a
    grant: `with ledger.release(plan) as grant`.

    Examples
    --------
    >>> noise = SecureNoise()
    >>> noise, noise.secure, noise.rounded_gaussian_steps(sigma=40.0, grid=1.0, size=3).shape
    (SecureNoise(), True, (3,))
    """

    __slots__ = ("__stream",)
    secure: ClassVar[bool] = True
    """Nobody can repeat this noise."""

    def __init__(self) -> None:
        self.__stream = _Stream()

    def _draw(self, draw: Callable[[np.random.Generator], _T]) -> _T:
        stream = self.__own_stream()
        with stream.lock:
            return draw(stream.generator)

    def _words(self, count: int) -> exact.Words:
        stream = self.__own_stream()
        with stream.lock:
            return stream.keystream.words(count)

    def __own_stream(self) -> _Stream:
        if self.__stream.mark != _process_mark():
            # Threads that notice together each take a key: no harm, every key is secret and new.
            # The lock is new too: whoever held the old one did not survive the fork.
            self.__stream = _Stream()
        return self.__stream

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "Expected SecureNoise to stay where it is: a pickle or a copy would repeat its noise; "
            "make a new SecureNoise() instead."
        )

    def __repr__(self) -> str:
        return "SecureNoise()"


class InsecureNoise(_Sampler):
    """Noise with a seed, for tests and research; what is made with it is marked "insecure-seeded".

    Parameters
    ----------
    seed : int
        At least 0. Whoever knows or guesses it can subtract the noise: there is no privacy.

    Examples
    --------
    >>> bool((InsecureNoise(7).gaussian(1.0, 5) == InsecureNoise(7).gaussian(1.0, 5)).all())
    True
    >>> InsecureNoise(7).secure
    False
    """

    __slots__ = ("_generator", "_seed")
    secure: ClassVar[bool] = False
    """The seed repeats this noise."""

    def __init__(self, seed: int) -> None:
        self._seed = at_least(0, seed=seed)
        self._generator = np.random.Generator(np.random.PCG64(self._seed))

    def _draw(self, draw: Callable[[np.random.Generator], _T]) -> _T:
        return draw(self._generator)

    def __repr__(self) -> str:
        return f"InsecureNoise(seed={self._seed})"


@final
class GrantedNoise:
    """The noise of one open grant: a source, and the hash of the ledger entry that paid for it.

    Parameters
    ----------
    source : SecureNoise or InsecureNoise
        Where the draws come from.
    entry : str
        Hash of the ledger entry that paid, which is already on disk.

    Notes
    -----
    Made by a ledger, in `with ledger.release(plan) as grant`. Once closed it never draws again,
    and it draws only in the process that opened it: after a fork, one entry would pay for two
    releases.

    Examples
    --------
    >>> noise = GrantedNoise(SecureNoise(), entry="5e1f")
    >>> noise.close()
    >>> noise.gaussian(sigma=40.0, size=3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tacit.errors.GrantError: Expected an open grant: the grant of entry '5e1f' is closed; ...
    """

    __slots__ = ("__entry", "__mark", "__secure", "__source")

    def __init__(self, source: SecureNoise | InsecureNoise, entry: str) -> None:
        if type(source) is not SecureNoise and not isinstance(source, InsecureNoise):
            raise refuse("source", source, "a SecureNoise or an InsecureNoise")
        if not isinstance(entry, str) or not entry:
            raise refuse("entry", entry, "the hash of a ledger entry")
        self.__source: SecureNoise | InsecureNoise | None = source
        self.__secure = type(source) is SecureNoise
        self.__entry = entry
        self.__mark = _process_mark()

    @property
    def entry(self) -> str:
        """The hash of the ledger entry that paid for this noise."""
        return self.__entry

    @property
    def secure(self) -> bool:
        """Whether this noise cannot be repeated."""
        return self.__secure

    def close(self) -> None:
        """Close the grant: every later draw raises GrantError. Closing twice is harmless."""
        self.__source = None

    def _opened(self) -> SecureNoise | InsecureNoise:
        """Return the source behind an open grant; raise GrantError for any other."""
        source = self.__source
        if source is None:
            problem = "is closed"
        elif self.__mark != _process_mark():
            problem = "belongs to another process"
        else:
            return source
        raise GrantError(
            f"Expected an open grant: the grant of entry {self.__entry!r} {problem}; ask the "
            f"ledger for a new one with `with ledger.release(plan) as grant`."
        )

    def gaussian(self, sigma: ArrayLike, size: Size) -> Floats:
        """Draw continuous Gaussians, for an index or a bit: see `SecureNoise.gaussian`.

        Parameters
        ----------
        sigma : float or array
            Standard deviation, above 0; an array must fit `size`.
        size : int or tuple of int
            How many, or their shape.

        Returns
        -------
        array of float64, of shape size
            Never for a released number. Secret.
        """
        return self._opened().gaussian(sigma, size)

    def laplace(self, scale: ArrayLike, size: Size) -> Floats:
        """Draw Laplace variates, for an index or a bit: see `SecureNoise.laplace`.

        Parameters
        ----------
        scale, size
            Mean of |x|, above 0 (an array must fit `size`); how many, or their shape.

        Returns
        -------
        array of float64, of shape size
            Never for a released number. Secret.
        """
        return self._opened().laplace(scale, size)

    def rounded_gaussian_steps(self, sigma: ArrayLike, grid: float, size: Size) -> Integers:
        """Draw exactly rounded Gaussians in steps: see `SecureNoise.rounded_gaussian_steps`.

        Parameters
        ----------
        sigma : float or array
            Standard deviation before rounding, from 2^-20 to 2^40 steps; an array must fit `size`.
        grid, size
            Width of one step, above 0; how many, or their shape.

        Returns
        -------
        array of int64, of shape size
            Numbers of steps, to be added to an answer in steps. Secret.
        """
        return self._opened().rounded_gaussian_steps(sigma, grid, size)

    def bernoulli(self, probability: float, size: Size) -> Bits:
        """Draw exact Bernoulli bits: see `SecureNoise.bernoulli`; secret.

        Parameters
        ----------
        probability, size
            In [0, 1], the rational number that the float64 is; how many, or their shape.

        Returns
        -------
        array of bool, of shape size
        """
        return self._opened().bernoulli(probability, size)

    def poisson_mask(self, rate: float, size: Size) -> Bits:
        """Draw a Poisson sample: see `SecureNoise.poisson_mask`.

        Parameters
        ----------
        rate, size
            Above 0 and at most 1; how many units there are, or their shape.

        Returns
        -------
        array of bool, of shape size
            Who takes part. Secret.
        """
        return self._opened().poisson_mask(rate, size)

    def geometric(self, rate: float, size: Size) -> Integers:
        """Draw geometric skips: see `SecureNoise.geometric`.

        Parameters
        ----------
        rate, size
            That of the Poisson sample, in [2^-50, 1]; how many, or their shape.

        Returns
        -------
        array of int64, of shape size
            How many are left out before the next one takes part. Secret.
        """
        return self._opened().geometric(rate, size)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "Expected GrantedNoise to stay where it is: a copy would outlive its grant; "
            "ask the ledger for a new grant instead."
        )

    def __repr__(self) -> str:
        state = "closed" if self.__source is None else "open"
        return f"GrantedNoise(entry={self.__entry!r}, secure={self.__secure}, {state})"


Noise = GrantedNoise | SecureNoise | InsecureNoise
"""What a mechanism may be given; scales are numbers or arrays that fit `size`."""


def admit(noise: object) -> str | None:
    """Check the noise that a mechanism was given; return the hash of the entry that paid for it.

    Parameters
    ----------
    noise : object
        The open noise of a grant, or `InsecureNoise`, whose release is marked insecure. Anything
        else raises: nothing is released that no ledger has paid for.

    Returns
    -------
    str or None
        The entry's hash for the open noise of a grant; None for `InsecureNoise`.

    Notes
    -----
    A mechanism calls it before it reads an answer, so that a refusal reveals nothing of the
    answers.

    Examples
    --------
    >>> admit(GrantedNoise(SecureNoise(), entry="5e1f"))
    '5e1f'
    >>> admit(SecureNoise())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tacit.errors.UnlicensedNoise: Expected the noise of an open grant, got SecureNoise; use ...
    """
    if type(noise) is GrantedNoise:
        noise._opened()
        return noise.entry
    if isinstance(noise, InsecureNoise):
        return None
    raise UnlicensedNoise(
        f"Expected the noise of an open grant, got {type(noise).__name__}; use `with "
        f"ledger.release(plan) as grant` (or InsecureNoise(seed) in tests and research)."
    )
