"""Files that are whole or absent; a pipe or a device stays what it is."""

from __future__ import annotations

import os
import stat

import pytest

from tacit import _files
from tacit._files import name_without_overwriting, write_atomically


def test_a_file_is_written_with_its_mode(tmp_path):
    target = tmp_path / "secret.json"
    write_atomically(target, b"\x00data", mode=0o600)
    assert target.read_bytes() == b"\x00data"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    write_atomically(str(target), b"newer", mode=0o600)
    assert target.read_bytes() == b"newer"
    assert list(tmp_path.iterdir()) == [target]


def test_the_umask_is_respected(tmp_path):
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    target = tmp_path / "labels.csv"
    target.write_bytes(b"old")

    def fail(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(_files.os, step, fail)
        with pytest.raises(OSError, match="disk full"):
            write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_data_is_on_disk_before_it_has_a_name(tmp_path, monkeypatch):
    order = []
    for step in ("fsync", "replace"):
        honest = getattr(os, step)
        monkeypatch.setattr(
            _files.os, step, lambda *a, s=step, h=honest: (order.append(s), h(*a))[1]
        )
    write_atomically(tmp_path / "file", b"data")
    assert order == ["fsync", "replace", "fsync"]


def test_writing_through_a_link_keeps_the_link(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


@pytest.mark.parametrize("links", [True, False])
def test_a_name_that_is_taken_stays_taken(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(_files.os, "link", lambda *_: (_ for _ in ()).throw(PermissionError()))
    new, target = tmp_path / "new", tmp_path / "target"
    new.write_bytes(b"new")
    assert name_without_overwriting(new, target)
    assert target.read_bytes() == b"new"
    if not links:  # without links the file was renamed
        new.write_bytes(b"newer")
    assert not name_without_overwriting(new, target)
    assert target.read_bytes() == b"new"


def test_a_directory_that_cannot_be_synchronised_is_no_failure(tmp_path):
    _files.sync_directory(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_or_device_is_written_to_and_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(pipe, b"labels")
        assert os.read(reader, 100) == b"labels"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]
