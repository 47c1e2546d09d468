"""The coordinator's HTTP service for members and for enrolment: thin, over `Coordinator`.

Every refusal is one line and changes nothing. No request may be compressed or chunked, none is
longer than it must be, and a body is a file on disk before it is read.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tacit.errors import InvalidArgument, NotYet, Refused, TacitError
from tacit_federation import members
from tacit_federation.certificates import (
    MOST_CSR_BYTES,
    hosts_of,
    server_context,
    should_renew,
)
from tacit_federation.coordinator import Coordinator
from tacit_federation.database import Row, StateUnavailable, log_hash_at, log_head
from tacit_federation.messages import MOST_HEADER, MOST_PART, PROTOCOL, read_note
from tacit_federation.receiving import (
    keep_agreement,
    keep_decision,
    receipt_of,
    take_answers,
    take_sum,
    take_void,
    withdraw_site,
)
from tacit_federation.server_folder import ServerFolder, is_part, part_name
from tacit_federation.sums import most_of_sum
from tacit_federation.transport import Listener, serve, until_signalled

_FAILURES_A_MINUTE = 10
_MOST_FORM = 8 * 1024 + MOST_CSR_BYTES
Handler = Callable[[Request, Row], Awaitable[Response]]


class Declined(Exception):
    """A request that ends here, with a status and one line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status
        self.line = line


def _refusal(error: Exception) -> Response:
    """Turn an error of ours into one line; any other is not quoted."""
    codes = {Refused: 403, NotYet: 409, InvalidArgument: 422}
    if isinstance(error, Declined):
        return PlainTextResponse(error.line + "\n", error.status)
    if isinstance(error, StateUnavailable | OSError):  # which names folders of this machine
        return PlainTextResponse("There is no room to store it; try again later.\n", 507)
    for kind, code in codes.items():
        if isinstance(error, kind):
            return PlainTextResponse(f"{error}\n", code)
    if isinstance(error, TacitError):
        return PlainTextResponse(f"{error}\n", 400)
    return PlainTextResponse("The request could not be handled.\n", 400)


class MemberService:
    """Endpoints for members: studies, documents, inputs, releases; approvals and answers."""

    def __init__(self, coordinator: ServerFolder) -> None:
        self.coordinator = coordinator
        self.uploads = coordinator.folder / "uploads"
        self.uploads.mkdir(mode=0o700, exist_ok=True)

    def forget_uploads(self) -> None:
        """Remove partial files of a killed process; complete parts stay."""
        for left in self.uploads.iterdir():
            if not is_part(left.name):
                left.unlink(missing_ok=True)

    def app(self) -> Starlette:
        """Return the application."""
        study = "/v1/studies/{name}"
        routes = [
            self._route("/v1/studies", self.studies, "GET", members.ROLES),
            self._route("/v1/renew", self.renew, "POST", members.ROLES),
            self._route(f"{study}/document", self.document, "GET", members.ROLES),
            self._route(f"{study}/inputs", self.inputs, "GET", ("site", "analyst")),
            self._route(f"{study}/frame", self.frame, "GET", ("site", "analyst")),
            self._route(f"{study}/signature", self._note(keep_agreement), "PUT", ("aggregator",)),
            self._route(f"{study}/sum", self.sum, "PUT", ("aggregator",)),
            self._route(f"{study}/void", self._note(take_void), "PUT", ("aggregator",)),
            self._route(f"{study}/release", self.release, "GET", ("site", "analyst")),
            self._route(f"{study}/approval", self.approval, "PUT", ("site",)),
            self._route(f"{study}/answers", self.answers, "PUT", ("site",)),
            self._route(f"{study}/answers", self.withdraw, "DELETE", ("site",)),
            self._route(f"{study}/answers/parts/{{number:int}}", self.part, "PUT", ("site",)),
        ]
        return Starlette(routes=routes)

    def _route(self, path: str, handler: Handler, method: str, roles: tuple[str, ...]) -> Route:
        return Route(path, self._guarded(handler, roles), methods=[method])

    def _guarded(
        self, handler: Handler, roles: tuple[str, ...]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                member = self._member(request, roles)
                return await handler(request, member)
            except (ClientDisconnect, asyncio.CancelledError):
                raise
            except Exception as error:
                return _refusal(error)

        return endpoint

    def _member(self, request: Request, roles: tuple[str, ...]) -> Row:
        """Return the member of the certificate, by its row as it is now; fails closed."""
        if request.headers.get("tacit-protocol") != PROTOCOL:
            raise Declined(426, f"Expected Tacit-Protocol: {PROTOCOL}; upgrade tacit.")
        fingerprint = getattr(request.state, "fingerprint", None)
        member = members.member_of(self.coordinator.database, fingerprint)
        if member is None:
            raise Declined(403, "Expected the certificate of a member: it is unknown or revoked.")
        if member["role"] not in roles:
            raise Declined(403, f"Expected a {' or '.join(roles)}.")
        return member

    async def studies(self, request: Request, member: Row) -> Response:
        """List the opened studies, and the head of the audit log."""
        seen = request.query_params.get("seen", "0")
        database = self.coordinator.database
        head = log_head(database)
        at = log_hash_at(database, int(seen)) if seen.isdigit() and len(seen) < 16 else None
        log = {"length": head.length, "head": head.hash, "seen": at}
        told = {"studies": self._listed(member), "audit": log, "time": self.coordinator.now()}
        return JSONResponse(told)

    def _listed(self, member: Row) -> list[Row]:
        hidden = self._hidden(member)
        found = self.coordinator.database.rows("SELECT hash, state, closes FROM studies")
        return [row for row in found if row["state"] not in hidden]

    async def document(self, request: Request, member: Row) -> Response:
        """Return a study's text and its signature."""
        place: Any = self.coordinator
        hidden = self._hidden(member)
        row = place.database.row(
            "SELECT * FROM studies WHERE hash = ?", request.path_params["name"]
        )
        if row is None or row["state"] in hidden:
            raise InvalidArgument("Expected the hash of a study that was opened here.")
        signed = {key: row[key] for key in ("officer", "signature")}
        return JSONResponse(
            {"document": row["text"], **signed, "agreed": place.agreed(row["hash"])}
        )

    def _hidden(self, member: Row) -> tuple[str, ...]:
        """Return the states of a study that a member does not see: an aggregator signs it first."""
        return ("draft",) if member["role"] == "aggregator" else self.coordinator.HIDDEN

    async def frame(self, request: Request, member: Row) -> Response:
        """Return the centres and weights of a study of codes."""
        study, _ = self.coordinator.open_study(request.path_params["name"])
        if not study.codes:
            raise Declined(404, "Expected a study of codes.")
        path = self.coordinator.frame_of(study.hash)
        return FileResponse(path, media_type="application/octet-stream")

    def _note(self, keep: Callable[[ServerFolder, str, dict[str, Any]], None]) -> Handler:
        """Return the handler of an aggregator's note: its signature, or an end without a sum."""

        async def kept(request: Request, member: Row) -> Response:
            sent = read_note(await small_body(request, MOST_HEADER))
            await run_in_threadpool(keep, self.coordinator, request.path_params["name"], sent)
            return PlainTextResponse("kept\n", 201)

        return kept

    async def sum(self, request: Request, member: Row) -> Response:
        """Store an aggregator's opened sum; the second of two makes the release."""
        name = request.path_params["name"]
        study, _ = self.coordinator.open_study(name)
        body = await small_body(request, most_of_sum(study))
        await run_in_threadpool(take_sum, self.coordinator, name, body)
        return PlainTextResponse("kept\n", 201)

    async def inputs(self, request: Request, member: Row) -> Response:
        """Return the public inputs, or a range of them."""
        study, _ = self.coordinator.open_study(request.path_params["name"])
        return FileResponse(
            self.coordinator.inputs_of(study.hash), media_type="application/octet-stream"
        )

    async def release(self, request: Request, member: Row) -> Response:
        """Return the release as it was stored."""
        _, row = self.coordinator.open_study(request.path_params["name"])
        if row["release"] is None:
            raise Declined(404, "Expected a study that was released.")
        return Response(bytes(row["release"]), media_type="application/octet-stream")

    async def renew(self, request: Request, member: Row) -> Response:
        """Give a member a further certificate."""
        csr = await small_body(request, MOST_CSR_BYTES)
        place = self.coordinator
        args = (place.database, place.authority, member, csr, place.now())
        pem = await run_in_threadpool(members.renew, *args)
        return JSONResponse({"certificate": pem.decode()})

    async def approval(self, request: Request, member: Row) -> Response:
        """Store an approval or a refusal."""
        sent = read_note(await small_body(request, MOST_HEADER))
        name = request.path_params["name"]
        code = await run_in_threadpool(keep_decision, self.coordinator, name, member, sent)
        if code == 409:
            raise Declined(409, "Another decision of this site was kept before.")
        if code == 410:
            raise Declined(410, "The study has closed: it asks for no decision any more.")
        return PlainTextResponse("kept\n", code)

    async def withdraw(self, request: Request, member: Row) -> Response:
        """Drop a site's answers while the study is open."""
        name = request.path_params["name"]
        if not await run_in_threadpool(withdraw_site, self.coordinator, name, member):
            raise Declined(410, "The study has closed: its answers stay.")
        return PlainTextResponse("withdrawn\n")

    async def answers(self, request: Request, member: Row) -> Response:
        """Take a site's answers: to disk first, then checked, then recorded."""
        size = self._expected(request, member)
        if size > MOST_PART:
            raise Declined(413, f"Expected parts of {MOST_PART} bytes: more is not sent at once.")
        path = self.uploads / secrets.token_hex(16)
        try:
            await _to_disk(request, path, size)
            return await self._put_on_record(request, path)
        finally:
            path.unlink(missing_ok=True)

    async def part(self, request: Request, member: Row) -> Response:
        """Store one part of long answers, idempotently; the last one completes it."""
        size, number = self._expected(request, member), request.path_params["number"]
        count = -(-size // MOST_PART)
        if size <= MOST_PART or number >= count:
            raise Declined(422, "Expected a part of answers that are long enough to have it.")
        name = request.path_params["name"]
        kept = [self.uploads / part_name(name, member["id"], each) for each in range(count)]
        path = self.uploads / secrets.token_hex(16)
        whole = self.uploads / secrets.token_hex(16)
        try:
            await _to_disk(request, path, min(MOST_PART, size - number * MOST_PART))
            os.replace(path, kept[number])
            if not all(each.exists() for each in kept):
                return PlainTextResponse("kept\n", 202)
            await run_in_threadpool(_joined, kept, whole)
            taken = await self._put_on_record(request, whole)
        finally:
            path.unlink(missing_ok=True)
            whole.unlink(missing_ok=True)
        for each in kept:
            each.unlink(missing_ok=True)
        return taken

    def _expected(self, request: Request, member: Row) -> int:
        """Return the length of this site's answers; refuse early those that are not needed."""
        name = request.path_params["name"]
        study, row = self.coordinator.open_study(name)
        site = study.site(member["id"])
        if site is None:
            raise Declined(403, "Expected a site that the study names.")
        if row["state"] != "open" and receipt_of(self.coordinator, name, site.id) is None:
            raise Declined(410, "The study has closed without this site.")
        return self.coordinator.parcel_size(study, site)

    async def _put_on_record(self, request: Request, path: Path) -> Response:
        """Record a complete upload, unless its sender was revoked meanwhile."""
        member, name = self._member(request, ("site",)), request.path_params["name"]
        code, receipt = await run_in_threadpool(take_answers, self.coordinator, name, member, path)
        if code == 409:
            raise Declined(409, "Another answer of this site was taken, or none was approved.")
        if code == 410:
            raise Declined(410, "The study is not open now.")
        return Response(receipt, code, media_type="application/json")


def _joined(parts: list[Path], whole: Path) -> None:
    """Join parts into one file, synchronised."""
    with os.fdopen(os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for part in parts:
            file.write(part.read_bytes())
        file.flush()
        os.fsync(file.fileno())


def _length(request: Request, *, of_type: str = "") -> int:
    """Return a body's stated length; refuse compression, chunks or another type."""
    headers = request.headers
    if "content-encoding" in headers or "transfer-encoding" in headers:
        raise Declined(415, "Expected a body as it is: neither compressed nor chunked.")
    if of_type and headers.get("content-type") != of_type:
        raise Declined(415, f"Expected {of_type}.")
    if not (told := headers.get("content-length", "")).isdigit():
        raise Declined(411, "Expected a Content-Length.")
    return int(told)


async def _to_disk(request: Request, path: Path, size: int) -> None:
    """Write a body of exactly this length to a file, synchronised."""
    told = _length(request, of_type="application/octet-stream")
    if told != size:
        raise Declined(413 if told > size else 422, f"Expected {size} bytes, as the study implies.")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        written = 0
        async for part in request.stream():
            written += len(part)
            if written > size:
                raise Declined(413, f"Expected {size} bytes.")
            file.write(part)
        if written != size:
            raise Declined(422, f"Expected {size} bytes.")
        file.flush()
        await run_in_threadpool(os.fsync, file.fileno())


async def small_body(request: Request, most: int) -> bytes:
    """Return a body of bounded size, neither compressed nor chunked."""
    if _length(request) > most:
        raise Declined(413, f"Expected at most {most} bytes.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise Declined(413, f"Expected at most {most} bytes.")
    return body


class EnrolmentService:
    """Endpoint for those who have an invitation and no certificate yet."""

    def __init__(self, coordinator: ServerFolder) -> None:
        self.coordinator = coordinator
        self._failures: dict[str, deque[float]] = {}

    def app(self) -> Starlette:
        """Return the application."""
        return Starlette(routes=[Route("/v1/enrol", self.enrol, methods=["POST"])])

    async def enrol(self, request: Request) -> Response:
        """Issue a certificate for a token, which works once."""
        who = request.client.host if request.client else ""
        try:
            self._slow_down(who)
            # Not canonical: people may write such a request by hand, and it decides nothing else.
            sent = _loose(await small_body(request, _MOST_FORM))
            place = self.coordinator
            args = (place.database, place.authority, sent, place.now())
            pem = await run_in_threadpool(members.enrol, *args)
        except (ClientDisconnect, asyncio.CancelledError):
            raise
        except Exception as error:
            if isinstance(error, Refused):
                self._failures.setdefault(who, deque()).append(time.monotonic())
            return _refusal(error)
        return JSONResponse({"certificate": pem.decode()})

    def _slow_down(self, who: str) -> None:
        """Refuse an address that showed ten wrong tokens within a minute."""
        recent = self._failures.get(who, deque())
        while recent and time.monotonic() - recent[0] > 60:
            recent.popleft()
        if len(recent) >= _FAILURES_A_MINUTE:
            raise Declined(429, "Too many wrong tokens; wait a minute.")
        if len(self._failures) > 10_000:
            self._failures.clear()


def _loose(raw: bytes) -> dict[str, Any]:
    try:
        sent = json.loads(raw)
    except (RecursionError, ValueError):
        sent = None
    if not isinstance(sent, dict):
        raise InvalidArgument("Expected a JSON object.")
    return sent


def listeners_of(coordinator: Coordinator, *, console: Any = None) -> list[Listener]:
    """Return the coordinator's ports: members, enrolment, and the console if there is one."""
    listeners = ports_of(coordinator, MemberService(coordinator))
    if console is not None:
        settings, most = coordinator.settings, coordinator.settings.most_connections
        anybody = server_context(coordinator.folder / "keys", clients=False)
        place = (settings.console_host, settings.console_port)
        listeners.append(Listener(console, anybody, *place, most=most))
    return listeners


def ports_of(coordinator: ServerFolder, service: MemberService) -> list[Listener]:
    """Return every server's ports: members, and enrolment."""
    settings, keys = coordinator.settings, coordinator.folder / "keys"
    most = settings.most_connections
    members_app, enrol_app = service.app(), EnrolmentService(coordinator).app()
    renew_server(coordinator)
    with_clients = server_context(keys, clients=True)
    anybody = server_context(keys, clients=False)
    listeners = [
        Listener(members_app, with_clients, settings.host, settings.port, most=most),
        Listener(enrol_app, anybody, settings.host, settings.enrol_port, most=most),
    ]
    service.forget_uploads()  # the port is ours now: no other process takes any
    return listeners


async def serve_coordinator(coordinator: Coordinator, *, console: Any = None) -> None:
    """Serve members, enrolment and the console until stopped."""
    stop = asyncio.Event()
    until_signalled(stop)
    listeners = listeners_of(coordinator, console=console)

    def tick() -> None:
        coordinator.tick()
        renew_server(coordinator, listeners)

    await serve(listeners, tick=tick, stop=stop)


def renew_server(coordinator: ServerFolder, listeners: Sequence[Listener] = ()) -> bool:
    """Renew the server's certificate from day 60 on, for the same names."""
    keys = coordinator.folder / "keys"
    pem = (keys / "server.pem").read_bytes()
    if not should_renew(pem, coordinator.now()):
        return False
    coordinator.authority.issue_server(keys, hosts_of(pem))
    for each in listeners:  # new connections see the new certificate at once
        each.load(keys)
    return True
