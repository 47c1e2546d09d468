"""The public inputs of a study: an npy file that is what its document says, byte for byte."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidArgument, Refused
from tacit.federation.messages import array_header
from tacit.federation.study import Study


def inputs_file(X: ArrayLike) -> bytes:
    """Return public inputs as the npy file that a study names.

    Parameters
    ----------
    X : array of shape (queries, ...)
        Numbers; public.

    Returns
    -------
    bytes
        npy 1.0 in float32, float64, uint8 or int64.
    """
    array = np.asarray(X)
    kinds = {"f": "<f4" if array.dtype.itemsize <= 4 else "<f8", "u": "|u1", "i": "<i8", "b": "|u1"}
    if array.dtype.kind not in kinds or array.ndim < 1 or 0 in array.shape:
        raise InvalidArgument("Expected public inputs to be an array of numbers, one row a query.")
    dtype = kinds[array.dtype.kind]
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        dtype = "<i8"
    values = np.ascontiguousarray(array, dtype=dtype)
    return array_header(dtype, values.shape) + values.tobytes()


def describe_inputs(file: bytes) -> dict[str, Any]:
    """Return what a study says of its inputs.

    Parameters
    ----------
    file : bytes
        What `inputs_file` returned.

    Returns
    -------
    dict
        sha256, bytes, dtype and shape.
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
    """Raise `Refused` unless a file is what the study names.

    Parameters
    ----------
    study : Study
        Which names the hash of its inputs.
    file : bytes
        What came.
    """
    said = study.inputs
    if (len(file), hashlib.sha256(file).hexdigest()) != (said["bytes"], said["sha256"]):
        raise Refused("Expected the inputs that the study names: their hash is another.")
    if not file.startswith(array_header(said["dtype"], tuple(said["shape"]))):
        raise Refused("Expected inputs of the type and shape that the study names.")


def read_inputs(study: Study, file: bytes) -> NDArray[Any]:
    """Return the inputs of a study, checked.

    Parameters
    ----------
    study : Study
        Which names the hash of its inputs.
    file : bytes
        What came.

    Returns
    -------
    array of shape (queries, ...)
        Public.
    """
    check_inputs(study, file)
    header = array_header(study.inputs["dtype"], tuple(study.inputs["shape"]))
    values = np.frombuffer(file, dtype=study.inputs["dtype"], offset=len(header))
    return values.reshape(study.inputs["shape"])
