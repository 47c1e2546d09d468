"""What a server has on disk: keys, authority, members, ledger, studies and their answers.

`draft -> signed -> open -> closed -> released`, or `void`; never back. Rows that say how something
ended are written once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tacit._files import write_atomically
from tacit.errors import InvalidArgument, Refused
from tacit.federation import audit_log, members
from tacit.federation.audit_log import note
from tacit.federation.certificates import Authority, certificate_hash
from tacit.federation.database import (
    Connection,
    Database,
    Row,
    append_only,
    forward,
    on_disk,
    write_once,
)
from tacit.federation.keys import SigningKey
from tacit.federation.messages import answers_size, check_answers
from tacit.federation.settings import ServerSettings
from tacit.federation.statements import WITHDRAWN
from tacit.federation.study import Server, Study, StudySite
from tacit.ledger import Budget, Ledger

_PIECE = 1 << 20
_BESIDE = 64 << 10
"""Bytes that a release and SQLite take besides its numbers and the names of its sites."""
STATES = {
    "draft": ("signed",),
    "signed": ("open",),
    "open": ("closed", "void"),
    "closed": ("released", "void"),
}
ANSWERS = """
CREATE TABLE answers (
    study TEXT NOT NULL,
    site TEXT NOT NULL,
    sharing TEXT NOT NULL UNIQUE,
    receipt TEXT NOT NULL,
    dropped TEXT,
    PRIMARY KEY (study, site)
);
CREATE TABLE withdrawals (
    study TEXT NOT NULL,
    site TEXT NOT NULL,
    PRIMARY KEY (study, site)
);
CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), latest REAL NOT NULL);
INSERT INTO clock VALUES (1, 0);
""" + "".join(
    write_once("answers", column) for column in ("study", "site", "sharing", "receipt", "dropped")
)
ANSWERS += append_only("withdrawals")
"""Tables of whoever takes answers: who gave one, and a clock that never goes back."""
TABLES = (
    """
CREATE TABLE studies (
    hash TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    state TEXT NOT NULL,
    officer TEXT,
    signature TEXT,
    closes INTEGER NOT NULL,
    survivors TEXT,
    release BLOB,
    entry TEXT
);
CREATE TABLE approvals (
    study TEXT NOT NULL,
    site TEXT NOT NULL,
    decision TEXT NOT NULL CHECK (decision IN ('approved', 'refused')),
    note TEXT NOT NULL,
    PRIMARY KEY (study, site)
);
CREATE TABLE people (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('officer', 'analyst')),
    salt TEXT NOT NULL,
    password TEXT NOT NULL
);
CREATE TABLE agreed (
    study TEXT NOT NULL,
    role TEXT NOT NULL,
    signature TEXT NOT NULL,
    PRIMARY KEY (study, role)
);
CREATE TABLE sums (
    study TEXT NOT NULL,
    role TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (study, role)
);
"""
    + ANSWERS
    + members.TABLES
    + audit_log.TABLES
    + append_only("approvals")
    + append_only("agreed")
    + append_only("sums")
    + forward("studies", STATES)
    + "".join(
        write_once("studies", column)
        for column in ("hash", "text", "officer", "signature", "survivors", "release", "entry")
    )
)


class ServerFolder:
    """The folder of a server that takes answers, and what is on record there.

    Parameters
    ----------
    folder : path
        What `create` made.
    clock : function, optional
        Returns seconds since 1970.

    Attributes
    ----------
    settings : ServerSettings
        federation.toml.
    ledger : Ledger
        Who pays for releases; it proves its budget for any patient of any site.
    """

    TABLES: ClassVar[str] = TABLES
    LEDGER: ClassVar[str] = "coordinator.ledger"
    HIDDEN: ClassVar[tuple[str, ...]] = ("draft", "signed")
    """States of studies that sites do not see."""
    APPROVES: ClassVar[bool] = True
    """Whether sites tell their decisions here, before they may answer."""
    STATES: ClassVar[Mapping[str, tuple[str, ...]]] = STATES
    """Which states of a study may follow each."""

    def __init__(self, folder: Path | str, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = Path(folder)
        self.settings = ServerSettings.read(self.folder / "federation.toml")
        self.authority = Authority.open(self.folder / "keys")
        self.key = SigningKey.open(self.folder / "keys" / "signing.key")
        self.ledger = Ledger(self.folder / self.LEDGER)
        self.database = Database(self.folder / "state.sqlite", self.TABLES)
        self._clock = clock

    @classmethod
    def make(
        cls,
        place: Path,
        settings: ServerSettings,
        *,
        hosts: Sequence[str],
        budget: Budget,
        unit: str,
        officers: Sequence[str],
    ) -> None:
        """Write keys, authority, ledger and settings into a new or empty folder.

        Parameters
        ----------
        place : path
            Must not exist, or hold nothing but what its owner has just put there.
        settings : ServerSettings
            Its federation.toml.
        hosts : sequence of str
            Names and addresses by which others reach it.
        budget : Budget
            The most that all its studies may cost together.
        unit : str
            Whose privacy the ledger counts.
        officers : sequence of str
            Public keys of those who may sign its studies.
        """
        keys = place / "keys"
        keys.mkdir(parents=True, exist_ok=True)
        place.chmod(0o700)
        Authority.create(keys, settings.name).issue_server(keys, hosts)
        SigningKey.generate().write(keys / "signing.key")
        write_atomically(place / "officers", "".join(f"{key}\n" for key in officers).encode())
        Ledger(place / cls.LEDGER, budget=budget, unit=unit, dataset=settings.name)
        for part in ("inputs", "answers"):
            (place / part).mkdir(mode=0o700)
        settings.write(place / "federation.toml")  # last: a folder without it is not one

    def describe(self, role: str) -> Server:
        """Return how studies name this server.

        Parameters
        ----------
        role : str
            What it is in a study.

        Returns
        -------
        Server
            With its authority, key, ledger and budget pinned.
        """
        budget, pin = self.ledger.budget, certificate_hash(self.authority.pem)
        pinned = (self.settings.url, pin, self.key.public, self.ledger.origin)
        return Server(role, *pinned, budget.epsilon, budget.delta)

    @property
    def officers(self) -> tuple[str, ...]:
        """Public keys of those who may sign studies here: the file `officers`, one a line."""
        return tuple((self.folder / "officers").read_text(encoding="ascii").split())

    def now(self) -> float:
        """Return the time, which never goes back: what was decided by it stays decided.

        Returns
        -------
        float
            Seconds since 1970.
        """
        found = self.database.row("SELECT latest FROM clock")
        return max(self._clock(), found["latest"] if found else 0.0)

    def invite(self, name: str, role: str = "site") -> str:
        """Return an invitation, to be handed over by a path of its own.

        Parameters
        ----------
        name : str
            What the member will be called.
        role : str
            "site", or "analyst", who reads releases.

        Returns
        -------
        str
            One line; secret until it was used.
        """
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
        """Shut a member out at once; an answer that it gave to an open study is dropped.

        Parameters
        ----------
        name : str
            The member's.
        """
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
        """Return where the inputs of a study are.

        Parameters
        ----------
        name : str
            The study's hash.

        Returns
        -------
        path
            An npy file.
        """
        return self.folder / "inputs" / f"{name}.npy"

    def frame_of(self, name: str) -> Path:
        """Return where the centres and weights of a study of codes are.

        Parameters
        ----------
        name : str
            The study's hash.

        Returns
        -------
        path
            An npy file.
        """
        return self.folder / "inputs" / f"{name}.frame.npy"

    def answers_of(self, name: str, site: str, sharing: str) -> Path:
        """Return where one site's answers are, while they are. Secret.

        Parameters
        ----------
        name : str
            The study's hash.
        site, sharing : str
            Whose, and the id of this very answer.

        Returns
        -------
        path
            A frame, mode 0600.
        """
        return self.folder / "answers" / f"{name}.{site}.{sharing}"

    def find(self, beginning: str) -> Row:
        """Return the one study whose hash begins so.

        Parameters
        ----------
        beginning : str
            At least 8 digits.

        Returns
        -------
        dict
            hash, text, state and what else is on record.
        """
        query = "SELECT * FROM studies WHERE substr(hash, 1, ?) = ?"  # not all are read
        found = self.database.rows(query, len(beginning), beginning)
        if len(beginning) < 8 or len(found) != 1:
            raise InvalidArgument(
                f"Expected the first eight or more digits of one study's hash, got "
                f"{beginning[:80]!r}; `tacit study show` lists them."
            )
        return found[0]

    def studies(self) -> list[Row]:
        """Return all studies, in the order in which they were drafted.

        Returns
        -------
        list of dict
            One row each.
        """
        return self.database.rows("SELECT * FROM studies ORDER BY rowid")

    def open_study(self, name: str) -> tuple[Study, Row]:
        """Return a study that sites may see; `InvalidArgument` for any other.

        Parameters
        ----------
        name : str
            The study's hash.

        Returns
        -------
        tuple of Study and dict
            The document, and its row.
        """
        row = self.database.row("SELECT * FROM studies WHERE hash = ?", name)
        if row is None or row["state"] in self.HIDDEN:
            raise InvalidArgument("Expected the hash of a study that was opened here.")
        return Study.read(row["text"]), row

    def check_parcel(
        self, study: Study, site: StudySite, header: Mapping[str, Any], payload: bytes
    ) -> str:
        """Return the sharing id of a parcel that is what this server takes; raise for any other.

        Parameters
        ----------
        study : Study
            What it is for.
        site : StudySite
            Who sends it.
        header, payload : mapping and bytes
            What came.

        Returns
        -------
        str
            Random; public.
        """
        if self.server_roles(study) == ():
            raise Refused("Expected a study whose answers this server takes.")
        return check_answers(study, site, header, payload)

    def server_roles(self, study: Study) -> tuple[str, ...]:
        """Return in which roles this server receives answers of a study.

        Parameters
        ----------
        study : Study
            Which names its servers.

        Returns
        -------
        tuple of str
            Empty where it is no receiver.
        """
        return tuple(each.role for each in study.receivers if each.key == self.key.public)

    def check_new(self, study: Study, site: str, payload: bytes) -> None:
        """Refuse what another site sent before; called under the write lock.

        Parameters
        ----------
        study : Study
            What it is for.
        site : str
            Who sends it.
        payload : bytes
            What came: counts may well be equal, shares never.
        """

    def parcel_size(self, study: Study, site: StudySite) -> int:
        """Return how many bytes a site sends here, exactly.

        Parameters
        ----------
        study : Study
            What it is for.
        site : StudySite
            Who sends it.

        Returns
        -------
        int
            A function of the study.
        """
        return answers_size(study, site)

    def rehearse_write(self, study: Study) -> None:
        """Write twice what a release takes, and remove it: a full disk must not cost an entry.

        Parameters
        ----------
        study : Study
            Which is about to be charged.
        """
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

    def warnings_of(self, name: str) -> list[str]:
        """Return what a statement about a study has to warn of: that a site took back its consent.

        Parameters
        ----------
        name : str
            The study's hash.

        Returns
        -------
        list of str
            Public; of the clock and of people, never of records.
        """
        query = "SELECT 1 FROM withdrawals WHERE study = ?"
        return [WITHDRAWN] if self.database.row(query, name) else []

    def end(self, name: str, why: str = "ended by the operator") -> None:
        """End a study of which no sum was shown: it is void, and answers to it are deleted.

        Parameters
        ----------
        name : str
            The study's hash, or its beginning.
        why : str
            In a few words, for the audit log.

        Notes
        -----
        What it cost stays charged, at sites and here. An aggregator tells the other one.
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
        """Delete answers that nobody needs any more: of ended studies, dropped, or stray."""
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
        """Close the files; what was written stays."""
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
    """Tell whether a file in `uploads` is such a part."""
    return name.endswith(".part") and name.count(".") == 3


def _has_port(url: str) -> bool:
    return url.removeprefix("https://").rpartition(":")[2].isdigit()


def drop_answer(rows: Connection, study: str, site: str, why: str) -> bool:
    """Let an answer count no more; False if there is none that counts."""
    query = "UPDATE answers SET dropped = ? WHERE study = ? AND site = ? AND dropped IS NULL"
    return bool(rows.execute(query, (why, study, site)).rowcount)
