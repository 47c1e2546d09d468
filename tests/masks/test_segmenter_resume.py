"""A segmenter that was stopped goes on in another process, and asks no teacher twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from tacit.masks import AutoencoderCodec, PCACodec
from tacit.masks.rounds import EncodeMasks
from tacit.teachers.checkpoints import fingerprint

SCRIPT = """
import sys
import numpy as np
from tacit import PATESegmenter
from tacit.masks import generated_volumes

folder, stop = sys.argv[1], int(sys.argv[2])
images, masks = generated_volumes(40, (12, 12), seed=3, noise=0.02).normalised().arrays()


def teacher(images, masks, queries, *, n_classes, seed):
    with open(folder + "/log", "a") as log:
        log.write("x")
    with open(folder + "/log") as log:
        if len(log.read()) > stop:
            raise KeyboardInterrupt
    organ = np.repeat(masks.mean(axis=0)[None], len(queries), axis=0)
    return np.stack([1 - organ, organ], axis=1)


class Student:
    def fit(self, images, targets):
        return self

    def __sklearn_clone__(self):
        return self


model = PATESegmenter(
    teacher,
    student=Student(),
    n_teachers=8,
    each_alone=True,
    delta=1e-2,
    checkpoint=folder + "/kept",
    random_state=0,
)
model.fit(images[:8], masks[:8], images[8:12], public_masks=masks[12:], groups=range(8))
print(model.released_.shape)
"""


def test_a_stopped_segmenter_goes_on_in_another_process(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)

    def run(stop: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(script), str(tmp_path), str(stop)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert "KeyboardInterrupt" in run(stop=3).stderr
    asked = len((tmp_path / "log").read_text())
    assert asked == 4
    done = run(stop=99)
    assert done.stdout.strip() == "(4, 12, 12)", done.stderr
    in_all = len((tmp_path / "log").read_text())
    assert in_all == 8 + 1  # the one that was asked when the run was stopped


def test_every_codec_has_one_fingerprint() -> None:
    """Made twice, the objects differ in address and not in what they compute."""
    masks = np.random.default_rng(0).integers(0, 2, size=(12, 8, 8))

    def made(seed: int) -> list[bytes]:
        network = AutoencoderCodec.fit(masks, length=2, epochs=1, random_state=seed)
        linear = PCACodec.fit(masks, n_components=3 + seed)
        return [fingerprint(EncodeMasks(codec, 2)) for codec in (network, linear)]

    one, two, other = made(0), made(0), made(1)
    assert one == two
    assert not set(one) & set(other)
