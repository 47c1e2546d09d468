"""Teachers on a Dask cluster: a worker killed while training, and the same votes all the same."""

from __future__ import annotations

import os
import pickle
import sys
import warnings

import numpy as np
import pyarrow as pa
import pytest
from mask_families import KillingMasksOnce, NotingMasks, RowSums, mask_table
from summed_pieces import DyingPiece, KillingPiece, inputs_by_class
from teacher_families import CANARY, Failing, KillingOnce, Mixed, Noting, Packed, seed_of

from tacit import InsecureNoise, PATEClassifier, PrivateKNNClassifier
from tacit.datasets import TableStream, open_table
from tacit.errors import InvalidArgument, MissingExtra, TeacherFailed
from tacit.masks import segment_with_teachers
from tacit.mechanisms import NoisySum
from tacit.records import ArrayPiece, StreamedRecords
from tacit.students import NearestStudent
from tacit.teachers import DaskCluster, executors
from tacit.teachers.executors import _Sealed


@pytest.fixture(scope="module")
def client():
    """Three worker processes of one thread each: as two tests kill one, no test waits for a new."""
    distributed = pytest.importorskip("distributed", reason="needs tacit[cluster]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dask's own, while it starts and stops
        with (
            distributed.LocalCluster(
                n_workers=3,
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs=50,
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client


def test_a_cluster_changes_no_bit_of_the_votes(client, table, mixed):
    mixed = Mixed(mixed.families[:3])  # without torch, which takes each worker long to import
    serial = table.predict(mixed)
    found = table.predict(Packed(pickle.dumps(mixed)), executor=client)
    assert found.dtype == serial.dtype
    assert found.tobytes() == serial.tobytes()


def test_an_address_will_do_and_checkpoints_work(client, table, tmp_path):
    family = Noting(str(tmp_path / "log"), teachers_per_task=4)
    address = client.scheduler.address
    first = table.predict(family, executor=address, checkpoint=tmp_path / "kept")
    assert family.trained() == 10
    again = table.predict(family, executor="serial", checkpoint=tmp_path / "kept")
    assert family.trained() == 10
    assert (first == again).all()


def test_a_killed_worker_changes_no_bit_of_the_masks(client, tmp_path):
    serial = segment_with_teachers(
        NotingMasks(str(tmp_path / "log")), **mask_table(), encode=RowSums()
    )
    killing = KillingMasksOnce(
        str(tmp_path / "other"), seed=seed_of(2), marker=str(tmp_path / "killed")
    )
    found = segment_with_teachers(killing, **mask_table(), encode=RowSums(), executor=client)
    assert (tmp_path / "killed").exists()
    assert found.tobytes() == serial.tobytes()


def test_a_failed_teacher_is_reported_by_type(client, table, tmp_path, capfd):
    table.X[np.flatnonzero(table.shards == 8)[0], 0] = CANARY
    with pytest.raises(TeacherFailed, match=r"^Some teachers failed \(Planted\);") as caught:
        table.predict(Failing(str(tmp_path / "log")), executor=client)
    out, err = capfd.readouterr()
    assert "4815162" not in str(caught.value) + out + err


def test_an_address_that_nobody_answers(client, table, monkeypatch):
    monkeypatch.setattr(executors, "_PATIENCE", 0.3)
    with pytest.raises(InvalidArgument, match="Dask scheduler that answers"):
        table.predict(Noting("unused"), executor="tcp://127.0.0.1:9")


@pytest.mark.parametrize(
    ("address", "said"),
    [("tls://127.0.0.1:9", r"security=Security\(...\)"), ("inproc://127.0.0.1/1/1", "answers")],
)
def test_addresses_that_need_more_than_themselves(table, monkeypatch, address, said):
    monkeypatch.setattr(executors, "_PATIENCE", 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dask's own
        with pytest.raises(InvalidArgument, match=said):
            table.predict(Noting("unused"), executor=address)


def test_rows_on_an_open_network_are_warned_of(client, table, tmp_path, monkeypatch):
    family = Noting(str(tmp_path / "log"))
    monkeypatch.setattr(executors, "_is_safe", lambda address: False)
    with pytest.warns(UserWarning, match="unencrypted: use tls://"):
        table.predict(family, executor=client)


def test_a_mistyped_executor_is_refused_before_any_row_is_read():
    with pytest.raises(InvalidArgument, match="executor='dusk' to be 'serial', 'local'"):
        open_table(pa.table({"a": [0.5]}), target=None, executor="dusk")


def test_a_frame_that_a_cluster_holds_is_refused_in_words(client):
    import dask.dataframe as dd
    import pandas as pd

    frame = dd.from_pandas(pd.DataFrame({"a": [0.5, 1.5], "label": [0, 1]}), npartitions=2)
    held = client.persist(frame)
    with pytest.raises(InvalidArgument, match=r"before persist\(\)"):
        open_table(held, target="label", classes=[0, 1], executor=client)
    assert open_table(frame, target="label", classes=[0, 1]).load().targets.tolist() == [0, 1]


def test_a_cluster_without_workers(table):
    class Empty:
        def wait_for_workers(self, n_workers, timeout):
            raise TimeoutError

    pytest.importorskip("distributed", reason="needs tacit[cluster]")
    with pytest.raises(InvalidArgument, match="have a worker within"):
        table.predict(Noting("unused"), executor=DaskCluster(Empty()))


def test_arguments_that_dask_may_log_are_sealed():
    assert repr(_Sealed(b"4815162342")) == "_Sealed()"


def test_without_dask_the_error_names_the_extra(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match=r"tacit\[cluster\]"):
        table.predict(Noting("unused"), executor=DaskCluster("tcp://127.0.0.1:1"))


def test_a_killed_worker_changes_no_bit_of_a_sum(client, tmp_path):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(600, 3)), rng.integers(2, size=600)
    pieces = [
        KillingPiece(X[some], labels[some], str(tmp_path / "killed") if number == 2 else None)
        for number, some in enumerate(np.array_split(np.arange(600), 5))
    ]
    mechanism = NoisySum(1.0, 3, 2)
    alone = StreamedRecords(lambda: pieces[:2] + pieces[3:], 480, False)
    last = StreamedRecords(lambda: [ArrayPiece(tuple(pieces[2].rows()))], 120, False)
    expected = alone.said(mechanism, inputs_by_class) + last.said(mechanism, inputs_by_class)
    spread = StreamedRecords(lambda: pieces, 600, False, client)
    found = spread.said(mechanism, inputs_by_class)
    assert (tmp_path / "killed").exists()
    assert found.records == 600
    np.testing.assert_array_equal(found.steps, expected.steps)


def test_a_killed_worker_changes_no_bit_of_what_a_table_teaches(client, tmp_path, monkeypatch):
    """One table, read on the cluster: by teachers, and by questions that seek neighbours."""
    rng = np.random.default_rng(0)
    X, labels, public = (
        rng.normal(size=(300, 2)),
        rng.integers(2, size=300),
        rng.normal(size=(9, 2)),
    )
    order = rng.permutation(300)
    rows = pa.table({"a": X[order, 0], "b": X[order, 1], "label": labels[order]})
    there = open_table(rows, target="label", classes=[0, 1], executor=client)
    shared = {"queries": 5, "epsilon": 20.0, "classes": [0, 1], "random_state": 0}

    def released(model, *given):
        model.set_params(**shared, student=NearestStudent(), noise=InsecureNoise(1), delta=1e-5)
        return np.asarray(model.fit(*given, X_public=public).releases_[0].values)

    family = Noting(str(tmp_path / "log"))
    killing = KillingOnce(family, seed_of(3), str(tmp_path / "of teachers"))
    found = released(PATEClassifier(killing, n_teachers=6), there)
    np.testing.assert_array_equal(found, released(PATEClassifier(family, n_teachers=6), X, labels))
    pieces, marker = TableStream.pieces, str(tmp_path / "of neighbours")
    monkeypatch.setattr(
        TableStream,
        "pieces",
        lambda self, *how: [DyingPiece(one, marker, os.getpid()) for one in pieces(self, *how)],
    )
    found = released(PrivateKNNClassifier(k=20), there)
    np.testing.assert_array_equal(found, released(PrivateKNNClassifier(k=20), X, labels))
    assert {path.name for path in tmp_path.iterdir()} == {"log", "of teachers", "of neighbours"}
