"""Torch teachers: a recipe, one thread, and the same answers from the same seed."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from teacher_tables import jitter, module

from tacit.errors import InvalidArgument
from tacit.teachers import Recipe, Shard, TorchTeacher

torch = pytest.importorskip("torch")

LINEAR = partial(torch.nn.Linear, 2, 2)


def blobs(seed=0, n_records=80) -> Shard:
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, n_records)
    return Shard(random.normal(size=(n_records, 2)) + 6 * y[:, None] - 3, y, seed=seed)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd", torch.optim.RMSprop])
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_every_recipe_learns(optimizer, schedule):
    recipe = Recipe(steps=60, learning_rate=0.05, optimizer=optimizer, schedule=schedule)
    train, test = blobs(0), blobs(1)
    labels = TorchTeacher(LINEAR, recipe).predict_shards([train], test.X, n_classes=2)
    assert (labels[0] == test.y).mean() > 0.97


def test_no_steps_no_learning():
    """The check above can fail: one step at a rate of nearly nothing learns nothing."""
    recipe = Recipe(steps=1, learning_rate=1e-9)
    test = blobs(1)
    rates = [
        (
            TorchTeacher(LINEAR, recipe).predict_shards([blobs(seed)], test.X, n_classes=2)
            == test.y
        ).mean()
        for seed in range(8)
    ]
    assert min(rates) < 0.9


@pytest.mark.arithmetic
def test_the_shard_and_seed_decide_whatever_else_happens():
    images = np.random.default_rng(3).normal(size=(40, 16)).astype(np.float32)
    shard = Shard(images, np.arange(40) % 3, seed=5)
    teacher = TorchTeacher(module, Recipe(steps=4, augment=jitter), input_shape=(1, 4, 4))
    queries = np.random.default_rng(4).normal(size=(60, 16))
    torch.manual_seed(1)
    alone = teacher.predict_shards([shard], queries, n_classes=3)
    torch.manual_seed(2)
    together = teacher.predict_shards([Shard(images + 1, shard.y, 6), shard], queries, n_classes=3)
    assert (together[1] == alone[0]).all()
    other = teacher.predict_shards([Shard(images, shard.y, 9)], queries, n_classes=3)
    assert (other != alone).any()


def test_threads_and_generator_are_left_as_they_were(table):
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    seen = []

    class Watching(torch.nn.Linear):
        def forward(self, batch):
            seen.append(torch.get_num_threads())
            return super().forward(batch)

    table.predict(TorchTeacher(partial(Watching, 16, 3), Recipe(steps=2)))
    assert set(seen) == {1}
    assert torch.get_num_threads() == threads
    assert (torch.get_rng_state() == state).all()


def test_batches_cover_the_shard_evenly():
    seen = []

    def keep(batch, generator):
        seen.append(batch[:, 0].clone())
        return batch

    shard = Shard(np.arange(10.0)[:, None] * [1, 0], np.arange(10) % 2, seed=1)
    recipe = Recipe(steps=5, batch_size=4, augment=keep)
    TorchTeacher(LINEAR, recipe).predict_shards([shard], shard.X, n_classes=2)
    assert [len(batch) for batch in seen] == [4] * 5
    drawn = torch.cat(seen).tolist()
    assert sorted(drawn) == sorted([*range(10), *range(10)])


def test_a_shard_smaller_than_a_batch():
    shard = Shard(np.array([[-3.0, 0.0], [3.0, 0.0]]), np.array([0, 1]), seed=1)
    recipe = Recipe(steps=80, learning_rate=0.05, batch_size=64)
    labels = TorchTeacher(LINEAR, recipe).predict_shards([shard], shard.X, n_classes=2)
    assert labels.tolist() == [[0, 1]]


def test_a_module_that_diverges_is_no_vote_for_class_0():
    shard = Shard(np.array([[1e30, 1e30], [-1e30, 0.0]]), np.array([0, 1]), seed=1)
    recipe = Recipe(steps=3, optimizer="sgd", learning_rate=1e30)
    with pytest.raises(FloatingPointError):
        TorchTeacher(LINEAR, recipe).predict_shards([shard], shard.X, n_classes=2)


def test_images_are_stored_channels_last_if_asked():
    formats = []

    def look(batch, generator):
        return batch

    class Looking(torch.nn.Conv2d):
        def forward(self, batch):
            formats.append(batch.is_contiguous(memory_format=torch.channels_last))
            return super().forward(batch).flatten(1)

    shard = Shard(np.random.default_rng(0).normal(size=(8, 8)), np.arange(8) % 2, seed=0)
    for channels_last in (True, False):
        teacher = TorchTeacher(
            partial(Looking, 2, 2, 2), Recipe(steps=1, channels_last=channels_last), (2, 2, 2)
        )
        teacher.predict_shards([shard], shard.X, n_classes=2)
        assert all(kept == channels_last for kept in formats)
        formats.clear()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"learning_rate": 0}, "learning_rate=0"),
        ({"optimizer": "lion"}, "optimizer='lion'"),
        ({"schedule": "steep"}, "schedule='steep'"),
        ({"weight_decay": -1}, "weight_decay=-1"),
    ],
)
def test_recipes_that_are_refused(options, message):
    with pytest.raises(InvalidArgument, match=message):
        Recipe(**options)


def test_a_rehearsal_on_public_queries_finds_mistakes_before_training(table):
    with pytest.raises(InvalidArgument, match=r"\(1, 3\), got \(1, 2\)"):
        table.predict(TorchTeacher(partial(torch.nn.Linear, 16, 2)))
    with pytest.raises(RuntimeError, match="shapes"):
        table.predict(TorchTeacher(LINEAR))
    with pytest.raises(InvalidArgument, match=r"torch\.nn\.Module"):
        table.predict(TorchTeacher(dict))
    with pytest.raises(InvalidArgument, match="module_factory"):
        TorchTeacher(None)
