"""Small convolutional teachers, in a plain loop and by tacit, and the least that they could take.

The recipe: three convolutions with batch normalisation, two of them strided, affine augmentation,
80 steps of 64 images. The plain loop is what one writes first: one module after another, torch's
own threads and formats. The floor is what the recipe's products take at the speed of this machine's
best matrix product on every core, with normalisation, augmentation and optimiser for nothing.

Why not five times: the convolutions already run near that speed. Tried, in CPU-seconds on one
thread: channels last 1.0-1.15 times faster for these strided layers (1.8 for wide ones without
strides), fused Adam 1.0-1.1, eight teachers as groups of one module 1.1-1.2 (kept out: groups tie
all shards to one size), bfloat16 slower with AVX-512 and an illegal instruction with AMX on a
virtual machine that does not lend it, allocator settings nothing. Two processes of one thread give
the second core. What is faster by an order of magnitude is another teacher: kernel ridge.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tacit.features import digit_features
from tacit.teachers import (
    KernelRidgeTeachers,
    LocalProcesses,
    Recipe,
    TorchTeacher,
    predict_with_teachers,
)

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
        fit_plainly(module, images, labels, generator)
        module.eval()
        with torch.no_grad():
            answers.append(module(queries).argmax(dim=1).numpy())
    return np.array(answers)


def fit_plainly(module: Any, images: Any, labels: Any, generator: Any) -> None:
    import torch

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


def grouped_loop(X: Any, y: Any, shards: Any, n_teachers: int, X_query: Any) -> np.ndarray:
    """All teachers as the groups of one module: convolutions and Adam act on each by itself."""
    import torch

    generator = torch.Generator().manual_seed(0)
    images = torch.stack([torch.tensor(X[shards == t]) for t in range(n_teachers)])
    images = images.reshape(n_teachers, -1, SIDE, SIDE)
    labels = torch.stack([torch.tensor(y[shards == t]) for t in range(n_teachers)])
    module = make_grouped_module(n_teachers).to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(module.parameters(), lr=RATE, fused=True)
    module.train()
    for _ in range(STEPS):
        batch = torch.randperm(labels.shape[1], generator=generator)[:BATCH]
        drawn = move_about(images[:, batch].reshape(-1, 1, SIDE, SIDE), generator)
        inputs = drawn.reshape(n_teachers, -1, SIDE, SIDE).transpose(0, 1)
        scores = module(inputs.contiguous(memory_format=torch.channels_last))
        loss = torch.nn.functional.cross_entropy(
            scores.reshape(-1, 10), labels[:, batch].T.reshape(-1), reduction="sum"
        )
        optimizer.zero_grad()
        (loss / BATCH).backward()
        optimizer.step()
    module.eval()
    queries = torch.tensor(X_query).reshape(-1, 1, SIDE, SIDE)
    with torch.no_grad():
        parts = [module(part.expand(-1, n_teachers, -1, -1)) for part in queries.split(256)]
    return torch.cat(parts).reshape(-1, n_teachers, 10).argmax(dim=2).T.numpy()


def make_grouped_module(groups: int) -> Any:
    from torch import nn

    def block(inputs: int, outputs: int, size: int, stride: int) -> list[Any]:
        inputs, outputs = inputs * groups, outputs * groups
        convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False, groups=groups)
        return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]

    layers = [*block(1, 16, 5, 2), *block(16, 32, 3, 2), *block(32, 32, 3, 1)]
    head = nn.Conv2d(32 * groups, 10 * groups, 7, groups=groups)
    return nn.Sequential(*layers, head, nn.Flatten())


def compare(teachers: int, workers: int, data: str | None, rounds: int) -> dict[str, Any]:
    """Wall and CPU seconds a teacher and accuracy of each way, and the floor."""
    X, y, X_query, truth = digits(data, teachers * EXAMPLES)
    inputs = (X, y, np.repeat(np.arange(teachers), EXAMPLES), teachers, X_query)
    local = LocalProcesses(workers)
    ways: dict[str, Callable[[], np.ndarray]] = {
        "plain loop": lambda: plain_loop(*_first(teachers // 2, inputs)),
        "plain loop, one thread": lambda: _on_one_thread(plain_loop, inputs),
        "grouped, one thread": lambda: _on_one_thread(grouped_loop, inputs),
        "tacit, serial": lambda: _tacit("serial", inputs),
        "tacit, local": lambda: _tacit(local, inputs),
        "kernel ridge on HOG": lambda: _closed_form(inputs),
    }
    start_up = _best(lambda: _tacit(local, _first(workers, inputs)), rounds)
    found = {}
    for name, way in ways.items():
        taken = _best(way, rounds)
        if name == "tacit, local":  # the workers' start is paid once, not for each teacher
            taken = taken.less(start_up)
        found[name] = {
            **taken.each(),
            "accuracy": round(100 * float((taken.rows == truth).mean()), 2),
        }
    return {"ways": found, "start_up": round(start_up.wall, 2), **floor(len(X_query), workers)}


class Taken(NamedTuple):
    """Seconds, CPU-seconds with those of ended children, and what the teachers answered."""

    wall: float
    cpu: float
    rows: np.ndarray
    teachers: int

    def less(self, part: Taken) -> Taken:
        """Leave out what a part of the teachers took, start included."""
        return Taken(
            self.wall - part.wall, self.cpu - part.cpu, self.rows, self.teachers - part.teachers
        )

    def each(self) -> dict[str, float]:
        """Return seconds a teacher."""
        return {
            "seconds": round(self.wall / self.teachers, 4),
            "cpu": round(self.cpu / self.teachers, 4),
        }


def _best(way: Callable[[], np.ndarray], rounds: int) -> Taken:
    """Least wall and least CPU seconds of a few rounds: the machine may have other work."""
    taken = [_taken(way) for _ in range(rounds)]
    wall, cpu = min(one.wall for one in taken), min(one.cpu for one in taken)
    return taken[-1]._replace(wall=wall, cpu=cpu)


def _taken(way: Callable[[], np.ndarray]) -> Taken:
    wall, cpu = time.perf_counter(), _cpu()
    rows = way()
    return Taken(time.perf_counter() - wall, _cpu() - cpu, rows, len(rows))


def _cpu() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def _closed_form(inputs: tuple[Any, ...]) -> np.ndarray:
    """Train what beats these networks in both time and accuracy, features included."""
    X, y, shards, n_teachers, X_query = inputs
    view = digit_features((SIDE, SIDE))
    return predict_with_teachers(
        KernelRidgeTeachers(),
        view.fit_transform(X),
        y,
        shards,
        n_teachers,
        view.fit_transform(X_query),
        n_classes=10,
    )


def _first(count: int, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    X, y, shards, _, X_query = inputs
    mine = shards < count
    return X[mine], y[mine], shards[mine], count, X_query


def _tacit(executor: Any, inputs: tuple[Any, ...]) -> np.ndarray:
    teacher = TorchTeacher(make_module, RECIPE, input_shape=(1, SIDE, SIDE))
    return predict_with_teachers(teacher, *inputs, n_classes=10, executor=executor)


def _on_one_thread(loop: Callable[..., np.ndarray], inputs: tuple[Any, ...]) -> np.ndarray:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return loop(*inputs)
    finally:
        torch.set_num_threads(threads)


def floor(n_queries: int, workers: int) -> dict[str, float]:
    """Return the recipe's GFLOP, the best speed of one core, and the least seconds a teacher."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    module, images = make_module(), torch.zeros(BATCH, 1, SIDE, SIDE)
    with FlopCounterMode(display=False) as step:
        module(images).sum().backward()
    with FlopCounterMode(display=False) as asked, torch.no_grad():
        module(images)
    work = STEPS * step.get_total_flops() + n_queries / BATCH * asked.get_total_flops()
    speed = _on_one_thread(_best_speed, ())
    return {
        "gflop": round(work / 1e9, 1),
        "gflop_per_second": round(speed / 1e9, 1),
        "floor": round(work / speed / workers, 4),
    }


def _best_speed(size: int = 1024, rounds: int = 60) -> Any:
    import torch

    a, b = torch.rand(size, size), torch.rand(size, size)
    return 2 * size**3 / min(_taken(lambda: a @ b).wall for _ in range(rounds))


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
