"""Federation under fire, and under load: processes that are killed, and a thousand sites.

    python -m benchmarks.federation_soak --sites 60 --rounds 200   # kills, on either side
    python -m benchmarks.federation_soak --speed                   # 1,000 sites x 11,000 x 10

Everything is on loopback. Sites and coordinator are processes (forked from one that has imported
everything, so that a restart costs milliseconds) that die by SIGKILL at random moments and are
started again; a third of the rounds are released by two processes that race. After each round the
script asserts what must hold: the release is the exact sum of its survivors (the noise is made too
small to move a count), it is there once, every site that approved was charged once, every receipt
is the server's and signed by it. It prints what it saw; docs/results/federation.md has the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import resource
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import httpx
import numpy as np

from benchmarks.zygote import Service, Zygote, wait_for
from tacit import Budget, NoisyVotes, Plan, count_votes
from tacit.errors import NotYet, Refused, Unreachable
from tacit_federation import (
    Coordinator,
    Policy,
    ServerSettings,
    SigningKey,
    Site,
    Study,
    StudySite,
    Window,
    describe_inputs,
    inputs_file,
    new_document,
    read_release,
    release_study,
)
from tacit_federation.certificates import client_context, new_request, server_context
from tacit_federation.members import ENROLMENT, enrol, new_token
from tacit_federation.messages import RECEIPT, check_signed, seal_answers
from tacit_federation.server_folder import ServerFolder
from tacit_federation.service import EnrolmentService, MemberService, serve_coordinator
from tacit_federation.transport import Listener, free_ports, serve

CLASSES, QUERIES, TEACHERS = 3, 8, 2
EXACT = 0.05
"""Noise that never moves a whole count: sums can be compared exactly. Of no use to anybody else."""
WIDE = Budget(1e8, 1e-6)


def make_coordinator(folder: Path, most: int = 1000) -> Coordinator:
    port, enrolment, console = free_ports(3)
    settings = ServerSettings(
        "soak",
        f"https://127.0.0.1:{port}",
        host="127.0.0.1",
        port=port,
        enrol_port=enrolment,
        console_port=console,
        most_connections=most,
    )
    return Coordinator.create(folder, settings, hosts=["127.0.0.1"], budget=WIDE, unit="patient")


def answers_of(study: str, site: str) -> np.ndarray:
    """Return what a site's teachers say: made up, and the same after a restart."""
    seed = int.from_bytes(f"{study[:16]}{site}".encode(), "little") % 2**63
    return np.random.default_rng(seed).integers(0, CLASSES, (TEACHERS, QUERIES))


def site_agent(folder: str, every: str) -> None:
    """Approve and answer whatever comes, for ever."""
    take_part(folder, float(every), answers_of)


def take_part(folder: str, every: float, answers: Callable[[str, str], np.ndarray]) -> None:
    """Approve and answer whatever comes, for ever, asking every so many seconds at the most."""
    while True:
        site = Site.open(folder)
        pause = random.uniform(0.5, 1) * every
        try:
            site.run_once()
            if bring_forward(site, answers):
                site.run_once()
            pause = min(pause, until_due(site))
        except (Unreachable, NotYet):
            pause = random.uniform(0.5, 2)  # a server that was just killed; asked again
        except Refused as refused:
            if "has closed" not in str(refused):
                raise
        site.close()
        time.sleep(pause)


def bring_forward(site: Site, answers: Callable[[str, str], np.ndarray]) -> bool:
    """Approve and answer what is open; tell whether anything new can be told."""
    query = "SELECT hash FROM studies WHERE remote = 'open' AND state IN ('seen', 'approved')"
    waiting = [row["hash"] for row in site.database.rows(query)]
    for name in waiting:
        if site.find(name).state == "seen":
            site.approve(name, hash=name)
        here = next(iter(site.servers().values()))["name"]
        site.answer(name, answers=answers(name, here))
    return bool(waiting)


def until_due(site: Site) -> float:
    """Return in how many seconds the next parcel is to be sent."""
    query = "SELECT MIN(send_at) AS due FROM studies WHERE remote = 'open' AND state = 'sealed'"
    row = site.database.row(query)
    if row is None or row["due"] is None:
        return math.inf
    return float(max(0.05, row["due"] - time.time() + random.uniform(0, 0.5)))


def serve_for_ever(folder: str) -> None:
    asyncio.run(serve_coordinator(Coordinator(folder)))


def release(folder: str, study: str) -> None:
    release_study(Coordinator(folder), study)


def open_study(place: Coordinator, seconds: int, quorum: int) -> Study:
    file = inputs_file(np.zeros((QUERIES, 2)))
    opens = int(time.time())
    ends = (opens + 2 * seconds, opens + 4 * seconds)
    study = new_document(
        title="soak",
        purpose="to be killed",
        unit="patient",
        inputs=describe_inputs(file),
        classes=CLASSES,
        plan=Plan(NoisyVotes(EXACT), QUERIES, n_classes=CLASSES),
        sites=place.sites(TEACHERS),
        quorum={"sites": quorum, "teachers": quorum},
        window=Window(opens, opens + seconds, 1, ends),
        servers=[place.server()],
    )
    place.add(study, file)
    place.sign(study.hash, SigningKey.open(place.folder / "officer.key"))
    place.open(study.hash)
    return study


class Soak:
    """A coordinator, its sites, and whoever releases: started, killed, started again."""

    def __init__(self, n_sites: int, seconds: int, where: str | None) -> None:
        works = {work.__name__: work for work in (serve_for_ever, site_agent, release)}
        self.zygote, self.every = Zygote(works), str(seconds / 2)
        folder = Path(tempfile.mkdtemp(prefix="tacit-soak-", dir=where))
        self.place = make_coordinator(folder / "coordinator")
        settings, place = self.place.settings, str(self.place.folder)
        self.server = Service(self.zygote, settings.enrol_port, "serve_for_ever", place)
        wait_for(settings.enrol_port)
        self.folders = [self._join(folder / f"site-{number:03d}") for number in range(n_sites)]
        self.agents = {each: self._agent(each) for each in self.folders}
        self.releasers: list[int] = []
        self.kills: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()

    def _agent(self, folder: Path) -> int:
        return self.zygote.start("site_agent", str(folder), self.every)

    def _join(self, folder: Path) -> Path:
        site = Site.create(folder, budget=WIDE, unit="patient")
        site.join(self.place.invite(folder.name))
        policy = Policy(list(self.place.officers), ["coordinator"], 1e8, 100, 2, 2)
        policy.write(folder / "policy.toml")
        site.close()
        return folder

    def kill_site(self) -> None:
        """Kill a site, often again while it is just asking, and start it anew."""
        victim = random.choice(self.folders)
        for again in (True, random.random() < 0.5):
            if again:
                assert self.zygote.kill(self.agents[victim]), "an agent had ended by itself"
                self.agents[victim] = self._agent(victim)
                self.kills["site"] += 1
                time.sleep(random.uniform(0.005, 0.2))

    def release(self, study: Study, racing: int) -> None:
        """Release by so many processes at once; half of the time one of them is killed."""
        arguments = (str(self.place.folder), study.hash)
        new = [self.zygote.start("release", *arguments) for _ in range(racing)]
        time.sleep(random.uniform(0, 0.1))
        if random.random() < 0.5:
            self.kills["release"] += self.zygote.kill(new.pop())
        self.releasers += new
        self.releasers = [each for each in self.releasers if not self.zygote.ended(each)]

    def round(self, number: int, seconds: int, at_once: int) -> None:
        """Carry studies to their ends under fire, and check them."""
        quorum = max(2, len(self.folders) // 2)
        studies = [open_study(self.place, seconds, quorum) for _ in range(at_once)]
        left = list(studies)
        while left:
            time.sleep(random.uniform(0.05, 0.4))
            self.kill_site()
            self.kills["coordinator"] += self.server.strike()
            for study in list(left):
                state = self.place.find(study.hash)["state"]
                if state in ("released", "void"):
                    left.remove(study)
                elif state == "closed":
                    self.release(study, 2 if number % 3 == 0 else 1)
        for study in studies:
            check(self.place, study, self.folders, self.seen)

    def end(self) -> None:
        """Kill all that is left."""
        self.server.end()
        for process in (*self.agents.values(), *self.releasers):
            self.zygote.kill(process)
        self.zygote.close()


def soak(
    n_sites: int, rounds: int, seconds: int, at_once: int, minutes: float, where: str | None
) -> None:
    """Run rounds, one study each, until they, or the minutes, are over; print what was seen."""
    under_fire = Soak(n_sites, seconds, where)
    print(f"{n_sites} sites have joined", flush=True)
    run_rounds(under_fire, rounds, seconds, at_once, minutes)
    extra = len(under_fire.place.ledger) - under_fire.seen["released"]
    print(f"{extra} entries of the coordinator's ledger more than releases (killed draws)")
    print_cpu()


class UnderFire(Protocol):
    """What carries some studies at once to their ends, and checks them."""

    kills: Counter[str]
    seen: Counter[str]

    def round(self, number: int, seconds: int, at_once: int) -> None:
        """Run some studies at once."""

    def end(self) -> None:
        """Kill all that is left."""


def run_rounds(
    under_fire: UnderFire, rounds: int, seconds: int, at_once: int, minutes: float
) -> None:
    """Run so many rounds, some at a time, and print what was seen after each batch."""
    begun = time.monotonic()
    try:
        for number in range(-(-rounds // at_once)):
            under_fire.round(number, seconds, at_once)
            spent = time.monotonic() - begun
            print(
                f"{(number + 1) * at_once} rounds in {spent:.0f} s: {dict(under_fire.kills)} "
                f"killed; {dict(under_fire.seen)}",
                flush=True,
            )
            if spent > 60 * minutes:
                break
    finally:
        under_fire.end()


def print_cpu() -> None:
    used = sum(resource.getrusage(who).ru_utime for who in (0, resource.RUSAGE_CHILDREN))
    print(f"{used:.0f} CPU-s of user time in all")


def check(place: Coordinator, study: Study, folders: list[Path], seen: Counter[str]) -> None:
    """Assert what must hold of a study that has ended, whatever was killed."""
    row = place.find(study.hash)
    seen[row["state"]] += 1
    receipts = receipts_of(place, study)
    counted: Mapping[str, str] = {}
    if row["state"] == "released":
        found = read_release(study, bytes(row["release"]))
        counted = found.sharing
        expected = sum(
            count_votes(answers_of(study.hash, name), CLASSES) for name in found.survivors
        )
        assert np.array_equal(np.asarray(found.release), expected), "another sum"
        assert list(found.survivors) == json.loads(row["survivors"])
        purpose = f"study {study.hash[:16]}"
        entries = [each for each in place.ledger.entries() if each.purpose.startswith(purpose)]
        assert row["entry"] == entries[-1].hash, "released under another entry"
        seen["in the sum"] += len(found.survivors)
    for folder in folders:
        given = {"coordinator": receipts[folder.name]} if folder.name in receipts else {}
        check_site(folder, study, given, counted.get(folder.name), seen)


def receipts_of(place: ServerFolder, study: Study) -> dict[str, str]:
    """Return the receipts that a server gave, by site."""
    query = "SELECT site, receipt FROM answers WHERE study = ?"
    return {each["site"]: each["receipt"] for each in place.database.rows(query, study.hash)}


def check_site(
    folder: Path, study: Study, receipts: Mapping[str, str], counted: str | None, seen: Counter[str]
) -> None:
    """Assert that a site was charged once, holds the servers' receipts, and is in the sum."""
    site = Site.open(folder)
    charged = [each for each in site.ledger.entries() if each.about.get("study") == study.hash]
    assert len(charged) <= 1, "charged twice"
    row = site.database.row("SELECT * FROM studies WHERE hash = ?", study.hash)
    state = None if row is None else row["state"]
    if state not in (None, "seen", "refused", "absent"):
        assert len(charged) == 1, "answered without a charge"
    if row is not None and state == "confirmed":
        query = "SELECT role, receipt FROM parcels WHERE study = ?"
        kept = {each["role"]: each["receipt"] for each in site.database.rows(query, study.hash)}
        assert kept, "confirmed without a parcel"
        assert kept == receipts, "other receipts"
        for role, receipt in kept.items():
            check_signed(study.server(role).key, RECEIPT, json.loads(receipt))
        assert counted in (None, row["sharing"]), "another answer in the sum"
        seen["confirmed"] += 1
    if counted is not None:
        assert row, "counted, but never seen"
        assert counted == row["sharing"], "a sum without this site's answer"
    seen["charges"] += len(charged)
    site.close()


def server_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(process: int | str) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def enrolled(place: ServerFolder, keys: list[SigningKey]) -> list[ssl.SSLContext]:
    """Make these the keys of sites that have joined; return how each of them connects."""
    contexts = []
    for number, key in enumerate(keys):
        with tempfile.TemporaryDirectory() as folder:
            own = Path(folder)
            csr = new_request(own, "x").decode()
            token = new_token(place.database, f"site-{number}", "site", time.time())
            sent = {"token": token, "csr": csr, "key": key.public}
            sent["signature"] = key.sign(ENROLMENT, csr)
            (own / "tls.pem").write_bytes(enrol(place.database, place.authority, sent, time.time()))
            contexts.append(client_context(place.authority.pem, own))
    return contexts


def speed(n_sites: int, queries: int, classes: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="tacit-speed-"))
    place = make_coordinator(folder / "coordinator", most=2 * n_sites)
    keys = [SigningKey.generate() for _ in range(n_sites)]
    contexts = enrolled(place, keys)
    file = inputs_file(np.zeros((queries, 1), dtype=np.uint8))
    opens = int(time.time()) - 1
    study = new_document(
        title="speed",
        purpose="to be fast",
        unit="patient",
        inputs=describe_inputs(file),
        classes=classes,
        plan=Plan(NoisyVotes(40.0), queries, n_classes=classes),
        sites=[StudySite(f"site-{n}", key.public, 5) for n, key in enumerate(keys)],
        quorum={"sites": n_sites, "teachers": n_sites},
        window=Window(opens, opens + 36_000, 1),
        servers=[place.server()],
    )
    place.add(study, file)
    place.sign(study.hash, SigningKey.open(place.folder / "officer.key"))
    place.open(study.hash)
    rng = np.random.default_rng(0)
    counts = rng.multinomial(5, np.ones(classes) / classes, queries)
    bodies = [
        seal_answers(study, each, counts, key, os.urandom(16).hex())
        for each, key in zip(study.sites, keys, strict=True)
    ]
    with place.database.writing() as rows:
        for each in study.sites:
            rows.execute(
                "INSERT INTO approvals VALUES (?, ?, 'approved', '{}')", (study.hash, each.id)
            )
    place.close()
    print(f"{n_sites} sites, bodies of {len(bodies[0])} bytes", flush=True)
    code = f"from benchmarks.federation_soak import *; only_members(Path({str(place.folder)!r}))"
    server = subprocess.Popen([sys.executable, "-c", code])  # a process with its own memory
    wait_for(place.settings.port)
    before, base = server_seconds(server.pid), f"{place.settings.url}/v1/studies"
    headers = {"Tacit-Protocol": "1", "Content-Type": "application/octet-stream"}
    begun = time.perf_counter()
    for context, body in zip(contexts, bodies, strict=True):
        with httpx.Client(verify=context, trust_env=False, timeout=60) as http:
            reply = http.put(f"{base}/{study.hash}/answers", content=body, headers=headers)
            assert reply.status_code == 201, reply.text
    used = server_seconds(server.pid) - before
    print(f"uploads: {used:.1f} s of server CPU, {time.perf_counter() - begun:.0f} s of wall clock")
    print(f"server: {memory_mb(server.pid):.0f} MB at the most", flush=True)
    before, polls = server_seconds(server.pid), 500
    for number in range(polls):
        with httpx.Client(verify=contexts[number % n_sites], trust_env=False, timeout=60) as http:
            assert http.get(base, headers=headers).status_code == 200
    used = server_seconds(server.pid) - before
    share = 100 * used / polls * n_sites / 60
    print(
        f"polls: {1000 * used / polls:.1f} ms of server CPU each; {n_sites} sites a minute "
        f"take {share:.1f} % of a core",
        flush=True,
    )
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    again = Coordinator(place.folder)
    with again.database.writing() as rows:
        rows.execute("UPDATE studies SET closes = ?", (int(time.time()),))
    time.sleep(1)
    begun, cpu = time.perf_counter(), time.process_time()
    release_study(again, study.hash)
    print(
        f"closing to release: {time.process_time() - cpu:.1f} s of CPU, "
        f"{time.perf_counter() - begun:.1f} s of wall clock"
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"this process, with all clients: {peak:.0f} MB")


def only_members(folder: Path) -> None:
    async def run() -> None:
        place = Coordinator(folder)
        settings, keys = place.settings, place.folder / "keys"
        listeners = [
            Listener(
                MemberService(place).app(),
                server_context(keys, clients=True),
                settings.host,
                settings.port,
                most=settings.most_connections,
            ),
            Listener(
                EnrolmentService(place).app(),
                server_context(keys, clients=False),
                settings.host,
                settings.enrol_port,
                most=settings.most_connections,
            ),
        ]
        await serve(listeners, tick=lambda: None, stop=asyncio.Event())

    asyncio.run(run())


def options(about: str | None) -> argparse.Namespace:
    """Read what both soaks are asked by."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--sites", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=10, help="how long a window is")
    parser.add_argument("--at-once", type=int, default=1, help="studies that are open at a time")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no round after them")
    parser.add_argument("--where", help="where the folders are made")
    parser.add_argument("--speed", action="store_true")
    return parser.parse_args()


def main() -> None:
    asked = options(__doc__)
    if asked.speed:
        speed(1000 if asked.sites == 60 else asked.sites, 11_000, 10)
    else:
        how = (asked.seconds, asked.at_once, asked.minutes, asked.where)
        soak(asked.sites, asked.rounds, *how)


if __name__ == "__main__":
    main()
