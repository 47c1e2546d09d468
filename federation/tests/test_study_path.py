"""The whole path over TLS: enrol, approve, answer, send, close, release, check."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from network import (
    CLASSES,
    QUERIES,
    answers_of,
    confirmed,
    draft,
    opened,
    pass_the_end,
    reach_the_last_slot,
    sealed_body,
)
from scipy.stats import norm

from tacit import count_votes
from tacit.errors import BudgetExceeded, InvalidArgument, NotYet, Refused, TacitError
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import NoisyVotes, Plan
from tacit_federation import (
    Coordinator,
    SigningKey,
    Site,
    Window,
    audit_lines,
    read_release,
    receiving,
    release_study,
    releasing,
    sealing,
    server_folder,
    visiting,
)
from tacit_federation.database import StateUnavailable
from tacit_federation.messages import seal_answers


def sum_of(*numbers):
    return sum(count_votes(answers_of(number), CLASSES) for number in numbers)


def test_three_sites_answer_and_the_sum_is_released_once(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    with pytest.raises(NotYet):
        release_study(coordinator, study.hash)
    confirmed(coordinator, sites, clock, study)
    assert {site.find(study.hash).state for site in sites} == {"confirmed"}
    pass_the_end(clock, study)
    stored = release_study(coordinator, study.hash)
    assert release_study(coordinator, study.hash) == stored
    assert len(coordinator.ledger) == 1
    found = read_release(study, stored)
    assert found.survivors == ("hospital-a", "hospital-b", "hospital-c")
    assert np.array_equal(np.asarray(found.release), sum_of(0, 1, 2))
    assert not list((coordinator.folder / "answers").iterdir())
    for site in sites:
        site.run_once()
        assert np.array_equal(np.asarray(site.release(study.hash).release), sum_of(0, 1, 2))
        assert len(site.ledger) == 1
        assert not list((site.folder / "sealed").iterdir())
    events = [
        line.split('"event":"')[1].split('"')[0] for line in audit_lines(coordinator.database)
    ]
    assert sorted(events[-8:-2]) == 3 * ["answered"] + 3 * ["approved"]
    assert events[-2:] == ["closed", "released"]


def test_an_absent_site_counts_as_nothing(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    confirmed(coordinator, sites[1:], clock, study)
    pass_the_end(clock, study)
    found = read_release(study, release_study(coordinator, study.hash))
    assert found.survivors == ("hospital-b", "hospital-c")
    assert found.teachers == 4
    assert np.array_equal(np.asarray(found.release), sum_of(0, 1))
    sites[0].run_once()
    sites[0].run_once()
    assert sites[0].studies() == []  # it closed before this site ever saw it
    assert len(sites[0].ledger) == 0


def test_a_missed_quorum_starts_an_extension_and_ends_void(network, clock):
    coordinator, sites = network
    now = int(clock())
    study = opened(coordinator, window=Window(now - 1, now + 100, 1, (now + 200,)))
    confirmed(coordinator, sites[:1], clock, study)
    pass_the_end(clock, study)
    coordinator.tick()
    assert coordinator.find(study.hash)["closes"] == now + 200
    assert coordinator.find(study.hash)["state"] == "open"
    clock.ahead += 150
    with pytest.raises(Refused, match="void"):
        release_study(coordinator, study.hash)
    assert not list((coordinator.folder / "answers").iterdir())
    assert len(coordinator.ledger) == 0
    assert len(sites[0].ledger) == 1  # the answers had left


def test_a_quorum_in_the_extension_is_enough(network, clock):
    coordinator, sites = network
    now = int(clock())
    study = opened(coordinator, window=Window(now - 1, now + 100, 1, (now + 400,)))
    confirmed(coordinator, sites[:1], clock, study)
    sites[1].run_once()
    sites[1].approve(study.hash, hash=study.hash)
    pass_the_end(clock, study)
    coordinator.tick()
    sites[1].run_once()
    sites[1].answer(study.hash, answers=answers_of(1))
    clock.ahead += now + 399 - clock()
    sites[1].run_once()
    clock.ahead += 10
    found = read_release(study, release_study(coordinator, study.hash))
    assert found.survivors == ("hospital-a", "hospital-b")


def test_a_study_that_all_have_answered_closes_at_the_next_slot(network, clock, monkeypatch):
    coordinator, sites = network
    early = SimpleNamespace(randbelow=lambda _: 0)  # the first slot for everybody
    monkeypatch.setattr("tacit_federation.approval.secrets", early)
    now = int(clock())
    study = opened(coordinator, window=Window(now - 1, now + 3600, 10))
    for number, site in enumerate(sites[:2]):
        site.run_once()
        site.approve(study.hash, hash=study.hash)
        site.answer(study.hash, answers=answers_of(number))
    sites[2].run_once()
    sites[2].refuse(study.hash)
    sites[2].run_once()
    clock.ahead += 1801
    for site in sites[:2]:
        site.run_once()
    assert coordinator.find(study.hash)["closes"] <= clock() + 10
    assert len(sites[2].ledger) == 0


def test_a_withdrawal_is_warned_of_for_ever(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    confirmed(coordinator, sites, clock, study)
    sites[0].withdraw(study.hash)
    pass_the_end(clock, study)
    found = read_release(study, release_study(coordinator, study.hash))
    assert found.survivors == ("hospital-b", "hospital-c")
    assert np.array_equal(np.asarray(found.release), sum_of(1, 2))
    assert any("withdrew" in each for each in found.warnings)
    assert any("withdrew" in each for each in coordinator.ledger.statement().warnings)
    assert any("withdrew" in each for each in sites[0].statement().warnings)
    assert [entry.kind for entry in sites[0].ledger.entries()] == ["charge", "publication"]
    with pytest.raises(TacitError):
        sites[1].withdraw(study.hash)
    assert sites[1].find(study.hash).state == "confirmed"


def test_of_racing_releases_one_draws_and_both_report_the_same(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    confirmed(coordinator, sites, clock, study)
    pass_the_end(clock, study)
    told = []

    def race():
        other = Coordinator(coordinator.folder, clock=clock)
        told.append(release_study(other, study.hash))
        other.close()

    racers = [threading.Thread(target=race) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert len(told) == 4
    assert len(set(told)) == 1
    assert len(coordinator.ledger) == 1


def test_a_crash_between_entry_and_release_needs_a_new_entry(network, clock, monkeypatch):
    coordinator, sites = network
    study = opened(coordinator)
    confirmed(coordinator, sites, clock, study)
    pass_the_end(clock, study)

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(releasing, "_stored", dies)
        with pytest.raises(KeyboardInterrupt):
            release_study(coordinator, study.hash)
    assert coordinator.find(study.hash)["state"] == "closed"
    assert coordinator.find(study.hash)["release"] is None
    release_study(coordinator, study.hash)
    assert len(coordinator.ledger) == 2


def test_a_full_disk_costs_no_entry(network, clock, monkeypatch):
    coordinator, sites = network
    study = opened(coordinator)
    confirmed(coordinator, sites, clock, study)
    pass_the_end(clock, study)
    coordinator.tick()
    room = 2 * 8 * study.shape[0] * study.shape[1]  # not enough for what stands beside

    def full(path, size):
        if size > room:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(server_folder, "_fill", full)
        for _ in range(3):
            with pytest.raises(StateUnavailable, match="No space"):
                release_study(coordinator, study.hash)
    assert len(coordinator.ledger) == 0
    release_study(coordinator, study.hash)
    assert len(coordinator.ledger) == 1
    assert not list((coordinator.folder / "uploads").iterdir())


def test_a_release_that_is_longer_than_the_study_allows_is_not_read(network, clock, monkeypatch):
    coordinator, sites = network
    study = opened(coordinator)
    confirmed(coordinator, sites, clock, study)
    pass_the_end(clock, study)
    stored = release_study(coordinator, study.hash)
    most = releasing.most_of_release(study)
    assert len(stored) < most < 10 << 20
    monkeypatch.setattr(visiting, "most_of_release", lambda _: len(stored) - 1)
    with pytest.raises(Refused, match="size"):
        sites[0].run_once()
    monkeypatch.undo()
    sites[0].run_once()
    assert sites[0].find(study.hash).released


def test_nothing_that_ended_is_changed_again(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    confirmed(coordinator, sites, clock, study)
    pass_the_end(clock, study)
    release_study(coordinator, study.hash)
    for change in (
        "UPDATE studies SET state = 'open'",
        "UPDATE studies SET release = x'00'",
        "UPDATE studies SET survivors = '[]'",
        "UPDATE answers SET sharing = 'x'",
        "DELETE FROM audit",
        "UPDATE audit SET line = 'x'",
        "DELETE FROM approvals",
    ):
        with pytest.raises(StateUnavailable), coordinator.database.writing() as rows:
            rows.execute(change)
    for change in ("UPDATE studies SET state = 'seen'", "UPDATE studies SET sharing = 'x'"):
        with pytest.raises(StateUnavailable), sites[0].database.writing() as rows:
            rows.execute(change)


def test_a_clock_that_is_set_back_reopens_nothing(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    confirmed(coordinator, sites[1:], clock, study)
    pass_the_end(clock, study)
    coordinator.tick()
    clock.ahead -= 7200
    coordinator.tick()
    assert coordinator.find(study.hash)["state"] == "closed"
    assert coordinator.now() > study.window.closes
    again = Coordinator(coordinator.folder, clock=clock)  # nor does a restart
    assert again.now() > study.window.closes
    again.close()
    body = seal_answers(study, study.sites[0], sum_of(5), sites[0].key, "1" * 32)
    path = f"/studies/{study.hash}/answers"
    assert sites[0].client(coordinator.settings.url).ask("PUT", path, body).status == 410
    sites[0].hang_up()
    release_study(coordinator, study.hash)
    assert len(coordinator.ledger) == 1


def test_statements_say_what_was_reckoned_by_hand(network, clock):
    """Each site pays for its own studies, the coordinator for all: mu^2 = 2 Q / sigma^2 adds up."""
    coordinator, sites = network
    plan = Plan(NoisyVotes(10.0), QUERIES, n_classes=CLASSES)
    one = opened(coordinator, plan=plan)
    other = opened(coordinator, plan=plan, title="another study")
    for site in sites:
        site.run_once()
        site.approve(one.hash, hash=one.hash)
    sites[0].approve(other.hash, hash=other.hash)
    confirmed(coordinator, sites[1:], clock, one)
    pass_the_end(clock, one)
    release_study(coordinator, one.hash)
    for place, studies in ((sites[0], 2), (sites[1], 1), (coordinator, 1)):
        mu, said = math.sqrt(studies * 2 * QUERIES) / 10.0, place.statement()
        exact = norm.cdf(mu / 2 - said.epsilon / mu)
        exact -= math.exp(said.epsilon) * norm.cdf(-mu / 2 - said.epsilon / mu)
        assert exact == pytest.approx(place.ledger.usable_delta, rel=1e-2)
        assert exact <= said.delta


def test_a_server_that_went_back_is_refused(network, clock, tmp_path):
    coordinator, sites = network
    study = opened(coordinator)
    sites[0].run_once()
    with sites[0].database.writing() as rows:  # as if the site had seen a longer log
        rows.execute("UPDATE servers SET length = length + 1, head = ?", ("f" * 64,))
    with pytest.raises(Refused, match="went back"):
        sites[0].run_once()
    assert study.hash


def test_a_site_is_charged_once_whatever_it_asks(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    site = sites[0]
    site.run_once()
    for wrong in ("", study.hash[:7], "0" * 8 if study.hash[0] != "0" else "1" * 8):
        with pytest.raises(Refused):
            site.approve(study.hash, hash=wrong)
    assert len(site.ledger) == 0
    for _ in range(3):
        site.approve(study.hash, hash=study.hash[:8])
    again = Site.open(site.folder)
    again.approve(study.hash, hash=study.hash[:8])
    again.close()
    assert len(site.ledger) == 1
    statement = str(site.statement())
    assert "drew the noise of entry 1" in statement
    assert "for reasons that have nothing to do with its records" in statement
    with pytest.raises(Refused, match="withdraw it"):
        site.refuse(study.hash)


def test_a_crash_between_charge_and_approval_charges_nothing_more(network, monkeypatch):
    coordinator, sites = network
    study = opened(coordinator)
    site = sites[0]
    site.run_once()

    def dies(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Site, "move", dies)
        with pytest.raises(KeyboardInterrupt):
            site.approve(study.hash, hash=study.hash)
    assert (site.find(study.hash).state, len(site.ledger)) == ("seen", 1)
    site.approve(study.hash, hash=study.hash)
    assert (site.find(study.hash).state, len(site.ledger)) == ("approved", 1)


def test_a_sites_ledger_refuses_on_its_own(network, tmp_path, clock):
    coordinator, sites = network
    study = opened(coordinator)
    site = sites[0]
    site.run_once()
    (site.folder / "site.ledger").unlink()
    site.ledger = Ledger(site.folder / "site.ledger", budget=Budget(1.0, 1e-6), unit="patient")
    assert not site.asked(study.hash).fits
    with pytest.raises(BudgetExceeded, match="Nothing was spent"):
        site.approve(study.hash, hash=study.hash)
    assert site.find(study.hash).state == "seen"


def test_what_was_sealed_is_sent_as_it_was_after_a_crash(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    site = sites[0]
    site.run_once()
    site.approve(study.hash, hash=study.hash)
    site.answer(study.hash, answers=answers_of(0))
    body = site.sealed(study.hash, "coordinator").read_bytes()
    site.answer(study.hash, answers=answers_of(1))  # too late: what is sealed stays
    assert site.sealed(study.hash, "coordinator").read_bytes() == body
    site.move(study.hash, "sent")  # killed after the bytes may have left
    again = Site(site.folder, clock=clock)
    reach_the_last_slot(clock, study)
    again.run_once()
    assert again.find(study.hash).state == "confirmed"
    again.close()


def test_before_its_slot_nothing_leaves(network, clock):
    coordinator, sites = network
    study = opened(coordinator)
    site = sites[0]
    site.run_once()
    site.approve(study.hash, hash=study.hash)
    site.answer(study.hash, answers=answers_of(0))
    site.run_once()
    assert site.find(study.hash).state == "sealed"
    assert coordinator.presence(study.hash)["hospital-a"]["decision"] == "approved"
    send_at = site.find(study.hash).send_at
    middle = (study.window.opens + study.window.closes) / 2
    assert middle - 1 <= send_at < study.window.closes


def test_answers_of_a_wrong_shape_are_refused_and_wrong_values_are_class_0(network):
    coordinator, sites = network
    study = opened(coordinator)
    site = sites[0]
    site.run_once()
    with pytest.raises(NotYet, match="approved"):
        site.answer(study.hash, answers=answers_of(0))
    site.approve(study.hash, hash=study.hash)
    for wrong in (answers_of(0)[:1], answers_of(0)[:, :3], 7, None):
        with pytest.raises(InvalidArgument):
            site.answer(study.hash, answers=wrong)
    odd = answers_of(0)
    odd[1, 2] = CLASSES
    site.answer(study.hash, answers=odd)
    assert site.find(study.hash).state == "sealed"


def test_a_study_is_opened_only_signed_and_within_the_budget(coordinator, network):
    study = draft(coordinator)
    with pytest.raises(NotYet, match="signed"):
        coordinator.open(study.hash)
    with pytest.raises(Refused, match="officers"):
        coordinator.sign(study.hash, SigningKey.generate())
    assert coordinator.find(study.hash)["state"] == "draft"


def test_one_upload_twice_at_once_neither_replaces_nor_removes_the_answer(network, monkeypatch):
    coordinator, sites = network
    study = opened(coordinator)
    body = sealed_body(sites[0], study)
    uploads = [coordinator.folder / "uploads" / name for name in ("first", "second")]
    for path in uploads:
        path.write_bytes(body)
    member = {"id": "hospital-a"}
    code, receipt = receiving.take_answers(coordinator, study.hash, member, uploads[0])
    assert code == 201
    kept = receiving.receipt_of
    late = iter([None])  # the second looked before the first was on record
    monkeypatch.setattr(receiving, "receipt_of", lambda *told: next(late, kept(*told)))
    assert receiving.take_answers(coordinator, study.hash, member, uploads[1]) == (200, receipt)
    (file,) = (coordinator.folder / "answers").iterdir()
    assert file.read_bytes() == body
    uploads[1].unlink()


def test_rows_of_nobody_are_refused_where_patients_are_counted(network):
    coordinator, sites = network
    study = opened(coordinator)
    sites[0].run_once()
    sites[0].approve(study.hash, hash=study.hash)
    with pytest.raises(InvalidArgument, match="Expected groups="):
        sites[0].answer(study.hash, teacher=object(), X=np.zeros((4, 2)), y=np.zeros(4, int))
    assert sites[0].find(study.hash).state == "approved"


def test_the_slot_does_not_tell_how_long_teachers_took(network, clock, monkeypatch):
    coordinator, sites = network
    study = opened(coordinator)
    site = sites[0]
    site.run_once()
    site.approve(study.hash, hash=study.hash)
    site.move(study.hash, "approved", send_at=int(clock()) + 10)
    begun, drawn = clock(), []

    def slowly(*_, **__):
        drawn.append(site.find(study.hash).send_at)
        clock.ahead += 100
        return answers_of(0)

    monkeypatch.setattr(sealing, "ask_teachers", slowly)
    rows = {"X": np.zeros((4, 2)), "y": np.zeros(4, int), "groups": range(4)}
    site.answer(study.hash, teacher=object(), **rows)
    assert site.find(study.hash).send_at == drawn[0]
    assert drawn[0] >= begun + 3 * 45  # two teachers and a rehearsal, as long as they may take


def test_what_was_sealed_never_leaves_for_a_study_that_has_ended(network, clock, monkeypatch):
    coordinator, sites = network
    study = opened(coordinator)
    confirmed(coordinator, sites[:2], clock, study)
    site = sites[2]
    site.run_once()
    site.approve(study.hash, hash=study.hash)
    site.answer(study.hash, answers=answers_of(2))
    pass_the_end(clock, study)
    release_study(coordinator, study.hash)
    monkeypatch.setattr(visiting, "send_parcels", lambda *_: pytest.fail("it was sent"))
    site.run_once()
    assert site.find(study.hash).state == "absent"
    assert not list((site.folder / "sealed").iterdir())


def test_of_two_who_answer_or_withdraw_at_once_the_first_stays(network, monkeypatch):
    coordinator, sites = network
    study = opened(coordinator)
    site = sites[0]
    site.run_once()
    site.approve(study.hash, hash=study.hash)
    before = site.find(study.hash)
    site.answer(study.hash, answers=answers_of(0))
    body = site.sealed(study.hash, "coordinator").read_bytes()
    monkeypatch.setattr(site, "find", lambda _: before)  # both looked before either was done
    site.answer(study.hash, answers=answers_of(1))
    assert site.sealed(study.hash, "coordinator").read_bytes() == body
    with pytest.raises(NotYet, match="again"):
        site.withdraw(study.hash)
    monkeypatch.undo()
    assert site.find(study.hash).state == "sealed"


def test_a_member_that_is_revoked_while_it_sends_has_not_answered(network):
    coordinator, sites = network
    study = opened(coordinator)
    upload = coordinator.folder / "uploads" / "one"
    upload.write_bytes(sealed_body(sites[0], study))
    coordinator.revoke("hospital-a")
    with pytest.raises(Refused, match="revoked"):
        receiving.take_answers(coordinator, study.hash, {"id": "hospital-a"}, upload)
    assert not coordinator.presence(study.hash)["hospital-a"]["answered"]
    assert not list((coordinator.folder / "answers").iterdir())
    upload.unlink()


def test_a_study_whose_release_is_refused_keeps_no_other_one_back(network, clock, monkeypatch):
    coordinator, sites = network
    first = opened(coordinator)
    confirmed(coordinator, sites, clock, first)
    pass_the_end(clock, first)
    release_study(coordinator, first.hash)
    now = int(clock())
    second = opened(coordinator, window=Window(now - 1, now + 3600, 1))

    def refuses(*_):
        raise Refused("Expected the release to count what this site sent: it does not.")

    monkeypatch.setattr(visiting, "_fetch_release", refuses)
    with pytest.raises(Refused, match="count"):
        sites[0].run_once()
    assert second.hash in {each.hash for each in sites[0].studies()}
    assert sites[0].find(first.hash).state == "confirmed"
