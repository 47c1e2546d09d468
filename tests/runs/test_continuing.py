"""A run that was killed goes on: releases are kept, what was lost is said, nothing twice."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from tacit import BudgetExceeded, Ledger
from tacit.errors import InvalidArgument, ReleaseLost
from tacit.ledger import kept_releases as kept
from tacit.ledger.begun_steps import BegunSteps
from tacit.methods import PrivateKNNClassifier
from tacit.methods.base import PrivateEstimator
from tacit.noisy_training import GradientSteps
from tacit.runs import (
    DataConfig,
    PrivacyConfig,
    RunConfig,
    begun_with,
    run_config,
    running,
    sealing,
    verify_run,
)
from tacit.students import load_student

SETTINGS = {  # inputs as they are: a map of images would take nearly all of the time
    "pate": {"n_teachers": 40, "queries": 10, "teacher": "kernel-ridge"},
    "knn": {"k": 30, "queries": 10, "rounds": 2},
    "prototype": {"n_prototypes": 20},
    "moments": {},
    "ridge": {"n_landmarks": 20},
    "dpsgd": {"hidden": [8], "epochs": 1, "batch_size": 75, "n_records": 300},
    "gd": {"epochs": 4, "n_records": 300},
    "mac": {"hidden": [8], "epochs": 1, "batch_size": 75, "n_records": 300},
}


IN_STEPS = ("dpsgd", "gd", "mac")


class Killed(BaseException):
    """Stands for SIGKILL: nothing may catch it and tidy up."""


def config(method: str, **changes: object) -> RunConfig:
    return RunConfig(
        data=DataConfig(source="digits", private=300, public=60),
        privacy=PrivacyConfig(epsilon=2.0, delta=1e-5),
        method=method,
        settings={**SETTINGS[method], **changes},
    )


def paid(folder) -> list[str]:
    return [entry.hash for entry in Ledger(folder / "run.ledger").entries() if entry.is_paid]


def dying(*_, **__):
    raise Killed


@pytest.mark.parametrize("method", SETTINGS)
class TestEveryMethod:
    def test_goes_on_after_its_releases_and_spends_nothing(self, method, tmp_path, monkeypatch):
        with monkeypatch.context() as patched:
            patched.setattr(PrivateEstimator, "save", dying)
            with pytest.raises(Killed):
                run_config(config(method), tmp_path / "run")
        before = paid(tmp_path / "run")
        assert before
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "release", dying)  # nothing is charged, so no noise is drawn
            result = run_config(config(method), tmp_path / "run")
        assert paid(tmp_path / "run") == before
        assert result.accuracy > 0.05
        assert load_student(tmp_path / "run" / "student.tacit") is not None
        assert all(check.holds for check in verify_run(tmp_path / "run"))

    def test_says_what_was_paid_for_and_lost(self, method, tmp_path, monkeypatch):
        if method in IN_STEPS:
            monkeypatch.setattr(BegunSteps, "begin", lambda _: None)  # killed before the first note
        with monkeypatch.context() as patched:
            patched.setattr(kept, "_keep", dying)
            with pytest.raises(Killed):
                run_config(config(method), tmp_path / "run")
        (lost,) = paid(tmp_path / "run")
        lost_for_good = r"stays spent.*no room to pay once more.*another folder.*add epsilon"
        with pytest.raises(ReleaseLost, match=lost_for_good) as said:
            run_config(config(method), tmp_path / "run")
        secret = (tmp_path / "run" / "teachers").exists()
        assert ("teachers is secret" in str(said.value)) == secret == (method == "pate")
        with pytest.raises(BudgetExceeded, match=lost_for_good):
            run_config(config(method), tmp_path / "run", again=True)
        assert paid(tmp_path / "run") == [lost]


@pytest.mark.parametrize("method", IN_STEPS)
def test_training_in_noisy_steps_goes_on_behind_what_was_begun(method, tmp_path, monkeypatch):
    """Killed in the third of four steps: what was stored is kept, no step is drawn again."""
    steps, learn = [], GradientSteps.learn

    def dies(self, noisy):
        steps.append(self._done)
        if len(steps) == 3:
            raise KeyboardInterrupt
        learn(self, noisy)

    with monkeypatch.context() as patched:
        patched.setattr(GradientSteps, "learn", dies)
        with pytest.raises(KeyboardInterrupt):
            run_config(config(method), tmp_path / "run")
    before = paid(tmp_path / "run")
    with np.load(tmp_path / "run" / "releases" / "1.steps.npz") as stored:
        names = {"about", "parameters", "learned"}
        kept = ("sum",) if method == "gd" else ("mean", "square", "count")
        names |= {f"optimiser_{name}" for name in kept}
        assert set(stored.files) == names
        weights = stored["parameters"]
    monkeypatch.setattr(GradientSteps, "learn", dies)
    with pytest.warns(UserWarning, match="1 of 4 steps"):
        result = run_config(config(method), tmp_path / "run")
    assert steps == [0, 1, 2, 3]
    assert paid(tmp_path / "run") == before
    assert all(check.holds for check in verify_run(tmp_path / "run"))
    assert "1 of 4 steps" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert load_student(tmp_path / "run" / "student.tacit") is not None
    with np.load(tmp_path / "run" / "releases" / "1.npz") as kept_release:
        moved = np.abs(kept_release["values"] - weights)
    assert 0 < moved.max() < 1  # one more step, from these very weights
    assert result.statement.epsilon <= 2.0


def test_other_public_inputs_do_not_go_on_with_steps(tmp_path, monkeypatch):
    """Killed before anything was stored: the marker alone knows what was asked."""
    with monkeypatch.context() as patched:
        patched.setattr(GradientSteps, "learn", interrupting)
        with pytest.raises(KeyboardInterrupt):
            run_config(config("dpsgd"), tmp_path / "run")
    load = running.load_rows
    monkeypatch.setattr(
        running, "load_rows", lambda c, **_: load(c)._replace(public=load(c).public / 2)
    )
    with pytest.raises(InvalidArgument, match="other questions"):
        run_config(config("dpsgd"), tmp_path / "run")


def interrupting(*_, **__):
    raise KeyboardInterrupt


def test_a_release_between_two_is_kept(tmp_path, monkeypatch):
    """Killed in the second round: the first is not asked again, the second is."""
    with monkeypatch.context() as patched:
        patched.setattr(PrivateEstimator, "_new_student", _second_student_dies())
        with pytest.raises(Killed):
            run_config(config("knn"), tmp_path / "run")
    first = paid(tmp_path / "run")
    assert len(first) == 1
    run_config(config("knn"), tmp_path / "run")
    assert paid(tmp_path / "run")[:1] == first
    assert len(paid(tmp_path / "run")) == 2


def test_the_second_round_asks_what_it_had_chosen(tmp_path, monkeypatch):
    """Another number of threads rounds the student, which chooses: the choice is kept."""
    with monkeypatch.context() as patched:
        patched.setattr(PrivateEstimator, "save", dying)
        with pytest.raises(Killed):
            run_config(config("knn"), tmp_path / "run")
    before, choose, calls = paid(tmp_path / "run"), PrivateKNNClassifier._choose, []

    def otherwise(self, *inputs):
        calls.append(inputs)
        return choose(self, *inputs)[:: -1 if len(calls) > 1 else 1]

    monkeypatch.setattr(PrivateKNNClassifier, "_choose", otherwise)
    run_config(config("knn"), tmp_path / "run")
    assert paid(tmp_path / "run") == before


def _second_student_dies():
    made, new = [], PrivateEstimator._new_student

    def student(self):
        made.append(self)
        if len(made) > 1:  # the first is only tried out
            raise Killed
        return new(self)

    return student


def test_killed_before_its_seal_the_same_command_goes_on(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "seal", dying)
        with pytest.raises(Killed):
            run_config(config("prototype"), tmp_path / "run")
    assert [each.what for each in verify_run(tmp_path / "run") if not each.holds] == ["statement"]
    assert (tmp_path / "run" / begun_with.NAME).exists()
    run_config(config("prototype"), tmp_path / "run")
    assert not (tmp_path / "run" / begun_with.NAME).exists()
    assert all(check.holds for check in verify_run(tmp_path / "run"))
    assert len(paid(tmp_path / "run")) == 1


@pytest.mark.parametrize("moment", range(6))
def test_killed_behind_its_seal_it_is_sealed(tmp_path, monkeypatch, moment):
    """Files that were staged get their names, and the head, from whatever command comes next."""
    done, write = [], sealing.write_atomically

    def dies(path, data, mode=0o644):
        if path.parent.name != sealing.STAGED:
            if len(done) == moment:
                raise Killed
            done.append(path)
        write(path, data, mode)

    with monkeypatch.context() as patched:
        patched.setattr(sealing, "write_atomically", dies)
        with contextlib.suppress(Killed):
            run_config(config("prototype"), tmp_path / "run")
    assert all(check.holds for check in verify_run(tmp_path / "run"))
    assert not (tmp_path / "run" / sealing.STAGED).exists()
    head = Ledger(tmp_path / "run" / "run.ledger").head
    assert (tmp_path / "run" / "report.html").read_text(encoding="utf-8").count(head) == 3
    assert len(done) == min(moment, 4)


def test_killed_while_it_entered_its_folder_it_begins(tmp_path, monkeypatch):
    """A temporary file without its name is all that is left; of any other file nothing is known."""
    with monkeypatch.context() as patched:
        patched.setattr("os.unlink", lambda *_: None)
        patched.setattr(running, "name_without_overwriting", dying)
        with pytest.raises(Killed):
            run_config(config("prototype"), tmp_path / "run")
    assert [path.suffix for path in (tmp_path / "run").iterdir()] == [".tmp"]
    (tmp_path / "run" / "notes.tmp").touch()
    with pytest.raises(InvalidArgument, match="new or empty"):
        run_config(config("prototype"), tmp_path / "run")
    (tmp_path / "run" / "notes.tmp").unlink()
    settings = config("prototype")
    with running.releasing(tmp_path / "run", settings):
        text = (tmp_path / "run" / "config.toml").read_text(encoding="utf-8")
        assert text == settings.to_toml()


def test_other_settings_do_not_go_on(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(PrivateEstimator, "save", dying)
        with pytest.raises(Killed):
            run_config(config("prototype"), tmp_path / "run")
    with pytest.raises(InvalidArgument, match="this very run"):
        run_config(config("prototype", n_prototypes=21), tmp_path / "run")
    assert len(paid(tmp_path / "run")) == 1


def test_other_public_inputs_do_not_go_on(tmp_path, monkeypatch):
    """The same configuration, but what it names has changed meanwhile."""
    with monkeypatch.context() as patched:
        patched.setattr(PrivateEstimator, "save", dying)
        with pytest.raises(Killed):
            run_config(config("prototype"), tmp_path / "run")
    load = running.load_rows
    monkeypatch.setattr(
        running, "load_rows", lambda c, **_: load(c)._replace(public=load(c).public[:-1])
    )
    with pytest.raises(InvalidArgument, match="other questions"):
        run_config(config("prototype"), tmp_path / "run")
    assert len(paid(tmp_path / "run")) == 1


def test_a_finished_run_is_not_begun_again(tmp_path):
    run_config(config("prototype"), tmp_path / "run")
    with pytest.raises(InvalidArgument, match="this very run"):
        run_config(config("prototype"), tmp_path / "run")


def test_two_processes_do_not_share_a_folder(tmp_path):
    folder = tmp_path / "run"
    settings = config("prototype")
    with running.releasing(folder, settings):
        with (
            pytest.raises(InvalidArgument, match="another process"),
            running.releasing(folder, settings),
        ):
            pytest.fail("entered twice")
        assert (folder / "config.toml").exists()
    result = run_config(config("prototype"), folder)
    assert len(paid(folder)) == 1
    assert result.statement.entries > 1


@pytest.mark.parametrize("method", ["dpsgd", "mac", "moments"])
def test_a_network_does_not_go_on_with_other_public_inputs(method, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(PrivateEstimator, "save", dying)
        with pytest.raises(Killed):
            run_config(config(method), tmp_path / "run")
    load = running.load_rows
    monkeypatch.setattr(
        running, "load_rows", lambda c, **_: load(c)._replace(public=load(c).public / 2)
    )
    with pytest.raises(InvalidArgument, match="other questions"):
        run_config(config(method), tmp_path / "run")
    assert len(paid(tmp_path / "run")) == len(set(paid(tmp_path / "run")))
