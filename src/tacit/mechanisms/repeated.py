"""Many independent releases of made-up answers, for audits of what is otherwise released once.

A ledger writes to disk before each release, which takes too long to be done a hundred thousand
times. So an audit of a mechanism that releases one matrix or one number asks for many copies under
one entry, priced as that many releases. Each is drawn as a single one is, by the same method.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidArgument
from tacit.mechanisms.base import Mechanism, Release
from tacit.noise import admit

if TYPE_CHECKING:
    from tacit._checks import Floats
    from tacit.noise import Noise


@dataclass(frozen=True, slots=True)
class MadeUp:
    """Answers that are nobody's, and how many copies of their release are wanted."""

    answers: Any
    copies: int


class Repeated:
    """A mechanism whose `queries` are copies of one release of answers that are `MadeUp`.

    The confidence delta is left out: nobody reads a bound from a copy, and no budget could pay for
    so many. That is why it takes nothing but made-up answers.
    """

    __slots__ = ()

    def _draws(self, answers: Any, noise: Noise, copies: int) -> Floats:
        raise NotImplementedError

    def release(self, answers: MadeUp, noise: Noise) -> Release:
        """Return the copies, `(copies, ...)`."""
        entry = admit(noise)
        values = self._draws(answers.answers, noise, answers.copies)
        made: Any = self  # mixed into a mechanism
        return Release(made, values=values, entry=entry, secure=noise.secure)

    def confidence_delta(self) -> float:
        """0: see above."""
        return 0.0

    def accept(
        self, answers: Any, *, queries: int, n_teachers: int | None, n_classes: int | None
    ) -> None:
        """Raise unless the answers are made up and as many copies are wanted as were priced."""
        if not isinstance(answers, MadeUp) or answers.copies != queries:
            raise InvalidArgument(f"Expected made-up answers in the {queries} copies of the plan.")


def repeated(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism that releases many copies of what this one releases once.

    >>> from tacit import InsecureNoise
    >>> from tacit.mechanisms import NoisySecondMoment
    >>> many = repeated(NoisySecondMoment(sigma=1.0, dimension=2))
    >>> many.release(MadeUp([[1.0, 0.0]], 5), InsecureNoise(0)).values.shape
    (5, 2, 2)
    """
    kind: Any = type(mechanism)
    if not hasattr(kind, "_draws"):
        raise InvalidArgument(f"Expected a mechanism that releases once, got {mechanism.name}.")
    copied: Any = type(kind.__name__, (Repeated, kind), {"__slots__": (), "_draws": kind._draws})
    parameters = {field.name: getattr(mechanism, field.name) for field in fields(kind)}
    made: Mechanism = copied(**parameters)
    return made
