"""Five hospitals on this machine: real processes, real TLS on loopback, made-up patients.

Every step is that of a command; the window is about half a minute instead of days.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._checks import Floats, Integers
from tacit.errors import Unreachable
from tacit.ledger import Budget
from tacit.mechanisms import NoisyVotes, Plan, SharedVotes
from tacit.report import write_report
from tacit.students import LinearStudent, label_posterior
from tacit.teachers import KernelRidgeTeachers, predict_with_teachers, shard_key, shard_of
from tacit_federation.aggregator import Aggregator
from tacit_federation.answering import Limits
from tacit_federation.coordinator import Coordinator
from tacit_federation.inputs import describe_inputs, inputs_file
from tacit_federation.keys import SigningKey
from tacit_federation.releasing import StudyRelease, read_release, release_study
from tacit_federation.server_folder import ServerFolder
from tacit_federation.settings import Policy, ServerSettings
from tacit_federation.site import Site
from tacit_federation.study import AGGREGATORS, MODES, Study, Window, new_document
from tacit_federation.transport import free_ports

HOSPITALS = {"island": 1, "north": 60, "south": 60, "east": 60, "west": 60}
"""Hospitals, with their numbers of teachers; the first one trains through tacit itself."""
CLASSES, QUERIES, FEATURES, SIGMA = 3, 50, 6, 18.0
PER_TEACHER = 10
BUDGET = Budget(4.0, 1e-6)
_PATIENCE = 60.0
Say = Callable[[str], None]


class Patients(NamedTuple):
    """Made-up people: two rows each, their illnesses, and their ids."""

    X: Floats
    y: Integers
    names: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Result of the demonstration, with the accuracy on new made-up patients."""

    folder: Path
    accuracy: float
    release: StudyRelease
    statements: dict[str, str]


def made_up(count: int, seed: int, name: str = "") -> Patients:
    """Return so many people of three illnesses; deterministic for a seed."""
    rng = np.random.default_rng(seed)
    illness = rng.integers(0, CLASSES, count)
    centres = 2.2 * np.eye(CLASSES, FEATURES)
    rows = np.repeat(np.arange(count), 2)
    X = centres[illness[rows]] + rng.normal(size=(2 * count, FEATURES))
    names = np.array([f"{name}-{number}" for number in rows])
    return Patients(X, illness[rows].astype(np.int64), names)


def demonstrate(
    folder: Path, say: Say, *, seconds: int = 10, two_aggregators: bool = False
) -> Demonstration:
    """Run a whole study on this machine, in a new or empty folder; `say` gets every step.

    `seconds` is the least length of the window; `two_aggregators` replace a trusted coordinator.
    """
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    settings = _settings("the university")
    coordinator = Coordinator.create(folder / "coordinator", settings, **_ABOUT)
    say(f"A coordinator with its own keys, authority and ledger: {folder / 'coordinator'}")
    with _processes() as start:
        start("coordinator", "serve", "--folder", str(coordinator.folder))
        _wait_for(coordinator)
        say(f"It serves {coordinator.settings.url} (TLS 1.3, client certificates)")
        aggregators = _aggregators(folder, coordinator, start) if two_aggregators else []
        if aggregators:
            say("Two aggregators, each with its own authority, keys and ledger, serve besides")
        sites = {
            name: _join(folder / name, [coordinator, *aggregators], name) for name in HOSPITALS
        }
        say(f"Five hospitals have joined, each by an invitation of its own: {', '.join(sites)}")
        # A machine that is slow today gets more time: nothing here should depend on it.
        slow = int(time.monotonic() - begun) + 1
        limits = Limits(2 + slow // 4, megabytes=4096)
        for site in sites.values():
            _write_policy(site, coordinator, limits)
        # Island's teacher and its rehearsal must be done before the window closes, at the worst;
        # approvals come before them, and the aggregators sign first.
        least = 2 * limits.wall_seconds + slow + 4 + 20 * bool(aggregators)
        study = _study(coordinator, aggregators, max(seconds, least))
        say(f"The officer signed study {study.hash[:8]} and opened it")
        _approve(sites, study, say)
        for number, (name, site) in enumerate(sites.items()):
            _answer(site, study, name, number)
            say(f"{name}: {HOSPITALS[name]} teacher(s) answered here; sealed, and sent at its slot")
        for name in sites:
            start("site", "run", "--every", "0.5", "--folder", str(folder / name))
        stored = _released(coordinator, study, say)
    found = read_release(study, stored)
    drew: list[Coordinator | Aggregator] = [*aggregators] or [coordinator]
    parties = {each.folder.name: each for each in (*drew, sites["north"])}
    statements = {name: str(each.statement()) for name, each in parties.items()}
    accuracy = _student(folder, found)
    notes = [f"It presumes that {each}." for each in drew[0].statement().assumes]
    write_report(folder / "report.html", drew[0].ledger, notes=notes)
    for site in sites.values():
        site.close()
    for server in (coordinator, *aggregators):
        server.close()
    return Demonstration(folder, accuracy, found, statements)


_ABOUT: dict[str, Any] = {"hosts": ["127.0.0.1"], "budget": BUDGET, "unit": "patient"}


def _settings(name: str) -> ServerSettings:
    port, enrol, console = free_ports(3)
    ports: dict[str, Any] = {"port": port, "enrol_port": enrol, "console_port": console}
    return ServerSettings(name, f"https://127.0.0.1:{port}", host="127.0.0.1", **ports)


def _aggregators(
    folder: Path, coordinator: Coordinator, start: Callable[..., None]
) -> list[Aggregator]:
    """Start two parties that do not collude; the first one joins the second."""
    made = [
        Aggregator.create(folder / name, _settings(f"the {name} aggregator"), **_ABOUT)
        for name in AGGREGATORS
    ]
    for each in made:
        start("aggregator", "serve", "--folder", str(each.folder))
        _wait_for(each)
        each.join(coordinator.invite(f"the-{each.folder.name}", "aggregator"))
    made[0].join(made[1].invite("the-first", "aggregator"))
    return made


@contextmanager
def _processes() -> Iterator[Callable[..., None]]:
    """Start `tacit` commands in processes of their own, and end them."""
    running: list[subprocess.Popen[bytes]] = []
    command = [sys.executable, "-c", "from tacit.cli import main; main()"]

    def start(*arguments: str) -> None:
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        running.append(subprocess.Popen([*command, *arguments], **quiet))

    try:
        yield start
    finally:
        for each in running:
            each.terminate()
        for each in running:
            try:
                each.wait(timeout=10)
            except subprocess.TimeoutExpired:
                each.kill()


def _wait_for(coordinator: ServerFolder) -> None:
    import socket

    place = (coordinator.settings.host, coordinator.settings.enrol_port)
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            socket.create_connection(place, timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise Unreachable("Expected the server's process to serve within a minute.")


def _join(folder: Path, servers: Sequence[ServerFolder], name: str) -> Site:
    site = Site.create(folder, budget=BUDGET, unit="patient", dataset=f"patients of {name}")
    for each in servers:
        site.join(each.invite(name))
    return site


def _write_policy(site: Site, coordinator: Coordinator, limits: Limits) -> None:
    told = {"least_sites": 3, "least_teachers": 100, "teacher_seconds": limits.seconds}
    policy = Policy(list(coordinator.officers), list(MODES), most_epsilon=3.0, **told)
    policy.write(site.folder / "policy.toml")


def _study(coordinator: Coordinator, aggregators: list[Aggregator], seconds: int) -> Study:
    file = inputs_file(made_up(QUERIES // 2, seed=99).X)
    opens = int(coordinator.now())
    described = [each.describe(each.folder.name) for each in aggregators]
    mechanism = SharedVotes(SIGMA) if aggregators else NoisyVotes(SIGMA)
    study = new_document(
        title="Three illnesses",
        purpose="label 50 public inputs, so that a student can learn from them",
        unit="patient",
        inputs=describe_inputs(file),
        classes=CLASSES,
        plan=Plan(mechanism, QUERIES, n_classes=CLASSES),
        sites=coordinator.sites(HOSPITALS),
        quorum={"sites": 3, "teachers": 100},
        window=Window(opens, opens + seconds, 1, (opens + 3 * seconds,)),
        servers=[coordinator.server(), *described],
    )
    coordinator.add(study, file)
    coordinator.sign(study.hash, SigningKey.open(coordinator.folder / "officer.key"))
    for each in aggregators:  # a person at each reads and types, as at a hospital
        _until(partial(_has_seen, each, study.hash))
        each.approve(study.hash, hash=study.hash[:8])
    _until(lambda: len(coordinator.agreed(study.hash)) == len(aggregators))
    coordinator.open(study.hash)
    return study


def _has_seen(aggregator: Aggregator, name: str) -> bool:
    return name in {row["hash"] for row in aggregator.studies()}


def _until(done: Callable[[], bool]) -> None:
    """Wait for another process."""
    end = time.monotonic() + _PATIENCE
    while not done():
        if time.monotonic() > end:
            raise Unreachable("Expected the aggregators' processes to go on within a minute.")
        time.sleep(0.2)


def _approve(sites: dict[str, Site], study: Study, say: Say) -> None:
    """Approve at each hospital; the first one's screen is shown."""
    for number, site in enumerate(sites.values()):
        site.run_once()
        asked = site.approve(study.hash, hash=study.hash[:8])
        if number == 1:
            say("What the steward of north reads before typing the first eight digits:")
            for name, text in asked.rows():
                say(f"    {name}: {text}")
    say("All five approved: each hospital's own ledger is charged, and nothing has left yet")


def _answer(site: Site, study: Study, name: str, number: int) -> None:
    teachers = HOSPITALS[name]
    X, y, names = made_up(PER_TEACHER * teachers, seed=number, name=name)
    if name == "island":
        family = KernelRidgeTeachers(gamma=0.1)
        site.answer(study.hash, teacher=family, X=X, y=y, groups=names)
        return
    shards = shard_of(names, teachers, shard_key(number))
    inputs = site.inputs(study.hash)
    told: dict[str, Any] = {"n_classes": CLASSES, "progress": False}
    family = KernelRidgeTeachers(gamma=0.1)
    answers = predict_with_teachers(family, X, y, shards, teachers, inputs, **told)
    site.answer(study.hash, answers=answers.astype(np.int64))


def _released(coordinator: Coordinator, study: Study, say: Say) -> bytes:
    end = time.monotonic() + _PATIENCE + 3 * (study.window.closes - study.window.opens)
    waits = ("open",) if study.mode == "coordinator" else ("open", "closed")
    while coordinator.find(study.hash)["state"] in waits and time.monotonic() < end:
        time.sleep(0.3)
    stored = release_study(coordinator, study.hash)
    if study.mode == "coordinator":
        say("The study closed with its quorum; the officer released it, once")
    else:
        say("Both aggregators locked their sums over the same hospitals, then opened them, once")
    return stored


def _student(folder: Path, found: StudyRelease) -> float:
    """Train on public values alone, and return the accuracy on new people."""
    inputs = made_up(QUERIES // 2, seed=99).X
    beside = made_up(200, seed=98).X  # more public inputs, without any label
    public = np.concatenate([inputs, beside])
    posterior = label_posterior(found.release, n_classes=CLASSES, n_teachers=found.teachers)
    student = LinearStudent().fit(public, np.arange(QUERIES), posterior)
    student.save(folder / "student.tacit")
    test = made_up(500, seed=97)
    return float((student.predict(test.X) == test.y).mean())
