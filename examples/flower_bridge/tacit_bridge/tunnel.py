"""Requests of a site in messages of another transport, and the coordinator's answers to them.

A site asks; in Flower the server asks. So a site's visit runs as far as answers are there: the
first request without one is put into the reply, the next message brings its answer, and the visit
begins again with it. Nothing here knows of Flower, and nothing of a study: what is sent, and when,
is decided by the same code as over HTTPS.

Every request is signed with the site's key over a nonce of the message that it replies to: who has
carried it does not matter.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from tacit._files import write_atomically
from tacit.errors import Refused, TacitError, Unreachable
from tacit.ledger import canonical
from tacit_federation import Coordinator, Site
from tacit_federation.client import MOST_REPLY, Client, Reply
from tacit_federation.keys import check_signature
from tacit_federation.messages import PROTOCOL
from tacit_federation.service import MemberService

REQUEST = "tacit-tunnel/1"
Letter = dict[str, str | bytes]
"""What one message carries: names with text or bytes."""


class Tunnel(Client):
    """The way to a coordinator as a site sees it, of answers that have come so far.

    They are in files: where each message is a process of its own, the next one finds them.
    """

    def __init__(self, site: Site, url: str) -> None:
        pin = site.servers()[url]["ca"]
        super().__init__(site.server_folder(url), url, pin=pin, clock=site.clock)
        self.post = site.folder / "tunnel"
        self.post.mkdir(mode=0o700, exist_ok=True)
        self.asks: tuple[str, dict[str, Any], bytes] | None = None

    def keep(self, named: str, reply: bytes) -> None:
        """Keep the answer to a request: its status, a line's end, its body."""
        if len(named) == 64 and named.isalnum():
            write_atomically(self.post / named, reply)

    def forget(self) -> None:
        """Forget all answers: the next visit asks anew."""
        for path in self.post.iterdir():
            path.unlink()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        most: int = MOST_REPLY,
        more: Mapping[str, str] | None = None,
    ) -> Reply:
        """Return the answer to a request, if it has come; otherwise the request is sent first."""
        told = {"method": method, "path": path, "more": dict(more or {}), "body": body is not None}
        named = name_of(told, body or b"")
        if not (self.post / named).exists():
            self.asks = self.asks or (named, told, body or b"")
            raise Unreachable("The request is on its way; the visit goes on with its answer.")
        status, _, answer = (self.post / named).read_bytes().partition(b"\n")
        if len(answer) > most:
            raise Refused("Expected a reply of the size that the protocol allows.")
        if status in (b"401", b"403", b"426"):
            raise Refused(f"The server refused this site ({status.decode()}).")
        return Reply(int(status), answer)

    def renew(self, name: str) -> None:
        """Nothing is to be renewed: requests are signed with the site's own key."""


def name_of(told: Mapping[str, Any], body: bytes) -> str:
    """Return the name of a request, which its answer has as well."""
    return hashlib.sha256(canonical(dict(told)).encode() + b"\n" + body).hexdigest()


class AtTheSite:
    """A site's folder at the end of a tunnel; one visit takes as many messages as it has requests.

    Parameters
    ----------
    folder : path
        A site that has joined one coordinator.
    """

    def __init__(self, folder: Path | str) -> None:
        self.site = Site.open(folder)
        (self.url,) = self.site.servers()

    def take(self, letter: Letter) -> Letter:
        """Read one message, go on with the visit, and return the request that comes next.

        Nothing of what goes wrong here is told: the text of an error could be about records.
        """
        tunnel = Tunnel(self.site, self.url)
        self.site._clients[self.url] = tunnel
        if letter.get("asked"):
            tunnel.keep(str(letter["asked"]), bytes(letter["reply"]))
        with suppress(Exception):  # `tacit site show` tells it here
            self.site.run_once()
            self._fetch_inputs()
        if tunnel.asks is None:
            tunnel.forget()
            return {"asked": ""}
        named, told, body = tunnel.asks
        said = canonical({"nonce": letter["nonce"], "request": named})
        about = {"told": canonical(told), "signature": self.site.key.sign(REQUEST, said)}
        return {"asked": named, "key": self.site.key.public, **about, "body": body}

    def _fetch_inputs(self) -> None:
        """Have the inputs here before a person approves: that command knows of no tunnel."""
        for study in self.site.studies():
            if study.state == "seen" and study.remote == "open":
                self.site.asked(study)  # what policy.toml refuses is not fetched
                self.site.inputs(study)

    def close(self) -> None:
        """Close the folder."""
        self.site.close()


class AtTheCoordinator:
    """The coordinator's service, asked in this process on behalf of members that sign."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self._app = MemberService(coordinator).app()
        self._nonces: dict[int, str] = {}

    def next_letter(self, node: int, answer: Letter | None = None) -> Letter:
        """Return what to send to a node: the answer to its last request, and a new nonce."""
        self._nonces[node] = secrets.token_hex(16)
        return {"nonce": self._nonces[node], **(answer or {"asked": ""})}

    def take(self, node: int, letter: Letter) -> Letter | None:
        """Do what a node asks, as the member whose key has signed it; None if it asks nothing."""
        asked = str(letter.get("asked", ""))
        if not asked:
            return None
        try:
            reply = self._ask(node, letter)
        except (KeyError, TypeError, ValueError, TacitError):
            reply = httpx.Response(403)
        return {"asked": asked, "reply": f"{reply.status_code}\n".encode() + reply.content}

    def _ask(self, node: int, letter: Letter) -> httpx.Response:
        told, body = json.loads(letter["told"]), bytes(letter["body"])
        named, nonce = name_of(told, body), self._nonces.pop(node)
        said = canonical({"nonce": nonce, "request": named})
        check_signature(str(letter["key"]), REQUEST, said, letter["signature"])
        fingerprint = self._fingerprint(str(letter["key"]))
        headers = {**told["more"], "Tacit-Protocol": PROTOCOL}
        if told["body"]:
            headers["Content-Type"] = "application/octet-stream"
        request = (told["method"], told["path"], body, headers)
        return asyncio.run(self._served(fingerprint, *request))

    def _fingerprint(self, key: str) -> str:
        """Return a certificate of the member with this key: rights are read from its row."""
        query = (
            "SELECT fingerprint FROM certificates JOIN members ON id = member WHERE key = ? LIMIT 1"
        )
        row = self.coordinator.database.row(query, key)
        if row is None:
            raise Refused("Expected the key of a member.")
        return str(row["fingerprint"])

    async def _served(
        self, fingerprint: str, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> httpx.Response:
        async def known(scope: Any, receive: Any, send: Any) -> None:
            await self._app({**scope, "state": {"fingerprint": fingerprint}}, receive, send)

        way = httpx.ASGITransport(app=known)
        base = self.coordinator.settings.url
        async with httpx.AsyncClient(transport=way, base_url=base) as http:
            return await http.request(method, f"/v1{path}", content=body or None, headers=headers)
