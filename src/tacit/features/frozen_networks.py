"""Networks as they are used: read once, with a hash of what was read.

What a statement names, a cache stores and a saved student asks for must be the network in use, not
one that replaced it since: a file is held as the bytes that were hashed, a module as a copy
(docs/encoders.md).
"""

from __future__ import annotations

import copy
import hashlib
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._checks import refuse
from tacit._extras import need
from tacit._quiet import kind_of
from tacit.errors import InvalidArgument

Forward = Callable[[NDArray[np.float32]], NDArray[Any]]
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_ELSEWHERE = b"\n\x08location"
"""How ONNX's protocol buffers mark a tensor that is stored in another file."""
_INSTEAD = "write it to an ONNX file, or give a function"


@dataclass(eq=False, slots=True)
class ReadNetwork:
    """What an encoder and its clones have read of a network: immutable, never run itself.

    Each of them builds its own forward function, so that no hidden state reaches another teacher's.
    """

    given: Any
    used: Any = None
    digest: str | None = None
    widths: dict[int, int] = field(default_factory=dict)
    prints: dict[int, str] = field(default_factory=dict)
    is_stated: bool = False

    def stated(self) -> str | None:
        """Return the hash to state, or None; computed once, for the file may vanish."""
        if self.used is None and not self.is_stated:
            self.digest, self.is_stated = hash_of(self.given), True
        return self.digest

    def is_another_now(self) -> bool:
        """Return whether the file, or the module in place, has changed since it was read."""
        try:
            return self.used is not None and hash_of(self.given) != self.digest
        except InvalidArgument:
            return False


def is_path(network: Any) -> bool:
    """Return whether a network is given by the path of a file."""
    return isinstance(network, str | os.PathLike)


def is_module(network: Any) -> bool:
    """Return whether a network is a torch module."""
    return hasattr(network, "state_dict")


def as_used(network: Any) -> Any:
    """Return the network in use: a file's bytes, a copy of a module, or the callable."""
    if is_path(network):
        return _bytes(network)
    if is_module(network):
        return _copied(network)
    if callable(network):
        return network
    raise refuse("network", type(network).__name__, "a torch module, an ONNX file or a callable")


def hash_of(network: Any) -> str | None:
    """Return the SHA-256 of a file, or of a module's tensors and parts: equal on all machines."""
    content = _bytes(network) if is_path(network) else network
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    return _module_hash(network) if is_module(network) else None


def forward_of(used: Any, name: str) -> Forward:
    """Return the forward function of what `as_used` returned."""
    if isinstance(used, bytes):
        return _onnx_forward(used, name)
    if is_module(used):
        return _torch_forward(_copied(used))
    return lambda rows: np.asarray(used(rows.copy()))


def print_of(made: list[NDArray[np.float32]]) -> str:
    """Return a hash of outputs, for a local cache alone: processors round differently."""
    digest = hashlib.sha256()
    for outputs in made:
        digest.update(f"{outputs.shape}".encode() + outputs.tobytes())
    return digest.hexdigest()


def _bytes(network: Any) -> bytes:
    path = Path(network)
    if not path.is_file():
        raise InvalidArgument(f"Expected an ONNX file at {path.name!r}; there is none.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidArgument(
            f"Expected an ONNX file at {path.name!r}; reading it fails with {kind_of(error)}."
        ) from None


def _copied(module: Any) -> Any:
    try:
        return copy.deepcopy(module).eval()
    except Exception as error:
        raise InvalidArgument(
            f"Expected a torch module that can be copied; that fails with {kind_of(error)}. Remove "
            f"weight_norm, and outputs that the module keeps; or {_INSTEAD}."
        ) from None


def _module_hash(module: Any) -> str | None:
    try:
        tensors = _tensors(module)
        digest = hashlib.sha256("\n".join(_parts(module)).encode())
        for name, tensor in sorted(tensors.items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(_raw(tensor).tobytes())
    except Exception as error:
        raise InvalidArgument(
            "Expected a torch module of plain tensors; reading its weights fails with "
            f"{kind_of(error)}, as those of quantised modules do: {_INSTEAD}."
        ) from None
    return digest.hexdigest() if tensors else None


def _tensors(module: Any) -> dict[str, Any]:
    """Return tensors by name: also buffers that no state holds, and those that freezing made."""
    found = dict(module.named_parameters(remove_duplicate=False))
    found |= dict(module.named_buffers(remove_duplicate=False))
    for place, part in module.named_modules():
        if hasattr(part, "code_with_constants"):
            constants = part.code_with_constants[1].const_mapping
            found |= {f"{place}.CONSTANTS.{name}": each for name, each in constants.items()}
    return found | dict(module.state_dict())


def _parts(module: Any) -> Iterator[str]:
    """Yield each part of a module: its class and settings, or the code of a scripted one."""
    for place, part in module.named_modules():
        kind = getattr(part, "original_name", type(part).__qualname__)  # a script's own class
        scripted = hasattr(part, "code_with_constants")
        does = part.code_with_constants[0] if scripted else part.extra_repr()
        yield f"{place} {kind} {_ADDRESS.sub('', does)}"


def _raw(tensor: Any) -> NDArray[np.uint8]:
    torch = need("torch", "to run a torch module", extra="torch")
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return np.asarray(
        flat.view(torch.uint8).numpy(), dtype=np.uint8
    )  # NumPy does not know bfloat16


def _torch_forward(frozen: Any) -> Forward:
    torch = need("torch", "to run a torch module", extra="torch")
    kinds = {each.dtype for each in frozen.parameters() if each.is_floating_point()}
    kind = kinds.pop() if len(kinds) == 1 else torch.float32

    def forward(rows: NDArray[np.float32]) -> NDArray[Any]:
        with torch.inference_mode():
            made = frozen(torch.from_numpy(rows.copy()).to(kind))
            if not torch.is_tensor(made):
                raise InvalidArgument(
                    f"Expected a torch module that makes one tensor of rows, not a "
                    f"{type(made).__name__}; wrap it in a module that returns one."
                )
            return np.asarray(made.detach().cpu().float().numpy())

    return forward


def _onnx_forward(content: bytes, name: str) -> Forward:
    runtime = need("onnxruntime", "to run an ONNX file", extra="encoders")
    if _ELSEWHERE in content:
        raise InvalidArgument(
            f"Expected {name!r} to hold its weights, which stand in another file: a hash of this "
            "one would not name them. Save it again by onnx.save(onnx.load(path), path)."
        )
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InvalidArgument(
            f"Expected {name!r} to be an ONNX model; reading it fails with {kind_of(error)}."
        ) from None
    (given, *more) = session.get_inputs()
    if more:
        raise InvalidArgument(f"Expected {name!r} to have one input, rows of float32.")
    sides = _sides(given.shape, name)
    return lambda rows: np.asarray(session.run(None, {given.name: _laid_out(rows, sides, name)})[0])


def _sides(shape: list[Any], name: str) -> tuple[int, ...]:
    """Return the shape of a model's input for one row, such as an image; empty for a plain row."""
    sides = tuple(shape[1:])
    if len(sides) < 2:
        return ()
    if not all(isinstance(side, int) for side in sides):
        raise InvalidArgument(
            f"Expected the input of {name!r} to be rows, or to have fixed sides after the first, "
            f"got {tuple(shape)}; write the model with fixed ones."
        )
    return sides


def _laid_out(rows: NDArray[np.float32], sides: tuple[int, ...], name: str) -> NDArray[np.float32]:
    if sides and math.prod(sides) != rows.shape[1]:
        raise InvalidArgument(
            f"Expected rows of {math.prod(sides)} numbers for {name!r}, which takes "
            f"{' x '.join(map(str, sides))}; got {rows.shape[1]}."
        )
    return rows.reshape(len(rows), *sides) if sides else rows
