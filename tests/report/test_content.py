"""What a caller adds: what was learned, how good it is, and sections of its own."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest

from tacit._registry import MECHANISMS, mechanism_class
from tacit.errors import InvalidArgument, SecretDisclosure
from tacit.ledger import Budget, Ledger
from tacit.mechanisms.base import assumptions
from tacit.report import (
    NO_HEAD,
    Learned,
    Measure,
    PageData,
    Section,
    render_report,
    trade_off_figure,
)
from tacit.report.page import presumed
from tacit.report.svg import SECRET_ID

GOOD = Measure(what="right labels", value=0.8687, on="297 rows", chance=0.1414, by_chance="a coin")


def learned(*measures):
    return Learned(predicts="One of 2.", inputs="Rows.", method="PATE.", measures=measures)


def text_of(html):
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html.split("</style>")[1])).split())


def test_a_reader_meets_things_in_the_order_of_her_questions(ledger):
    extra = Section(title="Evaluation", paragraphs=["Paid for."])
    page = render_report(ledger, learned=learned(GOOD), sections=[extra])
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles[:6] == [
        "What was learned",
        "What the number means",
        "Warnings",
        "Check before you sign",
        "Statement to sign",
        "Evaluation",
    ]


def test_the_top_says_what_was_learned_and_what_chance_reaches(ledger):
    text = text_of(render_report(ledger, learned=learned(GOOD)))
    for part in (
        "It predicts One of 2.",
        "From Rows.",
        "How PATE.",
        "protected is one patient",
        "86.9 % right labels, on 297 rows. For comparison, chance alone, a coin, reaches 14.1 %.",
        "can raise or lower the odds of any guess about one patient at most",
    ):
        assert part in text, part
    assert "No better than chance" not in text


def test_a_page_is_made_anew_from_its_data_byte_for_byte(ledger, tmp_path):
    figure = trade_off_figure([1, 2], {"sigma 40": [0.8, 1.5]}, budget=3)
    table = {"columns": ["class", "Dice & more"], "rows": [["a < b", "1"], ["c", "2"]]}
    told = {"title": "Each class", "paragraphs": ["p < q."], "figures": [("own", figure)], **table}
    own = {"figures": [("a < b & c", figure), ("two", figure)], "notes": ["x < 1.", "y & z"]}
    own["sections"] = [Section(**told), Section(title="Short", paragraphs=["Nothing."])]
    own["learned"] = learned(GOOD)
    data = PageData(**own)
    path = tmp_path / "report.json"
    path.write_text(data.to_json(), encoding="utf-8")
    found = PageData.read(path)
    assert found.to_json() == data.to_json()
    assert render_report(ledger, **found.as_arguments()) == render_report(ledger, **own)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "tacit-report/1", "more": 1}'])
def test_other_json_is_not_read_as_data_of_a_page(tmp_path, text):
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(InvalidArgument, match=r"report\.json"):
        PageData.read(tmp_path / "report.json")


def test_the_page_of_a_run_shows_zeros_for_its_head_and_lists_its_files(ledger):
    now = ledger.statement()
    said = replace(now, head=NO_HEAD, entries=now.entries + 1)
    page = render_report(ledger, statement=said, files={"student.tacit": "ab" * 32})
    assert page.count(NO_HEAD) == 3
    assert now.head not in text_of(page)
    assert f"student.tacit {'ab' * 32}" in text_of(page)
    with pytest.raises(InvalidArgument, match="differs in entries, head"):
        render_report(ledger, statement=now, files={"student.tacit": "ab" * 32})


def test_a_model_that_learned_nothing_is_said_to(ledger):
    unclear = Measure(what="AUC", value=0.55, on="40 rows", chance=0.5, low=0.4)
    assert not unclear.beats_chance
    assert "band" in unclear.beside_chance
    assert Measure(what="AUC", value=0.55, on="4,000 rows", chance=0.5, low=0.52).beats_chance
    nothing = Measure(what="right labels", value=0.14, on="297 rows", chance=0.14)
    page = render_report(ledger, learned=learned(GOOD, nothing))
    assert 'class="red">No better than chance: chance alone reaches 14.0 %' in page


def test_what_was_not_measured_is_said_not_to_be(ledger):
    assert "Not measured" in text_of(render_report(ledger, learned=learned()))
    alone = text_of(render_report(ledger))
    assert "written from a ledger alone" in alone
    assert "Released gnmax (30 queries), confident-gnmax (40 queries)" in alone


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_checklist_leaves_nothing_out(tmp_path, name):
    """Its boxes, put together again, are the whole sentence that the statement signs."""
    book = Ledger(tmp_path / "a.ledger", budget=Budget(1, 1e-5))
    (sentence,) = assumptions([{"mechanism": name}])
    shot = book.snapshot()
    statement = type(shot.statement)(
        kind="worst-case",
        epsilon=1.0,
        delta=1e-5,
        unit="record",
        accountant="gaussian",
        noise="exact",
        assumes=(sentence,),
    )
    boxes = presumed(statement, shot)
    parts = [box[0].lower() + box[1:-1] for box in boxes]
    for word in re.findall(r"\w+", mechanism_class(name).assumes):
        assert any(word in part for part in parts)
    place = 0
    for part in parts[:-4]:
        place = sentence.lower().index(part.lower(), place) + len(part)
    assert place == len(sentence)
    assert len(parts) >= 6


def test_each_presumption_has_a_box_and_is_said_once(ledger, sanitised):
    page = render_report(ledger, statement=sanitised)
    boxes = re.findall(r'<li><label><input type="checkbox"> <span>(.*?)</span></label></li>', page)
    assert len(boxes) == len(set(boxes)) >= 6
    assert not any("not recorded" in box for box in boxes)  # 40,000 patients are


def test_a_section_has_its_table_and_its_figures(ledger):
    picture = trade_off_figure([1, 2], {"sigma 40": [0.8, 1.5]}, budget=3)
    part = Section(
        title="<b>Evaluation",
        paragraphs=["12 & more"],
        columns=["class", "right"],
        rows=[["<ill>", "81 %"]],
        figures=[("One.", picture), ("Two.", picture)],
    )
    page = render_report(ledger, sections=[part, part], figures=[("Three.", picture)])
    text = text_of(page)
    assert text.count("<b>Evaluation 12 & more") == 2
    assert "class right <ill> 81 %" in text
    assert page.count("<figure>") == 5
    identifiers = re.findall(r' id="([^"]*)"', page)
    assert len(identifiers) == len(set(identifiers)) > 0


def test_a_secret_figure_is_refused_in_a_section_too(ledger):
    picture = trade_off_figure([1, 2], {"sigma 40": [0.8, 1.5]}, budget=3)
    picture.set_gid(SECRET_ID)
    with pytest.raises(SecretDisclosure):
        render_report(ledger, sections=[Section(title="Secret", figures=[("x", picture)])])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Section(title=3),
        lambda: Section(title="a", columns=["x"], rows=[["1", "2"]]),
        lambda: Section(title="a", columns=["x"], rows=[[1]]),
        lambda: Measure(what="a", value="much", on="b"),
        lambda: Measure(what="a", value=float("nan"), on="b"),
        lambda: Learned(predicts="a", inputs="b", method="c", measures=[0.9]),
        lambda: Learned(predicts=None, inputs="b", method="c"),
    ],
)
def test_what_is_no_content_is_refused(wrong):
    with pytest.raises(InvalidArgument):
        wrong()


def test_only_content_is_taken(ledger):
    for options in ({"learned": {"predicts": "x"}}, {"sections": ["Evaluation"]}):
        with pytest.raises(InvalidArgument, match=r"tacit\.report\."):
            render_report(ledger, **options)
