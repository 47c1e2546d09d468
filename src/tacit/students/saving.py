"""Students to a file and back, without pickle.

What tacit knows (its own students and features) is saved as names, parameters and arrays, and only
classes of these packages are ever looked up on loading. What it does not know, a scikit-learn
classifier or transformer, goes through skops (`tacit[export]`), which loads no type that is not
trusted. Public inputs and releases only: nothing private ever enters this floor, so nothing private
can be in the file.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tacit._extras import need
from tacit._files import PathLike
from tacit.errors import InvalidArgument, TacitError
from tacit.students.base import PublicLearner
from tacit.students.container import damaged, read_container, write_container

_FEATURES = "tacit.features"
_TRANSFORMERS = ("features", "preprocess")
_WRAPPERS = ("SupervisedStudent", "ValueStudent")
_LINEAR = ("LinearStudent", "KernelStudent")
_TRAINED = ("NetworkStudent", "ReconstructionStudent")
_STUDENTS = (
    *_WRAPPERS,
    *_LINEAR,
    *_TRAINED,
    "LabelSpreadingStudent",
    "NearestStudent",
    "CNNStudent",
    "VATStudent",
)


def save_student(
    student: PublicLearner, path: PathLike, *, extra: Mapping[str, Any] | None = None
) -> None:
    """Write a fitted student to one file; `extra` is public plain data to keep with it."""
    name = type(student).__name__
    if name not in _STUDENTS:
        raise InvalidArgument(f"Expected one of tacit's students to save, got {name}.")
    blobs: dict[str, bytes] = {}
    arrays = student._arrays()
    parameters = student.get_params(deep=False)
    if parameters.pop("estimator", None) is not None and student.estimator_ is not None:
        blobs["estimator.skops"] = _skops_bytes(student.estimator_)
    for key in _TRANSFORMERS:
        if key in parameters:
            parameters[key] = _transformer(key, getattr(student, f"{key}_"), blobs)
    manifest = {
        "student": name,
        "parameters": {key: _plain(value) for key, value in parameters.items()},
        "n_features": student.n_features_in_,
        student._width.rstrip("_"): getattr(student, student._width),
        "extra": dict(extra or {}),
    }
    write_container(path, manifest, arrays, blobs)


def load_student(path: PathLike, *, trusted: Iterable[str] = ()) -> Any:
    """Read a student that `save` wrote; its predictions are the same bits.

    A student of classes predicts their places, 0 .. classes - 1, as it learned them; the labels
    are what an estimator or a run saved with it, `saved_extra(path)["classes"]`. (`tacit predict`
    and an estimator's own `predict` answer with labels.)

    `trusted` names further types that skops may load in a saved scikit-learn estimator; look at
    them first (the error lists them).

    >>> import tempfile, os
    >>> from tacit.students import LabelSpreadingStudent
    >>> student = LabelSpreadingStudent().fit([[0.0], [1.0]], [0, 1], [[1, 0], [0, 1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "student.tacit")
    ...     student.save(path, extra={"classes": ["well", "sick"]})
    ...     places = load_student(path).predict([[0.1], [0.9]])
    ...     labels = np.array(saved_extra(path)["classes"])[places]
    >>> places.tolist(), labels.tolist()
    ([0, 1], ['well', 'sick'])
    """
    manifest, arrays, blobs = read_container(path)
    try:
        student = _rebuilt(manifest, blobs, tuple(trusted))
        student._restore(arrays)
    except TacitError:
        raise
    except Exception:  # the parts are whole but do not make a student
        raise damaged(path) from None
    return student


def saved_extra(path: PathLike) -> dict[str, Any]:
    """Return the `extra` that was saved with a student; of an estimator or a run, its classes."""
    extra = read_container(path)[0].get("extra")
    if not isinstance(extra, dict):
        raise damaged(path)
    return extra


def _rebuilt(
    manifest: Mapping[str, Any], blobs: Mapping[str, bytes], trusted: tuple[str, ...]
) -> Any:
    if manifest["student"] not in _STUDENTS:
        raise ValueError
    parameters = {key: _python(value) for key, value in manifest["parameters"].items()}
    for key in _TRANSFORMERS:
        if f"{key}.skops" in blobs:
            parameters[key] = _skops_object(blobs[f"{key}.skops"], trusted)
    if manifest["student"] in _WRAPPERS:
        fitted = blobs.get("estimator.skops")
        parameters["estimator"] = None if fitted is None else _skops_object(fitted, trusted)
    student = getattr(importlib.import_module("tacit.students"), manifest["student"])(**parameters)
    student.n_features_in_ = int(manifest["n_features"])
    setattr(student, student._width, int(manifest[student._width.rstrip("_")]))
    for key in _TRANSFORMERS:
        if key in parameters:
            setattr(student, f"{key}_", parameters[key])
    return student


def _transformer(key: str, fitted: Any, blobs: dict[str, bytes]) -> Any:
    """Return a transformer of tacit's own, to be described; any other becomes a skops blob."""
    if fitted is None or _is_ours(fitted):
        return fitted
    blobs[f"{key}.skops"] = _skops_bytes(fitted)
    return None


def _is_ours(features: Any) -> bool:
    from sklearn.pipeline import Pipeline

    if isinstance(features, Pipeline):
        return all(_is_ours(step) for _, step in features.steps)
    return type(features).__module__.startswith(f"{_FEATURES}.")


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
        return {"feature": type(value).__name__, "parameters": _parameters(value)}
    return value


def _parameters(value: Any) -> dict[str, Any]:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return {key: _plain(part) for key, part in value.get_params(deep=False).items()}


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


def _skops_bytes(estimator: Any) -> bytes:
    data: bytes = _skops().dumps(estimator)
    return data


def _skops_object(blob: bytes, trusted: tuple[str, ...]) -> Any:
    io = _skops()
    strange = sorted(set(io.get_untrusted_types(data=blob)) - set(trusted))
    if strange:
        raise InvalidArgument(
            f"Expected a saved estimator of trusted types only, got {', '.join(strange)}; "
            "if you trust them, name them in trusted=."
        )
    return io.loads(blob, trusted=list(trusted))
