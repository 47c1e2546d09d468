"""The bar is silent where nobody watches, patient where somebody does."""

from __future__ import annotations

import io
import sys
import threading
from types import SimpleNamespace

import pytest

from tacit import _progress
from tacit._progress import at_work, last_line, spinner, training_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, seconds_a_step: float) -> str:
    clock = iter(range(1000))
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(clock) * seconds_a_step)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with training_bar("Training", total=5) as step:
        for _ in range(5):
            step()
    return stream.getvalue()


def test_silent_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, io.StringIO(), 10.0) == ""


def test_silent_for_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, Terminal(), 0.1) == ""


def test_shown_after_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Training" in run(monkeypatch, Terminal(), 1.0)


def test_the_terminal_is_given_back_when_training_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    clock = iter(range(1000))
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(clock) * 3.0)
    monkeypatch.setattr(sys, "stderr", stream)

    def fail() -> None:
        with training_bar("Training", total=2) as step:
            step()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert stream.getvalue().count("\x1b[?25h") == stream.getvalue().count("\x1b[?25l") > 0


class Clock:
    """A clock that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(_progress.time, "monotonic", lambda: self.now)


def frames(stream: io.StringIO, count: int = 3) -> str:
    """Let the spinner have so many turns; return what it wrote."""
    turns = iter([False] * count + [True])
    before = len(stream.getvalue())
    stop = SimpleNamespace(wait=lambda seconds: next(turns))
    _progress._spin(stream, stop)
    return stream.getvalue()[before:]


def test_the_spinner_waits_for_two_seconds_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, clock = Terminal(), Clock(monkeypatch)
    _progress.moved()
    clock.now += 1.9
    assert frames(stream) == ""
    clock.now += 1.1
    with at_work("Pricing"):
        assert frames(stream) == "\r| Pricing, 3 s\r/ Pricing, 3 s\r- Pricing, 3 s"
    assert "Working" in frames(stream)
    _progress.moved()
    assert stream.getvalue().endswith("\r\x1b[2K")
    assert frames(stream) == ""


def test_a_bar_has_the_line_and_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, clock = Terminal(), Clock(monkeypatch)
    _progress.moved()
    clock.now += 5
    assert "Working" in frames(stream)
    with last_line():
        assert stream.getvalue().endswith("\r\x1b[2K")
        clock.now += 5
        assert frames(stream) == ""
    assert frames(stream) == ""
    clock.now += 5
    assert "Working, 5 s" in frames(stream)
    _progress.moved()


def test_a_spinner_of_its_own_thread_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(_progress, "_PATIENCE", -1.0)
    monkeypatch.setattr(_progress, "_FRAME", 0.0)
    with spinner():
        while "Working" not in stream.getvalue():
            threading.Event().wait(0.001)
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_no_spinner_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(_progress, "_PATIENCE", -1.0)
    monkeypatch.setattr(_progress, "_FRAME", 0.0)
    with spinner():
        threading.Event().wait(0.01)
    assert stream.getvalue() == ""
