"""What methods may be compared by."""

from __future__ import annotations

import numpy as np
import pytest
from compare_shared import blobs
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from tacit.comparing.processes import Job, run_job
from tacit.comparing.scores import rows_behind, score_of
from tacit.errors import InvalidArgument

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
