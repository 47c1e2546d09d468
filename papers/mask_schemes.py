"""Released masks by the papers' scheme and by each improvement, at equal (epsilon, delta).

Teachers are perfect: all K of them say the true mask, so their mean is that mask's code. The noise
is calibrated to K teachers and drawn once: the mean of K equal codes plus N(0, sigma^2) has the law
of one code plus N(0, sigma^2). Thresholds are chosen on public masks. The masks of queries are used
for the teachers' answers and for Dice, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from papers.items import Workplace
from tacit.masks import (
    AutoencoderCodec,
    ImageRegression,
    LinearCodec,
    PCACodec,
    Smoothed,
    Volumes,
    combine_rounds,
    generated_volumes,
    load_volumes,
    mask_figure,
    noise_to_signal,
    smooth_by_images,
    wiener_weights,
)
from tacit.mechanisms import GaussianMean, UnitMean
from tacit.noise import InsecureNoise
from tacit.privacy import calibrate_gaussian

HIPPOCAMPUS = "hippocampus_msd/hippocampus_48x64x48.npz"
SHAPE = (20, 28, 20)
PUBLIC, QUERIES = 100, 100
Array = NDArray[Any]


@dataclass(frozen=True)
class Task:
    """Masks as answers: (n, *sides) for two classes, one channel a foreground class for more."""

    name: str
    scans: Array
    masks: Array
    n_classes: int

    @property
    def public(self) -> Array:
        """Masks for the codec."""
        return self.masks[:PUBLIC]

    @property
    def asked(self) -> Array:
        """Masks of the queries: what teachers answer."""
        return self.masks[PUBLIC : PUBLIC + QUERIES]

    @property
    def asked_scans(self) -> Array:
        """Scans of the queries, public."""
        return self.scans[PUBLIC : PUBLIC + QUERIES]

    @property
    def tests(self) -> tuple[Array, Array]:
        """Scans and masks that are neither the codec's nor queries."""
        return self.scans[PUBLIC + QUERIES :], self.masks[PUBLIC + QUERIES :]

    def dice(self, answers: Array, threshold: float, masks: Array) -> float:
        """Return the mean Dice of soft answers, cut at a threshold."""
        return dice(decided(answers, threshold, self.n_classes), masks, self.n_classes)


def hippocampus(place: Workplace, n_classes: int = 2) -> Task:
    """Return the Decathlon's hippocampus on a grid of 20 x 28 x 20 voxels."""
    volumes = load_volumes(f"npz:{place.path(HIPPOCAMPUS)}", n_classes=3)
    return task("hippocampus", volumes, n_classes)


def generated() -> Task:
    """Return generated volumes on the same grid."""
    return task("generated", generated_volumes(260, SHAPE), 2)


def task(name: str, volumes: Volumes, n_classes: int) -> Task:
    """Return volumes in a random order, as scans and masks."""
    scans, labels = volumes.resampled(SHAPE).normalised().arrays()
    assert labels is not None
    order = np.random.default_rng(0).permutation(len(labels))
    labels = labels[order]
    answers = [labels == one for one in range(1, n_classes)] if n_classes > 2 else [labels > 0]
    masks = np.stack(answers, axis=1)
    return Task(name, scans[order], masks if n_classes > 2 else masks[:, 0], n_classes)


def decided(answers: Array, threshold: float, n_classes: int) -> Array:
    """Soft answers to masks: foreground where the classes sum to more than the threshold."""
    if n_classes == 2:
        return np.asarray(answers > threshold)
    inside = answers.sum(axis=1, keepdims=True) > threshold
    best = answers.argmax(axis=1)[:, None] == np.arange(n_classes - 1)[:, None, None, None]
    return np.asarray(inside & best)


def dice(found: Array, true: Array, n_classes: int) -> float:
    """Mean Dice over volumes, and over foreground classes where there are several."""
    rows = len(found) * (n_classes - 1)
    found, true = found.reshape(rows, -1), true.reshape(rows, -1)
    both, sizes = (found & true).sum(axis=1), found.sum(axis=1) + true.sum(axis=1)
    return float(np.mean(2 * both / np.maximum(sizes, 1)))


DELTA = 1e-5
THRESHOLDS = np.arange(0.3, 0.601, 0.02)
# Parts of mu^2 for releases in rounds.
TWO, FOUR = (0.3, 0.7), (0.1, 0.15, 0.25, 0.5)
BLUR, COPIES = 0.7, 3
# Of autoencoders.
LENGTH, EPOCHS = 32, 60
# Noise that autoencoders are trained for; a release takes the one nearest to its own.
LEVELS = tuple(0.02 * 2**step for step in range(10))


class Trained(NamedTuple):
    """An autoencoder, and where its answers are cut."""

    codec: AutoencoderCodec
    threshold: float


@dataclass(frozen=True)
class Cell:
    """So many teachers and queries for this epsilon."""

    teachers: int
    queries: int
    epsilon: float
    delta: float = DELTA

    @property
    def sigma(self) -> float:
        """The noise on each coordinate of the mean of codes in the unit ball."""
        reach = 2 * math.sqrt(self.queries) / self.teachers
        return calibrate_gaussian(reach, self.epsilon, self.delta)


@dataclass
class Bench:
    """Codecs fitted on the public masks of a task, and what the queries' scans say."""

    task: Task
    parts: dict[tuple[int, int], ImageRegression] = field(default_factory=dict)
    trained: dict[tuple[str, float], Trained] = field(default_factory=dict)

    @cached_property
    def plain(self) -> PCACodec:
        """Components of the masks as they are."""
        return PCACodec.fit(self.task.public)

    @cached_property
    def better(self) -> PCACodec:
        """Components of blurred masks and deformed copies."""
        sides = self.task.scans.ndim - 1
        return PCACodec.fit(self.task.public, blur=BLUR, copies=COPIES, dimensions=sides)

    @cached_property
    def regression(self) -> ImageRegression:
        """What the scans of all queries say."""
        return ImageRegression(self.task.asked_scans, self.better.mean)

    @cached_property
    def mean_threshold(self) -> float:
        """Where the public mean mask is cut."""
        mean = np.broadcast_to(self.plain.mean, self.task.public.shape)
        return self.best_threshold(mean)

    def autoencoder(self, bound: str, sigma: float) -> Trained:
        """Return the autoencoder trained for about this noise, and where its answers are cut."""
        level = float(min(LEVELS, key=lambda one: abs(math.log(one / sigma))))
        if (bound, level) not in self.trained:
            codec = trained_autoencoder(self.task, bound=bound, sigma=level)
            self.trained[bound, level] = Trained(codec, self.noisy_threshold(codec, level))
        return self.trained[bound, level]

    def noisy_threshold(self, codec: Any, sigma: float) -> float:
        """Simulate the release of a codec of the unit ball on every third public mask."""
        masks = self.task.public[::3]
        noise = np.random.default_rng(0).normal(size=(len(masks), codec.length))
        return self.best_threshold(codec.decode(codec.encode(masks) + sigma * noise), masks)

    def best_threshold(self, answers: Array, masks: Array | None = None) -> float:
        """Return the threshold with the highest Dice on public masks."""
        true = self.task.public if masks is None else masks
        return float(max(THRESHOLDS, key=lambda t: self.task.dice(answers, float(t), true)))

    def public_threshold(self, codec: LinearCodec, deviations: Array) -> float:
        """Simulate the release on every third public mask."""
        masks = self.task.public[::3]
        kept = np.isfinite(deviations)
        noise = np.random.default_rng(0).normal(size=(len(masks), codec.length))
        codes = codec.encode(masks) + np.where(kept, deviations, 0.0) * noise
        shrunk = codes * wiener_weights(codec.spectrum, deviations)
        return self.best_threshold(codec.decode(shrunk), masks)


def trained_autoencoder(
    task: Task, *, bound: str = "clip", sigma: float = 0.0, dimensions: int = 3
) -> AutoencoderCodec:
    """Train on the public masks, with noise in the bottleneck; classes are channels."""
    return AutoencoderCodec.fit(
        task.public, length=LENGTH, bound=bound, sigma=sigma, epochs=EPOCHS, dimensions=dimensions
    )


@dataclass
class Draw:
    """One draw: which queries are asked, and the noise. Draws 0, 1, ... ask all in turn."""

    bench: Bench
    cell: Cell
    seed: int
    unit: bool = False
    chosen: Array = field(init=False)

    def __post_init__(self) -> None:
        total, start = len(self.bench.task.asked), self.seed * self.cell.queries
        order = np.random.default_rng(start // total).permutation(total)
        self.chosen = order[start % total :][: self.cell.queries]

    @property
    def regression(self) -> ImageRegression:
        """What the scans of these queries say; factorised once for all cells that ask them."""
        parts, key = self.bench.parts, (self.seed, self.cell.queries)
        if key not in parts:
            parts[key] = self.bench.regression.rows(self.chosen)
        return parts[key]

    @property
    def masks(self) -> Array:
        """The true masks of the queries asked."""
        return np.asarray(self.bench.task.asked[self.chosen])

    def dice(self, scheme: Callable[[Draw], Answers]) -> float:
        """Return the mean Dice of what a scheme releases."""
        answers, threshold = scheme(self)
        return self.bench.task.dice(answers, threshold, self.masks)

    @property
    def noise_level(self) -> float:
        """G of water-filling: for `UnitMean` a quarter, as half the sensitivity."""
        cell = self.cell
        level = noise_to_signal(
            cell.epsilon, cell.delta, queries=cell.queries, n_teachers=cell.teachers
        )
        return level / 4 if self.unit else level

    def release(
        self,
        codec: LinearCodec,
        radius: float,
        *,
        joint: bool,
        share: float = 1.0,
        centres: Array | None = None,
    ) -> tuple[Array, float]:
        """Return noisy mean codes and sigma."""
        cell, kind = self.cell, UnitMean if self.unit else GaussianMean
        priced: Any = kind.with_noise(
            calibrate_gaussian(1.0, cell.epsilon, cell.delta) / math.sqrt(share),
            queries=cell.queries,
            radius=radius,
            n_teachers=cell.teachers,
            joint=joint,
        ).mechanism
        one = GaussianMean(priced.sigma, radius, n_teachers=1, joint=priced.joint)
        noise = InsecureNoise(1000 * self.seed + round(100 * share))
        release = one.release(
            codec.encode(self.masks)[None], noise, centres=centres, weights=codec.weights
        )
        assert release.values is not None
        return release.values, priced.sigma

    def joint(
        self, codec: LinearCodec, share: float = 1.0, centres: Array | None = None
    ) -> tuple[Array, Array]:
        """Release under one bound for all queries: codes, and deviations of their noise."""
        radius = codec.joint_radius(self.cell.queries)
        codes, sigma = self.release(codec, radius, joint=True, share=share, centres=centres)
        return codes, codec.deviations(sigma)


Answers = tuple[Array, float]  # soft masks of the queries, and where they are cut


def mean_mask(draw: Draw) -> Answers:
    """Return the public mean mask for every query: what is known without teachers."""
    return np.broadcast_to(draw.bench.plain.mean, draw.masks.shape), draw.bench.mean_threshold


def paper(draw: Draw, *, diameter: float = 2.0) -> Answers:
    """Generalized PATE with PCA: unit norm y/sqrt(D), L* components, no shrinkage; in voxels."""
    codec, cell = draw.bench.plain, draw.cell
    radius = diameter / 2 * math.sqrt(codec.mean.size)
    # A cube of diameter 1 is centred on 1/2; the paper's ball of diameter 2 on 0.
    centre = codec.coordinates(np.full((1, *codec.shape), 0.5 if diameter == 1 else 0.0))
    noise = calibrate_gaussian(1.0, cell.epsilon, cell.delta)
    priced: Any = GaussianMean.with_noise(
        noise, queries=cell.queries, radius=radius, n_teachers=cell.teachers
    ).mechanism
    kept = codec.useful(priced.sigma)
    if not kept.weights.any():
        return mean_mask(draw)
    codes, _ = draw.release(kept, radius, joint=False, centres=centre)
    return kept.decode(np.where(kept.weights > 0, codes, 0.0)), draw.bench.mean_threshold


def autoencoded(draw: Draw, bound: str) -> Answers:
    """Generalized PATE with an autoencoder, and autoencoded PATE with its ball."""
    codec, threshold = draw.bench.autoencoder(bound, draw.cell.sigma)
    return released_in_ball(codec, draw), threshold


def released_in_ball(codec: Any, draw: Draw) -> Array:
    """Release the queries' codes, which lie in the unit ball, and decode them."""
    one = GaussianMean(draw.cell.sigma, 1.0, n_teachers=1)
    noise = InsecureNoise(1000 * draw.seed + 100)
    release = one.release(codec.encode(draw.masks)[None], noise)
    return np.asarray(codec.decode(release.values))


def centred(draw: Draw) -> Answers:
    """Clip each code about the public mean at the public 95 % quantile; shrink."""
    codec = draw.bench.plain
    codes, sigma = draw.release(codec, codec.radius, joint=False)
    threshold = draw.bench.public_threshold(codec, codec.deviations(sigma))
    return codec.decode(codes, sigma=sigma), threshold


def ellipsoid(draw: Draw, codec: PCACodec, *, smooth: bool = False) -> Answers:
    """Clip all queries together in the ellipsoid of water-filling; shrink.

    With `smooth` towards what the public scans say, too.
    """
    weighted = codec.ellipsoid(draw.noise_level)
    codes, deviations = draw.joint(weighted)
    if smooth:
        answers = smooth_by_images(weighted, codes, deviations, draw.regression).answers
    else:
        answers = weighted.decode(codes * wiener_weights(codec.spectrum, deviations))
    return answers, draw.bench.public_threshold(weighted, deviations)


def rounds(draw: Draw, shares: tuple[float, ...]) -> Answers:
    """Release, smooth what all rounds so far say together, release again about that."""
    codec = draw.bench.better
    released: list[tuple[Array, Array]] = []
    known: Smoothed | None = None
    for share in shares:
        base = codec if known is None else codec.remaining(known.spectrum)
        weighted = base.ellipsoid(draw.noise_level / share)
        centres = None if known is None else known.centres
        released.append(draw.joint(weighted, share=share, centres=centres))
        codes, deviations = combine_rounds(*released)
        known = smooth_by_images(codec, codes, deviations, draw.regression)
    assert known is not None
    return known.answers, draw.bench.public_threshold(codec, deviations)


SCHEMES: dict[str, Callable[[Draw], Answers]] = {
    "mean mask": mean_mask,
    "PCA, L*": paper,
    "diameter 1": lambda draw: paper(draw, diameter=1.0),
    "autoencoder, clip": lambda draw: autoencoded(draw, "clip"),
    "autoencoder, ball": lambda draw: autoencoded(draw, "ball"),
    "centred": centred,
    "ellipsoid": lambda draw: ellipsoid(draw, draw.bench.plain),
    "codec": lambda draw: ellipsoid(draw, draw.bench.better),
    "smoothing": lambda draw: ellipsoid(draw, draw.bench.better, smooth=True),
    "two rounds": lambda draw: rounds(draw, TWO),
    "four rounds": lambda draw: rounds(draw, FOUR),
    "UnitMean": lambda draw: rounds(Draw(draw.bench, draw.cell, draw.seed, unit=True), TWO),
}
LINEAR = tuple(name for name in SCHEMES if not name.startswith("autoencoder"))


def measured(
    bench: Bench, cell: Cell, draws: int, names: Iterable[str] = tuple(SCHEMES)
) -> dict[str, tuple[float, float]]:
    """Return mean Dice of each scheme and its standard error over draws."""
    found = {}
    for name in names:
        values = [Draw(bench, cell, seed).dice(SCHEMES[name]) for seed in range(draws)]
        error = float(np.std(values, ddof=1)) / math.sqrt(draws) if draws > 1 else math.nan
        found[name] = (float(np.mean(values)), error)
    return found


TEACHERS, EPSILONS = (8, 20, 50, 100, 250), (1.0, 8.0)
# Queries of a release, and how many releases; all 100 queries are asked equally often.
DRAWS = {10: 10, 20: 5, 50: 4, 100: 3}
FEWER_DRAWS = {10: 10, 20: 5, 50: 2, 100: 2}


def schemes(place: Workplace) -> None:
    """Every scheme on the hippocampus, at equal epsilon and delta, and slices of releases."""
    bench = Bench(hippocampus(place))
    rows = table(bench, DRAWS)
    place.records("Dice of released masks, hippocampus, delta 1e-5", written(rows))
    cells = [row for row in rows if row["N"] == 50 and row["epsilon"] == EPSILONS[-1]]
    names = ["PCA, L*", "autoencoder, clip", "autoencoder, ball", "centred", "ellipsoid"]
    curves = {name: (TEACHERS, [row[name] for row in cells]) for name in [*names, "four rounds"]}
    title, x = "50 queries, epsilon 8, delta 1e-5", "teachers, all perfect"
    y = "Dice of released masks"
    place.curves("masks-schemes", curves, title, x, y, log="x", ticks=TEACHERS)
    place.picture("masks-releases", releases_figure(bench))


def three_classes(place: Workplace) -> None:
    """Show the same with the anterior and the posterior part as classes, without autoencoders."""
    rows = table(Bench(hippocampus(place, n_classes=3)), FEWER_DRAWS, LINEAR)
    place.records("Dice of released masks, hippocampus, three classes, delta 1e-5", written(rows))


def generated_masks(place: Workplace) -> None:
    """Show the same on generated volumes, without autoencoders."""
    rows = table(Bench(generated()), {50: 2}, LINEAR)
    place.records("Dice of released masks, generated, delta 1e-5", written(rows))


def table(
    bench: Bench, draws: Mapping[int, int], names: Iterable[str] = tuple(SCHEMES)
) -> list[dict[str, Any]]:
    """Return a row for each number of queries and teachers and each epsilon."""
    rows = []
    for count, epsilon, teachers in product(draws, EPSILONS, TEACHERS):
        found = measured(bench, Cell(teachers, count, epsilon), draws[count], names)
        error = max(one[1] for one in found.values())
        dices = {name: value for name, (value, _) in found.items()}
        rows.append({"epsilon": epsilon, "N": count, "K": teachers, **dices, "error": error})
    return rows


def written(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return rows with three decimals of what is measured."""
    setting = ("epsilon", "N", "K")
    return [{k: f"{v:g}" if k in setting else f"{v:.3f}" for k, v in row.items()} for row in rows]


def releases_figure(bench: Bench, queries: int = 4) -> Figure:
    """Slices of the first queries at 100 teachers, 50 queries, epsilon 8."""
    draw = Draw(bench, Cell(100, 50, 8.0), seed=0)
    final, last = rounds(draw, FOUR)
    coded, level = autoencoded(draw, "clip")
    mean = np.broadcast_to(bench.plain.mean, draw.masks.shape)
    columns = {
        "true mask": draw.masks,
        "PCA, L* = mean mask": mean > bench.mean_threshold,
        "autoencoder, clip": coded > level,
        "four rounds": final > last,
    }
    scans = bench.task.asked_scans[draw.chosen]
    return mask_figure(
        list(scans[:queries]),
        {name: list(masks[:queries].astype(np.uint8)) for name, masks in columns.items()},
    )
