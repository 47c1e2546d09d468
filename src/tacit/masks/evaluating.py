"""Private evaluation of masks: held-out scans contribute Dice scores once, through the ledger.

Each scan is segmented alone, so that its scores do not depend on other scans; it adds one vector of
norm at most 1 to one noisy sum, and a person adds the mean over the own scans
(docs/theory/evaluation.md#masks).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._checks import Floats, at_least, finite_rows, probability, unquoted
from tacit._progress import training_bar
from tacit.errors import InvalidArgument
from tacit.evaluate import (
    Design,
    Evaluation,
    Payer,
    carry_out,
    columns_of,
    faults_of,
    mean_of_own,
    said_of_masks,
    score_names,
)
from tacit.ledger import KeptReleases, Ledger
from tacit.masks.results import dice_scores, organ_dice
from tacit.masks.unet import scan_floats
from tacit.masks.volumes import are_classes
from tacit.mechanisms import NoisySum, Plan
from tacit.methods import NewLedger
from tacit.noise import InsecureNoise
from tacit.records import PrivateRecords, is_from_data, people_of, read_stack, refuse_overlap

Draw = Callable[[int], NDArray[Any]]
"""From a private scan's index to the model's mask."""


def evaluate_masks(
    model: Any,
    images: ArrayLike,
    masks: ArrayLike,
    *,
    epsilon: float,
    ledger: Ledger | NewLedger,
    n_records: int | str,
    n_classes: int,
    delta: float | None = None,
    share: float = 1.0,
    X_public: ArrayLike | None = None,
    classes: Sequence[str] = (),
    groups: ArrayLike | None = None,
    disjoint: bool = False,
    allow_overlap: bool = False,
    noise: InsecureNoise | None = None,
    kept: KeptReleases | None = None,
) -> Evaluation:
    """Release once, with differential privacy, how well a model segments held-out private scans.

    A scan with nothing to find is counted separately, not as Dice 1. A scan on which the model
    fails is counted nowhere, silently: an error would leak it. Source:
    docs/theory/evaluation.md#masks.

    Parameters
    ----------
    model : segmenter
        Public: a fitted `PATESegmenter`, its student, or anything whose `predict` makes masks of
        scans (n, *spatial).
    images : array of shape (n, *spatial) or (n, channels, *spatial)
        Held-out scans, normalised as those of `fit`. Secret; no error quotes them.
    masks : array of int, of shape (n, *spatial), true classes, 0 the background; secret
    epsilon, ledger : as in `tacit.evaluate.evaluate`
    n_records : int or str
        How many scans (people, with `groups`) there are, as publicly declared. "from_data" counts
        them, which no cost covers.
    n_classes : int, background included; public
    delta : float, optional, of a ledger that is made
    share : float, of scans with something to find, as publicly known: it decides the release
    X_public : array of scans, optional, public; a private scan that equals one of them is refused
    classes : sequence of str, optional, their names, the background's first
    groups : array of shape (n,), optional
        The person of each scan; everybody counts once, with the mean of the own scans. Secret.
    disjoint, allow_overlap, noise, kept : as in `tacit.evaluate.evaluate`

    Returns
    -------
    Evaluation
        Public. Mean Dice of the foreground and of each class, over the scans whose truth holds it;
        the share of scans with something to find; how often nothing is found where there is none.
    """
    scans = read_stack(images, name="images")
    if not finite_rows(scans).all():
        raise InvalidArgument("Expected images to hold finite numbers only; remove NaN.")
    truth = read_stack(masks, name="masks")
    size = at_least(2, n_classes=n_classes)
    if truth.ndim < 3 or len(truth) != len(scans) or not are_classes(truth, size).all():
        raise InvalidArgument(
            f"Expected masks (n, *spatial) of classes 0 .. {size - 1}, one for each scan."
        )
    truth = truth.astype(np.int64)
    if classes and len(classes) != size:
        raise InvalidArgument(f"Expected classes to hold a name for each of the {size} classes.")
    if X_public is not None and not allow_overlap:
        refuse_overlap(scans, scan_floats(X_public=X_public))

    draws = drawing(model, np.zeros_like(scans[:1]), truth.shape[1:])

    def draw(place: int) -> NDArray[Any]:
        return draws(scans[place : place + 1])

    return told_by_masks(
        draw,
        list(truth),
        list(classes) or [f"class {place}" for place in range(size)],
        model=model,
        groups=groups,
        epsilon=epsilon,
        ledger=ledger,
        delta=delta,
        n_records=n_records,
        share=share,
        disjoint=disjoint,
        allow_overlap=allow_overlap,
        noise=noise,
        kept=kept,
    )


def drawing(
    model: Any, blank: NDArray[Any], shape: tuple[int, ...], *, chances: bool = False
) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return a function from a scan to its mask or class probabilities, tried on a blank scan."""
    own = getattr(model, "student_", model)

    def drawn(scan: NDArray[Any]) -> NDArray[Any]:
        # A copy each: what a model remembers of one scan must not reach another's mask.
        alone: Any = deepcopy(own)
        found = (alone.predict_proba if chances else alone.predict)(scan)
        return np.asarray(np.asarray(found)[0])

    if drawn(blank).shape[-len(shape) :] != shape:
        raise InvalidArgument(
            f"Expected model={type(model).__name__} to make one mask of shape {shape} of a scan."
        )
    return drawn


def told_by_masks(
    draw: Draw,
    truth: Sequence[NDArray[Any]],
    classes: list[str],
    *,
    model: Any,
    groups: Any,
    epsilon: float,
    ledger: Ledger | NewLedger,
    delta: float | None,
    n_records: int | str,
    share: float | None,
    disjoint: bool,
    allow_overlap: bool,
    noise: InsecureNoise | None = None,
    kept: KeptReleases | None = None,
) -> Evaluation:
    """Fix the release from declared numbers, then compute each scan's scores."""
    people = people_of(groups, len(truth))
    private = PrivateRecords(np.zeros((len(truth), 1)), np.zeros(len(truth)), people)
    about_unit: dict[str, Any] = {"by_person": people is not None, "each": "scan"}
    payer = Payer.of(ledger, epsilon, delta, model=model, disjoint=disjoint, **about_unit)
    size = private.n_units if is_from_data(n_records) else at_least(2, n_records=n_records)
    something = 1.0 if share is None or share == 1 else probability(share=share)
    scores = score_names(classes)
    columns = columns_of(len(scores))
    sigma = payer.noise_for(lambda noise: NoisySum(noise, 1, columns))
    about = {"n_records": size, "shares": [something], "numbers": {"scores": scores}}
    about["classes"] = classes
    plans = [Plan(NoisySum(sigma, 1, columns), 1)]
    design = Design("masks", sigma, plans, ["evaluate: Dice of each scan"], about)

    def answers() -> list[Any]:
        return [mean_of_own(_said_alone(draw, truth, len(classes)), private)]

    faults = faults_of(disjoint, allow_overlap, n_records, model=model)
    return carry_out(design, payer, answers, faults=faults, noise=noise, kept=kept)


def _said_alone(draw: Draw, truth: Sequence[NDArray[Any]], n_classes: int) -> Floats:
    """Return each scan's scores, computed alone; nothing where the model fails. Secret."""
    rows = np.zeros((len(truth), columns_of(n_classes if n_classes > 2 else 1)))
    with training_bar("Masks of private scans", total=len(truth)) as step:
        for place, mask in enumerate(truth):

            def say(place: int = place, mask: NDArray[Any] = mask) -> Floats:
                return _said(draw(place), mask, n_classes)

            try:
                rows[place] = unquoted(say, "a model that draws a mask of each scan")
            except InvalidArgument:  # without words: whether it fails is the scan's own
                rows[place] = 0.0
            step()
    return rows


def _said(drawn: NDArray[Any], mask: NDArray[Any], n_classes: int) -> Floats:
    dice, there = organ_dice(drawn[None], mask[None]), [bool(mask.any())]
    if n_classes > 2:
        each = dice_scores(drawn[None], mask[None], n_classes=n_classes)[0]
        dice = np.concatenate([dice, each])
        there += [bool((mask == one).any()) for one in range(1, n_classes)]
    (row,) = said_of_masks(dice[None], np.array([there]), np.array([bool(drawn.any())]))
    return np.asarray(row)
