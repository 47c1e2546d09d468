"""What a site checks before a person is asked, and what that person is shown.

Everything here follows from public numbers: policy, signatures, pinned keys, price, budget. The
site prices the plan itself and ignores any price in the document.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tacit.errors import Refused
from tacit.ledger import Ledger, epsilon_text
from tacit_federation.keys import check_signature, fingerprint
from tacit_federation.messages import answers_size
from tacit_federation.settings import Policy
from tacit_federation.study import AGGREGATORS, SIGNED_AS, Server, Study, StudySite
from tacit_federation.sums import share_size


@dataclass(frozen=True, slots=True)
class Asked:
    """Everything that a study requires of a site: what the steward reads before approving.

    Parameters
    ----------
    study : Study
    site : StudySite, this site in it
    epsilon : float, cost of the study alone, at the delta of the site's ledger
    delta : float
    spent, budget : float, epsilon of all entries of the ledger, and its limit
    fits : bool, whether the ledger has room
    bytes : int, exact size of what would leave, whatever the records
    parcels : mapping of str to int, bytes by the receiver's role
    """

    study: Study
    site: StudySite
    epsilon: float
    delta: float
    spent: float
    budget: float
    fits: bool
    bytes: int
    parcels: Mapping[str, int]

    def rows(self) -> list[tuple[str, str]]:
        """Return what is shown, line by line.

        Returns
        -------
        list of (name, value)
        """
        study, plan = self.study, self.study.plan
        numbers = ", ".join(
            f"{name}={value}" for name, value in plan.as_dict()["parameters"].items()
        )
        window = study.window
        room = "there is room" if self.fits else "there is NO room: it will refuse"
        teachers, later = (
            self.site.teachers,
            "".join(f", or {moment(end)} if the quorum is missed" for end in window.extensions),
        )
        shown = {
            "study": study.hash,
            "title": study.title,
            "purpose": study.purpose,
            "mode": f"{study.mode}: {_TRUST[study.mode]}",
            **{f"recipient ({each.role})": self._recipient(each) for each in study.servers},
            "answers": f"{teachers} teachers x {study.queries} inputs, "
            + (f"codes of {study.shape[1]} numbers" if study.codes else f"{study.classes} classes"),
            **({"codec": f"hash {codec}"} if (codec := study.answers.get("codec")) else {}),
            "what leaves": self.what_leaves(),
            "mechanism": f"{plan.mechanism.name} ({numbers})",
            "price": f"epsilon = {epsilon_text(self.epsilon)} at delta = {self.delta:g} for one "
            f"{study.unit}",
            "this site's ledger": f"epsilon {epsilon_text(self.spent)} of {self.budget:g} spent; "
            f"{room}",
            "quorum": f"{study.quorum['sites']} of {len(study.sites)} sites, "
            f"{study.quorum['teachers']} teachers; absent sites count as nothing",
            "window": f"{moment(window.opens)} to {moment(window.closes)}{later}",
        }
        return list(shown.items())

    def what_leaves(self) -> str:
        """Return, in words, what would leave this site.

        Returns
        -------
        str, one paragraph for the steward
        """
        study, teachers = self.study, self.site.teachers
        told = (
            f"the sum of {teachers} teachers' codes for each input, each clipped here"
            if study.codes
            else f"how many of the {teachers} teachers chose each class of each input"
        )
        if study.mode == "coordinator":
            return f"{self.bytes} bytes: {told}. No record, no model, no score."
        each = ", ".join(f"{size} bytes to the {role}" for role, size in self.parcels.items())
        return (
            f"{each}: {told}, split into two random-looking halves of which neither tells "
            "anything alone. No record, no model, no score."
        )

    def _recipient(self, server: Server) -> str:
        size = self.parcels.get(server.role, 0)
        pins = f"key {fingerprint(server.key)}, authority {fingerprint(server.ca)}"
        return f"{server.url}, {pins}" + ("" if size else "; it gets no answers")


_TRUST = {
    "coordinator": "it sees this site's counts, and is trusted to add the noise",
    "two-aggregators": "neither sees this site's answers, unless the two work together; one of "
    "them must keep its half to itself and add its noise",
}


def parcel_sizes(study: Study, site: StudySite) -> dict[str, int]:
    """Return exact numbers of bytes by the receiver's role."""
    if study.mode == "coordinator":
        return {"coordinator": answers_size(study, site)}
    return {role: share_size(study, site, role) for role in AGGREGATORS}


def trusted_with(study: Study) -> str:
    """Return who draws the noise and protects the answers, for statements."""
    names = [
        f"the {each.role} {'aggregator ' if each.role in AGGREGATORS else ''}at {each.url} "
        f"(key {fingerprint(each.key)})"
        for each in study.receivers
    ]
    return names[0] if len(names) == 1 else f"one of {' and '.join(names)}"


def moment(seconds: float) -> str:
    """Format a time.

    >>> moment(0)
    '1970-01-01 00:00 UTC'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def check_study(
    study: Study,
    signed: tuple[str, str],
    *,
    agreed: Mapping[str, str],
    policy: Policy,
    servers: Mapping[str, Mapping[str, str]],
    name: str,
    key: str,
    ledger: Ledger,
) -> StudySite:
    """Return this site in a study, or raise `Refused` with the first violation.

    `signed` is the officer's key and signature, `agreed` the aggregators' signatures by role,
    `servers` the pinned `ca` and `key` of joined servers by address; `name` and `key` are this
    site's.
    """
    officer, signature = signed
    if officer not in policy.officers:
        raise Refused(f"Expected an officer of policy.toml, got key {fingerprint(officer)}.")
    check_signature(officer, SIGNED_AS, study.hash, signature)
    check_agreed(study, agreed)
    site = study.site(name)
    if site is None or site.key != key:
        raise Refused("Expected a study that names this site, with its key.")
    for server in study.servers:
        joined = servers.get(server.url)
        if joined is None or (joined["ca"], joined["key"]) != (server.ca, server.key):
            raise Refused(
                f"Expected the server that this site joined: the study pins other keys for "
                f"{server.url}."
            )
        if joined["name"] != name:
            raise Refused(f"Expected {server.url} to call this site {name!r}, as the study does.")
    _check_policy(study, policy, ledger)
    return site


def check_agreed(study: Study, agreed: Mapping[str, str]) -> None:
    """Raise `Refused` unless both aggregators of a study have signed it."""
    for server in study.servers:
        if server.role in AGGREGATORS:
            check_signature(server.key, SIGNED_AS, study.hash, agreed.get(server.role))


def _check_policy(study: Study, policy: Policy, ledger: Ledger) -> None:
    for holds, what in (
        (study.mode in policy.modes, f"mode {study.mode!r} to be among modes"),
        (study.queries <= policy.most_queries, f"at most most_queries={policy.most_queries}"),
        (
            study.inputs["bytes"] <= policy.most_input_megabytes << 20,
            f"inputs of at most most_input_megabytes={policy.most_input_megabytes}",
        ),
        (
            study.quorum["sites"] >= policy.least_sites,
            f"a quorum of at least least_sites={policy.least_sites}",
        ),
        (
            study.quorum["teachers"] >= policy.least_teachers,
            f"a quorum of at least least_teachers={policy.least_teachers}",
        ),
        (
            study.plan.epsilon(ledger.usable_delta) <= policy.most_epsilon,
            f"a price of at most most_epsilon={policy.most_epsilon}",
        ),
        (
            study.unit in (ledger.unit, "site"),
            f"the unit of this site's ledger, {ledger.unit!r}, not {study.unit!r},",
        ),
    ):
        if not holds:
            raise Refused(f"Expected {what} in policy.toml or the ledger; the study is refused.")


def asked_of(study: Study, site: StudySite, ledger: Ledger) -> Asked:
    """Return what a checked study requires of a site, priced by its ledger."""
    sizes = parcel_sizes(study, site)
    return Asked(
        study,
        site,
        study.plan.epsilon(ledger.usable_delta),
        ledger.budget.delta,
        ledger.spent(),
        ledger.budget.epsilon,
        not ledger.would_exceed(study.plan),
        sum(sizes.values()),
        sizes,
    )


def sending_time(study: Study, now: float, end: int | None = None) -> int:
    """Draw a sending slot, uniform over the second half of the window or the rest of it.

    `end` is the closing time, if known to be later; the slot is before it. Seconds since 1970.
    """
    window = study.window
    closes = window.closes if end is None else end
    half = window.opens + (closes - window.opens) // 2
    first, last = max(half, int(now) + 1), closes - window.slot_seconds
    slots = max(1, 1 + (last - first) // window.slot_seconds)
    return first + secrets.randbelow(slots) * window.slot_seconds
