"""Long answers to short codes and back, for `GaussianMean`.

A codec is part of what is released: it is made from public data, or bought with differential
privacy, and says which. No property of a codec is relied upon for privacy; the mechanism clips.
What to keep of a code: docs/theory/high-dimensional.md#what-to-keep.
"""

from tacit.masks.codecs.autoencoder import AutoencoderCodec, ball_activation
from tacit.masks.codecs.base import Codec, encoded_answers
from tacit.masks.codecs.blocks import BlockPCACodec
from tacit.masks.codecs.deforming import deformed
from tacit.masks.codecs.dp_pca import DPPCACodec
from tacit.masks.codecs.identity import IdentityCodec
from tacit.masks.codecs.images import ImageRegression, Smoothed, smooth_by_images
from tacit.masks.codecs.linear import LinearCodec
from tacit.masks.codecs.pca import PCACodec
from tacit.masks.codecs.shrinkage import (
    combine_rounds,
    noise_to_signal,
    remaining_spectrum,
    water_filling,
    wiener_weights,
)
from tacit.masks.codecs.smoothing import smooth_releases

__all__ = [
    "AutoencoderCodec",
    "BlockPCACodec",
    "Codec",
    "DPPCACodec",
    "IdentityCodec",
    "ImageRegression",
    "LinearCodec",
    "PCACodec",
    "Smoothed",
    "ball_activation",
    "combine_rounds",
    "deformed",
    "encoded_answers",
    "noise_to_signal",
    "remaining_spectrum",
    "smooth_by_images",
    "smooth_releases",
    "water_filling",
    "wiener_weights",
]
