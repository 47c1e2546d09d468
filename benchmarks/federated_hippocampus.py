"""Masks of 26 sites, added by two aggregators, and by one house at sqrt(2) times the noise.

    python -m benchmarks.federated_hippocampus --data DIR --runs 5

130 private volumes of the Decathlon's hippocampus at 26 sites, one teacher each (an atlas of about
five patients; registered once, a few CPU-minutes; or, with `--teachers mean`, the mean of their
masks), 50 public scans, a student. Every run goes through the whole protocol on loopback:
invitations, approvals, shares over TLS, lists, locks, sums; each round is a study, clipped about
the last one's release. Beside it a single house that adds the same codes with noise of sqrt(2)
sigma. Prints Dice of released masks and of students, both with their standard error over runs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import math
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.segment_hippocampus import COPIES, DELTA, Split, split
from tacit import Budget, Ledger, calibrate
from tacit.masks import (
    AtlasTeacher,
    EncodeMasks,
    MaskRounds,
    PCACodec,
    UNetStudent,
    organ_dice,
    segment_with_teachers,
)
from tacit.mechanisms import GaussianMean
from tacit.teachers import shard_key, shard_of
from tacit_federation import (
    Aggregator,
    Coordinator,
    Policy,
    ServerSettings,
    SigningKey,
    Site,
    Window,
    describe_inputs,
    frame_file,
    inputs_file,
    new_document,
    read_release,
    release_study,
)
from tacit_federation.aggregator_service import (
    aggregator_listeners,
    round_of,
    visit_coordinators,
)
from tacit_federation.service import listeners_of
from tacit_federation.transport import free_ports, serve

SITES, HOUR = 26, 3600
WIDE = Budget(1e6, 1e-6)


class Clock:
    """Seconds since 1970 that only the script moves."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Network:
    """A coordinator, two aggregators and 26 sites on loopback, in this process."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.coordinator = self._made(Coordinator, folder / "coordinator")
        self.aggregators = [self._made(Aggregator, folder / name) for name in ("first", "second")]
        self.sites: list[Site] = []

    def _made(self, kind: Any, folder: Path) -> Any:
        port, enrol, console = free_ports(3)
        ports: dict[str, Any] = {"port": port, "enrol_port": enrol, "console_port": console}
        url = f"https://127.0.0.1:{port}"
        settings = ServerSettings(folder.name, url, host="127.0.0.1", **ports)
        about = {"hosts": ["127.0.0.1"], "budget": WIDE, "unit": "patient"}
        return kind.create(folder, settings, clock=self.clock, **about)

    def join(self, folder: Path) -> None:
        """Let everybody enrol with everybody whom they need."""
        first, second = self.aggregators
        for each in self.aggregators:
            each.join(self.coordinator.invite(f"the-{each.folder.name}", "aggregator"))
        first.join(second.invite("the-first", "aggregator"))
        for number in range(SITES):
            name = f"site-{number:02d}"
            site = Site.create(folder / name, budget=WIDE, unit="patient", clock=self.clock)
            for server in (self.coordinator, first, second):
                site.join(server.invite(name))
            officers = list(self.coordinator.officers)
            Policy(officers, ["two-aggregators"], 1e6).write(folder / name / "policy.toml")
            self.sites.append(site)

    def released(self, plan: Any, frame: bytes, scans: Any, codes: Any) -> Any:
        """Carry one study through, from its draft to its release."""
        file = inputs_file(scans)
        opens = int(self.clock())
        about = {"length": codes.shape[2], "frame": hashlib.sha256(frame).hexdigest()}
        described = [each.describe(each.folder.name) for each in self.aggregators]
        study = new_document(
            title="hippocampus",
            purpose="segment public scans",
            unit="patient",
            inputs=describe_inputs(file),
            codes=about,
            plan=plan,
            sites=self.coordinator.sites(1),
            quorum={"sites": SITES, "teachers": SITES},
            window=Window(opens, opens + HOUR, 1),
            servers=[self.coordinator.server(), *described],
        )
        self.coordinator.add(study, file, frame)
        self.coordinator.sign(study.hash, SigningKey.open(self.coordinator.folder / "officer.key"))
        for each in self.aggregators:
            visit_coordinators(each)
            each.approve(study.hash, hash=study.hash)
            visit_coordinators(each)
        self.coordinator.open(study.hash)
        for number, site in enumerate(self.sites):
            site.run_once()
            site.approve(study.hash, hash=study.hash)
            site.answer(study.hash, answers=codes[number : number + 1])
        self.clock.now = study.window.closes - 2.0
        for site in self.sites:
            site.run_once()
        self.clock.now = study.window.closes + 2.0
        for _ in range(2):
            for each in self.aggregators:
                round_of(each)
        for each in self.aggregators:
            visit_coordinators(each)
        return read_release(study, release_study(self.coordinator, study.hash), frame)

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Serve all three until the block ends."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(_thread(lambda: listeners_of(self.coordinator)))
            for each in self.aggregators:
                stack.enter_context(_thread(lambda each=each: aggregator_listeners(each)))
            yield


@contextlib.contextmanager
def _thread(listeners: Any) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    stop, ready = asyncio.Event(), threading.Event()

    async def run() -> None:
        made = listeners()
        loop.call_later(0.1, ready.set)
        await serve(made, tick=lambda: None, stop=stop)

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    ready.wait(60)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)


def mean_mask(images: Any, masks: Any, queries: Any, *, n_classes: int, seed: int) -> Any:
    """Answer every scan with the mean of the masks that a teacher has: it costs nothing."""
    soft = np.eye(n_classes)[masks].mean(axis=0)
    return np.repeat(np.moveaxis(soft, -1, 0)[None], len(queries), axis=0)


def teachers_codes(data: Split, codec: Any, teacher: Any) -> Any:
    """Let each site's teacher answer, once for all runs. Secret, were the volumes private."""
    people = [f"patient-{number}" for number in range(len(data.private.images))]
    shards = shard_of(people, SITES, shard_key(0))
    return segment_with_teachers(
        teacher,
        data.private.images,
        data.private.masks,
        shards,
        SITES,
        data.asked.images,
        n_classes=2,
        encode=EncodeMasks(codec, 2),
    ).astype(np.float64)


def rounds_of(data: Split, codec: Any, noise: float, count: int, shared: bool) -> MaskRounds:
    about = {"n_teachers": SITES, "each_alone": False, "rounds": count}
    return MaskRounds(codec, data.asked.images, noise=noise, shared=shared, **about)


def federated(network: Network, rounds: MaskRounds, data: Split, codes: Any) -> None:
    for _, plan, public in rounds:
        shape = codes.shape[1:]
        frame = frame_file(public.get("centres", 0.0), public.get("weights", 1.0), shape)
        found = network.released(plan, frame, data.asked.images, codes)
        rounds.learn(found.release, found.teachers)


def one_house(rounds: MaskRounds, codes: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "house.ledger", budget=WIDE, unit="patient")
        for _, plan, public in rounds:
            with ledger.release(plan, purpose="segment public scans") as grant:
                rounds.learn(grant.release(codes, **public))


def scores(rounds: MaskRounds, data: Split, students: bool) -> dict[str, float]:
    from tacit.masks.rounds import cut_masks

    made = cut_masks(rounds.answers(), 2, rounds.public_volume)
    found = {"released": float(organ_dice(made.astype(np.uint8), data.asked.masks).mean())}
    if students:
        student = rounds.teach(UNetStudent(random_state=0), data.asked.images)
        predicted = student.predict(data.held_out.images)
        found["student"] = float(organ_dice(predicted, data.held_out.masks).mean())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".")))
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--teachers", choices=["atlas", "mean"], default="atlas")
    parser.add_argument("--no-students", action="store_true")
    asked = parser.parse_args()
    data = split(asked.data, 0)
    codec = PCACodec.fit(data.known.masks.astype(float), copies=COPIES)
    codes = teachers_codes(data, codec, AtlasTeacher() if asked.teachers == "atlas" else mean_mask)
    print(
        f"26 teachers have answered {codes.shape[1]} scans: codes of {codes.shape[2]}", flush=True
    )
    budget = Budget(asked.epsilon, DELTA)
    noise = _noise(budget)
    told: dict[str, list[dict[str, float]]] = {"two aggregators": [], "one house": []}
    with tempfile.TemporaryDirectory() as folder:
        network = Network(Path(folder))
        with network.serving():
            network.join(Path(folder))
            for number in range(asked.runs):
                rounds = rounds_of(data, codec, noise, asked.rounds, shared=True)
                federated(network, rounds, data, codes)
                told["two aggregators"].append(scores(rounds, data, not asked.no_students))
                rounds = rounds_of(data, codec, math.sqrt(2) * noise, asked.rounds, shared=False)
                one_house(rounds, codes)
                told["one house"].append(scores(rounds, data, not asked.no_students))
                print(f"run {number + 1}: {told['two aggregators'][-1]}, {told['one house'][-1]}")
    show(told)


def _noise(budget: Budget) -> float:
    """Return 1/mu of the whole budget for one aggregator's view."""
    plans = calibrate(
        lambda noise: [GaussianMean.with_noise(noise, queries=1, radius=1.0, n_teachers=SITES)],
        budget,
    )
    (plan,) = plans
    return 1 / math.sqrt(plan.mu_squared() or math.inf)


def show(told: dict[str, list[dict[str, float]]]) -> None:
    for what in told["one house"][0]:
        means, errors = {}, {}
        for name, runs in told.items():
            values = np.array([run[what] for run in runs])
            means[name] = values.mean()
            errors[name] = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0
            print(f"Dice of {what}, {name}: {means[name]:.4f} +- {errors[name]:.4f}")
        gap = means["two aggregators"] - means["one house"]
        error = math.hypot(*errors.values())
        verdict = "within" if abs(gap) <= 2 * error else "beyond"
        print(f"difference {gap:+.4f}, {verdict} two standard errors ({2 * error:.4f})")


if __name__ == "__main__":
    main()
