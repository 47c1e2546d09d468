"""Components bought from private masks: paid for, said so, and useful."""

from __future__ import annotations

import numpy as np
import pytest
from blobs import blobs

from tacit import Budget, BudgetExceeded, InsecureNoise, Ledger
from tacit.errors import InvalidArgument
from tacit.masks import DPPCACodec, PCACodec
from tacit.masks.pca import explained
from tacit.mechanisms import NoisySecondMoment

MASKS = blobs(2000, (8, 8), seed=3)
NUMBERS = {"sigma": 3.0, "radius": 4.0, "n_masks": 2000, "n_components": 8}


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "run.ledger", budget=Budget(2.0, 1e-5), unit="patient")


def test_it_is_bought_through_the_ledger(ledger):
    codec = DPPCACodec.buy(MASKS, ledger, **NUMBERS)
    assert len(ledger) == 1
    assert ledger.entries()[0].cost == pytest.approx(1 / 9)
    assert codec.provenance == "dp"
    assert ledger.head in codec.statement
    assert "NOT private" not in codec.statement
    assert "one vector" in ledger.statement().assumes[0]


def test_nothing_is_bought_beyond_the_budget(ledger):
    with pytest.raises(BudgetExceeded):
        DPPCACodec.buy(MASKS, ledger, **{**NUMBERS, "sigma": 0.5})
    assert len(ledger) == 0


def test_seeded_noise_is_named(ledger):
    codec = DPPCACodec.buy(MASKS, ledger, noise=InsecureNoise(0), **NUMBERS)
    assert "NOT private" in codec.statement


def bought(ledger, **changes):
    """Seeded, centred with the mean of a few public masks."""
    numbers = {**NUMBERS, "mean": blobs(50, (8, 8), seed=5).mean(axis=0), **changes}
    return DPPCACodec.buy(MASKS, ledger, noise=InsecureNoise(0), **numbers)


def test_components_are_orthonormal_and_explain_new_masks(ledger):
    codec = bought(ledger)
    assert np.allclose(codec.components @ codec.components.T, np.eye(8), atol=1e-9)
    fresh = blobs(100, (8, 8), seed=4)
    public = PCACodec.fit(MASKS, n_components=8)
    errors = [np.square(c.decode(c.encode(fresh)) - fresh).mean() for c in (codec, public)]
    assert errors[0] < 1.5 * errors[1]
    assert errors[0] < 0.45 * np.square(public.mean - fresh).mean()


def test_spectrum_is_the_second_moment_about_the_public_mean(ledger):
    """Of the noisy components, and without what the noise adds to the roots."""
    codec = bought(ledger)
    measured = np.square(codec.encode(MASKS)).mean(axis=0)
    large = codec.spectrum > 0.2
    assert large.sum() >= 3
    assert np.allclose(codec.spectrum[large], measured[large], rtol=0.15)
    assert codec.radius == pytest.approx(np.sqrt(codec.spectrum.sum()))
    assert codec.ellipsoid(0.1).radius == pytest.approx(1.0)


def test_pure_noise_has_no_spectrum():
    mechanism = NoisySecondMoment(2.0, 40)
    noisy = mechanism._draw(np.zeros((40, 40), dtype=np.int64), InsecureNoise(0), 20)
    roots = np.linalg.eigvalsh(noisy)
    assert (explained(roots, mechanism) < 0.4 * roots.max()).all()
    assert (explained(roots, mechanism) > 0).mean() < 0.02


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_broken_masks_count_as_nothing_or_are_clipped(ledger, bad):
    masks = MASKS.copy()
    masks[0] = bad
    codec = DPPCACodec.buy(masks, ledger, noise=InsecureNoise(0), **NUMBERS)
    assert np.isfinite(codec.components).all()


def test_a_public_mean_may_be_given(ledger):
    mean = MASKS[:50].mean(axis=0)
    codec = DPPCACodec.buy(MASKS[50:], ledger, mean=mean, **NUMBERS)
    assert np.array_equal(codec.mean, mean)
    with pytest.raises(InvalidArgument):
        DPPCACodec.buy(MASKS, ledger, mean=np.zeros(7), **NUMBERS)


def test_what_would_be_refused_is_refused_before_anything_is_paid(ledger):
    for wrong in ({"n_components": 0}, {"n_masks": 0}, {"mean": np.zeros(5)}):
        with pytest.raises(InvalidArgument):
            DPPCACodec.buy(MASKS, ledger, **{**NUMBERS, **wrong})
    assert len(ledger) == 0
