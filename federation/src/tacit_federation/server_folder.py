"""A server's folder: keys, authority, members, ledger, studies and their answers.

`draft -> signed -> open -> closed -> released`, or `void`; never back. Final rows are written once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from tacit._files import write_atomically
from tacit.errors import InvalidArgument, Refused
from tacit.ledger import Budget, Ledger, Statement
from tacit_federation import members
from tacit_federation.certificates import Authority, certificate_hash
from tacit_federation.database import (
    AUDIT_TABLES,
    Connection,
    Database,
    Row,
    append_only,
    forward,
    new_folder,
    note,
    on_disk,
    tables,
    write_once,
)
from tacit_federation.keys import SigningKey
from tacit_federation.messages import answers_size, check_answers
from tacit_federation.settings import ServerSettings
from tacit_federation.statements import (
    ANSWERS_STAY,
    SHOWN_TO_NOBODY,
    WITHDRAWN,
    with_presumptions,
)
from tacit_federation.study import Server, Study, StudySite

_PIECE = 1 << 20
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_BESIDE = 64 << 10
"""Bytes that a release and SQLite take besides its numbers and the names of its sites."""
STATES = {
    "draft": ("signed",),
    "signed": ("open",),
    "open": ("closed", "void"),
    "closed": ("released", "void"),
}
ANSWERS = (
    tables("answers")
    + write_once("answers", "study", "site", "sharing", "receipt", "dropped")
    + append_only("withdrawals")
)
"""Tables of whoever takes answers: who gave one, and a clock that never goes back."""
TABLES = (
    tables("coordinator")
    + ANSWERS
    + members.TABLES
    + AUDIT_TABLES
    + append_only("approvals", "agreed", "sums")
    + forward("studies", STATES)
    + write_once("studies", "hash", "text", "officer", "signature", "survivors", "release", "entry")
)


class ServerFolder:
    """The folder of a server that takes answers, with settings and ledger."""

    TABLES: ClassVar[str] = TABLES
    LEDGER: ClassVar[str] = "coordinator.ledger"
    HIDDEN: ClassVar[tuple[str, ...]] = ("draft", "signed")
    """States of studies that sites do not see."""
    APPROVES: ClassVar[bool] = True
    """Whether sites tell their decisions here, before they may answer."""
    STATES: ClassVar[Mapping[str, tuple[str, ...]]] = STATES
    """Which states of a study may follow each."""
    FOLDERS: ClassVar[tuple[str, ...]] = ("inputs", "answers")
    PRESUMES: ClassVar[tuple[str, ...]] = (ANSWERS_STAY, SHOWN_TO_NOBODY)
    """What a statement of this ledger presumes of sites and servers."""

    def __init__(self, folder: Path | str, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = Path(folder)
        self.settings = ServerSettings.read(self.folder / "federation.toml")
        self.authority = Authority.open(self.folder / "keys")
        self.key = SigningKey.open(self.folder / "keys" / "signing.key")
        self.ledger = Ledger(self.folder / self.LEDGER)
        self.database = Database(self.folder / "state.sqlite", self.TABLES)
        self._clock = clock

    @classmethod
    def create(
        cls,
        folder: Path | str,
        settings: ServerSettings,
        *,
        hosts: Sequence[str],
        budget: Budget,
        unit: str,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Create keys, authority, ledger and settings in a new or empty folder.

        `budget` is for all studies, for any patient of any honest site; `hosts` are the server's
        names. A coordinator's `officer.key`, which signs studies, may be moved elsewhere.
        """
        place = Path(folder)
        with new_folder(place):
            keys = place / "keys"
            for part in ("keys", *cls.FOLDERS):
                (place / part).mkdir(mode=0o700)
            Authority.create(keys, settings.name).issue_server(keys, hosts)
            SigningKey.generate().write(keys / "signing.key")
            officers = "".join(f"{key}\n" for key in cls._new_officers(place))
            write_atomically(place / "officers", officers.encode())
            Ledger(place / cls.LEDGER, budget=budget, unit=unit, dataset=settings.name)
            settings.write(place / "federation.toml")  # last: a folder without it is not one
            return cls(place, clock=clock)

    @classmethod
    def _new_officers(cls, place: Path) -> list[str]:
        """Create keys that sign studies here; return the public ones."""
        raise NotImplementedError

    def describe(self, role: str) -> Server:
        """Return this server in a role, as studies name it, with its pinned keys and budget."""
        budget, pin = self.ledger.budget, certificate_hash(self.authority.pem)
        pinned = (self.settings.url, pin, self.key.public, self.ledger.origin)
        return Server(role, *pinned, budget.epsilon, budget.delta)

    @property
    def officers(self) -> tuple[str, ...]:
        """Public keys that may sign studies here: the file `officers`, one a line."""
        return tuple((self.folder / "officers").read_text(encoding="ascii").split())

    def now(self) -> float:
        """Return seconds since 1970, which never go back: decisions by the clock stay."""
        found = self.database.row("SELECT latest FROM clock")
        return max(self._clock(), found["latest"] if found else 0.0)

    def invite(self, name: str, role: str = "site") -> str:
        """Return an invitation of a new "site" or "analyst", secret until it was used."""
        token = members.new_token(self.database, name, role, self.now())
        base = self.settings.url.rpartition(":")[0] if _has_port(self.settings.url) else ""
        enrol = f"{base or self.settings.url}:{self.settings.enrol_port}"
        return members.Invitation(
            name,
            self.settings.url,
            enrol,
            self.authority.pem.decode(),
            self.key.public,
            self.officers,
            token,
        ).text()

    def revoke(self, name: str) -> None:
        """Exclude a member at once; its answer to an open study is dropped."""
        now = self.now()
        with self.database.writing() as rows:
            query = "UPDATE members SET revoked = ? WHERE id = ? AND revoked IS NULL"
            if not rows.execute(query, (int(now), name)).rowcount:
                raise InvalidArgument(f"Expected the name of a member, got {name[:80]!r}.")
            open_ones = "SELECT hash FROM studies WHERE state = 'open'"
            for study in rows.execute(open_ones).fetchall():
                drop_answer(rows, study["hash"], name, "revoked")
            note(rows, now, "revoked", member=name)
        self.sweep()

    def inputs_of(self, name: str) -> Path:
        """Return the path of a study's inputs, an npy file."""
        return self.folder / "inputs" / f"{name}.npy"

    def frame_of(self, name: str) -> Path:
        """Return the path of the centres and weights of a study of codes."""
        return self.folder / "inputs" / f"{name}.frame.npy"

    def answers_of(self, name: str, site: str, sharing: str) -> Path:
        """Return the path of one site's answers by sharing id. Secret, mode 0600."""
        return self.folder / "answers" / f"{name}.{site}.{sharing}"

    def find(self, beginning: str) -> Row:
        """Return the row of the one study whose hash begins so, with at least 8 digits."""
        query = "SELECT * FROM studies WHERE substr(hash, 1, ?) = ?"  # not all are read
        found = self.database.rows(query, len(beginning), beginning)
        if len(beginning) < 8 or len(found) != 1:
            raise InvalidArgument(
                f"Expected the first eight or more digits of one study's hash, got "
                f"{beginning[:80]!r}; `tacit study show` lists them."
            )
        return found[0]

    def studies(self) -> list[Row]:
        """Return the rows of all studies, the oldest first."""
        return self.database.rows("SELECT * FROM studies ORDER BY rowid")

    def open_study(self, name: str) -> tuple[Study, Row]:
        """Return a study that sites may see, and its row; `InvalidArgument` for any other."""
        row = self.database.row("SELECT * FROM studies WHERE hash = ?", name)
        if row is None or row["state"] in self.HIDDEN:
            raise InvalidArgument("Expected the hash of a study that was opened here.")
        return Study.read(row["text"]), row

    def check_parcel(
        self, study: Study, site: StudySite, header: Mapping[str, Any], payload: bytes
    ) -> str:
        """Return the sharing id of a valid parcel from a site; raise for any other."""
        if self.server_roles(study) == ():
            raise Refused("Expected a study whose answers this server takes.")
        return check_answers(study, site, header, payload)

    def server_roles(self, study: Study) -> tuple[str, ...]:
        """Return the roles in which this server receives answers of a study."""
        return tuple(each.role for each in study.receivers if each.key == self.key.public)

    def check_new(self, study: Study, site: str, payload: bytes) -> None:
        """Refuse another site's payload (shares; counts may be equal), under the write lock."""

    def parcel_size(self, study: Study, site: StudySite) -> int:
        """Return the exact number of bytes that a site sends here: a function of the study."""
        return answers_size(study, site)

    def rehearse_write(self, study: Study) -> None:
        """Write twice the size of a release, and remove it: a full disk must not cost an entry."""
        trial = self.folder / "uploads" / "rehearsal"
        trial.parent.mkdir(mode=0o700, exist_ok=True)
        with on_disk(trial):
            try:
                numbers, names = 8 * study.shape[0] * study.shape[1], 128 * len(study.sites)
                _fill(trial, 2 * (numbers + names + _BESIDE))
            finally:
                trial.unlink(missing_ok=True)
        with self.database.writing() as rows:
            rows.execute("UPDATE clock SET latest = MAX(latest, ?)", (self.now(),))

    def move(
        self,
        name: str,
        old: str,
        new: str,
        *,
        event: str = "",
        about: Mapping[str, Any] = _NOTHING,
        columns: Mapping[str, Any] = _NOTHING,
    ) -> bool:
        """Move a study from state `old` to `new`, log it, and write `columns`, in one transaction.

        False, with nothing written, if it was in another state.
        """
        names = "".join(f", {column} = :{column}" for column in columns)
        query = f"UPDATE studies SET state = :new{names} WHERE hash = :hash AND state = :old"
        with self.database.writing() as rows:
            given = {**columns, "new": new, "hash": name, "old": old}
            done = rows.execute(query, given).rowcount > 0
            if done:
                note(rows, self.now(), event or new, study=name, **about)
        return done

    def close_due(self) -> None:
        """Close what is due: a function of the clock and of presence."""
        now = self.now()
        for row in self.database.rows("SELECT hash, closes FROM studies WHERE state = 'open'"):
            if now >= row["closes"]:
                self._close(row["hash"], now)

    def _close(self, name: str, now: float) -> None:
        with self.database.writing() as rows:
            row = rows.execute("SELECT * FROM studies WHERE hash = ?", (name,)).fetchone()
            if row["state"] != "open" or now < row["closes"]:
                return
            study, present = Study.read(row["text"]), present_sites(rows, name)
            later = [end for end in study.window.extensions if end > row["closes"]]
            rows.execute("UPDATE clock SET latest = MAX(latest, ?)", (now,))
            takes = bool(self.server_roles(study))  # if not, others know who is present
            if takes and study.reached(present):
                column, value = self._held(rows, row, present)
                query = f"UPDATE studies SET state = 'closed', {column} = ? WHERE hash = ?"
                rows.execute(query, (value, name))
                note(rows, now, "closed", study=name, sites=present)
            elif later:
                rows.execute("UPDATE studies SET closes = ? WHERE hash = ?", (later[0], name))
                note(rows, now, "extended", study=name, closes=later[0])
            else:
                state = "void" if takes else "closed"
                rows.execute("UPDATE studies SET state = ? WHERE hash = ?", (state, name))
                note(rows, now, state, study=name, **({} if takes else {"closes": row["closes"]}))

    def _held(self, rows: Connection, row: Row, present: list[str]) -> tuple[str, str]:
        """Return the column of the sites in the sum when a study closes, and its value."""
        raise NotImplementedError

    def statement(self) -> Statement:
        """Return this server's statement over all studies, with its assumptions about others."""
        # Told too late for the release, it stands here all the same.
        withdrawn = self.database.row("SELECT 1 FROM withdrawals") is not None
        warnings = [WITHDRAWN] if withdrawn else []
        return with_presumptions(self.ledger.statement(), *self.PRESUMES, warnings=warnings)

    def _dropped(self, study: Study, known: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return why sites are not counted, or None; withdrawals come last."""
        query = "SELECT site FROM withdrawals WHERE study = ?"
        gone = self.database.rows(query, study.hash)
        return {**known, **{row["site"]: "withdrawn" for row in gone}}

    def warnings_of(self, name: str) -> list[str]:
        """Return warnings of sites withdrawn from a study; they follow from no record."""
        query = "SELECT 1 FROM withdrawals WHERE study = ?"
        return [WITHDRAWN] if self.database.row(query, name) else []

    def end(self, name: str, why: str = "ended by the operator") -> None:
        """End a study of which no sum was shown: it is void, and its answers are deleted.

        Its cost stays charged, at sites and here. An aggregator informs the other one.
        """
        found = self.find(name)
        ended_from = [state for state, later in self.STATES.items() if "void" in later]
        with self.database.writing() as rows:
            query = "SELECT state FROM studies WHERE hash = ?"
            state = rows.execute(query, (found["hash"],)).fetchone()["state"]
            if state not in ended_from:
                raise Refused(f"Expected a study that can still be ended: this one is {state}.")
            rows.execute("UPDATE studies SET state = 'void' WHERE hash = ?", (found["hash"],))
            note(rows, self.now(), "void", study=found["hash"], why=why)
        self.sweep()

    def sweep(self) -> None:
        """Delete answers that are not needed any more: of ended studies, dropped, or stray."""
        query = (
            "SELECT study, site, sharing FROM answers JOIN studies ON hash = study "
            "WHERE dropped IS NULL AND state IN ('open', 'closed')"
        )
        kept = {self.answers_of(*row.values()).name for row in self.database.rows(query)}
        for path in (self.folder / "answers").iterdir():
            if path.name in kept:
                continue
            ended = self._state(path.name.split(".")[0]) not in ("open", "closed")
            dropped = self._is_dropped(path.name)
            if ended or dropped:
                path.unlink(missing_ok=True)
        self._sweep_parts()

    def _sweep_parts(self) -> None:
        """Delete parts of answers that will never be complete."""
        uploads = self.folder / "uploads"
        parts = [each for each in uploads.glob("*.part") if is_part(each.name)]
        for path in parts:
            study, site = path.name.split(".")[:2]
            query = (
                "SELECT 1 FROM studies, members WHERE hash = ? AND (state = 'open' OR "
                "EXISTS (SELECT 1 FROM answers WHERE study = hash AND site = id)) "
                "AND id = ? AND revoked IS NULL "
                "AND NOT EXISTS (SELECT 1 FROM withdrawals WHERE study = hash AND site = id)"
            )
            if self.database.row(query, study, site) is None:
                path.unlink(missing_ok=True)

    def _state(self, name: str) -> str | None:
        row = self.database.row("SELECT state FROM studies WHERE hash = ?", name)
        return None if row is None else str(row["state"])

    def _is_dropped(self, name: str) -> bool:
        sharing = name.rpartition(".")[2]
        query = "SELECT 1 FROM answers WHERE sharing = ? AND dropped IS NOT NULL"
        return self.database.row(query, sharing) is not None

    def close(self) -> None:
        """Close the files."""
        self.database.close()


def _fill(path: Path, size: int) -> None:
    """Write zeros, synchronised."""
    with path.open("wb") as file:
        for begin in range(0, size, _PIECE):
            file.write(bytes(min(_PIECE, size - begin)))
        file.flush()
        os.fsync(file.fileno())


def part_name(study: str, site: str, number: int) -> str:
    """Return the file name of one part of a site's answers."""
    return f"{study}.{site}.{number}.part"


def is_part(name: str) -> bool:
    """Whether a file in `uploads` is such a part."""
    return name.endswith(".part") and name.count(".") == 3


def _has_port(url: str) -> bool:
    return url.removeprefix("https://").rpartition(":")[2].isdigit()


def present_sites(rows: Connection, study: str) -> list[str]:
    """Return the sites that answered and were not dropped, by name."""
    query = "SELECT site FROM answers WHERE study = ? AND dropped IS NULL ORDER BY site"
    return [row["site"] for row in rows.execute(query, (study,)).fetchall()]


def drop_answer(rows: Connection, study: str, site: str, why: str) -> bool:
    """Drop an answer from the count; False if there is none that counts."""
    query = "UPDATE answers SET dropped = ? WHERE study = ? AND site = ? AND dropped IS NULL"
    return bool(rows.execute(query, (why, study, site)).rowcount)
