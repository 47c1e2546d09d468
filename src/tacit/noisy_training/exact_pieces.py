"""Pieces of a network in exact arithmetic: linear layers, convolutions, pools, activations.

A flow is a matrix, one row a record. Rows and weights are whole steps, few enough that every sum of
products is an integer below 2^53: torch may add them in any order and any batch
(docs/theory/direct.md#in-a-computer). All else is done number by number, or by comparing numbers.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from tacit._checks import Floats, Integers, blocks
from tacit._loops import loop
from tacit.features import EXACT_BITS, WholeMatrix, WholeRows, row_bits, whole_rows
from tacit.noisy_training.exact_rows import ACTIVATIONS, ExactLayer, add_product
from tacit.noisy_training.examples import need_torch

Shape = tuple[int, ...]
_CACHED = 2**17  # numbers that stay in the processor's cache


class Gradients(Protocol):
    """Contributions of some records to one layer's gradient, before clipping. Secret."""

    @property
    def norms(self) -> Floats:
        """The length of each record's gradient, of shape (records, 1)."""

    def add(self, total: Floats, factors: Floats) -> None:
        """Add each one times its factor (records, 1) to a sum; 0 silences a record."""


class OuterGradients(NamedTuple):
    """Gradients of a linear layer: the outer products of deltas and inputs. Secret."""

    inputs: WholeRows
    deltas: WholeRows
    biased: bool

    def __repr__(self) -> str:
        return "OuterGradients(secret)"

    @property
    def norms(self) -> Floats:
        """|delta| times |input|, where a bias counts as one input more."""
        lengths = self.inputs.norms()
        if self.biased:
            lengths = _length(lengths, np.ones_like(lengths))
        return np.asarray(self.deltas.norms() * lengths)

    def add(self, total: Floats, factors: Floats) -> None:
        """Add one product of matrices, and the bias."""
        scales, both = _scales(factors, self.deltas.units, self.inputs.units)
        outputs, width = self.deltas.steps.shape[1], self.inputs.steps.shape[1]
        matrix, bias = total[: outputs * width], total[outputs * width :]
        if self.biased:
            bias += scales[:, 0] @ self.deltas.steps
        scaled = self.deltas.steps * both
        add_product(matrix.reshape(outputs, width), scaled, self.inputs.steps)


class KernelGradients(NamedTuple):
    """Gradients of a convolution: each record's own, in whole steps. Secret."""

    kernels: Floats
    biases: Floats | None
    input_units: Floats
    delta_units: Floats

    def __repr__(self) -> str:
        return "KernelGradients(secret)"

    @property
    def norms(self) -> Floats:
        """Lengths, from squares that are added in one order for every record."""
        lengths = _lengths(self.kernels) * self.input_units
        if self.biases is not None:
            lengths = _length(lengths, _lengths(self.biases))
        return np.asarray(lengths * self.delta_units)

    def add(self, total: Floats, factors: Floats) -> None:
        """Add the records' kernels, and their biases."""
        scales, both = _scales(factors, self.delta_units, self.input_units)
        kernels, bias = np.split(total, [self.kernels.shape[1]])
        kernels += both[:, 0] @ self.kernels
        if self.biases is not None:
            bias += scales[:, 0] @ self.biases


def _scales(factors: Floats, first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Return factors times one unit and times both; 0 for a silent record, whose units may be NaN.

    Steps are finite; a scale beyond float64 belongs to steps that are all 0 (their length was 0).
    """
    heard = factors > 0
    with np.errstate(all="ignore"):
        one = factors * first
        both = one * second
    one, both = (np.where(heard & np.isfinite(each), each, 0.0) for each in (one, both))
    return one, both


def _length(first: Floats, second: Floats) -> Floats:
    """Return sqrt(first^2 + second^2), neither of whose squares may leave float64."""
    larger = np.maximum(first, second)
    by = np.where(larger > 0, larger, 1.0)
    return np.asarray(larger * np.sqrt((first / by) ** 2 + (second / by) ** 2))


def _lengths(rows: Floats) -> Floats:
    """Return each row's length, from squares that are added in one order."""
    lengths = np.empty((len(rows), 1))
    if _lengths_in_one_pass:
        _lengths_in_one_pass(np.ascontiguousarray(rows), lengths)
        return lengths
    for block in blocks(len(rows), _CACHED // rows.shape[1]):
        lengths[block] = np.sqrt(added(np.square(rows[block])))
    return lengths


@loop("void(float64[:, ::1], float64[:, ::1])")
def _lengths_in_one_pass(rows, lengths):  # type: ignore[no-untyped-def]
    """Square and add each row in the order of `added`, in memory that stays in the cache."""
    squares = np.empty(rows.shape[1])
    for row in range(rows.shape[0]):
        for place in range(rows.shape[1]):
            squares[place] = rows[row, place] * rows[row, place]
        width = rows.shape[1]
        while width > 1:
            half = width // 2
            for place in range(half):
                squares[place] += squares[half + place]
            if width % 2:
                squares[0] += squares[width - 1]
            width = half
        lengths[row, 0] = np.sqrt(squares[0])


def added(rows: Floats) -> Floats:
    """Return each row's sum, in an order that the width alone decides; the rows are overwritten."""
    width = rows.shape[1]
    while width > 1:
        half = width // 2
        rows[:, :half] += rows[:, half : 2 * half]
        if width % 2:
            rows[:, 0] += rows[:, width - 1]
        width = half
    return rows[:, :1]


class Linear:
    """A linear layer of flat rows."""

    trained: ClassVar[bool] = True

    def __init__(self, layer: Any, shape: Shape) -> None:
        self._outputs, self._inputs = layer.weight.shape
        self._biased = layer.bias is not None
        self.shape: Shape = (self._outputs,)
        self.fits = shape == (self._inputs,)
        self.size = self._outputs * self._inputs + self._outputs * self._biased
        self.numbers = self._inputs

    def load(self, parameters: Floats, *, first: bool) -> None:
        """Set the weights of the next step; nothing goes back to the inputs of the first layer."""
        shapes = [(self._outputs, self._inputs, self._biased)]
        (self._layer,) = ExactLayer.all_of(parameters, shapes, first=first)

    def forward(self, flow: Floats) -> tuple[Floats, WholeRows]:
        """Return the outputs, and the inputs in whole steps. The flow is overwritten."""
        inputs = whole_rows(flow, out=flow)
        return self._layer.apply(inputs), inputs

    def back(self, kept: WholeRows, deltas: WholeRows) -> Floats:
        """Return the loss by the inputs."""
        return self._layer.back(deltas)

    def gradients(self, kept: WholeRows, deltas: WholeRows) -> Gradients:
        """Return each record's contribution."""
        return OuterGradients(kept, deltas, self._biased)


class _Patches(NamedTuple):
    """Patches (records, numbers of a patch, positions) in whole steps of each record's unit."""

    steps: Floats
    units: Floats

    def __repr__(self) -> str:
        return "_Patches(secret)"


_HOW = ("kernel_size", "dilation", "padding", "stride")


class Convolution:
    """A convolution of images: a linear layer of patches."""

    trained: ClassVar[bool] = True

    def __init__(self, layer: Any, shape: Shape) -> None:
        self._how = {name: getattr(layer, name) for name in _HOW}
        self._biased, self._outputs = layer.bias is not None, layer.out_channels
        self._patch = layer.in_channels * math.prod(layer.kernel_size)
        self._before = shape
        self.fits = (
            len(shape) == 3
            and shape[0] == layer.in_channels
            and layer.groups == 1
            and layer.padding_mode == "zeros"
            and not isinstance(layer.padding, str)
        )
        sides = [self._side(axis) for axis in range(2)] if self.fits else [0, 0]
        self.fits = self.fits and min(sides) > 0
        self.shape: Shape = (self._outputs, *sides)
        self.size = self._outputs * (self._patch + self._biased)
        places = max(1, math.prod(sides))
        self.numbers = max(self._patch * places, self._outputs * self._patch)
        # A record's gradient is a sum over places: exact only where it stays below 2^53.
        self._row_bits = row_bits(max(2, math.prod(shape)))
        self._delta_bits = row_bits(self._outputs * places)
        spread = math.ceil(math.log2(max(2, places)))
        self.fits = self.fits and self._row_bits + self._delta_bits + spread <= EXACT_BITS
        if self.fits:
            self._numbers = self._numbers_of_patches()

    def _numbers_of_patches(self) -> Integers:
        """Return each patch number's index in the image; past its last: padding."""
        torch = need_torch()
        size = math.prod(self._before)
        counted = torch.arange(1, size + 1, dtype=torch.float64).reshape(1, *self._before)
        counts = torch.nn.functional.unfold(counted, **self._how).to(torch.int64).reshape(-1)
        return np.where(counts.numpy() > 0, counts.numpy() - 1, size)

    def _side(self, axis: int) -> int:
        kernel, dilation, padding, stride = (self._how[name][axis] for name in _HOW)
        free = self._before[axis + 1] + 2 * padding - dilation * (kernel - 1) - 1
        return int(free // stride + 1)

    def load(self, parameters: Floats, *, first: bool) -> None:
        """Set the kernels of the next step."""
        flat, bias = np.split(parameters, [self._outputs * self._patch])
        kernels = flat.reshape(self._outputs, self._patch)
        self._forward = WholeMatrix(kernels, bits=_left(self._patch, self._row_bits))
        # What goes back to a number of an image is a sum over outputs and places of the kernel.
        terms = self._outputs * math.prod(self._how["kernel_size"])
        self._backward = WholeMatrix(kernels.T, bits=_left(terms, self._delta_bits))
        self._bias = bias.copy() if self._biased else None

    def forward(self, flow: Floats) -> tuple[Floats, _Patches]:
        """Return the outputs, and the patches in whole steps. The flow is overwritten."""
        rows = whole_rows(flow, out=flow)
        patches = _taken(rows.steps, self._numbers).reshape(len(flow), self._patch, -1)
        outputs = self._forward.steps @ patches
        outputs *= rows.units[:, :, None] * self._forward.unit
        if self._bias is not None:
            outputs += self._bias[:, None]
        return outputs.reshape(len(flow), -1), _Patches(patches, rows.units)

    def back(self, kept: _Patches, deltas: WholeRows) -> Floats:
        """Return the loss by the inputs: integers in patches, which overlap, are added exactly."""
        patches = self._backward.steps @ self._places(deltas)
        if _put_back_in_one_pass:
            flow = np.zeros((len(patches), math.prod(self._before)))
            flat = np.ascontiguousarray(patches.reshape(len(patches), -1))
            _put_back_in_one_pass(flat, self._numbers, flow)
        else:
            fold = need_torch().nn.functional.fold
            steps = fold(need_torch().from_numpy(patches), self._before[1:], **self._how)
            flow = steps.reshape(len(patches), -1).numpy()
        flow *= deltas.units * self._backward.unit
        return flow

    def gradients(self, kept: _Patches, deltas: WholeRows) -> Gradients:
        """Return each record's contribution: a sum over positions, exact in whole steps."""
        places = self._places(deltas)
        kernels = places @ kept.steps.transpose(0, 2, 1)
        flat = kernels.reshape(len(kernels), -1)
        biases = places.sum(axis=2) if self._biased else None
        return KernelGradients(flat, biases, kept.units, deltas.units)

    def _places(self, deltas: WholeRows) -> Floats:
        return deltas.steps.reshape(len(deltas.steps), self._outputs, -1)


def _left(terms: int, bits: int) -> int:
    """Return how many bits remain for weights, for so many products of so many bits."""
    return EXACT_BITS - math.ceil(math.log2(max(2, terms))) - bits


def _taken(rows: Floats, numbers: Integers) -> Floats:
    """Return the numbers of each row that a list names; past the last one is a 0."""
    if _taken_in_one_pass:
        found = np.empty((len(rows), numbers.size))
        _taken_in_one_pass(np.ascontiguousarray(rows), numbers, found)
        return found
    framed = np.zeros((len(rows), rows.shape[1] + 1))
    framed[:, :-1] = rows
    return framed.take(numbers, axis=1, mode="clip")


@loop("void(float64[:, ::1], int64[::1], float64[:, ::1])")
def _taken_in_one_pass(rows, numbers, found):  # type: ignore[no-untyped-def]
    """Do what `_taken` does, row by row."""
    width = rows.shape[1]
    for row in range(rows.shape[0]):
        for place in range(numbers.size):
            number = numbers[place]
            found[row, place] = rows[row, number] if number < width else 0.0


@loop("void(float64[:, ::1], int64[::1], float64[:, ::1])")
def _put_back_in_one_pass(found, numbers, rows):  # type: ignore[no-untyped-def]
    """Add numbers back to where they were taken from: whole numbers, exact in any order."""
    width = rows.shape[1]
    for row in range(rows.shape[0]):
        for place in range(numbers.size):
            number = numbers[place]
            if number < width:
                rows[row, number] += found[row, place]


class MaxPool:
    """The largest number of each window of an image."""

    trained: ClassVar[bool] = False

    def __init__(self, layer: Any, shape: Shape) -> None:
        self._how = {
            name: getattr(layer, name)
            for name in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
        }
        self._before = shape
        self.fits = len(shape) == 3 and not layer.return_indices
        self.shape: Shape = shape
        if self.fits:
            torch = need_torch()
            pooled, _ = self._pooled(torch.zeros(1, *shape, dtype=torch.float64))
            self.shape = tuple(pooled.shape[1:])
        self.numbers = math.prod(shape)

    def _pooled(self, images: Any) -> tuple[Any, Any]:
        pool = need_torch().nn.functional.max_pool2d
        # The same numbers and places, channels last in memory: a quarter of the time.
        last = images.contiguous(memory_format=need_torch().channels_last)
        values, places = pool(last, return_indices=True, **self._how)
        return values.contiguous(), places.contiguous()

    def forward(self, flow: Floats) -> tuple[Floats, Any]:
        """Return the largest numbers, and where each one was."""
        images = need_torch().from_numpy(flow).reshape(-1, *self._before)
        values, places = self._pooled(images)
        return values.reshape(len(flow), -1).numpy(), places

    def back(self, kept: Any, slopes: Floats) -> Floats:
        """Return the loss by the inputs: windows overlap, and whole steps are added exactly."""
        torch = need_torch()
        deltas = whole_rows(slopes, out=slopes)
        planes = (len(slopes), self._before[0], -1)
        shape = (len(slopes), self._before[0], math.prod(self._before[1:]))
        flow = torch.zeros(shape, dtype=torch.float64)
        flow.scatter_add_(2, kept.reshape(planes), torch.from_numpy(deltas.steps).reshape(planes))
        result: Floats = flow.reshape(len(slopes), -1).numpy()
        result *= deltas.units
        return result


class Activation:
    """A function of each number."""

    trained: ClassVar[bool] = False

    def __init__(self, layer: Any, shape: Shape) -> None:
        self._function = ACTIVATIONS[type(layer).__name__.lower()]
        usual = {"beta": 1, "threshold": 20}  # of a Softplus; others have none
        self.fits = all(getattr(layer, name, value) == value for name, value in usual.items())
        self.shape, self.numbers = shape, 0

    def forward(self, flow: Floats) -> tuple[Floats, Floats]:
        """Return the values, and the slopes."""
        return self._function(flow)

    def back(self, kept: Floats, slopes: Floats) -> Floats:
        """Return the loss by the inputs. The slopes are overwritten."""
        slopes *= kept
        return slopes


class Reshape:
    """Flatten or Unflatten: rows are unchanged, only the shape of a record is."""

    trained: ClassVar[bool] = False

    def __init__(self, layer: Any, shape: Shape) -> None:
        self.shape, self.numbers = shape, 0
        if type(layer).__name__ == "Flatten":
            self.shape = (math.prod(shape),)
            self.fits = layer.start_dim == 1 and layer.end_dim in (-1, len(shape))
        else:
            wanted = tuple(layer.unflattened_size)
            self.fits = len(shape) == 1 and layer.dim == 1 and math.prod(wanted) == shape[0]
            self.fits = self.fits and min(wanted) > 0
            self.shape = wanted

    def forward(self, flow: Floats) -> tuple[Floats, None]:
        """Return the flow."""
        return flow, None

    def back(self, kept: None, slopes: Floats) -> Floats:
        """Return the slopes."""
        return slopes


_KINDS: dict[str, Any] = {
    "Linear": Linear,
    "Conv2d": Convolution,
    "MaxPool2d": MaxPool,
    "Flatten": Reshape,
    "Unflatten": Reshape,
    **dict.fromkeys(("Tanh", "ReLU", "Softplus"), Activation),
}


def pieces_of(module: Any, shape: Shape) -> list[Any] | None:
    """Return a Sequential's pieces for records of a shape, or None where one is not known here.

    >>> from torch import nn
    >>> chain = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))
    >>> [type(piece).__name__ for piece in pieces_of(chain, (1, 4, 4))]
    ['Convolution', 'Activation', 'Reshape', 'Linear']
    """
    pieces: list[Any] = []
    for layer in module:
        kind = _KINDS.get(type(layer).__name__)
        if kind is None or not (piece := kind(layer, shape)).fits:
            return None
        pieces.append(piece)
        shape = piece.shape
    return pieces if len(shape) == 1 and any(piece.trained for piece in pieces) else None
