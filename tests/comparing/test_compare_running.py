"""Comparisons as a whole: finished cells kept, failures shown, references always there."""

from __future__ import annotations

import csv
import json

import pytest
from compare_shared import Stub, blobs, fits
from threadpoolctl import threadpool_limits

from tacit.comparing import compare, running
from tacit.comparing.data import compared_data
from tacit.comparing.processes import Starter, run_job
from tacit.comparing.summary import NOT_PRIVATE
from tacit.datasets import load_digits
from tacit.errors import InvalidArgument


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run cells in this process: the first starter takes two seconds to load the libraries."""

    def measure(self, job, limit, stopped):
        with threadpool_limits(1):
            return run_job(job)

    monkeypatch.setattr(Starter, "run", measure)


@pytest.fixture
def without_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the references out: they would be learned again in every test."""
    monkeypatch.setattr(running, "REFERENCES", {})


class TestCompare:
    def run(self, tmp_path, **changes):
        notes = tmp_path / "notes"
        notes.mkdir(exist_ok=True)
        settings = {
            "methods": [],
            "epsilon": [1.0],
            "seeds": 1,
            "out": tmp_path / "out",
            "estimators": {"stub": Stub(str(notes), changes.pop("trouble", ""))},
        } | changes
        return compare(blobs(), **settings), notes

    @pytest.mark.usefixtures("in_this_process", "without_references")
    def test_finished_cells_are_kept_and_new_ones_added(self, tmp_path):
        _, notes = self.run(tmp_path)
        assert len(fits(notes)) == 1
        kept = (tmp_path / "out/cells/stub--1--0.json").read_bytes()
        result, _ = self.run(tmp_path, epsilon=[1.0, 2.0], seeds=2)
        assert len(fits(notes)) == 4
        assert (tmp_path / "out/cells/stub--1--0.json").read_bytes() == kept
        assert result.row("stub", 2.0).runs == 2
        # Every repetition has rows of its own, the same for every method.
        task = compared_data(blobs())
        rows = {tuple(task.parts(seed).private.X[:, 2]) for seed in (0, 1)}
        assert {tuple(note["private"]) for note in fits(notes)} == rows

    @pytest.mark.usefixtures("in_this_process", "without_references")
    def test_when_time_is_up_nothing_is_begun_and_later_it_goes_on(self, tmp_path):
        result, notes = self.run(tmp_path, minutes=1e-9)
        assert fits(notes) == []
        assert result.rows() == []
        result, notes = self.run(tmp_path)
        assert len(fits(notes)) == 1

    @pytest.mark.usefixtures("in_this_process", "without_references")
    def test_a_damaged_cell_is_done_again(self, tmp_path):
        _, notes = self.run(tmp_path)
        path = tmp_path / "out/cells/stub--1--0.json"
        path.write_bytes(path.read_bytes()[:40])
        result, _ = self.run(tmp_path)
        assert len(fits(notes)) == 2
        assert result.row("stub", 1.0).accuracy > 0.95

    @pytest.mark.usefixtures("in_this_process", "without_references")
    def test_changed_settings_are_run_again_and_old_ones_not_shown(self, tmp_path):
        self.run(tmp_path)
        result, notes = self.run(tmp_path, trouble="refuse")
        assert len(fits(notes)) == 2
        row = result.row("stub", 1.0)
        assert row.accuracy is None
        assert row.reasons == ("refused: Expected something else.",)
        assert "Expected something else." in (tmp_path / "out/comparison.md").read_text()

    @pytest.mark.usefixtures("without_references")
    def test_a_crash_is_shown_and_retried_only_on_demand(self, tmp_path):
        result, notes = self.run(tmp_path, trouble="die")
        assert "SIGKILL" in result.row("stub", 1.0).reasons[0]
        assert "failed" in (tmp_path / "out/comparison.md").read_text()
        self.run(tmp_path, trouble="die")
        assert len(fits(notes)) == 1
        self.run(tmp_path, trouble="die", retry_failed=True)
        assert len(fits(notes)) == 2

    @pytest.mark.usefixtures("without_references")
    def test_a_cell_that_takes_too_long_is_stopped(self, tmp_path):
        result, _ = self.run(tmp_path, trouble="sleep", limit=5.0)
        assert "stopped after 5 seconds" in result.row("stub", 1.0).reasons[0]

    @pytest.mark.usefixtures("in_this_process", "without_references")
    def test_a_folder_of_other_data_is_refused(self, tmp_path):
        self.run(tmp_path)
        with pytest.raises(InvalidArgument, match="same data"):
            self.run(tmp_path, delta=1e-6)
        with pytest.raises(InvalidArgument, match="same data"):
            compare("digits", methods=["pate"], seeds=1, out=tmp_path / "out")

    @pytest.mark.usefixtures("in_this_process")
    def test_references_and_notice_are_always_there(self, tmp_path):
        result, _ = self.run(tmp_path)
        assert result.row("non-private").accuracy > 0.95
        share = result.row("majority").accuracy
        private, _, held_out = compared_data(blobs()).parts(0)
        most = int(private.y.mean() > 0.5)
        assert share == pytest.approx((held_out.y == most).mean())
        page = (tmp_path / "out/comparison.md").read_text()
        assert NOT_PRIVATE in page
        assert "stub makes no statement" in page
        assert json.loads((tmp_path / "out/results.json").read_text())["private"] is False
        with open(tmp_path / "out/results.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["method"] for row in rows} == {"stub", "non-private", "majority"}
        for name in ("comparison.png", "comparison.svg"):
            assert (tmp_path / "out" / name).stat().st_size > 5000

    @pytest.mark.parametrize(
        ("bad", "complaint"),
        [
            ({"methods": ["magic"]}, "methods='magic'"),
            ({"epsilon": []}, "epsilon"),
            ({"epsilon": [0]}, "epsilon=0"),
            ({"seeds": 0}, "seeds=0"),
            ({"delta": 2}, "delta=2"),
            ({"jobs": 0}, "jobs=0"),
            ({"methods": [], "estimators": None}, "at least one method"),
            ({"estimators": {"majority": Stub()}, "methods": None}, "named as a reference"),
        ],
    )
    def test_mistakes_are_refused_before_anything_runs(self, tmp_path, bad, complaint):
        with pytest.raises(InvalidArgument, match=complaint):
            self.run(tmp_path, **bad)
        assert not list(tmp_path.glob("out/cells/*.json"))
        assert not fits(tmp_path / "notes")


@pytest.mark.usefixtures("without_references")
def test_digits_are_compared_from_python():
    result = compare(load_digits(), methods=["prototype"], epsilon=[8], seeds=1)
    row = result.row("prototype", 8.0)
    assert row.stated
    assert row.spent <= 8.0
    assert row.accuracy > 0.85
    assert row.memory > 50
