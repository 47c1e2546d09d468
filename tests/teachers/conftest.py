"""A small table in shards, and the teachers that every executor must train alike."""

from __future__ import annotations

import pytest
from teacher_families import Mixed
from teacher_tables import Table, jitter, make_table, module

from tacit.teachers import KernelRidgeTeachers


@pytest.fixture
def table() -> Table:
    return make_table()


@pytest.fixture(scope="session")
def mixed() -> Mixed:
    """Scikit-learn (with and without randomness), closed form and torch, side by side."""
    pytest.importorskip("torch")
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from tacit.teachers import Recipe, TorchTeacher
    from tacit.teachers.families import EstimatorTeachers

    recipe = Recipe(steps=6, batch_size=8, learning_rate=0.01, schedule="cosine", augment=jitter)
    return Mixed(
        (
            EstimatorTeachers(make_pipeline(StandardScaler(), LogisticRegression())),
            EstimatorTeachers(RandomForestClassifier(n_estimators=5)),
            KernelRidgeTeachers(gamma=0.05),
            TorchTeacher(module, recipe, input_shape=(1, 4, 4)),
        )
    )
