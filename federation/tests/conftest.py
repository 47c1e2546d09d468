"""Parties of a federation on loopback, in temporary folders."""

from __future__ import annotations

import sys

import pytest
from network import (
    Clock,
    answers_of,
    draft,
    make_aggregator,
    make_coordinator,
    make_site,
    served,
    served_aggregator,
)

from tacit import count_votes
from tacit.cli import main
from tacit_federation import Coordinator, SigningKey, Site
from tacit_federation.certificates import new_request
from tacit_federation.members import ENROLMENT, enrol, new_token
from tacit_federation.messages import seal_answers


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def coordinator(tmp_path, clock):
    made = make_coordinator(tmp_path / "coordinator", clock)
    yield made
    made.close()


@pytest.fixture
def network(coordinator, tmp_path, clock):
    """A coordinator that serves, and three sites that have joined it."""
    with served(coordinator):
        sites = [
            make_site(tmp_path / f"hospital-{name}", coordinator, f"hospital-{name}", clock)
            for name in "abc"
        ]
        yield coordinator, sites
        for site in sites:
            site.close()


@pytest.fixture
def tacit(monkeypatch, capfd, tmp_path, clock):
    """Run a command in this process; return what it printed, having checked its exit code."""
    for kind in (Coordinator, Site):  # commands take the computer's clock, which no test can move
        monkeypatch.setitem(kind.__init__.__kwdefaults__, "clock", clock)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["tacit", *map(str, arguments)])
        capfd.readouterr()
        found = 0
        try:
            main()
        except SystemExit as stop:
            found = int(stop.code or 0)
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        assert found == code, (arguments, out, err)
        return out if found == 0 else err

    return run


@pytest.fixture(params=["coordinator", "aggregator"])
def server(request, tmp_path, clock):
    """A server of either kind, which serves, and a site that has joined it."""
    make, serving = {
        "coordinator": (make_coordinator, served),
        "aggregator": (make_aggregator, served_aggregator),
    }[request.param]
    place = make(tmp_path / request.param, clock)
    with serving(place):
        site = make_site(tmp_path / "hospital-a", place, "hospital-a", clock)
        yield place, site
        site.close()
    place.close()


@pytest.fixture(scope="session")
def sealed(tmp_path_factory):
    """A study of two sites and a body of the first, made without any network."""
    place = make_coordinator(tmp_path_factory.mktemp("sealed") / "coordinator")
    keys = [SigningKey.generate() for _ in range(2)]
    for number, key in enumerate(keys):
        csr = new_request(tmp_path_factory.mktemp("site"), "x").decode()
        token = new_token(place.database, f"site-{number}", "site", place.now())
        request = {"token": token, "csr": csr, "key": key.public}
        request["signature"] = key.sign(ENROLMENT, csr)
        enrol(place.database, place.authority, request, place.now())
    study = draft(place)
    counts = count_votes(answers_of(0), 3)
    body = seal_answers(study, study.site("site-0"), counts, keys[0], "2" * 32)
    place.close()
    return study, body
