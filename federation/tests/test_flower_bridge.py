"""The bridge to Flower: the same requests and sealed bytes, over somebody else's connections."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from network import (
    answers_of,
    make_site,
    opened,
    pass_the_end,
    reach_the_last_slot,
    served,
    state_of,
)

from tacit import count_votes
from tacit_federation import read_release, release_study
from tacit_federation.messages import MAGIC

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower_bridge"


@pytest.fixture
def bridge(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield importlib.import_module("tacit_bridge.tunnel")
    for name in [each for each in sys.modules if each.startswith("tacit_bridge")]:
        del sys.modules[name]


@pytest.fixture
def hospitals(coordinator, tmp_path, clock):
    """Two sites that have joined; from then on nobody listens on any port."""
    with served(coordinator):
        sites = [make_site(tmp_path / n, coordinator, f"hospital-{n}", clock) for n in "ab"]
    yield coordinator, sites
    for site in sites:
        site.close()


def carried(desk, ends, most=30):
    """Carry letters until nobody asks any more; return what was asked."""
    asked, answers = [], {}
    for _ in range(most):
        for node, end in enumerate(ends):
            letter = end.take(desk.next_letter(node, answers.get(node)))
            answers[node] = desk.take(node, letter)
            if letter["asked"]:
                asked.append((node, letter))
        if not any(answers.values()):
            return asked
    return pytest.fail("they never stopped asking")


def opened_ends(bridge, sites, clock):
    ends = [bridge.AtTheSite(site.folder) for site in sites]
    for end in ends:
        end.site.clock = clock
    return ends


def test_a_study_goes_through_a_tunnel_as_it_goes_over_https(bridge, hospitals, clock):
    coordinator, sites = hospitals
    study = opened(coordinator)
    desk, ends = bridge.AtTheCoordinator(coordinator), opened_ends(bridge, sites, clock)
    carried(desk, ends)
    for number, site in enumerate(sites):
        site.approve(study.hash, hash=study.hash[:8])  # the inputs have come as well
        site.answer(study.hash, answers=answers_of(number))
    sealed = {site.sealed(study.hash, "coordinator").read_bytes() for site in sites}
    told = carried(desk, ends)
    assert not any(letter["body"].startswith(MAGIC) for _, letter in told)  # not its slot yet
    reach_the_last_slot(clock, study)
    told = carried(desk, ends)
    assert {body for _, each in told if (body := each["body"]).startswith(MAGIC)} == sealed
    assert {site.find(study.hash).state for site in sites} == {"confirmed"}
    pass_the_end(clock, study)
    release_study(coordinator, study.hash)
    carried(desk, ends)
    for number, (site, end) in enumerate(zip(sites, ends, strict=True)):
        assert site.find(study.hash).released, number
        assert not list((site.folder / "tunnel").iterdir())
        end.close()
    found = read_release(study, release_study(coordinator, study.hash))
    expected = sum(count_votes(answers_of(number), 3) for number in range(2))
    assert np.array_equal(np.asarray(found.release), expected)


def test_nobody_asks_for_another(bridge, hospitals, clock):
    """A request is the member's whose key has signed it, once, as an answer to one letter."""
    coordinator, sites = hospitals
    opened(coordinator)
    desk, (first, second) = (
        bridge.AtTheCoordinator(coordinator),
        opened_ends(bridge, sites, clock),
    )
    letter = first.take(desk.next_letter(0))
    other = second.take(desk.next_letter(1))
    before = state_of(coordinator)
    for wrong in (
        {**letter, "key": other["key"]},
        {**letter, "signature": other["signature"]},
        {**letter, "told": other["told"].replace("seen=0", "seen=1")},
        {**letter, "body": b"x"},
        {**letter, "told": "["},
        {"asked": "x"},
    ):
        desk.next_letter(0)
        assert desk.take(0, wrong)["reply"].startswith(b"403")
    letter = first.take(desk.next_letter(0))
    assert desk.take(0, letter)["reply"].startswith(b"200")
    assert desk.take(0, letter)["reply"].startswith(b"403")  # a second time
    coordinator.revoke("hospital-a")
    letter = first.take(desk.next_letter(0))
    assert desk.take(0, letter)["reply"].startswith(b"403")
    desk.next_letter(0)
    assert [row["revoked"] for row in before[0][0]] == [None, None]
    for end in (first, second):
        end.close()


class Enough(Exception):
    """The test has seen what it wants to see."""


def test_letters_travel_in_messages_of_flower(bridge, hospitals, clock, monkeypatch):
    app = pytest.importorskip("flwr.app")
    client = importlib.import_module("tacit_bridge.client_app")
    server = importlib.import_module("tacit_bridge.server_app")
    # Flower sets who it is in the process of a task; here is none.
    task = pytest.importorskip("flwr.supercore.task_identity").TaskIdentity
    for name, number in (("_run_id", 1), ("_task_id", 1), ("_node_id", 1)):
        monkeypatch.setattr(task, name, number)
    coordinator, sites = hospitals
    study = opened(coordinator)
    monkeypatch.setitem(bridge.Site.__init__.__kwdefaults__, "clock", clock)

    class Grid:
        """Both ends in this process; everything between them is a message, twenty times."""

        left = 20

        def get_node_ids(self):
            return [11, 12]

        def send_and_receive(self, messages, *, timeout=None):
            self.left -= 1
            if not self.left:
                raise Enough
            for message in messages:
                node = message.metadata.dst_node_id
                where = {"tacit-site": str(sites[node - 11].folder)}
                context = app.Context(1, node, where, app.RecordDict(), {})
                yield client.app(message, context)

    with pytest.raises(Enough):
        server.carry(Grid(), coordinator, 600.0, pause=0.0)
    for number, site in enumerate(sites):
        site.approve(study.hash, hash=study.hash[:8])
        site.answer(study.hash, answers=answers_of(number))
    reach_the_last_slot(clock, study)
    with pytest.raises(Enough):
        server.carry(Grid(), coordinator, 600.0, pause=0.0)
    assert {site.find(study.hash).state for site in sites} == {"confirmed"}
