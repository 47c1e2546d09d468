"""One unit moves a step of DP-MAC, Z-steps included, by at most 1: and mistakes are caught.

The vector that is compared is the one that a mechanism would add noise to: all blocks, each in
units of its share, as `LayerParts.sums` returns it.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mac_shared import examples, network, parameters, parts_of

from tacit.mechanisms import NoisySteps
from tacit.noise import InsecureNoise
from tacit.noisy_training import auxiliary_coordinates
from tacit.noisy_training.auxiliary_coordinates import LayerParts
from tacit.noisy_training.clipped_sums import Blocks
from tacit.noisy_training.examples import PrivateExamples

BOUND = 1 + 1e-9


def moved(net, given, unit, **settings):
    """How far the sum over all units moves when one of them is taken out of the data."""
    count = len(given.inputs)
    others = np.delete(np.arange(count), unit)
    less = PrivateExamples(given.inputs[others], given.targets[others])
    with_unit = parts_of(net, given, **settings).sums(np.arange(count))
    without = parts_of(net, less, **settings).sums(np.arange(count - 1))
    return float(np.linalg.norm(with_unit - without))


@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(["squares", "binary"]),
    activation=st.sampled_from(["tanh", "relu", "softplus"]),
    split=st.sampled_from(["equal", "minimal"]),
    order=st.sampled_from([1, 2]),
    bound=st.sampled_from([1e-6, 0.01, 1.0, 1e3]),
    hidden=st.sampled_from([(), (3,), (6, 4), (4, 2, 4)]),
)
@settings(max_examples=40, deadline=None)
def test_one_example_moves_a_step_by_at_most_one(
    seed, loss, activation, split, order, bound, hidden
):
    net = network((4, *hidden, 3), loss=loss, activation=activation)
    made = examples(net, 6, seed)
    bounds = tuple(bound * 10.0**k for k in range(len(net.sizes)))
    assert moved(net, made, 2, bounds=bounds, split=split, order=order, seed=seed) <= BOUND


WILD = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e154, 5e-324, 1e-200]


@pytest.mark.parametrize("value", WILD)
@pytest.mark.parametrize("where", ["inputs", "targets", "one input"])
@pytest.mark.parametrize("order", [1, 2])
def test_wild_examples_move_a_step_by_at_most_one(value, where, order):
    net = network()
    made = examples(net, 5)
    chosen = made.targets if where == "targets" else made.inputs
    chosen[2, slice(0, 1) if where == "one input" else slice(None)] = value
    assert moved(net, made, 2, order=order) <= BOUND


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_invalid_example_says_nothing(value):
    net = network()
    made = examples(net, 4)
    made.inputs[1] = value
    assert moved(net, made, 1) == 0


def test_the_bound_is_sharp():
    """A test that a step of half the size would pass as well would not show much."""
    net = network()
    assert moved(net, examples(net, 4), 1, bounds=(1e-9,) * 3) == pytest.approx(1, abs=1e-5)


def test_weights_that_overflow_are_survived():
    net = network()
    made = examples(net, 4)
    parts = parts_of(net, made)
    parts.load(parameters(net.widths, scale=1e200))
    sums = parts.sums(np.arange(4))
    assert np.isfinite(sums).all()
    assert np.linalg.norm(sums) <= 4 * BOUND


class RootOfTooFew(LayerParts):
    """Erratum E7: scales K hidden objectives and the output by sqrt(K) instead of sqrt(K + 1)."""

    def __init__(self, net, given, blocks, *rest):
        hidden = len(blocks.sizes) - 1
        super().__init__(
            net, given, Blocks(blocks.sizes, (hidden**-0.5,) * (hidden + 1), 1.0), *rest
        )


def test_one_block_too_few_is_caught():
    net = network((4, 3, 3), activation="softplus")
    found = moved(net, examples(net, 4), 1, bounds=(1e-9,) * 2, kind=RootOfTooFew)
    assert found == pytest.approx(2**0.5, rel=1e-4)


def test_a_mean_loss_in_z_steps_is_caught(monkeypatch):
    """Dividing by the batch changes everybody's Adam when somebody leaves, by its epsilon."""
    honest = auxiliary_coordinates._pulls

    def mean_pulls(net, weights, into_first, coordinates, targets):
        pulls = honest(net, weights, into_first, coordinates, targets)
        return [1e-6 * pull / len(targets) for pull in pulls]

    net = network(rate=0.1, activation="relu")
    made = examples(net, 200)
    made.inputs[1:], made.targets[1:] = made.inputs[1], made.targets[1]
    assert moved(net, made, 0, bounds=(1e-9,) * 3) <= BOUND
    monkeypatch.setattr(auxiliary_coordinates, "_pulls", mean_pulls)
    assert moved(net, made, 0, bounds=(1e-9,) * 3) > BOUND


class RealisedBatch(LayerParts):
    """Divides by the size of the sample, and is sold as a sum."""

    def sums(self, units):
        return super().sums(units) * 4 / max(units.size, 1)


def test_division_by_the_realised_batch_is_caught():
    """All others say the same: without the unit they are divided by one less."""
    net = network()
    made = examples(net, 4)
    made.inputs[1:], made.targets[1:] = made.inputs[1], made.targets[1]
    made.inputs[0], made.targets[0] = -made.inputs[1], -made.targets[1]
    assert moved(net, made, 0, bounds=(1e-9,) * 3) <= BOUND
    assert moved(net, made, 0, bounds=(1e-9,) * 3, kind=RealisedBatch) > BOUND


def test_people_say_the_mean_of_their_records():
    net = network()
    owners = np.array(["a", "b", "a", "a", "c"])
    made = examples(net, 5, owners=owners)
    parts = parts_of(net, made, bounds=(1e-9,) * 3)
    assert parts.n_units == 3
    alone = parts_of(net, PrivateExamples(made.inputs, made.targets), bounds=(1e-9,) * 3)
    each = [alone.sums(np.array([row])) for row in range(5)]
    assert parts.sums(np.array([0])) == pytest.approx((each[0] + each[2] + each[3]) / 3, abs=1e-12)
    for unit in range(3):
        assert np.linalg.norm(parts.sums(np.array([unit]))) <= BOUND
    rest = owners != "a"
    less = parts_of(
        net,
        PrivateExamples(made.inputs[rest], made.targets[rest], owners[rest]),
        bounds=(1e-9,) * 3,
    )
    gap = parts.sums(np.arange(3)) - less.sums(np.arange(2))
    assert np.linalg.norm(gap) <= BOUND


def test_a_sum_is_the_sum_of_parts_and_passes_the_mechanism():
    net = network()
    made = examples(net, 700)  # more than are computed at a time
    parts = parts_of(net, made)
    whole = parts.sums(np.arange(700))
    pieces = sum(parts.sums(np.array([unit])) for unit in range(700))
    assert whole == pytest.approx(pieces, abs=1e-10)

    class Run:
        steps, dimension, n_units = 1, sum(net.sizes), 700
        sums, forget = staticmethod(parts.sums), staticmethod(lambda: None)

        def learn(self, noisy):
            self.noisy = noisy

        def result(self):
            return self.noisy

    told = np.asarray(NoisySteps(1e-3).release(Run(), InsecureNoise(0)))
    assert told == pytest.approx(whole, abs=0.01)
