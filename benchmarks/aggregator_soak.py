"""Two aggregators under fire: every party is killed at random moments, and one sum a study remains.

    python -m benchmarks.aggregator_soak --sites 60 --rounds 200   # kills, everywhere
    python -m benchmarks.aggregator_soak --speed                   # 1,000 sites x 11,000 x 10

Coordinator, both aggregators and all sites are processes (forked from one that has imported
everything, so that a restart costs milliseconds) that die by SIGKILL and are started again, the
aggregators oftenest while they lock and open; in a third of the rounds other processes take the
same steps at the same time. After each round the script asserts what must hold: the release is the
exact sum of its survivors (each site's counts are whole thousands, so that noise can be rounded
away), the lock and the sum that an aggregator was first seen with are those that it has and those
that were released, shares are gone, every site that answered was charged once. It prints what it
saw; docs/results/federation.md has the figures.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.federation_soak import (
    WIDE,
    check_site,
    options,
    print_cpu,
    receipts_of,
    run_rounds,
    serve_for_ever,
    take_part,
)
from benchmarks.zygote import Service, Zygote, wait_for
from tacit import Plan, count_votes
from tacit.mechanisms import SharedVotes
from tacit_federation import (
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
from tacit_federation.aggregator_service import round_of, serve_aggregator
from tacit_federation.transport import free_ports

CLASSES, QUERIES, TEACHERS, SIGMA = 3, 8, 1000, 4.0
ENDED = ("released", "void")


def made(kind: Any, folder: Path) -> Any:
    """Return a new server on free ports."""
    port, enrol, console = free_ports(3)
    ports: dict[str, Any] = {"port": port, "enrol_port": enrol, "console_port": console}
    settings = ServerSettings(folder.name, f"https://127.0.0.1:{port}", host="127.0.0.1", **ports)
    return kind.create(folder, settings, hosts=["127.0.0.1"], budget=WIDE, unit="patient")


def serve_shares_for_ever(folder: str) -> None:
    """Serve as an aggregator in this process, visiting the coordinator often."""
    aggregator_service.VISIT_SECONDS = 0.5
    asyncio.run(serve_aggregator(Aggregator(folder)))


def step_beside(folder: str) -> None:
    """Take the steps that the service takes, in another process at the same time."""
    round_of(Aggregator(folder))


def answers_of(study: str, site: str) -> np.ndarray:
    """Return what a site's teachers say, all the same: made up, and the same after a restart."""
    seed = int.from_bytes(f"{study[:16]}{site}".encode(), "little") % 2**63
    row = np.random.default_rng(seed).integers(0, CLASSES, QUERIES)
    return np.tile(row, (TEACHERS, 1))


def site_agent(folder: str, every: str) -> None:
    """Approve and answer whatever comes, for ever."""
    take_part(folder, float(every), answers_of)


class Soak:
    """Everybody, started, killed and started again."""

    def __init__(self, n_sites: int, seconds: int, where: str | None) -> None:
        works = (serve_for_ever, serve_shares_for_ever, step_beside, site_agent)
        self.zygote = Zygote({work.__name__: work for work in works})
        self.every = str(seconds / 2)
        self.kills: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.first_seen: dict[tuple[str, str], tuple[Any, ...]] = {}
        folder = Path(tempfile.mkdtemp(prefix="tacit-soak-", dir=where))
        self.place = made(Coordinator, folder / "coordinator")
        self.aggregators = [made(Aggregator, folder / name) for name in ("first", "second")]
        self.services = {each.folder.name: self._service(each) for each in self.servers}
        for each in self.servers:
            wait_for(each.settings.enrol_port)
        self.folders = self._join(folder, n_sites)
        self.agents = {each: self._agent(each) for each in self.folders}
        self.beside: list[int] = []

    @property
    def servers(self) -> tuple[Any, ...]:
        """The coordinator and both aggregators."""
        return (self.place, *self.aggregators)

    def _service(self, server: Any) -> Service:
        work = "serve_for_ever" if server is self.place else "serve_shares_for_ever"
        return Service(self.zygote, server.settings.enrol_port, work, str(server.folder))

    def _agent(self, folder: Path) -> int:
        return self.zygote.start("site_agent", str(folder), self.every)

    def _join(self, folder: Path, n_sites: int) -> list[Path]:
        first, second = self.aggregators
        for each in self.aggregators:
            each.join(self.place.invite(f"the-{each.folder.name}", "aggregator"))
        first.join(second.invite("the-first", "aggregator"))
        found = []
        for number in range(n_sites):
            place = folder / f"site-{number:03d}"
            site = Site.create(place, budget=WIDE, unit="patient")
            for server in self.servers:
                site.join(server.invite(place.name))
            officers = list(self.place.officers)
            Policy(officers, ["two-aggregators"], 1e8, 100, 2, 2).write(place / "policy.toml")
            site.close()
            found.append(place)
        return found

    def strike(self, *, opening: bool = False) -> None:
        """Let a moment pass, kill somebody, and start the process again."""
        time.sleep(random.uniform(0.05, 0.4))
        victim = random.choice(self.folders)
        for again in (True, random.random() < 0.5):  # often again while it is just asking
            if again:
                assert self.zygote.kill(self.agents[victim]), "an agent had ended by itself"
                self.agents[victim] = self._agent(victim)
                self.kills["site"] += 1
                time.sleep(random.uniform(0.005, 0.2))
        for name, service in self.services.items():
            soon = opening and name != "coordinator" and random.random() < 0.15
            self.kills[name] += service.strike(at_once=soon)

    def studies(self, number: int, seconds: int) -> list[Study]:
        """Draft, sign and open studies, which both aggregators sign first."""
        place = self.place
        drafts = [self._draft(seconds) for _ in range(number)]
        for each in self.aggregators:
            for study in drafts:
                while study.hash not in {row["hash"] for row in each.studies()}:
                    self.strike()
                each.approve(study.hash, hash=study.hash)
        for study in drafts:
            while len(place.agreed(study.hash)) < len(self.aggregators):
                self.strike()
            place.open(study.hash)
        return drafts

    def _draft(self, seconds: int) -> Study:
        place, opens = self.place, int(time.time())
        file, quorum = inputs_file(np.zeros((QUERIES, 2))), max(2, len(self.folders) // 2)
        described = [each.describe(each.folder.name) for each in self.aggregators]
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
        return made_up

    def round(self, number: int, seconds: int, at_once: int) -> None:
        """Carry studies to their ends under fire, and check them."""
        studies = self.studies(at_once, seconds)
        left, opening = list(studies), False
        while left:
            self.strike(opening=opening)
            if opening and number % 3 == 0:
                self.race()
            states = [self.states(study) for study in left]
            opening = any(set(found) - {"open", *ENDED} for found in states)
            left = [
                study for study, found in zip(left, states, strict=True) if set(found) - set(ENDED)
            ]
        for study in studies:
            self.check(study)

    def states(self, study: Study) -> list[str]:
        """Return where each server is; a lock and a sum, once seen, must never be others."""
        found = [self.place.find(study.hash)["state"]]
        for each in self.aggregators:
            row = each.find(study.hash)
            found.append(row["state"])
            if row["lock"] is not None:
                now = (row["lock"], bytes(row["sum"]), row["survivors"], row["entry"])
                key = (study.hash, each.folder.name)
                assert self.first_seen.setdefault(key, now) == now, "another lock or sum"
        return found

    def race(self) -> None:
        """Let another process take an aggregator's steps; half of the time it is killed."""
        each = random.choice(self.aggregators)
        new = self.zygote.start("step_beside", str(each.folder))
        time.sleep(random.uniform(0, 0.1))
        if random.random() < 0.5:
            self.kills["racing step"] += self.zygote.kill(new)
        else:
            self.beside.append(new)
        self.beside = [each for each in self.beside if not self.zygote.ended(each)]

    def check(self, study: Study) -> None:
        """Assert what must hold of a study that has ended, whatever was killed."""
        row = self.place.find(study.hash)
        self.seen[row["state"]] += 1
        counted: Mapping[str, str] = {}
        if row["state"] == "released":
            found = read_release(study, bytes(row["release"]))
            counted = found.sharing
            rounded = TEACHERS * np.rint(np.asarray(found.release) / TEACHERS)
            told = [count_votes(answers_of(study.hash, name), CLASSES) for name in found.survivors]
            assert np.array_equal(rounded, sum(told)), "another sum"
            self.seen["in sums"] += len(found.survivors)
        query = "SELECT role, body FROM sums WHERE study = ?"
        sums = {each["role"]: each["body"] for each in self.place.database.rows(query, study.hash)}
        for each in self.aggregators:
            self.check_aggregator(each, study, sums.get(each.folder.name))
        given = {each.folder.name: receipts_of(each, study) for each in self.aggregators}
        for folder in self.folders:
            name = folder.name
            receipts = {role: by[name] for role, by in given.items() if name in by}
            check_site(folder, study, receipts, counted.get(name), self.seen)

    def check_aggregator(self, each: Aggregator, study: Study, told: bytes | None) -> None:
        """Assert that an aggregator showed one sum, paid for it, and forgot its shares."""
        row = each.find(study.hash)
        self.states(study)
        assert told is None or told == row["sum"], "another sum was told"
        purpose = f"study {study.hash[:16]}"
        entries = [entry for entry in each.ledger.entries() if entry.purpose.startswith(purpose)]
        if row["sum"] is not None:
            assert row["entry"] == entries[-1].hash, "locked under another entry"
        self.seen["draws that nobody saw"] += len(entries) - (row["sum"] is not None)
        assert not each.evidence(study.hash), "equivocation"
        end = time.monotonic() + 60
        while list((each.folder / "answers").glob(f"{study.hash}.*")):
            assert time.monotonic() < end, "shares are left"
            time.sleep(0.2)

    def end(self) -> None:
        """Kill all that is left."""
        for service in self.services.values():
            service.end()
        for process in (*self.agents.values(), *self.beside):
            self.zygote.kill(process)
        self.zygote.close()


def soak(
    n_sites: int, rounds: int, seconds: int, at_once: int, minutes: float, where: str | None
) -> None:
    """Run rounds, one study each, until they, or the minutes, are over; print what was seen."""
    under_fire = Soak(n_sites, seconds, where)
    print(f"{n_sites} sites have joined three servers", flush=True)
    run_rounds(under_fire, rounds, seconds, at_once, minutes)
    locks = Counter(name for _, name in under_fire.first_seen)
    print(f"one lock and one sum each: {dict(locks)}")
    print_cpu()


def main() -> None:
    asked = options(__doc__)
    if asked.speed:
        from benchmarks.aggregator_speed import run

        run(1000 if asked.sites == 60 else asked.sites, asked.where)
        return
    soak(asked.sites, asked.rounds, asked.seconds, asked.at_once, asked.minutes, asked.where)


if __name__ == "__main__":
    main()
