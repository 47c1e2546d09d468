"""Frozen networks as features: each private row goes through alone, and the statement names them.

A network that was trained elsewhere, on public data, is a public function like any other, if two
things hold. It was trained without the private records, which nobody can see from its weights: the
statement says that it is presumed, with a hash of the weights. And a row's outputs are its own, bit
for bit: kernels round a row by the batch it is in, so that rows go through one by one, unless
blocks of a fixed shape are asked for, which are tried, not proved.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from tacit._checks import as_array, at_least, one_of, refuse
from tacit._extras import need
from tacit._progress import training_bar
from tacit._quiet import kind_of, quiet
from tacit.errors import InvalidArgument
from tacit.features.feature_cache import FeatureCache

ISOLATIONS = ("alone", "block")
_TRIED = 24
"""Public rows on which blocks are compared with rows alone, at every place of a block."""
_ODD = np.array([1e3, -1.0, 1e-3, 0.0, 1e9, np.inf], dtype=np.float32)
"""Factors that make of public rows what is unlike all of them."""
Forward = Callable[[NDArray[np.float32]], NDArray[Any]]


@dataclass(eq=False, repr=False)
class FrozenEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The outputs of a network that was trained on public data, each row's from that row alone.

    Parameters
    ----------
    network : torch module, path of an ONNX file, or callable
        From float32 rows (n, features) to outputs (n, anything), which are flattened. A module is
        copied and put into eval mode. A callable gets float32 arrays, and must not remember rows.
    name : str
        What the statement calls it, such as "EfficientNet-lite0 at 160 pixels".
    isolation : str
        "alone" (default): every row goes through by itself. "block": blocks of a fixed shape,
        filled with zeros; compared, bit by bit, with rows alone on public ones, and not used where
        one differs. That is evidence, not proof, and the statement says so.
    block : int
        Rows of a block.
    cache : path, optional
        A file that keeps features of rows, private ones included: mode 0600, as secret as the rows.
        `forget` deletes it. None keeps nothing.
    weights : str, optional
        The expected hash of the weights; another network is refused.

    Attributes
    ----------
    isolation_ : str
        How rows go through, after the trial on public rows.

    Notes
    -----
    In run.toml: `features = "onnx:FILE"`, followed by `PublicWhitening`. A student that is saved
    holds the hash, and the path of an ONNX file, but no network.

    References
    ----------
    docs/encoders.md

    Examples
    --------
    >>> encoder = FrozenEncoder(lambda rows: rows[:, :2] ** 2, name="squares")
    >>> encoder.fit_transform([[1.0, 2.0, 3.0]]).tolist()
    [[1.0, 4.0]]
    """

    network: Any
    _: KW_ONLY
    name: str = "an encoder"
    isolation: str = "alone"
    block: int = 4
    cache: Any = None
    weights: str | None = None

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Try the network out on public rows; nothing is learned from them.

        Parameters
        ----------
        X : array of shape (n, features)
            Public rows.
        y : object
            Ignored.

        Returns
        -------
        self
            Ready to transform.
        """
        one_of(*ISOLATIONS, isolation=self.isolation)
        at_least(2, block=self.block)
        if not isinstance(self.name, str) or not self.name.strip():
            raise refuse("name", self.name, "what a statement shall call the network")
        self.__dict__.pop("_forward", None)  # a network may have been changed in place
        rows = _floats(X)[:_TRIED]
        if not len(rows):
            raise InvalidArgument("Expected public rows to try the network out.")
        self._outputs(rows)
        self.isolation_ = "alone"
        # Fewer rows than a block would have zeros for company only, which shows nothing.
        if self.isolation == "block" and len(rows) >= self.block and self._agrees(rows):
            self.isolation_ = "block"
        return self

    def _agrees(self, rows: NDArray[np.float32]) -> bool:
        """Compare rows in blocks, at every place and in several companies, with rows alone.

        Half of the rows get company that no public row is: networks with one scale for a whole
        block (quantised ones) round a row by the largest number beside it.
        """
        forward, width = self._ready(), self._outputs(rows)
        odd = rows.copy()
        with np.errstate(all="ignore"):
            odd[1::2] *= np.resize(_ODD, (len(rows) // 2, 1))
        for company in (rows, odd):
            alone = _stacked([_row(forward, row[None]) for row in company], width)
            for shift in range(int(self.block)):
                order = np.roll(np.arange(len(company)), shift)
                made = self._in_blocks(forward, company[order])
                if not np.array_equal(made, alone[order], equal_nan=True):
                    return False
        return True

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return what the network says of each row.

        Parameters
        ----------
        X : array of shape (n, features)
            Rows of numbers, private or public; rounded to float32 each by itself.

        Returns
        -------
        array of float32 of shape (n, outputs)
            As secret as X. A row on which the network fails is NaN.
        """
        rows, forward = _floats(X), self._ready()
        store = None if self.cache is None else FeatureCache(self.cache, self._kept_as())
        known = {} if store is None else store.read(rows, self._outputs(rows))
        missing = np.array([place for place in range(len(rows)) if place not in known], dtype=int)
        made = self._through(forward, rows[missing])
        result = np.full((len(rows), self._outputs(rows)), np.nan, dtype=np.float32)
        result[missing] = made
        for place, features in known.items():
            result[place] = features
        if store is not None and len(missing):
            with contextlib.suppress(OSError):  # a full disk costs time later, and no feature
                store.add(rows[missing], made)
        return result

    def forget(self) -> None:
        """Delete the cache of features, if there is one."""
        if self.cache is not None:
            Path(self.cache).unlink(missing_ok=True)

    def presumed(self) -> tuple[str, ...]:
        """Return what a statement says of it: from arguments alone.

        Returns
        -------
        tuple of str
            Lines for the ledger. Public.
        """
        digest = self.weights_hash()
        known = "without a hash of its weights" if digest is None else f"weights {digest[:16]}"
        lines = [
            f"features by {self.name} ({known}): presumes that it was trained without the "
            "private records"
        ]
        if self.isolation == "block":
            lines.append(
                f"rows may share blocks of {self.block} in {self.name}, which were tried on public "
                "rows, not proved, to round each row by itself"
            )
        return tuple(lines)

    def weights_hash(self) -> str | None:
        """Return the SHA-256 of the weights: of the file, or of a module's tensors by name.

        Returns
        -------
        str or None
            None of a callable, of which nothing can be read.
        """
        if _is_path(self.network):
            return hashlib.sha256(_file(self.network).read_bytes()).hexdigest()
        if not hasattr(self.network, "state_dict"):
            return None
        digest = hashlib.sha256()
        for key, tensor in sorted(self.network.state_dict().items()):
            array = np.ascontiguousarray(tensor.detach().cpu().numpy())
            digest.update(f"{key} {array.dtype} {array.shape}".encode() + array.tobytes())
        return digest.hexdigest()

    def described(self) -> dict[str, Any]:
        """Return the parameters with which a saved student knows it again: no network, no cache.

        Returns
        -------
        dict
            Plain data.
        """
        path = os.fspath(self.network) if _is_path(self.network) else None
        kept = {"name": self.name, "isolation": self.isolation, "block": self.block}
        return {"network": path, "weights": self.weights_hash() or self.weights, **kept}

    def _kept_as(self) -> str:
        shape = f"{self.isolation_}{self.block}" if self.isolation_ == "block" else "alone"
        return f"{self.weights_hash()} {self.name} {shape}"

    def _ready(self) -> Forward:
        """Return what computes outputs; made once, and again in a copy."""
        if "_forward" not in self.__dict__ or self.__dict__["_forward_is_of"] is not self.network:
            self._check_weights()
            self._forward, self._forward_is_of = _forward_of(self.network), self.network
            self.__dict__.setdefault("isolation_", "alone")
        return self._forward

    def _outputs(self, rows: NDArray[np.float32]) -> int:
        """Return how many numbers a row becomes: what a row of zeros does, which is public."""
        made = _row(self._ready(), np.zeros((1, rows.shape[1]), dtype=np.float32))
        if made.shape[0] != 1 or not made.size:
            raise InvalidArgument(
                f"Expected the network of {self.name} to take rows of {rows.shape[1]} numbers, one "
                "at a time; of a row of zeros it makes nothing."
            )
        return int(made.shape[1])

    def _check_weights(self) -> None:
        if self.network is None:
            raise InvalidArgument(
                f"Expected the network of {self.name}: a saved student keeps its hash only; set "
                "student.features_.network, or load it where its ONNX file is."
            )
        found = self.weights_hash()
        if found is None and (self.weights is not None or self.cache is not None):
            raise InvalidArgument(
                f"Expected neither weights nor cache with {self.name}, a function: it has no "
                "weights that can be told from others. Give a module or an ONNX file."
            )
        if self.weights is not None and found is not None and found != self.weights:
            raise InvalidArgument(
                f"Expected weights with the hash {self.weights[:16]}..., got {found[:16]}...: this "
                f"is not the network that features by {self.name} came from."
            )

    def _through(self, forward: Forward, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        width = self._outputs(rows)
        with training_bar(f"Features by {self.name}", total=len(rows)) as tick, quiet():
            if self.isolation_ == "block":
                return self._in_blocks(forward, rows, tick)
            made = [_ticked(_row(forward, row[None]), tick) for row in rows]
            return _stacked(made, width)

    def _in_blocks(
        self, forward: Forward, rows: NDArray[np.float32], tick: Callable[[], None] | None = None
    ) -> NDArray[np.float32]:
        size, made = int(self.block), []
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            filled = np.zeros((size, rows.shape[1]), dtype=np.float32)
            filled[: len(part)] = part
            outputs = _row(forward, filled)
            # Where a block fails, each of its rows is tried alone: one must not silence another.
            whole = outputs.shape[0] == size
            alone = [outputs[[k]] if whole else _row(forward, part[[k]]) for k in range(len(part))]
            made += [_ticked(each, tick) for each in alone]
        return _stacked(made, self._outputs(rows))

    def __getstate__(self) -> dict[str, Any]:
        return {
            key: value for key, value in self.__dict__.items() if not key.startswith("_forward")
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []
        return tags


def _ticked(made: NDArray[np.float32], tick: Callable[[], None] | None) -> NDArray[np.float32]:
    if tick is not None:
        tick()
    return made


def _floats(X: ArrayLike) -> NDArray[np.float32]:
    rows = as_array(X)
    if rows.ndim < 2 or rows.dtype.kind not in "buif":
        raise InvalidArgument(
            f"Expected X to be rows of numbers, got shape {rows.shape} and dtype {rows.dtype}."
        )
    return np.ascontiguousarray(rows.reshape(len(rows), -1), dtype=np.float32)


def _row(forward: Forward, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return outputs of some rows, flat; none of them where the network fails."""
    try:
        outputs = np.asarray(forward(rows), dtype=np.float32)
        return outputs.reshape(len(rows), -1)
    except BaseException as error:
        kind_of(error)  # an interrupt goes on
        return np.empty((0, 0), dtype=np.float32)


def _stacked(made: list[NDArray[np.float32]], width: int) -> NDArray[np.float32]:
    """Put rows together; one that failed, or has another width, is NaN."""
    result = np.full((len(made), width), np.nan, dtype=np.float32)
    for place, part in enumerate(made):
        if part.shape == (1, width):
            result[place] = part[0]
    return result


def _is_path(network: Any) -> bool:
    return isinstance(network, str | os.PathLike)


def _file(network: Any) -> Path:
    path = Path(network)
    if not path.is_file():
        raise InvalidArgument(f"Expected an ONNX file at {path.name!r}; there is none.")
    return path


def _forward_of(network: Any) -> Forward:
    if _is_path(network):
        return _onnx_forward(_file(network))
    if hasattr(network, "state_dict"):
        return _torch_forward(network)
    if callable(network):
        return lambda rows: np.asarray(network(rows.copy()))
    raise refuse("network", type(network).__name__, "a torch module, an ONNX file or a callable")


def _torch_forward(network: Any) -> Forward:
    torch = need("torch", "to run a torch module", extra="torch")
    frozen = copy.deepcopy(network).eval().requires_grad_(requires_grad=False)

    def forward(rows: NDArray[np.float32]) -> NDArray[Any]:
        with torch.inference_mode():
            return np.asarray(frozen(torch.from_numpy(rows.copy())).cpu().numpy())

    return forward


def _onnx_forward(path: Path) -> Forward:
    runtime = need("onnxruntime", "to run an ONNX file", extra="encoders")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InvalidArgument(
            f"Expected {path.name!r} to be an ONNX model; reading it fails with "
            f"{type(error).__name__}."
        ) from None
    (given, *more) = session.get_inputs()
    if more:
        raise InvalidArgument(f"Expected {path.name!r} to have one input, rows of float32.")
    return lambda rows: np.asarray(session.run(None, {given.name: rows})[0])


@dataclass(eq=False, repr=False)
class PrecomputedEmbeddings(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Rows that are a network's outputs already: they stay as they are, the statement says so.

    Parameters
    ----------
    name : str
        What the statement calls the network.
    alone : bool
        Whether each row is known to be computed by itself, as tacit does it with texts.

    Notes
    -----
    That each row was computed from its own record alone, not in a batch whose company moves its
    last bits, was the duty of whoever computed it. In run.toml: `features = "embeddings"`.

    Examples
    --------
    >>> PrecomputedEmbeddings("lite0").fit_transform([[1.0]]).tolist()
    [[1.0]]
    """

    name: str = "a network"
    _: KW_ONLY
    alone: bool = False

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn nothing.

        Parameters
        ----------
        X : array of shape (n, features)
            Public rows.
        y : object
            Ignored.

        Returns
        -------
        self
            As it was.
        """
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the rows as they are.

        Parameters
        ----------
        X : array of shape (n, features)
            Embeddings.

        Returns
        -------
        array
            The same.
        """
        return as_array(X)

    def presumed(self) -> tuple[str, ...]:
        """Return what a statement says of it.

        Returns
        -------
        tuple of str
            Lines for the ledger. Public.
        """
        if self.alone:
            return (
                f"rows are outputs of {self.name}, each from its own record alone: presumes that "
                "they were made without the private records",
            )
        return (
            f"rows are outputs of {self.name}, computed outside tacit: presumes that it was "
            "trained without the private records, and that each row was computed from its own "
            "record alone",
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def presumptions(model: Any) -> tuple[str, ...]:
    """Return what a statement says of a model's encoders: of all that its arguments hold.

    Parameters
    ----------
    model : transformer, estimator or None
        Any: what stands deep in it, in a pipeline or beneath another estimator, is found as well.

    Returns
    -------
    tuple of str
        Lines for the ledger; public, from arguments alone.

    Examples
    --------
    >>> presumptions(None)
    ()
    """
    said = [part.presumed() for part in _held_by(model) if hasattr(part, "presumed")]
    return tuple(dict.fromkeys(line for lines in said for line in lines))


def _held_by(model: Any) -> Iterator[Any]:
    """Yield it and whatever its arguments hold: of an estimator, or of a family of teachers."""
    yield model
    held: Iterable[Any] = ()
    if not isinstance(model, type):
        if hasattr(model, "get_params"):
            held = model.get_params(deep=True).values()  # also what stands in a list of steps
        elif is_dataclass(model):
            held = (getattr(model, one.name, None) for one in fields(model))
    for part in held:
        yield from _held_by(part)
