"""Autoencoders: codes in the ball, finite gradients, and noise in training that pays."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from tacit import GaussianMean, InsecureNoise
from tacit.errors import InvalidArgument
from tacit.masks import AutoencoderCodec
from tacit.masks.autoencoder import BOUNDS, ball_activation, bounded


class TestBounds:
    @pytest.mark.parametrize("bound", BOUNDS)
    @pytest.mark.parametrize("size", [0.0, 1e-30, 1e-3, 1.0, 1e3, 1e15])
    def test_values_in_the_ball_and_finite_gradients(self, bound, size):
        outputs = torch.randn(50, 6, generator=torch.Generator().manual_seed(0)) * size
        outputs.requires_grad_()
        codes = bounded(outputs, bound)
        codes.sum().backward()
        assert torch.isfinite(codes).all()
        assert torch.isfinite(outputs.grad).all()
        assert codes.norm(dim=1).max() <= 1 + 1e-6

    def test_jacobian_of_the_clip(self):
        """I inside; (I - u u^T)/|f| outside, without a radial part."""
        point = torch.tensor([0.3, -0.4], dtype=torch.float64)
        for scale in (1.0, 4.0):
            f = scale * point
            jacobian = torch.autograd.functional.jacobian(lambda v: bounded(v[None], "clip")[0], f)
            u, norm = f / f.norm(), f.norm()
            inside = torch.eye(2, dtype=torch.float64)
            expected = inside if norm < 1 else (inside - torch.outer(u, u)) / norm
            assert torch.allclose(jacobian, expected, atol=1e-9)

    def test_ball_is_nearly_uniform_for_gaussian_outputs(self):
        """r^l near U(0, 1), for sigmoid(c x) is within .018 of Phi(x); any direction."""
        outputs = torch.randn(20000, 4, generator=torch.Generator().manual_seed(0)).double()
        codes = ball_activation(outputs)
        powers = codes.norm(dim=1).pow(3).numpy()
        assert kstest(powers, "uniform").statistic < 0.0177 + 0.02
        directions = (codes / codes.norm(dim=1, keepdim=True)).numpy()
        assert np.abs(directions.mean(axis=0)).max() < 0.03
        assert np.allclose(directions.T @ directions / len(directions), np.eye(3) / 3, atol=0.02)

    def test_ball_is_the_papers_formula(self):
        outputs = torch.tensor([[0.7, 3.0, 4.0]], dtype=torch.float64)
        radius = (1 / (1 + math.exp(-math.sqrt(8 / math.pi) * 0.7))) ** 0.5
        expected = torch.tensor([[0.6 * radius, 0.8 * radius]], dtype=torch.float64)
        assert torch.allclose(ball_activation(outputs), expected, atol=1e-9)


@pytest.fixture(scope="module")
def trained(flat):
    """Without and with noise in the bottleneck."""
    numbers = {"length": 6, "epochs": 60, "random_state": 0, "learning_rate": 1e-2}
    return [AutoencoderCodec.fit(flat[:100], sigma=sigma, **numbers) for sigma in (0.0, 0.25)]


class TestFlat:
    def test_it_learns_more_than_the_mean(self, trained, flat):
        decoded = trained[0].decode(trained[0].encode(flat[100:]))
        error = np.square(decoded - flat[100:]).mean()
        assert error < 0.6 * np.square(flat[:100].mean(axis=0) - flat[100:]).mean()
        assert decoded.min() >= 0
        assert decoded.max() <= 1

    def test_noise_in_training_helps_against_noise_in_use(self, trained, flat):
        errors = []
        for codec in trained:
            noise = np.random.default_rng(0).normal(scale=0.25, size=(20, 20, 6))
            decoded = [codec.decode(codec.encode(flat[100:]) + one) for one in noise]
            errors.append(np.square(np.array(decoded) - flat[100:]).mean())
        assert errors[1] < 0.9 * errors[0]

    def test_codes_lie_in_the_ball_whatever_comes(self, trained):
        wild = np.random.default_rng(0).normal(scale=1e4, size=(5, 16, 16))
        norms = np.linalg.norm(trained[0].encode(wild), axis=1)
        assert (norms <= 1 + 1e-6).all()
        assert trained[0].diameter == 2.0

    @pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
    def test_a_broken_teacher_breaks_nothing(self, trained, bad):
        codec = trained[0]
        codes = np.stack([codec.encode(np.full((1, 16, 16), bad)), np.zeros((1, 6))])
        release = GaussianMean(1e-3, codec.diameter / 2, 2).release(codes, InsecureNoise(0))
        assert np.linalg.norm(release.values) < 0.55

    def test_same_seed_same_codec_and_no_global_seed(self, flat):
        torch.manual_seed(5)
        before = torch.random.get_rng_state()
        first, second = (
            AutoencoderCodec.fit(flat[:20], length=3, epochs=2, random_state=7).encode(flat[:5])
            for _ in range(2)
        )
        assert np.array_equal(first, second)
        assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("bound", BOUNDS)
def test_three_dimensions_and_sides_that_are_no_powers(bound, deep):
    codec = AutoencoderCodec.fit(deep, length=4, epochs=2, bound=bound, random_state=0)
    assert codec.encode(deep).shape == (40, 4)
    assert codec.decode(codec.encode(deep)).shape == deep.shape
    assert codec.provenance == "public"
    assert "length=4" in repr(codec)


def test_channels_are_classes(flat):
    classes = np.stack([flat[:30], 1 - flat[:30]], axis=1)
    codec = AutoencoderCodec.fit(classes, length=4, dimensions=2, epochs=1)
    assert codec.decode(codec.encode(classes)).shape == (30, 2, 16, 16)


@pytest.mark.parametrize(
    "wrong",
    [{"length": 0}, {"bound": "none"}, {"epochs": 0}, {"sigma": -1.0}, {"dimensions": 3}],
)
def test_other_parameters_are_refused(flat, wrong):
    with pytest.raises(InvalidArgument):
        AutoencoderCodec.fit(flat[:4], **{"length": 2, "epochs": 1, **wrong})
