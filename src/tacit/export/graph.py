"""A writer of ONNX graphs: each call adds a node and returns the name of what the node makes.

Numbers are float64 unless a step says otherwise, as they are in tacit, so that what is exported
says what the student says. The operators are those of one version of the standard, which no later
runtime may drop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._extras import Late

OPSET = 18
"""Version of the standard operators; onnxruntime knows it since 1.14."""
ML_OPSET = 3
"""Version of the operators for classical learning: trees, and words to numbers."""
_IR = 8  # of the file's layout, as old as the operators
_ML = "ai.onnx.ml"
onnx: Any = Late("onnx", "to export a model", extra="onnx")


class Graph:
    """A graph in the making.

    Parameters
    ----------
    None

    Notes
    -----
    `graph("Add", x, 1.0)` adds a node and returns the name of its result. Inputs are such names, or
    numbers and arrays, which become constants: Python's own numbers as float64 and int64.
    """

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._names = 0

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node with one result."""
        return self.several(operator, 1, *inputs, **attributes)[0]

    def several(self, operator: str, results: int, *inputs: Any, **attributes: Any) -> list[str]:
        """Add a node with so many results, and return their names."""
        names = [self._name() for _ in range(results)]
        given = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        node = onnx.helper.make_node(operator, given, names, **attributes)
        self.nodes.append(node)
        return names

    def learning(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node of classical learning: a tree, an encoder."""
        return self(operator, *inputs, domain=_ML, **attributes)

    def constant(self, value: Any) -> str:
        """Add a constant, and return its name."""
        array = np.asarray(value)
        if array.dtype.kind == "U":
            array = array.astype(object)  # what onnx takes for words
        name = self._name()
        self.constants.append(onnx.numpy_helper.from_array(array, name))
        return name

    def cast(self, name: str, kind: Any) -> str:
        """Turn numbers into another type."""
        dtype = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return self("Cast", name, to=dtype)

    def total(self, name: str, axes: Any, *, operator: str = "ReduceSum", keep: bool = True) -> str:
        """Sum, or reduce otherwise, over some axes."""
        return self(operator, name, np.atleast_1d(axes).astype(np.int64), keepdims=int(keep))

    def reshaped(self, name: str, *sides: int) -> str:
        """Give another shape; -1 is what is left over, 0 what it was."""
        return self("Reshape", name, np.array(sides, dtype=np.int64))

    def sliced(self, name: str, start: int, stop: int, axis: int) -> str:
        """Take a part along an axis; a `stop` of 0 is the end."""
        end = stop or np.iinfo(np.int64).max
        return self("Slice", name, *(np.array([each]) for each in (start, end, axis)))

    def softmax(self, scores: str, axis: int = 1) -> str:
        """Turn scores into probabilities."""
        return self("Softmax", scores, axis=axis)

    def add_input(self, name: str, kind: Any, shape: Any) -> str:
        """Declare what the model is given; words are sides that are not fixed."""
        self.inputs.append(_declared(name, kind, shape))
        return name

    def add_output(self, name: str, value: str, kind: Any, shape: Any) -> None:
        """Declare what the model says."""
        self.nodes.append(onnx.helper.make_node("Identity", [value], [name]))
        self.outputs.append(_declared(name, kind, shape))

    def model(self, *, name: str, about: str, facts: dict[str, str]) -> Any:
        """Return the checked model; the same graph gives the same bytes."""
        parts = (self.nodes, name, self.inputs, self.outputs, self.constants)
        versions = [
            onnx.helper.make_opsetid("", OPSET),
            onnx.helper.make_opsetid(_ML, ML_OPSET),
        ]
        model = onnx.helper.make_model(
            onnx.helper.make_graph(*parts), opset_imports=versions, producer_name="tacit"
        )
        model.ir_version, model.doc_string = _IR, about
        onnx.helper.set_model_props(model, facts)
        onnx.checker.check_model(model, full_check=True)
        return model

    def _name(self) -> str:
        self._names += 1
        return f"_{self._names}"


def _declared(name: str, kind: Any, shape: Any) -> Any:
    helper = onnx.helper
    dtype = np.dtype(object) if kind is str else np.dtype(kind)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)


def squares(graph: Graph, rows: str, points: NDArray[Any]) -> str:
    """Return squared distances (rows, points), both taken about the points' mean."""
    centre = points.mean(axis=0, dtype=np.float64)
    near = points - centre
    moved = graph("Sub", rows, centre)
    own = graph.total(graph("Mul", moved, moved), 1)
    products = graph("MatMul", moved, -2.0 * near.T)
    return graph("Max", graph("Add", graph("Add", products, (near**2).sum(axis=1)), own), 0.0)
