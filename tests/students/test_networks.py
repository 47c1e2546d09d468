"""Students whose weights come from elsewhere: descriptions of networks, predictions, files."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tacit.errors import InvalidArgument
from tacit.students import NetworkStudent, ReconstructionStudent, load_student
from tacit.students.networks import build_layers, describe_layers, perceptron

X = np.random.default_rng(0).normal(size=(20, 16))


def convolution() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)),
        nn.Conv2d(1, 4, 3, stride=2, padding=1, bias=False),
        nn.GroupNorm(2, 4),
        nn.LeakyReLU(0.2),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.LayerNorm(4),
        nn.Linear(4, 3),
    )


class TestLayers:
    def test_described_networks_are_built_again(self):
        for network in (convolution(), nn.Sequential(nn.Conv2d(1, 2, 3, padding="same"))):
            assert repr(build_layers(describe_layers(network))) == repr(network)

    @pytest.mark.parametrize(
        "module",
        [
            nn.Linear(2, 2),
            nn.Sequential(nn.Conv2d(1, 1, 3, dilation=2)),
            nn.Sequential(nn.Sequential(nn.Linear(2, 2))),
            nn.Sequential(nn.LSTM(2, 2)),
            nn.Sequential(type("Linear", (nn.Linear,), {})(2, 2)),
        ],
    )
    def test_anything_else_is_not_described(self, module):
        assert describe_layers(module) is None

    @pytest.mark.parametrize(
        "layers", [[["Module"]], [["Linear", ["device", "cpu"]]], [["__import__"]]]
    )
    def test_nothing_else_is_built(self, layers):
        with pytest.raises(InvalidArgument, match="unknown"):
            build_layers(layers)

    def test_perceptron(self):
        network = build_layers(perceptron((5, 4, 3, 2), "relu"))
        assert [type(layer).__name__ for layer in network] == ["Linear", "ReLU"] * 2 + ["Linear"]
        assert network(torch.zeros(7, 5)).shape == (7, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_classes_are_the_softmax_of_the_network(tmp_path, dtype):
    network = convolution().to(dtype)
    student = NetworkStudent(describe_layers(network)).told(
        network, n_features=16, outputs=3, centre=X.mean(axis=0), scale=2.0
    )
    rows = torch.from_numpy((X - X.mean(axis=0)) / 2.0).to(dtype)
    expected = network(rows).double().softmax(dim=1).detach().numpy()
    np.testing.assert_allclose(student.predict_proba(X), expected, rtol=1e-12)
    student.save(tmp_path / "student.tacit")
    loaded = load_student(tmp_path / "student.tacit")
    np.testing.assert_array_equal(loaded.predict_proba(X), student.predict_proba(X))


def test_reconstructions_are_in_the_units_of_the_inputs(tmp_path):
    layers = perceptron((16, 8, 2, 8, 16), "softplus")
    torch.manual_seed(0)
    network = build_layers(layers).double()
    student = ReconstructionStudent(layers, bottleneck=4).told(
        network, n_features=16, outputs=16, centre=X.mean(axis=0), scale=3.0
    )
    expected = network(torch.from_numpy((X - X.mean(axis=0)) / 3.0)).detach().numpy() * 3.0
    np.testing.assert_allclose(student.predict(X), expected + X.mean(axis=0))
    assert student.encode(X).shape == (20, 2)
    np.testing.assert_allclose(student.decode(student.encode(X)), student.predict(X))
    student.save(tmp_path / "student.tacit")
    loaded = load_student(tmp_path / "student.tacit")
    np.testing.assert_array_equal(loaded.predict(X), student.predict(X))
    np.testing.assert_array_equal(loaded.encode(X), student.encode(X))


def test_they_do_not_learn():
    with pytest.raises(InvalidArgument, match="elsewhere"):
        NetworkStudent().fit(X, [0, 1], [[1, 0], [0, 1]])
    with pytest.raises(InvalidArgument, match="elsewhere"):
        ReconstructionStudent().fit(X)


def test_a_file_with_other_weights_is_refused(tmp_path):
    layers = perceptron((16, 3), "tanh")
    student = NetworkStudent(layers).told(build_layers(layers), n_features=16, outputs=3)
    student.layers = perceptron((16, 4), "tanh")
    student.save(tmp_path / "student.tacit")
    with pytest.raises(InvalidArgument, match="saved weights"):
        load_student(tmp_path / "student.tacit")
