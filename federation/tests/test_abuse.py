"""Requests that nobody should send: one line back, and nothing changed."""

from __future__ import annotations

import io
import json
import socket
import ssl
import struct
import time
from asyncio.sslproto import SSLProtocol

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from network import answers_of, opened, sealed_body, state_of

from tacit import count_votes
from tacit.errors import InvalidArgument, TacitError
from tacit_federation import SigningKey, Study, transport
from tacit_federation.certificates import client_context, read_request
from tacit_federation.database import StateUnavailable
from tacit_federation.members import Invitation
from tacit_federation.messages import (
    MAGIC,
    answers_size,
    check_answers,
    frame,
    read_header,
    seal_answers,
)
from tacit_federation.service import _refusal


def context_of(coordinator, site):
    return client_context(coordinator.authority.pem, site.server_folder(coordinator.settings.url))


@pytest.fixture
def put(network):
    """Send a body as the first site, with whatever headers."""
    coordinator, sites = network
    study = opened(coordinator)
    body = sealed_body(sites[0], study)
    with httpx.Client(verify=context_of(coordinator, sites[0]), trust_env=False) as http:

        def send(content, path=f"/studies/{study.hash}/answers", method="PUT", **headers):
            told = {"Tacit-Protocol": "1", "Content-Type": "application/octet-stream", **headers}
            url = f"{coordinator.settings.url}/v1{path}"
            return http.request(method, url, content=content, headers=told)

        send.body, send.study, send.coordinator, send.site = body, study, coordinator, sites[0]
        yield send


def test_a_body_that_is_not_as_the_study_implies_is_refused(put):
    body, study = put.body, put.study
    before = state_of(put.coordinator)
    assert len(body) == answers_size(study, study.site("hospital-a"))
    for code, content, headers in (
        (413, body + b"x", {}),
        (422, body[:-1], {}),
        (422, b"", {}),
        (415, body, {"Content-Encoding": "gzip"}),
        (415, body, {"Content-Type": "text/plain"}),
        (415, iter([body]), {"Transfer-Encoding": "chunked"}),
        (422, b"X" * len(body), {}),
        (422, body[:-1] + bytes([body[-1] ^ 1]), {}),
        (422, body.replace(study.hash.encode(), b"0" * 64), {}),
        (422, body.replace(b'"sharing":"', b'"sharing":"0')[: len(body)], {}),
    ):
        reply = put(content, **headers)
        assert reply.status_code == code, reply.text
        assert reply.text.count("\n") == 1
        assert state_of(put.coordinator) == before
    assert put(body).status_code == 201


def test_rows_that_do_not_sum_to_the_teachers_are_refused(put):
    site = put.study.site("hospital-a")
    counts = count_votes(answers_of(0), 3)
    counts[0, 0] += 1
    more = seal_answers(put.study, site, counts, put.site.key, "1" * 32)
    before = state_of(put.coordinator)
    reply = put(more)
    assert reply.status_code == 422
    assert "sum" in reply.text
    assert state_of(put.coordinator) == before


def test_odd_paths_methods_and_forms_are_one_line(put):
    before = state_of(put.coordinator)
    study = put.study.hash
    for method, path, content, code in (
        ("GET", "/nowhere", None, 404),
        ("POST", "/studies", b"", 405),
        ("GET", "/studies/..%2f..%2fkeys/document", None, 404),
        ("GET", f"/studies/{'f' * 64}/document", None, 422),
        ("GET", f"/studies/{study}/release", None, 404),
        ("GET", "/studies?seen=-1", None, 200),
        ("GET", "/studies?seen=" + "9" * 5000, None, 200),
        ("PUT", f"/studies/{study}/approval", b"{}", 403),
        ("PUT", f"/studies/{study}/approval", b"x" * 20_000, 413),
        ("PUT", f"/studies/{study}/approval", b'{"a": 1}', 422),
        ("POST", "/renew", b"not a request", 422),
        ("POST", "/renew", b"x" * 9000, 413),
    ):
        reply = put(content, path=path, method=method)
        assert reply.status_code == code, (method, path, reply.text)
        assert len(reply.text) < 2000
    assert state_of(put.coordinator) == before


def test_noise_at_every_door_is_one_line_and_changes_nothing(put):
    """Damaged frames, JSON and requests for certificates, as a member and as a stranger."""
    rng = np.random.default_rng(0)
    study, before = put.study.hash, state_of(put.coordinator)
    settings = put.coordinator.settings
    door = f"https://127.0.0.1:{settings.enrol_port}/v1/enrol"
    stranger = client_context(put.coordinator.authority.pem, None)
    with httpx.Client(verify=stranger, trust_env=False) as http:
        for number in range(24):
            noise = rng.bytes(int(rng.integers(1, 300)))
            damaged = bytearray(put.body)
            damaged[rng.integers(len(damaged))] ^= 1 << int(rng.integers(8))
            forms = [noise, noise.hex().encode(), json.dumps({"token": noise.hex()}).encode()]
            forms += [b"[" * 5000, b'{"study":' * 500, b'{"a":1e999}', b"null"]
            form = forms[number % len(forms)]
            replies = [
                put(bytes(damaged)),
                put(form, path=f"/studies/{study}/approval"),
                put(form, path="/renew", method="POST"),
                http.post(door, content=form),
            ]
            for reply in replies:
                assert 400 <= reply.status_code < 500, reply.text
                assert reply.text.count("\n") == 1
    assert state_of(put.coordinator) == before
    assert put(put.body).status_code == 201


def test_ranges_of_inputs_are_served(put):
    path = f"/studies/{put.study.hash}/inputs"
    whole = put(None, path=path, method="GET").content
    part = put(None, path=path, method="GET", Range="bytes=10-19")
    assert (part.status_code, part.content) == (206, whole[10:20])


def test_who_does_not_come_to_the_point_is_hung_up_on(network, monkeypatch):
    """Silent after the handshake, dripping headers, dripping a body, and no handshake at all."""
    coordinator, sites = network
    study = opened(coordinator)
    monkeypatch.setattr(transport, "HEADER_SECONDS", 0.6)
    monkeypatch.setattr(transport, "SLOWEST_BODY", 1 << 20)
    place = ("127.0.0.1", coordinator.settings.port)
    context = context_of(coordinator, sites[0])
    begin = f"PUT /v1/studies/{study.hash}/answers HTTP/1.1\r\nHost: x\r\n"
    size = answers_size(study, study.site("hospital-a"))
    body = (
        f"Tacit-Protocol: 1\r\nContent-Type: application/octet-stream\r\n"
        f"Content-Length: {size}\r\n\r\nTACIT"
    )
    before = state_of(coordinator)
    for sent in ("", begin, begin + body):
        with (
            socket.create_connection(place, timeout=20) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as channel,
        ):
            channel.sendall(sent.encode())
            assert hung_up(channel)
    end = time.monotonic() + 20
    while state_of(coordinator) != before and time.monotonic() < end:
        time.sleep(0.05)  # the half of a body that came is removed a moment later
    assert state_of(coordinator) == before


def hung_up(channel) -> bool:
    try:
        return channel.recv(10_000) == b""
    except (ConnectionError, ssl.SSLError):
        return True


def test_many_idle_connections_do_not_keep_others_out(server, monkeypatch):
    coordinator, site = server
    place = ("127.0.0.1", coordinator.settings.port)
    idle = [socket.create_connection(place, timeout=20) for _ in range(200)]
    made = []
    honest = SSLProtocol.__init__

    def counted(self, *given, **more):
        honest(self, *given, **more)
        made.append(len(self._ssl_buffer))

    monkeypatch.setattr(SSLProtocol, "__init__", counted)
    try:
        site.run_once()
        assert max(made) <= 32 * 1024  # as many bytes as a stranger can make the server take
    finally:
        for each in idle:
            each.close()


def test_headers_that_never_end_are_cut_off(server):
    coordinator, site = server
    place = ("127.0.0.1", coordinator.settings.port)
    context = context_of(coordinator, site)
    with (
        socket.create_connection(place, timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as channel,
    ):
        channel.sendall(b"GET /v1/studies HTTP/1.1\r\nX: " + b"x" * 40_000)
        assert b" 400 " in channel.recv(10_000)


def taken(study: Study, body: bytes) -> str:
    file = io.BytesIO(body)
    header = read_header(file)
    return check_answers(study, study.site("site-0"), header, file.read())


FUZZED = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@FUZZED
@given(st.data())
def test_a_damaged_frame_is_refused_whatever_was_damaged(sealed, data):
    study, body = sealed
    assert taken(study, body) == "2" * 32
    place = data.draw(st.integers(0, len(body) - 1))
    cut = data.draw(st.booleans())
    mask = data.draw(st.integers(1, 255))
    damaged = (
        body[:place] if cut else body[:place] + bytes([body[place] ^ mask]) + body[place + 1 :]
    )
    with pytest.raises(TacitError):
        taken(study, damaged)


@FUZZED
@given(st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_bytes_of_strangers_are_no_frame(sealed, noise, length):
    study, _ = sealed
    with pytest.raises(TacitError):
        taken(study, noise)
    with pytest.raises(TacitError):
        taken(study, MAGIC + struct.pack("<I", length) + noise)


@FUZZED
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_json_of_strangers_is_no_document_header_or_invitation(sealed, value):
    text = json.dumps(value)
    for read in (Study.read, Invitation.read):
        with pytest.raises(InvalidArgument):
            read(text)
    with pytest.raises(TacitError):
        taken(sealed[0], frame(text.encode(), b""))


@FUZZED
@given(st.binary(max_size=300))
def test_requests_of_strangers_are_one_refusal(noise):
    with pytest.raises(InvalidArgument, match="P-256"):
        read_request(noise)
    wrapped = b"-----BEGIN CERTIFICATE REQUEST-----\n" + noise.hex().encode()
    with pytest.raises(InvalidArgument, match="P-256"):
        read_request(wrapped + b"\n-----END CERTIFICATE REQUEST-----\n")


def test_lengths_are_the_same_whatever_is_answered(sealed):
    study, body = sealed
    site = study.site("site-0")
    for counts in (np.tile([2, 0, 0], (6, 1)), np.tile([0, 1, 1], (6, 1))):
        other = seal_answers(study, site, counts, SigningKey.generate(), "3" * 32)
        assert len(other) == len(body) == answers_size(study, site)


def test_a_disk_that_is_full_tells_nobody_where_things_are(coordinator):
    told = _refusal(StateUnavailable(f"Cannot use the state in {str(coordinator.folder)!r}"))
    assert told.status_code == 507
    assert str(coordinator.folder).encode() not in told.body
