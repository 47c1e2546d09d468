"""An aggregator: it holds one share of every site's answers, adds its noise, opens one sum.

`seen -> open -> closed -> locked -> opened -> released`, or `refused`, `void`; never back, each
step one synchronised transaction. Exchange with the other one: `tacit_federation.exchanging`.
Why one sum, ever: docs/theory/federation.md#a-sum-is-opened-once.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tacit.errors import Refused
from tacit.ledger import epsilon_text
from tacit_federation import members
from tacit_federation.client import Client, enrol, folder_for, refuse_another
from tacit_federation.codes import slow_noise
from tacit_federation.database import (
    AUDIT_TABLES,
    Connection,
    Row,
    append_only,
    forward,
    note,
    tables,
    write_once,
)
from tacit_federation.keys import check_signature, fingerprint
from tacit_federation.members import Invitation
from tacit_federation.messages import read_parcel, signed
from tacit_federation.server_folder import ANSWERS, ServerFolder
from tacit_federation.statements import ANSWERS_STAY, SHARES_STAY
from tacit_federation.study import AGGREGATORS, SIGNED_AS, Server, Study, StudySite
from tacit_federation.sums import beginning_of, check_share, share_size

STATES = {
    "seen": ("open", "refused"),
    "open": ("closed", "void"),
    "closed": ("locked", "void"),
    "locked": ("opened", "void"),
    "opened": ("released",),
}
RETRY_SECONDS = 600
"""After a sum that was paid for and not stored."""
HELD, LOCK = "tacit-held/1", "tacit-lock/1"
_ONCE = (
    *("hash", "text", "officer", "signature", "agreed", "held", "peer_held", "survivors"),
    *("entry", "sum", "lock", "peer_lock", "peer_sum"),
)
_OPEN = "SELECT * FROM studies WHERE state = 'open'"
_TABLES = (
    tables("aggregator")
    + ANSWERS
    + members.TABLES
    + AUDIT_TABLES
    + append_only("evidence")
    + forward("studies", STATES)
    + write_once("studies", *_ONCE)
)


class Aggregator(ServerFolder):
    """The folder of an aggregator: keys, an authority of its own, members, shares, ledger.

    Parameters
    ----------
    folder : path, made by `Aggregator.create`
    clock : function, optional, returns seconds since 1970

    Attributes
    ----------
    settings : ServerSettings, federation.toml
    ledger : Ledger, which pays for the noise drawn here, for any patient of any honest site
    """

    TABLES: ClassVar[str] = _TABLES
    LEDGER: ClassVar[str] = "aggregator.ledger"
    HIDDEN: ClassVar[tuple[str, ...]] = ("seen", "refused")
    APPROVES: ClassVar[bool] = False
    STATES: ClassVar[Mapping[str, tuple[str, ...]]] = STATES
    FOLDERS: ClassVar[tuple[str, ...]] = (*ServerFolder.FOLDERS, "servers")
    PRESUMES: ClassVar[tuple[str, ...]] = (ANSWERS_STAY, SHARES_STAY)

    def __init__(self, folder: Path | str, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(folder, clock=clock)
        self._clients: dict[str, Client] = {}
        # Tags under a key of this process: what is kept of a seed does not give it back.
        self._key_of_tags = secrets.token_bytes(32)
        self._tags: dict[str, dict[bytes, str]] = {}
        self._tried: dict[str, float] = {}

    @classmethod
    def _new_officers(cls, place: Path) -> list[str]:
        return []  # those of the coordinator sign

    def join(self, invitation: str) -> str:
        """Enrol with a coordinator, or as the first aggregator with the second.

        Parameters
        ----------
        invitation : str, a line received from that server's operator over another channel

        Returns
        -------
        str, the server's address
        """
        invited = Invitation.read(invitation)
        known = self.parties().get(invited.url)
        refuse_another(known, invited)
        if known is not None and known["officers"].split() != list(invited.officers):
            raise Refused(
                f"Expected {invited.url} to invite with the officers that were pinned when it was "
                "joined; these are others. Ask its operator, by a path of its own."
            )
        pin = enrol(folder_for(self.folder, invited.url), invited, self.key)
        row = (invited.url, invited.name, pin, invited.key, " ".join(invited.officers))
        with self.database.writing() as rows:
            rows.execute("INSERT OR IGNORE INTO parties VALUES (?, ?, ?, ?, ?)", row)
            note(rows, self.now(), "joined", server=invited.url, key=invited.key)
        return invited.url

    def parties(self) -> dict[str, Row]:
        """Return the servers that this aggregator joined, by their address.

        Returns
        -------
        dict of name, ca, key and officers
        """
        return {row["url"]: row for row in self.database.rows("SELECT * FROM parties")}

    def client(self, url: str) -> Client:
        """Return the connection to a server that this aggregator joined, open until `hang_up`.

        Parameters
        ----------
        url : str

        Returns
        -------
        Client
        """
        if url not in self._clients:
            pin = self.parties()[url]["ca"]
            place = folder_for(self.folder, url)
            self._clients[url] = Client(place, url, pin=pin, clock=self.now)
        return self._clients[url]

    def hang_up(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            client.close()

    def meet(self, url: str, text: str, officer: str, signature: str) -> Study | None:
        """Record a coordinator's study as "seen", for a person to approve.

        Parameters
        ----------
        url : str, of the coordinator
        text : str, the study's document
        officer, signature : str

        Returns
        -------
        Study or None, None if this aggregator is not in it
        """
        study = Study.read(text)
        role = self._role(study)
        if role is None or study.server("coordinator").url != url:
            return None
        row = (study.hash, text, role, officer, signature, study.window.closes)
        with self.database.writing() as rows:
            query = (
                "INSERT OR IGNORE INTO studies (hash, text, role, state, officer, signature, "
                "closes) VALUES (?, ?, ?, 'seen', ?, ?, ?)"
            )
            if rows.execute(query, row).rowcount:
                note(rows, self.now(), "seen", study=study.hash)
        return study

    def _role(self, study: Study) -> str | None:
        mine = [role for role in AGGREGATORS if study.mode == "two-aggregators"]
        return next((role for role in mine if study.server(role) == self.describe(role)), None)

    def asked(self, name: str) -> list[tuple[str, str]]:
        """Return what a study requires of this aggregator, checked, for a person to read.

        Parameters
        ----------
        name : str, at least the first eight digits of the study's hash

        Returns
        -------
        list of (name, value), what pins or signatures forbid raises `Refused`
        """
        row = self.find(name)
        study = Study.read(row["text"])
        self._check(study, row)
        price = study.plan.epsilon(self.ledger.usable_delta)
        shown = {
            "study": study.hash,
            "title": study.title,
            "purpose": study.purpose,
            "this aggregator": row["role"],
            **{each.role: _pins(each) for each in study.servers},
            "officer": fingerprint(row["officer"]),
            "sites": f"{len(study.sites)}, of which {study.quorum['sites']} must have answered",
            "mechanism": study.plan.mechanism.name,
            "noise drawn here": f"the full deviation, {study.plan.mechanism!r}",
            "price": f"epsilon = {epsilon_text(price)} at delta = {self.ledger.budget.delta:g} for "
            f"one {study.unit}",
            "this ledger": f"epsilon {epsilon_text(self.ledger.spent())} of "
            f"{self.ledger.budget.epsilon:g} spent",
            **({"mind": slow} if (slow := slow_noise(study)) else {}),
        }
        return list(shown.items())

    def _check(self, study: Study, row: Row) -> None:
        known = self.parties()
        coordinator = study.server("coordinator")
        joined = known.get(coordinator.url)
        if joined is None or (joined["ca"], joined["key"]) != (coordinator.ca, coordinator.key):
            raise Refused("Expected a study of the coordinator that this aggregator joined.")
        if row["officer"] not in joined["officers"].split():
            raise Refused(f"Expected an officer of that coordinator, not {row['officer'][:16]}.")
        check_signature(row["officer"], SIGNED_AS, study.hash, row["signature"])
        second = study.server(AGGREGATORS[1])
        if row["role"] == AGGREGATORS[0]:
            other = known.get(second.url)
            if other is None or (other["ca"], other["key"]) != (second.ca, second.key):
                raise Refused("Expected the second aggregator that this one joined.")
        elif not self._knows(study.server(AGGREGATORS[0])):
            raise Refused("Expected a first aggregator that this one invited, with that very key.")
        if study.unit not in (self.ledger.unit, "site"):
            raise Refused(f"Expected the unit of this ledger, {self.ledger.unit!r}.")

    def _knows(self, first: Server) -> bool:
        """Whether the first aggregator enrolled here, by an invitation of its own."""
        query = "SELECT 1 FROM members WHERE role = 'aggregator' AND key = ? AND revoked IS NULL"
        return self.database.row(query, first.key) is not None

    def approve(self, name: str, *, hash: str) -> None:
        """Sign a study and take shares for it; nothing is charged before noise is drawn.

        Parameters
        ----------
        name : str, at least the first eight digits of the study's hash
        hash : str, the same, as a person read and typed them
        """
        row = self.find(name)
        if len(hash) < 8 or not row["hash"].startswith(hash):
            raise Refused("Expected the first eight digits of the study's hash.")
        if row["state"] != "seen":
            if row["state"] in ("refused", "void"):
                raise Refused(f"Expected a study that is still asked: this one is {row['state']}.")
            return
        study = Study.read(row["text"])
        self._check(study, row)
        if self.ledger.would_exceed(study.plan):
            raise Refused("Expected a study within the budget of this aggregator's ledger.")
        agreed = self.key.sign(SIGNED_AS, study.hash)
        self.move(study.hash, "seen", "open", event="approved", columns={"agreed": agreed})

    def refuse(self, name: str) -> None:
        """Refuse a study that was not approved yet.

        Parameters
        ----------
        name : str, at least the first eight digits of the study's hash
        """
        row = self.find(name)
        if not self.move(row["hash"], "seen", "refused"):
            raise Refused(f"Expected a study that is not yet {row['state']}.")

    def check_parcel(
        self, study: Study, site: StudySite, header: Mapping[str, Any], payload: bytes
    ) -> str:
        """Return the sharing id of a share for this aggregator; raise for anything else.

        Parameters
        ----------
        study : Study
        site : StudySite, the sender
        header, payload : mapping and bytes

        Returns
        -------
        str, random and public
        """
        return check_share(study, site, self.find(study.hash)["role"], header, payload)

    def parcel_size(self, study: Study, site: StudySite) -> int:
        """Return the exact number of bytes that a site sends here: a function of study and role.

        Parameters
        ----------
        study : Study
        site : StudySite

        Returns
        -------
        int
        """
        return share_size(study, site, self.find(study.hash)["role"])

    def check_new(self, study: Study, site: str, payload: bytes) -> None:
        """Refuse the share of another site: one seed for two would show their difference.

        Parameters
        ----------
        study : Study
        site : str, the sender
        payload : bytes, the seed or share, secret
        """
        role = self.find(study.hash)["role"]
        seen = self._tags.setdefault(study.hash, {})
        if not seen:
            seen.update(self._taken(study, role))
        if seen.setdefault(self._tag(study, role, payload), site) != site:
            raise Refused("Expected a share of this site's own.")

    def _tag(self, study: Study, role: str, payload: bytes) -> bytes:
        beginning = beginning_of(study, role, payload)
        return hashlib.blake2b(beginning, key=self._key_of_tags).digest()

    def sweep(self) -> None:
        """Delete the shares of studies that are closed to them, on disk and in memory."""
        super().sweep()
        opened = {row["hash"] for row in self.database.rows(_OPEN)}
        for name in set(self._tags) - opened:
            self._tags.pop(name, None)

    def _taken(self, study: Study, role: str) -> Iterator[tuple[bytes, str]]:
        """Yield the beginnings of the shares held, also after a restart."""
        for path in (self.folder / "answers").glob(f"{study.hash}.*"):
            header, payload = read_parcel(path)
            yield self._tag(study, role, payload), str(header["site"])

    def tries_now(self, name: str) -> None:
        """Record that a sum is about to be paid for.

        Parameters
        ----------
        name : str, the study's hash
        """
        self._tried[name] = self.now()

    def has_just_tried(self, name: str) -> bool:
        """Whether a sum was paid for within `RETRY_SECONDS`: not every round may cost an entry.

        Parameters
        ----------
        name : str, the study's hash

        Returns
        -------
        bool
        """
        return name in self._tried and self.now() < self._tried[name] + RETRY_SECONDS

    def _held(self, rows: Connection, row: Row, present: list[str]) -> tuple[str, str]:
        query = "SELECT site, sharing FROM answers WHERE study = ? AND dropped IS NULL"
        found = rows.execute(query + " ORDER BY site", (row["hash"],)).fetchall()
        pairs = [[each["site"], each["sharing"]] for each in found]
        told = {"study": row["hash"], "role": row["role"], "held": pairs}
        return "held", signed(self.key, HELD, told).decode()

    def presence(self, name: str) -> dict[str, Row]:
        """Return, for each site of a study, whether its share is or was held here, and added.

        Parameters
        ----------
        name : str, the study's hash

        Returns
        -------
        dict
            teachers, held, elsewhere (the other aggregator's list; None before it came), added
            (None before the lock) and dropped by site; never a share, or when it came.
        """
        row = self.find(name)
        study = Study.read(row["text"])
        came = self.database.rows("SELECT site, dropped FROM answers WHERE study = ?", study.hash)
        dropped = self._dropped(study, {each["site"]: each["dropped"] for each in came})
        elsewhere = _named(row["peer_held"] and json.loads(row["peer_held"])["held"])
        added = _named(row["survivors"] and json.loads(row["survivors"]))
        return {
            site.id: {
                "teachers": site.teachers,
                "held": site.id in dropped and dropped[site.id] is None,
                "elsewhere": None if elsewhere is None else site.id in elsewhere,
                "added": None if added is None else site.id in added,
                "dropped": dropped.get(site.id),
            }
            for site in study.sites
        }

    def evidence(self, name: str) -> list[str]:
        """Return what the other aggregator signed twice, differently, in a study.

        Parameters
        ----------
        name : str, the study's hash

        Returns
        -------
        list of "held", "lock" or "sum", whose proofs are in table `evidence` of state.sqlite
        """
        query = "SELECT kind FROM evidence WHERE study = ?"
        return [str(row["kind"]) for row in self.database.rows(query, name)]

    def close(self) -> None:
        """Close connections and files."""
        self.hang_up()
        super().close()


def _named(pairs: Sequence[Sequence[str]] | None) -> set[str] | None:
    """Return the sites of a list of (site, sharing id), or None."""
    return None if pairs is None else {site for site, _ in pairs}


def _pins(server: Server) -> str:
    return f"{server.url}, key {fingerprint(server.key)}, authority {fingerprint(server.ca)}"
