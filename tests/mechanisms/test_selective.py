"""Confident- and Interactive-GNMax: checks, answers, caps, and the student's own labels."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InvalidArgument
from tacit.mechanisms import (
    NO_ANSWER,
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    ThresholdCheck,
    sum_soft_votes,
)
from tacit.mechanisms import base as blocks
from tacit.mechanisms.selective import disagreement, student_probabilities
from tacit.noise import InsecureNoise
from tacit.privacy import confident_rdp_worst, threshold_rdp_worst

ORDERS = [1.5, 4.0, 20.0]
SURE = 0.9


class Script(InsecureNoise):
    """Plays given noise for the checks, none for the answers, and remembers what was asked."""

    def __init__(self, checks):
        super().__init__(0)
        self.checks = np.asarray(checks, dtype=np.float64)
        self.asked = []

    def gaussian(self, sigma, size):
        self.asked.append((sigma, size))
        return self.checks.copy() if size == self.checks.shape else np.zeros(size)


def confident(threshold=10.0, sigma_check=2.0, sigma_answer=3.0):
    return ConfidentGNMax(threshold, sigma_check, sigma_answer)


def interactive(threshold=10.0, sigma_check=2.0, sigma_answer=3.0, confidence=SURE):
    return InteractiveGNMax(threshold, sigma_check, sigma_answer, confidence)


@pytest.mark.parametrize("kind", [confident, interactive])
@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": math.nan},
        {"threshold": math.inf},
        {"threshold": "200"},
        {"sigma_check": 0},
        {"sigma_check": -1.0},
        {"sigma_answer": 0.0},
        {"sigma_answer": math.inf},
        {"sigma_answer": None},
    ],
)
def test_parameters_are_checked(kind, wrong):
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        kind(**wrong)


@pytest.mark.parametrize("confidence", [0, -0.1, 1.0001, math.nan, True, "0.9"])
def test_confidence_is_a_share(confidence):
    with pytest.raises(InvalidArgument, match="confidence"):
        interactive(confidence=confidence)


def test_parameters_are_plain_floats():
    """A ledger writes them as JSON, whatever number type they came in."""
    made = interactive(np.float32(5), np.int64(2), 3, confidence=np.float32(1))
    values = (made.threshold, made.sigma_check, made.sigma_answer, made.confidence)
    assert [type(value) for value in values] == [float] * 4


@pytest.mark.parametrize("bad", [{"threshold": math.nan}, {"sigma": 0.0}])
def test_a_check_is_checked(bad):
    with pytest.raises(InvalidArgument):
        ThresholdCheck(**{"threshold": 5.0, "sigma": 1.0, **bad})


def test_check_releases_one_bit_a_row():
    release = ThresholdCheck(10.0, 1.0).release([[12, 0], [6, 6]], Script([-2.0, 3.9]))
    assert release.labels.dtype == np.int64
    assert release.labels.tolist() == [1, 0]


def test_a_check_passes_at_the_threshold_itself():
    assert ThresholdCheck(10.0, 1.0).release([[9, 3]], Script([1.0])).labels.tolist() == [1]


def test_confident_answers_where_the_check_passes():
    votes = [[12, 0, 0], [0, 12, 0], [4, 4, 4], [0, 1, 11]]
    labels = confident().release(votes, Script([0.0, -2.5, 0.0, 0.0])).labels
    assert labels.dtype == np.int64
    assert labels.tolist() == [0, NO_ANSWER, NO_ANSWER, 2]


def test_check_and_answer_draw_separate_noise_of_their_own_size():
    noise = Script([0.0, -9.0, 0.0])
    confident().release([[12, 0], [12, 0], [0, 12]], noise)
    assert noise.asked == [(2.0, (3,)), (3.0, (2, 2))]


def test_check_and_answer_are_independent():
    """Given that a close check passed, the winner among equals is still a fair coin."""
    votes = np.tile([6, 6], (100_000, 1))
    labels = confident(threshold=6.0).release(votes, InsecureNoise(1)).labels
    passed = labels[labels != NO_ANSWER]
    assert abs(len(passed) - 50_000) < 6 * math.sqrt(25_000)
    assert abs((passed == 0).sum() - len(passed) / 2) < 6 * math.sqrt(len(passed) / 4)


def test_nobody_passes():
    noise = Script([-99.0, -99.0])
    assert confident().release([[12, 0], [0, 12]], noise).labels.tolist() == [NO_ANSWER] * 2
    assert len(noise.asked) == 1


@pytest.mark.parametrize(
    ("cap", "expected"),
    [
        (None, [0, NO_ANSWER, 1, 0, NO_ANSWER, 1]),
        (9, [0, NO_ANSWER, 1, 0, NO_ANSWER, 1]),
        (3, [0, NO_ANSWER, 1, 0, NO_ANSWER, NO_ANSWER]),
        (1, [0] + [NO_ANSWER] * 5),
        (0, [NO_ANSWER] * 6),
    ],
)
def test_cap_takes_rows_in_order(cap, expected):
    votes = [[12, 0], [6, 6], [0, 12], [12, 0], [6, 6], [0, 12]]
    release = confident().release(votes, Script([0.0] * 6), max_answers=cap)
    assert release.labels.tolist() == expected


def test_after_the_cap_a_row_is_unchecked():
    """A sure student answers a row whose check failed, but not one that was never checked."""
    votes = [[6, 6], [12, 0], [6, 6], [0, 12]]
    student = [[0.95, 0.05]] * 4
    scripted = Script([-99.0, 99.0, -99.0, 99.0])
    mechanism = interactive()
    capped = mechanism.release(votes, scripted, student=student, max_answers=1).labels
    assert capped.tolist() == [0, 0, NO_ANSWER, NO_ANSWER]
    free = mechanism.release(votes, Script(scripted.checks), student=student).labels
    assert free.tolist() == [0, 0, 0, 1]


def test_blocks_of_answers(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 6)
    votes = np.random.default_rng(0).multinomial(30, [0.4, 0.3, 0.3], size=500)
    labels = confident(threshold=0.0).release(votes, Script(np.zeros(500))).labels
    assert np.array_equal(labels, votes.argmax(axis=1))


def test_soft_votes_are_rounded_half_up_for_the_check():
    soft = sum_soft_votes([[[0.5, 0.5]], [[1.0, 0.0]], [[1.0, 0.0]]])  # 2.5 and 0.5
    at_three = confident(threshold=3.0).release(soft, Script([0.0]))
    assert at_three.labels.tolist() == [0]
    assert confident(threshold=3.01).release(soft, Script([0.0])).labels.tolist() == [NO_ANSWER]


# Interactive ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("top", "expected"),
    [(np.nextafter(SURE, 1), [1]), (SURE, [NO_ANSWER]), (0.5, [NO_ANSWER])],
)
def test_the_student_answers_itself_if_sure(top, expected):
    """Algorithm 2 compares strictly: at the confidence itself nothing is told."""
    student = [[1 - top, top]]
    release = interactive().release([[6, 6]], Script([-99.0]), student=student)
    assert release.labels.tolist() == expected


def test_teachers_answer_where_they_disagree_with_the_student():
    votes = [[12, 0], [12, 0]]
    student = [[0.0, 1.0], [1.0, 0.0]]
    assert interactive().release(votes, Script([0.0, 0.0]), student=student).labels.tolist() == [
        0,
        0,
    ]
    asked = Script([0.0, 0.0])
    interactive().release(votes, asked, student=student)
    assert asked.asked[1][1] == (1, 2)  # one answer by the teachers, one by the student


@pytest.mark.parametrize(
    ("votes", "student", "expected"),
    [
        ([3, 0], [0.5, 0.5], 2),  # 1.5: half-even would agree here
        ([2, 1], [0.5, 0.5], 1),  # 0.5: half-even would say 0
        ([5, 0], [0.5, 0.5], 3),  # 2.5: half-even would say 2
        ([4, 4], [0.5, 0.5], 0),
        ([8, 0], [0.0, 1.0], 8),
        ([8, 0], [1.0, 0.0], 0),
        ([3, 5], [0.25, 0.75], 1),
    ],
)
def test_disagreement_is_the_rounded_largest_difference(votes, student, expected):
    assert disagreement(np.array([votes]), np.array([student])).tolist() == [expected]


def test_disagreement_survives_the_last_bit():
    """1 and 2 votes against 0.5 + 2^-53: float64 differences round to 0 and 2."""
    share = (0.5 + 2**-53) / 3
    naive = np.floor(np.array([1, 2]) - 3 * share + 0.5)
    assert naive.tolist() == [0, 2]
    student = np.array([[share, 1 - share]])
    one, two = (int(disagreement(np.array([[v, 3 - v]]), student)[0]) for v in (1, 2))
    assert two - one == 1


@st.composite
def neighbouring_rows_and_student(draw):
    n_teachers, n_classes = draw(st.integers(1, 300)), draw(st.integers(2, 4))
    cuts = sorted(draw(st.integers(0, n_teachers)) for _ in range(n_classes - 1))
    row = np.diff([0, *cuts, n_teachers])
    leaves = draw(st.sampled_from(np.nonzero(row)[0].tolist()))
    moved = row.copy()
    moved[leaves] -= 1
    moved[draw(st.integers(0, n_classes - 1))] += 1
    # Quarters and eighths of a vote, nudged by a bit: halves are where rounding bites.
    shares = np.array([draw(st.integers(0, 8)) for _ in range(n_classes)], dtype=np.float64)
    shares[0] += shares.sum() == 0
    student = np.nextafter(shares / shares.sum(), draw(st.sampled_from([0.0, 1.0])))
    return row, moved, student


@settings(max_examples=400, deadline=None)
@given(neighbouring_rows_and_student())
def test_one_teacher_moves_the_disagreement_by_at_most_one(rows):
    row, moved, student = rows
    both = disagreement(np.array([row, moved]), np.array([student, student]))
    assert abs(int(both[0]) - int(both[1])) <= 1
    assert ((both >= 0) & (both <= row.sum())).all()


@settings(max_examples=200, deadline=None)
@given(neighbouring_rows_and_student())
def test_disagreement_is_the_formula(rows):
    """floor(max_j(n_j - n p_j) + 1/2) in rational arithmetic; n p_j moves by 2^-33 at the most."""
    row, _, student = rows
    n = int(row.sum())
    exact = max(int(v) - n * Fraction(float(p)) for v, p in zip(row, student, strict=True))
    slack = Fraction(1, 2**33)
    allowed = {
        max(0, math.floor(exact + shift + Fraction(1, 2))) for shift in (-slack, Fraction(0), slack)
    }
    assert int(disagreement(np.array([row]), np.array([student]))[0]) in allowed


def test_more_teachers_than_shares_allow_are_refused():
    with pytest.raises(InvalidArgument, match="teachers"):
        disagreement(np.array([[2**21, 0]]), np.array([[0.5, 0.5]]))


@pytest.mark.parametrize(
    ("student", "message"),
    [
        (None, "student="),
        ([[0.5, 0.5, 0.0]], "shape"),
        ([[0.5, 0.5], [0.5, 0.5]], "shape"),
        ([[0.5, 0.4]], "sum to 1"),
        ([[0.5, 0.6]], "sum to 1"),
        ([[1.5, -0.5]], "sum to 1"),
        ([[math.nan, 1.0]], "finite"),
        ([[math.inf, 1.0]], "finite"),
        ([["a", "b"]], "numbers"),
    ],
)
def test_student_must_be_probabilities(student, message):
    for method in (
        lambda: interactive().release([[6, 6]], InsecureNoise(0), student=student),
        lambda: interactive().secret_cost([[6, 6]], ORDERS, student=student),
    ):
        with pytest.raises(InvalidArgument, match=message):
            method()


def test_student_in_single_precision_is_normalised():
    raw = np.full((1, 3), np.float32(1 / 3))
    assert student_probabilities(raw, (1, 3)).sum() == pytest.approx(1.0, abs=1e-15)


# Costs ---------------------------------------------------------------------------------------


def test_confident_costs_are_the_privacy_functions():
    mechanism = ConfidentGNMax(200, 150, 40)
    low = 25  # 250 teachers, 10 classes: the largest count is at least 25
    check = threshold_rdp_worst(200, 150, low, 250, ORDERS)
    assert np.array_equal(mechanism.check.cost(ORDERS, n_teachers=250, n_classes=10).values, check)
    composite = confident_rdp_worst(200, 150, 40, low, 250, ORDERS)
    assert np.array_equal(mechanism.cost(ORDERS, n_teachers=250, n_classes=10).values, composite)
    assert mechanism.answer == GNMax(40)
    assert mechanism.gaussian_cost() == pytest.approx(1 / 150**2 + 2 / 40**2)
    assert mechanism.check.gaussian_cost() == pytest.approx(1 / 150**2)


def test_interactive_statistic_starts_at_zero():
    mechanism = InteractiveGNMax(200, 150, 40, 0.9)
    expected = confident_rdp_worst(200, 150, 40, 0, 250, ORDERS)
    assert np.array_equal(mechanism.cost(ORDERS, n_teachers=250).values, expected)
    assert mechanism.check.range(250, None) == (0, 250)


@pytest.mark.parametrize(
    ("n_teachers", "n_classes", "low"), [(250, 10, 25), (7, 2, 4), (7, 3, 2), (8, 3, 3), (1, 2, 1)]
)
def test_range_of_the_largest_count(n_teachers, n_classes, low):
    """n/m rounded half up, as soft votes need: a hard count is never smaller."""
    assert ThresholdCheck(5, 1).range(n_teachers, n_classes) == (low, n_teachers)
    assert low <= math.ceil(n_teachers / n_classes)


@pytest.mark.parametrize("given_sizes", [{}, {"n_teachers": 9}, {"n_classes": 3}])
def test_a_check_cannot_be_priced_without_its_range(given_sizes):
    for mechanism in (ThresholdCheck(5, 1), confident()):
        with pytest.raises(InvalidArgument, match="n_teachers and n_classes"):
            mechanism.cost(ORDERS, **given_sizes)


@st.composite
def selective_cases(draw):
    n_teachers, n_classes = draw(st.integers(1, 40)), draw(st.integers(2, 4))
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        cuts = sorted(draw(st.integers(0, n_teachers)) for _ in range(n_classes - 1))
        rows.append(np.diff([0, *cuts, n_teachers]).tolist())
    scale = st.floats(0.4, 80.0)
    student = np.array([draw(st.integers(0, 5)) + 1 for _ in range(n_classes)], dtype=np.float64)
    students = np.tile(student / student.sum(), (len(rows), 1))
    return np.array(rows), draw(st.floats(-5, 60)), draw(scale), draw(scale), students


@settings(max_examples=60, deadline=None)
@given(selective_cases())
def test_secret_cost_is_never_above_the_worst_case(case):
    votes, threshold, sigma_check, sigma_answer, student = case
    sizes = {"n_teachers": int(votes[0].sum()), "n_classes": votes.shape[1]}
    plain = ConfidentGNMax(threshold, sigma_check, sigma_answer)
    asking = InteractiveGNMax(threshold, sigma_check, sigma_answer, 0.5)
    pairs = [
        (plain.secret_cost(votes, ORDERS), plain.cost(ORDERS, **sizes)),
        (plain.check.secret_cost(votes, ORDERS), plain.check.cost(ORDERS, **sizes)),
        (asking.secret_cost(votes, ORDERS, student=student), asking.cost(ORDERS, **sizes)),
    ]
    for secret, worst in pairs:
        assert secret.values.shape == (len(votes), len(ORDERS))
        assert (secret.values >= 0).all()
        assert (secret.values <= worst.values * (1 + 1e-9) + 1e-15).all()
