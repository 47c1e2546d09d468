"""The student of masks as a graph, from raw scans to masks on each scan's own grid.

What `tacit segment` does to a scan is part of the graph where the student's grid is known: cut to
its own percentiles, standardised, brought to the grid, segmented, and brought back. Sides are not
fixed: matrices of interpolation are computed from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.export.graph import Graph
from tacit.export.networks import network_outputs
from tacit.masks import OVERLAP, PERCENTILES

_NO_MASK = 255  # of a scan that holds NaN or infinity
_SINGLE = np.float32


def write_segmenter(graph: Graph, student: Any, grid: Sequence[int] | None) -> None:
    """Add inputs, outputs and everything between them."""
    sides = [f"side{axis + 1}" for axis in range(student.dimensions_)]
    shape = ["scans", student.n_channels_, *sides]
    scans = graph.add_input("scans", _SINGLE, shape)
    view = scans if grid is None else _normalised(graph, scans)
    if grid is not None:
        view = _resampled(graph, view, [graph.constant(int(side)) for side in grid])
    soft = graph.softmax(_scores(graph, student, view, grid))
    if grid is not None:
        own = [_side(graph, scans, axis) for axis in range(student.dimensions_)]
        soft = _resampled(graph, soft, own)
    masks = graph.cast(graph("ArgMax", soft, axis=1, keepdims=0), np.uint8)
    bad = _unreadable(graph, scans, student.dimensions_)
    masks = graph("Where", graph("Squeeze", bad, np.array([1])), np.uint8(_NO_MASK), masks)
    soft = graph("Where", bad, _SINGLE(np.nan), soft)
    graph.add_output("mask", masks, np.uint8, ["scans", *sides])
    graph.add_output("probabilities", soft, _SINGLE, ["scans", student.n_classes, *sides])


def _unreadable(graph: Graph, scans: str, dimensions: int) -> str:
    """Return which scans hold NaN or infinity, (scans, 1, 1, ...)."""
    strange = graph("Or", graph("IsNaN", scans), graph("IsInf", scans))
    axes = list(range(1, dimensions + 2))
    return graph.cast(graph.total(graph.cast(strange, np.int32), axes, operator="ReduceMax"), bool)


def _side(graph: Graph, scans: str, axis: int) -> str:
    """Return the length of a spatial axis, a whole number."""
    return graph("Squeeze", graph("Shape", scans, start=axis + 2, end=axis + 3))


def _normalised(graph: Graph, scans: str) -> str:
    """Cut each channel to its own percentiles, then standardise it."""
    wide = graph.cast(scans, np.float64)
    flat = graph.reshaped(wide, 0, 0, -1)
    size = graph("Shape", flat, start=2, end=3)
    ordered, _ = graph.several("TopK", 2, flat, size, axis=2, largest=0, sorted=1)
    low, high = (_percentile(graph, ordered, size, share) for share in PERCENTILES)
    cut = graph("Min", graph("Max", flat, low), high)
    mean = graph.total(cut, 2, operator="ReduceMean")
    centred = graph("Sub", cut, mean)
    variance = graph.total(graph("Mul", centred, centred), 2, operator="ReduceMean")
    spread = graph("Sqrt", variance)
    largest = graph.total(graph("Abs", cut), 2, operator="ReduceMax")
    varies = graph("Greater", spread, graph("Mul", graph("Max", largest, 1.0), 1e-9))
    scaled = graph("Div", centred, graph("Where", varies, spread, 1.0))
    scaled = graph("Where", varies, scaled, 0.0)
    return graph.cast(graph("Reshape", scaled, graph("Shape", wide)), _SINGLE)


def _percentile(graph: Graph, ordered: str, size: str, percent: float) -> str:
    """Interpolate between the two values at whose places the percentile lies."""
    last = graph("Sub", graph.cast(size, np.float64), 1.0)
    place = graph("Mul", last, percent / 100)
    below = graph("Floor", place)
    above = graph("Min", graph("Add", below, 1.0), last)
    first, second = (
        graph("Gather", ordered, graph.cast(each, np.int64), axis=2) for each in (below, above)
    )
    share = graph("Sub", place, below)
    return graph("Add", first, graph("Mul", graph("Sub", second, first), share))


def _resampled(graph: Graph, values: str, sides: Sequence[str]) -> str:
    """Stretch (n, channels, *spatial) to these sides by linear interpolation."""
    for axis, side in enumerate(sides):
        order = list(range(len(sides) + 2))
        order[axis + 2], order[-1] = order[-1], order[axis + 2]
        matrix = _interpolation(graph, _side(graph, values, axis), side)
        mixed = graph("MatMul", graph("Transpose", values, perm=order), matrix)
        values = graph("Transpose", mixed, perm=order)
    return values


def _interpolation(graph: Graph, old: str, new: str) -> str:
    """Return the matrix (old, new) of the interpolation along one axis; its columns sum to 1."""
    before, after = graph.cast(old, np.float64), graph.cast(new, np.float64)
    scale = graph("Div", before, after)
    places = graph.cast(graph("Range", 0, new, 1), np.float64)
    centres = graph("Sub", graph("Mul", graph("Add", places, 0.5), scale), 0.5)
    inside = graph("Min", graph("Max", centres, 0.0), graph("Sub", before, 1.0))
    centres = graph("Where", graph("LessOrEqual", scale, 1.0), inside, centres)
    rows = graph("Unsqueeze", graph.cast(graph("Range", 0, old, 1), np.float64), np.array([1]))
    distance = graph("Div", graph("Abs", graph("Sub", rows, centres)), graph("Max", scale, 1.0))
    weights = graph("Max", graph("Sub", 1.0, distance), 0.0)
    return graph.cast(graph("Div", weights, graph.total(weights, 0)), _SINGLE)


def _scores(graph: Graph, student: Any, view: str, grid: Sequence[int] | None) -> str:
    """Return the network's scores, in windows where it learned from patches of a known grid."""
    patch = student._recipe().patch
    if patch is None or grid is None:
        return _whole(graph, student, view)
    from monai.data.utils import compute_importance_map, dense_patch_slices

    sides = [max(pair) for pair in zip(grid, patch, strict=True)]
    steps = [
        side if side == window else max(1, int(window * (1 - OVERLAP)))
        for side, window in zip(sides, patch, strict=True)
    ]
    places: Any = dense_patch_slices(sides, patch, steps, return_slice=False)
    before = [(side - own) // 2 for side, own in zip(sides, grid, strict=True)]
    after = [side - own - start for side, own, start in zip(sides, grid, before, strict=True)]
    grown = graph("Pad", view, np.array([0, 0, *before, 0, 0, *after]), _SINGLE(0))
    cut = [_cut(graph, grown, place) for place in places]
    said = _whole(graph, student, graph("Concat", *cut, axis=0))
    said = graph.reshaped(said, len(places), -1, student.n_classes, *patch)
    weights = compute_importance_map(tuple(patch), mode="gaussian").numpy()
    total, mean = np.zeros(sides, dtype=_SINGLE), []
    for number, place in enumerate(places):
        total[tuple(slice(*ends) for ends in place)] += weights
        weighted = graph("Mul", graph("Gather", said, number, axis=0), weights)
        starts, stops = zip(*place, strict=True)
        rest = [side - stop for side, stop in zip(sides, stops, strict=True)]
        mean.append(graph("Pad", weighted, np.array([0, 0, *starts, 0, 0, *rest]), _SINGLE(0)))
    joined = graph("Div", graph("Sum", *mean), total)
    inside = [(start, start + own) for start, own in zip(before, grid, strict=True)]
    return _cut(graph, joined, inside)


def _cut(graph: Graph, values: str, ends: Sequence[Any]) -> str:
    """Take a window of (n, channels, *spatial): where it starts and stops along each side."""
    starts, stops = (np.array(each, dtype=np.int64) for each in zip(*ends, strict=True))
    return graph("Slice", values, starts, stops, np.arange(2, len(starts) + 2))


def _whole(graph: Graph, student: Any, view: str) -> str:
    """Return scores: sides padded by their borders to what the network halves, and cut back."""
    factor, dimensions = student._recipe().factor, student.dimensions_
    sides = graph("Shape", view, start=2)
    room = graph("Mod", graph("Neg", sides), factor)
    pads = graph("Concat", np.zeros(dimensions + 4, np.int64), room, axis=0)
    grown = graph("Pad", view, pads, mode="edge")
    small = (student.n_channels_, *[2 * factor] * dimensions)
    scores = network_outputs(graph, student.network_, grown, small)
    starts, axes = np.zeros(dimensions, np.int64), np.arange(2, dimensions + 2)
    return graph.cast(graph("Slice", scores, starts, sides, axes), _SINGLE)
