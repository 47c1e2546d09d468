"""Linear students: softmax over public features, and least squares over kernel features.

Both can learn from posteriors, like every student, and both can be told their weights by an
estimator whose release is a moment instead of labels (`tacit.summaries`). The softmax's likelihood
needs nothing else of the labels than the moment sum phi(x) P(class): its normaliser is a sum over
inputs alone, which may be public ones. Public inputs and releases only: nothing private ever enters
this floor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, softmax

from tacit._checks import Floats, at_least, finite_array, positive
from tacit.errors import InvalidArgument
from tacit.students.base import BaseStudent
from tacit.students.graph import nearest
from tacit.students.inputs import Lesson, flat_rows
from tacit.students.queries import choose_queries

_MOST_ROUNDS = 500
_SMALLEST = 1e-4


def fit_softmax(
    rows: Floats, moment: Floats, total: float, penalty: ArrayLike, offset: ArrayLike = 0.0
) -> Floats:
    """Return the weights (features, classes) of a penalised softmax regression.

    They minimise total mean_rows logsumexp(row theta + offset) - <theta, moment>
    + sum penalty theta^2 / 2.

    It is convex; L-BFGS, after scaling each weight by its curvature.

    >>> rows = np.array([[1.0], [-1.0]])
    >>> fit_softmax(rows, np.array([[0.5, -0.5]]), 2.0, 0.1).round(1).tolist()
    [[0.5, -0.5]]
    """
    from scipy.optimize import minimize

    ridge = np.broadcast_to(np.asarray(penalty, dtype=np.float64), moment.shape)
    share = total / len(rows)
    scale = 1 / np.sqrt(share * np.square(rows).sum(axis=0)[:, None] / moment.shape[1] + ridge)

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(moment.shape) * scale
        scores = rows @ weights + offset
        value = share * logsumexp(scores, axis=1).sum() - (weights * moment).sum()
        slope = share * (rows.T @ softmax(scores, axis=1)) - moment + ridge * weights
        value += 0.5 * float((ridge * weights**2).sum())
        return float(value), np.asarray((slope * scale).reshape(-1))

    start = np.zeros(moment.size)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _MOST_ROUNDS})
    return np.asarray(found.x.reshape(moment.shape) * scale)


@dataclass(eq=False, repr=False)
class LinearStudent(BaseStudent):
    """Softmax regression on public features: P(class | x) = softmax(phi(x) weights + bias).

    features: a public transformer, or None to use the inputs as they are.
    penalty: ridge on the weights when it learns from posteriors.
    Learned: `weights_` (features, classes), `bias_` (classes,).

    >>> student = LinearStudent().fit([[-1.0], [1.0], [0.5]], [0, 1], [[0.9, 0.1], [0.1, 0.9]])
    >>> student.predict([[-2.0], [0.7]]).tolist()
    [0, 1]
    """

    features: Any = None
    _: KW_ONLY
    penalty: float = 1.0

    def _learn(self, lesson: Lesson) -> None:
        ridge = positive(penalty=self.penalty)
        asked = lesson.inputs[lesson.indices[lesson.answered]]
        rows = np.asarray(self._view(asked), dtype=np.float64)
        share = lesson.posterior[lesson.answered]
        self.bias_ = np.log(np.maximum(share.mean(axis=0), 1e-9))
        self.weights_ = fit_softmax(rows, rows.T @ share, len(rows), ridge, self.bias_)

    def told(self, X_public: ArrayLike, weights: ArrayLike, bias: ArrayLike) -> Self:
        """Take weights (features, classes) that were learned elsewhere, from releases."""
        inputs = flat_rows(X_public=X_public)
        self.n_classes_ = len(finite_array(bias=bias))
        self._see(inputs)
        self._set(weights, bias, self._view(inputs[:1]).shape[1])
        return self

    def _set(self, weights: ArrayLike, bias: ArrayLike, width: int) -> None:
        self.weights_ = np.ascontiguousarray(finite_array(weights=weights))
        self.bias_ = finite_array(bias=bias)
        fits = self.weights_.shape == (width, self.n_classes_)
        if not fits or self.bias_.shape != (self.n_classes_,):
            raise InvalidArgument(
                f"Expected weights ({width}, {self.n_classes_}) and as many biases as classes."
            )

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        rows = np.asarray(self._view(inputs), dtype=np.float64)
        return np.asarray(softmax(rows @ self.weights_ + self.bias_, axis=1))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"weights": self.weights_, "bias": self.bias_}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._set(arrays["weights"], arrays["bias"], len(arrays["weights"]))


@dataclass(eq=False, repr=False)
class KernelStudent(BaseStudent):
    """Least squares on Nystroem features: score of a class = W k(x) weights + bias.

    k(x)_j = exp(-gamma |x - landmark_j|^2). Scores below 0 count as 0, and a row is divided by its
    sum.

    features: a public transformer, or None to use the inputs as they are.
    n_landmarks: how many medoids of the public inputs; penalty: ridge when it learns from
    posteriors. Learned: `landmarks_`, `gamma_`, `whitening_`, `weights_`, `bias_`.

    >>> student = KernelStudent(n_landmarks=2)
    >>> student = student.fit([[-1.0], [1.0], [0.5]], [0, 1], [[0.9, 0.1], [0.1, 0.9]])
    >>> student.predict([[-2.0], [0.7]]).tolist()
    [0, 1]
    """

    features: Any = None
    _: KW_ONLY
    n_landmarks: int = 500
    penalty: float = 0.1
    random_state: int | None = 0

    def _learn(self, lesson: Lesson) -> None:
        ridge = positive(penalty=self.penalty)
        view = np.asarray(self._view(lesson.inputs), dtype=np.float64)
        count = min(at_least(1, n_landmarks=self.n_landmarks), len(view))
        chosen = choose_queries(view, count, random_state=self.random_state)
        self.landmarks_, self.gamma_ = view[chosen], kernel_width(view)
        values, vectors = np.linalg.eigh(gaussian_kernel(view[chosen], view[chosen], self.gamma_))
        kept = values > _SMALLEST
        self.whitening_ = np.ascontiguousarray(vectors[:, kept] / np.sqrt(values[kept]))
        rows = self._basis(view[lesson.indices[lesson.answered]])
        share = lesson.posterior[lesson.answered]
        self.bias_ = share.mean(axis=0)
        gram = rows.T @ rows + ridge * np.eye(rows.shape[1])
        self.weights_ = np.ascontiguousarray(np.linalg.solve(gram, rows.T @ (share - self.bias_)))

    def told(self, X_public: ArrayLike, **learned: ArrayLike) -> Self:
        """Take landmarks, gamma, whitening, weights and bias that were learned elsewhere."""
        self.n_classes_ = len(np.asarray(learned["bias"]))
        self._see(flat_rows(X_public=X_public))
        self._restore({name: np.asarray(value) for name, value in learned.items()})
        return self

    def _basis(self, view: Floats) -> Floats:
        return np.asarray(gaussian_kernel(view, self.landmarks_, self.gamma_) @ self.whitening_)

    def _scores(self, inputs: NDArray[Any]) -> Floats:
        rows = self._basis(np.asarray(self._view(inputs), dtype=np.float64))
        return np.asarray(rows @ self.weights_ + self.bias_)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "landmarks": self.landmarks_,
            "gamma": np.array([self.gamma_]),
            "whitening": self.whitening_,
            "weights": self.weights_,
            "bias": self.bias_,
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.gamma_ = positive(gamma=np.ravel(arrays["gamma"])[0])
        for name in ("landmarks", "whitening", "weights", "bias"):
            # In one layout, or the last bits of a product would depend on where it comes from.
            array = np.ascontiguousarray(finite_array(**{name: arrays[name]}))
            setattr(self, f"{name}_", array)
        rank = self.whitening_.shape[-1]
        shapes = (self.whitening_.shape, self.weights_.shape, self.bias_.shape)
        fit = ((len(self.landmarks_), rank), (rank, self.n_classes_), (self.n_classes_,))
        if shapes != fit or self.landmarks_.ndim != 2:
            raise InvalidArgument("Expected landmarks, whitening, weights and biases that fit.")


def gaussian_kernel(rows: Floats, landmarks: Floats, gamma: float) -> Floats:
    """Return exp(-gamma |x - z|^2) for each row and landmark."""
    squares = np.square(rows).sum(axis=1)[:, None] + np.square(landmarks).sum(axis=1)
    gaps = np.maximum(squares - 2 * (rows @ landmarks.T), 0.0)
    return np.asarray(np.exp(-gamma * gaps))


def kernel_width(view: Floats, *, share: float = 1.0) -> float:
    """Return gamma = share / mean squared distance to the ten nearest of the public inputs.

    >>> round(kernel_width(np.array([[0.0], [1.0], [2.0]])), 2)
    0.5
    """
    sample = view[:: -(-len(view) // 2000)]
    count = min(10, len(sample) - 1)
    if count < 1:
        return 1.0
    _, gaps = nearest(sample, sample, count, same=True)
    typical = float(gaps.mean())
    return share / typical if typical > 0 else 1.0
