"""How the real run's codec was chosen: 80 private volumes as teachers of 30 other private ones.

    python -m benchmarks.segment_choices --data DIR

The 40 held-out volumes and the 50 asked ones are not touched, but private masks are: epsilon does
not cover these choices. The noise is that of 130 teachers and 50 queries at epsilon 8, seeded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.segment_hippocampus import DELTA, Case, as_text, cut_score, parse, split
from benchmarks.segment_teaching import Overheard, score
from benchmarks.segmentation_data import Array, shown
from tacit import InsecureNoise
from tacit.masks import AtlasTeacher, MaskRounds, PCACodec
from tacit.privacy import calibrate_gaussian
from tacit.teachers import Shard

TEACHERS, QUERIES = 80, 30
CODECS = ((0.7, 3), (0.7, 10), (0.4, 10), (0.0, 10))
"""Blur in voxels, and deformed copies of each public mask."""


def main() -> None:
    options = parse()
    data = split(options.data, options.seed)
    asked = Case(data.private.images[TEACHERS:][:QUERIES], data.private.masks[TEACHERS:][:QUERIES])
    said = _answers(data.private, asked.images, options)
    rows = [_row("teachers' mean", said.mean(axis=0), asked.masks, data.volume)]
    for blur, copies in CODECS:
        known = data.known.masks.astype(float)
        codec = PCACodec.fit(known, blur=blur, copies=copies, dimensions=3)
        codes = np.stack([codec.encode(one) for one in said])
        name = f"blur {blur:g}, {copies} copies"
        exact = codec.decode(codes.mean(axis=0))
        rows.append(_row(f"{name}: no noise", exact, asked.masks, data.volume))
        for rounds in (2, 4):
            found = released(codec, codes, asked.images, options.epsilon, rounds)
            rows.append(_row(f"{name}: {rounds} rounds", found, asked.masks, data.volume))
    title = "Dice of 30 private scans by 80 private atlases"
    Console(width=120).print(shown(title, rows, as_text))


def _row(name: str, soft: Array, truth: Array, volume: float) -> dict[str, Any]:
    cut = cut_score(soft, truth, volume)
    return {"masks": name, "cut at 1/2": score(soft > 0.5, truth), "at the public volume": cut}


def _answers(private: Case, queries: Array, options: Any) -> Array:
    heard = Overheard(AtlasTeacher(), options.keep)
    shards = (Shard(private.images[[i]], private.masks[[i]], seed=0) for i in range(TEACHERS))
    return np.stack([heard.segment_queries(one, queries, n_classes=2)[:, 1] for one in shards])


def released(codec: Any, codes: Array, scans: Array, epsilon: float, rounds: int) -> Array:
    """Release with the noise-to-signal ratio that 130 teachers and 50 queries have."""
    made = MaskRounds(
        codec,
        scans,
        n_teachers=TEACHERS,
        each_alone=True,
        noise=equal_noise(epsilon),
        rounds=rounds,
    )
    for number, plan, public in made:
        made.learn(plan.mechanism.release(codes, InsecureNoise(number), **public))
    return np.asarray(made.answers())


def equal_noise(epsilon: float) -> float:
    """Return the noise with which 80 teachers and 30 queries are as noisy as 130 and 50."""
    wanted = calibrate_gaussian(np.sqrt(50) / 130, epsilon, DELTA)
    return float(wanted / (np.sqrt(QUERIES) / TEACHERS))


if __name__ == "__main__":
    main()
