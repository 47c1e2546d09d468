"""Lazy draws are subsample-then-search: for every pattern of coins, and in law.

Statistical tests fail by chance with probability below 1e-9 each.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from plain_neighbours import (
    ScriptedNoise,
    Table,
    all_rows,
    all_subsets,
    crowded_table,
    drawn,
    subset_chance,
)
from scipy.stats import binom, chi2

from tacit.errors import GrantError, InvalidArgument
from tacit.neighbours import Neighbourhoods, NeighbourIndex, default_reach, neighbourhoods
from tacit.noise import GrantedNoise, InsecureNoise, SecureNoise

TABLES = {
    "records": crowded_table(1, 7, 7),
    "people": crowded_table(2, 6, 13),
    "two votes": crowded_table(3, 6, 15, votes_per_unit=2),
    "three votes": crowded_table(4, 5, 18, votes_per_unit=3),
}
every_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
QUERIES = all_rows((-2, 0, 1), (0, 2))


def coins(table: Table, query: np.ndarray, sample: tuple[int, ...]) -> list[int]:
    """At which ranks the coins fall heads when just this sample of units takes part."""
    return [rank for rank, unit in enumerate(table.unit_order(query)) if unit in sample]


# --- every pattern of coins -----------------------------------------------------------------


@every_table
@pytest.mark.parametrize("reach", [1, 2, 4, 100])
def test_every_subset_gives_what_searching_the_subset_gives(table: Table, reach: int) -> None:
    """All subsets of units, all k: with equal coins both are equal, and so their laws are."""
    around = table.index().search(QUERIES, reach)
    samples = all_subsets(set(table.units.tolist()))
    for row, query in enumerate(QUERIES):
        heads = [coins(table, query, sample) for sample in samples]
        for k in (1, 2, 3, 6, 9):
            found = drawn(around, k, 0.5, ScriptedNoise(heads), [row] * len(samples))
            assert found == [table.nearest(query, k, sample) for sample in samples]


@every_table
@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(7, 8)])
def test_the_exact_law_is_that_of_a_poisson_sample(table: Table, rate: Fraction) -> None:
    """Skips weighted by the geometric law against subsets weighted by their own chances.

    A pattern of skips is cut after k heads, as a lazy walk is, so that its weight owes nothing to
    later coins: the two sums are over different things.
    """
    k, query, total = 2, QUERIES[3], len(set(table.units.tolist()))
    eager: Counter[tuple[int, ...]] = Counter()
    for sample in all_subsets(set(table.units.tolist())):
        eager[tuple(table.nearest(query, k, sample))] += subset_chance(sample, total, rate)
    walks = [heads for heads in all_subsets(range(total)) if len(heads) <= k]
    around = table.index().search(query[None], 1)
    found = drawn(around, k, 0.5, ScriptedNoise([list(walk) for walk in walks]), [0] * len(walks))
    lazy: Counter[tuple[int, ...]] = Counter()
    for walk, keys in zip(walks, found, strict=True):
        tossed = walk[-1] + 1 if len(walk) == k else total
        lazy[tuple(keys)] += rate ** len(walk) * (1 - rate) ** (tossed - len(walk))
    assert sum(lazy.values()) == 1
    assert lazy == eager


def truncate(self: Neighbourhoods, result: np.ndarray, rows: np.ndarray, heads: np.ndarray) -> None:
    neighbourhoods._look_up(self._ranking.of(rows), heads, result)


def test_a_truncated_walk_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Neighbourhoods, "_fill", truncate)
    with pytest.raises(AssertionError):
        test_every_subset_gives_what_searching_the_subset_gives(TABLES["records"], 2)
    with pytest.raises(AssertionError):
        test_the_exact_law_is_that_of_a_poisson_sample(TABLES["records"], Fraction(1, 4))


# --- one unit more or less ------------------------------------------------------------------


@pytest.mark.parametrize("votes", [1, 2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_one_unit_displaces_no_more_than_its_votes(seed: int, votes: int) -> None:
    """The same coin for each unit in both data sets; ties and duplicates everywhere."""
    rng = np.random.default_rng(seed)
    table = crowded_table(seed, 9, 9 if votes == 1 and seed % 2 else 30, votes)
    gone = int(rng.integers(9))
    smaller = table.without(gone)
    before, after = (each.index().search(QUERIES, 3) for each in (table, smaller))
    widest = 0
    for row, query in enumerate(QUERIES):
        samples = [tuple(np.flatnonzero(rng.random(9) < 0.6)) for _ in range(30)]
        for k in (1, 4, 8):
            pairs = [
                drawn(
                    around,
                    k,
                    0.5,
                    ScriptedNoise([coins(each, query, s) for s in samples]),
                    [row] * 30,
                )
                for around, each in ((before, table), (after, smaller))
            ]
            for sample, with_it, without_it in zip(samples, *pairs, strict=True):
                new, lost = set(with_it) - set(without_it), set(without_it) - set(with_it)
                assert len(lost) <= len(new) <= votes
                assert gone in sample or not new
                widest = max(widest, len(new))
    assert widest == min(votes, np.count_nonzero(table.units == gone)), "the bound is reached"


# --- in law ---------------------------------------------------------------------------------


def line(records: int, reach: int) -> Neighbourhoods:
    """Records at distances 1, 2, 3, ... from one query; the target is the rank."""
    X = np.arange(1, records + 1)[:, None]
    keys = np.random.default_rng(9).permutation(records)
    return NeighbourIndex(X, X[:, 0] - 1, keys=keys, radius=2048.0).search([[0.0]], reach)


@pytest.mark.parametrize("reach", [1, 6, 200])
@pytest.mark.parametrize("noise", [SecureNoise(), InsecureNoise(5)], ids=repr)
def test_ranks_follow_the_negative_binomial_law(reach: int, noise: SecureNoise) -> None:
    """P(the third head at rank m) = C(m, 2) rate^3 (1 - rate)^(m - 2), -1 if there is none."""
    n, k, rate, draws = 40, 3, 0.15, 20_000
    around = line(n, reach)
    places = around.draw(k, rate, noise, [0] * draws)
    third = np.where(places[:, 2] < 0, n, around.targets[places[:, 2]])
    chances = [math.comb(m, 2) * rate**3 * (1 - rate) ** (m - 2) for m in range(n)]
    expected = draws * np.array([*chances, binom.cdf(k - 1, n, rate)])
    observed = np.bincount(third, minlength=n + 1)
    few = expected < 100
    expected = np.append(expected[~few], expected[few].sum())
    observed = np.append(observed[~few], observed[few].sum())
    assert chi2.sf(((observed - expected) ** 2 / expected).sum(), expected.size - 1) > 1e-11


@pytest.mark.parametrize("reach", [2, 60])
def test_two_votes_of_a_person_follow_the_law_of_subsample_then_search(reach: int) -> None:
    """Two samples of the first three neighbours' keys: ours, and one with a mask of coins."""
    table, draws, rate = crowded_table(7, 12, 40, votes_per_unit=2), 20_000, 0.3
    query = np.array([0, 1])
    around = table.index().search(query[None], reach)
    ours = Counter(map(tuple, drawn(around, 3, rate, SecureNoise(), [0] * draws)))
    masks = SecureNoise().poisson_mask(rate, (draws, 12))
    memory = {}
    theirs: Counter[tuple[int, ...]] = Counter()
    for mask in masks:
        sample = tuple(np.flatnonzero(mask).tolist())
        if sample not in memory:
            memory[sample] = tuple(table.nearest(query, 3, sample))
        theirs[memory[sample]] += 1
    cells = [c for c in ours | theirs if ours[c] + theirs[c] >= 100]
    both = np.array([[ours[c], theirs[c]] for c in cells])
    both = np.vstack([both, draws - both.sum(axis=0)])
    both = both[both.sum(axis=1) >= 100]
    statistic = ((both[:, 0] - both[:, 1]) ** 2 / both.sum(axis=1)).sum()
    assert len(both) > 10
    assert chi2.sf(statistic, len(both)) > 1e-11


def test_rows_and_calls_have_samples_of_their_own() -> None:
    """Whether the nearest record takes part: in two rows, and in two calls, as for two coins."""
    around, rate, draws = line(20, 10), 0.3, 20_000
    noise = SecureNoise()
    first, second = (around.draw(1, rate, noise, [0] * draws)[:, 0] for _ in range(2))
    nearest = int(np.flatnonzero(around.targets == 0)[0])
    taken, again = first == nearest, second == nearest
    for together, tries in ((taken & again, draws), (taken[::2] & taken[1::2], draws // 2)):
        count = np.count_nonzero(together)
        assert binom.cdf(count, tries, rate**2) > 1e-10
        assert binom.sf(count, tries, rate**2) > 1e-10


def test_a_sample_of_everyone_tosses_no_coins() -> None:
    around = line(20, 4)
    found = around.targets[around.draw(7, 1.0, object())]  # type: ignore[arg-type]
    assert found.tolist() == [[0, 1, 2, 3, 4, 5, 6]]


def test_rates_from_tiny_to_nearly_one() -> None:
    around = line(20, 4)
    assert (around.draw(3, 1e-12, SecureNoise(), [0] * 50) == -1).all()
    near = around.targets[around.draw(3, 1 - 1e-12, SecureNoise(), [0] * 50)]
    assert near.tolist() == [[0, 1, 2]] * 50


def test_a_closed_grant_draws_nothing() -> None:
    noise = GrantedNoise(SecureNoise(), entry="abc")
    assert line(20, 4).draw(3, 0.5, noise).shape == (1, 3)
    noise.close()
    with pytest.raises(GrantError):
        line(20, 4).draw(3, 0.5, noise)


def test_small_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbourhoods, "_ENTRIES_AT_ONCE", 20)
    for table in TABLES.values():
        test_every_subset_gives_what_searching_the_subset_gives(table, 2)


# --- what is said ---------------------------------------------------------------------------


def test_nothing_private_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Canaries in features, targets, keys and units, and the number of records, 6007."""
    index = NeighbourIndex(
        np.full((6007, 2), 0.7919),
        np.full(6007, 7919),
        keys=np.full(6007, 40014001),
        units=np.arange(6007),
        radius=1.0,
    )
    around = index.search(np.zeros((2, 2)), 17)
    with caplog.at_level(logging.DEBUG):
        around.draw(5, 0.001, SecureNoise())
    said = [f"{secret} {secret!r} {secret!s:>9}" for secret in (index, around)]
    for call in (
        lambda: around.draw(0, 0.5, SecureNoise()),
        lambda: around.draw(3, 0.5, SecureNoise(), [2]),
        lambda: index.search(np.zeros((2, 3)), 17),
    ):
        with pytest.raises(InvalidArgument) as caught:
            call()
        said.append(str(caught.value))
    for text in [*said, caplog.text]:
        assert not [canary for canary in ("7919", "6007", "4001", "17") if canary in text], text
    assert not hasattr(around, "__dict__")
    assert [name for name in dir(around) if not name.startswith("_")] == [
        "draw",
        "n_queries",
        "targets",
        "votes_per_unit",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.5), "Expected k=0"),
        ((-1, 0.5), "Expected k=-1"),
        ((1.5, 0.5), "Expected k=1.5"),
        ((2**40, 0.5), "Expected k="),
        ((2, 0.0), "Expected rate=0.0"),
        ((2, 1.01), "Expected rate=1.01"),
        ((2, math.nan), "Expected rate=nan"),
        ((2, "half"), "Expected rate='half'"),
        ((2, 1e-30), "Expected rate=1e-30"),
    ],
)
def test_bad_draws_are_refused(arguments: tuple[int, float], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        line(5, 2).draw(*arguments, SecureNoise())


@pytest.mark.parametrize("rows", [[1], [-1], [0.0], 0, [[0]], ["a"], [True], [[0], [0, 1]], [None]])
def test_bad_rows_are_refused(rows: object) -> None:
    with pytest.raises(InvalidArgument, match="Expected rows to be a list of integers from 0 to 0"):
        line(5, 2).draw(2, 0.5, SecureNoise(), rows)  # type: ignore[arg-type]


def test_no_rows_make_no_draws() -> None:
    assert line(5, 2).draw(2, 0.5, SecureNoise(), []).shape == (0, 2)


# --- the reach ------------------------------------------------------------------------------

REACHES = {
    (300, 0.15): (2347, 2551, 2712),
    (300, 0.05): (7099, 7747, 8258),
    (800, 0.05): (17760, 18763, 19537),
    (300, 0.25): (1395, 1511, 1602),
}


@pytest.mark.parametrize("case", REACHES)
def test_the_reach_computed_apart(case: tuple[int, float]) -> None:
    found = tuple(default_reach(*case, failure=failure) for failure in (1e-3, 1e-6, 1e-9))
    assert found == REACHES[case]


@pytest.mark.parametrize("k", [1, 2, 30])
@pytest.mark.parametrize("rate", [1e-3, 0.3, 0.999])
def test_the_reach_is_the_least_that_suffices(k: int, rate: float) -> None:
    reach = default_reach(k, rate, failure=1e-4)
    assert binom.cdf(k - 1, reach, rate) <= 1e-4 < binom.cdf(k - 1, reach - 1, rate)


def test_the_reach_of_everyone_is_k() -> None:
    assert default_reach(12, 1.0) == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0, 0.5), "k="), ((3, 0.0), "rate="), ((3, 2.0), "rate="), ((3, 0.5, 0.0), "failure=")],
)
def test_a_reach_of_nonsense_is_refused(arguments: tuple[int, float], message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"Expected {message}"):
        default_reach(*arguments)
