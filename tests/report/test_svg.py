"""Inline SVG: drawings pass, everything that could run or load is refused."""

from __future__ import annotations

import pytest

from tacit.errors import InvalidArgument, SecretDisclosure
from tacit.report.svg import SECRET_ID, inline_svg

NAMESPACES = (
    'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'xmlns:e="http://example.org/e"'
)


def drawing(inside: str = "", attributes: str = "") -> str:
    return f'<svg {NAMESPACES} viewBox="0 0 10 10" {attributes}>{inside}</svg>'


def test_a_drawing_passes_and_fills_its_place():
    text = inline_svg(drawing('<g><text x="1">a &lt; b</text></g>', 'width="7in" height="4in"'))
    assert text.startswith("<svg ")
    assert 'width="100%"' in text
    assert "height=" not in text
    assert "a &lt; b" in text
    assert text.count("http") == 1  # the namespace


def test_prolog_document_type_comments_and_metadata_go():
    text = inline_svg(
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN"\n'
        ' "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">\n'
        + drawing('<!-- by hand --><metadata><e:x/></metadata><path d="M0 0"/>')
    )
    assert text.startswith("<svg ")
    assert "by hand" not in text
    assert "metadata" not in text
    assert "DTD" not in text


def test_identifiers_and_references_get_the_prefix():
    text = inline_svg(
        drawing(
            '<defs><path id="p" d=""/></defs><use xlink:href="#p"/>'
            '<g clip-path="url(#c)" style="fill: url( \'#p\' )"/><clipPath id="c"/>'
        ),
        prefix="f1-",
    )
    assert 'id="f1-p"' in text
    assert 'href="#f1-p"' in text
    assert "xlink" not in text
    assert 'clip-path="url(#f1-c)"' in text
    assert "fill: url(#f1-p)" in text


def test_a_rule_for_everything_becomes_an_inherited_style():
    text = inline_svg(drawing("<defs><style>*{stroke-linejoin: round}</style></defs>"))
    assert "<style" not in text
    assert 'style="stroke-linejoin: round"' in text


def test_styles_that_move_the_drawing_over_the_page_go():
    text = inline_svg(drawing("", 'style="position: fixed" class="alarm"'))
    assert "fixed" not in text
    assert "alarm" not in text


def test_an_embedded_picture_stays():
    picture = '<image xlink:href="data:image/png;base64,iVBORw0KGgo="/>'
    assert 'href="data:image/png;base64,iVBORw0KGgo="' in inline_svg(drawing(picture))


@pytest.mark.parametrize(
    "inside",
    [
        "<script>alert(1)</script>",
        "<e:script>alert(1)</e:script>",
        '<g onclick="alert(1)"/>',
        '<g ONLOAD="alert(1)"/>',
        "<foreignObject/>",
        '<a href="#x"/>',
        "<animate/>",
        '<set attributeName="href"/>',
        '<use xlink:href="other.svg#p"/>',
        '<use href="https://example.org/#p"/>',
        '<use href="javascript:alert(1)"/>',
        '<image href="https://example.org/a.png"/>',
        '<image href="data:image/svg+xml;base64,AAAA"/>',
        '<path style="fill: url(https://example.org/)"/>',
        '<path fill="url(//example.org/)"/>',
        "<path fill=\"url('x.svg#a')\"/>",
        '<path style="fill: u\\72l(//example.org)"/>',
        "<path style=\"background: image-set('//example.org')\"/>",
        "<style>@import '//example.org'; *{fill: red}</style>",
        "<style>body{display: none}</style>",
        '<desc><image src="https://example.org/a.png"/></desc>',
        "<title><g/></title>",
        "<style>*{fill: url(//example.org)}</style>",
    ],
)
def test_what_could_run_or_load_is_refused(inside):
    with pytest.raises(InvalidArgument):
        inline_svg(drawing(inside))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no drawing",
        "<svg",
        "<p>text</p>",
        "<svg/>",
        f'<svg {NAMESPACES} onload="alert(1)" viewBox="0 0 1 1"/>',
        '<!DOCTYPE svg [<!ENTITY a "aaaa">]><svg viewBox="0 0 1 1">&a;</svg>',
        '<svg viewBox="0 0 1 1"/><script/>',
    ],
)
def test_what_is_no_drawing_is_refused(text):
    with pytest.raises(InvalidArgument):
        inline_svg(text)


def test_a_secret_drawing_is_refused_unless_it_stays_with_its_owner():
    text = drawing(f'<g id="{SECRET_ID}"/>')
    with pytest.raises(SecretDisclosure):
        inline_svg(text)
    kept = inline_svg(text, prefix="f1-", public=False)
    with pytest.raises(SecretDisclosure):
        inline_svg(kept)
