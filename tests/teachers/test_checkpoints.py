"""Finished teachers stay finished, are used for nothing else, and are for their owner's eyes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from teacher_families import CANARY, Failing, Noting, Stopping, seed_of
from teacher_tables import make_table

from tacit.errors import InvalidArgument, TeacherFailed
from tacit.teachers import Serial, checkpoints
from tacit.teachers.checkpoints import Checkpoints

TRAINED = 10  # of twelve teachers, one has no records and one has a single class
SHARED = Path(__file__).parents[1]


@pytest.fixture
def family(tmp_path) -> Noting:
    return Noting(str(tmp_path / "log"))


@pytest.fixture
def kept(tmp_path) -> Path:
    return tmp_path / "kept"


def test_a_second_run_trains_nobody(table, family, kept):
    first = table.predict(family, checkpoint=kept)
    assert family.trained() == TRAINED
    assert (table.predict(family, checkpoint=kept) == first).all()
    assert family.trained() == TRAINED


def test_a_run_that_is_stopped_goes_on_where_it_was(table, tmp_path, kept):
    """Six teachers, then Ctrl-C: the second run trains the four that are left."""
    log = str(tmp_path / "log")
    with pytest.raises(KeyboardInterrupt):
        table.predict(Stopping(log, limit=6), executor=Serial(), checkpoint=kept)
    done = Noting(log)
    assert done.trained() == 6
    # The limit is part of the config: with another one nothing is taken from the checkpoint.
    with pytest.raises(KeyboardInterrupt):
        table.predict(Stopping(log, limit=5), executor=Serial(), checkpoint=kept)
    Path(log).write_text("")
    table.predict(Stopping(log, limit=6), executor=Serial(), checkpoint=kept)
    assert done.trained() == TRAINED - 6


def test_a_process_killed_outright_goes_on_in_another(tmp_path, kept):
    """SIGKILL for the whole run after seven teachers; the hashes agree between processes."""
    log = str(tmp_path / "log")
    script = (
        "import os, signal\n"
        "import tacit.teachers.checkpoints as checkpoints\n"
        "checkpoints._SECONDS = 0\n"
        "from teacher_families import KillingAlways, Noting, seed_of\n"
        "from tacit.teachers import Serial\n"
        "from teacher_tables import make_table\n"
        f"make_table().predict(KillingAlways(Noting({log!r}), seed_of(8)), "
        f"executor=Serial(), checkpoint={str(kept)!r})\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=SHARED, check=False)
    assert ended.returncode == -9
    family = Noting(log)
    assert family.trained() == 6  # 0 to 7 but 5 and 7
    from teacher_families import KillingAlways

    survivors = make_table()
    survivors.shards[survivors.shards == 8] = 11  # nobody is left to be killed by
    Path(log).write_text("")
    result = survivors.predict(KillingAlways(family, seed_of(8)), checkpoint=kept)
    assert family.trained() == 3  # 9, 10 and 11: 8 is empty now
    assert (result == survivors.predict(family)).all()


def test_a_crash_loses_at_most_a_second(table, family, kept, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    store = Checkpoints(kept, {1: "one", 2: "two", 3: "three"})
    answers = np.arange(4, dtype=np.uint8)
    store.add(1, answers)
    now[0] = 1.01
    store.add(2, answers)
    store.add(3, answers)
    assert set(Checkpoints(kept, {1: "one", 2: "two", 3: "three"}).found) == {1, 2}


@pytest.mark.parametrize(
    ("change", "trained_again"),
    [
        ("config", TRAINED),
        ("queries", TRAINED),
        ("random_state", TRAINED),
        ("classes", TRAINED),
        ("record", 1),
        ("label", 1),
        ("moved", 2),
        ("nothing", 0),
    ],
)
def test_only_what_changed_is_trained_again(table, tmp_path, kept, change, trained_again):
    family = Failing(str(tmp_path / "log"))
    table.predict(family, checkpoint=kept)
    Path(family.log).write_text("")
    options = {}
    (own,) = np.nonzero(table.shards == 3)
    if change == "config":
        family = replace(family, teachers_per_task=2)
    elif change == "queries":
        table.X_query[0, 0] += 1e-6 * abs(table.X_query[0, 0]) + 1e-6
    elif change == "random_state":
        options["random_state"] = 1
    elif change == "classes":
        table = replace(table, n_classes=4)
    elif change == "record":
        table.X[own[0], 0] = np.nextafter(table.X[own[0], 0], np.float32(np.inf))
    elif change == "label":
        table.y[own[0]] = (table.y[own[0]] + 1) % 3
    elif change == "moved":
        table.shards[own[0]] = 4
    result = table.predict(family, checkpoint=kept, **options)
    assert family.trained() == trained_again
    assert (result == table.predict(family, **options)).all()


def test_after_a_failure_only_the_failed_are_trained_again(table, tmp_path, kept):
    family = Failing(str(tmp_path / "log"))
    (own,) = np.nonzero(table.shards == 9)
    value = table.X[own[0], 0]
    table.X[own[0], 0] = CANARY
    with pytest.raises(TeacherFailed, match="the others are kept in the checkpoint"):
        table.predict(family, checkpoint=kept)
    assert family.trained() == TRAINED - 1
    table.X[own[0], 0] = value
    table.predict(family, checkpoint=kept)
    assert family.trained() == TRAINED


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_files_are_for_the_owner_alone(table, family, kept):
    before = os.umask(0)
    try:
        table.predict(family, checkpoint=kept)
    finally:
        os.umask(before)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    files = list(kept.iterdir())
    assert files
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_directory_that_others_can_read_is_refused(table, family, kept):
    kept.mkdir()
    kept.chmod(0o750)
    with pytest.raises(InvalidArgument, match="mode 0700, not 0750"):
        table.predict(family, checkpoint=kept)
    assert family.trained() == 0


def test_a_file_in_the_place_of_the_directory_is_refused(table, family, kept):
    kept.write_text("mine")
    with pytest.raises(InvalidArgument, match="directory that can be written"):
        table.predict(family, checkpoint=kept)
    assert kept.read_text() == "mine"


def test_no_record_is_written(table, family, kept):
    table.X[:] = CANARY + np.arange(table.X.size).reshape(table.X.shape)
    table.predict(family, checkpoint=kept)
    written = b"".join(path.read_bytes() for path in kept.iterdir())
    for needle in (np.float32(CANARY).tobytes(), np.float64(CANARY).tobytes(), b"4815162"):
        assert needle not in written


@pytest.mark.parametrize("damage", ["cut", "flipped", "text", "empty", "pickle"])
def test_a_damaged_file_is_trained_again_and_never_trusted(table, family, kept, damage):
    first = table.predict(family, checkpoint=kept)
    (path,) = kept.iterdir()
    whole = path.read_bytes()
    if damage == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "flipped":
        place = whole.index(first[0].tobytes())
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    elif damage == "pickle":
        with open(path, "wb") as file:
            np.savez(file, teachers=np.array([object()], dtype=object), allow_pickle=True)
    else:
        path.write_bytes(b"not an archive" if damage == "text" else b"")
    assert (table.predict(family, checkpoint=kept) == first).all()
    assert family.trained() == 2 * TRAINED
    table.predict(family, checkpoint=kept)
    assert family.trained() == 2 * TRAINED
