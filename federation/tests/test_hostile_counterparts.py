"""Whatever a counterpart sends or a disk does: services go on, and pins hold."""

from __future__ import annotations

import asyncio
import dataclasses
import logging

import pytest
from network import confirmed, make_coordinator, opened, pass_the_end
from two_parties import TwoParties, votes

from tacit.errors import BudgetExceeded, Refused
from tacit_federation import end_study, release_study, visiting
from tacit_federation.aggregator_service import round_of
from tacit_federation.client import Reply
from tacit_federation.members import Invitation
from tacit_federation.statements import WITHDRAWN, notes_of
from tacit_federation.transport import serve


def test_an_address_keeps_the_authority_and_key_that_were_pinned(network, tmp_path):
    coordinator, sites = network
    invited = Invitation.read(coordinator.invite("hospital-d"))
    other = make_coordinator(tmp_path / "impostor")
    theirs = Invitation.read(other.invite("hospital-d"))
    place = sites[0].server_folder(invited.url)
    before = (place / "ca.pem").read_bytes()
    for change in ({"authority": theirs.authority}, {"key": theirs.key}):
        with pytest.raises(Refused, match="pinned"):
            sites[0].join(dataclasses.replace(invited, **change).text())
    assert (place / "ca.pem").read_bytes() == before
    (place / "ca.pem").write_bytes(theirs.authority.encode())
    sites[0].hang_up()
    with pytest.raises(Refused, match="pinned"):
        sites[0].run_once()
    other.close()


def test_a_study_for_which_a_ledger_has_no_room_ends(network, clock, monkeypatch):
    coordinator, sites = network
    study = opened(coordinator)
    confirmed(coordinator, sites, clock, study)
    pass_the_end(clock, study)

    def no_room(*args, **kwargs):
        raise BudgetExceeded("no room")

    monkeypatch.setattr(coordinator.ledger, "release", no_room)
    with pytest.raises(BudgetExceeded):
        release_study(coordinator, study.hash)
    assert coordinator.find(study.hash)["state"] == "void"
    assert not list((coordinator.folder / "answers").iterdir())
    assert any("ended without a release" in line for line in sites[0].run_once())
    assert not any("ended without a release" in line for line in sites[0].run_once())


def test_an_operator_ends_a_study_once_and_no_released_one(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    confirmed(coordinator, sites, clock, study)
    end_study(coordinator, study.hash)
    assert coordinator.find(study.hash)["state"] == "void"
    assert not list((coordinator.folder / "answers").iterdir())
    with pytest.raises(Refused, match="ended"):
        end_study(coordinator, study.hash)
    with pytest.raises(Refused, match="void"):
        release_study(coordinator, study.hash)


def test_an_aggregator_ends_what_the_other_one_left(tmp_path):
    two = TwoParties(tmp_path)
    two.send_all([votes(number) for number in range(3)])
    two.time += 200
    first = two.places[0]
    first.close_due()
    assert first.find(two.study.hash)["state"] == "closed"
    first.end(two.study.hash)
    assert first.find(two.study.hash)["state"] == "void"
    assert not list((first.folder / "answers").iterdir())


@pytest.mark.parametrize("raised", [TypeError, RecursionError, OverflowError])
def test_whatever_the_other_aggregator_sends_a_round_goes_on(tmp_path, monkeypatch, raised):
    two = TwoParties(tmp_path)
    two.send_all([votes(number) for number in range(3)])
    two.time += 200

    def failing(place, name):
        raise raised("4711 Main Street")

    monkeypatch.setattr("tacit_federation.aggregator_service.exchange", failing)
    (line,) = round_of(two.places[0])
    assert raised.__name__ in line
    assert "4711" not in line


def test_a_service_survives_what_is_due_and_says_so_once(caplog):
    calls = []

    async def run():
        stop = asyncio.Event()

        def tick():
            calls.append(1)
            if len(calls) == 2:
                asyncio.run_coroutine_threadsafe(_set(stop), loop)
            raise OSError("4711 Main Street")

        loop = asyncio.get_running_loop()
        await serve([], tick=tick, stop=stop)

    with caplog.at_level(logging.ERROR, "tacit_federation"):
        asyncio.run(run())
    assert len(calls) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "What was due failed (OSError); it is tried again every second."
    ]


async def _set(event):
    event.set()


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"audit": {}, "time": 1' + b"0" * 400 + b"}"])
def test_a_reply_out_of_protocol_is_refused(network, monkeypatch, body):
    _, sites = network
    client = sites[0].client(next(iter(sites[0].servers())))
    monkeypatch.setattr(client, "ask", lambda *args, **kwargs: Reply(200, body))
    with pytest.raises(Refused):
        sites[0].run_once()
    assert visiting._check_skew(sites[0], "there", 10**400) == []


def test_a_withdrawal_is_in_the_report(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    confirmed(coordinator, sites, clock, study)
    sites[0].withdraw(study.hash)
    pass_the_end(clock, study)
    release_study(coordinator, study.hash)
    assert any(WITHDRAWN in note for note in notes_of(coordinator.statement()))
