"""Studies of masks by commands: the codec is pinned, masks are encoded here, masks come out."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from network import (
    make_aggregator,
    make_coordinator,
    make_site,
    opened,
    pass_the_end,
    reach_the_last_slot,
    served,
)

from tacit.errors import Refused
from tacit.ledger import Budget
from tacit.masks import EncodeMasks, PCACodec, load_codec, save_codec
from tacit_federation import Study, codes_study
from tacit_federation.codes import check_codec, codec_hash, slow_noise

SIDES, SCANS, TEACHERS, REFUSED = (6, 6), 5, 2, 8


def organs(count, seed):
    """Discs that move and grow a little."""
    rng = np.random.default_rng(seed)
    grid = np.indices(SIDES)
    centres = 2.5 + rng.normal(scale=0.6, size=(count, 2, 1, 1))
    far = np.square(grid - centres).sum(axis=1)
    return (far < rng.uniform(2, 6, size=(count, 1, 1))).astype(np.uint8)


@pytest.fixture
def public(tmp_path):
    """A codec of public masks, and scans that look like their masks."""
    np.save(tmp_path / "known.npy", organs(40, 0))
    masks = organs(SCANS, 1)
    np.save(tmp_path / "scans.npy", masks + np.random.default_rng(2).normal(0, 0.1, masks.shape))
    return masks


def new(*more):
    about = ("--title", "organs", "--purpose", "masks", "--inputs", "scans.npy")
    numbers = ("--codec", "organ.codec", "--epsilon", 1e5, "--teachers", TEACHERS)
    return ("study", "new", *about, *numbers, "--quorum-sites", 2, "--json", *more)


def test_masks_by_commands(tacit, tmp_path, clock, public):
    """From public masks to released ones, which are the organ; another codec is refused."""
    coordinator = make_coordinator(tmp_path / "coordinator", clock, budget=Budget(1e6, 1e-6))
    with served(coordinator):
        sites = [make_site(tmp_path / name, coordinator, name, clock) for name in "ab"]
        tacit("study", "codec", "known.npy", "--out", "organ.codec")
        study = json.loads(tacit(*new()))["study"]
        tacit("study", "sign", study[:8])
        tacit("study", "open", study[:8])
        save_codec(PCACodec.fit(organs(40, 9)), "other.codec")
        np.save("told.npy", np.repeat(public[None], TEACHERS, axis=0))
        for site in sites:
            site.run_once()
            place = ("--folder", site.folder)
            shown = tacit("site", "approve", study[:8], "--confirm", study[:8], *place)
            assert codec_hash(load_codec("organ.codec")) in shown
            told = ("site", "answer", study[:8], "--answers", "told.npy", *place)
            tacit(*told, "--codec", "other.codec", code=REFUSED)
            assert site.find(study).state == "approved"
            tacit(*told, "--codec", "organ.codec")
        read = Study.read(coordinator.find(study)["text"])
        reach_the_last_slot(clock, read)
        for site in sites:
            site.run_once()
        pass_the_end(clock, read)
        out = ("--masks", "soft.npy", "--codec")
        tacit("study", "release", study[:8], *out, "other.codec", code=REFUSED)
        assert len(coordinator.ledger) == 0
        tacit("study", "release", study[:8], *out, "organ.codec")
        soft = np.load("soft.npy")
        assert soft.shape == public.shape
        assert ((soft > 0.5) == public).mean() > 0.9
        assert np.abs(soft - public).mean() < np.abs(organs(SCANS, 3) - public).mean()
        for site in sites:
            site.close()
    coordinator.close()


def test_two_aggregators_are_drafted_the_same_way(tacit, tmp_path, clock, public):
    """The price is the one asked for, and half of mu^2 to those who see the total alone."""
    coordinator = make_coordinator(tmp_path / "coordinator", clock, budget=Budget(1e6, 1e-6))
    with served(coordinator):
        for name in "ab":
            make_site(tmp_path / name, coordinator, name, clock).close()
    for role in ("first", "second"):
        place = make_aggregator(tmp_path / role, clock)
        tacit("aggregator", "describe", f"{role}.json", "--role", role, "--folder", role)
        place.close()
    tacit("study", "codec", "known.npy", "--out", "organ.codec")
    both = ("--first", "first.json", "--second", "second.json")
    told = json.loads(tacit(*new(*both, "--epsilon", 2)))
    assert told["epsilon"] == pytest.approx(2, rel=1e-3)
    study = Study.read(coordinator.find(told["study"])["text"])
    assert (study.mode, study.plan.mechanism.name) == ("two-aggregators", "shared-codes")
    assert study.answers["codec"] == codec_hash(load_codec("organ.codec"))
    tacit(*new(*both, "--classes", 3), code=2)
    tacit("study", "new", "--title", "x", "--purpose", "x", "--inputs", "scans.npy",
          "--quorum-sites", 2, code=2)  # fmt: skip
    coordinator.close()


def test_a_pinned_codec_is_the_only_one_and_is_asked_before_teachers_are(network, public):
    """Also where teachers are to be trained: nothing of theirs has begun by then."""
    coordinator, sites = network
    codec, other = (PCACodec.fit(organs(40, seed), n_components=4) for seed in (0, 9))
    scans = np.zeros((6, *SIDES))
    budget = {"epsilon": 1e5, "delta": 1e-7, "shared": False}
    plan, codes, frame = codes_study(codec, scans, n_teachers=6, **budget)
    study = opened(coordinator, classes=None, codes=codes, plan=plan, frame=frame)
    site = sites[0]
    site.run_once()
    site.approve(study.hash, hash=study.hash)
    records = {"X": scans, "y": organs(6, 1), "groups": range(6)}
    with pytest.raises(Refused, match="pins"):
        site.answer(study.hash, teacher=object(), encode=EncodeMasks(other, 2), **records)
    with pytest.raises(Refused, match="pins"):
        check_codec(study, other)
    check_codec(study, codec)


def test_noise_that_takes_long_is_said_before(network):
    """A million numbers at 2^38 steps take about 17 seconds; a few hundred do not."""
    coordinator, _ = network
    codec = PCACodec.fit(organs(40, 0), n_components=4)
    plan, codes, frame = codes_study(
        codec, np.zeros((6, *SIDES)), n_teachers=6, epsilon=1e-3, delta=1e-7, shared=False
    )
    study = opened(coordinator, classes=None, codes=codes, plan=plan, frame=frame)
    assert slow_noise(study) == ""
    inputs = {**study.inputs, "shape": [250_000, *study.inputs["shape"][1:]]}
    larger = dataclasses.replace(study, inputs=inputs)
    steps = math.log2(plan.mechanism.deviation / plan.mechanism.grid)
    assert f"2^{steps:.0f} steps" in slow_noise(larger)
