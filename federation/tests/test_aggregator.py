"""An aggregator by itself: what it takes, keeps, locks, shows once, and what proves a liar."""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3

import numpy as np
import pytest
from network import CLASSES
from two_parties import NOW, SIGMA, SITES, TEACHERS, TwoParties, votes

from tacit.errors import InvalidArgument, NotYet, Refused
from tacit.ledger import Budget, canonical
from tacit.noise import GrantedNoise, expand
from tacit_federation import read_release
from tacit_federation.aggregator import HELD, LOCK, RETRY_SECONDS, Aggregator
from tacit_federation.database import StateUnavailable
from tacit_federation.exchanging import advance, shown, take_note
from tacit_federation.keys import check_signature
from tacit_federation.messages import VOID, frame, read_header, signed
from tacit_federation.sums import SPOILED, SUM, both_sums, read_sum, seal_shares

COUNTS = [votes(number) for number in range(3)]


@pytest.fixture
def two(tmp_path):
    made = TwoParties(tmp_path)
    yield made
    made.close()


def no_noise(monkeypatch):
    zero = lambda self, sigma, grid, size: np.zeros(size, dtype=np.int64)  # noqa: E731
    monkeypatch.setattr(GrantedNoise, "rounded_gaussian_steps", zero)


def released(two):
    stored = [bytes(place.find(two.study.hash)["sum"]) for place in two.places]
    return read_release(two.study, both_sums(two.study, *stored))


def test_sums_add_up_exactly_without_noise(two, monkeypatch):
    no_noise(monkeypatch)
    two.send_all(COUNTS)
    two.finish()
    assert [two.state(0), two.state(1)] == ["released", "released"]
    assert np.array_equal(released(two).release, sum(COUNTS))


def test_each_draws_the_full_noise_of_its_own(two):
    two.send_all(COUNTS)
    two.finish()
    off = np.asarray(released(two).release) - sum(COUNTS)
    assert 0 < np.abs(off).max() < 10 * SIGMA
    sums = [read_sum(two.study, p.folder.name, shown(p, two.study.hash, "sum")) for p in two.places]
    assert sums[0].entry != sums[1].entry
    assert [len(place.ledger) for place in two.places] == [1, 1]


def test_after_the_lock_no_file_holds_share_seed_digest_or_noise(tmp_path, monkeypatch):
    """Sought raw and in hexadecimal, in every file of either folder."""
    drawn = []
    honest = GrantedNoise.rounded_gaussian_steps

    def remembered(self, sigma, grid, size):
        drawn.append(honest(self, sigma, grid, size))
        return drawn[-1]

    monkeypatch.setattr(GrantedNoise, "rounded_gaussian_steps", remembered)
    two = TwoParties(tmp_path)
    secrets = []
    for number, counts in enumerate(COUNTS):
        seed = bytes([number + 1]) * 32
        parcels = two.sealed(number, counts, seed)
        for place in two.places:
            body = parcels[place.folder.name]
            two.send(place, number, body)
            header = json.loads(body[body.index(b"{") : body.index(b"}") + 1])
            secrets.append(header["digest"].encode())
            secrets.append(header["signature"].encode())
        mask = expand(seed, counts.shape)
        secrets += [seed, mask.tobytes()[:64], (counts.view(np.uint64) - mask).tobytes()[:64]]
    held = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert all(secret in held for secret in secrets[:2])  # the search finds what is there
    looked = []

    def look(kind):
        """From the lock on: after the lists, the locks and the sums were exchanged."""
        looked.append({place.find(two.study.hash)["state"] for place in two.places})
        held = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        for secret in (*secrets, *(array.tobytes() for array in drawn)):
            assert secret not in held
            assert secret.hex().encode() not in held

    two.finish(look)
    assert looked == [{"locked"}, {"opened"}, {"released"}]
    two.close()


def test_a_sum_is_drawn_and_shown_once(two):
    two.send_all(COUNTS)
    first = two.places[0]
    with pytest.raises(NotYet):
        shown(first, two.study.hash, "sum")
    two.finish()
    stored = shown(first, two.study.hash, "sum")
    for _ in range(3):
        advance(first, two.study.hash)
        assert shown(first, two.study.hash, "sum") == stored
    assert len(first.ledger) == 1
    for column in ("sum", "lock", "survivors", "peer_lock"):
        with (
            pytest.raises(StateUnavailable, match="written once"),
            first.database.writing() as rows,
        ):
            rows.execute(f"UPDATE studies SET {column} = 'another'")
    with pytest.raises(StateUnavailable, match="never goes"), first.database.writing() as rows:
        rows.execute("UPDATE studies SET state = 'closed'")


def closed(two):
    two.send_all(COUNTS)
    two.time = NOW + 101.0
    for place in two.places:
        place.close_due()


def test_nothing_is_shown_without_the_others_lock(two):
    closed(two)
    first, second = two.places
    name = two.study.hash
    take_note(first, name, "held", shown(second, name, "held"))
    assert advance(first, name) == "locked"
    with pytest.raises(NotYet):
        shown(first, name, "sum")


def test_a_lock_over_other_sites_ends_it(two):
    closed(two)
    first, second = two.places
    name = two.study.hash
    take_note(first, name, "held", shown(second, name, "held"))
    advance(first, name)
    other = {"study": name, "role": "second", "survivors": "0" * 64, "sum": "1" * 64}
    take_note(first, name, "lock", signed(second.key, LOCK, other))
    assert advance(first, name) == "void"
    with pytest.raises(NotYet):
        shown(first, name, "sum")


@pytest.mark.parametrize("kind", ["held", "lock"])
def test_two_signed_notes_prove_a_liar_and_are_kept(two, kind):
    closed(two)
    first, second = two.places
    name = two.study.hash
    about = {"study": name, "role": "second"}
    notes = {
        "held": [{**about, "held": [["site-0", "0" * 32]]}, {**about, "held": []}],
        "lock": [{**about, "survivors": "0" * 64, "sum": sign * 64} for sign in "12"],
    }[kind]
    one, another = (signed(second.key, HELD if kind == "held" else LOCK, each) for each in notes)
    take_note(first, name, kind, one)
    take_note(first, name, kind, one)
    for _ in range(2):
        with pytest.raises(Refused, match="kept"):
            take_note(first, name, kind, another)
    assert first.evidence(name) == [kind]
    row = first.database.row("SELECT * FROM evidence")
    assert (row["kept"], row["another"]) == (one.decode(), another.decode())
    with pytest.raises(StateUnavailable, match="append-only"), first.database.writing() as rows:
        rows.execute("DELETE FROM evidence")


def test_a_sum_that_was_not_locked_is_refused(two):
    """Damaged on its way, it is nothing; signed, it proves a liar, without a second sum on disk."""
    two.send_all(COUNTS)
    two.finish()
    (first, second), name = two.places, two.study.hash
    stored = shown(second, name, "sum")
    with pytest.raises((Refused, InvalidArgument)):
        take_note(first, name, "sum", stored[:-1] + bytes([stored[-1] ^ 1]))
    assert first.evidence(name) == []
    file = io.BytesIO(stored)
    header = read_header(file)
    payload = file.read()[:-8] + b"another!"
    del header["signature"]
    said = canonical(header) + "\n" + hashlib.sha256(payload).hexdigest()
    another = {**header, "signature": second.key.sign(SUM, said)}
    for _ in range(2):
        with pytest.raises(Refused, match="kept"):
            take_note(first, name, "sum", frame(canonical(another).encode(), payload))
    assert first.evidence(name) == ["sum"]
    row = first.database.row("SELECT * FROM evidence")
    told = json.loads(row["another"])
    signature = told["header"].pop("signature")
    check_signature(
        second.key.public, SUM, f"{canonical(told['header'])}\n{told['payload']}", signature
    )
    assert json.loads(row["kept"])["sum"] == hashlib.sha256(stored).hexdigest()
    assert bytes(first.find(name)["peer_sum"]) == stored


def test_notes_of_others_are_refused(two):
    closed(two)
    first, second = two.places
    name = two.study.hash
    mine = shown(first, name, "held")
    with pytest.raises(Refused):  # its own, shown back to it
        take_note(first, name, "held", mine)
    for wrong in (b"{}", b"[]", b"\xff", b"", shown(second, name, "held")[:-2]):
        with pytest.raises((Refused, InvalidArgument)):
            take_note(first, name, "held", wrong)
    assert first.find(name)["peer_held"] is None


def test_a_crash_after_the_entry_pays_again_or_ends(tmp_path, monkeypatch):
    for budget, state, entries in ((Budget(1e6, 1e-6), "locked", 2), (None, "void", 1)):
        two = TwoParties(tmp_path / state)
        plan = two.study.plan
        if budget is None:
            two.close()
            enough = Budget(plan.epsilon(1e-6) * 1.1, 1e-6)
            two = TwoParties(tmp_path / "small", budget=enough)
        closed(two)
        first, second = two.places
        take_note(first, two.study.hash, "held", shown(second, two.study.hash, "held"))
        honest = type(first.database).writing
        calls = []

        def failing(self, honest=honest, calls=calls):
            calls.append(1)
            if len(calls) == 2:  # the first is the rehearsal
                raise StateUnavailable("the disk is full")
            return honest(self)

        with monkeypatch.context() as patched:
            patched.setattr(type(first.database), "writing", failing)
            with pytest.raises(StateUnavailable):
                advance(first, two.study.hash)
        for _ in range(5):  # rounds of a second each: none of them pays
            two.time += 1
            assert advance(first, two.study.hash) == "closed"
        assert len(first.ledger) == 1
        two.time += RETRY_SECONDS
        assert advance(first, two.study.hash) == state
        assert len(first.ledger) == entries
        two.close()


def test_what_an_aggregator_takes(two):
    first = two.places[0]
    parcels = two.sealed(0, COUNTS[0])
    for wrong in (parcels["second"], two.sealed(1, COUNTS[1])["first"], b"TACIT1\n", b""):
        with pytest.raises((InvalidArgument, Refused)):
            two.send(first, 0, wrong)
    code, receipt = two.send(first, 0, parcels["first"])
    assert code == 201
    assert two.send(first, 0, parcels["first"]) == (200, receipt)
    site, key = two.study.sites[0], SITES[0]
    again = seal_shares(two.study, site, COUNTS[0], key, "f" * 32)
    assert two.send(first, 0, again["first"])[0] == 409
    two.time = NOW + 101.0
    late = two.sealed(2, COUNTS[2])
    assert two.send(first, 2, late["first"])[0] == 410
    assert two.send(first, 0, parcels["first"]) == (200, receipt)


def test_one_seed_for_two_sites_is_refused_also_after_a_restart(two):
    seed = b"\x07" * 32
    first = two.places[0]
    two.send(first, 0, two.sealed(0, COUNTS[0], seed)["first"])
    with pytest.raises(Refused, match="own"):
        two.send(first, 1, two.sealed(1, COUNTS[1], seed)["first"])
    first.close()
    again = Aggregator(first.folder, clock=two.clock)
    two.places[0] = again
    with pytest.raises(Refused, match="own"):
        two.send(again, 1, two.sealed(1, COUNTS[1], seed)["first"])
    assert two.send(again, 1, two.sealed(1, COUNTS[1])["first"])[0] == 201


def test_a_spoiled_total_is_marked(two):
    wild = COUNTS[0] + 40 * SIGMA * CLASSES
    two.send_all([wild.astype(np.int64), *COUNTS[1:]])
    two.finish()
    found = released(two)
    assert found.warnings == (SPOILED,)
    assert found.teachers == 3 * TEACHERS


def test_overflow_spoils_and_never_raises(two):
    two.send_all([np.full_like(COUNTS[0], 2**63 - 1), np.full_like(COUNTS[0], 2**61), COUNTS[2]])
    two.finish()
    assert two.state(0) == "released"
    assert SPOILED in released(two).warnings


def test_states_are_on_disk_at_every_step(two):
    """Restarted in every state, both go on where they were."""
    two.send_all(COUNTS)
    two.time = NOW + 101.0
    name = two.study.hash
    for place in two.places:
        place.close_due()
    for kind in ("held", "lock", "sum"):
        for number in (0, 1):
            two.places[number].close()
            two.places[number] = Aggregator(two.places[number].folder, clock=two.clock)
        for place, other in (two.places, two.places[::-1]):
            take_note(other, name, kind, shown(place, name, kind))
        for place in two.places:
            advance(place, name)
    assert [two.state(0), two.state(1)] == ["released", "released"]
    assert [len(place.ledger) for place in two.places] == [1, 1]


def test_the_database_says_so_itself(two):
    two.send_all(COUNTS)
    two.finish()
    path = two.places[0].folder / "state.sqlite"
    with sqlite3.connect(path) as raw, pytest.raises(sqlite3.IntegrityError, match="once"):
        raw.execute("UPDATE studies SET sum = x'00'")


def test_the_end_at_one_is_the_end_at_both(two):
    """Signed, and only before a sum is shown."""
    closed(two)
    first, second = two.places
    name = two.study.hash
    with pytest.raises(NotYet):
        shown(second, name, "void")
    told = signed(second.key, VOID, {"study": name, "role": "second"})
    with pytest.raises(Refused):
        take_note(first, name, "void", signed(first.key, VOID, {"study": name, "role": "second"}))
    take_note(first, name, "void", told)
    assert two.state(0) == "void"
    assert not list((first.folder / "answers").iterdir())
    take_note(second, name, "void", shown(first, name, "void"))
    assert two.state(1) == "void"
    with pytest.raises(NotYet):
        shown(second, name, "sum")


def test_an_end_that_comes_after_the_opening_changes_nothing(two):
    two.send_all(COUNTS)
    two.finish()
    first, second = two.places
    name = two.study.hash
    take_note(first, name, "void", signed(second.key, VOID, {"study": name, "role": "second"}))
    assert two.state(0) == "released"


def test_a_full_disk_costs_no_entry(two, monkeypatch):
    closed(two)
    first, second = two.places
    take_note(first, two.study.hash, "held", shown(second, two.study.hash, "held"))

    def full(descriptor):
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr("tacit_federation.server_folder.os.fsync", full)
        for _ in range(3):
            with pytest.raises(StateUnavailable, match="no space"):
                advance(first, two.study.hash)
    assert len(first.ledger) == 0
    assert advance(first, two.study.hash) == "locked"
    assert len(first.ledger) == 1


def test_a_first_aggregator_that_was_not_invited_is_refused(two):
    second = two.places[1]
    with second.database.writing() as rows:
        rows.execute("UPDATE members SET revoked = 1 WHERE id = 'the-first'")
    with pytest.raises(Refused, match="invited"):
        second.asked(two.study.hash)
