"""Every student that ships says the same as an ONNX model; a step that is foreign is named."""

from __future__ import annotations

import numpy as np
import pytest

import benchmarks.onnx_agreement as measured
from tacit import students
from tacit.errors import InvalidArgument
from tacit.export import export_onnx
from tacit.export.exporting import _OTHERS
from tacit.export.students import _SCORES
from tacit.features import (
    FrozenEncoder,
    PrecomputedEmbeddings,
    PublicKernel,
    PublicPatches,
    PublicWhitening,
    ScaledHOG,
)

KINDS = dict(measured.catalogue())
SCANS = dict(measured.of_scans())


@pytest.fixture(autouse=True)
def fewer_rows(monkeypatch):
    """Export and training are what takes time; the benchmark has 1,000 rows of each."""
    monkeypatch.setattr(measured, "ROWS", 100)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_students_and_their_models_agree(kind, tmp_path):
    found = measured.compared(kind, *KINDS[kind](), tmp_path)
    assert found.difference <= 1e-5
    assert found.other_labels == 0
    assert found.rows == 100


@pytest.mark.parametrize("kind", SCANS)
def test_masks_agree_from_the_raw_scan_to_its_own_grid(kind, tmp_path):
    found = measured.compared_masks(kind, SCANS[kind](), tmp_path)
    assert found.difference <= 1e-5
    assert found.other_labels == 0


def test_a_comparison_finds_a_student_that_differs(tmp_path):
    student, rows = KINDS["linear"]()
    path = tmp_path / "model.onnx"
    export_onnx(student, path)
    student.weights_ = student.weights_ + 1e-3 * np.eye(64)[:, :10]
    (found,) = (np.abs(student.predict_proba(rows) - measured.answers(path, X=rows)[1]).max(),)
    assert found > 1e-5


def test_no_student_ships_without_an_export():
    shipped = {name for name in students.__all__ if name.endswith("Student")} - {"Student"}
    assert shipped == {*_SCORES, *_OTHERS}


class TestScikitLearn:
    """Steps one by one, against what they compute themselves."""

    def outcome(self, step, rows, tmp_path):
        from tacit.export.graph import Graph
        from tacit.export.steps import transformed

        graph = Graph()
        made = transformed(graph, step, graph.add_input("X", np.float64, ["rows", rows.shape[1]]))
        graph.add_output("out", graph.cast(made, np.float64), np.float64, ["rows", "features"])
        (tmp_path / "a.onnx").write_bytes(
            graph.model(name="a", about="", facts={}).SerializeToString()
        )
        return measured.answers(tmp_path / "a.onnx", X=rows)[0]

    def steps(self):
        from sklearn import decomposition, feature_selection, kernel_approximation
        from sklearn import preprocessing as pre
        from sklearn.pipeline import make_pipeline
        from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

        yield from (pre.StandardScaler(with_mean=False), pre.StandardScaler(with_std=False))
        yield from (pre.RobustScaler(), pre.MinMaxScaler((-1, 2), clip=True), pre.MaxAbsScaler())
        yield from (pre.Normalizer(norm) for norm in ("l1", "l2", "max"))
        yield from (decomposition.PCA(3), decomposition.PCA(2, whiten=True))
        yield from (decomposition.TruncatedSVD(3), pre.PolynomialFeatures(3))
        yield kernel_approximation.Nystroem(n_components=9, random_state=0)
        yield kernel_approximation.RBFSampler(gamma=9, n_components=20, random_state=0)
        yield GaussianRandomProjection(3, random_state=0)
        yield SparseRandomProjection(3, random_state=0, dense_output=True)
        yield feature_selection.VarianceThreshold(0.9)
        yield make_pipeline("passthrough", pre.FunctionTransformer())

    def test_steps_compute_what_they_did(self, tmp_path):
        rows = np.random.default_rng(0).normal(size=(40, 5)).round(3)
        for step in self.steps():
            fitted = step.fit(rows[:20])
            said = self.outcome(fitted, rows, tmp_path)
            assert said == pytest.approx(np.asarray(fitted.transform(rows)), abs=1e-6), step

    def test_public_maps_agree_to_the_rounding_of_their_whole_numbers(self, tmp_path):
        from sklearn.pipeline import make_pipeline

        rows = np.random.default_rng(0).normal(size=(40, 16)).round(3)
        scaled = ScaledHOG((4, 4), cells=(2,), pixels=2, mirror=True)
        for step in (
            PublicWhitening(3, standardise=True, clip=1.5),
            make_pipeline(scaled, PublicWhitening(4), PublicKernel(15), PublicWhitening(3)),
            *(
                PublicPatches((4, 4), cells=(2,), pixels=2, mirror=mirror, patch=3, atoms=4)
                for mirror in (False, True)
            ),
        ):
            fitted = step.fit(rows[:20])
            said = self.outcome(fitted, rows, tmp_path)
            assert said == pytest.approx(fitted.transform(rows), abs=2e-5), step

    def encoder_file(self, path, opset):
        """The largest of each four of 16 numbers, for one row at a time, in an opset's words."""
        from onnx import TensorProto, helper, numpy_helper

        last = {"axes": [2]} if opset < 18 else {}
        sides = [numpy_helper.from_array(np.array([1, 4, 4]), "_1")]  # a name of the graph's own
        sides += [numpy_helper.from_array(np.array([2]), "axes")] if opset >= 18 else []
        nodes = [
            helper.make_node("Reshape", ["X", "_1"], ["square"]),
            helper.make_node("ReduceMax", ["square", "axes"][: 1 + (not last)], ["out"], **last),
        ]
        given = helper.make_tensor_value_info("X", TensorProto.FLOAT, [1, 16])
        said = helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 4, 1])
        graph = helper.make_graph(nodes, "largest", [given], [said], sides)
        versions = [helper.make_opsetid("", opset)]
        path.write_bytes(
            helper.make_model(graph, opset_imports=versions, ir_version=8).SerializeToString()
        )
        return path

    @pytest.mark.parametrize("opset", [13, 18])
    def test_an_encoder_sees_rows_alone_also_where_its_file_is_for_one(self, tmp_path, opset):
        from sklearn.pipeline import make_pipeline

        rows = np.random.default_rng(0).normal(size=(40, 16)).astype(np.float32)
        encoder = FrozenEncoder(self.encoder_file(tmp_path / "encoder.onnx", opset))
        for last in (PrecomputedEmbeddings(), PublicWhitening(3)):
            fitted = make_pipeline(encoder, last).fit(rows)
            said = self.outcome(fitted, rows.astype(np.float64), tmp_path)
            assert said == pytest.approx(fitted.transform(rows), abs=2e-5)

    def test_an_encoder_of_images_gets_their_sides(self, tmp_path):
        from onnx import TensorProto, helper

        pool = helper.make_node("MaxPool", ["X"], ["out"], kernel_shape=[2, 2])
        given = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["rows", 1, 4, 4])
        said = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["rows", 1, 3, 3])
        model = helper.make_model(
            helper.make_graph([pool], "pool", [given], [said]),
            opset_imports=[helper.make_opsetid("", 18)],
            ir_version=8,
        )
        (tmp_path / "pool.onnx").write_bytes(model.SerializeToString())
        rows = np.random.default_rng(0).normal(size=(40, 16)).astype(np.float32)
        fitted = FrozenEncoder(tmp_path / "pool.onnx").fit(rows)
        said = self.outcome(fitted, rows.astype(np.float64), tmp_path)
        assert said == pytest.approx(fitted.transform(rows), abs=1e-6)
        (tmp_path / "pool.onnx").write_bytes(model.SerializeToString() + b"\x00")
        with pytest.raises(InvalidArgument, match="another hash"):
            self.outcome(fitted, rows, tmp_path)

    def test_an_encoder_that_is_no_file_or_another_file_is_refused(self, tmp_path):
        with pytest.raises(InvalidArgument, match="ONNX file to export"):
            self.outcome(FrozenEncoder(lambda rows: rows), np.ones((2, 3)), tmp_path)
        (tmp_path / "other.onnx").write_bytes(b"other")
        other = FrozenEncoder(tmp_path / "other.onnx", weights="0" * 64)
        with pytest.raises(InvalidArgument, match="another hash"):
            self.outcome(other, np.ones((2, 3)), tmp_path)

    def test_a_function_a_foreign_class_and_a_subclass_are_refused_by_name(self, tmp_path):
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.preprocessing import FunctionTransformer, StandardScaler

        class OwnScaler(StandardScaler):
            """Could compute anything."""

        for features, named in (
            (FunctionTransformer(np.log1p), "FunctionTransformer"),
            (OwnScaler(), "OwnScaler"),
        ):
            student, _ = measured.learned(students.LinearStudent(features))
            with pytest.raises(InvalidArgument, match=named):
                export_onnx(student, tmp_path / "a.onnx")
        student, _ = measured.supervised(KNeighborsClassifier())
        with pytest.raises(InvalidArgument, match="KNeighborsClassifier of sklearn"):
            export_onnx(student, tmp_path / "a.onnx")
        with pytest.raises(InvalidArgument, match="one of tacit's students"):
            export_onnx(StandardScaler(), tmp_path / "a.onnx")
        assert list(tmp_path.iterdir()) == []


class TestLayers:
    """Layers of torch one by one."""

    def layers(self):
        from torch import nn

        flat = [nn.GELU(), nn.SiLU(), nn.LeakyReLU(0.2), nn.ELU(2.0), nn.Softplus(), nn.Sigmoid()]
        flat += [
            nn.ReLU(),
            nn.Tanh(),
            nn.LayerNorm(16),
            nn.Identity(),
            nn.Linear(16, 3, bias=False),
        ]
        for layer in flat:
            yield nn.Sequential(nn.Linear(16, 16), layer, nn.Flatten(), nn.LazyLinear(2))
        planes = [nn.MaxPool2d(2, padding=1), nn.AvgPool2d(3, 1, padding=1), nn.GroupNorm(1, 2)]
        planes += [nn.InstanceNorm2d(2, affine=True), nn.BatchNorm2d(2), nn.PReLU(2)]
        planes += [nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2, dilation=1), nn.Dropout(0.5)]
        for layer in planes:
            start = (nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 2, (3, 1), padding=(1, 0)))
            yield nn.Sequential(*start, layer, nn.Flatten(), nn.LazyLinear(2))

    def test_they_compute_what_they_did_in_both_precisions(self, tmp_path):
        import torch

        rows = np.random.default_rng(0).normal(size=(20, 16))
        for network in self.layers():
            for kind in (torch.float32, torch.float64):
                own = network.to(kind)
                own(torch.zeros(2, 16, dtype=kind))  # lazy layers look once
                told = students.NetworkStudent().told(own, n_features=16, outputs=2)
                found = measured.compared("", told, rows, tmp_path)
                assert found.difference <= 2e-6, network

    def test_a_module_of_ones_own_is_refused_by_name(self, tmp_path):
        from torch import nn

        class Mine(nn.Module):
            def __init__(self):
                super().__init__()
                self.line = nn.Linear(3, 2)

            def forward(self, x):
                return self.line(x).sin()

        student = students.NetworkStudent().told(Mine(), n_features=3, outputs=2)
        with pytest.raises(InvalidArgument, match="got Mine"):
            export_onnx(student, tmp_path / "a.onnx")


@pytest.fixture(scope="module")
def student():
    return KINDS["label spreading"]()[0]


class TestWhatIsSaid:
    def test_labels_have_their_own_type(self, student, tmp_path):
        rows = measured.lesson().new[:3]
        for labels, kind in ((range(10), np.int64), ("abcdefghij", np.object_)):
            student.save(tmp_path / "a.tacit", extra={"classes": list(labels)})
            export_onnx(tmp_path / "a.tacit", tmp_path / "a.onnx")
            said = measured.answers(tmp_path / "a.onnx", X=rows)[0]
            assert said.dtype == kind
            assert (
                said.tolist() == students.load_student(tmp_path / "a.tacit").predict(rows).tolist()
            )

    def test_an_estimator_is_its_student_and_its_classes(self, tmp_path):
        import tacit

        random = np.random.default_rng(0)
        X, public = random.normal(size=(90, 2)), random.normal(size=(40, 2))
        model = tacit.PrototypeClassifier(
            classes=["no", "yes"], n_prototypes=9, noise=tacit.InsecureNoise(0)
        ).fit(X, np.where(X[:, 0] > 0, "yes", "no"), X_public=public)
        export_onnx(model, tmp_path / "a.onnx")
        said, soft = measured.answers(tmp_path / "a.onnx", X=X)
        assert said.tolist() == model.predict(X).tolist()
        assert soft == pytest.approx(model.predict_proba(X), abs=1e-9)

    def test_a_row_that_cannot_be_read_gets_no_label(self, student, tmp_path):
        rows = measured.lesson().new[:4].copy()
        rows[1, 5], rows[2, 0] = np.nan, np.inf
        export_onnx(student, tmp_path / "a.onnx")
        said, soft = measured.answers(tmp_path / "a.onnx", X=rows)
        assert (said == -1).tolist() == [False, True, True, False]
        assert np.isnan(soft).all(axis=1).tolist() == [False, True, True, False]
        alone = measured.answers(tmp_path / "a.onnx", X=rows[3:])[1]
        assert soft[3] == pytest.approx(alone[0], abs=1e-12)

    def test_a_scan_that_cannot_be_read_gets_no_mask(self, tmp_path):
        student, volumes, grid = SCANS["U-Net, volumes"]()
        student.save(tmp_path / "a.tacit", extra={"grid": list(grid)})
        export_onnx(tmp_path / "a.tacit", tmp_path / "a.onnx")
        scans = volumes.arrays()[0][:2, None]
        scans[1, 0, 3, 3, 3] = np.nan
        masks, soft = measured.answers(tmp_path / "a.onnx", scans=scans)
        assert set(np.unique(masks[0])) <= {0, 1}
        assert (masks[1] == 255).all()
        assert np.isnan(soft[1]).all()

    def test_the_same_student_gives_the_same_bytes(self, student, tmp_path):
        first = export_onnx(student, tmp_path / "a.onnx")
        assert first.sha256 == export_onnx(student, tmp_path / "b.onnx").sha256
        assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()

    def test_without_onnx_the_extra_is_named(self, student, tmp_path, monkeypatch):
        import sys

        from tacit.errors import MissingExtra

        monkeypatch.setitem(sys.modules, "onnx", None)
        with pytest.raises(MissingExtra, match=r"tacit\[onnx\]"):
            export_onnx(student, tmp_path / "a.onnx")


@pytest.mark.parametrize("level", [0.0, 1.7e9])
def test_large_numbers_that_differ_little_keep_their_differences(level, tmp_path):
    """Times in seconds, for instance: their squares have no digits left for what differs."""
    from sklearn.naive_bayes import GaussianNB

    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, 90)
    rows = rng.normal(size=(90, 4)) + classes[:, None] + level
    student = students.SupervisedStudent(GaussianNB())
    student.fit(rows, np.arange(90), np.eye(3)[classes])
    export_onnx(student, tmp_path / "model.onnx")
    _, chances = measured.answers(tmp_path / "model.onnx", X=rows)
    np.testing.assert_allclose(chances, student.predict_proba(rows), atol=1e-5)
