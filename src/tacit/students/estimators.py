"""Students without a network: an estimator of scikit-learn, or a solution that arrays describe.

`LinearStudent`, `KernelStudent` and `ValueStudent` learn from releases, or take weights that
`tacit.summaries` released as a moment: the softmax's likelihood needs only sum phi(x) P(class) of
the labels; its normaliser is a sum over inputs, which may be public ones. Nothing private enters.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from tacit._checks import Floats, at_least, finite_array, positive
from tacit.errors import InvalidArgument
from tacit.students.base import BaseStudent, Lesson, PublicLearner, flat_rows, row_numbers
from tacit.students.neighbour_search import nearest
from tacit.students.queries import choose_queries


@dataclass(eq=False, repr=False)
class SupervisedStudent(BaseStudent):
    """Train a scikit-learn classifier on the most probable class of each answered query.

    A query weighs (C max_c p_c - 1)/(C - 1) (`answer_weights`) where the classifier or the last
    step of a pipeline takes sample weights. Classes that were never released have probability 0; if
    one class only was released, that class is the answer. Without `predict_proba` the predicted
    class has probability 1.

    Parameters
    ----------
    estimator : estimator
        A scikit-learn classifier or pipeline; a clone is fitted, seeded by its own `random_state`.
    features : transformer, optional
        A public scikit-learn transformer; None uses the inputs as they are.

    Attributes
    ----------
    estimator_ : estimator or None, the fitted clone; None if only one class was released
    classes_seen_ : array of int, the classes that were the most probable of some release

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> student = SupervisedStudent(LogisticRegression())
    >>> student = student.fit([[0.0], [1.0], [9.0]], [0, 2], [[0.9, 0.1], [0.1, 0.9]])
    >>> student.predict([[0.5], [8.0]]).tolist()
    [0, 1]
    """

    _saved = ("classes_seen",)

    estimator: Any
    _: KW_ONLY
    features: Any = None

    @classmethod
    def for_data(cls, data: Any, settings: Mapping[str, Any]) -> Self:
        """Return the student of this name in run.toml.

        Parameters
        ----------
        data : Dataset, of which only public facts are read: columns, the shape of images
        settings : mapping, the other settings of the method

        Returns
        -------
        SupervisedStudent, of logistic regression
        """
        from sklearn.linear_model import LogisticRegression

        return cls(LogisticRegression(max_iter=200))

    def _learn(self, lesson: Lesson) -> None:
        estimator, rows = _usable(self.estimator, "classifier"), lesson.answered
        labels = lesson.posterior[rows].argmax(axis=1)
        self.classes_seen_ = np.unique(labels)
        self.estimator_ = None
        if self.classes_seen_.size > 1:
            inputs = lesson.inputs[lesson.indices[rows]]
            weights = _weight_keyword(estimator, lesson.weights[rows])
            self.estimator_ = estimator.fit(self._view(inputs), labels, **weights)

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        scores = np.zeros((len(inputs), self.n_classes_))
        if self.estimator_ is None:
            scores[:, self.classes_seen_[0]] = 1.0
        elif hasattr(self.estimator_, "predict_proba"):
            scores[:, self.classes_seen_] = self.estimator_.predict_proba(self._view(inputs))
        else:
            labels = np.asarray(self.estimator_.predict(self._view(inputs)), dtype=np.int64)
            scores[np.arange(len(inputs)), labels] = 1.0
        return scores

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.classes_seen_ = row_numbers(arrays["classes_seen"], self.n_classes_)
        self.estimator_ = self.estimator
        if (self.classes_seen_.size > 1) != (self.estimator_ is not None):
            raise InvalidArgument("Expected a saved estimator where several classes were released.")


def _usable(estimator: Any, kind: str) -> Any:
    """Return a clone of an estimator of scikit-learn."""
    if not hasattr(estimator, "fit") or not hasattr(estimator, "predict"):
        raise InvalidArgument(
            f"Expected estimator={type(estimator).__name__} to be a scikit-learn {kind}, with fit "
            "and predict."
        )
    return clone(estimator)


def _weight_keyword(estimator: Any, weights: Floats) -> dict[str, Floats]:
    """Return the keyword by which this estimator takes sample weights, if it takes any."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return {f"{name}__{key}": value for key, value in _weight_keyword(last, weights).items()}
    return {"sample_weight": weights} if has_fit_parameter(estimator, "sample_weight") else {}


_MOST_ROUNDS = 500
_SMALLEST = 1e-4


def fit_softmax(
    rows: Floats, moment: Floats, total: float, penalty: ArrayLike, offset: ArrayLike = 0.0
) -> Floats:
    """Return the weights (features, classes) of a penalised softmax regression, by L-BFGS.

    They minimise total mean_rows logsumexp(row theta + offset) - <theta, moment>
    + sum penalty theta^2 / 2, which is convex.
    """
    from scipy.optimize import minimize

    ridge = np.broadcast_to(np.asarray(penalty, dtype=np.float64), moment.shape)
    share = total / len(rows)
    scale = 1 / np.sqrt(share * np.square(rows).sum(axis=0)[:, None] / moment.shape[1] + ridge)

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(moment.shape) * scale
        scores = rows @ weights + offset
        # By hand: SciPy's logsumexp and softmax take most of the time of a small student.
        top = scores.max(axis=1, keepdims=True)
        odds = np.exp(scores - top)
        sums = odds.sum(axis=1, keepdims=True)
        value = share * (top + np.log(sums)).sum() - (weights * moment).sum()
        slope = share * (rows.T @ (odds / sums)) - moment + ridge * weights
        value += 0.5 * float((ridge * weights**2).sum())
        return float(value), np.asarray((slope * scale).reshape(-1))

    start = np.zeros(moment.size)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _MOST_ROUNDS})
    return np.asarray(found.x.reshape(moment.shape) * scale)


@dataclass(eq=False, repr=False)
class LinearStudent(BaseStudent):
    """Softmax regression on public features: P(class | x) = softmax(phi(x) weights + bias).

    Parameters
    ----------
    features : transformer, optional, public, phi; None uses the inputs as they are
    penalty : float, ridge on the weights, above 0, when it learns from posteriors

    Attributes
    ----------
    weights_ : array of shape (features, classes)
    bias_ : array of shape (classes,), scores of an input whose features are all 0
    """

    _saved = ("weights", "bias")

    features: Any = None
    _: KW_ONLY
    penalty: float = 1.0

    def _learn(self, lesson: Lesson) -> None:
        ridge = positive(penalty=self.penalty)
        asked = lesson.inputs[lesson.indices[lesson.answered]]
        rows = self._view(asked, np.float64)
        share = lesson.posterior[lesson.answered]
        self.bias_ = np.log(np.maximum(share.mean(axis=0), 1e-9))
        self.weights_ = fit_softmax(rows, rows.T @ share, len(rows), ridge, self.bias_)

    def told(self, X_public: ArrayLike, weights: ArrayLike, bias: ArrayLike) -> Self:
        """Take weights that were learned from releases elsewhere.

        Parameters
        ----------
        X_public : array of shape (inputs, features), public inputs, on which `features` is fitted
        weights : array of shape (features, classes), weights of what `features` returns
        bias : array of shape (classes,)

        Returns
        -------
        LinearStudent, itself, ready to predict
        """
        inputs = flat_rows(X_public=X_public)
        self.n_classes_ = len(finite_array(bias=bias))
        self._fit_features(inputs)
        self._restore({"weights": weights, "bias": bias}, self._view(inputs[:1]).shape[1])
        return self

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        rows = self._view(inputs, np.float64)
        return np.asarray(softmax(rows @ self.weights_ + self.bias_, axis=1))

    def _restore(self, arrays: Mapping[str, Any], width: int | None = None) -> None:
        super()._restore(arrays)
        shape = (len(self.weights_) if width is None else width, self.n_classes_)
        if self.weights_.shape != shape or self.bias_.shape != shape[1:]:
            raise InvalidArgument(f"Expected weights {shape} and as many biases as classes.")


@dataclass(eq=False, repr=False)
class KernelStudent(BaseStudent):
    """Least squares on Nystroem features: score of a class = W k(x) weights + bias.

    k(x)_j = exp(-gamma |x - landmark_j|^2). Scores below 0 count as 0, and a row is divided by its
    sum.

    Parameters
    ----------
    features : transformer, optional, public; None uses the inputs as they are
    n_landmarks : int, how many medoids of the public inputs are landmarks, at most all inputs
    penalty : float, ridge on the weights, above 0, when it learns from posteriors
    random_state : int, optional, seeds the choice of medoids; None draws a fresh seed

    Attributes
    ----------
    landmarks_ : array of shape (landmarks, features), public inputs in the feature space
    gamma_ : float, width of the kernel: 1 / mean squared distance between near public inputs
    whitening_ : array of shape (landmarks, rank), W, from the eigenvectors of the kernel matrix
    weights_ : array of shape (rank, classes)
    bias_ : array of shape (classes,), the mean posterior
    """

    _saved = ("landmarks", "gamma", "whitening", "weights", "bias")

    features: Any = None
    _: KW_ONLY
    n_landmarks: int = 500
    penalty: float = 0.1
    random_state: int | None = 0

    def _learn(self, lesson: Lesson) -> None:
        ridge = positive(penalty=self.penalty)
        view = self._view(lesson.inputs, np.float64)
        count = min(at_least(1, n_landmarks=self.n_landmarks), len(view))
        chosen = choose_queries(view, count, random_state=self.random_state)
        self.landmarks_, self.gamma_ = view[chosen], kernel_width(view)
        values, vectors = np.linalg.eigh(rbf_kernel(view[chosen], gamma=self.gamma_))
        kept = values > _SMALLEST
        self.whitening_ = np.ascontiguousarray(vectors[:, kept] / np.sqrt(values[kept]))
        rows = self._basis(view[lesson.indices[lesson.answered]])
        share = lesson.posterior[lesson.answered]
        self.bias_ = share.mean(axis=0)
        gram = rows.T @ rows + ridge * np.eye(rows.shape[1])
        self.weights_ = np.ascontiguousarray(np.linalg.solve(gram, rows.T @ (share - self.bias_)))

    def told(self, X_public: ArrayLike, **learned: ArrayLike) -> Self:
        """Take landmarks, gamma, whitening, weights and bias that were learned elsewhere.

        Parameters
        ----------
        X_public : array of shape (inputs, features), public inputs, on which `features` is fitted
        **learned : arrays
            The five fitted attributes by their names without the last "_"; from releases and public
            inputs only.

        Returns
        -------
        KernelStudent, itself, ready to predict
        """
        self.n_classes_ = len(np.asarray(learned["bias"]))
        self._fit_features(flat_rows(X_public=X_public))
        self._restore(learned)
        return self

    def _basis(self, view: Floats) -> Floats:
        return np.asarray(rbf_kernel(view, self.landmarks_, self.gamma_) @ self.whitening_)

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        rows = self._basis(self._view(inputs, np.float64))
        return np.asarray(rows @ self.weights_ + self.bias_)

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        super()._restore(arrays)
        self.gamma_ = positive(gamma=np.ravel(self.gamma_)[0])
        rank = self.whitening_.shape[-1]
        shapes = (self.whitening_.shape, self.weights_.shape, self.bias_.shape)
        fit = ((len(self.landmarks_), rank), (rank, self.n_classes_), (self.n_classes_,))
        if shapes != fit or self.landmarks_.ndim != 2:
            raise InvalidArgument("Expected landmarks, whitening, weights and biases that fit.")


def kernel_width(view: Floats, *, share: float = 1.0) -> float:
    """Return gamma = share / mean squared distance to the ten nearest of the public inputs."""
    sample = view[:: -(-len(view) // 2000)]
    count = min(10, len(sample) - 1)
    if count < 1:
        return 1.0
    _, gaps = nearest(sample, sample, count, same=True)
    typical = float(gaps.mean())
    return share / typical if typical > 0 else 1.0


_LENGTHS = np.array([1e-1, 1e3])  # of the kernel, over the square root of the number of features
_JITTER = 1e-10  # scikit-learn's own: keeps a kernel matrix of noiseless values positive


class _Process(NamedTuple):
    """A fitted, public Gaussian process on centred and scaled x.

    value(x) = level + amplitude exp(-|x - point|^2 / (2 length^2)) weights.
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

    def fits(self, outputs: int) -> bool:
        shapes = (self.weights.shape, self.level.shape)
        return shapes == ((len(self.points), outputs), (outputs,))


class _Line(NamedTuple):
    """A linear solution from elsewhere: value(x) = x slopes + level."""

    slopes: Floats
    level: Floats

    def predict(self, view: Floats) -> Floats:
        return np.asarray(view @ self.slopes + self.level)

    def fits(self, outputs: int) -> bool:
        return self.slopes.ndim == 2 and self.level.shape == self.slopes.shape[1:] == (outputs,)


@dataclass(eq=False, repr=False)
class ValueStudent(PublicLearner):
    """Learn numbers from noisy releases at some of the public inputs.

    Parameters
    ----------
    estimator : estimator, optional
        Any scikit-learn regressor; a clone is fitted. None for a Gaussian process with a constant
        times an RBF kernel on the standardised features, with the releases' noise; its two
        parameters come from the marginal likelihood of the releases.
    features : transformer, optional, public; None uses the inputs as they are

    Attributes
    ----------
    estimator_ : estimator or None, the fitted clone; None for the Gaussian process
    n_outputs_ : int, numbers learned of each input

    Examples
    --------
    >>> student = ValueStudent().fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 3], [0, 1, 3], noise=0.01)
    >>> student.predict([[2.0]]).round(1).tolist()
    [2.0]
    """

    _count_name: ClassVar[str] = "n_outputs_"

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

        Parameters
        ----------
        X_public : array of shape (inputs, features), all public inputs
        indices : array of shape (queries,), the rows of the values; a row may be queried twice
        values : array of shape (queries,) or (queries, outputs), the released numbers
        noise : float, optional
            Standard deviation of their noise, in units of the values; None estimates it. Only the
            Gaussian process uses it.

        Returns
        -------
        ValueStudent, itself, fitted
        """
        inputs = flat_rows(X_public=X_public)
        rows, targets = row_numbers(indices, len(inputs)), finite_array(values=values)
        if targets.ndim not in (1, 2) or len(targets) != rows.size or 0 in targets.shape:
            raise InvalidArgument(
                f"Expected values of shape ({rows.size},) or ({rows.size}, outputs), one row for "
                f"each of the indices, got shape {targets.shape}."
            )
        known = None if noise is None else positive(noise=noise)
        columns = targets.reshape(rows.size, -1)
        self._fit_features(inputs)
        self.flat_, self.n_outputs_ = targets.ndim == 1, columns.shape[1]
        self.estimator_: Any = None
        self._solution: _Process | _Line | None = None
        if self.estimator is None:
            view = self._view(inputs, np.float64)
            self._solution = _gaussian_process(view, rows, columns, known)
        else:
            estimator = _usable(self.estimator, "regressor")
            self.estimator_ = estimator.fit(self._view(inputs[rows]), targets)
        return self

    def told_line(self, X_public: ArrayLike, slopes: ArrayLike, level: float) -> Self:
        """Take a linear solution that was learned from releases elsewhere; needs `estimator=None`.

        Parameters
        ----------
        X_public : array of shape (inputs, features), public inputs, on which `features` is fitted
        slopes : array of shape (features,)
        level : float, the value where all features are 0

        Returns
        -------
        ValueStudent, itself, ready to predict
        """
        line = _Line(finite_array(slopes=slopes).reshape(-1, 1), np.array([level]))
        return self._told(X_public, line)

    def told_kernel(
        self, X_public: ArrayLike, points: ArrayLike, weights: ArrayLike, level: float, gamma: float
    ) -> Self:
        """Take value(x) = level + exp(-gamma |x - points|^2) weights; needs `estimator=None`.

        Parameters
        ----------
        X_public : array of shape (inputs, features), public inputs, on which `features` is fitted
        points : array of shape (points, features), public points in the feature space
        weights : array of shape (points,), from releases
        level : float, the value far from all points
        gamma : float, width of the kernel, above 0

        Returns
        -------
        ValueStudent, itself, ready to predict
        """
        rows = finite_array(points=points)
        width = rows.shape[1]
        kernel = np.array([1.0, 1 / np.sqrt(2 * positive(gamma=gamma))])
        column = finite_array(weights=weights).reshape(-1, 1)
        parts = (np.zeros(width), np.ones(width), rows, column, np.array([level]), kernel)
        return self._told(X_public, _Process(*parts))

    def _told(self, X_public: ArrayLike, solution: _Process | _Line) -> Self:
        if self.estimator is not None:
            raise InvalidArgument("Expected no estimator where the solution is told.")
        self._fit_features(flat_rows(X_public=X_public))
        self.flat_, self.n_outputs_, self.estimator_ = True, 1, None
        self._solution = solution
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return predictions, in the units of the values.

        Parameters
        ----------
        X : array of shape (inputs, features), in the form of `X_public`

        Returns
        -------
        array of shape (inputs,) or (inputs, outputs)
        """
        dtype = None if self._solution is None else np.float64
        learned = self._solution or self.estimator_
        parts = [learned.predict(self._view(block, dtype)) for block in self._blocks(X)]
        values = np.concatenate(parts).astype(np.float64)
        return values.reshape(-1) if self.flat_ else values.reshape(-1, self.n_outputs_)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        flat = {"flat": np.array([int(self.flat_)])}
        return flat if self._solution is None else {**flat, **self._solution._asdict()}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.flat_ = bool(arrays["flat"][0])
        self.estimator_, self._solution = self.estimator, None
        if self.estimator is None:
            kind = _Line if "slopes" in arrays else _Process
            parts = {name: finite_array(**{name: arrays[name]}) for name in kind._fields}
            self._solution = kind(**parts)
            if not self._solution.fits(self.n_outputs_):
                raise InvalidArgument("Expected saved weights that fit the points and outputs.")


def _gaussian_process(
    view: Floats, rows: NDArray[np.int64], values: Floats, noise: float | None
) -> _Process:
    """Fit kernel and weights by scikit-learn; all outputs share one kernel and one noise.

    Values are scaled here, not by `normalize_y`, which would leave the noise in other units.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    centre, scale = view.mean(axis=0), view.std(axis=0)
    scale[scale == 0] = 1.0
    points = (view[rows] - centre) / scale
    level = values.mean(axis=0)
    spread = float(np.sqrt(((values - level) ** 2).mean())) or 1.0
    width = np.sqrt(points.shape[1])
    kernel = ConstantKernel(1.0, (1e-6, 1e3)) * RBF(width, tuple(_LENGTHS * width))
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
