"""No record leaves: canaries are sought in traffic, databases, logs, pages; votes likewise."""

from __future__ import annotations

import base64
import hashlib
import io
import struct

import httpx
import numpy as np
from network import INPUTS, only_console, opened, pass_the_end, reach_the_last_slot
from spoiled import Spoiled

from tacit_federation import client, release_study
from tacit_federation.certificates import client_context
from tacit_federation.console import steward_page
from tacit_federation.messages import read_header
from tacit_federation.sessions import set_password

CANARY = 123456.7890625
NAME = "canary-patient-4711"
LABEL = 471_100_815


def traces(value: float, name: str, label: int) -> list[bytes]:
    """Every form in which a record might be written down."""
    words = [repr(value), name, str(label)]
    plain = [word.encode() for word in words]
    plain += [struct.pack(order + kind, value) for order in "<>" for kind in "df"]
    plain += [struct.pack(order + "q", label) for order in "<>"]
    found = [*plain, *(word.encode(f"utf-16-{end}") for word in words for end in ("le", "be"))]
    for each in plain:
        found += [each.hex().encode(), each.hex().upper().encode()]
        if len(each) > 4:  # four bytes are found by chance, in base64
            found += in_base64(each)
    return found


def in_base64(secret: bytes) -> list[bytes]:
    """Return what base64 makes of a secret inside of something longer, wherever it begins."""
    found = []
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + secret)
        begin = -(-8 * before // 6)
        inner = whole[begin : (8 * (before + len(secret))) // 6]
        found += [inner, inner.translate(bytes.maketrans(b"+/", b"-_"))]
    return found


def test_the_search_finds_what_is_there():
    secret = f"before {NAME} after".encode()
    forms = traces(CANARY, NAME, LABEL)
    for start in range(3):
        assert any(each in base64.b64encode(secret[start:]) for each in forms)
    array = np.array([1.0, CANARY])
    for kept in (array, array.astype(">f8"), array.astype("f4"), np.array([LABEL], dtype=">i8")):
        assert any(each in kept.tobytes() for each in forms)
    assert not any(each in b"nothing of the kind" for each in forms)


def everything_in(folder) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_record_and_no_vote_is_where_it_should_not_be(
    network, clock, monkeypatch, capfd, caplog
):
    coordinator, sites = network
    travelled: list[tuple[str, bytes]] = []
    ask = client.Client.ask

    def overheard(self, method, path, body=None, most=client.MOST_REPLY, more=None):
        reply = ask(self, method, path, body, most, more or {})
        travelled.append((f"{method} {path}", body or b""))
        travelled.append((f"reply to {method} {path}", reply.body))
        return reply

    monkeypatch.setattr(client.Client, "ask", overheard)
    study = opened(coordinator)
    X = np.full((6, INPUTS.shape[1]), CANARY)
    y = np.full(6, LABEL)
    pages = []
    for number, site in enumerate(sites):
        site.run_once()
        site.approve(study.hash, hash=study.hash)
        groups = [f"{NAME}-{place}" for place in range(6)]
        if number:
            site.answer(study.hash, answers=np.full((2, 6), number))
        else:
            site.answer(study.hash, teacher=Spoiled(), X=X, y=y, groups=groups)
        pages.append(steward_page(site.asked(study.hash), site.find(study.hash)).encode())
    sealed = {site: site.sealed(study.hash, "coordinator").read_bytes() for site in sites}
    reach_the_last_slot(clock, study)
    for site in sites:
        site.run_once()
    pass_the_end(clock, study)
    release_study(coordinator, study.hash)
    for site in sites:
        site.run_once()
    uploads = {what: said for what, said in travelled if said in sealed.values()}
    assert len(uploads) == 1  # one path, PUT by each
    others = [(what, said) for what, said in travelled if said not in sealed.values()]
    places = others + [("page", page) for page in pages + console_pages(coordinator, study.hash)]
    for party in (coordinator, *sites):
        places += everything_in(party.folder).items()
    out, err = capfd.readouterr()
    places += [("out", out.encode()), ("err", err.encode()), ("log", caplog.text.encode())]
    forms = traces(CANARY, NAME, LABEL)
    for what, said in places:
        for trace in forms:
            assert trace not in said, what
    for site, body in sealed.items():
        for trace in forms:
            assert trace not in body, site.folder
        header, payload = _parts(body)
        secret = [payload, header["digest"].encode(), header["signature"].encode()]
        secret += [bytes.fromhex(header["digest"]), hashlib.sha256(body).hexdigest().encode()]
        for what, said in places:
            assert not any(each in said for each in secret), what
    assert len({len(body) for body in sealed.values()}) == 1


def console_pages(coordinator, name) -> list[bytes]:
    """Every page that an officer can see."""
    word = "correct horse battery staple"
    set_password(coordinator.database, "ada", "officer", word)
    paths = ("/", "/sites", "/log", "/statement", "/report.html", f"/studies/{name}")
    context = client_context(coordinator.authority.pem, None)
    with (
        only_console(coordinator) as base,
        httpx.Client(verify=context, trust_env=False, base_url=base) as http,
    ):
        who = {"name": "ada", "password": word}
        assert http.post("/login", data=who, headers={"Origin": base}).status_code == 303
        replies = [http.get(path) for path in paths]
    assert [reply.status_code for reply in replies] == [200] * len(paths)
    return [reply.content for reply in replies]


def _parts(body):
    file = io.BytesIO(body)
    return read_header(file), file.read()[-18:]
