"""A disk that is full at any write: nothing half-written, one line, and a restart goes on.

Each step of a study is tried with its first write failing, then its second, until none of its
writes fails; after each failure every party is opened anew from its folder, as after a restart.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat

import numpy as np
import pytest
from network import (
    INPUTS,
    WIDE,
    answers_of,
    confirmed,
    draft,
    make_coordinator,
    make_site,
    opened,
    pass_the_end,
    served,
)
from two_parties import KINDS, SIGMA, TwoParties, advance, shown, take_note, votes

from tacit import count_votes
from tacit.errors import TacitError
from tacit_federation import Coordinator, SigningKey, Site, read_release, release_study
from tacit_federation.aggregator import RETRY_SECONDS
from tacit_federation.sums import both_sums


class Disk:
    """A disk on which the n-th write from now on fails, once."""

    def __init__(self) -> None:
        self.left = 0
        self.failed = 0

    def fail_at(self, number: int) -> None:
        self.left, self.failed = number, 0

    def write(self) -> bool:
        self.left -= 1
        if self.left == 0:
            self.failed += 1
        return self.left == 0


class FullConnection(sqlite3.Connection):
    """SQLite that finds no room when a transaction that changed something ends."""

    disk: Disk
    before = 0

    def _check(self, statement: str) -> None:
        if statement.startswith("BEGIN"):
            self.before = self.total_changes
        elif statement == "COMMIT" and self.total_changes > self.before and self.disk.write():
            raise sqlite3.OperationalError("database or disk is full")

    def execute(self, statement, *values):
        self._check(statement)
        return super().execute(statement, *values)


@pytest.fixture
def disk(monkeypatch):
    made = Disk()
    FullConnection.disk = made
    connect, fsync, replace = sqlite3.connect, os.fsync, os.replace

    def full(call):
        def run(*arguments):
            if call is fsync and stat.S_ISDIR(os.fstat(*arguments).st_mode):
                return call(*arguments)  # a name that is not safe yet stops nobody
            if made.write():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*arguments)

        return run

    monkeypatch.setattr(
        sqlite3, "connect", lambda *given, **more: connect(*given, factory=FullConnection, **more)
    )
    monkeypatch.setattr(os, "fsync", full(fsync))
    monkeypatch.setattr(os, "replace", full(replace))
    return made


class Parties:
    """A coordinator that serves and one site, both opened anew whenever a write has failed."""

    def __init__(self, coordinator, folder, clock, disk) -> None:
        self.coordinator, self.clock, self.disk = coordinator, clock, disk
        self.folder = folder
        self.writes = 0

    def step(self, work, done) -> None:
        """Do something, failing at each of its writes in turn, until it is done."""
        for number in range(1, 60):
            self.disk.fail_at(number)
            site = Site(self.folder, clock=self.clock)
            place = Coordinator(self.coordinator.folder, clock=self.clock)
            said = ""
            try:
                work(place, site)
            except TacitError as error:
                said = str(error)
            finally:
                site.close()
                place.close()
            failed, self.disk.left = self.disk.failed, 0
            self.writes += failed
            assert "\n" not in said
            self.nothing_is_half_written()
            if not failed:
                assert not said
                break
        place, site = Coordinator(self.coordinator.folder), Site(self.folder)
        assert done(place, site)
        site.close()
        place.close()

    def nothing_is_half_written(self) -> None:
        for folder in (self.coordinator.folder, self.folder):
            assert not list(folder.rglob("*.tmp"))
        site = Site(self.folder)
        states = {each.hash: each.state for each in site.studies()}
        for path in (self.folder / "sealed").iterdir():
            if states[path.name.split(".")[0]] in ("sealed", "sent"):
                assert path.read_bytes().startswith(b"TACIT1\n")
        site.close()


def test_a_study_goes_on_after_every_write_that_failed(coordinator, tmp_path, clock, disk):
    with served(coordinator):
        others = [
            make_site(tmp_path / name, coordinator, f"hospital-{name}", clock) for name in "bc"
        ]
        make_site(tmp_path / "a", coordinator, "hospital-a", clock).close()
        parties = Parties(coordinator, tmp_path / "a", clock, disk)
        study = draft(coordinator)
        name = study.hash
        officer = SigningKey.open(coordinator.folder / "officer.key")
        state = lambda place: place.find(name)["state"]  # noqa: E731
        parties.step(lambda place, _: place.sign(name, officer), lambda p, _: state(p) == "signed")
        parties.step(lambda place, _: place.open(name), lambda place, _: state(place) == "open")
        parties.step(lambda _, site: site.run_once(), lambda _, site: site.find(name))
        parties.step(
            lambda _, site: site.approve(name, hash=name),
            lambda _, site: (site.find(name).state, len(site.ledger)) == ("approved", 1),
        )
        parties.step(
            lambda _, site: site.answer(name, answers=answers_of(2)),
            lambda _, site: site.find(name).state == "sealed",
        )
        parties.step(
            lambda _, site: site.run_once(),
            lambda place, _: place.presence(name)["hospital-a"]["decision"] == "approved",
        )
        confirmed(coordinator, others, clock, study)
        parties.step(
            lambda _, site: site.run_once(), lambda _, site: site.find(name).state == "confirmed"
        )
        pass_the_end(clock, study)
        parties.step(lambda place, _: place.tick(), lambda place, _: state(place) == "closed")
        parties.step(
            lambda place, _: release_study(place, name), lambda p, _: state(p) == "released"
        )
        parties.step(lambda _, site: site.run_once(), lambda _, site: site.find(name).released)
        for each in others:
            each.close()
    site = Site(parties.folder)
    expected = sum(count_votes(answers_of(number), 3) for number in (0, 1, 2))
    assert np.array_equal(np.asarray(site.release(name).release), expected)
    assert len(site.ledger) == 1
    assert parties.writes >= 20
    assert not list((coordinator.folder / "answers").iterdir())
    assert not list((coordinator.folder / "uploads").iterdir())
    assert not list((parties.folder / "sealed").iterdir())
    site.close()


def failing_at_each(disk, work):
    """Do something, failing at each of its writes in turn, until it is done; return how many."""
    for number in range(1, 60):
        disk.fail_at(number)
        said = ""
        try:
            made = work()
        except TacitError as error:
            said = str(error)
        failed, disk.left = disk.failed, 0
        assert "\n" not in said
        assert failed or not said
        if not failed:
            return number - 1, made
    return pytest.fail("it was never done")


def test_parties_are_made_and_join_after_every_write_that_failed(tmp_path, clock, disk):
    tried, place = failing_at_each(disk, lambda: make_coordinator(tmp_path / "coordinator", clock))
    assert tried > 5
    text = place.invite("hospital-a")
    about = {"budget": WIDE, "unit": "patient", "clock": clock}
    tried, site = failing_at_each(disk, lambda: Site.create(tmp_path / "a", **about))
    assert tried > 2
    with served(place):
        tried, _ = failing_at_each(disk, lambda: site.join(text))
        assert tried > 4
        site.run_once()
    site.close()
    place.close()


def test_a_draft_and_a_withdrawal_survive_every_write_that_failed(disk, network):
    coordinator, sites = network
    tried, study = failing_at_each(disk, lambda: draft(coordinator))
    assert tried >= 3
    assert np.array_equal(np.load(coordinator.inputs_of(study.hash)), INPUTS)
    study = opened(coordinator)
    sites[0].run_once()
    sites[0].approve(study.hash, hash=study.hash)
    sites[0].answer(study.hash, answers=answers_of(0))
    failing_at_each(disk, lambda: sites[0].withdraw(study.hash))
    sites[0].run_once()
    assert coordinator.presence(study.hash)["hospital-a"]["dropped"] == "withdrawn"
    assert any("withdrew" in each for each in sites[0].ledger.statement().warnings)


def test_two_aggregators_go_on_after_every_write_that_failed(tmp_path, disk):
    two = TwoParties(tmp_path)
    name, tried = two.study.hash, 0

    def step(work):
        nonlocal tried
        failures, made = failing_at_each(disk, work)
        tried += failures
        return made

    def advanced(place):
        two.time += RETRY_SECONDS + 1  # what was paid for and not stored is not tried at once
        return advance(place, name)

    for number in range(3):
        parcels = two.sealed(number, votes(number))
        for place in two.places:
            body = parcels[place.folder.name]
            assert step(lambda: two.send(place, number, body))[0] in (200, 201)  # noqa: B023
    two.time += 101.0
    for place in two.places:
        step(place.close_due)
    for kind in KINDS:
        for place, other in (two.places, two.places[::-1]):
            told = shown(place, name, kind)
            step(lambda: take_note(other, name, kind, told))  # noqa: B023
        for place in two.places:
            step(lambda: advanced(place))  # noqa: B023
    assert [place.find(name)["state"] for place in two.places] == ["released", "released"]
    sums = [bytes(place.find(name)["sum"]) for place in two.places]
    found = read_release(two.study, both_sums(two.study, *sums))
    expected = sum(votes(number) for number in range(3))
    assert np.abs(np.asarray(found.release) - expected).max() < 20 * SIGMA
    for place in two.places:
        assert place.find(name)["entry"] == list(place.ledger.entries())[-1].hash
        assert not list((place.folder / "answers").iterdir())
    assert tried >= 12
    two.close()
