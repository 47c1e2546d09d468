"""Logins of the console: passwords (scrypt), sessions, and a pause after five failures."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass, field

from tacit.errors import InvalidArgument
from tacit_federation.database import Database, Row
from tacit_federation.study import is_name

PEOPLE = ("officer", "analyst")
IDLE_SECONDS, LONGEST_SECONDS = 30 * 60, 8 * 3600
FAILURES, PAUSE_SECONDS = 5, 15 * 60
LEAST_SIGNS = 12
_SCRYPT = {"n": 1 << 15, "r": 8, "p": 1, "maxmem": 64 << 20, "dklen": 32}


def _hashed(password: str, salt: bytes) -> str:
    return hashlib.scrypt(password.encode(), salt=salt, **_SCRYPT).hex()


def set_password(database: Database, name: str, role: str | None, password: str) -> str:
    """Add a login, or change its password; return its role.

    `role` is "officer" (default of a new login) or "analyst"; passwords have at least 12
    characters.
    """
    if role is None:
        known = database.row("SELECT role FROM people WHERE name = ?", name)
        role = "officer" if known is None else str(known["role"])
    if not is_name(name) or role not in PEOPLE:
        raise InvalidArgument("Expected a login of small letters, and officer or analyst.")
    if not LEAST_SIGNS <= len(password) <= 1000:
        raise InvalidArgument(f"Expected a password of at least {LEAST_SIGNS} signs.")
    salt = secrets.token_bytes(16)
    row = (name, role, salt.hex(), _hashed(password, salt))
    with database.writing() as rows:
        rows.execute("INSERT OR REPLACE INTO people VALUES (?, ?, ?, ?)", row)
    return role


@dataclass(slots=True)
class Session:
    """One login."""

    name: str
    role: str
    token: str
    password: str = field(repr=False)
    begun: float
    seen: float


class Sessions:
    """All logins, in memory: a restart ends them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sessions: dict[str, Session] = {}
        self._failures: dict[str, list[float]] = {}

    def log_in(self, name: str, password: str) -> str | None:
        """Return a cookie for the right password, otherwise None."""
        now = time.monotonic()
        recent = [at for at in self._failures.get(name, ()) if now - at < PAUSE_SECONDS]
        if len(recent) >= FAILURES:
            return None
        if len(self._failures) > 10_000:
            self._failures.clear()
        # Before the slow part: many at once must not each find the count of the one before.
        self._failures[name] = [*recent, now]
        row = self._person(name)
        salt = bytes.fromhex(row["salt"]) if row else b"nobody's salt..."
        made = _hashed(password[:1000], salt)  # also for nobody: time must not tell who is known
        if row is None or not hmac.compare_digest(made, row["password"]):
            return None
        self._failures.pop(name, None)
        cookie = secrets.token_urlsafe(32)
        new = Session(name, row["role"], secrets.token_urlsafe(32), row["password"], now, now)
        self._sessions[_key(cookie)] = new
        return cookie

    def _person(self, name: str) -> Row | None:
        return self._database.row("SELECT * FROM people WHERE name = ?", name)

    def find(self, cookie: str | None) -> Session | None:
        """Return a cookie's session, unless idle, eight hours old, or before a password change."""
        found = self._sessions.get(_key(cookie or ""))
        if found is None:
            return None
        now = time.monotonic()
        idle, old = now - found.seen > IDLE_SECONDS, now - found.begun > LONGEST_SECONDS
        person = self._person(found.name)
        if idle or old or person is None or person["password"] != found.password:
            self.log_out(cookie)
            return None
        found.seen = now
        return found

    def log_out(self, cookie: str | None) -> None:
        """End a session."""
        self._sessions.pop(_key(cookie or ""), None)


def _key(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).hexdigest()
