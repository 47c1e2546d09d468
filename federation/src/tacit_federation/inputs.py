"""The public files of a study, inputs and frame, compared with its document byte for byte."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidArgument, Refused
from tacit_federation.messages import array_file, array_header, array_of
from tacit_federation.study import Study


def inputs_file(X: ArrayLike) -> bytes:
    """Return public inputs as the npy file that a study names.

    Parameters
    ----------
    X : array of shape (queries, ...)

    Returns
    -------
    bytes, npy 1.0 in float32, float64, uint8 or int64
    """
    array = np.asarray(X)
    kinds = {"f": "<f4" if array.dtype.itemsize <= 4 else "<f8", "u": "|u1", "i": "<i8", "b": "|u1"}
    if array.dtype.kind not in kinds or array.ndim < 1 or 0 in array.shape:
        raise InvalidArgument("Expected public inputs to be an array of numbers, one row a query.")
    dtype = kinds[array.dtype.kind]
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        dtype = "<i8"
    return array_file(array, dtype)


def describe_inputs(file: bytes) -> dict[str, Any]:
    """Return a study's description of its inputs.

    Parameters
    ----------
    file : bytes, from `inputs_file`

    Returns
    -------
    dict of sha256, bytes, dtype and shape
    """
    try:
        array = np.load(io.BytesIO(file), allow_pickle=False)
    except (EOFError, OSError, ValueError):
        raise InvalidArgument("Expected public inputs as an npy file of numbers.") from None
    shape = [int(size) for size in array.shape]
    return {
        "sha256": hashlib.sha256(file).hexdigest(),
        "bytes": len(file),
        "dtype": array.dtype.str,
        "shape": shape,
    }


def check_inputs(study: Study, file: bytes) -> None:
    """Raise `Refused` unless a file is what the study names."""
    said = study.inputs
    if (len(file), hashlib.sha256(file).hexdigest()) != (said["bytes"], said["sha256"]):
        raise Refused("Expected the inputs that the study names: their hash is another.")
    if not file.startswith(array_header(said["dtype"], tuple(said["shape"]))):
        raise Refused("Expected inputs of the type and shape that the study names.")


def read_inputs(study: Study, file: bytes) -> NDArray[Any]:
    """Return the inputs of a study, checked."""
    check_inputs(study, file)
    return array_of(file, study.inputs["dtype"], tuple(study.inputs["shape"]))


def frame_file(centres: ArrayLike, weights: ArrayLike, shape: tuple[int, int]) -> bytes:
    """Return public centres and weights as the npy file that a study of codes names.

    Parameters
    ----------
    centres, weights : arrays, broadcast to (queries, length) as for `GaussianMean.release`
    shape : tuple of int, (queries, length)

    Returns
    -------
    bytes
        npy 1.0, float64, of shape (2, queries, length); (2, 1, length) where rows are equal.
    """
    pair = [np.atleast_2d(np.asarray(each, dtype=np.float64)) for each in (centres, weights)]
    rows = max(len(each) for each in pair)
    wide = np.stack([np.broadcast_to(each, (rows, shape[1])) for each in pair])
    if rows not in (1, shape[0]) or not np.isfinite(wide).all():
        raise InvalidArgument(f"Expected finite centres and weights that fit {shape}.")
    return array_file(wide, "<f8")


def check_frame(study: Study, file: bytes) -> None:
    """Raise `Refused` unless a file is the frame that a study of codes names.

    Parameters
    ----------
    study : Study, which names the hash of its frame
    file : bytes, what came
    """
    if hashlib.sha256(file).hexdigest() != study.answers["frame"]:
        raise Refused("Expected the frame that the study names: its hash is another.")
    read_frame(study, file)


def read_frame(study: Study, file: bytes) -> dict[str, NDArray[Any]]:
    """Return centres and weights of a study of codes, checked."""
    queries, length = study.shape
    for rows in (1, queries):
        header = array_header("<f8", (2, rows, length))
        if file.startswith(header) and len(file) == len(header) + 16 * rows * length:
            pair = np.frombuffer(file, dtype="<f8", offset=len(header)).reshape(2, rows, length)
            return {"centres": pair[0], "weights": pair[1]}
    raise Refused(f"Expected a frame of float64 (2, 1 or {queries}, {length}).")
