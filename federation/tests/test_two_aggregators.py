"""Mode 2 on loopback: shares, lists, locks, sums; one sum a study, whatever happens between."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
from typing import Any

import numpy as np
import pytest
from network import (
    CLASSES,
    QUERIES,
    draft,
    go_on,
    make_aggregator,
    pass_the_end,
    reach_the_last_slot,
    served_aggregator,
)

from tacit.errors import InvalidArgument, NotYet, Refused
from tacit.mechanisms import Plan, SharedCodes, SharedVotes, count_votes
from tacit_federation import (
    SigningKey,
    audit_lines,
    frame_file,
    read_release,
    receiving,
    release_study,
)
from tacit_federation.members import Invitation

TEACHERS = 3000
SIGMA = 4.0


def answers_of(number):
    """All teachers of a site say the same of an input: counts are multiples of 3000."""
    row = np.random.default_rng(number).integers(0, CLASSES, QUERIES)
    return np.tile(row, (TEACHERS, 1))


def total_of(numbers):
    return sum(count_votes(answers_of(number), CLASSES) for number in numbers)


def exact(values):
    """The total without its noise, whose deviation is below 6: whole thousands of votes."""
    return TEACHERS * np.rint(np.asarray(values) / TEACHERS)


@pytest.fixture
def parties(network, tmp_path, clock):
    """A coordinator, two aggregators, and three sites that joined all of them."""
    coordinator, sites = network
    first, second = (make_aggregator(tmp_path / name, clock) for name in ("first", "second"))
    with contextlib.ExitStack() as stack:
        for each in (first, second):
            stack.enter_context(served_aggregator(each))
            each.join(coordinator.invite(f"the-{each.folder.name}", "aggregator"))
            for site in sites:
                site.join(each.invite(site.folder.name))
        first.join(second.invite("the-first", "aggregator"))
        yield coordinator, first, second, sites
        first.close()
        second.close()


def opened(coordinator, first, second, **changes):
    """A study that officer and aggregators have signed, and that is open."""
    told = {"teachers": TEACHERS, "plan": Plan(SharedVotes(SIGMA), QUERIES, n_classes=CLASSES)}
    servers = [coordinator.server(), first.describe("first"), second.describe("second")]
    study = draft(coordinator, **{**told, "servers": servers, **changes})
    coordinator.sign(study.hash, SigningKey.open(coordinator.folder / "officer.key"))
    go_on(first, second, times=0)
    for each in (first, second):
        each.approve(study.hash, hash=study.hash[:8])
    go_on(first, second, times=0)
    coordinator.open(study.hash)
    return study


def answered(sites, clock, study, send=True):
    for number, site in enumerate(sites):
        site.run_once()
        site.approve(study.hash, hash=study.hash[:8])
        site.run_once()
        site.answer(study.hash, answers=answers_of(number))
    if send:
        reach_the_last_slot(clock, study)
        for site in sites:
            site.run_once()


def test_a_study_from_shares_to_a_release(parties, clock):
    coordinator, first, second, sites = parties
    study = opened(coordinator, first, second)
    answered(sites, clock, study)
    assert {site.find(study.hash).state for site in sites} == {"confirmed"}
    assert not list((coordinator.folder / "answers").iterdir())
    assert all(len(list((each.folder / "answers").iterdir())) == 3 for each in (first, second))
    pass_the_end(clock, study)
    go_on(first, second)
    assert {each.find(study.hash)["state"] for each in (first, second)} == {"released"}
    assert not any(list((each.folder / "answers").iterdir()) for each in (first, second))
    found = read_release(study, release_study(coordinator, study.hash))
    assert np.array_equal(exact(found.release), total_of(range(3)))
    assert not np.array_equal(found.release, total_of(range(3)))
    assert found.teachers == 3 * TEACHERS
    assert not found.warnings
    for site in sites:
        site.run_once()
        assert np.array_equal(site.release(study.hash).release, found.release)
        assert "one of the first aggregator at" in str(site.statement())
    for each in (first, second):
        assert len(each.ledger) == 1
        assert "what the other aggregator" in str(each.statement())
        assert each.ledger.spent() == sites[0].ledger.spent()
    assert len(coordinator.ledger) == 0
    again = release_study(coordinator, study.hash)
    go_on(first, second)
    assert release_study(coordinator, study.hash) == again
    assert len(first.ledger) == 1


def test_an_aggregator_pins_the_officers_with_whom_it_joined(parties):
    coordinator, first, _, _ = parties
    with (coordinator.folder / "officers").open("a") as file:
        file.write(f"{SigningKey.generate().public}\n")
    invitation = coordinator.invite("another", "aggregator")
    same_name = dataclasses.replace(Invitation.read(invitation), name="the-first")
    with pytest.raises(Refused, match="officers that were pinned"):
        first.join(same_name.text())


def test_only_sites_that_both_hold_are_in_the_sum(parties, clock):
    """And everybody can see who is: by name, never by what was answered."""
    coordinator, first, second, sites = parties
    study = opened(coordinator, first, second)
    assert set(coordinator.agreed(study.hash)) == {"first", "second"}
    answered(sites, clock, study)
    second.revoke(sites[0].folder.name)
    names = [site.folder.name for site in sites]
    rows = [each.presence(study.hash) for each in (first, second)]
    assert [[row[name]["held"] for name in names] for row in rows] == [
        [True] * 3,
        [False, True, True],
    ]
    assert rows[1][names[0]]["dropped"] == "revoked"
    assert {each["elsewhere"] for row in rows for each in row.values()} == {None}
    there = coordinator.presence(study.hash)
    assert {each["decision"] for each in there.values()} == {"approved"}
    assert not any(each["answered"] for each in there.values())
    pass_the_end(clock, study)
    go_on(first, second)
    row = first.presence(study.hash)
    assert [row[name]["elsewhere"] for name in names] == [False, True, True]
    assert [row[name]["added"] for name in names] == [False, True, True]
    there = coordinator.presence(study.hash)
    assert [there[name]["answered"] for name in names] == [False, True, True]
    found = read_release(study, release_study(coordinator, study.hash))
    assert found.survivors == ("hospital-b", "hospital-c")
    assert np.array_equal(exact(found.release), total_of((1, 2)))


def test_too_few_that_both_hold_is_void_everywhere(parties, clock):
    coordinator, first, second, sites = parties
    study = opened(coordinator, first, second)
    answered(sites, clock, study)
    second.revoke(sites[0].folder.name)
    first.revoke(sites[1].folder.name)
    pass_the_end(clock, study)
    go_on(first, second)
    assert {each.find(study.hash)["state"] for each in (first, second)} == {"void"}
    assert len(first.ledger) == len(second.ledger) == 0
    with pytest.raises(Refused, match="void"):
        release_study(coordinator, study.hash)
    assert not any(list((each.folder / "answers").iterdir()) for each in (first, second))


def test_nothing_opens_before_both_have_signed(parties):
    coordinator, first, second, sites = parties
    told = {"teachers": 2, "plan": Plan(SharedVotes(SIGMA), QUERIES)}
    servers = [coordinator.server(), first.describe("first"), second.describe("second")]
    study = draft(coordinator, servers=servers, **told)
    coordinator.sign(study.hash, SigningKey.open(coordinator.folder / "officer.key"))
    go_on(first, second, times=0)
    first.approve(study.hash, hash=study.hash)
    go_on(first, times=0)
    with pytest.raises(NotYet, match="second"):
        coordinator.open(study.hash)
    with pytest.raises(Refused, match="eight digits"):
        second.approve(study.hash, hash="00000000")
    second.refuse(study.hash)
    with pytest.raises(Refused):
        second.approve(study.hash, hash=study.hash)
    sites[0].run_once()
    assert sites[0].studies() == []


def test_codes_are_added_the_same_way(parties, clock):
    """Two rounds are two studies on one ledger: the second is clipped about the first's release."""
    coordinator, first, second, sites = parties
    mechanism = SharedCodes(0.01, 1.0, 6, joint=QUERIES)
    codes = [np.random.default_rng(n).normal(size=(2, QUERIES, 4)) / 10 for n in range(3)]
    centres: Any = np.zeros((1, 4))
    for number in range(2):
        frame = frame_file(centres, np.ones((1, 4)), (QUERIES, 4))
        about = {"length": 4, "frame": hashlib.sha256(frame).hexdigest()}
        changes = {"classes": None, "codes": about, "plan": Plan(mechanism, 1), "frame": frame}
        study = opened(coordinator, first, second, teachers=2, **changes)
        for site, told in zip(sites, codes, strict=True):
            site.run_once()
            site.approve(study.hash, hash=study.hash)
            site.run_once()
            site.answer(study.hash, answers=told)
        reach_the_last_slot(clock, study)
        for site in sites:
            site.run_once()
        pass_the_end(clock, study)
        go_on(first, second)
        found = read_release(study, release_study(coordinator, study.hash), frame)
        exact = np.concatenate(codes).mean(axis=0)
        off = np.asarray(found.release.values) - exact
        assert np.abs(off).max() < 8 * math.sqrt(2) * 0.01
        assert np.abs(off).max() > 0
        with pytest.raises(InvalidArgument, match="frame"):
            read_release(study, release_study(coordinator, study.hash))
        centres = found.release.values
        assert len(first.ledger) == len(sites[0].ledger) == number + 1


def test_who_may_ask_an_aggregator(parties, clock):
    """Sites bring shares and see nothing; the other aggregator sees no share; lengths are exact."""
    coordinator, first, second, sites = parties
    study = opened(coordinator, first, second)
    answered(sites, clock, study, send=False)
    site, name = sites[0], study.hash
    client = site.client(first.settings.url)
    for kind in ("held", "lock", "sum", "void"):
        with pytest.raises(Refused, match="aggregator"):
            client.ask("GET", f"/studies/{name}/{kind}")
        with pytest.raises(Refused, match="aggregator"):
            client.ask("PUT", f"/studies/{name}/{kind}", b"{}")
    as_first = first.client(second.settings.url)
    with pytest.raises(Refused, match="site"):
        as_first.ask("PUT", f"/studies/{name}/share", b"x")
    bodies = {role: site.sealed(name, role).read_bytes() for role in ("first", "second")}
    asked = site.asked(study.hash)
    assert asked.parcels == {role: len(body) for role, body in bodies.items()}
    wrong = [bodies["first"][:-1], bodies["first"] + b"x", bodies["second"], b""]
    codes = {client.ask("PUT", f"/studies/{name}/share", body).status for body in wrong}
    assert codes <= {411, 413, 422}
    third = make_aggregator(first.folder.parent / "third", clock)  # of other studies than this
    third.join(second.invite("the-third", "aggregator"))
    for kind in ("held", "lock", "sum", "void"):
        for method, body in (("GET", None), ("PUT", b"{}")):
            with pytest.raises(Refused, match="other aggregator of this study"):
                third.client(second.settings.url).ask(method, f"/studies/{name}/{kind}", body)
    third.close()
    swapped = bodies["second"][: -len(bodies["second"])] + bytes(len(bodies["first"]))
    assert client.ask("PUT", f"/studies/{name}/share", swapped).status == 422
    at_coordinator = site.client(coordinator.settings.url)
    code = at_coordinator.ask("PUT", f"/studies/{name}/answers", bodies["first"]).status
    assert code in (413, 422)
    with pytest.raises(Refused, match="aggregator"):
        at_coordinator.ask("PUT", f"/studies/{name}/sum", b"x")
    assert not list((first.folder / "answers").iterdir())
    first.revoke(site.folder.name)
    with pytest.raises(Refused, match="revoked"):
        client.ask("PUT", f"/studies/{name}/share", bodies["first"])


def test_half_a_withdrawal_is_one_and_is_warned_of(parties, clock):
    """The first drops a share, the second has closed with the other: neither adds it up."""
    coordinator, first, second, sites = parties
    study = opened(coordinator, first, second)
    answered(sites, clock, study)
    with second.database.writing() as rows:  # its clock is ahead
        _, held = second._held(rows, second.find(study.hash), [])
        rows.execute("UPDATE studies SET state = 'closed', held = ?", (held,))
    sites[0].withdraw(study.hash)
    assert sites[0].find(study.hash).state == "withdrawn"
    assert any("withdrew" in each for each in sites[0].ledger.statement().warnings)
    assert sites[0].run_once() == []  # everybody was told
    pass_the_end(clock, study)
    go_on(first, second)
    found = read_release(study, release_study(coordinator, study.hash))
    assert found.survivors == ("hospital-b", "hospital-c")
    assert any("withdrew" in each for each in found.warnings)
    sites[0].run_once()


def test_a_release_is_noted_once(parties, clock):
    """Two requests that read the same row: the second one changes nothing, and says nothing."""
    coordinator, first, second, sites = parties
    study = opened(coordinator, first, second)
    answered(sites, clock, study)
    pass_the_end(clock, study)
    go_on(first, second)
    row = coordinator.find(study.hash)
    stale = {**row, "state": "closed", "release": None}
    body = bytes(second.find(study.hash)["sum"])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(receiving, "_shared_study", lambda *_: (study, stale))
        receiving.take_sum(coordinator, study.hash, body)
    lines = [line for line in audit_lines(coordinator.database) if '"released"' in line]
    assert len(lines) == 1


def test_no_share_leaves_for_an_aggregator_whose_log_went_back(parties, clock):
    """Its log is read before a share is sent, and not only at the site's next visit there."""
    coordinator, first, second, sites = parties
    study = opened(coordinator, first, second)
    answered(sites[:1], clock, study, send=False)
    with sites[0].database.writing() as rows:  # as if the site had seen a longer log there
        query = "UPDATE servers SET length = length + 1, head = ? WHERE url = ?"
        rows.execute(query, ("f" * 64, second.settings.url))
    reach_the_last_slot(clock, study)
    with pytest.raises(Refused, match="went back"):
        sites[0].run_once()
    assert not list((second.folder / "answers").iterdir())
    assert sites[0].find(study.hash).state == "sent"
