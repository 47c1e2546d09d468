"""The setting of autoencoded PATE 2020 with real teachers: K = 8, N = 80, epsilon 8, delta 1e-3.

The paper's 400 training volumes are 320 for the teachers and 80 for the student, whose labels also
train the autoencoder; 84 are for tests. Here, of 260 hippocampi, 120 are the teachers', 80 the
student's, in the same double role, and 60 for tests. DP-SGD gets the 200, as the paper's gets 400.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from papers.items import Workplace
from papers.mask_schemes import EPOCHS, LENGTH, Array, Cell, hippocampus
from tacit.ledger import Ledger
from tacit.masks import (
    AutoencoderCodec,
    DPSGDSegmenter,
    UNetRecipe,
    UNetStudent,
    UNetTeacher,
    level_of_volume,
    organ_dice,
)
from tacit.mechanisms import GaussianMean, NoisySteps, Plan
from tacit.methods import NewLedger, Training
from tacit.noise import InsecureNoise
from tacit.teachers import Shard

CELL = Cell(8, 80, 8.0, 1e-3)
PRIVATE, ASKED = 120, 80
# Of the paper's DP-SGD: of each layer.
CLIP, VARIANCE = 4.0, 6.0
CHANNELS = (4, 8, 16)
LOT = 20


@dataclass(frozen=True)
class Part:
    """Scans and masks of some volumes."""

    scans: Array
    masks: Array


def parts(place: Workplace) -> list[Part]:
    """Return the teachers' volumes, the student's, and those for tests."""
    task = hippocampus(place)
    cuts = [PRIVATE, PRIVATE + ASKED]
    scans, masks = np.split(task.scans, cuts), np.split(task.masks.astype(np.int64), cuts)
    return [Part(*pair) for pair in zip(scans, masks, strict=True)]


def score(masks: Array, truth: Array) -> float:
    """Return the mean Dice."""
    return float(organ_dice(np.asarray(masks, dtype=np.uint8), truth).mean())


def teachers_say(private: Part, queries: Array) -> Array:
    """Return soft masks (teachers, queries, *sides) of eight U-Nets. The data set is open."""
    recipe = UNetRecipe(steps=150, batch_size=2)
    rows = np.arange(PRIVATE).reshape(CELL.teachers, -1)
    shards = (Shard(private.scans[own], private.masks[own], seed) for seed, own in enumerate(rows))
    teacher = UNetTeacher(recipe)
    return np.stack([teacher.segment_queries(one, queries, n_classes=2)[:, 1] for one in shards])


def results(place: Workplace) -> None:
    """Teachers, ensemble, release and student, and students for comparison."""
    private, asked, tests = parts(place)
    said = teachers_say(private, np.concatenate([asked.scans, tests.scans]))
    on_asked, on_tests = said[:, :ASKED], said[:, ASKED:]
    codec = AutoencoderCodec.fit(asked.masks, length=LENGTH, sigma=CELL.sigma, epochs=EPOCHS)
    codes = np.stack([codec.encode(one) for one in on_asked])
    mechanism = GaussianMean(CELL.sigma, 1.0, CELL.teachers)
    answers = codec.decode(np.asarray(mechanism.release(codes, InsecureNoise(0)).values))
    volume = float(asked.masks.sum() / ASKED)
    released = (answers > level_of_volume(answers, volume)).astype(np.uint8)
    mean = asked.masks.mean(axis=0)
    everywhere = np.broadcast_to(mean > level_of_volume(mean[None], volume), asked.masks.shape)

    def taught(masks: Array) -> float:
        student = UNetStudent(random_state=0).fit(asked.scans, masks.astype(np.uint8))
        return score(student.predict(tests.scans), tests.masks)

    single = [score(one > 0.5, tests.masks) for one in on_tests]
    together = on_tests.mean(axis=0)
    rows = [
        ("teachers, each alone: mean of 8", "-", np.mean(single), "0.547"),
        ("teachers' mean mask, no noise", "-", score(together > 0.5, tests.masks), "-"),
        ("autoencoded PATE", score(released, asked.masks), taught(released), "0.561"),
        ("public mean mask", score(everywhere, asked.masks), taught(everywhere), "-"),
        ("the autoencoder's own 80 masks", 1.0, taught(asked.masks), "-"),
    ]
    columns = ["who", "released, on the 80 asked", "Dice on test volumes", "paper"]
    title = "Autoencoded PATE 2020: K = 8, N = 80, epsilon 8, delta 1e-3"
    place.table(title, columns, [[_three(value) for value in row] for row in rows])


def baseline(place: Workplace) -> None:
    """DP-SGD as the paper sets it, as far as it says, and with this library's settings."""
    private, asked, tests = parts(place)
    scans = np.concatenate([private.scans, asked.scans])
    masks = np.concatenate([private.masks, asked.masks])
    layers = count_layers(scans[:1], masks[:1])
    rows = []
    for name, settings in _recipes(layers, len(scans)):
        begun = time.process_time()
        model = DPSGDSegmenter(
            channels=CHANNELS,
            n_records=len(scans),
            epsilon=CELL.epsilon,
            delta=CELL.delta,
            ledger=NewLedger(dataset="MSD hippocampus"),
            noise=InsecureNoise(0),
            random_state=0,
            **settings,
        ).fit(scans, masks)
        ledger: Ledger = model.ledger_
        found = score(model.predict(tests.scans), tests.masks)
        rows.append([name, _three(ledger.spent()), _three(found), time.process_time() - begun])
    rows.append(["the paper, brain tumour, 400 volumes", "8", "0.53", "-"])
    columns = ["DP-SGD on 200 volumes", "epsilon", "Dice on test volumes", "CPU (s)"]
    place.table(f"DP-SGD of a U-Net with {layers} layers, delta 1e-3", columns, rows)


def count_layers(scans: Array, masks: Array) -> int:
    """Return how many layers of the network have parameters."""
    student = UNetStudent(channels=CHANNELS, residual_units=0, steps=1)
    student.fit(scans, masks.astype(np.uint8))
    found = [list(one.parameters(recurse=False)) for one in student.network_.modules()]
    return sum(bool(one) for one in found)


def _recipes(layers: int, size: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the paper's noise for as many steps as epsilon allows, and our settings.

    Noise of deviation sqrt(6) clips on each of J layers, each clipped at 4: a unit moves all layers
    by sqrt(J) clips together, so that the noise multiplier is sqrt(6/J).
    """
    noise, rate = math.sqrt(VARIANCE / layers), LOT / size
    steps = most_steps(noise, rate)
    training = Training(
        clipping="per-layer", split="equal", clip=CLIP, batch_size=LOT, epochs=steps * rate
    )
    yield (
        f"each layer clipped at 4, variance 6, {steps} steps",
        {"noise_multiplier": noise, "training": training},
    )
    small = Training(clip=0.01, learning_rate=2e-2, epochs=30, batch_size=size // 2)
    yield "flat, clip 0.01, 60 steps of 100", {"training": small}


def most_steps(noise: float, rate: float) -> int:
    """Return how many noisy steps the budget pays for."""

    def epsilon(steps: int) -> float:
        return Plan(NoisySteps(noise, rate), steps).epsilon(CELL.delta)

    return bisect_right(range(1, 10_000), CELL.epsilon, key=epsilon)


def _three(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.3f}"
