"""A coordinator's studies: opened, answered, closed by presence and clock, each step on disk.

`draft -> signed -> open -> closed -> released`, or `void`; never back. What is not taken inside a
transaction is not taken. Release: `tacit.federation.releasing`. Why presence and clock alone may
decide: docs/theory/federation.md#who-takes-part.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit._files import sync_directory, write_atomically
from tacit.errors import InvalidArgument, NotYet, Refused
from tacit.federation import audit_log, members
from tacit.federation.audit_log import note
from tacit.federation.certificates import Authority, certificate_hash
from tacit.federation.database import Database, Row, append_only, forward, write_once
from tacit.federation.inputs import check_inputs
from tacit.federation.keys import SigningKey, check_signature
from tacit.federation.messages import (
    APPROVAL,
    RECEIPT,
    check_answers,
    check_signed,
    read_header,
    signed,
)
from tacit.federation.settings import ServerSettings
from tacit.federation.study import SIGNED_AS, Server, Study, StudySite
from tacit.ledger import Budget, Ledger, Statement

STATES = {
    "draft": ("signed",),
    "signed": ("open",),
    "open": ("closed", "void"),
    "closed": ("released",),
}
ENDED = ("released", "void")
_TABLES = (
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
ANSWERS_STAY = (
    "at each site, each teacher answered from its own shard, public data and its own coins alone, "
    "and a site took part, or not, for reasons that have nothing to do with its records"
)
SHOWN_TO_NOBODY = "the coordinator showed the answers of sites to nobody, and deleted them"


class Coordinator:
    """The folder of a coordinator: keys, studies, who enrolled, ledger.

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
        self.database = Database(self.folder / "state.sqlite", _TABLES)
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
    ) -> Coordinator:
        """Make keys, authority, ledger and settings in a new folder.

        Parameters
        ----------
        folder : path
            Must not exist, or be empty.
        settings : ServerSettings
            Its federation.toml.
        hosts : sequence of str
            Names and addresses by which sites reach it.
        budget : Budget
            The most that all its studies may cost together, for any patient of any site.
        unit : str
            Whose privacy the ledger counts.
        clock : function, optional
            Returns seconds since 1970.

        Returns
        -------
        Coordinator
            Ready to serve. `officer.key`, which signs studies, may be taken elsewhere.
        """
        place = Path(folder)
        if place.exists() and any(place.iterdir()):
            raise InvalidArgument(f"Expected {str(place)!r} to be new or empty.")
        keys = place / "keys"
        keys.mkdir(parents=True, exist_ok=True)
        place.chmod(0o700)
        Authority.create(keys, settings.name).issue_server(keys, hosts)
        SigningKey.generate().write(keys / "signing.key")
        officer = SigningKey.generate()
        officer.write(place / "officer.key")
        write_atomically(place / "officers", (officer.public + "\n").encode())
        Ledger(place / "coordinator.ledger", budget=budget, unit=unit, dataset=settings.name)
        for part in ("inputs", "answers"):
            (place / part).mkdir(mode=0o700)
        settings.write(place / "federation.toml")  # last: a folder without it is not one
        return cls(place, clock=clock)

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

    def server(self) -> Server:
        """Return how studies name this coordinator.

        Returns
        -------
        Server
            With its authority, key, ledger and budget pinned.
        """
        budget, pin = self.ledger.budget, certificate_hash(self.authority.pem)
        return Server(
            "coordinator",
            self.settings.url,
            pin,
            self.key.public,
            self.ledger.origin,
            budget.epsilon,
            budget.delta,
        )

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
                _drop(rows, study["hash"], name, "revoked")
            note(rows, now, "revoked", member=name)
        self._sweep()

    def sites(self, teachers: Mapping[str, int] | int) -> list[StudySite]:
        """Return enrolled sites as a study names them.

        Parameters
        ----------
        teachers : mapping or int
            How many teachers each site has; a number is for every site that enrolled.

        Returns
        -------
        list of StudySite
            In the order of their names.
        """
        query = "SELECT id, key FROM members WHERE role = 'site' AND revoked IS NULL ORDER BY id"
        enrolled = {row["id"]: row["key"] for row in self.database.rows(query)}
        wanted = dict.fromkeys(enrolled, teachers) if isinstance(teachers, int) else dict(teachers)
        if missing := sorted(set(wanted) - set(enrolled)):
            raise NotYet(f"Expected {missing[0]!r} to have enrolled; send it an invitation.")
        return [StudySite(name, enrolled[name], count) for name, count in sorted(wanted.items())]

    def add(self, study: Study, inputs: bytes) -> None:
        """Take a draft: its text, and the inputs that it names.

        Parameters
        ----------
        study : Study
            Whose server must be this one.
        inputs : bytes
            The npy file of public inputs.
        """
        check_inputs(study, inputs)
        if study.servers != (self.server(),):
            raise InvalidArgument("Expected a study of this coordinator, with its keys and ledger.")
        if study.unit not in (self.ledger.unit, "site"):
            raise InvalidArgument(
                f"Expected unit={study.unit!r} to be the ledger's, {self.ledger.unit!r}, or 'site'."
            )
        write_atomically(self.inputs_of(study.hash), inputs)
        row = (study.hash, study.text, "draft", study.window.closes)
        with self.database.writing() as rows:
            query = "INSERT OR IGNORE INTO studies (hash, text, state, closes) VALUES (?, ?, ?, ?)"
            if rows.execute(query, row).rowcount:
                note(rows, self.now(), "drafted", study=study.hash)

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

    def sign(self, name: str, officer: SigningKey) -> None:
        """Store an officer's signature over a study.

        Parameters
        ----------
        name : str
            The study's hash.
        officer : SigningKey
            One of those that the file `officers` names.
        """
        row = self.find(name)
        if officer.public not in self.officers:
            raise Refused("Expected a key that the file `officers` of this coordinator names.")
        signature = officer.sign(SIGNED_AS, row["hash"])
        with self.database.writing() as rows:
            query = (
                "UPDATE studies SET state = 'signed', officer = ?, signature = ? "
                "WHERE hash = ? AND state = 'draft'"
            )
            if rows.execute(query, (officer.public, signature, row["hash"])).rowcount:
                note(rows, self.now(), "signed", study=row["hash"], officer=officer.public)

    def open(self, name: str) -> None:
        """Show a signed study to the sites; a second time changes nothing.

        Parameters
        ----------
        name : str
            The study's hash.
        """
        row = self.find(name)
        if row["state"] == "draft":
            raise NotYet("Expected a study that an officer has signed; `tacit study sign` it.")
        check_signature(row["officer"], SIGNED_AS, row["hash"], row["signature"])
        if self.ledger.would_exceed(Study.read(row["text"]).plan):
            raise Refused("Expected a study within the budget of the coordinator's ledger.")
        with self.database.writing() as rows:
            query = "UPDATE studies SET state = 'open' WHERE hash = ? AND state = 'signed'"
            if rows.execute(query, (row["hash"],)).rowcount:
                note(rows, self.now(), "opened", study=row["hash"])

    def tick(self) -> None:
        """Close what is due: a function of the clock and of who has answered."""
        now = self.now()
        for row in self.database.rows("SELECT * FROM studies WHERE state = 'open'"):
            if now >= row["closes"]:
                self._close(row["hash"], now)
        self._sweep()

    def _close(self, name: str, now: float) -> None:
        with self.database.writing() as rows:
            row = rows.execute("SELECT * FROM studies WHERE hash = ?", (name,)).fetchone()
            if row["state"] != "open" or now < row["closes"]:
                return
            study, present = Study.read(row["text"]), _present(rows, name)
            later = [end for end in study.window.extensions if end > row["closes"]]
            rows.execute("UPDATE clock SET latest = MAX(latest, ?)", (now,))
            if study.reached(present):
                query = "UPDATE studies SET state = 'closed', survivors = ? WHERE hash = ?"
                rows.execute(query, (json.dumps(present), name))
                note(rows, now, "closed", study=name, sites=present)
            elif later:
                rows.execute("UPDATE studies SET closes = ? WHERE hash = ?", (later[0], name))
                note(rows, now, "extended", study=name, closes=later[0])
            else:
                rows.execute("UPDATE studies SET state = 'void' WHERE hash = ?", (name,))
                note(rows, now, "void", study=name)

    def _sweep(self) -> None:
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

    def approve(self, name: str, member: Row, sent: Mapping[str, Any]) -> bool:
        """Keep a site's approval or refusal; the first one stays.

        Parameters
        ----------
        name : str
            The study's hash.
        member : dict
            Who sends it.
        sent : mapping
            The signed note.

        Returns
        -------
        bool
            Whether this is what was kept.
        """
        study, row = self.open_study(name)
        site = study.site(member["id"])
        if site is None:
            raise Refused("Expected a site that the study names.")
        plain = check_signed(site.key, APPROVAL, sent)
        decision = plain.get("decision")
        expected = {"study": name, "site": site.id, "decision": decision}
        if plain != expected or decision not in ("approved", "refused"):
            raise InvalidArgument("Expected an approval or a refusal of this study.")
        text = json.dumps(dict(sent), sort_keys=True)
        with self.database.writing() as rows:
            query = "SELECT decision FROM approvals WHERE study = ? AND site = ?"
            kept = rows.execute(query, (name, site.id)).fetchone()
            if kept is None:
                new = (name, site.id, decision, text)
                rows.execute("INSERT INTO approvals VALUES (?, ?, ?, ?)", new)
                note(rows, self.now(), str(decision), study=name, site=site.id)
                _close_early(rows, study, row["closes"], self.now())
        return kept is None or kept["decision"] == decision

    def receipt(self, name: str, site: str, sharing: str | None = None) -> bytes | None:
        """Return the receipt of a site's answer, if there is one (by this id).

        Parameters
        ----------
        name : str
            The study's hash.
        site : str
            Whose.
        sharing : str, optional
            Any, if not given.

        Returns
        -------
        bytes or None
            As it was given the first time.
        """
        query = "SELECT * FROM answers WHERE study = ? AND site = ?"
        row = self.database.row(query, name, site)
        if row is None or sharing not in (None, row["sharing"]):
            return None
        return bytes(row["receipt"].encode())

    def take_answers(self, name: str, member: Row, upload: Path) -> tuple[int, bytes]:
        """Take a complete upload: the first one wins for ever, the same again gets the same.

        Parameters
        ----------
        name : str
            The study's hash.
        member : dict
            Who sends it.
        upload : path
            A file, synchronised, which is moved or removed.

        Returns
        -------
        tuple of int and bytes
            201 and a receipt; 200 and the same receipt; 409 (another answer, or no approval); 410
            (too late).
        """
        study, _ = self.open_study(name)
        site = study.site(member["id"])
        if site is None:
            raise Refused("Expected a site that the study names.")
        with upload.open("rb") as file:
            header = read_header(file)
            sharing = check_answers(study, site, header, file.read())
        place = self.answers_of(name, site.id, sharing)
        receipt = signed(self.key, RECEIPT, {"study": name, "site": site.id, "sharing": sharing})
        if same := self.receipt(name, site.id, sharing):
            return 200, same

        def move() -> None:
            os.replace(upload, place)
            sync_directory(place.parent)  # the row must never outlive the file's name

        code = self._record(study, site.id, (sharing, receipt.decode()), move)
        if code != 201:
            again = self.receipt(name, site.id, sharing)
            return (200, again) if again else (code, b"")
        return code, receipt

    def _record(
        self, study: Study, site: str, told_by: tuple[str, str], move: Callable[[], None]
    ) -> int:
        """Put an answer on record; its file is moved under the write lock alone.

        Of two uploads of one answer at once, the loser must neither replace nor remove the file.
        """
        now, key = self.now(), (study.hash, site)
        with self.database.writing() as rows:
            row = rows.execute("SELECT * FROM studies WHERE hash = ?", key[:1]).fetchone()
            told = "SELECT sharing FROM answers WHERE study = ? AND site = ?"
            approved = "SELECT decision FROM approvals WHERE study = ? AND site = ?"
            decision = rows.execute(approved, key).fetchone()
            shut_out = "SELECT 1 FROM members WHERE id = ? AND revoked IS NOT NULL"
            if rows.execute(shut_out, (site,)).fetchone() is not None:
                raise Refused("Expected a member that was not revoked while it sent.")
            if rows.execute(told, key).fetchone() is not None:
                return 409
            if row["state"] != "open" or not study.window.opens <= now < row["closes"]:
                return 410
            if decision is None or decision["decision"] != "approved":
                return 409
            move()
            rows.execute("INSERT INTO answers VALUES (?, ?, ?, ?, NULL)", (*key, *told_by))
            rows.execute("UPDATE clock SET latest = MAX(latest, ?)", (now,))
            note(rows, now, "answered", study=study.hash, site=site, sharing=told_by[0])
            _close_early(rows, study, row["closes"], now)
        return 201

    def withdraw(self, name: str, member: Row) -> bool:
        """Drop a site's answer, as long as the study is open; the release then warns of it.

        Parameters
        ----------
        name : str
            The study's hash.
        member : dict
            Whose answer.

        Returns
        -------
        bool
            False if the study is closed: what was summed stays.
        """
        with self.database.writing() as rows:
            row = rows.execute("SELECT state FROM studies WHERE hash = ?", (name,)).fetchone()
            if row is None or row["state"] != "open":
                return False
            if _drop(rows, name, member["id"], "withdrawn"):
                note(rows, self.now(), "withdrawn", study=name, site=member["id"])
        self._sweep()
        return True

    def presence(self, name: str) -> dict[str, Row]:
        """Return, for each site of a study, what it decided and whether it answered.

        Parameters
        ----------
        name : str
            The study's hash.

        Returns
        -------
        dict
            decision, answered and dropped by site; never what it answered, or when.
        """
        study = Study.read(self.find(name)["text"])
        decided = self.database.rows("SELECT * FROM approvals WHERE study = ?", study.hash)
        told = self.database.rows("SELECT * FROM answers WHERE study = ?", study.hash)
        decisions = {row["site"]: row["decision"] for row in decided}
        answered = {row["site"]: row["dropped"] for row in told}
        return {
            site.id: {
                "teachers": site.teachers,
                "decision": decisions.get(site.id),
                "answered": site.id in answered and answered[site.id] is None,
                "dropped": answered.get(site.id),
            }
            for site in study.sites
        }

    def statement(self) -> Statement:
        """Return what this coordinator may sign, with what it presumes of the sites.

        Returns
        -------
        Statement
            For any patient of any site, over all studies of this ledger.
        """
        return with_presumptions(self.ledger.statement(), ANSWERS_STAY, SHOWN_TO_NOBODY)

    def close(self) -> None:
        """Close the files; what was written stays."""
        self.database.close()


def with_presumptions(
    statement: Statement, *presumed: str, warnings: Sequence[str] = ()
) -> Statement:
    """Return a statement that presumes more, if it covers anything."""
    if not statement.entries:
        return statement
    return dataclasses.replace(
        statement,
        assumes=(*statement.assumes, *presumed),
        warnings=(*statement.warnings, *warnings),
    )


def _has_port(url: str) -> bool:
    return url.removeprefix("https://").rpartition(":")[2].isdigit()


def _drop(rows: Any, study: str, site: str, why: str) -> bool:
    query = "UPDATE answers SET dropped = ? WHERE study = ? AND site = ? AND dropped IS NULL"
    return bool(rows.execute(query, (why, study, site)).rowcount)


def _present(rows: Any, study: str) -> list[str]:
    """Return who has answered, by name: the order tells nothing of when."""
    query = "SELECT site FROM answers WHERE study = ? AND dropped IS NULL ORDER BY site"
    return [row["site"] for row in rows.execute(query, (study,)).fetchall()]


def _close_early(rows: Any, study: Study, closes: int, now: float) -> None:
    """Once nobody is left to answer, let the study close at the next slot."""
    silent = "SELECT site FROM approvals WHERE study = ? AND decision = 'refused'"
    refused = {row["site"] for row in rows.execute(silent, (study.hash,)).fetchall()}
    told = rows.execute("SELECT site FROM answers WHERE study = ?", (study.hash,)).fetchall()
    if refused | {row["site"] for row in told} >= {each.id for each in study.sites}:
        earlier = min(closes, study.window.next_slot(now))
        rows.execute("UPDATE studies SET closes = ? WHERE hash = ?", (earlier, study.hash))
