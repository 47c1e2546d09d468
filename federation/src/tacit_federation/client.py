"""A site's client of one server: outbound, TLS 1.3, one authority, replies of bounded size."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx

from tacit._files import write_atomically
from tacit.errors import InvalidArgument, Refused, Unreachable
from tacit.ledger import digest
from tacit_federation.certificates import (
    certificate_hash,
    check_issued,
    client_context,
    new_request,
    should_renew,
)
from tacit_federation.keys import SigningKey
from tacit_federation.members import ENROLMENT, Invitation
from tacit_federation.messages import PROTOCOL

MOST_REPLY = 16 << 20
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_NOTHING: Mapping[str, str] = MappingProxyType({})
_HEADERS = {"Tacit-Protocol": PROTOCOL, "Accept-Encoding": "identity"}


class Reply:
    """A server's reply: a status and bytes."""

    __slots__ = ("body", "status")

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.body = body

    def json(self) -> dict[str, Any]:
        """Return the reply as a JSON object."""
        try:
            said = json.loads(self.body)
        except (RecursionError, ValueError):
            said = None
        if not isinstance(said, dict):
            raise Refused("Expected the server to answer as its protocol says.")
        return said


def folder_for(folder: Path, url: str) -> Path:
    """Return the folder of a party's certificate for one server."""
    name = "".join(sign if sign.isalnum() else "-" for sign in url.removeprefix("https://"))
    return folder / "servers" / f"{name}-{digest(url)[:8]}"  # no two share one


def refuse_another(known: Mapping[str, Any] | Any, invitation: Invitation) -> None:
    """Refuse an invitation with another name, authority or key than the first of that address.

    Otherwise its sender would receive the answers meant for the pinned server.
    """
    if known is None:
        return
    theirs = (certificate_hash(invitation.authority.encode()), invitation.key)
    if (known["ca"], known["key"]) != theirs:
        raise Refused(
            f"Expected {invitation.url} to invite with the authority and key that were pinned "
            "when it was joined; these are others. Ask its operator, by a path of its own."
        )
    if known["name"] != invitation.name:
        raise Refused(
            f"Expected {invitation.url} to invite {known['name']!r}, as which it was joined, not "
            f"{invitation.name!r}; ask its operator."
        )


def enrol(folder: Path, invitation: Invitation, key: SigningKey) -> str:
    """Get a certificate for an invitation, after an interruption with the same key.

    Returns the SHA-256 of the server's authority, to be pinned.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    write_atomically(folder / "ca.pem", invitation.authority.encode())
    csr = new_request(folder, invitation.name).decode()
    request = {
        "token": invitation.token,
        "csr": csr,
        "key": key.public,
        "signature": key.sign(ENROLMENT, csr),
    }
    context = client_context(invitation.authority.encode(), None)
    place, body = f"{invitation.enrol}/v1/enrol", json.dumps(request).encode()
    with httpx.Client(verify=context, timeout=_TIMEOUT, trust_env=False) as http:
        reply = _exchange(http, "POST", place, body, dict(_HEADERS), MOST_REPLY)
    if reply.status != 200:
        raise Refused(_why(reply, "the invitation"))
    pem = str(reply.json().get("certificate", "")).encode()
    check_issued(pem, invitation.authority.encode(), time.time())
    write_atomically(folder / "tls.pem", pem)
    return certificate_hash(invitation.authority.encode())


class Client:
    """One server for a member: `GET`, `PUT`, `DELETE` under /v1."""

    def __init__(
        self, folder: Path, url: str, *, pin: str, clock: Callable[[], float] = time.time
    ) -> None:
        self.folder, self.url, self._pin, self._clock = folder, url, pin, clock
        self._http: httpx.Client | None = None

    def _opened(self) -> httpx.Client:
        if self._http is None:
            # Asked first: at the handshake a refusal would say nothing but "disconnected".
            authority = (self.folder / "ca.pem").read_bytes()
            if certificate_hash(authority) != self._pin:
                raise Refused(f"Expected the authority that was pinned for {self.url}.")
            check_issued((self.folder / "tls.pem").read_bytes(), authority, self._clock())
            context = client_context(authority, self.folder)
            self._http = httpx.Client(verify=context, timeout=_TIMEOUT, trust_env=False)
        return self._http

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        most: int = MOST_REPLY,
        more: Mapping[str, str] = _NOTHING,
    ) -> Reply:
        """Send one request; `Unreachable` without a reply, `Refused` if this member may not."""
        headers = {**_HEADERS, **more}
        if body is not None:
            headers["Content-Type"] = "application/octet-stream"
        reply = _exchange(self._opened(), method, f"{self.url}/v1{path}", body, headers, most)
        if reply.status in (401, 403, 426):
            raise Refused(_why(reply, f"this site at {self.url}"))
        return reply

    def renew(self, name: str) -> None:
        """Ask for a new certificate from day 60 on, for the same key."""
        pem = self.folder / "tls.pem"
        if not should_renew(pem.read_bytes(), self._clock()):
            return
        reply = self.ask("POST", "/renew", new_request(self.folder, name))
        if reply.status == 200:
            new = str(reply.json().get("certificate", "")).encode()
            check_issued(new, (self.folder / "ca.pem").read_bytes(), self._clock())
            write_atomically(pem, new)
            self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._http is not None:
            self._http.close()
            self._http = None


def _exchange(
    http: httpx.Client,
    method: str,
    url: str,
    body: bytes | None,
    headers: dict[str, str],
    most: int,
) -> Reply:
    try:
        with http.stream(method, url, content=body, headers=headers) as response:
            parts, size = [], 0
            for part in response.iter_raw():
                size += len(part)
                if size > most:
                    raise Refused("Expected a reply of the size that the protocol allows.")
                parts.append(part)
            return Reply(response.status_code, b"".join(parts))
    except (httpx.HTTPError, ssl.SSLError) as error:
        raise Unreachable(
            f"Expected an answer from {url.partition('/v1')[0]}, got {type(error).__name__}; check "
            "address, network and the server's certificate. It will be tried again."
        ) from None
    except httpx.InvalidURL:
        raise InvalidArgument(f"Expected a server's address, got {url[:80]!r}.") from None


def _why(reply: Reply, whom: str) -> str:
    """Return a server's one-line reason, of bounded length and printable."""
    said = reply.body[:200].decode("utf-8", "replace").strip()
    return f"The server refused {whom} ({reply.status}): {said if said.isprintable() else '...'}"
