"""SecureNoise: the stream is ChaCha20 under an operating-system key, and nothing repeats it."""

from __future__ import annotations

import copy
import ctypes
import inspect
import multiprocessing
import os
import pickle
import signal
import struct
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from randomgen import ChaCha

from tacit.noise import SecureNoise, sources

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
forks = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


# --- ChaCha20, written out from RFC 8439 as an oracle ---------------------------------------


def rotate(word: int, by: int) -> int:
    return ((word << by) | (word >> (32 - by))) & 0xFFFFFFFF


def quarter_round(x: list[int], a: int, b: int, c: int, d: int) -> None:
    for first, second, third, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        x[first] = (x[first] + x[second]) & 0xFFFFFFFF
        x[third] = rotate(x[third] ^ x[first], by)


def chacha20_block(key: bytes, counter_and_nonce: tuple[int, ...]) -> list[int]:
    constants = struct.unpack("<4I", b"expand 32-byte k")
    start = [*constants, *struct.unpack("<8I", key), *counter_and_nonce]
    x = list(start)
    for _ in range(10):
        for i in range(4):
            quarter_round(x, i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter_round(x, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [(a + b) & 0xFFFFFFFF for a, b in zip(x, start, strict=True)]


def keystream(key: bytes, blocks: int) -> np.ndarray:
    words = [chacha20_block(key, (index, 0, 0, 0)) for index in range(blocks)]
    return np.array(words, dtype="<u4").reshape(-1).view("<u8")


def test_oracle_gives_the_test_vector_of_the_rfc() -> None:
    block = chacha20_block(bytes(range(32)), (1, 0x09000000, 0x4A000000, 0))
    assert block[:4] == [0xE4E7F110, 0x15593BD1, 0x1FDD0F50, 0xC47120A3]
    assert block[12:] == [0xD19C12B5, 0xB94E16DE, 0xE883D0CB, 0x4E3C50A2]


def test_stream_is_chacha20_under_all_256_bits_of_the_systems_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = bytes((7 * i + 3) % 256 for i in range(32))
    asked: list[int] = []

    def urandom(count: int) -> bytes:
        asked.append(count)
        return key

    monkeypatch.setattr(os, "urandom", urandom)
    words = SecureNoise()._words(8 * 200)
    assert asked == [32]  # the generator beside them takes a key of its own, if it is asked
    np.testing.assert_array_equal(words, keystream(key, 200))


def test_a_key_is_followed_by_a_new_one_long_before_its_counter_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = [bytes([number]) * 32 for number in range(9)]
    left = iter(keys)
    monkeypatch.setattr(os, "urandom", lambda count: next(left))
    monkeypatch.setattr(sources, "_WORDS_OF_A_KEY", 16)
    noise = SecureNoise()
    words = [noise._words(8) for _ in range(4)]
    np.testing.assert_array_equal(np.concatenate(words[:2]), keystream(keys[0], 2))
    np.testing.assert_array_equal(np.concatenate(words[2:]), keystream(keys[1], 2))


def test_every_instance_has_its_own_key() -> None:
    first, second = SecureNoise(), SecureNoise()
    assert not np.intersect1d(first._words(1000), second._words(1000)).size


def test_consecutive_draws_differ() -> None:
    noise = SecureNoise()
    assert not np.intersect1d(noise._words(1000), noise._words(1000)).size


def test_there_is_no_seed() -> None:
    assert list(inspect.signature(SecureNoise).parameters) == []
    with pytest.raises(TypeError):
        SecureNoise(1)  # type: ignore[call-arg]


def test_numpy_and_python_seeds_do_not_reach_it() -> None:
    np.random.seed(1)  # noqa: NPY002
    first = SecureNoise().gaussian(1.0, 8)
    np.random.seed(1)  # noqa: NPY002
    assert not np.array_equal(first, SecureNoise().gaussian(1.0, 8))


# --- no copies ------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_cannot_be_copied_or_pickled(duplicate: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match=r"make a new SecureNoise\(\)"):
        duplicate(SecureNoise())


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickle.dumps])
def test_cannot_be_copied_inside_something_else(duplicate: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="repeat its noise"):
        duplicate({"nested": [SecureNoise()]})


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_no_pickle_protocol_works(protocol: int) -> None:
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(SecureNoise(), protocol=protocol)


def test_shows_nothing_of_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: b"K" * count)
    noise = SecureNoise()
    assert repr(noise) == str(noise) == "SecureNoise()"
    assert not hasattr(noise, "__dict__")
    with pytest.raises(AttributeError):
        noise.secure = False  # type: ignore[misc]


# --- forks ----------------------------------------------------------------------------------


def in_child(draw: Callable[[], bytes], fork: Callable[[], int] | None = None) -> bytes:
    """Run `draw` in a forked child and return what it gives; an empty answer means it failed."""
    reader, writer = os.pipe()
    pid = fork() if fork else os.fork()
    if pid == 0:
        try:
            signal.alarm(30)
            os.write(writer, draw())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        answer = stream.read()
    os.waitpid(pid, 0)
    return answer


@needs_fork
@forks
def test_child_takes_its_own_key_where_a_plain_chacha_generator_repeats() -> None:
    noise = SecureNoise()
    plain = np.random.Generator(ChaCha(rounds=20))
    noise.gaussian(1.0, 3)

    def draw() -> bytes:
        return noise.gaussian(1.0, 16).tobytes() + plain.standard_normal(16).tobytes()

    child, parent = in_child(draw), draw()
    assert len(child) == len(parent) == 256
    assert child[128:] == parent[128:], "the control: an ordinary generator repeats itself"
    assert not np.intersect1d(np.frombuffer(child[:128]), np.frombuffer(parent[:128])).size


@needs_fork
@forks
def test_children_and_grandchildren_all_differ() -> None:
    noise = SecureNoise()

    def draw() -> bytes:
        return noise._words(8).tobytes()

    children = [in_child(draw), in_child(draw), in_child(lambda: in_child(draw)), draw()]
    assert all(len(answer) == 64 for answer in children)
    assert np.unique(np.frombuffer(b"".join(children), dtype=np.uint64)).size == 32


@needs_fork
def test_a_fork_that_python_does_not_see_is_noticed_too() -> None:
    libc = ctypes.PyDLL(None)
    noise = SecureNoise()

    def draw() -> bytes:
        return noise._words(8).tobytes()

    child, parent = in_child(draw, fork=libc.fork), draw()
    assert len(child) == len(parent) == 64
    assert not np.intersect1d(np.frombuffer(child, "u8"), np.frombuffer(parent, "u8")).size


@needs_fork
@forks
def test_a_child_with_the_process_id_of_its_parent_is_noticed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As happens between process-id namespaces: both may be number 1."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    noise = SecureNoise()
    child, parent = in_child(lambda: noise._words(8).tobytes()), noise._words(8).tobytes()
    assert len(child) == len(parent) == 64
    assert child != parent


@needs_fork
@forks
@pytest.mark.parametrize(
    "draw",
    [
        lambda noise: noise.gaussian(1.0, 16),
        lambda noise: noise.laplace(1.0, 16),
        lambda noise: noise.rounded_gaussian_steps(2.0**30, 1.0, 16),
        lambda noise: noise.bernoulli(0.5, 256),
        lambda noise: noise.poisson_mask(0.5, 256),
        lambda noise: noise.geometric(0.5, 256),
    ],
)
def test_every_method_notices_the_fork(draw: Callable[[SecureNoise], np.ndarray]) -> None:
    noise = SecureNoise()
    child, parent = in_child(lambda: draw(noise).tobytes()), draw(noise).tobytes()
    assert len(child) == len(parent) > 0
    assert child != parent


@needs_fork
@forks
def test_child_draws_although_a_thread_held_the_lock_at_the_fork() -> None:
    noise = SecureNoise()
    holding, done = threading.Event(), threading.Event()

    def hold(generator: np.random.Generator) -> None:
        holding.set()
        done.wait(timeout=30)

    thread = threading.Thread(target=lambda: noise._draw(hold))
    thread.start()
    assert holding.wait(timeout=30)
    try:
        child = in_child(lambda: noise._words(4).tobytes())
    finally:
        done.set()
        thread.join()
    assert len(child) == 32


_shared: SecureNoise | None = None


def draw_from_shared(_: int) -> bytes:
    assert _shared is not None
    return _shared._words(4).tobytes()


@needs_fork
@forks
def test_workers_of_a_forking_pool_differ() -> None:
    global _shared  # noqa: PLW0603 - a forked worker inherits a global, as user code would
    _shared = SecureNoise()
    context = multiprocessing.get_context("fork")
    with context.Pool(2, maxtasksperchild=1) as pool:
        answers = pool.map(draw_from_shared, range(4), chunksize=1)
    answers.append(draw_from_shared(0))
    assert np.unique(np.frombuffer(b"".join(answers), dtype=np.uint64)).size == 20


# --- threads --------------------------------------------------------------------------------


def run_threads(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_never_share_a_stretch_of_the_stream() -> None:
    """64-bit words: 32,000 of them coincide by chance with probability 3e-11."""
    noise = SecureNoise()
    words: list[np.ndarray] = []
    run_threads(4, lambda: words.extend(noise._words(16) for _ in range(500)))
    assert np.unique(np.concatenate(words)).size == 4 * 500 * 16


def test_one_thread_draws_at_a_time() -> None:
    noise = SecureNoise()
    inside: list[int] = []
    most: list[int] = []

    def slow(generator: np.random.Generator) -> None:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.005)
        inside.pop()

    run_threads(4, lambda: noise._draw(slow))
    assert most == [1, 1, 1, 1]
