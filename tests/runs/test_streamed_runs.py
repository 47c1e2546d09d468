"""A run whose private file is gone through, not loaded, releases what the loaded one does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.errors import InvalidArgument
from tacit.ledger import KeptReleases
from tacit.mechanisms import NoisySum
from tacit.runs import RunConfig, run_config, running

RNG = np.random.default_rng(3)


def rows(count: int) -> pa.Table:
    place, size = RNG.choice(["home", "ward"], count), RNG.uniform(size=count)
    label = np.where(size + (place == "ward") + RNG.normal(0, 0.2, count) > 1, "yes", "no")
    return pa.table(
        {"size": size, "place": place, "sick": label, "who": RNG.integers(99, size=count)}
    )


@pytest.fixture
def config(tmp_path):
    for name, count in (("private", 400), ("public", 60), ("held", 80)):
        pq.write_table(rows(count), tmp_path / f"{name}.parquet")
    return RunConfig.parse(
        {
            "method": "prototype",
            "prototype": {"features": "bins", "n_prototypes": 8},
            "data": {
                "source": str(tmp_path / "private.parquet"),
                "public_source": str(tmp_path / "public.parquet"),
                "held_out_source": str(tmp_path / "held.parquet"),
                "options": {
                    "target": "sick",
                    "classes": ["no", "yes"],
                    "numeric": {"size": [0.25, 0.5, 0.75]},
                    "categorical": {"place": ["home", "ward"]},
                    "groups": "who",
                },
            },
            "privacy": {"epsilon": 4.0, "delta": 1e-5},
        }
    )


def test_streamed_and_loaded_files_add_up_to_the_same(config, tmp_path, monkeypatch):
    totals: list[np.ndarray] = []
    total = NoisySum._total
    monkeypatch.setattr(
        NoisySum, "_total", lambda self, said: totals.append(total(self, said)) or totals[-1]
    )
    with monkeypatch.context() as held:
        held.setattr(running, "streamed_file", lambda *_, **__: None)
        loaded = run_config(config, tmp_path / "loaded")
    load = running.load_dataset

    def not_private(source: str, **options: Any) -> Any:
        assert source != config.data.source
        return load(source, **options)

    monkeypatch.setattr(running, "load_dataset", not_private)
    streamed = run_config(config, tmp_path / "streamed")
    np.testing.assert_array_equal(*totals)
    assert min(streamed.accuracy, loaded.accuracy) > 0.7
    assert len(KeptReleases(tmp_path / "streamed" / "releases").stored()) == 1


def test_a_held_out_row_in_a_streamed_file_is_refused(config, tmp_path):
    private = pq.read_table(tmp_path / "private.parquet")
    pq.write_table(private.slice(7, 40), tmp_path / "held.parquet")
    with pytest.raises(InvalidArgument, match="equals a held-out one"):
        run_config(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
