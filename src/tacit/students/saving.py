"""Students to a file and back, without pickle in either direction.

A zip of a JSON manifest, plain arrays and, maybe, skops blobs, uncompressed, each with its SHA-256.
The hashes detect damage, not malice. Tacit's own students and features are names, parameters and
arrays, and only these packages' classes are looked up; other scikit-learn objects go through skops
(`tacit[export]`), which loads trusted types only. Nothing private can be in the file.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import math
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit._extras import need
from tacit._files import PathLike, write_atomically
from tacit._registry import STUDENTS, found
from tacit.errors import InvalidArgument, TacitError
from tacit.features import is_row_wise, steps_of
from tacit.students.score_map import ScoreMap

if TYPE_CHECKING:
    from tacit.students.base import PublicLearner

_FEATURES = "tacit.features"
_FITTED = ("estimator", "features", "preprocess")
# Students that are made by a method, not named in run.toml.
_OTHERS = (
    "tacit.students.estimators:ValueStudent",
    "tacit.students.networks:NetworkStudent",
    "tacit.students.networks:ReconstructionStudent",
)


def save_student(
    student: PublicLearner, path: PathLike, *, extra: Mapping[str, Any] | None = None
) -> None:
    """Write a fitted student to one file; `extra` is public plain data to store with it."""
    name, labels = type(student).__name__, getattr(student, "classes_", None)
    known = {} if labels is None else {"classes": labels.tolist()}
    if name not in _places():
        raise InvalidArgument(f"Expected one of tacit's students to save, got {name}.")
    blobs, arrays, parameters = {}, student._arrays(), student.get_params(deep=False)
    for key in _FITTED:
        if key in parameters:
            parameters[key] = fitted = getattr(student, f"{key}_")
            if fitted is not None and not is_row_wise(fitted):  # what is tacit's own is described
                parameters[key], blobs[f"{key}.skops"] = None, _skops().dumps(fitted)
            else:
                arrays = {**arrays, **_learned_arrays(key, fitted)}
    parameters.pop("estimator", None)
    manifest = {
        "student": name,
        "parameters": {key: _plain(value) for key, value in parameters.items()},
        "n_features": student.n_features_in_,
        student._count_name.rstrip("_"): getattr(student, student._count_name),
        "extra": {**known, **(extra or {})},
    }
    # An older tacit would leave these out and say other probabilities: it must refuse instead.
    if (mapped := getattr(student, "score_map_", None)) is not None:
        manifest |= {"score_map": mapped.as_dict(), "version": VERSION}
    if any(name.rpartition(".")[2] == "centres" for name in arrays):
        manifest["version"] = VERSION
    write_container(path, manifest, arrays, blobs)


def load_student(path: PathLike, *, trusted: Iterable[str] = ()) -> Any:
    """Read a student that `save` wrote; its predictions are the same bits.

    Parameters
    ----------
    path : path
    trusted : iterable of str
        Further types that skops may load in a saved scikit-learn estimator; look at them first (the
        error lists them).

    Returns
    -------
    student
        Of the class that was saved. A student of classes predicts its saved labels
        (`extra["classes"]`), its `classes_`; without them `classes_` is None and it predicts
        indices.

    Examples
    --------
    >>> import tempfile, os
    >>> from tacit.students import LabelSpreadingStudent
    >>> student = LabelSpreadingStudent().fit([[0.0], [1.0]], [0, 1], [[1, 0], [0, 1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "student.tacit")
    ...     student.save(path, extra={"classes": ["well", "sick"]})
    ...     loaded = load_student(path)
    >>> loaded.predict([[0.1], [0.9]]).tolist(), student.predict([[0.1], [0.9]]).tolist()
    (['well', 'sick'], [0, 1])
    """
    manifest, arrays, blobs = read_container(path)
    try:
        student = _rebuilt(manifest, blobs, tuple(trusted))
        for key in _FITTED:
            arrays = _taken_up(key, getattr(student, f"{key}_", None), arrays)
        student._restore(arrays)
        if hasattr(student, "n_classes_"):  # a student of classes, not of numbers
            student.classes_ = _labels(manifest.get("extra"), student.n_classes_)
            student.score_map_ = _score_map(manifest.get("score_map"), student.n_classes_)
    except TacitError:
        raise
    except Exception:  # the parts are whole but do not make a student
        raise damaged(path) from None
    return student


def _learned_arrays(key: str, fitted: Any) -> dict[str, NDArray[Any]]:
    """Return what tacit's own features have learned from public rows, by names in a file."""
    return {
        f"{key}.{place}.{name}": array
        for place, step in _learning_steps(fitted)
        for name, array in step.learned_arrays().items()
    }


def _taken_up(key: str, fitted: Any, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Restore what features had learned; return what is left for the student."""
    left = dict(arrays)
    for place, step in _learning_steps(fitted):
        start = f"{key}.{place}."
        own = [name for name in left if name.startswith(start)]
        step.take_up({name.removeprefix(start): left.pop(name) for name in own})
    return left


def _learning_steps(fitted: Any) -> list[tuple[int, Any]]:
    steps = enumerate(steps_of(fitted))
    return [(place, step) for place, step in steps if hasattr(step, "learned_arrays")]


def _labels(extra: Any, n_classes: int) -> NDArray[Any] | None:
    """Return the labels that were saved with a student, if there is one for each class."""
    labels = extra.get("classes") if isinstance(extra, dict) else None
    if not isinstance(labels, list) or len(labels) != n_classes:
        return None
    if not all(isinstance(label, str | int | float) for label in labels):
        return None
    one_kind = len({type(label) for label in labels}) == 1  # else 1 and "a" would become words
    return np.array(labels, dtype=None if one_kind else object)


def _score_map(plain: Any, n_classes: int) -> ScoreMap | None:
    """Return the saved map, if any; it must have the student's classes."""
    found = None if plain is None else ScoreMap.from_dict(plain)
    if found is not None and len(found.shift) != n_classes:
        raise ValueError
    return found


def saved_extra(path: PathLike) -> dict[str, Any]:
    """Return the `extra` that was saved with a student; of an estimator or a run, its classes.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict, plain public data
    """
    extra = read_container(path)[0].get("extra")
    if not isinstance(extra, dict):
        raise damaged(path)
    return extra


def _places() -> dict[str, str]:
    """Return the place (module:class) of each student, by the name of its class."""
    return {place.partition(":")[2]: place for place in (*STUDENTS.values(), *_OTHERS)}


def _rebuilt(
    manifest: Mapping[str, Any], blobs: Mapping[str, bytes], trusted: tuple[str, ...]
) -> Any:
    kind = found(_places()[manifest["student"]])
    parameters = {key: _python(value) for key, value in manifest["parameters"].items()}
    if any(field.name == "estimator" for field in fields(kind)):
        parameters["estimator"] = None
    for key in _FITTED:
        if f"{key}.skops" in blobs:
            parameters[key] = _skops_object(blobs[f"{key}.skops"], trusted)
    student = kind(**parameters)
    student.n_features_in_ = int(manifest["n_features"])
    setattr(student, student._count_name, int(manifest[student._count_name.rstrip("_")]))
    for key in parameters.keys() & {"features", "preprocess"}:
        setattr(student, f"{key}_", parameters[key])
    return student


def _plain(value: Any) -> Any:
    """Turn a parameter into JSON data; objects of tacit.features become tagged dictionaries."""
    from sklearn.pipeline import Pipeline

    if isinstance(value, Pipeline):
        return {"pipeline": [[name, _plain(step)] for name, step in value.steps]}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if type(value).__module__.startswith(f"{_FEATURES}."):
        own = {field.name: getattr(value, field.name) for field in fields(value)}
        own = value.described() if hasattr(value, "described") else own
        parameters = {key: _plain(part) for key, part in own.items()}
        return {"feature": type(value).__name__, "parameters": parameters}
    return value


def _python(value: Any) -> Any:
    """Undo `_plain`; only names that tacit.features exports are ever looked up."""
    if isinstance(value, list):
        return tuple(_python(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "pipeline" in value:
        from sklearn.pipeline import Pipeline

        return Pipeline([(str(name), _python(step)) for name, step in value["pipeline"]])
    module = importlib.import_module(_FEATURES)
    if value["feature"] not in module.__all__:
        raise ValueError
    parameters = {key: _python(part) for key, part in value["parameters"].items()}
    return getattr(module, value["feature"])(**parameters)


def _skops() -> Any:
    purpose = "to save or load a scikit-learn estimator without pickle"
    return need("skops.io", purpose, extra="export")


def _skops_object(blob: bytes, trusted: tuple[str, ...]) -> Any:
    io = _skops()
    strange = sorted(set(io.get_untrusted_types(data=blob)) - set(trusted))
    if strange:
        raise InvalidArgument(
            f"Expected a saved estimator of trusted types only, got {', '.join(strange)}; "
            "if you trust them, name them in trusted=."
        )
    return io.loads(blob, trusted=list(trusted))


FORMAT = "tacit-student"
VERSION = 2
"""Of a file with a map of scores or lists of points; others are `_PLAIN_VERSION`: 0.1 reads it."""
_PLAIN_VERSION = 1

_MANIFEST = "manifest.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same student gives the same bytes
_ARRAY_KINDS = "biuf"


def write_container(
    path: PathLike,
    manifest: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    blobs: Mapping[str, bytes],
) -> None:
    """Write manifest, arrays and blobs as one file, atomically."""
    members = {f"{name}.npy": _npy(array) for name, array in arrays.items()} | dict(blobs)
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    described = {"format": FORMAT, "version": _PLAIN_VERSION, **manifest, "members": hashes}
    try:
        text = json.dumps(described, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"Expected plain data (numbers, words, lists) to save with a student: {error}."
        ) from None
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {_MANIFEST: text.encode(), **members}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
    write_atomically(path, buffer.getvalue())


def read_container(
    path: PathLike,
) -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, bytes]]:
    """Read what `write_container` wrote; anything else is refused in one line."""
    try:
        manifest, members = _members(Path(path))
        arrays = {
            name.removesuffix(".npy"): _array(data)
            for name, data in members.items()
            if name.endswith(".npy")
        }
    except FileNotFoundError:
        raise InvalidArgument(f"Expected a saved student at {str(path)!r}; no such file.") from None
    except (InvalidArgument, PermissionError):
        raise
    except Exception:  # whatever a damaged file provokes: the reader learns that it is damaged
        raise damaged(path) from None
    blobs = {name: data for name, data in members.items() if not name.endswith(".npy")}
    return manifest, arrays, blobs


def damaged(path: PathLike) -> InvalidArgument:
    """Return the error for a file that is not, or no longer, a saved student."""
    return InvalidArgument(
        f"Expected {str(path)!r} to be a saved student; it is damaged, cut short or another file."
    )


def _members(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    data = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        stored = all(info.compress_type == zipfile.ZIP_STORED for info in infos)
        if not stored or sum(info.file_size for info in infos) > len(data):
            raise ValueError
        manifest = json.loads(archive.read(_MANIFEST))
        _check_version(path, manifest)
        members = {info.filename: archive.read(info) for info in infos}
    del members[_MANIFEST]
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    if hashes != manifest["members"]:
        raise ValueError
    return manifest, members


def _check_version(path: Path, manifest: Any) -> None:
    if manifest["format"] != FORMAT or not isinstance(manifest["version"], int):
        raise ValueError
    if manifest["version"] > VERSION:
        raise InvalidArgument(
            f"Expected {str(path)!r} to be of version {VERSION} or older, "
            f"got {manifest['version']}; load it with a newer tacit."
        )


def _npy(array: NDArray[Any]) -> bytes:
    if array.dtype.kind not in _ARRAY_KINDS:
        raise InvalidArgument(f"Expected arrays of numbers to save, got dtype {array.dtype}.")
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array, order="C"), allow_pickle=False)
    return buffer.getvalue()


def _array(data: bytes) -> NDArray[Any]:
    """Read a .npy whose header promises no more than the file holds."""
    buffer = io.BytesIO(data)
    if np.lib.format.read_magic(buffer) != (1, 0):
        raise ValueError
    shape, _, dtype = np.lib.format.read_array_header_1_0(buffer)
    if (
        dtype.kind not in _ARRAY_KINDS
        or math.prod(shape) * dtype.itemsize != len(data) - buffer.tell()
    ):
        raise ValueError
    buffer.seek(0)
    return np.asarray(np.lib.format.read_array(buffer, allow_pickle=False))
