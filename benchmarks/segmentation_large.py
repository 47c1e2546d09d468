"""A volume of 240 x 240 x 155 voxels from 50 teachers, naively and by blocks, in bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measured import Stopwatch
from benchmarks.segmentation_data import Array
from tacit import GaussianMean, InsecureNoise
from tacit.masks import BlockPCACodec, IdentityCodec, encoded_answers
from tacit.privacy import calibrate_gaussian

SHAPE = (240, 240, 155)
BLOCK = (24, 24, 16)
EPSILON, DELTA = 8.0, 1e-5


def ellipsoid(seed: int) -> Array:
    """Make the mask of an ellipsoid of random place and size."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(scale=0.08, size=3)
    radii = 0.4 + rng.uniform(-0.1, 0.1, size=3)
    axes = np.meshgrid(
        *(np.linspace(-1, 1, side, dtype=np.float32) for side in SHAPE), sparse=True, indexing="ij"
    )
    parts = [np.square((a - c) / r) for a, c, r in zip(axes, centre, radii, strict=True)]
    return np.asarray(parts[0] + parts[1] + parts[2] <= 1)


def volume(kind: str, teachers: int, public: int, n_components: int) -> dict[str, Any]:
    """Fit, aggregate one query over all teachers, decode; teachers' masks are made as needed."""
    watch = Stopwatch()
    with watch.part("fit"):
        codec: Any = IdentityCodec(SHAPE)
        if kind == "block":
            masks = np.stack([ellipsoid(10_000 + i) for i in range(public)])
            codec = BlockPCACodec.fit(masks, block_shape=BLOCK, n_components=n_components)
    query = ellipsoid(0)
    with watch.part("encode and release"):
        radius = codec.diameter / 2
        noise = calibrate_gaussian(1.0, EPSILON, DELTA)
        plan = GaussianMean.with_noise(noise, queries=1, radius=radius, n_teachers=teachers)
        codes = encoded_answers(codec, lambda teacher, _: query, teachers, 1)
        release = plan.mechanism.release(codes, InsecureNoise(0))
    with watch.part("decode"):
        sigma = plan.mechanism.sigma
        settings = {"sigma": sigma} if kind == "block" else {}
        answer = codec.decode(release.values, **settings)[0]
    found = answer > 0.5
    both = 2 * int((found & query).sum()) / max(1, int(found.sum()) + int(query.sum()))
    return {
        "length": codec.length,
        "sigma": sigma,
        "dice": both,
        "wall": watch.wall,
        "cpu": watch.cpu,
    }
