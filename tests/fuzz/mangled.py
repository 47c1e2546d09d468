"""Damage for files: cut short, bytes changed, doubled, swapped for another file's, or random."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tacit.errors import TacitError

EXAMPLES = int(os.environ.get("TACIT_FUZZ_EXAMPLES", "40"))
"""Examples of each test; `make fuzz` asks for many more."""

fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


KINDS = ("cut", "flip", "insert", "drop", "double", "swap", "random")


@st.composite
def damaged(draw: st.DrawFn, *originals: bytes) -> bytes:
    """Draw one of the originals with something wrong with it, or nothing like any of them."""
    content = draw(st.sampled_from(originals))
    kind = draw(st.sampled_from(KINDS))
    if kind == "random":
        return draw(st.binary(max_size=200))
    if kind == "flip":
        return _flipped(draw, content)
    place = draw(st.integers(0, len(content)))
    head, tail = content[:place], content[place:]
    middle = {
        "cut": b"",
        "insert": draw(st.binary(min_size=1, max_size=20)) + tail,
        "drop": tail[draw(st.integers(1, 40)) :],
        "double": tail + content,
        "swap": tail[::-1],
    }
    return head + middle[kind]


def _flipped(draw: st.DrawFn, content: bytes) -> bytes:
    """Change a few bytes; most often near the beginning, where headers are."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 6))):
        limit = draw(st.sampled_from([min(len(content), 512), len(content)]))
        changed[draw(st.integers(0, limit - 1))] ^= draw(st.integers(1, 255))
    return bytes(changed)


def survives(call: Callable[[], Any]) -> Any:
    """Call a reader: it may succeed or refuse in one line; anything else is a bug."""
    with contextlib.suppress(TacitError):
        return call()
    return None
