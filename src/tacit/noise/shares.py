"""Additive shares mod 2^64: two numbers that reveal nothing alone, and their sum.

One party gets a seed, which ChaCha20 expands into a (RFC 8439, nonce and counter 0), the other
b = x - a mod 2^64. The seed does not depend on x; b is uniform as far as ChaCha20 cannot be told
from random words. Overflow can spoil a total, never hide less
(docs/theory/federation.md#two-aggregators).
"""

from __future__ import annotations

import math
import secrets

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import ArrayLike, NDArray

from tacit._checks import at_least
from tacit.errors import InvalidArgument

Shares = NDArray[np.uint64]
SEED_BYTES = 32


def expand(seed: bytes, shape: tuple[int, ...]) -> Shares:
    """Return the share that a seed stands for.

    Parameters
    ----------
    seed : bytes
        32 bytes; secret.
    shape : tuple of int
        Of the array; public.

    Returns
    -------
    array of uint64, of that shape
        ChaCha20 with the seed as key, as little-endian words, row by row. As secret as the seed.

    Examples
    --------
    >>> int(expand(bytes(range(32)), (1,))[0])
    7645359380336737593
    """
    if not isinstance(seed, bytes) or len(seed) != SEED_BYTES:
        raise InvalidArgument("Expected a seed of 32 bytes.")
    sizes = tuple(at_least(0, shape=size) for size in shape)
    stream = Cipher(algorithms.ChaCha20(seed, nonce=bytes(16)), mode=None).encryptor()
    words = np.frombuffer(stream.update(bytes(8 * math.prod(sizes))), dtype="<u8")
    return words.astype(np.uint64).reshape(sizes)


def split(values: ArrayLike, seed: bytes | None = None) -> tuple[bytes, Shares]:
    """Split whole numbers into a seed and a share, which add up to them mod 2^64.

    Parameters
    ----------
    values : array of int
        Whole numbers from -2^63 to 2^63 - 1; secret.
    seed : bytes, optional
        32 bytes that were never used before; by default fresh ones of the operating system.

    Returns
    -------
    tuple of bytes and array of uint64
        The seed, for one party, and values - expand(seed) mod 2^64, for the other. Neither reveals
        anything alone; both together are as secret as the values.

    Examples
    --------
    >>> seed, share = split([[3, -1]])
    >>> (expand(seed, (1, 2)) + share).view("int64").tolist()
    [[3, -1]]
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or (array.dtype.kind == "u" and array.dtype.itemsize == 8):
        raise InvalidArgument(f"Expected whole numbers that int64 holds, got dtype {array.dtype}.")
    chosen = secrets.token_bytes(SEED_BYTES) if seed is None else seed
    whole = array.astype(np.int64).view(np.uint64)
    return chosen, np.subtract(whole, expand(chosen, array.shape))
