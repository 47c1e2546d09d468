"""A run of DP-SGD: driven by the mechanism, with the grant's samples and noise and no others."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from direct_shared import examples, losses, stack
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Budget, InsecureNoise, Ledger, Plan
from tacit.errors import InvalidArgument
from tacit.mechanisms import NoisySteps
from tacit.noisy_training import StackParts
from tacit.noisy_training.training import (
    GradientSteps,
    Recipe,
    blocks_of,
    falling,
    make_optimiser,
    steps_of,
)


def run(steps=4, rows=60, **changes):
    recipe = Recipe(steps=steps, lot=20.0, clip=0.1, **changes)
    module = stack()
    blocks = blocks_of(recipe, module)
    made = lambda data: StackParts(module, data, losses, blocks)  # noqa: E731
    return GradientSteps(recipe, module, made, examples(rows), blocks)


class Scripted(InsecureNoise):
    """Samples the rows that it is told, and adds no noise."""

    def __init__(self, samples):
        super().__init__(0)
        self.samples = list(samples)
        self.drawn = 0

    def poisson_mask(self, rate, size):
        mask = np.zeros(size, dtype=bool)
        mask[self.samples.pop(0)] = True
        return mask

    def rounded_gaussian_steps(self, sigma, grid, size):
        self.drawn += 1
        return np.zeros(size, dtype=np.int64)


class TestRun:
    def test_learns_from_the_grants_samples(self):
        samples = [[1, 2, 3], [], [5], [0, 59]]
        noise = Scripted(samples)
        learned = NoisySteps(1.0, 0.3).release(run(clipping="flat"), noise).values
        assert noise.drawn == 4  # an empty sample takes noise, too

        module = stack().double()
        parameters = list(module.parameters())
        optimiser, data = torch.optim.Adam(parameters, lr=1e-3), examples(60)
        for number, rows in enumerate(samples):
            optimiser.param_groups[0]["lr"] = 1e-3 * (1 - 0.9 * number / 3)
            total = [torch.zeros_like(parameter) for parameter in parameters]
            for row in rows:
                scores = module(torch.from_numpy(data.inputs[[row]]).double())
                loss = losses(scores, torch.from_numpy(data.targets[[row]])).sum()
                own = torch.autograd.grad(loss, parameters)
                norm = torch.cat([gradient.flatten() for gradient in own]).norm()
                for place, gradient in enumerate(own):
                    total[place] += gradient / max(norm, 0.1) / 20
            for parameter, gradient in zip(parameters, total, strict=True):
                parameter.grad = gradient
            optimiser.step()
        expected = np.concatenate([p.detach().numpy().ravel() for p in parameters])
        np.testing.assert_allclose(learned, expected, atol=1e-4)
        assert np.abs(learned - expected).mean() < 1e-6

    def test_divisor_is_the_lot_and_never_the_sample(self):
        """The same noisy sum teaches the same, however many were sampled or exist."""
        few, many = run(rows=3), run(rows=60)
        for each in (few, many):
            each.sums(np.arange(each.n_units))
            each.learn(np.ones(each.dimension))
        np.testing.assert_array_equal(few.result(), many.result())

    def test_learning_sees_only_noisy_sums(self):
        one, other = run(), run()
        other._parts._examples.inputs[:] = 7.0
        for each in (one, other):
            each.sums(np.arange(60))
            each.learn(np.full(each.dimension, 0.25))
        np.testing.assert_array_equal(one.result(), other.result())

    @pytest.mark.parametrize("optimizer", ["adam", "sgd"])
    def test_going_on_from_its_state_is_as_if_it_had_never_stopped(self, optimizer):
        sums = np.random.default_rng(0).normal(size=(6, run().dimension))
        whole, first, second = (run(6, optimizer=optimizer) for _ in range(3))
        for noisy in sums:
            whole.learn(noisy)
        for noisy in sums[:4]:
            first.learn(noisy)
        second.go_on(first.state(), position=4)
        for noisy in sums[4:]:
            second.learn(noisy)
        np.testing.assert_array_equal(whole.result(), second.result())
        assert (second.learned, whole.learned) == (6, 6)

    def test_a_step_that_is_skipped_lets_the_rate_fall_all_the_same(self):
        skipped = run(3, optimizer="sgd", decay=0.5)
        start = skipped.result()
        skipped.go_on({}, position=2)
        skipped.learn(np.ones(skipped.dimension))
        plain = run(3, optimizer="sgd", decay=0.5)
        plain.learn(np.ones(plain.dimension))
        np.testing.assert_allclose(skipped.result() - start, 0.5 * (plain.result() - start))

    def test_records_are_dropped_when_it_is_over(self):
        training = run()
        NoisySteps(1.0, 0.3).release(training, InsecureNoise(0))
        with pytest.raises(InvalidArgument, match="over"):
            training.sums(np.array([0]))
        assert training._parts is None
        assert repr(training) == "GradientSteps(secret)"
        with pytest.raises(TypeError, match="stay where they are"):
            pickle.dumps(training)

    def test_through_a_ledger(self, tmp_path):
        plan = Plan(NoisySteps(2.0, 0.3), 4)
        ledger = Ledger(tmp_path / "a.ledger", budget=Budget(20.0, 1e-5), plans=[plan])
        with ledger.release(plan, purpose="train") as grant:
            release = grant.release(run())
        assert release.secure
        assert release.values.shape == (run().dimension,)
        assert ledger.spent() == pytest.approx(plan.epsilon(1e-5))

    def test_noise_differs_from_run_to_run(self, tmp_path):
        found = []
        for name in "ab":
            plan = Plan(NoisySteps(2.0, 0.3), 4)
            ledger = Ledger(tmp_path / name, budget=Budget(20.0, 1e-5), plans=[plan])
            with ledger.release(plan, purpose="train") as grant:
                found.append(grant.release(run()).values)
        assert not np.array_equal(*found)

    def test_other_steps_than_planned_are_refused(self):
        with pytest.raises(InvalidArgument, match="steps of the plan"):
            NoisySteps(1.0, 0.3).accept(run(), queries=5, n_teachers=None, n_classes=None)


@given(seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_optimisers_are_those_of_torch(seed):
    generator = np.random.default_rng(seed)
    start = generator.normal(size=5)
    pairs = [
        (make_optimiser("adam", 5, 0.1), lambda p: torch.optim.Adam(p, lr=0.1)),
        (make_optimiser("sgd", 5, 0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    ]
    for ours, make in pairs:
        parameters, theirs = start.copy(), torch.tensor(start, requires_grad=True)
        optimiser = make([theirs])
        for _ in range(4):
            gradient = generator.normal(size=5)
            ours.step(parameters, gradient)
            theirs.grad = torch.tensor(gradient)
            optimiser.step()
        np.testing.assert_allclose(parameters, theirs.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "changes",
    [{"optimizer": "lbfgs"}, {"learning_rate": 0.0}, {"decay": -1.0}, {"steps": 0}, {"clip": -1.0}],
)
def test_recipes_that_are_refused(changes):
    with pytest.raises(InvalidArgument, match=next(iter(changes))):
        Recipe(**{"steps": 3, "lot": 10.0, **changes})


def test_rates_and_steps():
    assert falling(0, 1, 0.1) == 1.0
    assert falling(9, 10, 0.1) == pytest.approx(0.1)
    assert steps_of(1, 1 / 3) == 3
    assert steps_of(0.01, 0.5) == 1
    with pytest.raises(InvalidArgument, match="epochs"):
        steps_of(0, 0.5)
