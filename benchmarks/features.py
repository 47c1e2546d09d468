"""How fast the public features are, in images per CPU-second, next to a loop over images.

Run `python -m benchmarks.features` (or with `--json`). The loop (`benchmarks.plain_features`)
computes the same features with scipy.ndimage and NumPy; the largest difference is printed beside
the ratio. With `--data DIR`, a directory that holds `mnist/` and `usps/`, it also prints how good
RBF kernel ridge teachers of few examples are on these features. The features' parameters, gamma
and alpha were chosen on USPS; a sample of MNIST's training images confirmed them and decided
nothing. Goals on MNIST's test images: 97.2 % for the mean teacher of 240 examples and 98.4 % for
the plurality of 250.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks import plain_features
from benchmarks.measured import best_of
from tacit.datasets import Dataset, load_digits, load_idx, load_npz
from tacit.features import HOG, Deskew, digit_features
from tacit.mechanisms import count_votes
from tacit.teachers import KernelRidgeTeachers
from tacit.teachers.tasks import Shard

IMAGES = 7_000
LOOP_IMAGES = 500
QUERIES = 10_000


@dataclass(frozen=True, slots=True)
class Rate:
    """Images per CPU-second; `ratio` is ours over the loop's, `difference` the largest between."""

    name: str
    tacit: float
    loop: float
    ratio: float
    difference: float


@dataclass(frozen=True, slots=True)
class Quality:
    """Accuracy in per cent of teachers on a test set, and what features and votes took in CPU-s."""

    data: str
    n_teachers: int
    examples: int
    mean_teacher: float
    plurality: float
    images: int
    features_seconds: float
    votes_seconds: float


def sample_images(count: int) -> np.ndarray:
    """scikit-learn's digits, each pixel drawn as 3 x 3, on 28 x 28."""
    small = load_digits().X.reshape(-1, 8, 8)
    large = np.pad(np.kron(small, np.ones((3, 3), dtype=np.float32)), ((0, 0), (2, 2), (2, 2)))
    return np.resize(large, (count, 28, 28))


def rates() -> list[Rate]:
    images = sample_images(IMAGES)
    few = images[:LOOP_IMAGES]
    cases = [
        ("deskew", Deskew(), plain_features.deskew_all),
        ("HOG", HOG(), plain_features.hog_all),
        ("deskew and HOG", digit_features(), plain_features.both),
    ]
    result = []
    for name, transformer, loop in cases:
        ours = IMAGES / best_of(lambda: transformer.transform(images))[0]  # noqa: B023
        theirs = LOOP_IMAGES / best_of(lambda: loop(few))[0]  # noqa: B023
        expected = loop(few).reshape(LOOP_IMAGES, -1)
        difference = float(np.abs(transformer.transform(few) - expected).max())
        result.append(
            Rate(name, round(ours), round(theirs), round(ours / theirs, 1), round(difference, 6))
        )
    return result


def quality(data: Dataset, *, n_teachers: int, examples: int) -> Quality:
    """Teachers of random training examples, judged on the set's own test part."""
    start = time.process_time()
    view = data.features().transform(data.X)
    featured = time.process_time()
    test = slice(data.n_train, data.n_train + QUERIES)
    rows = np.random.default_rng(0).permutation(data.n_train)[: n_teachers * examples]
    shards = [
        Shard(view[part], data.y[part], seed=0) for part in rows.reshape(n_teachers, examples)
    ]
    answers = KernelRidgeTeachers().predict_shards(shards, view[test], n_classes=10)
    voted = time.process_time()
    plurality = count_votes(answers, 10).argmax(axis=1)
    return Quality(
        data.name,
        n_teachers,
        examples,
        round(100 * float((answers == data.y[test]).mean()), 2),
        round(100 * float((plurality == data.y[test]).mean()), 2),
        len(data),
        round(featured - start, 1),
        round(voted - featured, 1),
    )


def qualities(folder: Path) -> list[Quality]:
    file = folder / "usps" / "usps_7291_2007.npz"
    usps = load_npz(file, classes=10, range=[0, 1], name="usps")
    mnist = load_idx(folder / "mnist")
    settings = [(usps, 30, 240), (usps, 120, 60), (mnist, 250, 240), (mnist, 1000, 60)]
    return [quality(data, n_teachers=n, examples=k) for data, n, k in settings]


def rate_table(found: list[Rate]) -> Table:
    result = Table(title="Features: images of 28 x 28 per CPU-second")
    result.add_column("feature")
    for heading in ("tacit", "loop", "ratio", "largest difference"):
        result.add_column(heading, justify="right")
    for rate in found:
        cells = (f"{rate.tacit:,.0f}", f"{rate.loop:,.0f}", f"{rate.ratio:.1f}")
        result.add_row(rate.name, *cells, f"{rate.difference:.1e}")
    return result


def quality_table(found: list[Quality]) -> Table:
    result = Table(title="RBF kernel ridge teachers on deskew and HOG, test images")
    result.add_column("data")
    headings = ("teachers", "examples", "mean teacher", "plurality", "images", "features", "votes")
    for heading in headings:
        result.add_column(heading, justify="right")
    for case in found:
        result.add_row(
            case.data,
            f"{case.n_teachers:,}",
            str(case.examples),
            f"{case.mean_teacher:.2f} %",
            f"{case.plurality:.2f} %",
            f"{case.images:,}",
            f"{case.features_seconds:.1f} CPU-s",
            f"{case.votes_seconds:.1f} CPU-s",
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    parser.add_argument("--data", type=Path, help="a directory with mnist/ and usps/")
    options = parser.parse_args()
    with threadpool_limits(1):  # CPU-seconds of one thread: waiting threads would be counted too
        speed = rates()
        goodness = qualities(options.data) if options.data else []
    if options.json:
        found = {"rates": speed, "qualities": goodness}
        print(json.dumps({key: [asdict(one) for one in many] for key, many in found.items()}))
        return
    console = Console()
    console.print(rate_table(speed))
    if goodness:
        console.print(quality_table(goodness))


if __name__ == "__main__":
    main()
