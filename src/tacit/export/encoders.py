"""A frozen network of a student's features, as part of the exported model.

Its ONNX file goes in as it is, and sees one row at a time, as it did when features were computed:
a file that was written for one row fits, and no row is rounded by another.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tacit.errors import InvalidArgument
from tacit.export.graph import OPSET, Graph, onnx

_STANDARD = ("", "ai.onnx")


def frozen_encoder(graph: Graph, step: Any, rows: str) -> str:
    """Return what an encoder's ONNX file makes of each row, alone."""
    if not isinstance(step.network, str | os.PathLike):
        raise InvalidArgument(
            f"Expected the network of {step.name} to be an ONNX file to export: a module or a "
            "function is no part of a graph. Write it with torch.onnx.export, and give "
            "FrozenEncoder the path."
        )
    model = _of_this_version(onnx.load_model_from_string(step.content()), step.name)
    single = graph.cast(rows, np.float32)
    # A body sees the names outside: those of the network get the name of its rows before them.
    inner = onnx.compose.add_prefix(model, f"{single}/").graph
    return graph("Scan", single, body=_alone(inner, single), num_scan_inputs=1)


def _of_this_version(model: Any, name: str) -> Any:
    """Return the model in the operators of this graph, or refuse it."""
    versions = {each.domain: each.version for each in model.opset_import}
    foreign = [domain for domain in versions if domain not in _STANDARD]
    if foreign or model.functions or model.graph.sparse_initializer:
        raise InvalidArgument(
            f"Expected the network of {name} to use ONNX's standard operators alone to export it."
        )
    if OPSET in versions.values():
        return model
    try:
        return onnx.version_converter.convert_version(model, OPSET)
    except Exception as error:
        raise InvalidArgument(
            f"Expected the network of {name} in opset {OPSET}, or in one that can be converted; "
            f"that fails with {type(error).__name__}."
        ) from None


def _alone(inner: Any, rows: str) -> Any:
    """Return the body that is run for each row: the network of one row, its outputs flat."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    held = {each.name for each in inner.initializer}
    (given,) = [each for each in inner.input if each.name not in held]
    sides = [side.dim_value for side in given.type.tensor_type.shape.dim[1:]]
    laid_out = sides if len(sides) > 1 else [-1]  # an image, say: its sides are fixed
    row, said, single, flat = (f"{rows}:{name}" for name in ("row", "said", "single", "flat"))
    nodes = [
        helper.make_node("Reshape", [row, single], [given.name]),
        *inner.node,
        helper.make_node("Reshape", [inner.output[0].name, flat], [said]),
    ]
    constants = [
        onnx.numpy_helper.from_array(np.array([1, *laid_out]), single),
        onnx.numpy_helper.from_array(np.array([-1]), flat),
        *inner.initializer,
    ]
    declared = [helper.make_tensor_value_info(name, kind, [None]) for name in (row, said)]
    return helper.make_graph(nodes, "alone", declared[:1], declared[1:], constants)
