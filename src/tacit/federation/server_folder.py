"""What a server has on disk: keys, authority, members, ledger, studies and their answers.

`draft -> signed -> open -> closed -> released`, or `void`; never back. Rows that say how something
ended are written once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tacit.errors import InvalidArgument
from tacit.federation import audit_log, members
from tacit.federation.audit_log import note
from tacit.federation.certificates import Authority
from tacit.federation.database import (
    Connection,
    Database,
    Row,
    append_only,
    forward,
    write_once,
)
from tacit.federation.keys import SigningKey
from tacit.federation.settings import ServerSettings
from tacit.federation.study import Study
from tacit.ledger import Ledger

STATES = {
    "draft": ("signed",),
    "signed": ("open",),
    "open": ("closed", "void"),
    "closed": ("released",),
}
ENDED = ("released", "void")
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
CREATE TABLE answers (
    study TEXT NOT NULL,
    site TEXT NOT NULL,
    sharing TEXT NOT NULL UNIQUE,
    receipt TEXT NOT NULL,
    dropped TEXT,
    PRIMARY KEY (study, site)
);
CREATE TABLE people (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('officer', 'analyst')),
    salt TEXT NOT NULL,
    password TEXT NOT NULL
);
CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), latest REAL NOT NULL);
INSERT INTO clock VALUES (1, 0);
"""
    + members.TABLES
    + audit_log.TABLES
    + append_only("approvals")
    + forward("studies", STATES)
    + "".join(
        write_once(table, column)
        for table, columns in {
            "studies": ("hash", "text", "officer", "signature", "survivors", "release", "entry"),
            "answers": ("study", "site", "sharing", "receipt", "dropped"),
        }.items()
        for column in columns
    )
)


class ServerFolder:
    """The folder of a server that takes answers, and what is on record there.

    Parameters
    ----------
    folder : path
        What `Coordinator.create` made.
    clock : function, optional
        Returns seconds since 1970.

    Attributes
    ----------
    settings : ServerSettings
        federation.toml.
    ledger : Ledger
        Who pays for releases; it proves its budget for any patient of any site.
    """

    def __init__(self, folder: Path | str, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = Path(folder)
        self.settings = ServerSettings.read(self.folder / "federation.toml")
        self.authority = Authority.open(self.folder / "keys")
        self.key = SigningKey.open(self.folder / "keys" / "signing.key")
        self.ledger = Ledger(self.folder / "coordinator.ledger")
        self.database = Database(self.folder / "state.sqlite", TABLES)
        self._clock = clock

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
        found = [row for row in self.studies() if row["hash"].startswith(beginning)]
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
        query = "SELECT * FROM studies WHERE hash = ? AND state NOT IN ('draft', 'signed')"
        row = self.database.row(query, name)
        if row is None:
            raise InvalidArgument("Expected the hash of a study that was opened here.")
        return Study.read(row["text"]), row

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
            ended = self._state(path.name.split(".")[0]) in (*ENDED, None)
            dropped = self._is_dropped(path.name)
            if ended or dropped:
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


def _has_port(url: str) -> bool:
    return url.removeprefix("https://").rpartition(":")[2].isdigit()


def drop_answer(rows: Connection, study: str, site: str, why: str) -> bool:
    """Let an answer count no more; False if there is none that counts."""
    query = "UPDATE answers SET dropped = ? WHERE study = ? AND site = ? AND dropped IS NULL"
    return bool(rows.execute(query, (why, study, site)).rowcount)
