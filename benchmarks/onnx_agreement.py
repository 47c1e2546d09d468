"""Does an exported model say what its student says? One line for each kind of student.

Run `python -m benchmarks.onnx_agreement`; `--only NAME` for kinds whose name holds a word,
`--mnist DIR` for real images as well. Each student learns from a few made-up releases, is
exported with `export_onnx`, and onnxruntime is given 1,000 rows that it has not learned from. What
must hold, and decides the exit code: probabilities (of regressors and autoencoders, values in
units of their spread) differ by at most 1e-5, and labels are the same wherever the two best classes
differ by 1e-4.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tacit.export import export_onnx
from tacit.features import Categorical, Deskew, Numeric, PublicBins, digit_features

ROWS, CLOSE, APART = 1000, 1e-5, 1e-4
SIDE = (8, 8)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far an exported model and its student are apart."""

    kind: str
    rows: int
    difference: float
    other_labels: int

    @property
    def holds(self) -> bool:
        """Whether they agree as far as they must."""
        return self.difference <= CLOSE and not self.other_labels


@dataclass(frozen=True, slots=True)
class Lesson:
    """Public digits, which of them were released, their posteriors, and 1,000 new ones."""

    public: Any
    asked: Any
    posterior: Any
    new: Any
    labels: Any


def lesson() -> Lesson:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order] / 16, y[order]
    public, asked = X[:400], np.arange(80)
    posterior = np.full((len(asked), 10), 0.05 / 9)
    posterior[asked, y[asked]] = 0.95
    return Lesson(public, asked, posterior, X[400 : 400 + ROWS], y)


def table() -> tuple[Any, Any]:
    """Return made-up rows of a table with declared columns, and which class each is."""
    random = np.random.default_rng(0)
    age, dose = random.uniform(0, 99, ROWS + 300), random.normal(size=ROWS + 300).round(1)
    ward = random.integers(0, 4, ROWS + 300)  # the last place is `other`
    return np.column_stack([age, dose, ward]), (age + 20 * dose + 9 * ward > 60).astype(int)


COLUMNS = [Numeric("age", [18, 65]), Numeric("dose"), Categorical("ward", ["a", "b", "c"])]


def learned(student: Any, given: Lesson | None = None) -> tuple[Any, Any]:
    given = given or lesson()
    return student.fit(given.public, given.asked, given.posterior), given.new


def of_table(student: Any) -> tuple[Any, Any]:
    X, y = table()
    posterior = np.where(np.eye(2)[y[:300]] > 0, 0.9, 0.1)
    return student.fit(X[:300], np.arange(300), posterior), X[300:]


def supervised(estimator: Any, features: Any = None) -> tuple[Any, Any]:
    from tacit.students import SupervisedStudent

    return learned(SupervisedStudent(estimator, features=features))


def of_values(student: Any) -> tuple[Any, Any]:
    given = lesson()
    values = np.column_stack([given.public[:80].sum(axis=1), given.public[:80, 20]])
    return student.fit(given.public, given.asked, values, noise=0.1), given.new


def trained(estimator: Any, *, labels: bool = True) -> tuple[Any, Any]:
    """Return the student of an estimator in noisy steps, without public inputs."""
    given = lesson()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = (given.public, given.labels[: len(given.public)]) if labels else (given.public,)
        return estimator.fit(*made).student_, given.new


def catalogue() -> Iterator[tuple[str, Callable[[], tuple[Any, Any]]]]:
    """Yield every kind by name, with what makes a fitted student and 1,000 rows for it."""
    from sklearn import ensemble, linear_model, naive_bayes, neural_network, svm, tree
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer, RobustScaler, StandardScaler

    from tacit import students as known

    view = digit_features(SIDE)
    scaled = make_pipeline(StandardScaler(), PCA(20, whiten=True, random_state=0), Normalizer())
    yield "linear", lambda: learned(known.LinearStudent())
    yield "linear, digit features", lambda: learned(known.LinearStudent(view))
    yield "linear, scikit-learn's pipeline", lambda: learned(known.LinearStudent(scaled))
    yield "linear, bins of a table", lambda: of_table(known.LinearStudent(PublicBins(COLUMNS)))
    yield "kernel, digit features", lambda: learned(known.KernelStudent(view, n_landmarks=60))
    yield "nearest", lambda: learned(known.NearestStudent())
    yield "nearest, digit features", lambda: learned(known.NearestStudent(view))
    yield "label spreading", lambda: learned(known.LabelSpreadingStudent())
    yield "label spreading, digit features", lambda: learned(known.LabelSpreadingStudent(view))
    unit = PublicBins(COLUMNS, unit_norm=True)
    yield "label spreading, bins", lambda: of_table(known.LabelSpreadingStudent(unit))
    yield "combined, digit features", lambda: learned(known.CombinedStudent(view))
    few = {"epochs": 1, "channels": (4, 8, 8)}
    yield "CNN", lambda: learned(known.CNNStudent(SIDE, **few))
    yield (
        "CNN, deskewed, three views",
        lambda: learned(
            known.CNNStudent(SIDE, features=view, preprocess=Deskew(SIDE), views=3, **few)
        ),
    )
    yield "VAT", lambda: learned(known.VATStudent(steps=30))
    yield "VAT, digit features", lambda: learned(known.VATStudent(view, steps=30))
    yield "VAT, images", lambda: learned(known.VATStudent(image_shape=SIDE, steps=10))
    boosted = ensemble.HistGradientBoostingClassifier
    for name, estimator in {
        "logistic regression": linear_model.LogisticRegression(max_iter=200),
        "linear support vectors": svm.LinearSVC(),
        "ridge": linear_model.RidgeClassifier(),
        "naive Bayes": naive_bayes.GaussianNB(var_smoothing=1e-2),
        "perceptron": neural_network.MLPClassifier((16,), max_iter=20, random_state=0),
        "forest": ensemble.RandomForestClassifier(20, random_state=0),
        "extra trees": ensemble.ExtraTreesClassifier(20, random_state=0),
        "tree": tree.DecisionTreeClassifier(random_state=0),
        "boosting": boosted(max_iter=10, max_depth=3, min_samples_leaf=3, random_state=0),
        "pipeline": make_pipeline(RobustScaler(), linear_model.LogisticRegression()),
    }.items():
        yield f"supervised, {name}", lambda estimator=estimator: supervised(estimator)
    two = boosted(max_iter=10, max_depth=3, random_state=0)
    yield (
        "supervised, boosting of a table",
        lambda: of_table(known.SupervisedStudent(two)),
    )
    yield "values, Gaussian process", lambda: of_values(known.ValueStudent())
    yield (
        "values, ridge",
        lambda: of_values(known.ValueStudent(linear_model.Ridge(), features=view)),
    )
    yield (
        "values, forest",
        lambda: of_values(known.ValueStudent(ensemble.RandomForestRegressor(10, random_state=0))),
    )
    yield from networks()


def of_mnist(folder: str) -> Iterator[tuple[str, Callable[[], tuple[Any, Any]]]]:
    """Yield students of real images: 1,000 public ones, 100 of them released."""
    from tacit import students as known
    from tacit.datasets import load_idx

    images = load_idx(folder)
    posterior = np.full((100, 10), 0.05 / 9)
    posterior[np.arange(100), images.y[:100]] = 0.95
    new = images.X[images.n_train :][:ROWS].astype(np.float64)
    given = Lesson(images.X[:1000], np.arange(100), posterior, new, images.y)
    view = digit_features((28, 28))
    for student in (
        known.LinearStudent(view, penalty=1e-3),
        known.KernelStudent(view),
        known.NearestStudent(view),
        known.LabelSpreadingStudent(view),
        known.VATStudent(view, steps=200),
        known.CNNStudent(features=view, epochs=1),
    ):
        yield f"MNIST, {type(student).__name__}", lambda student=student: learned(student, given)


def networks() -> Iterator[tuple[str, Callable[[], tuple[Any, Any]]]]:
    """Yield the students whose weights come from noisy steps."""
    from torch import nn

    import tacit
    from tacit import InsecureNoise

    training = tacit.Training(epochs=1, batch_size=100)
    shared = {"n_records": 400, "noise": InsecureNoise(0), "training": training}
    digits = {**shared, "classes": range(10)}
    yield "DP-SGD", lambda: trained(tacit.DPSGDClassifier(**digits))
    planes = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.ELU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.LayerNorm(64),
        nn.Linear(64, 10),
    )
    yield "DP-SGD, convolutions", lambda: trained(tacit.DPSGDClassifier(planes, **digits))
    yield "DP-MAC", lambda: trained(tacit.MACClassifier(hidden=(64,), **digits))
    yield "DP-SGD, autoencoder", lambda: trained(tacit.DPSGDAutoencoder(**shared), labels=False)
    narrow = tacit.MACAutoencoder(hidden=(64, 8, 64), **shared)
    yield "DP-MAC, autoencoder", lambda: trained(narrow, labels=False)


def compared(kind: str, student: Any, rows: Any, folder: Path) -> Agreement:
    """Export a student and compare what it says of rows with what onnxruntime says."""
    path = folder / "model.onnx"
    outputs = dict(zip(export_onnx(student, path).outputs, answers(path, X=rows), strict=True))
    if "label" in outputs:
        said = student.predict_proba(rows)
        best = np.sort(said, axis=1)
        clear = best[:, -1] - best[:, -2] >= APART
        other = (np.asarray(student.predict(rows)) != outputs["label"])[clear].sum()
        difference = np.abs(said - outputs["probabilities"]).max()
    else:
        said, other = student.predict(rows), 0
        found = outputs.get("value", outputs.get("reconstruction"))
        difference = np.abs((said - found) / said.std(axis=0).clip(1e-9)).max()
        if "code" in outputs:
            difference = max(difference, np.abs(student.encode(rows) - outputs["code"]).max())
    return Agreement(kind, len(rows), float(difference), int(other))


def answers(path: Path, **rows: Any) -> list[Any]:
    """Run an exported model."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {name: np.asarray(each) for name, each in rows.items()})


def of_scans() -> Iterator[tuple[str, Callable[[], tuple[Any, Any, Any]]]]:
    """Yield students of masks, each with raw scans and the grid that it works on."""
    from tacit.masks import UNetStudent, generated_volumes

    def learned(shape: Any, grid: Any, own: Any, **recipe: Any) -> tuple[Any, Any, Any]:
        student = UNetStudent(steps=10, **recipe)
        student.fit(*generated_volumes(6, grid).normalised().arrays())
        return student, generated_volumes(own, shape, seed=1), grid

    plane = {"channels": (4, 8, 8)}
    yield "U-Net, images", lambda: learned((30, 37), (32, 32), 20, **plane)
    yield (
        "U-Net, images in windows",
        lambda: learned((30, 37), (32, 40), 20, patch=(16, 18), **plane),
    )
    room = {"channels": (4, 8, 8), "residual_units": 0}
    yield "U-Net, volumes", lambda: learned((14, 19, 13), (12, 16, 12), 4, **room)


def compared_masks(kind: str, made: tuple[Any, Any, Any], folder: Path) -> Agreement:
    """Compare masks and probabilities of raw scans, each on its own grid, voxel by voxel."""
    from tacit.masks.volumes import resample

    student, volumes, grid = made
    saved, path = folder / "student.tacit", folder / "model.onnx"
    student.save(saved, extra={"grid": list(grid)})
    export_onnx(saved, path)
    scans = volumes.arrays()[0][:, None]
    masks, soft = answers(path, scans=scans)
    view = volumes.normalised().resampled(grid)
    said = resample(student.predict_proba(view.arrays()[0]), scans.shape[2:])
    best = np.sort(said, axis=1)
    clear = best[:, -1] - best[:, -2] >= APART
    other = (np.stack(volumes.restored(said)) != masks)[clear].sum()
    return Agreement(kind, masks.size, float(np.abs(said - soft).max()), int(other))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="kinds whose name holds this")
    options.add_argument("--mnist", help="the folder of MNIST's files: its images as well")
    asked = options.parse_args()
    only, found = asked.only, []
    images = of_mnist(asked.mnist) if asked.mnist else ()
    with tempfile.TemporaryDirectory() as folder:
        for kind, make in [*catalogue(), *images]:
            if only in kind:
                found.append(compared(kind, *make(), Path(folder)))
        for kind, make in of_scans():
            if only in kind:
                found.append(compared_masks(kind, make(), Path(folder)))
    shown = Table("student", "rows", "largest difference", "other labels")
    for each in found:
        mark = "" if each.holds else " !"
        numbers = f"{each.difference:.1e}{mark}", str(each.other_labels)
        shown.add_row(each.kind, f"{each.rows:,}", *numbers)
    Console().print(shown)
    return 0 if all(each.holds for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
