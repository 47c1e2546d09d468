"""An aggregator's service for sites' shares and the other aggregator's notes, and its rounds.

Every second it closes what is due, takes the steps it can, and, as the first of two, exchanges with
the second. Every few seconds it visits the coordinators that it joined.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tacit.errors import InvalidArgument, Refused, TacitError
from tacit.ledger import canonical
from tacit_federation.aggregator import Aggregator
from tacit_federation.client import Client
from tacit_federation.database import Row
from tacit_federation.exchanging import (
    ENDS,
    KINDS,
    MOST_NOTE,
    advance,
    exchange,
    peer_of,
    shown,
    take_note,
)
from tacit_federation.messages import VOID, signed
from tacit_federation.service import MemberService, ports_of, renew_server, small_body
from tacit_federation.study import Study
from tacit_federation.sums import most_of_sum
from tacit_federation.transport import Listener, serve, until_signalled

VISIT_SECONDS = 5.0
_MOST_DOCUMENT = 2 << 20
_LOG = logging.getLogger("tacit_federation")


class AggregatorService(MemberService):
    """Endpoints for sites and the other aggregator."""

    coordinator: Aggregator

    def app(self) -> Starlette:
        """Return the application."""
        study = "/v1/studies/{name}"
        routes = [
            self._route("/v1/studies", self.studies, "GET", ("site", "aggregator")),
            self._route("/v1/renew", self.renew, "POST", ("site", "aggregator")),
            self._route(f"{study}/share", self.answers, "PUT", ("site",)),
            self._route(f"{study}/share", self.withdraw, "DELETE", ("site",)),
            self._route(f"{study}/share/parts/{{number:int}}", self.part, "PUT", ("site",)),
        ]
        for kind in (*KINDS, ENDS):
            routes += [
                self._route(f"{study}/{kind}", self._take(kind), "PUT", ("aggregator",)),
                self._route(f"{study}/{kind}", self._show(kind), "GET", ("aggregator",)),
            ]
        return Starlette(routes=routes)

    def _listed(self, member: Row) -> list[Row]:
        return []  # studies are the coordinator's to show

    def _take(self, kind: str) -> Any:
        async def take(request: Request, member: Row) -> Response:
            name, place = request.path_params["name"], self.coordinator
            study = self._shared_with(name, member)
            most = most_of_sum(study) if kind == "sum" else MOST_NOTE
            raw = await small_body(request, most)
            await run_in_threadpool(take_note, place, name, kind, raw)
            await run_in_threadpool(advance, place, name)
            return PlainTextResponse("kept\n", 201)

        return take

    def _show(self, kind: str) -> Any:
        async def show(request: Request, member: Row) -> Response:
            study = self._shared_with(request.path_params["name"], member)
            told = shown(self.coordinator, study.hash, kind)
            return Response(told, media_type="application/octet-stream")

        return show

    def _shared_with(self, name: str, member: Row) -> Study:
        """Return a study whose other aggregator this member is; refuse any other."""
        study, row = self.coordinator.open_study(name)
        if study.server(peer_of(row["role"])).key != member["key"]:
            raise Refused("Expected the other aggregator of this study.")
        return study


def round_of(place: Aggregator) -> list[str]:
    """Close what is due and advance every study as far as possible; one failure stops no other."""
    said: list[str] = []
    place.close_due()
    query = (
        "SELECT hash FROM studies WHERE state IN ('closed', 'locked', 'opened') "
        "OR (state = 'void' AND role = 'first' AND told NOT LIKE '%end%')"
    )
    for row in place.database.rows(query):
        try:
            advance(place, row["hash"])
            said += exchange(place, row["hash"])
        except Exception as error:  # whatever the other one sent: the other studies go on
            said.append(f"{row['hash'][:8]}: not yet ({_why(error)})")
    place.sweep()
    place.hang_up()
    return said


def visit_coordinators(place: Aggregator) -> list[str]:
    """Fetch new studies, and report what was signed, opened or ended."""
    said: list[str] = []
    for url, party in place.parties().items():
        try:
            client = place.client(url)
            client.renew(party["name"])
            if party["officers"]:
                said += _meet_new(place, url, client)
            said += _tell(place, url, client)
        except Exception as error:  # whatever this one sent: the others are asked
            said.append(f"{url}: not yet ({_why(error)})")
    place.hang_up()
    return said


def _why(error: Exception) -> str:
    """Return a message for people: of a foreign error its kind alone."""
    return str(error) if isinstance(error, TacitError) else type(error).__name__


def _meet_new(place: Aggregator, url: str, client: Client) -> list[str]:
    said = []
    known = {row["hash"] for row in place.studies()}
    for each in client.ask("GET", "/studies").json().get("studies") or []:
        name = each.get("hash") if isinstance(each, dict) else None
        if not isinstance(name, str) or name in known or each.get("state") != "signed":
            continue
        told = client.ask("GET", f"/studies/{name}/document", most=_MOST_DOCUMENT).json()
        try:
            signed_by = (str(told.get("officer")), str(told.get("signature")))
            study = place.meet(url, str(told.get("document")), *signed_by)
        except InvalidArgument as error:  # perhaps of a newer tacit: the others go on
            said.append(f"{name[:8]}: not understood. {error}")
            continue
        if study is not None:
            said.append(f"{name[:8]}: new study; `tacit aggregator approve {name[:8]}`")
    return said


def _tell(place: Aggregator, url: str, client: Client) -> list[str]:
    """Send what the coordinator should know, each until it was taken."""
    said = []
    for row in place.studies():
        due = _due(place, row)
        study = Study.read(row["text"]) if due else None
        if study is None or study.server("coordinator").url != url:
            continue
        for what, body in due.items():
            try:
                reply = client.ask("PUT", f"/studies/{study.hash}/{what}", body)
            except Refused as error:  # of this study: the others are told of
                said.append(f"{study.hash[:8]}: {what} not told ({error})")
                continue
            if reply.status in (200, 201):
                with place.database.writing() as rows:
                    query = "UPDATE studies SET told = told || ? WHERE hash = ?"
                    rows.execute(query, (f"{what} ", study.hash))
                said.append(f"{study.hash[:8]}: {what} told")
    return said


def _due(place: Aggregator, row: Row) -> dict[str, bytes]:
    told, due = row["told"].split(), {}
    role = row["role"]
    if row["agreed"] is not None and "signature" not in told:
        note = {"role": role, "signature": row["agreed"]}
        due["signature"] = canonical(note).encode()
    if row["state"] in ("opened", "released") and "sum" not in told:
        due["sum"] = bytes(row["sum"])
    if row["state"] == "void" and "void" not in told:
        due["void"] = signed(place.key, VOID, {"study": row["hash"], "role": role})
    return due


def aggregator_listeners(place: Aggregator) -> list[Listener]:
    """Return an aggregator's ports: members, and enrolment."""
    return ports_of(place, AggregatorService(place))


async def serve_aggregator(place: Aggregator) -> None:
    """Serve sites and the other aggregator until stopped."""
    stop = asyncio.Event()
    until_signalled(stop)
    listeners = aggregator_listeners(place)
    last = [0.0]

    def tick() -> None:
        for line in round_of(place):
            _LOG.info(line)
        if time.monotonic() - last[0] >= VISIT_SECONDS:
            last[0] = time.monotonic()
            for line in visit_coordinators(place):
                _LOG.info(line)
        renew_server(place, listeners)

    await serve(listeners, tick=tick, stop=stop)
