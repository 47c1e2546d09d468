"""Mechanisms on neighbours: what they draw, release, cost and refuse."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from knn_reference import Reference, Silent, Spoilt

import tacit
from tacit._registry import MECHANISMS, mechanism_class
from tacit.errors import (
    GrantError,
    InvalidArgument,
    UnlicensedNoise,
)
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import (
    NeighbourAnswers,
    NoisyScreening,
    Plan,
    SampledLabels,
    SampledMax,
    SampledMean,
    SampledMedian,
    SampledVotes,
    ScreeningCheck,
    SelectiveMechanism,
    assumptions,
)
from tacit.neighbours import NeighbourIndex
from tacit.noise import GrantedNoise, InsecureNoise, SecureNoise
from tacit.privacy import (
    poisson_gaussian_rdp,
    sampled_exponential_rdp,
    sampled_screening_rdp,
    sampled_threshold_rdp,
)

ORDERS = [1.5, 4.0, 32.0]
CLASSES = np.array([2, 2, 1, 2, 0, 2, 1, 1])
LABELS = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1], [0, 0, 1]])
NUMBERS = np.array([0.5, 3.0, -7.0, 1.5, 2.5, 9.0])
CASES = [
    (SampledMax(2.0, k=4, sampling_rate=0.5), CLASSES, 3),
    (SampledVotes(2.0, k=4, sampling_rate=0.5), CLASSES, 3),
    (ScreeningCheck(2.0, 1.0, k=4, sampling_rate=0.5), CLASSES, 3),
    (NoisyScreening(2.0, 1.0, 2.0, k=4, sampling_rate=0.5), CLASSES, 3),
    (SampledLabels(2.0, k=4, sampling_rate=0.5, tau=2.0), LABELS, None),
    (SampledMean(0.5, k=4, sampling_rate=0.5, low=0.0, high=5.0), NUMBERS, None),
    (SampledMedian(1.0, k=4, sampling_rate=0.5, grid=(0.0, 5.0, 11)), NUMBERS, None),
]
EVERY = pytest.mark.parametrize(
    ("mechanism", "targets", "n_classes"), CASES, ids=[case[0].name for case in CASES]
)
GAUSSIAN = [case for case in CASES if case[0].name != "sampled-median"]


def released(mechanism, answers, noise, n_classes=None):
    public = Plan(mechanism, answers.n_queries, n_classes=n_classes).release_arguments()
    return mechanism.release(answers, noise, **public)


@EVERY
class TestEvery:
    def test_seeded_noise_repeats_and_says_so(self, mechanism, targets, n_classes):
        one, two = (
            released(mechanism, Reference(targets, 5), InsecureNoise(3), n_classes)
            for _ in range(2)
        )
        assert np.array_equal(np.asarray(one), np.asarray(two))
        assert (one.entry, one.secure, len(one)) == (None, False, 5)
        assert one.mechanism is mechanism

    def test_only_granted_noise_is_taken(self, mechanism, targets, n_classes):
        answers = Reference(targets, 5)
        release = released(mechanism, answers, GrantedNoise(SecureNoise(), "e" * 64), n_classes)
        assert (release.entry, release.secure) == ("e" * 64, True)
        answers.calls.clear()
        for noise in (SecureNoise(), None, np.random.default_rng(0)):
            with pytest.raises(UnlicensedNoise):
                released(mechanism, answers, noise, n_classes)
        closed = GrantedNoise(SecureNoise(), "e" * 64)
        closed.close()
        with pytest.raises(GrantError):
            released(mechanism, answers, closed, n_classes)
        assert answers.calls == []

    def test_is_frozen_hashable_data(self, mechanism, targets, n_classes):
        with pytest.raises(dataclasses.FrozenInstanceError):
            mechanism.k = 5
        assert hash(mechanism) == hash(dataclasses.replace(mechanism))
        assert mechanism == dataclasses.replace(mechanism)
        assert not hasattr(mechanism, "__dict__")

    def test_a_rate_at_which_nobody_would_take_part_is_refused(self, mechanism, targets, n_classes):
        with pytest.raises(InvalidArgument, match=r"sampling_rate=.* at least 2\*\*-50"):
            dataclasses.replace(mechanism, sampling_rate=2.0**-51)

    def test_no_data_dependent_cost(self, mechanism, targets, n_classes):
        secret = mechanism.secret_cost(Reference(targets, 5), ORDERS)
        assert np.array_equal(secret.values, np.tile(mechanism.cost(ORDERS).values, (5, 1)))
        assert mechanism.confidence_delta() == 0

    def test_wrong_answers_are_refused(self, mechanism, targets, n_classes):
        plan = Plan(mechanism, 5, n_classes=n_classes)
        plan.accept(Reference(targets, 5))
        many = {"owners": np.zeros(len(targets), dtype=int), "votes_per_unit": 2}
        wrong = [
            Reference(targets, 4),
            Reference(targets, 5, **many),
            Reference(targets.astype(str), 5),
            Reference(targets.astype(complex), 5),
            Reference(targets[..., None], 5),
            Reference(targets.astype(float) * np.nan, 5),
            targets,
            None,
        ]
        for answers in wrong:
            with pytest.raises(InvalidArgument):
                plan.accept(answers)
        for answers in wrong[1:]:
            with pytest.raises(InvalidArgument):
                mechanism.release(answers, InsecureNoise(0), **plan.release_arguments())

    def test_a_broken_draw_is_refused(self, mechanism, targets, n_classes):
        for broken in (lambda p: p[:, 1:], lambda p: p - 2, lambda p: p + 100):
            answers = Spoilt(targets, 5)
            answers.spoil = broken
            with pytest.raises(InvalidArgument, match=r"position"):
                released(mechanism, answers, InsecureNoise(0), n_classes)

    def test_every_draw_is_fresh_and_as_priced(self, mechanism, targets, n_classes):
        answers = Reference(targets, 5)
        released(mechanism, answers, InsecureNoise(0), n_classes)
        assert {call[:2] for call in answers.calls} == {(4, 0.5)}
        assert answers.calls[0][2].tolist() == [0, 1, 2, 3, 4]

    def test_nobody_sampled_is_an_answer_like_any_other(self, mechanism, targets, n_classes):
        rare = dataclasses.replace(mechanism, sampling_rate=1e-12)
        release = released(rare, Reference(targets, 5), InsecureNoise(0), n_classes)
        nobody = Reference(targets[:0], 5)
        assert len(released(mechanism, nobody, InsecureNoise(0), n_classes)) == len(release) == 5

    def test_what_it_presumes_is_said(self, mechanism, targets, n_classes):
        (said,) = assumptions([{"mechanism": mechanism.name}])
        assert "without the private records" in said
        assert said.isprintable()

    @pytest.mark.parametrize("accountant", ["rdp", "fixed"])
    def test_the_ledger_takes_it(self, accountant, mechanism, targets, n_classes, tmp_path):
        plan = Plan(mechanism, 5, n_classes=n_classes)
        terms = {"plans": [plan]} if accountant == "fixed" else {"accountant": accountant}
        ledger = Ledger(tmp_path / "run.ledger", budget=Budget(90.0, 1e-5), **terms)
        with ledger.release(plan, purpose="neighbours") as grant:
            release = grant.release(Reference(targets, 5))
        assert release.entry == ledger.entries()[0].hash
        text = str(ledger.statement())
        assert "nobody learns which records were sampled" in text
        assert ledger.spent() >= plan.epsilon(1e-5)
        if accountant == "fixed":
            assert ledger.spent() == plan.epsilon(1e-5)

    def test_whole_data_may_be_gaussian(self, mechanism, targets, n_classes, tmp_path):
        everybody = dataclasses.replace(mechanism, sampling_rate=1.0)
        plan = Plan(everybody, 5, n_classes=n_classes)
        ledger = Ledger(tmp_path / "run.ledger", budget=Budget(90.0, 1e-5), accountant="gaussian")
        with pytest.raises(InvalidArgument, match="accountant='rdp'"):
            ledger.release(Plan(mechanism, 5, n_classes=n_classes), purpose="sampled").__enter__()
        if mechanism.name == "sampled-median":
            assert everybody.gaussian_cost() is None
            return
        with ledger.release(plan, purpose="everybody") as grant:
            grant.release(Reference(targets, 5))
        assert ledger.entries()[0].cost == pytest.approx(5 * everybody.gaussian_cost())

    def test_errors_quote_no_target(self, mechanism, targets, n_classes):
        secret = np.where(targets == targets.flat[0], 7919, targets)
        holes = np.where(secret == 7919, 7919.0, np.nan)
        wrong = [secret.astype(str), secret.astype(complex), secret[..., None], holes]
        if targets is not NUMBERS:  # numbers out of range are clipped, not refused
            wrong += [secret, secret - 7919 * 2]
        for bad in wrong:
            with pytest.raises(InvalidArgument, match="targets") as caught:
                Plan(mechanism, 4, n_classes=n_classes).accept(Reference(bad, 4))
            assert "7919" not in str(caught.value)


def test_which_need_the_number_of_classes():
    for mechanism, _, n_classes in CASES:
        assert mechanism.counts_classes is (n_classes is not None)
        assert isinstance(mechanism, SelectiveMechanism) is (mechanism.name == "noisy-screening")
        if n_classes is not None:
            with pytest.raises(InvalidArgument, match="n_classes"):
                Plan(mechanism, 5)
            with pytest.raises(InvalidArgument, match="n_classes"):
                mechanism.release(Reference(CLASSES, 5), InsecureNoise(0))
            with pytest.raises(InvalidArgument, match=r"0 \.\. 1"):
                Plan(mechanism, 5, n_classes=2).accept(Reference(CLASSES, 5))


def test_every_mechanism_says_what_it_assumes():
    for name in MECHANISMS:
        assert mechanism_class(name).assumes in assumptions([{"mechanism": name}])[0]
    assert tacit.NoisyScreening is NoisyScreening


class TestCosts:
    @pytest.mark.parametrize("c", [1, 3])
    @pytest.mark.parametrize("rate", [0.1, 1.0])
    def test_are_those_of_the_theory(self, rate, c):
        sample = {"k": 9, "sampling_rate": rate, "votes_per_unit": c}
        expected = [
            (SampledMax(4.0, **sample), math.sqrt(2) * c / 4),
            (SampledVotes(4.0, **sample), math.sqrt(2) * c / 4),
            (SampledLabels(4.0, tau=2.5, **sample), math.sqrt(5) * c / 4),
            (SampledLabels(4.0, tau=2.5, clip="l1", **sample), math.sqrt(5) * c / 4),
            (SampledMean(0.7, low=-3, high=4, **sample), 7 * c / (9 * 0.7)),
        ]
        for mechanism, mu in expected:
            assert mechanism.cost(ORDERS).values == pytest.approx(
                poisson_gaussian_rdp(rate, 1 / mu, ORDERS), rel=1e-12
            )
            whole = mechanism.gaussian_cost()
            assert whole is None if rate < 1 else whole == pytest.approx(mu**2, rel=1e-12)

    @pytest.mark.parametrize("c", [1, 3])
    @pytest.mark.parametrize("rate", [0.1, 1.0])
    def test_screening(self, rate, c):
        mechanism = NoisyScreening(5.0, 2.0, 4.0, k=9, sampling_rate=rate, votes_per_unit=c)
        check, answer = mechanism.check, mechanism.answer
        first = sampled_threshold_rdp(9, 5.0, 2.0, rate, ORDERS, displaced=c)
        second = poisson_gaussian_rdp(rate, 4 / (math.sqrt(2) * c), ORDERS)
        assert check.cost(ORDERS).values == pytest.approx(first, rel=1e-12)
        assert answer.cost(ORDERS).values == pytest.approx(second, rel=1e-12)
        both = sampled_screening_rdp(9, 5.0, 2.0, second, rate, ORDERS, c)
        assert mechanism.cost(ORDERS).values == pytest.approx(both, rel=1e-9)
        capped = Plan(mechanism, 50, max_answers=7, n_classes=3).cost(ORDERS).values
        assert capped == pytest.approx(np.minimum(50 * both, 50 * first + 7 * second), rel=1e-9)
        free = Plan(mechanism, 50, n_classes=3).cost(ORDERS).values
        assert free == pytest.approx(50 * both, rel=1e-9)
        whole = mechanism.gaussian_cost()
        assert whole is None if rate < 1 else whole == pytest.approx(c**2 / 4 + 2 * c**2 / 16)

    def test_median(self):
        mechanism = SampledMedian(0.7, k=9, sampling_rate=0.2, votes_per_unit=3)
        expected = sampled_exponential_rdp(0.7, 0.2, ORDERS)
        assert np.array_equal(mechanism.cost(ORDERS).values, expected)


class TestVotes:
    def test_counts_are_those_of_the_nearest(self):
        answers = Reference(CLASSES, 2)
        for k, counts in ((1, [0, 0, 1]), (3, [0, 1, 2]), (5, [1, 1, 3]), (99, [1, 3, 4])):
            release = SampledVotes(1.0, k=k).release(answers, Silent(0), n_classes=3)
            assert release.values.tolist() == [counts, counts]
            label = SampledMax(1.0, k=k).release(answers, Silent(0), n_classes=3).labels
            assert label.tolist() == [2, 2]

    def test_a_person_has_so_many_votes(self):
        owners = [0, 0, 0, 1, 1, 2, 3, 4]
        for c, counts in ((1, [0, 2, 3]), (2, [1, 2, 4])):
            answers = Reference(CLASSES, 1, owners=owners, votes_per_unit=c)
            release = SampledVotes(1.0, k=9, votes_per_unit=c).release(
                answers, Silent(0), n_classes=3
            )
            assert release.values.tolist() == [counts]

    def test_sampled_counts_have_the_right_mean(self):
        """k = 1: record j is counted with probability g (1-g)^j."""
        values = SampledVotes(1.0, k=1, sampling_rate=0.25).release(
            Reference([0, 1, 2], 40_000), Silent(5), n_classes=3
        )
        expected = 0.25 * 0.75 ** np.arange(3)
        assert np.asarray(values).mean(axis=0) == pytest.approx(expected, abs=0.01)

    def test_values_are_whole_numbers(self):
        values = np.asarray(
            SampledVotes(3.3, k=4).release(Reference(CLASSES, 50), InsecureNoise(0), n_classes=3)
        )
        assert (values == np.round(values)).all()
        assert np.ptp(values) > 5

    def test_noise_reaches_every_class(self):
        labels = np.asarray(
            SampledMax(9.0, k=4).release(Reference(CLASSES, 500), InsecureNoise(0), n_classes=6)
        )
        assert set(labels.tolist()) == set(range(6))


class TestScreening:
    def test_answers_only_where_enough_agree(self):
        mechanism = NoisyScreening(2.5, 0.01, 0.01, k=4)
        agree, split = Reference([1, 1, 1, 0], 3), Reference([0, 1, 0, 1], 3)
        noise = InsecureNoise(0)
        assert mechanism.release(agree, noise, n_classes=2).labels.tolist() == [1, 1, 1]
        assert mechanism.release(split, noise, n_classes=2).labels.tolist() == [-1, -1, -1]
        check = mechanism.check.release(agree, noise, n_classes=2)
        assert check.labels.tolist() == [1, 1, 1]

    def test_the_answer_has_a_sample_of_its_own(self):
        answers = Reference([1, 1, 1, 0, 0], 400)
        mechanism = NoisyScreening(2.0, 0.01, 0.01, k=3, sampling_rate=0.5)
        labels = mechanism.release(answers, InsecureNoise(1), n_classes=2).labels
        (_, _, screened), (_, _, answered) = answers.calls
        assert screened.tolist() == list(range(400))
        assert answered.tolist() == np.nonzero(labels >= 0)[0].tolist()
        # Only 1 can pass, for two must agree and 0 wins at most a draw: yet 0 is answered too.
        assert 0 < (labels == 0).sum() < (labels == 1).sum()

    def test_after_the_cap_nothing(self):
        answers = Reference([1, 1, 1], 9)
        mechanism = NoisyScreening(2.5, 0.01, 0.01, k=3)
        capped = mechanism.release(answers, InsecureNoise(0), n_classes=2, max_answers=4)
        assert capped.labels.tolist() == [1] * 4 + [-1] * 5
        assert answers.calls[-1][2].tolist() == [0, 1, 2, 3]
        none = mechanism.release(answers, InsecureNoise(0), n_classes=2, max_answers=0)
        assert none.labels.tolist() == [-1] * 9

    def test_the_ledger_keeps_the_cap_and_the_classes(self, tmp_path):
        plan = Plan(
            NoisyScreening(0.0, 0.1, 9.0, k=3, sampling_rate=0.9), 9, max_answers=2, n_classes=2
        )
        ledger = Ledger(tmp_path / "run.ledger", budget=Budget(9999.0, 1e-5), accountant="rdp")
        with ledger.release(plan, purpose="capped") as grant:
            release = grant.release(Reference([1, 1, 1], 9))
        assert (release.labels >= 0).sum() == 2
        for public in ({"n_classes": 3}, {"max_answers": 9}):
            with (
                ledger.release(plan, purpose="overruled") as grant,
                pytest.raises(GrantError, match="arguments"),
            ):
                grant.release(Reference([1, 1, 1], 9), **public)


def test_neighbours_of_an_index_are_answers(tmp_path):
    """The real search: a ledger, an index of two classes on a line, labels of two queries."""
    X = np.concatenate([np.linspace(-1, -0.5, 60), np.linspace(0.5, 1, 60)])[:, None]
    index = NeighbourIndex(
        X, np.repeat([0, 1], 60), keys=np.arange(120, dtype=np.uint64), radius=1.0
    )
    answers = index.search([[-0.8], [0.8]], reach=20)
    assert isinstance(answers, NeighbourAnswers)
    mechanism = NoisyScreening(10, sigma_screen=1.0, sigma=1.0, k=20, sampling_rate=0.5)
    plan = Plan(mechanism, 2, n_classes=2)
    ledger = Ledger(tmp_path / "run.ledger", budget=Budget(50.0, 1e-5), accountant="rdp")
    with ledger.release(plan, purpose="two queries") as grant:
        assert grant.release(answers).labels.tolist() == [0, 1]
    numbers = NeighbourIndex(X, X[:, 0], keys=np.arange(120, dtype=np.uint64), radius=1.0)
    mean = SampledMean(0.01, k=20, sampling_rate=0.5, low=-1.0, high=1.0)
    values = mean.release(numbers.search([[-0.8], [0.8]], reach=20), InsecureNoise(0)).values
    assert values == pytest.approx([-0.8, 0.8], abs=0.15)


BAD = {
    "sigma": [0, -1, math.nan, "2", 1e300],
    "sigma_screen": [0, math.inf],
    "threshold": [math.nan, None],
    "k": [0, 1.5, True],
    "sampling_rate": [0, 1.01, math.nan],
    "votes_per_unit": [0, 5, 1.0],
    "tau": [0, -1, math.inf],
    "clip": ["linf", None],
    "low": [5.0, math.nan],
    "high": [0.0, -math.inf],
    "epsilon_per_query": [0, -1, 101, 1e-5, math.nan],
    "grid": [None, (0, 1), (1, 1, 5), (0, 1, 1), (0, 1, 5000), (0, math.inf, 5), (0, 1, 2.5)],
}


@pytest.mark.parametrize(
    ("mechanism", "name", "bad"),
    [
        pytest.param(case[0], name, bad, id=f"{case[0].name}-{name}={bad}")
        for case in CASES
        for name, values in BAD.items()
        for bad in values
        if hasattr(case[0], name)
        and not (bad == 1e300 and case[0].name not in ("sampled-votes", "sampled-labels"))
    ],
)
def test_parameters_are_refused_before_anything_is_paid(mechanism, name, bad):
    with pytest.raises(InvalidArgument, match=r"Expected"):
        dataclasses.replace(mechanism, **{name: bad})
