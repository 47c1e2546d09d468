"""`tacit coordinator`: the service that sites talk to, who may, and who may look at the console."""

from __future__ import annotations

import asyncio
from pathlib import Path

import typer

from tacit.cli import Result, hear, screen, text_of
from tacit_federation.commands.study import HERE, hand_over, opened


def serve(*, folder: Path = HERE, console: bool = True) -> None:
    """Serve sites, enrolment and the console until Ctrl-C; federation.toml says where.

    Example: tacit coordinator serve

    folder: The coordinator's folder.
    console: Whether the console for people is served, too.
    """
    from tacit_federation.console import console_app
    from tacit_federation.service import serve_coordinator

    place = opened(folder)
    settings = place.settings
    screen().print(
        f"Serving {settings.url}; enrolment on port {settings.enrol_port}; console at "
        f"https://{settings.console_host}:{settings.console_port}",
        soft_wrap=True,
    )
    app = console_app(place) if console else None
    hear("tacit_federation")
    asyncio.run(serve_coordinator(place, console=app))


def invite(
    name: str,
    *,
    role: str = "site",
    out: Path | None = None,
    folder: Path = HERE,
) -> Result:
    """Print an invitation, which works once within a week; hand it over by a path of its own.

    Example: tacit coordinator invite hospital-a --out hospital-a.invitation

    name: What the member will be called: small letters, digits, hyphens.
    role: site, or analyst, who reads releases.
    out: Write it here instead, for its owner's eyes only.
    folder: The coordinator's folder.
    """
    return hand_over(opened(folder), name, role, out)


def revoke(name: str, *, folder: Path = HERE) -> Result:
    """Shut a member out at once; what it answered to open studies is dropped.

    Example: tacit coordinator revoke hospital-a

    name: The member's.
    folder: The coordinator's folder.
    """
    opened(folder).revoke(name)
    return Result({"revoked": name}, f"Revoked: {name}")


def officer(
    name: str,
    *,
    role: str | None = None,
    password_file: Path | None = None,
    folder: Path = HERE,
) -> Result:
    """Let a person into the console, with a password of at least 12 signs; or change it.

    Example: tacit coordinator officer ada

    name: The person's login.
    role: officer, who may do all; or analyst, who reads studies and releases. Of somebody known it
        stays as it is by default; of somebody new it is officer.
    password_file: Read the password from here instead of asking.
    folder: The coordinator's folder.
    """
    from tacit_federation.sessions import set_password

    place = opened(folder)
    if password_file is None:
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = text_of(password_file).strip("\n")
    role = set_password(place.database, name, role, password)
    return Result({"person": name, "role": role}, f"{name} may log in as {role}.")
