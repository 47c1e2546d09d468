"""What is written durably: a pipe or a device stays what it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tacit._files import write_atomically


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_or_device_is_written_to_and_never_replaced(tmp_path: Path) -> None:
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
