"""Two aggregators under fire: every party is killed at random moments, and one sum a study remains.

    python -m benchmarks.aggregator_soak --sites 12 --rounds 200

Coordinator, both aggregators and all sites are processes (forked, so that a restart costs
milliseconds) that die by SIGKILL and are started again. After each round the script asserts what
must hold: the release is the exact sum of its survivors (each site's counts are whole thousands, so
that noise can be rounded away), the lock and the sum that an aggregator was first seen with are
those that it has, shares are gone, every site that answered was charged once. It prints what it
saw.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tacit import Budget, Plan, count_votes
from tacit.errors import TacitError
from tacit.federation import (
    Aggregator,
    Coordinator,
    Policy,
    ServerSettings,
    SigningKey,
    Site,
    Study,
    Window,
    aggregator_service,
    describe_inputs,
    inputs_file,
    new_document,
    read_release,
)
from tacit.federation.aggregator_service import serve_aggregator
from tacit.federation.service import serve_coordinator
from tacit.federation.transport import free_ports
from tacit.mechanisms import SharedVotes

CLASSES, QUERIES, TEACHERS, SIGMA = 3, 8, 1000, 4.0
WIDE = Budget(1e8, 1e-6)


def forked(work: Callable[[], None]) -> int:
    """Run work in a forked process; return its id."""
    process = os.fork()
    if process:
        return process
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        random.seed()
        work()
    except BaseException:
        os._exit(1)
    os._exit(0)


def kill(process: int) -> None:
    """End this very process, and bury it."""
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def made(kind: Any, folder: Path) -> Any:
    """Return a new server on free ports."""
    port, enrol, console = free_ports(3)
    ports: dict[str, Any] = {"port": port, "enrol_port": enrol, "console_port": console}
    settings = ServerSettings(folder.name, f"https://127.0.0.1:{port}", host="127.0.0.1", **ports)
    return kind.create(folder, settings, hosts=["127.0.0.1"], budget=WIDE, unit="patient")


def serve_coordinator_for_ever(folder: Path) -> None:
    """Serve in this process."""
    asyncio.run(serve_coordinator(Coordinator(folder)))


def serve_aggregator_for_ever(folder: Path) -> None:
    """Serve in this process, visiting the coordinator often."""
    aggregator_service.VISIT_SECONDS = 0.5
    asyncio.run(serve_aggregator(Aggregator(folder)))


def answers_of(study: str, site: str) -> Any:
    """Return what a site's teachers say, all the same: made up, and the same after a restart."""
    seed = int.from_bytes(f"{study[:16]}{site}".encode(), "little") % 2**63
    row = np.random.default_rng(seed).integers(0, CLASSES, QUERIES)
    return np.tile(row, (TEACHERS, 1))


def site_agent(folder: Path) -> None:
    """Approve and answer whatever comes, for ever."""
    while True:
        site = Site.open(folder)
        try:
            site.run_once()
            for each in site.studies()[-2:]:
                if each.state == "seen" and each.remote == "open":
                    site.approve(each, hash=each.hash)
                if site.find(each).state == "approved":
                    site.answer(each, answers=answers_of(each.hash, folder.name))
        except (OSError, TacitError):
            pass  # a server that was just killed; asked again
        site.close()
        time.sleep(random.uniform(0.5, 1.5))


class Soak:
    """Everybody, started, killed and started again."""

    def __init__(self, folder: Path, n_sites: int) -> None:
        self.kills: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.first_seen: dict[tuple[str, str], tuple[Any, ...]] = {}
        self.coordinator = made(Coordinator, folder / "coordinator")
        self.aggregators = [made(Aggregator, folder / name) for name in ("first", "second")]
        self.work: dict[str, Callable[[], None]] = {
            "coordinator": partial(serve_coordinator_for_ever, self.coordinator.folder)
        }
        for each in self.aggregators:
            self.work[each.folder.name] = partial(serve_aggregator_for_ever, each.folder)
        self.running = {name: forked(work) for name, work in self.work.items()}
        for each in (self.coordinator, *self.aggregators):
            wait_for(each.settings.enrol_port)
        self.sites = self._join(folder, n_sites)
        for site in self.sites:
            self.work[site.name] = partial(site_agent, site)
            self.running[site.name] = forked(self.work[site.name])

    def _join(self, folder: Path, n_sites: int) -> list[Path]:
        first, second = self.aggregators
        for each in self.aggregators:
            each.join(self.coordinator.invite(f"the-{each.folder.name}", "aggregator"))
        first.join(second.invite("the-first", "aggregator"))
        found = []
        for number in range(n_sites):
            place = folder / f"site-{number:03d}"
            site = Site.create(place, budget=WIDE, unit="patient")
            for server in (self.coordinator, first, second):
                site.join(server.invite(place.name))
            officers = list(self.coordinator.officers)
            Policy(officers, ["two-aggregators"], 1e8, 100, 2, 2).write(place / "policy.toml")
            site.close()
            found.append(place)
        return found

    def strike(self) -> None:
        """Kill somebody, and start the process again."""
        servers = ["coordinator", "first", "second"]
        name = random.choice(servers if random.random() < 0.3 else [s.name for s in self.sites])
        kill(self.running[name])
        self.running[name] = forked(self.work[name])
        self.kills[name if name in servers else "site"] += 1

    def study(self, seconds: int) -> Study:
        """Draft, sign and open a study, which both aggregators sign first."""
        place = self.coordinator
        file, opens = inputs_file(np.zeros((QUERIES, 2))), int(time.time())
        described = [each.describe(each.folder.name) for each in self.aggregators]
        quorum = max(2, len(self.sites) // 2)
        made_up = new_document(
            title="soak",
            purpose="to be killed",
            unit="patient",
            inputs=describe_inputs(file),
            classes=CLASSES,
            plan=Plan(SharedVotes(SIGMA), QUERIES, n_classes=CLASSES),
            sites=place.sites(TEACHERS),
            quorum={"sites": quorum, "teachers": quorum},
            window=Window(opens, opens + seconds, 1, (opens + 2 * seconds, opens + 4 * seconds)),
            servers=[place.server(), *described],
        )
        place.add(made_up, file)
        place.sign(made_up.hash, SigningKey.open(place.folder / "officer.key"))
        for each in self.aggregators:
            while made_up.hash not in {row["hash"] for row in each.studies()}:
                time.sleep(0.1)
            each.approve(made_up.hash, hash=made_up.hash)
        while len(place.agreed(made_up.hash)) < 2:
            time.sleep(0.1)
        place.open(made_up.hash)
        return made_up

    def run(self, seconds: int) -> None:
        """Carry one study through, killing meanwhile, and check what must hold."""
        study = self.study(seconds)
        while True:
            time.sleep(random.uniform(0.1, 0.5))
            self.strike()
            self.look(study)
            ended = {each.find(study.hash)["state"] for each in self.aggregators}
            state = self.coordinator.find(study.hash)["state"]
            if state in ("released", "void") and ended <= {"released", "void"}:
                break
        self.check(study)

    def look(self, study: Study) -> None:
        """Assert that a lock and a sum, once seen, are never others."""
        for each in self.aggregators:
            row = each.find(study.hash)
            if row["lock"] is not None:
                now = (row["lock"], bytes(row["sum"]), row["survivors"])
                key = (study.hash, each.folder.name)
                assert self.first_seen.setdefault(key, now) == now, "another lock or sum"

    def check(self, study: Study) -> None:
        """Assert what must hold of a study that has ended, whatever was killed."""
        row = self.coordinator.find(study.hash)
        self.seen[row["state"]] += 1
        if row["state"] == "released":
            found = read_release(study, bytes(row["release"]))
            rounded = TEACHERS * np.rint(np.asarray(found.release) / TEACHERS)
            told = [count_votes(answers_of(study.hash, name), CLASSES) for name in found.survivors]
            assert np.array_equal(rounded, sum(told)), "another sum"
            self.seen["in sums"] += len(found.survivors)
        for each in self.aggregators:
            left = list((each.folder / "answers").glob(f"{study.hash}.*"))
            assert not left or each.find(study.hash)["state"] == "void", "shares are left"
            assert not each.evidence(study.hash), "equivocation"
        for folder in self.sites:
            site = Site.open(folder)
            charged = [e for e in site.ledger.entries() if e.about.get("study") == study.hash]
            assert len(charged) <= 1, "charged twice"
            states = {known.hash: known.state for known in site.studies()}
            if states.get(study.hash) in ("sealed", "sent", "confirmed"):
                assert len(charged) == 1, "answered without a charge"
            self.seen["charges"] += len(charged)
            site.close()

    def close(self) -> None:
        """End everybody whom this script started."""
        for process in self.running.values():
            kill(process)


def wait_for(port: int) -> None:
    """Wait until somebody listens there."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=10, help="how long a window is")
    asked = parser.parse_args()
    soak = Soak(Path(tempfile.mkdtemp(prefix="tacit-soak-")), asked.sites)
    print(f"{asked.sites} sites have joined three servers", flush=True)
    try:
        for number in range(asked.rounds):
            soak.run(asked.seconds)
            total = sum(soak.kills.values())
            print(
                f"{number + 1} rounds, {total} killed {dict(soak.kills)}; {dict(soak.seen)}",
                flush=True,
            )
    finally:
        soak.close()
    for each in soak.aggregators:
        extra = len(each.ledger) - soak.seen["released"]
        print(f"{each.folder.name}: {extra} entries more than releases (draws that nobody saw)")


if __name__ == "__main__":
    main()
