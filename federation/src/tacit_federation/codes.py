"""Studies of codes: a codec that the document pins, a plan for a price, and masks of a release.

All of it is public. A site with another codec than the study's would add incompatible numbers: it
refuses before anything is trained.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidArgument, Refused
from tacit.mechanisms import Plan
from tacit.privacy import calibrate_gaussian
from tacit_federation.inputs import frame_file, read_frame
from tacit_federation.releasing import StudyRelease
from tacit_federation.study import Study

_SLOW, _PATIENCE = 17.0, 5.0
"""Seconds for a million numbers at 2^38 steps (half as many at 2^37), and what is worth a word."""


def codec_hash(codec: Any) -> str:
    """Return the hash by which a study pins its codec.

    Parameters
    ----------
    codec : PCACodec, BlockPCACodec or IdentityCodec

    Returns
    -------
    str, SHA-256 of `tacit.masks.codec_bytes`
    """
    from tacit.masks import codec_bytes

    return hashlib.sha256(codec_bytes(codec)).hexdigest()


def check_codec(study: Study, codec: Any) -> None:
    """Raise `Refused` unless a codec is the one that a study of codes pins, if any."""
    pinned = study.answers.get("codec")
    if pinned is not None and codec_hash(codec) != pinned:
        raise Refused("Expected the codec that the study pins: this one has another hash.")
    if codec.length != study.shape[1]:
        raise Refused(f"Expected a codec of the study's length, {study.shape[1]}.")


def slow_noise(study: Study) -> str:
    """Return a warning where drawing a study's noise takes long, otherwise ""."""
    mechanism: Any = study.plan.mechanism
    if not study.codes:
        return ""
    steps = mechanism.deviation / mechanism.grid
    seconds = _SLOW * steps / 2.0**38 * study.shape[0] * study.shape[1] / 1e6
    if steps < 2.0**36 or seconds < _PATIENCE:
        return ""
    return (
        f"The noise has a deviation of 2^{math.log2(steps):.0f} steps and will take about "
        f"{seconds:.0f} processor seconds to draw; a shorter code or a larger epsilon takes less."
    )


def codes_study(
    codec: Any, scans: ArrayLike, *, n_teachers: int, epsilon: float, delta: float, shared: bool
) -> tuple[Plan, dict[str, Any], bytes]:
    """Return plan, answers and frame of a study of codes that costs epsilon.

    Parameters
    ----------
    codec : PCACodec, BlockPCACodec or IdentityCodec, pinned by the document
    scans : array of shape (queries, *spatial), the public inputs
    n_teachers : int, of all sites together
    epsilon, delta : float, cost for one unit
    shared : bool
        Two aggregators, each with its noise (`SharedCodes`); else one (`GaussianMean`).

    Returns
    -------
    tuple of Plan, dict and bytes
        `plan` and `codes` of `new_document`, and the frame that goes with the inputs.
    """
    array = np.asarray(scans)
    noise = calibrate_gaussian(1.0, epsilon, delta)
    rounds = _round(codec, array, n_teachers, noise, shared=shared)
    _, plan, public = next(iter(rounds))
    frame = frame_file(0.0, public.get("weights", 1.0), (len(array), codec.length))
    pins = {"frame": hashlib.sha256(frame).hexdigest(), "codec": codec_hash(codec)}
    return plan, {"length": codec.length, **pins}, frame


def _round(codec: Any, scans: NDArray[Any], n_teachers: int, noise: float, *, shared: bool) -> Any:
    from tacit.masks import MaskRounds

    about: dict[str, Any] = {"n_teachers": n_teachers, "each_alone": False, "rounds": 1}
    return MaskRounds(codec, scans, noise=noise, shared=shared, **about)


def released_masks(
    study: Study, found: StudyRelease, codec: Any, scans: ArrayLike, frame: bytes
) -> NDArray[Any]:
    """Return the soft masks of a study that `codes_study` planned, by post-processing.

    Parameters
    ----------
    study : Study
    found : StudyRelease
    codec : Codec, the pinned one
    scans : array of shape (queries, *spatial), the study's inputs
    frame : bytes, the study's frame

    Returns
    -------
    array of shape (queries, *shape), of all but the background
    """
    check_codec(study, codec)
    noise = 1 / math.sqrt(study.plan.mu_squared() or math.inf)
    teachers = study.teachers_of([each.id for each in study.sites])
    shared = study.mode == "two-aggregators"
    rounds = _round(codec, np.asarray(scans), teachers, noise, shared=shared)
    _, _, public = next(iter(rounds))
    told = read_frame(study, frame)
    weights = np.broadcast_to(np.asarray(public.get("weights", 1.0)), told["weights"].shape)
    if told["centres"].any() or not np.allclose(told["weights"], weights, rtol=1e-6):
        raise InvalidArgument("Expected the frame of a single round; MaskRounds learns from more.")
    rounds.learn(found.release, found.teachers)
    masks: NDArray[Any] = rounds.answers()
    return masks
