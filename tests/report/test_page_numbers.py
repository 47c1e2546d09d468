"""How plans, times and numbers are printed."""

from __future__ import annotations

import pytest

from tacit.mechanisms import GNMax, Plan
from tacit.noise import InsecureNoise
from tacit.report.page import Cell, number, shown, time_cell, value_cell


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (40.0, "40"),
        (0.05, "0.05"),
        (1e-05, "1e-5"),
        (16.683, "16.7"),
        (7, "7"),
        (True, "True"),
        (None, "None"),
        ("a word", "a word"),
        ([1.0, 2.5], "1, 2.5"),
        ({"mechanism": "gnmax", "parameters": {"sigma": 40.0}}, "gnmax(sigma = 40)"),
        ({"rate": 0.5, "inner": [3]}, "rate = 0.5, inner = 3"),
    ],
)
def test_parameters_are_printed_briefly(value, text):
    assert value_cell(value).text == text


def test_a_hash_is_shortened_and_kept_whole():
    assert value_cell("ab" * 32) == Cell("abababababab", "ab" * 32)


@pytest.mark.parametrize("value", [1e-300, 0.1, 1 / 3, 1e22, 123456.789, 0.0])
def test_numbers_lose_nothing(value):
    assert float(number(value)) == value


def test_times_are_printed_in_utc():
    cell = time_cell("2025-03-01T12:30:05.123456+02:00")
    assert cell == Cell("2025-03-01 10:30:05 UTC", "2025-03-01T12:30:05.123456+02:00")
    assert time_cell("yesterday") == Cell("yesterday")


def test_many_releases_leave_the_bar_plain(empty_ledger, released):
    for _ in range(61):
        released(empty_ledger, Plan(GNMax(sigma=400), queries=1))
    view = shown(empty_ledger)
    assert len(view["rows"]) == 61
    assert view["ticks"]["inner"] == []
    assert 0 < view["ticks"]["spent"] < 1000


def test_many_insecure_entries_are_not_all_named(empty_ledger, released):
    for _ in range(22):
        released(empty_ledger, Plan(GNMax(sigma=400), queries=1), noise=InsecureNoise(0))
    named = shown(empty_ledger)["insecure"]
    assert named.startswith("entries 1, 2, 3,")
    assert named.endswith("20 and others")
