"""Two aggregators under load: a thousand sites, and the noise of codes.

    python -m benchmarks.aggregator_soak --speed

Everything is on loopback: each share is a new TLS connection with its own client certificate. It
prints seconds of processor time, which other work on the machine hardly changes;
docs/results/federation.md has the figures.
"""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.aggregator_soak import made
from benchmarks.federation_soak import enrolled, memory_mb, server_seconds
from benchmarks.zygote import wait_for
from tacit import InsecureNoise, Plan
from tacit.mechanisms import SharedVotes
from tacit_federation import (
    Aggregator,
    Server,
    SigningKey,
    Study,
    StudySite,
    Window,
    describe_inputs,
    inputs_file,
    new_document,
)
from tacit_federation.aggregator_service import aggregator_listeners
from tacit_federation.exchanging import KINDS, advance, shown, take_note
from tacit_federation.study import AGGREGATORS, SIGNED_AS
from tacit_federation.sums import both_sums, seal_shares, share_of, share_size
from tacit_federation.transport import serve

TEACHERS, SIGMA, URL = 5, 40.0, "https://coordinator.example"
HEADERS = {"Tacit-Protocol": "1", "Content-Type": "application/octet-stream"}


class Consortium:
    """Two aggregators, a coordinator that is only named, and sites that have joined."""

    def __init__(self, folder: Path, n_sites: int, queries: int, classes: int) -> None:
        self.officer, coordinator = SigningKey.generate(), SigningKey.generate()
        self.keys = [SigningKey.generate() for _ in range(n_sites)]
        self.folders = {role: folder / role for role in AGGREGATORS}
        places = {role: made(Aggregator, where) for role, where in self.folders.items()}
        self.contexts = {role: enrolled(each, self.keys) for role, each in places.items()}
        pins = ("c" * 64, coordinator.public, "d" * 64, 1.0, 1e-6)
        described = [place.describe(role) for role, place in places.items()]
        self.study = _study(
            self.keys, [Server("coordinator", URL, *pins), *described], queries, classes
        )
        for place in places.values():
            self._approve(place)
            place.close()
        rng = np.random.default_rng(0)
        self.counts = rng.multinomial(TEACHERS, np.ones(classes) / classes, queries)

    def _approve(self, place: Aggregator) -> None:
        """Let it know the others as if it had joined them, and sign."""
        first, second = (self.study.server(role) for role in AGGREGATORS)
        coordinator = self.study.server("coordinator")
        parties = [(coordinator, self.officer.public), (second, "")]
        with place.database.writing() as rows:
            query = "INSERT INTO members VALUES ('the-first', 'aggregator', ?, 0, NULL)"
            rows.execute(query, (first.key,))
            for server, officers in parties:
                values = (server.url, "us", server.ca, server.key, officers)
                rows.execute("INSERT INTO parties VALUES (?, ?, ?, ?, ?)", values)
        name = self.study.hash
        place.meet(URL, self.study.text, self.officer.public, self.officer.sign(SIGNED_AS, name))
        place.approve(name, hash=name)

    def upload(self) -> None:
        """Send every site's shares to both, whose processes are watched."""
        servers = {role: _served(where) for role, where in self.folders.items()}
        try:
            for role in AGGREGATORS:
                wait_for(int(self.study.server(role).url.rpartition(":")[2]))
            before = {role: server_seconds(each.pid) for role, each in servers.items()}
            for number, (site, key) in enumerate(zip(self.study.sites, self.keys, strict=True)):
                parcels = seal_shares(self.study, site, self.counts, key, os.urandom(16).hex())
                for role, body in parcels.items():
                    self._put(role, number, body)
            for role, each in servers.items():
                used = server_seconds(each.pid) - before[role]
                size = share_size(self.study, self.study.sites[0], role)
                print(
                    f"{role}: {len(self.keys)} uploads of {size} bytes, {used:.1f} s of server "
                    f"CPU, {memory_mb(each.pid):.0f} MB at the most",
                    flush=True,
                )
        finally:
            for each in servers.values():
                os.kill(each.pid, signal.SIGKILL)
                each.wait()

    def _put(self, role: str, number: int, body: bytes) -> None:
        """Send one share, again if the machine was too busy for a handshake in its time."""
        address = f"{self.study.server(role).url}/v1/studies/{self.study.hash}/share"
        context: ssl.SSLContext = self.contexts[role][number]
        for left in reversed(range(5)):
            try:
                with httpx.Client(verify=context, trust_env=False, timeout=120) as http:
                    reply = http.put(address, content=body, headers=HEADERS)
            except httpx.TransportError:
                if not left:
                    raise
                continue
            assert reply.status_code in (200, 201), reply.text
            return

    def release(self) -> None:
        """Close, lock, open and add; notes are handed over in this process."""
        places = [Aggregator(where) for where in self.folders.values()]
        used = dict.fromkeys(AGGREGATORS, 0.0)
        with_closed = int(time.time())
        for place in places:
            with place.database.writing() as rows:
                rows.execute("UPDATE studies SET closes = ?", (with_closed,))
        for place in places:
            used[place.folder.name] += _timed(place.close_due)
        for kind in KINDS:
            for place, other in (places, places[::-1]):
                told = shown(place, self.study.hash, kind)
                used[other.folder.name] += _timed(take_note, other, self.study.hash, kind, told)
            for place in places:
                used[place.folder.name] += _timed(advance, place, self.study.hash)
        sums = [shown(place, self.study.hash, "sum") for place in places]
        adding = _timed(both_sums, self.study, *sums)
        states = {place.find(self.study.hash)["state"] for place in places}
        assert states == {"released"}, states
        for role, seconds in used.items():
            print(f"{role}: closing to release, {seconds:.1f} s of CPU", flush=True)
        print(f"coordinator: both sums checked and added, {adding:.2f} s of CPU")

    def parts(self) -> None:
        """Print what expanding, adding and noise cost by themselves."""
        parcels = seal_shares(self.study, self.study.sites[0], self.counts, self.keys[0], "0" * 32)
        for role, body in parcels.items():
            payload = body[body.index(b"\x93NUMPY") :]
            total = np.zeros(self.study.shape, dtype=np.uint64)

            def add(role: str = role, payload: bytes = payload, total: Any = total) -> None:
                for _ in self.keys:
                    total += share_of(self.study, role, payload)

            what = "expand and add" if role == AGGREGATORS[0] else "read and add"
            print(f"{role}: {what} {len(self.keys)} shares, {_timed(add):.2f} s of CPU")
        shares = np.zeros(self.study.shape, dtype=np.uint64)
        drawn = _timed(self.study.plan.mechanism.release, shares, InsecureNoise(0))
        print(f"noise of {shares.size} counts, {drawn:.3f} s of CPU")


def _study(keys: list[SigningKey], servers: list[Server], queries: int, classes: int) -> Study:
    file, opens = inputs_file(np.zeros((queries, 1), dtype=np.uint8)), int(time.time()) - 1
    return new_document(
        title="speed",
        purpose="to be fast",
        unit="patient",
        inputs=describe_inputs(file),
        classes=classes,
        plan=Plan(SharedVotes(SIGMA), queries, n_classes=classes),
        sites=[StudySite(f"site-{n}", key.public, TEACHERS) for n, key in enumerate(keys)],
        quorum={"sites": len(keys), "teachers": len(keys)},
        window=Window(opens, opens + 36_000, 1),
        servers=servers,
    )


def _served(folder: Path) -> subprocess.Popen[bytes]:
    code = f"from benchmarks.aggregator_speed import *; only_members({str(folder)!r})"
    return subprocess.Popen([sys.executable, "-c", code])  # a process with its own memory


def only_members(folder: str) -> None:
    """Serve as an aggregator that takes no steps of its own."""

    async def run() -> None:
        listeners = aggregator_listeners(Aggregator(folder))
        await serve(listeners, tick=lambda: None, stop=asyncio.Event())

    asyncio.run(run())


def _timed(work: Any, *arguments: Any) -> float:
    begun = time.process_time()
    work(*arguments)
    return time.process_time() - begun


def noise_of_codes(numbers: int) -> None:
    """Print what the noise of codes costs, by its deviation in steps."""
    for bits in (33, 38):
        draw = InsecureNoise(0).rounded_gaussian_steps
        seconds = _timed(draw, 2.0**bits, 1.0, numbers) * 1e6 / numbers
        print(f"noise of a million codes at 2^{bits} steps: {seconds:.1f} s of CPU", flush=True)


def run(n_sites: int, where: str | None) -> None:
    """Measure everything, and print it."""
    with tempfile.TemporaryDirectory(prefix="tacit-speed-", dir=where) as folder:
        together = Consortium(Path(folder), n_sites, queries=11_000, classes=10)
        together.upload()
        together.release()
        together.parts()
    noise_of_codes(200_000)
