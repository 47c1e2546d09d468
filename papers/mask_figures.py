"""Figures 1 to 3 of Generalized PATE on the hippocampus, and codes of single slices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from papers.items import Workplace
from papers.mask_schemes import (
    EPOCHS,
    LENGTH,
    SCHEMES,
    Answers,
    Array,
    Bench,
    Cell,
    Draw,
    Task,
    autoencoded,
    decided,
    dice,
    hippocampus,
    released_in_ball,
    trained_autoencoder,
)
from tacit.masks import AutoencoderCodec, IdentityCodec, PCACodec, UNetStudent, wiener_weights
from tacit.report import label, legend, line, new_figure

Row = dict[str, Any]
# Noise on each coordinate of a code, in voxels.
SIGMAS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
RELATIVE = (0.0, 0.05, 0.2)
# Noise on each coordinate of a code in the unit ball.
TESTED = (0.0, 0.05, 0.2, 0.5)
DRAWS = 20
SURE = 1e-3  # a linear decoder's answers are cut here, so that their cross-entropy is finite
EPSILONS, ASKED, TEACHERS = (2.0, 8.0, 32.0), (10, 20, 50, 100), 100
BOUNDS = ("clip", "ball", "smooth", "cube")
MAIN = (Cell(100, 50, 8.0), Cell(250, 50, 8.0))
SLICE_LENGTHS = (2, 8)


def figure_1(place: Workplace) -> None:
    """Components kept and squared error against noise: the rule, the best, and shrinkage."""
    rows = components(hippocampus(place))
    place.records("Generalized PATE, Figure 1: squared error per volume", rows)
    rules = ("L* (paper)", "L* (held out)", "best L")
    sigmas = np.asarray(SIGMAS)
    figure = new_figure("Generalized PATE, Figure 1, on the hippocampus", rows=2, size=(6.2, 5.4))
    errors, kept = figure.axes
    for number, rule in enumerate((*rules, "Wiener")):
        line(errors, number, sigmas, np.array([row[f"error, {rule}"] for row in rows]), name=rule)
    for number, rule in enumerate(rules):
        line(kept, number, sigmas, np.array([row[rule] for row in rows]), name="_")
    label(errors, y="squared error")
    legend(errors, "best")
    label(kept, x="noise on each coordinate, in voxels", y="components kept")
    kept.set_xscale("log")
    kept.set_xticks(list(SIGMAS), [f"{one:g}" for one in SIGMAS])
    kept.minorticks_off()
    place.picture("masks-2022-figure-1", figure)


def components(task: Task) -> list[Row]:
    """Return errors per volume of mean codes with noise, by number of components.

    The rule L* = #{lambda > sigma^2} with the spectrum of the fitted masks (the papers) and of
    held-out ones; the best L by trying all of them on the queries; and the Wiener shrinkage.
    """
    rng = np.random.default_rng(0)
    fitted, codec = PCACodec.fit(task.public, folds=1), PCACodec.fit(task.public)
    codes = codec.encode(task.asked)
    energy = np.square(task.asked - codec.mean).sum(axis=(1, 2, 3)).mean()
    rows = []
    for sigma in SIGMAS:
        noisy = codes + rng.normal(scale=sigma, size=(DRAWS, *codes.shape))
        gains = np.square(codes) - np.square(noisy - codes)
        errors = energy - np.concatenate([[0.0], gains.mean(axis=(0, 1)).cumsum()])
        shrunk = noisy * wiener_weights(codec.spectrum, sigma)
        wiener = energy - np.square(codes).sum(axis=1).mean()
        wiener += np.square(shrunk - codes).sum(axis=2).mean()
        rule, papers = (int(one.useful(sigma).weights.sum()) for one in (codec, fitted))
        rows.append(
            {
                "sigma": sigma,
                "L* (paper)": papers,
                "L* (held out)": rule,
                "best L": int(errors.argmin()),
                "error, L* (paper)": float(errors[papers]),
                "error, L* (held out)": float(errors[rule]),
                "error, best L": float(errors.min()),
                "error, Wiener": float(wiener),
            }
        )
    return rows


def figure_2(place: Workplace) -> None:
    """Cross-entropy and squared error of each codec by the noise of training and of use."""
    entropies, squares = reconstruction(hippocampus(place))
    place.records("Generalized PATE, Figure 2: 1000 x cross-entropy of a voxel", entropies)
    place.records("The same: 1000 x squared error of a voxel", squares)
    shown = [row for row in entropies if row["codec"] in ("PCA", "3D autoencoder", "mean mask")]
    names = [f"noise {one:g}" for one in TESTED]
    curves = {}
    for row in shown:
        trained = "" if row["codec"] == "mean mask" else f", for noise {row['for noise']:g}"
        curves[f"{row['codec']}{trained}"] = TESTED, [row[name] for name in names]
    place.curves(
        "masks-2022-figure-2",
        curves,
        "Generalized PATE, Figure 2, on the hippocampus",
        "noise on each coordinate of a code in the unit ball",
        "1000 x cross-entropy of a voxel",
        log="y",
        ticks=(30, 40, 60, 100, 200, 300),
        size=(7.5, 4.6),
    )


def reconstruction(task: Task) -> tuple[list[Row], list[Row]]:
    """Return cross-entropies and squared errors per thousand voxels on queries.

    All codes are scaled to the unit ball. "For noise" is that in the autoencoders' bottleneck, and
    for PCA that of its Wiener weights. The 2D autoencoder takes slices as channels.
    """
    entropies, squares = [], []
    for trained in RELATIVE:
        for name, decode in _codecs(task, trained).items():
            about = {"codec": name, "for noise": trained}
            found = {s: np.clip(decode(task.asked, s), 0.0, 1.0) for s in TESTED}
            entropies.append({**about, **_each(found, lambda y: cross_entropy(y, task.asked))})
            squares.append({**about, **_each(found, lambda y: np.square(y - task.asked).mean())})
    return entropies, squares


def _each(found: Mapping[float, Array], measure: Callable[[Array], Any]) -> dict[str, float]:
    return {f"noise {noise:g}": 1000 * float(measure(one)) for noise, one in found.items()}


def cross_entropy(answers: Array, masks: Array) -> float:
    """Return the mean cross-entropy of a voxel, of answers between .001 and .999."""
    sure = np.clip(answers, SURE, 1 - SURE)
    return float(-np.where(masks, np.log(sure), np.log1p(-sure)).mean())


Decoder = Callable[[Array, float], Array]


def _codecs(task: Task, trained: float) -> dict[str, Decoder]:
    masks = task.public
    pca = PCACodec.fit(masks)
    weights = wiener_weights(pca.spectrum, trained * pca.radius)
    made: dict[str, Decoder] = {
        "PCA": lambda y, s: pca.decode(_noisy(pca.encode(y), s * pca.radius) * weights)
    }
    for sides in (2, 3):
        codec = trained_autoencoder(task, sigma=trained, dimensions=sides)
        made[f"{sides}D autoencoder"] = _through(codec)
    if not trained:
        naive = IdentityCodec(masks.shape[1:])
        radius = naive.diameter / 2
        made["naive"] = lambda y, s: naive.decode(_noisy(naive.encode(y), s * radius))
        made["mean mask"] = lambda y, s: np.broadcast_to(pca.mean, y.shape)
    return made


def _through(codec: AutoencoderCodec) -> Decoder:
    return lambda y, s: codec.decode(_noisy(codec.encode(y), s))


def _noisy(codes: Array, sigma: float) -> Array:
    noise = np.random.default_rng(1).normal(size=codes.shape)
    return np.asarray(codes + sigma * noise)


def figure_3(place: Workplace) -> None:
    """Students of autoencoders at several epsilons; of PCA, of rounds and of true masks beside."""
    bench = Bench(hippocampus(place))
    rows = [student_row(bench, count) for count in ASKED]
    place.records("Generalized PATE, Figure 3: 100 perfect teachers, delta 1e-5", rows)
    curves = {
        (f"{name}, epsilon 8" if name in ("PCA, L*", "four rounds") else name): (
            [row["N"] for row in rows],
            [row[f"{name}: student"] for row in rows],
        )
        for name in STUDENTS
    }
    place.curves(
        "masks-2022-figure-3",
        curves,
        "Students by the number of queries and epsilon",
        "queries at one epsilon",
        "Dice of the student on 60 test volumes",
        log="x",
        ticks=ASKED,
        size=(8.4, 4.0),
        beside=True,
    )


# What students are taught by; the epsilon that a name does not say is 8.
STUDENTS: dict[str, tuple[float, Callable[[Draw], Answers]]] = {
    **{f"autoencoder, epsilon {e:g}": (e, SCHEMES["autoencoder, clip"]) for e in EPSILONS},
    **{name: (8.0, SCHEMES[name]) for name in ("PCA, L*", "four rounds")},
    "true masks": (8.0, lambda draw: (draw.masks, 0.5)),
}


def student_row(bench: Bench, count: int) -> Row:
    """Return the Dice of what each scheme releases for N queries, and of its student.

    A student is `UNetStudent(random_state=0)`, taught the released masks of the first N queries in
    a random order (draw 0 of the table), and tested on the volumes kept for tests.
    """
    row: Row = {"N": count}
    task = bench.task
    scans, truth = task.tests
    for name, (epsilon, scheme) in STUDENTS.items():
        draw = Draw(bench, Cell(TEACHERS, count, epsilon), seed=0)
        masks = decided(*scheme(draw), task.n_classes)
        student = UNetStudent(random_state=0)
        student.fit(task.asked_scans[draw.chosen], masks.astype(np.uint8))
        found = student.predict(scans).astype(bool)
        row[f"{name}: released"] = dice(masks, draw.masks, task.n_classes)
        row[f"{name}: student"] = dice(found, truth, task.n_classes)
    return row


def activations(place: Workplace) -> None:
    """Dice of releases by an autoencoder's bound, in the papers' main setting with our K."""
    bench = Bench(hippocampus(place))
    rows = []
    for cell in MAIN:
        row: Row = {"K, N, epsilon": f"{cell.teachers}, {cell.queries}, {cell.epsilon:g}"}
        for bound in BOUNDS:
            scheme = partial(autoencoded, bound=bound)
            values = [Draw(bench, cell, seed).dice(scheme) for seed in range(4)]
            row[bound] = f"{np.mean(values):.3f}"
        rows.append(row)
    place.records("Autoencoders of 32 numbers by their bound: Dice of released masks", rows)


@dataclass(frozen=True)
class SliceCodec:
    """A code for each slice by a 2D autoencoder; one bound for the whole volume.

    Codes of slices lie in the unit ball, so their chain is divided by the root of their number.
    """

    flat: AutoencoderCodec
    slices: int

    @property
    def length(self) -> int:
        """Of the whole volume's code."""
        return self.slices * self.flat.length

    def encode(self, masks: Array) -> Array:
        """Return codes (n, length) in the unit ball."""
        codes = self.flat.encode(masks.reshape(-1, *masks.shape[2:]))
        return np.asarray(codes.reshape(len(masks), -1) / np.sqrt(self.slices))

    def decode(self, codes: Array) -> Array:
        """Return answers of volumes."""
        parts = codes.reshape(-1, self.flat.length) * np.sqrt(self.slices)
        decoded = self.flat.decode(parts)
        return decoded.reshape(len(codes), self.slices, *decoded.shape[1:])


def slices(place: Workplace) -> None:
    """Codes of slices under one bound a volume, beside one code a volume."""
    bench = Bench(hippocampus(place))
    cell = MAIN[0]
    masks = bench.task.public
    spread = cell.sigma * math.sqrt(len(masks[0]))
    draws = [Draw(bench, cell, seed) for seed in range(4)]
    rows: list[tuple[Any, ...]] = []
    for length in SLICE_LENGTHS:
        parts = masks.reshape(-1, *masks.shape[2:])
        flat = AutoencoderCodec.fit(parts, length=length, sigma=spread, epochs=EPOCHS // 3)
        codec = SliceCodec(flat, len(masks[0]))
        threshold = bench.noisy_threshold(codec, cell.sigma)
        found = [bench.task.dice(released_in_ball(codec, d), threshold, d.masks) for d in draws]
        rows.append((f"20 slices x {length} numbers", spread, f"{np.mean(found):.3f}"))
    whole = np.mean([draw.dice(SCHEMES["autoencoder, clip"]) for draw in draws])
    rows.append((f"one of {LENGTH} numbers", "-", f"{whole:.3f}"))
    columns = ["code", "noise on a slice's code", "Dice"]
    place.table("One bound a volume: K = 100, N = 50, epsilon 8", columns, rows)
