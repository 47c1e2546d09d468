"""The rounds of a segmenter's release: plan, centres and weights of each, and their combination.

All of it is public: a codec, public scans, a budget, and earlier releases (proof:
docs/theory/high-dimensional.md#the-bound). All queries of a round share one bound, in the ellipsoid
that water-filling gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, at_least, finite_array
from tacit.errors import InvalidArgument
from tacit.masks.codecs import LinearCodec, answer_rows, code_rows, combine_rounds, wiener_weights
from tacit.mechanisms import GaussianMean, Plan, Release, SharedCodes, UnitMean

SHARES = {1: (1.0,), 2: (0.3, 0.7), 4: (0.1, 0.15, 0.25, 0.5)}  # shares of mu^2 for so many rounds
_LEAST_LEVEL = 0.01


@dataclass(eq=False)
class MaskRounds:
    """Iterate to get (number, plan, public arguments) of each round; `learn` each release.

    Source: `docs/theory/high-dimensional.md#the-bound`.

    Parameters
    ----------
    codec : Codec, public; several rounds need a `LinearCodec`
    scans : array of shape (queries, *spatial), the public scans that are queried, without channels
    n_teachers : int, public; with `each_alone` the number by which sums are divided
    each_alone : bool, every person is a teacher: half the sensitivity (`UnitMean`)
    noise : float, mu^2 of all rounds together is 1/noise^2
    rounds : int, 1, 2 or 4; each has a fixed share of mu^2, the later ones more
    shared : bool, two aggregators add the codes of many sites, and a noise each (`SharedCodes`)
    """

    codec: Any
    scans: NDArray[Any] = field(repr=False)
    _: KW_ONLY
    n_teachers: int
    each_alone: bool
    noise: float
    rounds: int
    shared: bool = False

    def __post_init__(self) -> None:
        self.kind: Any = UnitMean if self.each_alone else GaussianMean
        if self.shared:
            if self.each_alone:
                raise InvalidArgument("Expected each_alone=False where two aggregators add.")
            self.kind = SharedCodes
        self.linear = isinstance(self.codec, LinearCodec)
        if self.rounds not in SHARES or (self.rounds > 1 and not self.linear):
            raise InvalidArgument(
                f"Expected rounds={self.rounds} to be 1, or 2 or 4 with a linear codec like "
                "PCACodec."
            )
        self._released: list[tuple[Floats, Floats]] = []
        self._regression: ImageRegression | None = None
        self._known: Any = None  # by all rounds so far

    def __iter__(self) -> Iterator[tuple[int, Plan, dict[str, Any]]]:
        for number, share in enumerate(SHARES[self.rounds], start=1):
            known = self._known  # by earlier releases: so weights and centres are public
            base = self.codec if known is None else self.codec.remaining(known.spectrum)
            self._round = self._shaped(base, share)
            public = {"weights": self._round.weights} if self.linear else {}
            if known is not None:
                public["centres"] = known.centres
            yield number, self._plan(self._round, share), public

    def plans(self) -> list[Plan]:
        """Return plans with the cost of each round, known before any private data is read.

        Returns
        -------
        list of Plan
            Later rounds may have other radii; mu^2 is their share of the budget all the same.
        """
        shares = SHARES[self.rounds]
        return [self._plan(self._shaped(self.codec, share), share) for share in shares]

    def _plan(self, codec: Any, share: float) -> Plan:
        """Return a round: one bound for all queries, or each its own if the codec is not linear."""
        queries = len(self.scans)
        plan: Plan = self.kind.with_noise(
            self.noise / math.sqrt(share),
            queries=queries,
            radius=codec.joint_radius(queries) if self.linear else codec.diameter / 2,
            n_teachers=self.n_teachers,
            joint=self.linear,
        )
        return plan

    def _shaped(self, codec: Any, share: float) -> Any:
        """Return a linear codec with the weights of water-filling for this share of mu^2."""
        reach = self.kind.RADII * math.sqrt(len(self.scans)) / self.n_teachers
        reach *= math.sqrt(2) if self.shared else 1.0  # what is released has both noises
        return codec.ellipsoid((self.noise * reach) ** 2 / share) if self.linear else codec

    def learn(self, release: Release, teachers: int | None = None) -> None:
        """Store what a round released, and smooth it by the public scans.

        Parameters
        ----------
        release : Release, of the last plan that the iteration gave
        teachers : int, optional
            How many teachers are in it, where sites were absent: fewer leave more noise.
        """
        values = np.asarray(release.values)
        if not self.linear:
            self._answers = self.codec.decode(values)
            return
        mechanism: Any = release.mechanism
        sigma = mechanism.sigma * self.n_teachers / (teachers or self.n_teachers)
        if isinstance(mechanism, SharedCodes):
            sigma *= math.sqrt(2)  # both aggregators' noise is in it
        self._released.append((values, self._round.deviations(sigma)))
        codes, deviations = combine_rounds(*self._released)
        if self._regression is None:
            self._regression = ImageRegression(self.scans, self.codec.mean)
        self._known = smooth_by_images(self.codec, codes, deviations, self._regression)
        self._answers = self._known.answers

    def answers(self) -> Floats:
        """Return soft masks of the queries' foregrounds after all rounds: post-processing.

        Returns
        -------
        array of shape (queries, *shape)
        """
        return np.asarray(self._answers)

    def teach(
        self, student: Any, scans: ArrayLike, *, n_classes: int = 2, cut: str = "volume"
    ) -> Any:
        """Train a student on the masks of the queries after all rounds.

        Parameters
        ----------
        student : estimator, a `UNetStudent`, say: it sees public scans and releases only
        scans : array of shape (queries, *spatial) or (queries, channels, *spatial)
            The public scans that were queried.
        n_classes : int, background included; public
        cut : str, "volume" where the codec knows the mean volume of public masks, or "half"

        Returns
        -------
        estimator, the student, fitted and publishable
        """
        volume = None if cut == "half" else self.public_volume
        masks = cut_masks(self.answers(), n_classes, volume)
        return student.fit(scans, one_hot_masks(masks, n_classes))

    @property
    def public_volume(self) -> float | None:
        """Mean foreground, in voxels, of the codec's public masks; None for a constant centre."""
        mean = np.asarray(getattr(self.codec, "mean", 0.0))
        return float(mean.sum()) if np.ptp(mean) > 0 else None


@dataclass(frozen=True, slots=True)
class EncodeMasks:
    """What teachers send of their soft masks: the code of all but the background.

    Plain fields, so that another process has the same fingerprint and finds a checkpoint again.

    Parameters
    ----------
    codec : Codec, public
    n_classes : int, background included; public
    """

    codec: Any
    n_classes: int

    def __call__(self, soft: NDArray[Any]) -> Floats:
        """Return codes (queries, length) of soft masks (queries, n_classes, *spatial). Secret."""
        return np.asarray(self.codec.encode(foreground(soft, self.n_classes)))


def foreground(soft: ArrayLike, n_classes: int) -> NDArray[Any]:
    """Return soft masks without the background: (n, *spatial) of two classes."""
    array = np.asarray(soft)
    return array[:, 1] if n_classes == 2 else array[:, 1:]


def cut_masks(soft: ArrayLike, n_classes: int, volume: float | None = None) -> Floats:
    """Return foregrounds as 0 or 1, cut at 1/2 or where an organ has `volume` voxels on average."""
    array = np.asarray(soft, dtype=np.float64)
    parts = array[:, None] if n_classes == 2 else array
    total, best = parts.sum(axis=1), parts.argmax(axis=1)
    level = 0.5 if volume is None else level_of_volume(total, volume)
    hard = [(total > level) & (best == place) for place in range(parts.shape[1])]
    return np.stack(hard, axis=1).reshape(array.shape).astype(np.float64)


def level_of_volume(soft: NDArray[Any], volume: float) -> float:
    """Return the level above which soft masks have `volume` voxels on average.

    Parameters
    ----------
    soft : array of shape (n, *spatial), released fractions of the foreground
    volume : float, voxels that an organ has on average; public

    Returns
    -------
    float, between 0.01 and 0.99; far below 1/2 where lesions lie elsewhere in every scan
    """
    falling = np.sort(np.asarray(soft, dtype=np.float64), axis=None)[::-1]
    kept = min(max(round(volume * len(soft)), 1), falling.size - 1)
    # Half-way between the last voxel that belongs to it and the first that does not.
    level = falling[kept - 1] / 2 + falling[kept] / 2
    return float(np.clip(level, _LEAST_LEVEL, 1 - _LEAST_LEVEL))


def one_hot_masks(answers: ArrayLike, n_classes: int) -> NDArray[np.float32]:
    """Return released foregrounds as probabilities (n, n_classes, *spatial) of all classes."""
    array = np.asarray(answers, dtype=np.float32).clip(0, 1)
    parts = array[:, None] if n_classes == 2 else array
    parts = parts / np.maximum(parts.sum(axis=1, keepdims=True), 1.0)
    background = 1 - parts.sum(axis=1, keepdims=True)
    return np.concatenate([background, parts], axis=1)


Single = NDArray[np.float32]


# Voxels whose mean answer is this close to 0 or 1 in every channel are not predicted.
_UNCERTAIN = 0.02
# Steps, in voxels, to the neighbours that are seen sharply and blurred.
_NEAR, _FAR, _FAR_BLUR = 1, 3, 1.2
_POOL = 9  # so many neighbouring coordinates share an estimate of what the images left unexplained
_PRIOR = 4.0  # precision of the prior that nothing is explained: a deviation of 1/2
_LEAST = 0.02
_FOLDS = 5  # of the queries: each is predicted from the others
_PENALTY = 3e-3  # of the ridge regression, in units of the features' mean square


_MOST_BYTES = 2**32


class ImageRegression:
    """Predict answers from public images: random features of a voxel's surroundings, and ridge.

    The features are a voxel's surroundings (intensities, position, mean answer) and rectified
    random mixtures of these (Rahimi and Recht 2007).

    Parameters
    ----------
    images : array of shape (queries, *sides), public
    mean : array of shape (*sides) or (channels, *sides)
        The public mean answer; only voxels where it is between 0.02 and 0.98 are predicted.
    n_features : int, how many random mixtures describe a voxel, beside what they mix
    """

    def __init__(self, images: ArrayLike, mean: ArrayLike, *, n_features: int = 600) -> None:
        pictures, prior = finite_array(images=images), finite_array(mean=mean)
        sides = pictures.shape[1:]
        if not len(pictures) or not sides or prior.shape[-len(sides) :] != sides:
            raise InvalidArgument(
                f"Expected images (queries, *sides) for a mean of shape {prior.shape}, got "
                f"{pictures.shape}."
            )
        self.mean = prior
        planes = prior.reshape(-1, *sides)
        between = (planes > _UNCERTAIN) & (planes < 1 - _UNCERTAIN)
        self._voxels = np.asarray(between.any(axis=0))
        seen, known = _surroundings(pictures, self._voxels), _prior(planes, self._voxels)
        self._features = _random_features(seen, known, at_least(0, n_features=n_features))
        self._products = [rows.T @ rows for rows in self._features]
        self._chosen = np.arange(len(pictures))
        self._factors: list[Any] = []

    def rows(self, chosen: ArrayLike) -> ImageRegression:
        """Return the regression of some of the queries; features are shared.

        Parameters
        ----------
        chosen : array of int, numbers of queries

        Returns
        -------
        ImageRegression
        """
        part = object.__new__(ImageRegression)
        vars(part).update(vars(self))
        part._chosen = self._chosen[np.asarray(chosen)]
        part._factors = []
        return part

    def predict(self, answers: ArrayLike) -> Floats:
        """Return predictions for each query, learned from the other folds' `answers`.

        Parameters
        ----------
        answers : array of shape (queries, *mean.shape), released and decoded

        Returns
        -------
        array of shape (queries, *mean.shape)
            The mean itself where there is one query, or a voxel is not predicted.
        """
        targets = answer_rows(answers, self.mean.shape) - self.mean
        count = len(targets)
        if count != len(self._chosen):
            raise InvalidArgument(f"Expected {len(self._chosen)} answers, got {count}.")
        offsets = np.zeros((count, *self.mean.shape))
        if count < 2 or not self._voxels.any():
            return offsets + self.mean
        planes = (count, -1, *self._voxels.shape)
        wanted = targets.reshape(planes)[:, :, self._voxels].astype(np.float32)
        features = [self._features[one] for one in self._chosen]
        pulls = np.stack([rows.T @ one.T for rows, one in zip(features, wanted, strict=True)])
        learned = [solve(pulls) for solve in self._solvers(count)]
        made = offsets.reshape(planes)
        for query, rows in enumerate(features):
            made[query][:, self._voxels] = (rows @ learned[query % _FOLDS]).T
        return offsets + self.mean

    def _solvers(self, count: int) -> list[Any]:
        """Return, for each fold, the matrices that give coefficients without it."""
        if not self._factors:
            of_fold = np.arange(count) % _FOLDS
            nothing = np.zeros(self._products[0].shape)
            sums = []
            for fold in range(min(_FOLDS, count)):
                chosen = self._chosen[of_fold == fold]
                sums.append(sum((self._products[query] for query in chosen), nothing))
            total = np.sum(sums, axis=0)
            self._factors = [
                _solver(total - part, of_fold != fold) for fold, part in enumerate(sums)
            ]
        return self._factors


def _solver(matrix: Floats, rows: NDArray[np.bool_]) -> Any:
    """Factorise the ridge regression of these queries."""
    from scipy.linalg import cho_factor, cho_solve

    ridge = _PENALTY * float(np.trace(matrix)) / len(matrix)
    factor = cho_factor(matrix + ridge * np.eye(len(matrix)))

    def solve(pulls: Single) -> Single:
        pull = pulls[rows].sum(axis=0, dtype=np.float64)
        return np.asarray(cho_solve(factor, pull), dtype=np.float32)

    return solve


@dataclass(frozen=True, slots=True, eq=False)
class Smoothed:
    """Answers after smoothing, their codes, and what remains about these.

    Parameters
    ----------
    answers : array of shape (queries, *shape), predictions, corrected by the releases
    predicted : array of shape (queries, *shape)
        Predictions from the public images, learned from the other queries' releases.
    centres : array of shape (queries, length)
        Codes of the answers: public centres of another round.
    spectrum : array of shape (length,)
        Second moments about the centres, for `codec.remaining(spectrum)`.
    """

    answers: Floats
    predicted: Floats
    centres: Floats
    spectrum: Floats


def smooth_by_images(
    codec: LinearCodec, codes: ArrayLike, deviations: ArrayLike, regression: ImageRegression
) -> Smoothed:
    """Shrink releases towards what the public images predict: prediction + w (code - its code).

    w = r/(r + sigma^2), r the second moment of (code - predicted code) estimated from the releases.
    What remains is r (1 - w).

    Parameters
    ----------
    codec : LinearCodec, whose codes were released
    codes : array of shape (queries, length), releases
    deviations : float or array of shape (length,)
        Of their noise; infinite where a coordinate was left out, which stays as predicted.
    regression : ImageRegression, of the same queries

    Returns
    -------
    Smoothed, post-processing of the releases
    """
    noisy = code_rows(finite_array(codes=codes), codec.length)
    spread = np.broadcast_to(np.asarray(deviations, dtype=np.float64), (codec.length,))
    shrunk = wiener_weights(codec.spectrum, spread) * noisy
    predicted = regression.predict(codec.decode(shrunk))
    places = codec.coordinates(predicted)
    left = _unexplained(noisy - places, codec.spectrum, spread)
    weights = wiener_weights(left, spread)
    steps = weights * (noisy - places)
    answers = predicted + codec.decode(steps) - codec.mean
    return Smoothed(answers, predicted, places + steps, left * (1 - weights))


def _unexplained(offsets: Floats, spectrum: Floats, deviations: Floats) -> Floats:
    """Return second moments of offsets without their noise, as a pooled share of the spectrum.

    A share over n queries has the variance 2 (lambda + sigma^2)^2 / (n lambda^2): neighbours are
    averaged by its inverse, with a prior at 1, for too small a share would make the next round
    clip.
    """
    known = np.isfinite(deviations) & (spectrum > 0)
    noise = np.square(np.where(known, deviations, 0.0))
    shares, precision = np.zeros(spectrum.size), np.zeros(spectrum.size)
    moments = np.square(offsets).mean(axis=0) - noise
    np.divide(moments, spectrum, out=shares, where=known)
    np.divide(spectrum, spectrum + noise, out=precision, where=known)
    precision = len(offsets) / 2 * np.square(precision)
    sums = [
        np.convolve(values, np.ones(_POOL))[_POOL // 2 :][: spectrum.size]
        for values in (precision * shares, precision)
    ]
    pooled = (sums[0] + _PRIOR) / (sums[1] + _PRIOR)
    return np.asarray(np.clip(pooled, _LEAST, 1.0) * spectrum)


def _surroundings(images: Floats, voxels: NDArray[np.bool_]) -> Single:
    """Return (queries, voxels, numbers): intensities near and, blurred, further away; edges."""
    from scipy.ndimage import gaussian_filter, gaussian_gradient_magnitude

    found: list[Any] = []
    for image in images:
        inside = image[voxels]
        scaled = (image - inside.mean()) / max(float(inside.std()), 1e-12)
        far = gaussian_filter(scaled, _FAR_BLUR)
        edges = gaussian_gradient_magnitude(scaled, 1.0)[voxels]
        around = _neighbours(scaled, voxels, _NEAR), _neighbours(far, voxels, _FAR)
        found.append(np.column_stack([*around, edges]))
    seen = np.stack(found)
    return np.asarray(seen / np.maximum(seen.std(axis=(0, 1)), 1e-12), dtype=np.float32)


def _neighbours(image: Floats, voxels: NDArray[np.bool_], step: int) -> Floats:
    """Return (voxels, 3^d): values `step` voxels away in every direction, the middle included."""
    padded = np.pad(image, step, mode="edge")
    windows = sliding_window_view(padded, (2 * step + 1,) * image.ndim)
    ends: Any = (..., *[slice(None, None, step)] * image.ndim)
    return np.asarray(windows[ends][voxels].reshape(-1, 3**image.ndim))


def _prior(planes: Floats, voxels: NDArray[np.bool_]) -> Single:
    """Return (voxels, numbers): position, and the mean answer's logit and slopes by channel."""
    from scipy.ndimage import gaussian_filter

    sides = voxels.shape
    axes = np.meshgrid(*(np.linspace(-1, 1, side) for side in sides), indexing="ij")
    columns = [axis[voxels] for axis in axes]
    for plane in np.clip(planes, 0.0, 1.0):
        logits = np.log((plane + _UNCERTAIN) / (1 + _UNCERTAIN - plane))
        orders = [[0] * len(sides), *np.eye(len(sides), dtype=int).tolist()]
        columns += [gaussian_filter(logits, 1.0, order=order)[voxels] for order in orders]
    known = np.stack(columns, axis=1)
    known = (known - known.mean(axis=0)) / np.maximum(known.std(axis=0), 1e-12)
    return np.asarray(known, dtype=np.float32)


def _random_features(seen: Single, known: Single, count: int) -> Single:
    """Return (queries, voxels, features): relu(random mixtures), what they mix, and 1."""
    rng = np.random.default_rng(0)
    n_queries, n_voxels, n_seen = seen.shape
    n_known = known.shape[1]
    width = count + n_seen + n_known + 1
    if 4 * n_queries * n_voxels * width > _MOST_BYTES:
        raise InvalidArgument(
            f"Expected images whose features fit 4 GiB, got {n_queries} x {n_voxels} voxels; "
            "resample them to a coarser grid or use fewer features."
        )
    # A voxel's place says more than one neighbour's intensity: twice its weight.
    of_seen = rng.normal(scale=n_seen**-0.5, size=(n_seen, count)).astype(np.float32)
    of_known = rng.normal(scale=2 * n_known**-0.5, size=(n_known, count)).astype(np.float32)
    shift = known @ of_known + rng.normal(size=count).astype(np.float32)
    features = np.ones((n_queries, n_voxels, width), dtype=np.float32)
    for one, rows in zip(seen, features, strict=True):
        rows[:, :count] = np.maximum(one @ of_seen + shift, 0)
        rows[:, count : count + n_seen] = one
        rows[:, count + n_seen : -1] = known
    return features
