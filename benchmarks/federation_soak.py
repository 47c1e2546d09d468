"""Federation under fire, and under load: processes that are killed, and a thousand sites.

    python -m benchmarks.federation_soak --sites 60 --rounds 200   # kills, on either side
    python -m benchmarks.federation_soak --speed                   # 1,000 sites x 11,000 x 10

Everything is on loopback. Sites and coordinator are processes (forked, so that a restart costs
milliseconds) that die by SIGKILL at random moments and are started again; a third of the rounds are
released by two processes that race. After each round the script asserts what must hold: the
release is the exact sum of its survivors (the noise is made too small to move a count), it is there
once, every site that approved was charged once, every receipt is the first one's. It prints what
it saw; docs/results/federation.md has the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
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
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
import numpy as np

from tacit import Budget, NoisyVotes, Plan, count_votes
from tacit.federation import (
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
from tacit.federation.certificates import new_request, server_context
from tacit.federation.members import ENROLMENT, enrol, new_token
from tacit.federation.messages import seal_answers
from tacit.federation.service import EnrolmentService, MemberService, serve_coordinator
from tacit.federation.transport import Listener, free_ports, serve

CLASSES, QUERIES, TEACHERS = 3, 8, 2
EXACT = 0.05
"""Noise that never moves a whole count: sums can be compared exactly. Of no use to anybody else."""
WIDE = Budget(1e8, 1e-6)


def forked(work: Callable[[], None]) -> int:
    """Run work in a forked process; return its id."""
    process = os.fork()
    if process:
        return process
    try:
        os.nice(1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        work()
    except BaseException:
        os._exit(1)
    os._exit(0)


def ended(process: int) -> bool:
    """Tell whether a process has ended; it is buried then."""
    return os.waitpid(process, os.WNOHANG)[0] != 0


def kill(process: int) -> None:
    """End this very process, and bury it."""
    try:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    except (ChildProcessError, ProcessLookupError):
        pass


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


def site_agent(folder: Path) -> None:
    """Approve and answer whatever comes, for ever."""
    while True:
        site = Site.open(folder)
        try:
            name = next(iter(site.servers().values()))["name"]
            site.run_once()
            for each in site.studies():
                if each.state == "seen" and each.remote == "open":
                    site.approve(each, hash=each.hash)
                if site.find(each).state == "approved":
                    site.answer(each, answers=answers_of(each.hash, name))
        except Exception:
            pass  # a server that was just killed; asked again
        site.close()
        time.sleep(random.uniform(0.1, 0.4))


def serve_for_ever(folder: Path) -> None:
    asyncio.run(serve_coordinator(Coordinator(folder)))


def release(folder: Path, study: str) -> None:
    release_study(Coordinator(folder), study)


def wait_for(port: int) -> None:
    import socket

    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)


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


def soak(n_sites: int, rounds: int, seconds: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="tacit-soak-"))
    place = make_coordinator(folder / "coordinator")
    server = forked(lambda: serve_for_ever(place.folder))
    wait_for(place.settings.enrol_port)
    folders = []
    for number in range(n_sites):
        name = f"site-{number:03d}"
        site = Site.create(folder / name, budget=WIDE, unit="patient")
        site.join(place.invite(name))
        Policy(list(place.officers), ["coordinator"], 1e8, 100, 2, 2).write(
            folder / name / "policy.toml"
        )
        site.close()
        folders.append(folder / name)
    print(f"{n_sites} sites have joined", flush=True)
    agents = {each: forked(lambda each=each: site_agent(each)) for each in folders}
    kills: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    releasers: list[int] = []
    try:
        for number in range(rounds):
            study = open_study(place, seconds, max(2, n_sites // 2))
            while True:
                time.sleep(random.uniform(0.05, 0.3))
                victim = random.choice(folders)
                kill(agents[victim])
                agents[victim] = forked(lambda victim=victim: site_agent(victim))
                kills["site"] += 1
                if random.random() < 0.15:
                    kill(server)
                    kills["coordinator"] += 1
                    server = forked(lambda: serve_for_ever(place.folder))
                state = place.find(study.hash)["state"]
                if state in ("released", "void"):
                    break
                if state == "closed":
                    racing = 2 if number % 3 == 0 else 1
                    releasers += [
                        forked(partial(release, place.folder, study.hash)) for _ in range(racing)
                    ]
                    time.sleep(random.uniform(0, 0.05))
                    if random.random() < 0.5:
                        kill(releasers.pop())
                        kills["release"] += 1
                    releasers = [each for each in releasers if not ended(each)]
            check(place, study, folders, seen)
            if (number + 1) % 5 == 0 or number + 1 == rounds:
                print(f"{number + 1} rounds: {dict(kills)} killed; {dict(seen)}", flush=True)
    finally:
        for process in (server, *agents.values(), *releasers):
            kill(process)
    extra = len(place.ledger) - seen["released"]
    print(f"{extra} entries of the coordinator's ledger more than releases (killed draws)")


def check(place: Coordinator, study: Study, folders: list[Path], seen: Counter[str]) -> None:
    """Assert what must hold of a study that has ended, whatever was killed."""
    row = place.find(study.hash)
    seen[row["state"]] += 1
    if row["state"] == "released":
        found = read_release(study, bytes(row["release"]))
        expected = sum(
            count_votes(answers_of(study.hash, name), CLASSES) for name in found.survivors
        )
        assert np.array_equal(np.asarray(found.release), expected), "another sum"
        assert list(found.survivors) == json.loads(row["survivors"])
        entries = [
            e for e in place.ledger.entries() if e.purpose.startswith(f"study {study.hash[:16]}")
        ]
        assert len(entries) >= 1
        seen["in the sum"] += len(found.survivors)
    for folder in folders:
        site = Site.open(folder)
        charged = [e for e in site.ledger.entries() if e.about.get("study") == study.hash]
        assert len(charged) <= 1, "charged twice"
        told = {each.hash: each.state for each in site.studies()}
        if told.get(study.hash) not in (None, "seen", "refused", "absent"):
            assert len(charged) == 1, "answered without a charge"
        seen["charges"] += len(charged)
        site.close()


def server_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(process: int | str) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def speed(n_sites: int, queries: int, classes: int) -> None:  # noqa: PLR0915 - one experiment
    folder = Path(tempfile.mkdtemp(prefix="tacit-speed-"))
    place = make_coordinator(folder / "coordinator", most=2 * n_sites)
    keys: list[SigningKey] = []
    contexts: list[ssl.SSLContext] = []
    for number in range(n_sites):
        own = folder / f"tls-{number}"
        own.mkdir()
        key, csr = SigningKey.generate(), new_request(own, "x").decode()
        token = new_token(place.database, f"site-{number}", "site", time.time())
        sent = {
            "token": token,
            "csr": csr,
            "key": key.public,
            "signature": key.sign(ENROLMENT, csr),
        }
        (own / "tls.pem").write_bytes(enrol(place.database, place.authority, sent, time.time()))
        keys.append(key)
        from tacit.federation.certificates import client_context

        contexts.append(client_context(place.authority.pem, own))
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
    server = subprocess.Popen([sys.executable, "-c", code]).pid  # a process with its own memory
    wait_for(place.settings.port)
    before, base = server_seconds(server), f"{place.settings.url}/v1/studies"
    headers = {"Tacit-Protocol": "1", "Content-Type": "application/octet-stream"}
    begun = time.perf_counter()
    for context, body in zip(contexts, bodies, strict=True):
        with httpx.Client(verify=context, trust_env=False, timeout=60) as http:
            reply = http.put(f"{base}/{study.hash}/answers", content=body, headers=headers)
            assert reply.status_code == 201, reply.text
    used = server_seconds(server) - before
    print(f"uploads: {used:.1f} s of server CPU, {time.perf_counter() - begun:.0f} s of wall clock")
    print(f"server: {memory_mb(server):.0f} MB at the most", flush=True)
    before, polls = server_seconds(server), 500
    for number in range(polls):
        with httpx.Client(verify=contexts[number % n_sites], trust_env=False, timeout=60) as http:
            assert http.get(base, headers=headers).status_code == 200
    used = server_seconds(server) - before
    share = 100 * used / polls * n_sites / 60
    print(
        f"polls: {1000 * used / polls:.1f} ms of server CPU each; {n_sites} sites a minute "
        f"take {share:.1f} % of a core",
        flush=True,
    )
    kill(server)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--speed", action="store_true")
    asked = parser.parse_args()
    if asked.speed:
        speed(1000 if asked.sites == 60 else asked.sites, 11_000, 10)
    else:
        soak(asked.sites, asked.rounds, asked.seconds)


if __name__ == "__main__":
    main()
