"""The study document: queries, sites and price in one text, whose hash is its name.

Canonical JSON of at most 1 MiB. Everything in it is public, any other key is refused, and nothing
of it is code. Every party signs or charges this very text.
"""

from __future__ import annotations

import dataclasses
import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from tacit._registry import mechanism_class
from tacit.errors import InvalidArgument
from tacit.ledger import canonical, digest
from tacit.mechanisms import Plan
from tacit_federation.keys import is_hex, is_key

FORMAT = "tacit-study/1"
SIGNED_AS = FORMAT
"""The domain of signatures over a study: they sign its hash."""
AGGREGATORS = ("first", "second")
"""Roles of the two servers that hold shares."""
MODES: Mapping[str, tuple[str, ...]] = {
    "coordinator": ("coordinator",),
    "two-aggregators": ("coordinator", *AGGREGATORS),
}
"""Ways of adding up, each with the roles of its servers."""
MECHANISMS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("coordinator", "votes"): ("noisy-votes", "gnmax", "lnmax", "confident-gnmax"),
    ("coordinator", "codes"): ("gaussian-mean",),
    ("two-aggregators", "votes"): ("shared-votes",),
    ("two-aggregators", "codes"): ("shared-codes",),
}
"""What may stand in a plan, by mode and kind of answers: what needs sums and nothing else."""
MOST_BYTES = 1 << 20
LAST_SECOND = 253_402_300_799
"""Of the year 9999, the last that can be shown to people."""
MOST_SITES, MOST_TEACHERS = 10_000, 1 << 24
MOST_NUMBERS = 1 << 24
"""In one site's answers: shares of 8 bytes each, and sums, are held in memory."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_DTYPES = ("<f4", "<f8", "|u1", "<i8")


@dataclass(frozen=True, slots=True)
class StudySite:
    """One site of a study.

    Parameters
    ----------
    id : str, small letters, digits and hyphens
    key : str, its public signing key
    teachers : int, public and fixed
    """

    id: str
    key: str
    teachers: int


@dataclass(frozen=True, slots=True)
class Server:
    """A server that receives answers and draws the noise.

    Parameters
    ----------
    role : str, "coordinator", or with two aggregators "first" and "second" besides
    url : str
    ca : str, SHA-256 of its authority's certificate
    key : str, its public signing key
    ledger : str, origin of its ledger
    epsilon, delta : float, that ledger's budget
    """

    role: str
    url: str
    ca: str
    key: str
    ledger: str
    epsilon: float
    delta: float

    @property
    def takes(self) -> str:
        """Last part of the address to which a parcel is sent."""
        return "share" if self.role in AGGREGATORS else "answers"


@dataclass(frozen=True, slots=True)
class Window:
    """Time in which answers are taken, in whole seconds since 1970, UTC.

    Parameters
    ----------
    opens, closes : int
    slot_seconds : int
        Sending times are multiples of it; a study that all have answered closes at the next one.
    extensions : tuple of int
        Later ends, each of which holds if and only if the quorum is missed at the one before.
    """

    opens: int
    closes: int
    slot_seconds: int
    extensions: tuple[int, ...] = ()

    def next_slot(self, now: float) -> int:
        """Return the first slot after a time.

        Parameters
        ----------
        now : float, seconds since 1970

        Returns
        -------
        int
        """
        passed = max(0, int(now) - self.opens) // self.slot_seconds
        return self.opens + (passed + 1) * self.slot_seconds


@dataclass(frozen=True, slots=True)
class Study:
    """A study document; `Study.read(text)` checks every field.

    Parameters
    ----------
    text : str, the canonical JSON
    hash : str, its SHA-256: the study's name
    title, purpose : str, in a line each
    mode : str
        "coordinator": one trusted party adds the answers and the noise; "two-aggregators": each of
        two adds shares, and the full noise.
    unit : str, whose privacy: "patient", or "site"
    inputs : mapping, sha256, bytes, dtype and shape of the public inputs
    answers : mapping
        kind "votes", and the number of classes; or kind "codes", their length, the SHA-256 of the
        frame by which they are clipped and, if the document pins it, of their codec.
    plan : Plan, what is released, and so the price
    sites : tuple of StudySite
    quorum : mapping, least numbers of sites, and of their teachers
    window : Window
    servers : tuple of Server, the receivers of answers
    """

    text: str
    hash: str
    title: str
    purpose: str
    mode: str
    unit: str
    inputs: Mapping[str, Any]
    answers: Mapping[str, Any]
    plan: Plan
    sites: tuple[StudySite, ...]
    quorum: Mapping[str, int]
    window: Window
    servers: tuple[Server, ...]

    @classmethod
    def read(cls, text: str) -> Study:
        """Read and check a document; a missing, unknown or contradictory key is named.

        Parameters
        ----------
        text : str, canonical JSON

        Returns
        -------
        Study
        """
        if not isinstance(text, str):
            raise _no_document()
        return _read(text)

    def site(self, name: str) -> StudySite | None:
        """Return a site by its name, or None.

        Parameters
        ----------
        name : str

        Returns
        -------
        StudySite or None
        """
        return next((each for each in self.sites if each.id == name), None)

    def server(self, role: str) -> Server:
        """Return the server of a role.

        Parameters
        ----------
        role : str, "coordinator", "first" or "second"

        Returns
        -------
        Server
        """
        return next(each for each in self.servers if each.role == role)

    @property
    def receivers(self) -> tuple[Server, ...]:
        """The servers to which a site sends a parcel each."""
        if self.mode == "coordinator":
            return self.servers
        return tuple(self.server(role) for role in AGGREGATORS)

    @property
    def queries(self) -> int:
        """Number of inputs that every teacher answers."""
        return int(self.inputs["shape"][0])

    @property
    def classes(self) -> int:
        """Number of classes; 0 where answers are codes."""
        return int(self.answers.get("classes", 0))

    @property
    def codes(self) -> bool:
        """Whether answers are codes, not votes."""
        return bool(self.answers["kind"] == "codes")

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of a site's answers: queries, and classes or the length of a code."""
        return self.queries, self.classes or int(self.answers["length"])

    def teachers_of(self, sites: Iterable[str]) -> int:
        """Return the number of teachers of these sites together.

        Parameters
        ----------
        sites : iterable of str

        Returns
        -------
        int
        """
        named = set(sites)
        return sum(each.teachers for each in self.sites if each.id in named)

    def reached(self, sites: Sequence[str]) -> bool:
        """Whether these sites are a quorum: a function of presence alone.

        Parameters
        ----------
        sites : sequence of str

        Returns
        -------
        bool
        """
        teachers = self.teachers_of(sites)
        return len(sites) >= self.quorum["sites"] and teachers >= self.quorum["teachers"]

    def __repr__(self) -> str:
        return f"Study({self.title!r}, hash={self.hash[:8]!r}...)"


@lru_cache(maxsize=16)
def _read(text: str) -> Study:
    """Read a document, cached."""
    document = _parsed(text)
    _check(document, "study", _DOCUMENT)
    plan = _plan(document["plan"], MECHANISMS[document["mode"], document["answers"]["kind"]])
    sites = tuple(StudySite(**each) for each in document["sites"])
    window = dict(document["window"], extensions=tuple(document["window"]["extensions"]))
    study = Study(
        text=text,
        hash=digest(text),
        plan=plan,
        sites=sites,
        window=Window(**window),
        servers=tuple(_server(each) for each in document["servers"]),
        **{name: _frozen(document[name]) for name in _AS_THEY_ARE},
    )
    _check_parts(study, document)
    return study


def _frozen(value: Any) -> Any:
    """Return a read-only view: a study is shared by all who read its text."""
    return MappingProxyType(value) if isinstance(value, dict) else value


def new_document(
    *,
    title: str,
    purpose: str,
    unit: str,
    inputs: Mapping[str, Any],
    classes: int | None = None,
    plan: Plan,
    sites: Sequence[StudySite],
    quorum: Mapping[str, int],
    window: Window,
    servers: Sequence[Server],
    overlap: int = 1,
    codes: Mapping[str, Any] | None = None,
) -> Study:
    """Write the document of a study; more than one server makes it one of two aggregators.

    Parameters
    ----------
    title, purpose : str, in a line each
    unit : str
        Whose privacy: "patient"; or "site", whose `votes_per_unit` is the number of teachers of
        the largest sites, as many as the overlap.
    inputs : mapping, sha256, bytes, dtype and shape of the public inputs
    classes : int, optional, number of classes, where answers are votes
    plan : Plan
        What is released; its `votes_per_unit` must be what unit and overlap require.
    sites : sequence of StudySite
    quorum : mapping, sites and teachers
    window : Window
    servers : sequence of Server
        The coordinator; for two aggregators, the first and the second besides.
    overlap : int, the most sites with the same patient
    codes : mapping, optional
        length, frame and, if it is to be pinned, codec (SHA-256), where answers are codes.

    Returns
    -------
    Study, checked as every site will check it
    """
    document = {
        "format": FORMAT,
        "title": title,
        "purpose": purpose,
        "mode": "coordinator" if len(servers) == 1 else "two-aggregators",
        "nonce": secrets.token_hex(16),
        "unit": unit,
        "overlap": overlap,
        "inputs": dict(inputs),
        "answers": {"kind": "votes", "classes": classes}
        if codes is None
        else {"kind": "codes", **codes},
        "plan": plan.as_dict(),
        "sites": [dataclasses.asdict(each) for each in sites],
        "quorum": dict(quorum),
        "absent": "nothing",
        "window": dataclasses.asdict(window),
        "servers": [_as_document(each) for each in servers],
    }
    return Study.read(canonical(document))


def _as_document(server: Server) -> dict[str, Any]:
    plain = dataclasses.asdict(server)
    return plain | {"budget": {name: plain.pop(name) for name in ("epsilon", "delta")}}


def _server(document: Mapping[str, Any]) -> Server:
    plain = dict(document)
    budget = plain.pop("budget")
    return Server(**plain, **budget)


def _no_document() -> InvalidArgument:
    return InvalidArgument("Expected the document of a study: canonical JSON of at most 1 MiB.")


def _parsed(text: str) -> dict[str, Any]:
    try:
        if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
            raise ValueError
        document = json.loads(text)
        if not isinstance(document, dict) or canonical(document) != text:
            raise ValueError
    except (InvalidArgument, RecursionError, ValueError):
        raise _no_document() from None
    return document


def _plan(plain: Mapping[str, Any], mechanisms: Sequence[str]) -> Plan:
    """Rebuild the plan, whose record must be the very same text."""
    wrong = InvalidArgument(
        f"Expected plan to be one of {', '.join(mechanisms)} as this version of tacit records it."
    )
    if plain["mechanism"] not in mechanisms:
        raise wrong
    try:
        mechanism = mechanism_class(plain["mechanism"])(**plain["parameters"])
        sizes = {name: plain[name] for name in plain if name not in ("mechanism", "parameters")}
        plan = Plan(mechanism, **sizes)
    except TypeError:
        raise wrong from None
    if canonical(plan.as_dict()) != canonical(plain):
        raise wrong
    return plan


def _check_parts(study: Study, document: Mapping[str, Any]) -> None:
    """Check the consistency of several fields."""
    plan, teachers = study.plan, [each.teachers for each in study.sites]
    names = [each.id for each in study.sites]
    ends = (study.window.opens, study.window.closes, *study.window.extensions)
    # Where the unit is a site, a patient's rows may reach all teachers, at several sites as well.
    most = sorted(teachers)[-document["overlap"] :]
    asked = sum(most) if study.unit == "site" else document["overlap"]
    priced = getattr(plan.mechanism, "votes_per_unit", 1)
    for holds, what in (
        (len(set(names)) == len(names), "sites with names of their own"),
        (len({each.key for each in study.sites}) == len(names), "sites with keys of their own"),
        (study.shape[0] * study.shape[1] <= MOST_NUMBERS, f"at most {MOST_NUMBERS} numbers a site"),
        (sum(teachers) <= MOST_TEACHERS, f"at most {MOST_TEACHERS} teachers"),
        (study.quorum["sites"] <= len(names), "a quorum of no more sites than there are"),
        (study.quorum["teachers"] <= sum(teachers), "a quorum of no more teachers than there are"),
        (document["overlap"] <= len(names), "an overlap of no more sites than there are"),
        (list(ends) == sorted(set(ends)), "a window that closes after it opens, and extensions"),
        (_asks(plan) == study.queries, "a plan of as many queries as there are inputs"),
        (
            plan.n_teachers is None or study.codes,
            "a plan without n_teachers: who answers is not known before",
        ),
        (plan.n_classes in (None, study.classes), "a plan of as many classes as answers have"),
        (
            not study.codes or getattr(plan.mechanism, "n_teachers", 0) == sum(teachers),
            "a mechanism with n_teachers of all sites together",
        ),
        (priced == asked, f"a plan with votes_per_unit={asked}, which unit and overlap ask for"),
        (
            tuple(each.role for each in study.servers) == MODES[study.mode],
            f"these servers, in order: {', '.join(MODES[study.mode])}",
        ),
        *(
            (len({getattr(each, pin) for each in study.servers}) == len(study.servers), what)
            for pin, what in _OF_ITS_OWN.items()
        ),
    ):
        if not holds:
            raise InvalidArgument(f"Expected {what} in the study.")


def _asks(plan: Plan) -> int:
    """Return about how many queries a plan has: a bound may hold several."""
    return plan.queries * int(getattr(plan.mechanism, "joint", 1))


# Whoever holds both keys, or issues certificates for both aggregators, sees every answer.
_OF_ITS_OWN = {
    "url": "servers with addresses of their own",
    "key": "servers with keys of their own",
    "ca": "servers with authorities of their own",
    "ledger": "servers with ledgers of their own",
}
Check = Callable[[Any], bool]


def _check(
    value: Any, name: str, fields: Mapping[str, Check | Mapping[str, Any] | list[Any]]
) -> None:
    """Refuse anything but an object of exactly these fields, each valid."""
    if not isinstance(value, dict):
        raise InvalidArgument(f"Expected {name} to be an object in the study.")
    if odd := sorted(set(value) ^ set(fields)):
        what = "no field" if odd[0] in value else "a field"
        raise InvalidArgument(f"Expected {what} {odd[0][:40]!r} in {name} of the study.")
    for key, check in fields.items():
        if isinstance(check, Mapping):
            _check(value[key], f"{name}.{key}", check)
        elif isinstance(check, list):
            _check_list(value[key], f"{name}.{key}", check[0])
        elif not check(value[key]):
            raise InvalidArgument(f"Expected a valid {name}.{key} in the study.")


def _check_list(value: Any, name: str, fields: Mapping[str, Any]) -> None:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_SITES:
        raise InvalidArgument(f"Expected {name} to be a list of 1 to {MOST_SITES} in the study.")
    for each in value:
        _check(each, name, fields)


def _line(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 500 and value.isprintable()


def _whole(least: int, most: int = 1 << 53) -> Check:
    return lambda value: type(value) is int and least <= value <= most


def _hash(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and is_hex(value)


def is_name(value: Any) -> bool:
    """Whether it may name a site."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _shape(value: Any) -> bool:
    sizes = isinstance(value, list) and 1 <= len(value) <= 5
    return sizes and all(_whole(1, 1 << 40)(size) for size in value)


def _times(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= 10
        and all(_whole(0, LAST_SECOND)(each) for each in value)
    )


def is_address(value: Any) -> bool:
    """Whether it may be a server's address: https, a host, perhaps a port, nothing else."""
    return _line(value) and re.fullmatch(r"https://[^/\s?#@]+", value) is not None


def _answers(value: Any) -> bool:
    kinds: Mapping[str, Mapping[str, Check]] = {
        "votes": {"classes": _whole(2, 1 << 16)},
        "codes": {"length": _whole(1, 1 << 28), "frame": _hash},
    }
    kind = value.get("kind") if isinstance(value, dict) else None
    fields = kinds.get(kind) if isinstance(kind, str) else None
    if fields is not None and kind == "codes" and "codec" in value:
        fields = {**fields, "codec": _hash}
    if fields is None or set(value) != {"kind", *fields}:
        return False
    return all(check(value[name]) for name, check in fields.items())


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


_DOCUMENT: Mapping[str, Any] = {
    "format": lambda value: value == FORMAT,
    "title": _line,
    "purpose": _line,
    "mode": lambda value: isinstance(value, str) and value in MODES,
    "nonce": lambda value: isinstance(value, str) and len(value) == 32 and is_hex(value),
    "unit": _line,
    "overlap": _whole(1, MOST_SITES),
    "inputs": {
        "sha256": _hash,
        "bytes": _whole(1),
        "dtype": lambda value: value in _DTYPES,
        "shape": _shape,
    },
    "answers": _answers,
    "plan": {
        "mechanism": lambda value: isinstance(value, str),
        "parameters": lambda value: isinstance(value, dict),
        "queries": lambda value: True,
        "max_answers": lambda value: True,
        "n_teachers": lambda value: True,
        "n_classes": lambda value: True,
    },
    "sites": [{"id": is_name, "key": is_key, "teachers": _whole(1, MOST_TEACHERS)}],
    "quorum": {"sites": _whole(1), "teachers": _whole(1)},
    "absent": lambda value: value == "nothing",
    "window": {
        "opens": _whole(0, LAST_SECOND),
        "closes": _whole(0, LAST_SECOND),
        "slot_seconds": _whole(1, 86_400),
        "extensions": _times,
    },
    "servers": [
        {
            "role": _line,
            "url": is_address,
            "ca": _hash,
            "key": is_key,
            "ledger": _hash,
            "budget": {"epsilon": _number, "delta": _number},
        }
    ],
}
_AS_THEY_ARE = ("title", "purpose", "mode", "unit", "inputs", "answers", "quorum")
