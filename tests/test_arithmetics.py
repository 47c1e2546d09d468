"""Other arithmetics: every value that was asked for is tried, and really in force where it is."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from tools import arithmetics
from tools.arithmetics import ARITHMETICS, Arithmetic


def test_each_value_is_there_and_threads_are_one_and_two():
    assert {one.openblas for one in ARITHMETICS} == {"Sandybridge", "Haswell", "Zen", "SkylakeX"}
    assert {one.mkl for one in ARITHMETICS} >= {"COMPATIBLE", "AVX2"}
    for mkl in {one.mkl for one in ARITHMETICS}:
        assert {one.threads for one in ARITHMETICS if one.mkl == mkl} == {1, 2}
    for aten in ("default", "avx2"):
        assert {one.threads for one in ARITHMETICS if one.aten == aten} == {1, 2}


@pytest.mark.arithmetic
def test_what_was_asked_for_is_in_force():
    """Or a run under another arithmetic would be one more run under this processor's."""
    kernel, aten = os.environ.get("OPENBLAS_CORETYPE"), os.environ.get("ATEN_CPU_CAPABILITY")
    if kernel is None or aten is None:
        pytest.skip("no other arithmetic was asked for")
    np.ones((2, 2)) @ np.ones((2, 2))
    blas = [one for one in threadpool_info() if one["internal_api"] == "openblas"]
    kernels = {kernel, "Haswell"} if kernel == "Zen" else {kernel}  # wheels hold one for both
    assert blas
    assert all(one["architecture"] in kernels for one in blas)
    assert torch.backends.cpu.get_cpu_capability() == aten.upper()
    threads = int(os.environ["OMP_NUM_THREADS"])
    assert torch.get_num_threads() == threads
    assert {one["num_threads"] for one in blas} == {min(threads, os.cpu_count() or 1)}


def test_the_table_names_what_passed_what_failed_and_what_the_processor_lacks(
    monkeypatch, tmp_path, capsys
):
    (tmp_path / "test_one.py").write_text(
        "import os, pytest\n\n"
        "@pytest.mark.arithmetic\ndef test_one():\n"
        "    assert os.environ['MKL_CBWR'] + os.environ['OMP_NUM_THREADS'] == 'AVX22', 'told'\n\n"
        "def test_other():\n    raise AssertionError\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(arithmetics, "TESTS", tmp_path)
    monkeypatch.setattr(arithmetics, "FEATURES", {"AVX2": True, "FMA3": True})
    chosen = [
        Arithmetic("Haswell", "AVX2", "avx2", 2),
        Arithmetic("Haswell", "COMPATIBLE", "avx2", 1),
        Arithmetic("SkylakeX", "AVX2", "avx2", 1),
    ]
    monkeypatch.setattr(arithmetics, "ARITHMETICS", chosen)
    assert arithmetics.main() == 1
    told = capsys.readouterr().out
    first, second, third = told.splitlines()[1:4]
    assert first.startswith("Haswell      AVX2 ")
    assert "1 passed" in first
    assert second.startswith("Haswell      COMPATIBLE ")
    assert "1 failed" in second
    assert "AssertionError: told" in told
    assert "has no AVX512F" in third
    monkeypatch.setattr(arithmetics, "ARITHMETICS", chosen[2:])
    assert arithmetics.main() == 0
