"""The posterior is calibrated on votes drawn from its own model, and never overstates a release."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, softmax

from tacit import ConfidentGNMax, GNMax, InsecureNoise, InteractiveGNMax, LNMax, NoisyVotes
from tacit._checks import simplex_rows
from tacit.errors import InvalidArgument
from tacit.mechanisms import Release, ThresholdCheck
from tacit.students import answer_weights, label_posterior

QUERIES = 3000


def draw_votes(
    agreement: Any, *, n_teachers: int, n_classes: int, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Right classes and votes of independent teachers who each are right with this probability."""
    rng = np.random.default_rng(seed)
    right = rng.integers(0, n_classes, QUERIES)
    each = np.broadcast_to(agreement, QUERIES)
    chances = np.repeat(((1 - each) / (n_classes - 1))[:, None], n_classes, axis=1)
    chances[np.arange(QUERIES), right] = each
    return right, rng.multinomial(n_teachers, chances)


def uniform_agreements(n_classes: int) -> NDArray[np.float64]:
    return np.random.default_rng(7).uniform(1 / n_classes, 1, QUERIES)


def gap(posterior: NDArray[np.float64], right: NDArray[np.int64]) -> float:
    """Mean confidence minus accuracy."""
    return float(posterior.max(axis=1).mean() - (posterior.argmax(axis=1) == right).mean())


@pytest.mark.parametrize(
    ("n_classes", "n_teachers", "scale"), [(10, 250, 40), (10, 1000, 300), (2, 100, 30), (5, 50, 5)]
)
@pytest.mark.parametrize("law", ["gaussian", "laplace", "histogram"])
def test_confidence_is_accuracy(n_classes: int, n_teachers: int, scale: float, law: str) -> None:
    mechanism = {
        "gaussian": GNMax(scale),
        "laplace": LNMax(1 / scale),
        "histogram": NoisyVotes(scale),
    }[law]
    right, votes = draw_votes(
        uniform_agreements(n_classes), n_teachers=n_teachers, n_classes=n_classes
    )
    release = mechanism.release(votes, InsecureNoise(1))
    posterior = label_posterior(release, n_classes=n_classes, n_teachers=n_teachers)
    assert abs(gap(posterior, right)) < 0.03


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_known_agreement_replaces_the_prior(law: str) -> None:
    right, votes = draw_votes(0.55, n_teachers=200, n_classes=10)
    mechanism = GNMax(30) if law == "gaussian" else LNMax(1 / 20)
    release = mechanism.release(votes, InsecureNoise(1))
    told = label_posterior(release, n_classes=10, n_teachers=200, agreement=0.55)
    assert abs(gap(told, right)) < 0.03
    assert abs(gap(label_posterior(release, n_classes=10, n_teachers=200), right)) > 0.05


@pytest.mark.parametrize("agreement", [0.35, 0.6, 0.95, "mixed"])
def test_histograms_reveal_the_agreement_themselves(agreement: Any) -> None:
    if agreement == "mixed":
        agreement = np.random.default_rng(3).choice([0.3, 0.9], QUERIES)
    right, votes = draw_votes(agreement, n_teachers=250, n_classes=10)
    release = NoisyVotes(50).release(votes, InsecureNoise(1))
    posterior = label_posterior(release, n_classes=10, n_teachers=250)
    # Where the noise hides the agreement, the posterior may be too modest, but not too bold.
    assert -0.06 < gap(posterior, right) < 0.03


def test_a_histograms_confidence_holds_row_by_row() -> None:
    right, votes = draw_votes(uniform_agreements(10), n_teachers=250, n_classes=10)
    release = NoisyVotes(50).release(votes, InsecureNoise(1))
    posterior = label_posterior(release, n_classes=10, n_teachers=250)
    confidence = posterior.max(axis=1)
    for low, high in ((0.1, 0.3), (0.3, 0.6), (0.6, 0.9), (0.9, 1.01)):
        rows = (low <= confidence) & (confidence < high)
        assert rows.sum() > 100
        assert abs(gap(posterior[rows], right[rows])) < 0.08


def test_a_passed_check_raises_confidence_to_what_it_proves() -> None:
    right, votes = draw_votes(uniform_agreements(10), n_teachers=250, n_classes=10)
    release = ConfidentGNMax(150, 40, 40).release(votes, InsecureNoise(1))
    posterior = label_posterior(release, n_classes=10, n_teachers=250)
    answered = np.asarray(release.labels) >= 0
    assert abs(gap(posterior[answered], right[answered])) < 0.03
    plain = label_posterior(
        GNMax(40).release(votes, InsecureNoise(1)), n_classes=10, n_teachers=250
    )
    assert posterior[answered].max() > plain.max() + 0.1


def test_two_unanimous_classes_match_the_closed_form() -> None:
    release = GNMax(70).release([[100, 0]], InsecureNoise(0))
    posterior = label_posterior(release, n_classes=2, n_teachers=100, agreement=1.0)
    assert posterior.max() == pytest.approx(ndtr(100 / (np.sqrt(2) * 70)), abs=1e-4)


def test_unanimous_histograms_match_the_softmax_of_the_recipe() -> None:
    values = np.random.default_rng(0).normal(size=(20, 4)) * 30
    release = Release(NoisyVotes(30), values=values, secure=False)
    posterior = label_posterior(release, n_classes=4, n_teachers=50, agreement=1.0)
    np.testing.assert_allclose(posterior, softmax(50 * values / (30**2 + 1 / 12), axis=1))


@pytest.mark.parametrize("make", [GNMax, lambda sigma: LNMax(1 / sigma), NoisyVotes])
def test_more_noise_never_adds_confidence(make: Any) -> None:
    _, votes = draw_votes(0.7, n_teachers=100, n_classes=5)
    means = [
        label_posterior(make(sigma).release(votes, InsecureNoise(2)), n_classes=5, n_teachers=100)
        .max(axis=1)
        .mean()
        for sigma in (2, 30, 100, 5000)
    ]
    assert all(low < high for high, low in pairwise(means))
    assert means[-1] < 0.3


def test_unanswered_rows_are_uniform_and_weigh_nothing() -> None:
    release = Release(ConfidentGNMax(30, 1, 1), labels=np.array([-1, 2, -1]), secure=False)
    posterior = label_posterior(release, n_classes=4, n_teachers=50)
    np.testing.assert_array_equal(posterior[[0, 2]], 0.25)
    weights = answer_weights(posterior)
    assert weights[0] == weights[2] == 0
    assert weights[1] > 0.9


def test_interactive_labels_count_at_most_as_the_student_did() -> None:
    release = Release(InteractiveGNMax(30, 1, 1, 0.6), labels=np.array([0, -1]), secure=False)
    posterior = label_posterior(release, n_classes=3, n_teachers=50)
    assert posterior[0, 0] == pytest.approx(0.6)
    assert posterior[1].tolist() == pytest.approx([1 / 3] * 3)


def test_an_unreachable_threshold_still_gives_a_posterior() -> None:
    release = Release(ConfidentGNMax(1e9, 1, 1), labels=np.array([1]), secure=False)
    posterior = label_posterior(release, n_classes=3, n_teachers=10)
    assert posterior.sum() == pytest.approx(1)
    assert posterior.argmax() == 1


@pytest.mark.parametrize("mechanism", [GNMax(1e-3), GNMax(1e9), NoisyVotes(1e-3), NoisyVotes(1e9)])
def test_extreme_noise_stays_a_distribution(mechanism: Any) -> None:
    release = mechanism.release([[60, 40, 0], [0, 0, 100]], InsecureNoise(0))
    posterior = label_posterior(release, n_classes=3, n_teachers=100)
    assert np.isfinite(posterior).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    assert (posterior >= 0).all()


@pytest.mark.parametrize(
    ("release", "options", "message"),
    [
        (Release(GNMax(1), labels=np.array([3])), {}, "Expected labels in -1 .. 2"),
        (Release(GNMax(1), labels=np.array([-2])), {}, "Expected labels in -1 .. 2"),
        (Release(NoisyVotes(1), values=np.ones((2, 4))), {}, "shape (queries, 3)"),
        (Release(NoisyVotes(1), values=np.full((2, 3), np.nan)), {}, "finite numbers"),
        (Release(ThresholdCheck(3, 1), labels=np.array([1])), {}, "threshold-check"),
        (Release(GNMax(1), labels=np.array([1])), {"agreement": 0.1}, "agreement=0.1"),
        (Release(GNMax(1), labels=np.array([1])), {"n_classes": 1}, "n_classes=1"),
        (Release(GNMax(1), labels=np.array([1])), {"n_teachers": 0}, "n_teachers=0"),
    ],
)
def test_refusals(release: Release, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        label_posterior(release, **{"n_classes": 3, "n_teachers": 10, **options})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "rows", [[0.5, 0.5], [[1.0]], [[0.6, 0.6]], [[1.5, -0.5]], [[np.nan, 1.0]], "words"]
)
def test_what_is_no_posterior_is_refused(rows: Any) -> None:
    with pytest.raises(InvalidArgument):
        simplex_rows(posterior=rows)
