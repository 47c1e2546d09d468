"""PCA of masks and of blocks, and the identity: round trips, orthonormality, radii, weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
from blobs import blobs
from priced import for_budget

from tacit import GaussianMean, InsecureNoise
from tacit.errors import InvalidArgument
from tacit.masks import (
    BlockPCACodec,
    Codec,
    IdentityCodec,
    PCACodec,
    encoded_answers,
    noise_to_signal,
    wiener_weights,
)
from tacit.masks.pca import from_blocks, to_blocks


@pytest.fixture(scope="module")
def pca(flat):
    return PCACodec.fit(flat, folds=1)


@pytest.fixture(scope="module")
def blocks(deep):
    return BlockPCACodec.fit(deep, block_shape=(4, 5, 3), n_components=6)


class TestPCA:
    def test_components_are_orthonormal(self, pca):
        gram = pca.components @ pca.components.T
        assert np.allclose(gram, np.eye(pca.length), atol=1e-10)

    def test_round_trip_of_what_it_was_fitted_on(self, pca, flat):
        assert np.allclose(pca.decode(pca.encode(flat)), flat, atol=1e-9)

    def test_fewer_components_leave_the_tail_of_the_spectrum(self, pca, flat):
        few = PCACodec.fit(flat, n_components=5)
        lost = np.square(few.decode(few.encode(flat)) - flat).sum(axis=(1, 2)).mean()
        assert few.length == 5
        assert lost == pytest.approx(pca.spectrum[5:].sum(), rel=1e-9)

    def test_spectrum_is_that_of_the_encoder(self, pca, flat):
        """The second moment about the mean that the encoder subtracts, not another one."""
        codes = pca.encode(flat)
        assert np.allclose(np.square(codes).mean(axis=0), pca.spectrum)
        assert np.allclose(codes.mean(axis=0), 0, atol=1e-9)
        assert (np.diff(pca.spectrum) <= 1e-12).all()

    def test_held_out_masks_tell_what_new_ones_will_be_like(self, flat):
        """In-sample moments are too large for the small components, and so is the radius."""
        fresh = blobs(400, (16, 16), seed=9)
        inside, outside = (PCACodec.fit(flat, folds=folds) for folds in (1, 5))
        assert np.array_equal(inside.components, outside.components)
        moments = np.square(outside.encode(fresh)).mean(axis=0)
        errors = [
            np.abs(codec.spectrum[10:60].sum() - moments[10:60].sum())
            for codec in (inside, outside)
        ]
        assert errors[1] < 0.3 * errors[0]
        norms = np.linalg.norm(outside.encode(fresh), axis=1)
        assert np.mean(norms <= outside.radius) == pytest.approx(0.95, abs=0.04)
        assert outside.rms_radius == pytest.approx(np.sqrt(np.square(norms).mean()), rel=0.1)

    def test_error_of_the_rule_by_monte_carlo(self, pca, flat):
        """L sigma^2 + tail, against noisy codes; and Wiener is better."""
        rng = np.random.default_rng(0)
        sigma = 0.6
        codes = pca.encode(flat)
        noisy = codes + rng.normal(scale=sigma, size=(60, *codes.shape))
        chosen = pca.spectrum > sigma**2
        assert np.array_equal(pca.useful(sigma).weights, chosen)
        rule = np.square(noisy * chosen - codes).sum(axis=2).mean()
        expected = chosen.sum() * sigma**2 + pca.spectrum[~chosen].sum()
        assert rule == pytest.approx(expected, rel=0.03)
        shrunk = pca.decode(noisy[0], sigma=sigma) - flat
        kept = pca.useful(sigma).decode(noisy[0]) - flat
        assert np.square(shrunk).sum() < np.square(kept).sum()

    def test_radius_is_a_public_quantile(self, pca, flat):
        norms = np.linalg.norm(pca.encode(flat), axis=1)
        assert np.mean(norms <= pca.radius) == pytest.approx(0.95, abs=0.02)
        assert pca.diameter == 2 * pca.radius
        assert pca.rms_radius == pytest.approx(math.sqrt(np.square(norms).mean()))
        assert pca.joint_radius(9) == pytest.approx(3 * pca.rms_radius)
        assert pca.radius < math.sqrt(256) / 2

    def test_ellipsoid_has_unit_mean_square(self, pca, flat):
        noise = noise_to_signal(8, 1e-5, queries=50, n_teachers=50)
        codec = pca.ellipsoid(noise)
        norms = np.linalg.norm(pca.encode(flat) * codec.weights, axis=1)
        assert np.square(norms).mean() == pytest.approx(1.0)
        assert codec.rms_radius == pytest.approx(1.0)
        assert np.mean(norms <= codec.radius) == pytest.approx(0.95, abs=0.02)
        assert 0 < (codec.weights > 0).sum() < pca.length
        assert np.isinf(codec.deviations(0.1)[codec.weights == 0]).all()

    def test_ellipsoid_and_joint_clip_beat_the_ball(self, flat):
        """The same budget, teachers who are right: a smaller error of the decoded masks."""
        codec = PCACodec.fit(flat[:80])
        truth, teachers = flat[80:], 50
        codes = np.tile(codec.encode(truth)[None], (teachers, 1, 1))
        numbers = {"queries": len(truth), "n_teachers": teachers}
        plan = for_budget(GaussianMean, 8, 1e-5, radius=codec.radius, **numbers)
        release = plan.mechanism.release(codes, InsecureNoise(0))
        ball = codec.decode(release.values, sigma=plan.mechanism.sigma)
        shaped = codec.ellipsoid(noise_to_signal(8, 1e-5, **numbers))
        plan = for_budget(
            GaussianMean, 8, 1e-5, radius=shaped.joint_radius(len(truth)), joint=True, **numbers
        )
        release = plan.mechanism.release(codes, InsecureNoise(0), weights=shaped.weights)
        ellipsoid = shaped.decode(release.values, sigma=plan.mechanism.sigma)
        errors = [np.square(masks - truth).mean() for masks in (ellipsoid, ball)]
        mean_mask = np.square(codec.mean - truth).mean()
        assert errors[0] < 0.95 * errors[1]
        assert errors[1] < 0.7 * mean_mask

    def test_recentring_is_free_and_helps(self, flat):
        """A second round about the first release, with a radius for what is left."""
        codec = PCACodec.fit(flat[:80], n_components=20)
        codes = np.tile(codec.encode(flat[80:])[None], (50, 1, 1))
        numbers = {"queries": 40, "n_teachers": 50, "joint": True}
        first = for_budget(
            GaussianMean, 8, 1e-5, share=0.3, radius=codec.joint_radius(40), **numbers
        )
        rough = first.mechanism.release(codes, InsecureNoise(0)).values
        sigma = first.mechanism.sigma
        shrink = codec.spectrum / (codec.spectrum + sigma**2)
        centres = rough * shrink
        left = codec.spectrum * sigma**2 / (codec.spectrum + sigma**2)
        second = for_budget(
            GaussianMean, 8, 1e-5, share=0.7, radius=math.sqrt(40 * left.sum()), **numbers
        )
        release = second.mechanism.release(codes, InsecureNoise(1), centres=centres)
        weights = wiener_weights(left, second.mechanism.sigma)
        fine = codec.decode(centres + weights * (release.values - centres))
        once = for_budget(GaussianMean, 8, 1e-5, radius=codec.joint_radius(40), **numbers)
        single = once.mechanism.release(codes, InsecureNoise(0)).values
        plain = codec.decode(single, sigma=once.mechanism.sigma)
        errors = [np.square(masks - flat[80:]).mean() for masks in (fine, plain)]
        assert errors[0] < 0.9 * errors[1]

    @pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300, -1e308])
    def test_a_broken_teacher_breaks_nothing(self, pca, bad):
        """Its code is not finite or far away, and counts as the centre or is clipped."""
        masks = np.full((1, 16, 16), bad)
        codes = np.stack([pca.encode(masks), np.zeros((1, pca.length))])
        values = GaussianMean(1e-3, 1.0, 2).release(codes, InsecureNoise(0)).values
        assert np.linalg.norm(values) < 0.6

    def test_same_masks_have_no_components(self):
        with pytest.raises(InvalidArgument, match="differ"):
            PCACodec.fit(np.ones((5, 3, 3)))

    @pytest.mark.parametrize(
        "masks", [np.ones(5), np.empty((0, 3)), np.full((3, 2), np.nan), [["a"]], [[1.0], [1.0, 2]]]
    )
    def test_other_masks_are_refused(self, masks):
        with pytest.raises(InvalidArgument, match="masks"):
            PCACodec.fit(masks)

    def test_bits_are_numbers(self, flat):
        bits = flat > 0.5
        np.testing.assert_array_equal(
            PCACodec.fit(bits).encode(bits), PCACodec.fit(bits * 1.0).encode(bits * 1.0)
        )


class TestBlocks:
    @pytest.mark.parametrize("shape", [(9, 10, 8), (4, 5, 3), (1, 1, 1), (5, 6, 4)])
    def test_cutting_and_joining(self, shape):
        volume = np.random.default_rng(0).normal(size=shape)
        rows = to_blocks(volume, (4, 5, 3))
        assert rows.shape[1] == 60
        assert np.square(rows).sum() == pytest.approx(np.square(volume).sum())
        assert np.array_equal(from_blocks(rows, shape, (4, 5, 3)), volume)

    def test_a_block_is_a_box_of_the_volume(self):
        volume = np.arange(24.0).reshape(4, 6)
        rows = to_blocks(volume, (2, 3))
        assert rows[1].reshape(2, 3).tolist() == volume[:2, 3:].tolist()
        assert rows[2].reshape(2, 3).tolist() == volume[2:, :3].tolist()

    def test_all_components_make_a_round_trip(self, deep):
        codec = BlockPCACodec.fit(deep, block_shape=(3, 5, 4), n_components=60)
        assert np.allclose(codec.decode(codec.encode(deep)), deep, atol=1e-8)

    def test_projection_never_lengthens_a_volume(self, blocks, deep):
        """Orthonormal on disjoint blocks: one bound over a volume's code is one over the volume."""
        basis = blocks.components
        assert np.allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-10)
        wild = np.random.default_rng(0).normal(size=(3, 9, 10, 8)) + blocks.mean
        codes = blocks.encode(wild)
        volumes = np.linalg.norm((wild - blocks.mean).reshape(3, -1), axis=1)
        assert (np.linalg.norm(codes, axis=1) <= volumes * (1 + 1e-12)).all()

    def test_one_code_a_volume(self, blocks, deep):
        assert blocks.n_blocks == 3 * 2 * 3
        assert blocks.length == blocks.n_blocks * 6
        assert blocks.encode(deep).shape == (40, blocks.length)
        norms = np.linalg.norm(blocks.encode(deep), axis=1)
        assert np.mean(norms <= blocks.radius) == pytest.approx(0.95, abs=0.03)

    def test_the_brats_volume_is_a_thousand_blocks(self):
        """240 x 240 x 155 in 24 x 24 x 16, here at a twelfth of each side."""
        masks = np.random.default_rng(0).integers(0, 2, size=(4, 20, 20, 13))
        codec = BlockPCACodec.fit(masks, block_shape=(2, 2, 2), n_components=3)
        assert codec.n_blocks == 10 * 10 * 7
        assert codec.decode(codec.encode(masks)).shape == masks.shape

    def test_few_blocks_decide_the_basis_of_many(self, monkeypatch):
        from tacit.masks import pca as module

        monkeypatch.setattr(module, "_MOST_BLOCKS", 10)
        masks = np.zeros((6, 8, 8))
        masks[:3, 2:4, 2:4] = 1
        codec = BlockPCACodec.fit(masks, block_shape=(2, 2), n_components=4)
        assert np.allclose(codec.decode(codec.encode(masks)), masks)

    def test_components_through_products_are_those_of_the_svd(self, monkeypatch, deep):
        from tacit.masks import pca as module

        slow = BlockPCACodec.fit(deep, block_shape=(4, 5, 3), n_components=6)
        monkeypatch.setattr(module, "_FEW", 0)
        fast = BlockPCACodec.fit(deep, block_shape=(4, 5, 3), n_components=6)
        assert np.allclose(np.abs(fast.components @ slow.components.T), np.eye(6), atol=1e-6)
        assert np.allclose(fast.components @ fast.components.T, np.eye(6), atol=1e-12)

    def test_another_number_of_sides_is_refused(self, deep):
        with pytest.raises(InvalidArgument, match="as many sides"):
            BlockPCACodec.fit(deep, block_shape=(4, 4), n_components=2)


class TestEvery:
    @pytest.fixture(params=["pca", "blocks", "identity"])
    def codec(self, request, pca, blocks):
        return {"pca": pca, "blocks": blocks, "identity": IdentityCodec((4, 3))}[request.param]

    def test_says_where_it_comes_from(self, codec: Codec):
        assert codec.provenance == "public"
        assert codec.statement
        assert "array" not in repr(codec)

    def test_other_shapes_are_refused(self, codec):
        with pytest.raises(InvalidArgument):
            codec.encode(np.zeros((2, *codec.shape, 1)))
        with pytest.raises(InvalidArgument):
            codec.encode(np.zeros(codec.shape))
        with pytest.raises(InvalidArgument):
            codec.decode(np.zeros((2, codec.length + 1)))

    def test_masks_of_bools(self, codec):
        mask = np.zeros((1, *codec.shape), dtype=bool)
        mask.flat[0] = True
        assert np.array_equal(codec.encode(mask), codec.encode(mask.astype(float)))

    def test_answers_are_encoded_one_at_a_time(self, codec):
        rng = np.random.default_rng(0)
        answers = rng.integers(0, 2, size=(3, 5, *codec.shape)).astype(float)
        asked = []

        def answer(teacher, query):
            asked.append((teacher, query))
            return answers[teacher, query]

        lazy = encoded_answers(codec, answer, 3, 5)
        assert lazy.shape == (3, 5, codec.length)
        assert asked == []
        mechanism = GaussianMean(0.1, codec.diameter / 2, 3)
        whole = np.stack([codec.encode(teacher) for teacher in answers])
        first, second = (mechanism.release(codes, InsecureNoise(0)) for codes in (lazy, whole))
        assert np.allclose(first.values, second.values, atol=1e-6)
        assert len(asked) == 15


class TestIdentity:
    def test_the_cube_lies_in_the_ball(self):
        codec = IdentityCodec((3, 5))
        corners = np.random.default_rng(0).integers(0, 2, size=(50, 3, 5))
        norms = np.linalg.norm(codec.encode(corners), axis=1)
        assert np.allclose(norms, codec.diameter / 2)
        assert codec.diameter == math.sqrt(15)

    def test_half_the_diameter_of_the_2022_paper(self):
        """y/sqrt(D) in a ball of diameter 2; the cube needs 1."""
        assert IdentityCodec((100,)).diameter / math.sqrt(100) == 1.0
