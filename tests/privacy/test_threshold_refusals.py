"""What the prices of a threshold check refuse."""

from __future__ import annotations

import math

import pytest
from privacy_oracles import (
    NEGATIVE,
    NOT_NUMBERS,
    NOT_ORDERS,
    NOT_POSITIVE,
    cases,
    refuses,
)

from tacit.errors import InvalidArgument
from tacit.privacy import (
    confident_rdp,
    confident_rdp_worst,
    threshold_rdp,
    threshold_rdp_worst,
)

NOT_COUNTS = [1.5, -1, 2**40 + 1, *NEGATIVE]


NOT_TOPS = [[5.5], [math.nan], [math.inf], [[5]], [True], ["5"], None, [-1], [9]]


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "bad"),
        cases(
            top_votes=NOT_TOPS,
            threshold=NOT_NUMBERS,
            sigma=NOT_POSITIVE,
            orders=NOT_ORDERS,
            lowest=[*NOT_COUNTS, 9, 6],
            highest=[*NOT_COUNTS, 4],
        ),
    )
    def test_threshold(self, name, bad):
        good = {
            "top_votes": [5],
            "threshold": 4,
            "sigma": 2.0,
            "orders": [2],
            "lowest": 0,
            "highest": 8,
        }
        refuses(threshold_rdp, good, name, bad)

    @pytest.mark.parametrize(
        ("name", "bad"),
        cases(
            threshold=NOT_NUMBERS,
            sigma=NOT_POSITIVE,
            orders=NOT_ORDERS,
            lowest=[*NOT_COUNTS, 9],
            highest=NOT_COUNTS,
        ),
    )
    def test_worst(self, name, bad):
        good = {"threshold": 4, "sigma": 2.0, "lowest": 0, "highest": 8, "orders": [2]}
        refuses(threshold_rdp_worst, good, name, bad)

    @pytest.mark.parametrize(
        ("name", "bad"),
        cases(
            threshold=NOT_NUMBERS,
            sigma_check=NOT_POSITIVE,
            sigma_answer=NOT_POSITIVE,
            orders=NOT_ORDERS,
            lowest=[*NOT_COUNTS, 9],
            highest=NOT_COUNTS,
        ),
    )
    def test_confident_worst(self, name, bad):
        good = {
            "threshold": 4,
            "sigma_check": 2.0,
            "sigma_answer": 2.0,
            "lowest": 0,
            "highest": 8,
            "orders": [2],
        }
        refuses(confident_rdp_worst, good, name, bad)

    @pytest.mark.parametrize(
        ("name", "bad"),
        cases(
            top_votes=NOT_TOPS,
            threshold=NOT_NUMBERS,
            sigma_check=NOT_POSITIVE,
            answer_rdp=[[[-0.1]], [[math.nan]], [[math.inf]], [0.1], [[0.1, 0.2]], [["0.1"]], None],
            orders=NOT_ORDERS,
            lowest=[*NOT_COUNTS, 9, 6],
            highest=[*NOT_COUNTS, 4],
        ),
    )
    def test_confident(self, name, bad):
        good = {
            "top_votes": [5],
            "threshold": 4,
            "sigma_check": 2.0,
            "answer_rdp": [[0.1]],
            "orders": [2],
            "lowest": 0,
            "highest": 8,
        }
        refuses(confident_rdp, good, name, bad)

    def test_messages_never_quote_the_secret_statistic(self):
        for tops in ([123457], [123457.5], [123457, math.nan], ["123457"]):
            with pytest.raises(InvalidArgument) as caught:
                threshold_rdp(tops, 4, 2.0, [2], lowest=0, highest=8)
            assert "123457" not in str(caught.value)
