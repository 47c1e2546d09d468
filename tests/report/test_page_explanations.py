"""The explanations can be checked by hand: these tests do so, with formulas of their own."""

from __future__ import annotations

import math
import re
from html import unescape
from statistics import NormalDist
from typing import NamedTuple

import pytest

from tacit.report import render_report
from tacit.report.page import CURRENCY

NUMBER = r"([0-9.]+(?:e-?[0-9]+)?)"


class Explanation(NamedTuple):
    text: str
    formulas: list[str]
    read_more: str


def explain(book, statement=None):
    """What the page says under its heading: sentences, formulas, and where to read more."""
    page = render_report(book, statement=statement)
    part = page.split("How the number was computed")[1].split("</section>")[0]
    found = re.findall(
        r"<p>(.*?)</p>\s*<div class=.formulas.*?>(.*)</div>\s*"
        r"<p class=.aside.>Read more in (.*)</p>",
        part,
    )
    return [
        Explanation(unescape(text), re.findall("<div>(.*?)</div>", unescape(lines)), more)
        for text, lines, more in found
    ]


def formulas(book, statement=None):
    return [each.formulas for each in explain(book, statement)]


def test_the_gaussian_numbers_follow_from_each_other(ledger):
    ((total, curve, result),) = formulas(ledger)
    first, second, both, mu = map(float, re.findall(NUMBER, total))
    assert first == pytest.approx(30 * 2 / 40**2, rel=1e-5)
    assert second == pytest.approx(40 / 75**2 + 25 * 2 / 30**2, rel=1e-5)
    assert both == pytest.approx(first + second, rel=1e-5)
    assert mu == pytest.approx(math.sqrt(both), rel=1e-5)
    assert "Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)" in curve
    epsilon, delta = map(float, re.findall(NUMBER, result))
    assert delta == pytest.approx(8e-6)
    phi = NormalDist().cdf

    def delta_at(eps):
        return phi(mu / 2 - eps / mu) - math.exp(eps) * phi(-mu / 2 - eps / mu)

    assert delta_at(epsilon) <= delta < delta_at(epsilon - 0.002)


def test_the_renyi_numbers_follow_from_each_other(rdp_ledger):
    (explanation,) = explain(rdp_ledger)
    total, curve, result = explanation.formulas
    first, second, both = map(float, re.findall(NUMBER, total))
    assert both == pytest.approx(first + second, rel=1e-5)
    assert "log(1 - 1/a) - (log delta + log a)/(a - 1)" in curve
    order = float(re.search(rf"a = {NUMBER}", explanation.text)[1])
    epsilon, delta = map(float, re.findall(NUMBER, result))
    by_hand = both + math.log(1 - 1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    assert by_hand == pytest.approx(epsilon, abs=1e-3)
    assert epsilon >= by_hand - 1e-5


def test_a_fixed_list_names_its_bound(fixed_ledger):
    (explanation,) = explain(fixed_ledger)
    assert "list of 2 plans" in explanation.text
    assert "exact composition of Gaussian noise" in explanation.text
    assert f"{fixed_ledger.spent():.3f}"[:4] in explanation.formulas[0]


def test_a_sanitised_statement_is_explained_beside_the_worst_case(ledger, sanitised):
    first, second = explain(ledger, sanitised)
    assert "exact privacy curve" in first.text
    assert "ex post" in second.text
    assert "smooth sensitivity" in second.text
    assert "dM(D')" in second.formulas[0]


def test_an_empty_ledger_divides_by_nothing(empty_ledger):
    ((only,),) = formulas(empty_ledger)
    assert only.startswith("delta(epsilon) = Phi")


def test_many_entries_are_abbreviated(empty_ledger, released):
    from tacit.mechanisms import GNMax, Plan

    for _ in range(8):
        released(empty_ledger, Plan(GNMax(sigma=40), queries=1))
    ((total, *_),) = formulas(empty_ledger)
    assert total.startswith("mu² = 0.00125 + 0.00125 + … + 0.00125 = 0.01,")


@pytest.mark.parametrize("kind", ["ledger", "rdp_ledger", "fixed_ledger"])
def test_every_accountant_has_a_currency_and_a_page_to_read(request, kind):
    book = request.getfixturevalue(kind)
    assert book.accountant in CURRENCY
    for explanation in explain(book):
        assert explanation.read_more.startswith("tacit's documentation, under Theory: ")
        assert "/" not in explanation.read_more  # no file that the reader may not have


def test_the_reserve_is_explained(ledger, rdp_ledger):
    assert "reserved for confidence bounds" in explain(ledger)[0].text
    assert "reserved" not in explain(rdp_ledger)[0].text


def test_sampling_is_explained_where_a_release_sampled(tmp_path):
    """Beside the accountant's own explanation, and only there."""
    from tacit.ledger import Budget, Ledger
    from tacit.mechanisms import Plan, SampledMax
    from tacit.neighbours import NeighbourIndex
    from tacit.noise import InsecureNoise

    index = NeighbourIndex([[0.1], [0.9]], [0, 1], keys=[b"a", b"b"], radius=1.0)
    for rate, count in ((0.5, 2), (1.0, 1)):
        ledger = Ledger(tmp_path / f"{rate}.ledger", budget=Budget(9.0, 1e-5), accountant="rdp")
        plan = Plan(SampledMax(5.0, k=1, sampling_rate=rate), 1, n_classes=2)
        with ledger.release(plan, purpose="label", noise=InsecureNoise(0)) as grant:
            grant.release(index.search([[0.2]], reach=2))
        explanations = explain(ledger)
        assert len(explanations) == count
    assert "(1-g) P + g Q" in explain(Ledger(tmp_path / "0.5.ledger"))[1].formulas[0]
