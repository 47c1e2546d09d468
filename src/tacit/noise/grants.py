"""Noise on loan: what an open grant of a ledger lends to a mechanism, and the check at its door.

docs/architecture.md#ledger and #noise: a mechanism draws only when the cost of its
release is on disk. The ledger makes a `GrantedNoise` after it has written the entry and closes it
when the block ends; `admit` refuses everything else, except `InsecureNoise`, which marks what it
makes.
"""

from __future__ import annotations

from typing import Any, NoReturn, final

from numpy.typing import ArrayLike

from tacit._checks import Floats, Integers, refuse
from tacit.errors import GrantError, UnlicensedNoise
from tacit.noise.sources import Bits, InsecureNoise, SecureNoise, Size, process_mark


@final
class GrantedNoise:
    """The noise of one open grant: a source, and the hash of the ledger entry that paid for it.

    Made by a ledger, in `with ledger.release(plan) as grant`. Once closed it never draws again, and
    it draws only in the process that opened it: after a fork, one entry would pay for two releases.

    >>> noise = GrantedNoise(SecureNoise(), entry="5e1f")
    >>> noise.gaussian(sigma=40.0, size=3).shape
    (3,)
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
        self.__mark = process_mark()

    @property
    def entry(self) -> str:
        """The hash of the ledger entry that paid for this noise."""
        return self.__entry

    @property
    def secure(self) -> bool:
        """Whether nobody can repeat this noise."""
        return self.__secure

    def close(self) -> None:
        """End the loan: every draw from now on raises GrantError. Closing twice is harmless."""
        self.__source = None

    def _opened(self) -> SecureNoise | InsecureNoise:
        """Return the source behind an open grant; raise GrantError for any other."""
        source = self.__source
        if source is None:
            problem = "is closed"
        elif self.__mark != process_mark():
            problem = "belongs to another process"
        else:
            return source
        raise GrantError(
            f"Expected an open grant: the grant of entry {self.__entry!r} {problem}; ask the "
            f"ledger for a new one with `with ledger.release(plan) as grant`."
        )

    def gaussian(self, sigma: ArrayLike, size: Size) -> Floats:
        """Draw continuous Gaussians: see `SecureNoise.gaussian`."""
        return self._opened().gaussian(sigma, size)

    def laplace(self, scale: ArrayLike, size: Size) -> Floats:
        """Draw Laplace variates: see `SecureNoise.laplace`."""
        return self._opened().laplace(scale, size)

    def rounded_gaussian(self, sigma: ArrayLike, grid: float, size: Size) -> Floats:
        """Draw exactly rounded Gaussians: see `SecureNoise.rounded_gaussian`."""
        return self._opened().rounded_gaussian(sigma, grid, size)

    def rounded_gaussian_steps(self, sigma: ArrayLike, grid: float, size: Size) -> Integers:
        """Draw exactly rounded Gaussians in steps: see `SecureNoise.rounded_gaussian_steps`."""
        return self._opened().rounded_gaussian_steps(sigma, grid, size)

    def bernoulli(self, probability: float, size: Size) -> Bits:
        """Draw exact Bernoulli bits: see `SecureNoise.bernoulli`."""
        return self._opened().bernoulli(probability, size)

    def poisson_mask(self, rate: float, size: Size) -> Bits:
        """Draw a Poisson sample: see `SecureNoise.poisson_mask`."""
        return self._opened().poisson_mask(rate, size)

    def geometric(self, rate: float, size: Size) -> Integers:
        """Draw geometric skips: see `SecureNoise.geometric`."""
        return self._opened().geometric(rate, size)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "Expected GrantedNoise to stay where it is: a copy would outlive its grant; "
            "ask the ledger for a new grant instead."
        )

    def __repr__(self) -> str:
        state = "closed" if self.__source is None else "open"
        return f"GrantedNoise(entry={self.__entry!r}, secure={self.__secure}, {state})"


def admit(noise: object) -> str | None:
    """Check the noise that a mechanism was given; return the hash of the entry that paid for it.

    The hash for the open noise of a grant; None for `InsecureNoise`, whose release is marked
    insecure. Anything else raises: nothing is released that no ledger has paid for. A mechanism
    asks before it reads an answer, so that a refusal tells nothing of them.

    >>> admit(GrantedNoise(SecureNoise(), entry="5e1f"))
    '5e1f'
    >>> admit(InsecureNoise(seed=1)) is None
    True
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
