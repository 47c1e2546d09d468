"""Public patches: the formula, what they learn, and that a row's bits are its own."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tacit.errors import InvalidArgument
from tacit.features import FAINT_SQUARE, SQUARE_STEPS, PublicPatches, ScaledHOG, is_row_wise

DRAW = np.random.default_rng(3)
PUBLIC, IMAGES = DRAW.integers(256, size=(2, 40, 9, 8)).astype(np.uint8)
STEP = PublicPatches((9, 8), cells=(2,), pixels=2, mirror=True, patch=3, atoms=6, regions=3)


def plain_resemblances(step, image):
    """Square by square, in float64."""
    image = image / image.max()
    reach, own = step.patch // 2, len(step.filters_)
    framed = np.pad(image, reach)
    found = np.zeros((step.regions, step.regions, own))
    for y, x in np.ndindex(image.shape):
        square = framed[y : y + step.patch, x : x + step.patch].reshape(-1)
        even = (square - square.mean()) / np.sqrt(square.var() + FAINT_SQUARE)
        said = step.filters_[:, :-1] @ even * SQUARE_STEPS + step.filters_[:, -1]
        region = y * step.regions // image.shape[0], x * step.regions // image.shape[1]
        found[region] += np.maximum(said, 0)
    return found


class TestFormula:
    """Against plain loops."""

    @pytest.mark.parametrize("mirror", [False, True])
    def test_gradients_then_roots_of_what_regions_resemble(self, mirror):
        step = clone(STEP).set_params(mirror=mirror).fit(PUBLIC)
        made = step.transform(IMAGES[:3])
        gradients = ScaledHOG((9, 8), cells=(2,), pixels=2, mirror=mirror).transform(IMAGES[:3])
        assert np.array_equal(made[:, : gradients.shape[1]], gradients)
        for row, image in zip(made[:, gradients.shape[1] :], IMAGES, strict=False):
            found = plain_resemblances(step, image)
            if mirror:
                found = (found + plain_resemblances(step, image[:, ::-1]))[..., :3]
            share = found.reshape(-1) / found.sum()
            assert (row / step.weight) ** 2 == pytest.approx(share, abs=2e-4)
        assert made.shape[1] == gradients.shape[1] + 9 * (3 if mirror else 6)

    def test_a_mirror_image_has_the_same_features_and_half_the_atoms_are_mirrored(self):
        step = clone(STEP).fit(PUBLIC)
        assert step.transform(IMAGES) == pytest.approx(step.transform(IMAGES[..., ::-1]), abs=1e-6)
        atoms = step.filters_[:, :-1].reshape(2, 3, 3, 3)
        assert np.array_equal(atoms[0], atoms[1][:, :, ::-1])

    def test_a_blank_image_resembles_nothing(self):
        assert not clone(STEP).fit(PUBLIC).transform(np.zeros((1, 72))).any()


class TestRowsAlone:
    """No row feels the others, whatever a library does with products of matrices."""

    def test_alone_in_company_and_in_another_order(self):
        fitted = clone(STEP).fit(PUBLIC)
        together = fitted.transform(IMAGES)
        alone = np.concatenate([fitted.transform(IMAGES[[place]]) for place in range(len(IMAGES))])
        order = DRAW.permutation(len(IMAGES))
        assert np.array_equal(together, alone)
        assert np.array_equal(together[order], fitted.transform(IMAGES[order]))
        assert is_row_wise(fitted)

    @pytest.mark.parametrize("threshold", [0.0, 0.5, 1e9])
    def test_every_partial_sum_is_a_whole_number_that_float32_holds(self, threshold):
        filters = clone(STEP).set_params(threshold=threshold).fit(PUBLIC).filters_
        assert np.array_equal(filters, np.rint(filters))
        # Cauchy and Schwarz, also of a part of the products; a rounded number is off by a half.
        longest = 3 * (SQUARE_STEPS + 0.5)
        sums = np.linalg.norm(filters[:, :-1], axis=1) * longest - filters[:, -1]
        assert sums.max() < 2**24
        assert np.linalg.norm(filters[:, :-1], axis=1).max() * longest > 2**22  # and uses it

    def test_squares_are_never_longer_than_that(self):
        sharp = np.zeros((1, 9, 8))
        sharp[0, 4, 4], sharp[0, :, ::2] = 1e30, 1e30
        from tacit.features.images import planes_of
        from tacit.features.patches import square_statistics

        framed = np.pad(planes_of(sharp.reshape(1, -1), (9, 8)), ((1, 1), (1, 1), (0, 0)))
        mean, scale = square_statistics(framed, 3)
        for y, x in np.ndindex(9, 8):
            steps = np.rint((framed[y : y + 3, x : x + 3] - mean[y, x]) * scale[y, x])
            assert np.linalg.norm(steps) <= 3 * (SQUARE_STEPS + 0.5)


class TestLearning:
    """From public images alone."""

    def test_learned_arrays_are_all_that_it_knows(self):
        fitted = clone(STEP).fit(PUBLIC)
        rebuilt = clone(STEP).take_up(fitted.learned_arrays())
        assert np.array_equal(rebuilt.transform(IMAGES), fitted.transform(IMAGES))

    def test_atoms_are_the_directions_that_squares_are_near_to(self):
        step = PublicPatches(patch=3, atoms=9)
        directions = np.linalg.qr(DRAW.normal(size=(9, 3)))[0].T
        squares = 5 * directions[DRAW.integers(3, size=300)] + 0.1 * DRAW.normal(size=(300, 9))
        atoms = step._dictionary(squares, np.random.default_rng(0))
        assert np.linalg.norm(atoms, axis=1) == pytest.approx(1)
        assert (atoms @ directions.T).max(axis=0).min() > 0.99
        assert (atoms @ directions.T).max(axis=1).min() > 0.99

    def test_nothing_is_known_before_fit(self):
        with pytest.raises(NotFittedError):
            clone(STEP).transform(IMAGES)

    @pytest.mark.parametrize("blank", [np.zeros((5, 9, 8)), np.ones((0, 9, 8))])
    def test_refuses_public_images_without_contrast(self, blank):
        with pytest.raises(InvalidArgument, match="public images"):
            clone(STEP).fit(blank)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"patch": 4},
            {"patch": 17},
            {"atoms": 5},
            {"regions": 9},
            {"threshold": -1.0},
            {"weight": 0.0},
        ],
    )
    def test_refuses_by_name(self, wrong):
        with pytest.raises(InvalidArgument, match=next(iter(wrong))):
            clone(STEP).set_params(**wrong).fit(PUBLIC)
