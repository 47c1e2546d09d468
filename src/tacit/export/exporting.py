"""A student, an estimator or a finished run as one ONNX file, which others run without tacit.

What goes in is what tacit reads: rows of numbers, or a column each of a declared table, words as
words. What comes out is what `tacit predict` writes: a label and the probability of every class. A
row that tacit would refuse (NaN, infinity, an undeclared word where none may be) gets no label:
-1 or an empty word, and NaN for its probabilities.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import __version__
from tacit._files import write_atomically
from tacit.datasets import declared_roles
from tacit.errors import InvalidArgument
from tacit.export.graph import Graph, onnx
from tacit.export.scans import write_segmenter
from tacit.export.students import is_known, numbers, probabilities, reconstruction
from tacit.features import Categorical
from tacit.masks import load_segmenter
from tacit.runs import RunConfig
from tacit.students import load_student, read_container, saved_extra

STUDENT = "student.tacit"
_OTHERS = ("ValueStudent", "ReconstructionStudent")  # which say numbers, not classes


@dataclass(frozen=True, slots=True)
class Exported:
    """What an exported model takes and says.

    Parameters
    ----------
    path : path
        Where it is.
    inputs : tuple of str
        The names of what it takes.
    outputs : tuple of str
        The names of what it says.
    sha256 : str
        The hash of the file.
    """

    path: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sha256: str


def export_onnx(model: Any, path: str | Path) -> Exported:
    """Write a student as an ONNX model, its features and labels included.

    Parameters
    ----------
    model : path, student or fitted estimator
        The folder of a finished run; a file that `save` wrote; one of tacit's students; or an
        estimator of tacit, whose student it is.
    path : path
        The file to write; one that is there is replaced, in one step.

    Returns
    -------
    Exported
        Names of inputs and outputs, and the file's hash.

    Notes
    -----
    It costs no privacy: the student was made from releases alone. Numbers are float64, and
    `X` is (rows, features); of a run on a table each declared column is an input of its own,
    (rows, 1), words for categories. Labels are `label`, probabilities `probabilities`; a regressor
    says `value`, an autoencoder `reconstruction` and `code`, a segmenter `mask` and
    `probabilities` of `scans`. Steps that are neither tacit's nor known ones of scikit-learn and
    torch are refused by name. Operators are those of opset 18. It needs `tacit[onnx]`.

    Examples
    --------
    >>> import tempfile
    >>> from tacit.students import LinearStudent
    >>> student = LinearStudent().fit([[-1.0], [1.0], [0.5]], [0, 1], [[0.9, 0.1], [0.1, 0.9]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_onnx(student, Path(folder, "model.onnx")).outputs
    ('label', 'probabilities')
    """
    onnx.need()
    graph, source = Graph(), _source(model)
    if source.kind == "UNetStudent":
        write_segmenter(graph, source.student, source.facts.get("grid"))
    else:
        _write_rows(graph, source)
    made = graph.model(
        name="tacit", about=_about(source.facts), facts=_facts(source, graph)
    ).SerializeToString(deterministic=True)
    write_atomically(path, made)
    inputs, outputs = (tuple(each.name for each in part) for part in (graph.inputs, graph.outputs))
    return Exported(Path(path), inputs, outputs, hashlib.sha256(made).hexdigest())


@dataclass(frozen=True, slots=True)
class _Source:
    """What is exported: the student, what was saved with it, and the columns of its table."""

    student: Any
    facts: dict[str, Any]
    roles: Any = None

    @property
    def kind(self) -> str:
        return type(self.student).__name__


def _source(model: Any) -> _Source:
    """Find the student of whatever was given."""
    if isinstance(model, str | Path):
        return _saved(Path(model))
    student = getattr(model, "student_", model)
    labels = getattr(model, "classes_", None)
    facts = {} if labels is None else {"classes": np.asarray(labels).tolist()}
    return _Source(student, facts)


def _saved(path: Path) -> _Source:
    config = RunConfig.of_finished(path) if path.is_dir() else None
    file = path / STUDENT if path.is_dir() else path
    facts = saved_extra(file)
    if read_container(file)[0].get("student") == "UNetStudent":
        return _Source(load_segmenter(file), facts)
    roles = None
    if config is not None:
        roles = declared_roles(config.data.source, **config.data.options)
    return _Source(load_student(file), facts, roles)


def _write_rows(graph: Graph, source: _Source) -> None:
    """Add what reads rows, the student, and what it says of rows that can be read."""
    student = source.student
    if not is_known(student) and source.kind not in _OTHERS:
        raise InvalidArgument(f"Expected one of tacit's students to export, got {source.kind}.")
    rows = _inputs(graph, student, source.roles)
    bad = _unreadable(graph, rows)
    # No step ever sees what tacit would refuse: where it goes is undefined.
    rows = graph("Where", bad, 0.0, rows)
    if source.kind == "ValueStudent":
        said, width = numbers(graph, student, rows), student.n_outputs_
        _say(graph, "value", said, bad, width, flat=student.flat_)
    elif source.kind == "ReconstructionStudent":
        again, code = reconstruction(graph, student, rows)
        _say(graph, "reconstruction", again, bad, student.n_outputs_)
        _say(graph, "code", code, bad, "length")
    else:
        _say_classes(graph, probabilities(graph, student, rows), bad, source)


def _inputs(graph: Graph, student: Any, roles: Any) -> str:
    """Declare the inputs, and return them as rows of float64."""
    width = int(student.n_features_in_)
    if roles is None:
        return graph.add_input("X", np.float64, ["rows", width])
    columns = [_column(graph, column, roles) for column in roles.columns]
    return graph("Concat", *columns, axis=1)


def _column(graph: Graph, column: Any, roles: Any) -> str:
    """Declare one column of a table, (rows, 1), and return it as tacit reads it.

    A date enters as a number: days since the public day that was declared for its column.
    """
    if isinstance(column, Categorical):
        words = graph.add_input(column.name, str, ["rows", 1])
        known = column.labels[:-1]
        other = float(len(known)) if roles.other else float("nan")
        places = graph.learning(
            "LabelEncoder",
            words,
            keys_strings=list(known),
            values_floats=[float(place) for place in range(len(known))],
            default_float=other,
        )
        return graph.cast(places, np.float64)
    values = graph.add_input(column.name, np.float64, ["rows", 1])
    missing = roles.stand_in(column)
    if missing is None:
        return values
    return graph("Where", graph("IsNaN", values), float(missing), values)


def _unreadable(graph: Graph, rows: str) -> str:
    """Return which rows hold NaN or infinity, (rows, 1)."""
    strange = graph("Or", graph("IsNaN", rows), graph("IsInf", rows))
    return graph.cast(graph.total(graph.cast(strange, np.int32), 1, operator="ReduceMax"), bool)


def _say(graph: Graph, name: str, said: str, bad: str, width: Any, *, flat: bool = False) -> None:
    """Declare numbers as an output; NaN for rows that cannot be read."""
    shown = graph("Where", bad, np.nan, said)
    if flat:
        shown = graph.reshaped(shown, -1)
    graph.add_output(name, shown, np.float64, ["rows"] if flat else ["rows", width])


def _say_classes(graph: Graph, chances: str, bad: str, source: _Source) -> None:
    """Declare label and probabilities; labels as they were declared, else places."""
    labels = _labels(source)
    places = graph("ArgMax", chances, axis=1, keepdims=0)
    none: Any = "" if labels.dtype.kind == "U" else labels.dtype.type(-1)
    said = graph("Gather", labels, places, axis=0)
    said = graph("Where", graph.reshaped(bad, -1), np.array([none]), said)
    kind = str if labels.dtype.kind == "U" else labels.dtype
    graph.add_output("label", said, kind, ["rows"])
    _say(graph, "probabilities", chances, bad, len(labels))


def _labels(source: _Source) -> NDArray[Any]:
    """Return the labels in one type that ONNX has: whole numbers, numbers or words."""
    known = source.facts.get("classes", getattr(source.student, "classes_", None))
    if known is None:
        return np.arange(source.student.n_classes_)
    labels = list(known)
    if all(isinstance(label, int | bool | np.integer) for label in labels):
        return np.array(labels, dtype=np.int64)
    if all(isinstance(label, int | float) for label in labels):
        return np.array(labels, dtype=np.float64)
    return np.array([str(label) for label in labels])


def _about(facts: dict[str, Any]) -> str:
    said = facts.get("statement")
    if not isinstance(said, dict) or "epsilon" not in said:
        return "A student of tacit."
    return (
        f"A student of tacit, made from releases that cost epsilon = {said['epsilon']:.6g} at "
        f"delta = {said['delta']:g}, unit: one {said['unit']}. The statement that counts is the "
        "run's."
    )


def _facts(source: _Source, graph: Graph) -> dict[str, str]:
    facts = {"tacit": __version__, "student": source.kind}
    classes = source.facts.get("classes")
    if isinstance(classes, list):
        facts["classes"] = json.dumps(classes)
    return facts | {"inputs": json.dumps([each.name for each in graph.inputs])}
