"""Whether a server's audit log only ever grew: asked before anything is sent to it.

A server that was set back to an earlier copy could take answers once more, draw other noise and
open a second sum of the same study; so a site remembers how far each server's log went.
"""

from __future__ import annotations

from typing import Any

from tacit.errors import Refused
from tacit.federation.database import Row
from tacit.federation.site_folder import SiteFolder


def listing_of(site: SiteFolder, url: str) -> dict[str, Any]:
    """Return what a server lists; `Refused` if its log went back, or is another one."""
    server = site.servers()[url]
    said = site.client(url).ask("GET", f"/studies?seen={server['length']}").json()
    _check_log(site, url, server, said.get("audit"))
    return said


def _check_log(site: SiteFolder, url: str, server: Row, log: Any) -> None:
    proper = isinstance(log, dict) and type(log.get("length")) is int
    same = proper and log.get("seen") == server["head"] and log["length"] >= server["length"]
    if not same:
        raise Refused(
            f"The audit log of {url} went back, or is another one: its operator must explain "
            "it. Nothing is sent there."
        )
    if log["length"] > server["length"]:
        with site.database.writing() as rows:
            query = "UPDATE servers SET length = ?, head = ? WHERE url = ?"
            rows.execute(query, (log["length"], str(log.get("head")), url))
