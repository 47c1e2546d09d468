"""Code that says what it has seen in every way there is, for the tests of silence.

Each way is heard before and after private work ("before-print", "after-print"), which shows that it
is a way; what private work says ("serial-print") must not be, and a file of its name shows that it
was said. `main` runs in a process of its own.
"""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

HELD = sys.stdout
"""A stream that somebody keeps."""
POOL = ThreadPoolExecutor(1)
LOUD = logging.getLogger("loud")
LOUD.addHandler(logging.StreamHandler(sys.stderr))


def _c_code(text: str) -> None:
    ctypes.CDLL(None).printf(b"%s\n", text.encode())  # stays in a buffer of the C library


def _forked(text: str) -> None:
    child = os.fork()
    if not child:
        os.write(1, text.encode() + b"\n")
        os._exit(0)
    os.waitpid(child, 0)


def _thread(text: str) -> None:
    def fail() -> None:
        raise RuntimeError(text)

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()


class _Dying:
    def __init__(self, text: str) -> None:
        self.text = text

    def __del__(self) -> None:
        raise RuntimeError(self.text)


def _warned(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(text, stacklevel=1)


def _enabled(text: str) -> None:
    logging.disable(logging.NOTSET)
    logging.critical(text)


def _older_pool(text: str) -> None:
    POOL.submit(print, text).result()


def _pooled(text: str) -> None:
    from joblib import Parallel, delayed

    Parallel(n_jobs=2)(delayed(os.system)(f"echo {text}{end}") for end in ("", "."))


BY_THREAD: dict[str, Callable[[str], Any]] = {
    "print": print,
    "stderr": lambda text: print(text, file=sys.stderr, flush=True),
    "held": lambda text: HELD.write(text + "\n"),
    "original": lambda text: print(text, file=sys.__stderr__),
    "bytes": lambda text: sys.stdout.buffer.write(text.encode() + b"\n"),
    "child": lambda text: subprocess.run(["echo", text], check=True),
    "child_of_stream": lambda text: subprocess.run(["echo", text], check=True, stdout=sys.stdout),
    "root": logging.warning,
    "logger": LOUD.error,
    "enabled": _enabled,
    "handler": lambda text: LOUD.handlers[0].handle(
        logging.LogRecord("loud", 40, "", 1, text, (), None)
    ),
    "warning": _warned,
    "thread": _thread,
    "unraisable": _Dying,
    "older_pool": _older_pool,
}
WAYS = BY_THREAD | {
    "descriptor1": lambda text: os.write(1, text.encode() + b"\n"),
    "descriptor2": lambda text: os.write(2, text.encode() + b"\n"),
    "shell": lambda text: os.system(f"echo {text} >&2"),
    "fork": _forked,
    "c": _c_code,
}
"""Others are for worker processes alone: descriptors belong to all threads."""
POOLED = {"pool": _pooled}


def speak(place: str, ways: dict[str, Callable[[str], Any]] = WAYS) -> None:
    """Say where this is, in every way."""
    for way, say in ways.items():
        say(f"{place}-{way}!")
    Path(os.environ["SPOKEN"], place).touch()


class Planted(Exception):
    """An error that quotes a record."""


class Talking:
    """Teachers that speak; with an error, they fail in the end."""

    def __init__(self, place: str, ways: dict[str, Any], error: type[BaseException] | None = None):
        self.place, self.ways, self.error = place, ways, error

    def predict_shards(self, shards: Any, X_query: Any, *, n_classes: int) -> Any:
        speak(self.place, self.ways)
        if self.error is not None:
            raise self.error(f"{self.place}-error!")
        return np.zeros((len(shards), len(X_query)), dtype=int)

    def segment_queries(self, shard: Any, queries: Any, *, n_classes: int) -> Any:
        speak(self.place, self.ways)
        if self.error is not None:
            raise self.error(f"{self.place}-error!")
        return np.zeros((len(queries), n_classes, *shard.masks.shape[1:]))


def ask(place: str, executor: Any = "serial", ways: Any = WAYS, error: Any = None) -> None:
    """Let two talking teachers answer; what fails is shown as Python shows it."""
    from tacit.teachers import predict_with_teachers

    rows, labels, shards = np.zeros((4, 1)), [0, 1, 0, 1], [0, 0, 1, 1]
    with _shown():
        predict_with_teachers(
            Talking(place, ways, error), rows, labels, shards, 2, [[0.0]], n_classes=2,
            executor=executor,
        )  # fmt: skip


def ask_for_masks(place: str, executor: Any = "serial", error: Any = None) -> None:
    from tacit.masks import segment_with_teachers

    scans, masks = np.zeros((2, 4, 4)), np.zeros((2, 4, 4), dtype=int)
    with _shown():
        segment_with_teachers(
            Talking(place, WAYS, error), scans, masks, [0, 1], 2, scans, n_classes=2,
            executor=executor,
        )  # fmt: skip


@contextmanager
def _shown() -> Iterator[None]:
    try:
        yield
    except BaseException:
        traceback.print_exc()


class TalkingFeatures:
    """A transformer of another package."""

    def __init__(self, place: str = "features", error: Any = None) -> None:
        self.place, self.error = place, error

    def fit(self, X: Any, y: Any = None) -> TalkingFeatures:
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"place": self.place, "error": self.error}

    def transform(self, X: Any) -> Any:
        if np.any(X == 7):  # a private row
            speak(self.place, BY_THREAD)
            if self.error is not None:
                raise self.error(f"{self.place}-error!")
        return np.asarray(X)


def see(place: str, error: Any = None) -> None:
    """Compute features of private rows, in a whole fit."""
    from tacit import PrototypeClassifier

    public = np.random.default_rng(0).normal(size=(9, 2))
    model = PrototypeClassifier(
        classes=[0, 1], n_prototypes=4, features=TalkingFeatures(place, error)
    )
    with _shown():
        model.fit([[7.0, 7.0], [1.0, 1.0]], [0, 1], X_public=public)


class TalkingAnswers:
    """Answers that are made when they are asked for."""

    def __init__(self, place: str, error: Any) -> None:
        self.place, self.error = place, error

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        speak(self.place, BY_THREAD)
        if self.error is not None:
            raise self.error(f"{self.place}-error!")
        return np.array([[9, 1]])


def release(place: str, folder: str, error: Any = None) -> None:
    from tacit import Budget, GNMax, Ledger, Plan

    ledger = Ledger(f"{folder}/{place}.ledger", budget=Budget(epsilon=2, delta=1e-5))
    with (
        _shown(),
        ledger.release(Plan(GNMax(sigma=40), queries=1), purpose="a test") as grant,
    ):
        grant.release(TalkingAnswers(place, error))


def train(place: str, error: Any = None) -> None:
    """Train a foreign module in noisy steps."""
    import torch

    from tacit import DPSGDClassifier, Training

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, rows: Any) -> Any:
            if bool((rows == 7).any()):
                speak(place, BY_THREAD)
                if error is not None:
                    raise error(f"{place}-error!")
            return self.layer(rows)

    model = DPSGDClassifier(
        module=Module(),
        classes=[0, 1],
        n_records=2,
        training=Training(batch_size=2, epochs=1),
        noise_multiplier=9.0,
    )
    with _shown():
        model.fit([[7.0, 7.0], [1.0, 1.0]], [0, 1])


def teach_modules(place: str) -> None:
    """Train torch teachers of a module that speaks."""
    import torch

    from tacit.teachers import Recipe, TorchTeacher, predict_with_teachers

    class Module(torch.nn.Linear):
        def forward(self, rows: Any) -> Any:
            if bool((rows == 7).any()):
                speak(place, BY_THREAD)
            return super().forward(rows)

    rows, labels = np.full((2, 2), 7.0), [0, 1]
    teacher = TorchTeacher(lambda: Module(2, 2), Recipe(steps=1))
    with _shown():
        predict_with_teachers(teacher, rows, labels, [0, 0], 1, [[0.0, 0.0]], n_classes=2)


def plain(folder: str, ways: Any) -> None:
    from tacit.teachers import LocalProcesses

    local = LocalProcesses(1)
    ask("serial", ways=ways)
    ask("serial_failing", error=Planted)
    ask("serial_leaving", error=SystemExit)
    ask("local", local)
    ask("local_failing", local, error=Planted)
    ask_for_masks("masks")
    ask_for_masks("masks_failing", error=Planted)
    ask_for_masks("local_masks", local)
    see("features")
    see("features_failing", Planted)
    see("features_leaving", SystemExit)
    release("answers", folder)
    release("answers_failing", folder, Planted)
    release("answers_leaving", folder, SystemExit)


def on_a_cluster() -> None:
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.submit(speak, "before", {"print": print, "stderr": WAYS["stderr"]}).result()
        ask("dask", client)
        ask("dask_failing", client, error=Planted)
        ask("dask_leaving", client, error=SystemExit)
        ask_for_masks("dask_masks", client)
        client.submit(speak, "after", {"print": print, "stderr": WAYS["stderr"]}).result()


def main(case: str, folder: str) -> None:
    """Speak, do private work that speaks, and speak again."""
    logging.basicConfig(
        handlers=[logging.StreamHandler(), logging.FileHandler(f"{folder}/log")], force=True
    )
    logging.captureWarnings(True)
    warnings.simplefilter("always")
    if case == "cluster":
        on_a_cluster()
        return
    ways = WAYS | POOLED if case == "plain" else WAYS
    speak("before", ways)
    if case == "plain":
        plain(folder, ways)
    else:
        train("module")
        train("module_failing", Planted)
        train("module_leaving", SystemExit)
        teach_modules("torch")
    speak("after", ways)
