"""Second-order steps against least squares; thresholds from one count a layer."""

from __future__ import annotations

import numpy as np
import pytest
from mac_shared import examples, network, parameters, parts_of

from tacit.errors import InvalidArgument
from tacit.mechanisms import NoisySum
from tacit.noise import InsecureNoise
from tacit.noisy_training.auxiliary_coordinates import (
    EDGES,
    NoisyNewton,
    histogram_of,
    histogram_plan,
    second_order_blocks,
    thresholds_from,
    upper_triangle,
)
from tacit.noisy_training.examples import PrivateExamples

HUGE = 1e6


def newton(net, count, **changes):
    settings = {"rate": 1.0, "ridge": 1e-9, "damping": 1e-9, "cap": 1e9} | changes
    blocks = second_order_blocks(net.widths, "equal")
    layers = len(net.sizes)
    return NoisyNewton(
        net.widths, blocks, (HUGE,) * layers, (HUGE,) * layers, 1e-6, float(count), **settings
    )


def unclipped(net, made):
    """Parts whose thresholds are never reached."""
    from tacit.noisy_training.auxiliary_coordinates import LayerParts

    layers = len(net.sizes)
    blocks = second_order_blocks(net.widths, "equal")
    parts = LayerParts(net, made, blocks, (HUGE,) * layers, (HUGE,) * layers)
    parts.load(parameters(net.widths))
    return parts


def test_one_step_without_noise_solves_least_squares():
    net = network((4, 2))
    made = examples(net, 60)
    vector = parameters(net.widths)
    newton(net, 60).step(vector, unclipped(net, made).sums(np.arange(60)))
    padded = np.hstack([made.inputs, np.ones((60, 1))])
    best = np.linalg.lstsq(padded, made.targets, rcond=None)[0]
    assert vector[:8].reshape(2, 4) == pytest.approx(best[:-1].T, abs=1e-4)
    assert vector[8:] == pytest.approx(best[-1], abs=1e-4)


def test_curvatures_are_those_of_the_second_derivative():
    net = network((3, 1), loss="binary")
    draw = np.random.default_rng(0)
    made = PrivateExamples(draw.normal(size=(5, 3)), draw.integers(2, size=(5, 1)).astype(float))
    sums = unclipped(net, made).sums(np.arange(5))
    step = newton(net, 1)
    found = step._curvature(sums[4:], 0, 3, 1)[0]
    vector = parameters(net.widths)
    a = np.hstack([made.inputs, np.ones((5, 1))])
    chance = 1 / (1 + np.exp(-(a @ np.append(vector[:3], vector[3]))))
    exact = (a * (chance * (1 - chance) / 2)[:, None]).T @ a
    assert found == pytest.approx(exact, rel=1e-4, abs=1e-5)


def test_a_step_is_no_longer_than_its_cap_whatever_the_noise():
    net = network((4, 3, 2))
    step = newton(net, 10, cap=0.05)
    vector = parameters(net.widths)
    before = vector.copy()
    step.step(vector, np.random.default_rng(1).normal(size=step.blocks.dimension) * 1e3)
    assert np.isfinite(vector).all()
    moved = np.abs(vector - before)
    assert 0 < moved.max() <= 0.05


def test_noise_in_the_curvature_raises_the_ridge():
    net = network((4, 2))
    sums = unclipped(net, examples(net, 30)).sums(np.arange(30))
    lengths = []
    for damping in (1e-9, 1e3):
        vector = parameters(net.widths)
        before = vector.copy()
        newton(net, 30, damping=damping).step(vector, sums)
        lengths.append(np.linalg.norm(vector - before))
    assert lengths[1] < lengths[0] / 2


def test_a_symmetric_matrix_keeps_its_length_as_a_vector():
    made = np.random.default_rng(0).normal(size=(5, 5))
    made += made.T
    rows, columns, scales = upper_triangle(5)
    assert np.linalg.norm(made[rows, columns] * scales) == pytest.approx(np.linalg.norm(made))


def test_wide_layers_have_no_second_order():
    with pytest.raises(InvalidArgument, match="order=1"):
        second_order_blocks((256, 300, 100), "equal")


def released(net, made, noise=1e-3):
    layers = len(net.sizes)
    parts = parts_of(net, made)
    said = histogram_of(parts, made, layers)
    mechanism = NoisySum(noise / layers**0.5, 1, layers * EDGES.size)
    values = np.asarray(mechanism.release(said, InsecureNoise(0)).values)
    return values * layers**0.5, parts


def test_a_histogram_counts_each_example_once_in_every_layer():
    net = network()
    made = examples(net, 50)
    counts, parts = released(net, made)
    counts = counts.reshape(3, -1)
    assert counts.sum(axis=1) == pytest.approx([50, 50, 50], abs=0.2)
    norms = parts.norms(np.arange(50))
    for layer in range(3):
        places = np.searchsorted(EDGES, norms[:, layer]).clip(0, EDGES.size - 1)
        expected = np.bincount(places, minlength=EDGES.size)
        assert counts[layer] == pytest.approx(expected, abs=0.1)
    found = thresholds_from(counts, 3)
    assert all(bound in EDGES for bound in found)


@pytest.mark.parametrize("value", [0.0, 1e308, np.nan])
def test_one_example_moves_the_histogram_by_the_root_of_the_layers(value):
    net = network()
    made = examples(net, 8)
    made.inputs[3] = value
    others = np.delete(np.arange(8), 3)
    less = PrivateExamples(made.inputs[others], made.targets[others])
    both, rest = (histogram_of(parts_of(net, one), one, 3) for one in (made, less))
    tables = [NoisySum(1.0, 1, 3 * EDGES.size)._total(said) * 2.0**-28 for said in (both, rest)]
    moved = np.linalg.norm(tables[0] - tables[1])
    assert moved == pytest.approx(1, abs=1e-3)
    assert moved <= 1
    assert moved * 3**0.5 > 1.7  # in counts: a sensitivity of 1 would be the mistake


def test_people_count_once():
    net = network()
    owners = np.array(["a"] * 6 + ["b"] * 2)
    made = examples(net, 8, owners=owners)
    counts, _ = released(net, made)
    assert counts.reshape(3, -1).sum(axis=1) == pytest.approx([2, 2, 2], abs=0.2)


def test_the_price_of_a_histogram_is_its_noise_over_the_root_of_the_layers():
    assert histogram_plan(6, 20.0).mu_squared() == pytest.approx(6 / 400)
