"""Steps of pictures (`Deskew`, `HOG`, patches) as graphs, formula by formula as in tacit.features.

Images are (rows, height, width). What tacit sums in one order of float32 is summed here in float64:
the features agree to about 1e-6, not to the bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit.export.graph import Graph
from tacit.features import (
    FAINT_SQUARE,
    FAINTEST,
    PIXEL_VARIANCE,
    RESIZE_RANGE,
    SQUARE_STEPS,
    STEEPEST_SKEW,
    box_windows,
    tent_windows,
)

_SINGLE = np.float32


def deskew(graph: Graph, step: Any, rows: str) -> str:
    """Straighten, centre and resize each image by the moments of its own ink."""
    height, width = step.image_shape
    canvas_height, canvas_width = step.canvas or step.image_shape
    planes = _planes(graph, rows, height, width)
    centre_y, centre_x, variance_y, variance_x, skew = _ink(graph, planes, height, width)

    def stride(variance: str, wanted: float, ratio: float) -> str:
        """Pixels of the image per pixel of the result."""
        size = graph("Div", graph("Sqrt", variance), wanted)
        size = graph("Min", graph("Max", size, RESIZE_RANGE[0]), RESIZE_RANGE[1])
        return graph("Mul", graph("Add", graph("Mul", size, step.resize), 1.0 - step.resize), ratio)

    step_y = stride(variance_y, step.spread[0] * height, height / canvas_height)
    step_x = stride(variance_x, step.spread[1] * width, width / canvas_width)
    down = graph("Mul", step_y, _from_middle(canvas_height)[None])
    across = graph("Mul", step_x, _from_middle(canvas_width)[None])
    lines = graph("Unsqueeze", graph("Add", centre_y, down), np.array([1]))
    turned = graph("Transpose", planes, perm=[0, 2, 1])
    upright = _resampled(graph, turned, lines, height, (width, canvas_height), np.float64)
    upright = graph("Transpose", upright, perm=[0, 2, 1])
    starts = graph.cast(graph("Add", centre_x, graph("Mul", skew, down)), _SINGLE)
    columns = graph(
        "Add",
        graph("Unsqueeze", graph.cast(across, _SINGLE), np.array([1])),
        graph("Unsqueeze", starts, np.array([2])),
    )
    sides = (canvas_height, canvas_width)
    drawn = _resampled(graph, upright, columns, width, sides, _SINGLE)
    return graph.reshaped(drawn, -1, canvas_height * canvas_width)


def hog(graph: Graph, step: Any, rows: str) -> str:
    """Describe each image by the directions of its gradients in overlapping cells."""
    height, width = step.image_shape
    planes = _planes(graph, rows, height, width)
    windows = [
        tent_windows(side, step.cells, overlap=step.overlap, margin=step.margin)
        for side in (height, width)
    ]
    votes = graph.cast(_votes(graph, planes, step.orientations), np.float64)
    # (rows, directions, height, width) to (rows, directions, cells, cells)
    pooled = graph("MatMul", graph("MatMul", windows[0], votes), windows[1].T)
    energy = graph.total(graph("Mul", pooled, pooled), 1)
    binomial = np.outer([1, 2, 1], [1, 2, 1]) / 16.0
    around = graph.cast(
        graph(
            "Conv", graph.cast(energy, _SINGLE), binomial[None, None].astype(_SINGLE), pads=[1] * 4
        ),
        np.float64,
    )
    contrast = graph("Sqrt", graph("Add", around, FAINTEST**2))
    features = graph.reshaped(graph("Div", pooled, contrast), -1, step.orientations * step.cells**2)
    total = graph.total(features, 1)
    total = graph("Where", graph("Equal", total, 0.0), 1.0, total)
    return graph.cast(graph("Sqrt", graph("Div", features, total)), _SINGLE)


def scaled_hog(graph: Graph, step: Any, rows: str) -> str:
    """Describe each image, and where asked for its mirror image, by grids and large pixels."""
    made = _grids_and_pixels(graph, step, rows)
    if not step.mirror:
        return made
    places = np.arange(np.prod(step.image_shape)).reshape(step.image_shape)[:, ::-1].reshape(-1)
    other = _grids_and_pixels(graph, step, graph("Gather", rows, places, axis=1))
    return graph("Div", graph("Add", made, other), _SINGLE(2))


def _grids_and_pixels(graph: Graph, step: Any, rows: str) -> str:
    """Return grids of several sizes, and large pixels of unit length."""
    parts = [hog(graph, grid, rows) for grid in step.grids()]
    if step.pixels:
        height, width = step.image_shape
        planes = graph.cast(_planes(graph, rows, height, width), np.float64)
        down, across = (box_windows(side, step.pixels) for side in (height, width))
        large = graph("MatMul", graph("MatMul", down, planes), across.T)
        large = graph.reshaped(large, -1, step.pixels**2)
        parts.append(graph.cast(unit_length(graph, large), _SINGLE))
    return graph("Concat", *parts, axis=1)


def public_patches(graph: Graph, step: Any, rows: str) -> str:
    """Describe each image by grids, large pixels, and the public patches that it resembles."""
    answers = graph.cast(_answers(graph, step, rows), np.float64)
    down, across = (box_windows(side, step.regions) for side in step.image_shape)
    own = step.atoms // 2 if step.mirror else step.atoms
    said = graph.sliced(answers, 0, own, 1)
    pooled = graph("MatMul", graph("MatMul", down, said), across.T)
    if step.mirror:  # what the mirror image has at its other end
        said = graph.sliced(answers, own, 0, 1)
        other = graph("MatMul", graph("MatMul", down, said), across[:, ::-1].T)
        pooled = graph("Add", pooled, other)
    pooled = graph("Transpose", pooled, perm=[0, 2, 3, 1])
    features = graph.reshaped(pooled, -1, own * step.regions**2)
    total = graph.total(features, 1)
    total = graph("Where", graph("Equal", total, 0.0), 1.0, total)
    rooted = graph.cast(graph("Sqrt", graph("Div", features, total)), _SINGLE)
    weighed = graph("Mul", rooted, _SINGLE(step.weight))
    return graph("Concat", scaled_hog(graph, step, rows), weighed, axis=1)


def _answers(graph: Graph, step: Any, rows: str) -> str:
    """Return (rows, atoms, height, width): how much the square around a pixel resembles each."""
    height, width = step.image_shape
    planes = graph.reshaped(_planes(graph, rows, height, width), -1, 1, height, width)
    places = np.eye(step.patch**2, dtype=_SINGLE).reshape(-1, 1, step.patch, step.patch)
    squares = graph("Conv", planes, places, pads=[step.patch // 2] * 4)
    wide = graph.cast(squares, np.float64)
    mean = graph.total(wide, 1, operator="ReduceMean")
    energy = graph.total(graph("Mul", wide, wide), 1, operator="ReduceMean")
    variance = graph("Max", graph("Sub", energy, graph("Mul", mean, mean)), 0.0)
    steps = graph("Div", SQUARE_STEPS, graph("Sqrt", graph("Add", variance, FAINT_SQUARE)))
    apart = graph("Sub", squares, graph.cast(mean, _SINGLE))
    whole = graph("Round", graph("Mul", apart, graph.cast(steps, _SINGLE)))
    filters = step.filters_.astype(_SINGLE)
    return graph("Relu", graph("Conv", whole, filters[:, :-1, None, None], filters[:, -1]))


def unit_length(graph: Graph, rows: str) -> str:
    """Return float64 rows of length 1; a row of zeros stays."""
    size = graph.total(rows, 1, operator="ReduceL2")
    return graph("Div", rows, graph("Where", graph("Equal", size, 0.0), 1.0, size))


def _from_middle(size: int) -> Any:
    return np.arange(float(size)) - (size - 1) / 2


def _planes(graph: Graph, rows: str, height: int, width: int) -> str:
    """Return float32 images, each divided by its own brightest pixel."""
    pixels = graph.cast(rows, np.float64)
    brightest = graph.total(graph("Abs", pixels), 1, operator="ReduceMax")
    brightest = graph("Where", graph("Equal", brightest, 0.0), 1.0, brightest)
    scaled = graph.cast(graph("Div", pixels, brightest), _SINGLE)
    return graph.reshaped(scaled, -1, height, width)


def _ink(graph: Graph, planes: str, height: int, width: int) -> tuple[str, ...]:
    """Measure centre, variances and skew of each image, (rows, 1) each."""
    bright = graph.cast(graph("Max", planes, _SINGLE(0)), np.float64)
    flat = graph.reshaped(bright, -1, height * width)
    y, x = np.meshgrid(_from_middle(height), _from_middle(width), indexing="ij")

    def moment(weights: Any) -> str:
        return graph("MatMul", flat, np.asarray(weights, dtype=np.float64).reshape(-1, 1))

    total = moment(np.ones_like(y))
    total = graph("Where", graph("Equal", total, 0.0), 1.0, total)

    def mean(weights: Any) -> str:
        return graph("Div", moment(weights), total)

    def without(value: str, one: str, other: str) -> str:
        return graph("Sub", value, graph("Mul", one, other))

    centre_y, centre_x = mean(y), mean(x)
    variance_y = graph("Max", without(mean(y * y), centre_y, centre_y), PIXEL_VARIANCE)
    covariance = without(mean(x * y), centre_y, centre_x)
    skew = graph("Div", covariance, variance_y)
    skew = graph("Min", graph("Max", skew, -STEEPEST_SKEW), STEEPEST_SKEW)
    variance_x = without(without(mean(x * x), centre_x, centre_x), skew, covariance)
    return centre_y, centre_x, variance_y, graph("Max", variance_x, PIXEL_VARIANCE), skew


def _resampled(
    graph: Graph, lines: str, positions: str, size: int, sides: tuple[int, int], kind: Any
) -> str:
    """Interpolate float32 (rows, n, size) along the last axis, at positions about its middle.

    Positions are (rows, 1 or n, m) of a kind of float, the result (rows, n, m) as `sides` say;
    beyond the ends it is dark.
    """
    padded = graph("Pad", lines, np.array([0, 0, 1, 0, 0, 1]), _SINGLE(0))
    inside = graph("Add", positions, kind((size + 1) / 2))
    inside = graph("Min", graph("Max", inside, kind(0)), kind(size + 1))
    whole = graph("Min", graph("Floor", inside), kind(size))
    share = graph.cast(graph("Sub", inside, whole), _SINGLE)
    shape = graph(
        "Concat",
        graph("Shape", lines, start=0, end=1),
        np.array(sides, dtype=np.int64),
        axis=0,
    )
    index = graph("Expand", graph.cast(whole, np.int64), shape)
    here = graph("GatherElements", padded, index, axis=2)
    there = graph("GatherElements", padded, graph("Add", index, 1), axis=2)
    return graph("Add", graph("Mul", graph("Sub", there, here), share), here)


def _votes(graph: Graph, planes: str, orientations: int) -> str:
    """Return (rows, orientations, height, width): how much each gradient says for a direction."""
    down, across = (_differences(graph, planes, axis) for axis in (1, 2))
    half, angle = orientations // 2, 2 * math.pi / orientations
    crosses = []
    for k in range(half):
        sine, cosine = (_SINGLE(f(k * angle) / math.sin(angle)) for f in (math.sin, math.cos))
        crosses.append(graph("Sub", graph("Mul", across, sine), graph("Mul", down, cosine)))
    crosses += [graph("Neg", cross) for cross in crosses]
    votes = []
    for k in range(orientations):
        least = graph(
            "Min", crosses[(k + 1) % orientations], crosses[(k - 1) % orientations - half]
        )
        votes.append(graph("Unsqueeze", graph("Max", least, _SINGLE(0)), np.array([1])))
    return graph("Concat", *votes, axis=1)


def _differences(graph: Graph, planes: str, axis: int) -> str:
    """Return differences over two pixels, and over one at the border."""
    inner = graph("Sub", graph.sliced(planes, 2, 0, axis), graph.sliced(planes, 0, -2, axis))
    first = graph("Sub", graph.sliced(planes, 1, 2, axis), graph.sliced(planes, 0, 1, axis))
    last = graph("Sub", graph.sliced(planes, -1, 0, axis), graph.sliced(planes, -2, -1, axis))
    return graph("Concat", first, inner, last, axis=axis)
