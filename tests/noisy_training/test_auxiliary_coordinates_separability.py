"""Z-steps do not couple examples, bit for bit; derivatives agree with autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mac_shared import examples, network, parameters, parts_of, weights
from scipy import special

from tacit.errors import InvalidArgument
from tacit.features import WholeMatrix, WholeRows, row_bits, whole_rows
from tacit.noisy_training import auxiliary_coordinates, exact_pieces
from tacit.noisy_training.auxiliary_coordinates import AuxiliaryCoordinates, slopes, target_rows
from tacit.noisy_training.exact_rows import logistic, relu, softplus, tanh

BOTH = pytest.mark.parametrize("activation", ["tanh", "relu", "softplus"])


def bits(found):
    """All that a row's part is made of, one line a row."""
    rows = [*(part.values() for part in found.inputs), *found.deltas, *found.curvatures]
    return np.hstack(rows)


@pytest.mark.arithmetic
@BOTH
@pytest.mark.parametrize("loss", ["squares", "binary"])
def test_an_example_has_the_same_bits_in_any_company(activation, loss):
    net = network((31, 17, 9, 31), activation=activation, loss=loss)
    made = examples(net, 97)
    targets, own = target_rows(net, made), weights(net)
    reference = bits(slopes(net, own, made.inputs, targets))
    draw = np.random.default_rng(3)
    for size in (1, 2, 3, 7, 8, 33, 96):
        chosen = draw.permutation(97)[:size]
        found = bits(slopes(net, own, made.inputs[chosen], targets[chosen]))
        assert np.array_equal(found, reference[chosen])


SECRET = [
    auxiliary_coordinates.Slopes,
    auxiliary_coordinates._Layer,
    auxiliary_coordinates.LayerRows,
    WholeRows,
    exact_pieces.OuterGradients,
    exact_pieces.KernelGradients,
    exact_pieces._Patches,
]


@pytest.mark.parametrize("kind", SECRET, ids=lambda kind: kind.__name__)
def test_what_is_made_of_private_rows_prints_nothing(kind):
    """A tuple that a traceback or a debugger shows may not show a row."""
    made = kind(*[np.full(3, 70613.25)] * len(kind._fields))
    assert "70613" not in f"{made!r} {made} {[made]}"


def test_wild_company_changes_nobody():
    net = network()
    made = examples(net, 5)
    own = weights(net)
    calm = bits(slopes(net, own, made.inputs, made.targets))
    for value in (np.nan, np.inf, 1e308):
        made.inputs[3] = value
        found = bits(slopes(net, own, made.inputs, made.targets))
        assert np.array_equal(np.delete(found, 3, 0), np.delete(calm, 3, 0))


def exact_energy(net, layers, x, y, z):
    """E of one batch in torch, as docs/theory/direct.md#coordinates-of-dp-mac has it."""
    f = {
        "tanh": torch.tanh,
        "relu": torch.relu,
        "softplus": lambda u: torch.logaddexp(u, torch.zeros_like(u)),
    }
    total, flow = torch.zeros((), dtype=torch.float64), x
    for k, (matrix, bias) in enumerate(layers):
        u = flow @ matrix.T + bias
        if k < len(z):
            total = total + (z[k] - f[net.activation](u)).square().sum() / 2
            flow = z[k]
        elif net.loss == "squares":
            total = total + (y - u).square().sum() / 2
        else:
            total = total + (torch.logaddexp(u, torch.zeros_like(u)) - y * u).sum() / 2
    return total


def torch_layers(net, seed=0):
    vector, found, start = torch.from_numpy(parameters(net.widths, seed)), [], 0
    for before, after in zip(net.widths, net.widths[1:], strict=False):
        matrix = vector[start : start + before * after].view(after, before).clone()
        start += before * after
        found.append((matrix.requires_grad_(), vector[start : start + after].clone()))
        found[-1][1].requires_grad_()
        start += after
    return found


def adam_coordinates(net, layers, x, y):
    """The Z-steps by torch's own Adam, on the sum of losses."""
    f = {"tanh": torch.tanh, "relu": torch.relu, "softplus": torch.nn.functional.softplus}[
        net.activation
    ]
    z, flow = [], x
    for matrix, bias in layers[:-1]:
        flow = f(flow @ matrix.T + bias).detach()
        z.append(flow.clone().requires_grad_())
    optimiser = torch.optim.Adam(z, lr=net.rate)
    for _ in range(net.steps):
        optimiser.zero_grad()
        exact_energy(net, [(m.detach(), b.detach()) for m, b in layers], x, y, z).backward()
        optimiser.step()
    return [part.detach() for part in z]


@BOTH
@pytest.mark.parametrize("loss", ["squares", "binary"])
def test_gradients_of_layers_agree_with_autograd(activation, loss):
    net = network(activation=activation, loss=loss, rate=1e-2)
    made = examples(net, 6)
    targets = target_rows(net, made)
    x, y, layers = torch.from_numpy(made.inputs), torch.from_numpy(targets), torch_layers(net)
    z = adam_coordinates(net, layers, x, y)
    exact_energy(net, layers, x, y, z).backward()
    found = slopes(net, weights(net), made.inputs, targets)
    for part, delta, (matrix, bias) in zip(found.inputs, found.deltas, layers, strict=True):
        assert delta.T @ part.values() == pytest.approx(matrix.grad.numpy(), abs=2e-4)
        assert delta.sum(axis=0) == pytest.approx(bias.grad.numpy(), abs=2e-4)


def test_curvatures_are_those_of_gauss_newton():
    net = network(activation="softplus", loss="binary")
    made = examples(net, 3)
    targets = target_rows(net, made)
    found = slopes(net, weights(net), made.inputs, targets)
    u = found.inputs[-1].values() @ torch_layers(net)[-1][0].detach().numpy().T
    u = u + torch_layers(net)[-1][1].detach().numpy()
    chance = special.expit(u)
    assert found.curvatures[-1] == pytest.approx(chance * (1 - chance) / 2, abs=1e-5)
    assert all((part >= 0).all() for part in found.curvatures)


def test_too_few_z_steps_leave_the_first_layer_without_a_gradient():
    """The residual reaches one more layer with every Z-step."""
    net = network((4, 5, 5, 5, 3), steps=3, activation="softplus")
    made = examples(net, 4)
    assert (parts_of(net, made).norms(np.arange(4))[:, 0] > 0).all()
    object.__setattr__(net, "steps", 2)
    assert (parts_of(net, made).norms(np.arange(4))[:, 0] == 0).all()
    with pytest.raises(InvalidArgument, match="first layer learns nothing"):
        AuxiliaryCoordinates((4, 5, 5, 5, 3), steps=2)


@given(st.integers(0, 2**32 - 1), st.integers(1, 900), st.integers(1, 40))
@settings(max_examples=25, deadline=None)
def test_products_of_whole_steps_are_exact(seed, width, outputs):
    """Against integers of Python, which do not round."""
    draw = np.random.default_rng(seed)
    rows = whole_rows(draw.normal(size=(2, width)) * 10.0 ** draw.integers(-9, 9))
    matrix = WholeMatrix(draw.normal(size=(width, outputs)))
    left = rows.steps.astype(object).astype(int).tolist()
    right = matrix.steps.astype(object).astype(int)
    for row, unit, product in zip(left, rows.units, matrix.times(rows), strict=True):
        exact = [sum(a * b for a, b in zip(row, column, strict=True)) for column in right.T]
        assert product.tolist() == [total * float(unit[0]) * matrix.unit for total in exact]
        assert sum(a * a for a in row) <= 2**53
    assert max(abs(a) for row in left for a in row) <= 2 ** row_bits(width)


def test_rows_keep_their_precision():
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(50, 300)) * 10.0 ** draw.integers(-200, 200, size=(50, 1))
    largest = np.abs(rows).max(axis=1, keepdims=True)
    assert (np.abs(whole_rows(rows).values() - rows) <= largest * 2.0**-21).all()
    assert whole_rows(np.zeros((1, 3))).values().tolist() == [[0.0, 0.0, 0.0]]
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(rows / largest, axis=1, keepdims=True) * largest
    assert whole_rows(rows).norms() == pytest.approx(norms, rel=1e-5)


def test_activations_agree_with_their_definitions():
    u = np.concatenate([np.linspace(-60, 60, 4001), [-1e4, 1e4, 0.0, 1e-300]])
    value, slope = softplus(u)
    assert value == pytest.approx(-special.log_expit(-u), rel=1e-10, abs=1e-300)
    assert slope == pytest.approx(special.expit(u), rel=1e-10, abs=1e-300)
    assert logistic(u) == pytest.approx(special.expit(u), rel=1e-10, abs=1e-300)
    assert tanh(u)[0] == pytest.approx(np.tanh(u), abs=1e-11)
    assert tanh(u)[1] == pytest.approx(np.cosh(np.clip(u, -300, 300)) ** -2, abs=1e-10)
    assert np.array_equal(relu(u)[0], np.maximum(u, 0))
    assert np.array_equal(relu(u)[1], u > 0)
    assert np.isnan(softplus(np.array([np.nan]))[0]).all()


@pytest.mark.parametrize(
    "wrong",
    [{"loss": "hinge"}, {"activation": "sine"}, {"rate": 0.0}, {"widths": (3,)}],
)
def test_unusable_settings_are_refused(wrong):
    with pytest.raises(InvalidArgument):
        AuxiliaryCoordinates(**{"widths": (3, 2, 1), "steps": 4, **wrong})
