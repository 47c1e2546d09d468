"""The report: what it says, what it never says, and that it can neither run nor load anything."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from tacit.errors import InvalidArgument, LedgerDamaged, SecretDisclosure
from tacit.ledger import Budget, Ledger
from tacit.ledger.store import Store
from tacit.mechanisms import GNMax, Plan
from tacit.report import figure_svg, render_report, trade_off_figure, write_report


def a_figure():
    return trade_off_figure([1, 2], {"sigma 40": [0.8, 1.5]}, budget=3)


ATTACK = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
ELEMENTS = """
html head meta title style body main header p h1 h2 strong div section span svg rect blockquote ul
li table thead tbody tr th td figure figcaption input label dl dt dd pre footer g path defs use
clippath text
"""


class Page(HTMLParser):
    """Every element with its attributes, and the text outside of style sheets."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.pieces.append(data)

    @property
    def tags(self):
        return {tag for tag, _ in self.elements}

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.pieces))

    @property
    def titles(self):
        return {attributes["title"] for _, attributes in self.elements if "title" in attributes}


def assert_self_contained(html: str) -> None:
    page = Page(html)
    assert page.tags <= set(ELEMENTS.split())
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    assert set(re.findall(r"https?:[^\s\"'<>)]*", html)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"url\((?!#)|@import|javascript:", html)
    assert "<script" not in html.lower()


@pytest.fixture
def every_kind(request, ledger, sanitised):
    """A page of each kind of ledger and statement."""
    names = ("rdp_ledger", "fixed_ledger", "insecure_ledger", "empty_ledger")
    books = [request.getfixturevalue(name) for name in names]
    figures = [
        ("spent", a_figure()),
        ("again", a_figure()),
    ]
    return [
        render_report(ledger, figures=figures, notes=["a note"]),
        render_report(ledger, statement=sanitised),
        *(render_report(book) for book in books),
    ]


def test_every_page_is_self_contained(every_kind):
    for html in every_kind:
        assert_self_contained(html)
        assert html.startswith("<!DOCTYPE html>")
        assert "default-src 'none'" in html
        assert "width=device-width" in html
        assert "@media print" in html
        assert "prefers-color-scheme: dark" in html
        assert re.search(r"\.scroll \{[^}]*overflow-x: auto", html)


def test_identifiers_are_unique(every_kind):
    for html in every_kind:
        identifiers = [a["id"] for _, a in Page(html).elements if "id" in a]
        assert len(identifiers) == len(set(identifiers))
    assert any("figure2-" in html for html in every_kind)


def test_the_page_says_what_the_ledger_holds(ledger):
    html = render_report(ledger, title="Scans, spring", notes=["Teachers share no patient."])
    page = Page(html)
    for part in (
        " ".join(str(ledger.statement()).split()),
        "Scans, spring",
        "hospital scans",
        "Teachers share no patient.",
        "one patient",
        "worst case over all data",
        "first look",
        "confident-gnmax",
        "sigma check = 75",
        "teachers = 250",
        "40, at most 25 answered",
        "Cost (mu²)",
        "csprng",
        "40000 (delta is below one over it)",
        "2e-6, of which 0 used",
        f"tacit ledger verify run.ledger --head {ledger.head}",
        "Signature",
    ):
        assert part in page.text, part
    for entry in ledger.entries():
        assert entry.hash in page.titles
        assert f" {entry.hash[:12]} " in page.text
        assert f"{entry.cost:.6g}" in page.text
    assert "Warnings None." in page.text


def test_the_directory_of_the_ledger_stays_at_home(ledger):
    assert os.path.dirname(ledger.path) not in render_report(ledger)


def test_a_file_name_that_a_shell_would_split_is_quoted(tmp_path):
    book = Ledger(tmp_path / "my run; x.ledger", budget=Budget(1, 1e-5))
    assert "tacit ledger verify 'my run; x.ledger' --head" in Page(render_report(book)).text


def lone_numbers(html):
    """Numbers that stand alone: not parts of times, dates or hashes."""
    page = Page(html)
    return set(re.findall(r"(?<![\w.:-])[0-9.]+(?![\w.:-])", f"{page.text} {page.titles}"))


def test_nothing_secret_is_on_the_page(ledger, sanitised, votes):
    secret = {str(count) for count in np.unique(votes)}
    assert not lone_numbers(render_report(ledger, statement=sanitised)) & secret
    told = render_report(ledger, notes=["137 teachers, or 61, or 52, agreed"])
    assert lone_numbers(told) >= secret  # this test would see them


def test_the_same_ledger_gives_the_same_page(ledger):
    figures = [("spent", a_figure())]
    assert render_report(ledger, figures=figures) == render_report(ledger, figures=figures)


def test_a_sanitised_statement_has_the_worst_case_beside_it(ledger, sanitised):
    text = Page(render_report(ledger, statement=sanitised)).text
    numbers = re.findall(r"Epsilon(, worst case)? ([0-9.]+) ", text)
    assert [bool(worst) for worst, _ in numbers] == [False, True]
    ex_post, worst = (float(number) for _, number in numbers)
    assert sanitised.epsilon <= ex_post <= sanitised.epsilon * 1.002
    assert ledger.spent() <= worst <= ledger.spent() * 1.002
    assert "ex post" in text
    assert f"Spent {worst:g} of 3 (worst case)" in text
    assert "2e-6, of which 2e-6 used" in text
    assert "covers = " in text


def test_a_secret_statement_never_reaches_a_page_or_a_file(ledger, tmp_path):
    secret = replace(ledger.statement(), kind="secret", epsilon=0.1234567)
    target = tmp_path / "report.html"
    with pytest.raises(SecretDisclosure) as refusal:
        write_report(target, ledger, statement=secret)
    assert not target.exists()
    assert "0.123" not in str(refusal.value)


def test_insecure_noise_is_loud(insecure_ledger):
    html = render_report(insecure_ledger)
    text = Page(html).text
    assert "Not private. The noise of entry 2 came from a seed" in text
    assert '<div class="alarm"' in html
    assert 'class="merit void"' in html
    assert '<td class="red">insecure-seeded' in html
    assert re.search(r'<li class="red">[^<]*entry 2', html)
    assert "worst case over all data </span>" not in html
    assert "delta is at least 1/50000" in text
    assert "50000 (delta is at least one over it)" in text


def test_secure_noise_raises_no_alarm(ledger):
    html = render_report(ledger)
    assert "Not private" not in html
    assert 'class="red"' not in html
    assert '<div class="alarm"' not in html


def test_an_empty_ledger_says_so(empty_ledger):
    text = Page(render_report(empty_ledger)).text
    assert "Nothing was released yet." in text
    assert "Epsilon 0 worst case" in text
    assert "100% of epsilon left" in text
    assert empty_ledger.head in text
    assert "not recorded" in text


def test_the_bar_ends_where_the_budget_is_spent(ledger):
    html = render_report(ledger)
    width = float(re.search(r'class="spent" x="0" y="0" width="([0-9.]+)"', html)[1])
    assert width == pytest.approx(1000 * ledger.spent() / 3, abs=0.01)
    assert html.count('class="tick"') == 1
    left = int(re.search(r"([0-9]+)% of epsilon left", html)[1])
    assert left == int(100 * (1 - ledger.spent() / 3))


def test_whatever_is_written_stays_text(tmp_path, released):
    attack = ATTACK.replace("/", "-")
    book = Ledger(
        tmp_path / f"{attack}.ledger", budget=Budget(3, 1e-5), dataset=ATTACK, unit=ATTACK
    )
    released(book, Plan(GNMax(sigma=40), queries=1), purpose="<script>alert(1)</script>")
    statement = replace(book.statement(), warnings=(ATTACK,), library=ATTACK, covers=ATTACK)
    html = render_report(
        book,
        statement=statement,
        title=ATTACK,
        notes=[ATTACK],
        figures=[(ATTACK, a_figure())],
    )
    assert_self_contained(html)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert Page(html).text.count(ATTACK) >= 8


def test_text_inside_a_figure_stays_text(ledger):
    figure = a_figure()
    figure.axes[0].set_xlabel(ATTACK)
    html = render_report(ledger, figures=[("a figure", figure)])
    assert_self_contained(html)
    assert ATTACK in Page(html).text


def test_a_figure_may_be_svg_text_and_no_more_than_a_drawing(ledger):
    assert "Worst-case epsilon against queries" not in render_report(ledger)
    figure = figure_svg(a_figure())
    assert "Worst-case epsilon against queries" in render_report(ledger, figures=[("a", figure)])
    with pytest.raises(InvalidArgument):
        render_report(ledger, figures=[("a", "<svg viewBox='0 0 1 1'><script/></svg>")])


@pytest.mark.parametrize(
    "options",
    [
        {"title": 3},
        {"notes": [b"bytes"]},
        {"figures": ["<svg/>"]},
        {"figures": [("caption", "<svg viewBox='0 0 1 1'/>", "more")]},
        {"figures": [(3, "<svg viewBox='0 0 1 1'/>")]},
    ],
)
def test_bad_input_is_refused(ledger, options):
    with pytest.raises(InvalidArgument):
        render_report(ledger, **options)


def test_a_report_is_written_whole_and_public(ledger, tmp_path):
    before = os.umask(0o022)
    try:
        target = write_report(str(tmp_path / "report.html"), ledger, title="Münster")
    finally:
        os.umask(before)
    assert target == tmp_path / "report.html"
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert target.read_text(encoding="utf-8") == render_report(ledger, title="Münster")
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]


def test_a_damaged_ledger_gets_no_report(ledger, tmp_path, monkeypatch):
    def broken(self):
        raise LedgerDamaged("altered")

    monkeypatch.setattr(Store, "read", broken)
    with pytest.raises(LedgerDamaged):
        write_report(tmp_path / "report.html", ledger)
    assert not (tmp_path / "report.html").exists()
