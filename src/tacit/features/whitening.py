"""Public whitening and kernels: the directions in which public inputs differ.

Both learn from the public rows of `fit` alone. Private rows are mapped one by one, bit for bit, in
whole numbers that float64 adds exactly in any order (`tacit.features.whole_numbers`). All
directions share a budget's signal n mu: few directions of equal length, and rows of length 1, use
it best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tacit._checks import Floats, as_array, at_least, blocks, non_negative, positive, refuse
from tacit._warn import warn
from tacit.errors import InvalidArgument, WeakSignal
from tacit.features.rows import steps_of
from tacit.features.whole_numbers import WholeMatrix, WholeRows, exp_of_negative, whole_rows

_BLOCK = 2048
_LEAST_SHARE = 1e-6
"""Directions with less than this share of the largest variance are dropped."""
_KERNEL_STEPS = 2.0**20
"""With at most 2^12 landmarks, products with a matrix of 21 bits add up to less than 2^53."""
_MOST_LANDMARKS = 2**12


class PublicMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of transformers that learn from public rows, and map each other row alone."""

    _learned: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays that `fit` learns."""
    n_features_in_: int

    def _public_rows(self, X: ArrayLike) -> Floats:
        rows = _numbers(X)
        if len(rows) < 2 or not np.isfinite(rows).all():
            raise InvalidArgument(
                f"Expected at least two public rows of finite numbers to fit {type(self).__name__}."
            )
        self.n_features_in_ = rows.shape[1]
        return rows.astype(np.float64)

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return features, as secret as X; each row from itself alone, NaN if not finite."""
        check_is_fitted(self, self._learned[0])
        rows = _numbers(X)
        if rows.shape[1] != self.n_features_in_:
            raise InvalidArgument(
                f"Expected X with {self.n_features_in_} columns, as {type(self).__name__} was "
                f"fitted on, got {rows.shape[1]}."
            )
        result = np.empty((len(rows), self._n_features_out), dtype=np.float32)
        with np.errstate(all="ignore"):  # a row that is not finite tells nobody that it is there
            for block in blocks(len(rows), _BLOCK):
                result[block] = self._mapped(rows[block].astype(np.float64))
        return result

    @property
    def _n_features_out(self) -> int:
        return int(getattr(self, self._learned[0]).shape[1])

    def _mapped(self, rows: Floats) -> Floats:
        raise NotImplementedError

    def learned_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was learned from public rows, to be saved with a student; public."""
        check_is_fitted(self, self._learned[0])
        width = np.array([self.n_features_in_])
        return {"width": width} | {name: getattr(self, name) for name in self._learned}

    def take_up(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Restore from `learned_arrays`."""
        self.n_features_in_ = int(arrays["width"][0])
        for name in self._learned:
            setattr(self, name, np.asarray(arrays[name], dtype=np.float64))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def _numbers(X: ArrayLike) -> NDArray[Any]:
    rows = as_array(X)
    if rows.ndim != 2 or rows.dtype.kind not in "buif" or not rows.shape[1]:
        raise InvalidArgument(
            f"Expected X to be rows of numbers, got shape {rows.shape} and dtype {rows.dtype}."
        )
    return rows


@dataclass(eq=False, repr=False)
class PublicWhitening(PublicMap):
    """Centre, turn to the main directions of public rows, even them out, scale to unit length.

    Rows of length 1 need no clipping: a record's contribution is bounded by its label alone. What
    is learned depends on the public rows alone; fitted on private ones it breaks every claim.
    Source: docs/theory/speak-once.md#public-whitening.

    Parameters
    ----------
    dimensions : int, optional
        How many directions, those in which public rows vary most. None: as many as `strength`
        supports (`bearable_dimensions`).
    power : float, optional
        A direction is divided by its standard deviation to this power: 0 leaves it, 1 makes all
        equally long. None: by `strength`, 0.6 below 5,000 and 0.8 from there on; 0.6 without it.
    standardise : bool
        Divide each column by its public standard deviation first, and cut it at `clip` of them:
        for the outputs of a network, some of which are far larger than others.
    clip : float, where standardised numbers are cut
    strength : float, optional
        n mu: declared number of records times mu of the budget, for `dimensions` and `power`. An
        estimator to which `n_records` is declared sets it.

    Attributes
    ----------
    matrix_ : array of shape (features, dimensions), multiplies a centred, scaled row; public
    centre_, scale_ : array of shape (features,), of the public rows
    n_features_in_ : int, columns of the public rows
    """

    _learned: ClassVar[tuple[str, ...]] = ("matrix_", "centre_", "scale_")

    dimensions: int | None = None
    _: KW_ONLY
    power: float | None = None
    standardise: bool = False
    clip: float = 6.0
    strength: float | None = None

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn centre, directions and their lengths from public rows.

        Parameters
        ----------
        X : array of shape (n, features), public rows of finite numbers
        y : object, ignored

        Returns
        -------
        self
        """
        self._check()
        rows = self._public_rows(X)
        self.centre_ = rows.mean(axis=0)
        self.scale_ = np.ones(rows.shape[1])
        if self.standardise:
            spread = rows.std(axis=0)
            self.scale_ = np.where(spread > 0, spread, 1.0)
        view = self._framed(rows)
        values, vectors = np.linalg.eigh(view.T @ view / len(view))
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        self._warn_of_few(values, len(rows))
        if not values[0] > 0:
            raise InvalidArgument("Expected public rows that differ from each other.")
        count = self._count(values, len(rows))
        lengths = values[:count] ** (self._power() / 2)
        # Signs that do not depend on the library: the largest number of a direction is positive.
        kept = vectors[:, :count]
        signs = np.sign(kept[np.abs(kept).argmax(axis=0), np.arange(count)])
        self.matrix_ = np.asarray(kept * (signs / lengths))
        return self

    def _check(self) -> None:
        if self.dimensions is not None:
            at_least(1, dimensions=self.dimensions)
        if self.strength is not None:
            positive(strength=self.strength)
        if self.dimensions is None and self.strength is None:
            raise InvalidArgument(
                "Expected dimensions= or strength= of PublicWhitening; an estimator to which "
                "n_records= is declared sets the strength by itself."
            )
        if self.power is not None and non_negative(power=self.power) > 1:
            raise refuse("power", self.power, "a number from 0 to 1")
        positive(clip=self.clip)

    def _warn_of_few(self, values: Floats, n_rows: int) -> None:
        """Warn that the public rows are too few for as many directions as the strength supports."""
        if self.dimensions is not None:
            return
        borne = bearable_dimensions(self.strength or 1.0, np.ones(values.size), _MOST_ROWS)
        told = n_rows // 2
        if 2 * told < borne:
            warn(
                f"{n_rows} public rows tell {told} directions, where n mu bears {borne}: with "
                f"{2 * borne} public rows more would be learned.",
                WeakSignal,
            )

    def _power(self) -> float:
        if self.power is not None:
            return float(self.power)
        return 0.6 if self.strength is None or self.strength < _STRONG else 0.8

    def _count(self, values: Floats, n_rows: int) -> int:
        if self.dimensions is None:
            return bearable_dimensions(self.strength or 1.0, values, n_rows)
        usable = int((values > _LEAST_SHARE * values[0]).sum())
        return min(int(self.dimensions), usable)

    def _framed(self, rows: Floats) -> Floats:
        framed = (rows - self.centre_) / self.scale_
        if self.standardise:
            # What is not finite stays so: cut to `clip`, it would look like a number.
            cut = np.clip(framed, -self.clip, self.clip)
            framed = np.where(np.isfinite(framed), cut, np.nan)
        return np.asarray(framed)

    def _mapped(self, rows: Floats) -> Floats:
        turned = WholeMatrix(self.matrix_).times(whole_rows(self._framed(rows)))
        return _of_unit_length(turned)


_STRONG, _MOST_ROWS = 5000.0, 2**30
_WEAK, _BORNE_BY_WEAK, _GROWTH = 2000.0, 100, 0.8
_MOST_DIMENSIONS = 500


def bearable_dimensions(strength: float, variances: ArrayLike, n_rows: int) -> int:
    """Return how many directions a strength n mu supports: 100 (strength/2000)^0.8, at most 500.

    Chosen on Fashion-MNIST's training part: a row has 1/sqrt(d) along each of d directions, with
    equal noise. At most half the public rows; none below a millionth of the largest variance.
    """
    values = np.asarray(variances, dtype=np.float64)
    usable = int((values > _LEAST_SHARE * values[0]).sum())
    borne = round(_BORNE_BY_WEAK * (strength / _WEAK) ** _GROWTH)
    return int(max(1, min(borne, usable, n_rows // 2, _MOST_DIMENSIONS)))


def _of_unit_length(rows: Floats) -> Floats:
    """Return rows of length 1, each by its own exact sum of squares; a row of zeros stays."""
    whole = whole_rows(rows)
    norms = whole.norms()
    return whole.values() / np.where(norms == 0, 1.0, norms)


@dataclass(eq=False, repr=False)
class PublicKernel(PublicMap):
    """Gaussian kernel features on public landmarks (Nystroem).

    phi(x) = k(x) W with W W^T the inverse of the landmarks' kernel matrix on its main directions,
    so that phi(x) phi(z) is about k(x, z), and |phi(x)| <= 1 up to rounding. Source: Williams and
    Seeger 2001; docs/theory/speak-once.md#public-whitening.

    Parameters
    ----------
    landmarks : int, how many public rows carry the kernel, at most 4096 and at most all
    width : float
        gamma = width / mean squared distance of landmarks: k(x, z) = exp(-gamma |x - z|^2).
    components : int, how many main directions of the kernel are used
    random_state : int, seeds the choice of landmarks

    Attributes
    ----------
    whitening_ : array of shape (landmarks, components), multiplies kernel values; public
    landmarks_ : array of shape (landmarks, features), public rows: a published student holds them
    gamma_ : array of shape (1,), of the kernel
    n_features_in_ : int, columns of the public rows
    """

    _learned: ClassVar[tuple[str, ...]] = ("whitening_", "landmarks_", "gamma_")

    landmarks: int = 2000
    _: KW_ONLY
    width: float = 2.0
    components: int = 600
    random_state: int = 0

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Choose landmarks among public rows, and learn the main directions of their kernel.

        Parameters
        ----------
        X : array of shape (n, features), public rows of finite numbers
        y : object, ignored

        Returns
        -------
        self
        """
        if at_least(2, landmarks=self.landmarks) > _MOST_LANDMARKS:
            raise refuse("landmarks", self.landmarks, f"at most {_MOST_LANDMARKS}")
        at_least(1, components=self.components)
        rows = self._public_rows(X)
        count = min(int(self.landmarks), len(rows))
        order = np.random.default_rng(self.random_state).permutation(len(rows))
        self.landmarks_ = rows[np.sort(order[:count])]
        spread = 2 * float(self.landmarks_.var(axis=0).sum())
        if not spread > 0:
            raise InvalidArgument("Expected public rows that differ from each other.")
        self.gamma_ = np.array([positive(width=self.width) / spread])
        kernel = self._kernel(self.landmarks_).values()
        values, vectors = np.linalg.eigh((kernel + kernel.T) / 2)
        kept = np.flatnonzero(values > _LEAST_SHARE * values[-1])[::-1][: int(self.components)]
        self.whitening_ = np.asarray(vectors[:, kept] / np.sqrt(values[kept]))
        return self

    def _kernel(self, rows: Floats) -> WholeRows:
        """Return k(x) in whole steps, from exact products and operations number by number."""
        whole = whole_rows(rows)
        there = whole_rows(self.landmarks_)
        products = WholeMatrix(self.landmarks_.T).times(whole)
        squares = whole.norms() ** 2 + (there.norms() ** 2).T - 2 * products
        kernel = exp_of_negative(-self.gamma_[0] * np.maximum(squares, 0.0))
        lost = ~np.isfinite(whole.units)
        steps = np.where(lost, 0.0, np.rint(kernel * _KERNEL_STEPS))
        return WholeRows(steps, np.where(lost, np.nan, 1 / _KERNEL_STEPS))

    def _mapped(self, rows: Floats) -> Floats:
        return WholeMatrix(self.whitening_).times(self._kernel(rows))


def with_strength(features: Any, strength: float) -> Any:
    """Return features whose whitening has this n mu where it was None, as a clone."""
    return _told(features, strength=strength)


def with_dimensions(features: Any, dimensions: int) -> Any:
    """Return features whose whitening has these dimensions where they were None, as a clone."""
    return _told(features, dimensions=dimensions)


def _told(features: Any, **what: Any) -> Any:
    from sklearn.base import clone

    if not needs_strength(features):
        return features
    told = clone(features)
    for step in _whitenings(told):
        step.set_params(**what)
    return told


def ends_at_unit_length(features: Any) -> bool:
    """Return whether the last step is whitening, which gives every row length 1."""
    while steps := getattr(features, "steps", None):
        features = steps[-1][1]
    return isinstance(features, PublicWhitening)


def needs_strength(features: Any) -> bool:
    """Return whether some whitening still needs n mu."""
    return bool(_whitenings(features))


def _whitenings(features: Any) -> list[PublicWhitening]:
    found = [step for step in steps_of(features) if isinstance(step, PublicWhitening)]
    return [step for step in found if step.dimensions is None and step.strength is None]
