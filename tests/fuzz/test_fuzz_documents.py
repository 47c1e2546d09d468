"""Configurations, ledgers, statements, students and volumes that are damaged or odd."""

from __future__ import annotations

import gzip
import json
import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mangled import damaged, fuzzed, survives

from tacit import Budget, GNMax, Ledger, Plan, Statement
from tacit.errors import LedgerDamaged
from tacit.runs.config import RunConfig
from tacit.students import LabelSpreadingStudent, load_student, saved_extra

CONFIG = b"""
method = "pate"
seed = 3

[data]
source = "digits"
private = 100
public = 50

[data.options]
name = "x"

[privacy]
epsilon = 1.0
delta = 1e-5

[pate]
n_teachers = 10
queries = 5
"""


@fuzzed
@given(content=damaged(CONFIG))
def test_damaged_configurations(tmp_path, content):
    (tmp_path / "run.toml").write_bytes(content)
    config = survives(lambda: RunConfig.read(tmp_path / "run.toml"))
    if config is not None:  # what was accepted can be written and read again
        (tmp_path / "again.toml").write_text(config.to_toml(), encoding="utf-8")
        assert RunConfig.read(tmp_path / "again.toml") == config


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
SECTIONS = ("data", "privacy", "pate", "knn", "prototype", "moments", "ridge")
KEYS = (
    "source", "private", "public", "public_source", "held_out_source", "declare_public",
    "allow_overlap", "name", "options",
    "epsilon", "delta", "teachers", "queries", "strategy", "mechanism", "rounds", "features",
    "teacher", "student", "k", "sampling_rate", "prototypes", "votes", "landmarks", "width", "clip",
)  # fmt: skip


@fuzzed
@given(data=st.data())
def test_configurations_with_values_of_any_kind(data):
    raw = {
        "data": {"source": "digits", "private": 100, "public": 50},
        "privacy": {"epsilon": 1.0, "delta": 1e-5},
    }
    for _ in range(data.draw(st.integers(1, 3))):
        section = data.draw(st.sampled_from(SECTIONS))
        if data.draw(st.booleans()):
            raw.setdefault(section, {})
            if isinstance(raw[section], dict):
                raw[section][data.draw(st.sampled_from(KEYS))] = data.draw(VALUES)
        else:
            raw[section] = data.draw(VALUES)
    if data.draw(st.booleans()):
        raw["method"] = data.draw(st.sampled_from(SECTIONS[2:]) | VALUES)
    raw[data.draw(st.sampled_from(["seed", "executor", "other"]))] = data.draw(VALUES)
    survives(lambda: RunConfig.parse(raw))


@pytest.fixture(scope="module")
def ledger_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "run.ledger"
    ledger = Ledger(path, budget=Budget(2.0, 1e-5))
    with ledger.release(Plan(GNMax(40), 5), purpose="x") as grant:
        grant.release(np.array([[5, 5]] * 5))
    del ledger
    with sqlite3.connect(path) as connection:  # the log goes into the file
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.read_bytes()


@fuzzed
@given(data=st.data())
def test_damaged_ledgers(tmp_path, ledger_bytes, data):
    for path in tmp_path.iterdir():
        path.unlink()
    path = tmp_path / "run.ledger"
    path.write_bytes(data.draw(damaged(ledger_bytes)))
    ledger = survives(lambda: Ledger(path))
    if ledger is not None:
        survives(ledger.verify)
        survives(ledger.spent)
        survives(lambda: str(ledger.statement()))


@pytest.mark.parametrize("letter", [b"\x80", b"z"])
@pytest.mark.parametrize(
    "name", [b"epsilon REAL", b"purpose TEXT", b"payload TEXT", b"hash TEXT", b"sequence INTEGER"]
)
def test_a_ledger_whose_columns_have_other_names(tmp_path, ledger_bytes, name, letter):
    """Found by `make fuzz`: a name may be no UTF-8, or none that the reader asks for."""
    assert name in ledger_bytes
    path = tmp_path / "run.ledger"
    path.write_bytes(ledger_bytes.replace(name, letter + name[1:]))
    with pytest.raises(LedgerDamaged):
        Ledger(path)


@fuzzed
@given(data=st.data())
def test_ledgers_with_rows_of_any_kind(tmp_path, ledger_bytes, data):
    """Somebody with a SQLite shell: whole files with odd cells."""
    for path in tmp_path.iterdir():
        path.unlink()
    path = tmp_path / "run.ledger"
    path.write_bytes(ledger_bytes)
    connection = sqlite3.connect(path)
    tables = [
        row[0]
        for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if not row[0].startswith("sqlite_")
    ]
    table = data.draw(st.sampled_from(tables))
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    column = data.draw(st.sampled_from(columns))
    whole = st.integers(-(2**63), 2**63 - 1)
    characters = st.characters(codec="utf-8")
    value = data.draw(
        st.none() | whole | st.floats() | st.text(characters, max_size=20) | st.binary(max_size=20)
    )
    try:
        connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
        connection.commit()
    except sqlite3.Error:  # the ledger's own triggers refuse most of it
        connection.rollback()
    connection.close()
    ledger = survives(lambda: Ledger(path))
    if ledger is not None:
        survives(ledger.verify)
        survives(ledger.spent)


@pytest.fixture(scope="module")
def statement_text(tmp_path_factory):
    path = tmp_path_factory.mktemp("statement") / "run.ledger"
    return Ledger(path, budget=Budget(2.0, 1e-5)).statement().to_json()


@fuzzed
@given(data=st.data())
def test_damaged_statements(statement_text, data):
    content = data.draw(damaged(statement_text.encode())).decode("utf-8", errors="replace")
    survives(lambda: Statement.from_json(content))
    fields = json.loads(statement_text)
    fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(VALUES)
    odd = survives(lambda: Statement.from_json(json.dumps(fields)))
    if odd is not None:
        str(odd)


@pytest.fixture(scope="module")
def student_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("student") / "student.tacit"
    student = LabelSpreadingStudent().fit([[0.0], [1.0]], [0, 1], [[1, 0], [0, 1]])
    student.save(path, extra={"classes": [0, 1]})
    return path.read_bytes()


@fuzzed
@given(data=st.data())
def test_damaged_students(tmp_path, student_bytes, data):
    path = tmp_path / "student.tacit"
    path.write_bytes(data.draw(damaged(student_bytes)))
    survives(lambda: load_student(path))
    survives(lambda: saved_extra(path))


@pytest.fixture(scope="module")
def nifti_bytes(tmp_path_factory):
    pytest.importorskip("nibabel")
    from tacit.masks import save_mask

    path = tmp_path_factory.mktemp("nifti") / "mask.nii"
    save_mask(path, np.arange(24).reshape(2, 3, 4) % 3)
    return path.read_bytes()


@pytest.mark.parametrize("name", ["scan.nii", "scan.nii.gz"])
@fuzzed
@given(data=st.data())
def test_damaged_volumes(nifti_bytes, name, data):
    from tacit.masks import parse_nifti

    content = data.draw(damaged(nifti_bytes))
    if name.endswith(".gz"):
        content = data.draw(st.sampled_from([gzip.compress(content), content]))
    survives(lambda: parse_nifti(content, name, most_voxels=10_000))


@fuzzed
@given(data=st.data())
def test_nifti_headers_of_any_kind(nifti_bytes, data):
    """Every field of the header: sizes, types, offsets, scales."""
    from tacit.masks import parse_nifti

    content = bytearray(nifti_bytes)
    place = data.draw(st.sampled_from([0, 40, 42, 44, 46, 48, 70, 72, 76, 108, 112, 116, 252, 344]))
    odd = data.draw(st.binary(min_size=2, max_size=8))
    content[place : place + len(odd)] = odd
    survives(lambda: parse_nifti(bytes(content), "scan.nii", most_voxels=10_000))
