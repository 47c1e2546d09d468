"""What comes in at an aggregator's door: one line back for what nobody should send.

Bodies, replays and slow senders over TLS, at each of the two; damaged frames and notes without.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from network import served_aggregator, state_of
from two_parties import NOW, SITES, TwoParties, votes

from tacit.errors import TacitError
from tacit_federation import transport
from tacit_federation.certificates import client_context
from tacit_federation.exchanging import KINDS, shown, take_note
from tacit_federation.messages import frame, read_header
from tacit_federation.study import AGGREGATORS
from tacit_federation.sums import check_share, seal_shares, share_size


class Door:
    """One of the two aggregators, serving, and three sites that can reach it."""

    def __init__(self, two, place) -> None:
        self.two, self.place, self.study = two, place, two.study
        self.role = place.folder.name
        self.body = two.sealed(0, votes(0))[self.role]

    def context(self, number=0):
        return client_context(self.place.authority.pem, self.two.tls(self.place, number))

    def put(self, content, *, number=0, study=None, **headers):
        told = {"Tacit-Protocol": "1", "Content-Type": "application/octet-stream", **headers}
        url = f"{self.place.settings.url}/v1/studies/{study or self.study.hash}/share"
        with httpx.Client(verify=self.context(number), trust_env=False, timeout=20) as http:
            return http.put(url, content=content, headers=told)


@pytest.fixture(params=AGGREGATORS)
def door(request, tmp_path):
    two = TwoParties(tmp_path)
    place = two.places[AGGREGATORS.index(request.param)]
    with served_aggregator(place):
        yield Door(two, place)
    two.close()


def test_a_share_that_is_not_as_the_study_implies_is_refused(door):
    body, study = door.body, door.study
    assert len(body) == share_size(study, study.sites[0], door.role)
    before = state_of(door.place)
    for code, content, headers in (
        (413, body + b"x", {}),
        (422, body[:-1], {}),
        (422, b"", {}),
        (415, body, {"Content-Encoding": "gzip"}),
        (415, body, {"Content-Type": "text/plain"}),
        (415, iter([body]), {"Transfer-Encoding": "chunked"}),
        (422, b"X" * len(body), {}),
        (422, body[:-1] + bytes([body[-1] ^ 1]), {}),
    ):
        reply = door.put(content, **headers)
        assert reply.status_code == code, reply.text
        assert reply.text.count("\n") == 1
        assert state_of(door.place) == before
    assert door.put(body).status_code == 201


def test_a_share_is_its_sites_its_studys_and_its_aggregators(door):
    """Replayed to another of any of the three it is refused, and nothing has changed."""
    two, place = door.two, door.place
    other = two.also_open("another study")
    elsewhere = two.sealed(0, votes(0))[AGGREGATORS[1 - AGGREGATORS.index(door.role)]]
    before = state_of(place)
    for number, study, body in (
        (1, door.study, door.body),
        (0, other, door.body),
        (1, other, door.body),
        (0, door.study, elsewhere),
    ):
        reply = door.put(body, number=number, study=study.hash)
        assert reply.status_code in (413, 422), reply.text
        assert state_of(place) == before


def test_the_first_share_wins_and_the_same_again_gets_the_same_receipt(door):
    first = door.put(door.body)
    assert first.status_code == 201
    assert b"digest" not in first.content
    again = door.put(door.body)
    assert (again.status_code, again.content) == (200, first.content)
    site = door.study.sites[0]
    another = seal_shares(door.study, site, votes(5), SITES[0], "9" * 32)[door.role]
    assert door.put(another).status_code == 409
    second = door.two.sealed(1, votes(1))[door.role]
    assert door.put(second, number=1).status_code == 201
    door.two.time = NOW + 101.0
    door.place.close_due()
    assert door.place.find(door.study.hash)["state"] == "closed"
    late = door.put(door.body)
    assert (late.status_code, late.content) == (200, first.content)
    before = state_of(door.place)
    third = door.two.sealed(2, votes(2))[door.role]
    assert door.put(third, number=2).status_code == 410
    assert state_of(door.place) == before


def test_who_drips_a_share_is_hung_up_on(door, monkeypatch):
    monkeypatch.setattr(transport, "HEADER_SECONDS", 0.4)
    monkeypatch.setattr(transport, "SLOWEST_BODY", 1 << 20)
    before = state_of(door.place)
    begin = f"PUT /v1/studies/{door.study.hash}/share HTTP/1.1\r\nHost: x\r\n"
    begin += "Tacit-Protocol: 1\r\nContent-Type: application/octet-stream\r\n"
    place = ("127.0.0.1", door.place.settings.port)
    with (
        socket.create_connection(place, timeout=20) as plain,
        door.context().wrap_socket(plain, server_hostname="127.0.0.1") as channel,
    ):
        channel.sendall(f"{begin}Content-Length: {len(door.body)}\r\n\r\nTACIT".encode())
        with contextlib.suppress(OSError):
            assert channel.recv(10_000) == b""
    assert state_of(door.place)[:2] == before[:2]


@pytest.fixture(scope="module")
def shares(tmp_path_factory):
    """What a site sends to each, and what either says to the other at the end."""
    two = TwoParties(tmp_path_factory.mktemp("shares"))
    parcels = two.sealed(0, votes(0))
    two.send_all([votes(number) for number in range(3)])
    two.finish()
    yield two, parcels
    two.close()


FUZZED = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def taken(study, role, body):
    file = io.BytesIO(body)
    header = read_header(file)
    return check_share(study, study.sites[0], role, header, file.read())


@FUZZED
@given(st.data(), st.sampled_from(AGGREGATORS))
def test_a_damaged_share_is_refused_whatever_was_damaged(shares, data, role):
    two, parcels = shares
    body = parcels[role]
    assert taken(two.study, role, body) == "0" * 32
    with pytest.raises(TacitError):
        taken(two.study, role, damaged(data, body))
    with pytest.raises(TacitError):
        taken(two.study, role, frame(json.dumps(data.draw(JSON)).encode(), b""))


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)


def damaged(data, body):
    place = data.draw(st.integers(0, len(body) - 1))
    if data.draw(st.booleans()):
        return body[:place]
    mask = data.draw(st.integers(1, 255))
    return body[:place] + bytes([body[place] ^ mask]) + body[place + 1 :]


@FUZZED
@given(st.data(), st.sampled_from(KINDS))
def test_a_damaged_note_is_refused_and_proves_nothing(shares, data, kind):
    """Only what the other one signed is evidence: damage on the way must accuse nobody."""
    two, _ = shares
    first, second = two.places
    before = state_of(second)
    for wrong in (damaged(data, shown(first, two.study.hash, kind)), data.draw(st.binary())):
        with pytest.raises(TacitError):
            take_note(second, two.study.hash, kind, wrong)
    assert state_of(second) == before
    assert not second.evidence(two.study.hash)
