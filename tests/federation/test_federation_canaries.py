"""No record leaves: canaries are sought in traffic, databases, logs, pages; votes likewise."""

from __future__ import annotations

import base64
import hashlib
import io
import struct

import numpy as np
from network import CLASSES, INPUTS, opened, pass_the_end
from spoiled import Spoiled

from tacit.federation import client, release_study, steward_page
from tacit.federation.messages import read_header

CANARY = 123456.7890625
NAME = "canary-patient-4711"


def traces(value: float, name: str) -> list[bytes]:
    """Every form in which a record might be written down."""
    text = repr(value).encode()
    plain = [text, name.encode(), struct.pack("<d", value), struct.pack(">d", value)]
    plain += [struct.pack("<f", value), struct.pack(">f", value)]
    found = list(plain)
    for each in plain[:2]:
        found += [
            each.hex().encode(),
            base64.b64encode(each)[:-4],
            each.decode().encode("utf-16-le"),
        ]
    return found


def everything_in(folder) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_record_and_no_vote_is_where_it_should_not_be(network, clock, monkeypatch, capfd):
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
    y = np.arange(6) % CLASSES
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
    clock.ahead += study.window.closes - 1 - clock()
    for site in sites:
        site.run_once()
    pass_the_end(clock, study)
    release_study(coordinator, study.hash)
    for site in sites:
        site.run_once()
    uploads = {what: said for what, said in travelled if said in sealed.values()}
    assert len(uploads) == 1  # one path, PUT by each
    others = [(what, said) for what, said in travelled if said not in sealed.values()]
    places = others + [("page", page) for page in pages]
    for party in (coordinator, *sites):
        places += everything_in(party.folder).items()
    out, err = capfd.readouterr()
    places += [("out", out.encode()), ("err", err.encode())]
    for what, said in places:
        for trace in traces(CANARY, NAME):
            assert trace not in said, what
    for site, body in sealed.items():
        for trace in traces(CANARY, NAME):
            assert trace not in body, site.folder
        header, payload = _parts(body)
        secret = [payload, header["digest"].encode(), header["signature"].encode()]
        secret += [bytes.fromhex(header["digest"]), hashlib.sha256(body).hexdigest().encode()]
        for what, said in places:
            assert not any(each in said for each in secret), what
    assert len({len(body) for body in sealed.values()}) == 1


def _parts(body):
    file = io.BytesIO(body)
    return read_header(file), file.read()[-18:]
