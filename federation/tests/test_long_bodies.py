"""Long answers come in parts, long inputs in ranges; both go on where they were interrupted."""

from __future__ import annotations

import numpy as np
import pytest
from network import INPUTS, answers_of, draft, opened, reach_the_last_slot, state_of

from tacit.errors import InvalidArgument, Refused, Unreachable
from tacit_federation import Policy, Site, StudySite, service, visiting
from tacit_federation.client import Client
from tacit_federation.server_folder import is_part

PART = 64


@pytest.fixture
def short_parts(monkeypatch):
    """What is a long body here is longer than 64 bytes."""
    for module in (service, visiting):
        monkeypatch.setattr(module, "MOST_PART", PART)


def sealed_at(site, study):
    site.run_once()
    site.approve(study.hash, hash=study.hash)
    site.run_once()
    site.answer(study.hash, answers=answers_of(0))
    return site.sealed(study.hash, "coordinator").read_bytes()


def test_parts_are_taken_as_often_as_they_come_and_whole_once(network, clock, short_parts):
    coordinator, sites = network
    study = opened(coordinator)
    body = sealed_at(sites[0], study)
    reach_the_last_slot(clock, study)
    parts = [body[at : at + PART] for at in range(0, len(body), PART)]
    client = sites[0].client(coordinator.settings.url)
    address = f"/studies/{study.hash}/answers"
    uploads = coordinator.folder / "uploads"

    def put(number, part):
        return client.ask("PUT", f"{address}/parts/{number}", part).status

    before = state_of(coordinator)
    assert client.ask("PUT", address, body).status == 413  # too long for one request
    assert put(len(parts), parts[0]) == 422
    assert put(0, parts[0][:-1]) == 422
    assert put(0, parts[0] + b"x") == 413
    assert put("x", parts[0]) == 404
    assert state_of(coordinator) == before
    assert [put(0, parts[0]), put(0, parts[0])] == [202, 202]
    assert [each.name for each in uploads.iterdir() if is_part(each.name)]
    service.MemberService(coordinator).forget_uploads()  # a restart
    assert len(list(uploads.iterdir())) == 1
    sites[0].run_once()  # sends all of them
    assert sites[0].find(study.hash).state == "confirmed"
    assert not list(uploads.iterdir())
    (file,) = (coordinator.folder / "answers").iterdir()
    assert file.read_bytes() == body
    assert [put(number, part) for number, part in enumerate(parts)][-1] == 200  # the same receipt
    sites[0].hang_up()


def test_parts_that_will_never_be_whole_are_deleted(network, clock, short_parts):
    coordinator, sites = network
    study = opened(coordinator)
    for number, site in enumerate(sites):
        body = sealed_at(site, study)
        client = site.client(coordinator.settings.url)
        address = f"/studies/{study.hash}/answers/parts/{number}"
        part = body[number * PART : (number + 1) * PART]
        assert client.ask("PUT", address, part).status == 202
        site.hang_up()
    uploads = coordinator.folder / "uploads"
    assert len(list(uploads.iterdir())) == 3
    coordinator.tick()
    assert len(list(uploads.iterdir())) == 3
    sites[0].withdraw(study.hash)
    assert len(list(uploads.iterdir())) == 2
    coordinator.revoke("hospital-b")
    assert len(list(uploads.iterdir())) == 1
    clock.ahead += 4000
    coordinator.tick()
    assert not list(uploads.iterdir())


def test_inputs_come_in_ranges_and_go_on_after_an_interruption(network, monkeypatch, short_parts):
    coordinator, sites = network
    study = opened(coordinator)
    site = sites[0]
    site.run_once()
    asked = []
    whole = Client.ask

    def cut(self, method, path, body=None, most=0, more=None):
        asked.append((more or {}).get("Range"))
        if len(asked) == 3:
            raise Unreachable("the line is cut")
        return whole(self, method, path, body, most, more or {})

    with monkeypatch.context() as patched:
        patched.setattr(Client, "ask", cut)
        with pytest.raises(Unreachable):
            site.inputs(study.hash)
        assert np.array_equal(site.inputs(study.hash), INPUTS)
    assert asked[:4] == ["bytes=0-63", "bytes=64-127", "bytes=128-191", "bytes=128-191"]
    assert not list((site.folder / "inputs").glob("*.part"))


def test_inputs_that_are_others_are_refused_and_forgotten(network, short_parts):
    coordinator, sites = network
    study = opened(coordinator)
    sites[0].run_once()
    path = coordinator.inputs_of(study.hash)
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(Refused, match="hash is another"):
        sites[0].approve(study.hash, hash=study.hash)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(Refused, match="piece"):
        sites[0].approve(study.hash, hash=study.hash)
    assert not list((sites[0].folder / "inputs").iterdir())
    assert len(sites[0].ledger) == 0


def test_inputs_above_the_sites_own_limit_are_not_fetched(network, monkeypatch):
    coordinator, sites = network
    inputs = {"sha256": "0" * 64, "bytes": 2 << 20, "dtype": "<f8", "shape": [6, 2]}
    monkeypatch.setattr("tacit_federation.coordinator.check_inputs", lambda *_: None)
    study = opened(coordinator, inputs=inputs)
    site = sites[0]
    kept = site.policy
    limits = {"most_epsilon": 1e6, "least_sites": 2, "least_teachers": 2}
    Policy(kept.officers, kept.modes, most_input_megabytes=1, **limits).write(
        site.folder / "policy.toml"
    )
    site.run_once()
    monkeypatch.setattr(visiting, "_download", lambda *_: pytest.fail("it was fetched"))
    with pytest.raises(Refused, match="most_input_megabytes=1"):
        site.approve(study.hash, hash=study.hash)


def test_answers_that_are_too_long_are_no_study(sealed, coordinator):
    key = "ab" * 32
    with pytest.raises(InvalidArgument, match="numbers a site"):
        draft(
            coordinator,
            sites=[StudySite("a", key, 2)],
            quorum=1,
            classes=1 << 15,
            inputs={"sha256": "0" * 64, "bytes": 1, "dtype": "|u1", "shape": [1024, 1]},
        )


def test_a_site_opens_as_it_was_left(network, clock, short_parts):
    """Sealed, sent in part, killed: the same bytes go on."""
    coordinator, sites = network
    study = opened(coordinator)
    body = sealed_at(sites[0], study)
    sites[0].move(study.hash, "sent")
    client = sites[0].client(coordinator.settings.url)
    assert client.ask("PUT", f"/studies/{study.hash}/answers/parts/0", body[:PART]).status == 202
    sites[0].close()
    again = Site(sites[0].folder, clock=clock)
    reach_the_last_slot(clock, study)
    again.run_once()
    assert again.find(study.hash).state == "confirmed"
    again.close()
