"""Public ratings of words, from unpacked packages: for the reviews of the scoreboard.

None was made from the reviews. "opinion": the opinion lexicon of Hu and Liu (2004, from reviews of
products) and the subjectivity clues of Wilson, Wiebe and Hoffmann (2005, from news), both in
PyPI's labMTsimple. "afinn": words rated by one person (Nielsen 2011), PyPI's afinn. "vader": words
rated by ten people (Hutto and Gilbert 2014), PyPI's vaderSentiment, whose authors also had the
reviews rated, by others and as whole texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

Ratings = Mapping[str, float]


def opinion(folder: Path) -> list[Ratings]:
    """Return two lexicons: words of praise 1 and blame -1; clues, weak ones 1 and strong ones 2."""
    files = {sign: _file(folder, f"{word}-words-clean.txt") for sign, word in _SIGNS.items()}
    lists: dict[str, float] = {}
    for sign, file in files.items():
        lists |= {word.strip(): sign for word in file.read_text("latin-1").splitlines() if word}
    clues: dict[str, list[float]] = {}
    for line in _file(folder, "subjclueslen1-HLTEMNLP05.tff").read_text("latin-1").splitlines():
        about = dict(part.split("=") for part in line.split() if "=" in part)
        sign = {word: sign for sign, word in _SIGNS.items()}.get(about["priorpolarity"], 0.0)
        strength = 2.0 if about["type"] == "strongsubj" else 1.0
        clues.setdefault(about["word1"], []).append(sign * strength)
    means = {word: sum(each) / len(each) for word, each in clues.items()}
    return [lists, {word: mean for word, mean in means.items() if mean}]


_SIGNS = {1.0: "positive", -1.0: "negative"}


def rated_lines(name: str) -> Callable[[Path], list[Path]]:
    """Return what finds a file of words and ratings, line by line, as it is."""
    return lambda folder: [_file(folder, name)]


def _file(folder: Path, name: str) -> Path:
    found = next(folder.rglob(name), None)
    if found is None:
        raise SystemExit(
            f"Expected {name}; unpack PyPI's labMTsimple (opinion), afinn or vaderSentiment "
            "(vader), and name the folder as --words."
        )
    return found


LEXICA: dict[str, Callable[[Path], list[Ratings] | list[Path]]] = {
    "opinion": opinion,
    "afinn": rated_lines("AFINN-en-165.txt"),
    "vader": rated_lines("vader_lexicon.txt"),
    "none": lambda _: [],
}
