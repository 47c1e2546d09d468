"""Nothing that private work says reaches a terminal or a log, and everything else does."""

from __future__ import annotations

import io
import itertools
import logging
import os
import pickle
import pty
import re
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import pytest
from speaking import POOLED, WAYS

from tacit import _quiet
from tacit._quiet import kind_of, quiet, quiet_process, terminal

PLACES = {
    "plain": [
        "serial", "serial_failing", "serial_leaving", "local", "local_failing", "masks",
        "masks_failing", "local_masks", "features", "features_failing", "features_leaving",
        "answers", "answers_failing", "answers_leaving",
    ],
    "torch": ["module", "module_failing", "module_leaving", "torch"],
    "cluster": ["dask", "dask_failing", "dask_leaving", "dask_masks"],
}  # fmt: skip
SPOKEN_BY = {"plain": WAYS | POOLED, "torch": WAYS, "cluster": ("print", "stderr")}
NEEDED = {"torch": "torch", "cluster": "distributed"}


def environment(**more: str) -> dict[str, str]:
    places = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": places, "OMP_NUM_THREADS": "1", **more}


@pytest.mark.long
@pytest.mark.parametrize("case", list(PLACES))
def test_private_work_is_not_heard_and_everything_else_is(case, tmp_path):
    if case in NEEDED:
        pytest.importorskip(NEEDED[case])
    run = subprocess.run(
        [sys.executable, "-c", f"import speaking; speaking.main({case!r}, {str(tmp_path)!r})"],
        env=environment(SPOKEN=str(tmp_path)),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    said = run.stdout + run.stderr + (tmp_path / "log").read_text()
    assert {path.name for path in tmp_path.iterdir()}.issuperset(PLACES[case])
    assert sorted(set(re.findall(r"\b(?!before|after)\w+-\w+!", said))) == []
    expected = {f"{when}-{way}!" for when in ("before", "after") for way in SPOKEN_BY[case]}
    assert sorted(expected - set(re.findall(r"\w+-\w+!", said))) == []


VERBOSE = """
import numpy as np
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from tacit.teachers import predict_with_teachers

X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
teachers = (
    LogisticRegression(verbose=1),
    GradientBoostingClassifier(n_estimators=2, verbose=1),
    MLPClassifier(max_iter=2, verbose=True),
)
for teacher in teachers:
    predict_with_teachers(teacher, X, y, [0] * 40, 1, X[:3], n_classes=2)
print("public", flush=True)
teachers[-1].fit(X, y)
"""


def test_what_verbose_estimators_say_is_not_heard():
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", VERBOSE],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert run.stdout.startswith("public\nIteration 1")
    assert run.stderr == ""


BARS = """
import sys, time
import numpy as np
from speaking import Talking
from tacit.records import view_alone
from tacit import _progress
from tacit.teachers import predict_with_teachers

class Slow(Talking):
    def predict_shards(self, shards, X_query, *, n_classes):
        time.sleep(0.3)  # for the bar's own thread to draw
        return super().predict_shards(shards, X_query, n_classes=n_classes)
    def transform(self, X):
        print(self.place, file=sys.stderr)
        return X

ways = {"print": print, "stderr": lambda text: print(text, file=sys.stderr)}
X, y = np.arange(4.0)[:, None], [0, 1, 0, 1]
_progress._PATIENCE = 0.0
predict_with_teachers(Slow("private", ways), X, y, [0, 0, 1, 1], 2, [[0.0]], n_classes=2)
view_alone(Slow("private", ways), X, X)
print("the end", file=sys.stderr)
"""


def test_bars_are_drawn_on_a_terminal_meanwhile(tmp_path):
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", BARS],
        env=environment(SPOKEN=str(tmp_path), TERM="xterm", COLUMNS="100"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as child:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the terminal is gone
            while part := os.read(ours, 4096):
                shown += part
        os.close(ours)
    assert child.returncode == 0
    for text in (b"Training teachers", b"50%", b"Features of private records", b"the end"):
        assert text in shown
    assert (tmp_path / "private").exists()
    assert b"private-" not in shown
    assert b"private\r\n" not in shown


OTHERS = """
import logging, sys, threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from speaking import BY_THREAD, Talking
from tacit.teachers import Serial, predict_with_teachers

logging.basicConfig(handlers=[logging.FileHandler(sys.argv[1])], format="%(message)s")
fitting = threading.Event()

def write(number):
    for record in range(5000):
        logging.error("record %d of %d, whole", record, number)
        sys.stdout.write(f"line {record} of {number}, whole\\n")
        if record == 100:
            fitting.wait(60)  # the rest is written while teachers talk

class Slow(Talking):
    def predict_shards(self, shards, X_query, *, n_classes):
        fitting.set()
        while any(thread.is_alive() for thread in threads):
            super().predict_shards(shards, X_query, n_classes=n_classes)
        return super().predict_shards(shards, X_query, n_classes=n_classes)

threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
X, y = np.arange(4.0)[:, None], [0, 1, 0, 1]
ways = {name: way for name, way in BY_THREAD.items() if "child" not in name}
predict_with_teachers(
    Slow("private", ways), X, y, [0, 0, 1, 1], 2, [[0.0]], n_classes=2, executor=Serial()
)
"""


def test_what_other_threads_log_and_print_meanwhile_arrives_whole(tmp_path):
    """Ten thousand records, while teachers of this process speak without a pause."""
    run = subprocess.run(
        [sys.executable, "-c", OTHERS, str(tmp_path / "log")],
        env=environment(SPOKEN=str(tmp_path)),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    for heard, word in (((tmp_path / "log").read_text(), "record"), (run.stdout, "line")):
        expected = {
            f"{word} {place} of {number}, whole" for place in range(5000) for number in (0, 1)
        }
        assert sorted(heard.splitlines()) == sorted(expected)
    assert "private-" not in run.stderr
    assert (tmp_path / "private").exists()


class TestTheBlock:
    def test_streams_that_are_no_files_are_silent_too(self):
        """As in a notebook, where somebody may keep one."""
        stream = io.StringIO()
        with redirect_stdout(stream), redirect_stderr(stream):
            print("before")
            with quiet():
                print("private")
                print("private", file=stream)
                stream.writelines(["private"])
            print("after")
        assert stream.getvalue() == "before\nafter\n"

    def test_blocks_lie_in_each_other_and_errors_end_them(self, capsys):
        def fail():
            with quiet(), quiet():
                print("private")
                raise ValueError

        with pytest.raises(ValueError), quiet():  # noqa: PT011, PT012
            with quiet():
                pass
            print("private")
            fail()
        print("heard")
        assert capsys.readouterr() == ("heard\n", "")

    def test_a_thread_that_goes_on_stays_silent_and_others_are_heard(self, capsys):
        may_end = threading.Event()

        def go_on():
            may_end.wait(60)
            print("private")
            raise RuntimeError("private")

        thread = threading.Thread(target=go_on)
        with quiet():
            thread.start()
            other = ThreadPoolExecutor(1).submit
        other(print, "heard").result()
        may_end.set()
        thread.join()
        assert capsys.readouterr() == ("heard\n", "")

    def test_pools_older_than_the_block_work_in_silence(self, capsys):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(print, "heard").result()
            with quiet():
                assert pool.submit(pow, 2, exp=3).result() == 8
                pool.submit(print, "private").result()
            pool.submit(print, "heard").result()
        assert capsys.readouterr() == ("heard\nheard\n", "")

    def test_what_records_warnings_gets_none(self):
        with warnings.catch_warnings(record=True) as caught:
            with quiet():
                warnings.simplefilter("always")
                warnings.warn("private", stacklevel=1)
            warnings.simplefilter("always")
            warnings.warn("heard", stacklevel=1)
        assert [str(one.message) for one in caught] == ["heard"]

    def test_a_warning_raises_nothing_and_is_not_remembered(self):
        """Warnings are errors in these tests; and a filter may be sent to another process."""

        def warn():
            warnings.warn("seen", stacklevel=1)

        with quiet():
            warn()
            assert pickle.loads(pickle.dumps(warnings.filters)) == warnings.filters
        with pytest.warns(UserWarning, match="seen"):
            warn()

    def test_streams_that_there_are_not_stay_none(self):
        """A process that was started without a standard output may print all the same."""
        script = (
            "import sys\n"
            "from tacit._quiet import quiet\n"
            "with quiet():\n"
            "    print('private')\n"
            "print('nowhere')\n"
            "sys.exit(sys.stdout is not None or sys.__stdout__ is not None)\n"
        )
        run = subprocess.run(
            ["/bin/sh", "-c", 'exec "$0" "$@" >&-', sys.executable, "-c", script],
            env=environment(),
            stderr=subprocess.PIPE,
            check=False,
        )
        assert (run.returncode, run.stderr) == (0, b"")

    def test_a_stream_that_cannot_be_changed(self):
        class Fixed:
            __slots__ = ("said",)

            def __init__(self):
                self.said = []

            def write(self, text):
                self.said.append(text)

        stream = Fixed()
        with redirect_stdout(stream):
            with quiet():
                print("private")
            print("heard")
        assert stream.said == ["heard", "\n"]

    def test_an_interrupt_at_any_line_leaves_nobody_mute(self, capsys):
        """Ctrl-C may come while silence begins or ends: then it must end all the same."""
        place = 0
        while _interrupted_at(place):
            assert not _quiet._silent()
            place += 1
        assert not _quiet._silent()
        assert place > 50  # or nothing was tried
        print("heard")
        assert capsys.readouterr() == ("heard\n", "")

    def test_a_terminal_that_is_no_file_is_taken_as_it_is(self):
        stream = io.StringIO()
        with redirect_stderr(stream), terminal() as found:
            assert found is stream


class TestTheProcess:
    """In tests this process is one's own."""

    def test_descriptors_and_all_threads_are_silent_until_the_last_block_ends(self, capfd):
        begun, may_end = threading.Event(), threading.Event()

        def work():
            with quiet_process():
                begun.set()
                may_end.wait(60)
                os.write(1, b"private")

        thread = threading.Thread(target=work)
        thread.start()
        assert begun.wait(60)
        print("private")
        with quiet_process():
            os.write(1, b"private")
        os.write(2, b"private")
        may_end.set()
        thread.join()
        os.write(1, b"heard")
        assert capfd.readouterr() == ("heard", "")

    def test_closed_descriptors(self):
        """As of a process without a terminal: files that open later must not become one's log."""
        script = (
            "import os\n"
            "from tacit._quiet import quiet_process\n"
            "os.close(1)\n"
            "with quiet_process():\n"
            "    os.write(1, b'private')\n"
            "os.write(2, b'heard')\n"
        )
        run = subprocess.run(
            [sys.executable, "-c", script], env=environment(), capture_output=True, check=False
        )
        assert (run.stdout, run.stderr) == (b"", b"heard")


def _interrupted_at(place: int) -> bool:
    """Run a quiet block with an interrupt at this line of its own code; tell whether it came."""
    lines = itertools.count()

    def follow(frame, event, _):
        if frame.f_code.co_filename != _quiet.__file__:
            return None
        if event == "line" and next(lines) == place:
            raise KeyboardInterrupt
        return follow

    tracer = sys.gettrace()
    sys.settrace(follow)
    try:
        with quiet():
            pass
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracer)
    return False


def test_an_interrupt_goes_on_without_its_text():
    def interrupted():
        try:
            raise KeyboardInterrupt("private")
        except BaseException as error:
            kind_of(error)

    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted()
    assert caught.value.args == ()
    assert caught.value.__suppress_context__
    assert kind_of(SystemExit("private")) == "SystemExit"


def test_a_pool_that_begins_in_silence_is_heard_after_it():
    log, heard = logging.getLogger("tacit.tests.pool"), []
    log.addHandler(handler := logging.Handler())
    handler.emit = lambda record: heard.append(record.getMessage())
    with ThreadPoolExecutor(2) as pool:
        with quiet():
            list(pool.map(log.error, ["secret"] * 4))
        list(pool.map(log.error, ["public"] * 100))
    log.removeHandler(handler)
    assert heard == ["public"] * 100


class Dying:
    def __del__(self):
        raise RuntimeError("c4n4ry of a finaliser")


def fails(done):
    raise RuntimeError("c4n4ry of a callback")


@pytest.mark.parametrize("older", [False, True])
def test_what_a_pool_does_beside_private_work_is_silent_too(older, caplog, capfd):
    """Callbacks run in the pool's thread after the work; their errors would be logged there."""
    with ThreadPoolExecutor(1) as pool:
        if older:
            pool.submit(int).result()
        with quiet():
            done = pool.submit(threading.Event().wait, 0.1)
            done.add_done_callback(lambda _: print("c4n4ry"))
            done.add_done_callback(fails)
            if not older:
                pool.submit(lambda dying: None, Dying())
    assert "c4n4ry" not in "".join(capfd.readouterr()) + caplog.text
