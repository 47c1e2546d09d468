"""Teachers of masks answer the same wherever they run, and are found again by another process."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from mask_families import KillingMasksOnce, NotingMasks, RowSums, mask_table
from teacher_families import seed_of

from tacit.errors import InvalidArgument, TeacherFailed
from tacit.masks import segment_with_teachers
from tacit.teachers import LocalProcesses


def answers(teacher, **changes):
    given = {"encode": RowSums(), **mask_table(), **changes}
    return segment_with_teachers(teacher, **given)


@pytest.fixture
def noting(tmp_path):
    return NotingMasks(str(tmp_path / "log"))


def test_a_killed_worker_changes_no_bit(noting, tmp_path):
    serial = answers(noting)
    killing = KillingMasksOnce(
        str(tmp_path / "other"), seed=seed_of(2), marker=str(tmp_path / "killed")
    )
    local = answers(killing, executor=LocalProcesses(2))
    assert (tmp_path / "killed").exists()
    assert serial.dtype == local.dtype == np.float32
    assert local.tobytes() == serial.tobytes()
    assert len({row.tobytes() for row in serial}) == 6
    assert np.isnan(serial[4]).all()


def test_a_stopped_run_goes_on_in_another_process(noting, tmp_path):
    """The encoding and the teachers have one fingerprint in every process."""
    here = str(Path(__file__).parents[1])
    script = (
        f"import sys; sys.path.insert(0, {here!r})\n"
        "from mask_families import NotingMasks, RowSums, mask_table\n"
        "from tacit.masks import segment_with_teachers\n"
        f"segment_with_teachers(NotingMasks({noting.log!r}), **mask_table(), encode=RowSums(),"
        f" checkpoint={str(tmp_path / 'kept')!r})"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert noting.answered() == 5
    found = answers(noting, checkpoint=tmp_path / "kept")
    assert noting.answered() == 5
    assert found.tobytes() == answers(noting).tobytes()
    answers(noting, checkpoint=tmp_path / "kept", encode=RowSums(2.0))
    assert noting.answered() == 15  # five for the comparison, and five of another encoding


def test_everybody_who_finished_is_told_once(noting, tmp_path):
    for _ in range(2):
        told: list[int] = []
        answers(noting, checkpoint=tmp_path / "kept", on_teacher=told.append)
        assert sorted(told) == [0, 1, 2, 3, 5]


def failing(images, masks, queries, *, n_classes, seed):
    if len(images) == 3:
        raise RuntimeError("patient 4711")
    if len(images) == 2:
        warnings.warn("patient 4712", RuntimeWarning, stacklevel=1)
    return np.stack([1 - queries, queries], axis=1)


@pytest.mark.parametrize("names", [None, [b"a", b"b", b"c", b"d", b"e", b"f"]])
def test_failures_are_told_by_type_and_the_number_of_teachers_not_at_all(tmp_path, names):
    with pytest.raises(TeacherFailed, match="RuntimeError") as caught:
        answers(failing, names=names, checkpoint=tmp_path / "kept")
    said = str(caught.value)
    assert "4711" not in said
    assert "kept in the checkpoint" in said
    assert not any(character.isdigit() for character in said)


def test_that_some_warned_is_not_told():
    table = mask_table()
    keep = np.isin(table["shards"], [0, 1, 3, 5])
    some = {name: table[name][keep] for name in ("images", "masks", "shards")}
    answers(failing, **some)  # warnings are errors here


def test_an_executor_that_is_none_is_named(noting):
    with pytest.raises(InvalidArgument, match="executor='processes'"):
        answers(noting, executor="processes")
    assert noting.answered() == 0
