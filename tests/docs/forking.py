"""Run a page's blocks in processes of their own, forked from one that has the libraries loaded.

A block sees a fresh `__main__`, its own folder and nothing of other blocks; only the two seconds of
importing are shared. Run as a program, this file is that process.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


class Forking:
    """The loaded process; `run` waits for one that it forks."""

    def __init__(self) -> None:
        scripts = str(Path(sys.executable).parent)
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PATH": scripts + os.pathsep + os.environ["PATH"]},
            text=True,
        )

    def load(self, *modules: str) -> None:
        """Import more, once for all blocks that are run from now on."""
        self.process.stdin.write(json.dumps({"modules": modules}) + "\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def run(self, folder: Path, *, python: str = "", command: list[str] | None = None) -> Outcome:
        request = {"folder": str(folder), "python": python, "command": command}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        texts = ((folder / name).read_text(encoding="utf-8") for name in (".out", ".err"))
        return Outcome(code, *texts)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def serve() -> None:
    import matplotlib.backends.backend_svg
    import matplotlib.figure  # noqa: F401
    import scipy.optimize  # noqa: F401
    import sklearn.linear_model
    import sklearn.neighbors  # noqa: F401

    import tacit.cli.app
    import tacit.methods
    import tacit.students  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        if "modules" in request:
            for name in request["modules"]:
                importlib.import_module(name)
            print(flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _block(**request)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _block(folder: str, python: str, command: list[str] | None) -> None:
    """Run one block in this process, as an interpreter of its own would, and end it."""
    os.chdir(folder)
    for name, descriptor in (("/dev/null", 0), (".out", 1), (".err", 2)):
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.path[0] = ""
    try:
        if command is None:
            sys.argv = ["-c"]
            exec(compile(python, "<page>", "exec"), main.__dict__)
        else:
            sys.argv = command
            from tacit.cli import main as tacit

            tacit()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    serve()
