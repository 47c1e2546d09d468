"""A site's folder: keys, ledger, policy, servers it joined, studies it has seen.

`seen -> approved -> sealed -> sent -> confirmed`, or `refused`, `withdrawn`, `absent`; never back.
Answers leave in one parcel for each receiving server; the study is confirmed once all receipts have
come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit._files import PathLike
from tacit.errors import InvalidArgument, Refused
from tacit.ledger import Ledger
from tacit_federation.client import Client, folder_for
from tacit_federation.database import Database, Row, forward, tables, write_once
from tacit_federation.keys import SigningKey
from tacit_federation.settings import Policy
from tacit_federation.study import Server, Study, StudySite

STATES = {
    "seen": ("approved", "refused", "absent"),
    "approved": ("sealed", "withdrawn", "absent"),
    "sealed": ("sent", "withdrawn", "absent"),
    "sent": ("confirmed", "withdrawn", "absent"),
    "confirmed": ("withdrawn",),
}
_TABLES = (
    tables("site")
    + forward("studies", STATES)
    + write_once("studies", "hash", "text", "officer", "signature", "agreed", "sharing", "release")
    + write_once("parcels", "study", "role", "receipt")
)


@dataclass(frozen=True, slots=True)
class SiteStudy:
    """A study as a site knows it.

    Parameters
    ----------
    study : Study
    state : str, of this site
    remote : str, last known state of the server
    send_at : int or None, drawn sending time
    released : bool, whether the release is here
    """

    study: Study
    state: str
    remote: str
    send_at: int | None
    released: bool

    @property
    def hash(self) -> str:
        """The study's hash."""
        return self.study.hash


class SiteFolder:
    """The folder of a site, with its own ledger and signing key."""

    def __init__(self, folder: PathLike, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = Path(folder)
        self.key = SigningKey.open(self.folder / "keys" / "signing.key")
        self.ledger = Ledger(self.folder / "site.ledger")
        self.database = Database(self.folder / "state.sqlite", _TABLES)
        self.clock = clock
        self._clients: dict[str, Client] = {}

    @property
    def policy(self) -> Policy:
        """policy.toml, read anew each time."""
        return Policy.read(self.folder / "policy.toml")

    def server_folder(self, url: str) -> Path:
        """Return the folder of the certificate for one server."""
        return folder_for(self.folder, url)

    def client(self, url: str) -> Client:
        """Return the client of a server that this site joined."""
        if url not in self._clients:
            place = self.server_folder(url)
            pin = self.servers()[url]["ca"]
            self._clients[url] = Client(place, url, pin=pin, clock=self.clock)
        return self._clients[url]

    def listing(self, url: str) -> dict[str, Any]:
        """Return a server's studies; `Refused` if its audit log was rolled back or replaced.

        A server set back to a copy could open a second sum of the same study, with other noise.
        """
        server = self.servers()[url]
        said = self.client(url).ask("GET", f"/studies?seen={server['length']}").json()
        log: Any = said.get("audit")
        proper = isinstance(log, dict) and type(log.get("length")) is int
        if not proper or log.get("seen") != server["head"] or log["length"] < server["length"]:
            raise Refused(
                f"The audit log of {url} went back, or is another one: its operator must explain "
                "it. Nothing is sent there."
            )
        if log["length"] > server["length"]:
            with self.database.writing() as rows:
                query = "UPDATE servers SET length = ?, head = ? WHERE url = ?"
                rows.execute(query, (log["length"], str(log.get("head")), url))
        return said

    def hang_up(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            client.close()

    def servers(self) -> dict[str, Row]:
        """Return joined servers by address: name, ca, key, and the seen length of their logs."""
        return {row["url"]: row for row in self.database.rows("SELECT * FROM servers")}

    def studies(self) -> list[SiteStudy]:
        """Return the studies that this site has seen, the oldest first."""
        return [_known(row) for row in self.database.rows("SELECT * FROM studies ORDER BY rowid")]

    def find(self, study: SiteStudy | str) -> SiteStudy:
        """Return the current state of a study, by its hash or at least eight digits."""
        beginning = study.hash if isinstance(study, SiteStudy) else str(study)
        query = "SELECT * FROM studies WHERE substr(hash, 1, ?) = ?"  # not all are read
        found = [_known(row) for row in self.database.rows(query, len(beginning), beginning)]
        if len(beginning) < 8 or len(found) != 1:
            raise InvalidArgument(
                f"Expected the first eight or more digits of one study's hash, got "
                f"{beginning[:80]!r}; `tacit site show` lists them."
            )
        return found[0]

    def row(self, name: str) -> Row:
        """Return the row of a study."""
        row = self.database.row("SELECT * FROM studies WHERE hash = ?", name)
        if row is None:
            raise InvalidArgument(f"Expected a study that this site has seen, got {name[:8]!r}.")
        return row

    def move(self, name: str, state: str, **more: Any) -> None:
        """Move to a state, with further columns, in one write."""
        names = "".join(f", {column} = :{column}" for column in more)
        with self.database.writing() as rows:
            query = f"UPDATE studies SET state = :state{names} WHERE hash = :hash"
            rows.execute(query, {**more, "state": state, "hash": name})

    def step(self, name: str, old: str, new: str) -> bool:
        """Move from one state to another, unless it has changed meanwhile."""
        with self.database.writing() as rows:
            query = "UPDATE studies SET state = ? WHERE hash = ? AND state = ?"
            return bool(rows.execute(query, (new, name, old)).rowcount)

    def site_of(self, known: SiteStudy) -> StudySite:
        """Return this site as a study names it."""
        name = self.servers()[self.row(known.hash)["server"]]["name"]
        site = known.study.site(name)
        if site is None:
            raise Refused("Expected a study that names this site.")
        return site

    def sealed(self, name: str, role: str) -> Path:
        """Return the path of the parcel for one server. Secret."""
        return self.folder / "sealed" / f"{name}.{role}"

    def unconfirmed(self, study: Study) -> list[Server]:
        """Return the servers whose receipt is missing."""
        query = "SELECT role FROM parcels WHERE study = ? AND receipt IS NOT NULL"
        done = {row["role"] for row in self.database.rows(query, study.hash)}
        return [each for each in study.receivers if each.role not in done]

    def sweep(self) -> None:
        """Delete parcels that will never leave again, and partial files."""
        if not any((self.folder / "sealed").iterdir()):
            return
        with self.database.writing() as rows:  # parcels are written under this lock alone
            query = (
                "SELECT study || '.' || role AS name FROM parcels JOIN studies ON hash = study "
                "WHERE receipt IS NULL AND state IN ('sealed', 'sent')"
            )
            kept = {row["name"] for row in rows.execute(query).fetchall()}
            for path in (self.folder / "sealed").iterdir():
                if path.name not in kept:
                    path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close connections and files."""
        self.hang_up()
        self.database.close()


def _known(row: Mapping[str, Any]) -> SiteStudy:
    study = Study.read(row["text"])
    return SiteStudy(study, row["state"], row["remote"], row["send_at"], row["release"] is not None)
