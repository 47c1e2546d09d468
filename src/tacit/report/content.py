"""What a caller adds to a report: the model, its measures, sections of its own.

All of this is public, as the page is: measures rest on rows that were declared public, or on a
release that the same ledger paid for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from tacit._checks import finite, refuse, set_checked, word
from tacit.errors import InvalidArgument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NAMED = 20
"""Names of classes or columns that a page lists before it counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How good a model is, by one number, and what chance alone would reach.

    Parameters
    ----------
    what : str, "right labels", "Dice of liver and spleen"
    value : float, more is better
    on : str
        On which rows, and why they may be used: "297 held-out rows, declared public".
    chance : float, optional, the number of a model that learned nothing
    by_chance : str, how: "always saying their most frequent label", or ""
    percent : bool, print a share as 86.9 %, otherwise as 0.869
    low : float, optional, the lower end of a band about the value

    Examples
    --------
    >>> found = Measure(what="right labels", value=0.8687, on="297 held-out rows", chance=0.1414)
    >>> found.text, found.chance_text, found.beats_chance
    ('86.9 %', '14.1 %', True)
    """

    what: str
    value: float
    on: str
    chance: float | None = None
    by_chance: str = ""
    percent: bool = True
    low: float | None = None

    def __post_init__(self) -> None:
        set_checked(self, what=word, value=finite, on=word, by_chance=word)
        for name in ("chance", "low"):
            if getattr(self, name) is not None:
                set_checked(self, **{name: finite})

    @property
    def text(self) -> str:
        """The formatted number."""
        return self._printed(self.value)

    @property
    def chance_text(self) -> str:
        """The formatted chance level; "" where it is unknown."""
        return "" if self.chance is None else self._printed(self.chance)

    @property
    def beats_chance(self) -> bool:
        """False where the band, or without one the value, reaches chance; True if it is unknown."""
        least = self.value if self.low is None else self.low
        return self.chance is None or least > self.chance

    @property
    def beside_chance(self) -> str:
        """A sentence where it does not beat chance."""
        if self.chance is not None and self.value > self.chance:
            return "No better than chance, as far as its band tells"
        return "No better than chance"

    def _printed(self, value: float) -> str:
        return f"{100 * value:.1f} %" if self.percent else f"{value:.3f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """A model in words for outsiders.

    Parameters
    ----------
    predicts : str, "One of 10 classes: 0, 1, …"
    inputs : str, "Rows of 3 columns: age, income, region"
    method : str, how it was learned from private records
    measures : tuple of Measure, empty where nothing was measured
    """

    predicts: str
    inputs: str
    method: str
    measures: tuple[Measure, ...] = ()

    def __post_init__(self) -> None:
        set_checked(self, predicts=word, inputs=word, method=word)
        object.__setattr__(self, "measures", tuple(self.measures))
        if not all(isinstance(each, Measure) for each in self.measures):
            raise refuse("measures", self.measures, "a list of Measure")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Section:
    """A section of the page that a caller writes.

    Parameters
    ----------
    title : str
    paragraphs : sequence of str, plain text
    columns : sequence of str, headings of the table: a column of words, then of numbers
    rows : sequence of sequences of str, each as long as `columns`
    figures : sequence of pairs
        A caption, and a matplotlib Figure or an SVG text; secret ones are refused.

    Examples
    --------
    >>> Section(title="Evaluation", columns=["class", "right"], rows=[["ill", "81 %"]]).rows
    [['ill', '81 %']]
    """

    title: str
    paragraphs: Sequence[str] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    figures: Sequence[tuple[str, Figure | str]] = ()

    def __post_init__(self) -> None:
        for text in (self.title, *self.paragraphs, *self.columns, *chain(*self.rows)):
            word(section=text)
        if any(len(row) != len(self.columns) for row in self.rows):
            raise InvalidArgument("Expected every row of a section as long as its columns.")


def listed(names: Sequence[Any]) -> str:
    """Join public names with commas: the first ones, and the number of the others.

    >>> listed(["ill", "well"]), listed(range(22))[-17:]
    ('ill, well', '18, 19 and 2 more')
    """
    shown = ", ".join(str(name) for name in names[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
