"""Long answers to short codes and back, for `GaussianMean`.

A codec is part of what is released: it is made from public data, or bought with differential
privacy, and says which. No property of a codec is relied upon for privacy; the mechanism clips.
What to keep of a code: docs/theory/high-dimensional.md#what-to-keep.
"""

from tacit.masks.codecs.autoencoder import AutoencoderCodec
from tacit.masks.codecs.base import Codec, IdentityCodec, encoded_answers
from tacit.masks.codecs.blocks import BlockPCACodec
from tacit.masks.codecs.images import ImageRegression, Smoothed, smooth_by_images
from tacit.masks.codecs.linear import (
    LinearCodec,
    combine_rounds,
    noise_to_signal,
    water_filling,
    wiener_weights,
)
from tacit.masks.codecs.pca import DPPCACodec, PCACodec, deformed

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
    "combine_rounds",
    "deformed",
    "encoded_answers",
    "noise_to_signal",
    "smooth_by_images",
    "water_filling",
    "wiener_weights",
]
