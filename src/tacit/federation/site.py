"""A site: its keys, its ledger, its policy, and what it has seen, approved, sealed and sent.

`seen -> approved -> sealed -> sent -> confirmed`, or `refused`, `withdrawn`, `absent`; never back.
The ledger is charged when a person approves, before anything is trained; the bytes that leave are
sealed on disk before the first of them does, resent as they are, and deleted once confirmed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument, NotYet, Refused, TacitError
from tacit.federation.answering import Limits, ask_teachers, counts_of_answers
from tacit.federation.approval import Asked, asked_of, check_study, sending_time
from tacit.federation.audit_log import START
from tacit.federation.certificates import certificate_hash
from tacit.federation.client import Client, Reply, enrol
from tacit.federation.coordinator import with_presumptions
from tacit.federation.database import Database, Row, forward, write_once
from tacit.federation.inputs import read_inputs
from tacit.federation.keys import SECRET, SigningKey, fingerprint
from tacit.federation.members import Invitation
from tacit.federation.messages import (
    APPROVAL,
    RECEIPT,
    check_signed,
    read_note,
    seal_answers,
    signed,
)
from tacit.federation.releasing import WITHDRAWN, StudyRelease, read_release
from tacit.federation.settings import Policy
from tacit.federation.study import Study, StudySite
from tacit.ledger import Budget, Ledger, Statement, digest
from tacit.mechanisms import count_votes

STATES = {
    "seen": ("approved", "refused", "absent"),
    "approved": ("sealed", "withdrawn", "absent"),
    "sealed": ("sent", "withdrawn", "absent"),
    "sent": ("confirmed", "withdrawn", "absent"),
    "confirmed": ("withdrawn",),
}
TAKES_PART = (
    "here, each teacher answered from its own shard, public data and its own coins alone, and this "
    "site took part, or not, for reasons that have nothing to do with its records"
)
MOST_SKEW = 300
"""Seconds between a site's clock and a server's from which the site warns."""
_MOST_DOCUMENT, _MOST_RELEASE = 2 << 20, 256 << 20
_TABLES = (
    """
CREATE TABLE servers (
    url TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    ca TEXT NOT NULL,
    key TEXT NOT NULL,
    length INTEGER NOT NULL,
    head TEXT NOT NULL
);
CREATE TABLE studies (
    hash TEXT PRIMARY KEY,
    server TEXT NOT NULL,
    text TEXT NOT NULL,
    officer TEXT NOT NULL,
    signature TEXT NOT NULL,
    state TEXT NOT NULL,
    closes INTEGER NOT NULL,
    remote TEXT NOT NULL,
    told INTEGER NOT NULL DEFAULT 0,
    send_at INTEGER,
    sharing TEXT,
    receipt TEXT,
    release BLOB
);
"""
    + forward("studies", STATES)
    + "".join(
        write_once("studies", column)
        for column in ("hash", "text", "officer", "signature", "sharing", "receipt", "release")
    )
)


@dataclass(frozen=True, slots=True)
class SiteStudy:
    """A study as a site knows it.

    Parameters
    ----------
    study : Study
        The document.
    state : str
        Where this site is with it.
    remote : str
        Where the server is with it, as it last said.
    send_at : int or None
        When the answers are sent, once that was drawn.
    released : bool
        Whether the release is here.
    """

    study: Study
    state: str
    remote: str
    send_at: int | None
    released: bool

    @property
    def hash(self) -> str:
        """The study's name."""
        return self.study.hash


class Site:
    """The folder of a site: `Site.open("site")`.

    Parameters
    ----------
    folder : path
        What `Site.create` made.
    clock : function, optional
        Returns seconds since 1970.

    Attributes
    ----------
    ledger : Ledger
        The site's own: it is charged when a study is approved, and refuses on its own.
    key : SigningKey
        By which studies name this site.
    """

    def __init__(self, folder: PathLike, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = Path(folder)
        self.key = SigningKey.open(self.folder / "keys" / "signing.key")
        self.ledger = Ledger(self.folder / "site.ledger")
        self.database = Database(self.folder / "state.sqlite", _TABLES)
        self._clients: dict[str, Client] = {}
        self._clock = clock

    @classmethod
    def create(
        cls,
        folder: PathLike,
        *,
        budget: Budget,
        unit: str,
        dataset: str = "",
        clock: Callable[[], float] = time.time,
    ) -> Site:
        """Make a site's keys and ledger in a new folder.

        Parameters
        ----------
        folder : path
            Must not exist, or be empty.
        budget : Budget
            The most that all studies may cost this site's patients together.
        unit : str
            Whose privacy: "patient".
        dataset : str
            What statements call its records.
        clock : function, optional
            Returns seconds since 1970.

        Returns
        -------
        Site
            Which has joined nobody yet.
        """
        place = Path(folder)
        if place.exists() and any(place.iterdir()):
            raise InvalidArgument(f"Expected {str(place)!r} to be new or empty.")
        for part in ("keys", "inputs", "sealed", "servers"):
            (place / part).mkdir(parents=True, mode=0o700)
        place.chmod(0o700)
        Ledger(place / "site.ledger", budget=budget, unit=unit, dataset=dataset)
        write_atomically(place / "keys" / "shards.key", secrets.token_bytes(32), SECRET)
        SigningKey.generate().write(place / "keys" / "signing.key")
        return cls(place, clock=clock)

    @classmethod
    def open(cls, folder: PathLike) -> Site:
        """Open a site's folder: keys, state, ledger, policy.

        Parameters
        ----------
        folder : path
            What `tacit site join` made.

        Returns
        -------
        Site
            As it was left.
        """
        if not (Path(folder) / "keys" / "signing.key").exists():
            raise InvalidArgument(
                f"Expected {str(folder)!r} to be a site's folder; `tacit site join` makes one."
            )
        return cls(folder)

    @property
    def policy(self) -> Policy:
        """What this site never does: policy.toml, read anew each time."""
        return Policy.read(self.folder / "policy.toml")

    def join(self, invitation: str) -> str:
        """Enrol with a server; repeated after an interruption, it gets the same certificate.

        Parameters
        ----------
        invitation : str
            The line that came from the server's operator, by a path of its own.

        Returns
        -------
        str
            The server's address.
        """
        invited = Invitation.read(invitation)
        if not (self.folder / "policy.toml").exists():
            Policy(list(invited.officers), ["coordinator"]).write(self.folder / "policy.toml")
        place = self._server_folder(invited.url)
        place.mkdir(mode=0o700, exist_ok=True)
        write_atomically(place / "ca.pem", invited.authority.encode())
        enrol(place, invited, self.key)
        pin = certificate_hash(invited.authority.encode())
        row = (invited.url, invited.name, pin, invited.key, 0, START)
        with self.database.writing() as rows:
            rows.execute("INSERT OR IGNORE INTO servers VALUES (?, ?, ?, ?, ?, ?)", row)
        return invited.url

    def _server_folder(self, url: str) -> Path:
        name = "".join(sign if sign.isalnum() else "-" for sign in url.removeprefix("https://"))
        return self.folder / "servers" / f"{name}-{digest(url)[:8]}"  # no two share one

    def _client(self, url: str) -> Client:
        if url not in self._clients:
            place = self._server_folder(url)
            self._clients[url] = Client(place, url, clock=self._clock)
        return self._clients[url]

    def servers(self) -> dict[str, Row]:
        """Return the servers that this site joined, by their address.

        Returns
        -------
        dict
            name, ca, key, and how far their audit logs were seen.
        """
        return {row["url"]: row for row in self.database.rows("SELECT * FROM servers")}

    def studies(self) -> list[SiteStudy]:
        """Return the studies that this site has seen, oldest first.

        Returns
        -------
        list of SiteStudy
            Public.
        """
        return [_known(row) for row in self.database.rows("SELECT * FROM studies ORDER BY rowid")]

    def find(self, study: SiteStudy | str) -> SiteStudy:
        """Return a study as it is now.

        Parameters
        ----------
        study : SiteStudy or str
            Or at least the first eight digits of its hash.

        Returns
        -------
        SiteStudy
            The one that is meant.
        """
        beginning = study.hash if isinstance(study, SiteStudy) else str(study)
        found = [each for each in self.studies() if each.hash.startswith(beginning)]
        if len(beginning) < 8 or len(found) != 1:
            raise InvalidArgument(
                f"Expected the first eight or more digits of one study's hash, got "
                f"{beginning[:80]!r}; `tacit site show` lists them."
            )
        return found[0]

    def asked(self, study: SiteStudy | str) -> Asked:
        """Return what a study asks of this site, checked and priced here.

        Parameters
        ----------
        study : SiteStudy or str
            Or at least the first eight digits of its hash.

        Returns
        -------
        Asked
            What a person reads before approving. What policy or pins forbid raises `Refused`.
        """
        return self._checked(self.find(study))

    def _checked(self, known: SiteStudy) -> Asked:
        row = self._row(known)
        if known.study.server("coordinator").url != row["server"]:
            raise Refused(f"Expected a study of the server that showed it, {row['server']}.")
        name = self.servers()[row["server"]]["name"]
        site = check_study(
            known.study,
            (row["officer"], row["signature"]),
            policy=self.policy,
            servers=self.servers(),
            name=name,
            key=self.key.public,
            ledger=self.ledger,
        )
        return asked_of(known.study, site, self.ledger)

    def _row(self, known: SiteStudy) -> Row:
        row = self.database.row("SELECT * FROM studies WHERE hash = ?", known.hash)
        assert row is not None
        return row

    def approve(self, study: SiteStudy | str, *, hash: str) -> Asked:
        """Approve a study: charge the ledger, draw a sending slot, keep a signed approval.

        Parameters
        ----------
        study : SiteStudy or str
            Or at least the first eight digits of its hash.
        hash : str
            The first eight digits or more, as a person read and typed them.

        Returns
        -------
        Asked
            What was approved. `BudgetExceeded`, with nothing charged, if the ledger has no room.
        """
        known = self.find(study)
        if len(hash) < 8 or not known.hash.startswith(hash):
            raise Refused("Expected the first eight digits of the study's hash.")
        if known.state != "seen":
            if known.state in ("refused", "absent", "withdrawn"):
                raise Refused(f"Expected a study that is still asked: this one is {known.state}.")
            return self._checked(known)
        asked = self._checked(known)
        self._inputs(known.study)
        now = self._clock()
        if now >= self._row(known)["closes"]:
            raise Refused("Expected a study whose window is open: this one has closed.")
        trusted = [
            f"the {each.role} at {each.url} (key {fingerprint(each.key)})"
            for each in known.study.servers
        ]
        purpose = f"study {known.hash[:16]}: {known.study.title}"
        self.ledger.charge(known.study.plan, purpose=purpose, study=known.hash, entrusted=trusted)
        send_at = sending_time(known.study, now, self._row(known)["closes"])
        self._move(known.hash, "approved", send_at=send_at)
        return asked

    def refuse(self, study: SiteStudy | str) -> None:
        """Refuse a study; nothing is charged.

        Parameters
        ----------
        study : SiteStudy or str
            Or at least the first eight digits of its hash.
        """
        known = self.find(study)
        if known.state == "refused":
            return
        if known.state != "seen":
            raise Refused(f"Expected a study that is not yet {known.state}; withdraw it instead.")
        self._move(known.hash, "refused")

    def answer(
        self,
        study: SiteStudy | str,
        *,
        answers: ArrayLike | None = None,
        teacher: Any = None,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> None:
        """Answer an approved study: shard, train and seal here; `run_once` sends it when due.

        Parameters
        ----------
        study : SiteStudy or str
            Or at least the first eight digits of its hash.
        answers : array of shape (teachers, queries), optional
            What teachers that were trained elsewhere answered: class indices. Secret.
        teacher : estimator or family, optional
            What each shard trains, instead of answers.
        X, y : arrays, optional
            Private rows and their class indices. Secret.
        groups : array, optional
            Whose each row is; needed unless the study's unit is "record" or "site". Secret.

        Notes
        -----
        Nothing is refused because of what is in a record. A teacher without records, or one that
        fails or takes more than policy.toml allows, answers class 0.
        """
        known = self.find(study)
        if known.state in ("sealed", "sent", "confirmed"):
            return
        if known.state != "approved":
            raise NotYet(f"Expected a study that was approved: this one is {known.state}.")
        site = self._site_of(known)
        if answers is not None:
            shape = {"teachers": site.teachers, "queries": known.study.queries}
            counts = counts_of_answers(answers, classes=known.study.classes, **shape)
        else:
            counts = self._trained(known.study, site, teacher, (X, y, groups))
        self._seal(known.study, site, counts)

    def _trained(
        self, study: Study, site: StudySite, teacher: Any, records: tuple[Any, Any, Any]
    ) -> NDArray[Any]:
        if teacher is None or records[0] is None or records[1] is None:
            raise InvalidArgument("Expected answers=..., or teacher=... with X=... and y=....")
        if records[2] is None and study.unit not in ("record", "site"):
            raise InvalidArgument(
                f"Expected groups= for a study whose unit is {study.unit!r}: whose each row is, so "
                "that all rows of one reach one teacher. Where each has one row, "
                "groups=range(len(X)) says so; in a run.toml, groups in [data.options] names them."
            )
        policy = self.policy
        limits = Limits(policy.teacher_seconds, policy.teacher_megabytes)
        row = self._row(self.find(study.hash))
        # And the rehearsal. By public numbers and before training: a clock that runs out later
        # would couple teachers, and a slot drawn later would tell how long they took.
        done = self._clock() + (site.teachers + 1) * limits.wall_seconds
        if done > row["closes"] - study.window.slot_seconds:
            raise InvalidArgument(
                f"Expected {site.teachers} teachers of at most {limits.wall_seconds} seconds each "
                "to be done before the study closes; lower teacher_seconds in policy.toml."
            )
        inputs = read_inputs(study, self._inputs(study))
        if done > row["send_at"]:
            send_at = sending_time(study, done, row["closes"])
            self._move(study.hash, "approved", send_at=send_at)
        key = (self.folder / "keys" / "shards.key").read_bytes()
        sizes: dict[str, Any] = {"n_teachers": site.teachers, "n_classes": study.classes}
        told = ask_teachers(teacher, records, inputs, **sizes, key=key, limits=limits)
        return count_votes(told, study.classes)

    def _seal(self, study: Study, site: StudySite, counts: NDArray[Any]) -> None:
        """Write the bytes that will leave, then say so: a crash in between seals anew."""
        sharing = secrets.token_hex(16)
        body = seal_answers(study, site, counts, self.key, sharing)
        with self.database.writing() as rows:
            row = rows.execute("SELECT * FROM studies WHERE hash = ?", (study.hash,)).fetchone()
            if row["state"] != "approved":  # somebody else sealed, or withdrew: that stays
                return
            write_atomically(self._sealed(study.hash), body, SECRET)
            send_at = row["send_at"]
            if self._clock() > send_at:  # the slot has passed: draw over what is left
                send_at = sending_time(study, self._clock(), row["closes"])
            query = "UPDATE studies SET state = 'sealed', sharing = ?, send_at = ? WHERE hash = ?"
            rows.execute(query, (sharing, send_at, study.hash))

    def _sealed(self, name: str) -> Path:
        return self.folder / "sealed" / f"{name}.coordinator"

    def _site_of(self, known: SiteStudy) -> StudySite:
        name = self.servers()[self._row(known)["server"]]["name"]
        site = known.study.site(name)
        if site is None:
            raise Refused("Expected a study that names this site.")
        return site

    def withdraw(self, study: SiteStudy | str) -> None:
        """Take an answer back before the study closes; what was charged stays charged.

        Parameters
        ----------
        study : SiteStudy or str
            Or at least the first eight digits of its hash.

        Notes
        -----
        Statements warn of it for ever: if records decided it, it is a release without noise.
        """
        known = self.find(study)
        if known.state in ("sent", "confirmed"):
            with closing(self._client(self._row(known)["server"])) as client:
                reply = client.ask("DELETE", f"/studies/{known.hash}/answers")
            if reply.status != 200:
                raise Refused("Expected a study that is still open: its answers stay.")
        with self.database.writing() as rows:
            query = "UPDATE studies SET state = 'withdrawn' WHERE hash = ? AND state = ?"
            if not rows.execute(query, (known.hash, known.state)).rowcount:
                raise NotYet("Expected nothing to be sent at this very moment; withdraw it again.")
        self._sealed(known.hash).unlink(missing_ok=True)

    def run_once(self) -> list[str]:
        """Ask every server once, fetch what is new, send what is due.

        Returns
        -------
        list of str
            What happened, a line each; public. A server that does not answer raises `Unreachable`
            after the others were asked.
        """
        said: list[str] = []
        problem: TacitError | None = None
        for url, server in self.servers().items():
            try:
                with closing(self._client(url)) as client:
                    said += self._visit(url, server, client)
            except TacitError as error:
                problem = error
        if problem is not None:
            raise problem
        return said

    def _visit(self, url: str, server: Row, client: Client) -> list[str]:
        client.renew(server["name"])
        said = client.ask("GET", f"/studies?seen={server['length']}").json()
        self._check_log(url, server, said.get("audit"))
        lines = self._check_skew(url, said.get("time"))
        for each in _listed(said.get("studies")):
            lines += self._follow(url, client, each)
        return lines

    def _check_log(self, url: str, server: Row, log: Any) -> None:
        """Refuse a server that went back to an earlier log, or to another one."""
        proper = isinstance(log, dict) and type(log.get("length")) is int
        same = proper and log.get("seen") == server["head"] and log["length"] >= server["length"]
        if not same:
            raise Refused(
                f"The audit log of {url} went back, or is another one: its operator must explain "
                "it. Nothing is sent there."
            )
        with self.database.writing() as rows:
            query = "UPDATE servers SET length = ?, head = ? WHERE url = ?"
            rows.execute(query, (log["length"], str(log.get("head")), url))

    def _check_skew(self, url: str, theirs: Any) -> list[str]:
        skew = abs(self._clock() - theirs) if isinstance(theirs, int | float) else 0.0
        if skew < MOST_SKEW:
            return []
        return [f"The clocks here and at {url} differ by {skew / 60:.0f} minutes; theirs counts."]

    def _follow(self, url: str, client: Client, each: Any) -> list[str]:
        """Bring one study forward by what the server says of it."""
        name, remote, closes = (each.get(key) for key in ("hash", "state", "closes"))
        row = self.database.row("SELECT * FROM studies WHERE hash = ?", name)
        if row is None:
            return self._meet(url, client, str(name), str(remote), closes)
        if row["server"] != url:
            return []
        with self.database.writing() as rows:
            query = "UPDATE studies SET remote = ?, closes = ? WHERE hash = ?"
            rows.execute(query, (str(remote), int(closes), name))
        said = self._tell(client, row)
        row = self.database.row("SELECT * FROM studies WHERE hash = ?", name) or row
        unsent = row["state"] in ("seen", "approved", "sealed")
        if unsent and remote in ("closed", "released", "void"):  # what nobody needs never leaves
            self._move(row["hash"], "absent")
            self._sealed(row["hash"]).unlink(missing_ok=True)
            said.append(f"{name[:8]}: closed without this site")
        elif row["state"] in ("sealed", "sent") and self._clock() >= row["send_at"]:
            said += self._send(client, row)
        if remote == "released" and row["release"] is None:
            said += self._fetch_release(client, row)
        return said

    def _meet(self, url: str, client: Client, name: str, remote: str, closes: Any) -> list[str]:
        """Read a study for the first time; what does not concern this site is left alone."""
        if remote != "open":
            return []
        said = client.ask("GET", f"/studies/{name}/document", most=_MOST_DOCUMENT).json()
        try:
            study = Study.read(str(said.get("document")))
        except InvalidArgument as error:  # perhaps of a newer tacit: the others go on
            return [f"{name[:8]}: not understood. {error}"]
        if study.hash != name or study.site(self.servers()[url]["name"]) is None:
            return []
        if study.server("coordinator").url != url:  # answers go to whom it names, and nobody else
            return [f"{name[:8]}: not a study of {url}, which showed it; left alone"]
        row = (name, url, study.text, str(said.get("officer")), str(said.get("signature")))
        with self.database.writing() as rows:
            query = (
                "INSERT OR IGNORE INTO studies (hash, server, text, officer, signature, state, "
                "closes, remote) VALUES (?, ?, ?, ?, ?, 'seen', ?, ?)"
            )
            rows.execute(query, (*row, int(closes), remote))
        return [f"{name[:8]}: new study, {study.title!r}; `tacit site approve {name[:8]}`"]

    def _tell(self, client: Client, row: Row) -> list[str]:
        """Send the approval or refusal, signed, until the server has it."""
        decision = "refused" if row["state"] == "refused" else "approved"
        if row["told"] or row["state"] in ("seen", "absent"):
            return []
        server = self.servers()[row["server"]]
        said = {"study": row["hash"], "site": server["name"], "decision": decision}
        reply = client.ask(
            "PUT", f"/studies/{row['hash']}/approval", signed(self.key, APPROVAL, said)
        )
        if reply.status not in (200, 201):
            return []
        with self.database.writing() as rows:
            rows.execute("UPDATE studies SET told = 1 WHERE hash = ?", (row["hash"],))
        return [f"{row['hash'][:8]}: {decision}"]

    def _send(self, client: Client, row: Row) -> list[str]:
        """Send the sealed bytes; the receipt, signed by the pinned key, ends it."""
        path = self._sealed(row["hash"])
        if not path.exists():
            return []
        if row["state"] == "sealed":
            self._move(row["hash"], "sent")
        reply = client.ask("PUT", f"/studies/{row['hash']}/answers", path.read_bytes())
        if reply.status in (200, 201):
            self._confirm(row, reply)
            return [f"{row['hash'][:8]}: answers confirmed"]
        if reply.status in (409, 410):
            self._move(row["hash"], "absent")
            path.unlink(missing_ok=True)
            return [f"{row['hash'][:8]}: too late, or not taken ({reply.status})"]
        return [f"{row['hash'][:8]}: not taken ({reply.status}); tried again later"]

    def _confirm(self, row: Row, reply: Reply) -> None:
        study, server = Study.read(row["text"]), self.servers()[row["server"]]
        note = read_note(reply.body)
        plain = check_signed(study.server("coordinator").key, RECEIPT, note)
        expected = {"study": row["hash"], "site": server["name"], "sharing": row["sharing"]}
        if plain != expected:
            raise Refused("Expected a receipt for what this site sent.")
        self._move(row["hash"], "confirmed", receipt=reply.body.decode())
        self._sealed(row["hash"]).unlink(missing_ok=True)

    def _fetch_release(self, client: Client, row: Row) -> list[str]:
        reply = client.ask("GET", f"/studies/{row['hash']}/release", most=_MOST_RELEASE)
        if reply.status != 200:
            return []
        found = read_release(Study.read(row["text"]), reply.body)
        name = self.servers()[row["server"]]["name"]
        counted = found.sharing.get(name)
        if row["state"] == "confirmed" and counted != row["sharing"]:
            raise Refused("Expected the release to count what this site sent: it does not.")
        if row["state"] != "confirmed" and counted not in (None, row["sharing"]):
            raise Refused("Expected the release to count nothing that this site did not send.")
        with self.database.writing() as rows:
            query = "UPDATE studies SET release = ? WHERE hash = ?"
            rows.execute(query, (reply.body, row["hash"]))
        return [f"{row['hash'][:8]}: released over {len(found.survivors)} sites"]

    def release(self, study: SiteStudy | str) -> StudyRelease:
        """Return what a study released, as this site fetched and checked it.

        Parameters
        ----------
        study : SiteStudy or str
            Or at least the first eight digits of its hash.

        Returns
        -------
        StudyRelease
            Public.
        """
        known = self.find(study)
        stored = self._row(known)["release"]
        if stored is None:
            raise NotYet("Expected a study that was released and fetched; `tacit site run`.")
        return read_release(known.study, bytes(stored))

    def _inputs(self, study: Study) -> bytes:
        """Return the study's inputs, fetched once and checked each time."""
        path = self.folder / "inputs" / f"{study.hash}.npy"
        if path.exists():
            file = path.read_bytes()
        else:
            url = study.server("coordinator").url
            most = int(study.inputs["bytes"])
            with closing(self._client(url)) as client:
                file = client.ask("GET", f"/studies/{study.hash}/inputs", most=most).body
        read_inputs(study, file)
        if not path.exists():
            write_atomically(path, file)
        return file

    def inputs(self, study: SiteStudy | str) -> NDArray[Any]:
        """Return the public inputs of a study.

        Parameters
        ----------
        study : SiteStudy or str
            Or at least the first eight digits of its hash.

        Returns
        -------
        array of shape (queries, ...)
            Checked against the hash in the document.
        """
        known = self.find(study)
        return np.array(read_inputs(known.study, self._inputs(known.study)))

    def statement(self) -> Statement:
        """Return what this site may sign for its patients, with what it presumes.

        Returns
        -------
        Statement
            Over all studies that this site approved.
        """
        withdrawn = any(each.state == "withdrawn" for each in self.studies())
        warnings = [WITHDRAWN] if withdrawn else []
        return with_presumptions(self.ledger.statement(), TAKES_PART, warnings=warnings)

    def _move(self, name: str, state: str, **more: Any) -> None:
        """Go one step on, in one write; what is given besides is written once."""
        names = "".join(f", {column} = :{column}" for column in more)
        with self.database.writing() as rows:
            query = f"UPDATE studies SET state = :state{names} WHERE hash = :hash"
            rows.execute(query, {**more, "state": state, "hash": name})

    def close(self) -> None:
        """Close connections and files; what was written stays."""
        for client in self._clients.values():
            client.close()
        self.database.close()


def _listed(studies: Any) -> list[Mapping[str, Any]]:
    """Return the studies that a server lists, each with a hash, a state and when it closes."""
    proper = isinstance(studies, list) and all(
        isinstance(each, dict)
        and isinstance(each.get("hash"), str)
        and isinstance(each.get("state"), str)
        and each["hash"].isalnum()
        and each["state"].isalnum()
        and type(each.get("closes")) is int
        and 0 <= each["closes"] < 1 << 53
        for each in studies
    )
    if not proper:
        raise Refused("Expected the server to answer as its protocol says.")
    return list(studies)


def _known(row: Mapping[str, Any]) -> SiteStudy:
    study = Study.read(row["text"])
    return SiteStudy(study, row["state"], row["remote"], row["send_at"], row["release"] is not None)


def read_answers(path: PathLike) -> NDArray[Any]:
    """Read answers (teachers, queries) from an npy file; never a pickle. Secret."""
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (EOFError, OSError, ValueError):
        raise InvalidArgument(
            f"Expected {str(path)!r} to be an npy file of answers (teachers, queries)."
        ) from None
