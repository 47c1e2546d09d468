"""Codecs by name, for run.toml: fitted on public masks, before anything is spent."""

from __future__ import annotations

from typing import Any

from tacit._checks import Floats, one_of
from tacit.masks.autoencoder import AutoencoderCodec
from tacit.masks.codecs import IdentityCodec
from tacit.masks.pca import BlockPCACodec, PCACodec

CODECS = ("linear", "blocks", "autoencoder", "naive")
_BLUR, _COPIES = 0.7, 3
_BLOCK, _BLOCK_COMPONENTS = 8, 32
_LENGTH, _EPOCHS = 32, 60


def fit_codec(
    name: str, answers: Floats, *, dimensions: int, sigma: float, random_state: int = 0
) -> Any:
    """Fit the codec of this name to public answers (n, [channels,] *sides).

    "linear": components of blurred masks and deformed copies; "blocks": one basis for all blocks of
    8 voxels a side; "autoencoder": 32 numbers, trained with the release's noise `sigma`; "naive":
    voxels.

    >>> import numpy as np
    >>> masks = np.eye(16).reshape(16, 4, 4)
    >>> [fit_codec(one, masks, dimensions=2, sigma=0.1).length for one in ("blocks", "naive")]
    [15, 16]
    """
    one_of(*CODECS, codec=name)
    if name == "naive":
        return IdentityCodec(answers.shape[1:])
    if name == "blocks":
        channels = answers.shape[1 : answers.ndim - dimensions]
        block = (*channels, *(min(_BLOCK, side) for side in answers.shape[-dimensions:]))
        return BlockPCACodec.fit(answers, block_shape=block, n_components=_BLOCK_COMPONENTS)
    if name == "autoencoder":
        return AutoencoderCodec.fit(
            answers,
            length=_LENGTH,
            dimensions=dimensions,
            sigma=sigma,
            epochs=_EPOCHS,
            random_state=random_state,
        )
    return PCACodec.fit(answers, blur=_BLUR, copies=_COPIES, dimensions=dimensions)
