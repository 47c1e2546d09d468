"""Public whitening and kernels: what they learn, and that a row's bits are its own."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline, make_union

from tacit.errors import InvalidArgument, WeakSignal
from tacit.features import (
    PublicKernel,
    PublicWhitening,
    ScaledHOG,
    bearable_dimensions,
    ends_at_unit_length,
    image_features,
    is_row_wise,
    needs_strength,
    transform_rows,
    with_dimensions,
    with_strength,
)

DRAW = np.random.default_rng(5)
PUBLIC = DRAW.normal(size=(60, 9)) * np.linspace(4, 0.2, 9) + 3
ROWS = DRAW.normal(size=(50, 9)) * np.linspace(4, 0.2, 9) + 3
MAPS = [
    PublicWhitening(5),
    PublicWhitening(9, power=1.0, standardise=True, clip=2.0),
    PublicKernel(40, components=20),
    make_pipeline(PublicWhitening(6), PublicKernel(30, components=10), PublicWhitening(4)),
]


@pytest.mark.parametrize("kind", range(len(MAPS)))
class TestRowsAlone:
    """No row feels the others, in any order or company."""

    def test_alone_in_company_and_in_another_order(self, kind):
        fitted = clone(MAPS[kind]).fit(PUBLIC)
        together = fitted.transform(ROWS)
        alone = np.concatenate([fitted.transform(ROWS[[place]]) for place in range(len(ROWS))])
        order = DRAW.permutation(len(ROWS))
        assert np.array_equal(together, alone)
        assert np.array_equal(together[order], fitted.transform(ROWS[order]))
        assert is_row_wise(fitted)

    def test_a_row_that_is_not_finite_is_lost_alone(self, kind):
        fitted = clone(MAPS[kind]).fit(PUBLIC)
        rows = ROWS[:4].copy()
        rows[1, 2], rows[3, 0] = np.nan, np.inf
        made = transform_rows(fitted, rows, PUBLIC)
        assert np.isnan(made[[1, 3]]).all()
        assert np.array_equal(made[[0, 2]], fitted.transform(ROWS[[0, 2]]))

    def test_learned_arrays_are_all_that_it_knows(self, kind):
        fitted = clone(MAPS[kind]).fit(PUBLIC)
        steps = [step for _, step in getattr(fitted, "steps", [("", fitted)])]
        rebuilt = [clone(step).take_up(step.learned_arrays()) for step in steps]
        view = ROWS
        for step in rebuilt:
            view = step.transform(view)
        assert np.array_equal(view, fitted.transform(ROWS))


class TestWhitening:
    """The formula, against plain linear algebra."""

    @settings(max_examples=15, deadline=None)
    @given(power=st.floats(0, 1), count=st.integers(1, 9))
    def test_centre_turn_even_out_and_scale(self, power, count):
        made = PublicWhitening(count, power=power).fit(PUBLIC).transform(ROWS)
        centre = PUBLIC.mean(axis=0)
        values, vectors = np.linalg.eigh((PUBLIC - centre).T @ (PUBLIC - centre) / len(PUBLIC))
        plain = (ROWS - centre) @ (vectors[:, ::-1] / values[::-1] ** (power / 2))[:, :count]
        plain /= np.linalg.norm(plain, axis=1, keepdims=True)
        assert np.abs(made) == pytest.approx(np.abs(plain), abs=2e-5)

    def test_strength_decides_what_is_left_open(self):
        open_one = make_pipeline(PublicWhitening(8), PublicWhitening())
        assert needs_strength(open_one)
        assert not needs_strength(None)
        told = with_strength(open_one, 60.0)
        assert told.fit(PUBLIC).transform(ROWS).shape[1] == 6
        assert open_one.steps[1][1].strength is None
        with pytest.raises(InvalidArgument, match="n_records"):
            clone(open_one).fit(PUBLIC)

    def test_a_size_may_be_told_in_place_of_a_strength(self):
        open_one = make_pipeline(PublicWhitening(8), PublicWhitening())
        assert with_dimensions(open_one, 4).fit(PUBLIC).transform(ROWS).shape[1] == 4
        assert ends_at_unit_length(open_one)
        assert not ends_at_unit_length(make_pipeline(PublicWhitening(8), PublicKernel()))
        assert not ends_at_unit_length(make_union(PublicKernel(), PublicWhitening(8)))

    def test_too_few_public_rows_are_warned_of(self):
        white = PublicWhitening(strength=300.0)
        with pytest.warns(WeakSignal, match="5 public rows tell 2 directions, where n mu bears 9"):
            white.fit(PUBLIC[:5])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            white.fit(PUBLIC)

    def test_dimensions_grow_with_the_strength_as_far_as_public_rows_tell(self):
        flat = np.ones(2000)
        borne = [bearable_dimensions(strength, flat, 9000) for strength in (1, 200, 2000, 1e9)]
        assert borne == [1, 16, 100, 500]
        assert bearable_dimensions(1e9, flat, 100) == 50
        assert bearable_dimensions(1e9, np.array([1.0, 1e-3, 1e-9]), 9000) == 2

    @pytest.mark.parametrize(
        ("wrong", "named"),
        [
            ({"dimensions": 0}, "dimensions"),
            ({"power": 1.5}, "power"),
            ({"clip": 0.0}, "clip"),
            ({"dimensions": None, "strength": -1.0}, "strength"),
        ],
    )
    def test_refuses_by_name(self, wrong, named):
        with pytest.raises(InvalidArgument, match=named):
            PublicWhitening(**({"dimensions": 2} | wrong)).fit(PUBLIC)

    @pytest.mark.parametrize("learner", [PublicWhitening(2), PublicKernel(4)])
    def test_refuses_rows_that_teach_nothing(self, learner):
        for rows in (np.ones((5, 3)), [[np.nan, 1.0], [0.0, 1.0]], [["a"], ["b"]]):
            with pytest.raises(InvalidArgument):
                clone(learner).fit(rows)
        with pytest.raises(InvalidArgument, match="9 columns"):
            clone(learner).fit(PUBLIC).transform(ROWS[:, :4])


class TestKernel:
    """Nystroem features have the kernel as their inner products."""

    def test_inner_products_are_the_kernel(self):
        fitted = PublicKernel(60, components=60).fit(PUBLIC)
        phi = fitted.transform(PUBLIC)
        squares = ((PUBLIC[:, None] - PUBLIC) ** 2).sum(axis=2)
        assert phi @ phi.T == pytest.approx(np.exp(-fitted.gamma_[0] * squares), abs=1e-3)
        assert np.linalg.norm(fitted.transform(ROWS), axis=1).max() < 1 + 1e-3

    def test_refuses_too_many_landmarks(self):
        with pytest.raises(InvalidArgument, match="landmarks"):
            PublicKernel(5000).fit(PUBLIC)


class TestScales:
    """Grids of several sizes beside each other."""

    def test_each_part_has_length_one_and_is_its_grid(self):
        images = DRAW.random((3, 16, 16))
        step = ScaledHOG((16, 16), cells=(4, 2), pixels=8)
        made = step.transform(images)
        first = step.grids()[0].transform(images)
        assert np.array_equal(made[:, : first.shape[1]], first)
        pixels = images.reshape(3, 8, 2, 8, 2).sum(axis=(2, 4)).reshape(3, -1)
        pixels /= np.linalg.norm(pixels, axis=1, keepdims=True)
        assert made[:, -64:] == pytest.approx(pixels, abs=1e-5)
        assert np.array_equal(made[1:2], step.transform(images[1:2]))
        assert step.transform(np.zeros((1, 16, 16))).any() == np.False_

    def test_a_mirror_image_has_the_same_features(self):
        images = DRAW.random((3, 16, 16))
        step = ScaledHOG((16, 16), cells=(4,), pixels=4, mirror=True)
        made = step.transform(images)
        assert np.array_equal(made, step.transform(images[:, :, ::-1]))
        assert np.array_equal(made[1:2], step.transform(images[1:2]))
        once = clone(step).set_params(mirror=False)
        both = once.transform(images) + once.transform(images[:, :, ::-1])
        assert made == pytest.approx(both / 2, abs=1e-6)
        assert np.abs(made - once.transform(images)).max() > 0.01

    def test_the_pipeline_is_row_wise_and_waits_for_a_strength(self):
        assert is_row_wise(image_features((8, 8)))
        assert needs_strength(image_features((8, 8)))

    @pytest.mark.parametrize("wrong", [{"cells": ()}, {"cells": (99,)}, {"pixels": 17}])
    def test_refuses_by_name(self, wrong):
        with pytest.raises(InvalidArgument, match=next(iter(wrong))):
            ScaledHOG((16, 16), **wrong).fit(np.ones((1, 256)))
