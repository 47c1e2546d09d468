"""Frozen networks as features: each private row is encoded alone, and the statement names them.

A network trained on public data is a public function, if two things hold. It was trained without
the private records: the statement states this assumption, with a hash. And a row's outputs do not
depend on its batch: rows are encoded alone, or in blocks of a fixed shape, tested, not proved.
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone

from tacit._checks import as_array, at_least, one_of, refuse
from tacit._progress import training_bar
from tacit._quiet import kind_of, quiet
from tacit._warn import warn
from tacit.errors import InvalidArgument
from tacit.features.feature_cache import FeatureCache
from tacit.features.frozen_networks import (
    Forward,
    ReadNetwork,
    as_used,
    forward_of,
    hash_of,
    is_module,
    is_path,
    print_of,
)
from tacit.features.precomputed import PrecomputedEmbeddings

__all__ = ["FrozenEncoder", "PrecomputedEmbeddings", "presumptions"]
ISOLATIONS = ("alone", "block")
_TRIED = 24
"""Public rows, or two blocks of them, that are compared with rows alone at every place of a block.
"""
_ODD = np.array([1e3, -1.0, 1e-3, 0.0, 1e9, np.inf], dtype=np.float32)
"""Factors that make rows unlike any public one."""
_PRINTED = 3
"""Pseudo-random rows whose outputs, with those of zeros, identify the network of a cache."""


@dataclass(eq=False, repr=False)
class FrozenEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The outputs of a network that was trained on public data, each row's from that row alone.

    In run.toml: `features = "onnx:FILE"`, followed by `PublicWhitening`. A saved student holds the
    hash, and the path of an ONNX file, but no network. A network is read once, by the first `fit`,
    for the encoder and its clones; fitting the encoder again reads it again. Source:
    docs/encoders.md.

    Parameters
    ----------
    network : torch module, path of an ONNX file, or callable
        From float32 rows (n, features) to outputs (n, anything), which are flattened. A module is
        copied, put into eval mode, and given rows in the type of its weights; an ONNX file must
        hold its weights, and gets rows in the fixed shape of its input. None may be random or keep
        state: `fit` tests this on public rows.
    name : str, what the statement calls it, such as "EfficientNet-lite0 at 160 pixels"
    isolation : str
        "alone" (default): every row by itself. "block": blocks of a fixed shape, filled with zeros,
        and used only if public rows have the same bits as alone (else "alone", with a warning).
        That is evidence, not proof, and the statement says so.
    block : int, rows of a block
    cache : path, optional
        A file that stores features of rows, private ones included: mode 0600, as secret as the
        rows. `forget` deletes it. Refused of a network without tensors.
    weights : str, optional, the expected hash, as of `weights_hash`; another network is refused

    Attributes
    ----------
    isolation_ : str, the isolation after the test on public rows

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
        """Test the network on public rows; nothing is learned from them.

        Parameters
        ----------
        X : array of shape (n, features), public rows
        y : object, ignored

        Returns
        -------
        self
        """
        self._check_arguments()
        if "isolation_" in self.__dict__:
            self._read = ReadNetwork(self.network)  # it may have been changed in place
        elif self._as_read().is_another_now():
            warn(
                f"Features by {self.name}: the network has changed since it was first read, and is "
                "used as it was then; give a new FrozenEncoder where the new one is meant."
            )
        in_blocks = self.isolation == "block"
        rows = _floats(X)[: max(_TRIED, 2 * int(self.block) * in_blocks)]
        if not len(rows):
            raise InvalidArgument("Expected public rows to try the network out.")
        self._outputs(rows.shape[1])
        self._refuse_memory(rows)
        self.isolation_ = "block" if in_blocks and self._bears_blocks(rows) else "alone"
        return self

    def _check_arguments(self) -> None:
        one_of(*ISOLATIONS, isolation=self.isolation)
        at_least(2, block=self.block)
        if not isinstance(self.name, str) or not self.name.strip():
            raise refuse("name", self.name, "what a statement shall call the network")
        if self.cache is None:
            return
        path = Path(self.cache)
        if path.is_dir() or not path.parent.is_dir():
            raise refuse("cache", str(path), "a file in a folder that is there; make the folder")

    def _refuse_memory(self, rows: NDArray[np.float32]) -> None:
        """Refuse a network whose outputs of a row change after rows unlike it."""
        forward, first = self._ready(), rows[:1]
        with np.errstate(all="ignore"):
            odd = np.resize(rows, (len(_ODD), rows.shape[1])) * _ODD[:, None]
        before, *_, again = (_row(forward, each[None]) for each in (*first, *odd, *first))
        if not np.array_equal(before, again, equal_nan=True):
            raise InvalidArgument(
                f"Expected the network of {self.name} to give a row the same numbers every time; "
                "it is random, or remembers the rows that it has seen."
            )

    def _bears_blocks(self, rows: NDArray[np.float32]) -> bool:
        """Return whether public rows may share blocks; warn where not, because it costs time."""
        enough = len(rows) >= self.block  # else zeros alone keep them company, which shows nothing
        if enough and self._agrees(rows):
            return True
        why = "a block fails, or changes a row's bits" if enough else "public rows do not fill one"
        warn(
            f"Features by {self.name}: every row goes through alone, not in blocks of "
            f"{self.block}: {why}."
        )
        return False

    def _agrees(self, rows: NDArray[np.float32]) -> bool:
        """Compare rows in blocks, at every position and beside different rows, with rows alone.

        Half of these are unlike any public row: a quantised network rounds by a block's largest
        number.
        """
        forward, width = self._ready(), self._outputs(rows.shape[1])
        if len(_row(forward, np.zeros((int(self.block), rows.shape[1]), np.float32))) < self.block:
            return False
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
        """Return the network's outputs of each row, as secret as X; NaN where the network fails.

        Parameters
        ----------
        X : array of shape (n, features), private or public; rounded to float32 each by itself

        Returns
        -------
        array of float32 of shape (n, outputs)
        """
        rows, forward = _floats(X), self._ready()
        width = self._outputs(rows.shape[1])
        store = None if self.cache is None else FeatureCache(self.cache, self._kept_as(rows))
        known = {} if store is None else store.read(rows, width)
        missing = np.array([place for place in range(len(rows)) if place not in known], dtype=int)
        made = self._through(forward, rows[missing])
        result = np.full((len(rows), width), np.nan, dtype=np.float32)
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
            FeatureCache(self.cache, "").forget()

    def presumed(self) -> tuple[str, ...]:
        """Return the assumptions that a statement lists, from arguments alone.

        Returns
        -------
        tuple of str, lines for the ledger; public
        """
        digest = self.weights or self._as_read().stated()
        known = "without a hash of its weights" if digest is None else f"weights {digest[:16]}"
        lines = [
            f"features by {self.name} ({known}): presumes that it was trained without the "
            "private records"
        ]
        if self.isolation == "block":
            lines.append(
                f"rows may share blocks of {self.block} in {self.name}, if public ones had the "
                "same bits there as alone, which was tried, not proved; if not, each goes alone"
            )
        return tuple(lines)

    def weights_hash(self) -> str | None:
        """Return the SHA-256 of a file, or of a module's tensors, classes and settings.

        State of a module that is neither parameter nor buffer, and its own code, are not in the
        hash.

        Returns
        -------
        str or None, none of a callable, or a module without tensors
        """
        read = self._as_read()
        return hash_of(self.network) if read.used is None else read.digest

    def content(self) -> bytes:
        """Return the ONNX file as it was read; a changed one is refused.

        Returns
        -------
        bytes
        """
        read: bytes = as_used(self.network)
        found = hash_of(read)
        if found != self.weights_hash() or self.weights not in (None, found):
            raise InvalidArgument(
                f"Expected the network that features by {self.name} came from; its file has "
                "another hash."
            )
        return read

    def described(self) -> dict[str, Any]:
        """Return the parameters for a saved student: no network, no cache.

        Returns
        -------
        dict, plain data
        """
        path = os.fspath(self.network) if is_path(self.network) else None
        kept = {"name": self.name, "isolation": self.isolation, "block": self.block}
        return {"network": path, "weights": self.weights or self.weights_hash(), **kept}

    def _kept_as(self, rows: NDArray[np.float32]) -> str:
        """Return the cache's key: also by outputs of public rows, bit for bit."""
        prints, width = self._as_read().prints, rows.shape[1]
        if width not in prints:
            drawn = np.random.default_rng(0).normal(size=(_PRINTED, width)).astype(np.float32)
            tried = np.concatenate([np.zeros((1, width), dtype=np.float32), drawn])
            forward = self._ready()
            prints[width] = print_of([_row(forward, row[None]) for row in tried])
        shape = f"{self.isolation_}{self.block}" if self.isolation_ == "block" else "alone"
        return f"{self.weights_hash()} {prints[width]} {self.name} {shape}"

    def _as_read(self) -> ReadNetwork:
        read: ReadNetwork | None = self.__dict__.get("_read")
        if read is None or read.given is not self.network:
            self._read = read = ReadNetwork(self.network)
        return read

    def _ready(self) -> Forward:
        """Return the forward function of the hashed network, made once for each clone."""
        read = self._as_read()
        self.__dict__.setdefault("isolation_", "alone")
        if read.used is None:
            self._check_given()
            used = as_used(self.network)
            digest = hash_of(used)
            self._check_weights(digest)
            read.digest, read.used = digest, used
        made: tuple[ReadNetwork, Forward] | None = self.__dict__.get("_forward")
        if made is None or made[0] is not read:
            name = Path(self.network).name if is_path(self.network) else self.name
            self._forward = made = read, forward_of(read.used, name)
        return made[1]

    def _outputs(self, width: int) -> int:
        """Return the number of outputs, from a row of zeros, which is public."""
        forward, known = self._ready(), self._as_read().widths
        if width in known:
            return known[width]
        what = "makes nothing"
        try:
            made = np.asarray(forward(np.zeros((1, width), dtype=np.float32)), dtype=np.float32)
        except InvalidArgument:
            raise
        except BaseException as error:
            made, what = np.empty(0, dtype=np.float32), f"fails with {kind_of(error)}"
        if not made.size:
            raise InvalidArgument(
                f"Expected the network of {self.name} to take rows of {width} numbers, one at a "
                f"time; on a row of zeros it {what}."
            )
        known[width] = made.size
        return known[width]

    def _check_given(self) -> None:
        if self.network is None:
            raise InvalidArgument(
                f"Expected the network of {self.name}: a saved student keeps its hash only. Load "
                "it where its ONNX file is, or set the network: "
                "student.features_.set_params(network=network), or in a pipeline by the name of "
                "its step, student.features_.set_params(frozenencoder__network=network)."
            )

    def _check_weights(self, found: str | None) -> None:
        if found is None and (self.weights is not None or self.cache is not None):
            raise InvalidArgument(
                f"Expected neither weights nor cache with {self.name}: a function, or a module "
                "without tensors, cannot be told from others. Give a module with tensors, or an "
                "ONNX file."
            )
        if self.weights is not None and found is not None and found != self.weights:
            raise InvalidArgument(
                f"Expected weights with the hash {self.weights[:16]}..., got {found[:16]}...: this "
                f"is not the network that features by {self.name} came from."
            )

    def _through(self, forward: Forward, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        width = self._outputs(rows.shape[1])
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
        return _stacked(made, self._outputs(rows.shape[1]))

    def __sklearn_clone__(self) -> Self:
        """Share what was read, so that a statement and all clones are of one network."""
        given = self.get_params(deep=False)
        if not self._has_weights():  # a callable may remember rows: none of another's
            given["network"] = clone(self.network, safe=False)
        twin = type(self)(**given)
        twin._read = self._as_read()
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        if self._has_weights():  # a copy would be read, and hashed, once more
            memo[id(self.network)], twin._read = self.network, self._as_read()
        for key, value in self.__dict__.items():
            if key not in ("_read", "_forward"):
                twin.__dict__[key] = copy.deepcopy(value, memo)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state: the network's hash in place of the network."""
        left = ("_read", "_forward")
        state = {key: value for key, value in self.__dict__.items() if key not in left}
        return state | {"weights": self.weights or self._as_read().digest}

    def _has_weights(self) -> bool:
        return is_path(self.network) or is_module(self.network)

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


def presumptions(model: Any) -> tuple[str, ...]:
    """Return the statement's lines on all encoders in a model's arguments, at any depth."""
    said = [part.presumed() for part in _held_by(model) if hasattr(part, "presumed")]
    return tuple(dict.fromkeys(line for lines in said for line in lines))


def _held_by(model: Any) -> Iterator[Any]:
    """Yield the model and, recursively, its arguments, or those of a family of teachers."""
    yield model
    held: Iterable[Any] = ()
    if not isinstance(model, type):
        if hasattr(model, "get_params"):
            held = model.get_params(deep=True).values()  # also what stands in a list of steps
        elif is_dataclass(model):
            held = (getattr(model, one.name, None) for one in fields(model))
    for part in held:
        yield from _held_by(part)
