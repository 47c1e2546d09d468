"""Steps are noted before they are drawn, none is drawn twice, and old copies are refused."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Budget, InsecureNoise, Ledger, Plan
from tacit.errors import GrantError, InvalidArgument, LedgerDamaged, ReleaseLost
from tacit.ledger import KeptReleases
from tacit.ledger.begun_steps import NotedSteps, notes_of
from tacit.mechanisms import GNMax, NoisySteps

STEPS = 12
MECHANISM = NoisySteps(noise_multiplier=4.0, sampling_rate=0.5)
PLAN = Plan(MECHANISM, STEPS)


class Killed(Exception):
    """Stands for SIGKILL while a step is computed."""


@dataclass
class Adding:
    """Adds up noisy sums; dies when it has drawn so many in this process."""

    dies_after: int = STEPS + 1
    dies: str = "learn"
    every: int = 3
    steps: int = STEPS
    dimension: int = 2
    n_units: int = 5
    drawn: list[int] = field(default_factory=list)
    total: np.ndarray = field(default_factory=lambda: np.zeros(2))
    learned: int = 0
    position: int = 0

    @property
    def steps_a_note(self) -> int:
        return self.every

    def sums(self, sample):
        return np.full(2, float(len(sample)) / 2)

    def learn(self, noisy_sums):
        self.drawn.append(self.position)
        self.position += 1
        if len(self.drawn) > self.dies_after and self.dies == "learn":
            raise Killed
        self.total = self.total + noisy_sums
        self.learned += 1

    def result(self):
        return self.total

    def forget(self):
        pass

    def state(self):
        if len(self.drawn) >= self.dies_after and self.dies == "store":
            raise Killed
        return {"parameters": self.total, "learned": self.learned}

    def go_on(self, state, position):
        if state:
            self.total, self.learned = np.array(state["parameters"]), int(state["learned"])
        self.position = position


def new_ledger(folder: Path) -> Ledger:
    return Ledger(folder / "a.ledger", budget=Budget(30, 1e-5), accountant="rdp")


def released(ledger, folder, training, **more):
    store = KeptReleases(folder / "kept", **more)
    store.start(ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return store, store.release(ledger, PLAN, lambda: training, purpose="train")


def killed(ledger, folder, after, **how):
    training = Adding(dies_after=after, **how)
    with pytest.raises(GrantError, match="Killed"):
        released(ledger, folder, training)
    return training


def paid(ledger):
    return [entry for entry in ledger.entries() if entry.is_paid]


@given(
    kills=st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["learn", "store"])), max_size=4),
    every=st.integers(1, STEPS + 1),
)
@settings(max_examples=15, deadline=None)
def test_no_step_is_drawn_twice_wherever_it_is_killed(kills, every, tmp_path_factory):
    folder = tmp_path_factory.mktemp("steps")
    ledger, drawn = new_ledger(folder), []
    for after, how in kills:
        training = Adding(dies_after=after, dies=how, every=every)
        try:
            _, release = released(ledger, folder, training)
            drawn += training.drawn
            break
        except (GrantError, Killed):
            drawn += training.drawn
            begun = max(notes_of(ledger.entries(), paid(ledger)[0].hash))
            assert max(drawn, default=-1) < begun, "a step was drawn before its note"
        except ReleaseLost:
            release = None
            break
    else:
        training = Adding(every=every)
        try:
            _, release = released(ledger, folder, training)
            drawn += training.drawn
        except ReleaseLost:
            release = None
    assert len(paid(ledger)) == 1
    assert drawn == sorted(set(drawn)), "a step was drawn twice"
    if release is not None:
        assert max(drawn) < STEPS
        assert np.array_equal(np.asarray(release), training.total)
        assert training.position == STEPS
    else:  # every step was begun, and nothing stored that was learned
        assert max(notes_of(ledger.entries(), paid(ledger)[0].hash)) == STEPS
        stored = folder / "kept" / "1.steps.npz"
        assert not stored.exists() or np.load(stored)["learned"] == 0


def test_it_goes_on_from_what_was_stored_and_says_what_was_skipped(tmp_path):
    ledger = new_ledger(tmp_path)
    before = killed(ledger, tmp_path, after=4)  # stored at 3, noted up to 6, dies in the fifth
    assert notes_of(ledger.entries(), paid(ledger)[0].hash) == [3, 6]
    on = Adding()
    store = KeptReleases(tmp_path / "kept")
    assert store.start(ledger) == 1  # paid for
    with pytest.warns(UserWarning, match="3 of 12 steps .* were skipped"):
        release = store.release(ledger, PLAN, lambda: on, purpose="train")
    assert (before.drawn, on.drawn) == ([0, 1, 2, 3, 4], [6, 7, 8, 9, 10, 11])
    assert (on.learned, release.entry) == (9, paid(ledger)[0].hash)
    assert store.notes
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["1.npz"]
    assert released(ledger, tmp_path, None)[1].entry == release.entry


def test_a_checkpoint_holds_nothing_but_what_was_learned(tmp_path):
    killed(new_ledger(tmp_path), tmp_path, after=4)
    with np.load(tmp_path / "kept" / "1.steps.npz") as stored:
        assert set(stored.files) == {"about", "parameters", "learned"}


def test_killed_after_the_last_step_goes_on_without_noise(tmp_path, monkeypatch):
    ledger = new_ledger(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("tacit.ledger.kept_releases._keep", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            released(ledger, tmp_path, first := Adding())
    _, release = released(ledger, tmp_path, again := Adding())
    assert (again.drawn, again.learned) == ([], STEPS)
    assert np.array_equal(np.asarray(release), first.total)


def test_an_old_copy_of_a_checkpoint_is_refused(tmp_path):
    ledger, place = new_ledger(tmp_path), tmp_path / "kept" / "1.steps.npz"
    killed(ledger, tmp_path, after=4)
    old = place.read_bytes()
    killed(ledger, tmp_path, after=5)
    newest = place.read_bytes()
    for state in (old, None):
        place.unlink() if state is None else place.write_bytes(state)
        with pytest.raises(ReleaseLost, match=r"old copy.*stays spent.*--again"):
            released(ledger, tmp_path, Adding())
    place.write_bytes(newest)
    released(ledger, tmp_path, Adding())
    assert len(paid(ledger)) == 1


def test_a_ledger_that_lacks_notes_is_damage(tmp_path):
    ledger = new_ledger(tmp_path)
    killed(ledger, tmp_path, after=1)
    copy = (tmp_path / "a.ledger").read_bytes()
    killed(ledger, tmp_path, after=8)
    (tmp_path / "a.ledger").write_bytes(copy)
    with pytest.raises(LedgerDamaged, match="rolled back"):
        Ledger(tmp_path / "a.ledger")
    (tmp_path / "a.ledger-head").unlink()
    with pytest.raises(LedgerDamaged, match="every step that was begun"):
        released(Ledger(tmp_path / "a.ledger"), tmp_path, Adding())


def test_a_damaged_checkpoint_is_refused_by_name(tmp_path):
    ledger, place = new_ledger(tmp_path), tmp_path / "kept" / "1.steps.npz"
    killed(ledger, tmp_path, after=4)
    place.write_bytes(b"PK")
    with pytest.raises(InvalidArgument, match=r"1\.steps\.npz.*damaged"):
        released(ledger, tmp_path, Adding())


def test_what_is_lost_is_paid_for_again_only_if_asked(tmp_path):
    ledger = new_ledger(tmp_path)
    killed(ledger, tmp_path, after=0, every=STEPS)
    with pytest.raises(ReleaseLost, match="none stored"):
        released(ledger, tmp_path, Adding())
    _, release = released(ledger, tmp_path, again := Adding(), again=True)
    assert release.entry == paid(ledger)[1].hash
    assert again.drawn == list(range(STEPS))


def test_seeded_noise_is_lost_and_can_be_paid_for_again(tmp_path):
    """The same seed would draw the same noise for other steps."""
    ledger = new_ledger(tmp_path)

    def seeded(training, **more):
        store, noise = KeptReleases(tmp_path / "kept", **more), InsecureNoise(0)
        store.start(ledger)
        return store.release(ledger, PLAN, lambda: training, purpose="train", noise=noise)

    with pytest.raises(GrantError, match="Killed"):
        seeded(Adding(dies_after=4))
    with pytest.raises(ReleaseLost, match=r"drawn again.*--again"):
        seeded(Adding())
    seeded(again := Adding(), again=True)
    assert (len(paid(ledger)), again.drawn) == (2, list(range(STEPS)))


class TestLedger:
    def noted(self, every=3):
        return NotedSteps(every, lambda _: None)

    def test_a_release_without_notes_cannot_go_on(self, tmp_path):
        ledger = new_ledger(tmp_path)
        with ledger.release(PLAN, purpose="train") as grant:
            grant.release(Adding())
        with (
            pytest.raises(InvalidArgument, match="noted as they begin"),
            ledger.resume(grant.entry.hash, PLAN, self.noted()),
        ):
            pytest.fail("all of its steps were drawn")

    def test_what_has_no_steps_is_refused_before_it_is_paid_for(self, tmp_path):
        ledger = new_ledger(tmp_path)
        with pytest.raises(InvalidArgument, match="does not go in steps"):
            ledger.release(Plan(GNMax(40.0), 1), purpose="label", noted=self.noted())
        assert len(ledger) == 0

    def test_another_plan_or_seeded_noise_cannot_go_on(self, tmp_path):
        ledger = new_ledger(tmp_path)
        with ledger.release(
            PLAN, purpose="train", noise=InsecureNoise(0), noted=self.noted()
        ) as grant:
            pass
        for plan in (Plan(NoisySteps(2.0, 0.5), STEPS), PLAN):
            with (
                pytest.raises(InvalidArgument, match=r"Expected (entry|secure noise)"),
                ledger.resume(grant.entry.hash, plan, self.noted()),
            ):
                pytest.fail("it went on")

    def test_two_processes_do_not_draw_the_same_steps(self, tmp_path):
        ledger = new_ledger(tmp_path)
        with ledger.release(PLAN, purpose="train", noted=self.noted()) as first:
            pass
        other, entry = Ledger(tmp_path / "a.ledger"), first.entry.hash
        mine, theirs = Adding(position=3), Adding(position=6)
        with (
            ledger.resume(entry, PLAN, self.noted()) as one,
            other.resume(entry, PLAN, self.noted()) as two,
        ):
            with pytest.raises(GrantError, match="another one goes on"):
                one.release(mine)
            two.release(theirs)
        assert (mine.drawn, theirs.drawn) == ([3, 4, 5], [6, 7, 8, 9, 10, 11])

    def test_a_caller_cannot_say_which_steps(self, tmp_path):
        ledger = new_ledger(tmp_path)
        with (
            ledger.release(PLAN, purpose="train", noted=self.noted()) as grant,
            pytest.raises(GrantError, match="does not take"),
        ):
            grant.release(Adding(), steps=range(5))

    @pytest.mark.parametrize("steps", [[0, 0], [3, 1], range(STEPS + 1), [-1]])
    def test_nor_more_than_the_plan_has(self, tmp_path, steps):
        ledger, training = new_ledger(tmp_path), Adding()
        with (
            ledger.release(PLAN, purpose="train") as grant,
            pytest.raises(GrantError, match="each once and in order"),
        ):
            grant.release(training, steps=steps)
        assert len(training.drawn) <= STEPS

    def test_a_note_tells_no_time(self, tmp_path):
        ledger = new_ledger(tmp_path)
        with ledger.release(PLAN, purpose="train", noted=self.noted()) as grant:
            grant.release(Adding())
        assert {entry.time for entry in ledger.entries()} == {ledger.entries()[0].time}
        assert len(ledger) == 5
        assert ledger.spent() == pytest.approx(Ledger(ledger.path).spent())
        assert not any(entry.behind for entry in ledger.entries())


def test_on_a_shared_ledger_the_same_charge_of_another_run_is_not_mine(tmp_path, monkeypatch):
    ledger = new_ledger(tmp_path)

    def dying(*_, **__):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "release", dying)  # between marker and charge
        with pytest.raises(Killed):
            released(ledger, tmp_path, Adding())
    released(ledger, tmp_path / "other", Adding())
    _, release = released(ledger, tmp_path, Adding())
    assert release.entry == paid(ledger)[1].hash
