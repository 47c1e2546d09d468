"""What the page on PATE 2018 claims of the paper's remarks, and of our own rules."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from papers.pate_glyph import CHARACTERS, SIDE, ensemble_votes, features, sample, shapes
from papers.pate_votes import ASKED, LABELS, MOMENTS, VOTES
from tacit.datasets import read_rows, read_votes
from tacit.methods.pate import AGREEMENT, CHECK_SHARE, ROUND_ONE_SHARE, vote_plan
from tacit.privacy import DEFAULT_ORDERS, RdpCurve, gaussian_rdp, gnmax_log_q, gnmax_rdp, lnmax_rdp

PAGE = (Path(__file__).parents[2] / "docs" / "replication" / "pate.md").read_text("utf-8")


@pytest.mark.parametrize("sigma", [2.0, 10.0, 40.0])
@pytest.mark.parametrize("times", [4, 6, 10, 30])
def test_corollary_11_lies_above_both_bounds(sigma: float, times: int) -> None:
    gap = times * sigma
    order = gap / 4
    votes = [[int(3 * gap), int(2 * gap), int(gap)]]
    tight, theorem6 = (gnmax_rdp(votes, sigma, [order], b)[0, 0] for b in ("tight", "theorem6"))
    corollary = math.exp(-2 * order / sigma**2) / order
    assert tight < theorem6 < corollary
    assert theorem6 < order / sigma**2  # the data-dependent bound applies, so this says something


def test_a_gap_of_four_sigma() -> None:
    q = math.exp(float(gnmax_log_q([[100, 60]], 10)[0]))
    assert q == pytest.approx(math.erfc(2) / 2, rel=1e-12)
    assert q > 20_000 * math.exp(-16)


def test_what_was_called_advanced_composition() -> None:
    """The Confident run of Glyph by Theorems 4 and 5: 10.10, close to the printed 10.14."""
    mu_squared = 12_000 / 500**2 + 2 * 10_762 / 100**2
    curve = RdpCurve(DEFAULT_ORDERS, gaussian_rdp(1 / math.sqrt(mu_squared), DEFAULT_ORDERS))
    assert float(curve.epsilon(1e-8, "classic")) == pytest.approx(10.10, abs=0.01)


@pytest.mark.data
def test_the_rows_of_lnmax_are_priced_for_other_noise_than_was_drawn(data_dir: Path) -> None:
    votes = read_votes(data_dir / VOTES)
    asked = votes[read_rows(data_dir / ASKED, n_rows=len(votes))]

    def epsilon(scale: float) -> float:
        cost = lnmax_rdp(asked, 1 / scale, MOMENTS, "pate2017").sum(axis=0)
        return float(RdpCurve(MOMENTS, cost).epsilon(1e-5, "classic"))

    assert math.floor(100 * epsilon(10)) == 204  # as printed, cut
    assert epsilon(20) == pytest.approx(1.96, abs=0.005)
    published = (np.load(data_dir / LABELS) == votes.argmax(axis=1)).mean()
    rng = np.random.default_rng(0)
    drawn = {
        scale: ((votes + rng.laplace(0, scale, votes.shape)).argmax(axis=1) == votes.argmax(axis=1))
        for scale in (10, 20)
    }
    error = drawn[20].std() / math.sqrt(len(votes))
    assert abs(published - drawn[20].mean()) < 4 * error < abs(published - drawn[10].mean())


def test_the_rules_are_those_of_the_code() -> None:
    """The table of parameters on the page, read against what plans are made of."""
    start = PAGE.index("| T of Confident-GNMax |")
    table = PAGE[start : PAGE.index("\n\n", start)]
    ours = [line.split("|")[3].strip() for line in table.splitlines()]
    public = {"n_teachers": 1000, "n_classes": 10}
    confident = vote_plan("confident-gnmax", 100, 1.0, **public)
    interactive = vote_plan("interactive-gnmax", 100, 1.0, **public)
    assert ours[0] == f"{AGREEMENT:g} n" == f"{confident.mechanism.threshold / 1000:g} n"  # type: ignore[attr-defined]
    assert CHECK_SHARE == 0.1
    assert ours[1] == "a tenth of mu^2"
    shares = [int(share) for share in re.findall(r"(\d+) %", ours[2])]
    assert shares == [confident.max_answers, interactive.max_answers]
    assert ours[3].startswith(f"{100 * ROUND_ONE_SHARE:.0f} %")
    assert ours[4] == f"{interactive.mechanism.threshold / 1000:g} n"  # type: ignore[attr-defined]
    assert ours[5] == f"{interactive.mechanism.confidence:g}"  # type: ignore[attr-defined]


def test_the_stand_in_is_as_uncurated_as_it_says() -> None:
    drawn = sample(20_000, np.random.default_rng(0))
    assert len(set(CHARACTERS)) == 150
    assert drawn.images.shape == (20_000, SIDE * SIDE)
    assert 0 <= drawn.images.min() <= drawn.images.max() <= 1
    assert (drawn.labels != drawn.truth).mean() == pytest.approx(0.1, abs=0.01)
    counts = np.bincount(drawn.truth, minlength=150)
    assert counts[:10].sum() / counts[-10:].sum() == pytest.approx(5, rel=0.3)
    assert len(shapes()) >= 12  # matplotlib's own DejaVu
    assert shapes().reshape(-1, SIDE * SIDE).max(axis=1).min() > 0.5  # no character is blank


def test_teachers_of_the_stand_in_know_something() -> None:
    drawn = sample(300, np.random.default_rng(1))
    votes = ensemble_votes(5, 300, features(drawn.images), seed=2)
    assert (votes.sum(axis=1) == 5).all()
    assert (votes.argmax(axis=1) == drawn.truth).mean() > 0.4
