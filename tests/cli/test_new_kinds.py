"""A student, a teacher, a data set: each is one file and one line of the registry.

The files are those that CONTRIBUTING.md shows, taken from there.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from foreign import installed

from tacit import _registry, load_dataset, load_student
from tacit.datasets import ships
from tacit.errors import InvalidArgument

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
KINDS = {"students": "centroid", "teachers": "means", "datasets": "moons"}
CONFIG = """
method = "pate"

[data]
source = "moons"
private = 1200
public = 400

[data.options]
noise = 0.1

[privacy]
epsilon = 4.0
delta = 1e-5

[pate]
teacher = "means"
student = "centroid"
n_teachers = 40
queries = 60
"""


@pytest.fixture
def added(tmp_path, monkeypatch):
    """Add three files and three lines."""
    page, files, entries = PAGE.read_text("utf-8"), {}, {}
    blocks = re.findall(
        r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL
    )
    for source, line in blocks:
        (((word, kind, module, name)),) = re.findall(r'(\S+) = "tacit\.(\w+)\.(\w+):(\w+)"', line)
        if kind in KINDS:
            files[module], entries[kind] = source, {word: f"{module}:{name}"}
    with installed(tmp_path, monkeypatch, files, entries):
        yield


def test_nobody_knows_them_before(tacit):
    for kind, word in KINDS.items():
        assert word not in getattr(_registry, kind.upper())
    with pytest.raises(InvalidArgument, match="to be adult:DIR, affairs"):
        load_dataset("moons")
    Path("run.toml").write_text(CONFIG)
    assert tacit("train", "run.toml", "--out", "run").code == 2


def test_a_run_trains_with_all_of_them(added, tacit):
    Path("run.toml").write_text(CONFIG)
    outcome = tacit("train", "run.toml", "--out", "run", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["accuracy"] > 0.75  # chance is a half
    student = load_student("run/student.tacit")
    assert type(student).__name__ == "CentroidStudent"
    assert student.predict([[-1.0, 1.0], [2.0, -0.5]]).tolist() == [0, 1]
    config = Path("run/config.toml").read_text()
    assert all(f'"{word}"' in config for word in KINDS.values())


def test_a_new_set_is_named_where_another_is_refused(added):
    assert ships("moons")
    with pytest.raises(InvalidArgument, match="moons, npz:FILE"):
        load_dataset("elsewhere:DIR")
    with pytest.raises(InvalidArgument, match="to be adult:DIR"):
        load_dataset("moons:here")
    with pytest.raises(InvalidArgument, match="known are rows, noise"):
        load_dataset("moons", colour="red")
