"""Whole masks, taught privately: releases through the ledger, nothing private left, refusals."""

from __future__ import annotations

import dataclasses
import functools
import pickle
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flat_settings import built

from tacit.errors import BudgetExceeded, InvalidArgument, TeacherFailed
from tacit.ledger import LARGE_DELTA, Budget, Ledger
from tacit.masks import (
    AutoencoderCodec,
    BlockPCACodec,
    DPSGDSegmenter,
    IdentityCodec,
    PATESegmenter,
    PCACodec,
    UNetRecipe,
    UNetStudent,
    UNetTeacher,
    generated_volumes,
    level_of_volume,
    noise_to_signal,
)
from tacit.masks.rounds import cut_masks, foreground, one_hot_masks
from tacit.noise import InsecureNoise
from tacit.students import saved_extra

pytest.importorskip("monai")

SIDE = (16, 16)


class Stub:
    """A student that remembers what it was taught, and predicts the mean of it."""

    def fit(self, images: Any, targets: Any) -> Stub:
        self.images_, self.targets_ = np.asarray(images), np.asarray(targets)
        return self

    def predict_proba(self, images: Any) -> Any:
        return np.repeat(self.targets_.mean(axis=0)[None], len(images), axis=0)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def __sklearn_clone__(self) -> Stub:
        return Stub()


def thresholded(images: Any, masks: Any, queries: Any, *, n_classes: int, seed: int) -> Any:
    """A teacher that needs no training: bright is organ; its shard shifts nothing."""
    bright = (queries > np.quantile(images, 1 - (masks > 0).mean())).astype(np.int64)
    return np.moveaxis(np.eye(n_classes)[bright], -1, 1)


@pytest.fixture(scope="module")
def scans() -> tuple[Any, Any]:
    return generated_volumes(90, SIDE, seed=3, noise=0.02).normalised().arrays()


@functools.cache
def fitted_codec() -> PCACodec:
    masks = generated_volumes(90, SIDE, seed=3, noise=0.02).normalised().arrays()[1]
    answers = masks[50:] > 0
    return PCACodec.fit(answers, blur=0.7, dimensions=2, n_components=12)


def made(scans: tuple[Any, Any], fit: dict[str, Any] | None = None, **changes: Any) -> Any:
    images, masks = scans
    options = {"epsilon": 8.0, "delta": 1e-3, "n_teachers": 20, "random_state": 0}
    if fit is None or "public_masks" not in fit:
        options["codec"] = fitted_codec()
    model = built(PATESegmenter, thresholded, student=Stub(), **{**options, **changes})
    given = {"X_public": images[40:50], "groups": np.arange(40)}
    return model.fit(images[:40], masks[:40], **{**given, **(fit or {})})


@pytest.mark.parametrize("each_alone", [False, True])
@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_the_budget_is_spent_and_not_more(
    scans: tuple[Any, Any], rounds: int, each_alone: bool
) -> None:
    model = made(scans, rounds=rounds, each_alone=each_alone)
    assert len(model.ledger_) == rounds
    assert 7.99 < model.ledger_.spent() <= 8.0
    assert "person" in str(model.statement_)
    assert model.released_.shape == (10, *SIDE)
    assert model.predict(scans[0][:2]).shape == (2, *SIDE)


def test_the_released_masks_are_the_teachers_but_for_noise(scans: tuple[Any, Any]) -> None:
    """With hardly any noise the release is the codec's view of what all teachers say."""
    model = made(scans, epsilon=1e5, each_alone=True, n_teachers=40)
    said = model.released_ > 0.5
    truth = scans[1][40:50][model.queries_] > 0
    assert (said == truth).mean() > 0.93


def moved_by_the_first(
    teacher: Any, private: Any, scans: tuple[Any, Any], groups: Any = None
) -> tuple[float, float]:
    """How far the first of forty scans moves the weighted codes under one noise, and may."""
    images, masks = scans

    def released(rows: slice) -> Any:
        model = built(
            PATESegmenter,
            teacher,
            fitted_codec(),
            Stub(),
            each_alone=True,
            n_teachers=20,
            delta=1e-3,
            noise=InsecureNoise(7),
            random_state=0,
        )
        who = None if groups is None else groups[rows]
        model.fit(private[:40][rows], masks[:40][rows], images[40:50], groups=who)
        return model.releases_[0]

    with_it, without = released(slice(0, 40)), released(slice(1, 40))
    level = noise_to_signal(8.0, 1e-3, queries=10, n_teachers=20) / 4
    weights = fitted_codec().ellipsoid(level).weights
    moved = np.linalg.norm((with_it.values - without.values) * weights)
    return float(moved), with_it.mechanism.radius / 20 * (1 + 1e-6)


def test_one_patient_moves_the_mean_by_one_radius(scans: tuple[Any, Any]) -> None:
    """Same noise, one patient more: the weighted codes differ by at most radius/n_teachers."""
    hostile = scans[0].copy()
    hostile[0] = 1e30
    moved, allowed = moved_by_the_first(thresholded, hostile, scans, np.arange(40))
    assert 0 < moved <= allowed


def test_nothing_private_is_left(scans: tuple[Any, Any], tmp_path: Path) -> None:
    images, masks = scans
    marked = images.copy()
    marked[:40] += np.float32(0.123456)
    path = tmp_path / "run.ledger"
    model = built(
        PATESegmenter,
        thresholded,
        fitted_codec(),
        Stub(),
        n_teachers=20,
        delta=1e-3,
        ledger=path,
        random_state=0,
    )
    model.fit(marked[:40], masks[:40], images[40:50])
    model.teacher = None
    kept = pickle.dumps({k: v for k, v in vars(model).items() if k != "ledger_"})
    kept += (tmp_path / "run.ledger").read_bytes() + model.report().encode()
    for scan in marked[:40]:
        assert scan.tobytes() not in kept
        assert scan[8].tobytes() not in kept


def test_several_classes_are_released_without_the_background(scans: tuple[Any, Any]) -> None:
    images, masks = generated_volumes(60, SIDE, n_classes=3, seed=4).normalised().arrays()

    def knows(images: Any, masks: Any, queries: Any, *, n_classes: int, seed: int) -> Any:
        return np.repeat(np.moveaxis(np.eye(3)[masks], -1, 1).mean(axis=0)[None], len(queries), 0)

    model = built(
        PATESegmenter, knows, student=Stub(), n_classes=3, n_teachers=10, delta=1e-3, random_state=0
    )
    model.fit(images[:20], masks[:20], images[20:26], public_masks=masks[26:])
    assert model.released_.shape == (6, 2, *SIDE)
    assert model.student_.targets_.shape == (6, 3, *SIDE)
    np.testing.assert_allclose(model.student_.targets_.sum(axis=1), 1, atol=1e-5)


def test_any_codec_will_do_in_one_round(scans: tuple[Any, Any]) -> None:
    model = made(scans, codec=IdentityCodec(SIDE), cut="half")
    assert model.released_.shape == (10, *SIDE)
    assert 7.99 < model.ledger_.spent() <= 8.0
    with pytest.raises(InvalidArgument, match="rounds=2"):
        made(scans, codec=IdentityCodec(SIDE), rounds=2, cut="half")


@pytest.mark.parametrize("kind", ["voxels", "centred at one half"])
def test_a_cut_by_a_volume_that_nobody_knows_is_refused_before_any_teacher_looks(
    scans: tuple[Any, Any], kind: str
) -> None:
    looked = []
    codec: Any = IdentityCodec(SIDE)
    if kind != "voxels":  # as a codec that was bought has it
        codec = dataclasses.replace(fitted_codec(), mean=np.full(SIDE, 0.5))

    def watched(images: Any, masks: Any, queries: Any, **_: Any) -> Any:
        looked.append(len(images))

    model = built(PATESegmenter, watched, codec, Stub(), delta=1e-3)
    with pytest.raises(InvalidArgument, match=r"public_masks=.*cut='half'"):
        model.fit(scans[0][:40], scans[1][:40], scans[0][40:50])
    assert not looked
    assert not hasattr(model, "ledger_")


@pytest.mark.parametrize("codec", ["autoencoder", "naive"])
def test_codecs_that_are_not_linear_are_cut_at_the_public_volume(
    scans: tuple[Any, Any], codec: str
) -> None:
    """The public volume decides, not one half: teachers say a ramp, which is soft."""
    known = scans[1][50:]

    def half_sure(images: Any, masks: Any, queries: Any, **_: Any) -> Any:
        organ = np.linspace(0, 1, queries[0].size).reshape(SIDE) * np.ones((len(queries), 1, 1))
        return np.stack([1 - organ, organ], axis=1)

    options = {"epsilon": 1e5, "delta": 1e-3, "n_teachers": 20, "random_state": 0}
    model = built(PATESegmenter, half_sure, codec, Stub(), **options)
    model.fit(scans[0][:40], scans[1][:40], scans[0][40:50], public_masks=known)
    decoded = model.codec_.decode(model.releases_[0].values)
    level = level_of_volume(decoded, (known > 0).sum() / len(known))
    np.testing.assert_array_equal(model.released_, decoded > level)
    assert (model.released_ != (decoded > 0.5)).any()


@pytest.mark.parametrize(
    ("codec", "kind"),
    [
        ("linear", PCACodec),
        ("blocks", BlockPCACodec),
        ("autoencoder", AutoencoderCodec),
        ("naive", IdentityCodec),
    ],
)
def test_codecs_by_name(scans: tuple[Any, Any], codec: str, kind: type) -> None:
    model = made(scans, {"public_masks": scans[1][50:]}, codec=codec)
    assert type(model.codec_) is kind
    assert 7.99 < model.ledger_.spent() <= 8.0


def test_a_codec_of_another_name_is_refused(scans: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidArgument, match="codec='fractal'"):
        made(scans, {"public_masks": scans[1][50:]}, codec="fractal")


def test_a_used_up_ledger_refuses_before_any_teacher_looks(
    scans: tuple[Any, Any], tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "small.ledger", budget=Budget(0.1, 1e-3), unit="person")
    looked = []

    def teacher(*_: Any, **__: Any) -> Any:
        looked.append(1)

    model = built(
        PATESegmenter, teacher, fitted_codec(), Stub(), n_teachers=20, delta=1e-3, ledger=ledger
    )
    images, masks = scans
    with pytest.raises(BudgetExceeded):
        model.fit(images[:40], masks[:40], images[40:50], groups=np.arange(40))
    assert not looked
    assert len(ledger) == 0


@pytest.mark.parametrize(
    ("changes", "fit", "message"),
    [
        ({}, {"X_public": None}, "X_public"),
        ({}, {"X_public": np.zeros((3, 8, 8))}, "X_public"),
        ({}, {"X_public": np.full((3, *SIDE), np.nan)}, "X_public"),
        ({}, {"public_masks": None}, "public_masks"),
        ({}, {"groups": np.arange(3)}, "groups"),
        ({"n_teachers": 0}, {}, "n_teachers"),
        ({"rounds": 3}, {}, "rounds"),
        ({"n_classes": 1}, {}, "classes"),
        ({"delta": 0.5}, {}, "delta"),
        ({"queries": 11}, {}, "at most the number"),
        ({"epsilon": 0.0}, {}, "epsilon"),
    ],
)
def test_bad_input_is_named_and_nothing_spent(
    scans: tuple[Any, Any],
    changes: dict[str, Any],
    fit: dict[str, Any],
    message: str,
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.ledger"
    with pytest.raises(InvalidArgument, match=message):
        made(scans, fit, ledger=path, **changes)
    assert not path.exists() or len(Ledger(path)) == 0


def test_foreground_and_back() -> None:
    soft = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 4, 4)).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(one_hot_masks(foreground(soft, 3), 3), soft, atol=1e-6)
    two = np.stack([1 - soft[:, 1], soft[:, 1]], axis=1)
    np.testing.assert_allclose(one_hot_masks(foreground(two, 2), 2), two, atol=1e-6)


def seeded(images: Any, masks: Any, queries: Any, *, n_classes: int, seed: int) -> Any:
    """A teacher whose answer turns on its seed and its scan: nobody else may change either."""
    own = zlib.crc32(np.ascontiguousarray(images).tobytes())
    said = np.full(queries.shape, 100.0 * np.random.default_rng([seed, own]).normal())
    return np.stack([1 - said, said], axis=1)


@pytest.mark.parametrize("by_person", [False, True])
def test_a_patient_who_comes_changes_no_other_teachers_seed(
    scans: tuple[Any, Any], by_person: bool
) -> None:
    """One unit adds one bounded code; were the others trained anew, all of them would move."""
    people = [f"patient {number}" for number in range(40)] if by_person else None
    moved, allowed = moved_by_the_first(seeded, scans[0], scans, people)
    assert 0 < moved <= allowed


def test_two_equal_scans_are_two_units(scans: tuple[Any, Any]) -> None:
    """Without groups a scan is a unit of its own, also where another one equals it."""
    images, masks = scans
    seen = []

    def counted(images: Any, masks: Any, queries: Any, *, n_classes: int, seed: int) -> Any:
        seen.append(len(images))
        return seeded(images, masks, queries, n_classes=n_classes, seed=seed)

    model = built(
        PATESegmenter, counted, fitted_codec(), Stub(), each_alone=True, delta=1e-3, random_state=0
    )
    model.fit(np.repeat(images[:5], 2, axis=0), np.repeat(masks[:5], 2, axis=0), images[40:50])
    assert seen == [1] * 10


def test_a_refit_that_fails_leaves_no_student_under_another_statement(
    scans: tuple[Any, Any],
) -> None:
    model = made(scans)
    model.teacher = lambda *_, **__: None
    with pytest.raises(TeacherFailed):
        model.fit(scans[0][:40], scans[1][:40], scans[0][40:50], groups=np.arange(40))
    assert model.ledger_.spent() > 7.9  # the old fit is whole: nothing was released since


def test_windows_and_channels_are_reached_from_the_estimator(
    scans: tuple[Any, Any], tmp_path: Path
) -> None:
    """Volumes larger than the patch that teachers and student are trained on, of two channels."""
    images, masks = scans
    both = np.stack([images, -images], axis=1)
    recipe = UNetRecipe(channels=(4, 8), residual_units=0, steps=2, patch=(8, 8))
    model = built(
        PATESegmenter,
        UNetTeacher(recipe),
        fitted_codec(),
        UNetStudent(channels=(4, 8), residual_units=0, steps=2, patch=(8, 8)),
        n_teachers=3,
        delta=1e-2,
        random_state=0,
    )
    model.fit(both[:6], masks[:6], both[40:44])
    assert model.released_.shape == (4, *SIDE)
    assert model.predict(both[:2]).shape == (2, *SIDE)
    large = np.tile(both[:1], (1, 1, 2, 2))
    assert model.predict(large, window=(16, 16)).shape == (1, 32, 32)
    model.save(tmp_path / "student.tacit", classes=["none", "organ"])
    facts = saved_extra(tmp_path / "student.tacit")
    assert facts["grid"] == list(SIDE)
    assert facts["classes"] == ["none", "organ"]
    assert facts["statement"]["epsilon"] <= 8
    with pytest.raises(InvalidArgument, match="names"):
        model.save(tmp_path / "student.tacit", classes=["organ"])


@pytest.mark.parametrize("shape", [(40, 0, *SIDE), (40, 2, 8, 8), (39, 2, *SIDE), (40, 16)])
def test_scans_that_do_not_fit_their_masks(scans: tuple[Any, Any], shape: Any) -> None:
    model = built(PATESegmenter, thresholded, fitted_codec(), Stub(), delta=1e-3)
    with pytest.raises(InvalidArgument, match="channels"):
        model.fit(np.zeros(shape), scans[1][:40], np.zeros((2, *shape[1:])))


def test_soft_masks_are_cut_at_the_public_volume() -> None:
    """Three classes: the level is found for all foregrounds together, the larger one wins."""
    draw = np.random.default_rng(0)
    soft = 0.45 * draw.uniform(size=(50, 2, 20, 20)) ** 2
    for volume in (30.0, 80.0):
        cut = cut_masks(soft, 3, volume)
        assert abs(cut.sum() / 50 - volume) < 0.05 * volume
        assert set(np.unique(cut)) == {0.0, 1.0}
        assert (cut.sum(axis=1) <= 1).all()
        np.testing.assert_array_equal(
            cut.argmax(axis=1)[cut.any(axis=1)], soft.argmax(axis=1)[cut.any(axis=1)]
        )
    half = cut_masks(soft[:, 0], 2)
    np.testing.assert_array_equal(half, soft[:, 0] > 0.5)


def test_a_cut_of_another_name_is_refused(scans: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidArgument, match="cut="):
        made(scans, cut="third")


def test_a_delta_that_was_not_compared_is_told(scans: tuple[Any, Any]) -> None:
    told = made(scans, delta=0.5, allow_large_delta=True)
    assert LARGE_DELTA in told.statement_.warnings
    assert LARGE_DELTA not in made(scans).statement_.warnings


SCANS: dict[str, Any] = {
    "half": np.float16,
    "double": np.float64,
    "long": np.longdouble,
    "whole": np.int64,
    "large": np.uint64,
    "objects": object,
}


@pytest.mark.parametrize("kind", SCANS)
def test_one_scan_of_another_type_changes_no_voxel_of_the_others(kind: str) -> None:
    draw = np.random.default_rng(0)
    for others in (
        draw.normal(size=(2, 4, 4)).astype(np.float32),
        np.full((2, 4, 4), 2**60 + 2**36 + 1),  # rounded to float32 at once, or by way of float64
        np.full((2, 4, 4), 2**60 + 2**36 + 1, dtype=np.uint64),
    ):
        masks = np.zeros((3, 4, 4), dtype=np.int64)
        model = built(PATESegmenter, thresholded)
        expected = model._private(others, masks[:2])[0]
        mixed = np.concatenate([others, np.ones((1, 4, 4), dtype=SCANS[kind])])
        seen = model._private(mixed, masks)[0]
        assert seen.dtype == np.float32
        assert seen[:2].tobytes() == expected.tobytes()


def test_a_scan_that_is_no_number_is_not_quoted() -> None:
    images = np.zeros((3, 4, 4), dtype=object)
    images[1, 2, 2] = "c4n4ry"
    for model in (built(PATESegmenter, thresholded), built(DPSGDSegmenter, n_records=3)):
        with pytest.raises(InvalidArgument, match="images to hold finite numbers") as caught:
            model.fit(images, np.zeros((3, 4, 4), dtype=int))
        assert caught.value.__context__ is None


FAILING: dict[str, Any] = {
    "NaN": lambda soft: soft * np.nan,
    "infinite": lambda soft: np.where(soft > 0, np.inf, -np.inf),
    "huge": lambda soft: soft * 1e30,
}


@pytest.mark.parametrize("name", FAILING)
def test_a_teacher_that_says_no_numbers_leaves_the_ledger_as_it_is(
    scans: tuple[Any, Any], name: str, tmp_path: Path
) -> None:
    images, masks = scans
    odd = images.copy()
    odd[7, 0, 0] = 1e9

    def teacher(own: Any, *rest: Any, **how: Any) -> Any:
        soft = thresholded(own, *rest, **how)
        return FAILING[name](soft) if (own == 1e9).any() else soft

    said = []
    for place, private in enumerate((images, odd)):
        model = built(
            PATESegmenter,
            teacher,
            fitted_codec(),
            Stub(),
            n_teachers=20,
            delta=1e-3,
            rounds=4,
            noise=InsecureNoise(0),
            ledger=tmp_path / f"{place}",
            random_state=0,
        )
        model.fit(private[:40], masks[:40], X_public=images[40:50], groups=np.arange(40))
        said.append(model.ledger_.entries())
    assert [each.purpose for each in said[0]] == [each.purpose for each in said[1]]
    # Sigma follows a radius that earlier releases set: the last bit of mu^2 is theirs.
    costs = [[each.cost for each in entries] for entries in said]
    assert costs[0] == pytest.approx(costs[1], rel=1e-15)
    assert len(said[0]) == 4
