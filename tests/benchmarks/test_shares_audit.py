"""Two aggregators: what one can prove stays below the claim, and each of six mistakes is found."""

from __future__ import annotations

import pytest

from benchmarks.shares_audit import HONEST, MISTAKES, audit

TRIALS = 30_000


def refuted(protocol):
    return any(proved > claim for _, claim, proved in audit(protocol, TRIALS))


def test_the_protocol_stands_and_the_audit_is_sharp():
    delta, claim, proved = audit(HONEST, TRIALS)[0]
    assert delta == 0.1
    assert 0.7 * claim < proved <= claim


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_refuted(mistake):
    assert refuted(mistake)
