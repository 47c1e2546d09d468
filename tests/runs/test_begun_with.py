"""A run that was killed goes on with the content that it began with, or not at all."""

from __future__ import annotations

import json
import os
import stat
import zipfile

import numpy as np
import pytest

from tacit.errors import InvalidArgument
from tacit.methods.base import PrivateEstimator
from tacit.runs import (
    DataConfig,
    PrivacyConfig,
    RunConfig,
    evaluate_run,
    evaluating,
    package_run,
    run_config,
)
from tacit.runs.begun_with import NAME, _digests, begun_with, files_of

OPTIONS = {"target": "y", "classes": ["a", "b"], "numeric": ["x", "z"]}


class Killed(BaseException):
    """Stands for SIGKILL: nothing may catch it and tidy up."""


def dying(*_, **__):
    raise Killed


def write(path, seed, rows=400):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2))
    lines = [f"{a:.4f},{b:.4f},{'a' if a > 0 else 'b'}" for a, b in x]
    path.write_text("x,z,y\n" + "\n".join(lines) + "\n")


@pytest.fixture
def config(tmp_path):
    for seed, name in enumerate(("private", "public", "held-out")):
        write(tmp_path / f"{name}.csv", seed)
    words = (f"csv:{tmp_path / name}.csv" for name in ("private", "public", "held-out"))
    keys = ("source", "public_source", "held_out_source")
    data = DataConfig(**dict(zip(keys, words, strict=True)), options=OPTIONS)
    kind = {"method": "prototype", "settings": {"n_prototypes": 5}}
    return RunConfig(data, PrivacyConfig(epsilon=2.0, delta=1e-5), **kind)


@pytest.fixture
def killed(config, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(PrivateEstimator, "save", dying)
        with pytest.raises(Killed):
            run_config(config, tmp_path / "run")
    return tmp_path / "run"


def test_it_goes_on_with_what_it_began_with_and_leaves_no_trace_of_it(config, killed, tmp_path):
    assert stat.S_IMODE((killed / NAME).stat().st_mode) == 0o600
    private = tmp_path / "private.csv"
    private.write_bytes(private.read_bytes())  # written anew, with the same content
    run_config(config, killed)
    assert not (killed / NAME).exists()
    package_run(killed, tmp_path / "run.zip")
    assert not any(
        "begun-with" in name for name in zipfile.ZipFile(tmp_path / "run.zip").namelist()
    )


@pytest.mark.parametrize("name", ["private", "public", "held-out"])
def test_other_content_under_the_same_path_is_refused(config, killed, tmp_path, name):
    """Of the same size, even: one record that changed is enough."""
    path = tmp_path / f"{name}.csv"
    before, after = path.read_text(), path.read_text().replace("1", "2")
    path.write_text(after)
    key = {"private": "source", "public": "public_source", "held-out": "held_out_source"}[name]
    left = sorted(killed.rglob("*"))
    with pytest.raises(InvalidArgument, match=f"Expected {key} to hold .*another folder"):
        run_config(config, killed)
    assert sorted(killed.rglob("*")) == left
    path.write_text(before)
    assert run_config(config, killed).statement.epsilon <= 2


def test_where_nothing_was_released_it_may_begin_with_other_files(config, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("tacit.runs.running.Rows.teach", dying)
        with pytest.raises(Killed):
            run_config(config, tmp_path / "run")
    assert (tmp_path / "run" / NAME).exists()
    write(tmp_path / "private.csv", seed=9)
    assert run_config(config, tmp_path / "run").statement.epsilon <= 2


def test_a_refused_start_leaves_nothing(config, tmp_path, monkeypatch):
    def refusing(*_):
        raise InvalidArgument("no")

    monkeypatch.setattr("tacit.runs.running.Rows.teach", refusing)
    with pytest.raises(InvalidArgument):
        run_config(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_of_an_earlier_version_goes_on_with_a_warning(config, killed):
    (killed / NAME).unlink()
    with pytest.warns(UserWarning, match="Make sure that its files are the same"):
        run_config(config, killed)


def test_a_damaged_note_is_not_taken_for_none(config, killed):
    (killed / NAME).write_text("{}")
    with pytest.raises(InvalidArgument, match="damaged"):
        run_config(config, killed)


def test_an_evaluation_goes_on_with_the_records_it_began_with(config, tmp_path, monkeypatch):
    run_config(config, tmp_path / "run")
    write(tmp_path / "apart.csv", seed=5, rows=1500)
    asked = {"epsilon": 1.0, "n_records": 1500, "share": 0.5, "disjoint": True}
    with monkeypatch.context() as patched:
        patched.setattr(evaluating, "_write", dying)
        with pytest.raises(Killed):
            evaluate_run(tmp_path / "run", str(tmp_path / "apart.csv"), **asked)
    content = (tmp_path / "apart.csv").read_bytes()
    write(tmp_path / "apart.csv", seed=6, rows=1500)
    with pytest.raises(InvalidArgument, match="Expected HOLDOUT to hold"):
        evaluate_run(tmp_path / "run", str(tmp_path / "apart.csv"), **asked)
    (tmp_path / "apart.csv").write_bytes(content)
    evaluate_run(tmp_path / "run", str(tmp_path / "apart.csv"), **asked)
    assert not (tmp_path / "run" / NAME).exists()


# Digests


KEY = bytes(32)


def digest(place, own="elsewhere", key=KEY):
    return _digests(key, {"source": str(place)}, place.parent / own)["source"]


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "scans"
    (place / "images").mkdir(parents=True)
    (place / "images" / "a.nii").write_bytes(b"one")
    (place / "images" / "b.nii").write_bytes(b"two")
    return place


def renamed(place):
    (place / "images" / "a.nii").rename(place / "images" / "c.nii")


def swapped(place):
    (place / "images" / "a.nii").write_bytes(b"two")
    (place / "images" / "b.nii").write_bytes(b"one")


def moved_by_a_byte(place):
    (place / "images" / "a.nii").write_bytes(b"onet")
    (place / "images" / "b.nii").write_bytes(b"wo")


CHANGES = {
    "content": lambda place: (place / "images" / "a.nii").write_bytes(b"0ne"),
    "name": renamed,
    "swapped": swapped,
    "border": moved_by_a_byte,
    "removed": lambda place: (place / "images" / "a.nii").unlink(),
    "added": lambda place: (place / "images" / "c.nii").touch(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_file_of_a_folder_counts(folder, change):
    before = digest(folder)
    assert digest(folder) == before
    change(folder)
    assert digest(folder) != before


def test_hidden_files_and_the_runs_own_folder_do_not(folder):
    before = digest(folder, "scans/runs/first")
    (folder / ".DS_Store").touch()
    (folder / "runs" / "first").mkdir(parents=True)
    (folder / "runs" / "first" / "run.ledger").touch()
    os.symlink(folder, folder / "images" / "again")  # which would go on for ever
    assert digest(folder, "scans/runs/first") == before


def test_the_key_is_new_each_time_and_nothing_is_told_without_it(tmp_path):
    write(tmp_path / "private.csv", seed=0)
    noted = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with begun_with(tmp_path / name, {"source": str(tmp_path / "private.csv")}):
            noted.append(json.loads((tmp_path / name / NAME).read_text()))
    assert noted[0]["key"] != noted[1]["key"]
    assert noted[0]["digests"] != noted[1]["digests"]
    key = bytes.fromhex(noted[0]["key"])
    assert digest(tmp_path / "private.csv", key=key) == noted[0]["digests"]["source"]


def test_scans_have_further_files():
    options = {"masks_source": "nifti:atlas", "patients_file": "patients.csv"}
    found = files_of(DataConfig("nifti:hospital", public_source="nifti:public", options=options))
    assert [each for each in found.values() if each] == [
        *("hospital", "public", "atlas", "patients.csv")
    ]


def test_sets_that_ship_have_no_files():
    assert not any(files_of(DataConfig(source="digits", private=300, public=60)).values())
