"""Small convolutional teachers, in a plain loop and by tacit, and the least that they could take.

The recipe: three convolutions with batch normalisation, two of them strided, affine augmentation,
80 steps of 64 images. The plain loop is what one writes first: one module after another, torch's
own threads and formats. The floor is what the recipe's arithmetic takes at the speed of this
machine's best matrix product on every core, with nothing else to do.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from tacit.teachers import LocalProcesses, Recipe, TorchTeacher, predict_with_teachers

STEPS, BATCH, RATE = 80, 64, 3e-3
EXAMPLES = 240
SIDE = 28


def make_module() -> Any:
    from torch import nn

    def block(inputs: int, outputs: int, size: int, stride: int) -> list[Any]:
        convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]

    layers = [*block(1, 16, 5, 2), *block(16, 32, 3, 2), *block(32, 32, 3, 1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 49, 10))


def move_about(images: Any, generator: Any) -> Any:
    """Rotate, scale, shear and shift each image a little."""
    import torch
    from torch.nn import functional

    draws = torch.rand((len(images), 5), generator=generator) * 2 - 1
    angle, scale, shear = 0.25 * draws[:, 0], 1 + 0.15 * draws[:, 1], 0.2 * draws[:, 2]
    across = torch.stack([scale * angle.cos(), scale * (shear - angle.sin()), 0.15 * draws[:, 3]])
    down = torch.stack([scale * angle.sin(), scale * angle.cos(), 0.15 * draws[:, 4]])
    maps = torch.stack([across, down]).permute(2, 0, 1)
    grid = functional.affine_grid(maps, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


RECIPE = Recipe(
    steps=STEPS, batch_size=BATCH, learning_rate=RATE, schedule="cosine", augment=move_about
)


def plain_loop(X: Any, y: Any, shards: Any, n_teachers: int, X_query: Any) -> np.ndarray:
    """One teacher after another, as one writes it first."""
    import torch

    answers = []
    queries = torch.tensor(X_query).reshape(-1, 1, SIDE, SIDE)
    for number in range(n_teachers):
        torch.manual_seed(number)
        generator = torch.Generator().manual_seed(number)
        images = torch.tensor(X[shards == number]).reshape(-1, 1, SIDE, SIDE)
        labels = torch.tensor(y[shards == number])
        module = make_module()
        optimizer = torch.optim.Adam(module.parameters(), lr=RATE)
        decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        module.train()
        for _ in range(STEPS):
            batch = torch.randperm(len(labels), generator=generator)[:BATCH]
            scores = module(move_about(images[batch], generator))
            loss = torch.nn.functional.cross_entropy(scores, labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            decay.step()
        module.eval()
        with torch.no_grad():
            answers.append(module(queries).argmax(dim=1).numpy())
    return np.array(answers)


def compare(teachers: int, workers: int, data: str | None, rounds: int) -> dict[str, Any]:
    """Seconds a teacher in the plain loop and in local processes, best of a few rounds."""
    X, y, X_query, truth = digits(data, teachers * EXAMPLES)
    shards = np.repeat(np.arange(teachers), EXAMPLES)
    ours = TorchTeacher(make_module, RECIPE, input_shape=(1, SIDE, SIDE))
    start_up = min(_local(ours, X, y, shards, workers, X_query, workers)[0] for _ in range(rounds))
    plain, local = [], []
    for _ in range(rounds):  # in turn, so that a busy machine is busy for both
        start = time.perf_counter()
        rows = plain_loop(X, y, shards, teachers, X_query)
        plain.append((time.perf_counter() - start) / teachers)
        seconds, answers = _local(ours, X, y, shards, teachers, X_query, workers)
        local.append((seconds - start_up) / (teachers - workers))
    return {
        "plain": round(min(plain), 4),
        "tacit": round(max(min(local), 1e-4), 4),
        "start_up": round(start_up, 2),
        "plain_accuracy": round(100 * float((rows == truth).mean()), 2),
        "tacit_accuracy": round(100 * float((answers == truth).mean()), 2),
        "threads_of_the_loop": _threads(),
        **floor(len(X_query), workers),
    }


def _local(
    family: TorchTeacher, X: Any, y: Any, shards: Any, n_teachers: int, X_query: Any, workers: int
) -> tuple[float, np.ndarray]:
    mine = shards < n_teachers
    start = time.perf_counter()
    answers = predict_with_teachers(
        family,
        X[mine],
        y[mine],
        shards[mine],
        n_teachers,
        X_query,
        n_classes=10,
        executor=LocalProcesses(workers),
    )
    return time.perf_counter() - start, answers


def _threads() -> int:
    import torch

    return int(torch.get_num_threads())


def floor(n_queries: int, workers: int) -> dict[str, float]:
    """The recipe's arithmetic in GFLOP, the best speed of one core, and the least seconds so."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    module, images = make_module(), torch.zeros(BATCH, 1, SIDE, SIDE)
    with FlopCounterMode(display=False) as step:
        module(images).sum().backward()
    with FlopCounterMode(display=False) as asked, torch.no_grad():
        module(images)
    work = STEPS * step.get_total_flops() + n_queries / BATCH * asked.get_total_flops()
    speed = _best_speed()
    return {
        "gflop": round(work / 1e9, 1),
        "gflop_per_second": round(speed / 1e9, 1),
        "floor": round(work / speed / workers, 4),
    }


def _best_speed(size: int = 1024, rounds: int = 40) -> float:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    a, b = torch.rand(size, size), torch.rand(size, size)
    best = np.inf
    for _ in range(rounds):
        start = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - start)
    torch.set_num_threads(threads)
    return 2 * size**3 / best


def digits(data: str | None, n_records: int) -> tuple[Any, Any, Any, Any]:
    """MNIST where there is some; otherwise noise, on which times are the same."""
    if data is not None and os.path.isdir(os.path.join(data, "mnist")):
        from tacit.datasets import load_idx

        mnist = load_idx(os.path.join(data, "mnist"))
        train, test = mnist.train, mnist.test
        return (
            np.asarray(train.X[:n_records], dtype=np.float32),
            train.y[:n_records],
            np.asarray(test.X[:2000], dtype=np.float32),
            test.y[:2000],
        )
    random = np.random.default_rng(0)
    pixels = SIDE * SIDE
    return (
        random.random((n_records, pixels), dtype=np.float32),
        random.integers(0, 10, n_records),
        random.random((2000, pixels), dtype=np.float32),
        random.integers(0, 10, 2000),
    )
