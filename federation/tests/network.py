"""A coordinator that serves on loopback, sites that join it, and a clock that tests can move."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tacit.ledger import Budget
from tacit.mechanisms import NoisyVotes, Plan
from tacit_federation import (
    Aggregator,
    Coordinator,
    Policy,
    ServerSettings,
    SigningKey,
    Site,
    Study,
    Window,
    describe_inputs,
    inputs_file,
    new_document,
)
from tacit_federation.aggregator_service import (
    aggregator_listeners,
    round_of,
    visit_coordinators,
)
from tacit_federation.certificates import server_context
from tacit_federation.console import console_app
from tacit_federation.service import listeners_of
from tacit_federation.study import MODES
from tacit_federation.transport import PORTS, Listener, free_ports, serve

QUERIES, CLASSES = 6, 3
INPUTS = np.arange(2.0 * QUERIES).reshape(QUERIES, 2)
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
OWN_PORTS = itertools.cycle(random.sample(PORTS[WORKER % 16 :: 16], 750))
WIDE = Budget(1e6, 1e-6)  # tests compare sums exactly: noise that is hardly there


def own_ports(count: int) -> list[int]:
    """Return free ports, others each time and of this process of tests alone.

    A server may listen much later: until then nothing else tells that its port is taken.
    """
    return free_ports(count, list(itertools.islice(OWN_PORTS, 4 * count)))


class Clock:
    """Seconds since 1970, which only a test moves; sites and coordinator share it."""

    def __init__(self) -> None:
        self.start = time.time()
        self.ahead = 0.0

    def __call__(self) -> float:
        return self.start + self.ahead


def make_coordinator(folder: Path, clock=time.time, **changes) -> Coordinator:
    port, enrol, console = own_ports(3)
    settings = ServerSettings(
        "a university",
        f"https://127.0.0.1:{port}",
        host="127.0.0.1",
        port=port,
        enrol_port=enrol,
        console_port=console,
    )
    about = {"hosts": ["127.0.0.1", "localhost"], "budget": WIDE, "unit": "patient", **changes}
    return Coordinator.create(folder, settings, clock=clock, **about)


@contextlib.contextmanager
def served(coordinator: Coordinator, console=None) -> Iterator[None]:
    """Serve members, enrolment and perhaps the console until the block ends."""
    with _running(lambda: listeners_of(coordinator, console=console)):
        yield


@contextlib.contextmanager
def only_console(coordinator: Coordinator) -> Iterator[str]:
    """Serve the console alone, beside a coordinator that serves already; give its address."""
    host, port = coordinator.settings.console_host, coordinator.settings.console_port
    context = server_context(coordinator.folder / "keys", clients=False)
    app = console_app(coordinator)
    with _running(lambda: [Listener(app, context, host, port, most=100)]):
        yield f"https://{host}:{port}"


@contextlib.contextmanager
def _running(listeners) -> Iterator[None]:
    """Serve in a thread."""
    loop = asyncio.new_event_loop()
    stop, ready = asyncio.Event(), threading.Event()

    async def run() -> None:
        made = listeners()
        loop.call_later(0.05, ready.set)
        await serve(made, tick=lambda: None, stop=stop)

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    ready.wait(30)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()


def make_aggregator(folder: Path, clock=time.time, **changes) -> Aggregator:
    port, enrol = own_ports(2)
    settings = ServerSettings(
        folder.name,
        f"https://127.0.0.1:{port}",
        host="127.0.0.1",
        port=port,
        enrol_port=enrol,
    )
    about = {"hosts": ["127.0.0.1"], "budget": WIDE, "unit": "patient", **changes}
    return Aggregator.create(folder, settings, clock=clock, **about)


@contextlib.contextmanager
def served_aggregator(place: Aggregator) -> Iterator[None]:
    """Serve sites and the other aggregator; its rounds are the test's to take."""
    with _running(lambda: aggregator_listeners(place)):
        yield


def go_on(*aggregators: Aggregator, times: int = 2) -> None:
    """Let aggregators take their rounds, and visit the coordinator."""
    for _ in range(times):
        for each in aggregators:
            round_of(each)
    for each in aggregators:
        visit_coordinators(each)


def make_site(folder: Path, coordinator: Coordinator, name: str, clock=time.time, **policy) -> Site:
    site = Site.create(folder, budget=WIDE, unit="patient", dataset=name, clock=clock)
    site.join(coordinator.invite(name))
    chosen = {"most_epsilon": 1e6, "least_sites": 2, "least_teachers": 2}
    chosen |= {"teacher_seconds": 20, **policy}
    Policy(list(coordinator.officers), list(MODES), **chosen).write(folder / "policy.toml")
    return site


def draft(
    coordinator: Coordinator, *, teachers=2, quorum=2, seconds=3600, frame=b"", **changes
) -> Study:
    """A study of a few inputs, whose window has just opened."""
    opens = int(coordinator.now()) - 1
    file = inputs_file(INPUTS)
    sites = coordinator.sites(teachers)
    told = {
        "title": "a small study",
        "purpose": "to try it out",
        "unit": "patient",
        "inputs": describe_inputs(file),
        "classes": CLASSES,
        "plan": Plan(NoisyVotes(0.05), QUERIES, n_classes=CLASSES),
        "sites": sites,
        "quorum": {"sites": quorum, "teachers": quorum},
        "window": Window(opens, opens + seconds, 1),
        "servers": [coordinator.server()],
        **changes,
    }
    study = new_document(**told)
    coordinator.add(study, file, frame)
    return study


def opened(coordinator: Coordinator, **changes) -> Study:
    study = draft(coordinator, **changes)
    coordinator.sign(study.hash, SigningKey.open(coordinator.folder / "officer.key"))
    coordinator.open(study.hash)
    return study


def answers_of(number: int, teachers: int = 2) -> np.ndarray:
    """Class indices (teachers, queries) that differ from site to site."""
    rng = np.random.default_rng(number)
    return rng.integers(0, CLASSES, (teachers, QUERIES))


def confirmed(coordinator: Coordinator, sites: list[Site], clock: Clock, study: Study) -> None:
    """Let these sites see, approve, answer and send."""
    for number, site in enumerate(sites):
        site.run_once()
        site.approve(study.hash, hash=study.hash[:8])
        site.answer(study.hash, answers=answers_of(number))
    reach_the_last_slot(clock, study)
    for site in sites:
        site.run_once()


def reach_the_last_slot(clock: Clock, study: Study) -> None:
    """Move to when the latest of all sites sends: slots are drawn, so none is certain before."""
    clock.ahead += study.window.closes - study.window.slot_seconds - clock()


def pass_the_end(clock: Clock, study: Study) -> None:
    clock.ahead += study.window.closes + 2 - clock()


def sealed_body(site: Site, study: Study, number: int = 0) -> bytes:
    """What a site would send: it has seen, approved and answered."""
    site.run_once()
    site.approve(study.hash, hash=study.hash)
    site.run_once()  # the server has the approval
    site.answer(study.hash, answers=answers_of(number))
    return site.sealed(study.hash, "coordinator").read_bytes()


def state_of(coordinator: Coordinator | Aggregator) -> tuple:
    """Everything that a request could have changed."""
    tables = ["members", "certificates", "studies", "answers", "audit", "invitations"]
    tables.append("approvals" if coordinator.APPROVES else "evidence")
    rows = [coordinator.database.rows(f"SELECT * FROM {table}") for table in tables]
    files = sorted(path.name for path in (coordinator.folder / "answers").iterdir())
    left = sorted(path.name for path in (coordinator.folder / "uploads").iterdir())
    return rows, files, left, len(coordinator.ledger)
