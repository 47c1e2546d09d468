"""The ledger: the only way from secret to public (docs/theory/ledger.md).

A plan is priced in the worst case, refused or written to disk, and only then is noise drawn. What
was spent never goes down, whatever crashes.
"""

from __future__ import annotations

import contextlib
import math
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import accumulate, takewhile
from typing import Any, TypeVar

import numpy as np

from tacit import __version__
from tacit._checks import refuse
from tacit.errors import (
    BudgetExceeded,
    InvalidArgument,
    LedgerDamaged,
    LedgerError,
    LedgerUnavailable,
)
from tacit.ledger.begun_steps import (
    BegunSteps,
    NotedSteps,
    begun_line,
    entry_to_resume,
    notes_of,
)
from tacit.ledger.chain import (
    NOISE_LEVELS,
    Chain,
    Entry,
    at_least,
    canonical,
    checked_faults,
    checked_hash,
    exceeds,
    nearest,
    one_line,
    steps_of,
)
from tacit.ledger.grant import Grant
from tacit.ledger.reading import Seen, Wanted
from tacit.ledger.statement import Statement
from tacit.ledger.store import Store
from tacit.ledger.tally import Tally
from tacit.ledger.terms import (
    Budget,
    Terms,
    best_order,
    confidence_of,
    new_terms,
    requested,
)
from tacit.ledger.warnings import warnings_of
from tacit.mechanisms import Plan
from tacit.noise import GrantedNoise, InsecureNoise, SecureNoise

Found = TypeVar("Found")


class _AlreadyCharged(Exception):
    """A study was charged before."""


class _WentOn(Exception):
    """Another entry was written since."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A ledger at one moment, from one verified read: what a report shows.

    Parameters
    ----------
    statement : Statement, the worst-case statement of all entries
    terms : Terms, fixed when the ledger was created
    header : mapping, as it was written
    entries : tuple of Entry, in order
    genesis : str, hash of the header
    spent : tuple of float, worst-case epsilon after each entry
    total : float, of all entries, in the currency of the ledger's accountant
    """

    statement: Statement
    terms: Terms
    header: Mapping[str, Any]
    entries: tuple[Entry, ...]
    genesis: str
    spent: tuple[float, ...]
    total: float


class Ledger:
    """Privacy accounting of one data set: a budget, and a durable record of every release.

    Parameters
    ----------
    path : path
        The ledger's file. If there is none, it is created, and `budget` is required; if there is
        one, its header decides, and an argument that contradicts it raises `LedgerError`.
    budget : Budget, optional, the most that may ever be spent
    unit : str, optional
        Whose privacy: "record" (default), "person", "teacher", "patient, at most 40 records".
        Neighbouring data sets differ by adding or removing one unit.
    dataset : str, optional, name of the data in statements, which cover this ledger alone
    accountant : str, optional
        "gaussian" (default; Gaussian mechanisms, adds mu^2 exactly), "rdp" (any mechanism, one
        Renyi order), or "fixed" (default where `plans` is given).
    order : float, optional
        For "rdp"; by default the best for a Gaussian that spends exactly the budget.
    plans : sequence of Plan, optional
        For "fixed": the ledger is opened for exactly these plans, in this order, each once. The
        whole list is priced by the tightest accountant and paid for by its first release.
    reserved_delta : float, optional
        The part of delta that pays for confidence bounds (`Plan.confidence_delta`), fixed at the
        start: trading delta against mu^2 later is no valid filter and can reach twice delta.
    n_units : int, optional
        Number of units, if that is public. A delta >= 1/n_units would allow one unit to be
        published in full and is refused, unless `allow_large_delta` is True.
    allow_large_delta : bool, optional
        Accept any delta; every statement then warns of it.

    Examples
    --------
    >>> import tempfile
    >>> from tacit import Budget, GNMax, Ledger, Plan
    >>> plan = Plan(GNMax(sigma=40), queries=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/run.ledger", budget=Budget(epsilon=1.5, delta=1e-5))
    ...     with ledger.release(plan, purpose="label the public scans") as grant:
    ...         labels = grant.release([[200, 40, 10]] * 100)
    ...     round(ledger.spent(), 3), ledger.would_exceed(plan)
    (1.356, True)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        budget: Budget | None = None,
        unit: str | None = None,
        dataset: str | None = None,
        accountant: str | None = None,
        order: float | None = None,
        plans: Sequence[Plan] | None = None,
        reserved_delta: float | None = None,
        n_units: int | None = None,
        allow_large_delta: bool | None = None,
    ) -> None:
        asked = requested(
            budget=budget,
            unit=unit,
            dataset=dataset,
            accountant=accountant,
            order=order,
            plans=plans,
            reserved_delta=reserved_delta,
            n_units=n_units,
            allow_large_delta=allow_large_delta,
        )
        self._store = Store(path)
        if not self._store.exists():
            self._store.create(new_terms(**asked).as_header())
        # Read even what was just created: another process may have been faster, and its terms hold.
        chain = self._store.read_end()
        self._terms = Terms.from_header(chain.header)
        self._terms.agree_with(asked)
        self._accountant = self._terms.make_accountant()
        self._seen = _end_of(chain)

    @property
    def path(self) -> str:
        """Path of the ledger's file."""
        return str(self._store.path)

    @property
    def budget(self) -> Budget:
        """The most that may ever be spent."""
        return self._terms.budget

    @property
    def unit(self) -> str:
        """Whose privacy the ledger counts."""
        return self._terms.unit

    @property
    def dataset(self) -> str:
        """Name of the data."""
        return self._terms.dataset

    @property
    def accountant(self) -> str:
        """The accountant, fixed at creation: "gaussian", "rdp" or "fixed"."""
        return self._terms.accountant

    @property
    def order(self) -> float | None:
        """The Renyi order of accountant "rdp", otherwise None."""
        return self._terms.order

    @property
    def sanitise_order(self) -> float:
        """The one order of sanitised statements: the ledger's own, or the best for its budget.

        It follows from the header: an order chosen after a release would be the best of several
        claims, each of which holds only with its own delta.
        """
        return self._terms.order or best_order(self.budget, self.usable_delta)

    @property
    def reserved_delta(self) -> float:
        """The part of delta that pays for confidence bounds only."""
        return self._terms.reserved_delta

    @property
    def usable_delta(self) -> float:
        """The rest of delta: at which releases are counted."""
        return self._terms.delta

    @property
    def allow_large_delta(self) -> bool:
        """Whether any delta was accepted, whatever the number of units."""
        return self._terms.allow_large_delta

    @property
    def record_rules(self) -> int:
        """Version of the rules by which private records are read: 1 before tacit 0.3."""
        return self._terms.record_rules

    @property
    def head(self) -> str:
        """Hash of the last entry: store it elsewhere, and `verify(head=…)` detects a roll-back."""
        return self._read_end().head

    @property
    def origin(self) -> str:
        """Hash of the header, which identifies this ledger."""
        return self._read_end().genesis

    def __len__(self) -> int:
        return self._read_end().length

    def __bool__(self) -> bool:
        return True  # an empty ledger is still a ledger: `if ledger` asks whether there is one

    def entries(self, since: str | None = None) -> tuple[Entry, ...]:
        """Return the entries in order: `is_paid` tells releases from notes that cost nothing.

        Parameters
        ----------
        since : str, optional
            A head that was read before: only what was appended behind it is read and returned.

        Returns
        -------
        tuple of Entry, as verified by this very read
        """
        if since is None:
            return tuple(self._read().entries)
        seen = self._seen
        chain = self._ours(self._store.read_since(since, seen), seen)
        return tuple(self._held(chain, since).behind(since))

    def spent(self) -> float:
        """Return worst-case epsilon at the budget's delta for all entries, as in the statement.

        It prices these plans as a list (a fixed list in whole from its first release on). If they
        were chosen in the light of earlier releases, the guarantee is the budget: a filter bounds
        the end, not every step before it (docs/theory/ledger.md#what-spent-means).

        Returns
        -------
        float, 0.0 for an empty ledger
        """
        return self._epsilon(self._read_end())

    def remaining(self) -> float:
        """Return budget.epsilon - spent(), at least 0.

        Epsilons do not add, so a plan may fit or not whatever this says: use `would_exceed(plan)`.

        Returns
        -------
        float
        """
        return max(0.0, self.budget.epsilon - self.spent())

    def price(self, *plans: Plan) -> float:
        """Return epsilon that these plans cost alone, as this ledger counts it; nothing is spent.

        Parameters
        ----------
        *plans : Plan, priced together, whatever the ledger has spent

        Returns
        -------
        float
        """
        costs = (self._accountant.cost(_checked(plan), place) for place, plan in enumerate(plans))
        cost = sum(map(steps_of, costs))
        return float(self._accountant.epsilon(at_least(cost))) if plans else 0.0

    def would_exceed(self, *plans: Plan) -> bool:
        """Whether releasing these, one after the other, would raise `BudgetExceeded` now.

        Parameters
        ----------
        *plans : Plan, in the order in which they would be released

        Returns
        -------
        bool
            Nothing is spent. Another process may spend between this answer and a release.
        """
        chain = self._read_end()
        before: list[tuple[float, float]] = []
        try:
            for plan in plans:
                before.append(self._quote(chain, _checked(plan), before))
        except BudgetExceeded:
            return True
        return False

    def release(
        self,
        plan: Plan,
        *,
        purpose: str,
        noise: SecureNoise | InsecureNoise | None = None,
        faults: Sequence[str] = (),
        attempt: str | None = None,
        noted: NotedSteps | None = None,
    ) -> contextlib.AbstractContextManager[Grant]:
        """Pay for a plan, and lend a `Grant` for the block.

        Entering the block appends the entry durably, or raises `BudgetExceeded` with nothing
        written; only then is the noise made. An error or a crash inside the block counts as spent.

        Parameters
        ----------
        plan : Plan, mechanism and number of queries, which alone decide the price
        purpose : str, in one line; public, as all of the entry
        noise : SecureNoise or InsecureNoise, optional
            `SecureNoise()` by default; entry and statement record `InsecureNoise`.
        faults : sequence of str
            Caveats that no cost covers, in the entry and in every later statement. They may follow
            from arguments, never from private rows: a ledger is public.
        attempt : str, optional
            64 random hexadecimal digits by which the caller finds this very entry again.
        noted : NotedSteps, optional
            For a plan of steps: note them as begun before their noise is drawn, so that `resume`
            can draw the others.

        Returns
        -------
        context manager, gives the `Grant` whose `release(answers)` works once, inside the block
        """
        # Whatever can be refused is refused here: once the entry is written, it stays charged.
        _checked(plan)
        if noted is not None and "steps" not in signature(plan.mechanism.release).parameters:
            raise refuse("noted", noted, f"omitted: {plan.mechanism.name} does not go in steps")
        line = {
            "kind": "release",
            "purpose": one_line("purpose", purpose),
            "noise": _noise_level(plan, noise),
            "faults": checked_faults(faults),
            "about": {} if attempt is None else {"attempt": checked_hash(attempt=attempt)},
        }
        return self._granted(plan, line, noise, noted)

    @contextlib.contextmanager
    def _granted(
        self,
        plan: Plan,
        line: Mapping[str, Any],
        noise: SecureNoise | InsecureNoise | None,
        noted: NotedSteps | None,
    ) -> Iterator[Grant]:
        # On disk before noise exists: a crash may lose a release, never the entry that paid for it.
        chain = self._continued(self._priced(plan, line))
        entry = chain.entries[-1]
        steps = None if noted is None else self._begun(entry, plan, 0, noted, _end_of(chain))
        with self._lent(plan, entry, SecureNoise() if noise is None else noise, steps) as grant:
            yield grant

    def _continued(
        self,
        draft: Callable[[Chain], Mapping[str, Any]],
        since: Seen | None = None,
        about: str | None = None,
        study: str | None = None,
    ) -> Chain:
        """Append the line that `draft` makes of the chain's end, and return that end with it.

        It has all lines behind `since` and the entry `about`; the whole chain if `study` may be
        charged.
        """
        seen = self._seen  # before the append: another thread may append meanwhile
        drafted_from: list[Chain] = []

        def drafted(chain: Chain) -> Mapping[str, Any]:
            # Before any price: a chain that was rolled back offers again what has been spent.
            self._check_is_ours(chain, seen)
            drafted_from.append(chain)
            return draft(chain)

        wanted = Wanted(seen, since, () if about is None else (about,))
        self._store.append(drafted, wanted, study=study)
        if not drafted_from:  # a store that says nothing has not kept anything either
            raise LedgerUnavailable("The ledger did not take the entry. Nothing was released.")
        chain = drafted_from[0]  # which the store has continued with the entry
        self._seen = _end_of(chain)
        return chain

    @contextlib.contextmanager
    def _lent(
        self,
        plan: Plan,
        entry: Entry,
        source: SecureNoise | InsecureNoise,
        steps: BegunSteps | None,
    ) -> Iterator[Grant]:
        grant = Grant(plan, entry, GrantedNoise(source, entry.hash), steps)
        try:
            yield grant
        finally:
            # After an error, too: it may have come when half of the release was already seen.
            grant.close()

    @contextlib.contextmanager
    def resume(self, entry: str, plan: Plan, noted: NotedSteps) -> Iterator[Grant]:
        """Lend a grant for the steps of a paid release that were never begun; it costs nothing.

        What was begun and not stored is skipped; the other steps have fresh samples and noise
        (docs/theory/ledger.md#steps-that-were-begun).

        Parameters
        ----------
        entry : str
            Hash of the entry that paid: a release whose steps were noted as they began.
        plan : Plan, as it was paid for
        noted : NotedSteps, how the further steps are noted

        Yields
        ------
        Grant, its `release(answers)` works once, inside the block
        """
        chain, about = self._walk(
            lambda entries: [
                each for each in entries if entry in (each.hash, each.about.get("entry"))
            ]
        )
        paid = entry_to_resume(about, entry, _checked(plan))
        first = max(notes_of(about, entry))
        steps = self._begun(paid, plan, first, noted, _end_of(chain))
        with self._lent(plan, paid, SecureNoise(), steps) as grant:
            yield grant

    def _begun(
        self, entry: Entry, plan: Plan, first: int, noted: NotedSteps, read_to: Seen
    ) -> BegunSteps:
        """Return the steps from the first on, the next of them noted durably.

        Notes up to `read_to` are known: each later line is read once, by the next note.
        """

        def note(after: int, upto: int) -> None:
            nonlocal read_to
            since = read_to

            def draft(chain: Chain) -> Mapping[str, Any]:
                behind = chain.behind(since.hash)
                return self._free(**begun_line(behind, entry.hash, after, upto))

            read_to = _end_of(self._continued(draft, since=since, about=entry.hash))

        steps = BegunSteps(first, plan.queries, noted, note)
        steps.begin()
        return steps

    def _priced(self, plan: Plan, line: Mapping[str, Any]) -> Callable[[Chain], dict[str, Any]]:
        """Return a function that drafts the next line or refuses; it runs under the write lock."""
        said = {
            **line,
            "plan": plan.as_dict(),
            "priced_by": self._terms.priced_by(),
            "library": __version__,
        }
        # Before the lock, because others wait for it; a list must see whose turn it is.
        known = None if self.accountant == "fixed" else self._accountant.cost(plan, 0)

        def priced(chain: Chain) -> dict[str, Any]:
            cost, confidence = self._quote(chain, plan, known=known)
            return {**said, "cost": cost, "confidence_delta": confidence}

        return priced

    def charge(self, plan: Plan, *, purpose: str, study: str, entrusted: Sequence[str]) -> Entry:
        """Pay for a plan whose noise others draw: a study to which these data contribute answers.

        No noise is granted, and nothing is ever refunded, whatever becomes of the study
        (docs/theory/federation.md#each-party-keeps-its-own-ledger).

        Parameters
        ----------
        plan : Plan, what the study releases
        purpose : str, in one line; public, as all of the entry
        study : str
            SHA-256 of the study's document: it is charged once, however often this is called.
        entrusted : sequence of str
            Who draws the noise and protects the answers; the statement assumes that they do.

        Returns
        -------
        Entry
            Durably written, or the earlier one of a study that was charged before.
            `BudgetExceeded` comes with nothing written.

        Examples
        --------
        >>> import tempfile
        >>> from tacit import Budget, Ledger, NoisyVotes, Plan
        >>> plan = Plan(NoisyVotes(sigma=40), queries=100)
        >>> told = {"purpose": "label scans", "study": "ab" * 32, "entrusted": ["the university"]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = Ledger(f"{folder}/site.ledger", budget=Budget(epsilon=1.5, delta=1e-5))
        ...     first, again = ledger.charge(plan, **told), ledger.charge(plan, **told)
        ...     first == again, round(ledger.spent(), 3)
        (True, 1.356)
        """
        _checked(plan)
        names = [one_line("entrusted", name) for name in entrusted]
        if isinstance(entrusted, str) or not names:
            raise refuse("entrusted", entrusted, "a list of those who draw the noise")
        about = {"study": checked_hash(study=study), "entrusted": names}
        line = {
            "kind": "charge",
            "purpose": one_line("purpose", purpose),
            "noise": "",
            "faults": (),
            "about": about,
        }
        charged: list[Entry] = []
        priced = self._priced(plan, line)

        def draft(chain: Chain) -> Mapping[str, Any]:
            charged.extend(entry for entry in chain.entries if entry.about.get("study") == study)
            if charged:  # seen under the write lock: nobody charges it in between
                raise _AlreadyCharged
            return priced(chain)

        try:
            return self._continued(draft, study=study).entries[-1]
        except _AlreadyCharged:
            return self._same_charge(charged[0], plan, about)

    def _same_charge(self, entry: Entry, plan: Plan, about: Mapping[str, Any]) -> Entry:
        if (canonical(entry.plan), entry.about) != (canonical(plan.as_dict()), about):
            raise LedgerError(
                f"Expected study={about['study']!r} with the plan and the parties that entry "
                f"{entry.sequence} charged for it; another plan is another study."
            )
        return entry

    def publish(self, sha256: str, *, purpose: str, faults: Sequence[str] = ()) -> Entry:
        """Note that a file was published, by its hash, at no cost: ledger and file can be matched.

        Parameters
        ----------
        sha256 : str, of the file, 64 hexadecimal digits
        purpose : str
            What was published, in a line: "publish student.tacit".
        faults : sequence of str
            Caveats, a sentence each: every later statement repeats them as warnings.

        Returns
        -------
        Entry, durably written
        """
        purpose, about = one_line("purpose", purpose), {"sha256": checked_hash(sha256=sha256)}
        line: dict[str, Any] = {
            "purpose": purpose,
            "about": about,
            "faults": checked_faults(faults),
        }
        return self._continued(lambda _: self._free(kind="publication", **line)).entries[-1]

    def note_values(self, entry: str, values: Sequence[float]) -> Entry:
        """Note what a `Sanitise` released, at no cost: the statement follows from the ledger alone.

        Parameters
        ----------
        entry : str, hash of the entry that paid for it
        values : pair of float, as they were released; public

        Returns
        -------
        Entry, durably written
        """
        about = {"entry": checked_hash(entry=entry), "values": [float(each) for each in values]}
        line = {"kind": "value", "purpose": f"values of {entry[:12]}", "about": about}
        return self._continued(lambda _: self._free(**line), about=entry).entries[-1]

    def seal(
        self, files: Mapping[str, str], *, run: str, after: str, faults: Sequence[str] = ()
    ) -> Entry | None:
        """Note every file that a run publishes in one entry, whose hash is the run's head.

        Parameters
        ----------
        files : mapping of str to str
            SHA-256 of each file by its name; of one that shows the head, with zeros for its digits.
        run : str, id of the run on this ledger; "" where it is the only one
        after : str, the head of the ledger when the statement among these files was made
        faults : sequence of str, warnings of the run's statement that no other entry has

        Returns
        -------
        Entry or None
            Durably written, at no cost; None where the ledger has gone on since `after`.
        """
        about = {"run": run, "files": dict(files)}
        line = {"kind": "seal", "purpose": f"seal {len(files)} files", "about": about}
        line["faults"] = checked_faults(faults)

        def draft(chain: Chain) -> Mapping[str, Any]:
            if chain.head != after:  # seen under the write lock
                raise _WentOn
            return self._free(**line)

        try:
            return self._continued(draft).entries[-1]
        except _WentOn:
            return None

    def _free(self, **line: Any) -> dict[str, Any]:
        """Return a line that costs nothing."""
        nothing = {"noise": "", "plan": {}, "cost": 0.0, "confidence_delta": 0.0}
        return {"faults": (), **line, **nothing, "priced_by": {}, "library": __version__}

    def _quote(
        self,
        chain: Chain,
        plan: Plan,
        before: Sequence[tuple[float, float]] = (),
        known: float | None = None,
    ) -> tuple[float, float]:
        """Return cost and confidence delta of a plan that fits, after plans quoted `before`."""
        # Where it is not known how many were paid for, nobody asks; a list that did would refuse.
        place = sys.maxsize if chain.n_paid is None else chain.n_paid + len(before)
        cost = self._accountant.cost(plan, place) if known is None else known
        confidence = confidence_of(plan)
        totals = chain.totals
        for quote in (*before, (cost, confidence)):
            totals = totals.plus(*quote)
        if exceeds(totals.cost, self._accountant.capacity):
            after = self._accountant.epsilon(at_least(totals.cost))
            raise BudgetExceeded(
                f"Expected a plan within the budget: it would raise epsilon from "
                f"{self._epsilon(chain):.4g} to {after:.4g} of "
                f"{self.budget.epsilon!r} at delta={self.budget.delta!r}. Nothing was spent; "
                "ask for fewer queries or more noise."
            )
        reserved = self._terms.reserved_delta
        # The nearest float: three times 1e-7 are within a reserve of 3e-7, as people write it.
        if nearest(totals.confidence_delta) > reserved:
            raise BudgetExceeded(
                f"Expected a plan within reserved_delta={reserved!r}: its confidence bounds need "
                f"delta={confidence!r} on top of what they used. Nothing was spent; create the "
                "ledger with Ledger(path, budget=…, reserved_delta=…), a part of its delta."
            )
        return cost, confidence

    def _epsilon(self, sums: Chain | Tally) -> float:
        paid = sums.totals.cost > 0 or bool(sums.n_paid)
        return self._epsilons([sums.totals.cost], [paid])[0]

    def _epsilons(self, totals: Sequence[int], paid: Iterable[bool]) -> list[float]:
        """Return worst-case epsilon of each total, all at once; 0 before anything is paid for."""
        priced = self._accountant.epsilon(np.array([at_least(total) for total in totals]))
        capacity, budget = self._accountant.capacity, self.budget.epsilon
        # The capacity itself proves the budget: no rounding of epsilon may say more.
        most = (math.inf if exceeds(total, capacity) else budget for total in totals)
        each = zip(priced.tolist(), most, paid, strict=True)
        return [min(epsilon, limit) if is_paid else 0.0 for epsilon, limit, is_paid in each]

    def verify(self, head: str | None = None) -> str:
        """Check pages, schema and chain, and that the chain once ended at `head`; return its head.

        Parameters
        ----------
        head : str, optional
            A head from elsewhere (a statement prints one). Without it, a ledger that was cut short
            or replaced by an older copy, its -head file as well, looks intact.

        Returns
        -------
        str
            Hash of the last entry. A damaged ledger raises `LedgerDamaged` instead.
        """
        chain, _ = self._walk(lambda _: None, *[] if head is None else [head])
        return chain.head if head is None else self._held(chain, head).head

    def collect(self, look: Callable[[Iterator[Entry]], Found], head: str | None = None) -> Found:
        """Verify everything, and return what a function computes from the entries, one at a time.

        Unlike `entries()`, it holds no entry in memory.

        Parameters
        ----------
        look : callable
            From an iterator of entries, in order, to any result; called again if another process
            wrote meanwhile. In a damaged ledger `LedgerDamaged` is raised instead of its result.
        head : str, optional, a head from elsewhere, as for `verify`

        Returns
        -------
        object, what the function returned

        Examples
        --------
        >>> import tempfile
        >>> from tacit import Budget, Ledger
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = Ledger(f"{folder}/run.ledger", budget=Budget(epsilon=1.5, delta=1e-5))
        ...     ledger.collect(lambda entries: sum(entry.is_paid for entry in entries))
        0
        """
        chain, found = self._walk(look, *[] if head is None else [head])
        if head is not None:
            self._held(chain, head)
        return found

    def _held(self, chain: Chain, head: str) -> Chain:
        if not chain.holds(head):
            raise LedgerDamaged(
                f"Expected the ledger to hold head={head!r}: it was cut short, rolled back, or is "
                "another ledger; do not trust its total."
            )
        return chain

    def statement(self, head: str | None = None) -> Statement:
        """Return the worst-case statement: the guarantee for everything released so far.

        Parameters
        ----------
        head : str, optional, describe the ledger as it ended with this entry, instead of now

        Returns
        -------
        Statement
            Worst-case: it holds whatever the data are.
        """

        def tallied(entries: Iterator[Entry]) -> Tally:
            tally = Tally()
            for entry in takewhile(lambda entry: entry.previous != head, entries):
                tally.add(entry)
            return tally

        chain, tally = self._walk(tallied, *[] if head is None else [head])
        return self._statement(chain if head is None else self._held(chain, head), tally)

    def survey(self, look: Callable[[Iterator[Entry]], Found]) -> tuple[Statement, Found]:
        """Return the statement, and what a function makes of the entries, from one verified read.

        Parameters
        ----------
        look : callable, as for `collect`

        Returns
        -------
        tuple of Statement and object
        """

        def both(entries: Iterator[Entry]) -> tuple[Tally, Found]:
            tally = Tally()
            passing = tally.over(entries)
            found = look(passing)
            for _ in passing:  # the statement is about those, too, at which nobody looked
                pass
            return tally, found

        chain, (tally, found) = self._walk(both)
        return self._statement(chain, tally), found

    def extract(self) -> str:
        """Return the whole ledger as text: the header, then a line for each entry, as hashed.

        Returns
        -------
        str
            Lines of JSON. The SHA-256 of each is what the next one names as `previous`.
        """
        return "".join(f"{text}\n" for text in self._store.texts())

    def snapshot(self) -> Snapshot:
        """Return the ledger as it is now, from one read; it holds all entries, `survey` does not.

        Returns
        -------
        Snapshot
        """
        chain, tally = self._read(), Tally()
        for entry in chain.entries:
            tally.add(entry)
        totals = list(accumulate(steps_of(entry.cost) for entry in chain.entries))
        paid = accumulate((entry.is_paid for entry in chain.entries), operator.or_)
        return Snapshot(
            self._statement(chain, tally),
            self._terms,
            chain.header,
            tuple(chain.entries),
            chain.genesis,
            spent=tuple(self._epsilons(totals, paid)),
            total=nearest(chain.totals.cost),
        )

    def _statement(self, chain: Chain, tally: Tally) -> Statement:
        """Return the statement of the tallied entries: all of the chain, or its first ones."""
        return Statement(
            kind="worst-case",
            epsilon=self._epsilon(tally),
            delta=self.budget.delta,
            unit=self.unit,
            accountant=self._accountant.bound,
            noise=NOISE_LEVELS[tally.weakest],
            dataset=self.dataset,
            budget=self.budget,
            entries=tally.length,
            head=tally.head or chain.genesis,
            assumes=(*tally.presumed, *tally.entrusted),
            warnings=warnings_of(self._terms, tally),
        )

    def _read(self) -> Chain:
        """Read and verify everything."""
        seen = self._seen  # before the read: another thread may append meanwhile
        return self._ours(self._store.read(), seen)

    def _walk(self, look: Callable[[Iterator[Entry]], Found], *heads: str) -> tuple[Chain, Found]:
        """Read and verify everything; the chain has only its end, and knows these heads."""
        seen = self._seen
        chain, found = self._store.walk((seen.hash, *heads), look)
        return self._ours(chain, seen), found

    def _read_end(self) -> Chain:
        """Read the totals and the head, whatever the number of entries."""
        seen = self._seen
        return self._ours(self._store.read_end(Wanted(seen)), seen)

    def _ours(self, chain: Chain, seen: Seen) -> Chain:
        self._check_is_ours(chain, seen)
        self._seen = max(self._seen, _end_of(chain), key=lambda end: end.sequence)
        return chain

    def _check_is_ours(self, chain: Chain, seen: Seen) -> None:
        """Refuse a file that no longer holds what this object has seen in it."""
        if not chain.holds(seen.hash):
            raise LedgerDamaged(
                f"The ledger {self.path!r} was replaced, cut short or rolled back since it was "
                "opened; do not trust its total."
            )

    def __deepcopy__(self, memo: object = None) -> Ledger:
        return self  # two objects with one budget between them would be misleading

    __copy__ = __sklearn_clone__ = __deepcopy__

    def __reduce__(self) -> tuple[type[Ledger], tuple[str]]:
        return Ledger, (self.path,)

    def __repr__(self) -> str:
        return f"Ledger({self.path!r}, budget={self.budget!r}, unit={self.unit!r})"


def _end_of(chain: Chain) -> Seen:
    return Seen(chain.length, chain.head, chain.n_paid)


def _checked(plan: Any) -> Plan:
    if not isinstance(plan, Plan):
        raise refuse("plan", plan, "a Plan, e.g. Plan(GNMax(sigma=40), queries=100)")
    return plan


def _noise_level(plan: Plan, noise: Any) -> str:
    """Return the level that the entry records; refuse any other noise."""
    level = plan.mechanism.noise_level
    if level not in NOISE_LEVELS[:2]:
        raise InvalidArgument(
            f"Expected noise_level={level!r} of {plan.mechanism.name!r} to be 'exact' or 'csprng'."
        )
    if noise is None or type(noise) is SecureNoise:
        return level
    if isinstance(noise, InsecureNoise):
        return NOISE_LEVELS[2]
    raise refuse("noise", noise, "omitted, or an InsecureNoise(seed) for tests and research")
