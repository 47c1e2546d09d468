"""Each of tacit's students as a graph: from rows of numbers to probabilities, values or codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._extras import torch
from tacit.export.estimators import chances, values
from tacit.export.graph import Graph, squares
from tacit.export.networks import network_outputs
from tacit.export.steps import transformed
from tacit.students import NEAREST_SHARE, image_planes, moved


def probabilities(graph: Graph, student: Any, rows: str) -> str:
    """Return probabilities (rows, classes) of a student of classes."""
    scores = _SCORES[type(student).__name__](graph, student, rows)
    said = _summing_to_one(graph, scores, student.n_classes_)
    mapped = student.score_map_
    if mapped is None:
        return said
    logs = graph("Log", graph("Max", said, mapped.floor))
    return graph.softmax(graph("Add", graph("Mul", logs, mapped.slope), mapped.shift))


def numbers(graph: Graph, student: Any, rows: str) -> str:
    """Return (rows, outputs) of a student of numbers."""
    view = _view(graph, student, rows)
    solution = student._solution
    if solution is None:
        said = values(graph, student.estimator_, view)
        return graph.reshaped(said, -1, student.n_outputs_)
    if hasattr(solution, "slopes"):
        return graph("Add", graph("MatMul", view, solution.slopes), solution.level)
    amplitude, length = (float(part) for part in solution.kernel)
    scaled = graph("Div", graph("Sub", view, solution.centre), solution.scale)
    gaps = squares(graph, scaled, solution.points)
    kernel = graph("Exp", graph("Mul", gaps, -1 / (2 * length**2)))
    return graph("Add", graph("MatMul", kernel, amplitude * solution.weights), solution.level)


def reconstruction(graph: Graph, student: Any, rows: str) -> tuple[str, str]:
    """Return the reconstructions (rows, numbers) and the codes (rows, length) of an autoencoder."""
    inputs = _standardised(graph, student, rows)
    encoder, decoder = (
        student.network_[: student.bottleneck],
        student.network_[student.bottleneck :],
    )
    width = _width(student)
    own = next(student.network_.parameters()).dtype
    code = network_outputs(graph, encoder, inputs, (width,))
    with torch.inference_mode():
        shape = tuple(encoder(torch.zeros(1, width, dtype=own)).shape[1:])
    said = network_outputs(graph, decoder, code, shape)
    return graph("Add", graph("Mul", said, float(student.scale_)), student.centre_), code


def is_known(student: Any) -> bool:
    """Tell whether it is one of tacit's students of classes."""
    return type(student).__module__.startswith("tacit.") and type(student).__name__ in _SCORES


def _summing_to_one(graph: Graph, scores: str, count: int) -> str:
    """Return non-negative scores as rows that sum to 1; a row of zeros becomes uniform."""
    scores = graph("Max", scores, 0.0)
    sums = graph.total(scores, 1)
    some = graph("Greater", sums, 0.0)
    share = graph("Div", scores, graph("Where", some, sums, 1.0))
    return graph("Where", some, share, 1 / count)


def _view(graph: Graph, student: Any, rows: str) -> str:
    """Return the inputs in the public feature space, in float64."""
    return graph.cast(transformed(graph, student.features_, rows), np.float64)


def _single_view(graph: Graph, student: Any, rows: str) -> str:
    """Return them rounded to float32, as points in memory are."""
    return graph.cast(graph.cast(_view(graph, student, rows), np.float32), np.float64)


def _placed(graph: Graph, scores: str, places: NDArray[Any], count: int) -> str:
    """Put columns in the places of their classes; the others are 0."""
    matrix = np.zeros((len(places), count))
    matrix[np.arange(len(places)), places] = 1.0
    return graph("MatMul", scores, matrix)


def _linear(graph: Graph, student: Any, rows: str) -> str:
    scores = graph("MatMul", _view(graph, student, rows), student.weights_)
    return graph.softmax(graph("Add", scores, student.bias_))


def _kernel(graph: Graph, student: Any, rows: str) -> str:
    gaps = squares(graph, _view(graph, student, rows), student.landmarks_)
    kernel = graph("Exp", graph("Mul", gaps, -float(student.gamma_)))
    basis = graph("MatMul", kernel, student.whitening_)
    return graph("Add", graph("MatMul", basis, student.weights_), student.bias_)


def _neighbours(graph: Graph, student: Any, rows: str) -> tuple[str, str]:
    """Return the distances (float64) and places of the nearest points, the first of equal ones."""
    view = _single_view(graph, student, rows)
    gaps = graph.cast(squares(graph, view, student.points_.astype(np.float64)), np.float32)
    count = min(student.n_neighbors, len(student.points_))
    near, places = graph.several("TopK", 2, gaps, np.array([count]), axis=1, largest=0, sorted=1)
    return graph.cast(near, np.float64), places


def _nearest(graph: Graph, student: Any, rows: str) -> str:
    _, places = _neighbours(graph, student, rows)
    said = graph("Gather", student.posterior_, places, axis=0)
    return graph.total(said, 1, operator="ReduceMean", keep=False)


def _spreading(graph: Graph, student: Any, rows: str) -> str:
    near, places = _neighbours(graph, student, rows)
    furthest = graph.total(near, 1, operator="ReduceMax")
    least = graph("Mul", graph("Add", furthest, 1.0), NEAREST_SHARE)
    weights = graph("Div", 1.0, graph("Max", near, least))
    said = graph("Gather", student.spread_, places, axis=0)
    weighted = graph("Mul", said, graph("Unsqueeze", weights, np.array([2])))
    return graph.total(weighted, 1, keep=False)


def _combined(graph: Graph, student: Any, rows: str) -> str:
    """Return the parts' probabilities, weighted; all of them look in one feature space."""
    view = _view(graph, student, rows)
    said = [
        graph("Mul", probabilities(graph, part, view), float(share))
        for part, share in zip(student.parts_, student.shares_, strict=True)
    ]
    return graph("Sum", *said)


def _supervised(graph: Graph, student: Any, rows: str) -> str:
    if student.estimator_ is None:
        only = np.zeros((1, student.n_classes_))
        only[0, student.classes_seen_[0]] = 1.0
        return graph("Add", graph("Mul", graph.sliced(rows, 0, 1, 1), 0.0), only)
    said = chances(graph, student.estimator_, transformed(graph, student.features_, rows))
    return _placed(graph, said, student.classes_seen_, student.n_classes_)


def _network(graph: Graph, student: Any, rows: str) -> str:
    inputs = _standardised(graph, student, rows)
    return graph.softmax(network_outputs(graph, student.network_, inputs, (_width(student),)))


def _standardised(graph: Graph, student: Any, rows: str) -> str:
    centred = graph("Sub", _view(graph, student, rows), student.centre_)
    return graph("Div", centred, float(student.scale_))


def _width(student: Any) -> int:
    """Return how many numbers the network of a trained student takes."""
    if student.features_ is None:
        return int(student.n_features_in_)
    return int(student._view(np.zeros((1, student.n_features_in_))).shape[1])


def _images(graph: Graph, rows: str, shape: Any, mean: float, scale: float, width: int) -> str:
    """Return flat rows as standardised float32 images, channels first."""
    channels, height, across = image_planes(shape, width)
    single = graph.cast(rows, np.float32)
    scaled = graph("Div", graph("Sub", single, np.float32(mean)), np.float32(scale))
    return graph(
        "Transpose", graph.reshaped(scaled, -1, height, across, channels), perm=[0, 3, 1, 2]
    )


def _cnn(graph: Graph, student: Any, rows: str) -> str:
    seen = transformed(graph, student.preprocess_, rows)
    width, sides = student.n_features_in_, image_planes(student.image_shape, student.n_features_in_)
    images = _images(graph, seen, student.image_shape, student.mean_, student.scale_, width)
    views = [images, *(_moved(graph, images, moves, sides) for moves in student._moves())]
    said = [graph.softmax(network_outputs(graph, student.network_, each, sides)) for each in views]
    scores = _summing_to_one(graph, graph("Sum", *said), student.n_classes_)
    near = probabilities(graph, student.graph_, rows)
    share = float(student.graph_share)
    return graph("Add", graph("Mul", scores, 1 - share), graph("Mul", near, share))


def _moved(graph: Graph, images: str, moves: Any, sides: tuple[int, int, int]) -> str:
    """Move all images alike: a linear map of their pixels, read off images of one bright pixel."""
    channels, height, width = sides
    single = torch.eye(height * width).reshape(-1, 1, height, width)
    matrix = moved(single, moves.expand(6, len(single))).reshape(height * width, -1).numpy()
    flat = graph.reshaped(images, -1, channels, height * width)
    return graph.reshaped(graph("MatMul", flat, matrix.copy()), -1, channels, height, width)


def _vat(graph: Graph, student: Any, rows: str) -> str:
    if student.image_shape is not None:
        width, shape = student.n_features_in_, student.image_shape
        scaling = float(student.mean_[0]), float(student.scale_[0])
        inputs = _images(graph, rows, shape, *scaling, width)
        sides: tuple[int, ...] = image_planes(shape, width)
    else:
        view = _view(graph, student, rows)
        inputs = graph("Div", graph("Sub", view, student.mean_), student.scale_)
        sides = (len(student.mean_),)
    said = graph.softmax(network_outputs(graph, student.network_, inputs, sides))
    return _placed(graph, said, student.classes_seen_, student.n_classes_)


_SCORES: dict[str, Callable[[Graph, Any, str], str]] = {
    "LinearStudent": _linear,
    "KernelStudent": _kernel,
    "NearestStudent": _nearest,
    "LabelSpreadingStudent": _spreading,
    "CombinedStudent": _combined,
    "SupervisedStudent": _supervised,
    "NetworkStudent": _network,
    "CNNStudent": _cnn,
    "VATStudent": _vat,
}
