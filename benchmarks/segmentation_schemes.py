"""Released masks by the papers' scheme and by each improvement, at equal (epsilon, delta).

Teachers are perfect: all K of them say the true mask, so their mean is that mask's code. The noise
is calibrated to K teachers and drawn once: the mean of K equal codes plus N(0, sigma^2) has the law
of one code plus N(0, sigma^2). Thresholds are chosen on public masks. The masks of queries are used
for the teachers' answers and for Dice, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.segmentation_data import Array, Task, decided, dice
from tacit import GaussianMean, InsecureNoise
from tacit.masks import (
    ImageRegression,
    LinearCodec,
    PCACodec,
    Smoothed,
    combine_rounds,
    noise_to_signal,
    smooth_by_images,
    wiener_weights,
)
from tacit.mechanisms import UnitMean
from tacit.privacy import calibrate_gaussian

DELTA = 1e-5
THRESHOLDS = np.arange(0.3, 0.601, 0.02)
TWO, FOUR = (0.3, 0.7), (0.1, 0.15, 0.25, 0.5)
"""Parts of mu^2 for releases in rounds."""
BLUR, COPIES = 0.7, 3


@dataclass(frozen=True)
class Cell:
    """So many teachers and queries for this epsilon."""

    teachers: int
    queries: int
    epsilon: float


@dataclass
class Bench:
    """Codecs fitted on the public masks of a task, and what the queries' scans say."""

    task: Task
    plain: PCACodec = field(init=False)
    better: PCACodec = field(init=False)
    regression: ImageRegression = field(init=False)
    mean_threshold: float = field(init=False)
    parts: dict[tuple[int, int], ImageRegression] = field(default_factory=dict)

    def __post_init__(self) -> None:
        public, sides = self.task.public, self.task.scans.ndim - 1
        self.plain = PCACodec.fit(public)
        self.better = PCACodec.fit(public, blur=BLUR, copies=COPIES, dimensions=sides)
        self.regression = ImageRegression(self.task.asked_scans, self.better.mean)
        self.mean_threshold = self.best_threshold(np.broadcast_to(self.plain.mean, public.shape))

    def best_threshold(self, answers: Array, masks: Array | None = None) -> float:
        """Return the threshold with the highest Dice on public masks."""
        true = self.task.public if masks is None else masks
        return float(max(THRESHOLDS, key=lambda t: self.dice(answers, t, true)))

    def public_threshold(self, codec: LinearCodec, deviations: Array) -> float:
        """Simulate the release on every third public mask."""
        masks = self.task.public[::3]
        kept = np.isfinite(deviations)
        noise = np.random.default_rng(0).normal(size=(len(masks), codec.length))
        codes = codec.encode(masks) + np.where(kept, deviations, 0.0) * noise
        shrunk = codes * wiener_weights(codec.spectrum, deviations)
        return self.best_threshold(codec.decode(shrunk), masks)

    def dice(self, answers: Array, threshold: float, masks: Array) -> float:
        """Return the mean Dice of soft answers."""
        return dice(decided(answers, threshold, self.task.n_classes), masks, self.task.n_classes)


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

    @property
    def noise_level(self) -> float:
        """G of water-filling: for `UnitMean` a quarter, as half the sensitivity."""
        cell = self.cell
        level = noise_to_signal(cell.epsilon, DELTA, queries=cell.queries, n_teachers=cell.teachers)
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
        priced = kind.with_noise(
            calibrate_gaussian(1.0, cell.epsilon, DELTA) / math.sqrt(share),
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


def mean_mask(draw: Draw) -> float:
    bench = draw.bench
    answers = np.broadcast_to(bench.plain.mean, draw.masks.shape)
    return bench.dice(answers, bench.mean_threshold, draw.masks)


def paper(draw: Draw, *, diameter: float = 2.0) -> float:
    answers = paper_answers(draw, diameter=diameter)
    return draw.bench.dice(answers, draw.bench.mean_threshold, draw.masks)


def paper_answers(draw: Draw, *, diameter: float = 2.0) -> Array:
    """Answers of unit norm y/sqrt(D), L* components, no shrinkage; in units of voxels here."""
    codec, cell = draw.bench.plain, draw.cell
    radius = diameter / 2 * math.sqrt(codec.mean.size)
    # A cube of diameter 1 is centred on 1/2; the paper's ball of diameter 2 on 0.
    centre = codec.coordinates(np.full((1, *codec.shape), 0.5 if diameter == 1 else 0.0))
    noise = calibrate_gaussian(1.0, cell.epsilon, DELTA)
    sigma = GaussianMean.with_noise(
        noise, queries=cell.queries, radius=radius, n_teachers=cell.teachers
    ).mechanism.sigma
    kept = codec.useful(sigma)
    if not kept.weights.any():
        return np.broadcast_to(codec.mean, draw.masks.shape)
    codes, _ = draw.release(kept, radius, joint=False, centres=centre)
    return kept.decode(np.where(kept.weights > 0, codes, 0.0))


def centred(draw: Draw) -> float:
    """Clip each code about the public mean at the public 95 % quantile; shrink."""
    codec = draw.bench.plain
    codes, sigma = draw.release(codec, codec.radius, joint=False)
    threshold = draw.bench.public_threshold(codec, codec.deviations(sigma))
    return draw.bench.dice(codec.decode(codes, sigma=sigma), threshold, draw.masks)


def ellipsoid(draw: Draw, codec: PCACodec) -> float:
    weighted = codec.ellipsoid(draw.noise_level)
    codes, deviations = draw.joint(weighted)
    answers = weighted.decode(codes * wiener_weights(codec.spectrum, deviations))
    threshold = draw.bench.public_threshold(weighted, deviations)
    return draw.bench.dice(answers, threshold, draw.masks)


def smoothed(draw: Draw) -> float:
    weighted = draw.bench.better.ellipsoid(draw.noise_level)
    codes, deviations = draw.joint(weighted)
    regression = draw.regression
    answers = smooth_by_images(weighted, codes, deviations, regression).answers
    threshold = draw.bench.public_threshold(weighted, deviations)
    return draw.bench.dice(answers, threshold, draw.masks)


def rounds(draw: Draw, shares: tuple[float, ...]) -> float:
    answers, threshold = answers_in_rounds(draw, shares)
    return draw.bench.dice(answers, threshold, draw.masks)


def answers_in_rounds(draw: Draw, shares: tuple[float, ...]) -> tuple[Array, float]:
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


SCHEMES: dict[str, Callable[[Draw], float]] = {
    "mean mask": mean_mask,
    "paper": paper,
    "diameter 1": lambda draw: paper(draw, diameter=1.0),
    "centred": centred,
    "ellipsoid": lambda draw: ellipsoid(draw, draw.bench.plain),
    "codec": lambda draw: ellipsoid(draw, draw.bench.better),
    "smoothing": smoothed,
    "two rounds": lambda draw: rounds(draw, TWO),
    "four rounds": lambda draw: rounds(draw, FOUR),
    "UnitMean": lambda draw: rounds(Draw(draw.bench, draw.cell, draw.seed, unit=True), TWO),
}


def measured(bench: Bench, cell: Cell, draws: int) -> dict[str, tuple[float, float]]:
    """Return mean Dice of each scheme and its standard error over draws."""
    found = {}
    for name, scheme in SCHEMES.items():
        values = [scheme(Draw(bench, cell, seed)) for seed in range(draws)]
        error = float(np.std(values, ddof=1)) / math.sqrt(draws) if draws > 1 else math.nan
        found[name] = (float(np.mean(values)), error)
    return found
