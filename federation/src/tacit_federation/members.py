"""Membership: invitations, enrolment, certificates, revocation.

An invitation is a text that the operator sends over another channel, with the server's address, its
keys, and a token that works once. Permissions are in this table and read at each request, by the
fingerprint of the certificate: revocation is immediate.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
import sqlite3
from dataclasses import dataclass
from typing import Any

from tacit.errors import InvalidArgument, Refused
from tacit.ledger import canonical
from tacit_federation.certificates import (
    Authority,
    certificate_hash,
    key_of_certificate,
    key_of_request,
)
from tacit_federation.database import Database, Row, note, tables, write_once
from tacit_federation.keys import check_signature, is_key
from tacit_federation.study import is_address, is_name

ROLES = ("site", "analyst", "aggregator")
ENROLMENT = "tacit-enrolment/1"
DAY = 86_400
_TOKEN_DAYS, _REPEAT_SECONDS = 7, DAY
_PREFIX = "tacit-invitation-1:"
_FIELDS = {"name", "url", "enrol", "authority", "key", "officers", "token"}

TABLES = (
    tables("members")
    + write_once("invitations", "token", "member", "role", "expires", "used", "fingerprint")
    + write_once("members", "id", "role", "key", "enrolled", "revoked")
    + write_once("certificates", "fingerprint", "member", "pem")
)


@dataclass(frozen=True, slots=True)
class Invitation:
    """All that a member needs to join one server, with its pinned keys; the token works once."""

    name: str
    url: str
    enrol: str
    authority: str
    key: str
    officers: tuple[str, ...]
    token: str

    def text(self) -> str:
        """Return the one line to send; secret until it was used."""
        plain = {name: getattr(self, name) for name in sorted(_FIELDS)}
        return _PREFIX + base64.urlsafe_b64encode(canonical(plain).encode()).decode()

    @classmethod
    def read(cls, text: str) -> Invitation:
        """Read the line, checked."""
        try:
            body = "".join(text.split())
            if not body.startswith(_PREFIX):
                raise ValueError
            plain = json.loads(base64.urlsafe_b64decode(body[len(_PREFIX) :]))
            officers = plain.pop("officers")
            words = all(isinstance(value, str) for value in plain.values())
            keys = is_key(plain["key"]) and all(is_key(each) for each in officers)
            if {*plain, "officers"} != _FIELDS or not (words and keys and is_name(plain["name"])):
                raise ValueError
            # Answers go there: never over a line that anybody can read.
            if not (is_address(plain["url"]) and is_address(plain["enrol"])):
                raise ValueError
        except (AttributeError, KeyError, TypeError, ValueError, binascii.Error):
            raise InvalidArgument(
                "Expected an invitation: the line that `tacit coordinator invite` prints."
            ) from None
        return cls(**plain, officers=tuple(officers))


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def new_token(database: Database, member: str, role: str, now: float) -> str:
    """Return a token for a new member; it is stored hashed."""
    if not is_name(member):
        raise InvalidArgument(
            f"Expected a name of small letters, digits and hyphens, got {str(member)[:80]!r}."
        )
    if role not in ROLES:
        raise InvalidArgument(f"Expected a role of {', '.join(ROLES)}, got {str(role)[:80]!r}.")
    token = secrets.token_urlsafe(32)
    with database.writing() as rows:
        if rows.execute("SELECT 1 FROM members WHERE id = ?", (member,)).fetchone():
            raise InvalidArgument(f"Expected a new name: {member!r} has enrolled.")
        rows.execute(
            "INSERT INTO invitations VALUES (?, ?, ?, ?, NULL, NULL)",
            (_hashed(token), member, role, int(now) + _TOKEN_DAYS * DAY),
        )
        note(rows, now, "invited", member=member, role=role)
    return token


def enrol(database: Database, authority: Authority, request: dict[str, Any], now: float) -> bytes:
    """Return a new member's certificate; a repeated request within a day gets the same again."""
    token, csr, key = request.get("token"), request.get("csr"), request.get("key")
    if not (isinstance(token, str) and isinstance(csr, str) and is_key(key)):
        raise InvalidArgument("Expected token, csr and key.")
    asked = key_of_request(csr.encode())
    check_signature(str(key), ENROLMENT, csr, request.get("signature"))
    with database.writing() as rows:
        found = rows.execute("SELECT * FROM invitations WHERE token = ?", (_hashed(token),))
        invited: Row | None = found.fetchone()
        if invited is None or now > invited["expires"]:
            raise Refused("Expected a token that was given out and has not expired.")
        if invited["used"] is not None:
            return _again(rows, invited, asked, str(key), now)
        pem = authority.issue_client(csr.encode(), invited["member"])
        used = (int(now), certificate_hash(pem), invited["token"])
        try:
            new = (invited["member"], invited["role"], key, int(now))
            rows.execute("INSERT INTO members VALUES (?, ?, ?, ?, NULL)", new)
        except sqlite3.IntegrityError:
            raise Refused("Expected a new member with a key of its own.") from None
        rows.execute("UPDATE invitations SET used = ?, fingerprint = ? WHERE token = ?", used)
        _add(rows, invited["member"], pem)
        note(rows, now, "enrolled", member=invited["member"], role=invited["role"], key=key)
    return pem


def _again(rows: sqlite3.Connection, invited: Row, asked: str, key: str, now: float) -> bytes:
    """Return the certificate of a repeated request; a token works once."""
    query = (
        "SELECT pem, key, revoked FROM certificates JOIN members ON id = member "
        "WHERE fingerprint = ?"
    )
    given: Row = rows.execute(query, (invited["fingerprint"],)).fetchone()
    same = key_of_certificate(given["pem"].encode()) == asked and given["key"] == key
    if not same or given["revoked"] is not None or now > invited["used"] + _REPEAT_SECONDS:
        raise Refused("Expected a token that was not used.")
    return bytes(given["pem"].encode())


def _add(rows: sqlite3.Connection, member: str, pem: bytes) -> None:
    new = (certificate_hash(pem), member, pem.decode())
    rows.execute("INSERT INTO certificates VALUES (?, ?, ?)", new)


def renew(database: Database, authority: Authority, member: Row, csr: bytes, now: float) -> bytes:
    """Return a further certificate for a member."""
    pem = authority.issue_client(csr, member["id"])
    with database.writing() as rows:
        _add(rows, member["id"], pem)
        note(rows, now, "renewed", member=member["id"])
    return pem


def member_of(database: Database, fingerprint: str | None) -> Row | None:
    """Return the member of this certificate, unless revoked; None fails closed."""
    if not fingerprint:
        return None
    return database.row(
        "SELECT members.* FROM certificates JOIN members ON members.id = certificates.member "
        "WHERE fingerprint = ? AND revoked IS NULL",
        fingerprint,
    )


def all_members(database: Database) -> list[Row]:
    """Return members and invited ones, in the order of their names."""
    enrolled = database.rows("SELECT * FROM members ORDER BY id")
    names = {row["id"] for row in enrolled}
    waiting = database.rows("SELECT DISTINCT member AS id, role FROM invitations ORDER BY member")
    nobody = {"key": None, "enrolled": None, "revoked": None}
    return enrolled + [{**row, **nobody} for row in waiting if row["id"] not in names]
