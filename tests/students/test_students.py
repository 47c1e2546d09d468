"""What every student must do, whatever it is made of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from students_shared import Lesson, certain

from tacit.errors import InvalidArgument, MissingExtra
from tacit.students import (
    CNNStudent,
    LabelSpreadingStudent,
    NearestStudent,
    SupervisedStudent,
    VATStudent,
    label_posterior,
)

STUDENTS: dict[str, Callable[[], Any]] = {
    "spreading": lambda: LabelSpreadingStudent(n_neighbors=5),
    "nearest": lambda: NearestStudent(n_neighbors=2),
    "supervised": lambda: SupervisedStudent(LogisticRegression()),
    "cnn": lambda: CNNStudent((8, 8), n_neighbors=5, epochs=4, batch_size=16),
    "vat": lambda: VATStudent(steps=40, batch_size=16),
    "vat-images": lambda: VATStudent(image_shape=(8, 8), steps=40, batch_size=16),
}
every_student = pytest.mark.parametrize("name", STUDENTS)


def fitted(name: str, lesson: Lesson) -> Any:
    return STUDENTS[name]().fit(lesson.X_public, lesson.indices, lesson.posterior)


@every_student
def test_probabilities_are_rows_of_the_simplex(name: str, clouds: Lesson) -> None:
    student = fitted(name, clouds)
    probabilities = student.predict_proba(clouds.X_new)
    assert probabilities.shape == (20, 2)
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    predictions = student.predict(clouds.X_new)
    assert predictions.dtype == np.int64
    np.testing.assert_array_equal(predictions, probabilities.argmax(axis=1))
    np.testing.assert_array_equal(predictions, clouds.y_new)


@pytest.mark.arithmetic
@every_student
def test_the_same_seed_gives_the_same_bits_and_disturbs_nobody(name: str, clouds: Lesson) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, again = (fitted(name, clouds).predict_proba(clouds.X_new) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


@pytest.mark.parametrize("name", ["cnn", "vat"])
def test_another_seed_gives_another_model(name: str, clouds: Lesson) -> None:
    one = fitted(name, clouds)
    other = STUDENTS[name]().set_params(random_state=1)
    other.fit(clouds.X_public, clouds.indices, clouds.posterior)
    assert (one.predict_proba(clouds.X_new) != other.predict_proba(clouds.X_new)).any()


@pytest.mark.arithmetic
@every_student
def test_a_prediction_does_not_depend_on_its_company(name: str, clouds: Lesson) -> None:
    student = fitted(name, clouds)
    together = student.predict_proba(clouds.X_new)
    alone = np.concatenate([student.predict_proba(row[None]) for row in clouds.X_new])
    np.testing.assert_allclose(alone, together, atol=1e-5)


@every_student
def test_unanswered_queries_change_nothing(name: str, clouds: Lesson) -> None:
    indices = np.concatenate([clouds.indices, [7, 8, 9]])
    posterior = np.concatenate([clouds.posterior, np.full((3, 2), 0.5)])
    student = STUDENTS[name]().fit(clouds.X_public, indices, posterior)
    np.testing.assert_array_equal(
        student.predict_proba(clouds.X_new), fitted(name, clouds).predict_proba(clouds.X_new)
    )


@every_student
def test_classes_that_were_never_released_are_never_predicted(name: str, clouds: Lesson) -> None:
    posterior = np.zeros((4, 5))
    posterior[:, [1, 3]] = clouds.posterior
    student = STUDENTS[name]().fit(clouds.X_public, clouds.indices, posterior)
    probabilities = student.predict_proba(clouds.X_new)
    assert probabilities.shape == (20, 5)
    assert set(probabilities.argmax(axis=1)) == {1, 3}


@every_student
def test_one_released_class_is_the_answer(name: str, clouds: Lesson) -> None:
    student = STUDENTS[name]().fit(clouds.X_public, [0, 2], certain(np.array([1, 1]), 3))
    assert set(student.predict(clouds.X_new)) == {1}


@every_student
def test_images_and_flat_rows_are_alike(name: str, clouds: Lesson) -> None:
    student = STUDENTS[name]().fit(
        clouds.X_public.reshape(-1, 8, 8), clouds.indices, clouds.posterior
    )
    assert student.n_features_in_ == 64
    np.testing.assert_array_equal(
        student.predict_proba(clouds.X_new.reshape(-1, 8, 8)),
        fitted(name, clouds).predict_proba(clouds.X_new),
    )


@every_student
def test_parameters_survive_clone_and_fit_changes_none(name: str, clouds: Lesson) -> None:
    student = fitted(name, clouds)
    assert repr(clone(student)) == repr(STUDENTS[name]())
    with pytest.raises(NotFittedError):
        clone(student).predict(clouds.X_new)


@every_student
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((2, 64), np.nan), "finite"),
        (np.full((2, 64), np.inf), "finite"),
        (np.zeros((2, 63)), "Expected X with 64 features"),
        (np.zeros(64), "shape (rows, features)"),
        (np.zeros((0, 64)), "not empty"),
        ([["word"] * 64], "numbers"),
    ],
)
def test_unusable_inputs_are_refused(name: str, X: Any, message: str, clouds: Lesson) -> None:
    student = _once(name, clouds)
    with pytest.raises(InvalidArgument) as caught:
        student.predict_proba(X)
    assert message in str(caught.value)


_KEPT: dict[str, Any] = {}


def _once(name: str, lesson: Lesson) -> Any:
    if name not in _KEPT:
        _KEPT[name] = fitted(name, lesson)
    return _KEPT[name]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": [0, 1, 2]}, "one row of posterior for each"),
        ({"indices": [0, 1, 2, 40]}, "indices in 0 .. 39"),
        ({"indices": [0, 1, 2, -1]}, "indices in 0 .. 39"),
        ({"indices": [[0, 1, 2, 3]]}, "list of row numbers"),
        ({"posterior": np.full((4, 2), 0.5)}, "at least one answered query"),
        ({"posterior": np.full((4, 2), 0.6)}, "sum to 1"),
        ({"X_public": np.full((40, 64), np.nan)}, "X_public"),
    ],
)
def test_unusable_lessons_are_refused(change: dict[str, Any], message: str, clouds: Lesson) -> None:
    given = {
        "X_public": clouds.X_public,
        "indices": clouds.indices,
        "posterior": clouds.posterior,
        **change,
    }
    with pytest.raises(InvalidArgument) as caught:
        LabelSpreadingStudent().fit(**given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("student", "message"),
    [
        (LabelSpreadingStudent(n_neighbors=0), "n_neighbors=0"),
        (LabelSpreadingStudent(alpha=1.0), "alpha=1.0"),
        (LabelSpreadingStudent(sharpness=0), "sharpness=0"),
        (NearestStudent(n_neighbors=0), "n_neighbors=0"),
        (CNNStudent((28, 28)), "image_shape=(28, 28)"),
        (CNNStudent((64,)), "image_shape=(64,)"),
        (CNNStudent((8, 8), epochs=0), "epochs=0"),
        (CNNStudent((8, 8), views=0), "views=0"),
        (CNNStudent((8, 8), random_state=-1), "random_state=-1"),
        (VATStudent(image_shape=(9, 9)), "image_shape=(9, 9)"),
        (VATStudent(radius=0), "radius=0"),
        (VATStudent(steps=0), "steps=0"),
        (VATStudent(entropy=-1), "entropy=-1"),
        (SupervisedStudent("logistic"), "scikit-learn classifier"),
    ],
)
def test_unusable_parameters_are_refused_at_fit(student: Any, message: str, clouds: Lesson) -> None:
    with pytest.raises(InvalidArgument) as caught:
        student.fit(clouds.X_public, clouds.indices, clouds.posterior)
    assert message in str(caught.value)


@every_student
def test_a_sure_release_outweighs_an_unsure_one_on_the_same_input(
    name: str, clouds: Lesson
) -> None:
    indices = np.repeat([0, 1, 2, 3], 2)
    posterior = np.repeat(clouds.posterior, 2, axis=0)
    posterior[1::2] = 0.35 * posterior[1::2, ::-1] + 0.65 * 0.5  # the opposite, and hardly sure
    student = STUDENTS[name]().fit(clouds.X_public, indices, posterior)
    np.testing.assert_array_equal(student.predict(clouds.X_new), clouds.y_new)


@pytest.mark.parametrize(
    ("student", "least"),
    [
        (LabelSpreadingStudent(), 0.94),
        (NearestStudent(), 0.8),
        (SupervisedStudent(KNeighborsClassifier(1)), 0.85),
        (VATStudent(steps=150), 0.9),
        (CNNStudent((8, 8), epochs=12, batch_size=50), 0.93),
    ],
    ids=["spreading", "nearest", "supervised", "vat", "cnn"],
)
def test_digits_are_learned_from_eighty_labels(student: Any, least: float, digits: Lesson) -> None:
    student.fit(digits.X_public, digits.indices, digits.posterior)
    assert (student.predict(digits.X_new) == digits.y_new).mean() > least


def test_noisy_releases_are_worth_more_as_posteriors_than_as_labels(digits: Lesson) -> None:
    """Spreading decoded histograms beats spreading their argmax where the noise dominates."""
    from tacit import InsecureNoise, NoisyVotes

    truth = digits.posterior.argmax(axis=1)
    votes = np.zeros((80, 10), dtype=int)
    votes[np.arange(80), truth] = 100
    scores = {"posterior": 0.0, "argmax": 0.0}
    for seed in range(8):
        release = NoisyVotes(60).release(votes, InsecureNoise(seed))
        decoded = label_posterior(release, n_classes=10, n_teachers=100)
        for kind, rows in (("posterior", decoded), ("argmax", certain(decoded.argmax(axis=1), 10))):
            student = LabelSpreadingStudent().fit(digits.X_public, digits.indices, rows)
            scores[kind] += (student.predict(digits.X_new) == digits.y_new).mean() / 8
    assert scores["posterior"] > scores["argmax"] + 0.005


def test_public_features_are_applied_to_public_and_new_inputs(clouds: Lesson) -> None:
    halved = FunctionTransformer(lambda X: X[:, ::2])
    for student in (
        LabelSpreadingStudent(halved, n_neighbors=5),
        NearestStudent(halved),
        SupervisedStudent(LogisticRegression(), features=halved),
        VATStudent(halved, steps=30, batch_size=16),
    ):
        student.fit(clouds.X_public, clouds.indices, clouds.posterior)
        noisy = clouds.X_new.copy()
        noisy[:, 1::2] = 1e3  # what the features do not see
        np.testing.assert_array_equal(
            student.predict_proba(noisy), student.predict_proba(clouds.X_new)
        )


def test_weights_reach_the_classifier_even_in_a_pipeline(clouds: Lesson) -> None:
    # Ten hardly sure releases say class 0 of a cloud, one sure release says class 1.
    indices = np.array([0] * 10 + [0, 1])
    posterior = np.concatenate([[[0.53, 0.47]] * 10, [[0.0, 1.0]], [[1.0, 0.0]]])
    for estimator in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())):
        student = SupervisedStudent(estimator).fit(clouds.X_public, indices, posterior)
        assert student.predict(clouds.X_public[:1])[0] == 1


def test_a_classifier_without_probabilities_or_weights_will_do(clouds: Lesson) -> None:
    sure = certain(clouds.posterior.argmax(axis=1), 2)
    for estimator in (Perceptron(), KNeighborsClassifier(1)):
        student = SupervisedStudent(estimator).fit(clouds.X_public, clouds.indices, sure)
        probabilities = student.predict_proba(clouds.X_new)
        assert set(np.unique(probabilities)) == {0.0, 1.0}


def test_a_public_input_out_of_reach_of_every_label_gets_their_mean() -> None:
    points = np.concatenate([np.zeros((4, 1)), np.full((4, 1), 100.0)])
    student = LabelSpreadingStudent(n_neighbors=2).fit(points, [0, 1], [[0.0, 1.0], [0.6, 0.4]])
    np.testing.assert_allclose(student.predict_proba([[100.0]]), [[0.3, 0.7]])


def test_a_single_public_input_keeps_its_label() -> None:
    student = LabelSpreadingStudent().fit([[1.0, 2.0]], [0], [[0.1, 0.9]])
    assert student.predict([[5.0, 5.0]]).tolist() == [1]
    for network in (CNNStudent((1, 2)), VATStudent()):
        with pytest.raises(InvalidArgument, match="at least two public"):
            network.fit([[1.0, 2.0]], [0], [[0.1, 0.9]])


def test_the_network_may_see_preprocessed_images(clouds: Lesson) -> None:
    flipped = FunctionTransformer(lambda X: X[:, ::-1])
    student = CNNStudent((8, 8), preprocess=flipped, epochs=1, batch_size=16, graph_share=0)
    student.fit(clouds.X_public, clouds.indices, clouds.posterior)
    plain = CNNStudent((8, 8), epochs=1, batch_size=16, graph_share=0)
    plain.fit(clouds.X_public[:, ::-1], clouds.indices, clouds.posterior)
    np.testing.assert_array_equal(
        student.predict_proba(clouds.X_new), plain.predict_proba(clouds.X_new[:, ::-1])
    )
    halved = CNNStudent((8, 8), preprocess=FunctionTransformer(lambda X: X[:, ::2]))
    with pytest.raises(InvalidArgument, match="keep image_shape"):
        halved.fit(clouds.X_public, clouds.indices, clouds.posterior)


def test_network_and_graph_share_the_prediction(clouds: Lesson) -> None:
    def probabilities(share: float) -> Any:
        student = CNNStudent((8, 8), epochs=1, batch_size=16, graph_share=share, random_state=0)
        student.fit(clouds.X_public, clouds.indices, clouds.posterior)
        return student.predict_proba(clouds.X_new)

    network, graph = probabilities(0.0), probabilities(1.0)
    spread = LabelSpreadingStudent(n_neighbors=7, alpha=0.98)
    spread.fit(clouds.X_public, clouds.indices, clouds.posterior)
    np.testing.assert_allclose(graph, spread.predict_proba(clouds.X_new))
    np.testing.assert_allclose(probabilities(0.25), 0.75 * network + 0.25 * graph)
    with pytest.raises(InvalidArgument, match="graph_share"):
        probabilities(1.5)


def test_views_average_moved_copies(clouds: Lesson) -> None:
    one = CNNStudent((8, 8), epochs=1, batch_size=16).fit(
        clouds.X_public, clouds.indices, clouds.posterior
    )
    many = clone(one).set_params(views=4).fit(clouds.X_public, clouds.indices, clouds.posterior)
    first, again = (many.predict_proba(clouds.X_new) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (first != one.predict_proba(clouds.X_new)).any()


def test_colour_images_are_accepted() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((20, 6, 5, 3))
    X[::2, :, :, 1] += 1  # the even ones are greener
    student = CNNStudent((6, 5, 3), epochs=12, batch_size=10, n_neighbors=3)
    student.fit(X, [0, 1], certain(np.array([0, 1]), 2))
    assert (student.predict(X) == np.arange(20) % 2).mean() > 0.9


def test_without_torch_the_error_names_the_extra(
    clouds: Lesson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    for student in (CNNStudent((8, 8)), VATStudent()):
        with pytest.raises(MissingExtra, match=r"tacit\[torch\]"):
            student.fit(clouds.X_public, clouds.indices, clouds.posterior)


def test_constant_inputs_do_not_divide_by_zero() -> None:
    X = np.ones((10, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for student in (
            LabelSpreadingStudent(),
            VATStudent(steps=3, batch_size=4),
            CNNStudent((2, 2), epochs=1, batch_size=4),
        ):
            student.fit(X, [0, 1], certain(np.array([1, 1]), 2))
            assert np.isfinite(student.predict_proba(X)).all()


@pytest.mark.parametrize("steps", range(1, 9))
def test_a_cycle_of_any_length(steps, monkeypatch):
    """Four steps were a division by zero, after everything had been released."""
    torch = pytest.importorskip("torch")
    from tacit.students import network_training as networks

    made, rates = [], []

    def one_cycle(*how):
        made.append(networks_cycle(*how))
        return made[-1]

    def loss(_):
        rates.append(made[-1][0].param_groups[0]["lr"])
        return network(torch.ones(3, 2)).sum()

    network, networks_cycle = torch.nn.Linear(2, 1), networks.one_cycle
    monkeypatch.setattr(networks, "one_cycle", one_cycle)
    networks.train(network, range(steps), loss, learning_rate=0.1, weight_decay=0.0)
    assert len(rates) == steps
    assert min(rates) > 0
    assert max(rates) <= 0.1
