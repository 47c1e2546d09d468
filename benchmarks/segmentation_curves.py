"""The papers' own figures as ours: components against noise, and reconstruction by each codec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.segmentation_data import Array, Task
from tacit.masks import AutoencoderCodec, IdentityCodec, PCACodec, wiener_weights

SIGMAS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
"""Noise on each coordinate of a code, in voxels."""
RELATIVE = (0.0, 0.05, 0.2)
TESTED = (0.0, 0.05, 0.2, 0.5)
"""Noise on each coordinate of a code in the unit ball."""
LENGTH, EPOCHS = 32, 60
DRAWS = 20


def components(task: Task) -> list[dict[str, float]]:
    """Return errors per volume of mean codes with noise, by number of components.

    The rule L* = #{lambda > sigma^2} with the spectrum of the fitted masks (the papers) and of
    held-out ones; the best L by trying all of them on the queries; and the Wiener shrinkage.
    """
    rng = np.random.default_rng(0)
    fitted, codec = PCACodec.fit(task.public, folds=1), PCACodec.fit(task.public)
    codes = codec.encode(task.asked)
    energy = np.square(task.asked - codec.mean).sum(axis=(1, 2, 3)).mean()
    rows = []
    for sigma in SIGMAS:
        noisy = codes + rng.normal(scale=sigma, size=(DRAWS, *codes.shape))
        gains = np.square(codes) - np.square(noisy - codes)
        errors = energy - np.concatenate([[0.0], gains.mean(axis=(0, 1)).cumsum()])
        shrunk = noisy * wiener_weights(codec.spectrum, sigma)
        wiener = energy - np.square(codes).sum(axis=1).mean()
        wiener += np.square(shrunk - codes).sum(axis=2).mean()
        rule, papers = (int(one.useful(sigma).weights.sum()) for one in (codec, fitted))
        rows.append(
            {
                "sigma": sigma,
                "L* (paper)": papers,
                "L* (held out)": rule,
                "best L": int(errors.argmin()),
                "error, L* (paper)": float(errors[papers]),
                "error, L* (held out)": float(errors[rule]),
                "error, best L": float(errors.min()),
                "error, Wiener": float(wiener),
            }
        )
    return rows


def reconstruction(task: Task) -> list[dict[str, Any]]:
    """Return mean squared errors per thousand voxels on queries, by noise of training and test.

    All codes are scaled to the unit ball. "Training noise" is that in the autoencoders' bottleneck,
    and for PCA that of its Wiener weights. The 2D autoencoder takes slices as channels.
    """
    rows = []
    for trained in RELATIVE:
        for name, make in _codecs(task, trained).items():
            row: dict[str, Any] = {"codec": name, "training noise": trained}
            for tested in TESTED:
                row[f"noise {tested:g}"] = _error(make, task.asked, tested)
            rows.append(row)
    return rows


Decoder = Callable[[Array, float], Array]


def _error(decode: Decoder, masks: Array, sigma: float) -> float:
    found = np.clip(decode(masks, sigma), 0.0, 1.0)
    return 1000 * float(np.square(found - masks).mean())


def _codecs(task: Task, trained: float) -> dict[str, Decoder]:
    masks = task.public
    pca = PCACodec.fit(masks)
    weights = wiener_weights(pca.spectrum, trained * pca.radius)
    settings: dict[str, Any] = {"length": LENGTH, "sigma": trained, "epochs": EPOCHS}
    flat = AutoencoderCodec.fit(masks, dimensions=2, **settings)
    deep = AutoencoderCodec.fit(masks, dimensions=3, **settings)
    naive = IdentityCodec(masks.shape[1:])
    made = {
        "PCA": lambda y, s: pca.decode(_noisy(pca.encode(y), s * pca.radius) * weights),
        "2D autoencoder": lambda y, s: flat.decode(_noisy(flat.encode(y), s)),
        "3D autoencoder": lambda y, s: deep.decode(_noisy(deep.encode(y), s)),
    }
    if not trained:
        radius = naive.diameter / 2
        made["naive"] = lambda y, s: naive.decode(_noisy(naive.encode(y), s * radius))
        made["mean mask"] = lambda y, s: np.broadcast_to(pca.mean, y.shape)
    return made


def _noisy(codes: Array, sigma: float) -> Array:
    noise = np.random.default_rng(1).normal(size=codes.shape)
    return np.asarray(codes + sigma * noise)
