"""Studies of codes: masks of many sites, clipped where they are, added by one house or by two."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from network import QUERIES, draft, pass_the_end, reach_the_last_slot

from tacit.errors import InvalidArgument, Refused
from tacit.masks import EncodeMasks, IdentityCodec, MaskRounds, PCACodec
from tacit.mechanisms import GaussianMean, Plan, SharedCodes
from tacit.noise import GrantedNoise
from tacit_federation import SigningKey, answering, frame_file, read_release, release_study
from tacit_federation.inputs import check_frame, read_frame
from tacit_federation.one_teacher import _answers

LENGTH, TEACHERS = 4, 2
CENTRES = np.arange(LENGTH) / 10
FRAME = frame_file(CENTRES, np.ones(LENGTH), (QUERIES, LENGTH))
ABOUT = {"length": LENGTH, "frame": hashlib.sha256(FRAME).hexdigest()}
MEAN = GaussianMean(0.01, 1.0, 3 * TEACHERS, joint=QUERIES)


def codes_of(number):
    return np.random.default_rng(number).normal(size=(TEACHERS, QUERIES, LENGTH))


def test_one_house_releases_the_mean_of_clipped_codes(network, clock, monkeypatch):
    """Wild codes are clipped at the site; whoever is absent does not count."""
    coordinator, sites = network
    study = draft(
        coordinator, classes=None, codes=ABOUT, plan=Plan(MEAN, 1), frame=FRAME, teachers=TEACHERS
    )
    coordinator.sign(study.hash, _officer(coordinator))
    coordinator.open(study.hash)
    told = {0: 1e6 * codes_of(0), 1: codes_of(1)}
    for number, site in enumerate(sites[:2]):
        site.run_once()
        site.approve(study.hash, hash=study.hash)
        site.run_once()
        site.answer(study.hash, answers=told[number])
    reach_the_last_slot(clock, study)
    for site in sites[:2]:
        site.run_once()
    pass_the_end(clock, study)
    zero = lambda self, sigma, grid, size: np.zeros(size, dtype=np.int64)  # noqa: E731
    monkeypatch.setattr(GrantedNoise, "rounded_gaussian_steps", zero)
    found = read_release(study, release_study(coordinator, study.hash))
    steps = sum(MEAN.summed_steps(each, centres=CENTRES) for each in told.values())
    assert found.release.values == pytest.approx(CENTRES + steps * MEAN.grid / (2 * TEACHERS))
    assert np.linalg.norm(found.release.values - CENTRES) <= 1.0
    sites[0].run_once()
    assert np.array_equal(sites[0].release(study.hash).release, found.release)


def _officer(coordinator):
    return SigningKey.open(coordinator.folder / "officer.key")


def test_a_frame_is_what_the_study_names(network):
    coordinator, _ = network
    study = draft(
        coordinator, classes=None, codes=ABOUT, plan=Plan(MEAN, 1), frame=FRAME, teachers=TEACHERS
    )
    assert np.array_equal(read_frame(study, FRAME)["centres"][0], CENTRES)
    for wrong in (FRAME[:-1], FRAME + b"\0", frame_file(0, 1, (QUERIES, LENGTH)), b""):
        with pytest.raises(Refused):
            check_frame(study, wrong)
    for change in (
        {"plan": Plan(GaussianMean(0.01, 1.0, 7, joint=QUERIES), 1)},
        {"plan": Plan(SharedCodes(0.01, 1.0, 6, joint=QUERIES), 1)},
        {"codes": {"length": 0, "frame": ABOUT["frame"]}},
        {"codes": {**ABOUT, "more": 1}},
    ):
        told = {"codes": ABOUT, "plan": Plan(MEAN, 1), "teachers": TEACHERS, **change}
        with pytest.raises(InvalidArgument):
            draft(coordinator, classes=None, frame=FRAME, **told)


def square(images, masks, queries, *, n_classes, seed):
    """A teacher that says the first of its masks of every scan."""
    return np.repeat(np.eye(n_classes)[masks[:1]].transpose(0, 3, 1, 2), len(queries), axis=0)


def test_teachers_of_masks_answer_in_codes_and_failures_say_the_centre(monkeypatch):
    """Each would be a process; here the same job runs in this one."""

    def one(job, limits):
        try:
            return _answers(*job)
        except Exception:
            return None

    monkeypatch.setattr(answering, "_one_teacher", one)
    scans = np.random.default_rng(0).normal(size=(6, 4, 4))
    masks = np.zeros((6, 4, 4), dtype=np.int64)
    masks[:, 1:3, 1:3] = 1
    encode = EncodeMasks(IdentityCodec((4, 4)), 2)
    sizes = {"n_teachers": 5, "length": 16, "key": b"\1" * 32}
    limits = answering.Limits(10, 1000)
    records = (scans, masks, np.zeros(6, dtype=np.int64))  # one person, hence one teacher
    codes = answering.ask_for_codes(
        square, records, scans[:3], encode=encode, limits=limits, **sizes
    )
    spoke = np.isfinite(codes).all(axis=(1, 2))
    assert spoke.sum() == 1
    assert np.array_equal(codes[spoke][0], np.tile(masks[0].ravel() - 0.5, (3, 1)))
    odd = (masks + 0.5, np.full((4, 4), np.nan), np.full((4, 4), 1e30), [[1], [2, 3]], None)
    for mask in (odd[0][0], *odd[1:]):  # left out by itself, without a word, warnings included
        more = ([*scans, scans[0]], [*masks, mask], np.zeros(7, dtype=np.int64))
        found = answering.ask_for_codes(
            square, more, scans[:3], encode=encode, limits=limits, **sizes
        )
        assert np.array_equal(found, codes, equal_nan=True)
    with pytest.raises(InvalidArgument, match="rehearsal"):
        answering.ask_for_codes(
            lambda *given: 1 / 0, records, scans[:3], encode=encode, limits=limits, **sizes
        )


def test_rounds_of_two_aggregators_know_both_noises():
    """They are those of one house with sqrt(2) times the noise, at twice its mu^2."""
    rng = np.random.default_rng(0)
    known = (rng.normal(size=(30, 6, 6)) + np.outer(*[np.hanning(6)] * 2) * 3 > 1).astype(float)
    codec = PCACodec.fit(known)
    scans = rng.normal(size=(5, 6, 6))
    about = {"n_teachers": 8, "each_alone": False, "rounds": 1}
    plans = {}
    for shared, noise in ((False, 0.2 * np.sqrt(2)), (True, 0.2)):
        rounds = MaskRounds(codec, scans, shared=shared, noise=noise, **about)
        for _, plan, _public in rounds:
            plans[shared] = plan
            values = np.zeros((5, codec.length))
            release = type("R", (), {"values": values, "mechanism": plan.mechanism})()
            rounds.learn(release, teachers=4)
            plans[shared, "noise"] = rounds._released[0][1]
    assert plans[True].mu_squared() == pytest.approx(2 * plans[False].mu_squared())
    assert plans[True, "noise"] == pytest.approx(plans[False, "noise"])
    with pytest.raises(InvalidArgument, match="each_alone"):
        MaskRounds(codec, scans, shared=True, **{**about, "noise": 1.0, "each_alone": True})
