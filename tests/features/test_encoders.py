"""Frozen networks: rows alone, weights by their hash, what a statement says, a private cache."""

import copy
import os
import pickle
import re
import stat
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from tacit import Checks, DescentClassifier, InsecureNoise, MomentClassifier, Training
from tacit.errors import InvalidArgument
from tacit.features import (
    FrozenEncoder,
    PrecomputedEmbeddings,
    PublicWhitening,
    is_row_wise,
    presumptions,
    steps_of,
    transform_rows,
)
from tacit.methods import base
from tacit.students import LinearStudent, load_student

DRAW = np.random.default_rng(1)
ROWS = DRAW.normal(size=(9, 4)).astype(np.float32)


def module():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.5), torch.nn.Tanh())


def onnx_file(folder, by=1.0, name="small.onnx"):
    """A small product, as a file."""
    from tacit.export.graph import Graph

    graph = Graph()
    rows = graph.add_input("X", np.float32, ["rows", 4])
    graph.add_output(
        "out", graph("MatMul", rows, np.full((4, 2), by, np.float32)), np.float32, ["rows", 2]
    )
    path = folder / name
    path.write_bytes(graph.model(name="a", about="", facts={}).SerializeToString())
    return path


class TestIsolation:
    def test_rows_go_through_alone_and_without_dropout(self):
        encoder = FrozenEncoder(module()).fit(ROWS)
        made = encoder.transform(ROWS)
        with torch.inference_mode():
            plain = module().eval()(torch.from_numpy(ROWS)).numpy()
        assert made == pytest.approx(plain, abs=1e-6)
        assert np.array_equal(made[3:5], encoder.transform(ROWS[3:5]))
        assert is_row_wise(encoder)

    def test_a_batch_that_mixes_rows_is_never_seen(self):
        seen = []

        def mixes(rows):
            seen.append(len(rows))
            return rows - rows.mean(axis=0)

        made = FrozenEncoder(mixes).fit(ROWS).transform(ROWS)
        assert set(seen) == {1}
        assert not made.any()

    @pytest.mark.parametrize(("network", "kept"), [(lambda r: r * 2, "block"), (None, "alone")])
    def test_blocks_are_used_only_where_they_agree_with_rows_alone(self, network, kept):
        mixes = network or (lambda rows: rows + 1e-7 * len(rows))
        told = nullcontext() if kept == "block" else pytest.warns(UserWarning, match="row's bits")
        with told:
            encoder = FrozenEncoder(mixes, isolation="block", block=4).fit(ROWS)
        assert encoder.isolation_ == kept
        alone = FrozenEncoder(mixes).fit(ROWS).transform(ROWS)
        assert np.array_equal(encoder.transform(ROWS), alone)

    def test_one_scale_for_a_block_is_found_though_public_rows_share_it(self):
        def quantised(rows):
            step = max(np.abs(rows).max(), 1e-9) / 127
            with np.errstate(all="ignore"):
                return np.rint(rows / step) * step

        rows = np.sign(ROWS).astype(np.float32)  # the largest number is 1 everywhere
        with pytest.warns(UserWarning, match="row's bits"):
            assert FrozenEncoder(quantised, isolation="block").fit(rows).isolation_ == "alone"

    @pytest.mark.parametrize("block", [4, 24, 25, 40])
    def test_a_block_of_any_size_is_tried_on_as_many_rows(self, block):
        rows = np.random.default_rng(0).normal(size=(90, 4))
        encoder = FrozenEncoder(lambda given: given * 2, isolation="block", block=block)
        assert encoder.fit(rows).isolation_ == "block"

    def test_too_few_rows_for_a_block_and_a_network_that_takes_one_are_told(self):
        def one(given):
            (row,) = given
            return row[None]

        for network, rows, why in (
            (lambda given: given, ROWS[:3], "do not fill"),
            (one, ROWS, "a block fails"),
        ):
            encoder = FrozenEncoder(network, isolation="block", block=4)
            with pytest.warns(UserWarning, match=f"goes through alone.*{why}"):
                assert encoder.fit(rows).isolation_ == "alone"

    def test_a_memory_and_a_random_network_are_refused(self):
        class Largest:
            def __init__(self):
                self.seen = None

            def __call__(self, rows):
                self.seen = rows if self.seen is None else np.maximum(self.seen, rows)
                return rows - 0.1 * self.seen

        class Dropped(torch.nn.Module):
            def forward(self, rows):
                wide = rows.repeat(1, 32)  # of few numbers one in sixteen draws agrees with another
                return torch.nn.functional.dropout(wide)  # in training, whatever mode it is in

        for network in (Largest(), Dropped()):
            with pytest.raises(InvalidArgument, match="random, or remembers"):
                FrozenEncoder(network).fit(ROWS)

    @pytest.mark.parametrize("isolation", ["alone", "block"])
    def test_a_row_that_fails_is_lost_alone(self, isolation):
        def fails(rows):
            if (rows > 90).any():
                raise ValueError(f"a cell is {rows.max()}")
            return rows

        encoder = FrozenEncoder(fails, isolation=isolation).fit(ROWS)
        private = ROWS.copy()
        private[2, 1] = 99
        made = transform_rows(encoder, private, ROWS)
        assert np.isnan(made[2]).all()
        assert np.array_equal(np.delete(made, 2, 0), np.delete(ROWS, 2, 0))

    @pytest.mark.parametrize(
        ("wrong", "named"),
        [
            ({"isolation": "batch"}, "isolation"),
            ({"name": " "}, "name"),
            ({"network": 3}, "network"),
            ({"network": "missing.onnx"}, "ONNX"),
            ({"network": lambda rows: 1 / 0}, "zeros"),
        ],
    )
    def test_refuses_by_name(self, wrong, named):
        with pytest.raises(InvalidArgument, match=named):
            FrozenEncoder(**({"network": module()} | wrong)).fit(ROWS)


class TestWeights:
    def test_the_hash_is_that_of_the_weights(self, tmp_path):
        one, other = module(), module()
        assert FrozenEncoder(one).weights_hash() == FrozenEncoder(other).weights_hash()
        other[0].bias.data += 1
        assert FrozenEncoder(one).weights_hash() != FrozenEncoder(other).weights_hash()
        expected = FrozenEncoder(one).weights_hash()
        with pytest.raises(InvalidArgument, match="not the network"):
            FrozenEncoder(other, weights=expected).fit(ROWS)
        path = onnx_file(tmp_path)
        made = clone(FrozenEncoder(path)).fit(ROWS).transform(ROWS)
        assert made == pytest.approx(np.repeat(ROWS.sum(axis=1, keepdims=True), 2, 1), abs=1e-5)

    def test_statement_and_student_name_it(self, tmp_path):
        path = onnx_file(tmp_path)
        labels = (ROWS.sum(axis=1) > 0).astype(int)
        fitted = DescentClassifier(
            classes=[0, 1],
            n_records=9,
            noise=InsecureNoise(0),
            checks=Checks(allow_hopeless=True),
            training=Training(epochs=2),
            features=make_pipeline(FrozenEncoder(path, name="sums"), PublicWhitening(1)),
        )
        with pytest.warns(UserWarning, match="n mu"):
            fitted.fit(ROWS, labels, DRAW.normal(size=(6, 4)))
        said = str(fitted.statement_)
        assert "features by sums" in said
        assert FrozenEncoder(path).weights_hash()[:16] in said
        assert "trained without the private records" in said
        fitted.save(tmp_path / "student")
        loaded = load_student(tmp_path / "student")
        assert np.array_equal(loaded.predict_proba(ROWS), fitted.predict_proba(ROWS))
        path.write_bytes(path.read_bytes() + b"\x00")
        with pytest.raises(InvalidArgument, match="not the network"):
            load_student(tmp_path / "student").predict(ROWS)

    def test_one_network_is_used_and_stated_whatever_becomes_of_its_file(self, tmp_path):
        path = onnx_file(tmp_path)
        encoder = FrozenEncoder(path)
        expected = encoder.weights_hash()
        fitted = clone(encoder).fit(ROWS)
        before = fitted.transform(ROWS)
        onnx_file(tmp_path, by=2.0)
        with pytest.warns(UserWarning, match="has changed since"):
            again = clone(encoder).fit(ROWS)
        path.unlink()
        for each in (fitted, again, clone(encoder).fit(ROWS), copy.deepcopy(fitted)):
            assert np.array_equal(each.transform(ROWS), before)
            assert expected[:16] in each.presumed()[0]
            assert each.weights_hash() == each.described()["weights"] == expected
        assert expected[:16] in encoder.presumed()[0]  # what an estimator asks

    def test_a_memory_that_no_trial_finds_does_not_reach_a_clone(self):
        class Sees(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("seen", torch.zeros(()))

            def forward(self, rows):
                self.seen += (rows == 7.25).sum()
                return rows + self.seen

        encoder = FrozenEncoder(Sees())
        one, other = clone(encoder).fit(ROWS), clone(encoder).fit(ROWS)
        before = one.transform(ROWS)
        one.transform(np.full((1, 4), 7.25))
        assert not np.array_equal(one.transform(ROWS), before)
        for each in (other, clone(encoder).fit(ROWS), copy.deepcopy(one)):
            assert np.array_equal(each.transform(ROWS), before)

    def test_who_fits_the_encoder_again_has_it_read_again(self, tmp_path):
        for network, change in (
            (onnx_file(tmp_path), lambda path: onnx_file(tmp_path, by=2.0)),
            (module(), lambda given: given[0].weight.data.mul_(2)),
        ):
            encoder = FrozenEncoder(network).fit(ROWS)
            first, before = encoder.weights_hash(), encoder.transform(ROWS)
            change(network)
            assert encoder.weights_hash() == first
            assert np.array_equal(encoder.transform(ROWS), before)
            assert encoder.fit(ROWS).weights_hash() != first
            assert not np.array_equal(encoder.transform(ROWS), before)

    def test_a_pickle_expects_the_network_that_was_used(self, tmp_path):
        encoder = FrozenEncoder(onnx_file(tmp_path)).fit(ROWS)
        kept = pickle.dumps(encoder)
        assert np.array_equal(pickle.loads(kept).transform(ROWS), encoder.transform(ROWS))
        onnx_file(tmp_path, by=2.0)
        with pytest.raises(InvalidArgument, match="not the network"):
            pickle.loads(kept).transform(ROWS)

    def test_a_file_that_is_gone_between_releases_stops_nothing(self, tmp_path, monkeypatch):
        path, releases = onnx_file(tmp_path), []

        def released(self, *given, **named):
            releases.append(path.unlink(missing_ok=True))
            return plain(self, *given, **named)

        plain = base.PrivateEstimator._released
        monkeypatch.setattr(base.PrivateEstimator, "_released", released)
        draw = np.random.default_rng(0)
        rows, outside = draw.normal(size=(400, 4)), draw.normal(size=(60, 4))
        fitted = MomentClassifier(
            classes=[0, 1],
            n_records=400,
            epsilon=4.0,
            noise=InsecureNoise(0),
            checks=Checks(allow_hopeless=True),
            features=make_pipeline(FrozenEncoder(path, name="sums"), PublicWhitening(1)),
        ).fit(rows, (rows.sum(axis=1) > 0).astype(int), outside)
        assert len(releases) >= 2
        assert len(fitted.predict(outside)) == 60

    @pytest.mark.parametrize("in_pipeline", [True, False])
    def test_a_loaded_student_says_how_to_give_it_the_network(self, in_pipeline, tmp_path):
        network, student = module(), LinearStudent()
        encoder = FrozenEncoder(network)
        student.features = make_pipeline(encoder, PublicWhitening(2)) if in_pipeline else encoder
        student.fit(ROWS, np.arange(9), np.eye(2)[(ROWS[:, 0] > 0).astype(int)])
        student.save(tmp_path / "student")
        student = load_student(tmp_path / "student")
        with pytest.raises(InvalidArgument) as told:
            student.predict(ROWS)
        advice = re.findall(r"student\.features_\.set_params\(\w+=network\)", str(told.value))
        other = module()
        other[2] = torch.nn.ReLU()
        for given, then in (
            (other, pytest.raises(InvalidArgument, match="not the network")),
            (network, nullcontext()),
        ):
            exec(advice[in_pipeline], {"student": student, "network": given})
            with then:
                assert len(student.predict(ROWS)) == 9

    def test_what_is_presumed_of_blocks_and_of_given_embeddings(self):
        lines = FrozenEncoder(module(), isolation="block").presumed()
        assert "tried, not proved; if not, each goes alone" in lines[1]
        (line,) = PrecomputedEmbeddings("lite0").presumed()
        assert "own record alone" in line.replace("\n", " ")


class TestCache:
    def test_is_secret_found_again_and_deleted_on_request(self, tmp_path):
        calls = []

        class Shifted(torch.nn.Module):
            def __init__(self, by):
                super().__init__()
                self.register_buffer("by", torch.tensor(float(by)))

            def forward(self, rows):
                calls.append(len(rows))
                return rows[:, :2] + self.by

        path = tmp_path / "features.npz"
        encoder = FrozenEncoder(Shifted(0), cache=path).fit(ROWS)
        first = encoder.transform(ROWS[:5])
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        before = len(calls)
        again = encoder.transform(ROWS[[7, 0, 4]])
        assert np.array_equal(again[1:], first[[0, 4]])
        assert len(calls) - before <= 4  # one new row, and rows of zeros
        other = FrozenEncoder(Shifted(1), name="other", cache=path).fit(ROWS)
        assert np.array_equal(other.transform(ROWS[:2]), ROWS[:2, :2] + 1)
        path.write_bytes(b"cut")
        assert np.array_equal(encoder.transform(ROWS[:5]), first)
        encoder.forget()
        assert not path.exists()


def test_steps_that_stand_deep_are_told_of_as_well():
    from sklearn.compose import ColumnTransformer, make_column_transformer
    from sklearn.pipeline import make_pipeline, make_union

    encoder = FrozenEncoder(lambda rows: rows, name="a deep one")
    said = presumptions(encoder)
    assert said
    assert presumptions(make_pipeline(make_union(make_pipeline(encoder)))) == said
    columns = make_column_transformer((make_pipeline(encoder), [0, 1]), ("drop", [2]))
    assert presumptions(columns) == said
    assert steps_of(ColumnTransformer([], remainder=make_pipeline(encoder))) == [encoder]


def test_another_network_is_asked_once_it_is_set():
    rows = np.ones((4, 2), dtype=np.float32)
    encoder = FrozenEncoder(lambda rows: rows * 2).fit(rows)
    assert (encoder.transform(rows) == 2).all()
    assert (encoder.set_params(network=lambda rows: rows * 3).transform(rows) == 3).all()


@pytest.mark.parametrize("given", [{"weights": "a" * 64}, {"cache": "features.npz"}])
def test_a_function_has_neither_weights_nor_a_cache(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument, match="neither weights nor cache"):
        FrozenEncoder(lambda rows: rows, **given).fit(np.ones((4, 2)))
