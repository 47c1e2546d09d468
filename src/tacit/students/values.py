"""A student of numbers: it learns values that were released with a known noise at public inputs.

Public inputs and releases only: nothing private ever enters this floor. By default a Gaussian
process: the noise of the releases is public, so it need not be guessed, and far from every query
the prediction returns to the mean of what was released.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from tacit._checks import Floats, finite_array, positive
from tacit.errors import InvalidArgument
from tacit.students.base import PublicLearner
from tacit.students.inputs import flat_rows, row_numbers

_LENGTHS = (1e-1, 1e3)  # of the kernel, over the square root of the number of features
_ARRAYS = ("centre", "scale", "points", "weights", "level", "kernel")
_JITTER = 1e-10  # scikit-learn's own: keeps a kernel matrix of noiseless values positive


class _Process(NamedTuple):
    """A fitted Gaussian process: what a prediction takes, all of it public.

    value(x) = level + amplitude exp(-|x - point|^2 / (2 length^2)) weights, after x was centred and
    scaled.
    """

    centre: Floats
    scale: Floats
    points: Floats
    weights: Floats
    level: Floats
    kernel: Floats

    def predict(self, view: Floats) -> Floats:
        from scipy.spatial.distance import cdist

        amplitude, length = self.kernel
        squares = cdist((view - self.centre) / self.scale, self.points, "sqeuclidean")
        return np.asarray(
            self.level + amplitude * np.exp(-squares / (2 * length**2)) @ self.weights
        )


class _Line(NamedTuple):
    """A linear solution that was told: value(x) = x slopes + level."""

    slopes: Floats
    level: Floats

    def predict(self, view: Floats) -> Floats:
        return np.asarray(view @ self.slopes + self.level)


@dataclass(eq=False, repr=False)
class ValueStudent(PublicLearner):
    """Learn numbers from noisy releases at some of the public inputs.

    estimator: any scikit-learn regressor, or None for a Gaussian process with a constant times an
        RBF kernel on the standardised public features, whose noise is that of the releases. Its
        two parameters come from the marginal likelihood of the releases.
    features: a public scikit-learn transformer, or None to use the inputs as they are.
    Learned: `estimator_` (None for the Gaussian process), `n_outputs_`.

    >>> student = ValueStudent().fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 3], [0, 1, 3], noise=0.01)
    >>> student.predict([[2.0]]).round(1).tolist()
    [2.0]
    """

    _width: ClassVar[str] = "n_outputs_"

    estimator: Any = None
    features: Any = None

    def fit(
        self,
        X_public: ArrayLike,
        indices: ArrayLike,
        values: ArrayLike,
        *,
        noise: float | None = None,
    ) -> Self:
        """Learn from rows `indices` of the public inputs, each with one number or several.

        values: (queries,) or (queries, outputs). noise: the standard deviation of their noise,
        which the mechanism tells; None if it is unknown, and then it is estimated. A row may be
        asked about more than once.
        """
        inputs = flat_rows(X_public=X_public)
        rows, targets = row_numbers(indices, len(inputs)), finite_array(values=values)
        if targets.ndim not in (1, 2) or len(targets) != rows.size or 0 in targets.shape:
            raise InvalidArgument(
                f"Expected values of shape ({rows.size},) or ({rows.size}, outputs), one row for "
                f"each of the indices, got shape {targets.shape}."
            )
        known = None if noise is None else positive(noise=noise)
        self._see(inputs)
        self.flat_ = targets.ndim == 1
        self.n_outputs_ = 1 if self.flat_ else targets.shape[1]
        self.estimator_: Any = None
        self._process: _Process | _Line | None = None
        if self.estimator is None:
            view = np.asarray(self._view(inputs), dtype=np.float64)
            self._process = _gaussian_process(view, rows, targets.reshape(rows.size, -1), known)
        else:
            self.estimator_ = _regressor(self.estimator).fit(self._view(inputs[rows]), targets)
        return self

    def told_line(self, X_public: ArrayLike, slopes: ArrayLike, level: float) -> Self:
        """Take slopes (features,) and a level that were learned elsewhere, from releases."""
        line = _Line(finite_array(slopes=slopes).reshape(-1, 1), np.array([level]))
        return self._told(X_public, line)

    def told_kernel(
        self, X_public: ArrayLike, points: ArrayLike, weights: ArrayLike, level: float, gamma: float
    ) -> Self:
        """Take value(x) = level + exp(-gamma |x - points|^2) weights, learned from releases."""
        rows = finite_array(points=points)
        width = rows.shape[1]
        kernel = np.array([1.0, 1 / np.sqrt(2 * positive(gamma=gamma))])
        column = finite_array(weights=weights).reshape(-1, 1)
        parts = (np.zeros(width), np.ones(width), rows, column, np.array([level]), kernel)
        return self._told(X_public, _Process(*parts))

    def _told(self, X_public: ArrayLike, solution: _Process | _Line) -> Self:
        if self.estimator is not None:
            raise InvalidArgument("Expected no estimator where the solution is told.")
        self._see(flat_rows(X_public=X_public))
        self.flat_, self.n_outputs_, self.estimator_ = True, 1, None
        self._process = solution
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return numbers of the shape that was learned: (inputs,) or (inputs, outputs)."""
        values = np.concatenate([self._values(block) for block in self._blocks(X)])
        return values.reshape(-1) if self.flat_ else values.reshape(-1, self.n_outputs_)

    def _values(self, inputs: NDArray[Any]) -> Floats:
        if self._process is not None:
            return self._process.predict(np.asarray(self._view(inputs), dtype=np.float64))
        return np.asarray(self.estimator_.predict(self._view(inputs)), dtype=np.float64)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        flat = {"flat": np.array([int(self.flat_)])}
        return flat if self._process is None else {**flat, **self._process._asdict()}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.flat_ = bool(arrays["flat"][0])
        self.estimator_, self._process = self.estimator, None
        if self.estimator is None and "slopes" in arrays:
            line = _Line(*(finite_array(**{name: arrays[name]}) for name in _Line._fields))
            if line.slopes.ndim != 2 or line.level.shape != line.slopes.shape[1:]:
                raise InvalidArgument("Expected slopes and a level that fit.")
            self._process = line
        elif self.estimator is None:
            process = _Process(*(finite_array(**{name: arrays[name]}) for name in _ARRAYS))
            points, outputs = len(process.points), self.n_outputs_
            if process.weights.shape != (points, outputs) or process.level.shape != (outputs,):
                raise InvalidArgument("Expected one weight for each saved point and output.")
            self._process = process


def _regressor(estimator: Any) -> Any:
    if not hasattr(estimator, "fit") or not hasattr(estimator, "predict"):
        raise InvalidArgument(
            f"Expected estimator={type(estimator).__name__} to be a scikit-learn regressor, with "
            "fit and predict."
        )
    return clone(estimator)


def _gaussian_process(
    view: Floats, rows: NDArray[np.int64], values: Floats, noise: float | None
) -> _Process:
    """Fit kernel and weights by scikit-learn; all outputs share one kernel and one noise.

    Values are brought to unit spread here and not by `normalize_y`, which would leave the noise in
    other units than the values.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    centre, scale = view.mean(axis=0), view.std(axis=0)
    scale[scale == 0] = 1.0
    points = (view[rows] - centre) / scale
    level = values.mean(axis=0)
    spread = float(np.sqrt(((values - level) ** 2).mean())) or 1.0
    width = np.sqrt(points.shape[1])
    kernel = ConstantKernel(1.0, (1e-6, 1e3)) * RBF(
        width, (_LENGTHS[0] * width, _LENGTHS[1] * width)
    )
    if noise is None:
        kernel += WhiteKernel(0.5, (1e-6, 10.0))
    alpha = _JITTER if noise is None else max((noise / spread) ** 2, _JITTER)
    model = GaussianProcessRegressor(kernel, alpha=alpha)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a parameter at its bound: the releases say no more
        model.fit(points, (values - level) / spread)
    smooth = model.kernel_ if noise is not None else model.kernel_.k1
    parameters = np.array([smooth.k1.constant_value, smooth.k2.length_scale], dtype=np.float64)
    weights = spread * model.alpha_.reshape(rows.size, -1)
    return _Process(centre, scale, points, weights, level, parameters)
