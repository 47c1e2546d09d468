"""Scans: volumes, codes of masks, teachers, students, segmenters, and the run of a segmentation.

Masks are too long for votes: teachers' masks become short codes, of which a noisy mean is released
(docs/theory/high-dimensional.md). A codec is part of the release: public, or bought with
differential privacy. No property of a codec is relied upon for privacy; the mechanism clips.
"""

from tacit.masks.autoencoder import AutoencoderCodec
from tacit.masks.codec_files import codec_bytes, codec_of_bytes, load_codec, save_codec
from tacit.masks.codecs import (
    Codec,
    IdentityCodec,
    LinearCodec,
    combine_rounds,
    encoded_answers,
    noise_to_signal,
    water_filling,
    wiener_weights,
)
from tacit.masks.evaluating import evaluate_masks
from tacit.masks.pca import BlockPCACodec, DPPCACodec, PCACodec, deformed
from tacit.masks.results import mask_figure, mask_metrics, organ_dice
from tacit.masks.rounds import (
    EncodeMasks,
    ImageRegression,
    MaskRounds,
    Smoothed,
    level_of_volume,
    smooth_by_images,
)
from tacit.masks.runs import METHOD
from tacit.masks.segmenters import DPSGDSegmenter, PATESegmenter, SimulatedSegmenter
from tacit.masks.teachers import (
    AtlasTeacher,
    CallableTeacher,
    MaskTeacher,
    UNetTeacher,
    segment_with_teachers,
)
from tacit.masks.unet import OVERLAP as OVERLAP
from tacit.masks.unet import UNetRecipe, UNetStudent, load_segmenter
from tacit.masks.volume_files import (
    VolumeFiles,
    load_volumes,
    open_volumes,
    parse_nifti,
    save_mask,
    save_masks,
)
from tacit.masks.volume_files import check_file_names as check_file_names
from tacit.masks.volumes import PERCENTILES as PERCENTILES
from tacit.masks.volumes import Volumes, generated_volumes
from tacit.masks.volumes import are_classes as are_classes

__all__ = [
    "METHOD",
    "AtlasTeacher",
    "AutoencoderCodec",
    "BlockPCACodec",
    "CallableTeacher",
    "Codec",
    "DPPCACodec",
    "DPSGDSegmenter",
    "EncodeMasks",
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
    "VolumeFiles",
    "Volumes",
    "codec_bytes",
    "codec_of_bytes",
    "combine_rounds",
    "deformed",
    "encoded_answers",
    "evaluate_masks",
    "generated_volumes",
    "level_of_volume",
    "load_codec",
    "load_segmenter",
    "load_volumes",
    "mask_figure",
    "mask_metrics",
    "noise_to_signal",
    "open_volumes",
    "organ_dice",
    "parse_nifti",
    "save_codec",
    "save_mask",
    "save_masks",
    "segment_with_teachers",
    "smooth_by_images",
    "water_filling",
    "wiener_weights",
]
