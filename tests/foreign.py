"""A package of somebody else's, installed for one test: files, and entry points that name them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tacit._registry import DATASETS, MECHANISMS, METHODS, STUDENTS, TEACHERS

REGISTRIES = (MECHANISMS, METHODS, STUDENTS, TEACHERS, DATASETS)


@contextmanager
def installed(
    folder: Path, monkeypatch, files: dict[str, str], entries: dict[str, dict[str, str]]
) -> Iterator[None]:
    """Write what pip would write, for this process and for those that it starts."""
    about = folder / "foreign-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign\nVersion: 1.0\n")
    lines = []
    for group, named in entries.items():
        lines += [f"[tacit.{group}]", *(f"{word} = {place}" for word, place in named.items())]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for name, source in files.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    _read_again()
    try:
        yield
    finally:
        shutil.rmtree(about)
        _read_again()
        for name in files:
            sys.modules.pop(name, None)


def _read_again() -> None:
    for registry in REGISTRIES:
        registry.read_again()
