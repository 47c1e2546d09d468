"""What the items of DP-MAC compute, against derivatives and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from papers.mac_autoencoders import noise_of
from papers.mac_classifiers import AUTOENCODER, CLASSIFIER, linear_features, with_rate
from papers.mac_formulas import curvature_numbers, expansions, matrices
from tacit._extras import torch
from tacit.errors import InvalidArgument
from tacit.methods import Training
from tacit.noisy_training import second_order_blocks
from tacit.students import build_layers, perceptron


@pytest.mark.parametrize("output", [False, True])
def test_the_expansion_has_the_slope_and_the_curvature_of_the_objective(output):
    step = 1e-3
    grid = np.array([-step, 0.0, step])
    exact, second, gauss = expansions(grid, 0.7, output=output)
    for made in (second, gauss):
        assert made[2] - made[0] == pytest.approx(exact[2] - exact[0], rel=1e-4)
    bends = [values[0] - 2 * values[1] + values[2] for values in (exact, second, gauss)]
    assert bends[1] == pytest.approx(bends[0], rel=1e-3)
    assert np.isclose(bends[2], bends[0], rtol=1e-3) == output


@pytest.mark.parametrize(
    ("widths", "numbers"), [(CLASSIFIER, 97_148_110), (AUTOENCODER, 27_797_876)]
)
def test_the_papers_networks_have_no_second_order(widths, numbers):
    assert curvature_numbers(widths) == numbers
    with pytest.raises(InvalidArgument, match=f"{numbers:,} numbers"):
        second_order_blocks(widths, "equal")
    narrow = second_order_blocks((64, 16, 10), "equal")
    assert sum(narrow.sizes[2:]) == curvature_numbers((64, 16, 10))


def test_curvatures_are_read_as_they_are_written():
    made = np.random.default_rng(0).normal(size=(2, 3, 3))
    made += made.transpose(0, 2, 1)
    rows, columns = np.triu_indices(3)
    flat = (made[:, rows, columns] * np.where(rows == columns, 1.0, 2**0.5)).ravel()
    assert matrices(flat, (2, 3)) == pytest.approx(made)


def test_the_noise_is_the_least_that_epsilon_allows():
    from tacit.mechanisms import NoisySteps, Plan

    noise = noise_of(8.0, 0.05, 40)
    assert Plan(NoisySteps(noise, 0.05), 40).epsilon(1e-5) <= 8
    assert Plan(NoisySteps(noise - 0.02, 0.05), 40).epsilon(1e-5) > 8


def test_a_tried_rate_stands_in_the_place_of_the_rules():
    settings = {"hidden": (64,), "epsilon": 8.0, "n_records": 1500, "classes": range(3)}
    for epochs, steps in ((20, 59), (102, 299)):
        tried = with_rate(0.4 * steps**0.5)(training=Training(epochs=epochs), **settings)
        recipe, _ = tried._recipe(1500)
        assert recipe.steps == steps
        assert recipe.learning_rate == pytest.approx(0.4)


def test_the_features_are_those_of_a_network_without_activations():
    network = build_layers(perceptron((4, 3, 2), "tanh")).double()
    small = 1e-5 * np.eye(4)
    with torch.no_grad():
        network[0].bias.zero_()  # where the activation has slope 1
        bias = network(torch.zeros(1, 4, dtype=torch.float64))
        slopes = (network(torch.from_numpy(small)) - bias).numpy() / 1e-5
    assert pytest.approx(slopes, rel=1e-4) == linear_features(network).T
