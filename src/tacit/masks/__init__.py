"""Everything about scans: volumes, codes of masks, teachers, students, segmenters, their run.

Whole masks are answers too long for votes: teachers' masks become short codes, of which a noisy
mean is released (docs/theory/high-dimensional.md). The names load on first use; torch, MONAI and
nibabel, where they are needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "METHOD": "runs",
    "AtlasTeacher": "atlas",
    "AutoencoderCodec": "codecs",
    "BlockPCACodec": "codecs",
    "CallableTeacher": "teachers",
    "Codec": "codecs",
    "DPPCACodec": "codecs",
    "DPSGDSegmenter": "dpsgd",
    "IdentityCodec": "codecs",
    "ImageRegression": "codecs",
    "LinearCodec": "codecs",
    "MaskRounds": "rounds",
    "MaskTeacher": "teachers",
    "PATESegmenter": "segmenter",
    "PCACodec": "codecs",
    "SimulatedSegmenter": "segmenter",
    "Smoothed": "codecs",
    "UNetRecipe": "unet",
    "UNetStudent": "student",
    "UNetTeacher": "teachers",
    "Volumes": "volumes",
    "check_file_names": "volumes",
    "combine_rounds": "codecs",
    "deformed": "codecs",
    "encoded_answers": "codecs",
    "generated_volumes": "volumes",
    "level_of_volume": "rounds",
    "load_segmenter": "student",
    "load_volumes": "volumes",
    "mask_figure": "gallery",
    "mask_metrics": "metrics",
    "noise_to_signal": "codecs",
    "organ_dice": "metrics",
    "parse_nifti": "nifti",
    "save_mask": "nifti",
    "save_masks": "volumes",
    "segment_with_teachers": "teachers",
    "smooth_by_images": "codecs",
    "water_filling": "codecs",
    "wiener_weights": "codecs",
}

__all__ = [
    "METHOD",
    "AtlasTeacher",
    "AutoencoderCodec",
    "BlockPCACodec",
    "CallableTeacher",
    "Codec",
    "DPPCACodec",
    "DPSGDSegmenter",
    "IdentityCodec",
    "ImageRegression",
    "LinearCodec",
    "MaskRounds",
    "MaskTeacher",
    "PATESegmenter",
    "PCACodec",
    "SimulatedSegmenter",
    "Smoothed",
    "UNetRecipe",
    "UNetStudent",
    "UNetTeacher",
    "Volumes",
    "check_file_names",
    "combine_rounds",
    "deformed",
    "encoded_answers",
    "generated_volumes",
    "level_of_volume",
    "load_segmenter",
    "load_volumes",
    "mask_figure",
    "mask_metrics",
    "noise_to_signal",
    "organ_dice",
    "parse_nifti",
    "save_mask",
    "save_masks",
    "segment_with_teachers",
    "smooth_by_images",
    "water_filling",
    "wiener_weights",
]

if TYPE_CHECKING:
    from tacit.masks.atlas import AtlasTeacher
    from tacit.masks.codecs import (
        AutoencoderCodec,
        BlockPCACodec,
        Codec,
        DPPCACodec,
        IdentityCodec,
        ImageRegression,
        LinearCodec,
        PCACodec,
        Smoothed,
        combine_rounds,
        deformed,
        encoded_answers,
        noise_to_signal,
        smooth_by_images,
        water_filling,
        wiener_weights,
    )
    from tacit.masks.dpsgd import DPSGDSegmenter
    from tacit.masks.gallery import mask_figure
    from tacit.masks.metrics import mask_metrics, organ_dice
    from tacit.masks.nifti import parse_nifti, save_mask
    from tacit.masks.rounds import MaskRounds, level_of_volume
    from tacit.masks.runs import METHOD
    from tacit.masks.segmenter import PATESegmenter, SimulatedSegmenter
    from tacit.masks.student import UNetStudent, load_segmenter
    from tacit.masks.teachers import (
        CallableTeacher,
        MaskTeacher,
        UNetTeacher,
        segment_with_teachers,
    )
    from tacit.masks.unet import UNetRecipe
    from tacit.masks.volumes import (
        Volumes,
        check_file_names,
        generated_volumes,
        load_volumes,
        save_masks,
    )


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tacit.masks' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tacit.masks.{_HOME[name]}"), name)
