"""What was paid for is kept, taken again for free, and never paid for twice unless asked."""

from __future__ import annotations

import numpy as np
import pytest

from tacit import Budget, BudgetExceeded, GNMax, InsecureNoise, Ledger, NoisyVotes, Plan
from tacit.errors import InvalidArgument, LedgerDamaged, ReleaseLost
from tacit.ledger import KeptReleases
from tacit.ledger import kept_releases as kept

VOTES = [[90, 10], [20, 80]]
PLAN = Plan(GNMax(40), 2)


class Killed(BaseException):
    """Stands for SIGKILL: nothing may catch it and tidy up."""


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    return Ledger(tmp_path / "a.ledger", budget=Budget(4, 1e-5))


def released(ledger, folder, *, plan=PLAN, votes=VOTES, again=False, inputs=((1.0, 2.0),), **more):
    store = KeptReleases(folder, again=again)
    store.start(ledger)
    return store.release(ledger, plan, lambda: votes, purpose="label two", inputs=inputs, **more)


def never():
    raise AssertionError("private rows were worked on for a release that is kept")


@pytest.mark.parametrize("plan", [PLAN, Plan(NoisyVotes(40), 2)], ids=["labels", "values"])
def test_a_kept_release_is_taken_again_without_answers_or_charge(ledger, tmp_path, plan):
    first = released(ledger, tmp_path / "kept", plan=plan)
    store = KeptReleases(tmp_path / "kept")
    second = store.release(ledger, plan, never, purpose="label two", inputs=[(1.0, 2.0)])
    assert np.array_equal(np.asarray(first), np.asarray(second))
    assert (first.entry, first.secure, first.mechanism) == (
        second.entry,
        second.secure,
        second.mechanism,
    )
    assert len(ledger) == 1
    assert [path.name for path in store.stored()] == ["1.npz"]


def test_seeded_noise_stays_marked(ledger, tmp_path):
    released(ledger, tmp_path / "kept", noise=InsecureNoise(0))
    assert not released(ledger, tmp_path / "kept").secure


def test_several_releases_are_kept_in_order(ledger, tmp_path):
    store = KeptReleases(tmp_path / "kept")
    purposes = ["one", "two", "three"]
    made = [store.release(ledger, PLAN, lambda: VOTES, purpose=each) for each in purposes]
    assert store.start(ledger) == 3
    again = [store.release(ledger, PLAN, never, purpose=each) for each in purposes]
    assert [each.entry for each in made] == [each.entry for each in again]
    assert len(ledger) == 3


@pytest.mark.parametrize("changed", ["plan", "inputs", "shape"])
def test_other_questions_are_refused_and_nothing_is_spent(ledger, tmp_path, changed):
    released(ledger, tmp_path / "kept")
    other = {
        "plan": {"plan": Plan(GNMax(50), 2)},
        "inputs": {"inputs": ((1.0, 3.0),)},
        "shape": {"inputs": (((1.0,), (2.0,)),)},
    }[changed]
    with pytest.raises(InvalidArgument, match="other questions"):
        released(ledger, tmp_path / "kept", **other)
    assert len(ledger) == 1


def killed_at(monkeypatch, suffix: str) -> None:
    """Kill the process when a file with this ending is about to be written."""
    write = kept.write_atomically

    def dying(path, data, *rest):
        if str(path).endswith(suffix):
            raise Killed
        write(path, data, *rest)

    monkeypatch.setattr(kept, "write_atomically", dying)


class TestKilled:
    def test_before_the_charge_costs_nothing(self, ledger, tmp_path, monkeypatch):
        with monkeypatch.context() as patched:
            killed_at(patched, ".begun")
            with pytest.raises(Killed):
                released(ledger, tmp_path / "kept")
        assert len(ledger) == 0
        released(ledger, tmp_path / "kept")
        assert len(ledger) == 1

    def test_between_marker_and_charge_costs_nothing(self, ledger, tmp_path, monkeypatch):
        def dying(*_, **__):
            raise Killed

        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "release", dying)
            with pytest.raises(Killed):
                released(ledger, tmp_path / "kept")
        released(ledger, tmp_path / "kept")
        assert len(ledger) == 1

    def test_between_charge_and_file_stays_spent_and_is_said(self, ledger, tmp_path, monkeypatch):
        with monkeypatch.context() as patched:
            killed_at(patched, ".npz")
            with pytest.raises(Killed):
                released(ledger, tmp_path / "kept")
        for _ in range(2):
            with pytest.raises(ReleaseLost, match=r"label two.*stays spent.*--again"):
                released(ledger, tmp_path / "kept")
        assert len(ledger) == 1
        release = released(ledger, tmp_path / "kept", again=True)
        assert release.entry == ledger.entries()[1].hash
        assert released(ledger, tmp_path / "kept", again=True).entry == release.entry
        assert len(ledger) == 2

    def test_again_is_refused_beyond_the_budget(self, tmp_path, monkeypatch):
        small = Ledger(tmp_path / "b.ledger", budget=Budget(0.3, 1e-5))
        with monkeypatch.context() as patched:
            killed_at(patched, ".npz")
            with pytest.raises(Killed):
                released(small, tmp_path / "kept", plan=Plan(GNMax(28), 2))
        with pytest.raises(BudgetExceeded):
            released(small, tmp_path / "kept", plan=Plan(GNMax(28), 2), again=True)
        assert len(small) == 1

    def test_after_the_file_before_the_marker_goes(self, ledger, tmp_path, monkeypatch):
        def dying(*_, **__):
            raise Killed

        with monkeypatch.context() as patched:
            patched.setattr("pathlib.Path.unlink", dying)
            with pytest.raises(Killed):
                released(ledger, tmp_path / "kept")
        assert (tmp_path / "kept" / "1.begun").exists()
        assert released(ledger, tmp_path / "kept").entry == ledger.entries()[0].hash
        assert len(ledger) == 1


class TestQuestions:
    def test_are_kept_as_they_were_chosen(self, tmp_path):
        first = KeptReleases(tmp_path / "kept").questions(lambda: np.array([3, 1]), 4)
        again = KeptReleases(tmp_path / "kept").questions(never, 4)
        assert first.tolist() == again.tolist() == [3, 1]

    @pytest.mark.parametrize("held", [np.array([4]), np.array([-1]), np.array([0.5]), None])
    def test_that_no_public_input_answers_are_refused(self, tmp_path, held):
        (tmp_path / "1.asked.npy").write_bytes(b"") if held is None else np.save(
            tmp_path / "1.asked.npy", held
        )
        with pytest.raises(InvalidArgument, match=r"1\.asked\.npy.*damaged"):
            KeptReleases(tmp_path).questions(never, 4)


def test_answers_that_fail_cost_nothing_and_leave_no_marker(ledger, tmp_path):
    with pytest.raises(AssertionError, match="private rows"):
        KeptReleases(tmp_path / "kept").release(ledger, PLAN, never, purpose="label two")
    assert len(ledger) == 0
    assert not (tmp_path / "kept").exists()


def test_an_entry_that_the_ledger_lacks_is_damage(ledger, tmp_path):
    released(ledger, tmp_path / "kept")
    other = Ledger(tmp_path / "b.ledger", budget=Budget(4, 1e-5))
    with pytest.raises(LedgerDamaged, match="cut short"):
        released(other, tmp_path / "kept")
    assert len(other) == 0


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"{}"])
def test_damaged_files_are_refused_by_name(ledger, tmp_path, content):
    released(ledger, tmp_path / "kept")
    (tmp_path / "kept" / "1.npz").write_bytes(content)
    with pytest.raises(InvalidArgument, match=r"1\.npz.*damaged"):
        released(ledger, tmp_path / "kept")


def test_a_damaged_marker_is_refused_by_name(ledger, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "1.begun").write_bytes(b"[]")
    with pytest.raises(InvalidArgument, match=r"1\.begun.*damaged"):
        released(ledger, tmp_path / "kept")
    assert len(ledger) == 0
