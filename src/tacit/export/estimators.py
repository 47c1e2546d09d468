"""Classifiers and regressors of scikit-learn as graphs: linear ones, trees, perceptrons, Bayes.

A classifier makes (rows, its classes): probabilities, or 1 for what it predicts where it has none.
A regressor makes (rows, outputs). What is not named here is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidArgument
from tacit.export.graph import Graph
from tacit.export.steps import Step, known, transformed


def chances(graph: Graph, estimator: Any, rows: str) -> str:
    """Return what a fitted classifier says of rows, one column for each of its classes."""
    return _said(graph, estimator, rows, _CLASSIFIERS, "a classifier")


def values(graph: Graph, estimator: Any, rows: str) -> str:
    """Return what a fitted regressor says of rows, one column for each output."""
    return _said(graph, estimator, rows, _REGRESSORS, "a regressor")


def _said(graph: Graph, estimator: Any, rows: str, found: Mapping[str, Step], kind: str) -> str:
    while type(estimator).__name__ == "Pipeline":
        *before, (_, estimator) = estimator.steps
        for _, step in before:
            rows = transformed(graph, step, rows)
    return known(estimator, found, kind)(graph, estimator, rows)


def _line(graph: Graph, estimator: Any, rows: str) -> str:
    """Return rows weights + bias, (rows, outputs)."""
    slopes = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64)).T
    level = np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64))
    return graph("Add", graph("MatMul", graph.cast(rows, np.float64), slopes), level)


def _both(graph: Graph, second: str) -> str:
    """Return the chances of two classes, of which one column tells the second."""
    return graph("Concat", graph("Sub", 1.0, second), second, axis=1)


def _chances(graph: Graph, scores: str, estimator: Any) -> str:
    """Return probabilities from log-odds of the second class, or from a score of each class."""
    if len(estimator.classes_) == 2:
        return _both(graph, graph("Sigmoid", scores))
    return graph.softmax(scores)


def _likeliest(graph: Graph, scores: str, count: int) -> str:
    """Return 1 for the highest score, the second of two classes from above 0, and 0 for others."""
    if count == 2:
        return _both(graph, graph.cast(graph("Greater", scores, 0.0), np.float64))
    best = graph("ArgMax", scores, axis=1, keepdims=1)
    return graph.cast(graph("Equal", best, np.arange(count)[None]), np.float64)


def _logistic(graph: Graph, estimator: Any, rows: str) -> str:
    return _chances(graph, _line(graph, estimator, rows), estimator)


def _linear_class(graph: Graph, estimator: Any, rows: str) -> str:
    """Say the class of the highest score; a probability where the loss gives one is refused."""
    if getattr(estimator, "loss", None) in ("log_loss", "modified_huber"):
        raise InvalidArgument(
            f"Expected {type(estimator).__name__} without probabilities to export; use "
            "LogisticRegression instead."
        )
    scores = _line(graph, estimator, rows)
    return _likeliest(graph, scores, len(estimator.classes_))


def _bayes(graph: Graph, estimator: Any, rows: str) -> str:
    """Return Gaussian naive Bayes: log prior - sum (log 2 pi v + (x - m)^2 / v) / 2."""
    precision, centre = 1 / estimator.var_, estimator.theta_.mean(axis=0)
    near = estimator.theta_ - centre  # of large numbers that differ little nothing would be left
    rows = graph("Sub", graph.cast(rows, np.float64), centre)
    quadratic = graph("MatMul", graph("Mul", rows, rows), precision.T)
    cross = graph("MatMul", rows, -2 * (near * precision).T)
    rest = (near**2 * precision + np.log(2 * np.pi * estimator.var_)).sum(axis=1)
    sums = graph("Add", graph("Add", quadratic, cross), rest)
    return graph.softmax(graph("Add", graph("Mul", sums, -0.5), np.log(estimator.class_prior_)))


_BENT = {"identity": None, "logistic": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}


def _perceptron(graph: Graph, estimator: Any, rows: str) -> str:
    rows = graph.cast(rows, np.float64)
    for place, (weights, bias) in enumerate(
        zip(estimator.coefs_, estimator.intercepts_, strict=True)
    ):
        bent = _BENT[estimator.activation]
        if place and bent is not None:
            rows = graph(bent, rows)
        rows = graph("Add", graph("MatMul", rows, weights.astype(np.float64)), bias.astype(float))
    if estimator.out_activation_ == "softmax":
        return graph.softmax(rows)
    return _both(graph, graph("Sigmoid", rows)) if estimator.out_activation_ == "logistic" else rows


class _Forest:
    """Trees in the making, as the operator takes them: flat lists over all nodes of all trees."""

    def __init__(self, outputs: int) -> None:
        self.outputs = outputs
        self.trees = 0
        self.nodes: dict[str, list[Any]] = {
            key: []
            for key in ("treeids", "nodeids", "featureids", "values", "truenodeids", "falsenodeids")
        }
        self.leaf: list[bool] = []
        self.said: list[tuple[int, int, int, float]] = []

    def plant(
        self, feature: Any, threshold: Any, left: Any, right: Any, said: NDArray[Any], first: int
    ) -> None:
        """Add a tree; `said` (nodes, n) goes to the outputs from `first` on, of leaves alone."""
        for node in range(len(left)):
            leaf = left[node] == right[node] or left[node] < 0
            row = (self.trees, node, *((0, 0.0, 0, 0) if leaf else ()))
            if not leaf:
                row += (int(feature[node]), float(threshold[node]))
                row += (int(left[node]), int(right[node]))
            for key, value in zip(self.nodes, row, strict=True):
                self.nodes[key].append(value)
            self.leaf.append(bool(leaf))
            if leaf:
                self.said += [
                    (self.trees, node, first + k, float(value))
                    for k, value in enumerate(said[node])
                ]
        self.trees += 1

    def grown(self, graph: Graph, rows: str) -> str:
        """Add the operator: the sum over all trees, (rows, outputs)."""
        from onnx import numpy_helper

        trees, nodes, outputs, weights = zip(*self.said, strict=True)
        values = self.nodes.pop("values")
        kept = {f"nodes_{key}": each for key, each in self.nodes.items()}
        summed = graph.learning(
            "TreeEnsembleRegressor",
            rows,
            n_targets=self.outputs,
            aggregate_function="SUM",
            nodes_modes=["LEAF" if leaf else "BRANCH_LEQ" for leaf in self.leaf],
            nodes_values_as_tensor=numpy_helper.from_array(np.array(values, dtype=np.float64)),
            target_treeids=trees,
            target_nodeids=nodes,
            target_ids=outputs,
            target_weights_as_tensor=numpy_helper.from_array(np.array(weights)),
            **kept,
        )
        return graph.cast(summed, np.float64)


def _forest(graph: Graph, estimator: Any, rows: str) -> str:
    """Return the mean over trees: of their leaves' shares, or of their leaves' numbers."""
    trees = getattr(estimator, "estimators_", [estimator])
    outputs = trees[0].tree_.value.shape[1:]
    if outputs[0] > 1 and outputs[1] > 1:
        raise InvalidArgument("Expected trees of one target to export.")
    forest = _Forest(int(np.prod(outputs)))
    for each in trees:
        tree = each.tree_
        said = tree.value.reshape(tree.node_count, -1)
        if hasattr(estimator, "classes_"):
            said = said / said.sum(axis=1, keepdims=True)
        parts = (tree.feature, tree.threshold, tree.children_left, tree.children_right)
        forest.plant(*parts, said / len(trees), 0)
    # Trees of scikit-learn look at float32; the thresholds are float64.
    seen = graph.cast(graph.cast(rows, np.float32), np.float64)
    return forest.grown(graph, seen)


def _boosted(graph: Graph, estimator: Any, rows: str) -> str:
    """Return the scores of histogram gradient boosting: a baseline, and a sum of trees."""
    if estimator.is_categorical_ is not None:
        raise InvalidArgument(
            "Expected boosting without categorical features to export; encode them before."
        )
    base = np.asarray(estimator._baseline_prediction, dtype=np.float64).reshape(1, -1)
    forest = _Forest(base.size)
    for trees in estimator._predictors:
        for output, tree in enumerate(trees):
            nodes = tree.nodes
            ends = nodes["is_leaf"].astype(bool)
            left, right = (
                np.where(ends, -1, nodes[side].astype(int)) for side in ("left", "right")
            )
            said = nodes["value"].reshape(-1, 1)
            forest.plant(nodes["feature_idx"], nodes["num_threshold"], left, right, said, output)
    return graph("Add", forest.grown(graph, graph.cast(rows, np.float64)), base)


def _boosted_chances(graph: Graph, estimator: Any, rows: str) -> str:
    return _chances(graph, _boosted(graph, estimator, rows), estimator)


def _boosted_values(graph: Graph, estimator: Any, rows: str) -> str:
    scores = _boosted(graph, estimator, rows)
    return graph("Exp", scores) if estimator.loss in ("poisson", "gamma") else scores


_TREES = ("DecisionTree", "ExtraTree", "RandomForest", "ExtraTrees")
_CLASSIFIERS: dict[str, Step] = {
    "LogisticRegression": _logistic,
    "LogisticRegressionCV": _logistic,
    "GaussianNB": _bayes,
    "MLPClassifier": _perceptron,
    "HistGradientBoostingClassifier": _boosted_chances,
    **{f"{name}Classifier": _forest for name in _TREES},
    **dict.fromkeys(("LinearSVC", "RidgeClassifier", "Perceptron", "SGDClassifier"), _linear_class),
}
_LINES = ("LinearRegression", "Ridge", "RidgeCV", "Lasso", "ElasticNet", "HuberRegressor")
_REGRESSORS: dict[str, Step] = {
    **dict.fromkeys((*_LINES, "BayesianRidge", "LinearSVR", "SGDRegressor"), _line),
    "MLPRegressor": _perceptron,
    "HistGradientBoostingRegressor": _boosted_values,
    **{f"{name}Regressor": _forest for name in _TREES},
}
