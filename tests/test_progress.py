"""The bar is silent where nobody watches, patient where somebody does."""

from __future__ import annotations

import io
import sys

import pytest

from tacit import _progress
from tacit._progress import training_bar


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
