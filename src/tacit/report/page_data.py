"""A report's arguments in report.json beside the page, with figures as SVG.

A finished run's page is written again when the run is evaluated or another file is published.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from tacit._files import PathLike
from tacit.errors import InvalidArgument
from tacit.report.content import Learned, Measure, Section
from tacit.report.figures import figure_svg

FORMAT = "tacit-report/1"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageData:
    """Arguments of `render_report` beside ledger and statement."""

    learned: Learned | None = None
    sections: Sequence[Section] = ()
    figures: Sequence[tuple[str, Any]] = ()
    notes: Sequence[str] = ()

    def to_json(self) -> str:
        """Return it as JSON, with figures as SVG; secret ones are refused."""
        plain = {
            "format": FORMAT,
            "learned": None if self.learned is None else asdict(self.learned),
            "sections": [
                {
                    "title": part.title,
                    "paragraphs": list(part.paragraphs),
                    "columns": list(part.columns),
                    "rows": [list(row) for row in part.rows],
                    "figures": _drawn(part.figures),
                }
                for part in self.sections
            ],
            "figures": _drawn(self.figures),
            "notes": list(self.notes),
        }
        return json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def as_arguments(self) -> dict[str, Any]:
        """Return arguments of `render_report` by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def read(cls, path: PathLike) -> Self:
        """Read what `to_json` wrote; figures are checked again when they are embedded."""
        try:
            plain = json.loads(Path(path).read_text(encoding="utf-8"))
            if plain.pop("format") != FORMAT:
                raise ValueError
            learned = plain.pop("learned")
            if learned is not None:
                measures = [Measure(**each) for each in learned.pop("measures")]
                learned = Learned(**learned, measures=tuple(measures))
            sections = [Section(**each) for each in plain.pop("sections")]
            return cls(learned=learned, sections=sections, **plain)
        except (AttributeError, KeyError, OSError, TypeError, ValueError):
            raise InvalidArgument(
                f"Expected {str(path)!r} to be what a report was made of; it is damaged, or "
                "another file."
            ) from None


def _drawn(figures: Sequence[tuple[str, Any]]) -> list[list[str]]:
    return [
        [caption, picture if isinstance(picture, str) else figure_svg(picture)]
        for caption, picture in figures
    ]
