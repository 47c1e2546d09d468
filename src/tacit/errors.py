"""The one exception tree of tacit.

A message reads "Expected <name>=<value> to be …; do …": the argument, its value, and what to do.
No message ever carries a secret quantity (votes, margins, data-dependent cost, records).
"""

from __future__ import annotations


class TacitError(Exception):
    """Base class of every error that tacit raises on purpose."""


class InvalidArgument(TacitError, ValueError):
    """An argument cannot be used as it is: nothing was spent and nothing was written."""


class WeakSignal(UserWarning):
    """Public numbers, or the releases themselves, predict a weak model."""


class ShiftWarning(WeakSignal):
    """The releases indicate that public inputs do not resemble the private records."""


class MissingExtra(TacitError, ImportError):
    """An optional part of tacit is not installed: install the extra that the message names."""


class BudgetExceeded(TacitError):
    """The ledger refused a release: it would cost more than is left, and nothing was spent."""


class ReleaseLost(TacitError):
    """A release was paid for, and the run was killed before it was stored: it stays spent.

    `--again` pays for it once more, where the ledger has room; a ledger of the run's own has none.
    """


class GrantError(TacitError):
    """A grant was used twice or after its block, or with answers that its plan did not price.

    The entry stays in the ledger: what was charged is never refunded.
    """


class UnlicensedNoise(TacitError):
    """A mechanism was called with noise that no ledger has granted: use `ledger.release(...)`."""


class SecretDisclosure(TacitError):
    """A secret quantity was about to be written where the public could read it."""


class LedgerError(TacitError):
    """The ledger cannot be used: no release happens until this is resolved."""


class LedgerDamaged(LedgerError):
    """The ledger's chain of hashes is broken, cut short or rolled back: do not trust its total."""


class LedgerUnavailable(LedgerError):
    """The ledger file cannot be opened or written (permissions, disk full, lock): nothing spent."""


class TeacherFailed(TacitError):
    """Some teachers could not be trained: the others are checkpointed, and nothing was released.

    Their number is public and fixed, so none may be left out. Repair the cause and run again with
    the same `checkpoint`: only the teachers that failed are trained again.
    """


class RecordsUnread(TacitError):
    """A part of the private records could not be read or added up: it was not released.

    A file changed while it was read, a worker was lost, or a disk is full. Earlier releases stay
    spent; this one cost nothing.
    """


class NotYet(TacitError):
    """Something must happen first: an approval, a quorum, a deadline. Ask again later."""


class Unreachable(TacitError):
    """A server does not answer, or this party's certificate does not let it in."""


class Refused(TacitError):
    """An identity, a signature, a pinned key or a policy does not allow it: nothing was done."""
