"""The cells of a comparison: what is kept of a run, and what a run is made to admit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compare_shared import CELL, DONE, Stub, blobs
from hypothesis import given
from hypothesis import strategies as st

from tacit.comparing.cells import (
    FAILED,
    OK,
    REFUSED,
    cells_of,
    finished,
    read_cell,
    write_cell,
)
from tacit.comparing.data import compared_data
from tacit.comparing.processes import Job, run_job


class TestCells:
    def test_a_written_cell_is_read_as_it_was(self, tmp_path):
        write_cell(tmp_path, CELL, DONE)
        assert read_cell(tmp_path / CELL.file_name) == (CELL, DONE)
        assert finished(tmp_path, CELL) == DONE
        assert cells_of(tmp_path, "task") == [(CELL, DONE)]
        assert cells_of(tmp_path, "other") == []

    def test_other_settings_are_another_cell(self, tmp_path):
        write_cell(tmp_path, CELL, DONE)
        assert finished(tmp_path, replace(CELL, settings="changed")) is None

    @given(cut=st.floats(0, 0.999))
    def test_half_a_file_is_no_cell(self, cut, tmp_path_factory):
        folder = tmp_path_factory.mktemp("cells")
        write_cell(folder, CELL, DONE)
        path = folder / CELL.file_name
        text = path.read_bytes()
        path.write_bytes(text[: int(cut * len(text))])
        assert read_cell(path) is None
        assert cells_of(folder, "task") == []

    @pytest.mark.parametrize(
        "text",
        ["{}", "[]", "null", '{"format": "tacit-comparison-cell/1"}', "\x00", '{"format": 1}'],
    )
    def test_other_files_are_no_cells(self, tmp_path, text):
        (tmp_path / CELL.file_name).write_text(text)
        assert read_cell(tmp_path / CELL.file_name) is None

    def test_success_without_accuracy_is_no_cell(self, tmp_path):
        write_cell(tmp_path, CELL, replace(DONE, accuracy=None))
        assert finished(tmp_path, CELL) is None


class Stating(Stub):
    """Claims what it is told to claim."""

    claim: tuple[float, float, str, str] = (1.0, 1e-5, "record", "csprng")

    @property
    def statement_(self):
        from tacit import Statement

        epsilon, delta, unit, noise = self.claim
        return Statement(
            kind="worst-case",
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            accountant="gaussian",
            noise=noise,
        )


class TestWorker:
    def job(self, model, epsilon=1.0):
        private, public, held = compared_data(blobs()).parts(0)
        return Job(model, epsilon, 1e-5, private.X, private.labels, public.X, held.X, held.labels)

    def test_a_claim_within_the_budget_counts(self, tmp_path):
        outcome = run_job(self.job(Stating(str(tmp_path))))
        assert outcome.status == OK
        assert outcome.spent == 1.0
        assert outcome.accuracy > 0.95
        assert outcome.peak_mib >= outcome.baseline_mib > 0

    @pytest.mark.parametrize(
        "claim",
        [
            (1.01, 1e-5, "record", "csprng"),
            (1.0, 1e-4, "record", "csprng"),
            (1.0, 1e-5, "teacher", "csprng"),
            (1.0, 1e-5, "record", "insecure-seeded"),
        ],
    )
    def test_another_claim_does_not(self, tmp_path, claim):
        model = Stating(str(tmp_path))
        model.claim = claim
        outcome = run_job(self.job(model))
        assert outcome.status == FAILED
        assert outcome.accuracy is None
        assert outcome.reason

    def test_refusals_and_errors_are_outcomes_of_one_line(self, tmp_path):
        refused = run_job(self.job(Stub(str(tmp_path), "refuse")))
        assert (refused.status, refused.reason) == (REFUSED, "Expected something else.")
        failed = run_job(self.job(Stub(str(tmp_path), "raise")))
        assert (failed.status, failed.reason) == (FAILED, "RuntimeError: no luck at all")
