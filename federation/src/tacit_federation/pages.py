"""Pages for people: templates of the console, and the steward's page of what would leave."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit_federation.approval import Asked, moment
from tacit_federation.keys import fingerprint
from tacit_federation.site_folder import SiteStudy

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).with_name("templates")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(moment=moment, fingerprint=fingerprint)
    return made


def rendered(name: str, **shown: Any) -> str:
    """Return a page; whatever it shows is escaped."""
    return _environment().get_template(name).render(**shown)


def style() -> str:
    """Return the style sheet of all pages."""
    return (TEMPLATES / "style.css").read_text(encoding="utf-8")


def steward_page(asked: Asked, known: SiteStudy) -> str:
    """Return one page that says exactly what a study asks of a site and what would leave.

    Parameters
    ----------
    asked : Asked
        Checked and priced at the site.
    known : SiteStudy
        Where the site is with it.

    Returns
    -------
    str
        HTML that needs nothing besides itself.
    """
    return rendered("steward.html", asked=asked, known=known, css=style())
