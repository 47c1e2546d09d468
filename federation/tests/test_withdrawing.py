"""Withdrawals and decisions: told whenever they come, never in time for a sum that is closed."""

from __future__ import annotations

import pytest
from network import (
    answers_of,
    confirmed,
    make_site,
    opened,
    pass_the_end,
    reach_the_last_slot,
    served,
)

from tacit.errors import NotYet, Refused, Unreachable
from tacit_federation import Site, audit_lines, read_release, release_study
from tacit_federation.messages import APPROVAL, signed


def approved(site, study, *, answered=False):
    site.run_once()
    site.approve(study.hash, hash=study.hash)
    site.run_once()
    if answered:
        site.answer(study.hash, answers=answers_of(0))


@pytest.mark.parametrize("answered", [False, True], ids=["approved", "sealed"])
def test_a_withdrawal_before_sending_is_told_and_warned_of(network, clock, answered):
    coordinator, sites = network
    study = opened(coordinator)
    approved(sites[0], study, answered=answered)
    sites[0].withdraw(study.hash)
    assert coordinator.presence(study.hash)["hospital-a"]["dropped"] == "withdrawn"
    assert not list((sites[0].folder / "sealed").iterdir())
    confirmed(coordinator, sites[1:], clock, study)
    sites[0].run_once()
    assert sites[0].find(study.hash).state == "withdrawn"
    pass_the_end(clock, study)
    found = read_release(study, release_study(coordinator, study.hash))
    assert found.survivors == ("hospital-b", "hospital-c")
    for warnings in (
        found.warnings,
        coordinator.statement().warnings,
        coordinator.ledger.statement().warnings,
        sites[0].statement().warnings,
        sites[0].ledger.statement().warnings,
    ):
        assert sum("withdrew" in each for each in warnings) == 1
    assert not any("withdrew" in each for each in sites[1].statement().warnings)


def test_a_server_that_is_away_is_told_of_a_withdrawal_later(coordinator, tmp_path, clock):
    with served(coordinator):
        site = make_site(tmp_path / "a", coordinator, "hospital-a", clock)
        other = make_site(tmp_path / "b", coordinator, "hospital-b", clock)
        study = opened(coordinator)
        approved(site, study, answered=True)
    site.withdraw(study.hash)  # nobody listens
    assert site.find(study.hash).state == "withdrawn"
    assert coordinator.presence(study.hash)["hospital-a"]["dropped"] is None
    site.withdraw(study.hash)  # a second time changes nothing
    pass_the_end(clock, study)
    with served(coordinator):
        again = Site(site.folder, clock=clock)
        assert any("withdrawn" in line for line in again.run_once())
        assert again.run_once() == []
        again.close()
    assert coordinator.presence(study.hash)["hospital-a"]["dropped"] == "withdrawn"
    events = [line for line in audit_lines(coordinator.database) if '"withdrawn"' in line]
    assert len(events) == 1
    site.close()
    other.close()


def test_who_withdrew_sends_nothing_any_more(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    approved(sites[0], study, answered=True)
    body = sites[0].sealed(study.hash, "coordinator").read_bytes()
    client = sites[0].client(coordinator.settings.url)
    assert client.ask("DELETE", f"/studies/{study.hash}/answers").status == 200
    clock.ahead += 3000
    assert client.ask("PUT", f"/studies/{study.hash}/answers", body).status == 409
    assert not coordinator.presence(study.hash)["hospital-a"]["answered"]
    sites[0].hang_up()


def test_a_study_that_nobody_is_left_to_answer_closes_early(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    for site in sites:
        approved(site, study)
        site.withdraw(study.hash)
    assert coordinator.find(study.hash)["closes"] <= clock() + study.window.slot_seconds


def test_what_was_never_approved_cannot_be_withdrawn(network):
    coordinator, sites = network
    study = opened(coordinator)
    sites[0].run_once()
    with pytest.raises(Refused, match="approved: this one is seen"):
        sites[0].withdraw(study.hash)
    assert len(sites[0].ledger) == 0


def test_no_decision_is_taken_after_closing(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    for site in sites:
        site.run_once()
    sites[2].approve(study.hash, hash=study.hash)
    pass_the_end(clock, study)
    client = sites[0].client(coordinator.settings.url)
    for number, decision in enumerate(("approved", "refused")):
        name = f"hospital-{'ab'[number]}"
        said = {"study": study.hash, "site": name, "decision": decision}
        note = signed(sites[number].key, APPROVAL, said)
        client = sites[number].client(coordinator.settings.url)
        assert client.ask("PUT", f"/studies/{study.hash}/approval", note).status == 410
        sites[number].hang_up()
    with pytest.raises(Refused, match="has closed"):
        sites[0].approve(study.hash, hash=study.hash)
    coordinator.tick()
    sites[2].run_once()
    assert sites[2].find(study.hash).state == "absent"
    assert all(each["decision"] is None for each in coordinator.presence(study.hash).values())
    assert [len(site.ledger) for site in sites] == [0, 0, 1]


def test_nothing_is_sent_before_the_approval_is_known(network, clock, monkeypatch):
    """A server that had no room for the approval must not make the site absent."""
    coordinator, sites = network
    study = opened(coordinator)
    site = sites[0]
    site.run_once()
    site.approve(study.hash, hash=study.hash)
    site.answer(study.hash, answers=answers_of(0))
    reach_the_last_slot(clock, study)
    from tacit_federation import service

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(service, "keep_decision", full)
        site.run_once()
    assert site.find(study.hash).state == "sealed"
    site.run_once()
    assert site.find(study.hash).state == "confirmed"


def test_who_withdraws_while_it_is_sent_is_told_to_do_it_again(network, monkeypatch):
    coordinator, sites = network
    study = opened(coordinator)
    approved(sites[0], study, answered=True)
    before = sites[0].find(study.hash)
    sites[0].move(study.hash, "sent")
    monkeypatch.setattr(sites[0], "find", lambda _: before)
    with pytest.raises(NotYet, match="again"):
        sites[0].withdraw(study.hash)


def test_what_was_asked_too_late_stays_and_is_warned_of_once(network, clock):
    """The ledger says so before any server is asked: whoever is killed in between has said it."""
    coordinator, sites = network
    study = opened(coordinator)
    confirmed(coordinator, sites, clock, study)
    pass_the_end(clock, study)
    coordinator.tick()
    for _ in range(2):
        with pytest.raises(Refused, match="answers stay"):
            sites[0].withdraw(study.hash)
    assert sites[0].find(study.hash).state == "confirmed"
    assert [entry.kind for entry in sites[0].ledger.entries()] == ["charge", "publication"]
    assert sum("asked to" in each for each in sites[0].statement().warnings) == 1
    release_study(coordinator, study.hash)
    sites[1].run_once()  # it knows that it is too late, and asks nobody
    with pytest.raises(Refused, match="is released"):
        sites[1].withdraw(study.hash)
    assert [entry.kind for entry in sites[1].ledger.entries()] == ["charge"]


def test_a_withdrawal_that_reached_nobody_is_warned_of_and_tried_again(
    coordinator, tmp_path, clock
):
    with served(coordinator):
        sites = [make_site(tmp_path / n, coordinator, f"hospital-{n}", clock) for n in "ab"]
        study = opened(coordinator)
        confirmed(coordinator, sites, clock, study)
    for _ in range(2):
        with pytest.raises(Unreachable):
            sites[0].withdraw(study.hash)
    assert sites[0].find(study.hash).state == "confirmed"
    assert any("withdrew" in each for each in sites[0].ledger.statement().warnings)
    with served(coordinator):
        sites[0].withdraw(study.hash)
    assert sites[0].find(study.hash).state == "withdrawn"
    assert [entry.kind for entry in sites[0].ledger.entries()] == ["charge", "publication"]
    for site in sites:
        site.close()
