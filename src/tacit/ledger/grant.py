"""A grant: one paid-for use of the only way from secret to public.

It exists only after its entry is on disk, works once, in the process and the block that opened it,
and holds no answers. Whatever goes wrong, the entry stays: what was charged is never refunded.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from tacit._quiet import kind_of, quiet
from tacit.errors import GrantError, InvalidArgument, TacitError
from tacit.ledger.begun_steps import BegunSteps
from tacit.ledger.chain import Entry, canonical
from tacit.mechanisms import Plan, Release
from tacit.noise import GrantedNoise

_CHANGED = "holds a plan that was changed after it was paid for"


class _Unreadable(NamedTuple):
    """Stands for answers that could not be read: the type of the error."""

    why: str


def _read_once(answers: Any) -> Any:
    """Convert answers to an array now: a second conversion might show more than was priced."""
    if isinstance(answers, np.ndarray) or not hasattr(answers, "__array__"):
        return answers
    try:
        return np.asarray(answers)
    except BaseException as error:
        return _Unreadable(kind_of(error))


_signature = functools.lru_cache(maxsize=64)(inspect.signature)


def _bind(method: Any, *given: Any, **named: Any) -> None:
    """Raise `TypeError` unless the method takes these arguments."""
    if (function := getattr(method, "__func__", None)) is None:
        inspect.signature(method).bind(*given, **named)
    else:
        _signature(function).bind(method.__self__, *given, **named)


@final
class Grant:
    """What `with ledger.release(plan, purpose=…) as grant` yields: `grant.release(answers)`, once.

    It works once, in the process and the block that opened it, and holds no answers. Whatever goes
    wrong, the entry stays charged.

    Parameters
    ----------
    plan : Plan, what was priced
    entry : Entry, the line of the ledger that paid, already on disk
    noise : GrantedNoise, closed by the grant
    steps : BegunSteps, optional, which steps of the plan may be drawn

    Examples
    --------
    >>> import tempfile
    >>> from tacit import Budget, GNMax, Ledger, Plan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/run.ledger", budget=Budget(epsilon=2, delta=1e-5))
    ...     with ledger.release(Plan(GNMax(sigma=40), queries=1), purpose="example") as grant:
    ...         release = grant.release([[900, 50, 50]])
    >>> release.labels.tolist(), release.entry == grant.entry.hash
    ([0], True)
    """

    __slots__ = ("__noise", "__once", "__plan", "__process", "__recorded", "__steps", "entry")

    def __init__(
        self, plan: Plan, entry: Entry, noise: GrantedNoise, steps: BegunSteps | None = None
    ) -> None:
        self.entry = entry
        self.__steps = {} if steps is None else {"steps": steps}
        self.__plan = plan
        self.__recorded = canonical(entry.plan)
        self.__noise = noise
        self.__process = os.getpid()
        self.__once = threading.Lock()

    def release(self, answers: Any, **public: Any) -> Release:
        """Release the answers through the mechanism, once.

        Parameters
        ----------
        answers : array or object
            Secret: what the plan priced. Anything else raises `GrantError`, which quotes none of
            it, and the entry stays.
        **public
            Further, public arguments of the mechanism's `release`.

        Returns
        -------
        Release, public, with the hash of the entry that paid for it
        """
        if self.__process != os.getpid():
            raise self._refusal("belongs to another process")
        # Taken before the answers are read, and never given back: one entry pays for one release.
        if not self.__once.acquire(blocking=False):
            raise self._refusal("was already used, or its block has ended")
        try:
            # Raised here, outside any handler, so that nothing secret hangs on as context.
            with quiet():
                read = _read_once(answers)
                outcome = self._problem(read, public) or self._run(read, public)
            if isinstance(outcome, str):
                raise self._refusal(outcome)
            return outcome
        finally:
            self.close()

    def close(self) -> None:
        """End the grant; the ledger calls this when the block ends."""
        self.__once.acquire(blocking=False)
        self.__noise.close()

    def _problem(self, answers: Any, public: dict[str, Any]) -> str | None:
        """Return why these answers cannot be released under this entry, without quoting them."""
        plan, mechanism = self.__plan, self.__plan.mechanism
        if self._changed():
            return _CHANGED
        if isinstance(answers, _Unreadable):
            return f"got answers that its plan did not price ({answers.why})"
        try:
            _bind(mechanism.release, answers, self.__noise, **self._all(public))
        except TypeError:
            return f"got arguments that {mechanism.name} does not take: {sorted(public)}"
        try:
            plan.accept(answers)
        except InvalidArgument as error:  # by contract its message quotes no answers
            return f"got answers that its plan did not price: {error}"
        except BaseException as error:
            return f"got answers that its plan did not price ({kind_of(error)})"
        return None

    def _run(self, answers: Any, public: dict[str, Any]) -> Release | str:
        """Run the mechanism; a foreign error may quote answers, so only its type is passed on."""
        mechanism = self.__plan.mechanism
        try:
            released = mechanism.release(answers, self.__noise, **self._all(public))
        except TacitError as error:  # by contract its message quotes no answers
            return f"could not be used. {error}"
        except BaseException as error:
            return f"saw {mechanism.name} fail with {kind_of(error)}"
        # Asked again: a mechanism that altered its own noise meanwhile released what nobody priced.
        if self._changed():
            return _CHANGED
        if not isinstance(released, Release) or released.entry != self.entry.hash:
            return f"saw {mechanism.name} return something else than the release of this entry"
        return released

    def _changed(self) -> bool:
        return canonical(self.__plan.as_dict()) != self.__recorded

    def _all(self, public: dict[str, Any]) -> dict[str, Any]:
        return dict(**self.__plan.release_arguments(), **self.__steps, **public)

    def _refusal(self, problem: str) -> GrantError:
        return GrantError(
            f"The grant of entry {self.entry.sequence} {problem.rstrip('.')}. The entry stays "
            "charged; ask the ledger for a new grant."
        )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("Expected a Grant to stay where it is: it cannot be pickled or copied.")

    def __repr__(self) -> str:
        return f"Grant(entry={self.entry.hash!r})"
