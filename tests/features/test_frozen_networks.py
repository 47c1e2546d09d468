"""Networks as they are read: what their hash says, which kinds of them run, which are refused."""

import io
import warnings

import numpy as np
import pytest
import torch

from tacit.errors import InvalidArgument
from tacit.features import FrozenEncoder

ROWS = np.random.default_rng(2).normal(size=(9, 6)).astype(np.float32)


def stack(last=None, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh() if last is None else last)


def quietly(make, *given, **named):
    """Return what torch makes; that it will not for ever is not asked here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*given, **named)


def scripted(module):
    return quietly(torch.jit.script, module.eval())


def frozen(module):
    return quietly(torch.jit.freeze, scripted(module))


def traced(module):
    return quietly(torch.jit.trace, module.eval(), torch.zeros(1, 6))


def hash_of(network):
    return FrozenEncoder(network).weights_hash()


def onnx_model(operator, sides, path, *weights, **saved):
    """Write one operator on (rows, *sides), and on weights, as a file."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    held = [numpy_helper.from_array(array, f"W{k}") for k, array in enumerate(weights)]
    names = [each.name for each in held]
    graph = helper.make_graph(
        [helper.make_node(operator, ["X", *names], ["Y"])],
        "one",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["rows", *sides])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)],
        held,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, path, **saved)
    return path


class TestHash:
    @pytest.mark.parametrize("kind", [lambda module: module, scripted, frozen, traced])
    def test_equal_tensors_in_another_architecture_are_another_network(self, kind):
        others = (torch.nn.ReLU(), torch.nn.ELU(1.0), torch.nn.ELU(2.0))
        found = {hash_of(kind(stack(last))) for last in (None, *others)}
        assert len(found) == 4
        assert hash_of(kind(stack(seed=1))) not in found
        assert hash_of(kind(stack())) in found

    def test_training_and_layout_do_not_count(self):
        one, other = torch.nn.Conv2d(2, 3, 2), torch.nn.Conv2d(2, 3, 2)
        other.load_state_dict(one.state_dict())
        other = other.to(memory_format=torch.channels_last).train()
        assert hash_of(one.eval()) == hash_of(other)

    @pytest.mark.parametrize("kind", [scripted, frozen, traced])
    def test_a_scripted_module_is_known_when_it_is_loaded_again(self, kind):
        made, file = kind(stack()), io.BytesIO()
        quietly(torch.jit.save, made, file)
        file.seek(0)
        assert hash_of(quietly(torch.jit.load, file)) == hash_of(made)

    def test_a_buffer_that_no_state_holds_counts(self):
        one, other = stack(), stack()
        for module, value in ((one, 1.0), (other, 2.0)):
            module.register_buffer("by", torch.tensor(value), persistent=False)
        assert hash_of(one) != hash_of(other)

    @pytest.mark.parametrize("network", [torch.nn.Tanh(), lambda rows: rows], ids=["module", "map"])
    def test_what_has_no_tensors_has_none(self, network, tmp_path):
        encoder = FrozenEncoder(network).fit(ROWS)
        assert encoder.weights_hash() is None
        assert "without a hash" in encoder.presumed()[0]
        for given in ({"weights": "0" * 64}, {"cache": tmp_path / "features.npz"}):
            with pytest.raises(InvalidArgument, match="neither weights nor cache"):
                FrozenEncoder(network, **given).fit(ROWS)


class TestKinds:
    @pytest.mark.parametrize("kind", [scripted, frozen, traced])
    def test_scripted_modules_run(self, kind):
        plain = FrozenEncoder(stack()).fit(ROWS).transform(ROWS)
        assert FrozenEncoder(kind(stack())).fit(ROWS).transform(ROWS) == pytest.approx(plain)

    @pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
    def test_rows_come_in_the_type_of_the_weights(self, kind):
        plain = FrozenEncoder(stack()).fit(ROWS).transform(ROWS)
        made = FrozenEncoder(stack().to(kind)).fit(ROWS).transform(ROWS)
        assert made == pytest.approx(plain, abs=0.05)
        assert hash_of(stack().to(kind)) != hash_of(stack())

    def test_what_cannot_be_read_or_copied_is_refused_with_what_to_do(self):
        quantised = quietly(
            torch.ao.quantization.quantize_dynamic, stack().eval(), {torch.nn.Linear}
        )
        normed = stack()
        quietly(torch.nn.utils.weight_norm, normed[0])
        keeps = stack()
        keeps.last = keeps(torch.zeros(1, 6))
        for network, named in (
            (quantised, "plain tensors"),
            (normed, "weight_norm"),
            (keeps, "keeps"),
        ):
            with pytest.raises(InvalidArgument, match=f"{named}.*write it to an ONNX file"):
                FrozenEncoder(network).fit(ROWS)

    def test_outputs_that_are_no_tensor_are_named(self):
        class Named(torch.nn.Module):
            def forward(self, rows):
                return {"out": rows}

        with pytest.raises(InvalidArgument, match="not a dict; wrap it"):
            FrozenEncoder(Named()).fit(ROWS)

    @pytest.mark.parametrize("network", [lambda rows: 1 / 0, lambda rows: {"out": rows}])
    def test_why_a_row_of_zeros_fails_is_told(self, network):
        with pytest.raises(InvalidArgument, match=r"fails with (ZeroDivision|Type)Error"):
            FrozenEncoder(network).fit(ROWS)


class TestFiles:
    def test_an_image_gets_its_sides(self, tmp_path):
        path = onnx_model("Relu", (3, 2, 1), tmp_path / "image.onnx")
        assert np.array_equal(FrozenEncoder(path).fit_transform(ROWS), np.maximum(ROWS, 0))
        with pytest.raises(InvalidArgument, match=r"rows of 6 numbers.*3 x 2 x 1; got 4"):
            FrozenEncoder(path).fit(ROWS[:, :4])

    def test_sides_that_are_not_fixed_are_refused(self, tmp_path):
        path = onnx_model("Relu", (3, "height", "width"), tmp_path / "free.onnx")
        with pytest.raises(InvalidArgument, match="write the model with fixed ones"):
            FrozenEncoder(path).fit(ROWS)

    def test_weights_in_another_file_are_refused_and_the_advice_helps(self, tmp_path, monkeypatch):
        import onnx

        monkeypatch.chdir(tmp_path)  # where a runtime would look for them
        far = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
        path = onnx_model("MatMul", (6,), "far.onnx", np.ones((6, 2), np.float32), **far)
        with pytest.raises(InvalidArgument, match="weights, which stand in another file") as told:
            FrozenEncoder(path).fit(ROWS)
        assert "onnx.save(onnx.load(path), path)" in str(told.value)
        onnx.save(onnx.load(path), path)
        made = FrozenEncoder(path).fit_transform(ROWS)
        assert made == pytest.approx(np.repeat(ROWS.sum(axis=1, keepdims=True), 2, 1), abs=1e-5)
