"""Statements: what may be claimed about a release, in words to sign and in JSON for machines.

Three kinds: worst-case (data-independent, known before the run), sanitised (ex post, itself a
private release, docs/theory/smooth-sensitivity.md#the-ex-post-statement, with the worst case
beside it), and secret (the data owner's own analysis), which refuses to be written to a file.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tacit import __version__
from tacit._checks import at_least, non_negative, one_of, probability, refuse, set_checked, word
from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument, SecretDisclosure
from tacit.ledger.chain import NOISE_LEVELS
from tacit.ledger.plain_words import epsilon_text, odds_text
from tacit.ledger.terms import Budget
from tacit.ledger.warnings import ONE_RUN, PROTECTS_LITTLE, protects_little

KINDS = ("worst-case", "sanitised", "secret")
FORMAT = "tacit-statement/2"
_FIRST = "tacit-statement/1"
"""Until 0.2; `head` was always there."""
COVERS = (
    "all queries, all answers including refusals, the student, every checkpoint of the student, "
    "and anything else that is computed from the releases"
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Statement:
    """A guarantee, with everything that is needed to read it. `Ledger.statement()` makes one.

    Parameters
    ----------
    kind : str
        "worst-case" (holds whatever the data are), "sanitised" (ex post, itself a release) or
        "secret" (for the data owner alone; it refuses to be written).
    epsilon : float >= 0; from 10 on, a warning says what it allows
    delta : float in (0, 1)
    unit : str, whose privacy: "record", "person"
    accountant : str
        Which bound gave epsilon: "gaussian", "rdp", "pld", or a description.
    noise : str, the weakest that was used: "exact", "csprng" or "insecure-seeded"
    dataset : str, name of the data, or ""
    adjacency : str
        Which data sets are neighbours; by default those that differ by one unit more or less.
    covers : str
        Scope: everything that was released, and what is computed from it.
    entries : int, lines of the ledger
    head : str, optional
        Hash of the ledger's last line. The file of a run leaves it out: the run's seal, which lists
        the hash of that file, is its head.
    budget : Budget, optional, the ledger's limit, which holds however plans were chosen
    worst_case_epsilon : float, optional
        Beside a sanitised epsilon, at the same delta; for no other kind.
    assumes : tuple of str, what must hold beyond tacit's control for the number to be right
    warnings : tuple of str, what the reader has to know besides
    library : str, the version of tacit that computed it

    Examples
    --------
    >>> statement = Statement(kind="worst-case", epsilon=1.43, delta=1e-5, unit="person",
    ...                       accountant="gaussian", noise="csprng")
    >>> statement.adjacency
    'add or remove one person'
    >>> Statement.from_json(statement.to_json()) == statement
    True
    """

    kind: str
    epsilon: float
    delta: float
    unit: str
    accountant: str
    noise: str
    dataset: str = ""
    adjacency: str = ""
    covers: str = COVERS
    entries: int = 0
    head: str | None = None
    budget: Budget | None = None
    worst_case_epsilon: float | None = None
    assumes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    library: str = __version__

    def __post_init__(self) -> None:
        one_of(*KINDS, kind=self.kind)
        one_of(*NOISE_LEVELS, noise=self.noise)
        set_checked(self, epsilon=non_negative, delta=probability, entries=partial(at_least, 0))
        self._check_words()
        put = object.__setattr__
        put(self, "adjacency", self.adjacency or f"add or remove one {self.unit}")
        put(self, "assumes", tuple(self.assumes))
        put(self, "warnings", self._all_warnings())
        if (self.worst_case_epsilon is not None) != (self.kind == "sanitised"):
            raise InvalidArgument(
                "Expected worst_case_epsilon beside a sanitised statement, and beside no other."
            )

    def _check_words(self) -> None:
        """Refuse other types where text is expected: a file may hold anything."""
        for name in ("unit", "accountant", "dataset", "adjacency", "covers", "library"):
            word(**{name: getattr(self, name)})
        for name in ("assumes", "warnings"):
            lines = getattr(self, name)
            if not isinstance(lines, list | tuple) or not all(isinstance(x, str) for x in lines):
                raise refuse(name, lines, "a list of sentences")
        if self.head is not None and not isinstance(self.head, str):
            raise refuse("head", self.head, "a hash, or None")
        if self.worst_case_epsilon is not None:
            non_negative(worst_case_epsilon=self.worst_case_epsilon)

    def _all_warnings(self) -> tuple[str, ...]:
        """Return the warnings, always with what a large epsilon allows."""
        stated = [self.epsilon, self.worst_case_epsilon or 0.0]
        little = [protects_little(each, self.unit) for each in stated if each >= PROTECTS_LITTLE]
        return tuple(dict.fromkeys([*self.warnings, *little]))

    def __str__(self) -> str:
        """Return the paragraph to sign; below it warnings, presumptions and details."""
        parts = (
            self._paragraph(),
            " ".join(f"Warning: {each}." for each in self.warnings if each != ONE_RUN),
            " ".join(f"It presumes that {assumption}." for assumption in self.assumes),
            self._details(),
        )
        return "\n\n".join(part for part in parts if part)

    def _paragraph(self) -> str:
        """Return at most 90 words for who signs, names of data sets and units aside."""
        alone = ONE_RUN in self.warnings
        presumed = ", if what is presumed below holds" if self.assumes else ""
        parts = [
            _SECRET if self.kind == "secret" else "",
            _SEEDED if self._seeded else "",
            "This covers one run or fit alone; others on the same data add to it." if alone else "",
            self._claim(),
            self._unit_sentence(),
            f"It covers the student and all computed from the releases{presumed}.",
            "" if alone else "Releases from the same data elsewhere add to it.",
        ]
        return " ".join(part for part in parts if part)

    def _unit_sentence(self) -> str:
        """Say what epsilon and delta mean: P(S) <= e^epsilon P'(S) + delta, in either direction.

        A sanitised epsilon holds ex post, which is not this inequality: its worst case does it.
        """
        if self._seeded or self.kind == "secret":
            return f"Privacy unit: one {self.unit}."
        worst = self.epsilon if self.worst_case_epsilon is None else self.worst_case_epsilon
        return (
            f"Privacy unit: one {self.unit}, whose presence or absence makes any outcome at most "
            f"{odds_text(worst)} times (e^epsilon) as likely, plus delta."
        )

    def _details(self) -> str:
        """Return what an expert needs besides."""
        alone = ONE_RUN in self.warnings
        parts = [
            f"For experts. Neighbouring data sets: {self.adjacency}; replacing one unit by another "
            "touches two and counts as a group of two.",
            f"The number covers {self.covers}.",
            f"It was obtained by {_BOUND.get(self.accountant, self.accountant)}.",
            self._budget_sentence(),
            _NOISE_SENTENCE[self.noise],
            "Each fit of a grid search is one more, unless all share one ledger (ledger=, or "
            "ledger in [privacy])."
            if alone
            else "",
            self._provenance(),
        ]
        return " ".join(part for part in parts if part)

    @property
    def _seeded(self) -> bool:
        return self.noise == "insecure-seeded"

    def _claim(self) -> str:
        about = f" from the data set {self.dataset!r}" if self.dataset else ""
        claim = f"epsilon = {epsilon_text(self.epsilon)} at delta = {self.delta!r}"
        are = "would, with secure noise, be" if self._seeded else "are"
        if self.kind == "secret":
            return f"For this very data, the releases{about} cost {claim}."
        if self.kind == "sanitised":
            return (
                f"The releases{about} {are} differentially private ex post with {claim}, a "
                "released function of the data; in the worst case over all data, "
                f"epsilon = {epsilon_text(self.worst_case_epsilon)} at that delta."
            )
        empty = "" if self.entries else " Nothing was released under this ledger yet."
        return (
            f"The releases{about} {are} differentially private with {claim}, in the worst case "
            f"over all data.{empty}"
        )

    def _budget_sentence(self) -> str:
        """Describe the guarantee if plans were chosen in the light of earlier releases.

        Only the filter's own limit is one; a running epsilon is the price of the plans as a list
        (docs/theory/ledger.md#what-spent-means).
        """
        if self.budget is None:
            return ""
        return (
            "It takes the sequence of plans as given; however they were chosen in the light of "
            f"earlier releases, the ledger keeps them within its budget, epsilon = "
            f"{self.budget.epsilon!r} at delta = {self.budget.delta!r}."
        )

    def _provenance(self) -> str:
        if self.head is None and self.budget is None:
            return f"Computed by tacit {self.library}."
        count = f"{self.entries} {'entry' if self.entries == 1 else 'entries'}"
        head = "" if self.head is None else f" with head {self.head}"
        return (
            f"Computed by tacit {self.library} from a ledger of {count}{head}; it covers this "
            "ledger alone, and releases from the same data elsewhere add to it."
        )

    def __repr__(self) -> str:
        shown = "" if self.kind == "secret" else f", epsilon={self.epsilon!r}"
        return f"Statement(kind={self.kind!r}{shown}, delta={self.delta!r}, head={self.head!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data as `STATEMENT_SCHEMA` describes; a secret statement refuses.

        Returns
        -------
        dict
        """
        if self.kind == "secret":
            raise SecretDisclosure(
                "A secret statement depends on the data and is not written to files; publish the "
                "worst-case or the sanitised one."
            )
        plain = {"format": FORMAT, **dataclasses.asdict(self)}
        plain["assumes"], plain["warnings"] = list(self.assumes), list(self.warnings)
        if self.head is None:
            del plain["head"]
        return plain

    def to_json(self) -> str:
        """Return the statement as JSON; a secret one refuses.

        Returns
        -------
        str
        """
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def write(self, path: PathLike) -> None:
        """Write the JSON to a file, atomically; a secret statement refuses.

        Parameters
        ----------
        path : path, replaced if it exists
        """
        write_atomically(path, self.to_file())

    def to_file(self) -> bytes:
        """Return the content that `write` gives a file; a secret statement refuses.

        Returns
        -------
        bytes, the JSON in UTF-8, with a line feed at the end
        """
        return (self.to_json() + "\n").encode("utf-8")

    @classmethod
    def from_json(cls, text: str) -> Statement:
        """Read what `to_json` wrote.

        Parameters
        ----------
        text : str
            JSON of a public statement; anything else is refused.

        Returns
        -------
        Statement
        """
        try:
            plain = json.loads(text)
            known = plain.pop("format")
            if known not in (FORMAT, _FIRST) or plain["kind"] == "secret":
                raise KeyError("format")
            if known == _FIRST and "head" not in plain:
                raise KeyError("head")
            budget = plain.pop("budget")
            return cls(**plain, budget=None if budget is None else Budget(**budget))
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            raise InvalidArgument(
                f"Expected the JSON of a public statement, format {FORMAT!r}."
            ) from None


_BOUND: Mapping[str, str] = {
    "gaussian": "exact composition of Gaussian mechanisms (mu^2 adds; the exact Gaussian curve)",
    "rdp": "Renyi differential privacy of the worst case, with the improved conversion to epsilon",
    "pld": "a privacy loss distribution of the worst case",
}
_SECRET = "SECRET, for the data owner's eyes only, not to be published."
_SEEDED = "NOT private: seeded noise, which whoever knows the seed removes."
_NOISE_SENTENCE: Mapping[str, str] = {
    "exact": "Noise: exact (Gaussian rounded exactly to a public grid, from a cryptographic "
    "generator).",
    "csprng": "Noise: csprng (continuous noise in double precision from a cryptographic generator; "
    "only indices and bits are released with it).",
    "insecure-seeded": "Noise: insecure-seeded (for tests and research only).",
}

SCHEMA_FILE = Path(__file__).with_name("statement.schema.json")
STATEMENT_SCHEMA: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
"""JSON Schema (draft 2020-12) of what `Statement.to_json` writes."""
