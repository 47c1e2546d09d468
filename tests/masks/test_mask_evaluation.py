"""Private evaluation of masks: what a scan says, what is told, who pays, and an audit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.stats import norm

from tacit import Budget, InsecureNoise, Ledger
from tacit.errors import BudgetExceeded, InvalidArgument
from tacit.evaluate import DiceSums, Evaluation, evaluation_section, said_of_masks
from tacit.masks import evaluate_masks
from tacit.methods import NewLedger
from tacit.privacy import gaussian_delta

rng = np.random.default_rng(0)
N = 300
MASKS = np.zeros((N, 8, 8), dtype=int)
for number, mask in enumerate(MASKS[:-30]):  # the last thirty hold nothing
    mask[2 : 4 + number % 3, 2:5] = 1
    mask[5:7, 2:5] = 2 * (number % 2)
SCANS = MASKS + rng.normal(scale=0.1, size=MASKS.shape)


class Reader:
    """Reads masks off the scans, and leaves out a column."""

    def predict(self, scans):
        found = np.round(scans).clip(0, 2).astype(int)
        found[..., 4] = 0
        return found


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "a.ledger", budget=Budget(4.0, 1e-5), unit="scan")


def told(ledger, model=None, **changes):
    asked = {"epsilon": 4.0, "n_records": N, "n_classes": 3, "disjoint": True, "share": 0.9}
    return evaluate_masks(model or Reader(), SCANS, MASKS, ledger=ledger, **{**asked, **changes})


scores = arrays.arrays(np.float64, (5, 3), elements=st.floats(0, 1) | st.just(np.nan))
flags = arrays.arrays(np.bool_, (5, 3))


@given(scores, flags, arrays.arrays(np.bool_, 5))
def test_no_scan_says_more_than_one(dice, there, found):
    rows = said_of_masks(dice, there, found)
    assert (np.linalg.norm(rows, axis=1) <= 1 + 1e-12).all()
    assert np.isfinite(rows).all()


def test_sums_tell_the_mean_and_its_spread():
    dice = rng.beta(8, 2, size=(4000, 2))
    there = rng.uniform(size=dice.shape) < 0.7
    there[:, 0] |= there[:, 1]
    sums = said_of_masks(dice, there, np.ones(4000, dtype=bool)).sum(axis=0)
    read = DiceSums(sums, 1e-9, 4000, 0.8, ["all", "one"])
    for place in range(2):
        mine = dice[there[:, place], place]
        band = read.mean(place)
        assert band.value == pytest.approx(mine.mean())
        half = 1.96 * mine.std() / math.sqrt(len(mine))
        assert half < (band.high - band.low) / 2 < 2 * half
    assert read.something().value == pytest.approx(there[:, 0].mean())


def test_bands_hold_under_noise():
    """A look; tests/evaluate/test_bounded.py has the band by itself."""
    dice = np.where(rng.uniform(size=400) < 0.1, 0.0, rng.beta(18, 3, 400))[:, None]
    rows = said_of_masks(dice, np.ones((400, 1), dtype=bool), np.ones(400, dtype=bool))
    counts = rng.multinomial(500, np.full(400, 1 / 400), 1500)
    sums = counts @ rows + 3.7 * rng.standard_normal((1500, 5))
    band = DiceSums(sums, 3.7, 500, 1.0, ["all"]).mean(0)
    held = ((band.low <= dice.mean()) & (dice.mean() <= band.high)).mean()
    assert held > 0.95 - 3 * math.sqrt(0.05 * 0.95 / 1500)


def test_it_pays_once_and_tells(ledger, tmp_path):
    found = told(ledger)
    assert len(ledger) == 1
    assert ledger.spent() == pytest.approx(4.0, rel=1e-3)
    dice = found.figures()["dice"]
    assert dice[0].value == pytest.approx(0.8, abs=0.15)
    assert found.figures()["left_alone"].value == pytest.approx(1.0, abs=0.3)
    found.write(tmp_path / "evaluation.json")
    assert Evaluation.read(tmp_path / "evaluation.json").to_json() == found.to_json()
    section = evaluation_section(found)
    assert any("mean Dice of class 2" in row for row in section.rows)
    assert len(section.figures) == 1
    with pytest.raises(BudgetExceeded, match="hide it"):
        told(ledger)


def test_a_scan_with_nothing_to_find_is_no_dice_of_one(ledger):
    """Who always says that there is nothing has Dice 0, not a tenth."""

    class Nothing:
        def predict(self, scans):
            return np.zeros(scans.shape, dtype=int)

    found = told(ledger, Nothing(), noise=InsecureNoise(0))
    assert found.figures()["dice"][0].low < 0.05


def test_one_more_scan_moves_its_own_part_alone(tmp_path):
    """With the same noise, sums of neighbours differ by what one scan said, of norm at most 1."""
    sums = []
    for number, rows in enumerate((slice(None), slice(1, None))):
        ledger = Ledger(tmp_path / f"{number}.ledger", budget=Budget(4.0, 1e-5), unit="scan")
        asked = {"epsilon": 4.0, "n_records": N, "n_classes": 3, "disjoint": True}
        found = evaluate_masks(
            Reader(), SCANS[rows], MASKS[rows], ledger=ledger, noise=InsecureNoise(0), **asked
        )
        sums.append(found.tables["sums"])
    assert 0.3 < np.linalg.norm(sums[0] - sums[1]) <= 1 + 1e-6


def test_a_person_counts_once_however_many_scans(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", budget=Budget(4.0, 1e-5), unit="person")
    found = told(ledger, groups=np.zeros(N), n_records=100, noise=InsecureNoise(0))
    alone = Ledger(tmp_path / "b.ledger", budget=Budget(4.0, 1e-5), unit="person")
    none = evaluate_masks(
        Reader(),
        SCANS[-1:],
        MASKS[-1:],
        ledger=alone,
        groups=[0],
        epsilon=4.0,
        n_records=100,
        n_classes=3,
        disjoint=True,
        share=0.9,
        noise=InsecureNoise(0),
    )
    assert np.linalg.norm(found.tables["sums"] - none.tables["sums"]) <= 2  # one person each


def test_a_scan_on_which_the_model_fails_says_nothing_in_silence(ledger, capfd):
    class Moody(Reader):
        def predict(self, scans):
            if scans.any() and scans[0, 0, 0] in SCANS[:5, 0, 0].astype(np.float32):
                raise RuntimeError(f"cannot read {scans}")
            return super().predict(scans)

    told(ledger, Moody(), noise=InsecureNoise(0))
    assert capfd.readouterr() == ("", "")


def test_what_is_refused_costs_nothing_and_makes_no_ledger(tmp_path, ledger):
    new = NewLedger(tmp_path / "new.ledger")
    with pytest.raises(InvalidArgument, match="Nothing was spent"):
        told(new, delta=1e-5, epsilon=0.05)
    with pytest.raises(InvalidArgument, match="delta="):
        told(new)
    with pytest.raises(InvalidArgument, match="disjoint"):
        told(new, delta=1e-5, disjoint=False)
    assert not (tmp_path / "new.ledger").exists()
    with pytest.raises(InvalidArgument, match=r"classes 0 \.\. 1"):
        told(ledger, n_classes=2)
    with pytest.raises(InvalidArgument, match="groups"):
        told(ledger, groups=np.arange(N))

    class Wrong:
        def predict(self, scans):
            return scans[:, 0]

    with pytest.raises(InvalidArgument, match="one mask of shape"):
        told(ledger, Wrong())
    assert len(ledger) == 0


@pytest.mark.parametrize(("shrunk", "is_caught"), [(1.0, False), (math.sqrt(2), True)])
def test_the_audit_catches_too_little_noise(shrunk, is_caught, monkeypatch):
    """One scan with perfect masks more or less, told apart along what it says."""
    from tacit.mechanisms import Contributions, NoisySum

    row = said_of_masks(np.ones((1, 1)), np.ones((1, 1), dtype=bool), np.ones(1, dtype=bool))
    claimed, runs, epsilon = 1.0, 4000, 0.5
    seen = []
    for here in (1, 0):
        said = Contributions(here, lambda rows: np.ones((len(rows), 1)), lambda rows: row[rows])
        drawn = NoisySum(claimed / shrunk, 1, 5)
        noise = InsecureNoise(here)
        seen.append([drawn.release(said, noise).values @ row[0] for _ in range(runs)])
    above = [(np.ravel(each) > 1.0).mean() for each in seen]
    # Clopper-Pearson would do; normal bounds at 4 deviations are enough for 4,000 runs.
    low = above[0] - 4 * math.sqrt(above[0] * (1 - above[0]) / runs)
    high = above[1] + 4 * math.sqrt(above[1] * (1 - above[1]) / runs)
    allowed = float(gaussian_delta(epsilon, 1 / claimed))
    assert (low - math.exp(epsilon) * high > allowed) == is_caught
    assert norm.sf(1.0 * shrunk) == pytest.approx(above[1], abs=0.04)
