"""The rule that chooses a student by the released table: unbiased, public, and right."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.students import LabelSpreadingStudent, LinearStudent, NearestStudent, choose_queries
from tacit.students.graph import nearest
from tacit.summaries import choose_student, default_students
from tacit.summaries.prototypes import neighbours_agree


def rings(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two rings, one within the other: a graph tells them apart, a line cannot."""
    random = np.random.default_rng(seed)
    y = np.arange(count) % 2
    angle, radius = random.uniform(0, 2 * np.pi, count), 1 + 2 * y + random.normal(0, 0.05, count)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def haze(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """No clusters, ten dimensions, noisy labels: a line tells most, a graph carries noise on."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(count, 10))
    return X, (X[:, 0] + random.normal(scale=0.5, size=count) > 0).astype(int)


def uneven(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A dense class within a sparse one: most medoids speak for the class with fewer inputs."""
    random = np.random.default_rng(seed)
    y = (random.uniform(size=count) < 0.4).astype(int)
    return random.normal(size=(count, 6)) * np.where(y == 1, 3.0, 1.0)[:, None], y


def lobes(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two clouds far from each other."""
    random = np.random.default_rng(seed)
    y = np.arange(count) % 2
    return random.normal(size=(count, 2)) + 8 * y[:, None], y


def asked(problem, *, sigma: float, seed: int = 0):
    inputs, y = problem(600, seed)
    places = np.arange(120)
    masses = 30.0 * np.eye(2)[y[places]]
    return inputs, places, masses + np.random.default_rng(seed).normal(0, sigma, masses.shape)


class TestChoice:
    @pytest.mark.parametrize("seed", range(3))
    def test_labels_spread_where_inputs_cluster(self, seed):
        choice = choose_student(default_students(), *asked(rings, sigma=5.0, seed=seed), 5.0)
        assert isinstance(choice.student, LabelSpreadingStudent)
        assert choice.gains[0] - choice.gains[1] > 5 * choice.noise.max()

    @pytest.mark.parametrize("seed", range(3))
    def test_a_line_where_they_do_not(self, seed):
        choice = choose_student(default_students(), *asked(haze, sigma=5.0, seed=seed), 5.0)
        assert isinstance(choice.student, LinearStudent)
        inputs, y = haze(2000, seed=99)
        assert (choice.student.predict(inputs) == y).mean() > 0.75

    @pytest.mark.parametrize("seed", range(3))
    def test_neighbours_where_neither_helps(self, seed):
        """Spreading and the line both name the sparse class everywhere, and are worse than chance;
        so it was with squares of photographs, the more the less noise there was."""
        inputs, _ = uneven(1000, seed)
        places = choose_queries(inputs, 150, random_state=0)
        rows, y = uneven(4000, seed + 50)
        masses = np.zeros((150, 2))
        np.add.at(masses, (nearest(rows, inputs[places], 1)[0][:, 0], y), 1.0)
        table = masses + np.random.default_rng(seed).normal(0, 2.0, masses.shape)
        choice = choose_student(default_students(), inputs, places, table, 2.0)
        assert isinstance(choice.student, NearestStudent)
        others, truth = uneven(1000, seed + 99)
        assert (choice.student.predict(others) == truth).mean() > 0.85
        spread = LabelSpreadingStudent().fit(inputs, places, choice.posterior)
        assert (spread.predict(others) == truth).mean() < 0.6

    def test_the_chosen_student_learned_from_the_whole_table(self):
        inputs, places, table = asked(rings, sigma=5.0)
        choice = choose_student(default_students(), inputs, places, table, 5.0)
        from tacit.summaries import table_posterior

        alone = LabelSpreadingStudent().fit(inputs, places, table_posterior(table, 5.0))
        np.testing.assert_array_equal(
            choice.student.predict_proba(inputs), alone.predict_proba(inputs)
        )

    def test_gains_estimate_the_mass_that_is_right(self):
        """Over many tables with the same masses the noise of the left-out rows averages out."""
        inputs, y = rings(200)
        places, masses = np.arange(60), 30.0 * np.eye(2)[y[:60]]
        errors = []
        for seed in range(12):
            table = masses + np.random.default_rng(seed).normal(0, 10.0, masses.shape)
            choice = choose_student([*default_students()], inputs, places, table, 10.0)
            errors.append(choice.gains[0] - masses.sum())
        spread = 10.0 * np.sqrt(60)
        assert abs(np.mean(errors)) < 4 * spread / np.sqrt(12)
        assert 0.4 * spread < np.std(errors) < 1.8 * spread

    def test_a_student_cannot_win_by_learning_the_noise(self):
        """On pure noise nobody has an advantage: gains stay around 0."""
        inputs, _ = haze(150)
        found = []
        for seed in range(10):
            table = np.random.default_rng(seed).normal(0, 10.0, (100, 2))
            found.append(choose_student(default_students(), inputs, np.arange(100), table, 10.0))
        gains = np.mean([choice.gains for choice in found], axis=0)
        assert np.abs(gains).max() < 4 * 10.0 * np.sqrt(100) / np.sqrt(10)

    def test_within_the_noise_clusters_decide(self, monkeypatch):
        monkeypatch.setattr("tacit.summaries.prototypes.CLEAR", 1e9)
        chosen = []
        for problem in (lobes, haze):
            choice = choose_student(default_students(), *asked(problem, sigma=5.0), 5.0)
            chosen.append((type(choice.student), choice.agreement > 0.8))
        assert chosen == [(LabelSpreadingStudent, True), (LinearStudent, False)]

    def test_a_table_that_says_nothing_is_no_reason(self):
        inputs, places, _ = asked(haze, sigma=5.0)
        table = np.full((120, 2), 3.0)
        with pytest.raises(InvalidArgument, match="answered"):
            choose_student(default_students(), inputs, places, table, 1000.0)

    def test_mistakes_are_named(self):
        inputs, places, table = asked(rings, sigma=5.0)
        with pytest.raises(InvalidArgument, match="two students"):
            choose_student([], inputs, places, table, 5.0)
        with pytest.raises(InvalidArgument, match="row of the table"):
            choose_student(default_students(), inputs, places[:3], table, 5.0)


def test_lessons_share_a_graph_and_nothing_else():
    inputs, places, table = asked(rings, sigma=1.0)
    shares = np.clip(table, 1, None) / np.clip(table, 1, None).sum(axis=1, keepdims=True)
    lessons = [(places, shares), (places[:50], shares[:50])]
    for together, lesson in zip(
        LabelSpreadingStudent().fit_each(inputs, lessons), lessons, strict=True
    ):
        alone = LabelSpreadingStudent().fit(inputs, *lesson)
        np.testing.assert_array_equal(together.spread_, alone.spread_)


class TestAgreement:
    def test_agrees_with_counting_by_hand(self):
        points = np.random.default_rng(0).normal(size=(40, 2))
        labels = (points[:, 0] > 0.3).astype(int)
        gaps = ((points[:, None] - points) ** 2).sum(axis=2)
        np.fill_diagonal(gaps, np.inf)
        near = np.argsort(gaps, axis=1)[:, :7]
        same, chance = (labels[near] == labels[:, None]).mean(), (np.bincount(labels) / 40) ** 2
        expected = (same - chance.sum()) / (1 - chance.sum())
        assert neighbours_agree(points, labels) == pytest.approx(expected)

    def test_extremes(self):
        points, y = lobes(200)
        assert neighbours_agree(points, y) > 0.99
        assert abs(neighbours_agree(points, np.random.default_rng(1).integers(2, size=200))) < 0.1
        assert neighbours_agree(points, np.zeros(200, dtype=int)) == 0
