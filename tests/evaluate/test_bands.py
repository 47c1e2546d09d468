"""Bands cover, on made-up scores; the whole table is `benchmarks.evaluation_coverage`."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.evaluate import BinaryTable, ConfusionTable, ScoreBins, Told, bins_for
from tacit.evaluate.bands import auc_band, average_precision, fitted_slope, share_band
from tacit.evaluate.numbers import NumberSums, said_of_number, scales_of

RUNS = 1000
CELLS = [(500, 0.3, 3.7), (2000, 0.3, 11.0), (2000, 0.05, 3.7), (20_000, 0.03, 7.0)]


def covers(band, truth):
    return float(((band.low <= truth) & (truth <= band.high)).mean())


def simulated(n, share, sigma, *, noise=1.0, seed=0):
    """Tables of normal scores, the exact one of all of them, and the true area."""
    rng = np.random.default_rng(seed)
    no, yes = (1 / (1 + np.exp(-rng.normal(mean, 1.3, 20_000))) for mean in (-1.5, 0.5))
    few = int(2000 * share)
    public = np.concatenate([rng.choice(yes, few), rng.choice(no, 2000 - few)])
    bins = ScoreBins.of(public, bins_for(n, share, sigma), thresholds=[0.5])
    cells = np.stack(
        [
            part * np.bincount(np.searchsorted(bins.edges, each, "right"), minlength=bins.count)
            for part, each in ((1 - share, no), (share, yes))
        ]
    )
    cells = cells / cells.sum()
    shape = (RUNS, *cells.shape)
    table = rng.multinomial(n, cells.ravel(), RUNS).reshape(shape)
    table = table + noise * sigma * rng.standard_normal(shape)
    told = Told.at(n, share, sigma, bins)
    area = float(np.searchsorted(np.sort(no), yes).mean() / len(no))
    return BinaryTable(table, sigma, bins, told), BinaryTable(1e12 * cells, 0.0, bins, told), area


@pytest.mark.parametrize(("n", "share", "sigma"), CELLS)
class TestCoverage:
    """1,000 runs: three deviations of .95 are .93 to .97."""

    def test_every_figure(self, n, share, sigma):
        tables, exact, area = simulated(n, share, sigma)
        edge = int(np.abs(tables.bins.edges - 0.5).argmin())
        assert tables.told.ranking
        found = {"auc": covers(tables.auc(), area), "share": covers(tables.share(), share)}
        for name in ("brier", "average_precision"):
            found[name] = covers(getattr(tables, name)(), getattr(exact, name)().value)
        truth = exact.at(edge)
        found |= {name: covers(band, truth[name].value) for name, band in tables.at(edge).items()}
        for place, (mine, true) in enumerate(
            zip(tables.calibration(), exact.calibration(), strict=True)
        ):
            found[f"calibration {place}"] = covers(mine[1], true[1].value)
        assert min(found.values()) > 0.925, found
        assert max(found.values()) < 0.98, found

    def test_noise_that_nobody_counted_is_seen(self, n, share, sigma):
        """The mutant: twice the noise, the same bands."""
        tables, _, area = simulated(n, share, sigma, noise=2.0)
        assert covers(tables.auc(), area) < 0.93


class TestTies:
    """Private scores fill one bin: nothing tells who is ahead inside it."""

    @pytest.mark.parametrize("public", [None, (5, 5)])
    def test_an_area_that_only_a_presumption_tells_has_a_wide_band(self, public):
        rng = np.random.default_rng(0)
        bins = ScoreBins.even(12) if public is None else ScoreBins.of(rng.beta(*public, 2000), 12)
        score, truth = rng.uniform(0, 0.08, 20_000), rng.uniform(size=20_000) < 0.03
        place = np.searchsorted(bins.edges, score, "right")
        table = np.stack([np.bincount(place[truth == c], minlength=12) for c in (False, True)])
        noisy = table + 4.0 * rng.standard_normal((200, *table.shape))
        band = BinaryTable(noisy, 4.0, bins, Told.at(20_000, 0.03, 4.0, bins)).auc()
        no, yes = np.sort(score[~truth]), score[truth]
        assert covers(band, np.searchsorted(no, yes).mean() / len(no)) > 0.93

    def test_a_slope_that_many_bins_tell_is_certain(self):
        tables, _, _ = simulated(20_000, 0.3, 3.7)
        _, deviation = fitted_slope(tables.table, 3.7, tables.bins.logits)
        assert deviation.max() < 0.1
        _, unknown = fitted_slope(0 * tables.table, 3.7, tables.bins.logits)
        assert unknown == pytest.approx(1.0)


class TestWhatIsTold:
    def test_few_positives_under_noise_tell_no_ranking(self):
        tables, _, _ = simulated(500, 0.03, 11.0)
        assert not tables.told.ranking
        assert "auc" not in tables.figures()
        assert "recall" not in tables.at(0)

    def test_refusing_on_noisy_counts_would_break_the_bands(self):
        """What the page warns of: keep only tables whose noisy positives look clear."""
        tables, _, _ = simulated(4000, 0.03, 7.0)
        looks_clear = tables.table[:, 1].sum(-1) > 6 * 7.0 * tables.bins.count**0.5
        share = tables.share()
        assert 0.93 < covers(share, 0.03) < 0.97
        assert 20 < looks_clear.sum() < RUNS / 2
        assert covers(type(share)(*(end[looks_clear] for end in share)), 0.03) < 0.9

    def test_bins_come_from_public_scores_and_hold_the_threshold(self):
        bins = ScoreBins.of(np.linspace(0, 1, 500), 12, thresholds=[0.2, 0.5])
        assert {0.2, 0.5} <= set(bins.edges.tolist())
        assert (np.diff(bins.edges) > 0).all()
        assert bins.mass.sum() == pytest.approx(1)
        again = ScoreBins.from_dict(bins.as_dict())
        np.testing.assert_array_equal(again.gini, bins.gini)

    @pytest.mark.parametrize("cut", [0.2, 0.3, 0.45, 0.48, 0.6])
    def test_no_threshold_takes_the_place_of_another(self, cut):
        rare = np.random.default_rng(0).beta(1, 20, size=2000)
        wanted = sorted({cut, 0.5})
        for bins in (
            ScoreBins.of(rare, 12, thresholds=wanted),
            ScoreBins.even(12, thresholds=wanted),
        ):
            assert set(wanted) <= set(bins.edges.tolist())
            assert bins.count <= 12

    def test_equal_public_scores_leave_fewer_bins(self):
        bins = ScoreBins.of([0.1] * 50 + [0.9] * 50, 12, thresholds=[0.5])
        assert bins.edges.tolist() == [0.5, 0.9]


class TestWithoutNoise:
    """Bands of exact counts are the usual ones."""

    def test_a_share_has_wilsons_band(self):
        from scipy.stats import binomtest

        band = share_band(np.array(7.0), np.array(43.0), (1, 1), 0.0)
        known = binomtest(7, 50).proportion_ci(method="wilson")
        assert (band.low, band.high) == pytest.approx((known.low, known.high))

    def test_the_area_is_scikit_learns(self):
        from sklearn.metrics import average_precision_score, roc_auc_score

        rng = np.random.default_rng(0)
        y, bins = rng.integers(0, 2, 300), rng.integers(0, 5, 300)
        table = np.stack([np.bincount(bins[y == c], minlength=5) for c in (0, 1)]).astype(float)
        assert auc_band(table, 0.0, np.full(5, 0.5)).value == pytest.approx(roc_auc_score(y, bins))
        assert average_precision(table) == pytest.approx(average_precision_score(y, bins))


class TestClasses:
    def test_confusion_covers(self):
        rng = np.random.default_rng(3)
        chances = np.array([[0.5, 0.05, 0.02], [0.03, 0.2, 0.02], [0.01, 0.02, 0.15]])
        table = rng.multinomial(3000, chances.ravel(), RUNS).reshape(RUNS, 3, 3)
        noisy = table + 5.0 * rng.standard_normal((RUNS, 3, 3))
        shares = chances.sum(1)
        tables, exact = (
            ConfusionTable(each, sigma, 3000, shares)
            for each, sigma in ((noisy, 5.0), (1e12 * chances, 0.0))
        )
        assert 0.93 < covers(tables.accuracy(), exact.accuracy().value) < 0.97
        assert 0.93 < covers(tables.recall(2), exact.recall(2).value) < 0.97
        truth = exact.balanced_accuracy().value
        assert 0.93 < covers(tables.balanced_accuracy(), truth) < 0.97

    def test_a_class_that_is_too_rare_is_not_told(self):
        table = ConfusionTable(np.zeros((2, 2)), 10.0, 1000, np.array([0.99, 0.01]))
        assert table.told == [True, False]
        assert "balanced_accuracy" not in table.figures()


class TestNumbers:
    def test_rows_have_norm_one_at_the_most(self):
        wild = np.array([0.0, 1.0, -1.0, 1e300, np.inf, np.nan, 0.5])
        rows = np.concatenate([said_of_number(np.full(len(wild), one), wild) for one in wild])
        assert np.isfinite(rows).all()
        assert (np.linalg.norm(rows, axis=1) <= 1 + 1e-12).all()

    def test_r_squared_and_error_cover(self):
        rng = np.random.default_rng(4)
        said = rng.uniform(-0.8, 0.8, 20_000)
        truth = np.clip(said + rng.normal(0, 0.15, 20_000), -1, 1)
        r = truth - said
        rows = said_of_number(truth, r)
        sigma, n = 7.0, 3000
        sums = np.stack([rows[rng.integers(0, 20_000, n)].sum(0) for _ in range(400)])
        sums = sums + sigma * rng.standard_normal(sums.shape)
        spread = float((said**2).mean()), float((said**4).mean())
        found = NumberSums(sums, sigma, n, (1.0, 1.0), spread)
        assert set(found.told) == {"r_squared", "mean_absolute_error"}
        assert 0.92 < covers(found.r_squared(), 1 - (r**2).mean() / truth.var()) < 0.98
        assert 0.92 < covers(found.mean_absolute_error(), np.abs(r).mean()) < 0.98

    @pytest.mark.parametrize("centre", [0.0, 0.1, 0.5, 1.0])
    def test_numbers_within_the_bounds_are_never_clipped(self, centre):
        """The largest target and the largest residual say all that they are."""
        ends = np.array([0.0, 1.0])
        target, residual = scales_of(0.0, 1.0, centre)
        rows = said_of_number((ends - centre) / target, np.array([-1.0, 1.0]) / residual)
        sums = NumberSums(rows, 0.0, 2, (target, residual), (0.1, 0.1)).moments()
        np.testing.assert_allclose(sums[:, 1] * target + centre, ends, atol=1e-12)
        np.testing.assert_allclose(sums[:, 3] * residual, 1.0)
        assert (np.linalg.norm(rows, axis=1) <= 1 + 1e-12).all()

    def test_a_skewed_target_is_covered(self):
        """A tenth of the targets is far from the mean of predictions, and half seen."""
        rng = np.random.default_rng(5)
        rare = rng.uniform(size=20_000) < 0.1
        truth = 0.95 * rare + rng.uniform(0, 0.05, 20_000)
        said = np.clip(np.where(rare, 0.3, 0.05) + rng.normal(0, 0.02, 20_000), 0, 1)
        centre, sigma, n = said.mean(), 3.0, 20_000
        scale = scales_of(0.0, 1.0, centre)
        rows = said_of_number((truth - centre) / scale[0], (truth - said) / scale[1])
        sums = np.stack([rows[rng.integers(0, n, n)].sum(0) for _ in range(100)])
        sums = sums + sigma * rng.standard_normal(sums.shape)
        spread = (said - centre) / scale[0]
        predicted = float((spread**2).mean()), float((spread**4).mean())
        found = NumberSums(sums, sigma, n, scale, predicted)
        left = ((truth - said) ** 2).mean()
        assert covers(found.r_squared(), 1 - left / truth.var()) >= 0.9
        assert covers(found.mean_absolute_error(), np.abs(truth - said).mean()) >= 0.9
