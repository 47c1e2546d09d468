"""Three students weighed by a released table: unbiased, public, and right."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.students import CombinedStudent, LabelSpreadingStudent, choose_queries, load_student
from tacit.students.graph import nearest
from tacit.summaries import table_posterior


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


def weighed(inputs, places, table, sigma, **settings):
    return CombinedStudent(**settings).weigh(
        inputs, places, table, sigma, lambda rows: table_posterior(rows, sigma)
    )


class TestWeights:
    @pytest.mark.parametrize("seed", range(2))
    def test_labels_spread_where_inputs_cluster(self, seed):
        student = weighed(*asked(rings, sigma=5.0, seed=seed), 5.0)
        assert student.shares_[1] < 0.01  # the line
        inputs, y = rings(500, seed=99)
        assert (student.predict(inputs) == y).mean() > 0.98

    @pytest.mark.parametrize("seed", range(2))
    def test_a_line_where_they_do_not(self, seed):
        student = weighed(*asked(haze, sigma=5.0, seed=seed), 5.0)
        assert student.shares_.argmax() == 1
        inputs, y = haze(2000, seed=99)
        assert (student.predict(inputs) == y).mean() > 0.75

    def test_neighbours_where_neither_helps(self):
        """Spreading and the line both name the sparse class everywhere, and are worse than chance;
        so it was with squares of photographs, the more the less noise there was."""
        inputs, _ = uneven(1000, 0)
        places = choose_queries(inputs, 150, random_state=0)
        rows, y = uneven(4000, 50)
        masses = np.zeros((150, 2))
        np.add.at(masses, (nearest(rows, inputs[places], 1)[0][:, 0], y), 1.0)
        table = masses + np.random.default_rng(0).normal(0, 2.0, masses.shape)
        student = weighed(inputs, places, table, 2.0)
        assert student.shares_[2] > 0.99
        others, truth = uneven(1000, 99)
        assert (student.predict(others) == truth).mean() > 0.85
        spread = LabelSpreadingStudent().fit(inputs, places, table_posterior(table, 2.0))
        assert (spread.predict(others) == truth).mean() < 0.6

    def test_gains_estimate_the_mass_that_is_right(self):
        """Over many tables with the same masses the noise of the left-out rows averages out."""
        inputs, y = rings(200)
        places, masses = np.arange(60), 30.0 * np.eye(2)[y[:60]]
        errors = []
        for seed in range(8):
            table = masses + np.random.default_rng(seed).normal(0, 10.0, masses.shape)
            errors.append(weighed(inputs, places, table, 10.0).gains_[0] - masses.sum())
        spread = 10.0 * np.sqrt(60)
        assert abs(np.mean(errors)) < 4 * spread / np.sqrt(8)
        assert 0.3 * spread < np.std(errors) < 2 * spread

    def test_a_student_cannot_win_by_learning_the_noise(self):
        """On pure noise nobody has an advantage: gains stay around 0, and all count alike."""
        inputs, _ = haze(150)
        tables = [np.random.default_rng(seed).normal(0, 10.0, (100, 2)) for seed in range(8)]
        tables = [table + np.eye(1, 200).reshape(100, 2) * 100 for table in tables]  # one answer
        found = [weighed(inputs, np.arange(100), table, 10.0) for table in tables]
        gains = np.mean([student.gains_ for student in found], axis=0)
        assert np.abs(gains - gains.mean()).max() < 4 * 10.0 * np.sqrt(100) / np.sqrt(8)

    def test_shares_are_saved(self, tmp_path):
        inputs, places, table = asked(lobes, sigma=5.0)
        student = weighed(inputs, places, table, 5.0)
        student.save(tmp_path / "student.tacit")
        loaded = load_student(tmp_path / "student.tacit")
        np.testing.assert_array_equal(loaded.predict_proba(inputs), student.predict_proba(inputs))
        assert loaded.shares_.sum() == pytest.approx(1)

    def test_posteriors_judge_where_there_is_no_table(self):
        inputs, places, table = asked(rings, sigma=5.0)
        student = CombinedStudent().fit(inputs, places, table_posterior(table, 5.0))
        assert student.shares_[1] < 0.05

    def test_one_answer_is_enough(self):
        inputs, _ = lobes(20)
        posterior = np.full((3, 2), 0.5)
        posterior[0] = 0.9, 0.1
        student = CombinedStudent().fit(inputs, [0, 1, 2], posterior)
        np.testing.assert_allclose(student.shares_, 1 / 3)

    def test_nothing_released_is_nothing_to_learn_from(self):
        inputs, _ = lobes(20)
        with pytest.raises(InvalidArgument, match="answered"):
            weighed(inputs, np.arange(5), np.zeros((5, 2)), 1000.0)
