"""Networks of torch as graphs, layer by layer; a layer that is not known is refused by name.

Dense networks are computed in float64: what is left of the difference is torch's own rounding.
Convolutions are float32, for which runtimes have them. A probe goes through the network with the
graph, so that a layer which changes the shape knows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._extras import torch
from tacit.errors import InvalidArgument
from tacit.export.graph import Graph

_IN_PLANES = ("Conv", "Pool", "InstanceNorm")


@dataclass(frozen=True, slots=True)
class Writer:
    """What writes layers: a graph, and the type of all numbers in it."""

    graph: Graph
    kind: Any

    def number(self, value: Any) -> NDArray[Any]:
        """Return a constant of this type."""
        tensor = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        return np.ascontiguousarray(np.asarray(tensor), dtype=self.kind)

    def write(self, layer: Any, x: str, probe: Any) -> str:
        """Add a layer, or a chain of them."""
        for base in _kinds(layer):
            if base in _LAYERS:
                return _LAYERS[base](self, layer, x, probe)
        raise InvalidArgument(
            f"Expected layers that can be exported, got {type(layer).__name__} of "
            f"{type(layer).__module__.partition('.')[0]}; known are {', '.join(_LAYERS)}."
        )


def network_outputs(graph: Graph, network: Any, rows: str, shape: tuple[int, ...]) -> str:
    """Return a network's outputs in float64, of inputs of this shape (without their number)."""
    network = network.eval()
    planar = any(mark in type(layer).__name__ for layer in network.modules() for mark in _IN_PLANES)
    # A part of a chain may have no weights of its own.
    own = next((each.dtype for each in network.parameters()), torch.float32)
    # Rounded to what the network takes first, as torch does.
    rows = graph.cast(rows, np.float32 if own == torch.float32 else np.float64)
    writer = Writer(graph, np.float32 if planar else np.float64)
    with torch.inference_mode():
        said = writer.write(network, graph.cast(rows, writer.kind), torch.zeros(1, *shape).to(own))
    return graph.cast(said, np.float64)


def _kinds(layer: Any) -> list[str]:
    """Return the name of a layer of torch or MONAI; of another package, none."""
    known = type(layer).__module__.startswith(("torch.nn.", "monai.networks."))
    return [type(layer).__name__] if known else []


def _chain(writer: Writer, layer: Any, x: str, probe: Any) -> str:
    for part in layer.children():
        x, probe = writer.write(part, x, probe), part(probe)
    return x


def _linear(writer: Writer, layer: Any, x: str, _: Any) -> str:
    said = writer.graph("MatMul", x, writer.number(layer.weight).T.copy())
    return said if layer.bias is None else writer.graph("Add", said, writer.number(layer.bias))


def _convolution(writer: Writer, layer: Any, x: str, _: Any) -> str:
    if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        raise InvalidArgument("Expected convolutions padded by a number of zeros to export.")
    extra = {"output_padding": list(layer.output_padding)} if layer.transposed else {}
    bias = () if layer.bias is None else (writer.number(layer.bias),)
    return writer.graph(
        "ConvTranspose" if layer.transposed else "Conv",
        x,
        writer.number(layer.weight),
        *bias,
        strides=list(layer.stride),
        pads=list(layer.padding) * 2,
        dilations=list(layer.dilation),
        group=layer.groups,
        **extra,
    )


def _batch_norm(writer: Writer, layer: Any, x: str, probe: Any) -> str:
    """Centre and scale by the running statistics: in use, an affine map."""
    scale = 1 / np.sqrt(layer.running_var.double().numpy() + layer.eps)
    shift = -layer.running_mean.double().numpy() * scale
    if layer.weight is not None:
        weight, bias = (part.detach().double().numpy() for part in (layer.weight, layer.bias))
        scale, shift = scale * weight, shift * weight + bias
    sides = (1, -1, *[1] * (probe.ndim - 2))
    scaled = writer.graph("Mul", x, writer.number(scale.reshape(sides)))
    return writer.graph("Add", scaled, writer.number(shift.reshape(sides)))


def _instance_norm(writer: Writer, layer: Any, x: str, probe: Any) -> str:
    if layer.track_running_stats:
        raise InvalidArgument("Expected instance normalisation by the instance alone to export.")
    plain = np.ones(probe.shape[1])
    weight, bias = (plain, 0 * plain) if layer.weight is None else (layer.weight, layer.bias)
    parts = (writer.number(weight), writer.number(bias))
    return writer.graph("InstanceNormalization", x, *parts, epsilon=float(layer.eps))


def _standardised(writer: Writer, x: str, axes: list[int], eps: float) -> str:
    graph = writer.graph
    centred = graph("Sub", x, graph.total(x, axes, operator="ReduceMean"))
    variance = graph.total(graph("Mul", centred, centred), axes, operator="ReduceMean")
    deviation = graph("Sqrt", graph("Add", variance, writer.number(eps)))
    return graph("Div", centred, deviation)


def _affine(writer: Writer, layer: Any, x: str, sides: tuple[int, ...]) -> str:
    for operator, part in (("Mul", layer.weight), ("Add", layer.bias)):
        if part is not None:
            x = writer.graph(operator, x, writer.number(part).reshape(sides))
    return x


def _layer_norm(writer: Writer, layer: Any, x: str, _: Any) -> str:
    axes = list(range(-len(layer.normalized_shape), 0))
    return _affine(writer, layer, _standardised(writer, x, axes, layer.eps), layer.normalized_shape)


def _group_norm(writer: Writer, layer: Any, x: str, probe: Any) -> str:
    grouped = writer.graph.reshaped(x, -1, layer.num_groups, probe[0].numel() // layer.num_groups)
    scaled = _standardised(writer, grouped, [2], layer.eps)
    back = writer.graph.reshaped(scaled, -1, *probe.shape[1:])
    return _affine(writer, layer, back, (1, probe.shape[1], *[1] * (probe.ndim - 2)))


def _pool(writer: Writer, layer: Any, x: str, probe: Any) -> str:
    def pair(value: Any) -> list[int]:
        return [value] * (probe.ndim - 2) if isinstance(value, int) else list(value)

    shared = {
        "kernel_shape": pair(layer.kernel_size),
        "strides": pair(layer.stride),
        "pads": pair(layer.padding) * 2,
        "ceil_mode": int(layer.ceil_mode),
    }
    if "Max" in type(layer).__name__:
        return writer.graph("MaxPool", x, dilations=pair(layer.dilation), **shared)
    if layer.divisor_override is not None:
        raise InvalidArgument("Expected mean pooling without divisor_override= to export.")
    return writer.graph("AveragePool", x, count_include_pad=int(layer.count_include_pad), **shared)


def _reshape(writer: Writer, layer: Any, x: str, probe: Any) -> str:
    shape = tuple(layer(probe).shape)
    if shape[0] != 1:
        raise InvalidArgument("Expected layers that keep rows apart to export.")
    return writer.graph.reshaped(x, -1, *shape[1:])


def _same(_: Writer, __: Any, x: str, ___: Any) -> str:
    return x


def _one(operator: str) -> Callable[[Writer, Any, str, Any], str]:
    return lambda writer, _, x, __: writer.graph(operator, x)


def _above(writer: Writer, x: str) -> str:
    return writer.graph("Max", x, writer.number(0.0))


def _softplus(writer: Writer, layer: Any, x: str, _: Any) -> str:
    """Return log(1 + e^(beta x)) / beta as max(z, 0) + log(1 + e^-|z|), which overflows nowhere."""
    graph = writer.graph
    z = graph("Mul", x, writer.number(layer.beta))
    small = graph("Exp", graph("Neg", graph("Abs", z)))
    bent = graph("Add", _above(writer, z), graph("Log", graph("Add", small, writer.number(1.0))))
    return graph("Div", bent, writer.number(layer.beta))


def _elu(writer: Writer, layer: Any, x: str, _: Any) -> str:
    graph = writer.graph
    below = graph("Sub", graph("Exp", graph("Min", x, writer.number(0.0))), writer.number(1.0))
    return graph("Add", _above(writer, x), graph("Mul", below, writer.number(layer.alpha)))


def _leaky(writer: Writer, layer: Any, x: str, _: Any) -> str:
    below = writer.graph("Min", x, writer.number(0.0))
    slope = writer.number(layer.negative_slope)
    return writer.graph("Add", _above(writer, x), writer.graph("Mul", below, slope))


def _prelu(writer: Writer, layer: Any, x: str, probe: Any) -> str:
    below = writer.graph("Min", x, writer.number(0.0))
    slope = writer.number(layer.weight).reshape(1, -1, *[1] * (probe.ndim - 2))
    return writer.graph("Add", _above(writer, x), writer.graph("Mul", below, slope))


def _silu(writer: Writer, _: Any, x: str, __: Any) -> str:
    return writer.graph("Mul", x, writer.graph("Sigmoid", x))


def _gelu(writer: Writer, layer: Any, x: str, _: Any) -> str:
    if layer.approximate != "none":
        raise InvalidArgument("Expected the exact GELU to export, not an approximate one.")
    graph = writer.graph
    bent = graph("Mul", x, writer.number(1 / np.sqrt(2)))
    share = graph.cast(graph("Erf", graph.cast(bent, np.float32)), writer.kind)
    half = graph("Mul", x, writer.number(0.5))
    return graph("Mul", half, graph("Add", share, writer.number(1.0)))


def _residual(writer: Writer, layer: Any, x: str, probe: Any) -> str:
    """Return what a residual unit of MONAI says: its convolutions, and its input beside them."""
    beside = writer.write(layer.residual, x, probe)
    return writer.graph("Add", writer.write(layer.conv, x, probe), beside)


def _skip(writer: Writer, layer: Any, x: str, probe: Any) -> str:
    """Return the input of MONAI's skip connection with what lies below it, as more channels."""
    if layer.mode != "cat":
        raise InvalidArgument(f"Expected skips that join channels to export, got {layer.mode!r}.")
    below = writer.write(layer.submodule, x, probe)
    return writer.graph("Concat", x, below, axis=layer.dim)


def _each(function: Callable[..., str], *names: str) -> dict[str, Callable[..., str]]:
    return dict.fromkeys(names, function)


_LAYERS: dict[str, Callable[[Writer, Any, str, Any], str]] = {
    **_each(_chain, "Sequential", "UNet", "Convolution", "ADN"),
    "Linear": _linear,
    **_each(_convolution, "Conv2d", "Conv3d", "ConvTranspose2d", "ConvTranspose3d"),
    **_each(_batch_norm, "BatchNorm1d", "BatchNorm2d"),
    **_each(_instance_norm, "InstanceNorm2d", "InstanceNorm3d"),
    "GroupNorm": _group_norm,
    "LayerNorm": _layer_norm,
    **_each(_pool, "MaxPool2d", "AvgPool2d"),
    **_each(_reshape, "Flatten", "Unflatten"),
    **_each(_same, "Identity", "Dropout"),
    "ReLU": _one("Relu"),
    "Tanh": _one("Tanh"),
    "Sigmoid": _one("Sigmoid"),
    "Softplus": _softplus,
    "ELU": _elu,
    "LeakyReLU": _leaky,
    "PReLU": _prelu,
    "SiLU": _silu,
    "GELU": _gelu,
    "ResidualUnit": _residual,
    "SkipConnection": _skip,
}
