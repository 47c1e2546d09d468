"""What can be exported of a pipeline: tacit's features, and the usual steps of scikit-learn.

A step is found by its class, exactly: a subclass may compute anything, and is refused by name. Each
takes a graph, itself and the name of rows of numbers, and returns the name of what it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidArgument
from tacit.export.encoders import frozen_encoder
from tacit.export.graph import Graph, squares
from tacit.export.images import deskew, hog, public_patches, scaled_hog, unit_length
from tacit.features import Numeric

Step = Callable[[Graph, Any, str], str]


def known(step: Any, found: Mapping[str, Step], kind: str) -> Step:
    """Return what exports a step, or refuse it by name."""
    name, home = type(step).__name__, type(step).__module__.partition(".")[0]
    if home in ("sklearn", "tacit") and name in found:
        return found[name]
    raise InvalidArgument(
        f"Expected {kind} that can be exported, got {name} of {home}; known are {', '.join(found)}."
    )


def transformed(graph: Graph, step: Any, rows: str) -> str:
    """Return what a fitted transformer makes of rows; None leaves them as they are."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return rows
    return known(step, _STEPS, "a transformer")(graph, step, rows)


def _pipeline(graph: Graph, step: Any, rows: str) -> str:
    for _, part in step.steps:
        rows = transformed(graph, part, rows)
    return rows


def _bins(graph: Graph, step: Any, rows: str) -> str:
    """Return zeros and ones, cut where the declared columns say."""
    parts = []
    for place, column in enumerate(step.columns):
        values = graph.sliced(_wide(graph, rows), place, place + 1, 1)
        numeric = isinstance(column, Numeric)
        found = _bin(graph, column, values) if numeric else _category(graph, column, values)
        parts.append(graph.cast(found, np.float32))
    encoded = graph("Concat", *parts, axis=1)
    root = np.sqrt(len(step.columns))
    return graph("Div", encoded, np.float32(root)) if step.unit_norm else encoded


def _bin(graph: Graph, column: Any, values: str) -> str:
    """Return in which bin each number falls: as many edges as do not exceed it lie below."""
    below: Any = np.zeros((1, 1), dtype=np.int64)
    if column.edges:
        edges = np.array(column.edges, dtype=np.float64)[None]
        below = graph.total(graph.cast(graph("GreaterOrEqual", values, edges), np.int64), 1)
    found = graph("Equal", below, np.arange(len(column.labels))[None])
    return graph("And", found, graph("Equal", values, values))  # of as many rows as there are


def _category(graph: Graph, column: Any, values: str) -> str:
    """Return which category each value is, and last whether it is none of them.

    Words are known by their places; where a number is declared, values are numbers.
    """
    declared = column.categories
    words = all(isinstance(each, str) for each in declared)
    numbers = [np.nan if isinstance(each, str) else float(each) for each in declared]
    marks = np.arange(len(declared), dtype=np.float64) if words else np.array(numbers)
    found = graph("Equal", values, marks[None])
    any_one = graph.total(graph.cast(found, np.int64), 1)
    return graph("Concat", found, graph("Equal", any_one, 0), axis=1)


def _wide(graph: Graph, rows: str) -> str:
    return graph.cast(rows, np.float64)


def _scaled(graph: Graph, rows: str, centre: Any, scale: Any) -> str:
    """Return (rows - centre) / scale; None leaves either out."""
    rows = _wide(graph, rows)
    rows = rows if centre is None else graph("Sub", rows, np.asarray(centre, dtype=np.float64))
    return rows if scale is None else graph("Div", rows, np.asarray(scale, dtype=np.float64))


def _standard(graph: Graph, step: Any, rows: str) -> str:
    centre = step.mean_ if step.with_mean else None
    return _scaled(graph, rows, centre, step.scale_ if step.with_std else None)


def _robust(graph: Graph, step: Any, rows: str) -> str:
    centre = step.center_ if step.with_centering else None
    return _scaled(graph, rows, centre, step.scale_ if step.with_scaling else None)


def _min_max(graph: Graph, step: Any, rows: str) -> str:
    scaled = graph("Add", graph("Mul", _wide(graph, rows), step.scale_), step.min_)
    low, high = (float(end) for end in step.feature_range)
    return graph("Min", graph("Max", scaled, low), high) if step.clip else scaled


def _max_abs(graph: Graph, step: Any, rows: str) -> str:
    return _scaled(graph, rows, None, step.scale_)


def _normalizer(graph: Graph, step: Any, rows: str) -> str:
    rows = _wide(graph, rows)
    lengths = {"l1": "ReduceL1", "l2": "ReduceL2", "max": "ReduceMax"}
    sizes = graph("Abs", rows) if step.norm == "max" else rows
    size = graph.total(sizes, 1, operator=lengths[step.norm])
    return graph("Div", rows, graph("Where", graph("Equal", size, 0.0), 1.0, size))


def _pca(graph: Graph, step: Any, rows: str) -> str:
    turned = graph("MatMul", graph("Sub", _wide(graph, rows), step.mean_), step.components_.T)
    if not step.whiten:
        return turned
    least = np.finfo(step.explained_variance_.dtype).eps
    return graph("Div", turned, np.sqrt(np.maximum(step.explained_variance_, least)))


def _components(graph: Graph, step: Any, rows: str) -> str:
    return graph("MatMul", _wide(graph, rows), _dense(step.components_).T)


def _dense(matrix: Any) -> NDArray[Any]:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


def _nystroem(graph: Graph, step: Any, rows: str) -> str:
    if step.kernel != "rbf":
        raise InvalidArgument(f"Expected Nystroem of an rbf kernel to export, got {step.kernel!r}.")
    gamma = 1.0 / step.components_.shape[1] if step.gamma is None else float(step.gamma)
    points = np.asarray(step.components_, dtype=np.float64)
    kernel = graph("Exp", graph("Mul", squares(graph, _wide(graph, rows), points), -gamma))
    return graph("MatMul", kernel, np.asarray(step.normalization_, dtype=np.float64).T)


def _rbf_sampler(graph: Graph, step: Any, rows: str) -> str:
    weights = np.asarray(step.random_weights_, dtype=np.float64)
    turned = graph("MatMul", _wide(graph, rows), weights)
    angles = graph("Add", turned, np.asarray(step.random_offset_, dtype=np.float64))
    # onnxruntime has no cosine of float64: it is a sine, a quarter of a turn later, in neither.
    waves = graph.cast(graph("Cos", graph.cast(_turned_back(graph, angles), np.float32)), float)
    return graph("Mul", waves, float(np.sqrt(2.0 / step.n_components)))


def _turned_back(graph: Graph, angles: str) -> str:
    """Take whole turns off angles, so that float32 can hold what is left."""
    turns = graph("Round", graph("Div", angles, 2 * np.pi))
    return graph("Sub", angles, graph("Mul", turns, 2 * np.pi))


def _polynomial(graph: Graph, step: Any, rows: str) -> str:
    rows, parts = _wide(graph, rows), []
    for powers in step.powers_:
        places = np.repeat(np.arange(len(powers)), powers)
        if not places.size:
            parts.append(graph("Add", graph("Mul", graph.sliced(rows, 0, 1, 1), 0.0), 1.0))
            continue
        factors = graph("Gather", rows, places.astype(np.int64), axis=1)
        parts.append(graph.total(factors, 1, operator="ReduceProd"))
    return graph("Concat", *parts, axis=1)


def _whitened(graph: Graph, step: Any, rows: str) -> str:
    framed = _scaled(graph, rows, step.centre_, step.scale_)
    if step.standardise:
        framed = graph("Min", graph("Max", framed, -float(step.clip)), float(step.clip))
    return unit_length(graph, graph("MatMul", framed, step.matrix_))


def _public_kernel(graph: Graph, step: Any, rows: str) -> str:
    apart = squares(graph, _wide(graph, rows), step.landmarks_)
    kernel = graph("Exp", graph("Mul", apart, -float(step.gamma_[0])))
    return graph("MatMul", kernel, step.whitening_)


def _selected(graph: Graph, step: Any, rows: str) -> str:
    return graph("Gather", rows, np.flatnonzero(step.get_support()), axis=1)


def _function(graph: Graph, step: Any, rows: str) -> str:
    if step.func is not None:
        raise InvalidArgument(
            "Expected a FunctionTransformer without a function to export: what a function of "
            "Python computes, no graph can say."
        )
    return rows


_STEPS: dict[str, Step] = {
    "Deskew": deskew,
    "HOG": hog,
    "ScaledHOG": scaled_hog,
    "PublicBins": _bins,
    "FrozenEncoder": frozen_encoder,
    "PrecomputedEmbeddings": lambda _, __, rows: rows,
    "PublicWhitening": _whitened,
    "PublicKernel": _public_kernel,
    "PublicPatches": public_patches,
    "Pipeline": _pipeline,
    "StandardScaler": _standard,
    "RobustScaler": _robust,
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": _max_abs,
    "Normalizer": _normalizer,
    "PCA": _pca,
    "TruncatedSVD": _components,
    "GaussianRandomProjection": _components,
    "SparseRandomProjection": _components,
    "Nystroem": _nystroem,
    "RBFSampler": _rbf_sampler,
    "PolynomialFeatures": _polynomial,
    "SelectKBest": _selected,
    "SelectPercentile": _selected,
    "VarianceThreshold": _selected,
    "FunctionTransformer": _function,
}
