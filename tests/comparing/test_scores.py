"""What methods may be compared by."""

from __future__ import annotations

import numpy as np
import pytest
from compare_shared import blobs
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score

from tacit.comparing.data import compared_data
from tacit.comparing.processes import Job, run_job
from tacit.comparing.references import NUMBER_REFERENCES
from tacit.comparing.scores import rows_behind, score_of
from tacit.datasets import Dataset
from tacit.errors import InvalidArgument
from tacit.methods import all_rules

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 2))
Y = np.where(X[:, 0] + rng.normal(size=600) > 2, "yes", "no")


def test_scores_are_scikit_learns():
    model = LogisticRegression().fit(X, Y)
    said, chance = model.predict(X), model.predict_proba(X)[:, 1]
    assert score_of("accuracy", model, X, Y) == pytest.approx((said == Y).mean())
    assert score_of("balanced", model, X, Y) == pytest.approx(balanced_accuracy_score(Y, said))
    assert score_of("auc", model, X, Y) == pytest.approx(roc_auc_score(Y == "yes", chance))


def test_whoever_learned_nothing_has_a_half():
    model = DummyClassifier(strategy="most_frequent").fit(X, Y)
    assert score_of("accuracy", model, X, Y) > 0.9
    assert score_of("balanced", model, X, Y) == score_of("auc", model, X, Y) == 0.5


def test_auc_is_of_two_classes():
    with pytest.raises(InvalidArgument, match="two classes"):
        score_of("auc", LogisticRegression(), X, np.arange(600) % 3)


def test_errors_rest_on_the_rarer_class():
    assert rows_behind("accuracy", Y, 600) == 600
    assert rows_behind("balanced", Y, 600) == 2 * (Y == "yes").sum()


def test_a_job_takes_groups_and_a_score():
    from tacit import MomentClassifier

    data = blobs()
    model = MomentClassifier(classes=data.classes, epsilon=8.0, delta=1e-4)
    rows = (data.X[:300], data.labels[:300], data.X[300:350], data.X[350:], data.labels[350:])
    outcome = run_job(Job(model, 8.0, 1e-4, *rows, "balanced", np.arange(300) // 2))
    assert outcome.status == "ok", outcome.reason
    assert outcome.accuracy > 0.4
    alone = run_job(
        Job(MomentClassifier(classes=data.classes, epsilon=8.0, delta=1e-4), 8.0, 1e-4, *rows)
    )
    assert alone.status == "ok"


def numbers(n: int = 900) -> Dataset:
    drawn = np.random.default_rng(1)
    rows = drawn.uniform(size=(n, 2))
    target = (10 * rows[:, 0] - 4 * rows[:, 1] + drawn.normal(scale=0.3, size=n)).clip(-5, 10)
    return Dataset(rows, target, (), "made", target_range=(-5.0, 10.0))


def test_numbers_go_by_r_squared_and_by_nothing_of_labels():
    task = compared_data(numbers())
    assert task.by == "r2"
    assert task.facts().target_range == (-5.0, 10.0)
    with pytest.raises(InvalidArgument, match="by="):
        compared_data(numbers(), by="auc")
    with pytest.raises(InvalidArgument, match="by="):
        compared_data(blobs(), by="r2")
    other = Dataset(numbers().X, numbers().y, (), "made", target_range=(-9.0, 10.0))
    assert compared_data(other).fingerprint() != task.fingerprint()


def test_every_method_for_numbers_has_a_rule_and_learns():
    task, rules = compared_data(numbers()), all_rules(numbers=True)
    assert set(rules) == {"knn", "moments", "ridge"}
    private, public, held_out = task.parts(0)
    rows = (private.X, private.labels, public.X, held_out.X, held_out.labels)
    found = {}
    for name in ("moments", "ridge"):
        model = rules[name].build(task.facts(), 8.0, 1e-4, 0)
        outcome = run_job(Job(model, 8.0, 1e-4, *rows, task.by))
        assert outcome.status == "ok", outcome.reason
        found[name] = outcome.accuracy
        model.fit(*rows[:2], X_public=public.X)
        said = model.predict(held_out.X)
        scored = score_of("r2", model, held_out.X, held_out.labels)
        assert scored == pytest.approx(r2_score(held_out.labels, said))
    assert found["moments"] > 0.8
    for name, rule in NUMBER_REFERENCES.items():
        outcome = run_job(Job(rule.build(task.facts(), 1.0, 1e-4, 0), None, 1e-4, *rows, "r2"))
        assert (outcome.accuracy > 0.8) == (name == "non-private")
