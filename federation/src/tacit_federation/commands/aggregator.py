"""`tacit aggregator`: one of two that add shares, of which neither sees an answer."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from tacit._files import write_atomically
from tacit.cli import Result, hear, print_statement, print_table, screen, text_of, writable
from tacit.errors import InvalidArgument, NotYet
from tacit_federation.commands.study import hand_over, list_studies, names_of

if TYPE_CHECKING:
    from tacit_federation.aggregator import Aggregator

HERE = Path("aggregator")


def _opened(folder: Path) -> Aggregator:
    from tacit_federation.aggregator import Aggregator

    if not (folder / "federation.toml").is_file():
        raise InvalidArgument(
            f"Expected an aggregator's folder at {str(folder)!r}; `tacit aggregator init` makes "
            "one."
        )
    return Aggregator(folder)


def init(
    *,
    name: str,
    url: str,
    epsilon: float,
    delta: float,
    unit: str = "patient",
    hosts: str = "",
    listen: str = "0.0.0.0",
    port: int = 8443,
    enrol_port: int = 8442,
    folder: Path = HERE,
) -> Result:
    """Make an aggregator: keys, its own authority, an empty ledger, federation.toml.

    Example: tacit aggregator init --name "Health board" --url https://tacit.example.net:8443
    --epsilon 4 --delta 1e-6

    name: What people call this organisation.
    url: Where sites and the other aggregator reach it.
    epsilon: The most that all studies may cost together.
    delta: Delta of that budget.
    unit: Whose privacy the ledger counts.
    hosts: Further names or addresses of the server, with commas.
    listen: The address to listen on.
    port: Port for members.
    enrol_port: Port for enrolment.
    folder: The aggregator's folder.
    """
    from tacit.ledger import Budget
    from tacit_federation.aggregator import Aggregator
    from tacit_federation.settings import ServerSettings

    settings = ServerSettings(name, url, host=listen, port=port, enrol_port=enrol_port)
    budget, names = Budget(epsilon, delta), names_of(url, hosts)
    made = Aggregator.create(folder, settings, hosts=names, budget=budget, unit=unit)
    return Result(
        {"folder": str(folder), "key": made.key.public},
        f"{folder}: keys, ledger and federation.toml; next: tacit aggregator join, and serve",
    )


def join(invitation: Path, *, folder: Path = HERE) -> Result:
    """Join a coordinator; the first aggregator of two joins the second as well.

    Example: tacit aggregator join university.invitation

    invitation: The file with the line that the operator handed over; - reads standard input.
    folder: The aggregator's folder.
    """
    text = text_of(invitation, stdin=True)
    url = _opened(folder).join(text)
    return Result({"server": url}, f"Joined {url}.")


def invite(
    name: str,
    *,
    role: str = "site",
    out: Path | None = None,
    folder: Path = HERE,
) -> Result:
    """Print an invitation, which works once within a week; hand it over by a path of its own.

    Example: tacit aggregator invite hospital-a --out hospital-a.invitation

    name: What the member will be called: a site must have the name that it has in studies.
    role: site, or aggregator, for the first of two.
    out: Write it here instead, for its owner's eyes only.
    folder: The aggregator's folder.
    """
    return hand_over(_opened(folder), name, role, out)


def revoke(name: str, *, folder: Path = HERE) -> Result:
    """Shut a member out at once; its share of open studies is dropped.

    Example: tacit aggregator revoke hospital-a

    name: The member's.
    folder: The aggregator's folder.
    """
    _opened(folder).revoke(name)
    return Result({"revoked": name}, f"Revoked: {name}")


def describe(out: Path, *, role: str, folder: Path = HERE) -> Result:
    """Write how studies name this aggregator: address, keys, ledger; for `tacit study new`.

    Example: tacit aggregator describe first.json --role first

    out: A file for the coordinator's operator; public.
    role: first or second: the first asks the second, which need not reach it.
    folder: The aggregator's folder.
    """
    from tacit_federation.keys import fingerprint
    from tacit_federation.study import AGGREGATORS

    if role not in AGGREGATORS:
        raise InvalidArgument(f"Expected --role={role!r} to be first or second.")
    writable(out)
    told = _opened(folder).describe(role)
    text = json.dumps(dataclasses.asdict(told), sort_keys=True)
    write_atomically(out, (text + "\n").encode())
    return Result(
        {"file": str(out), "key": told.key, "ca": told.ca},
        f"{out}: key {fingerprint(told.key)}, authority {fingerprint(told.ca)}",
    )


def serve(*, folder: Path = HERE) -> None:
    """Serve sites and the other aggregator until Ctrl-C; federation.toml says where.

    Example: tacit aggregator serve

    folder: The aggregator's folder.
    """
    from tacit_federation.aggregator_service import serve_aggregator

    place = _opened(folder)
    settings = place.settings
    screen().print(f"Serving {settings.url}; enrolment on port {settings.enrol_port}")
    hear("tacit_federation")
    asyncio.run(serve_aggregator(place))


def show(study: str = "", *, folder: Path = HERE) -> Result:
    """Show all studies, or what one asks of this aggregator and who is held; never a share.

    Example: tacit aggregator show 3f0a11c2

    study: The first eight digits of its hash; all studies if left out.
    folder: The aggregator's folder.
    """
    place = _opened(folder)
    if study:
        row, told = place.find(study), dict(place.asked(study))
        proofs, sites = place.evidence(row["hash"]), place.presence(row["hash"])
        about = {"state": row["state"], "equivocation": proofs, "presence": sites}
        return Result({**told, **about}, lambda: _show(row, told, proofs, sites))
    return list_studies(place, "role")


def _show(
    row: dict[str, Any], told: dict[str, str], proofs: list[str], sites: dict[str, Any]
) -> None:
    rows = [(name, escape(text)) for name, text in told.items()]
    rows += [("EQUIVOCATION", f"the other aggregator signed two {kind}s") for kind in proofs]
    print_table(f"{row['hash'][:8]}: {row['state']}", ("", ""), rows)
    present = [_presence(*each) for each in sites.items()]
    print_table("Sites", ("site", "teachers", "held here", "by the other", "added"), present)


def _presence(site: str, row: dict[str, Any]) -> tuple[str, ...]:
    words = {True: "yes", False: "no", None: "not yet known"}
    held = row["dropped"] or ("yes" if row["held"] else "")
    return site, str(row["teachers"]), held, words[row["elsewhere"]], words[row["added"]]


def approve(
    study: str, *, hash: str = "", refuse: bool = False, folder: Path = HERE, as_json: bool = False
) -> None:
    """Sign a study, after reading what it asks and typing the first eight digits of its hash.

    Example: tacit aggregator approve 3f0a11c2

    study: The first eight digits of its hash, or more.
    hash: The digits, where nobody can type them.
    refuse: Refuse it instead.
    folder: The aggregator's folder.
    """
    place = _opened(folder)
    if refuse:
        place.refuse(study)
        Result({"refused": study}, f"Refused: {study}").print(as_json=as_json)
        return
    for name, text in place.asked(study):
        if not as_json:
            screen().print(f"{name}: {escape(text)}", soft_wrap=True, highlight=False)
    typed = hash or typer.prompt("Type the first eight digits of the study's hash to sign it")
    place.approve(study, hash=typed)
    text = "Signed. The service tells the coordinator; shares are taken when the window opens."
    Result({"study": place.find(study)["hash"]}, text).print(as_json=as_json)


def end(study: str, *, folder: Path = HERE) -> Result:
    """End a study whose sum was not shown, as the other aggregator does not come back.

    Example: tacit aggregator end 3f0a11c2

    study: The first eight digits of its hash, or more.
    folder: The aggregator's folder.
    """
    place = _opened(folder)
    place.end(study)
    text = "Ended: it is void, and shares of it are deleted. What it cost stays charged."
    return Result({"study": place.find(study)["hash"]}, text)


def statement(*, folder: Path = HERE) -> Result:
    """Print what this aggregator may sign, whatever all others did.

    Example: tacit aggregator statement

    folder: The aggregator's folder.
    """
    place = _opened(folder)
    if not len(place.ledger):
        raise NotYet("Expected a study that was locked here: nothing was released yet.")
    said = place.statement()
    return Result({"statement": str(said)}, lambda: print_statement(place.ledger, said))
