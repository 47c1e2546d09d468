"""What a site has on disk: keys, ledger, policy, servers it joined, studies it has seen.

`seen -> approved -> sealed -> sent -> confirmed`, or `refused`, `withdrawn`, `absent`; never back.
A study's answers leave in one parcel for each server that receives them, each with its own
receipt; the study is confirmed once all have come.
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


class SiteFolder:
    """The folder of a site, and what is on record there.

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
        self.clock = clock
        self._clients: dict[str, Client] = {}

    @property
    def policy(self) -> Policy:
        """What this site never does: policy.toml, read anew each time."""
        return Policy.read(self.folder / "policy.toml")

    def server_folder(self, url: str) -> Path:
        """Return where the certificate for one server is."""
        return folder_for(self.folder, url)

    def client(self, url: str) -> Client:
        """Return the way to a server that this site joined."""
        if url not in self._clients:
            place = self.server_folder(url)
            pin = self.servers()[url]["ca"]
            self._clients[url] = Client(place, url, pin=pin, clock=self.clock)
        return self._clients[url]

    def listing(self, url: str) -> dict[str, Any]:
        """Return what a server lists; `Refused` if its log went back, or is another one.

        A server that was set back to an earlier copy could take answers once more, draw other noise
        and open a second sum of the same study; so a site remembers how far each server's log went.
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
        """Close every connection; the next request opens its own."""
        for client in self._clients.values():
            client.close()

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
        query = "SELECT * FROM studies WHERE substr(hash, 1, ?) = ?"  # not all are read
        found = [_known(row) for row in self.database.rows(query, len(beginning), beginning)]
        if len(beginning) < 8 or len(found) != 1:
            raise InvalidArgument(
                f"Expected the first eight or more digits of one study's hash, got "
                f"{beginning[:80]!r}; `tacit site show` lists them."
            )
        return found[0]

    def row(self, name: str) -> Row:
        """Return what is on record about a study that was found."""
        row = self.database.row("SELECT * FROM studies WHERE hash = ?", name)
        if row is None:
            raise InvalidArgument(f"Expected a study that this site has seen, got {name[:8]!r}.")
        return row

    def move(self, name: str, state: str, **more: Any) -> None:
        """Go one step on, in one write; what is given besides is written with it."""
        names = "".join(f", {column} = :{column}" for column in more)
        with self.database.writing() as rows:
            query = f"UPDATE studies SET state = :state{names} WHERE hash = :hash"
            rows.execute(query, {**more, "state": state, "hash": name})

    def step(self, name: str, old: str, new: str) -> bool:
        """Go from one state to the next, unless somebody else has gone another way meanwhile."""
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
        """Return where the parcel for one server is, while it is. Secret."""
        return self.folder / "sealed" / f"{name}.{role}"

    def unconfirmed(self, study: Study) -> list[Server]:
        """Return the servers whose receipt for this site's parcel has not come yet."""
        query = "SELECT role FROM parcels WHERE study = ? AND receipt IS NOT NULL"
        done = {row["role"] for row in self.database.rows(query, study.hash)}
        return [each for each in study.receivers if each.role not in done]

    def sweep(self) -> None:
        """Delete parcels that will never leave again, and what a killed process left half way."""
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
        """Close connections and files; what was written stays."""
        self.hang_up()
        self.database.close()


def _known(row: Mapping[str, Any]) -> SiteStudy:
    study = Study.read(row["text"])
    return SiteStudy(study, row["state"], row["remote"], row["send_at"], row["release"] is not None)
