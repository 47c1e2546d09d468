"""What one aggregator ever holds and hears is the same, bit for bit, for equal noisy totals.

The claim of docs/theory/federation.md#two-aggregators, on whole folders and all messages: times,
keys and coins are fixed, the honest sites' answers and the other aggregator's noise change
together.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
from datetime import UTC, datetime

import numpy as np
import pytest
from network import CLASSES, QUERIES
from two_parties import NOW, TwoParties, votes

from tacit.ledger import chain
from tacit.noise import GrantedNoise, expand
from tacit_federation import exchanging, sums
from tacit_federation.aggregator import Aggregator

HERE = [votes(number) for number in range(3)]
ELSEWHERE = [votes(number) for number in (10, 11, 12)]
SEEDS = [bytes([number + 1]) * 32 for number in range(3)]
MOVED = sum(ELSEWHERE) - sum(HERE)


@pytest.fixture
def start(tmp_path):
    """The folders of both, with a study that is open: every run begins as a copy of them."""
    made = TwoParties(tmp_path / "start")
    made.close()
    return made


def run(start, folder, monkeypatch, counts, noises, masks=None):
    """Run the whole protocol in copies of the folders; return each one's folder and messages."""
    for name in ("first", "second"):
        shutil.copytree(start.folder / name, folder / name)
    start.time = float(NOW)
    start.places = [Aggregator(folder / name, clock=start.clock) for name in ("first", "second")]
    drawn, numbers = iter(noises), itertools.count()

    def noise(self, sigma, grid, size):
        return next(drawn)

    with monkeypatch.context() as fixed:
        fixed.setattr(GrantedNoise, "rounded_gaussian_steps", noise)
        fixed.setattr(exchanging.secrets, "token_hex", lambda size: f"{next(numbers):0{2 * size}x}")
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        fixed.setattr(chain, "clock", lambda: moment)
        if masks is not None:  # the first one's masks, as if other seeds had led to them
            table = dict(zip(SEEDS, masks, strict=True))
            fixed.setattr(sums, "expand", lambda seed, shape: table[seed])
            fixed.setattr(
                sums,
                "split",
                lambda values, seed: (seed, values.view(np.uint64) - table[seed]),
            )
        start.send_all(counts, SEEDS)
        messages = start.finish()
    start.close()
    return {name: (held(folder / name), told(messages, name)) for name in ("first", "second")}


def held(folder):
    """Every file of a folder by its hash; nothing is left out but the names of locks."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def told(messages, name):
    return [(kind, body) for to, kind, body in messages if to == name]


def noise_of(number):
    return np.random.default_rng(100 + number).integers(-30, 30, (QUERIES, CLASSES))


def test_the_first_sees_the_same_for_equal_noisy_totals(start, tmp_path, monkeypatch):
    """The same seeds; the second's noise makes up for other answers."""
    first, second = noise_of(1), noise_of(2)
    one = run(start, tmp_path / "one", monkeypatch, HERE, (first, second))
    same = run(start, tmp_path / "same", monkeypatch, HERE, (first, second))
    assert one == same  # everything random is fixed
    other = run(start, tmp_path / "other", monkeypatch, ELSEWHERE, (first, second - MOVED))
    assert other["first"] == one["first"]
    less = run(start, tmp_path / "less", monkeypatch, ELSEWHERE, (first, second))
    assert less["first"] != one["first"]  # the comparison can fail


def test_the_second_sees_the_same_for_equal_noisy_totals(start, tmp_path, monkeypatch):
    """A mask a becomes a + y - x, which is as likely; the first's noise makes up for it."""
    first, second = noise_of(1), noise_of(2)
    masks = [expand(seed, (QUERIES, CLASSES)) for seed in SEEDS]
    moved = [
        mask + (there - here).view(np.uint64)
        for mask, here, there in zip(masks, HERE, ELSEWHERE, strict=True)
    ]
    one = run(start, tmp_path / "one", monkeypatch, HERE, (first, second), masks)
    other = run(start, tmp_path / "other", monkeypatch, ELSEWHERE, (first - MOVED, second), moved)
    assert other["second"] == one["second"]
    less = run(start, tmp_path / "less", monkeypatch, ELSEWHERE, (first, second), moved)
    assert less["second"] != one["second"]  # the comparison can fail
