"""Inline SVG that can neither run nor load anything.

An SVG is parsed, compared with a list of what drawings need, and written anew, so that what was
checked is what is embedded. Identifiers get a prefix: several figures share one page.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tacit.errors import InvalidArgument, SecretDisclosure

SVG_NAMESPACE = "http://www.w3.org/2000/svg"
SECRET_ID = "tacit-secret"
"""Identifier that marks a drawing of secret quantities; a report refuses it."""

_XLINK = "{http://www.w3.org/1999/xlink}"
_TEXTS = ("title", "desc")
"""What HTML reads as its own inside of a drawing: pictures and links there would be loaded."""
_ELEMENTS = re.compile(
    "svg|g|defs|symbol|use|title|desc|path|rect|circle|ellipse|line|polyline|polygon|text|tspan|"
    "clipPath|mask|pattern|marker|linearGradient|radialGradient|stop|image"
)
_DROPPED_ATTRIBUTES = frozenset({"", "class", "xmlns"})
_PICTURE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=\s]*")
_LOCAL = re.compile(r"#[^\s]+")
_LOADS = re.compile(r"url\(\s*+[\"']?+(?!#)|@import|expression\(|image-set\(|src\(", re.IGNORECASE)
_RULE_FOR_ALL = re.compile(r"\s*\*\s*\{([^{}]*)\}\s*")
_REFERENCE = re.compile(r"url\(\s*[\"']?#([^)\"']+)[\"']?\s*\)")


def inline_svg(text: str, *, prefix: str = "", public: bool = True) -> str:
    """Return an SVG drawing as an element for an HTML page, as wide as its place.

    Raises `InvalidArgument` for anything but a drawing (scripts, event handlers, animation, foreign
    objects, addresses), and `SecretDisclosure` for a secret figure unless `public=False`.

    >>> inline_svg('<svg viewBox="0 0 2 1" width="2"><path id="p" d="M0 0"/></svg>', prefix="f1-")
    '<svg viewBox="0 0 2 1" width="100%" xmlns="http://www.w3.org/2000/svg"><path id="f1-p" d="M0 0" /></svg>'
    """  # noqa: E501 - one line, as it is returned
    root = _parsed(text)
    if public and any(element.get("id", "").endswith(SECRET_ID) for element in root.iter()):
        raise SecretDisclosure(
            "A figure of secret quantities is for the data owner's eyes only; leave it out."
        )
    inherited = _style_for_all(root)
    _clean(root, prefix)
    if root.get("viewBox") is None:
        raise InvalidArgument("Expected an SVG figure with a viewBox, so that it fits any width.")
    root.attrib.pop("height", None)
    root.attrib.pop("style", None)
    root.set("width", "100%")
    if inherited:
        root.set("style", inherited)
    root.set("xmlns", SVG_NAMESPACE)
    return ElementTree.tostring(root, encoding="unicode")


def _parsed(text: str) -> ElementTree.Element:
    body = re.sub(r"^\s*(<\?xml[^>]*\?>)?\s*(<!DOCTYPE[^>\[]*>)?", "", text, count=1)
    if "<!DOCTYPE" in body or "<!ENTITY" in body:
        raise InvalidArgument("Expected an SVG figure without document type definitions.")
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        raise InvalidArgument("Expected a figure to be a well-formed SVG drawing.") from None
    if _local(root.tag) != "svg":
        raise InvalidArgument("Expected a figure to be an <svg> element.")
    return root


def _style_for_all(root: ElementTree.Element) -> str:
    """Remove metadata (addresses) and style sheets (of the whole page); return the style of "*"."""
    inherited = []
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) == "style":
                rule = _RULE_FOR_ALL.fullmatch(child.text or "")
                if rule is None:
                    raise InvalidArgument(
                        "Expected an SVG figure styled by attributes; a style sheet would reach "
                        "the whole page."
                    )
                inherited.append(_safe_style(rule[1].strip(), ""))
            if _local(child.tag) in ("style", "metadata"):
                parent.remove(child)
    return "; ".join(inherited)


def _clean(element: ElementTree.Element, prefix: str) -> None:
    """Keep names without namespaces (HTML knows none), and only what a drawing needs."""
    element.tag = _local(element.tag)
    if not _ELEMENTS.fullmatch(element.tag):
        raise InvalidArgument(
            f"Expected an SVG figure to hold drawing elements only, got <{element.tag}>."
        )
    if element.tag in _TEXTS and len(element):
        raise InvalidArgument(f"Expected plain text in <{element.tag}> of an SVG figure.")
    element.attrib = {
        name: _value(element.tag, name, given, prefix)
        for key, given in element.attrib.items()
        if (name := _attribute(key)) not in _DROPPED_ATTRIBUTES
    }
    for child in element:
        _clean(child, prefix)


def _local(tag: object) -> str:
    """Return a tag without SVG's namespace; one of another namespace stays what it is."""
    return str(tag).removeprefix(f"{{{SVG_NAMESPACE}}}")


def _attribute(key: str) -> str:
    """Return the attribute's plain name, or "" for one of a namespace unknown to HTML."""
    name = key.removeprefix(_XLINK)
    return "" if name.startswith("{") or name not in (key, "href") else name


def _value(tag: str, name: str, given: str, prefix: str) -> str:
    if name.lower().startswith("on"):
        raise InvalidArgument(f"Expected an SVG figure without event handlers, got {name!r}.")
    if name == "id":
        return prefix + given
    if name == "href":
        if _LOCAL.fullmatch(given):
            return f"#{prefix}{given[1:]}"
        if tag == "image" and _PICTURE.fullmatch(given):
            return given
        raise InvalidArgument("Expected an SVG figure that refers to nothing outside itself.")
    return _safe_style(given, prefix)


def _safe_style(text: str, prefix: str) -> str:
    if _LOADS.search(text) or "\\" in text:
        raise InvalidArgument("Expected an SVG figure whose styles load nothing.")
    return _REFERENCE.sub(lambda found: f"url(#{prefix}{found[1]})", text)
