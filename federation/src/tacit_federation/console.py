"""The console for people: pages from templates, no scripts, every change by a form.

Officers see all and may invite, revoke, open, close and release; analysts see studies and releases.
Never votes, unreleased totals or arrival times.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit.errors import TacitError
from tacit.ledger import epsilon_text
from tacit.report import render_report
from tacit_federation import members
from tacit_federation.approval import Asked, moment
from tacit_federation.coordinator import Coordinator
from tacit_federation.database import audit_lines, log_head
from tacit_federation.keys import fingerprint
from tacit_federation.releasing import read_release, release_csv, release_study
from tacit_federation.service import small_body
from tacit_federation.sessions import Session, Sessions
from tacit_federation.site_folder import SiteStudy
from tacit_federation.statements import notes_of
from tacit_federation.study import AGGREGATORS, MODES, Study

if TYPE_CHECKING:
    from jinja2 import Environment

COOKIE = "__Host-tacit"
MOST_FORM = 8 * 1024
TEMPLATES = Path(__file__).with_name("templates")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    # Not no-referrer: Chromium would then send "Origin: null", and every form would fail.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_VERBS = {
    "signed": ("open", "Open to sites"),
    "open": ("close", "Close"),
    "closed": ("release", "Release"),
}
Page = Callable[[Request, Session], Awaitable[Response]]


def console_app(coordinator: Coordinator) -> Any:
    """Return the ASGI application of a coordinator's console, to be served over TLS."""
    return _WithHeaders(_Console(coordinator).app())


class _WithHeaders:
    """Middleware that sets headers of every reply, also of errors."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, with_headers)


class _Console:
    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self.sessions = Sessions(coordinator.database)

    def app(self) -> Starlette:
        every, officer = ("officer", "analyst"), ("officer",)
        routes = [
            Route("/style.css", self._style),
            Route("/login", self._safe(self._login), methods=["GET", "POST"]),
            Route("/", self._for(every, self.studies)),
            Route("/statement", self._for(every, self.statement)),
            Route("/report.html", self._for(every, self.report)),
            Route("/studies/{name}", self._for(every, self.study)),
            Route("/studies/{name}/release.csv", self._for(every, self.csv)),
            Route("/sites", self._for(officer, self.sites)),
            Route("/log", self._for(officer, self.log)),
            Route("/logout", self._for(every, self.log_out), methods=["POST"]),
            Route("/sites/invite", self._for(officer, self.invite), methods=["POST"]),
            Route("/sites/{member}/revoke", self._for(officer, self.revoke), methods=["POST"]),
            Route("/studies/{name}/{verb}", self._for(officer, self.act), methods=["POST"]),
        ]
        return Starlette(routes=routes)

    def _safe(
        self, handler: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Turn any error into one line without details."""

        async def endpoint(request: Request) -> Response:
            try:
                response = await handler(request)
            except (ClientDisconnect, asyncio.CancelledError):
                raise
            except Exception:
                response = PlainTextResponse("The page could not be shown.\n", 400)
            return response

        return endpoint

    def _for(self, roles: tuple[str, ...], page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def handler(request: Request) -> Response:
            session = self.sessions.find(request.cookies.get(COOKIE))
            if session is None:
                return RedirectResponse("/login", 303)
            if session.role not in roles:
                return PlainTextResponse("This is for officers.\n", 403)
            if request.method == "POST":
                request.state.form = await _form(request)
                sent = request.state.form.get("token", "")
                if not _same_origin(request) or sent != session.token:
                    return PlainTextResponse(
                        "The form is not from this page; load it again.\n", 403
                    )
            try:
                return await page(request, session)
            except TacitError as error:
                return self._page(
                    "message.html", session, 400, here="", said=str(error), alarm=True
                )

        return self._safe(handler)

    def _page(
        self, name: str, session: Session | None, status: int = 200, **shown: Any
    ) -> Response:
        shown = {"said": "", "alarm": False, "here": "", **shown}
        text = rendered(name, session=session, organisation=self.coordinator.settings.name, **shown)
        return HTMLResponse(text, status)

    async def _style(self, request: Request) -> Response:
        return Response(style(), media_type="text/css")

    async def _login(self, request: Request) -> Response:
        if request.method == "GET":
            return self._page("login.html", None)
        form = await _form(request)
        if not _same_origin(request):
            return PlainTextResponse("The form is not from this page; load it again.\n", 403)
        name, password = form.get("name", ""), form.get("password", "")
        cookie = await run_in_threadpool(self.sessions.log_in, name, password)
        if cookie is None:
            text = "Name or password is wrong, or there were five failures: then wait 15 minutes."
            return self._page("login.html", None, 403, said=text, alarm=True)
        response = RedirectResponse("/", 303)
        response.set_cookie(COOKIE, cookie, secure=True, httponly=True, samesite="strict", path="/")
        return response

    async def log_out(self, request: Request, session: Session) -> Response:
        self.sessions.log_out(request.cookies.get(COOKIE))
        response = RedirectResponse("/login", 303)
        response.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict", path="/")
        return response

    async def studies(self, request: Request, session: Session) -> Response:
        place = self.coordinator
        shown = [
            {
                "study": Study.read(row["text"]),
                "state": row["state"],
                "closes": row["closes"],
                "answered": sum(each["answered"] for each in place.presence(row["hash"]).values()),
            }
            for row in place.studies()
            if row["state"] != "draft" or session.role == "officer"
        ]
        spent, budget = place.ledger.spent(), place.ledger.budget
        return self._page(
            "studies.html",
            session,
            here="studies",
            studies=shown[::-1],
            spent=epsilon_text(spent),
            budget=budget,
            share=min(1.0, spent / budget.epsilon),
            unit=place.ledger.unit,
        )

    async def study(self, request: Request, session: Session, said: str = "") -> Response:
        place = self.coordinator
        row = place.find(request.path_params["name"])
        study, sites = Study.read(row["text"]), place.presence(row["hash"])
        self._add_days(row["hash"], sites)
        present = [name for name, each in sites.items() if each["answered"]]
        plain = study.plan.as_dict()["parameters"].items()
        return self._page(
            "study.html",
            session,
            here="studies",
            said=said,
            study=study,
            state=row["state"],
            officer=row["officer"],
            closes=row["closes"],
            entry=row["entry"],
            released=row["release"] is not None,
            aggregators={
                role: role in place.agreed(study.hash)
                for role in MODES[study.mode]
                if role in AGGREGATORS
            },
            sites=sites,
            answered=len(present),
            reached=study.reached(present),
            mechanism=f"{study.plan.mechanism.name} ({', '.join(f'{k}={v}' for k, v in plain)})",
            epsilon=epsilon_text(study.plan.epsilon(place.ledger.usable_delta)),
            delta=place.ledger.budget.delta,
            verbs=[_VERBS[row["state"]]] if row["state"] in _VERBS else [],
        )

    def _add_days(self, name: str, sites: dict[str, dict[str, Any]]) -> None:
        """Add the day on which a site decided and answered; never the time."""
        for row in sites.values():
            row.update(decided="", on="")
        for each in map(json.loads, audit_lines(self.coordinator.database)):
            site = sites.get(each["about"].get("site", ""))
            if site is None or each["about"].get("study") != name:
                continue
            key = {"approved": "decided", "refused": "decided", "answered": "on"}.get(each["event"])
            if key:
                site[key] = each["day"]

    async def act(self, request: Request, session: Session) -> Response:
        place, name = self.coordinator, request.path_params["name"]
        verb = request.path_params["verb"]
        if verb == "open":
            await run_in_threadpool(place.open, name)
        elif verb == "close":
            await run_in_threadpool(place.tick)
        elif verb == "release":
            await run_in_threadpool(release_study, place, name)
        else:
            return PlainTextResponse("There is no such form.\n", 404)
        state = place.find(name)["state"]
        early = "It closes at its deadline, or at the next slot once all have answered."
        said = early if verb == "close" and state == "open" else f"The study is {state}."
        return await self.study(request, session, said=said)

    async def csv(self, request: Request, session: Session) -> Response:
        row = self.coordinator.find(request.path_params["name"])
        if row["release"] is None:
            return PlainTextResponse("Nothing was released yet.\n", 404)
        frame = self.coordinator.frame_of(row["hash"])
        about = frame.read_bytes() if frame.exists() else None
        found = read_release(Study.read(row["text"]), bytes(row["release"]), about)
        text = release_csv(found.release)
        return PlainTextResponse(text, media_type="text/csv")

    async def sites(self, request: Request, session: Session, **more: Any) -> Response:
        found = members.all_members(self.coordinator.database)
        for row in found:
            row["enrolled_on"] = moment(row["enrolled"])[:10] if row["enrolled"] else ""
            row["revoked_on"] = moment(row["revoked"])[:10] if row["revoked"] else ""
        shown = {"invitation": "", "invited": "", **more}
        return self._page("sites.html", session, here="sites", members=found, **shown)

    async def invite(self, request: Request, session: Session) -> Response:
        form = request.state.form
        name, role = form.get("member", ""), form.get("role", "site")
        text = await run_in_threadpool(self.coordinator.invite, name, role)
        return await self.sites(request, session, invitation=text, invited=name)

    async def revoke(self, request: Request, session: Session) -> Response:
        name = request.path_params["member"]
        await run_in_threadpool(self.coordinator.revoke, name)
        return await self.sites(request, session, said=f"{name} is shut out.")

    async def log(self, request: Request, session: Session) -> Response:
        database = self.coordinator.database
        lines = [json.loads(line) for line in audit_lines(database)]
        head = log_head(database).hash
        return self._page("log.html", session, here="log", lines=lines, head=head)

    async def statement(self, request: Request, session: Session) -> Response:
        place = self.coordinator
        shown: dict[str, Any] = {"statement": str(place.statement()), "unit": place.ledger.unit}
        return self._page("statement.html", session, here="statement", **shown)

    async def report(self, request: Request, session: Session) -> Response:
        place = self.coordinator
        notes = notes_of(place.statement())
        text = await run_in_threadpool(render_report, place.ledger, notes=notes)
        attached = {"Content-Disposition": 'attachment; filename="report.html"'}
        return HTMLResponse(text, headers=attached)


def _same_origin(request: Request) -> bool:
    """Whether a form comes from a page of this console."""
    return request.headers.get("origin") == f"https://{request.headers.get('host', '')}"


async def _form(request: Request) -> dict[str, str]:
    """Read a small form; of a repeated field the first is taken."""
    body = await small_body(request, MOST_FORM)
    return {name: values[0] for name, values in parse_qs(body.decode("utf-8")).items()}


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(moment=moment, fingerprint=fingerprint)
    return made


def rendered(name: str, **shown: Any) -> str:
    """Return a page; all values are escaped."""
    return _environment().get_template(name).render(**shown)


def style() -> str:
    """Return the style sheet of all pages."""
    return (TEMPLATES / "style.css").read_text(encoding="utf-8")


def steward_page(asked: Asked, known: SiteStudy) -> str:
    """Return a self-contained page of what a study requires of a site and what would leave."""
    return rendered("steward.html", asked=asked, known=known, css=style())
