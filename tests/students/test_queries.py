"""Queries are distinct rows of the public inputs, chosen the same way each time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.students import choose_queries

CENTRES = np.array([[0, 0], [9, 0], [0, 9], [9, 9], [5, 20]], dtype=float)
SIZES = (50, 10, 40, 30, 20)


@pytest.fixture
def blobs() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    which = np.repeat(np.arange(5), SIZES)
    rng.shuffle(which)
    return CENTRES[which] + rng.normal(size=(150, 2)) * 0.3, which


def test_medoids_visit_every_cluster_and_the_largest_first(blobs: tuple[Any, Any]) -> None:
    points, which = blobs
    chosen = choose_queries(points, 5, random_state=3)
    assert which[chosen].tolist() == np.argsort(-np.array(SIZES)).tolist()


def test_a_medoid_is_the_row_nearest_to_its_clusters_mean(blobs: tuple[Any, Any]) -> None:
    points, which = blobs
    for row in choose_queries(points, 5):
        members = np.nonzero(which == which[row])[0]
        distances = np.linalg.norm(points[members] - points[members].mean(axis=0), axis=1)
        assert row == members[distances.argmin()]


@pytest.mark.parametrize("strategy", ["medoids", "random"])
def test_the_same_seed_gives_the_same_rows(blobs: tuple[Any, Any], strategy: str) -> None:
    state = np.random.get_state()[1].tolist()  # noqa: NPY002  # it must stay as it is
    first, again, other = (
        choose_queries(blobs[0], 20, strategy=strategy, random_state=seed) for seed in (1, 1, 2)
    )
    assert first.tolist() == again.tolist()
    assert sorted(first) != sorted(other)
    assert len(set(first.tolist())) == 20
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


@pytest.mark.parametrize("strategy", ["medoids", "random"])
def test_all_rows_may_be_asked(strategy: str) -> None:
    points = np.random.default_rng(0).normal(size=(12, 3))
    assert sorted(choose_queries(points, 12, strategy=strategy)) == list(range(12))


def test_identical_inputs_still_give_distinct_rows() -> None:
    points = np.concatenate([np.zeros((30, 2)), np.ones((2, 2))])
    chosen = choose_queries(points, 20)
    assert len(set(chosen.tolist())) == 20


def test_images_and_bytes_are_accepted() -> None:
    images = np.random.default_rng(0).integers(0, 255, (20, 4, 4), dtype=np.uint8)
    flat = choose_queries(images.reshape(20, 16), 6)
    assert choose_queries(images, 6).tolist() == flat.tolist()


def test_named_rows_are_taken_as_they_are(blobs: tuple[Any, Any]) -> None:
    assert choose_queries(blobs[0], 3, strategy=[7, 2, 5]).tolist() == [7, 2, 5]
    assert choose_queries(blobs[0], None, strategy=np.array([7, 2])).tolist() == [7, 2]


@pytest.mark.parametrize(
    ("n", "strategy", "message"),
    [
        (0, "medoids", "n=0"),
        (None, "medoids", "n=None"),
        (151, "random", "n=151"),
        (5, "margin", "strategy='margin'"),
        (2, [1, 1], "each row once"),
        (3, [1, 2], "n=3"),
        (1, [150], "in 0 .. 149"),
        (1, [-1], "in 0 .. 149"),
        (1, [0.5], "list of row numbers"),
        (1, [], "list of row numbers"),
    ],
)
def test_refusals(blobs: tuple[Any, Any], n: Any, strategy: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        choose_queries(blobs[0], n, strategy=strategy)
    assert message in str(caught.value)


@pytest.mark.parametrize("points", [[[np.nan, 1.0]], [1.0, 2.0], [], [["a", "b"]]])
def test_inputs_that_are_no_table_are_refused(points: Any) -> None:
    with pytest.raises(InvalidArgument, match="X_public_features"):
        choose_queries(points, 1)
