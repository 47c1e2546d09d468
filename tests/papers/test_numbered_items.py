"""A reader with a paper in hand finds each of its numbers on the page: nothing falls out again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "replication"
NUMBERED = {
    "pate": {
        "figure": range(1, 6),
        "table": (1, 2),
        "algorithm": range(1, 6),
        "theorem": (4, 5, 6, 20, 23, 24),
        "proposition": (7, 8, 10, 13, 14, 16, 19, 21),
        "lemma": (9, 17, 18),
        "corollary": (11,),
        "definition": (1, 2, 3, 12, 15, 22),
        "equation": range(1, 15),
        "condition C": range(1, 9),
    },
    "knn": {
        "figure": range(1, 5),
        "table": (1, 2),
        "algorithm": (1,),
        "theorem": (1, 2, 5),
        "lemma": (3,),
        "definition": (4,),
    },
    "masks 2020": {
        "figure": (1, 2),
        "algorithm": (1, 2),
        "proposition": range(1, 6),
        "definition": (1, 2),
        "equation": range(1, 16),
    },
    "masks 2022": {
        "figure": (1, 2, 3),
        "algorithm": (1,),
        "theorem": range(1, 5),
        "equation": range(2, 16),  # the first is Theorem 1's inequality
    },
    "mac": {
        "figure": range(1, 5),
        "table": (1, 2),
        "algorithm": (1, 2),
        "equation": range(1, 36),  # five in the text, and thirty-five in the appendices
    },
}
"""What the papers number. Private-kNN's are its supplement's, whose equations have no numbers."""
LETTERED = {"knn": ("Section", "ABCDE"), "mac": ("Appendi(?:x|ces)", "ABCDEFGH")}


def text_of(paper: str) -> str:
    name, _, year = paper.partition(" ")
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    if not year:
        return page
    parts = re.split(r"^## ", page, flags=re.MULTILINE)
    return "\n".join(part for part in parts if part.startswith(year))


def numbers_of(kind: str, page: str) -> set[int]:
    """Return the numbers that a page gives to a kind: "Lemmas 17 and 18", "equations 2 to 7"."""
    name, _, letter = kind.partition(" ")
    plural = {"corollary": "corollar(?:y|ies)"}.get(name, f"{name}s?")
    one = rf"{letter}\d+[ab]?"
    told: set[int] = set()
    for found in re.findall(rf"(?i){plural} ({one}(?:(?:, | and | to ){one})*)", page):
        for first, last in re.findall(rf"{letter}(\d+)[ab]?(?: to {letter}(\d+))?", found):
            told |= set(range(int(first), int(last or first) + 1))
    return told


def test_ranges_and_lists_are_read():
    assert numbers_of("equation", "Equations 2 to 4 and 9, equation 7") == {2, 3, 4, 7, 9}
    assert numbers_of("condition C", "conditions C1 to C3") == {1, 2, 3}
    assert numbers_of("table", "Table 1a and Table 2") == {1, 2}


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_number_of_a_paper_is_on_its_page(paper):
    page = text_of(paper)
    for kind, numbers in NUMBERED[paper].items():
        absent = set(numbers) - numbers_of(kind, page)
        assert not absent, f"{paper}: no {kind} {sorted(absent)}"


@pytest.mark.parametrize("paper", LETTERED)
def test_every_lettered_part_is_on_its_page(paper):
    name, letters = LETTERED[paper]
    page = text_of(paper)
    told = "".join(re.findall(rf"{name} ([A-H])\b", page))
    for first, last in re.findall(rf"{name} ([A-H]) to ([A-H])", page):
        told += "".join(map(chr, range(ord(first), ord(last) + 1)))
    assert not set(letters) - set(told)
