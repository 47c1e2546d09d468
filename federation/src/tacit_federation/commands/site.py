"""`tacit site`: what a hospital does: join, look, approve, answer, send, state."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from tacit._files import write_atomically
from tacit.cli import Result, print_statement, print_table, same_ledger, screen, text_of, writable
from tacit.errors import InvalidArgument, NotYet, Refused, TacitError

if TYPE_CHECKING:
    from tacit_federation.approval import Asked
    from tacit_federation.site import Site

HERE = Path("site")
EVERY, JITTER, LONGEST = 60.0, 0.2, 900.0
"""Seconds between polls, by how much they vary, and how long failures may make them."""


def _opened(folder: Path) -> Site:
    from tacit_federation.site import Site

    return Site.open(folder)


def join(
    invitation: Path,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    unit: str | None = None,
    dataset: str | None = None,
    folder: Path = HERE,
) -> Result:
    """Join a coordinator; the first time, make this site's keys, ledger and policy.toml.

    The ledger stays as it was made: another epsilon, delta, unit or data set is refused later.

    Example: tacit site join hospital-a.invitation --epsilon 2 --delta 1e-6

    invitation: The file with the line that the operator handed over; - reads standard input.
    epsilon: The most that all studies may cost this site's patients together; needed the first
    time.
    delta: Delta of that budget.
    unit: Whose privacy the site's ledger counts; patient by default.
    dataset: What statements call this site's records.
    folder: The site's folder.
    """
    from tacit.ledger import Budget
    from tacit_federation.keys import fingerprint
    from tacit_federation.members import Invitation
    from tacit_federation.site import Site

    text = text_of(invitation, stdin=True)
    invited, made = Invitation.read(text), ""  # before anything is made
    if (folder / "keys" / "signing.key").exists():
        site = Site.open(folder)
        ledger = Path(site.ledger.path)
        same_ledger(ledger, epsilon=epsilon, delta=delta, unit=unit, dataset=dataset)
    elif epsilon is None or delta is None:
        raise InvalidArgument("Expected --epsilon and --delta: a new site needs its budget.")
    else:
        budget = Budget(epsilon, delta)
        site = Site.create(folder, budget=budget, unit=unit or "patient", dataset=dataset or "")
        made = (
            f" {folder} was made, with keys and a ledger of epsilon = {epsilon:g} at delta = "
            f"{delta:g}: the same command goes on. For other terms, remove that folder first."
        )
    try:
        url = site.join(text)
    except TacitError as error:
        raise type(error)(f"{error}{made}") from None
    officers = site.policy.officers
    strange = [fingerprint(key) for key in invited.officers if key not in officers]
    known = ", ".join(fingerprint(key) for key in officers)
    more = f" policy.toml does not name {', '.join(strange)}: what they sign is refused."
    return Result(
        {"server": url, "key": site.key.public, "officers": officers},
        f"Joined {url}. Studies must be signed by: {known}.{more if strange else ''} Compare with "
        "what the officer reads to you, look at policy.toml, then: tacit site run",
    )


def run(
    *, once: bool = False, every: float = EVERY, folder: Path = HERE, as_json: bool = False
) -> None:
    """Ask the coordinator for studies, and send what was approved, answered and is due.

    Example: tacit site run --once

    once: Ask once and stop.
    every: Seconds between two visits, 20 % more or less.
    folder: The site's folder.
    """
    site = _opened(folder)
    failures = 0
    while True:
        try:
            for line in site.run_once():
                Result({"event": line}, escape(line)).print(as_json=as_json)
            failures = 0
        except TacitError as error:  # the next visit may go well: a site that stops is absent
            if once:
                raise
            failures += 1
            screen().print(escape(str(error)), soft_wrap=True)
        if once:
            return
        time.sleep(_pause(every, failures))


def _pause(every: float, failures: int) -> float:
    """Return how long to wait: about a minute, and after failures up to a quarter of an hour."""
    if failures:
        return random.uniform(every, max(every, min(LONGEST, every * 2 ** min(failures, 10))))
    return every * random.uniform(1 - JITTER, 1 + JITTER)


def show(
    study: str = "",
    *,
    html: Path | None = None,
    overwrite: bool = False,
    folder: Path = HERE,
) -> Result:
    """Show the studies here, or exactly what one asks for and what would leave.

    Example: tacit site show 3f0a11c2 --html what-would-leave.html

    study: The first eight digits of its hash; all studies if left out.
    html: Write one page for the steward here.
    folder: The site's folder.
    """
    site = _opened(folder)
    if not study:
        return _all_studies(site)
    asked = site.asked(study)
    if html is not None:
        from tacit_federation.console import steward_page

        writable(html, overwrite=overwrite)
        write_atomically(html, steward_page(asked, site.find(study)).encode())
    plain = {"state": site.find(study).state, **dict(asked.rows())}
    return Result(plain, lambda: _show_asked(asked))


def _all_studies(site: Site) -> Result:
    found = site.studies()
    told = [{"study": each.hash, "state": each.state, "server": each.remote} for each in found]
    rows = [(escape(each.study.title), each.state, each.remote, each.hash[:8]) for each in found]
    columns = ("title", "here", "there", "study")
    return Result({"studies": told}, lambda: print_table("Studies", columns, rows))


def _show_asked(asked: Asked) -> None:
    rows = [(escape(name), escape(text)) for name, text in asked.rows()]
    for name, text in rows:
        screen().print(f"[bold]{name}[/]: {text}", soft_wrap=True, highlight=False)


def approve(study: str, *, confirm: str = "", folder: Path = HERE, as_json: bool = False) -> None:
    """Show what a study asks for, and approve it: the ledger is charged, nothing leaves yet.

    Example: tacit site approve 3f0a11c2

    study: The first eight digits of its hash, or more.
    confirm: The first eight digits, typed by a person who has read the above; asked for if left
    out.
    folder: The site's folder.
    """
    site = _opened(folder)
    asked = site.asked(study)
    if not as_json:
        _show_asked(asked)
    typed = confirm or typer.prompt("To approve, type the first eight digits of the study")
    site.approve(study, hash=typed.strip())
    name = asked.study.hash
    text = f"Approved {name[:8]}; next: tacit site answer {name[:8]}"
    Result({"approved": name, "spent": site.ledger.spent()}, text).print(as_json=as_json)


def refuse(study: str, *, folder: Path = HERE) -> Result:
    """Refuse a study; nothing is charged.

    Example: tacit site refuse 3f0a11c2

    study: The first eight digits of its hash, or more.
    folder: The site's folder.
    """
    site = _opened(folder)
    site.refuse(study)
    return Result({"refused": site.find(study).hash}, "Refused.")


def answer(
    study: str,
    *,
    answers: Path | None = None,
    config: Path | None = None,
    codec: Path | None = None,
    folder: Path = HERE,
) -> Result:
    r"""Answer an approved study with given answers, or train here; `tacit site run` sends it.

    Example: tacit site answer 3f0a11c2 --config run.toml

    study: The first eight digits of its hash, or more.
    answers: Class indices (teachers, queries), .npy, of teachers that were trained elsewhere.
    codec: The codec of a study of masks; answers are then masks, encoded and clipped here.
    config: A run.toml whose \[data] and \[pate] say what to train on which records here.
    folder: The site's folder.
    """
    site = _opened(folder)
    if (known := site.find(study)).state in ("sealed", "sent", "confirmed"):
        text = "Sealed before, and it stays so: what was given now was not read."
        return Result({"sealed": known.hash, "before": True}, text)
    if (answers is None) == (config is None):
        raise InvalidArgument("Expected --answers or --config, one of them.")
    given: dict[str, Any] = {}
    said = ""
    if answers is not None:
        from tacit_federation.sealing import read_answers

        given["answers"] = read_answers(answers)
        if codec is not None:
            from tacit.masks import EncodeMasks, load_codec

            given["encode"] = EncodeMasks(load_codec(codec), 2)
    else:
        from tacit_federation.training import records_of

        assert config is not None
        given, said = records_of(config, site.find(study).study)
    site.answer(study, **given)
    if said:  # for the steward, who may read the records; it goes nowhere else
        screen().print(escape(said), soft_wrap=True)
    return Result({"sealed": site.find(study).hash}, "Sealed.")


def withdraw(study: str, *, folder: Path = HERE) -> Result:
    """Take an answer back before the study closes; statements warn of it for ever.

    Example: tacit site withdraw 3f0a11c2

    study: The first eight digits of its hash, or more.
    folder: The site's folder.
    """
    site = _opened(folder)
    site.withdraw(study)
    return Result({"withdrawn": site.find(study).hash}, "Withdrawn.")


def status(study: str = "", *, folder: Path = HERE) -> Result:
    """Say where a study is here, exit code 6 until it is released; or what this site may sign.

    Example: tacit site status

    study: The first eight digits of its hash; the site's statement if left out.
    folder: The site's folder.
    """
    site = _opened(folder)
    if not study:
        statement = site.statement()
        return Result(statement.to_dict(), lambda: print_statement(site.ledger, statement))
    known = site.find(study)
    told = {"study": known.hash, "state": known.state, "server": known.remote}
    ending: TacitError | None = None
    if known.remote == "void":
        ending = Refused("Expected a study that is released: this one ended without a release.")
    elif not known.released:
        ending = NotYet("Expected a study that was released and fetched.")
    return Result(told, f"{known.hash[:8]}: {known.state}, {known.remote} there", ending)
